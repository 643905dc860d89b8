//! The whole bill of finishing a job at an offer, every term kept.
//!
//! With t the remaining time at the offer's speed, r interruptions an hour of the whole gang, i the checkpoint
//! interval, c the pause of one save and s the time to restart:
//!
//! * compute = price x t;  checkpoints = price x c x t/i;  rework = price x n x ((1-p) i/2 + s), n = r x (t + saves)
//! * without checkpoints every interruption starts from nothing: expected time (e^(r t) - 1)(1/r + s)
//! * egress of inputs, of the newest checkpoint and of outputs at the month's tier, disk by the hour
//! * waiting = the job's value of an hour x the whole expected time, launch and staging included
//!
//! Floats appear here and only here: a bill ranks places, the ledger charges by the meter.

use leeway_model::checkpoint::Interval;
use leeway_model::dataset::Dataset;
use leeway_model::decision::Assumption;
use leeway_model::job::{Job, JobSpec};
use leeway_model::market::InterruptionBelief;
use leeway_model::resources::CapacityType;
use leeway_model::{Bill, Bytes, Micros, Millis, Name, Rate, Term};

use super::fleet::{Group, Slot};
use super::moves::Moves;
use crate::config::Config;
use crate::interval::{self, Saving};
use crate::locality::Locality;
use crate::policy::Scored;
use crate::state::table::Table;

/// What a job's bill depends on beside the offer.
#[derive(Clone, Debug)]
pub struct Economics<'a> {
    pub spec: &'a JobSpec,
    /// Work left at relative speed 1.
    pub remaining: Millis,
    pub estimate_assumed: bool,
    pub moves: Moves<'a>,
}

/// Bill of an offer and what had to be assumed for it.
#[derive(Clone, Debug)]
pub struct Priced {
    pub scored: Scored,
    pub assumed: Vec<Assumption>,
}

impl<'a> Economics<'a> {
    pub fn of(config: &Config, datasets: &'a Table<Name, Dataset>, job: &'a Job) -> Self {
        Self {
            spec: &job.spec,
            remaining: remaining(config, job),
            estimate_assumed: job.spec.time.estimate.is_none(),
            moves: Moves::of(datasets, job),
        }
    }

    /// The least that any machine of a kind can cost, as a function of its rate: no bytes to move, every launch a
    /// success, and interrupted as little as the best of them.
    pub fn least(&self, config: &Config, group: &Group) -> Least {
        let hours = self.remaining.as_hours_f64() / group.speed;
        let time = self.interruptions(config, group.capacity, group.best, hours);
        Least { capacity: group.capacity, hours, time }
    }

    /// A bill that no machine of that kind at that rate can go below.
    pub fn floor(&self, config: &Config, least: &Least, rate: Rate) -> Scored {
        let gang_rate = self.gang_rate(rate);
        let mut bill = Bill::default();
        let total = self.by_time(config, gang_rate, least.hours, least.time, Bytes::ZERO, &mut bill);
        let expected_time = Millis::from_secs_f64(total * 3_600.0);
        Scored { capacity: least.capacity, rate, nodes: self.spec.nodes, bill, expected_time, launched: 1.0 }
    }

    fn gang_rate(&self, rate: Rate) -> f64 {
        rate.as_units_f64() * f64::from(self.spec.nodes)
    }

    /// The whole bill at `slot` for `rate` a machine.
    pub fn price(&self, config: &Config, locality: Locality<'_>, slot: &Slot, rate: Rate) -> Priced {
        let gang_rate = self.gang_rate(rate);
        let hours = self.remaining.as_hours_f64() / slot.speed;
        let capacity = slot.offer.key.capacity;
        let time = self.interruptions(config, capacity, Belief::from(&slot.offer.belief), hours);
        let mut assumed = Vec::new();
        if self.estimate_assumed {
            assumed.push(Assumption::Estimate);
        }
        let mut bill = Bill::default();
        let staged = self.moves.charge(config, locality, &slot.region, &mut bill, &mut assumed);
        let total = self.by_time(config, gang_rate, hours, time, staged, &mut bill);
        let expected_time = Millis::from_secs_f64(total * 3_600.0);
        let launched = slot.probes.share(locality.now);
        Priced { scored: Scored { capacity, rate, nodes: self.spec.nodes, bill, expected_time, launched }, assumed }
    }

    /// Sets the terms that follow from time, and returns the expected hours to the end.
    fn by_time(
        &self,
        config: &Config,
        gang_rate: f64,
        hours: f64,
        time: Overhead,
        staged: Bytes,
        bill: &mut Bill,
    ) -> f64 {
        bill.set(Term::Compute, Micros::from_units_f64(gang_rate * hours));
        bill.set(Term::Checkpoints, Micros::from_units_f64(gang_rate * time.saving));
        bill.set(Term::Rework, Micros::from_units_f64(gang_rate * time.rework));
        let estimates = &config.estimates;
        let staging = staged.get() as f64 / estimates.bandwidth.get().max(1) as f64 / 3_600.0;
        let total = hours + time.saving + time.rework + staging + estimates.launch_time.as_hours_f64();
        if let Some(disk) = self.spec.resources.iter().filter_map(|request| request.disk).max() {
            let per_hour = config.money.disk_gb.as_units_f64() * disk.as_gb_f64() * f64::from(self.spec.nodes);
            bill.set(Term::Disk, Micros::from_units_f64(per_hour * total));
        }
        if let Some(value) = self.spec.money.value_per_hour {
            bill.set(Term::Waiting, Micros::from_units_f64(value.as_units_f64() * total));
        }
        total
    }

