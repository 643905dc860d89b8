//! The job as its owner describes it.

use std::collections::BTreeMap;

use leeway_model::checkpoint::{CheckpointPolicy, Interval};
use leeway_model::job::{DataInput, DataOutput, JobSpec, MoneyTerms, Program, RetryPolicy, TimeTerms, Upload};
use leeway_model::resources::ResourceRequest;
use leeway_model::{Bytes, Currency, JobId, Micros, Millis, Name, Rate, Timestamp};

use crate::check;
use crate::invalid::Within;
use crate::limits::{
    CHECKPOINTS_KEPT_MAX, DATA_MAX, DEPENDENCIES_MAX, EXIT_CODES_MAX, MOUNTS_MAX, NODES_MAX, RESOURCES_MAX, SECRETS_MAX,
};
use crate::{Invalid, pb};

impl pb::JobSpec {
    /// The message for a spec whose amounts are in the ledger's currency. Of secrets only the names appear.
    pub fn from_model(spec: &JobSpec, ledger: Currency) -> Self {
        Self {
            name: spec.name.to_string(),
            owner: spec.owner.to_string(),
            nodes: spec.nodes,
            resources: spec.resources.iter().map(Into::into).collect(),
            ordered: spec.ordered,
            priority: spec.priority,
            program: Some((&spec.program).into()),
            money: Some((&spec.money).into()),
            time: Some((&spec.time).into()),
            data: spec.data.iter().map(Into::into).collect(),
            outputs: spec.outputs.as_ref().map(Into::into),
            checkpoint: spec.checkpoint.as_ref().map(Into::into),
            retry: Some((&spec.retry).into()),
            depends_on: spec.depends_on.iter().map(JobId::to_string).collect(),
            policy: spec.policy.as_ref().map(Name::to_string),
            labels: spec.labels.clone(),
            currency: ledger.to_string(),
        }
    }

    /// The spec, without its secrets: their values never travel in it, and `secret_names` is checked against the values
    /// beside it by [`submit`](crate::submit).
    pub fn into_model(self, ledger: Currency) -> Result<JobSpec, Invalid> {
        check::ledger_currency("currency", &self.currency, ledger)?;
        check::labels("labels", &self.labels)?;
        let resources = check::list("resources", self.resources, 1..=RESOURCES_MAX, ResourceRequest::try_from)?;
        let retry = self.retry.map(RetryPolicy::try_from).transpose().within("retry")?;
        Ok(JobSpec {
            name: check::display_name("name", &self.name)?,
            owner: check::name("owner", &self.owner)?,
            nodes: check::between("nodes", self.nodes, 1..=NODES_MAX)?,
            resources,
            ordered: self.ordered,
            priority: self.priority,
            program: Program::try_from(check::required("program", self.program)?).within("program")?,
            money: self.money.map(MoneyTerms::try_from).transpose().within("money")?.unwrap_or_default(),
            time: self.time.map(TimeTerms::try_from).transpose().within("time")?.unwrap_or_default(),
            data: check::list("data", self.data, 0..=DATA_MAX, DataInput::try_from)?,
            outputs: self.outputs.map(DataOutput::try_from).transpose().within("outputs")?,
            checkpoint: self.checkpoint.map(CheckpointPolicy::try_from).transpose().within("checkpoint")?,
            retry: retry.unwrap_or_default(),
            depends_on: check::list("depends_on", self.depends_on, 0..=DEPENDENCIES_MAX, |id| check::job_id("", &id))?,
            policy: check::optional_name("policy", self.policy.as_deref())?,
            labels: self.labels,
        })
    }
}

impl From<&Program> for pb::Program {
    fn from(value: &Program) -> Self {
        Self {
            setup: value.setup.as_deref().map(str::to_owned),
            run: value.run.to_string(),
            env: value.env.clone(),
            secret_names: value.secrets.keys().cloned().collect(),
            workdir: value.workdir.as_ref().map(Into::into),
            mounts: value.mounts.iter().map(|(path, upload)| (path.clone(), upload.into())).collect(),
        }
    }
}

impl TryFrom<pb::Program> for Program {
    type Error = Invalid;

    fn try_from(wire: pb::Program) -> Result<Self, Invalid> {
        check::env("env", &wire.env)?;
        check::count("secret_names", wire.secret_names.len(), 0..=SECRETS_MAX)?;
        for (index, name) in wire.secret_names.iter().enumerate() {
            check::env_name("", name).at("secret_names", index)?;
        }
        check::count("mounts", wire.mounts.len(), 0..=MOUNTS_MAX)?;
        let mut mounts = BTreeMap::new();
        for (path, upload) in wire.mounts {
            check::path("mounts", path.clone())?;
            let upload = Upload::try_from(upload).within(&check::in_entry(Invalid::new("mounts", ""), &path).field)?;
            mounts.insert(path, upload);
        }
        Ok(Self {
            setup: wire.setup.map(|text| check::script("setup", text)).transpose()?,
            run: check::script("run", wire.run)?,
            env: wire.env,
            secrets: BTreeMap::new(),
            workdir: wire.workdir.map(Upload::try_from).transpose().within("workdir")?,
            mounts,
        })
    }
}

impl From<&MoneyTerms> for pb::MoneyTerms {
    fn from(value: &MoneyTerms) -> Self {
        Self {
            budget: value.budget.as_ref().map(Name::to_string),
            max_cost_micros: value.max_cost.map(Micros::get),
            value_nanos_per_hour: value.value_per_hour.map(Rate::nanos_per_hour),
        }
    }
}

