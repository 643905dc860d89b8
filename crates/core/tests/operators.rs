//! What operators ask of clusters, and what people are told when nothing can be had.

mod support;

use leeway_core::event::Event;
use leeway_core::reply::Reply;
use leeway_model::budget::BudgetSpec;
use leeway_model::decision::Rule;
use leeway_model::job::{JobState, Sealed};
use leeway_model::notify::Endpoint;
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
    let reason = told.reason.unwrap();
    assert_eq!(reason.code.as_ref(), "NO_OFFERS");
    assert_eq!(
        reason.message.as_ref(),
        "no offer fits what the job asks for; refused are by accelerator 4; 'leeway offers' lists what there is"
    );
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

#[test]
fn a_refusal_is_told_once_an_hour_and_again_when_the_budget_was_set_or_froze() {
    let mut desk = Desk::new();
    desk.apply(Event::EndpointSet {
        endpoint: Endpoint {
            name: name("ops"),
            url: "https://ops.example/".into(),
            secret: Sealed([].into()),
            types: vec!["leeway.budget.admission_denied".into()],
            disabled: None,
            last_success: None,
            failing_since: None,
            failures: 0,
        },
    });
    let told = |desk: &Desk| desk.scheduler.tables().meta.notifications;
    let ask = |desk: &mut Desk, title: &str| {
        let mut spec = job(title);
        spec.money.budget = Some(name("small"));
        let id = desk.submit(spec);
        desk.pass(Millis::from_secs(1));
        id
    };
    desk.budget("small", None, "0.01");
    let first = ask(&mut desk, "first");
    assert_eq!((desk.state(first), told(&desk)), (JobState::Pending, 1), "{:?}", desk.log);
    ask(&mut desk, "second");
    assert_eq!(told(&desk), 1, "at most once an hour");

    desk.budget("small", None, "1000");
    assert_eq!(desk.state(first), JobState::Starting);
    desk.budget("small", None, "0.01");
    assert!(desk.scheduler.tables().budgets.get(&name("small")).unwrap().frozen, "below what is held");
    ask(&mut desk, "third");
    assert_eq!(told(&desk), 2, "frozen again: {:?}", desk.log);
    ask(&mut desk, "fourth");
    assert_eq!(told(&desk), 2);

    desk.budget("small", None, "1000");
    desk.budget("small", None, "0.02");
    ask(&mut desk, "fifth");
    assert_eq!(told(&desk), 3, "thawed and frozen within the hour");
    desk.pass(Millis::from_hours(2));
    ask(&mut desk, "sixth");
    assert!(told(&desk) > 3, "an hour later it is told again");
}

#[test]
fn a_dry_run_says_of_each_place_whether_the_money_is_there_in_the_words_of_a_submission() {
    let mut desk = Desk::new();
    desk.budget("small", None, "0.01");
    let ask = |desk: &Desk, change: &dyn Fn(&mut leeway_model::job::JobSpec)| {
        let mut spec = job("train");
        change(&mut spec);
        desk.scheduler.dry_run(spec).unwrap()
    };
    let fits = ask(&desk, &|_| ());
    assert_eq!((fits.holds.len(), fits.candidates.len(), fits.reason.clone()), (4, 4, None));
    let promised = *fits.holds[0].as_ref().unwrap();
    let id = desk.submit(job("train"));
    let decision = desk.scheduler.tables().decisions.get(&desk.newest(id)).unwrap();
    assert_eq!((decision.held, &decision.chosen.offer), (promised, &fits.candidates[0].offer));

    let poor = |spec: &mut leeway_model::job::JobSpec| spec.money.budget = Some(name("small"));
    let refused = ask(&desk, &poor);
    assert!(refused.holds.iter().all(Result::is_err), "{:?}", refused.holds);
    let mut spec = job("poor");
    poor(&mut spec);
    let id = desk.submit(spec);
    assert_eq!(refused.reason, desk.job(id).reason.clone(), "the same as a submission is told");
    assert_eq!(refused.reason.unwrap().code.as_ref(), "BUDGET_EXCEEDED");

    // A bill that max_cost covers, and a hold that it does not.
    let bill = fits.candidates[0].bill.total();
    let capped = ask(&desk, &|spec| spec.money.max_cost = Some(bill));
    let told = capped.holds[0].as_ref().unwrap_err().to_string();
    assert!(told.contains("raise max_cost"), "{told}");
    let mut spec = job("capped");
    spec.money.max_cost = Some(bill);
    let id = desk.submit(spec);
    assert_eq!(capped.reason, desk.job(id).reason.clone());
    assert_eq!(capped.reason.unwrap().code.as_ref(), "MAX_COST");
}
