//! How long machines took to come, to begin and to go, as means over the recorded runs. A mean keeps the sum of what was
//! paid for, which is what a replay is asked for.

use leeway_model::Millis;
use leeway_model::run::Run;

use super::super::setup::{Span, Terms};
use super::Past;

/// Means; `None` where nothing was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pace {
    /// From the order to the machines.
    pub provision: Option<Millis>,
    /// From the machines to a program that restored nothing, inputs and set-up included.
    pub boot: Option<Millis>,
    /// From the end of a program to the proof that the machines are gone.
    pub release: Option<Millis>,
    /// Between a notice and its end.
    pub notice: Option<Millis>,
}

impl Pace {
    pub fn of(past: &Past) -> Self {
        let over = |length: &dyn Fn(&Run) -> Option<Millis>| mean(past.runs.values().filter_map(length));
        Self {
            provision: over(&|run| run.launched.map(|launched| launched.since(run.placed))),
            boot: over(&|run| run.launched.zip(run.started.filter(|_| run.restored_from.is_none())).map(gap)),
            release: over(&|run| run.launched.and(run.stopped.zip(run.released)).map(gap)),
            notice: over(&|run| run.notice.as_ref().map(|notice| notice.deadline.since(notice.received))),
        }
    }

    /// How the replayed world behaves. Losses have the notices that were recorded, so nothing is left to luck.
    pub fn terms(&self) -> Terms {
        let known = Terms::default();
        let middle = |span: Span| Millis::new(u64::midpoint(span.low.as_millis(), span.high.as_millis()));
        Terms {
            provision: Span::of(self.provision.unwrap_or_else(|| middle(known.provision))),
            boot: Span::of(self.boot.unwrap_or_else(|| middle(known.boot))),
            release: self.release.unwrap_or(known.release),
            notice: self.notice.unwrap_or(known.notice),
            unwarned_percent: 0,
            short_percent: 0,
            ..known
        }
    }

    /// What a restore takes beside what every start takes and the way of its bytes, over a job's runs that restored.
    pub fn restore<'a>(&self, runs: impl Iterator<Item = &'a Run>) -> Option<Millis> {
        let terms = self.terms();
        let beside = |run: &Run| {
            let from = run.restored_from.as_ref()?;
            let all = gap(run.launched.zip(run.started)?);
            let way = from.size.get() as f64 / terms.within_region.get().max(1) as f64;
            Some(all.saturating_sub(terms.boot.low).saturating_sub(Millis::from_secs_f64(way)))
        };
        mean(runs.filter_map(beside))
    }
}

fn gap((from, to): (leeway_model::Timestamp, leeway_model::Timestamp)) -> Millis {
    to.since(from)
}

fn mean(lengths: impl Iterator<Item = Millis>) -> Option<Millis> {
    let (count, sum) =
        lengths.fold((0_u64, 0_u128), |(count, sum), one| (count + 1, sum + u128::from(one.as_millis())));
    // A mean is no longer than the longest, so it fits.
    (count > 0).then(|| Millis::new((sum / u128::from(count)) as u64))
}
