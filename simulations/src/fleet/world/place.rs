//! A cluster in the world: its market, what is held of it, and what befalls it.

use std::collections::BTreeSet;

use leeway_market::replay::{End, EventKind, MarketEvent, Options, Replay};
use leeway_model::cluster::Region;
use leeway_model::market::OfferKey;
use leeway_model::resources::CapacityType;
use leeway_model::{Millis, Name, Rate, RunId, Timestamp};

use super::super::setup::{ClusterPlan, ShockKind};

#[derive(Debug)]
pub struct Place {
    pub name: Name,
    pub region: Region,
    /// The offer whose machines follow the market.
    pub spot: OfferKey,
    /// Relative speed of its machines.
    pub speed: f64,
    /// Kilograms of CO2 of a machine-hour, where it is known.
    pub carbon: Option<f64>,
    market: Option<Replay>,
    /// The scheduler learns of its prices by the news of the run.
    pub is_told: bool,
    /// What the market says, shocks not counted.
    price: Rate,
    nodes: Option<u32>,
    /// Of the shocks that go on here, which may overlap.
    price_factors: Vec<f64>,
    capacity_shares: Vec<f64>,
    /// Spot runs that hold machines, newest last, with how many.
    pub held: BTreeSet<(Timestamp, RunId, u32)>,
    pub held_nodes: u32,
    pub use_of: Use,
}

/// Machine time, reckoned as it passes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Use {
    /// Machines that are paid for, by kind: spot, and everything else.
    pub machines: [u32; 2],
    /// Machine-milliseconds so far.
    pub total: [u128; 2],
    at: Timestamp,
}

impl Use {
    pub fn advance(&mut self, now: Timestamp) {
        let passed = u128::from(now.since(self.at).as_millis());
        for (total, machines) in self.total.iter_mut().zip(self.machines) {
            *total += passed * u128::from(machines);
        }
        self.at = now;
    }

    pub fn take(&mut self, now: Timestamp, is_spot: bool, nodes: u32) {
        self.advance(now);
        self.machines[usize::from(!is_spot)] += nodes;
    }

    pub fn give_back(&mut self, now: Timestamp, is_spot: bool, nodes: u32) {
        self.advance(now);
        let machines = &mut self.machines[usize::from(!is_spot)];
        *machines = machines.saturating_sub(nodes);
    }
}

/// What a market event means for those who hold machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    Price,
    Capacity,
    /// No more than so many machines may stay after the notice.
    Reclaim {
        alive: u32,
        notice: Millis,
    },
}

impl Place {
    pub fn new(plan: &ClusterPlan, speed: f64, notice: Millis, start: Timestamp) -> Self {
        let shape = plan.machines().map_or_else(|| plan.spec.name.clone(), |m| m.shape.name.clone());
        let spot = OfferKey { cluster: plan.spec.name.clone(), shape, capacity: CapacityType::Spot };
        let market =
            plan.market.as_ref().map(|trace| Replay::new(trace, Options { default_notice: notice, end: End::Wrap }));
        Self {
            name: plan.spec.name.clone(),
            region: plan.spec.region.clone(),
            spot,
            speed,
            carbon: plan.carbon.zip(plan.watts).map(|(grams, watts)| grams * watts / 1e6),
            is_told: plan.is_told,
            price: plan.machines().and_then(|m| m.spot).unwrap_or(Rate::ZERO),
            market,
            nodes: None,
            price_factors: Vec::new(),
            capacity_shares: Vec::new(),
            held: BTreeSet::new(),
            held_nodes: 0,
            use_of: Use { at: start, ..Use::default() },
        }
    }

    pub fn has_market(&self) -> bool {
        self.market.is_some()
    }

    /// Instant of the next thing that the market does, from the start.
    pub fn next(&self) -> Option<Millis> {
        self.market.as_ref().and_then(Replay::peek).map(|event| event.at)
    }

    /// Takes what the market does next.
    pub fn advance(&mut self) -> Option<News> {
        let MarketEvent { kind, .. } = self.market.as_mut()?.next()?;
        Some(match kind {
            EventKind::Price(rate) => {
                self.price = rate;
                News::Price
            }
            EventKind::Available(nodes) => {
                self.nodes = Some(nodes);
                News::Capacity
            }
            EventKind::Reclaim { alive, notice, .. } => News::Reclaim { alive: self.shared(alive), notice },
        })
    }

    /// Price of a spot machine as the scheduler is told of it.
    pub fn spot_price(&self) -> Rate {
        if self.price_factors.is_empty() {
            return self.price;
        }
        Rate::from_nanos((self.price.nanos_per_hour() as f64 * self.price_factors.iter().product::<f64>()) as u64)
    }

    /// Spot machines that can be held in all; `None` without a limit of the market's own.
    pub fn spot_nodes(&self) -> Option<u32> {
        self.nodes.map(|nodes| self.shared(nodes))
    }

    fn shared(&self, nodes: u32) -> u32 {
        (f64::from(nodes) * self.capacity_shares.iter().product::<f64>()) as u32
    }

    pub fn shock(&mut self, kind: ShockKind, is_over: bool) {
        let (under_way, value) = match kind {
            ShockKind::Price(factor) => (&mut self.price_factors, factor),
            ShockKind::Capacity(share) => (&mut self.capacity_shares, share),
        };
        if !is_over {
            under_way.push(value);
        } else if let Some(position) = under_way.iter().position(|known| *known == value) {
            under_way.remove(position);
        }
    }

    /// Whether so many more spot machines can be had.
    pub fn has_room(&self, nodes: u32) -> bool {
        self.spot_nodes().is_none_or(|all| self.held_nodes.saturating_add(nodes) <= all)
    }

    pub fn hold(&mut self, now: Timestamp, run: RunId, nodes: u32) {
        self.held.insert((now, run, nodes));
        self.held_nodes += nodes;
    }

    pub fn let_go(&mut self, since: Timestamp, run: RunId, nodes: u32) {
        if self.held.remove(&(since, run, nodes)) {
            self.held_nodes -= nodes;
        }
    }

    /// Runs that must go so that no more than `alive` machines are held: the newest first, as a market would rather
    /// keep whom it has.
    pub fn victims(&self, alive: u32) -> Vec<RunId> {
        let mut over = self.held_nodes.saturating_sub(alive);
        let mut victims = Vec::new();
        for (_, run, nodes) in self.held.iter().rev() {
            if over == 0 {
                break;
            }
            victims.push(*run);
            over = over.saturating_sub(*nodes);
        }
        victims
    }
}
