//! From a directory that the program completed to a committed checkpoint.
//!
//! ```text
//! seen READY -> published -> committed -> older local copies removed
//! ```
//! Of one rank alone the newest counts, and older ones that wait are passed over. In a gang every rank numbers the
//! checkpoints of its program in the order in which they came, none left out, so that equal numbers mean the same one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leeway_data::ready::{Complete, TEMPORARY, Watch};
use leeway_data::{PublishError, Published, Repository};
use leeway_model::checkpoint::CheckpointId;
use leeway_proto::pb;
use tokio::sync::oneshot;

use crate::agent::Agent;
use crate::lease::Over;
use crate::link::{Backoff, CALL, CallError, Client};
use crate::progress::Said;

/// How often the program's directory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(150);
/// Numbers in a row that may turn out to be taken.
const TAKEN_MAX: u32 = 100;

/// A checkpoint that the program completed.
#[derive(Debug)]
struct Found {
    name: String,
    dir: PathBuf,
    step: u64,
    save_time: Duration,
    after_notice: bool,
}

/// Publishes until the program has ended (`finish`) and all it saved is committed, or the lease is over.
pub async fn run(agent: &Agent, dir: PathBuf, mut finish: oneshot::Receiver<()>) -> Result<(), Over> {
    let Some(url) = &agent.assignment.checkpoint_base_url else { return Ok(()) };
    let mut sender = Sender { agent, store: None, url, next_seq: agent.assignment.next_seq.max(1), committed: None };
    let mut seen = Scanner { agent, watch: Watch::new(dir.clone()), dir, begun: BTreeMap::new(), queue: Vec::new() };
    let mut finishing = false;
    loop {
        seen.look();
        if let Some((next, passed_over)) = seen.take() {
            let outcome = {
                let sending = sender.send(&next);
                tokio::pin!(sending);
                loop {
                    tokio::select! {
                        biased;
                        over = agent.lease.over() => return Err(over),
                        outcome = &mut sending => break outcome?,
                        () = tokio::time::sleep(LOOK_EVERY) => seen.look(),
                    }
                }
            };
            match outcome {
                Outcome::Committed => sender.keep_only(&next, &passed_over),
                Outcome::Skipped => {}
                // Something newer is as good, unless the others of the gang wait for this one.
                Outcome::Later if agent.world_size() == 1 && !seen.queue.is_empty() => {}
                Outcome::Later => seen.queue.insert(0, next),
            }
        } else if finishing {
            return Ok(());
        } else {
            tokio::select! {
                biased;
                over = agent.lease.over() => return Err(over),
                _ = &mut finish => finishing = true,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }
}

/// Sees what the program completes.
struct Scanner<'a> {
    agent: &'a Agent,
    watch: Watch,
    dir: PathBuf,
    /// When each unfinished directory was first seen.
    begun: BTreeMap<String, Instant>,
    queue: Vec<Found>,
}

impl Scanner<'_> {
    fn look(&mut self) {
        let found = match self.watch.poll() {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, dir = %self.dir.display(), "cannot look for checkpoints");
                return;
            }
        };
        for complete in found {
            let found = self.found(complete);
            tracing::info!(name = found.name, step = found.step, "the program completed a checkpoint");
            self.agent.note_progress(Said { step: found.step, total: None });
            self.queue.push(found);
        }
        self.note_begun();
    }

    fn found(&mut self, complete: Complete) -> Found {
        let begun = self.begun.remove(&format!("{}{TEMPORARY}", complete.name));
        // One that was never seen unfinished took less than the time between two looks.
        let save_time = begun.map_or(LOOK_EVERY, |begun| begun.elapsed());
        let step = complete.step.or_else(|| self.agent.progress().map(|said| said.step)).unwrap_or(0);
        let after_notice = self.agent.board.now().is_ending();
        Found { name: complete.name, dir: complete.dir, step, save_time, after_notice }
    }

    fn note_begun(&mut self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let unfinished: Vec<String> = names.filter(|name| name.ends_with(TEMPORARY)).collect();
        self.begun.retain(|name, _| unfinished.contains(name));
        for name in unfinished {
            self.begun.entry(name).or_insert_with(Instant::now);
        }
    }

    /// The one to publish now, and those that it makes superfluous.
    fn take(&mut self) -> Option<(Found, Vec<Found>)> {
        if self.queue.is_empty() {
            return None;
        }
        if self.agent.world_size() > 1 {
            return Some((self.queue.remove(0), Vec::new()));
        }
        let newest = self.queue.pop()?;
        Some((newest, std::mem::take(&mut self.queue)))
    }
}

enum Outcome {
    Committed,
    /// It cannot be published as it is.
    Skipped,
    /// The store does not answer.
    Later,
}

/// Publishes and commits one at a time.
struct Sender<'a> {
    agent: &'a Agent,
    store: Option<Repository>,
    url: &'a str,
    next_seq: u64,
    /// The newest that is committed and still lies on this machine.
    committed: Option<PathBuf>,
}

