//! A job does not take a dear place where a cheaper one only cools down, or is full of our own runs, and waiting pays.

mod support;

use leeway_core::event::Event;
use leeway_model::job::{JobSpec, JobState, Progress};
use leeway_model::resources::CapacityType;
use leeway_model::run::LaunchErrorClass;
use leeway_model::{JobId, Millis};
use support::{Desk, cluster, job, name, offer};

/// A cheap market and a dear one, `times` as dear, without anything between them.
fn desk(dear: &str) -> Desk {
    let mut desk = Desk::empty();
    desk.apply(Event::ClusterRegistered { spec: cluster("cheap", "aws/us-east-1", 4, "1.00", "") });
    desk.apply(Event::ClusterRegistered { spec: cluster("dear", "aws/us-west-2", 4, "", dear) });
    desk.price("cheap", "1.00");
    desk.budget("team", None, "100000");
    desk
}

/// The job's run on the cheap market is taken back, and the market cools down.
fn interrupted(desk: &mut Desk, id: JobId) {
    let run = desk.newest(id);
    assert_eq!(desk.run(run).offer, offer("cheap", CapacityType::Spot));
    desk.up(run);
    desk.work(run, Millis::from_mins(1), 10);
    desk.gone(run);
}

fn runs(desk: &Desk, id: JobId) -> Vec<String> {
    desk.scheduler.runs_of(id).map(|run| run.offer.cluster.to_string()).collect()
}

fn code(desk: &Desk, id: JobId) -> String {
    desk.job(id).reason.as_ref().map_or_else(String::new, |reason| reason.code.to_string())
}

fn refuse(desk: &mut Desk, id: JobId) {
    let run = desk.newest(id);
    desk.apply(Event::LaunchRefused { run, class: LaunchErrorClass::Capacity, message: "none".into() });
}

