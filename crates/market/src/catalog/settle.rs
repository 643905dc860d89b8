//! What can only be judged over the whole file: two rows for one offer (C-10), and a price far from its reference (C-05).

use std::collections::HashMap;

use leeway_model::cluster::Region;
use leeway_model::resources::{Accelerators, CapacityType};
use leeway_model::{Currency, Rate};

use super::layout::{Field, Layout};
use super::{Catalog, CatalogRow, Rule};

/// A row that stands on its own, before it is compared with the others.
pub(super) struct Draft {
    pub line: u64,
    pub row: CatalogRow,
}

/// What makes two rows the same offer.
#[derive(PartialEq, Eq, Hash)]
struct OfferRef<'a> {
    region: &'a Region,
    zone: Option<&'a str>,
    instance_type: &'a str,
    accelerators: Option<&'a Accelerators>,
    capacity: CapacityType,
}

/// What a price is compared by: the same machine in the same region, in the same currency.
#[derive(PartialEq, Eq, Hash)]
struct MachineRef<'a> {
    region: &'a Region,
    instance_type: &'a str,
    accelerators: Option<&'a Accelerators>,
    currency: Currency,
}

/// Moves the drafts that hold into the catalog, in file order, and quarantines the rest.
pub(super) fn settle(drafts: Vec<Draft>, layout: Layout, catalog: &mut Catalog) {
    let verdicts = verdicts(&drafts);
    catalog.rows.reserve_exact(verdicts.iter().filter(|verdict| verdict.is_none()).count());
    for (draft, verdict) in drafts.into_iter().zip(verdicts) {
        match verdict {
            None => catalog.rows.push(draft.row),
            Some(rule) => {
                let spot = layout == Layout::SkyPilot && draft.row.capacity == CapacityType::Spot;
                let field = if spot { Field::SpotPrice } else { Field::Price };
                catalog.quarantine(draft.line, layout.name_of(field), rule, &draft.row.price.rate.to_string());
            }
        }
    }
}

fn verdicts(drafts: &[Draft]) -> Vec<Option<Rule>> {
    let mut verdicts = vec![None; drafts.len()];
    mark_superseded(drafts, &mut verdicts);
    let reference = references(drafts, &verdicts);
    for (draft, verdict) in drafts.iter().zip(&mut verdicts).filter(|(_, verdict)| verdict.is_none()) {
        let declared_free = draft.row.price.rate.is_zero();
        let on_demand = reference.get(&machine(&draft.row)).copied();
        if on_demand.is_some_and(|on_demand| !declared_free && !in_range(draft.row.price.rate, on_demand)) {
            *verdict = Some(Rule::PriceOutOfRange);
        }
    }
    verdicts
}

/// Of several rows for one offer the newest holds; of equally new ones the dearest; of equal ones the first.
fn mark_superseded(drafts: &[Draft], verdicts: &mut [Option<Rule>]) {
    let mut holding: HashMap<OfferRef<'_>, usize> = HashMap::with_capacity(drafts.len());
    let rank = |at: usize| (drafts[at].row.price.observed, drafts[at].row.price.rate);
    for (at, draft) in drafts.iter().enumerate() {
        let holder = holding.entry(offer(&draft.row)).or_insert(at);
        if *holder == at {
            continue;
        }
        let loser = if rank(at) > rank(*holder) { std::mem::replace(holder, at) } else { at };
        verdicts[loser] = Some(Rule::Superseded);
    }
}

/// The lowest on-demand price of each machine in each region.
fn references<'a>(drafts: &'a [Draft], verdicts: &[Option<Rule>]) -> HashMap<MachineRef<'a>, Rate> {
    let mut reference = HashMap::new();
    for (draft, _) in drafts.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_none()) {
        if draft.row.capacity == CapacityType::OnDemand {
            let rate = draft.row.price.rate;
            reference.entry(machine(&draft.row)).and_modify(|low: &mut Rate| *low = rate.min(*low)).or_insert(rate);
        }
    }
    reference
}

/// Whether a price lies within 0.02 to 5 times its on-demand reference, both ends included.
pub(crate) fn in_range(rate: Rate, on_demand: Rate) -> bool {
    let (rate, reference) = (u128::from(rate.nanos_per_hour()), u128::from(on_demand.nanos_per_hour()));
    rate * 100 >= reference * 2 && rate <= reference * 5
}

fn offer(row: &CatalogRow) -> OfferRef<'_> {
    OfferRef {
        region: &row.region,
        zone: row.zone.as_deref(),
        instance_type: &row.shape.instance_type,
        accelerators: row.shape.accelerators.as_ref(),
        capacity: row.capacity,
    }
}

fn machine(row: &CatalogRow) -> MachineRef<'_> {
    MachineRef {
        region: &row.region,
        instance_type: &row.shape.instance_type,
        accelerators: row.shape.accelerators.as_ref(),
        currency: row.price.currency,
    }
}
