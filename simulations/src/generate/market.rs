//! A spot market: capacity comes and goes in spells whose lengths have heavy tails, losses follow the hour of the day, and
//! the logarithm of the price returns to its mean.
//!
//! A spell of capacity has an age that runs faster in hours of high risk; it ends with the tick in which the age passes
//! the length that was drawn. `fit` reads spells in the same way, so that what it finds is what is drawn here.

use leeway_market::trace::{Kind, PriceChange, SpotTrace};
use leeway_model::cluster::Region;
use leeway_model::resources::Accelerators;
use leeway_model::{Millis, Rate, Timestamp};

use super::jobs::Choice;
use super::params::{Market, Price, Rhythm};
use super::spread::{Spread, normal, unit};
use crate::random::{Stream, stream};

/// Where a market is and what it offers. The names take part in the luck: each zone has its own under one seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub family: Box<str>,
    pub region: Region,
    pub zone: Box<str>,
    pub instance_type: Box<str>,
    pub accelerators: Option<Accelerators>,
    /// Moment of the first tick; the hours of a rhythm count from there when there is none.
    pub start: Option<Timestamp>,
}

/// A market runs for so long before its first tick, so that the first spell is already under way.
const BEFORE: Millis = Millis::from_hours(14 * 24);

impl Market {
    /// The market of a seed over so many ticks, at least one. Spells, numbers of nodes and prices have streams of their
    /// own, so that a longer market begins as the shorter one does.
    ///
    /// # Errors
    /// The field of the parameters that no market can have.
    pub fn trace(&self, place: &Place, ticks: u32, seed: u64) -> Result<SpotTrace, (String, String)> {
        self.check()?;
        let ticks = ticks.clamp(1, leeway_market::trace::TICKS_MAX as u32);
        let ticks_a_step = self.price.ticks_a_step(self.gap_s);
        let step_h = f64::from(ticks_a_step) * f64::from(self.gap_s) / 3_600.0;
        let mut prices = self.price.steps(step_h, self.on_demand_usd_per_h, self.of(seed, "prices", place));
        let spot = prices.next().unwrap_or_default();
        let mut price_changes: Vec<PriceChange> = Vec::new();
        for (tick, rate) in
            (1..).map(|step: u32| step.saturating_mul(ticks_a_step)).take_while(|tick| *tick < ticks).zip(prices)
        {
            if rate != price_changes.last().map_or(spot, |change| change.rate) {
                price_changes.push(PriceChange { tick, rate });
            }
        }
        Ok(SpotTrace {
            family: place.family.clone(),
            region: place.region.clone(),
            zone: place.zone.clone(),
            instance_type: place.instance_type.clone(),
            accelerators: place.accelerators.clone(),
            nodes_requested: self.nodes,
            kind: Kind::AvailabilityProbe,
            gap: Millis::from_secs(self.gap_s.into()),
            start: place.start,
            on_demand: rate(self.on_demand_usd_per_h),
            spot,
            price_changes,
            notices: Vec::new(),
            missing_ticks: Vec::new(),
            data: self.capacity(place, ticks, seed),
        })
    }

    fn of(&self, seed: u64, what: &str, place: &Place) -> Stream {
        stream(seed, &format!("{what} {} {} {}", place.region, place.zone, place.instance_type))
    }

    /// Nodes at each tick.
    fn capacity(&self, place: &Place, ticks: u32, seed: u64) -> Vec<u32> {
        let mut levels = Levels::new(self, self.of(seed, "levels", place));
        let (Some(up), Some(down)) = (self.up, self.down) else {
            return (0..ticks).map(|tick| levels.next(tick == 0)).collect();
        };
        let mut spells = self.of(seed, "spells", place);
        let before = (BEFORE.as_millis() / 1_000 / u64::from(self.gap_s)) as i64;
        let clock = Clock::new(self.gap_s, place.start, self.rhythm);
        let mut data = Vec::with_capacity(ticks as usize);
        let mut is_up = true;
        let mut spell = Spell::begin(up, &mut spells);
        let mut has_begun = true;
        for tick in -before..i64::from(ticks) {
            let nodes = if is_up { levels.next(has_begun) } else { 0 };
            if tick >= 0 {
                data.push(nodes);
            }
            has_begun = false;
            let ages = if is_up { clock.risk(tick) } else { f64::from(self.gap_s) };
            if spell.ages(ages) {
                is_up = !is_up;
                has_begun = is_up;
                spell = Spell::begin(if is_up { up } else { down }, &mut spells);
            }
        }
        data
    }
}

