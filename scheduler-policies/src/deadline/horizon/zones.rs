//! Which zone: a price for what a zone offers over the life that is expected of its capacity.
//!
//! Let `rate` be what an hour of work is worth: how much less the rest of the job costs, by the plan, with an hour of time
//! and of work less to go. To hold zone `i` for its
//! expected life `life` (in hours, no longer than there is work) is worth
//!
//! ```text
//! worth(i) = (rate - price(i)) * life(i) - move(i)
//! move(i)  = egress + changeover * (rate + slack price)      nothing for the zone that is held
//! ```
//!
//! the differential value of renewal-reward theory (S. M. Ross, "Applied Probability Models with Optimization
//! Applications", 1970): what comes after the spell is the same whichever zone it was and cancels out. A move pays as soon
//! as another zone is worth more than the one that is held. `slack price` is what an hour less until the deadline adds to
//! the expected cost; the plan knows it.

use super::belief::{Belief, Phases};
use super::market::{Market, PHASES};

/// How long capacity lives under each model, and how much of it there is, for a job that needs it for `useful` hours.
///
/// The end of the need is taken to come at random at rate `1 / useful`. With `L` the life of a spell from a phase up to its
/// end or that of the need, a spell sees its own end with probability `1 - L / useful`, and hours of capacity and number of
/// spells from a phase on are geometric sums over pairs of spells.
#[derive(Debug)]
pub(crate) struct Lives(Vec<Life>);

#[derive(Debug)]
struct Life {
    /// Hours that a spell with capacity goes on, by phase, and one without.
    up: [f64; PHASES],
    down: [f64; PHASES],
    /// Share of the time of need with capacity, from each phase with and without.
    share: [[f64; PHASES]; 2],
    /// Spells with capacity in the time of need, the present one included.
    spells: [[f64; PHASES]; 2],
}

impl Life {
    fn new(market: &Market, useful: f64) -> Self {
        let (up, down) = (market.up.life(useful), market.down.life(useful));
        let ends = |life: f64| 1.0 - life / useful;
        let again = ends(up[0]) * ends(down[0]);
        // From the first tick of a spell with capacity.
        let (hours, spells) = (up[0] / (1.0 - again), 1.0 / (1.0 - again));
        Self {
            share: [
                up.map(|life| (life + ends(life) * ends(down[0]) * hours) / useful),
                down.map(|life| ends(life) * hours / useful),
            ],
            spells: [up.map(|life| 1.0 + ends(life) * ends(down[0]) * spells), down.map(|life| ends(life) * spells)],
            up,
            down,
        }
    }
}

impl Lives {
    pub(crate) fn new(library: &[Market], useful: f64) -> Self {
        Self(library.iter().map(|market| Life::new(market, useful)).collect())
    }

    /// Hours that a new spell of a zone with capacity is expected to go on.
    pub(crate) fn fresh(&self, belief: &Belief) -> f64 {
        belief.weights().iter().zip(&self.0).map(|(weight, life)| weight * life.up[0]).sum()
    }

    /// Hours that capacity in a zone is expected to go on, if it has any.
    pub(crate) fn now(&self, belief: &Belief) -> f64 {
        self.mean(belief, |phases, life| (phases.up, life.up))
    }

    /// Hours that a zone without capacity is expected to stay so, if it has none.
    pub(crate) fn gap(&self, belief: &Belief) -> f64 {
        self.mean(belief, |phases, life| (phases.down, life.down))
    }

    fn mean(&self, belief: &Belief, of: impl Fn(&Phases, &Life) -> ([f32; PHASES], [f64; PHASES])) -> f64 {
        let (mut hours, mut all) = (0.0, 0.0);
        for ((weight, phases), life) in belief.weights().iter().zip(belief.phases()).zip(&self.0) {
            let (shares, lives) = of(phases, life);
            for (share, life) in shares.into_iter().zip(lives) {
                hours += weight * f64::from(share) * life;
                all += weight * f64::from(share);
            }
        }
        if all > 0.0 { hours / all } else { 0.0 }
    }

    /// Share of the time of need in which a zone is expected to have capacity, and in how many spells.
    fn ahead(&self, belief: &Belief) -> (f64, f64) {
        let (mut up, mut spells) = (0.0, 0.0);
        for ((weight, phases), life) in belief.weights().iter().zip(belief.phases()).zip(&self.0) {
            for (kind, shares) in [&phases.up, &phases.down].into_iter().enumerate() {
                for (phase, share) in shares.iter().enumerate() {
                    up += weight * f64::from(*share) * life.share[kind][phase];
                    spells += weight * f64::from(*share) * life.spells[kind][phase];
                }
            }
        }
        (up, spells)
    }
}

/// Prices of one instant, in dollars an hour unless said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// What an hour of work is worth.
    pub(crate) rate: f64,
    /// What an hour less until the deadline adds.
    pub(crate) slack: f64,
    /// Hours of a launch.
    pub(crate) changeover: f64,
}

