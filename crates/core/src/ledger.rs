//! The ledger: holds before launch, posts while running, settlement at the end.
//!
//! Every entry applies to a whole path of the budget tree or not at all. A hold is opened only when posted + held stays
//! within the cap of every node; usage is paid from the hold, which takes what the budgets have left when a slow stop costs
//! more; what is beyond a cap even so is forced, frozen and told. Amounts never wrap: what does not fit is refused.

use leeway_model::budget::{Budget, EntryKind, Hold, LedgerEntry, Overrun, Refusal};
use leeway_model::{HoldId, Micros, Name, RunId, Term, Timestamp};

use crate::state::Tables;

/// Deepest path of the budget tree.
pub const MAX_DEPTH: usize = 8;

/// A usage that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub term: Term,
    pub amount: Micros,
    pub from: Timestamp,
    pub to: Timestamp,
}

/// What a posting did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Posted {
    /// Part that the hold could not pay.
    pub forced: Micros,
    pub path: Vec<Name>,
}

/// A budget and its ancestors, from the leaf up; the refusal when one does not exist.
pub fn path(tables: &Tables, leaf: &Name) -> Result<Vec<Name>, Refusal> {
    let mut path = Vec::new();
    let mut next = Some(leaf.clone());
    while let Some(name) = next {
        let budget = tables.budgets.get(&name).ok_or_else(|| Refusal::UnknownBudget { budget: name.clone() })?;
        next = budget.spec.parent.clone();
        path.push(name);
        assert!(path.len() <= MAX_DEPTH, "a budget's path is checked when its parent is set");
    }
    Ok(path)
}

/// Whether every node of a path has room for `amount` more.
fn check(tables: &Tables, path: &[Name], amount: Micros) -> Result<(), Refusal> {
    for name in path {
        let Some(budget) = tables.budgets.get(name) else {
            return Err(Refusal::UnknownBudget { budget: name.clone() });
        };
        if budget.frozen {
            return Err(Refusal::BudgetFrozen { budget: name.clone() });
        }
        let committed = budget.posted.checked_add(budget.held).and_then(|sum| sum.checked_add(amount));
        let Some(committed) = committed else {
            return Err(Refusal::Overflow);
        };
        if committed > budget.spec.cap {
            return Err(Refusal::BudgetExceeded {
                budget: name.clone(),
                cap: budget.spec.cap,
                posted: budget.posted,
                held: budget.held,
                needed: amount,
                short_by: committed.saturating_sub(budget.spec.cap),
            });
        }
    }
    Ok(())
}

/// Whether a hold of a run that pays from `leaf` could be opened now.
pub fn has_room(tables: &Tables, leaf: &Name, amount: Micros) -> Result<(), Refusal> {
    check(tables, &path(tables, leaf)?, amount)
}

/// Sets money aside for a run over the whole path.
pub fn open_hold(tables: &mut Tables, at: Timestamp, run: RunId, leaf: &Name, amount: Micros) -> Result<(), Refusal> {
    let id = HoldId(run);
    if tables.holds.contains(&id) {
        return Ok(());
    }
    let path = path(tables, leaf)?;
    check(tables, &path, amount)?;
    for_path(tables, &path, |budget| budget.held = sum(budget.held, amount));
    let hold =
        Hold { id, path: path.clone(), opened: amount, posted: Micros::ZERO, released: Micros::ZERO, open: true };
    tables.holds.insert(id, hold);
    enter(tables, at, EntryKind::HoldOpen { hold: id, path, amount });
    Ok(())
}

/// Adds to an open hold.
pub fn extend_hold(tables: &mut Tables, at: Timestamp, run: RunId, amount: Micros) -> Result<(), Refusal> {
    let id = HoldId(run);
    let Some(hold) = tables.holds.get(&id).filter(|hold| hold.open) else {
        return Ok(());
    };
    let path = hold.path.clone();
    check(tables, &path, amount)?;
    for_path(tables, &path, |budget| budget.held = sum(budget.held, amount));
    if let Some(hold) = tables.holds.change(&id) {
        hold.opened = sum(hold.opened, amount);
    }
    enter(tables, at, EntryKind::HoldExtend { hold: id, amount });
    Ok(())
}

