//! What losses mean. Many in a row for a job (I-10): capacity that nobody takes back for a while, and in the end a hold
//! until a person has looked. Both are read off the job's own runs, as far back as its interruptions are counted; a
//! retry by hand counts anew.
//!
//! Where a market moves, a loss is a signal of it and the offer cools down for everybody. On machines that have no
//! market one dead agent is a setback of that job there: it is not tried there again for a moment, and others are. Only
//! when several jobs lose their runs there within a short while does the offer cool down.

use leeway_model::job::Job;
use leeway_model::market::OfferKey;
use leeway_model::run::{EndReason, Run};
use leeway_model::{JobId, Millis, Timestamp};

use crate::round::fleet::OfferId;
use crate::scheduler::Scheduler;

/// So many losses within an hour make capacity that cannot be taken back the better choice.
const MANY: usize = 5;
const LATELY: Millis = Millis::from_hours(1);
/// So many losses in a row without a newer checkpoint hold a job.
pub(crate) const FRUITLESS: usize = 10;

/// Losses of so many jobs within this while make an offer doubtful for everybody.
const SEVERAL: usize = 3;
const WHILE: Millis = Millis::from_mins(10);
/// Longest time for which a job avoids the place that lost its run.
const SETBACK_MAX: Millis = Millis::from_mins(5);

impl Scheduler {
    /// Where a job's last run was lost, and until when it is not tried there again: a first wait that doubles with every
    /// further loss in a row.
    pub(crate) fn setback(&self, job: &Job) -> Option<(OfferId, Timestamp)> {
        let run = self.run(job.newest_run()?).filter(|run| run.end == Some(EndReason::Lost))?;
        let offer = self.fleet.find(&run.offer).filter(|offer| !self.fleet.slot(*offer).has_market())?;
        let in_a_row = self.runs_of(job.id).rev().take_while(|run| run.end == Some(EndReason::Lost)).take(16).count();
        let wait = self.config.launch.backoff.saturating_mul(1 << (in_a_row.max(1) - 1)).min(SETBACK_MAX);
        let until = run.stopped?.after(wait);
        (self.now < until).then_some((offer, until))
    }

    /// Takes note of a loss without notice. Says whether it tells of the offer, and not only of the job.
    pub(crate) fn is_market_signal(&mut self, key: &OfferKey, job: JobId) -> bool {
        if self.fleet.find(key).is_some_and(|offer| self.fleet.slot(offer).has_market()) {
            return true;
        }
        let now = self.now;
        self.volatile.losses.retain(|_, losses| {
            losses.retain(|(at, _)| now.since(*at) < WHILE);
            !losses.is_empty()
        });
        let losses = self.volatile.losses.entry(key.clone()).or_default();
        losses.retain(|(_, other)| *other != job);
        losses.push((now, job));
        // More than these tell nothing more, and an outage may cost thousands.
        losses.drain(..losses.len().saturating_sub(SEVERAL));
        losses.len() == SEVERAL
    }

    /// Whether the market took so many of the job's runs lately that a machine it cannot take is worth its price.
    pub(crate) fn is_hounded(&self, job: &Job) -> bool {
        job.retries.interruptions as usize >= MANY
            && self
                .runs_of(job.id)
                .rev()
                .filter(|run| was_taken(run))
                .nth(MANY - 1)
                .and_then(|run| run.stopped)
                .is_some_and(|stopped| self.now.since(stopped) < LATELY)
    }

    /// Whether the last runs of a job that was interrupted so often were all lost, and none of them left anything to go
    /// on from.
    pub(crate) fn is_fruitless(&self, job: JobId, interruptions: u32) -> bool {
        if (interruptions as usize) < FRUITLESS {
            return false;
        }
        // A launch that was refused is no attempt.
        let began = self.runs_of(job).rev().filter(|run| !matches!(run.end, Some(EndReason::LaunchFailed { .. })));
        began.take(FRUITLESS).filter(|run| was_taken(run) && run.checkpoint_seq == 0).count() == FRUITLESS
    }
}

fn was_taken(run: &Run) -> bool {
    matches!(run.end, Some(EndReason::Interrupted | EndReason::Lost))
}
