//! The bounded search against judging every offer, and ties, for every policy on random fleets and jobs.

#![allow(clippy::unwrap_used, reason = "a helper that finds nothing is a failed test")]

#[path = "../../crates/core/tests/support/mod.rs"]
mod support;

use leeway_core::Config;
use leeway_core::event::Event;
use leeway_core::round::select::KEEP;
use leeway_model::checkpoint::{CheckpointPolicy, Interval};
use leeway_model::cluster::{ClusterSpec, Region};
use leeway_model::egress::{EgressSpec, ProviderSpec, RuleSpec, TierSpec, Unit};
use leeway_model::job::{DataInput, DataOutput, JobSpec};
use leeway_model::market::{CapacityObservation, InterruptionBelief, OfferKey};
use leeway_model::resources::{Accelerators, CapacityType, Infra, ResourceRequest, SpotPolicy};
use leeway_model::{Bytes, InstallationId, Micros, Millis, Rate};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use support::{Desk, cluster, job, name};

const REGIONS: [&str; 5] = ["aws/us-east-1", "aws/us-west-2", "aws/eu-central-1", "gcp/us-central1", "onprem/berlin"];
const MODELS: [Option<&str>; 3] = [Some("V100"), Some("A100"), None];

/// A cluster with one shape and what became of its offers. Prices come from a short list, so that there are ties.
#[derive(Clone, Debug)]
struct Drawn {
    region: usize,
    model: usize,
    count: Option<u32>,
    on_demand: Option<usize>,
    spot: Option<usize>,
    reserved: Option<usize>,
    drained: bool,
    available: Option<u32>,
    exposure_hours: u64,
    interruptions: u32,
    saved: u32,
    cooling: [bool; 3],
}

const RATES: [u64; 8] = [0, 300_000, 900_000, 900_001, 1_000_000, 1_500_000, 3_060_000, 9_999_999];

fn a_cluster() -> impl Strategy<Value = Drawn> {
    let rates = (
        option::weighted(0.7, 1..RATES.len()),
        option::weighted(0.8, 1..RATES.len()),
        option::weighted(0.2, 0..RATES.len()),
    );
    let history = (prop_oneof![Just(0_u64), 1..2_000_u64], prop_oneof![Just(0_u32), 0..40_u32, Just(400)], 0..40_u32);
    let place = (0..REGIONS.len(), prop_oneof![4 => Just(0_usize), 2 => Just(1), 1 => Just(2)], option::of(0..6_u32));
    let state = (
        proptest::bool::weighted(0.1),
        option::weighted(0.2, 0..6_u32),
        proptest::array::uniform3(proptest::bool::weighted(0.15)),
    );
    (place, rates, history, state).prop_map(
        |(
            (region, model, count),
            (on_demand, spot, reserved),
            (exposure_hours, interruptions, saved),
            (drained, available, cooling),
        )| Drawn {
            region,
            model,
            count,
            on_demand,
            spot,
            reserved,
            drained,
            available,
            exposure_hours,
            interruptions,
            saved,
            cooling,
        },
    )
}

fn declared(position: usize, drawn: &Drawn) -> ClusterSpec {
    let mut spec = cluster(&format!("c{position:02}"), REGIONS[drawn.region], 0, "", "");
    let machines = &mut spec.machines[0];
    let rate = |index: usize| Rate::from_micros(RATES[index]);
    machines.count = drawn.count;
    machines.on_demand = drawn.on_demand.map(rate);
    machines.spot = drawn.spot.map(rate);
    machines.reserved = drawn.reserved.map(rate);
    machines.shape.accelerators = MODELS[drawn.model].map(|model| Accelerators { model: model.into(), count: 1 });
    spec
}

fn tiers(tiers: &[(u64, &str)]) -> Vec<TierSpec> {
    tiers.iter().map(|&(from, price)| TierSpec { from, price: price.into() }).collect()
}

fn rule(from: &str, to: &str, prices: &[(u64, &str)]) -> RuleSpec {
    RuleSpec { from: from.into(), to: to.into(), tiers: tiers(prices) }
}

/// Clouds with prices; what leaves `onprem` has none.
fn config() -> Config {
    let provider = |between: &str, out: &str| ProviderSpec {
        unit: Unit::Gb,
        same_region: tiers(&[(0, "0")]),
        groups: Default::default(),
        rules: vec![rule("*", "*", &[(0, between)]), rule("*", "internet", &[(0, "0"), (100, out)])],
    };
    let providers = [("aws".into(), provider("0.02", "0.09")), ("gcp".into(), provider("0.01", "0.12"))];
    let mut config = Config::new(InstallationId(name("test")), name("whole-bill"));
    config.egress = EgressSpec { providers: providers.into(), pairs: vec![] }.table().unwrap();
    config.estimates.speeds = [("A100".into(), 2.2)].into();
    config
}

