//! Making the inputs ready: uploads are fetched by digest, compared with it, and unpacked.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leeway_proto::pb;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::task::spawn_blocking;

use crate::agent::Agent;
use crate::environment::Places;
use crate::lease::Over;
use crate::link::{Backoff, CALL, CallError, Client};
use crate::unpack;

/// No piece of an upload may take longer to come.
const PIECE_WITHIN: Duration = Duration::from_secs(30);
/// How often an upload that does not match its digest is fetched again.
const TRIES: u32 = 3;

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    #[error(transparent)]
    Over(#[from] Over),
    #[error("{0:#}")]
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<Other<E>> for StageError {
    fn from(error: Other<E>) -> Self {
        Self::Failed(error.0.into())
    }
}

/// Any error but the end of the lease.
#[derive(Debug)]
pub struct Other<E>(pub E);

/// Fetches and unpacks everything that the assignment names.
pub async fn stage(agent: &Agent, places: &Places) -> Result<(), StageError> {
    places.create().map_err(Other)?;
    let uploads = agent.path("uploads");
    std::fs::create_dir_all(&uploads).map_err(Other)?;
    if let Some(workdir) = &agent.assignment.workdir {
        let archive = fetch(agent, workdir, &uploads).await?;
        let target = places.work.clone();
        unpacked(move || unpack::unpack(&archive, &target)).await?;
    }
    for mount in &agent.assignment.mounts {
        let target = places.mount(&mount.path).map_err(Other)?;
        let upload = mount.upload.as_ref().ok_or_else(|| Other(anyhow::anyhow!("a mount without an upload")))?;
        let archive = fetch(agent, upload, &uploads).await?;
        unpacked(move || unpack::unpack_mount(&archive, &target)).await?;
    }
    std::fs::remove_dir_all(&uploads).map_err(Other)?;
    Ok(())
}

async fn unpacked(work: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> Result<(), StageError> {
    Ok(spawn_blocking(work).await.map_err(Other)?.map_err(Other)?)
}

/// Fetches an upload into a folder, unless it lies there already.
async fn fetch(agent: &Agent, upload: &pb::Upload, folder: &Path) -> Result<PathBuf, StageError> {
    let name = upload.sha256.iter().fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    });
    let path = folder.join(&name);
    if path.exists() {
        return Ok(path);
    }
    let draft = folder.join(format!("{name}.part"));
    let (mut backoff, mut wrong) = (Backoff::default(), 0);
    loop {
        match try_fetch(agent, upload, &draft).await {
            Ok(true) => {
                std::fs::rename(&draft, &path).map_err(Other)?;
                return Ok(path);
            }
            Ok(false) => {
                wrong += 1;
                if wrong == TRIES {
                    return Err(Other(anyhow::anyhow!("upload {name} does not match its digest")).into());
                }
            }
            Err(FetchError::Call(CallError::Over(over))) => return Err(over.into()),
            Err(FetchError::Call(CallError::Unavailable(status))) => {
                tracing::debug!(%status, "an upload was cut off; trying again");
                agent.link.look_for_another_address();
            }
            Err(FetchError::Call(error)) => return Err(Other(error).into()),
            Err(FetchError::Local(error)) => return Err(Other(error).into()),
        }
        agent.link.sleep(backoff.next()).await?;
    }
}

enum FetchError {
    Call(CallError),
    Local(std::io::Error),
}

/// One try. Returns whether what came is what was asked for.
async fn try_fetch(agent: &Agent, upload: &pb::Upload, draft: &Path) -> Result<bool, FetchError> {
    let request = pb::FetchUploadRequest { caller: agent.link.caller(), sha256: upload.sha256.clone() };
    let call = |mut client: Client| async move { client.fetch_upload(request).await };
    let mut stream = agent.link.once(CALL, call).await.map_err(FetchError::Call)?;
    let mut file = tokio::fs::File::create(draft).await.map_err(FetchError::Local)?;
    let (mut hasher, mut size) = (Sha256::new(), 0_u64);
    loop {
        let piece = tokio::select! {
            biased;
            over = agent.lease.over() => return Err(FetchError::Call(over.into())),
            piece = tokio::time::timeout(PIECE_WITHIN, stream.message()) => {
                piece.unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("the upload stopped coming")))
            }
        };
        let Some(piece) = piece.map_err(|status| FetchError::Call(agent.link.judge(status)))? else { break };
        size = size.saturating_add(piece.data.len() as u64);
        if size > upload.size_bytes {
            return Ok(false);
        }
        hasher.update(&piece.data);
        file.write_all(&piece.data).await.map_err(FetchError::Local)?;
    }
    file.flush().await.map_err(FetchError::Local)?;
    Ok(size == upload.size_bytes && hasher.finalize()[..] == upload.sha256[..])
}