/// The age of a spell and the age that it comes to, in seconds.
struct Spell {
    age: f64,
    length: f64,
}

impl Spell {
    fn begin(spread: Spread, stream: &mut Stream) -> Self {
        Self { age: 0.0, length: spread.draw(stream) }
    }

    /// Lets it age; true when that is its end.
    fn ages(&mut self, by: f64) -> bool {
        self.age += by;
        self.age >= self.length
    }
}

/// By how much a spell of capacity ages in each tick.
pub(super) struct Clock {
    gap_s: u32,
    start_s: i64,
    rhythm: Option<Rhythm>,
}

impl Clock {
    pub fn new(gap_s: u32, start: Option<Timestamp>, rhythm: Option<Rhythm>) -> Self {
        Self { gap_s, start_s: start.map_or(0, |start| start.as_millis().div_euclid(1_000)), rhythm }
    }

    /// The hour of the day in the middle of a tick, from 0 to below 24.
    pub fn hour(&self, tick: i64) -> f64 {
        let gap = i64::from(self.gap_s);
        (self.start_s + tick * gap + gap / 2).rem_euclid(86_400) as f64 / 3_600.0
    }

    /// Seconds by which a spell ages in this tick.
    pub fn risk(&self, tick: i64) -> f64 {
        let factor = self.rhythm.map_or(1.0, |rhythm| {
            1.0 + rhythm.swing * (std::f64::consts::TAU * (self.hour(tick) - rhythm.peak_hour) / 24.0).cos()
        });
        f64::from(self.gap_s) * factor
    }
}

/// How many nodes there are while there are any.
struct Levels {
    choice: Choice<u32>,
    stream: Stream,
    /// Chance that the number is drawn anew at a tick.
    change: f64,
    nodes: u32,
}

impl Levels {
    fn new(market: &Market, stream: Stream) -> Self {
        let choice = Choice::new(market.levels.iter().map(|level| (level.weight, level.nodes)));
        let change = -(-f64::from(market.gap_s) / market.level_s).exp_m1();
        Self { choice, stream, change, nodes: market.nodes }
    }

    fn next(&mut self, has_begun: bool) -> u32 {
        if self.choice.is_empty() {
            return self.nodes;
        }
        // Two draws a tick whatever they decide.
        let is_new = unit(&mut self.stream) < self.change || has_begun;
        let drawn = self.choice.draw(&mut self.stream).copied().unwrap_or(self.nodes);
        if is_new {
            self.nodes = drawn;
        }
        self.nodes
    }
}

impl Price {
    /// Whole ticks of one step: at least one.
    pub(super) fn ticks_a_step(&self, gap_s: u32) -> u32 {
        (self.step_s / gap_s.max(1)).max(1)
    }

    /// Prices, one for each step, without end.
    fn steps(self, step_h: f64, on_demand: f64, mut stream: Stream) -> impl Iterator<Item = Rate> {
        let keeps = (-self.reversion_per_h * step_h / self.moves).exp();
        let shock = self.deviation * (1.0 - keeps * keeps).sqrt();
        let mut away = self.deviation * normal(&mut stream);
        let high = self.cap_of_on_demand * on_demand;
        std::iter::from_fn(move || {
            let price = (self.mean_usd_per_h * away.exp()).clamp(self.floor_usd_per_h, high.max(self.floor_usd_per_h));
            // The same draws whether it moves or not, so that streams stay in step.
            let (moves, drawn) = (unit(&mut stream) < self.moves, normal(&mut stream));
            if moves {
                away = keeps * away + shock * drawn;
            }
            Some(rate(price))
        })
    }
}

