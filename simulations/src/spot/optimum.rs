//! The least that any schedule can cost when the whole trace is known: an exact dynamic programme, backwards in time.
//!
//! With `gap` the tick, `d` the changeover, `P` the work and `D` the deadline, all in whole seconds: the unit of work is
//! `u = gcd(gap, d, P)`; the job has `K = P/u` units, a tick does `G = gap/u`; a launch pays `H = ceil(d/gap)` ticks of the
//! machine launched and yields `g0 = (H*gap - d)/u` units; `T = floor(D/gap)` ticks may be used. States are a tick, the
//! units done, and one of: spot runs in zone r (`VS`), on demand runs in r (`VO`), idle with the checkpoint in r (`VN`),
//! nothing started (`V0`). With `K` done every state costs nothing; with less at `T` it is infinite. For `k < K`:
//!
//! ```text
//! L(t,r,k)  = min( H od(r)            + VO(t+H, r, k+g0),
//!                  sum spot(r,t..t+H) + VS(t+H, r, k+g0)  if spot stays up for the H ticks )
//!             (with H = 0: one tick of the machine and G units)
//! VN(t,r,k) = min( VN(t+1,r,k), min over q of egress(r,q) + L(t,q,k) )
//! VO(t,r,k) = min( VN(t,r,k), od(r)     + VO(t+1, r, k+G) )
//! VS(t,r,k) = min( VN(t,r,k), spot(r,t) + VS(t+1, r, k+G) if spot is up )
//! V0(t)     = min( V0(t+1), min over r of L(t,r,0) )
//! ```
//!
//! Three things make it fast without changing a value. Work done at tick `t` lies between `K - G(T-t)`, below which the
//! job cannot be done in time, and `G t`, above which it cannot be yet; only that band is computed. Zones between which
//! moves cost nothing and whose moves cost the same share one `VN`. And the rows are longer than `K` by what one step
//! can overshoot, so that the inner loops have no branch.

use leeway_policies::deadline::{Task, Zone};

use super::model::Path;

/// Why there is no optimum to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{0} must be a whole number of seconds from {1} to {2}")]
    NotWhole(&'static str, u64, u64),
    #[error("no zone was given")]
    NoZone,
    #[error("the trace has {has} ticks and the deadline needs {needs}")]
    TooShort { has: usize, needs: usize },
    #[error(
        "{0} states are more than this computes; use longer ticks, or a changeover and work that have a larger divisor in common with them"
    )]
    TooLarge(u128),
}

const SECONDS_MAX: u64 = 1_000_000_000;
/// Most values of all states kept at one time, and most in all.
const KEPT_MAX: u128 = 1 << 27;
const STATES_MAX: u128 = 1 << 37;

/// Dollars of the best schedule; infinite when none is done by the deadline.
///
/// # Errors
/// Lengths of time must be whole seconds, and every zone needs the ticks up to the deadline.
pub fn optimum(task: &Task, zones: &[Zone], paths: &[Path<'_>]) -> Result<f64, Error> {
    let sizes = Sizes::new(task, zones.len())?;
    let has = paths.iter().flat_map(|path| [path.available.len(), path.spot_price.len()]).min().unwrap_or(0);
    if paths.len() < zones.len() || has < sizes.ticks {
        return Err(Error::TooShort { has, needs: sizes.ticks });
    }
    Ok(Programme::new(sizes, zones, paths, task.tick / 3600.0).solve())
}

/// The problem in units of work and ticks.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// K, G, T, H, g0.
    units: usize,
    per_tick: usize,
    ticks: usize,
    launch_ticks: usize,
    launch_units: usize,
}

impl Sizes {
    fn new(task: &Task, zones: usize) -> Result<Self, Error> {
        let gap = whole("the tick", task.tick, 1)?;
        let changeover = whole("the changeover", task.changeover, 0)?;
        let work = whole("the work", task.work, 1)?;
        if !(0.0..=SECONDS_MAX as f64).contains(&task.deadline) {
            return Err(Error::NotWhole("the deadline", 0, SECONDS_MAX));
        }
        if zones == 0 {
            return Err(Error::NoZone);
        }
        let unit = gcd(gcd(gap, changeover), work);
        let launch_ticks = changeover.div_ceil(gap);
        let sizes = Self {
            units: (work / unit) as usize,
            per_tick: (gap / unit) as usize,
            ticks: task.ticks(),
            launch_ticks: launch_ticks as usize,
            launch_units: ((launch_ticks * gap - changeover) / unit) as usize,
        };
        let row = (sizes.row() * zones) as u128;
        let (kept, all) = (row * 2 * sizes.slots() as u128, row * sizes.ticks as u128);
        if kept > KEPT_MAX || all > STATES_MAX { Err(Error::TooLarge(all)) } else { Ok(sizes) }
    }

