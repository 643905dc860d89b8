//! The safety net holds whatever a rule says.

use std::sync::{Arc, Mutex};

use leeway_policies::deadline::{self, Mode, Moment, Rule, Session, Task, Zone};
use leeway_simulations::random::{Stream, stream};
use leeway_simulations::spot::model::{self, Sight};
use leeway_simulations::spot::optimum::optimum;

use super::markets::{Markets, PLAIN, plain, task};

/// Says anything, also what cannot be.
#[derive(Debug)]
struct Whim(Arc<Mutex<Stream>>);

struct Whims(Arc<Mutex<Stream>>);

impl Rule for Whim {
    fn name(&self) -> &str {
        "whim"
    }

    fn begin(&self, _: &Task, _: &[Zone]) -> Box<dyn Session> {
        Box::new(Whims(Arc::clone(&self.0)))
    }
}

impl Session for Whims {
    fn probe(&mut self, _: &Moment<'_>, zones: &mut Vec<usize>) {
        zones.extend([0, 1, 99]);
    }

    fn choose(&mut self, moment: &Moment<'_>) -> Mode {
        let mut luck = self.0.lock().unwrap();
        let zone = luck.below(moment.zones.len() as u64 + 1) as usize;
        match luck.below(8) {
            0 => Mode::Idle,
            1 => Mode::OnDemand(zone),
            2 | 3 => Mode::Spot(zone),
            _ => moment.mode,
        }
    }
}

#[test]
fn no_rule_misses_a_deadline_or_beats_the_optimum() {
    let mut rules = plain();
    rules.push(Arc::new(Whim(Arc::new(Mutex::new(stream(3, "whims"))))));
    let judged = judge(&rules, 600);
    assert!(judged > 4_000, "{judged}");
}

#[test]
fn no_rule_that_plans_misses_a_deadline_or_beats_the_optimum() {
    let mut rules = deadline::rules();
    rules.retain(|rule| !PLAIN.contains(&rule.name()));
    let judged = judge(&rules, 8);
    assert!(judged > 10, "{judged}");
}

/// Runs the rules on so many markets; how many runs there were.
fn judge(rules: &[Arc<dyn Rule>], cases: usize) -> usize {
    let mut luck = stream(3, "net");
    let mut judged = 0;
    for case in 0..cases {
        let zones = 1 + luck.below(3) as usize;
        let ticks = 20 + luck.below(40) as usize;
        let changeover = [0.0, 3.0, 10.0, 12.0, 25.0][luck.below(5) as usize];
        let task = task(luck.between(5, ticks as u64 * 10) as f64, ticks as f64 * 10.0 + 3.0, changeover);
        let rhythm = 1 + luck.below(10);
        let markets = Markets::random(&mut luck, zones, ticks, rhythm);
        if !task.can_finish() {
            continue;
        }
        let best = optimum(&task, &markets.zones, &markets.paths()).unwrap();
        for rule in rules {
            for sight in [Sight::Free, Sight::Tried] {
                let run = model::run(&**rule, &task, &markets.zones, &markets.paths(), sight);
                let told = || format!("case {case} {} {sight:?}: {run:?}, optimum {best}\n{task:?}", rule.name());
                assert!(!run.missed && run.ticks <= ticks, "{}", told());
                assert!(run.cost >= best - 1e-9, "{}", told());
                judged += 1;
            }
        }
    }
    judged
}

#[test]
fn who_only_wants_spot_sees_no_more_for_nothing_than_by_trying() {
    let mut luck = stream(5, "sight");
    for _ in 0..100 {
        let markets = Markets::random(&mut luck, 3, 60, 6);
        for rule in plain() {
            let run = |sight| model::run(&*rule, &task(300.0, 600.0, 3.0), &markets.zones, &markets.paths(), sight);
            assert_eq!(run(Sight::Free), run(Sight::Tried), "{}", rule.name());
        }
    }
}
