//! What an operator may tune of the core. The shells read files and environments; the core gets this value.

use std::collections::BTreeMap;

use leeway_model::egress::EgressTable;
use leeway_model::{Bytes, Currency, InstallationId, Micros, Millis, Name, Rate};

#[derive(Clone, Debug)]
pub struct Config {
    pub installation: InstallationId,
    /// The ledger's currency. Offers priced in another are excluded.
    pub currency: Currency,
    pub default_policy: Name,
    /// Policy of jobs that have a deadline and name none.
    pub deadline_policy: Option<Name>,
    /// Order of the jobs that wait, by name.
    pub queue_order: Name,
    pub fair_share: FairShare,
    /// Budget of jobs that name none; without it they are refused.
    pub default_budget: Option<Name>,
    pub lease: Lease,
    pub money: Money,
    pub launch: Launch,
    /// A job that does not say what an hour is worth does not take a place whose bill is more than so many times that of one
    /// that only cools down, or (`whole-bill`) that our own runs fill, before that one comes back. Of on-demand machines, which commonly cost three to four times the spot price, jobs are kept by more than 4.
    pub wait_for_cheaper_factor: f64,
    pub estimates: Estimates,
    pub egress: EgressTable,
    /// A price of a feed older than this is stale, and its offer takes no new run.
    pub price_max_age: Millis,
    /// Finished jobs are forgotten after this long.
    pub keep_finished: Millis,
    /// A client request id is remembered at least this long.
    pub keep_requests: Millis,
    /// Most placements in one step; the rest follow in the next, so that clients are answered in between.
    pub placements_per_step: usize,
    /// Most jobs of one owner that have not ended; more are refused, so that nobody fills the queue of all.
    pub open_jobs_per_owner: u64,
}

/// How the queue's orders weigh owners against each other.
#[derive(Clone, Debug)]
pub struct FairShare {
    /// What an owner used so long ago counts half.
    pub half_life: Millis,
    /// Of owners, each above zero; 1 for who is not named. One of weight 2 may use twice as much as one of weight 1.
    pub weights: BTreeMap<Name, f64>,
}

impl FairShare {
    /// A past that fades faster than owners are ranked would be none.
    pub const HALF_LIFE_MIN: Millis = Millis::from_mins(1);

    /// Whether a number can weigh an owner.
    pub fn is_weight(number: f64) -> bool {
        number.is_finite() && number > 0.0
    }
}

/// Leases of agents; see the fencing rules in ARCHITECTURE.md.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    pub ttl: Millis,
    /// Between SIGTERM and SIGKILL when a lease ends.
    pub kill_grace: Millis,
    pub margin: Millis,
}

/// How holds are reckoned and usage is posted.
#[derive(Clone, Copy, Debug)]
pub struct Money {
    /// Longest stretch of work that one hold pays for.
    pub horizon: Millis,
    /// Work that a hold must always be able to pay for so that the run can still save and stop.
    pub stop_reserve: Millis,
    /// A hold is extended when less than the reserve and this is left.
    pub extend_before: Millis,
    pub meter_every: Millis,
    /// Price of a gigabyte of disk for a month of 730 hours, in nano-units an hour per GB.
    pub disk_gb: Rate,
}

#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// A launch without outcome is given up after this.
    pub deadline: Millis,
    /// First cool-down of an offer after a refusal or a loss; doubles up to `cooldown_max`.
    pub cooldown: Millis,
    pub cooldown_max: Millis,
    /// First wait before a failed program is started again; doubles up to five minutes.
    pub backoff: Millis,
    /// A stop without proof is ordered again after this, doubling up to a minute.
    pub stop_again: Millis,
    /// Drain of a run that no provider hurries: budget, cancel, longest duration.
    pub drain: Millis,
}

/// What is assumed where a job or an offer says nothing. Every use is flagged in the decision.
#[derive(Clone, Debug)]
pub struct Estimates {
    pub running_time: Millis,
    pub input_size: Bytes,
    pub save_time: Millis,
    pub restore_time: Millis,
    /// From the order to a running program.
    pub launch_time: Millis,
    /// Bytes a second that staging reaches.
    pub bandwidth: Bytes,
    /// Egress price per GB used where no pair is known.
    pub egress_per_gb: Micros,
    /// Relative speed by accelerator model; what is not listed has speed 1.
    pub speeds: BTreeMap<Box<str>, f64>,
}

impl Config {
    /// Defaults for an installation.
    pub fn new(installation: InstallationId, default_policy: Name) -> Self {
        Self {
            installation,
            currency: Currency::USD,
            default_policy,
            deadline_policy: None,
            queue_order: "first-come".parse().expect("'first-come' is a name"),
            fair_share: FairShare { half_life: Millis::from_hours(24 * 7), weights: BTreeMap::new() },
            default_budget: None,
            lease: Lease {
                ttl: Millis::from_secs(60),
                kill_grace: Millis::from_secs(10),
                margin: Millis::from_secs(15),
            },
            money: Money {
                horizon: Millis::from_hours(1),
                stop_reserve: Millis::from_mins(8),
                extend_before: Millis::from_mins(5),
                meter_every: Millis::from_mins(1),
                disk_gb: Rate::from_nanos(109_589),
            },
            launch: Launch {
                deadline: Millis::from_mins(10),
                cooldown: Millis::from_mins(5),
                cooldown_max: Millis::from_hours(1),
                backoff: Millis::from_secs(10),
                stop_again: Millis::from_secs(10),
                drain: Millis::from_mins(2),
            },
            wait_for_cheaper_factor: 4.0,
            estimates: Estimates {
                running_time: Millis::from_hours(1),
                input_size: Bytes::from_gb(100),
                save_time: Millis::from_secs(30),
                restore_time: Millis::from_mins(1),
                launch_time: Millis::from_mins(3),
                bandwidth: Bytes::new(200_000_000),
                egress_per_gb: Micros::new(120_000),
                speeds: BTreeMap::new(),
            },
            egress: EgressTable::default(),
            price_max_age: Millis::from_hours(24),
            keep_finished: Millis::from_hours(24 * 30),
            keep_requests: Millis::from_hours(24 * 7),
            placements_per_step: 256,
            open_jobs_per_owner: 200_000,
        }
    }

    /// How long after its last renewal a silent run may no longer have effects.
    pub fn silence(&self) -> Millis {
        self.lease.ttl.saturating_add(self.lease.kill_grace).saturating_add(self.lease.margin)
    }
}
