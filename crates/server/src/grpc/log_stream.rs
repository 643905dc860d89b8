//! Following the output of a job: what is kept, then what comes, run after run, until the job has ended.

use std::collections::BTreeMap;
use std::time::Duration;

use leeway_model::{JobId, RunId};
use leeway_proto::pb;
use leeway_proto::query::{LogQuery, LogStart};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{Shared, blocking, disk, not_found};

/// Pieces that wait for the network.
const AHEAD: usize = 8;
/// How often a follower asks whether the job has ended or got a new run.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Output may come in this long after the job has ended.
const LINGER: Duration = Duration::from_millis(700);

type Item = Result<pb::StreamLogsResponse, Status>;

/// What is known of a job's runs.
struct Runs {
    ended: bool,
    /// Runs with their number of nodes, oldest first.
    runs: Vec<(RunId, u32)>,
}

pub(super) async fn stream(shared: Shared, query: LogQuery) -> Result<ReceiverStream<Item>, Status> {
    let job = query.job;
    let runs = look(&shared, job).await?.ok_or_else(|| not_found("job", job))?;
    if let Some(run) = query.run
        && !runs.runs.iter().any(|(known, _)| *known == run)
    {
        return Err(not_found("run", run));
    }
    let (sender, receiver) = mpsc::channel(AHEAD);
    let follower = Follower { shared, query, sender, offsets: BTreeMap::new() };
    tokio::spawn(follower.run());
    Ok(ReceiverStream::new(receiver))
}

async fn look(shared: &Shared, job: JobId) -> Result<Option<Runs>, Status> {
    let read = move |view: &mut crate::driver_loop::View<'_>| {
        let found = view.scheduler.job(job)?;
        let runs = view.scheduler.runs_of(job).map(|run| (run.id, run.nodes)).collect();
        Some(Runs { ended: found.state.is_terminal(), runs })
    };
    Ok(shared.handle.read(read).await?)
}

struct Follower {
    shared: Shared,
    query: LogQuery,
    sender: mpsc::Sender<Item>,
    /// How far each output was sent.
    offsets: BTreeMap<(RunId, u32), u64>,
}

/// Nobody listens any more, or an error was told.
struct Over;

impl Follower {
    async fn run(mut self) {
        let mut first = true;
        let mut ended = false;
        loop {
            let mut grown = self.shared.logs.grown();
            let runs = match look(&self.shared, self.query.job).await {
                Ok(Some(runs)) => runs,
                Ok(None) => return,
                Err(status) => {
                    let _ = self.sender.send(Err(status)).await;
                    return;
                }
            };
            if self.send_new(&runs, first).await.is_err() || !self.query.follow || ended {
                return;
            }
            first = false;
            ended = runs.ended;
            let wait = if ended { LINGER } else { LOOK_EVERY };
            tokio::select! {
                // After the end only time is waited for: what is late is taken in one last look.
                changed = grown.changed(), if !ended => if changed.is_err() { return },
                () = tokio::time::sleep(wait) => {}
                () = self.sender.closed() => return,
                () = self.shared.stopping.cancelled() => return,
            }
        }
    }

    /// The outputs that were asked for, in order.
    fn wanted(&self, runs: &Runs) -> Vec<(RunId, u32)> {
        let from = match self.query.run {
            Some(run) => run,
            None => match self.offsets.keys().next() {
                Some((run, _)) => *run,
                None => match runs.runs.last() {
                    Some((run, _)) => *run,
                    None => return Vec::new(),
                },
            },
        };
        let only = self.query.run.is_some();
        let asked = runs.runs.iter().filter(|(run, _)| if only { *run == from } else { *run >= from });
        let ranks = asked.flat_map(|(run, nodes)| (0..*nodes).map(|rank| (*run, rank)));
        ranks.filter(|(_, rank)| self.query.rank.is_none_or(|wanted| wanted == *rank)).collect()
    }

    async fn send_new(&mut self, runs: &Runs, first: bool) -> Result<(), Over> {
        for (run, rank) in self.wanted(runs) {
            let mut offset = match self.offsets.get(&(run, rank)) {
                Some(offset) => *offset,
                None if first => self.begin(run, rank).await?,
                // A run that came while we followed is shown from its first byte.
                None => 0,
            };
            loop {
                let logs = self.shared.logs.clone();
                let data = self.tried(blocking(move || logs.read(run, rank, offset)).await).await?;
                if data.is_empty() {
                    break;
                }
                let len = data.len() as u64;
                let message = pb::StreamLogsResponse { run_id: run.to_string(), rank, offset, data: data.into() };
                self.sender.send(Ok(message)).await.map_err(|_| Over)?;
                offset += len;
            }
            self.offsets.insert((run, rank), offset);
        }
        Ok(())
    }

    async fn begin(&self, run: RunId, rank: u32) -> Result<u64, Over> {
        match self.query.start {
            LogStart::Offset(offset) => Ok(offset),
            LogStart::Tail(lines) => {
                let logs = self.shared.logs.clone();
                self.tried(blocking(move || logs.tail(run, rank, lines)).await).await
            }
        }
    }

    /// Tells the client of an error of ours and ends.
    async fn tried<T>(&self, outcome: Result<std::io::Result<T>, Status>) -> Result<T, Over> {
        let status = match outcome {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => disk(&error),
            Err(status) => status,
        };
        let _ = self.sender.send(Err(status)).await;
        Err(Over)
    }
}
