//! The whole journal read once more at the end: an independent ledger, usage reckoned again from prices and instants,
//! alerts counted, and the hash of every byte.

use std::collections::{BTreeMap, BTreeSet};

use leeway_core::state::table::TableId;
use leeway_model::budget::{Budget, EntryKind, LedgerEntry, ThresholdKind};
use leeway_model::market::{Offer, OfferKey};
use leeway_model::notify::Alert;
use leeway_model::resources::CapacityType;
use leeway_model::run::Run;
use leeway_model::{HoldId, Micros, Name, Rate, RunId, Term, Timestamp};
use leeway_store::{Entry, MemoryStore, Store};

use crate::dst::run::Simulation;

/// Money of one budget as the ledger's lines alone tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Balance {
    cap: i128,
    held: i128,
    posted: i128,
}

/// A run's cost, reckoned from prices and instants.
#[derive(Debug)]
struct Costing {
    launched: Timestamp,
    since: Timestamp,
    rate: Rate,
    /// Sum of rate x milliseconds x machines.
    exact: u128,
    released: bool,
}

#[derive(Debug, Default)]
struct Audit {
    balances: BTreeMap<Name, Balance>,
    paths: BTreeMap<HoldId, Vec<Name>>,
    holds: BTreeMap<HoldId, i128>,
    /// Posted compute of each run, with where its last interval ended.
    compute: BTreeMap<RunId, (i128, Timestamp)>,
    costings: BTreeMap<RunId, Costing>,
    prices: BTreeMap<OfferKey, Rate>,
    runs: BTreeMap<RunId, Run>,
    /// Thresholds that fired, with the least share of the cap since, in percent, rounded up.
    fired: BTreeMap<(Name, ThresholdKind, u32), u32>,
    told: BTreeSet<u64>,
    last_number: u64,
    last_time: i64,
}

/// Reads the history of a store to its end. Returns a hash over every entry's bytes.
pub fn audit(simulation: &Simulation, store: &impl Store) -> u64 {
    let mut audit = Audit::default();
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    store
        .entries(1, &mut |entry| {
            hash.entry(&entry);
            audit.entry(simulation, &entry);
            true
        })
        .expect("the memory store keeps its whole history");
    audit.finish();
    hash.0
}

/// The hash alone, for histories that are not audited.
pub fn hash(store: &MemoryStore) -> u64 {
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    let whole = store.entries(1, &mut |entry| {
        hash.entry(&entry);
        true
    });
    whole.expect("the memory store keeps its whole history");
    hash.0
}

/// FNV-1a over every byte of every entry.
struct Hash(u64);

impl Hash {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn entry(&mut self, entry: &Entry) {
        self.bytes(&entry.index.to_be_bytes());
        self.bytes(&entry.time_ms.to_be_bytes());
        self.bytes(&entry.event);
        for row in &entry.rows {
            self.bytes(&row.key);
            self.bytes(row.value.as_deref().unwrap_or(b"\0removed"));
        }
    }
}

fn decode<V: serde::de::DeserializeOwned>(bytes: &[u8]) -> V {
    postcard::from_bytes(bytes).expect("the journal holds rows of this program")
}

