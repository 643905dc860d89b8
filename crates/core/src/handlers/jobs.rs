//! Submissions, cancels and retries.

use std::collections::{BTreeMap, BTreeSet};

use leeway_model::job::{Job, JobState, Reason, RetriesUsed, StartReason};
use leeway_model::notify::{Alert, Severity};
use leeway_model::run::{EndReason, RunState};
use leeway_model::{JobId, Name};
use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

use crate::event::{RequestKey, Submission};
use crate::order::Waiting;
use crate::reply::{Refused, RefusedKind, Reply, Submitted};
use crate::round::queue::Park;
use crate::scheduler::Scheduler;
use crate::state::{Denial, Request};

impl Scheduler {
    pub(crate) fn on_jobs_submitted(&mut self, request: Option<RequestKey>, jobs: Vec<Submission>) -> Reply {
        if let Some(key) = &request
            && let Some(known) = self.tables.requests.get(&key.id)
        {
            return replay(known, key);
        }
        let refused = self.refuse(&jobs);
        let mut ids: Vec<Option<JobId>> = Vec::with_capacity(jobs.len());
        for refusal in &refused {
            ids.push(refusal.is_none().then(|| {
                self.tables.meta.jobs += 1;
                JobId(self.tables.meta.jobs)
            }));
        }
        let mut results = Vec::with_capacity(jobs.len());
        for (position, (submission, refusal)) in jobs.into_iter().zip(refused).enumerate() {
            if let Some(refusal) = refusal {
                results.push(Err(refusal));
                continue;
            }
            let id = ids[position].expect("a job that is not refused has an id");
            let mut spec = submission.spec;
            let after = submission.after.iter().filter_map(|&other| ids[other as usize]);
            spec.depends_on.extend(after);
            *self.open_jobs.entry(spec.owner.clone()).or_default() += 1;
            self.tables.jobs.insert(id, Job::new(id, spec, self.now));
            results.push(Ok(Submitted {
                job: id,
                state: JobState::Pending,
                reason: None,
                warnings: Vec::new(),
                replayed: false,
            }));
        }
        // Jobs of one batch may come before those they depend on: first all rows, then their states.
        for id in ids.into_iter().flatten() {
            self.settle_dependencies(id);
        }
        if let Some(key) = request {
            let jobs = results
                .iter()
                .map(|result| match result {
                    Ok(submitted) => Ok(submitted.job),
                    Err(refusal) => Err(Denial { code: refusal.code.into(), message: refusal.message.as_str().into() }),
                })
                .collect();
            self.tables.requests.insert(key.id, Request { body: key.body, jobs, at: self.now });
        }
        Reply::Submitted(results)
    }

    /// The refusal of each job of a batch, if any. A job that needs a refused one is refused with it.
    fn refuse(&self, jobs: &[Submission]) -> Vec<Option<Refused>> {
        let mut taken: BTreeMap<&Name, u64> = BTreeMap::new();
        let mut refused: Vec<Option<Refused>> = Vec::with_capacity(jobs.len());
        for Submission { spec, .. } in jobs {
            refused.push(self.check_spec(spec).and_then(|()| self.check_room(spec, &mut taken)).err());
        }
        let mut graph = DiGraph::<usize, ()>::with_capacity(jobs.len(), jobs.len());
        let nodes: Vec<_> = (0..jobs.len()).map(|position| graph.add_node(position)).collect();
        for (position, job) in jobs.iter().enumerate() {
            for &other in &job.after {
                match nodes.get(other as usize) {
                    Some(&node) => {
                        graph.add_edge(nodes[position], node, ());
                    }
                    None => {
                        refused[position] = Some(Refused::new(
                            RefusedKind::Invalid,
                            "UNKNOWN_DEPENDENCY",
                            format!("depends_on names position {other}, but the batch has {} jobs", jobs.len()),
                        ));
                    }
                }
            }
        }
        // Components come in an order in which every job's dependencies are before it.
        for component in tarjan_scc(&graph) {
            let cyclic = component.len() > 1 || graph.contains_edge(component[0], component[0]);
            if cyclic {
                let mut members: Vec<usize> = component.iter().map(|&node| graph[node]).collect();
                members.sort_unstable();
                let names: Vec<&str> = members.iter().take(8).map(|&p| jobs[p].spec.name.as_str()).collect();
                let message = format!("depends_on makes a cycle of {} jobs: {}", members.len(), names.join(", "));
                for member in members {
                    refused[member] = Some(Refused::new(RefusedKind::Invalid, "DEPENDENCY_CYCLE", message.clone()));
                }
            } else {
                let position = graph[component[0]];
                let broken = jobs[position]
                    .after
                    .iter()
                    .find(|&&other| refused.get(other as usize).is_some_and(Option::is_some));
                if let (Some(&other), None) = (broken, &refused[position]) {
                    refused[position] = Some(Refused::new(
                        RefusedKind::Precondition,
                        "DEPENDENCY_REFUSED",
                        format!("it depends on '{}', which was refused", jobs[other as usize].spec.name),
                    ));
                }
            }
        }
        refused
    }

