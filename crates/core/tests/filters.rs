//! Every rule that can keep an offer from a job, with the words it gives, and which machines answer which request.

#![allow(clippy::unwrap_used, reason = "a helper that finds nothing is a failed test")]

mod support;

use leeway_core::event::Event;
use leeway_core::reply::Reply;
use leeway_core::round::select::Evaluation;
use leeway_model::checkpoint::Interval;
use leeway_model::cluster::ClusterSpec;
use leeway_model::decision::Rule;
use leeway_model::job::{JobSpec, JobState};
use leeway_model::market::{CapacityObservation, Price, PriceFault, PriceObservation, Source};
use leeway_model::resources::CapacityType::{OnDemand, Reserved, Spot};
use leeway_model::resources::{Accelerators, Infra, MilliCpus, Quantity, ResourceRequest, SpotPolicy};
use leeway_model::run::LaunchErrorClass;
use leeway_model::{Bytes, Currency, Millis};
use support::{Desk, cluster, dollars, job, name, offer, usd, v100};

/// One cluster with on-demand machines only.
fn plain() -> Desk {
    fleet([cluster("east", "aws/us-east-1", 4, "", "3.06")])
}

fn fleet(clusters: impl IntoIterator<Item = ClusterSpec>) -> Desk {
    let mut desk = Desk::empty();
    clusters.into_iter().for_each(|spec| {
        assert_eq!(desk.apply(Event::ClusterRegistered { spec }), Reply::Done);
    });
    desk.budget("team", None, "1000");
    desk
}

fn asking(change: impl FnOnce(&mut ResourceRequest)) -> JobSpec {
    let mut spec = job("train");
    change(&mut spec.resources[0]);
    spec
}

fn among(resources: Vec<ResourceRequest>, ordered: bool) -> JobSpec {
    JobSpec { resources, ordered, ..job("train") }
}

fn evaluate(desk: &Desk, spec: JobSpec) -> Evaluation {
    desk.scheduler.dry_run(spec).unwrap()
}

fn offers(desk: &Desk, spec: JobSpec) -> Vec<String> {
    evaluate(desk, spec).candidates.iter().map(|candidate| candidate.offer.to_string()).collect()
}

/// The only offer is rejected by this rule in these words, and a search finds nothing either.
#[track_caller]
fn check(desk: &Desk, spec: JobSpec, rule: Rule, detail: &str) {
    let all = evaluate(desk, spec.clone());
    let rejections: Vec<_> = all.rejections.iter().map(|one| (one.rule, one.detail.as_ref())).collect();
    assert_eq!(rejections, [(rule, detail)]);
    assert!(all.candidates.is_empty() && desk.scheduler.choose(&spec).places.is_empty());
}

#[test]
fn what_a_machine_lacks_is_named() {
    let desk = plain();
    let no = |change: fn(&mut ResourceRequest), rule, detail| check(&desk, asking(change), rule, detail);
    let cpus = |amount, or_more| Some(Quantity { amount: MilliCpus(amount), or_more });
    no(
        |ask| ask.accelerators = Some(Accelerators { model: "V100".into(), count: 2 }),
        Rule::Accelerator,
        "asked for V100:2, has V100:1",
    );
    check(&desk, asking(|ask| ask.cpus = cpus(16_000, true)), Rule::Cpus, "has 8 CPUs");
    check(&desk, asking(|ask| ask.cpus = cpus(4_000, false)), Rule::Cpus, "has 8 CPUs");
    no(
        |ask| ask.memory = Some(Quantity { amount: Bytes::from_gib(62), or_more: true }),
        Rule::Memory,
        "has 61 GiB of memory",
    );
    no(|ask| ask.disk = Some(Bytes::from_gb(201)), Rule::Disk, "has 200.0 GB of disk");
    no(|ask| ask.instance_type = Some("p4d.24xlarge".into()), Rule::InstanceType, "is a p3.2xlarge");
    no(|ask| ask.infra.region = Some("us-west-2".into()), Rule::Place, "lies in aws/us-east-1");
    no(|ask| ask.spot = SpotPolicy::Spot, Rule::CapacityType, "is on-demand");
    no(
        |ask| ask.max_hourly_cost = Some(usd("3.05")),
        Rule::MaxHourlyCost,
        "costs 3.06 an hour; max_hourly_cost is 3.05",
    );
    assert_eq!(offers(&desk, asking(|ask| ask.max_hourly_cost = Some(usd("3.06")))), ["east/v100/on-demand"]);
    assert_eq!(offers(&desk, asking(|ask| ask.cpus = cpus(4_000, true))), ["east/v100/on-demand"]);
}