impl TryFrom<pb::MoneyTerms> for MoneyTerms {
    type Error = Invalid;

    fn try_from(wire: pb::MoneyTerms) -> Result<Self, Invalid> {
        let max_cost = |micros| check::between("max_cost_micros", micros, 1..=i64::MAX).map(Micros::new);
        Ok(Self {
            budget: check::optional_name("budget", wire.budget.as_deref())?,
            max_cost: wire.max_cost_micros.map(max_cost).transpose()?,
            value_per_hour: wire.value_nanos_per_hour.map(Rate::from_nanos),
        })
    }
}

impl From<&TimeTerms> for pb::TimeTerms {
    fn from(value: &TimeTerms) -> Self {
        Self {
            deadline_ms: value.deadline.map(Timestamp::as_millis),
            estimate_ms: value.estimate.map(Millis::as_millis),
            max_duration_ms: value.max_duration.map(Millis::as_millis),
            deadline_in_ms: None,
        }
    }
}

impl pb::JobSpec {
    /// Makes an instant of a deadline that counts from the moment a submission is taken. To be done after the request was
    /// told from others by its bytes, so that one that is sent again is the same.
    pub fn settle_deadline(&mut self, now: Timestamp) {
        if let Some(time) = &mut self.time
            && time.deadline_ms.is_none()
            && let Some(Ok(length)) = time.deadline_in_ms.map(|length| check::length("deadline_in_ms", length))
        {
            time.deadline_ms = Some(now.after(length).as_millis());
            time.deadline_in_ms = None;
        }
    }
}

impl TryFrom<pb::TimeTerms> for TimeTerms {
    type Error = Invalid;

    fn try_from(wire: pb::TimeTerms) -> Result<Self, Invalid> {
        if let Some(length) = wire.deadline_in_ms {
            check::length("deadline_in_ms", length)?;
            let problem = match wire.deadline_ms {
                Some(_) => "and deadline_ms exclude each other; give one of them",
                None => "counts from a submission, and this is none; give deadline_ms",
            };
            return Err(Invalid::new("deadline_in_ms", problem));
        }
        Ok(Self {
            deadline: check::optional_instant("deadline_ms", wire.deadline_ms)?,
            estimate: check::optional_length("estimate_ms", wire.estimate_ms)?,
            max_duration: check::optional_length("max_duration_ms", wire.max_duration_ms)?,
        })
    }
}

macro_rules! data_places {
    ($($name:ident),+) => { $(
        impl From<&$name> for pb::$name {
            fn from(value: &$name) -> Self {
                Self {
                    url: value.url.to_string(),
                    region: value.region.as_ref().map(ToString::to_string),
                    size_bytes: value.size.map(Bytes::get),
                }
            }
        }

        impl TryFrom<pb::$name> for $name {
            type Error = Invalid;

            fn try_from(wire: pb::$name) -> Result<Self, Invalid> {
                Ok(Self {
                    url: check::url("url", wire.url, "s3://bucket/path")?,
                    region: wire.region.map(|region| check::region("region", &region)).transpose()?,
                    size: wire.size_bytes.map(Bytes::new),
                })
            }
        }
    )+ };
}

data_places!(DataInput, DataOutput);

impl From<&CheckpointPolicy> for pb::CheckpointPolicy {
    fn from(value: &CheckpointPolicy) -> Self {
        Self {
            path: value.path.as_deref().map(str::to_owned),
            interval_ms: match value.interval {
                Interval::Auto => None,
                Interval::Every(length) => Some(length.as_millis()),
            },
            size_bytes: value.size.map(Bytes::get),
            save_time_ms: value.save_time.map(Millis::as_millis),
            restore_time_ms: value.restore_time.map(Millis::as_millis),
            keep: value.keep,
            restart_without: value.restart_without,
        }
    }
}

impl TryFrom<pb::CheckpointPolicy> for CheckpointPolicy {
    type Error = Invalid;

    fn try_from(wire: pb::CheckpointPolicy) -> Result<Self, Invalid> {
        let interval = check::optional_length("interval_ms", wire.interval_ms)?;
        Ok(Self {
            path: wire.path.map(|path| check::relative_path("path", path)).transpose()?,
            interval: interval.map_or(Interval::Auto, Interval::Every),
            size: wire.size_bytes.map(Bytes::new),
            save_time: check::optional_measured("save_time_ms", wire.save_time_ms)?,
            restore_time: check::optional_measured("restore_time_ms", wire.restore_time_ms)?,
            keep: check::between("keep", wire.keep, 1..=CHECKPOINTS_KEPT_MAX)?,
            restart_without: wire.restart_without,
        })
    }
}

impl From<&RetryPolicy> for pb::RetryPolicy {
    fn from(value: &RetryPolicy) -> Self {
        Self {
            user_failures: value.user_failures,
            infrastructure_failures: value.infrastructure_failures,
            interruptions: value.interruptions,
            within_ms: value.within.map(Millis::as_millis),
            exit_codes: value.exit_codes.clone(),
        }
    }
}

impl TryFrom<pb::RetryPolicy> for RetryPolicy {
    type Error = Invalid;

    fn try_from(wire: pb::RetryPolicy) -> Result<Self, Invalid> {
        Ok(Self {
            user_failures: wire.user_failures,
            infrastructure_failures: wire.infrastructure_failures,
            interruptions: wire.interruptions,
            within: check::optional_length("within_ms", wire.within_ms)?,
            exit_codes: check::list("exit_codes", wire.exit_codes, 0..=EXIT_CODES_MAX, |code| {
                check::between("", code, 1..=255)
            })?,
        })
    }
}
