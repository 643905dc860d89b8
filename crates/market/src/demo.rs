//! Three small synthetic markets that come with the program, so that the first thing a newcomer sees is a job that
//! loses its machine twice and still finishes.
//!
//! They are the files in `demo/`, in the format of recorded traces: read them, change them, give them to a simulation.
//! Ticks are minutes; a pass takes four hours and is meant to be played in a loop. The story, in minutes:
//!
//! | minute | what happens | cheapest place with nodes |
//! |---|---|---|
//! | 0 | all three have nodes | aws/us-east-1 |
//! | 10 | us-east-1 gives notice: 120 s | (still us-east-1) |
//! | 12 | us-east-1 takes its nodes back | aws/us-west-2 |
//! | 26 | us-west-2 takes its nodes back, without notice | gcp/us-central1 |
//! | 60, 90 | us-west-2 and us-east-1 return, dearer | gcp/us-central1 |
//! | 230 | us-east-1 becomes cheap again | aws/us-east-1 |

use crate::trace::{self, SpotTrace};

/// The files by name, as they were built in.
pub const FILES: [(&str, &str); 3] = [
    ("aws-us-east-1.json", include_str!("../demo/aws-us-east-1.json")),
    ("aws-us-west-2.json", include_str!("../demo/aws-us-west-2.json")),
    ("gcp-us-central1.json", include_str!("../demo/gcp-us-central1.json")),
];

/// The three markets, in the order in which the story visits them.
pub fn demo_markets() -> [SpotTrace; 3] {
    FILES.map(|(name, json)| trace::parse(name, json.as_bytes()).expect("the built-in markets are checked by a test"))
}

#[cfg(test)]
mod tests {
    use leeway_model::Millis;

    use super::*;
    use crate::replay::{End, EventKind, MarketEvent, Options, Replay};

    fn replays() -> [Replay; 3] {
        let options = Options { default_notice: Millis::ZERO, end: End::Wrap };
        demo_markets().map(|market| Replay::new(&market, options))
    }

    /// Region of the cheapest market that has nodes in a minute.
    fn cheapest(minute: u64) -> &'static str {
        let place = ["us-east-1", "us-west-2", "us-central1"];
        let state = replays().map(|replay| replay.state_at(Millis::from_mins(minute)));
        let with_nodes = (0..3).filter(|&market| state[market].available > 0);
        place[with_nodes.min_by_key(|&market| state[market].price).unwrap()]
    }

    fn reclaims(replay: Replay, minutes: u64) -> Vec<MarketEvent> {
        let end = Millis::from_mins(minutes);
        let within = replay.take_while(|event| event.at < end);
        within.filter(|event| matches!(event.kind, EventKind::Reclaim { .. })).collect()
    }

    #[test]
    fn the_cheapest_place_moves_from_east_to_west_to_central() {
        for minute in 0..12 {
            assert_eq!(cheapest(minute), "us-east-1", "{minute}");
        }
        for minute in 12..26 {
            assert_eq!(cheapest(minute), "us-west-2", "{minute}");
        }
        for minute in 26..230 {
            assert_eq!(cheapest(minute), "us-central1", "{minute}");
        }
        assert_eq!(cheapest(239), "us-east-1");
        assert_eq!(cheapest(240), "us-east-1");
    }

    #[test]
    fn two_losses_happen_in_four_hours_one_warned_and_one_not() {
        let [east, west, central] = replays();
        let reclaim = |at: u64, notice: u64, lost_at: u64| MarketEvent {
            at: Millis::from_mins(at),
            kind: EventKind::Reclaim {
                alive: 0,
                notice: Millis::from_mins(notice),
                lost_at: Millis::from_mins(lost_at),
            },
        };
        assert_eq!(reclaims(east.clone(), 240), [reclaim(10, 2, 12)]);
        assert_eq!(reclaims(west, 240), [reclaim(26, 0, 26)]);
        assert_eq!(reclaims(central, 2_400), []);
        assert_eq!(reclaims(east, 480)[1], reclaim(250, 2, 252));
    }

    #[test]
    fn spot_is_always_well_below_on_demand() {
        for market in demo_markets() {
            let summary = market.summary();
            assert!(summary.price_low.as_units_f64() >= 0.9 && summary.price_high.as_units_f64() <= 1.3);
            assert!(summary.price_high.as_units_f64() < 0.5 * market.on_demand.as_units_f64());
            assert_eq!(summary.length, Millis::from_hours(4));
        }
    }

    #[test]
    fn a_written_market_reads_back() {
        for market in demo_markets() {
            assert_eq!(trace::parse("again", trace::write(&market).as_bytes()), Ok(market));
        }
    }
}