/// Posts usage of a run: from its hold, which is extended by what the path has left where it does not suffice; the rest by
/// force.
pub fn post(tables: &mut Tables, at: Timestamp, run: RunId, usage: Usage) -> Posted {
    let id = HoldId(run);
    stretch_hold(tables, at, run, usage.amount);
    let Some(hold) = tables.holds.get(&id) else {
        return Posted::default();
    };
    if usage.amount == Micros::ZERO {
        return Posted { forced: Micros::ZERO, path: hold.path.clone() };
    }
    assert!(!usage.amount.is_negative(), "a charge is a difference of a cumulative function");
    let path = hold.path.clone();
    let room = if hold.open { hold.remainder() } else { Micros::ZERO };
    let (was_open, paid) = (hold.open, usage.amount.min(room));
    let forced = usage.amount.saturating_sub(paid);
    let Usage { term, from, to, .. } = usage;
    if paid > Micros::ZERO {
        for_path(tables, &path, |budget| {
            budget.held = budget.held.saturating_sub(paid);
            budget.posted = sum(budget.posted, paid);
        });
        if let Some(hold) = tables.holds.change(&id) {
            hold.posted = sum(hold.posted, paid);
        }
        enter(tables, at, EntryKind::Post { hold: id, amount: paid, term, from, to });
    }
    if forced > Micros::ZERO {
        for_path(tables, &path, |budget| {
            budget.posted = sum(budget.posted, forced);
            budget.overrun = sum(budget.overrun, forced);
            // What it refused before is told; that it now refuses everything is news.
            if !std::mem::replace(&mut budget.frozen, true) {
                budget.denied_told = None;
            }
        });
        let cause = if was_open { Overrun::SlowStop } else { Overrun::LateUsage };
        enter(tables, at, EntryKind::ForcePost { run, path: path.clone(), amount: forced, term, from, to, cause });
    }
    Posted { forced, path }
}

/// Extends an open hold that cannot pay `amount`, as far as its path has room. A budget with money left must not freeze
/// because a machine took a minute longer to stop than was set aside.
fn stretch_hold(tables: &mut Tables, at: Timestamp, run: RunId, amount: Micros) {
    let Some(hold) = tables.holds.get(&HoldId(run)).filter(|hold| hold.open) else { return };
    let missing = amount.saturating_sub(hold.remainder());
    let free = hold.path.iter().map(|name| tables.budgets.get(name).map_or(Micros::ZERO, free)).min();
    let more = missing.min(free.unwrap_or(Micros::ZERO));
    if more > Micros::ZERO {
        // It is within what is free, so nothing refuses it.
        let _ = extend_hold(tables, at, run, more);
    }
}

/// What a budget could still set aside.
fn free(budget: &Budget) -> Micros {
    if budget.frozen { Micros::ZERO } else { budget.available().max(Micros::ZERO) }
}

/// Gives back what a hold has left. Returns its path when it was open.
pub fn close_hold(tables: &mut Tables, at: Timestamp, run: RunId) -> Option<Vec<Name>> {
    let id = HoldId(run);
    let hold = tables.holds.change(&id).filter(|hold| hold.open)?;
    let released = hold.remainder();
    hold.released = sum(hold.released, released);
    hold.open = false;
    let path = hold.path.clone();
    for_path(tables, &path, |budget| budget.held = budget.held.saturating_sub(released));
    enter(tables, at, EntryKind::HoldClose { hold: id, released });
    Some(path)
}

/// Sets a budget's cap. Below its commitments it freezes; at or above them it thaws.
pub fn set_cap(tables: &mut Tables, at: Timestamp, budget: &Name, cap: Micros, by: &Name) {
    if let Some(row) = tables.budgets.change(budget) {
        row.spec.cap = cap;
        row.frozen = row.available().is_negative();
        // Whoever sets a cap answers to the refusals so far, so that the next one is news.
        row.denied_told = None;
    }
    enter(tables, at, EntryKind::CapSet { budget: budget.clone(), cap, by: by.clone() });
}

