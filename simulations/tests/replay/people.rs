//! What people and programs did happens again: cancels, failures, dependencies, and work that nobody saw the end of.
//! These histories are driven by hand through the engine.

use leeway_core::event::{Event, Phase, Submission};
use leeway_core::{Action, Config};
use leeway_engine::Engine;
use leeway_model::budget::{BudgetSpec, Period};
use leeway_model::job::{JobSpec, JobState, Progress};
use leeway_model::{InstallationId, JobId, Micros, Millis, Name, RunId, Timestamp};
use leeway_simulations::fleet::scenario::build::Choice;
use leeway_store::{DiskStore, Options};

use super::recorded::{folder, replay, store};
use super::worlds::{WORLD, cluster, job, named};

const START: Timestamp = Timestamp::from_millis(1_772_409_600_000);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A scheduler on a store, and hands to be its world.
struct Hands {
    engine: Engine<DiskStore, ()>,
    now: Timestamp,
    spec: JobSpec,
    launched: Vec<RunId>,
}

impl Hands {
    fn new(dir: &std::path::Path) -> Self {
        let text = WORLD.to_owned() + &cluster("east", "aws/us-east-1", 0.4, 4) + &job("one", "0s", "2h", "");
        let choice = Choice { policy: name("on-demand"), seed: 1, checked: false };
        let mut setup = named(&text).setup(&choice).unwrap();
        let mut config = Config::new(InstallationId(name("test")), name("on-demand"));
        config.lease.ttl = Millis::from_hours(1_000);
        (config.money.horizon, config.money.stop_reserve) = (Millis::from_mins(7), Millis::from_mins(3));
        let store = store(dir, Options::small());
        let (engine, _) = Engine::open(store, config, leeway_policies::all(), START).unwrap();
        let spec = setup.workload.0.next().unwrap().unwrap().spec;
        let mut hands = Self { engine, now: START, spec, launched: Vec::new() };
        hands.set_cap(10_000);
        hands.bring(Event::ClusterRegistered { spec: setup.clusters.remove(0).spec });
        hands
    }

    fn set_cap(&mut self, units: i64) {
        let (name, cap) = (name("all"), Micros::from_units(units));
        let spec = BudgetSpec { name: name.clone(), parent: None, cap, period: Period::Total, soft_limit: None };
        self.bring(Event::BudgetSet { spec, by: name });
    }

    fn bring(&mut self, event: Event) {
        self.engine.step(self.now, event, ()).unwrap();
        for released in self.engine.commit().unwrap() {
            for action in released.actions {
                if let Action::Launch(order) = action {
                    self.launched.push(order.run);
                }
            }
        }
    }

    /// Minutes pass, and the scheduler is woken when it wants to be.
    fn pass(&mut self, minutes: u64) {
        let end = self.now.after(Millis::from_mins(minutes));
        while let Some(at) = self.engine.next_wakeup().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.bring(Event::Woke);
        }
        self.now = end;
    }

    fn submit(&mut self, change: impl Fn(&mut JobSpec)) -> JobId {
        let mut spec = self.spec.clone();
        spec.money.budget = Some(name("all"));
        spec.time.estimate = Some(Millis::from_hours(5));
        change(&mut spec);
        self.bring(Event::JobsSubmitted { request: None, jobs: vec![Submission { spec, after: Vec::new() }] });
        JobId(self.engine.scheduler().tables().meta.jobs)
    }

    /// The newest launch gives a program that begins two minutes later.
    fn begin(&mut self) -> RunId {
        let run = *self.launched.last().unwrap();
        self.pass(1);
        self.bring(Event::RunLaunched { run, instances: Vec::new() });
        self.pass(1);
        self.bring(Event::PhaseReported { run, rank: 0, phase: Phase::Running { restored: None } });
        run
    }

    fn end(&mut self, run: RunId, exit_code: i32) {
        self.bring(Event::ExitReported { run, rank: 0, exit_code });
        self.bring(Event::InstancesGone { run });
    }
}

#[test]
fn a_program_that_failed_fails_again_after_the_same_work() {
    let dir = folder();
    let mut hands = Hands::new(&dir.path().join("s"));
    let job = hands.submit(|spec| spec.retry.user_failures = 1);
    let run = hands.begin();
    hands.pass(30);
    hands.end(run, 3);
    hands.pass(1);
    let again = hands.begin();
    assert_eq!((again.job, again.epoch), (job, 2));
    hands.pass(45);
    hands.end(again, 9);
    assert_eq!(hands.engine.scheduler().job(job).unwrap().state, JobState::Failed);
    drop(hands);
    let replayed = replay(&dir.path().join("s"), &[]);
    let ended = replayed.jobs()[0];
    assert_eq!((ended.state, ended.runs, replayed.history.estimated()), (JobState::Failed, 2, 0));
    let lengths: Vec<u64> =
        ended.stretches.iter().map(|one| one.to.since(one.started.unwrap()).as_millis() / 60_000).collect();
    assert_eq!(lengths, [30, 45], "{ended:?}");
    assert!(replayed.check.difference.unwrap().abs() < 0.01, "{:?}", replayed.check);
}

