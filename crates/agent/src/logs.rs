//! The program's output: captured to a file, bounded, and sent to the server from wherever its durable copy ends.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leeway_proto::pb;
use tokio::sync::{Notify, watch};

use crate::agent::Agent;
use crate::lease::Over;
use crate::link::{Backoff, CALL, CallError, Client};

/// A longer line is broken, so that no reader needs more memory for one.
const LINE_MAX: usize = 64 << 10;
/// Output beyond this is dropped.
const TOTAL_MAX: u64 = 1 << 30;
const DROPPED: &[u8] = b"\n[leeway: this output has reached 1 GiB; the rest is dropped]\n";
/// Bytes in one message, and in one call.
const PIECE: usize = 256 << 10;
const CALL_MAX: u64 = 2 << 20;

/// The file that holds all output of a rank.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    writer: Mutex<Writer>,
    length: watch::Sender<u64>,
}

#[derive(Debug)]
struct Writer {
    file: File,
    length: u64,
    column: usize,
    limit: u64,
}

impl Log {
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::with_limit(path, TOTAL_MAX)
    }

    fn with_limit(path: &Path, limit: u64) -> io::Result<Self> {
        let file = File::options().append(true).create(true).mode(0o600).open(path)?;
        let length = file.metadata()?.len();
        let writer = Mutex::new(Writer { file, length, column: 0, limit });
        Ok(Self { path: path.to_path_buf(), writer, length: watch::Sender::new(length) })
    }

    pub fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let result = writer.append(bytes);
        self.length.send_replace(writer.length);
        result
    }

    /// A line of the agent's own, where the program's readers look.
    pub fn say(&self, text: &str) {
        if let Err(error) = self.append(format!("[leeway: {text}]\n").as_bytes()) {
            tracing::warn!(%error, "cannot write the log");
        }
    }

    pub fn length(&self) -> u64 {
        *self.length.borrow()
    }

    fn read(&self, from: u64, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(most.min(self.length().saturating_sub(from))).unwrap_or(0)];
        File::open(&self.path)?.read_exact_at(&mut bytes, from)?;
        Ok(bytes)
    }
}

impl Writer {
    fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() && self.length < self.limit {
            let line = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
            let fits = line.min(LINE_MAX - self.column);
            let (now, later) = bytes.split_at(fits);
            self.put(now)?;
            self.column += fits;
            if now.ends_with(b"\n") {
                self.column = 0;
            } else if self.column == LINE_MAX {
                self.put(b"\n")?;
                self.column = 0;
            }
            if self.length >= self.limit {
                self.put(DROPPED)?;
            }
            bytes = later;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// The end of a pipe that a program writes to, and the thread that writes it down until all writers are gone.
pub fn capture(log: Arc<Log>) -> io::Result<(PipeWriter, std::thread::JoinHandle<()>)> {
    let (reader, writer) = io::pipe()?;
    let thread = std::thread::Builder::new().name("output".into()).spawn(move || drain(reader, &log))?;
    Ok((writer, thread))
}

fn drain(mut reader: PipeReader, log: &Log) {
    let mut buffer = vec![0; PIECE];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => {
                // A full disk must not block the program: what cannot be written is lost, and said so.
                if let Err(error) = log.append(&buffer[..read]) {
                    tracing::warn!(%error, bytes = read, "output is lost");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "output cannot be read any more");
                return;
            }
        }
    }
}

/// Sends the log to the server as it grows.
#[derive(Debug)]
pub struct Pusher {
    /// Place of the file's first byte in the rank's output.
    base: u64,
    durable: watch::Sender<u64>,
    /// Ends a pause between two tries.
    hurry: Notify,
}

impl Pusher {
    pub fn new(base: u64) -> Self {
        Self { base, durable: watch::Sender::new(base), hurry: Notify::new() }
    }

