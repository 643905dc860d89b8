//! What a provider's listing proves when new machines show up late (P-03, P-09): a machine that was seen, or that a launch
//! returned, is gone only when it is listed as ended, or was missing from several complete listings over a whole window.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leeway_drivers::{Instance, InstanceState};
use leeway_model::RunId;

/// Complete listings from which it must be missing.
const LISTINGS: u32 = 3;

/// Machines that were not seen to end.
#[derive(Debug)]
pub struct Visibility {
    /// Longest time for which a machine may be invisible.
    window: Duration,
    begun: Instant,
    open: BTreeMap<Box<str>, Open>,
}

#[derive(Debug)]
struct Open {
    run: RunId,
    rank: u32,
    /// Last time that it was seen, or launched.
    since: Instant,
    missing: u32,
}

impl Visibility {
    pub fn new(window: Duration, now: Instant) -> Self {
        Self { window, begun: now, open: BTreeMap::new() }
    }

    /// Machines that a launch has just returned, in rank order.
    pub fn launched(&mut self, run: RunId, ids: &[Box<str>], now: Instant) {
        for (rank, id) in (0..).zip(ids) {
            self.open.insert(id.clone(), Open { run, rank, since: now, missing: 0 });
        }
    }

    /// The machines of a run that were not seen to end.
    pub fn of(&self, run: RunId) -> Vec<Box<str>> {
        self.open.iter().filter(|(_, open)| open.run == run).map(|(id, _)| id.clone()).collect()
    }

    /// Adds to a listing what it should hold and does not. Returns whether the listing is complete enough to prove an
    /// absence: in the first window of this process, what an earlier one launched may be invisible still.
    pub fn complete(&mut self, listed: &mut Vec<Instance>, is_complete: bool, now: Instant) -> bool {
        let window = self.window;
        for instance in listed.iter() {
            if instance.state == InstanceState::Gone {
                self.open.remove(&instance.id);
            } else {
                let open = Open { run: instance.run, rank: instance.rank, since: now, missing: 0 };
                self.open.insert(instance.id.clone(), open);
            }
        }
        let missing = |id: &str, listed: &[Instance]| listed.iter().all(|instance| *instance.id != *id);
        self.open.retain(|id, open| {
            if !missing(id, listed) {
                return true;
            }
            open.missing += u32::from(is_complete);
            if open.missing >= LISTINGS && now.duration_since(open.since) >= window {
                return false;
            }
            let unseen = Instance::new(open.run, open.rank, id.clone(), InstanceState::Unknown);
            listed.push(Instance { detail: Some("not listed".into()), ..unseen });
            true
        });
        listed.sort_by(|a, b| (a.run, a.rank, &a.id).cmp(&(b.run, b.rank, &b.id)));
        is_complete && now.duration_since(self.begun) >= window
    }
}

#[cfg(test)]
mod tests {
    use leeway_model::JobId;

    use super::*;

    const WINDOW: Duration = Duration::from_secs(120);

    fn run() -> RunId {
        RunId { job: JobId(1), epoch: 1 }
    }

    fn listed(state: InstanceState) -> Vec<Instance> {
        vec![Instance::new(run(), 0, "i-1".into(), state)]
    }

    fn states(visibility: &mut Visibility, mut listing: Vec<Instance>, now: Instant) -> Vec<InstanceState> {
        visibility.complete(&mut listing, true, now);
        listing.iter().map(|instance| instance.state).collect()
    }

    #[test]
    fn p_03_p_09_a_launched_machine_that_is_not_listed_is_unknown_for_a_whole_window_and_three_listings() {
        let begun = Instant::now();
        let after = |secs| begun + Duration::from_secs(secs);
        let mut visibility = Visibility::new(WINDOW, begun);
        visibility.launched(run(), &["i-1".into()], begun);
        assert_eq!(states(&mut visibility, vec![], after(1)), [InstanceState::Unknown]);
        assert_eq!(states(&mut visibility, vec![], after(60)), [InstanceState::Unknown]);
        assert_eq!(states(&mut visibility, vec![], after(119)), [InstanceState::Unknown]);
        assert_eq!(states(&mut visibility, vec![], after(120)), []);
        visibility.launched(run(), &["i-1".into()], after(200));
        assert_eq!(states(&mut visibility, vec![], after(400)), [InstanceState::Unknown], "one listing is no proof");
    }

    #[test]
    fn a_machine_that_is_listed_as_ended_is_gone_at_once() {
        let begun = Instant::now();
        let mut visibility = Visibility::new(WINDOW, begun);
        visibility.launched(run(), &["i-1".into()], begun);
        assert_eq!(states(&mut visibility, listed(InstanceState::Gone), begun), [InstanceState::Gone]);
        assert_eq!(states(&mut visibility, vec![], begun), []);
    }

    #[test]
    fn p_14_what_is_missing_from_a_part_of_a_listing_is_not_missing() {
        let begun = Instant::now();
        let mut visibility = Visibility::new(WINDOW, begun);
        visibility.launched(run(), &["i-1".into()], begun);
        for _ in 0..10 {
            let mut part = vec![];
            assert!(!visibility.complete(&mut part, false, begun + WINDOW * 2));
            assert_eq!(part.len(), 1);
        }
    }

    #[test]
    fn p_02_a_process_that_has_just_begun_proves_no_absence() {
        let begun = Instant::now();
        let mut visibility = Visibility::new(WINDOW, begun);
        assert!(!visibility.complete(&mut vec![], true, begun + Duration::from_secs(119)));
        assert!(visibility.complete(&mut vec![], true, begun + WINDOW));
    }
}
