//! What operators ask of clusters, and what people are told when nothing can be had.

mod support;

use leeway_core::event::Event;
use leeway_core::reply::Reply;
use leeway_model::budget::BudgetSpec;
use leeway_model::decision::Rule;
use leeway_model::job::JobState;
use leeway_model::resources::Accelerators;
use leeway_model::{JobId, Millis};
use support::{Desk, dollars, job, name};

fn refusal(reply: Reply) -> (&'static str, String) {
    match reply {
        Reply::Refused(refused) => (refused.code, refused.message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_08_a_cluster_in_use_is_not_removed_and_one_that_drains_takes_nothing_new() {
    let mut desk = Desk::new();
    let id = desk.submit(job("train"));
    let run = desk.newest(id);
    desk.up(run);
    assert_eq!(desk.run(run).offer.cluster, name("west"));
    let (code, message) = refusal(desk.apply(Event::ClusterRemoved { cluster: name("west") }));
    assert_eq!(code, "CLUSTER_IN_USE");
    assert!(message.contains("j-1-r1"), "it names its users: {message}");
    assert_eq!(desk.apply(Event::ClusterDrained { cluster: name("west") }), Reply::Done);
    let other = desk.submit(job("next"));
    assert_eq!(desk.run(desk.newest(other)).offer.cluster, name("east"), "the cheaper one takes nothing new");
    assert_eq!(desk.state(id), JobState::Running, "what runs there goes on");
    desk.exit(run, 0);
    desk.gone(run);
    assert_eq!(desk.apply(Event::ClusterRemoved { cluster: name("west") }), Reply::Done);
    assert_eq!(refusal(desk.apply(Event::ClusterRemoved { cluster: name("west") })).0, "NOT_FOUND");
}

#[test]
fn c_19_when_nothing_is_feasible_every_rule_is_told_with_its_count() {
    let mut desk = Desk::new();
    let mut spec = job("train");
    spec.resources[0].accelerators = Some(Accelerators { model: "H100".into(), count: 8 });
    let id = desk.submit(spec);
    desk.pass(Millis::from_secs(1));
    let told = desk.scheduler.explain(id).unwrap();
    assert_eq!(told.reason.unwrap().code.as_ref(), "NO_OFFERS");
    let evaluation = told.evaluation.unwrap();
    assert!(evaluation.candidates.is_empty());
    let counts: Vec<_> = evaluation.counts().into_iter().map(|count| (count.rule, count.count)).collect();
    assert_eq!(counts, [(Rule::Accelerator, 4)], "two clusters, each with spot and on-demand");
    desk.apply(Event::ClusterDrained { cluster: name("east") });
    let fits = desk.scheduler.dry_run(job("other")).unwrap();
    let counts: Vec<_> = fits.counts().into_iter().map(|count| (count.rule, count.count)).collect();
    assert_eq!((fits.candidates.len(), counts), (2, vec![(Rule::ClusterNotReady, 2)]));
    assert_eq!(desk.scheduler.tables().jobs.len(), 1, "a dry run submits nothing: {:?}", JobId(2));
}

#[test]
fn a_soft_limit_above_the_cap_is_refused_with_both_figures() {
    let mut desk = Desk::new();
    let spec = BudgetSpec {
        name: name("small"),
        parent: None,
        cap: dollars("5"),
        period: Default::default(),
        soft_limit: Some(dollars("50")),
    };
    let (code, message) = refusal(desk.apply(Event::BudgetSet { spec, by: name("ops") }));
    assert_eq!(code, "SOFT_LIMIT_ABOVE_CAP");
    assert!(message.contains("50.00") && message.contains("5.00"), "{message}");
    assert!(!desk.scheduler.tables().budgets.contains(&name("small")));
}