    fn interruptions(&self, config: &Config, capacity: CapacityType, belief: Belief, hours: f64) -> Overhead {
        if capacity != CapacityType::Spot {
            return Overhead::default();
        }
        let per_hour = belief.per_hour * f64::from(self.spec.nodes);
        let restore = match &self.spec.checkpoint {
            Some(policy) => policy.restore_time.unwrap_or(config.estimates.restore_time),
            None => Millis::ZERO,
        };
        let restart = restore.as_hours_f64() + config.estimates.launch_time.as_hours_f64();
        let Some(saving) = saving(config, self.spec, capacity, belief) else {
            let expected = (per_hour * hours).min(60.0).exp_m1() * (1.0 / per_hour + restart);
            return Overhead { saving: 0.0, rework: (expected - hours).max(0.0) };
        };
        let interval = checkpoint_interval(self.spec, saving).as_hours_f64();
        let saves = saving.pause / 3_600.0 * hours / interval;
        let lost = (1.0 - saving.saved_share) * interval / 2.0 + restart;
        Overhead { saving: saves, rework: per_hour * (hours + saves) * lost }
    }
}

/// Work of a job in all, at relative speed 1: what its submitter stated, or what the installation assumes.
pub fn work(config: &Config, job: &Job) -> Millis {
    job.spec.time.estimate.unwrap_or(config.estimates.running_time)
}

/// The work that a job has left at relative speed 1, by the share of its steps after its checkpoint.
pub fn remaining(config: &Config, job: &Job) -> Millis {
    let estimate = work(config, job);
    let left = match job.progress.total {
        Some(total) if total > 0 => {
            let done = job.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.step).min(total);
            let share = (total - done) as f64 / total as f64;
            Millis::from_secs_f64(estimate.as_secs_f64() * share)
        }
        _ => estimate,
    };
    left.max(Millis::from_secs(1))
}

/// From a loss to a program that works again, the rework not counted.
pub fn changeover(config: &Config, job: &Job) -> Millis {
    let estimates = &config.estimates;
    let restore = job.spec.checkpoint.as_ref().map(|policy| policy.restore_time.unwrap_or(estimates.restore_time));
    estimates.launch_time.saturating_add(restore.unwrap_or_default())
}

/// The least of a group, but for the rate.
#[derive(Clone, Copy, Debug)]
pub struct Least {
    capacity: CapacityType,
    hours: f64,
    time: Overhead,
}

/// How often one machine is taken back an hour, and how often with its last save done.
#[derive(Clone, Copy, Debug)]
pub struct Belief {
    per_hour: f64,
    saved_share: f64,
}

impl From<&InterruptionBelief> for Belief {
    fn from(belief: &InterruptionBelief) -> Self {
        Self { per_hour: belief.per_hour(), saved_share: belief.saved_share() }
    }
}

impl Belief {
    /// As where nobody is warned: no last save is done.
    pub fn unwarned(self) -> Self {
        Self { saved_share: 0.0, ..self }
    }

    /// The better of two in each respect: no offer of a group is better than all of them together.
    pub fn best(self, other: Self) -> Self {
        Self { per_hour: self.per_hour.min(other.per_hour), saved_share: self.saved_share.max(other.saved_share) }
    }
}

/// Expected hours beside the work itself.
#[derive(Clone, Copy, Debug, Default)]
struct Overhead {
    saving: f64,
    rework: f64,
}

/// What the interval of a job follows from; `None` when the job keeps no checkpoints.
pub fn saving(config: &Config, spec: &JobSpec, capacity: CapacityType, belief: Belief) -> Option<Saving> {
    let policy = spec.checkpoint.as_ref()?;
    let per_hour = belief.per_hour * f64::from(spec.nodes);
    Some(Saving {
        pause: policy.save_time.unwrap_or(config.estimates.save_time).as_secs_f64(),
        mean_between: if capacity == CapacityType::Spot { 3_600.0 / per_hour } else { f64::INFINITY },
        saved_share: belief.saved_share,
    })
}

/// The interval in force: the job's own, or the one with the least overhead; an hour where nothing interrupts.
pub fn checkpoint_interval(spec: &JobSpec, saving: Saving) -> Millis {
    match spec.checkpoint.as_ref().map(|policy| policy.interval) {
        Some(Interval::Every(interval)) => interval,
        _ => interval::optimal(saving).unwrap_or(Millis::from_hours(1)),
    }
}

/// Work that a loss there undoes on average: half an interval, where no last save is done. Nothing for a job that keeps
/// no checkpoints, to which every loss means all of it.
pub fn at_stake(config: &Config, spec: &JobSpec, slot: &Slot) -> Millis {
    let belief = Belief::from(&slot.offer.belief);
    saving(config, spec, slot.offer.key.capacity, belief).map_or(Millis::ZERO, |saving| {
        let interval = checkpoint_interval(spec, saving).as_secs_f64();
        Millis::from_secs_f64((1.0 - saving.saved_share) * interval / 2.0)
    })
}

/// Cost of moving bytes where no price is known.
pub fn upper_bound(config: &Config, bytes: Bytes) -> Micros {
    let micros = i128::from(config.estimates.egress_per_gb.get()) * i128::from(bytes.get());
    Micros::new(i64::try_from((micros + i128::from(Bytes::GB) - 1) / i128::from(Bytes::GB)).unwrap_or(i64::MAX))
}
