//! ClusterService.

use std::collections::BTreeMap;

use leeway_core::{Event, Reply};
use leeway_model::Name;
use leeway_model::cluster::ClusterSpec;
use leeway_proto::invalid::Within;
use leeway_proto::pb::cluster_service_server::ClusterService;
use leeway_proto::{Invalid, check, pb};
use tonic::{Request, Response, Status};

use super::{Shared, blocking, refused, unexpected};
use crate::driver_loop::View;

#[derive(Clone, Debug)]
pub struct Clusters(pub Shared);

impl Clusters {
    async fn all(&self) -> Result<BTreeMap<Name, pb::Cluster>, Status> {
        let ledger = self.0.ledger();
        let look = move |view: &mut View<'_>| {
            let tables = view.scheduler.tables();
            let show = |cluster: &leeway_core::state::Cluster| {
                let standing = view.scheduler.runs_on(&cluster.spec.name);
                let runs = u32::try_from(standing.len()).unwrap_or(u32::MAX);
                let nodes = standing.into_iter().filter_map(|id| view.scheduler.run(id)).map(|run| run.nodes);
                let machines = nodes.fold(0, u32::saturating_add);
                pb::Cluster::from_model(&cluster.spec, cluster.state, runs, machines, ledger)
            };
            tables.clusters.values().map(|cluster| (cluster.spec.name.clone(), show(cluster))).collect()
        };
        Ok(self.0.handle.read(look).await?)
    }

    async fn ask(&self, event: Event, name: Name) -> Result<Option<pb::Cluster>, Status> {
        match self.0.handle.ask(event).await? {
            Reply::Done => Ok(self.all().await?.remove(&name)),
            Reply::Refused(refusal) => Err(refused(&refusal)),
            other => Err(unexpected(&other)),
        }
    }

    /// What only this process can know of a declaration.
    async fn check(&self, spec: &ClusterSpec) -> Result<(), Invalid> {
        let Some(driver) = self.0.drivers.get(&spec.driver) else {
            let known: Vec<&str> = self.0.drivers.keys().map(Name::as_str).collect();
            let message = format!("'{}' is not in this build; use one of {}", spec.driver, known.join(", "));
            return Err(Invalid::new("driver", message));
        };
        driver.check(spec).map_err(|message| Invalid::new("driver", message))?;
        let (url, stores) = (spec.checkpoints.clone(), self.0.stores.clone());
        let opened = blocking(move || stores.open(&url).map(|_| ())).await;
        match opened {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Invalid::new("checkpoints_url", error.to_string())),
            Err(status) => Err(Invalid::new("checkpoints_url", status.message())),
        }
    }
}

#[tonic::async_trait]
impl ClusterService for Clusters {
    async fn get_installation(
        &self,
        _request: Request<pb::GetInstallationRequest>,
    ) -> Result<Response<pb::GetInstallationResponse>, Status> {
        let (config, policies) = (&self.0.config, leeway_policies::all());
        let installation = pb::Installation {
            installation_id: config.installation.to_string(),
            currency: self.0.ledger().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            default_policy: config.default_policy.to_string(),
            policies: policies.names().map(ToString::to_string).collect(),
            drivers: self.0.drivers.keys().map(ToString::to_string).collect(),
            default_budget: config.default_budget.as_ref().map(ToString::to_string),
            report_only: self.0.report_only,
        };
        Ok(Response::new(pb::GetInstallationResponse { installation: Some(installation) }))
    }

    async fn register_cluster(
        &self,
        request: Request<pb::RegisterClusterRequest>,
    ) -> Result<Response<pb::RegisterClusterResponse>, Status> {
        let spec = check::required("spec", request.into_inner().spec)?;
        let spec = spec.into_model(self.0.ledger()).within("spec")?;
        self.check(&spec).await.within("spec")?;
        let name = spec.name.clone();
        let cluster = self.ask(Event::ClusterRegistered { spec }, name).await?;
        Ok(Response::new(pb::RegisterClusterResponse { cluster }))
    }

    async fn list_clusters(
        &self,
        _request: Request<pb::ListClustersRequest>,
    ) -> Result<Response<pb::ListClustersResponse>, Status> {
        let clusters = self.all().await?.into_values().collect();
        Ok(Response::new(pb::ListClustersResponse { clusters }))
    }

    async fn drain_cluster(
        &self,
        request: Request<pb::DrainClusterRequest>,
    ) -> Result<Response<pb::DrainClusterResponse>, Status> {
        let name = check::name("name", &request.into_inner().name)?;
        let cluster = self.ask(Event::ClusterDrained { cluster: name.clone() }, name).await?;
        Ok(Response::new(pb::DrainClusterResponse { cluster }))
    }

    async fn resume_cluster(
        &self,
        request: Request<pb::ResumeClusterRequest>,
    ) -> Result<Response<pb::ResumeClusterResponse>, Status> {
        let name = check::name("name", &request.into_inner().name)?;
        let cluster = self.ask(Event::ClusterResumed { cluster: name.clone() }, name).await?;
        Ok(Response::new(pb::ResumeClusterResponse { cluster }))
    }

    async fn remove_cluster(
        &self,
        request: Request<pb::RemoveClusterRequest>,
    ) -> Result<Response<pb::RemoveClusterResponse>, Status> {
        let name = check::name("name", &request.into_inner().name)?;
        match self.ask(Event::ClusterRemoved { cluster: name.clone() }, name.clone()).await? {
            None => Ok(Response::new(pb::RemoveClusterResponse {})),
            Some(_) => Err(Status::aborted(format!("cluster '{name}' was registered again meanwhile"))),
        }
    }
}
