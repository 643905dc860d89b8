//! How a cluster's Slurm is reached, and the partitions of its machines.

use std::path::Path;

use leeway_drivers::slurm::{Queue, SlurmConfig, SlurmMachines};
use leeway_model::Millis;
use leeway_model::cluster::Machines;
use leeway_model::name::escape;
use leeway_model::resources::{Accelerators, CapacityType};

use super::raw::{RawCluster, RawMachines, RawSlurm, RawSlurmMachines};
use super::read::{SECOND, length};
use super::{Problems, SettingsError};

const DRIVER: &str = "slurm";
/// How long Slurm's own warning is asked for before a time limit.
const NOTICE: Millis = Millis::from_secs(60);
/// Between two listings: Slurm's controller serves others too.
const POLL: Millis = Millis::from_secs(5);

/// Of one cluster; `machines` are those that could be read. `None` where the cluster has another driver, or nothing can
/// be made of what is written.
pub fn read(
    key: &str,
    raw: &RawCluster,
    machines: &[Machines],
    base: &Path,
    problems: &mut Problems,
) -> Option<SlurmConfig> {
    let at = |field: &str| format!("{key}.slurm.{field}");
    if raw.driver.as_deref() != Some(DRIVER) {
        if raw.slurm.is_some() {
            let message = format!("belongs to clusters with driver = \"{DRIVER}\"; set it, or leave this out");
            problems.add(SettingsError::new(format!("{key}.slurm"), message));
        }
        let strays = raw.machines.iter().enumerate().filter(|(_, machines)| machines.slurm.is_some());
        for (index, _) in strays {
            let message = format!("belongs to clusters with driver = \"{DRIVER}\"; set it, or leave this out");
            problems.add(SettingsError::new(format!("{key}.machines[{index}].slurm"), message));
        }
        return None;
    }
    let fallback = RawSlurm::default();
    let slurm = raw.slurm.as_ref().unwrap_or(&fallback);
    let work_dir = slurm.work_dir.as_ref().map(|path| base.join(path));
    if work_dir.is_none() {
        let message = "is missing; name a folder that this machine and the nodes share, such as /shared/leeway";
        problems.add(SettingsError::new(at("work_dir"), message));
    }
    let (mut notice, mut poll) = (NOTICE, POLL);
    problems.take(length(&at("notice"), slurm.notice.as_deref(), SECOND, &mut notice));
    problems.take(length(&at("poll"), slurm.poll.as_deref(), SECOND, &mut poll));
    let time_limit = slurm.time_limit.as_deref().and_then(|text| {
        let mut limit = Millis::ZERO;
        problems.take(length(&at("time_limit"), Some(text), Millis::from_mins(1), &mut limit)).map(|()| limit)
    });
    let account = slurm.account.as_deref().and_then(|text| problems.take(plain(&at("account"), text)));
    let mut known = std::collections::BTreeMap::new();
    for (index, raw) in raw.machines.iter().enumerate() {
        let declared = machines.iter().find(|machines| Some(machines.shape.name.as_str()) == raw.name.as_deref());
        let Some(declared) = declared else { continue };
        let key = format!("{key}.machines[{index}].slurm");
        if let Some(read) = self::machines(&key, raw, declared, problems) {
            known.insert(declared.shape.name.clone(), read);
        }
    }
    let agent = match &slurm.agent {
        Some(path) => base.join(path),
        None => std::env::current_exe().unwrap_or_default(),
    };
    Some(SlurmConfig {
        work_dir: work_dir?,
        agent,
        commands: slurm.commands.as_ref().map(|path| base.join(path)),
        conf: slurm.conf.as_ref().map(|path| base.join(path)),
        account,
        time_limit,
        notice,
        poll,
        machines: known,
    })
}

fn machines(key: &str, raw: &RawMachines, declared: &Machines, problems: &mut Problems) -> Option<SlurmMachines> {
    let at = |field: &str| format!("{key}.{field}");
    let fallback = RawSlurmMachines::default();
    let slurm = raw.slurm.as_ref().unwrap_or(&fallback);
    let mut queues = std::collections::BTreeMap::new();
    let kinds = [
        (CapacityType::OnDemand, declared.on_demand.is_some(), "partition", &slurm.partition, &slurm.qos),
        (CapacityType::Spot, declared.spot.is_some(), "spot_partition", &slurm.spot_partition, &slurm.spot_qos),
        (CapacityType::Reserved, declared.reserved.is_some(), "partition", &slurm.partition, &slurm.qos),
    ];
    for (capacity, is_priced, field, partition, qos) in kinds {
        match partition {
            Some(partition) => {
                let partition = problems.take(plain(&at(field), partition));
                let qos = qos.as_deref().and_then(|qos| problems.take(plain(&at("qos"), qos)));
                queues.extend(partition.map(|partition| (capacity, Queue { partition, qos })));
            }
            None if is_priced => {
                let message =
                    format!("is missing; name the partition of {capacity} machines, or leave their price out");
                problems.add(SettingsError::new(at(field), message));
            }
            None => {}
        }
    }
    let typed = |Accelerators { model, count }: &Accelerators| format!("gpu:{}:{count}", model.to_lowercase()).into();
    let gres = match &slurm.gres {
        Some(text) => Some(problems.take(plain(&at("gres"), text))?),
        None => declared.shape.accelerators.as_ref().map(typed),
    };
    let constraint = slurm.constraint.as_deref().and_then(|text| problems.take(plain(&at("constraint"), text)));
    Some(SlurmMachines { queues, gres, constraint })
}

/// A word for the head of a batch script: no blanks, no quotes.
fn plain(key: &str, text: &str) -> Result<Box<str>, SettingsError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.,:+&|[]()*@=/".contains(c);
    if !text.is_empty() && text.len() <= 256 && text.chars().all(fits) {
        return Ok(text.into());
    }
    let message =
        format!("'{}' cannot stand in a batch script; use letters, digits and _-.,:+&|[]()*@=/", escape(text));
    Err(SettingsError::new(key, message))
}