impl Audit {
    fn entry(&mut self, simulation: &Simulation, entry: &Entry) {
        assert!(entry.time_ms >= self.last_time, "T-02: time never runs back in the journal");
        self.last_time = entry.time_ms;
        let now = Timestamp::from_millis(entry.time_ms);
        let mut budgets: Vec<Budget> = Vec::new();
        let mut alerts: Vec<(u64, Alert)> = Vec::new();
        let mut offers: Vec<Offer> = Vec::new();
        let mut runs: Vec<Run> = Vec::new();
        for row in &entry.rows {
            let Some(value) = &row.value else { continue };
            match TableId::from_byte(row.key[0]) {
                Some(TableId::Ledger) => self.line(&decode::<LedgerEntry>(value)),
                Some(TableId::Budget) => budgets.push(decode(value)),
                Some(TableId::Offer) => offers.push(decode(value)),
                Some(TableId::Run) => runs.push(decode(value)),
                Some(TableId::Delivery) => {
                    let delivery: leeway_core::state::Delivery = decode(value);
                    alerts.push((delivery.notification.sequence, delivery.notification.alert));
                }
                _ => {}
            }
        }
        self.reprice(now, &offers);
        for run in runs {
            self.run(simulation, entry.index, now, run);
        }
        for budget in budgets {
            let balance = self.balances.get(&budget.spec.name).copied().unwrap_or_default();
            let row = Balance {
                cap: budget.spec.cap.get().into(),
                held: budget.held.get().into(),
                posted: budget.posted.get().into(),
            };
            assert_eq!(row, balance, "B4, B9: the row of '{}' is what its ledger lines add up to", budget.spec.name);
        }
        self.alerts(alerts);
    }

    /// One ledger line: B1, B3, B7 and B8.
    fn line(&mut self, line: &LedgerEntry) {
        assert_eq!(line.number, self.last_number + 1, "ledger lines are numbered without a gap");
        self.last_number = line.number;
        match &line.kind {
            EntryKind::HoldOpen { hold, path, amount } => {
                assert!(self.paths.insert(*hold, path.clone()).is_none(), "B8: {hold} is opened once");
                self.holds.insert(*hold, amount.get().into());
                self.commit(path, *amount);
            }
            EntryKind::HoldExtend { hold, amount } => {
                *self.holds.get_mut(hold).expect("an extended hold is open") += i128::from(amount.get());
                let path = self.paths[hold].clone();
                self.commit(&path, *amount);
            }
            EntryKind::Post { hold, amount, term, from, to } => {
                let rest = self.holds.get_mut(hold).expect("a posting hold was opened");
                *rest -= i128::from(amount.get());
                assert!(*rest >= 0, "B3: {hold} pays no more than it holds");
                for node in self.paths[hold].clone() {
                    self.change(&node, |balance| {
                        balance.held -= i128::from(amount.get());
                        balance.posted += i128::from(amount.get());
                    });
                }
                self.usage(hold.0, *term, *amount, *from, *to);
            }
            EntryKind::ForcePost { run, path, amount, term, from, to, .. } => {
                for node in path {
                    self.change(node, |balance| balance.posted += i128::from(amount.get()));
                }
                self.usage(*run, *term, *amount, *from, *to);
            }
            EntryKind::HoldClose { hold, released } => {
                let rest = self.holds.insert(*hold, 0).expect("a closed hold was opened");
                assert_eq!(rest, i128::from(released.get()), "B3: closing {hold} releases exactly what is left");
                for node in self.paths[hold].clone() {
                    self.change(&node, |balance| balance.held -= i128::from(released.get()));
                }
            }
            EntryKind::CapSet { budget, cap, .. } => {
                self.change(budget, |balance| balance.cap = cap.get().into());
            }
            EntryKind::Adjust { .. } | EntryKind::Credit { .. } => {}
        }
    }

    fn commit(&mut self, path: &[Name], amount: Micros) {
        for node in path {
            self.change(node, |balance| balance.held += i128::from(amount.get()));
            let balance = self.balances[node];
            assert!(balance.posted + balance.held <= balance.cap, "B1: an accepted hold keeps '{node}' within its cap");
        }
    }

    fn change(&mut self, node: &Name, change: impl FnOnce(&mut Balance)) {
        let balance = self.balances.entry(node.clone()).or_default();
        change(balance);
        assert!(balance.held >= 0 && balance.posted >= 0, "B7: no balance of '{node}' is negative");
        if balance.cap <= 0 {
            return;
        }
        let (posted, held, cap) = (balance.posted, balance.held, balance.cap);
        for ((name, kind, _), least) in &mut self.fired {
            if name == node {
                let amount = if *kind == ThresholdKind::Actual { posted } else { posted + held };
                *least = (*least).min((amount * 100).div_euclid(cap).clamp(0, 1_000_000) as u32);
            }
        }
    }