/// A price to a hundredth of a cent, as clouds state theirs, and at least that.
fn rate(usd_per_hour: f64) -> Rate {
    Rate::from_micros(((usd_per_hour * 1e4).round() as u64).max(1).saturating_mul(100))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::params::Level;
    use leeway_market::trace;

    pub fn market() -> Market {
        Market {
            gap_s: 600,
            nodes: 1,
            on_demand_usd_per_h: 3.06,
            level_s: 0.0,
            up: Some(Spread::Weibull { shape: 0.7, scale_s: 20_000.0 }),
            down: Some(Spread::Lomax { shape: 2.5, scale_s: 9_000.0 }),
            rhythm: Some(Rhythm { swing: 0.8, peak_hour: 15.0 }),
            price: Price {
                mean_usd_per_h: 0.95,
                deviation: 0.3,
                reversion_per_h: 0.05,
                moves: 1.0,
                step_s: 3_600,
                floor_usd_per_h: 0.6,
                cap_of_on_demand: 0.5,
            },
            levels: Vec::new(),
        }
    }

    fn place(zone: &str) -> Place {
        Place {
            family: "synthetic".into(),
            region: "aws/us-east-1".parse().unwrap(),
            zone: zone.into(),
            instance_type: "p3.2xlarge".into(),
            accelerators: Some(Accelerators { model: "V100".into(), count: 1 }),
            start: Some("2026-01-01T00:00:00Z".parse().unwrap()),
        }
    }

    #[test]
    fn equal_seeds_give_equal_bytes_and_another_zone_has_another_luck() {
        let text = |zone, seed| trace::write(&market().trace(&place(zone), 2_000, seed).unwrap());
        assert_eq!(text("us-east-1a", 7), text("us-east-1a", 7));
        assert_ne!(text("us-east-1a", 7), text("us-east-1a", 8));
        let data = |zone| market().trace(&place(zone), 2_000, 7).unwrap().data;
        assert_ne!(data("us-east-1a"), data("us-east-1b"));
    }

    #[test]
    fn a_market_is_a_trace_like_any_other_and_a_longer_one_begins_alike() {
        let short = market().trace(&place("us-east-1a"), 1_000, 7).unwrap();
        let long = market().trace(&place("us-east-1a"), 4_320, 7).unwrap();
        assert_eq!(trace::parse("text", trace::write(&long).as_bytes()).unwrap(), long);
        assert_eq!(short.data, long.data[..1_000]);
        assert!(long.price_changes.starts_with(&short.price_changes));
        let summary = long.summary();
        assert!(summary.ticks_any > 400 && summary.ticks_any < 4_000 && summary.losses > 10, "{summary:?}");
        assert!(summary.price_low >= rate(0.6) && summary.price_high <= rate(1.53), "{summary:?}");
        assert!(summary.price_changes > 100, "{summary:?}");
    }

    #[test]
    fn losses_follow_the_rhythm_of_the_day() {
        let trace = market().trace(&place("us-east-1a"), 400_000, 7).unwrap();
        let clock = Clock::new(600, trace.start, None);
        let (mut there, mut lost) = ([0.0; 2], [0.0; 2]);
        for (tick, pair) in trace.data.windows(2).enumerate() {
            let is_busy = usize::from((9.0..21.0).contains(&clock.hour(tick as i64)));
            there[is_busy] += f64::from(pair[0]);
            lost[is_busy] += f64::from(u8::from(pair[1] < pair[0]));
        }
        let ratio = (lost[1] / there[1]) / (lost[0] / there[0]);
        // Half a day around the peak has 1 + 0.8 * 2 / pi times the risk, the other half 1 - 0.8 * 2 / pi.
        assert!((2.4..3.9).contains(&ratio), "{ratio}");
    }

    #[test]
    fn numbers_of_nodes_are_as_frequent_as_their_weights() {
        let levels = vec![Level { nodes: 16, weight: 3.0 }, Level { nodes: 4, weight: 1.0 }];
        let market = Market { nodes: 16, levels, level_s: 7_200.0, up: None, down: None, ..market() };
        let data = market.trace(&place("us-east-1a"), 100_000, 7).unwrap().data;
        let all = data.iter().filter(|nodes| **nodes == 16).count() as f64 / data.len() as f64;
        assert!((all - 0.75).abs() < 0.03 && data.iter().all(|nodes| [4, 16].contains(nodes)), "{all}");
        let changes = data.windows(2).filter(|pair| pair[0] != pair[1]).count() as f64;
        // A number stays for 12 ticks; the next one differs with the chance 1 - 0.75^2 - 0.25^2.
        assert!((changes / 100_000.0 * 12.0 / 0.375 - 1.0).abs() < 0.15, "{changes}");
    }
}
