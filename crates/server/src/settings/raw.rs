//! The configuration as it is written, before its texts are read. `schema.rs` lists the same keys.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Raw {
    pub installation: Option<String>,
    pub data_dir: Option<String>,
    pub listen: Option<String>,
    pub metrics_listen: Option<String>,
    pub advertise: Option<String>,
    pub default_policy: Option<String>,
    pub deadline_policy: Option<String>,
    pub queue_order: Option<String>,
    pub default_budget: Option<String>,
    pub currency: Option<String>,
    pub confirm_restore: Option<String>,
    pub log: RawLog,
    pub lease: RawLease,
    pub money: RawMoney,
    pub launch: RawLaunch,
    pub estimates: RawEstimates,
    pub fair_share: RawFairShare,
    pub limits: RawLimits,
    pub local: RawLocal,
    pub webhooks: RawWebhooks,
    pub budgets: Vec<RawBudget>,
    pub clusters: Vec<RawCluster>,
    pub stores: Vec<RawStore>,
    pub catalogs: Vec<RawCatalog>,
    pub egress: RawEgress,
    pub clock: RawClock,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawLog {
    pub level: Option<String>,
    pub format: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawLease {
    pub ttl: Option<String>,
    pub kill_grace: Option<String>,
    pub margin: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawMoney {
    pub horizon: Option<String>,
    pub stop_reserve: Option<String>,
    pub extend_before: Option<String>,
    pub meter_every: Option<String>,
    pub disk_gb_hour: Option<String>,
    pub price_max_age: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawLaunch {
    pub deadline: Option<String>,
    pub cooldown: Option<String>,
    pub cooldown_max: Option<String>,
    pub backoff: Option<String>,
    pub stop_again: Option<String>,
    pub drain: Option<String>,
    pub wait_for_cheaper_factor: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawEstimates {
    pub running_time: Option<String>,
    pub input_size: Option<String>,
    pub save_time: Option<String>,
    pub restore_time: Option<String>,
    pub launch_time: Option<String>,
    pub bandwidth: Option<String>,
    pub egress_per_gb: Option<String>,
    pub speeds: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawFairShare {
    pub half_life: Option<String>,
    pub weights: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawLimits {
    pub queue: Option<u32>,
    pub group: Option<u32>,
    pub placements_per_step: Option<u32>,
    pub open_jobs_per_owner: Option<u32>,
    pub submissions_per_second: Option<u32>,
    pub log_size: Option<String>,
    pub upload_size: Option<String>,
    pub keep_finished: Option<String>,
    pub keep_requests: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawLocal {
    pub agent: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawWebhooks {
    pub allow_http: Option<bool>,
    pub allowed_networks: Vec<String>,
    pub allowed_ports: Vec<u32>,
    pub any_port: Option<bool>,
    pub timeout: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawBudget {
    pub name: Option<String>,
    pub parent: Option<String>,
    pub cap: Option<String>,
    pub soft_limit: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawStore {
    pub url: Option<String>,
    pub region: Option<String>,
    pub endpoint: Option<String>,
    pub credentials: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawCluster {
    pub name: Option<String>,
    pub driver: Option<String>,
    pub region: Option<String>,
    pub zone: Option<String>,
    pub checkpoints: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub machines: Vec<RawMachines>,
    pub market: Option<RawMarket>,
    pub slurm: Option<RawSlurm>,
    pub aws: Option<RawAws>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawAws {
    pub endpoint: Option<String>,
    pub profile: Option<String>,
    pub credentials: Option<String>,
    pub image: Option<String>,
    pub subnet: Option<String>,
    pub security_groups: Vec<String>,
    pub instance_profile: Option<String>,
    pub agent: Option<String>,
    pub work_dir: Option<String>,
    pub metadata: Option<String>,
    pub max_lifetime: Option<String>,
    pub visibility: Option<String>,
    pub poll: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawSlurm {
    pub work_dir: Option<String>,
    pub agent: Option<String>,
    pub commands: Option<String>,
    pub conf: Option<String>,
    pub account: Option<String>,
    pub time_limit: Option<String>,
    pub notice: Option<String>,
    pub poll: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawSlurmMachines {
    pub partition: Option<String>,
    pub qos: Option<String>,
    pub spot_partition: Option<String>,
    pub spot_qos: Option<String>,
    pub gres: Option<String>,
    pub constraint: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawMachines {
    pub name: Option<String>,
    pub instance_type: Option<String>,
    pub cpus: Option<f64>,
    pub memory: Option<String>,
    pub accelerator: Option<String>,
    pub accelerators: Option<u32>,
    pub disk: Option<String>,
    pub count: Option<u32>,
    pub on_demand: Option<String>,
    pub spot: Option<String>,
    pub reserved: Option<String>,
    pub slurm: Option<RawSlurmMachines>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawMarket {
    pub trace: Option<String>,
    pub shape: Option<String>,
    pub notice: Option<String>,
    pub end: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawCatalog {
    pub file: Option<String>,
    pub layout: Option<String>,
    pub provider: Option<String>,
    pub as_of: Option<String>,
    pub max_age: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawEgress {
    pub defaults: Option<bool>,
    pub files: Vec<RawEgressFile>,
    pub pairs: Vec<RawEgressPair>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawEgressFile {
    pub file: Option<String>,
    pub provider: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawEgressPair {
    pub from: Option<String>,
    pub to: Option<String>,
    pub per_gb: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawClock {
    pub speed: Option<u32>,
}
