//! `uniform-progress`: an even pace from the submission to the deadline, on spot as long as it is kept.
//!
//! Wu, Chiang, Mao, Yang, Friedman, Shenker and Stoica, "Can't Be Late: Optimizing Spot Instance Savings under Deadlines"
//! (NSDI 2024): with work `P`, deadline `D` and `c` done at time `t` from the start, take spot wherever there is some; where
//! there is none, wait while `c >= t P / D` and take on-demand capacity otherwise; go back from it to spot once
//! `c >= (t + 2 d) P / D`, two changeovers `d` ahead. That on-demand capacity is ordered in time for the deadline is not
//! this rule's business: the round sees to it for every policy. `deadline::UniformProgress` is the same rule for one job
//! on recorded markets.

use leeway_core::policy::{JobView, Policy, Ranked, Scored, Verdict};
use leeway_model::resources::CapacityType;
use leeway_model::{Micros, Millis};

#[derive(Clone, Copy, Debug)]
pub struct UniformProgress;

/// How long it waits at most before it looks for spot again.
const LOOK_AGAIN: Millis = Millis::from_mins(10);

/// Work that an even pace asks for by now, or `ahead` later; `None` without a deadline.
fn due(job: &JobView<'_>, ahead: Millis) -> Option<f64> {
    let (submitted, deadline) = (job.job.submitted, job.job.spec.time.deadline?);
    let (passed, all) = (job.now.since(submitted).saturating_add(ahead), deadline.since(submitted));
    Some(job.work.as_secs_f64() * (passed.as_secs_f64() / all.as_secs_f64().max(1.0)).min(1.0))
}

fn done(job: &JobView<'_>) -> f64 {
    job.work.saturating_sub(job.remaining).as_secs_f64()
}

/// The best spot place, unless a better one is not spot.
fn spot(ranked: &[Ranked]) -> Option<usize> {
    let first = ranked.first()?;
    (first.scored.capacity == CapacityType::Spot).then_some(0)
}

impl Policy for UniformProgress {
    fn name(&self) -> &'static str {
        "uniform-progress"
    }

    fn about(&self) -> &'static str {
        "for deadlines: spot where there is some, and on demand only while behind an even pace"
    }

    fn rank(&self, _job: &JobView<'_>, place: &Scored) -> Micros {
        place.bill.total()
    }

    fn decide(&self, job: &JobView<'_>, ranked: &[Ranked]) -> Verdict {
        let Some(due) = due(job, Millis::ZERO) else {
            return Verdict::Place {
                position: 0,
                why: "lowest expected bill; it has no deadline to pace it by".into(),
            };
        };
        if let Some(position) = spot(ranked) {
            return Verdict::Place { position, why: "spot is there".into() };
        }
        if done(job) < due {
            return Verdict::Place {
                position: 0,
                why: "no spot now, and it is behind an even pace to its deadline".into(),
            };
        }
        // At the pace that is asked for, what is done will be due at that moment.
        let lead = (done(job) - due) / job.work.as_secs_f64().max(1.0);
        let all = job.job.spec.time.deadline.map_or(Millis::ZERO, |deadline| deadline.since(job.job.submitted));
        let wait = Millis::from_secs_f64(all.as_secs_f64() * lead).clamp(Millis::from_secs(1), LOOK_AGAIN);
        Verdict::WaitUntil {
            at: job.now.after(wait),
            why: "no spot now, and it is ahead of an even pace to its deadline".into(),
        }
    }

    fn review(&self, job: &JobView<'_>, ranked: &[Ranked]) -> Option<Box<str>> {
        spot(ranked)?;
        let due = due(job, job.changeover.saturating_mul(2))?;
        (done(job) >= due)
            .then(|| "spot is back, and it is two changeovers ahead of an even pace to its deadline".into())
    }
}