impl Sender<'_> {
    async fn send(&mut self, found: &Found) -> Result<Outcome, Over> {
        let mut backoff = Backoff::default();
        for _ in 0..TAKEN_MAX {
            let id = CheckpointId { epoch: self.agent.run.epoch, seq: self.next_seq };
            let published = match self.publish(found, id).await {
                Ok(published) => published,
                Err(Trouble::Taken) if self.agent.world_size() == 1 => {
                    self.next_seq += 1;
                    continue;
                }
                Err(Trouble::Later(error)) => {
                    tracing::warn!(%error, name = found.name, "a checkpoint is not published yet");
                    self.agent.link.sleep(backoff.next().max(Duration::from_millis(500))).await?;
                    return Ok(Outcome::Later);
                }
                Err(Trouble::Taken) => return Ok(self.skip(found, "its number is taken")),
                Err(Trouble::Never(error)) => return Ok(self.skip(found, &error)),
            };
            match self.commit(found, id, &published).await {
                Ok(()) => {
                    self.next_seq += 1;
                    tracing::info!(seq = id.seq, step = found.step, "checkpoint committed");
                    return Ok(Outcome::Committed);
                }
                Err(Refusal::Over(over)) => return Err(over),
                Err(Refusal::Conflict(_)) if self.agent.world_size() == 1 => self.next_seq += 1,
                Err(Refusal::Conflict(why) | Refusal::Other(why)) => return Ok(self.skip(found, &why)),
            }
        }
        Ok(self.skip(found, "no number is free"))
    }

    /// In a gang a number is used up by what could not be published, lest the ranks count differently.
    fn skip(&mut self, found: &Found, why: &str) -> Outcome {
        if self.agent.world_size() > 1 {
            self.next_seq += 1;
        }
        tracing::warn!(name = found.name, why, "a checkpoint is skipped");
        self.agent.log.say(&format!("checkpoint '{}' was not published: {why}", found.name));
        Outcome::Skipped
    }

    async fn publish(&mut self, found: &Found, id: CheckpointId) -> Result<Published, Trouble> {
        let store = match &self.store {
            Some(store) => store.clone(),
            None => {
                let store = self.agent.stores.open(self.url).map_err(|error| Trouble::Later(format!("{error:#}")))?;
                self.store.insert(store).clone()
            }
        };
        let at = self.agent.job().shard(id, self.agent.rank());
        let published = store.publish(&at, found.step, self.agent.world_size(), &found.dir, |_| ()).await;
        if published.as_ref().is_err_and(PublishError::found_no_room) {
            self.agent.store_full.store(true, Ordering::Relaxed);
        }
        published.map_err(|error| match error {
            PublishError::Conflict { .. } => Trouble::Taken,
            error if error.retryable() => Trouble::Later(error.to_string()),
            error => Trouble::Never(format!("{:#}", anyhow::Error::from(error))),
        })
    }

    async fn commit(&self, found: &Found, id: CheckpointId, published: &Published) -> Result<(), Refusal> {
        let agent = self.agent;
        let request = pb::CommitCheckpointRequest {
            caller: agent.link.caller(),
            seq: id.seq,
            step: found.step,
            manifest_sha256: bytes::Bytes::copy_from_slice(&published.manifest),
            size_bytes: published.size.get(),
            save_time_ms: Some(u64::try_from(found.save_time.as_millis()).unwrap_or(u64::MAX)),
            after_notice: found.after_notice,
        };
        let call = |mut client: Client| {
            let request = request.clone();
            async move { client.commit_checkpoint(request).await }
        };
        let mut noted = false;
        let mut answer = agent.link.once(CALL, &call).await;
        if let Err(CallError::Unavailable(_)) = answer {
            noted = self.leave_note(found, id, published).await;
            answer = agent.link.insist(call, |_| ()).await;
        }
        let outcome = match answer {
            Ok(answer) if answer.accepted => Ok(()),
            Ok(answer) => {
                let reason = answer.refusal.unwrap_or_default();
                Err(Refusal::of(&reason.code, format!("{}: {}", reason.code, reason.message)))
            }
            Err(CallError::Over(over)) => return Err(Refusal::Over(over)),
            Err(CallError::Refused(status) | CallError::Unavailable(status)) => {
                let code = leeway_proto::status::reason_of(&status).unwrap_or_default();
                Err(Refusal::of(&code, status.message().to_owned()))
            }
        };
        if noted && agent.world_size() == 1 {
            self.remove_note(id).await;
        }
        outcome
    }

    /// Tells the scheduler by way of the store what it cannot be told directly.
    async fn leave_note(&self, found: &Found, id: CheckpointId, published: &Published) -> bool {
        let Some(store) = &self.store else { return false };
        if self.agent.lease.check().is_err() {
            return false;
        }
        let at = self.agent.job().shard(id, self.agent.rank());
        let left = store.write_pending(&at, self.agent.world_size(), found.step, published).await;
        left.inspect_err(|error| tracing::warn!(%error, "cannot leave a note of a checkpoint")).is_ok()
    }

    async fn remove_note(&self, id: CheckpointId) {
        if let Some(store) = &self.store
            && let Err(error) = store.remove_pending(&self.agent.job(), id).await
        {
            tracing::debug!(%error, "a note of a committed checkpoint is left behind");
        }
    }

    /// Frees the disk of what a newer commit made superfluous; the newest copy stays.
    fn keep_only(&mut self, newest: &Found, passed_over: &[Found]) {
        let before = self.committed.replace(newest.dir.clone()).filter(|before| *before != newest.dir);
        for dir in before.iter().chain(passed_over.iter().map(|found| &found.dir)) {
            if let Err(error) = std::fs::remove_dir_all(dir) {
                tracing::debug!(%error, dir = %dir.display(), "cannot remove an older copy");
            }
        }
    }
}

enum Trouble {
    Taken,
    Later(String),
    Never(String),
}

enum Refusal {
    Over(Over),
    Conflict(String),
    Other(String),
}

impl Refusal {
    fn of(code: &str, text: String) -> Self {
        if code == "CHECKPOINT_CONFLICT" { Self::Conflict(text) } else { Self::Other(text) }
    }
}
