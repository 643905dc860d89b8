//! Stores with a history: simulated fleets whose journal is kept.

use std::path::Path;
use std::sync::Arc;

use leeway_simulations::fleet::history::{Check, Happened, History};
use leeway_simulations::fleet::outcome::Ended;
use leeway_simulations::fleet::scenario::build::Choice;
use leeway_simulations::fleet::study::{self, Plan, Ran};
use leeway_simulations::fleet::{self, Outcome};
use leeway_store::{DiskStore, Identity, Options};

use super::worlds::named;

/// A folder in memory where the system offers it: these tests are about what is written, not about disks.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub fn store(dir: &Path, options: Options) -> DiskStore {
    let identity = Identity { installation: "test".into(), incarnation: "first".into() };
    DiskStore::init(dir, identity, options).unwrap()
}

/// Lives through a scenario under a policy, with everything written to a store in `dir`.
pub fn live(text: &str, policy: &str, dir: &Path) -> (Outcome, Vec<Ended>) {
    let choice = Choice { policy: policy.parse().unwrap(), seed: 1, checked: false };
    let setup = named(text).setup(&choice).unwrap();
    let mut jobs = Vec::new();
    let mut keep = |job: &Ended| jobs.push(job.clone());
    let store = store(dir, Options::small());
    let outcome = fleet::run(setup, leeway_policies::all(), store, &mut keep, &mut |_| {}).unwrap();
    jobs.sort_by_key(|job| job.job);
    (outcome, jobs)
}

/// What a replay came to.
pub struct Replayed {
    pub history: Arc<History>,
    pub happened: Happened,
    pub check: Check,
    pub ran: Vec<Ran>,
}

impl Replayed {
    pub fn of(&self, policy: &str) -> &Ran {
        self.ran.iter().find(|ran| ran.row.policy == policy).unwrap()
    }

    /// The jobs under the recorded policy, by their numbers then.
    pub fn jobs(&self) -> Vec<&Ended> {
        let policy = self.history.recorded_policy();
        let mut jobs: Vec<&Ended> = self.of(policy.as_str()).jobs.iter().collect();
        jobs.sort_by_key(|job| job.source);
        jobs
    }
}

/// Replays what `path` holds under the recorded policy and these.
pub fn replay(path: &Path, policies: &[&str]) -> Replayed {
    let history = Arc::new(History::read(path, None).unwrap());
    let mut names = vec![history.recorded_policy()];
    names.extend(policies.iter().map(|policy| policy.parse().unwrap()));
    let plan = Plan {
        scenario: history.facade(&names),
        history: Some(history.clone()),
        policies: names.clone(),
        seeds: vec![1],
        threads: 1,
        checked: true,
    };
    let ran = study::study(&plan, &|_| true, &|_| {}).unwrap();
    let happened = history.happened();
    let check = history.check(&happened, names[0].as_str(), &ran);
    Replayed { history, happened, check, ran }
}