    /// Moves a new or waiting job to where its dependencies put it. One whose row is forgotten ended long ago.
    fn settle_dependencies(&mut self, id: JobId) {
        let Some(job) = self.job(id) else { return };
        let spec = job.spec.clone();
        let open: Vec<JobId> = spec
            .depends_on
            .iter()
            .copied()
            .filter(|other| self.job(*other).is_some_and(|job| job.state != JobState::Succeeded))
            .collect();
        if open.is_empty() {
            self.line_up(id, None, self.now);
            return;
        }
        for other in &open {
            self.dependents.entry(*other).or_default().insert(id);
        }
        let names: Vec<String> = open.iter().take(8).map(JobId::to_string).collect();
        self.set_state(
            id,
            JobState::Waiting,
            Some(Reason::new("DEPENDENCY", format!("waits for {}", names.join(", ")))),
        );
    }

    /// Puts a job in line for a place, not before `at`.
    pub(crate) fn line_up(&mut self, id: JobId, reason: Option<Reason>, at: leeway_model::Timestamp) {
        self.set_state(id, JobState::Pending, reason);
        if let Some(job) = self.tables.jobs.change(&id) {
            job.not_before = at;
        }
        let Some(job) = self.tables.jobs.get(&id) else { return };
        if at > self.now {
            self.queue.park(job, Park::Timer);
            // Time brings back every job but a held one.
            if !job.is_held() {
                self.timers.set(crate::timers::Timer::Job(id), at);
            }
        } else {
            self.queue.add(Waiting::new(&self.config, job), &self.fleet);
        }
    }

    pub(crate) fn on_job_timer(&mut self, id: JobId) {
        if let Some(job) = self.tables.jobs.get(&id)
            && job.state == JobState::Pending
        {
            self.queue.add(Waiting::new(&self.config, job), &self.fleet);
        }
    }

    /// The one place where a job's state changes.
    pub(crate) fn set_state(&mut self, id: JobId, to: JobState, reason: Option<Reason>) {
        let now = self.now;
        self.tables.meta.job_changes += 1;
        let version = self.tables.meta.job_changes;
        let Some(job) = self.tables.jobs.change(&id) else { return };
        let from = job.state;
        assert!(!from.is_terminal() || to == JobState::Pending, "{id} has {from} and cannot become {to}");
        job.state = to;
        job.version = version;
        job.reason = reason;
        if from != to {
            job.since = now;
        }
        job.ended = to.is_terminal().then_some(now);
        if from.is_terminal() != to.is_terminal() {
            let open = self.open_jobs.entry(job.spec.owner.clone()).or_default();
            // A job that ends was counted when it came.
            *open = if to.is_terminal() { open.saturating_sub(1) } else { *open + 1 };
        }
        let is_news = from != to && (to.is_terminal() || to == JobState::Running);
        if is_news {
            let severity = if to == JobState::Failed { Severity::Warning } else { Severity::Info };
            let reason = job.reason.as_ref().map(|reason| reason.message.clone());
            let name = job.spec.name.as_str().into();
            self.notify(severity, Alert::JobStateChanged { job: id, name, from, to, reason });
        }
    }

