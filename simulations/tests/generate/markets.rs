//! Markets that are drawn from known parameters show these parameters again.

use leeway_market::trace;
use leeway_simulations::generate::params::{Level, Price, Rhythm};
use leeway_simulations::generate::spread::Spread;
use leeway_simulations::generate::{Market, Place};
use proptest::prelude::*;

use super::{fit_texts, is_near};

pub fn place(zone: &str) -> Place {
    Place {
        family: "synthetic".into(),
        region: "aws/us-east-1".parse().unwrap(),
        zone: zone.into(),
        instance_type: "p3.2xlarge".into(),
        accelerators: None,
        start: Some("2026-01-01T00:00:00Z".parse().unwrap()),
    }
}

pub fn market() -> Market {
    Market {
        gap_s: 600,
        nodes: 1,
        on_demand_usd_per_h: 3.0,
        level_s: 0.0,
        up: Some(Spread::Weibull { shape: 0.6, scale_s: 20_000.0 }),
        down: Some(Spread::Lomax { shape: 2.5, scale_s: 9_000.0 }),
        rhythm: None,
        price: Price {
            mean_usd_per_h: 1.0,
            deviation: 0.0,
            reversion_per_h: 0.05,
            moves: 1.0,
            step_s: 3_600,
            floor_usd_per_h: 0.1,
            cap_of_on_demand: 3.0,
        },
        levels: Vec::new(),
    }
}

fn text(market: &Market, zone: &str, ticks: u32, seed: u64) -> String {
    trace::write(&market.trace(&place(zone), ticks, seed).unwrap())
}

fn fitted(market: &Market, ticks: u32, seed: u64) -> Market {
    fit_texts(&[text(market, "us-east-1a", ticks, seed)]).unwrap().params.market.unwrap()
}

/// The probability of lasting longer than so many ticks differs by no more than this, anywhere.
#[track_caller]
fn agree(found: Option<Spread>, expected: Spread, most: f64) {
    let found = found.unwrap();
    let far =
        |ticks: i32| (found.survival(f64::from(ticks) * 600.0) - expected.survival(f64::from(ticks) * 600.0)).abs();
    let worst = (1..2_000).map(far).fold(0.0, f64::max);
    assert!(worst <= most, "{found:?} for {expected:?}: {worst}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn spells_of_either_kind_are_found_again(
        shape in 0.5..1.5_f64, scale_s in 4_000.0..40_000.0_f64, tail in 1.6..4.0_f64, away_s in 4_000.0..20_000.0_f64, seed: u64,
    ) {
        let up = Spread::Weibull { shape, scale_s };
        let down = Spread::Lomax { shape: tail, scale_s: away_s };
        // A few thousand spells at least, so that chance alone comes to a quarter of what is allowed.
        let found = fitted(&Market { up: Some(up), down: Some(down), ..market() }, 400_000, seed);
        agree(found.up, up, 0.04);
        agree(found.down, down, 0.04);
        if let (Some(Spread::Weibull { shape: found, .. }), true) = (found.up, shape < 0.8) {
            prop_assert!(is_near(found, shape, 0.1), "{found} for {shape}");
        }
    }

    #[test]
    fn prices_are_found_again(
        mean in 0.3..2.0_f64, deviation in 0.05..0.4_f64, reversion in 0.02..0.1_f64, moves in 0.2..=1.0_f64, seed: u64,
    ) {
        let price = Price { mean_usd_per_h: mean, deviation, reversion_per_h: reversion, moves, cap_of_on_demand: 100.0, floor_usd_per_h: 0.01, ..market().price };
        let found = fitted(&Market { price, ..market() }, 240_000, seed).price;
        prop_assert!(is_near(found.reversion_per_h, reversion, 0.15), "{found:?}");
        prop_assert!(is_near(found.deviation, deviation, 0.1), "{found:?}");
        prop_assert!(is_near(found.mean_usd_per_h, mean, 0.1), "{found:?}");
        prop_assert_eq!(found.step_s, 3_600);
        // Moves that end at the same hundredth of a cent are none.
        prop_assert!(is_near(found.moves, moves, 0.05), "{found:?}");
    }

    #[test]
    fn the_rhythm_of_losses_is_found_again(swing in 0.5..0.9_f64, peak_hour in 0.0..24.0_f64, seed: u64) {
        let up = Spread::Weibull { shape: 1.0, scale_s: 15_000.0 };
        let market = Market { up: Some(up), rhythm: Some(Rhythm { swing, peak_hour }), ..market() };
        let found = fitted(&market, 150_000, seed);
        let rhythm = found.rhythm.unwrap();
        let off = (rhythm.peak_hour - peak_hour + 12.0).rem_euclid(24.0) - 12.0;
        prop_assert!(off.abs() < 1.0 && (rhythm.swing - swing).abs() < 0.12, "{rhythm:?} for {swing} at {peak_hour}");
        agree(found.up, up, 0.04);
    }
}

