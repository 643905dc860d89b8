//! What Slurm's words mean.

use leeway_model::run::LaunchErrorClass::{self, Capacity, Denied, Invalid, Permanent, Quota, Throttled, Transient};

use crate::errors::ErrorTable;

/// Of `sbatch` and `scancel`.
pub const CALLS: ErrorTable = &[
    ("invalid partition", Invalid),
    ("invalid qos", Invalid),
    ("invalid --time", Invalid),
    ("invalid feature", Invalid),
    ("invalid generic resource", Invalid),
    ("invalid account", Denied),
    ("access/permission denied", Denied),
    ("user's group not permitted", Denied),
    ("protocol authentication error", Denied),
    ("invalid user", Denied),
    ("unable to process configuration file", Permanent),
    ("requested node configuration is not available", Permanent),
    ("memory specification can not be satisfied", Permanent),
    ("more processors requested than permitted", Permanent),
    ("node count specification invalid", Permanent),
    ("requested time limit is invalid", Permanent),
    ("required partition not available", Capacity),
    ("nodes are busy", Capacity),
    ("accounting/qos policy", Quota),
    ("submit limit", Quota),
    ("resource temporarily unavailable", Throttled),
    ("temporarily unable to accept job", Throttled),
    ("too many", Throttled),
    ("unable to contact slurm controller", Transient),
    ("connection refused", Transient),
    ("socket timed out", Transient),
    ("try again later", Transient),
    ("no answer in", Transient),
    ("cannot run", Permanent),
];

/// Why a job waits, by the reason's code, and whether waiting can help.
pub fn waiting(reason: &str) -> (LaunchErrorClass, bool) {
    let starts = |parts: &[&str]| parts.iter().any(|part| reason.starts_with(part));
    if starts(&["PartitionNodeLimit", "PartitionTimeLimit", "PartitionConfig", "BadConstraints", "InvalidQOS"]) {
        return (Permanent, false);
    }
    if starts(&["InvalidAccount", "AccountNotAllowed", "QOSNotAllowed", "JobHeld"]) {
        return (Denied, false);
    }
    // A job of ours that asks for more than a limit allows one job will never run; one that waits for others may.
    if starts(&["Assoc", "QOS"]) {
        let alone = reason.contains("PerJob") || reason.contains("JobLimit") || reason.contains("MinGRES");
        return (Quota, !alone);
    }
    if starts(&["PartitionDown", "PartitionInactive", "Reservation"]) {
        return (Capacity, true);
    }
    if starts(&["Resources", "Priority", "Nodes", "ReqNodeNotAvail", "None", "Licenses", "NodeDown"]) {
        return (Capacity, true);
    }
    (Transient, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::classify;

    #[test]
    fn p_07_each_refusal_has_its_class() {
        let class = |said: &str| classify("slurm", CALLS, said);
        let failed = "sbatch: error: Batch job submission failed: ";
        assert_eq!(class(&format!("{failed}Invalid partition name specified")), Invalid);
        assert_eq!(class(&format!("{failed}Requested node configuration is not available")), Permanent);
        assert_eq!(class(&format!("{failed}Job violates accounting/QOS policy (job submit limit, ...)")), Quota);
        assert_eq!(class(&format!("{failed}Invalid account or account/partition combination specified")), Denied);
        assert_eq!(class(&format!("{failed}Unable to contact slurm controller (connect failure)")), Transient);
        assert_eq!(class("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying"), Throttled);
    }

    #[test]
    fn a_reason_says_whether_waiting_can_help() {
        assert_eq!(waiting("Resources"), (Capacity, true));
        assert_eq!(waiting("PartitionNodeLimit"), (Permanent, false));
        assert_eq!(waiting("QOSMaxGRESPerUser"), (Quota, true));
        assert_eq!(waiting("QOSMaxCpuPerJobLimit"), (Quota, false));
        assert_eq!(waiting("JobHeldAdmin"), (Denied, false));
        assert_eq!(waiting("SomethingOfNextYear"), (Transient, true));
    }
}