fn for_path(tables: &mut Tables, path: &[Name], mut change: impl FnMut(&mut Budget)) {
    for name in path {
        if let Some(budget) = tables.budgets.change(name) {
            change(budget);
        }
    }
}

fn enter(tables: &mut Tables, at: Timestamp, kind: EntryKind) {
    tables.meta.ledger_entries += 1;
    tables.ledger.push(LedgerEntry { number: tables.meta.ledger_entries, at, kind });
}

/// Sums within the ledger stay far from the limits: every amount was checked against a cap on its way in.
fn sum(a: Micros, b: Micros) -> Micros {
    a.checked_add(b).expect("amounts are checked against caps before they are added")
}

#[cfg(test)]
mod tests {
    use leeway_model::JobId;
    use leeway_model::budget::BudgetSpec;
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn run(job: u64) -> RunId {
        RunId { job: JobId(job), epoch: 1 }
    }

    fn usage(amount: i64) -> Usage {
        let (from, to) = (Timestamp::ZERO, Timestamp::from_millis(1));
        Usage { term: Term::Compute, amount: Micros::new(amount), from, to }
    }

    fn tables(nodes: &[(&str, Option<&str>, i64)]) -> Tables {
        let mut tables = Tables::default();
        for (budget, parent, cap) in nodes {
            let spec = BudgetSpec {
                name: name(budget),
                parent: parent.map(name),
                cap: Micros::new(*cap),
                period: Default::default(),
                soft_limit: None,
            };
            tables.budgets.insert(name(budget), crate::handlers::budgets::fresh(spec));
        }
        tables
    }

