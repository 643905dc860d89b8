//! `leeway jobs logs`: output as it was written, across restarts of the server and from run to run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leeway_proto::pb;
use serde_json::{Value, json};
use tonic::Code;

use super::{LogsArgs, status};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::render::jobs::state_word;
use crate::terminal::Terminal;

/// How long a server may be away while output is followed.
const SERVER_AWAY: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(500);
/// A line is passed on in pieces when it is longer.
const MAX_LINE_BYTES: usize = 64 << 10;

pub(super) async fn run(args: LogsArgs, client: Client, terminal: &Terminal) -> Result<Exit, Failure> {
    // Asked first, so that a job that is not there is told from one without output.
    let job = status::get(&args.job, &client).await?;
    let nodes = job.spec.as_ref().map_or(1, |spec| spec.nodes);
    if let Some(rank) = args.rank.filter(|rank| *rank >= nodes) {
        let ranks = if nodes <= 1 { "one rank, 0".to_owned() } else { format!("the ranks 0 to {}", nodes - 1) };
        let message = format!("{} has {ranks}; there is no rank {rank}", job.job_id);
        return Err(Failure::new(Exit::Usage, "NO_SUCH_RANK", message));
    }
    let follow = args.follow;
    let mut sink = Sink::new(*terminal, follow, nodes > 1 && args.rank.is_none());
    stream(args, &client, &mut sink).await?;
    let job = status::get(&job.job_id, &client).await?;
    sink.finish(&job)?;
    Ok(Exit::of_job(job.state()))
}