/// What an hour of work and an hour of slack are worth, where the rest costs `now` and, with other hours and work left,
/// `least`; never more than on-demand capacity.
pub(crate) fn terms(
    now: f32,
    mut least: impl FnMut(f64, f64) -> f32,
    (hours, work): (f64, f64),
    changeover: f64,
    on_demand: f64,
) -> Terms {
    let span = work.min(1.0);
    let rate = f64::from(now - least(hours - span, work - span)) / span.max(1e-9);
    let less = changeover.max(0.25).min(hours - work);
    let slack = if less > 0.0 { f64::from(least(hours - less, work) - now) / less } else { on_demand };
    Terms { rate: rate.clamp(0.0, on_demand), slack: slack.clamp(0.0, on_demand), changeover }
}

/// What it is worth to hold capacity at a price, after a move at `egress` dollars; `None` for what is held already.
pub(crate) fn worth(lives: &Lives, belief: &Belief, price: f64, egress: Option<f64>, terms: &Terms) -> f64 {
    let moved = egress.map_or(0.0, |egress| egress + terms.changeover * (terms.rate + terms.slack));
    (terms.rate - price) * lives.now(belief) - moved
}

/// What to expect of several zones as one market.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Together {
    /// Dollars an hour.
    pub(crate) price: f64,
    /// How often an hour a zone that is held is lost.
    pub(crate) losses: f64,
}

/// Zones as one market: each at its price and with its rhythm, weighted by how often it is the best that has capacity. The
/// best is the one whose hour of work costs least with the launches that its rhythm brings; `egress` is the usual price of
/// a move in dollars. `None` where no zone is worth waiting for.
pub(crate) fn together<'a>(
    lives: &Lives,
    zones: impl Iterator<Item = (&'a Belief, f64)>,
    egress: f64,
    slack: f64,
    changeover: f64,
    useful: f64,
) -> Option<Together> {
    let mut offers: Vec<(f64, f64, Together)> = zones
        .filter_map(|(belief, price)| {
            let (availability, spells) = lives.ahead(belief);
            let life = availability * useful / spells.max(1e-9);
            let works = life - changeover;
            let cost = (price * life + egress + slack * changeover) / works;
            let losses = 1.0 / life;
            (works > 0.0).then_some((cost, availability, Together { price: price + egress * losses, losses }))
        })
        .collect();
    offers.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut sum, mut none_so_far) = (Together { price: 0.0, losses: 0.0 }, 1.0);
    for (_, availability, offer) in offers {
        let share = none_so_far * availability;
        sum = Together { price: sum.price + share * offer.price, losses: sum.losses + share * offer.losses };
        none_so_far -= share;
    }
    let some = 1.0 - none_so_far;
    (some > 1e-6).then(|| Together { price: sum.price / some, losses: sum.losses / some })
}

#[cfg(test)]
mod tests {
    use super::super::market::library;
    use super::*;

    use super::super::belief::Rhythm;

    const TICK: f64 = 1.0 / 6.0;

    fn belief(rhythm: &Rhythm, seen: impl Iterator<Item = bool>) -> Belief {
        let mut belief = Belief::new(rhythm);
        for is_up in seen {
            belief.advance(rhythm);
            belief.observe(is_up);
        }
        belief
    }

    #[test]
    fn a_steady_zone_is_worth_more_than_a_flickering_one_that_is_somewhat_cheaper() {
        let library = library();
        let rhythm = Rhythm::new(&library, TICK);
        let lives = Lives::new(&library, 40.0);
        let (steady, flicker) =
            (belief(&rhythm, (0..100).map(|_| true)), belief(&rhythm, (0..100).map(|i| i % 3 != 0)));
        let terms = Terms { rate: 30.0, slack: 20.0, changeover: 0.2 };
        assert!(worth(&lives, &steady, 19.0, Some(3.0), &terms) > worth(&lives, &flicker, 15.0, Some(0.0), &terms));
        assert!(worth(&lives, &steady, 19.0, None, &terms) > worth(&lives, &steady, 19.0, Some(0.0), &terms));
    }

    #[test]
    fn a_zone_that_is_always_there_sets_price_and_losses() {
        let library = library();
        let rhythm = Rhythm::new(&library, TICK);
        let lives = Lives::new(&library, 40.0);
        let (always, never) = (belief(&rhythm, (0..500).map(|_| true)), belief(&rhythm, (0..500).map(|_| false)));
        let both = [(&always, 20.0), (&never, 10.0)];
        let found = together(&lives, both.into_iter(), 0.0, 0.0, 0.2, 40.0).unwrap();
        assert!(found.price > 16.0 && found.price <= 20.0 && found.losses < 0.2, "{found:?}");
        assert_eq!(together(&lives, std::iter::empty(), 0.0, 0.0, 0.2, 40.0), None);
    }
}
