//! Decide, commit, act: what the engine promises about durability.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a failed test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leeway_core::event::{Event, Submission};
use leeway_core::{Action, Config, Reply};
use leeway_engine::{Engine, Error};
use leeway_model::budget::BudgetSpec;
use leeway_model::cluster::ClusterSpec;
use leeway_model::job::{JobSpec, JobState};
use leeway_model::{InstallationId, JobId, Micros, Name, Rate, Timestamp};
use leeway_store::{DiskStore, Fault, FaultyStore, Identity, MemoryStore, Options, Step, Store};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn config() -> Config {
    Config::new(InstallationId(name("test")), name("whole-bill"))
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + secs * 1_000)
}

fn open<S: Store>(store: S, secs: i64) -> (Engine<S, u32>, Vec<Action>) {
    Engine::open(store, config(), leeway_policies::all(), at(secs)).unwrap()
}

fn spec(title: &str) -> JobSpec {
    JobSpec {
        name: title.parse().unwrap(),
        owner: name("ada"),
        nodes: 1,
        resources: vec![Default::default()],
        ordered: false,
        priority: 0,
        program: Default::default(),
        money: leeway_model::job::MoneyTerms { budget: Some(name("team")), ..Default::default() },
        time: Default::default(),
        data: vec![],
        outputs: None,
        checkpoint: None,
        retry: Default::default(),
        depends_on: vec![],
        policy: None,
        labels: Default::default(),
    }
}

fn submit(title: &str) -> Event {
    Event::JobsSubmitted { request: None, jobs: vec![Submission { spec: spec(title), after: vec![] }] }
}

fn cluster() -> ClusterSpec {
    use leeway_model::resources::MachineShape;
    ClusterSpec {
        name: name("here"),
        driver: name("local"),
        region: "local/here".parse().unwrap(),
        zone: None,
        machines: vec![leeway_model::cluster::Machines {
            shape: MachineShape {
                name: name("small"),
                instance_type: "small".into(),
                cpus: leeway_model::resources::MilliCpus(1_000),
                memory: leeway_model::Bytes::from_gib(1),
                accelerators: None,
                disk: leeway_model::Bytes::from_gb(10),
            },
            count: Some(2),
            on_demand: Some(Rate::from_micros(1_000_000)),
            spot: None,
            reserved: None,
        }],
        checkpoints: "memory:".into(),
        labels: Default::default(),
    }
}

/// A cluster of two machines and a budget.
fn set_up<S: Store>(engine: &mut Engine<S, u32>) {
    let budget = BudgetSpec {
        name: name("team"),
        parent: None,
        cap: Micros::from_units(100),
        period: Default::default(),
        soft_limit: None,
    };
    engine.step(at(0), Event::BudgetSet { spec: budget, by: name("ops") }, 0).unwrap();
    engine.step(at(0), Event::ClusterRegistered { spec: cluster() }, 0).unwrap();
    engine.commit().unwrap();
}

#[test]
fn nothing_is_released_before_the_flush_and_one_flush_serves_many_steps() {
    let flushes = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counter = flushes.clone();
    let store = FaultyStore::new(MemoryStore::new(), move |step: Step| {
        if matches!(step, Step::Flush { .. }) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        Fault::None
    });
    let (mut engine, _) = open(store, 0);
    set_up(&mut engine);
    let before = flushes.load(Ordering::Relaxed);
    for tag in 1..=64 {
        engine.step(at(1), submit("train"), tag).unwrap();
    }
    let released = engine.commit().unwrap();
    assert_eq!(released.len(), 64);
    assert_eq!(released.iter().map(|step| step.tag).collect::<Vec<_>>(), (1..=64).collect::<Vec<_>>());
    assert_eq!(flushes.load(Ordering::Relaxed) - before, 1);
    let launches = released.iter().flat_map(|step| &step.actions).filter(|a| matches!(a, Action::Launch(_))).count();
    assert_eq!(launches, 2, "two machines, two launches");
}