/// Passes all output on; with `follow` until the job has ended, over breaks of the connection.
async fn stream(args: LogsArgs, client: &Client, sink: &mut Sink) -> Result<(), Failure> {
    let tail = args.tail.map(pb::stream_logs_request::Start::TailLines);
    let mut request =
        pb::StreamLogsRequest { job_id: args.job, run_id: args.run, rank: args.rank, follow: args.follow, start: tail };
    let mut away: Option<Instant> = None;
    loop {
        let status = match client.jobs().stream_logs(request.clone()).await {
            Err(status) => status,
            Ok(answer) => {
                let mut pieces = answer.into_inner();
                loop {
                    match pieces.message().await {
                        Ok(Some(piece)) => {
                            away = None;
                            // What was shown is skipped by its place, so a new stream begins at the first byte.
                            request.start = None;
                            sink.take(&piece)?;
                        }
                        Ok(None) => return Ok(()),
                        Err(status) => break status,
                    }
                }
            }
        };
        let is_break = matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled | Code::OutOfRange);
        let since = *away.get_or_insert_with(Instant::now);
        if !args.follow || !is_break || since.elapsed() > SERVER_AWAY {
            return Err(client.failure(status).about_job());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Where output goes: to people as bytes, to programs as JSON.
struct Sink {
    terminal: Terminal,
    follow: bool,
    /// Several machines write: each line says which.
    with_ranks: bool,
    /// The end of what was shown, by run and rank.
    shown: BTreeMap<(String, u32), u64>,
    /// Unfinished lines of ranks, while lines are told apart.
    unfinished: BTreeMap<u32, Vec<u8>>,
    /// Beginnings of letters at the end of what came, with their places, while pieces are JSON texts.
    letters: BTreeMap<(String, u32), (u64, Vec<u8>)>,
    run: Option<String>,
    pieces: Vec<Value>,
}

impl Sink {
    const fn new(terminal: Terminal, follow: bool, with_ranks: bool) -> Self {
        Self {
            terminal,
            follow,
            with_ranks,
            shown: BTreeMap::new(),
            unfinished: BTreeMap::new(),
            letters: BTreeMap::new(),
            run: None,
            pieces: Vec::new(),
        }
    }

    fn take(&mut self, piece: &pb::StreamLogsResponse) -> Result<(), Failure> {
        let shown = self.shown.entry((piece.run_id.clone(), piece.rank)).or_insert(piece.offset);
        let skip = usize::try_from(shown.saturating_sub(piece.offset)).unwrap_or(usize::MAX);
        let Some(new) = piece.data.get(skip..).filter(|new| !new.is_empty()) else { return Ok(()) };
        let offset = piece.offset + skip as u64;
        *shown = offset + new.len() as u64;
        if self.terminal.json {
            return self.take_json(piece, offset, new);
        }
        if self.run.as_ref() != Some(&piece.run_id) {
            self.end_lines()?;
            if self.run.is_some() {
                self.terminal.remark(&format!("-- {} --", crate::render::plain(&piece.run_id)));
            }
            self.run = Some(piece.run_id.clone());
        }
        if self.with_ranks { self.take_lines(piece.rank, new) } else { self.terminal.raw(new) }
    }

    /// A letter of several bytes that is cut by the end of a piece is kept for the next one.
    fn take_json(&mut self, piece: &pb::StreamLogsResponse, offset: u64, new: &[u8]) -> Result<(), Failure> {
        self.end_letters(Some(&piece.run_id))?;
        let key = (piece.run_id.clone(), piece.rank);
        let (offset, mut bytes) = self.letters.remove(&key).unwrap_or((offset, Vec::new()));
        bytes.extend_from_slice(new);
        let rest = bytes.split_off(leeway_server::logs::whole_letters(&bytes));
        if !rest.is_empty() {
            self.letters.insert(key, (offset + bytes.len() as u64, rest));
        }
        if bytes.is_empty() { Ok(()) } else { self.put_json(&piece.run_id, piece.rank, offset, &bytes) }
    }

    /// Shows what was kept of letters that will not be finished: of all runs, or of all but one.
    fn end_letters(&mut self, but: Option<&str>) -> Result<(), Failure> {
        while let Some(key) = self.letters.keys().find(|(run, _)| Some(run.as_str()) != but).cloned() {
            let (offset, rest) = self.letters.remove(&key).unwrap_or_default();
            self.put_json(&key.0, key.1, offset, &rest)?;
        }
        Ok(())
    }

    fn put_json(&mut self, run_id: &str, rank: u32, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let value = json!({
            "kind": "output",
            "run_id": run_id,
            "rank": rank,
            "offset": offset,
            "text": String::from_utf8_lossy(bytes),
        });
        if self.follow {
            return self.terminal.value(&value);
        }
        self.pieces.push(value);
        Ok(())
    }

    fn take_lines(&mut self, rank: u32, new: &[u8]) -> Result<(), Failure> {
        let kept = self.unfinished.entry(rank).or_default();
        kept.extend_from_slice(new);
        let whole = match kept.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if kept.len() > MAX_LINE_BYTES => leeway_server::logs::whole_letters(kept),
            None => return Ok(()),
        };
        let lines: Vec<u8> = kept.drain(..whole).collect();
        self.terminal.raw(&prefixed(rank, &lines))
    }

    fn end_lines(&mut self) -> Result<(), Failure> {
        for (rank, rest) in std::mem::take(&mut self.unfinished) {
            if !rest.is_empty() {
                self.terminal.raw(&prefixed(rank, &rest))?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, job: &pb::Job) -> Result<(), Failure> {
        self.end_lines()?;
        self.end_letters(None)?;
        if !self.terminal.json {
            if self.follow {
                self.terminal.remark(&crate::render::jobs::ended(job));
            }
            return Ok(());
        }
        let state = state_word(job.state());
        let exit_code = Exit::of_job(job.state()).code();
        if self.follow {
            let mut last = json!({ "kind": "ended", "job_id": job.job_id, "state": state, "exit_code": exit_code });
            last["reason"] = job.reason.as_ref().map_or(Value::Null, |reason| crate::json::of("Reason", reason));
            last["posted"] = job.posted.as_ref().map_or(Value::Null, |bill| crate::json::of("Bill", bill));
            last["currency"] = job.currency.clone().into();
            return self.terminal.value(&last);
        }
        let pieces = std::mem::take(&mut self.pieces);
        self.terminal.value(&json!({ "job_id": job.job_id, "state": state, "exit_code": exit_code, "pieces": pieces }))
    }
}

/// Lines with the rank before each; a last line without an end gets one.
fn prefixed(rank: u32, lines: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(lines.len() + 64);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        text.extend_from_slice(format!("[{rank}] ").as_bytes());
        text.extend_from_slice(line);
    }
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_says_which_machine_wrote_it() {
        assert_eq!(prefixed(1, b"a\nb\n"), b"[1] a\n[1] b\n");
        assert_eq!(prefixed(0, b"half"), b"[0] half\n");
    }

    #[test]
    fn a_letter_that_a_piece_ends_in_is_shown_whole_with_the_next() {
        let mut sink = Sink::new(Terminal::silent(), false, false);
        sink.terminal.json = true;
        let text = "añ→🦀".as_bytes();
        for (at, byte) in text.iter().enumerate() {
            let (run_id, data) = ("j-1-r1".to_owned(), vec![*byte].into());
            sink.take(&pb::StreamLogsResponse { run_id, rank: 0, offset: at as u64, data }).unwrap();
        }
        let shown: Vec<(u64, &str)> = sink
            .pieces
            .iter()
            .map(|piece| (piece["offset"].as_u64().unwrap(), piece["text"].as_str().unwrap()))
            .collect();
        assert_eq!(shown, [(0, "a"), (1, "ñ"), (3, "→"), (6, "🦀")]);
        // What is no text, and what ends in the middle of a letter, is not kept back for ever.
        let odd = |run_id: &str, data: &'static [u8]| pb::StreamLogsResponse {
            run_id: run_id.into(),
            rank: 0,
            offset: 10,
            data: data.into(),
        };
        sink.take(&odd("j-1-r2", b"\xff\xe2\x86")).unwrap();
        assert_eq!(sink.pieces.len(), 5);
        sink.take(&odd("j-1-r3", b"x")).unwrap();
        let texts: Vec<&str> = sink.pieces[4..].iter().map(|piece| piece["text"].as_str().unwrap()).collect();
        assert_eq!(texts, ["\u{fffd}", "\u{fffd}", "x"]);
        assert_eq!(sink.pieces[5]["offset"], 11);
    }

    #[test]
    fn what_was_shown_before_a_break_is_not_shown_again() {
        let mut sink = Sink::new(Terminal::silent(), false, false);
        let mut take = |offset, data: &'static str| {
            let piece = pb::StreamLogsResponse { run_id: "j-1-r1".into(), rank: 0, offset, data: data.into() };
            sink.take(&piece).unwrap();
        };
        take(10, "abc");
        take(0, "0123456789abcdef");
        take(4, "456");
        take(16, "gh");
        let texts: Vec<&str> = sink.pieces.iter().map(|piece| piece["text"].as_str().unwrap()).collect();
        assert_eq!(texts, ["abc", "def", "gh"]);
        assert_eq!(sink.pieces[1]["offset"], 13);
    }
}