    /// Runs until the lease is over.
    pub async fn run(&self, agent: &Agent) -> Over {
        let mut grown = agent.log.length.subscribe();
        let mut backoff = Backoff::default();
        loop {
            let durable = *self.durable.borrow();
            if durable >= self.base + *grown.borrow_and_update() {
                tokio::select! {
                    biased;
                    over = agent.lease.over() => return over,
                    // The log lives as long as the agent.
                    _ = grown.changed() => {}
                }
                // Small writes gather for a moment.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            match self.push(agent, durable).await {
                Ok(now) => {
                    self.durable.send_replace(now.clamp(self.base, self.base + agent.log.length()));
                    if now > durable {
                        backoff = Backoff::default();
                        continue;
                    }
                }
                Err(CallError::Over(over)) => return over,
                Err(error) => {
                    tracing::debug!(%error, "output was not taken");
                    if let Err(over) = self.pause(agent, backoff.next()).await {
                        return over;
                    }
                    self.resume(agent).await;
                    continue;
                }
            }
            if let Err(over) = self.pause(agent, backoff.next()).await {
                return over;
            }
        }
    }

    async fn pause(&self, agent: &Agent, length: Duration) -> Result<(), Over> {
        tokio::select! {
            slept = agent.link.sleep(length) => slept,
            () = self.hurry.notified() => Ok(()),
        }
    }

    async fn push(&self, agent: &Agent, durable: u64) -> Result<u64, CallError> {
        let bytes = agent.log.read(durable - self.base, CALL_MAX).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the log");
            Vec::new()
        });
        let bytes = bytes::Bytes::from(bytes);
        let mut caller = agent.link.caller();
        let pieces = (0..bytes.len()).step_by(PIECE).map(|from| pb::PushLogsRequest {
            caller: caller.take(),
            offset: durable + from as u64,
            data: bytes.slice(from..bytes.len().min(from + PIECE)),
        });
        let pieces = tokio_stream::iter(pieces.collect::<Vec<_>>());
        let call = |mut client: Client| async move { client.push_logs(pieces).await };
        Ok(agent.link.once(CALL, call).await?.durable_offset)
    }

    /// Asks where the durable copy ends, as after a restart of the server.
    async fn resume(&self, agent: &Agent) {
        let request = pb::GetLogOffsetRequest { caller: agent.link.caller() };
        let call = |mut client: Client| async move { client.get_log_offset(request).await };
        if let Ok(answer) = agent.link.once(CALL, call).await {
            self.durable.send_replace(answer.durable_offset.clamp(self.base, self.base + agent.log.length()));
        }
    }

    /// Waits until everything that was written so far is durable, for a bounded time. Returns whether it is.
    pub async fn flush(&self, agent: &Agent, within: Duration) -> bool {
        let end = self.base + agent.log.length();
        self.hurry.notify_one();
        let mut durable = self.durable.subscribe();
        let flushed = durable.wait_for(|durable| *durable >= end);
        matches!(tokio::time::timeout(within, flushed).await, Ok(Ok(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_is_broken_and_nothing_else_is_changed() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::create(&dir.path().join("log")).unwrap();
        log.append(b"short\n").unwrap();
        for _ in 0..3 {
            log.append(&vec![b'x'; LINE_MAX / 2]).unwrap();
        }
        log.append(b"\nend\n").unwrap();
        let text = log.read(0, u64::MAX).unwrap();
        let lines: Vec<usize> = text.split(|byte| *byte == b'\n').map(<[u8]>::len).collect();
        assert_eq!(lines, [5, LINE_MAX, LINE_MAX / 2, 3, 0]);
    }

    #[test]
    fn output_beyond_the_limit_is_dropped_with_a_mark() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::with_limit(&dir.path().join("log"), 100).unwrap();
        for _ in 0..10 {
            log.append(&[b'y'; 30]).unwrap();
        }
        let text = log.read(0, u64::MAX).unwrap();
        assert!(text.ends_with(DROPPED) && text.len() <= 130 + DROPPED.len(), "{}", text.len());
        assert_eq!(log.length(), text.len() as u64);
    }

    #[test]
    fn both_streams_of_a_program_are_captured_whole() {
        let dir = tempfile::tempdir().unwrap();
        let log = Arc::new(Log::create(&dir.path().join("log")).unwrap());
        let (writer, thread) = capture(log.clone()).unwrap();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "echo out; echo err >&2"]).stdout(writer.try_clone().unwrap()).stderr(writer);
        command.status().unwrap();
        drop(command);
        thread.join().unwrap();
        let text = String::from_utf8(log.read(0, u64::MAX).unwrap()).unwrap();
        assert!(text.contains("out\n") && text.contains("err\n"), "{text}");
    }
}