#[test]
fn s_01_a_restart_has_all_that_was_committed_and_nothing_else_and_launches_again_under_the_same_token() {
    let (mut engine, _) = open(MemoryStore::new(), 0);
    set_up(&mut engine);
    engine.step(at(1), submit("kept"), 1).unwrap();
    engine.commit().unwrap();
    engine.step(at(2), submit("lost"), 2).unwrap();
    let store = engine.into_store().crash();
    let (engine, again) = open(store, 10);
    let jobs: Vec<_> = engine.scheduler().tables().jobs.values().map(|job| (job.id, job.state)).collect();
    assert_eq!(jobs, [(JobId(1), JobState::Starting)]);
    match &again[..] {
        [Action::Launch(order)] => assert_eq!(order.run.to_string(), "j-1-r1"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn s_09_after_a_failed_flush_nothing_is_released_and_nothing_more_is_taken() {
    let broken = Arc::new(AtomicBool::new(false));
    let switch = broken.clone();
    let store = FaultyStore::new(MemoryStore::new(), move |step: Step| {
        if matches!(step, Step::Flush { .. }) && switch.load(Ordering::Relaxed) { Fault::Fail } else { Fault::None }
    });
    let (mut engine, _) = open(store, 0);
    set_up(&mut engine);
    broken.store(true, Ordering::Relaxed);
    engine.step(at(1), submit("train"), 1).unwrap();
    assert!(matches!(engine.commit(), Err(Error::Store(_))));
    broken.store(false, Ordering::Relaxed);
    assert!(matches!(engine.commit(), Err(Error::Failed)), "a flush is never tried again as if the data were safe");
    assert!(matches!(engine.step(at(2), Event::Woke, 2), Err(Error::Failed)));
}

#[test]
fn s_08_a_full_disk_refuses_new_work_whole_and_still_takes_what_ends_work() {
    use leeway_store::files::faulty::FaultyFiles;
    let dir = tempfile::tempdir().unwrap();
    let files = FaultyFiles::new();
    let options = Options { files: Arc::new(files.clone()), reserve_bytes: 256 << 10, ..Options::small() };
    let (mut engine, _) = open(DiskStore::open_or_init(dir.path(), identity(), options).unwrap(), 0);
    set_up(&mut engine);
    engine.step(at(1), submit("first"), 1).unwrap();
    engine.commit().unwrap();
    files.set_quota(Some(0));
    let mut taken = 0;
    loop {
        match engine.step(at(2), submit("more"), 2) {
            Ok(()) => {
                engine.commit().unwrap();
                taken += 1;
                assert!(taken < 100, "a full disk must refuse sooner or later");
            }
            Err(Error::DiskFull) => break,
            Err(other) => panic!("{other}"),
        }
    }
    let jobs = engine.scheduler().tables().jobs.len();
    assert_eq!(jobs, 1 + taken, "what was refused is not there");
    engine.step(at(3), Event::JobCancelled { job: JobId(1), by: name("ada") }, 3).unwrap();
    let released = engine.commit().unwrap();
    assert!(
        released.iter().flat_map(|step| &step.actions).any(|action| matches!(action, Action::Reply(Reply::Job(_))))
    );
    files.set_quota(None);
    engine.step(at(10), submit("again"), 4).unwrap();
    engine.commit().unwrap();
    assert_eq!(engine.scheduler().tables().jobs.len(), jobs + 1);
}

#[test]
fn steps_made_while_a_commit_is_under_way_belong_to_the_next() {
    let (mut engine, _) = open(MemoryStore::new(), 0);
    set_up(&mut engine);
    assert!(engine.is_settled());
    engine.step(at(1), submit("first"), 1).unwrap();
    let flushing = engine.begin_commit().unwrap();
    engine.step(at(2), submit("second"), 2).unwrap();
    assert!(!engine.is_settled());
    assert!(matches!(engine.begin_commit(), Err(Error::Failed)), "one at a time");
    let tags = |released: Vec<leeway_engine::Released<u32>>| released.iter().map(|step| step.tag).collect::<Vec<_>>();
    assert_eq!(tags(engine.end_commit(flushing.wait()).unwrap()), [1]);
    assert!(!engine.is_settled());
    assert_eq!(tags(engine.commit().unwrap()), [2]);
    assert!(engine.is_settled());
}

#[test]
fn t_02_time_never_runs_back_also_over_a_restart() {
    let (mut engine, _) = open(MemoryStore::new(), 0);
    set_up(&mut engine);
    engine.step(at(100), submit("train"), 1).unwrap();
    engine.step(at(50), submit("train"), 2).unwrap();
    engine.commit().unwrap();
    assert_eq!(engine.scheduler().job(JobId(2)).unwrap().submitted, at(100));
    let (engine, _) = open(engine.into_store(), 20);
    assert_eq!(engine.now(), at(100));
}

#[test]
fn a_store_made_from_an_export_opens_although_it_has_no_history_yet() {
    let dir = tempfile::tempdir().unwrap();
    let [old, file, new] = ["old", "rows.export", "new"].map(|part| dir.path().join(part));
    let (mut engine, _) = open(DiskStore::open_or_init(&old, identity(), Options::small()).unwrap(), 0);
    set_up(&mut engine);
    engine.step(at(1), submit("train"), 1).unwrap();
    engine.commit().unwrap();
    let head = engine.head();
    engine.into_store().close().unwrap();
    leeway_store::export(&old, &file, Options::small()).unwrap();
    leeway_store::import(&file, &new, "2", Options::small()).unwrap();
    let (mut engine, again) = open(DiskStore::open(&new, Options::small()).unwrap(), 10);
    assert_eq!((engine.head().index, again.len()), (head.index, 1));
    engine.step(at(11), submit("more"), 2).unwrap();
    engine.commit().unwrap();
    assert_eq!(engine.scheduler().tables().jobs.len(), 2);
}

#[test]
fn what_changes_nothing_writes_nothing() {
    let (mut engine, _) = open(MemoryStore::new(), 0);
    set_up(&mut engine);
    let before = engine.head();
    engine.step(at(1), Event::Woke, 1).unwrap();
    let released = engine.commit().unwrap();
    assert_eq!((engine.head(), released[0].index), (before, None));
}

fn identity() -> Identity {
    Identity { installation: "test".into(), incarnation: "1".into() }
}
