//! From a history to a run of it, for one policy.

use leeway_core::Config;
use leeway_model::job::Job;
use leeway_model::{Currency, Millis, Name, Timestamp};

use super::super::scenario::build::Choice;
use super::super::scenario::{self, Named, Scenario, values};
use super::super::setup::{self, Arrival, ClusterPlan, Recorded, Setup, Workload};
use super::market::{Frame, market};
use super::{AS_RECORDED, History};

/// A run may go on so much longer than the history, for policies that make jobs wait.
const LONGER: Millis = Millis::from_hours(24 * 7);
/// Points over the length of the history.
const SAMPLES: u64 = 400;

impl History {
    /// A run of the history. `as-recorded` leaves each job to the policy that placed it then; any other policy places
    /// them all, those too that asked for one by name.
    pub fn setup(&self, choice: &Choice) -> Setup {
        let limit = self.limit();
        let frame = Frame::new(self.start(), limit);
        let plans = self.past.clusters.values().flat_map(|spec| {
            let plan = move |shape: usize| ClusterPlan {
                spec: spec.clone(),
                shape,
                is_told: true,
                market: market(&self.past, spec, shape, frame),
                carbon: None,
                watts: None,
            };
            (0..spec.machines.len()).map(plan)
        });
        let is_own = choice.policy.as_str() == AS_RECORDED;
        let mut jobs: Vec<&Job> = self.past.jobs.values().collect();
        jobs.sort_by_key(|job| (job.submitted, job.id));
        let arrivals: Vec<Arrival> = jobs.into_iter().map(|job| self.arrival(job, is_own)).collect();
        let news = self.past.news.iter().map(|(at, event)| (at.since(self.start()), event.clone()));
        let samples = SAMPLES * limit.as_millis() / self.length().as_millis().max(1);
        Setup {
            config: self.config(&choice.policy),
            start: self.start(),
            limit,
            seed: choice.seed,
            clusters: plans.collect(),
            budgets: Vec::new(),
            shocks: Vec::new(),
            news: news.collect(),
            terms: self.pace.terms(),
            workload: Workload(Box::new(arrivals.into_iter().map(Ok))),
            samples: samples.min(100_000) as u32,
            checked: choice.checked,
        }
    }

    fn limit(&self) -> Millis {
        self.length().saturating_mul(2).saturating_add(LONGER)
    }

    fn config(&self, policy: &Name) -> Config {
        let mut config = self.config.clone();
        let most = self.policies.iter().max_by_key(|(_, count)| **count).map(|(name, _)| name.clone());
        config.default_policy = if policy.as_str() == AS_RECORDED {
            most.unwrap_or_else(|| super::named(leeway_policies::DEFAULT))
        } else {
            policy.clone()
        };
        config.deadline_policy = None;
        let (keep, money) = (config.keep_finished, config.money);
        setup::quiet(&mut config);
        // Whoever depends on a job asks how it ended; and a small budget that could pay for an hour may not for four.
        (config.keep_finished, config.money) = (keep, money);
        config.open_jobs_per_owner = u64::MAX;
        config.currency = self.currency().unwrap_or(config.currency);
        let top = self.past.budgets.values().find(|budget| budget.parent.is_none());
        config.default_budget = config.default_budget.or_else(|| top.map(|budget| budget.name.clone()));
        config
    }

    /// The currency of the ledger, which is that of the prices that were paid.
    fn currency(&self) -> Option<Currency> {
        self.past.runs.values().next().map(|run| run.price.currency)
    }

    fn arrival(&self, job: &Job, is_own: bool) -> Arrival {
        let mut spec = (*job.spec).clone();
        let decider = self.past.deciders.get(&job.id).filter(|policy| self.policies.contains_key(*policy));
        spec.policy = if is_own { decider.cloned() } else { None };
        spec.money.budget = spec.money.budget.take().or_else(|| self.past.payers.get(&job.id).cloned());
        let since = |at: Timestamp| at.since(self.start());
        let work = &self.work[&job.id];
        let cancel = self.past.cancels.get(&job.id).map(|(at, by)| (since(*at), by.clone()));
        Arrival {
            at: since(job.submitted),
            team: spec.owner.as_str().into(),
            spec,
            work: work.work,
            // Their way is part of what a start took on average.
            inputs: Vec::new(),
            recorded: Some(Box::new(Recorded {
                id: job.id,
                cancel,
                save: work.save,
                restore: work.restore,
                checkpoint: work.checkpoint,
                failures: work.failures.clone(),
            })),
        }
    }

    /// What pages and tables that speak of a scenario say of this history.
    pub fn facade(&self, policies: &[Name]) -> Named {
        let budgets = self.past.budgets.values().map(|budget| scenario::Budget {
            name: budget.name.to_string(),
            parent: budget.parent.as_ref().map(ToString::to_string),
            cap: values::Money(budget.cap),
        });
        let scenario = Scenario {
            about: self.about(),
            length: self.length().max(Millis::new(1)),
            limit: Some(self.limit()),
            start: self.start(),
            policies: policies.iter().map(ToString::to_string).collect(),
            queue_order: None,
            fair_share: scenario::FairShare::default(),
            seed: 1,
            repetitions: 1,
            world: scenario::World::default(),
            speeds: std::collections::BTreeMap::new(),
            clusters: Vec::new(),
            budgets: budgets.collect(),
            workload: Vec::new(),
            jobs: Vec::new(),
            shocks: Vec::new(),
        };
        Named { name: self.name.clone(), folder: ".".into(), scenario }
    }
}
