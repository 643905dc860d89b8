//! DatasetService.

use leeway_core::{Event, Reply};
use leeway_model::dataset::Dataset;
use leeway_proto::invalid::Within;
use leeway_proto::pb::dataset_service_server::DatasetService;
use leeway_proto::{check, pb};
use tonic::{Request, Response, Status};

use super::{Shared, refused, unexpected};
use crate::driver_loop::View;

#[derive(Clone, Debug)]
pub struct Datasets(pub Shared);

impl Datasets {
    async fn ask(&self, event: Event) -> Result<(), Status> {
        match self.0.handle.ask(event).await? {
            Reply::Done => Ok(()),
            Reply::Refused(refusal) => Err(refused(&refusal)),
            other => Err(unexpected(&other)),
        }
    }
}

#[tonic::async_trait]
impl DatasetService for Datasets {
    async fn register_dataset(
        &self,
        request: Request<pb::RegisterDatasetRequest>,
    ) -> Result<Response<pb::RegisterDatasetResponse>, Status> {
        let wire = check::required("dataset", request.into_inner().dataset)?;
        let dataset = Dataset::try_from(wire).within("dataset")?;
        let kept = pb::Dataset::from(&dataset);
        self.ask(Event::DatasetRegistered { dataset }).await?;
        Ok(Response::new(pb::RegisterDatasetResponse { dataset: Some(kept) }))
    }

    async fn list_datasets(
        &self,
        _request: Request<pb::ListDatasetsRequest>,
    ) -> Result<Response<pb::ListDatasetsResponse>, Status> {
        let look = |view: &mut View<'_>| {
            view.scheduler.tables().datasets.values().map(Into::into).collect::<Vec<pb::Dataset>>()
        };
        let datasets = self.0.handle.read(look).await?;
        Ok(Response::new(pb::ListDatasetsResponse { datasets }))
    }

    async fn remove_dataset(
        &self,
        request: Request<pb::RemoveDatasetRequest>,
    ) -> Result<Response<pb::RemoveDatasetResponse>, Status> {
        let dataset = check::name("name", &request.into_inner().name)?;
        self.ask(Event::DatasetRemoved { dataset }).await?;
        Ok(Response::new(pb::RemoveDatasetResponse {}))
    }
}