#[test]
fn spells_that_had_not_ended_are_not_taken_for_short_ones() {
    // Windows of a week with spells of three days: of most spells the end is not seen.
    let up = Spread::Weibull { shape: 1.0, scale_s: 259_200.0 };
    let down = Spread::Weibull { shape: 1.0, scale_s: 20_000.0 };
    let market = Market { up: Some(up), down: Some(down), ..market() };
    let zone = |number: u64| text(&market, &format!("us-east-1-{number}a"), 1_008, number);
    let fitted = fit_texts(&(0..400).map(zone).filter(|text| text.contains("1, ")).collect::<Vec<_>>()).unwrap();
    let row = fitted.rows.iter().find(|row| row.what == "spells of capacity").unwrap();
    assert!(row.censored > 300 && row.seen > 200, "{row:?}");
    let ended_only = 1_008.0 * 600.0 / 2.0;
    assert!(row.distance.unwrap() < 0.05, "{row:?}");
    let median = fitted.params.market.unwrap().up.unwrap().median();
    assert!(is_near(median, up.median(), 0.12) && ended_only > median, "{median} for {}", up.median());
}

#[test]
fn chance_is_not_taken_for_a_rhythm() {
    let with_rhythm = (0..20).filter(|seed| fitted(&market(), 8_000, *seed).rhythm.is_some()).count();
    assert!(with_rhythm <= 3, "{with_rhythm}");
}

#[test]
fn numbers_of_nodes_are_found_again() {
    let levels = vec![Level { nodes: 4, weight: 0.25 }, Level { nodes: 16, weight: 0.75 }];
    let found = fitted(&Market { nodes: 16, levels, level_s: 7_200.0, ..market() }, 150_000, 3);
    let all = found.levels.iter().find(|level| level.nodes == 16).unwrap().weight;
    assert!((all - 0.75).abs() < 0.04 && is_near(found.level_s, 7_200.0, 0.15), "{found:?}");
}

#[test]
fn a_market_that_is_always_there_and_one_that_never_is() {
    let always = Market { up: None, down: None, ..market() };
    let found = fitted(&always, 2_000, 1);
    assert_eq!((found.up, found.down, found.rhythm), (None, None, None));
    assert_eq!((found.price.mean_usd_per_h, found.price.deviation), (1.0, 0.0));
    let zeros = text(&always, "us-east-1a", 4, 1).replace("[1, 1, 1, 1]", "[0, 0, 0, 0]");
    assert!(fit_texts(&[zeros]).unwrap_err().to_string().contains("never has capacity"));
}

#[test]
fn zones_that_are_measured_differently_are_not_mixed() {
    let other = text(&Market { gap_s: 300, ..market() }, "us-east-1b", 100, 1);
    let error = fit_texts(&[text(&market(), "us-east-1a", 3_000, 1), other]).unwrap_err().to_string();
    assert!(error.contains("us-east-1b has ticks of 5m"), "{error}");
    let history = r#"{"SpotPriceHistory": []}"#.to_owned();
    assert!(fit_texts(&[history]).unwrap_err().to_string().contains("no capacity"));
    assert!(fit_texts(&[]).unwrap_err().to_string().contains("nothing to fit"));
}
