//! Watching jobs: first what is newer than the version to resume at, then each change. A consumer that falls behind is
//! told so, with the version at which it may go on, instead of being fed from a buffer without end.

use std::sync::Arc;

use leeway_model::JobId;
use leeway_model::job::Job;
use leeway_proto::pb;
use leeway_proto::query::JobFilter;
use leeway_proto::status::{reason, with_reason};
use tokio::sync::{broadcast, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::Shared;

/// Messages that wait for the network.
const AHEAD: usize = 64;
/// Jobs that one look at the scheduler fetches.
const FETCH: usize = 256;

type Item = Result<pb::WatchJobsResponse, Status>;

pub(super) async fn watch(
    shared: Shared,
    resume: Option<u64>,
    filter: JobFilter,
) -> Result<ReceiverStream<Item>, Status> {
    let filter = Arc::new(filter);
    let accepts = filter.clone();
    let look = move |view: &mut crate::driver_loop::View<'_>| {
        let newest = view.scheduler.tables().meta.job_changes;
        let after = resume.unwrap_or(0);
        let newer = view.scheduler.tables().jobs.values().filter(|job| job.version > after || resume.is_none());
        let mut old: Vec<(u64, JobId)> =
            newer.filter(|job| accepts.accepts(job)).map(|job| (job.version, job.id)).collect();
        old.sort_unstable();
        (newest, old, view.subscribe())
    };
    let (newest, old, changes) = shared.handle.read(look).await?;
    if resume.is_some_and(|version| version > newest) {
        return Err(with_reason(
            Code::OutOfRange,
            reason::SLOW_CONSUMER,
            format!("this installation has no version after {newest}; list again"),
            [("resume_version", newest.to_string())],
        ));
    }
    let (sender, receiver) = mpsc::channel(AHEAD);
    let watcher = Watcher { shared, filter, sender, last: resume.unwrap_or(0) };
    tokio::spawn(watcher.run(old, changes));
    Ok(ReceiverStream::new(receiver))
}

struct Watcher {
    shared: Shared,
    filter: Arc<JobFilter>,
    sender: mpsc::Sender<Item>,
    /// Everything up to this version was sent.
    last: u64,
}

/// The stream has ended, for whatever reason.
struct Over;

impl Watcher {
    async fn run(mut self, old: Vec<(u64, JobId)>, mut changes: broadcast::Receiver<Arc<[Job]>>) {
        if self.begin(old).await.is_err() {
            return;
        }
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = self.sender.closed() => return,
                () = self.shared.stopping.cancelled() => return,
            };
            let outcome = match change {
                Ok(jobs) => self.tell(&jobs).await,
                Err(broadcast::error::RecvError::Closed) => return,
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    let status = with_reason(
                        Code::OutOfRange,
                        reason::SLOW_CONSUMER,
                        format!("this watch fell behind; watch again from version {}", self.last),
                        [("resume_version", self.last.to_string())],
                    );
                    let _ = self.sender.send(Err(status)).await;
                    return;
                }
            };
            if outcome.is_err() {
                return;
            }
        }
    }

    /// What was there when the watch began. A job that has changed since is shown as it is now, under the version at
    /// which it was found, so that a watch that ends here misses nothing when it resumes.
    async fn begin(&mut self, old: Vec<(u64, JobId)>) -> Result<(), Over> {
        for chunk in old.chunks(FETCH) {
            let ids: Vec<JobId> = chunk.iter().map(|(_, id)| *id).collect();
            let look = move |view: &mut crate::driver_loop::View<'_>| -> Vec<Option<Job>> {
                ids.into_iter().map(|id| view.job(id)).collect()
            };
            let jobs = match self.shared.handle.read(look).await {
                Ok(jobs) => jobs,
                Err(failure) => {
                    let _ = self.sender.send(Err(failure.into())).await;
                    return Err(Over);
                }
            };
            for ((version, _), job) in chunk.iter().zip(jobs) {
                if let Some(job) = job {
                    self.send(&job, *version).await?;
                }
            }
        }
        Ok(())
    }

    async fn tell(&mut self, jobs: &[Job]) -> Result<(), Over> {
        for job in jobs {
            if job.version > self.last && self.filter.accepts(job) {
                self.send(job, job.version).await?;
            }
        }
        Ok(())
    }

    async fn send(&mut self, job: &Job, version: u64) -> Result<(), Over> {
        let job = Some(pb::Job::from_model(job, self.shared.ledger()));
        let sending = self.sender.send(Ok(pb::WatchJobsResponse { job, version }));
        tokio::select! {
            sent = sending => sent.map_err(|_| Over)?,
            () = self.shared.stopping.cancelled() => return Err(Over),
        }
        self.last = self.last.max(version);
        Ok(())
    }
}