#[test]
fn c_13_an_unknown_accelerator_matches_nothing_and_is_told_what_there_is() {
    for wrong in ["V1OO", "v100", "V100-32GB", "V10"] {
        let spec = asking(|ask| ask.accelerators = Some(Accelerators { model: wrong.into(), count: 1 }));
        check(&plain(), spec.clone(), Rule::Accelerator, &format!("asked for {wrong}:1, has V100:1"));
        let mut desk = plain();
        let id = desk.submit(spec);
        assert_eq!(desk.scheduler.reason(desk.job(id)).unwrap().code.as_ref(), "NO_OFFERS");
    }
}

#[test]
fn c_12_what_asks_for_nothing_is_refused_by_its_field() {
    let mut desk = plain();
    let quantity = |amount| Some(Quantity { amount, or_more: true });
    let mut refused = |change: &dyn Fn(&mut JobSpec), code: &str, field: &str| {
        let mut spec = job("train");
        change(&mut spec);
        let refusal = desk.try_submit(spec.clone()).unwrap_err();
        assert_eq!(refusal.code, code);
        assert!(refusal.message.contains(field), "{}", refusal.message);
        assert_eq!(desk.scheduler.dry_run(spec).unwrap_err().code, code, "a dry run says the same");
    };
    let none = |model: &str, count| Some(Accelerators { model: model.into(), count });
    refused(&|spec| spec.resources[0].accelerators = none("V100", 0), "INVALID_RESOURCES", "resources[0].accelerators");
    refused(&|spec| spec.resources[0].accelerators = none("", 1), "INVALID_RESOURCES", "resources[0].accelerators");
    refused(&|spec| spec.resources[0].cpus = quantity(MilliCpus(0)), "INVALID_RESOURCES", "resources[0].cpus");
    let memory = |amount| Some(Quantity { amount, or_more: false });
    refused(&|spec| spec.resources[0].memory = memory(Bytes::ZERO), "INVALID_RESOURCES", "resources[0].memory");
    refused(&|spec| spec.nodes = 0, "NOTHING_ASKED", "at least one machine");
    refused(&|spec| spec.nodes = u32::MAX, "TOO_MANY_NODES", "nodes is 4294967295");
    refused(
        &|spec| spec.checkpoint.as_mut().unwrap().interval = Interval::Every(Millis::ZERO),
        "INVALID_CHECKPOINT",
        "checkpoint.interval",
    );
    assert!(desk.scheduler.tables().jobs.is_empty());
}

#[test]
fn c_12_a_machine_with_a_model_and_no_accelerators_is_no_declaration() {
    let mut desk = plain();
    for (model, count) in [("V100", 0), ("", 1)] {
        let mut spec = cluster("odd", "aws/us-west-2", 4, "", "3.06");
        spec.machines[0].shape.accelerators = Some(Accelerators { model: model.into(), count });
        let Reply::Refused(refused) = desk.apply(Event::ClusterRegistered { spec }) else { panic!("it was taken") };
        assert_eq!(refused.code, "INVALID_SHAPE");
    }
    assert_eq!(desk.scheduler.fleet().len(), 1);
}

#[test]
fn c_12_a_job_without_accelerators_may_use_any_machine() {
    let mut cpu = cluster("cpu", "aws/us-east-1", 4, "", "0.40");
    cpu.machines[0].shape.accelerators = None;
    let desk = fleet([cluster("east", "aws/us-east-1", 4, "", "3.06"), cpu]);
    assert_eq!(offers(&desk, asking(|ask| ask.accelerators = None)), ["cpu/v100/on-demand", "east/v100/on-demand"]);
    let gpu = evaluate(&desk, job("train"));
    assert_eq!(gpu.rejections[0].detail.as_ref(), "asked for V100:1, has no accelerator");
}

