//! Small markets for the tests beside this file.

use std::sync::Arc;

use leeway_policies::deadline::{self, Rule, Task, Zone};
use leeway_simulations::random::Stream;
use leeway_simulations::spot::model::Path;

/// Zones of one job, tick by tick.
#[derive(Clone, Debug)]
pub struct Markets {
    pub zones: Vec<Zone>,
    pub available: Vec<Vec<bool>>,
    pub spot_price: Vec<Vec<f64>>,
}

impl Markets {
    /// One zone from text: `#` for a tick with spot, `.` for one without.
    pub fn one(text: &str, spot_price: f64, on_demand: f64) -> Self {
        let available: Vec<bool> = text.chars().map(|tick| tick == '#').collect();
        let spot_price = vec![spot_price; available.len()];
        let zones = vec![Zone { on_demand, egress: vec![0.0] }];
        Self { zones, available: vec![available], spot_price: vec![spot_price] }
    }

    /// Zones whose spot comes and goes: it changes in one of `rhythm` ticks.
    pub fn random(luck: &mut Stream, zones: usize, ticks: usize, rhythm: u64) -> Self {
        let cents = |luck: &mut Stream, low, high| luck.between(low, high) as f64 / 100.0;
        let mut markets = Self { zones: Vec::new(), available: Vec::new(), spot_price: Vec::new() };
        for zone in 0..zones {
            let mut up = luck.below(2) == 0;
            let mut path = || {
                up ^= luck.below(rhythm) == 0;
                up
            };
            markets.available.push((0..ticks).map(|_| path()).collect());
            markets.spot_price.push((0..ticks).map(|_| cents(luck, 50, 200)).collect());
            let egress = (0..zones).map(|to| if to == zone { 0.0 } else { cents(luck, 0, 30) }).collect();
            markets.zones.push(Zone { on_demand: cents(luck, 200, 400), egress });
        }
        markets
    }

    pub fn paths(&self) -> Vec<Path<'_>> {
        let pairs = self.available.iter().zip(&self.spot_price);
        pairs.map(|(available, spot_price)| Path { available, spot_price }).collect()
    }
}

/// A task in minutes, decided every ten.
pub fn task(work: f64, deadline: f64, changeover: f64) -> Task {
    Task { work: work * 60.0, deadline: deadline * 60.0, changeover: changeover * 60.0, tick: 600.0 }
}

pub fn close(found: f64, expected: f64) -> bool {
    found == expected || (found - expected).abs() < 1e-9
}

/// The rules from the literature, in the order of [`PLAIN`]. They decide in no time, so that many markets can be judged.
pub fn plain() -> Vec<Arc<dyn Rule>> {
    let mut rules = deadline::rules();
    rules.retain(|rule| PLAIN.contains(&rule.name()));
    rules.sort_by_key(|rule| PLAIN.iter().position(|name| *name == rule.name()));
    assert_eq!(rules.len(), PLAIN.len());
    rules
}

pub const PLAIN: [&str; 6] =
    ["on-demand", "greedy-spot", "time-sliced-4", "time-sliced-12", "time-sliced-24", "uniform-progress"];
