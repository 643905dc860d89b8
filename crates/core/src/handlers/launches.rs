//! From the order for machines to the proof that they are gone.

use leeway_model::job::JobState;
use leeway_model::market::OfferKey;
use leeway_model::notify::{Alert, Severity};
use leeway_model::resources::CapacityType;
use leeway_model::run::{EndReason, LaunchErrorClass, Run, RunState};
use leeway_model::{Meter, Millis, Name, RunId, Timestamp};

use crate::action::{Action, LaunchOrder};
use crate::ledger;
use crate::reply::{Refused, Reply};
use crate::scheduler::Scheduler;
use crate::timers::Timer;

impl Scheduler {
    pub(crate) fn launch_order(&self, run: &Run) -> LaunchOrder {
        LaunchOrder {
            run: run.id,
            offer: run.offer.clone(),
            nodes: run.nodes,
            deadline: run.placed.after(self.config.launch.deadline),
        }
    }

    /// A run that is given up as lost has no grace: its next epoch may begin at once, and its agent had its lease to stop.
    pub(crate) fn stop_action(&self, run: &Run) -> Action {
        let grace = if run.end == Some(EndReason::Lost) { Millis::ZERO } else { self.config.lease.kill_grace };
        Action::Stop { run: run.id, cluster: run.offer.cluster.clone(), grace }
    }

    /// Counts a run's machines as taken.
    pub(crate) fn stand(&mut self, key: OfferKey, machines: u32, run: RunId) {
        if let Some(offer) = self.fleet.find(&key) {
            self.fleet.take(offer, machines);
        }
        self.standing.entry(key).or_default().insert(run);
    }

    pub(crate) fn on_run_launched(&mut self, id: RunId, instances: Vec<Box<str>>) -> Reply {
        let now = self.now;
        let Some(run) = self.tables.runs.get(&id) else {
            return Reply::Refused(Refused::not_found("run", id));
        };
        if run.launched.is_some() && run.instances.is_empty() && !instances.is_empty() {
            // The agents were heard before the launch's own reply, which alone knows the machines' names.
            if let Some(run) = self.tables.runs.change(&id) {
                run.instances = instances;
            }
            return Reply::Done;
        }
        if run.state.is_over() || run.launched.is_some() {
            // A repeated report, or machines of a run that was settled: the driver's sweep ends those.
            return Reply::Done;
        }
        let state = run.state;
        let gang = u64::from(run.nodes);
        let rate = run.price.rate.checked_mul(gang).expect("a hold was opened for the gang's rate");
        let disk = self.disk_rate(run);
        let offer = run.offer.clone();
        let (nodes, has_ended) = (run.nodes, run.stopped.is_some());
        self.probed(&offer, true);
        if !has_ended {
            self.see_arrival(&offer, nodes);
        }
        if let Some(run) = self.tables.runs.change(&id) {
            run.launched = Some(now);
            run.posted_until = now;
            run.instances = instances;
            run.meter = Some(Meter::starting(now, rate));
            run.disk = disk.map(|rate| Meter::starting(now, rate));
            if state == RunState::Launching {
                run.state = RunState::Setup;
            }
        }
        self.set_run_timer(id);
        Reply::Done
    }

    fn disk_rate(&self, run: &Run) -> Option<leeway_model::Rate> {
        let job = self.job(run.id.job)?;
        let disk = job.spec.resources.iter().filter_map(|request| request.disk).max()?;
        let gigabytes = disk.get().div_ceil(leeway_model::Bytes::GB);
        self.config.money.disk_gb.checked_mul(gigabytes.saturating_mul(u64::from(run.nodes)))
    }

    pub(crate) fn on_launch_refused(&mut self, id: RunId, class: LaunchErrorClass, message: &str) -> Reply {
        let Some(run) = self.tables.runs.get(&id) else {
            return Reply::Refused(Refused::not_found("run", id));
        };
        if run.launched.is_some() || run.state.is_over() {
            return Reply::Done;
        }
        let offer = run.offer.clone();
        match class {
            LaunchErrorClass::Throttled => self.cool(&offer, Some(Millis::from_secs(30))),
            LaunchErrorClass::Transient => self.cool(&offer, Some(Millis::from_mins(1))),
            _ => self.cool(&offer, None),
        }
        self.end_run(id, EndReason::LaunchFailed { class });
        self.release(id);
        self.recover(id, Some(message));
        Reply::Done
    }