#[test]
fn a_request_names_a_cluster_or_a_provider_a_region_and_a_zone() {
    let mut zoned = cluster("east", "aws/us-east-1", 4, "", "3.06");
    zoned.zone = Some("us-east-1a".into());
    let desk = fleet([zoned, cluster("aws-like", "gcp/us-central1", 4, "", "3.10")]);
    let place = |place: Option<&str>, region: Option<&str>, zone: Option<&str>| {
        let text = |text: Option<&str>| text.map(Into::into);
        let infra = Infra { cluster_or_provider: text(place), region: text(region), zone: text(zone) };
        offers(&desk, asking(|ask| ask.infra = infra))
    };
    let (east, other) = ("east/v100/on-demand", "aws-like/v100/on-demand");
    assert_eq!(place(None, None, None), [east, other]);
    assert_eq!(place(Some("east"), None, None), [east]);
    assert_eq!(place(Some("aws"), None, None), [east]);
    assert_eq!(place(Some("gcp"), Some("us-central1"), None), [other]);
    assert_eq!(place(None, None, Some("us-east-1a")), [east]);
    assert!(place(Some("aws"), Some("us-central1"), None).is_empty());
    assert!(place(None, None, Some("us-east-1b")).is_empty());
    assert!(place(Some("eas"), None, None).is_empty());
}

#[test]
fn a_shape_is_asked_for_by_its_providers_name_or_by_ours() {
    for known in ["p3.2xlarge", "v100"] {
        assert_eq!(offers(&plain(), asking(|ask| ask.instance_type = Some(known.into()))), ["east/v100/on-demand"]);
    }
}

fn observe(desk: &mut Desk, capacity: leeway_model::resources::CapacityType, rate: &str, currency: &str) -> Reply {
    let price = Price {
        rate: usd(rate),
        currency: currency.parse::<Currency>().unwrap(),
        observed: desk.now,
        source: Source::Feed,
    };
    desk.apply(Event::PricesObserved { prices: vec![PriceObservation { offer: offer("east", capacity), price }] })
}

fn spot_only() -> JobSpec {
    asking(|ask| ask.spot = SpotPolicy::Spot)
}

fn spot_rejections(desk: &Desk) -> Vec<(Rule, String)> {
    let rejections = evaluate(desk, spot_only()).rejections.into_iter();
    let spot = rejections.filter(|one| one.offer.capacity == Spot);
    spot.map(|one| (one.rule, one.detail.into_string())).collect()
}

#[test]
fn c_04_c_07_an_offer_without_a_usable_price_takes_nothing_and_says_why() {
    let mut desk = plain();
    let refused = observe(&mut desk, Spot, "1.00", "EUR");
    assert_eq!(refused, Reply::Observed { accepted: 0, rejected: vec![(0, PriceFault::UnknownCurrency)] });
    let text = "no usable price; the last of 1 was refused: UNKNOWN_CURRENCY";
    assert_eq!(spot_rejections(&desk), [(Rule::NoPrice, text.to_owned())]);
    let capacity = CapacityObservation { offer: offer("east", Reserved), available: Some(4) };
    desk.apply(Event::CapacityObserved { capacities: vec![capacity] });
    let all = evaluate(&desk, job("train"));
    let reserved = all.rejections.iter().find(|one| one.offer.capacity == Reserved).unwrap();
    assert_eq!((reserved.rule, reserved.detail.as_ref()), (Rule::NoPrice, "no price is known"));
    assert_eq!(all.candidates.len(), 1, "only what has a price");
    observe(&mut desk, Spot, "1.00", "USD");
    assert!(spot_rejections(&desk).is_empty());
}

#[test]
fn c_04_a_price_that_is_no_longer_declared_is_no_price() {
    let mut desk = fleet([cluster("east", "aws/us-east-1", 4, "1.00", "3.06")]);
    assert_eq!(offers(&desk, spot_only()), ["east/v100/spot"]);
    desk.apply(Event::ClusterRegistered { spec: cluster("east", "aws/us-east-1", 4, "", "3.06") });
    assert_eq!(spot_rejections(&desk), [(Rule::NoPrice, "no price is known".to_owned())]);
    assert!(desk.scheduler.choose(&spot_only()).places.is_empty());
}