    /// Length of a row: the units and what one step can overshoot.
    const fn row(&self) -> usize {
        self.units + 1 + if self.per_tick > self.launch_units { self.per_tick } else { self.launch_units }
    }

    /// Ticks whose values are kept at one time.
    const fn slots(&self) -> usize {
        if self.launch_ticks == 0 { 2 } else { self.launch_ticks + 1 }
    }
}

fn whole(what: &'static str, seconds: f64, least: u64) -> Result<u64, Error> {
    let rounded = seconds.round();
    let is_whole = (seconds - rounded).abs() < 1e-6 && (least as f64..=SECONDS_MAX as f64).contains(&rounded);
    if is_whole { Ok(rounded as u64) } else { Err(Error::NotWhole(what, least, SECONDS_MAX)) }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

struct Programme<'a> {
    sizes: Sizes,
    zones: &'a [Zone],
    paths: &'a [Path<'a>],
    /// Hours of a tick.
    hours: f64,
    places: Places,
    /// For each zone, ticks that spot stays up from here on, going down in time.
    up: Vec<usize>,
    /// `VS` and `VO` by tick modulo the slots, then zone; `VN` by place; `L` by zone.
    on_spot: Vec<Vec<f64>>,
    on_demand: Vec<Vec<f64>>,
    idle: Vec<f64>,
    launch: Vec<f64>,
    /// The best launch within each place.
    best: Vec<f64>,
}

