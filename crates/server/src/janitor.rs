//! Removes what nothing refers to any more: output of jobs that are forgotten, uploads that no job names, and the run
//! directories of this host's machines. Everything it removes could be made again or is of no use.

use std::collections::BTreeSet;
use std::time::Duration;

use leeway_model::{JobId, Millis, Name, RunId};

use crate::driver_loop::{Failure, View};
use crate::grpc::{Shared, blocking};

const EVERY: Duration = Duration::from_secs(600);
/// An upload that no job names is kept this long, since its job may be about to be submitted.
const UPLOAD_AGE: Duration = Duration::from_secs(24 * 3_600);
/// A run's directory is kept this long after its end, for whoever wants to look into it.
const RUN_AGE: Millis = Millis::from_mins(30);

/// Tidies up until the server stops.
pub async fn run(shared: Shared) {
    let mut forgotten: BTreeSet<RunId> = BTreeSet::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = shared.stopping.cancelled() => return,
        }
        if shared.report_only {
            continue;
        }
        if let Err(failure) = tidy(&shared).await {
            tracing::debug!(%failure, "tidying was left out");
        }
        forget_runs(&shared, &mut forgotten).await;
    }
}

async fn tidy(shared: &Shared) -> Result<(), Failure> {
    // Listed before the scheduler is asked, so that a job that comes meanwhile is in no danger.
    let logs = shared.logs.clone();
    let with_output = blocking(move || logs.jobs()).await;
    let look = |view: &mut View<'_>| {
        let jobs = &view.scheduler.tables().jobs;
        let known: BTreeSet<JobId> = jobs.values().map(|job| job.id).collect();
        let programs = jobs.values().map(|job| &job.spec.program);
        let named: BTreeSet<[u8; 32]> = programs
            .flat_map(|program| program.workdir.iter().chain(program.mounts.values()))
            .map(|upload| upload.sha256)
            .collect();
        (known, named)
    };
    let (known, named) = shared.handle.read(look).await?;
    let (logs, uploads) = (shared.logs.clone(), shared.uploads.clone());
    let work = move || -> std::io::Result<()> {
        for job in with_output.map_err(|status| std::io::Error::other(status.to_string()))?? {
            if !known.contains(&job) {
                logs.remove(job)?;
            }
        }
        uploads.remove_unused(&named, UPLOAD_AGE)
    };
    match blocking(work).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "old files could not be removed"),
        Err(status) => tracing::warn!(%status, "old files could not be removed"),
    }
    Ok(())
}

async fn forget_runs(shared: &Shared, forgotten: &mut BTreeSet<RunId>) {
    let look = |view: &mut View<'_>| {
        let tables = view.scheduler.tables();
        let driver = |cluster: &Name| tables.clusters.get(cluster).map(|cluster| cluster.spec.driver.clone());
        let over = tables.runs.values().filter(|run| run.released.is_some_and(|at| view.now.since(at) >= RUN_AGE));
        over.filter_map(|run| Some((driver(&run.offer.cluster)?, run.offer.cluster.clone(), run.id)))
            .collect::<Vec<_>>()
    };
    let Ok(over) = shared.handle.read(look).await else { return };
    let still: BTreeSet<RunId> = over.iter().map(|(_, _, run)| *run).collect();
    forgotten.retain(|run| still.contains(run));
    for (driver, cluster, run) in over {
        let Some(driver) = shared.drivers.get(&driver).filter(|_| !forgotten.contains(&run)) else { continue };
        match driver.forget(&cluster, run).await {
            Ok(()) => {
                forgotten.insert(run);
            }
            Err(error) => tracing::warn!(%cluster, %run, %error, "the directory of a run was not removed"),
        }
    }
}