#[test]
fn c_08_an_old_price_of_a_feed_is_stale_and_a_declared_one_is_not() {
    let mut desk = plain();
    observe(&mut desk, Spot, "1.00", "USD");
    desk.pass(Millis::from_hours(24));
    desk.apply(Event::Woke);
    assert!(spot_rejections(&desk).is_empty());
    desk.pass(Millis::from_secs(1));
    desk.apply(Event::Woke);
    let rejections = spot_rejections(&desk);
    assert_eq!(rejections[0].0, Rule::StalePrice);
    assert!(rejections[0].1.starts_with("the last price is ") && rejections[0].1.ends_with(" old"), "{rejections:?}");
    assert_eq!(offers(&desk, job("train")), ["east/v100/on-demand"]);
}

#[test]
fn c_09_an_empty_catalog_lets_jobs_wait_with_no_offers() {
    let mut desk = fleet([]);
    let id = desk.submit(job("train"));
    assert_eq!(desk.state(id), JobState::Pending);
    assert_eq!(desk.scheduler.reason(desk.job(id)).unwrap().code.as_ref(), "NO_OFFERS");
    let all = evaluate(&desk, job("train"));
    assert!(all.candidates.is_empty() && all.counts().is_empty());
    desk.apply(Event::ClusterRegistered { spec: cluster("east", "aws/us-east-1", 4, "", "3.06") });
    assert_eq!(desk.state(id), JobState::Starting);
}

#[test]
fn a_cluster_that_is_drained_or_unreachable_takes_no_new_run() {
    let mut desk = plain();
    desk.apply(Event::ClusterDrained { cluster: name("east") });
    check(&desk, job("train"), Rule::ClusterNotReady, "its cluster takes no new runs");
    desk.apply(Event::ClusterResumed { cluster: name("east") });
    assert_eq!(offers(&desk, job("train")), ["east/v100/on-demand"]);
    desk.apply(Event::ClusterReached { cluster: name("east"), reached: false });
    check(&desk, job("train"), Rule::ClusterNotReady, "its cluster takes no new runs");
}

#[test]
fn a_gang_needs_all_its_machines_at_once() {
    let mut desk = plain();
    let gang = |nodes| JobSpec { nodes, ..job("gang") };
    check(&desk, gang(5), Rule::NoCapacity, "asked for 5 machines, 4 free");
    desk.submit(gang(3));
    check(&desk, gang(2), Rule::NoCapacity, "asked for 2 machines, 1 free");
    assert_eq!(offers(&desk, gang(1)), ["east/v100/on-demand"]);
    let capacity = CapacityObservation { offer: offer("east", OnDemand), available: Some(3) };
    desk.apply(Event::CapacityObserved { capacities: vec![capacity] });
    check(&desk, gang(1), Rule::NoCapacity, "asked for 1 machines, 0 free");
}

#[test]
fn p_06_an_offer_without_capacity_cools_down_and_says_for_how_long() {
    let mut desk = plain();
    let id = desk.submit(job("train"));
    let run = desk.newest(id);
    desk.apply(Event::LaunchRefused { run, class: LaunchErrorClass::Capacity, message: "none left".into() });
    let all = evaluate(&desk, job("other"));
    assert_eq!(all.rejections[0].rule, Rule::CoolingDown);
    assert!(all.rejections[0].detail.starts_with("refused or lost a run; cools down until 2023-"));
    desk.pass(Millis::from_mins(5));
    assert_eq!(desk.state(id), JobState::Starting);
}

#[test]
fn a_job_does_not_start_where_its_bill_would_pass_its_own_cap() {
    let desk = plain();
    let capped = |most: &str| {
        let mut spec = job("train");
        spec.money.max_cost = Some(dollars(most));
        spec
    };
    check(&desk, capped("3.05"), Rule::MaxCost, "is expected to cost 3.06; max_cost is 3.05");
    assert_eq!(offers(&desk, capped("3.06")), ["east/v100/on-demand"]);
    let mut waiting = capped("3.06");
    waiting.money.value_per_hour = Some(usd("50"));
    assert_eq!(offers(&desk, waiting), ["east/v100/on-demand"], "waiting is no money of the budget");
}

#[test]
fn a_policy_that_uses_no_spot_says_so() {
    let desk = fleet([cluster("east", "aws/us-east-1", 4, "1.00", "")]);
    let spec = JobSpec { policy: Some(name("on-demand")), ..job("train") };
    check(&desk, spec, Rule::Policy, "the policy does not use this kind of capacity");
}