    /// B6: intervals of one run follow each other and never overlap.
    fn usage(&mut self, run: RunId, term: Term, amount: Micros, from: Timestamp, to: Timestamp) {
        if term != Term::Compute {
            return;
        }
        let (sum, until) = self.compute.entry(run).or_insert((0, from));
        assert!(
            from >= *until || (from, to) == (from, *until),
            "B6: usage of {run} from {from} was charged to {until}"
        );
        assert!(to >= from, "B6: usage runs forward");
        *until = to;
        *sum += i128::from(amount.get());
    }

    fn reprice(&mut self, now: Timestamp, offers: &[Offer]) {
        for offer in offers {
            let Some(price) = &offer.price else { continue };
            self.prices.insert(offer.key.clone(), price.rate);
            if offer.key.capacity != CapacityType::Spot {
                continue;
            }
            let runs = &self.runs;
            for (id, costing) in self.costings.iter_mut().filter(|(_, costing)| !costing.released) {
                let Some(run) = runs.get(id).filter(|run| run.offer == offer.key) else { continue };
                costing.move_to(now, run.nodes);
                costing.rate = price.rate;
            }
        }
    }

    fn run(&mut self, simulation: &Simulation, index: u64, now: Timestamp, run: Run) {
        let real = simulation.shell.true_times[index as usize - 1];
        if run.launched.is_some() && !self.costings.contains_key(&run.id) {
            let frozen = run.offer.capacity != CapacityType::Spot;
            let rate = if frozen { run.price.rate } else { self.prices[&run.offer] };
            let launched = run.launched.unwrap_or(now);
            assert_eq!(launched, now, "B6: cost counts from the instant it was learnt");
            let first = simulation.cloud.of_run(run.id).map(|(_, instance)| instance.created).min();
            assert!(first.is_some_and(|first| first <= real), "B6: {} is charged before it lives", run.id);
            let costing = Costing { launched, since: now, rate, exact: 0, released: false };
            self.costings.insert(run.id, costing);
        }
        if run.state.is_over()
            && let Some(costing) = self.costings.get_mut(&run.id).filter(|costing| !costing.released)
        {
            costing.move_to(now, run.nodes);
            costing.released = true;
            let last = simulation.cloud.of_run(run.id).filter_map(|(_, instance)| instance.ended).max();
            assert!(last.is_some_and(|last| last <= real), "B6: {} is settled before it is gone", run.id);
            let expected = i128::try_from(costing.exact.div_ceil(3_600_000_000)).unwrap_or(i128::MAX);
            let (posted, until) = self.compute.get(&run.id).copied().unwrap_or((0, now));
            assert_eq!(posted, expected, "B5: {} cost rate x time from {} on", run.id, costing.launched);
            assert!(until <= now, "B6: {} is charged to its end at most", run.id);
        }
        self.runs.insert(run.id, run);
    }

    /// B12: a threshold fires again only after it fell five points below itself.
    fn alerts(&mut self, alerts: Vec<(u64, Alert)>) {
        for (sequence, alert) in alerts {
            if !self.told.insert(sequence) {
                continue;
            }
            if let Alert::ThresholdCrossed { budget, kind, percent, .. } = alert {
                let key = (budget, kind, percent);
                if let Some(least) = self.fired.get(&key) {
                    assert!(*least < percent.saturating_sub(4), "B12: {key:?} fired again, never below {least} %");
                }
                self.fired.insert(key, u32::MAX);
            }
        }
    }

    fn finish(&self) {
        for (hold, rest) in &self.holds {
            assert_eq!(*rest, 0, "B10: nothing is left in {hold} at the quiet end");
        }
    }
}

impl Costing {
    fn move_to(&mut self, now: Timestamp, nodes: u32) {
        let millis = u128::from(now.since(self.since).as_millis());
        self.exact += u128::from(self.rate.nanos_per_hour()) * u128::from(nodes) * millis;
        self.since = now;
    }
}
