//! Jobs that wait for the same thing, in order: one line, or a line for each owner where owners take turns. Where an
//! owner's standing changes, the head of its line moves and no other job does.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use leeway_model::JobId;

use crate::order::Rank;

/// Order of the jobs of a line: priority first, then the place that the queue's order gave, then the older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueKey {
    pub(super) priority: Reverse<i32>,
    pub(super) place: i64,
    pub job: JobId,
}

/// Order of lines by their first jobs: priority, then where the owner stands, then as within a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Head {
    priority: Reverse<i32>,
    rank: Rank,
    place: i64,
    pub job: JobId,
}

/// Number of an owner in this process; not stable over restarts, so it never decides a tie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerId(pub(super) u32);

/// An owner and where it stands; that of everybody where owners are not ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    pub(super) owner: OwnerId,
    pub(super) rank: Rank,
}

#[derive(Clone, Debug)]
pub struct Lines(Kind);

#[derive(Clone, Debug)]
enum Kind {
    One(BTreeSet<QueueKey>),
    ByOwner {
        /// None is empty.
        lines: BTreeMap<OwnerId, BTreeSet<QueueKey>>,
        heads: BTreeSet<(Head, OwnerId)>,
    },
}

impl Head {
    fn of(key: QueueKey, rank: Rank) -> Self {
        Self { priority: key.priority, rank, place: key.place, job: key.job }
    }
}

impl Lines {
    pub fn new(by_owner: bool) -> Self {
        Self(if by_owner {
            Kind::ByOwner { lines: BTreeMap::new(), heads: BTreeSet::new() }
        } else {
            Kind::One(BTreeSet::new())
        })
    }

    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Kind::One(line) => line.is_empty(),
            Kind::ByOwner { lines, .. } => lines.is_empty(),
        }
    }

    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::One(line) => line.len(),
            Kind::ByOwner { lines, .. } => lines.values().map(BTreeSet::len).sum(),
        }
    }

    pub fn first(&self) -> Option<Head> {
        match &self.0 {
            Kind::One(line) => line.first().map(|key| Head::of(*key, Rank::default())),
            Kind::ByOwner { heads, .. } => heads.first().map(|(head, _)| *head),
        }
    }

    /// Says whether it is new.
    pub fn insert(&mut self, seat: Seat, key: QueueKey) -> bool {
        match &mut self.0 {
            Kind::One(line) => line.insert(key),
            Kind::ByOwner { lines, heads } => change(lines, heads, seat, |line| line.insert(key)),
        }
    }

    /// Says whether it was there.
    pub fn remove(&mut self, seat: Seat, key: &QueueKey) -> bool {
        match &mut self.0 {
            Kind::One(line) => line.remove(key),
            Kind::ByOwner { lines, heads } => change(lines, heads, seat, |line| line.remove(key)),
        }
    }

    /// Moves an owner's line to where the owner stands now; says whether it has one.
    pub fn rerank(&mut self, old: Seat, rank: Rank) -> bool {
        let Kind::ByOwner { lines, heads } = &mut self.0 else { return false };
        let Some(first) = lines.get(&old.owner).and_then(|line| line.first()) else { return false };
        heads.remove(&(Head::of(*first, old.rank), old.owner));
        heads.insert((Head::of(*first, rank), old.owner));
        true
    }

    pub fn owners(&self) -> impl Iterator<Item = OwnerId> + '_ {
        let lines = match &self.0 {
            Kind::One(_) => None,
            Kind::ByOwner { lines, .. } => Some(lines.keys().copied()),
        };
        lines.into_iter().flatten()
    }
}

/// Changes an owner's line and keeps its head listed.
fn change(
    lines: &mut BTreeMap<OwnerId, BTreeSet<QueueKey>>,
    heads: &mut BTreeSet<(Head, OwnerId)>,
    seat: Seat,
    change: impl FnOnce(&mut BTreeSet<QueueKey>) -> bool,
) -> bool {
    let line = lines.entry(seat.owner).or_default();
    let before = line.first().copied();
    let changed = change(line);
    let after = line.first().copied();
    if line.is_empty() {
        lines.remove(&seat.owner);
    }
    if before != after {
        let head = |key| (Head::of(key, seat.rank), seat.owner);
        before.map(|key| heads.remove(&head(key)));
        after.map(|key| heads.insert(head(key)));
    }
    changed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Insert { owner: usize, priority: i32, place: i64, job: u64 },
        RemoveFirst,
        Rank { owner: usize, rank: u8 },
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0..4_usize, 0..3_i32, 0..3_i64, 0..1_000_u64)
                .prop_map(|(owner, priority, place, job)| Op::Insert { owner, priority, place, job }),
            2 => Just(Op::RemoveFirst),
            2 => (0..4_usize, 0..5_u8).prop_map(|(owner, rank)| Op::Rank { owner, rank }),
        ]
    }

    proptest! {
        /// Against a list that is sorted anew each time.
        #[test]
        fn the_first_is_the_least_by_priority_owner_place_and_age(ops in proptest::collection::vec(op(), 0..200)) {
            let mut lines = Lines::new(true);
            let mut ranks = [Rank::default(); 4];
            let mut model: Vec<(usize, QueueKey)> = Vec::new();
            let seat = |ranks: &[Rank; 4], owner: usize| Seat { owner: OwnerId(owner as u32), rank: ranks[owner] };
            for op in ops {
                match op {
                    Op::Insert { owner, priority, place, job } => {
                        if model.iter().all(|(_, key)| key.job.0 != job) {
                            let key = QueueKey { priority: Reverse(priority), place, job: JobId(job) };
                            prop_assert!(lines.insert(seat(&ranks, owner), key));
                            prop_assert!(!lines.insert(seat(&ranks, owner), key));
                            model.push((owner, key));
                        }
                    }
                    Op::RemoveFirst => {
                        let Some(first) = lines.first() else { continue };
                        let at = model.iter().position(|(_, key)| key.job == first.job).unwrap();
                        let (owner, key) = model.swap_remove(at);
                        prop_assert!(lines.remove(seat(&ranks, owner), &key));
                        prop_assert!(!lines.remove(seat(&ranks, owner), &key));
                    }
                    Op::Rank { owner, rank } => {
                        let rank = Rank::of(f64::from(rank));
                        let has = lines.rerank(seat(&ranks, owner), rank);
                        prop_assert_eq!(has, model.iter().any(|(of, _)| *of == owner));
                        ranks[owner] = rank;
                    }
                }
                let least = model.iter().map(|(owner, key)| Head::of(*key, ranks[*owner])).min();
                prop_assert_eq!(lines.first(), least);
                prop_assert_eq!((lines.len(), lines.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }
}
