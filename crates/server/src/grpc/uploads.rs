//! UploadService.

use leeway_proto::agent::chunk;
use leeway_proto::pb::upload_service_server::UploadService;
use leeway_proto::{check, pb};
use tonic::{Request, Response, Status, Streaming};

use super::{Shared, blocking, disk};
use crate::uploads::UploadError;

#[derive(Clone, Debug)]
pub struct Uploads(pub Shared);

fn failed(error: UploadError) -> Status {
    match error {
        UploadError::Io(error) => disk(&error),
        UploadError::TooLarge(_) => Status::resource_exhausted(error.to_string()),
        UploadError::Empty => Status::invalid_argument(error.to_string()),
    }
}

#[tonic::async_trait]
impl UploadService for Uploads {
    async fn put_upload(
        &self,
        request: Request<Streaming<pb::PutUploadRequest>>,
    ) -> Result<Response<pb::PutUploadResponse>, Status> {
        let mut pieces = request.into_inner();
        let uploads = self.0.uploads.clone();
        let mut receiving = blocking(move || uploads.begin()).await?.map_err(|error| disk(&error))?;
        while let Some(piece) = pieces.message().await? {
            chunk(&piece.data)?;
            receiving = blocking(move || receiving.add(&piece.data).map(|()| receiving)).await?.map_err(failed)?;
        }
        let upload = blocking(move || receiving.finish()).await?.map_err(failed)?;
        Ok(Response::new(pb::PutUploadResponse { upload: Some((&upload).into()) }))
    }

    async fn has_upload(
        &self,
        request: Request<pb::HasUploadRequest>,
    ) -> Result<Response<pb::HasUploadResponse>, Status> {
        let sha256 = check::digest("sha256", &request.into_inner().sha256)?;
        let uploads = self.0.uploads.clone();
        let found = blocking(move || uploads.find(&sha256)).await?.map_err(|error| disk(&error))?;
        Ok(Response::new(pb::HasUploadResponse { upload: found.as_ref().map(Into::into) }))
    }
}
