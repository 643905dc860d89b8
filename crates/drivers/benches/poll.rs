//! What one look at a cluster costs that holds 10,000 runs: one listing, read and held against the runs' directories.
//!
//! ```text
//! cargo bench -p leeway-drivers --bench poll
//! ```

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot begin has nothing to say")]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use criterion::{Criterion, criterion_group, criterion_main};
use leeway_drivers::slurm::{CallError, Calls, Job, Node, Partition, SlurmConfig, read_jobs};
use leeway_drivers::{ClusterDriver, LocalDriver, SlurmDriver};
use leeway_model::{InstallationId, Millis, Name};

const RUNS: u32 = 10_000;

/// A Slurm that prints the same listing each time.
#[derive(Debug)]
struct Printed {
    text: Vec<u8>,
    calls: AtomicU32,
}

#[async_trait]
impl Calls for Printed {
    async fn submit(&self, _: &str) -> Result<u32, CallError> {
        Err(CallError::Refused("nothing is submitted here".into()))
    }

    async fn jobs(&self) -> Result<Vec<Job>, CallError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        read_jobs(&self.text)
    }

    async fn accounted(&self, _: &[u32]) -> Result<Option<Vec<(u32, String)>>, CallError> {
        Ok(None)
    }

    async fn nodes(&self) -> Result<Vec<Node>, CallError> {
        Ok(Vec::new())
    }

    async fn partition(&self, _: &str) -> Result<Partition, CallError> {
        Ok(Partition::default())
    }

    async fn cancel(&self, _: u32, _: &str) -> Result<(), CallError> {
        Ok(())
    }

    async fn terminate(&self, _: u32, _: &str) -> Result<(), CallError> {
        Ok(())
    }
}

/// As large a job as Slurm prints: most of it is of no interest here.
fn listing() -> Vec<u8> {
    let user = rustix::process::getuid().as_raw();
    let cores: String = (0..32).fold(String::new(), |mut text, core| {
        let _ = write!(text, "{}\"{core}\":\"allocated_and_in_use\"", if core == 0 { "" } else { "," });
        text
    });
    let mut text = String::from("{\"jobs\":[");
    for job in 1..=RUNS {
        let comma = if job == 1 { "" } else { "," };
        let _ = write!(
            text,
            "{comma}{{\"account\":\"default\",\"job_id\":{job},\"name\":\"leeway.lab.j-{job}-r1\",\"comment\":\"leeway installation=lab run=j-{job}-r1\",\"user_id\":{user},\"partition\":\"gpu\",\"node_count\":1,\"job_state\":\"RUNNING\",\"state_reason\":\"None\",\"preempt_time\":0,\"end_time\":2000000000,\"job_resources\":{{\"nodes\":\"n1\",\"allocated_nodes\":[{{\"sockets\":{{\"0\":{{\"cores\":{{{cores}}}}}}},\"nodename\":\"n1\"}}]}},\"environment\":\"{}\"}}",
            "x".repeat(1_500)
        );
    }
    text.push_str("]}");
    text.into_bytes()
}

/// The directories of runs that were launched, as launches leave them.
fn directories(root: &Path, cluster: &str) {
    for job in 1..=RUNS {
        let dir = root.join(cluster).join(format!("j-{job}-r1"));
        std::fs::create_dir_all(dir.join("0")).unwrap();
        std::fs::write(dir.join("launch.json"), r#"{"shape":"gpu","nodes":1}"#).unwrap();
        std::fs::write(dir.join("slurm.json"), format!(r#"{{"job":{job}}}"#)).unwrap();
    }
}

fn poll(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cluster: Name = "hpc".parse().unwrap();

    let printed = Arc::new(Printed { text: listing(), calls: AtomicU32::new(0) });
    println!("a listing of {RUNS} jobs has {} MB", printed.text.len() / 1_000_000);
    let shared = folder.path().join("shared");
    directories(&shared, "hpc");
    let config = SlurmConfig {
        work_dir: shared,
        agent: "/bin/true".into(),
        commands: None,
        conf: None,
        account: None,
        time_limit: None,
        notice: Millis::from_secs(60),
        poll: Millis::from_secs(5),
        machines: Default::default(),
    };
    let installation = InstallationId("lab".parse().unwrap());
    let calls: Arc<dyn Calls> = printed.clone();
    let slurm = SlurmDriver::over(&installation, [(cluster.clone(), config)].into(), |_| calls.clone()).unwrap();
    let seen = runtime.block_on(slurm.observe(&cluster)).unwrap();
    assert_eq!((seen.instances.len(), seen.complete), (RUNS as usize, true));
    let mut group = criterion.benchmark_group("poll of 10,000 runs");
    group.sample_size(10);
    let before = printed.calls.load(Ordering::Relaxed);
    let mut looks = 0;
    group.bench_function("slurm", |bencher| {
        bencher.iter(|| {
            looks += 1;
            runtime.block_on(slurm.observe(&cluster)).unwrap()
        });
    });
    println!("listings per look: {}", f64::from(printed.calls.load(Ordering::Relaxed) - before) / f64::from(looks));

    let root = folder.path().join("local");
    directories(&root, "hpc");
    let local = LocalDriver::new(root, "/bin/true".into()).unwrap();
    group.bench_function("local", |bencher| bencher.iter(|| runtime.block_on(local.observe(&cluster)).unwrap()));
    group.finish();
}

criterion_group!(benches, poll);
criterion_main!(benches);