/// The drawn fleet, registered in the given order, as one process met it.
fn registered(fleet: &[Drawn], order: impl Iterator<Item = usize>) -> Desk {
    let mut desk = Desk::with(config());
    for position in order {
        let drawn = &fleet[position];
        let spec = declared(position, drawn);
        let cluster = spec.name.clone();
        desk.apply(Event::ClusterRegistered { spec });
        if drawn.drained {
            desk.apply(Event::ClusterDrained { cluster: cluster.clone() });
        }
        if drawn.available.is_some() && drawn.spot.is_some() {
            let offer = OfferKey { cluster, shape: name("v100"), capacity: CapacityType::Spot };
            let capacities = vec![CapacityObservation { offer, available: drawn.available }];
            desk.apply(Event::CapacityObserved { capacities });
        }
    }
    desk.budget("team", None, "1000000");
    desk
}

/// The drawn fleet with its history, after a restart.
fn desk(fleet: &[Drawn]) -> Desk {
    let mut desk = registered(fleet, 0..fleet.len());
    let until = desk.now.after(Millis::from_mins(5));
    desk.restart(
        |offer| {
            let position: usize = offer.key.cluster.as_str()[1..].parse().unwrap();
            let drawn = &fleet[position];
            offer.belief = InterruptionBelief {
                exposure: Millis::from_hours(drawn.exposure_hours),
                interruptions: drawn.interruptions,
                saved: drawn.saved.min(drawn.interruptions),
            };
            offer.cooling_until = drawn.cooling[offer.key.capacity as usize].then_some(until);
        },
        |_| {},
    );
    desk
}

fn a_request() -> impl Strategy<Value = ResourceRequest> {
    let infra = prop_oneof![
        6 => Just((None, None)),
        1 => Just((Some("aws"), None)),
        1 => Just((Some("gcp"), Some("us-central1"))),
        1 => Just((None, Some("us-east-1"))),
    ];
    let spot = prop_oneof![4 => Just(SpotPolicy::Auto), 1 => Just(SpotPolicy::Spot), 1 => Just(SpotPolicy::OnDemand)];
    let most = option::weighted(0.3, 1..RATES.len());
    (prop_oneof![4 => Just(0_usize), 2 => Just(1), 1 => Just(2)], infra, spot, most, option::of(1..200_u64)).prop_map(
        |(model, (provider, region), spot, most, disk)| ResourceRequest {
            accelerators: MODELS[model].map(|model| Accelerators { model: model.into(), count: 1 }),
            infra: Infra { cluster_or_provider: provider.map(Into::into), region: region.map(Into::into), zone: None },
            spot,
            max_hourly_cost: most.map(|index| Rate::from_micros(RATES[index])),
            disk: disk.map(Bytes::from_gb),
            ..Default::default()
        },
    )
}

fn a_region() -> impl Strategy<Value = Option<Region>> {
    option::weighted(0.9, (0..REGIONS.len()).prop_map(|index| REGIONS[index].parse().unwrap()))
}

fn checkpoints() -> impl Strategy<Value = Option<CheckpointPolicy>> {
    let interval = prop_oneof![
        3 => Just(Interval::Auto),
        1 => (1..7_200_u64).prop_map(|seconds| Interval::Every(Millis::from_secs(seconds))),
    ];
    option::weighted(
        0.7,
        (interval, option::of(0..600_u64), option::of(0..600_u64)).prop_map(|(interval, save, restore)| {
            let secs = |time: Option<u64>| time.map(Millis::from_secs);
            CheckpointPolicy {
                interval,
                save_time: secs(save),
                restore_time: secs(restore),
                ..job("x").checkpoint.unwrap()
            }
        }),
    )
}

