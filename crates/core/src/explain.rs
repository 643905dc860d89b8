//! What people may ask: why a job stands where it stands, and what a job would cost where.

use leeway_model::decision::Decision;
use leeway_model::job::{Job, JobSpec, JobState, Reason};
use leeway_model::run::Run;
use leeway_model::{JobId, Name};

use crate::reply::Refused;
use crate::round::place::Decided;
use crate::round::queue::{self, Scope};
use crate::round::score::Economics;
use crate::round::select::{self, Evaluation, Place, Search};
use crate::scheduler::Scheduler;

/// A job with everything that was decided about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    pub job: Job,
    pub reason: Option<Reason>,
    pub runs: Vec<(Run, Option<Decision>)>,
    /// How the offers look to it now, while it waits for a place.
    pub evaluation: Option<Evaluation>,
    pub policy: Name,
    /// What is to be said of its deadline.
    pub warnings: Vec<Reason>,
}

impl Scheduler {
    pub fn explain(&self, id: JobId) -> Option<Explanation> {
        let job = self.job(id)?.clone();
        let runs = self.runs_of(id).map(|run| (run.clone(), self.tables.decisions.get(&run.id).cloned())).collect();
        let evaluation = (job.state == JobState::Pending).then(|| self.evaluate(&job));
        let policy = self.policy_of(&job).0.clone();
        let warnings = self.warnings(id);
        Some(Explanation { reason: self.reason(&job), runs, evaluation, policy, warnings, job })
    }

    /// How every offer looks to a job that is not submitted.
    pub fn dry_run(&self, spec: JobSpec) -> Result<Evaluation, Refused> {
        self.check_spec(&spec)?;
        Ok(self.evaluate(&self.imagined(spec)))
    }

    /// What is to be said of a job's deadline until it has ended.
    pub fn warnings(&self, id: JobId) -> Vec<Reason> {
        self.job(id).filter(|job| !job.state.is_terminal()).map(|job| self.doubts(job)).unwrap_or_default()
    }

    /// The same of a job that is not submitted.
    pub fn warnings_for(&self, spec: &JobSpec) -> Vec<Reason> {
        self.doubts(&self.imagined(spec.clone()))
    }

    /// Name of the policy that would place such a job.
    pub fn policy_for(&self, spec: &JobSpec) -> Name {
        self.policy_of(&self.imagined(spec.clone())).0.clone()
    }

    /// The places that a round would choose among for a job that is not submitted.
    pub fn choose(&self, spec: &JobSpec) -> Search {
        let job = self.imagined(spec.clone());
        let economics = Economics::of(&self.config, &self.tables.datasets, &job);
        let scope = Scope::Everywhere(queue::groups_for(&job.spec.resources, &self.fleet));
        let (_, policy) = self.policy_of(&job);
        select::search(self.market(&job, policy.as_ref()), &self.view(&job, &economics), &economics, &scope)
    }

    /// The same by judging every offer, all that could be had; for those who check [`choose`](Self::choose).
    pub fn judge(&self, spec: &JobSpec) -> Vec<Place> {
        let job = self.imagined(spec.clone());
        let economics = Economics::of(&self.config, &self.tables.datasets, &job);
        let (_, policy) = self.policy_of(&job);
        select::judge(self.market(&job, policy.as_ref()), &self.view(&job, &economics), &economics).0
    }

    fn imagined(&self, spec: JobSpec) -> Job {
        Job::new(JobId(0), spec, self.now)
    }

    fn evaluate(&self, job: &Job) -> Evaluation {
        let economics = Economics::of(&self.config, &self.tables.datasets, job);
        let view = self.view(job, &economics);
        let (_, policy) = self.policy_of(job);
        let (mut places, rejections) = select::judge(self.market(job, policy.as_ref()), &view, &economics);
        let everywhere = Scope::Everywhere(queue::groups_for(&job.spec.resources, &self.fleet));
        let found = select::search(self.market(job, policy.as_ref()), &view, &economics, &everywhere).places;
        let (mut waits, mut why) = (None, None);
        if !found.is_empty() {
            match self.decided(job, view, &economics, found) {
                Decided::Wait { reason, .. } => waits = Some(reason),
                Decided::Place { places: ordered, position, why: because } => {
                    why = Some(because);
                    // As a round tries them: the chosen one, and what stands before the rest.
                    let chosen = ordered[position].offer;
                    let order = |place: &Place| {
                        let at = ordered.iter().position(|one| one.offer == place.offer).unwrap_or(usize::MAX);
                        (place.offer != chosen, at)
                    };
                    places.sort_by_key(order);
                }
            }
        }
        let holds: Vec<_> = places.iter().take(select::HOLDS).map(|place| self.hold_now(job, place)).collect();
        // A round tries the best few; where none can be paid for, the refusal of the best is the job's reason.
        let unpaid = holds.first().and_then(|best| best.as_ref().err());
        let unpaid = unpaid.filter(|_| holds.iter().take(select::KEEP).all(Result::is_err));
        let unpaid = unpaid.map(|refusal| Reason::new(refusal.code(), refusal.to_string()));
        Evaluation {
            holds,
            candidates: places.iter().filter_map(|place| place.candidate(&self.fleet)).collect(),
            rejections,
            reason: waits.or(unpaid),
            why,
        }
    }
}
