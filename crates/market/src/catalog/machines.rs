//! From catalog rows to the machines that a cluster of one region declares.

use std::collections::{BTreeMap, BTreeSet};

use leeway_model::cluster::{Machines, Region};
use leeway_model::resources::{Accelerators, CapacityType};
use leeway_model::{Currency, Name, Rate};

use super::CatalogRow;

/// The machines of a region, or of one zone of it, with their declared prices in `currency`.
///
/// With a zone, rows of that zone and rows that hold for the whole region count, the zone's own price first. Without
/// one, the dearest zone's price is declared, since the provider chooses the zone. Rows in other currencies are left
/// out. The counts are `None`: a catalog does not know how many machines there are.
pub fn machines_in(rows: &[CatalogRow], region: &Region, zone: Option<&str>, currency: Currency) -> Vec<Machines> {
    let mut machines: BTreeMap<(&str, Option<&Accelerators>), Entry> = BTreeMap::new();
    let of_currency = |row: &&CatalogRow| row.region == *region && row.price.currency == currency;
    for row in rows.iter().filter(of_currency) {
        let own = match (zone, row.zone.as_deref()) {
            (Some(zone), Some(there)) if zone != there => continue,
            (_, there) => there.is_some(),
        };
        let key = (&*row.shape.instance_type, row.shape.accelerators.as_ref());
        machines.entry(key).or_insert_with(|| Entry::new(row)).add(row.capacity, row.price.rate, own && zone.is_some());
    }
    let mut taken = BTreeSet::new();
    machines.into_values().map(|entry| entry.finish(&mut taken)).collect()
}

/// One machine with the best-founded price per capacity type, and whether that is the zone's own.
struct Entry {
    machines: Machines,
    own: [bool; 3],
}

impl Entry {
    fn new(row: &CatalogRow) -> Self {
        let machines = Machines { shape: row.shape.clone(), count: None, on_demand: None, spot: None, reserved: None };
        Self { machines, own: [false; 3] }
    }

    fn add(&mut self, capacity: CapacityType, rate: Rate, own: bool) {
        let (price, held_own) = match capacity {
            CapacityType::Spot => (&mut self.machines.spot, &mut self.own[0]),
            CapacityType::OnDemand => (&mut self.machines.on_demand, &mut self.own[1]),
            CapacityType::Reserved => (&mut self.machines.reserved, &mut self.own[2]),
        };
        match (*price, own, *held_own) {
            (Some(held), own, held_own) if own == held_own => *price = Some(held.max(rate)),
            (Some(_), false, true) => {}
            _ => (*price, *held_own) = (Some(rate), own),
        }
    }

    /// Two types may give one name (`a_b` and `a.b`): the later gets a number, in the order of their spelling.
    fn finish(mut self, taken: &mut BTreeSet<Name>) -> Machines {
        let base = self.machines.shape.name.as_str().to_owned();
        let mut number = 2_u32;
        while !taken.insert(self.machines.shape.name.clone()) {
            let suffix = format!("-{number}");
            let kept = &base[..base.len().min(63 - suffix.len())];
            let name = format!("{}{suffix}", kept.trim_end_matches('-'));
            self.machines.shape.name = name.parse().expect("a shortened name with a number is a name");
            number += 1;
        }
        self.machines
    }
}
