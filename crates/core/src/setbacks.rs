//! What losses mean. Many in a row for a job (I-10): capacity that nobody takes back for a while, and in the end a hold
//! until a person has looked. Both are read off the job's own runs, as far back as its interruptions are counted; a
//! retry by hand counts anew.
//!
//! Where a market moves, a loss is a signal of it and the offer cools down for everybody. On machines that have no
//! market one dead agent is a setback of that job there: it is not tried there again for a moment, and others are. Only
//! when several jobs lose their runs there within a short while does the offer cool down.
//!
//! How launches at an offer went is counted beside that, for policies that ask: a cool-down says not now, the count says
//! how often it came to nothing over the last hours. It follows from the rows of runs, of which a restart reads those
//! that still count.

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

/// Launches of an offer, each counting half as much for every half-life that it lies back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Probes {
    tried: f64,
    came: f64,
    at: Timestamp,
    /// The last one came to nothing.
    refused: bool,
}

impl Probes {
    /// Longer than the longest cool-down, after which a place must not be taken for new; shorter than a day, in which
    /// markets turn.
    const HALF_LIFE: Millis = Millis::from_hours(6);
    /// What lies further back is next to nothing.
    const REACH: Millis = Self::HALF_LIFE.saturating_mul(10);
    /// A place of which nothing is known counts as one at which so many launches succeeded: a single refusal moves it
    /// by a third.
    const PRIOR: f64 = 2.0;

    fn left(self, now: Timestamp) -> f64 {
        (-now.since(self.at).as_secs_f64() / Self::HALF_LIFE.as_secs_f64()).exp2()
    }

    pub(crate) fn note(&mut self, at: Timestamp, came: bool) {
        let left = self.left(at);
        let share = if came { 1.0 } else { 0.0 };
        *self = Self {
            tried: self.tried * left + 1.0,
            came: self.came * left + share,
            at: self.at.max(at),
            refused: !came,
        };
    }

    /// Whether the last launch came to nothing.
    pub(crate) const fn was_refused(self) -> bool {
        self.refused
    }

    /// How many launches still count, and how many of them came to machines.
    pub fn counts(self, now: Timestamp) -> (f64, f64) {
        let left = self.left(now);
        (self.tried * left, self.came * left)
    }

    /// Share of launches that came to machines, above 0 and at most 1.
    pub fn share(self, now: Timestamp) -> f64 {
        // Where nothing failed, as at most places, both counts are the same number: every offer that is judged comes here.
        if self.came == self.tried {
            return 1.0;
        }
        let left = self.left(now);
        (self.came * left + Self::PRIOR) / (self.tried * left + Self::PRIOR)
    }
}

impl Scheduler {
    /// Takes note of how a launch went.
    pub(crate) fn probed(&mut self, key: &OfferKey, came: bool) {
        if let Some(offer) = self.fleet.find(key) {
            self.fleet.probed(offer, self.now, came);
        }
    }

    /// Counts the launches of late from the rows of their runs.
    pub(crate) fn count_probes(&mut self) {
        let from = self.now.before(Probes::REACH);
        let mut all = Vec::new();
        for run in self.tables.runs.values() {
            let failed = run.stopped.filter(|_| matches!(run.end, Some(EndReason::LaunchFailed { .. })));
            for (at, came) in [(run.launched, true), (failed, false)] {
                if let Some(at) = at.filter(|at| *at >= from)
                    && let Some(offer) = self.fleet.find(&run.offer)
                {
                    all.push((at, run.id, offer, came));
                }
            }
        }
        all.sort_unstable_by_key(|(at, run, ..)| (*at, *run));
        all.into_iter().for_each(|(at, _, offer, came)| self.fleet.probed(offer, at, came));
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_moves_an_unknown_place_by_a_third_and_fades() {
        let at = |hours: u64| Timestamp::from_millis(0).after(Millis::from_hours(hours));
        let mut probes = Probes::default();
        assert_eq!(probes.share(at(1)), 1.0);
        probes.note(at(1), false);
        assert!((probes.share(at(1)) - 2.0 / 3.0).abs() < 1e-12);
        assert!((probes.share(at(7)) - 0.8).abs() < 1e-12, "half of it is left after six hours");
        probes.note(at(7), true);
        assert!((probes.share(at(7)) - 3.0 / 3.5).abs() < 1e-12);
        assert!(probes.share(at(1_000)) > 0.999_999 && probes.share(at(1_000)) <= 1.0);
        (0..1_000).for_each(|_| probes.note(at(1_000), false));
        assert!(probes.share(at(1_000)) > 0.0);
    }
}
