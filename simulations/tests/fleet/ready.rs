//! The scenarios that come with the program, shortened, under all of their policies.

use leeway_model::Micros;
use leeway_simulations::fleet::scenario::{Named, READY};
use leeway_simulations::fleet::study::{self, Ran};

use super::worlds;

/// Long enough for something of what the scenario is about, short enough for a debug build.
fn length(name: &str) -> &'static str {
    match name {
        "multi-region-egress" => "4d",
        "cluster-month" => "1d 12h",
        "mass-reclaim" => "2d 8h",
        _ => "3d 4h",
    }
}

fn shortened(name: &str) -> Named {
    // Jobs of days that arrive last must still be able to end.
    let settings = [("length".to_owned(), length(name).to_owned()), ("limit".to_owned(), "60d".to_owned())];
    Named::read_with(name, &settings).unwrap()
}

fn accounts_agree(name: &str, ran: &Ran, arrived: u64) {
    let (row, outcome) = (&ran.row, &ran.outcome);
    let what = format!("{name} under {} with seed {}", row.policy, row.seed);
    assert!(row.complete && row.open == 0, "{what}: {} left over: {:?}", row.open, outcome.open_states);
    assert!(arrived > 0 && row.jobs + row.open + row.refused == arrived, "{what}: {row:?}, of {arrived}");
    assert_eq!(ran.jobs.len() as u64, row.jobs, "{what}: every job is told of once");
    assert_eq!((row.failed, row.overrun_micros), (0, 0), "{what}: {:?}", outcome.totals.failures);
    let sum = |amounts: &mut dyn Iterator<Item = Micros>| amounts.fold(Micros::ZERO, Micros::saturating_add);
    let costs = sum(&mut ran.jobs.iter().map(|job| job.cost));
    let roots = || outcome.budgets.iter().filter(|budget| budget.parent.is_none());
    let posted = sum(&mut roots().map(|budget| budget.posted));
    assert_eq!((costs, posted), (row.cost(), row.cost()), "{what}: the ledger holds what the jobs cost");
    assert!(row.cost() > Micros::ZERO, "{what}: machines cost something");
    for budget in &outcome.budgets {
        assert!(budget.posted <= budget.cap && budget.held == Micros::ZERO, "{what}: {budget:?}");
        assert_eq!(budget.overrun, Micros::ZERO, "{what}: {budget:?}");
    }
    let cap = sum(&mut roots().map(|budget| budget.cap));
    for pair in outcome.samples.windows(2) {
        assert!(pair[0].at <= pair[1].at && pair[0].spent <= pair[1].spent && pair[1].spent <= cap, "{what}: {pair:?}");
    }
    let by_team: u64 = outcome.totals.by_team.values().map(|sums| sums.jobs).sum();
    assert_eq!(by_team, row.jobs, "{what}: every job is of one team");
}

/// What a policy cannot choose of a job.
fn given(ran: &Ran) -> Vec<String> {
    let mut jobs: Vec<_> = ran.jobs.iter().collect();
    jobs.sort_by_key(|job| job.job);
    let one = |job: &&leeway_simulations::fleet::Ended| {
        format!("{} {} {} {} {} {:?}", job.name, job.team, job.submitted, job.work, job.nodes, job.deadline)
    };
    jobs.iter().map(one).collect()
}

#[test]
fn every_ready_scenario_ends_with_all_accounts_in_order_and_the_same_arrivals_for_all_policies() {
    for (name, _) in READY {
        let scenario = shortened(name);
        let policies = scenario.scenario.policies.clone();
        let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
        let arrived = worlds::arrivals(&scenario, 1);
        let mut plan = worlds::plan(scenario, &policies, &[1]);
        plan.threads = 2;
        let all = study::study(&plan, &|_| true, &|_| {}).unwrap();
        assert_eq!(all.len(), policies.len());
        for ran in &all {
            accounts_agree(name, ran, arrived);
            assert_eq!(given(ran), given(&all[0]), "{name}: {} met other jobs", ran.row.policy);
        }
    }
}

#[test]
fn ready_scenarios_say_what_they_are_and_name_policies_that_there_are() {
    let known = leeway_policies::all();
    for (name, _) in READY {
        let scenario = Named::read(name).unwrap().scenario;
        assert!(scenario.about.ends_with('.') && scenario.repetitions > 1, "{name}");
        for policy in &scenario.policies {
            assert!(known.get(&policy.parse().unwrap()).is_some(), "{name}: {policy}");
        }
    }
}