    /// Ends a job and settles everything that waited for it, however long the chain.
    pub(crate) fn finish(&mut self, id: JobId, state: JobState, reason: Option<Reason>) {
        let mut ends = vec![(id, state, reason)];
        while let Some((id, state, reason)) = ends.pop() {
            let Some(job) = self.tables.jobs.get(&id) else { continue };
            if job.state.is_terminal() {
                continue;
            }
            self.queue.remove(job);
            self.timers.clear(&crate::timers::Timer::Job(id));
            self.set_state(id, state, reason);
            for waiting in self.dependents.remove(&id).unwrap_or_default() {
                // It may have been cancelled since; nothing but a retry brings it back.
                if self.job(waiting).is_none_or(|job| job.state != JobState::Waiting) {
                    continue;
                }
                if state == JobState::Succeeded {
                    self.settle_dependencies(waiting);
                } else {
                    let reason =
                        Reason::new("DEPENDENCY_FAILED", format!("{id}, which it depends on, {}", ended(state)));
                    ends.push((waiting, JobState::Failed, Some(reason)));
                }
            }
        }
    }

    pub(crate) fn on_job_cancelled(&mut self, id: JobId, by: &Name) -> Reply {
        let Some(job) = self.job(id).cloned() else {
            return Reply::Refused(Refused::not_found("job", id));
        };
        let reason = Some(Reason::new("CANCELLED", format!("cancelled by {by}")));
        match job.state {
            JobState::Waiting | JobState::Pending => self.finish(id, JobState::Cancelled, reason),
            JobState::Starting | JobState::Running => {
                self.set_state(id, JobState::Cancelling, reason);
                let run = job.newest_run().expect("a job that starts or runs has a run");
                match self.run(run).map(|run| run.state) {
                    Some(RunState::Launching) => self.order_stop(run, EndReason::Cancelled),
                    _ => self.drain(run, EndReason::Cancelled, self.config.lease.kill_grace, false),
                }
            }
            JobState::Cancelling | JobState::Succeeded | JobState::Failed | JobState::Cancelled => {}
        }
        Reply::Job(Box::new(job))
    }

    pub(crate) fn on_job_retried(&mut self, id: JobId) -> Reply {
        let Some(job) = self.job(id).cloned() else {
            return Reply::Refused(Refused::not_found("job", id));
        };
        if !matches!(job.state, JobState::Failed | JobState::Cancelled) && !job.is_held() {
            return Reply::Refused(Refused::new(
                RefusedKind::Precondition,
                "NOT_ENDED",
                format!("{id} is {}; only a failed, cancelled or held job can be retried", job.state),
            ));
        }
        let unmet: BTreeSet<JobId> = job
            .spec
            .depends_on
            .iter()
            .copied()
            .filter(|other| {
                self.job(*other).is_some_and(|job| matches!(job.state, JobState::Failed | JobState::Cancelled))
            })
            .collect();
        if let Some(other) = unmet.first() {
            return Reply::Refused(Refused::new(
                RefusedKind::Precondition,
                "DEPENDENCY_FAILED",
                format!("{id} depends on {other}, which has not succeeded; retry {other} first"),
            ));
        }
        if let Some(row) = self.tables.jobs.change(&id) {
            row.retries = RetriesUsed::default();
            row.saves_without_progress = 0;
            // Without a checkpoint to go on from it starts afresh, as the refusal promised.
            let afresh = row.epoch == 0 || row.checkpoint.is_none();
            row.start_reason = if afresh { StartReason::First } else { StartReason::Failed };
        }
        self.set_state(id, JobState::Pending, None);
        self.settle_dependencies(id);
        Reply::Job(Box::new(job))
    }
}

/// How a job that did not succeed ended, in a sentence.
pub(super) const fn ended(state: JobState) -> &'static str {
    if matches!(state, JobState::Cancelled) { "was cancelled" } else { "has failed" }
}

fn replay(known: &Request, key: &RequestKey) -> Reply {
    if known.body != key.body {
        return Reply::Refused(Refused::new(
            RefusedKind::Precondition,
            "IDEMPOTENCY_KEY_REUSED",
            "the client request id was used before with another body; use a new id for a new request",
        ));
    }
    let results = known.jobs.iter().map(|made| match made {
        Ok(job) => {
            Ok(Submitted { job: *job, state: JobState::Pending, reason: None, warnings: Vec::new(), replayed: true })
        }
        Err(denial) => {
            let message = format!("{} ({})", denial.message, denial.code);
            Err(Refused::new(RefusedKind::Precondition, "REFUSED_BEFORE", message))
        }
    });
    Reply::Submitted(results.collect())
}