fn a_spec() -> impl Strategy<Value = JobSpec> {
    let data = vec((a_region(), option::weighted(0.9, 0..3_000_u64)), 0..3);
    let machines = (vec(a_request(), 1..4), any::<bool>(), 1..5_u32);
    let money = (option::weighted(0.2, 1..60_000_000_i64), option::weighted(0.3, 0..20_000_000_u64));
    let time = (option::weighted(0.9, 1..200_000_u64), option::weighted(0.3, 1..100_u64));
    let outputs = option::weighted(0.3, (a_region(), option::weighted(0.9, 0..500_u64)));
    (machines, money, time, data, outputs, checkpoints()).prop_map(
        |((resources, ordered, nodes), (max_cost, value), (estimate, deadline), data, outputs, checkpoint)| {
            let mut spec = job("train");
            spec.resources = resources;
            spec.ordered = ordered;
            spec.nodes = nodes;
            spec.money.max_cost = max_cost.map(Micros::new);
            spec.money.value_per_hour = value.map(Rate::from_micros);
            spec.time.estimate = estimate.map(Millis::from_secs);
            spec.time.deadline = deadline.map(|hours| Desk::empty().now.after(Millis::from_hours(hours)));
            let gb = |size: Option<u64>| size.map(Bytes::from_gb);
            spec.data = data
                .into_iter()
                .map(|(region, size)| DataInput { url: "s3://in".into(), region, size: gb(size) })
                .collect();
            spec.outputs = outputs.map(|(region, size)| DataOutput { url: "s3://out".into(), region, size: gb(size) });
            spec.checkpoint = checkpoint;
            spec
        },
    )
}

fn for_each_policy(
    spec: &JobSpec,
    mut check: impl FnMut(JobSpec) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    for policy in leeway_policies::all().names() {
        check(JobSpec { policy: Some(policy.clone()), ..spec.clone() })?;
    }
    Ok(())
}

/// The kept places of a search, best first.
fn places(desk: &Desk, spec: &JobSpec) -> Vec<OfferKey> {
    desk.scheduler.choose(spec).places.into_iter().map(|place| place.ranked.offer).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    /// The search looks at few offers and must not miss a better one.
    #[test]
    fn the_bounded_search_finds_what_judging_every_offer_finds(fleet in vec(a_cluster(), 0..24), spec in a_spec()) {
        let desk = desk(&fleet);
        for_each_policy(&spec, |spec| {
            let found = desk.scheduler.choose(&spec).places;
            let all = desk.scheduler.dry_run(spec.clone()).unwrap();
            prop_assert_eq!(all.candidates.len() + all.rejections.len(), desk.scheduler.fleet().len());
            let judged = desk.scheduler.judge(&spec);
            prop_assert_eq!(judged.len(), all.candidates.len());
            let best: Vec<_> = judged.iter().take(found.len()).map(|place| &place.ranked.offer).collect();
            let chosen: Vec<_> = found.iter().map(|place| &place.ranked.offer).collect();
            prop_assert_eq!(chosen, best, "policy {:?}", &spec.policy);
            for (place, judged) in found.iter().zip(&judged) {
                prop_assert_eq!(place.ranked.scored.bill, judged.ranked.scored.bill);
            }
            // With ordered alternatives the search stops at the first that has any place.
            let wanted = if spec.ordered { 1 } else { KEEP };
            prop_assert!(found.len() >= all.candidates.len().min(wanted));
            Ok(())
        })?;
    }

    /// Equal scores go to the smaller key, whatever the order in which the process met the offers.
    #[test]
    fn c_18_the_same_places_are_found_whatever_the_order_of_registration(
        (fleet, order) in vec(a_cluster(), 0..24).prop_flat_map(|fleet| {
            let order = Just((0..fleet.len()).collect::<Vec<_>>()).prop_shuffle();
            (Just(fleet), order)
        }),
        spec in a_spec(),
    ) {
        let (one, other) = (registered(&fleet, 0..fleet.len()), registered(&fleet, order.into_iter()));
        for_each_policy(&spec, |spec| {
            prop_assert_eq!(places(&one, &spec), places(&other, &spec), "policy {:?}", &spec.policy);
            Ok(())
        })?;
    }
}

#[test]
fn c_18_of_many_equal_offers_the_smaller_keys_win_in_any_order_of_registration() {
    let fleet: Vec<Drawn> = (0..12)
        .map(|_| Drawn {
            region: 0,
            model: 0,
            count: Some(4),
            on_demand: Some(4),
            spot: None,
            reserved: None,
            drained: false,
            available: None,
            exposure_hours: 0,
            interruptions: 0,
            saved: 0,
            cooling: [false; 3],
        })
        .collect();
    let expected: Vec<OfferKey> = (0..KEEP)
        .map(|position| OfferKey {
            cluster: name(&format!("c{position:02}")),
            shape: name("v100"),
            capacity: CapacityType::OnDemand,
        })
        .collect();
    for_each_policy(&job("train"), |spec| {
        assert_eq!(places(&registered(&fleet, 0..12), &spec), expected);
        assert_eq!(places(&registered(&fleet, (0..12).rev()), &spec), expected);
        Ok(())
    })
    .unwrap();
}