#[test]
fn c_19_where_nothing_fits_every_rule_is_counted_with_an_example() {
    let mut a100 = cluster("a100", "aws/us-east-1", 4, "1.50", "4.00");
    a100.machines[0].shape.accelerators = Some(Accelerators { model: "A100".into(), count: 1 });
    let desk = fleet([
        cluster("east", "aws/us-east-1", 1, "1.00", "3.06"),
        cluster("west", "aws/us-west-2", 4, "0.90", "3.06"),
        a100,
    ]);
    let mut spec = asking(|ask| {
        ask.infra.region = Some("us-east-1".into());
        ask.spot = SpotPolicy::Spot;
    });
    spec.nodes = 2;
    let counts: Vec<_> = evaluate(&desk, spec)
        .counts()
        .into_iter()
        .map(|count| (count.rule.code(), count.count, count.example.offer.to_string()))
        .collect();
    assert_eq!(
        counts,
        [
            ("ACCELERATOR", 2, "a100/v100/spot".to_owned()),
            ("PLACE", 2, "west/v100/spot".to_owned()),
            ("CAPACITY_TYPE", 1, "east/v100/on-demand".to_owned()),
            ("NO_CAPACITY", 1, "east/v100/spot".to_owned()),
        ]
    );
}

#[test]
fn c_19_the_alternative_that_came_nearest_says_why() {
    let other =
        ResourceRequest { accelerators: Some(Accelerators { model: "A100".into(), count: 1 }), ..Default::default() };
    let spot = ResourceRequest { spot: SpotPolicy::Spot, ..v100() };
    check(&plain(), among(vec![spot.clone(), other.clone()], false), Rule::CapacityType, "is on-demand");
    check(&plain(), among(vec![other, spot], false), Rule::CapacityType, "is on-demand");
}

#[test]
fn the_first_of_ordered_alternatives_with_any_place_wins_and_unordered_ones_go_by_the_bill() {
    let desk =
        fleet([cluster("east", "aws/us-east-1", 4, "", "3.06"), cluster("west", "aws/us-west-2", 4, "", "2.00")]);
    let at = |region: &str| {
        let mut request = v100();
        request.infra.region = Some(region.into());
        request
    };
    let (east, west) = ("east/v100/on-demand", "west/v100/on-demand");
    let resources = vec![at("eu-west-1"), at("us-east-1"), at("us-west-2")];
    assert_eq!(offers(&desk, among(resources.clone(), true)), [east, west]);
    assert_eq!(offers(&desk, among(resources.clone(), false)), [west, east]);
    let chosen = |ordered| desk.scheduler.choose(&among(resources.clone(), ordered)).places[0].ranked.offer.to_string();
    assert_eq!((chosen(true).as_str(), chosen(false).as_str()), (east, west));
}

#[test]
fn a_price_limit_of_one_alternative_does_not_bind_another() {
    let desk = plain();
    let limited = ResourceRequest { max_hourly_cost: Some(usd("1.00")), ..v100() };
    for ordered in [false, true] {
        let spec = among(vec![limited.clone(), v100()], ordered);
        assert_eq!(offers(&desk, spec.clone()), ["east/v100/on-demand"]);
        assert_eq!(desk.scheduler.choose(&spec).places.len(), 1);
    }
    check(
        &desk,
        among(vec![limited.clone(), limited], false),
        Rule::MaxHourlyCost,
        "costs 3.06 an hour; max_hourly_cost is 1.00",
    );
}

#[test]
fn a_gang_larger_than_any_offer_is_told_that_it_can_never_run() {
    let mut desk =
        fleet([cluster("east", "aws/us-east-1", 4, "", "3.06"), cluster("west", "aws/us-west-2", 2, "", "3.06")]);
    let of = |nodes: u32| JobSpec { nodes, ..job("train") };
    let id = desk.submit(of(9));
    let reason = desk.scheduler.reason(desk.job(id)).unwrap();
    assert_eq!(reason.code.as_ref(), "NO_OFFERS");
    assert!(
        reason.message.contains("needs 9 machines at once") && reason.message.contains("more than 4"),
        "{reason:?}"
    );
    let running = desk.submit(of(4));
    assert_eq!(desk.state(running), JobState::Starting);
    let later = desk.submit(of(3));
    assert_eq!(desk.scheduler.reason(desk.job(later)).unwrap().code.as_ref(), "NO_CAPACITY", "it only has to wait");
}