    /// One machine of a gang is gone: the others have nothing left to do.
    pub(crate) fn on_instance_lost(&mut self, id: RunId, _rank: u32) -> Reply {
        let Some(run) = self.tables.runs.get(&id) else {
            return Reply::Refused(Refused::not_found("run", id));
        };
        if run.state.is_over() {
            return Reply::Done;
        }
        let (nodes, reason) = (run.nodes, lost_reason(run));
        if nodes == 1 {
            return self.on_instances_gone(id);
        }
        self.order_stop(id, reason);
        Reply::Done
    }

    pub(crate) fn on_instances_gone(&mut self, id: RunId) -> Reply {
        let Some(run) = self.tables.runs.get(&id) else {
            return Reply::Refused(Refused::not_found("run", id));
        };
        match run.state {
            RunState::Released => return Reply::Done,
            RunState::Launching => {
                return self.on_launch_refused(id, LaunchErrorClass::Transient, "its machines never appeared");
            }
            _ => {
                let reason = lost_reason(run);
                self.end_run(id, reason);
            }
        }
        self.release(id);
        self.recover(id, None);
        Reply::Done
    }

    /// Decides why a run ends; the first reason stands. Counts the time it was at risk.
    pub(crate) fn end_run(&mut self, id: RunId, reason: EndReason) {
        let now = self.now;
        let progress = self.volatile.progress.get(&id).copied();
        let Some(run) = self.tables.runs.change(&id) else { return };
        if let Some(progress) = progress {
            run.progress = progress;
        }
        if run.stopped.is_some() {
            return;
        }
        run.stopped = Some(now);
        let reason = run.end.get_or_insert(reason).clone();
        let offer = run.offer.clone();
        let (had_machines, nodes) = (run.launched.is_some(), run.nodes);
        let at_risk = run.launched.map_or(Millis::ZERO, |launched| now.since(launched));
        let saved = run.notice.as_ref().is_some_and(|notice| notice.saved);
        let warned = run.notice.as_ref().map(|notice| notice.deadline);
        let taken = matches!(reason, EndReason::Interrupted | EndReason::Lost);
        let (job, progress) = (run.id.job, run.progress);
        if let EndReason::LaunchFailed { class } = reason {
            self.probed(&offer, false);
            self.see_refusal(&offer, class);
        }
        if let Some(job) = self.tables.jobs.change(&job) {
            job.progress = leeway_model::job::Progress { total: progress.total.or(job.progress.total), ..progress };
        }
        if offer.capacity == CapacityType::Spot
            && let Some(found) = self.fleet.find(&offer)
        {
            self.fleet.change(found, |offer| {
                offer.belief.exposure = offer.belief.exposure.saturating_add(at_risk);
                offer.belief.interruptions += u32::from(taken);
                offer.belief.saved += u32::from(taken && saved);
            });
        }
        let by_market = taken && (reason == EndReason::Interrupted || self.is_market_signal(&offer, job));
        if had_machines {
            self.see_departure(&offer, nodes, by_market);
        }
        if taken {
            if by_market {
                self.cool(&offer, None);
            }
            let alert = Alert::JobInterrupted { run: id, offer, warned: warned.is_some(), deadline: warned };
            self.notify(Severity::Info, alert);
        }
    }

    /// Ends a run and orders its machines away; asked again until they are proven gone.
    pub(crate) fn order_stop(&mut self, id: RunId, reason: EndReason) {
        self.end_run(id, reason);
        let now = self.now;
        let Some(run) = self.tables.runs.change(&id) else { return };
        if run.state.is_over() {
            return;
        }
        run.state = RunState::Stopping;
        run.stop_ordered.get_or_insert(now);
        let is_launched = run.launched.is_some();
        if let Some(run) = self.tables.runs.get(&id) {
            let action = self.stop_action(run);
            self.actions.push(action);
        }
        if is_launched {
            self.actions.push(Action::Signal { run: id });
        }
        self.set_run_timer(id);
    }

    /// The proof is there: settles the cost, closes the hold, frees the place.
    pub(crate) fn release(&mut self, id: RunId) {
        self.post_usage(id);
        let now = self.now;
        let Some(run) = self.tables.runs.change(&id) else { return };
        if run.state.is_over() {
            return;
        }
        run.state = RunState::Released;
        run.released = Some(now);
        let (offer, nodes) = (run.offer.clone(), run.nodes);
        self.meter_run(id);
        self.roomier.extend(ledger::close_hold(&mut self.tables, now, id).unwrap_or_default());
        self.timers.clear(&Timer::Run(id));
        for rank in 0..nodes {
            self.volatile.renewals.remove(&(id, rank));
        }
        self.volatile.progress.remove(&id);
        self.volatile.shards.retain(|(run, _), _| *run != id);
        if let Some(runs) = self.standing.get_mut(&offer) {
            runs.remove(&id);
            if runs.is_empty() {
                self.standing.remove(&offer);
            }
        }
        self.ends.forget(id);
        if let Some(found) = self.fleet.find(&offer) {
            self.fleet.give_back(found, nodes);
            self.wake_awaiting(found, nodes);
            for sibling in self.fleet.siblings(found) {
                self.touch(sibling);
            }
        }
    }

