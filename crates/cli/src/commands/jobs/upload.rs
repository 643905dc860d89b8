//! Packs a job's working directory and files and sends what the server does not hold yet.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use leeway_jobfile::JobFile;
use leeway_proto::pb;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::pack::{self, Archive, PackError};
use crate::terminal::Terminal;

/// The contract takes no larger piece than 1 MiB.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces on their way.
const PIECES_AHEAD: usize = 8;
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(500);

impl From<PackError> for Failure {
    fn from(error: PackError) -> Self {
        let exit = if matches!(error, PackError::Write(_)) { Exit::Error } else { Exit::Usage };
        Self::new(exit, "UPLOAD", error.to_string())
    }
}

/// Uploads what the job names and puts the archives' names into its program.
pub(super) async fn all(
    job: &JobFile,
    program: &mut pb::Program,
    client: &Client,
    terminal: &Terminal,
) -> Result<(), Failure> {
    if let Some(folder) = &job.workdir {
        let archive = pack::folder(folder)?;
        program.workdir = Some(send(archive, "workdir", client, terminal).await?);
    }
    for (target, source) in &job.mounts {
        let archive = pack::mount(source, target)?;
        program.mounts.insert(target.clone(), send(archive, target, client, terminal).await?);
    }
    Ok(())
}

/// Packs everything and sends nothing, so that a dry run finds what a launch would not.
pub(super) fn check(job: &JobFile) -> Result<(), Failure> {
    if let Some(folder) = &job.workdir {
        pack::folder(folder)?;
    }
    for (target, source) in &job.mounts {
        pack::mount(source, target)?;
    }
    Ok(())
}

async fn send(mut archive: Archive, what: &str, client: &Client, terminal: &Terminal) -> Result<pb::Upload, Failure> {
    let request = pb::HasUploadRequest { sha256: archive.sha256.to_vec().into() };
    let held = client.ask(|| async { client.uploads().has_upload(request.clone()).await }).await?;
    if let Some(upload) = held.upload {
        return Ok(upload);
    }
    let bar = bar(archive.size, what, terminal);
    let mut tries = 1;
    let upload = loop {
        match put(&mut archive, client, &bar).await {
            Ok(upload) => break upload,
            Err(status) if status.code() == Code::Unavailable && tries < TRIES => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Err(status) => {
                bar.finish_and_clear();
                let failure = client.failure(status);
                let advice = failure.advice.clone().unwrap_or_else(|| format!("nothing was submitted ('{what}')"));
                return Err(failure.advise(advice));
            }
        }
    };
    bar.finish_and_clear();
    if upload.sha256[..] != archive.sha256 {
        let message = format!("'{what}' arrived with another digest than it was sent with; try again");
        return Err(Failure::new(Exit::Error, "UPLOAD", message));
    }
    Ok(upload)
}

async fn put(archive: &mut Archive, client: &Client, bar: &ProgressBar) -> Result<pb::Upload, Status> {
    bar.set_position(0);
    let mut file = archive.file.try_clone().map_err(|error| Status::internal(error.to_string()))?;
    let (sender, receiver) = tokio::sync::mpsc::channel(PIECES_AHEAD);
    let progress = bar.clone();
    let reader = tokio::task::spawn_blocking(move || -> std::io::Result<()> {
        file.seek(SeekFrom::Start(0))?;
        loop {
            let mut data = Vec::with_capacity(PIECE_BYTES);
            (&mut file).take(PIECE_BYTES as u64).read_to_end(&mut data)?;
            progress.inc(data.len() as u64);
            if data.is_empty() || sender.blocking_send(pb::PutUploadRequest { data: data.into() }).is_err() {
                return Ok(());
            }
        }
    });
    let pieces = ReceiverStream::new(receiver).fuse();
    let answer = client.uploads().put_upload(pieces).await;
    let read = reader.await.map_err(|error| Status::internal(error.to_string()))?;
    let upload = answer?.into_inner().upload.unwrap_or_default();
    // A file that could not be read to its end would have another digest; this says why.
    read.map_err(|error| Status::internal(format!("the archive cannot be read again: {error}")))?;
    Ok(upload)
}

fn bar(size: u64, what: &str, terminal: &Terminal) -> ProgressBar {
    if !terminal.lively {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}");
    let bar = ProgressBar::new(size).with_message(format!("uploading {}", crate::render::plain(what)));
    if let Ok(style) = style { bar.with_style(style) } else { bar }
}
