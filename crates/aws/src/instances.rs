//! Listing what is ours, and what an EC2 error says.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::types::{Filter, Instance as Ec2Instance};
use leeway_drivers::{Instance, InstanceState};
use leeway_model::{InstallationId, Name, RunId};

pub const INSTALLATION: &str = "leeway:installation";
pub const CLUSTER: &str = "leeway:cluster";
pub const RUN: &str = "leeway:run";

/// A call to EC2 failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// EC2 answered with this code: nothing was done.
    #[error("{code}: {message}")]
    Refused { code: String, message: String },
    /// No answer: what was asked may be done.
    #[error("no answer from EC2: {0}")]
    Lost(String),
}

impl CallError {
    /// What the tables read.
    pub fn said(&self) -> String {
        self.to_string()
    }

    pub fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            Self::Lost(_) => "",
        }
    }
}

impl<E: ProvideErrorMetadata, R> From<SdkError<E, R>> for CallError
where
    SdkError<E, R>: std::error::Error,
{
    fn from(error: SdkError<E, R>) -> Self {
        let chain = |error: &dyn std::error::Error| {
            let mut text = error.to_string();
            let mut source = error.source();
            while let Some(inner) = source {
                text += &format!(": {inner}");
                source = inner.source();
            }
            text
        };
        match &error {
            SdkError::ServiceError(answered) => {
                let inner = answered.err();
                match inner.code() {
                    Some(code) => {
                        let message = inner.message().unwrap_or_default().to_owned();
                        Self::Refused { code: code.to_owned(), message }
                    }
                    // An answer that says nothing, as of a server that fell over while it worked.
                    None => Self::Lost(chain(&error)),
                }
            }
            SdkError::ConstructionFailure(_) => Self::Refused { code: "InvalidRequest".into(), message: chain(&error) },
            _ => Self::Lost(chain(&error)),
        }
    }
}

/// Whose instances are listed.
#[derive(Clone, Debug)]
pub struct Ours<'a> {
    pub installation: &'a InstallationId,
    pub cluster: &'a Name,
}

impl Ours<'_> {
    /// Every instance of this cluster, or of one run of it, and whether the listing is whole.
    pub async fn list(&self, client: &Client, run: Option<RunId>) -> Result<(Vec<Instance>, bool), CallError> {
        let filter = |tag: &str, value: String| Filter::builder().name(format!("tag:{tag}")).values(value).build();
        let mut request = client
            .describe_instances()
            .filters(filter(INSTALLATION, self.installation.0.to_string()))
            .filters(filter(CLUSTER, self.cluster.to_string()));
        if let Some(run) = run {
            request = request.filters(filter(RUN, run.to_string()));
        }
        let mut pages = request.max_results(1_000).into_paginator().send();
        let mut found = Vec::new();
        let mut is_first = true;
        while let Some(page) = pages.next().await {
            match page {
                Ok(page) => {
                    let instances = page.reservations().iter().flat_map(|one| one.instances());
                    found.extend(instances.filter_map(|instance| self.read(instance)));
                }
                Err(error) if is_first => return Err(error.into()),
                Err(error) => {
                    let error = CallError::from(error);
                    tracing::warn!(cluster = %self.cluster, %error, "a page of a listing failed; the listing is incomplete");
                    return Ok((found, false));
                }
            }
            is_first = false;
        }
        found.sort_by_key(|instance| (instance.run, instance.rank));
        Ok((found, true))
    }

    /// Private addresses of a run's instances that have not ended, in rank order.
    pub async fn addresses(&self, client: &Client, run: RunId) -> Result<Vec<String>, CallError> {
        let filter = |tag: &str, value: String| Filter::builder().name(format!("tag:{tag}")).values(value).build();
        let request = client
            .describe_instances()
            .filters(filter(INSTALLATION, self.installation.0.to_string()))
            .filters(filter(CLUSTER, self.cluster.to_string()))
            .filters(filter(RUN, run.to_string()));
        let mut pages = request.max_results(1_000).into_paginator().send();
        let mut found = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(CallError::from)?;
            let instances = page.reservations().iter().flat_map(|one| one.instances());
            let open = instances.filter_map(|one| Some((self.read(one)?, one.private_ip_address()?.to_owned())));
            found.extend(open.filter(|(instance, _)| instance.state != InstanceState::Gone));
        }
        found.sort_by_key(|(instance, _)| instance.rank);
        Ok(found.into_iter().map(|(_, address)| address).collect())
    }

    /// An instance, when all its tags are ours. The filters asked for them; nothing is ended on their word alone.
    pub fn read(&self, instance: &Ec2Instance) -> Option<Instance> {
        let tag = |name: &str| {
            let tag = instance.tags().iter().find(|tag| tag.key() == Some(name));
            tag.and_then(|tag| tag.value())
        };
        let is_ours =
            tag(INSTALLATION) == Some(self.installation.0.as_str()) && tag(CLUSTER) == Some(self.cluster.as_str());
        let run: RunId = tag(RUN).filter(|_| is_ours)?.parse().ok()?;
        let rank = u32::try_from(instance.ami_launch_index().unwrap_or(0)).unwrap_or(0);
        let name = instance.state().and_then(|state| state.name()).map_or("", |name| name.as_str());
        let state = match name {
            "pending" | "running" => InstanceState::Running,
            "shutting-down" | "stopping" | "stopped" => InstanceState::Stopping,
            "terminated" => InstanceState::Gone,
            other => {
                tracing::warn!(state = other, "a state that this driver does not know");
                InstanceState::Unknown
            }
        };
        let why = instance.state_reason().and_then(|reason| reason.code()).filter(|_| name != "running");
        let detail = why.map_or_else(|| name.to_owned(), |why| format!("{name}: {why}"));
        let read = Instance::new(run, rank, instance.instance_id()?.into(), state);
        Some(Instance { detail: Some(detail.into()), ..read })
    }
}