    /// Keeps new runs off an offer for a while: `length`, or the next of the doubling cool-downs.
    pub(crate) fn cool(&mut self, key: &OfferKey, length: Option<Millis>) {
        let Some(offer) = self.fleet.find(key) else { return };
        let launch = self.config.launch;
        let now = self.now;
        let last = self.fleet.slot(offer).offer.cooldown;
        let recent =
            self.fleet.slot(offer).offer.cooling_until.is_some_and(|until| now.since(until) < launch.cooldown_max);
        let doubled = if recent && !last.is_zero() { last.saturating_mul(2) } else { launch.cooldown };
        let next = length.unwrap_or(doubled.min(launch.cooldown_max));
        let until = now.after(next);
        self.fleet.change(offer, |offer| {
            offer.cooling_until = Some(until);
            if length.is_none() {
                offer.cooldown = next;
            }
        });
        self.fleet.set_cooling(offer, true);
        self.timers.set(Timer::Offer(key.clone()), until);
    }

    pub(crate) fn on_offer_timer(&mut self, key: &OfferKey) {
        if let Some(offer) = self.fleet.find(key) {
            self.fleet.set_cooling(offer, false);
            self.touch(offer);
        }
    }

    /// An offer may have become better for someone who waits.
    pub(crate) fn touch(&mut self, offer: crate::round::fleet::OfferId) {
        if self.fleet.is_open(offer) {
            self.queue.wake(offer, self.fleet.slot(offer).group);
        }
    }

    /// Sets a run's timer to the first of its deadlines.
    pub(crate) fn set_run_timer(&mut self, id: RunId) {
        let Some(run) = self.tables.runs.get(&id) else { return };
        let mut next: Option<Timestamp> = None;
        // What is due was just looked at: a deadline that stays in the past waits for something else than time.
        let soonest = self.now.after(Millis::new(1));
        let mut consider = |at: Timestamp| next = Some(next.map_or(at, |next| next.min(at)).max(soonest));
        match run.state {
            RunState::Released => {}
            RunState::Launching => consider(run.placed.after(self.config.launch.deadline)),
            RunState::Stopping | RunState::Lost => {
                consider(self.next_stop(run));
                if run.launched.is_some() {
                    consider(run.posted_until.after(self.config.money.meter_every));
                    if self.is_bound(run) {
                        consider(self.all_silent(run));
                    }
                }
            }
            RunState::Setup | RunState::Restoring | RunState::Running | RunState::Draining => {
                consider(run.posted_until.after(self.config.money.meter_every));
                if let Some(at) = self.hold_runs_low(run) {
                    consider(at);
                }
                if let Some(at) = self.next_review(run) {
                    consider(at);
                }
                consider(self.lease_end(run));
                if let Some(by) = run.drain_by {
                    consider(by);
                }
                if let Some(limit) = self.longest(run) {
                    consider(limit);
                }
            }
        }
        match next {
            Some(at) => self.timers.set(Timer::Run(id), at),
            None => self.timers.clear(&Timer::Run(id)),
        }
    }

    /// When the stop is ordered again: after 10 s, doubling up to a minute.
    fn next_stop(&self, run: &Run) -> Timestamp {
        let ordered = run.stop_ordered.unwrap_or(run.placed);
        let first = self.config.launch.stop_again.max(Millis::new(1));
        let waited = self.now.since(ordered);
        let mut wait = first;
        let mut at = first;
        while at <= waited {
            wait = wait.saturating_mul(2).min(Millis::from_mins(1).max(first));
            at = at.saturating_add(wait);
        }
        ordered.after(at)
    }

    fn longest(&self, run: &Run) -> Option<Timestamp> {
        let job = self.job(run.id.job)?;
        if run.end.is_some() || run.drain_by.is_some() {
            return None;
        }
        Some(run.started?.after(job.spec.time.max_duration?))
    }

    /// When the first of a run's silent agents may no longer have effects: the run is then lost.
    pub(crate) fn lease_end(&self, run: &Run) -> Timestamp {
        self.silences(run).min().unwrap_or(Timestamp::from_millis(i64::MAX))
    }