#[test]
fn a_failure_that_a_person_had_tried_again_does_not_come_back() {
    let dir = folder();
    let mut hands = Hands::new(&dir.path().join("s"));
    let job = hands.submit(|_| ());
    let run = hands.begin();
    hands.pass(30);
    hands.end(run, 3);
    assert_eq!(hands.engine.scheduler().job(job).unwrap().state, JobState::Failed);
    hands.bring(Event::JobRetried { job });
    hands.pass(1);
    let again = hands.begin();
    hands.pass(60);
    hands.end(again, 0);
    drop(hands);
    let replayed = replay(&dir.path().join("s"), &[]);
    let ended = replayed.jobs()[0];
    assert_eq!((ended.state, ended.runs), (JobState::Succeeded, 1));
    assert_eq!(ended.work, Millis::from_mins(60));
}

#[test]
fn a_cancel_comes_at_its_moment_and_those_who_wait_keep_waiting() {
    let dir = folder();
    let mut hands = Hands::new(&dir.path().join("s"));
    let first = hands.submit(|_| ());
    let run = hands.begin();
    let second = hands.submit(|spec| spec.depends_on = vec![first]);
    let third = hands.submit(|_| ());
    let beside = hands.begin();
    assert_eq!(beside.job, third);
    hands.pass(90);
    hands.bring(Event::JobCancelled { job: third, by: name("ann") });
    hands.end(beside, 143);
    hands.pass(60);
    hands.end(run, 0);
    hands.pass(1);
    let last = hands.begin();
    assert_eq!(last.job, second);
    hands.pass(20);
    hands.end(last, 0);
    drop(hands);
    let replayed = replay(&dir.path().join("s"), &[]);
    let jobs = replayed.jobs();
    assert_eq!(
        jobs.iter().map(|job| job.state).collect::<Vec<_>>(),
        [JobState::Succeeded, JobState::Succeeded, JobState::Cancelled]
    );
    assert!(jobs[1].stretches[0].from >= jobs[0].ended, "{jobs:?}");
    let cancelled = jobs[2].ended.since(START).as_millis() / 60_000;
    assert!((94..=96).contains(&cancelled), "{cancelled}");
    // Its work is what was expected, since nobody saw its end; the cost up to the cancel is known all the same.
    assert_eq!((replayed.history.estimated(), jobs[2].work), (1, Millis::from_hours(5)));
    assert!(replayed.check.difference.unwrap().abs() < 0.01, "{:?}", replayed.check);
}

#[test]
fn a_job_that_never_ended_goes_on_until_its_estimate_and_is_counted() {
    let dir = folder();
    let mut hands = Hands::new(&dir.path().join("s"));
    let job = hands.submit(|_| ());
    let run = hands.begin();
    let progress = Progress { step: 10, total: Some(40) };
    hands.pass(30);
    hands.bring(Event::LeaseRenewed { run, rank: 0, progress });
    // The next reading of the meter writes down how far it is.
    hands.pass(1);
    assert!(!hands.engine.scheduler().job(job).unwrap().state.is_terminal());
    drop(hands);
    let replayed = replay(&dir.path().join("s"), &[]);
    let (history, happened) = (&replayed.history, &replayed.happened);
    assert_eq!((history.estimated(), happened.ran.row.jobs, happened.ran.row.open), (1, 0, 1));
    assert!(happened.open_cost > Micros::ZERO && happened.ran.row.cost_micros == 0);
    assert_eq!(replayed.jobs()[0].state, JobState::Succeeded);
    assert_eq!(replayed.check.difference, None, "nothing that ended, so nothing to check by");
    let notes = history.notes(happened).join("; ");
    assert!(notes.contains("1 job never came to an end") && notes.contains("1 job had not ended"), "{notes}");
    assert!(history.work(job).unwrap().work >= Millis::from_mins(31), "no less than it did");
}

/// An hour on demand costs more than there is; the holds of the record tell that they paid for ten minutes at a time.
#[test]
fn a_small_budget_pays_for_as_long_as_it_did() {
    let dir = folder();
    let mut hands = Hands::new(&dir.path().join("s"));
    hands.set_cap(1);
    hands.submit(|_| ());
    let run = hands.begin();
    hands.pass(30);
    hands.end(run, 0);
    drop(hands);
    let replayed = replay(&dir.path().join("s"), &[]);
    assert_eq!(replayed.check.jobs, 1, "{:?}", replayed.of("on-demand").outcome.open_reasons);
    assert!(replayed.check.difference.unwrap().abs() < 0.01, "{:?}", replayed.check);
}