#[test]
fn a_job_waits_for_a_far_cheaper_place_says_until_when_and_goes_back_there() {
    let mut desk = desk("3600");
    let id = desk.submit(job("train"));
    interrupted(&mut desk, id);
    desk.pass(Millis::from_mins(1));
    assert_eq!((desk.state(id), code(&desk, id).as_str()), (JobState::Pending, "WAITS_FOR_CHEAPER"));
    let told = desk.job(id).reason.clone().unwrap().message;
    for part in ["waits until 2023-11-14T22:", "cheap/v100/spot", "dear/v100/on-demand", "value_per_hour"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let evaluation = desk.scheduler.explain(id).unwrap().evaluation.unwrap();
    let hidden = evaluation.rejections.iter().find(|one| one.offer.cluster == name("cheap")).unwrap();
    assert!(hidden.detail.contains("cools down until 2023-11-14T22:"), "{hidden:?}");
    // A job that is only asked about hears the same.
    let asked = desk.scheduler.dry_run(job("other")).unwrap();
    assert_eq!(asked.reason.unwrap().code.as_ref(), "WAITS_FOR_CHEAPER");
    assert_eq!(asked.candidates.len(), 1);

    desk.pass(Millis::from_mins(10));
    assert_eq!(runs(&desk, id), ["cheap", "cheap"]);
}

#[test]
fn on_demand_at_a_few_times_the_spot_price_is_taken_at_once() {
    let mut desk = desk("3.5");
    let id = desk.submit(job("train"));
    interrupted(&mut desk, id);
    assert_eq!(runs(&desk, id), ["cheap", "dear"]);
    let decision = desk.scheduler.tables().decisions.get(&desk.newest(id)).unwrap();
    let passed = &decision.rejected.iter().find(|one| one.example.offer.cluster == name("cheap")).unwrap().example;
    assert!(passed.detail.contains("cools down until"), "the decision names what it passed over: {passed:?}");
    assert!(desk.scheduler.dry_run(job("other")).unwrap().reason.is_none());
}

#[test]
fn a_job_that_says_what_an_hour_is_worth_waits_where_that_is_cheaper() {
    // Five minutes of it save 3,599 dollars.
    for (value, places) in [("100000", &["cheap", "dear"][..]), ("10", &["cheap"])] {
        let mut desk = desk("3600");
        let id = desk.submit(valued("train", value));
        interrupted(&mut desk, id);
        assert_eq!(runs(&desk, id), places, "{value} an hour");
    }
}

#[test]
fn a_place_that_refuses_again_after_it_cooled_down_has_proved_gone() {
    let mut desk = desk("3600");
    let id = desk.submit(job("train"));
    interrupted(&mut desk, id);
    let other = desk.submit(job("other"));
    desk.pass(Millis::from_mins(6));
    assert_eq!((runs(&desk, id).len(), runs(&desk, other).len()), (2, 1), "both try it again");
    refuse(&mut desk, id);
    refuse(&mut desk, other);
    desk.pass(Millis::from_mins(1));
    assert_eq!(runs(&desk, id), ["cheap", "cheap", "dear"]);
    let late = desk.submit(job("late"));
    assert_eq!(runs(&desk, late), ["dear"], "others do not wait for it either");
}

#[test]
fn a_first_refusal_is_worth_a_wait_for_others_and_a_second_try_for_nobody() {
    let mut desk = desk("3600");
    let first = desk.submit(job("first"));
    refuse(&mut desk, first);
    desk.pass(Millis::from_mins(1));
    assert_eq!(runs(&desk, first), ["cheap", "dear"], "it has tried");
    let second = desk.submit(job("second"));
    assert_eq!(code(&desk, second), "WAITS_FOR_CHEAPER");
    desk.pass(Millis::from_mins(5));
    assert_eq!(runs(&desk, second), ["cheap"]);
}

#[test]
fn nobody_waits_past_the_last_call_of_a_deadline() {
    let (mut waited, mut went) = (0, 0);
    for minutes in (80..160).step_by(5) {
        let mut desk = desk("3600");
        let mut spec: JobSpec = job("train");
        let deadline = desk.now.after(Millis::from_mins(minutes));
        spec.time.deadline = Some(deadline);
        let id = desk.submit(spec);
        if runs(&desk, id) == ["cheap"] {
            interrupted(&mut desk, id);
        }
        waited += u32::from(code(&desk, id) == "WAITS_FOR_CHEAPER");
        desk.pass(Millis::from_mins(20));
        let run = desk.run(desk.newest(id));
        if run.offer.cluster == name("dear") {
            went += 1;
            // An hour of work, three minutes until it begins, and one more change of place.
            assert!(run.placed <= deadline.before(Millis::from_mins(66)), "{minutes}: {} {deadline}", run.placed);
        }
    }
    assert!(waited > 0 && went > 0, "{waited} {went}");
}

#[test]
fn a_restart_changes_nothing_of_whom_a_job_waits_for() {
    let mut desk = desk("3600");
    let first = desk.submit(job("first"));
    refuse(&mut desk, first);
    desk.pass(Millis::from_mins(6));
    let second = desk.submit(job("second"));
    refuse(&mut desk, second);
    desk.restart(|_| (), |_| ());
    let late = desk.submit(job("late"));
    assert_eq!(runs(&desk, late), ["dear"], "the place has proved gone before the restart");
}

#[test]
fn a_setback_on_ones_own_machine_is_waited_out_too() {
    let mut desk = Desk::empty();
    desk.apply(Event::ClusterRegistered { spec: cluster("own", "onprem/here", 1, "", "0.01") });
    desk.apply(Event::ClusterRegistered { spec: cluster("dear", "aws/us-west-2", 4, "", "36") });
    desk.budget("team", None, "100000");
    let id = desk.submit(job("train"));
    let run = desk.newest(id);
    desk.up(run);
    desk.gone(run);
    assert_eq!(code(&desk, id), "WAITS_FOR_CHEAPER");
    desk.pass(Millis::from_mins(1));
    assert_eq!(runs(&desk, id), ["own", "own"]);
}

fn valued(title: &str, value: &str) -> JobSpec {
    let mut spec = job(title);
    spec.money.value_per_hour = Some(support::usd(value));
    spec
}

/// A cheap market full of jobs of an hour that began together, and a dear place with room.
fn full(dear: &str) -> (Desk, Vec<JobId>) {
    let mut desk = desk(dear);
    let holders: Vec<JobId> = (0..4).map(|number| desk.submit(job(&format!("holder-{number}")))).collect();
    for id in &holders {
        assert_eq!(runs(&desk, *id), ["cheap"]);
        let run = desk.newest(*id);
        desk.up(run);
    }
    (desk, holders)
}

/// Time passes while all these jobs work.
fn work(desk: &mut Desk, jobs: &[JobId], minutes: u64) {
    for _ in 0..minutes * 4 {
        desk.pass(Millis::from_secs(15));
        for id in jobs {
            let run = desk.newest(*id);
            desk.apply(Event::LeaseRenewed { run, rank: 0, progress: Progress::default() });
        }
    }
}

/// A job's program ends well, and its machine is given back.
fn done(desk: &mut Desk, id: JobId) {
    let run = desk.newest(id);
    desk.exit(run, 0);
    desk.gone(run);
}

#[test]
fn a_full_place_is_waited_for_where_an_hour_is_worth_less_than_it_saves() {
    // An hour's wait for what saves two dollars.
    for (value, waits) in [("0.5", true), ("5", false)] {
        let (mut desk, holders) = full("3.06");
        let id = desk.submit(valued("late", value));
        assert_eq!(runs(&desk, id).is_empty(), waits, "{value} an hour");
        if !waits {
            continue;
        }
        assert_eq!(code(&desk, id), "WAITS_FOR_MACHINES");
        let told = desk.job(id).reason.clone().unwrap().message;
        for part in ["cheap/v100/spot", "are expected to end at 2023-11-14T23:", "dear/v100/on-demand"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let asked = desk.scheduler.dry_run(valued("asked", value)).unwrap();
        assert_eq!(asked.reason.unwrap().code.as_ref(), "WAITS_FOR_MACHINES", "a dry run says the same");
        // Sooner than it seemed, and it is there at once.
        work(&mut desk, &holders, 2);
        done(&mut desk, holders[2]);
        assert_eq!(runs(&desk, id), ["cheap"]);
    }
}

#[test]
fn machines_that_others_wait_for_are_theirs() {
    // The first four are promised a machine in an hour; the fifth would have to wait for what nobody knows the end of.
    let (mut desk, _) = full("3.06");
    let late: Vec<JobId> = (0..5).map(|number| desk.submit(valued(&format!("late-{number}"), "0.5"))).collect();
    let waiting = late.iter().filter(|id| code(&desk, **id) == "WAITS_FOR_MACHINES").count();
    assert_eq!(waiting, 4);
    assert_eq!(runs(&desk, late[4]), ["dear"]);
}

#[test]
fn nobody_waits_for_longer_in_all_than_the_wait_is_worth() {
    let (mut desk, holders) = full("3.06");
    let id = desk.submit(valued("late", "0.5"));
    assert_eq!(code(&desk, id), "WAITS_FOR_MACHINES");
    // Nobody ends. What it saves is worth four hours of waiting, whatever is still promised.
    let mut waited = 0;
    while runs(&desk, id).is_empty() && waited < 24 * 60 {
        work(&mut desk, &holders, 1);
        waited += 1;
    }
    assert_eq!(runs(&desk, id), ["dear"]);
    assert!((120..=250).contains(&waited), "{waited} minutes");
}

#[test]
fn without_a_value_of_time_only_a_far_cheaper_full_place_is_waited_for_and_not_for_long() {
    let (mut desk, _) = full("3.06");
    let id = desk.submit(job("late"));
    assert_eq!(runs(&desk, id), ["dear"], "three times as dear is not far");
    let (mut desk, _) = full("36");
    let id = desk.submit(job("late"));
    assert!(runs(&desk, id).is_empty() || runs(&desk, id) == ["dear"]);
    let mut long = job("long");
    long.time.estimate = Some(Millis::from_hours(20));
    let long = desk.submit(long);
    assert_eq!(code(&desk, long), "WAITS_FOR_MACHINES", "an hour is little beside its own twenty");
}

#[test]
fn other_policies_take_what_they_can_have() {
    let (mut desk, _) = full("36");
    let mut spec = valued("late", "0.01");
    spec.policy = Some(name("cheapest"));
    let id = desk.submit(spec);
    assert_eq!(runs(&desk, id), ["dear"]);
}

#[test]
fn whoever_waits_for_machines_can_be_cancelled_and_is_no_longer_in_the_way() {
    let (mut desk, holders) = full("3.06");
    let first = desk.submit(valued("first", "0.5"));
    let second = desk.submit(valued("second", "0.5"));
    desk.apply(Event::JobCancelled { job: first, by: name("ada") });
    done(&mut desk, holders[0]);
    assert_eq!(runs(&desk, second), ["cheap"]);
    assert!(runs(&desk, first).is_empty());
}

#[test]
fn a_restart_waits_for_the_same() {
    let (mut desk, holders) = full("3.06");
    let id = desk.submit(valued("late", "0.5"));
    desk.restart(|_| (), |_| ());
    desk.pass(Millis::from_mins(1));
    assert_eq!(code(&desk, id), "WAITS_FOR_MACHINES");
    assert!(desk.job(id).reason.clone().unwrap().message.contains("are expected to end at 2023-11-14T23:"));
    done(&mut desk, holders[1]);
    assert_eq!(runs(&desk, id), ["cheap"]);
}