    /// When none of a run's agents may still have effects: only then may the next epoch begin without other proof. A
    /// gang that lost one agent still has the others.
    fn all_silent(&self, run: &Run) -> Timestamp {
        self.silences(run).max().unwrap_or(Timestamp::ZERO)
    }

    /// For each rank whose program has not ended: when its silence has lasted for long enough.
    fn silences<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = Timestamp> + 'a {
        let grace = self.volatile.started.after(self.config.lease.ttl.saturating_mul(2));
        let launched = run.launched.unwrap_or(run.placed).after(self.config.launch.deadline);
        let running = (0..run.nodes).filter(|rank| run.exits[*rank as usize].is_none());
        running.map(move |rank| match self.volatile.renewals.get(&(run.id, rank)) {
            Some(at) => at.after(self.config.silence()),
            // It was heard before this process began, and its lease was renewed at the latest then.
            None if run.agents[rank as usize].is_some() => {
                grace.max(self.volatile.started.after(self.config.silence()))
            }
            // It may still be starting.
            None => launched.max(grace),
        })
    }

    pub(crate) fn on_run_timer(&mut self, id: RunId) {
        let Some(run) = self.tables.runs.get(&id) else { return };
        match run.state {
            RunState::Released => return,
            RunState::Launching => {
                if self.now >= run.placed.after(self.config.launch.deadline) {
                    let offer = run.offer.clone();
                    self.cool(&offer, None);
                    self.order_stop(id, EndReason::LaunchFailed { class: LaunchErrorClass::Transient });
                }
            }
            RunState::Stopping | RunState::Lost => {
                let run = run.clone();
                self.stop_again(&run);
            }
            RunState::Setup | RunState::Restoring | RunState::Running | RunState::Draining => {
                self.meter(id);
                self.watch_saves(id);
                self.watch_deadlines(id);
                self.review(id);
            }
        }
        self.set_run_timer(id);
    }

    fn watch_deadlines(&mut self, id: RunId) {
        let Some(run) = self.run(id).filter(|run| run.state.is_active()) else { return };
        if self.now >= self.lease_end(run) {
            let (all, reason) = (self.now >= self.all_silent(run), lost_reason(run));
            self.order_stop(id, reason);
            if all {
                self.recover(id, None);
            }
        } else if run.drain_by.is_some_and(|by| self.now >= by) {
            self.order_stop(id, EndReason::Interrupted);
        } else if run.drain_by.is_none() && self.longest(run).is_some_and(|limit| self.now >= limit) {
            self.drain(id, EndReason::OverMaxDuration, self.config.launch.drain, true);
        }
    }

    fn stop_again(&mut self, run: &Run) {
        if run.launched.is_some() {
            self.post_usage(run.id);
        }
        // The lease is over: whatever its machines do, the job may go on elsewhere.
        if run.launched.is_some() && self.now >= self.all_silent(run) && self.is_bound(run) {
            self.recover(run.id, None);
        }
        let ordered = run.stop_ordered.unwrap_or(run.placed);
        let waited = self.now.since(ordered);
        const STUCK: Millis = Millis::from_mins(10);
        if waited >= STUCK && !run.stuck_told {
            if let Some(row) = self.tables.runs.change(&run.id) {
                row.stuck_told = true;
            }
            let minutes = waited.as_millis() / 60_000;
            self.notify(Severity::Critical, Alert::TerminationStuck { run: run.id, minutes });
        }
        if waited >= self.config.launch.stop_again {
            let action = self.stop_action(run);
            self.actions.push(action);
        }
    }

    /// Whether the job still follows this run.
    pub(crate) fn is_bound(&self, run: &Run) -> bool {
        self.job(run.id.job).is_some_and(|job| {
            job.epoch == run.id.epoch
                && matches!(job.state, JobState::Starting | JobState::Running | JobState::Cancelling)
        })
    }

    /// Runs of a cluster that are not released.
    pub fn runs_on(&self, cluster: &Name) -> Vec<RunId> {
        let on_cluster = self.standing.iter().filter(|(offer, _)| offer.cluster == *cluster);
        on_cluster.flat_map(|(_, runs)| runs.iter().copied()).collect()
    }
}

/// What the loss of a run's machines means: a notice makes it an interruption.
fn lost_reason(run: &Run) -> EndReason {
    match (&run.end, &run.notice) {
        (Some(end), _) => end.clone(),
        (None, Some(_)) => EndReason::Interrupted,
        (None, None) => EndReason::Lost,
    }
}