#[test]
fn a_job_that_only_its_hourly_limit_keeps_waiting_says_so_until_a_price_falls() {
    let mut desk = fleet([
        cluster("east", "aws/us-east-1", 1, "1.20", "3.06"),
        cluster("west", "aws/us-west-2", 1, "1.30", "3.06"),
    ]);
    let id = desk.submit(asking(|ask| ask.max_hourly_cost = Some(usd("1.00"))));
    let reason = desk.scheduler.reason(desk.job(id)).unwrap();
    assert_eq!(reason.code.as_ref(), "MAX_HOURLY_COST");
    let said = "every machine that fits costs more than its max_hourly_cost of 1.00; \
                the cheapest, east/v100/spot, costs 1.20 an hour";
    assert_eq!(reason.message.as_ref(), said);
    // One that is cheap enough and taken makes it a matter of capacity.
    observe(&mut desk, Spot, "0.90", "USD");
    assert_eq!(desk.state(id), JobState::Starting);
    let next = desk.submit(asking(|ask| ask.max_hourly_cost = Some(usd("1.00"))));
    assert_eq!(desk.scheduler.reason(desk.job(next)).unwrap().code.as_ref(), "NO_CAPACITY");
}

#[test]
fn a_job_that_spent_before_is_told_what_it_spent_beside_the_bill() {
    let mut desk = plain();
    let mut spec = job("train");
    spec.money.max_cost = Some(dollars("4.00"));
    let id = desk.submit(spec);
    let run = desk.newest(id);
    desk.up(run);
    desk.work(run, Millis::from_mins(30), 1);
    desk.gone(run);
    desk.pass(Millis::from_mins(1));
    let waits = desk.scheduler.explain(id).unwrap();
    assert_eq!(waits.reason.unwrap().code.as_ref(), "MAX_COST");
    let detail = waits.evaluation.unwrap().rejections[0].detail.clone();
    assert_eq!(detail.as_ref(), "is expected to cost 3.06 and 1.53 was spent; max_cost is 4.00");
}

#[test]
fn large_machines_are_found_among_any_number_of_small_ones() {
    let sized = |title: &str, cpus: u32, price: &str| {
        let mut spec = cluster(title, "aws/us-east-1", 2, "", price);
        spec.machines[0].shape.cpus = MilliCpus(cpus);
        spec
    };
    let small = (0..40).map(|number| sized(&format!("s{number}"), 4_000, "0.50"));
    let mut desk = fleet(small.chain([sized("large", 32_000, "2.00")]));
    let spec = asking(|ask| ask.cpus = Some(Quantity { amount: MilliCpus(16_000), or_more: true }));
    let found = desk.scheduler.choose(&spec);
    assert_eq!((found.places.len(), found.visited), (1, 1), "the small ones are not even looked at");
    // Declared anew with other machines, an offer is found under its new size only.
    desk.apply(Event::ClusterRegistered { spec: sized("s7", 64_000, "0.40") });
    desk.apply(Event::ClusterRegistered { spec: sized("large", 8_000, "2.00") });
    let found = desk.scheduler.choose(&spec);
    let names: Vec<_> = found.places.iter().map(|place| place.ranked.offer.to_string()).collect();
    assert_eq!(names, ["s7/v100/on-demand"]);
}

#[test]
fn a_job_that_waits_for_spot_starts_when_the_first_spot_price_of_its_kind_comes() {
    let mut desk = plain();
    let id = desk.submit(spot_only());
    assert_eq!(desk.state(id), JobState::Pending);
    observe(&mut desk, Spot, "1.00", "USD");
    assert_eq!(desk.state(id), JobState::Starting);
}

#[test]
fn a_shape_declared_anew_with_other_accelerators_is_found_under_those() {
    let mut desk = plain();
    let mut spec = cluster("east", "aws/us-east-1", 4, "", "3.06");
    spec.machines[0].shape.accelerators = Some(Accelerators { model: "A100".into(), count: 1 });
    desk.apply(Event::ClusterRegistered { spec });
    let a100 = asking(|ask| ask.accelerators = Some(Accelerators { model: "A100".into(), count: 1 }));
    assert_eq!(desk.scheduler.choose(&a100).places.len(), 1);
    check(&desk, job("train"), Rule::Accelerator, "asked for V100:1, has A100:1");
}