impl<'a> Programme<'a> {
    fn new(sizes: Sizes, zones: &'a [Zone], paths: &'a [Path<'a>], hours: f64) -> Self {
        let row = sizes.row();
        let places = Places::new(zones);
        let rows = |count: usize| {
            let mut rows = vec![f64::INFINITY; row * count];
            rows.chunks_exact_mut(row).for_each(|one| one[sizes.units..].fill(0.0));
            rows
        };
        Self {
            sizes,
            zones,
            paths,
            hours,
            up: vec![0; zones.len()],
            on_spot: vec![rows(zones.len()); sizes.slots()],
            on_demand: vec![rows(zones.len()); sizes.slots()],
            idle: rows(places.count),
            launch: vec![f64::INFINITY; row * zones.len()],
            best: vec![f64::INFINITY; row * places.count],
            places,
        }
    }

    fn solve(mut self) -> f64 {
        let Sizes { units, per_tick, ticks, .. } = self.sizes;
        let row = self.sizes.row();
        let mut nothing_started = f64::INFINITY;
        for tick in (0..ticks).rev() {
            for (up, path) in self.up.iter_mut().zip(self.paths) {
                *up = if path.available[tick] { *up + 1 } else { 0 };
            }
            let least = units.saturating_sub(per_tick.saturating_mul(ticks - tick));
            let most = (units - 1).min(per_tick.saturating_mul(tick));
            if least > most {
                // Before any tick that leaves time for the work: none of these states is reached.
                continue;
            }
            self.launches(tick, least, most);
            self.moves(least, most);
            self.keeps(tick, least, most);
            if least == 0 {
                let firsts = self.launch.chunks_exact(row).map(|launch| launch[0]);
                nothing_started = firsts.fold(nothing_started, f64::min);
            }
        }
        nothing_started
    }

    /// `L` of every zone.
    fn launches(&mut self, tick: usize, least: usize, most: usize) {
        let Sizes { per_tick, ticks, launch_ticks, launch_units, .. } = self.sizes;
        let row = self.sizes.row();
        let (length, yields) = if launch_ticks == 0 { (1, per_tick) } else { (launch_ticks, launch_units) };
        for (zone, launch) in self.launch.chunks_exact_mut(row).enumerate() {
            let launch = &mut launch[least..=most];
            if tick + length > ticks {
                launch.fill(f64::INFINITY);
                continue;
            }
            let slot = (tick + length) % self.sizes.slots();
            let range = zone * row + least + yields..zone * row + most + yields + 1;
            let on_demand_cost = self.zones[zone].on_demand * self.hours * length as f64;
            let on_demand = &self.on_demand[slot][range.clone()];
            if self.up[zone] >= length {
                let prices = &self.paths[zone].spot_price[tick..tick + length];
                let spot_cost: f64 = prices.iter().map(|price| price * self.hours).sum();
                let on_spot = &self.on_spot[slot][range];
                for ((launch, &on_demand), &on_spot) in launch.iter_mut().zip(on_demand).zip(on_spot) {
                    *launch = least_of(on_demand_cost + on_demand, spot_cost + on_spot);
                }
            } else {
                for (launch, &on_demand) in launch.iter_mut().zip(on_demand) {
                    *launch = on_demand_cost + on_demand;
                }
            }
        }
    }

    /// `VN` of every place, from that of the tick after.
    fn moves(&mut self, least: usize, most: usize) {
        let row = self.sizes.row();
        for (place, best) in self.best.chunks_exact_mut(row).enumerate() {
            best[least..=most].fill(f64::INFINITY);
            for (_, launch) in
                self.launch.chunks_exact(row).enumerate().filter(|(zone, _)| self.places.of[*zone] == place)
            {
                for (best, &launch) in best[least..=most].iter_mut().zip(&launch[least..=most]) {
                    *best = least_of(*best, launch);
                }
            }
        }
        for (from, idle) in self.idle.chunks_exact_mut(row).enumerate() {
            for (to, best) in self.best.chunks_exact(row).enumerate() {
                let egress = self.places.egress[from * self.places.count + to];
                for (idle, &best) in idle[least..=most].iter_mut().zip(&best[least..=most]) {
                    *idle = least_of(*idle, egress + best);
                }
            }
        }
    }

    /// `VS` and `VO` of every zone.
    fn keeps(&mut self, tick: usize, least: usize, most: usize) {
        let Sizes { per_tick, .. } = self.sizes;
        let row = self.sizes.row();
        let (slot, after) = (tick % self.sizes.slots(), (tick + 1) % self.sizes.slots());
        for zone in 0..self.zones.len() {
            let here = zone * row + least..zone * row + most + 1;
            let next = here.start + per_tick..here.end + per_tick;
            let place = self.places.of[zone] * row;
            let idle = &self.idle[place + least..=place + most];
            let cost = self.zones[zone].on_demand * self.hours;
            keep(&mut self.on_demand, slot, here.clone(), after, next.clone(), idle, cost);
            if self.up[zone] > 0 {
                let cost = self.paths[zone].spot_price[tick] * self.hours;
                keep(&mut self.on_spot, slot, here, after, next, idle, cost);
            } else {
                self.on_spot[slot][here].copy_from_slice(idle);
            }
        }
    }
}

/// One tick more of what is held, or idle.
fn keep(
    values: &mut [Vec<f64>],
    slot: usize,
    here: std::ops::Range<usize>,
    after: usize,
    next: std::ops::Range<usize>,
    idle: &[f64],
    cost: f64,
) {
    // Two slots at least, so that these are two rows.
    let Ok([values, after]) = values.get_disjoint_mut([slot, after]) else { return };
    for ((value, &after), &idle) in values[here].iter_mut().zip(&after[next]).zip(idle) {
        *value = least_of(idle, cost + after);
    }
}

/// The smaller of two that are not NaN; unlike `f64::min` it is one instruction.
const fn least_of(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// Zones between which moves are free and whose moves elsewhere cost the same, as one.
struct Places {
    count: usize,
    /// The place of each zone.
    of: Vec<usize>,
    /// From place to place.
    egress: Vec<f64>,
}

impl Places {
    fn new(zones: &[Zone]) -> Self {
        let price = |from: usize, to: usize| zones[from].egress.get(to).copied().unwrap_or(0.0);
        let same = |a: usize, b: usize| {
            let free = [price(a, b), price(b, a), price(a, a), price(b, b)].iter().all(|price| *price == 0.0);
            free && (0..zones.len())
                .all(|other| price(a, other) == price(b, other) && price(other, a) == price(other, b))
        };
        let mut firsts: Vec<usize> = Vec::new();
        let mut of = Vec::new();
        for zone in 0..zones.len() {
            let known = firsts.iter().position(|&first| same(first, zone));
            of.push(known.unwrap_or(firsts.len()));
            if known.is_none() {
                firsts.push(zone);
            }
        }
        let egress = firsts.iter().flat_map(|&from| firsts.iter().map(move |&to| price(from, to))).collect();
        Self { count: firsts.len(), of, egress }
    }
}