    #[test]
    fn the_worked_example_admits_one_job_and_refuses_the_second() {
        let mut tables = tables(&[("vision", None, 100_000_000)]);
        let budget = tables.budgets.change(&name("vision")).unwrap();
        (budget.posted, budget.held) = (Micros::from_units(90), Micros::from_units(4));
        let amount = Micros::new(3_626_667);
        open_hold(&mut tables, Timestamp::ZERO, run(1), &name("vision"), amount).unwrap();
        assert_eq!(tables.budgets.get(&name("vision")).unwrap().available(), Micros::new(2_373_333));
        match open_hold(&mut tables, Timestamp::ZERO, run(2), &name("vision"), amount) {
            Err(Refusal::BudgetExceeded { short_by, .. }) => assert_eq!(short_by, Micros::new(1_253_334)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn b_02_a_hold_asked_for_twice_is_one_hold() {
        let mut tables = tables(&[("a", None, 10)]);
        open_hold(&mut tables, Timestamp::ZERO, run(1), &name("a"), Micros::new(6)).unwrap();
        open_hold(&mut tables, Timestamp::ZERO, run(1), &name("a"), Micros::new(6)).unwrap();
        assert_eq!(tables.budgets.get(&name("a")).unwrap().held, Micros::new(6));
        assert_eq!(tables.ledger.len(), 1);
    }

    #[test]
    fn b_04_what_a_hold_cannot_pay_is_taken_from_what_the_path_has_left() {
        let mut tables = tables(&[("org", None, 100), ("team", Some("org"), 100)]);
        open_hold(&mut tables, Timestamp::ZERO, run(1), &name("team"), Micros::new(10)).unwrap();
        assert_eq!(post(&mut tables, Timestamp::ZERO, run(1), usage(14)).forced, Micros::ZERO);
        for node in ["org", "team"] {
            let budget = tables.budgets.get(&name(node)).unwrap();
            assert_eq!((budget.posted.get(), budget.held.get(), budget.overrun.get()), (14, 0, 0));
            assert!(!budget.frozen);
        }
    }

    #[test]
    fn b_04_what_no_budget_can_pay_is_forced_and_freezes_the_path() {
        let mut tables = tables(&[("org", None, 10), ("team", Some("org"), 100)]);
        open_hold(&mut tables, Timestamp::ZERO, run(1), &name("team"), Micros::new(10)).unwrap();
        for_path(&mut tables, &[name("org"), name("team")], |budget| budget.denied_told = Some(Timestamp::ZERO));
        let posted = post(&mut tables, Timestamp::ZERO, run(1), usage(14));
        assert_eq!(posted.forced, Micros::new(4));
        for node in ["org", "team"] {
            let budget = tables.budgets.get(&name(node)).unwrap();
            assert_eq!(budget.denied_told, None, "that it freezes is news");
            assert_eq!((budget.posted.get(), budget.held.get(), budget.overrun.get()), (14, 0, 4));
            assert!(budget.frozen);
        }
        let refused = open_hold(&mut tables, Timestamp::ZERO, run(2), &name("team"), Micros::new(1));
        assert_eq!(refused, Err(Refusal::BudgetFrozen { budget: name("team") }));
    }

    #[test]
    fn b_05_a_cap_below_the_commitments_freezes_and_a_higher_one_thaws() {
        let mut tables = tables(&[("a", None, 100)]);
        open_hold(&mut tables, Timestamp::ZERO, run(1), &name("a"), Micros::new(60)).unwrap();
        set_cap(&mut tables, Timestamp::ZERO, &name("a"), Micros::new(50), &name("ops"));
        assert!(tables.budgets.get(&name("a")).unwrap().frozen);
        set_cap(&mut tables, Timestamp::ZERO, &name("a"), Micros::new(60), &name("ops"));
        assert!(!tables.budgets.get(&name("a")).unwrap().frozen);
    }

    #[derive(Clone, Debug)]
    enum Op {
        Open(u64, usize, i64),
        Extend(u64, i64),
        Post(u64, i64),
        Close(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        let job = 1_u64..12;
        prop_oneof![
            (job.clone(), 0_usize..4, 0_i64..400).prop_map(|(job, leaf, amount)| Op::Open(job, leaf, amount)),
            (job.clone(), 0_i64..200).prop_map(|(job, amount)| Op::Extend(job, amount)),
            (job.clone(), 0_i64..300).prop_map(|(job, amount)| Op::Post(job, amount)),
            job.prop_map(Op::Close),
        ]
    }

    proptest! {
        /// B1, B3, B4, B6 and B7 after every step; posts within holds never pass a cap (B2).
        #[test]
        fn b_01_b_06_holds_and_posts_keep_every_node_within_its_cap(ops in proptest::collection::vec(op(), 1..120)) {
            const LEAVES: [&str; 4] = ["org", "team-a", "team-b", "project"];
            let mut tables = tables(&[
                ("org", None, 1_000), ("team-a", Some("org"), 700), ("team-b", Some("org"), 700),
                ("project", Some("team-a"), 500),
            ]);
            for op in ops {
                match op {
                    Op::Open(job, leaf, amount) => {
                        let _ = open_hold(&mut tables, Timestamp::ZERO, run(job), &name(LEAVES[leaf]), Micros::new(amount));
                    }
                    Op::Extend(job, amount) => {
                        let _ = extend_hold(&mut tables, Timestamp::ZERO, run(job), Micros::new(amount));
                    }
                    Op::Post(job, amount) => {
                        let room = tables.holds.get(&HoldId(run(job))).filter(|h| h.open).map_or(Micros::ZERO, Hold::remainder);
                        let amount = Micros::new(amount).min(room);
                        post(&mut tables, Timestamp::ZERO, run(job), usage(amount.get()));
                    }
                    Op::Close(job) => { close_hold(&mut tables, Timestamp::ZERO, run(job)); }
                }
                crate::invariants::check_ledger(&tables);
                for budget in tables.budgets.values() {
                    prop_assert!(!budget.available().is_negative(), "{budget:?}");
                }
            }
        }
    }
}
