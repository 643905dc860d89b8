//! What can only be judged over the whole file: two rows for one offer (C-10), and a price far from its reference (C-05).

use std::collections::HashMap;

use leeway_model::resources::CapacityType;
use leeway_model::{Currency, Rate};

use super::layout::{Field, Layout};
use super::{Catalog, CatalogRow, Rule};

/// Rows that stand on their own, before they are compared with each other.
#[derive(Default)]
pub(super) struct Drafts {
    rows: Vec<CatalogRow>,
    lines: Vec<u64>,
    places: Vec<Place>,
    machines: Numbers,
    zones: Numbers,
}

/// Small numbers for the machine (in its region) and the zone of a row, taken while the row is at hand, so that a
/// million rows are compared without going through their texts again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    machine: u32,
    zone: u32,
}

/// Numbers for texts, in the order of first sight.
#[derive(Default)]
struct Numbers {
    known: HashMap<Box<str>, u32>,
    key: String,
}

impl Numbers {
    /// The number of the texts that `parts` holds. No part has a control character, so that joined they stay apart.
    fn of(&mut self, parts: &[&str]) -> u32 {
        self.key.clear();
        for part in parts {
            self.key.push_str(part);
            self.key.push('\0');
        }
        if let Some(number) = self.known.get(self.key.as_str()) {
            return *number;
        }
        // A file has fewer rows than a u32 counts.
        let number = self.known.len() as u32;
        self.known.insert(self.key.as_str().into(), number);
        number
    }
}

impl Drafts {
    pub fn push(&mut self, line: u64, row: CatalogRow) {
        let accelerators = row.shape.accelerators.as_ref();
        let count = accelerators.map_or(0, |accelerators| accelerators.count);
        let digits = count.to_string();
        let model = accelerators.map_or("", |accelerators| &accelerators.model);
        let machine = self.machines.of(&[row.region.as_str(), &row.shape.instance_type, model, &digits]);
        let zone = self.zones.of(&[row.zone.as_deref().unwrap_or_default()]);
        self.places.push(Place { machine, zone });
        self.rows.push(row);
        self.lines.push(line);
    }

    /// Moves the rows that hold into the catalog, in file order, and quarantines the rest.
    pub fn settle(self, layout: Layout, catalog: &mut Catalog) {
        let verdicts = verdicts(&self.rows, &self.places);
        let mut judged = verdicts.into_iter().zip(self.lines);
        let mut rows = self.rows;
        rows.retain(|row| {
            let Some((Some(rule), line)) = judged.next() else { return true };
            let spot = layout == Layout::SkyPilot && row.capacity == CapacityType::Spot;
            let field = if spot { Field::SpotPrice } else { Field::Price };
            catalog.quarantine(line, layout.name_of(field), rule, &row.price.rate.to_string());
            false
        });
        catalog.rows = rows;
    }
}

fn verdicts(rows: &[CatalogRow], places: &[Place]) -> Vec<Option<Rule>> {
    let mut verdicts = vec![None; rows.len()];
    mark_superseded(rows, places, &mut verdicts);
    let reference = references(rows, places, &verdicts);
    for ((row, place), verdict) in rows.iter().zip(places).zip(&mut verdicts).filter(|(_, verdict)| verdict.is_none()) {
        let declared_free = row.price.rate.is_zero();
        let on_demand = reference.get(&(place.machine, row.price.currency)).copied();
        if on_demand.is_some_and(|on_demand| !declared_free && !in_range(row.price.rate, on_demand)) {
            *verdict = Some(Rule::PriceOutOfRange);
        }
    }
    verdicts
}

/// Of several rows for one offer the newest holds; of equally new ones the dearest; of equal ones the first.
fn mark_superseded(rows: &[CatalogRow], places: &[Place], verdicts: &mut [Option<Rule>]) {
    let mut holding: HashMap<(Place, CapacityType), usize> = HashMap::with_capacity(rows.len());
    let rank = |at: usize| (rows[at].price.observed, rows[at].price.rate);
    for (at, (row, place)) in rows.iter().zip(places).enumerate() {
        let holder = holding.entry((*place, row.capacity)).or_insert(at);
        if *holder == at {
            continue;
        }
        let loser = if rank(at) > rank(*holder) { std::mem::replace(holder, at) } else { at };
        verdicts[loser] = Some(Rule::Superseded);
    }
}

/// The lowest on-demand price of each machine in each region, by currency.
fn references(rows: &[CatalogRow], places: &[Place], verdicts: &[Option<Rule>]) -> HashMap<(u32, Currency), Rate> {
    let mut reference = HashMap::new();
    let holding = rows.iter().zip(places).zip(verdicts).filter(|(_, verdict)| verdict.is_none());
    for ((row, place), _) in holding.filter(|((row, _), _)| row.capacity == CapacityType::OnDemand) {
        let rate = row.price.rate;
        let lowest = reference.entry((place.machine, row.price.currency)).or_insert(rate);
        *lowest = rate.min(*lowest);
    }
    reference
}

/// Whether a price lies within 0.02 to 5 times its on-demand reference, both ends included.
pub(crate) fn in_range(rate: Rate, on_demand: Rate) -> bool {
    let (rate, reference) = (u128::from(rate.nanos_per_hour()), u128::from(on_demand.nanos_per_hour()));
    rate * 100 >= reference * 2 && rate <= reference * 5
}
