//! `kill -9` of the server at random moments under load.
//!
//! Clients submit jobs, alone and in batches, and each keeps its own record of what was acknowledged. The server is killed
//! and started again on the same files, sometimes before it serves. Afterwards its state is compared with the records.
//!
//! `LEEWAY_SEED` replays the same choices (the moments still depend on the machine), `LEEWAY_KILLS` sets how many.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use leeway_proto::pb;
use leeway_proto::pb::ledger_entry::Kind;
use leeway_proto::pb::submission_result::Result as Outcome;
use leeway_tests::api::{Api, asked, is_ended, shell};
use leeway_tests::wait::{eventually, within};
use leeway_tests::{Config, Server, cli};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

const CLIENTS: u64 = 4;

/// What one client was told: job ids by the names that it chose.
type Record = BTreeMap<String, String>;

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}='{text}' is no number")))
}

fn by_the_clock() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_micros()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s_01_a_03_what_was_acknowledged_survives_kills_at_any_moment_and_exists_once() {
    let seed = from_environment("LEEWAY_SEED").unwrap_or_else(by_the_clock);
    let kills = from_environment("LEEWAY_KILLS").unwrap_or(12);
    println!("LEEWAY_SEED={seed} LEEWAY_KILLS={kills}");
    let mut server = Server::start(&Config { machines: 6, lease_ttl: "1500ms", ..Config::default() }).await;
    let lines = server.folder().join("lines");
    std::fs::create_dir(&lines).unwrap();

    let enough = Arc::new(AtomicBool::new(false));
    // About as many as a client gets to make meanwhile, and not so many that the rest of the test takes long.
    let most = kills + kills.div_ceil(3);
    let clients = (0..CLIENTS).map(|number| {
        let random = Pcg64Mcg::seed_from_u64(seed ^ (number + 1));
        tokio::spawn(client(number, most, Api::of(&server), random, lines.clone(), enough.clone()))
    });
    let clients: Vec<_> = clients.collect();
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(random.random_range(20..900))).await;
        server.kill9();
        server.spawn();
        // One in four is killed again while it starts.
        if random.random_ratio(1, 4) {
            tokio::time::sleep(Duration::from_millis(random.random_range(0..250))).await;
            server.kill9();
            server.spawn();
        }
        server.ready().await;
    }
    enough.store(true, Ordering::Relaxed);
    let mut acknowledged = Record::new();
    for client in clients {
        acknowledged.extend(client.await.unwrap());
    }
    println!("{} jobs were acknowledged over {kills} kills", acknowledged.len());

    let api = Api::of(&server);
    let patience = Duration::from_secs(60) + Duration::from_secs(1) * u32::try_from(acknowledged.len()).unwrap();
    let jobs = within(patience, "the end of every job", || async {
        let jobs = api.all_jobs().await;
        jobs.iter().all(is_ended).then_some(jobs)
    })
    .await;
    assert_each_exists_once(&jobs, &acknowledged);
    assert_no_epoch_overlaps(&lines, &jobs);
    assert_the_ledger_is_exact(&api, &jobs).await;
    let (status, _) = server.terminate().await;
    assert_eq!(status.code(), Some(0));
    let data = server.data();
    let verified = cli::leeway(&["--json", "store", "verify", data.to_str().unwrap()]).await.ok().json();
    assert_eq!(verified["problems"].as_array().unwrap().len(), 0, "{verified:#}");
}

/// Submits until it has done its share or the kills are over, and sends every request until it is answered.
async fn client(
    number: u64,
    most: u64,
    api: Api,
    mut random: Pcg64Mcg,
    lines: PathBuf,
    enough: Arc<AtomicBool>,
) -> Record {
    let mut record = Record::new();
    for request in 0..most {
        if enough.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("client-{number}-{request}");
        let count = if random.random_ratio(1, 4) { random.random_range(2..=4) } else { 1 };
        let names: Vec<String> = (0..count).map(|place| format!("{id}-{place}")).collect();
        let specs = names.iter().map(|name| shell(name, &script(&lines.join(name), &mut random)));
        let specs: Vec<pb::JobSpec> = specs.collect();
        let ids = submit(&api, &id, &specs).await;
        if random.random_ratio(1, 3) {
            assert_eq!(submit(&api, &id, &specs).await, ids, "a_03: the same request gives the same jobs");
        }
        record.extend(names.into_iter().zip(ids));
        // The load, not a wait: the requests are spread over the kills.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..900))).await;
    }
    record
}

/// Each line that a job writes says which run wrote it. Some are over at once, some go on over several kills.
fn script(file: &Path, random: &mut Pcg64Mcg) -> String {
    let ticks = if random.random_ratio(1, 3) { random.random_range(5..30) } else { 0 };
    format!(
        "f='{}'; echo \"start $LEEWAY_EPOCH\" >> \"$f\"
         for i in $(seq 1 {ticks}); do sleep 0.1; echo \"tick $LEEWAY_EPOCH\" >> \"$f\"; done
         echo \"end $LEEWAY_EPOCH\" >> \"$f\"",
        file.display()
    )
}

async fn submit(api: &Api, request_id: &str, specs: &[pb::JobSpec]) -> Vec<String> {
    if let [spec] = specs {
        return vec![api.submit(request_id, spec.clone()).await];
    }
    let one = |spec: &pb::JobSpec| pb::Submission { spec: Some(spec.clone()), ..Default::default() };
    let request = pb::SubmitJobsRequest {
        client_request_id: request_id.to_owned(),
        submissions: specs.iter().map(one).collect(),
    };
    let answer = asked(|| async { api.jobs().submit_jobs(request.clone()).await }).await;
    let ids = answer.results.into_iter().map(|result| match result.result {
        Some(Outcome::Submitted(submitted)) => submitted.job_id,
        other => panic!("{request_id}: {other:?}"),
    });
    ids.collect()
}

fn assert_each_exists_once(jobs: &[pb::Job], acknowledged: &Record) {
    let mut found = Record::new();
    for job in jobs {
        let name = job.spec.as_ref().unwrap().name.clone();
        let twice = found.insert(name.clone(), job.job_id.clone());
        assert_eq!(twice, None, "'{name}' exists twice: also as {}", job.job_id);
        assert_eq!(job.state(), pb::JobState::Succeeded, "{job:?}");
    }
    assert_eq!(&found, acknowledged);
}

/// The order of the lines in a file is the order in which they were written: once a newer run has spoken, no older one may.
fn assert_no_epoch_overlaps(lines: &Path, jobs: &[pb::Job]) {
    let mut restarted = 0;
    for job in jobs {
        let name = &job.spec.as_ref().unwrap().name;
        let text = std::fs::read_to_string(lines.join(name)).unwrap();
        let epochs: Vec<u64> = text.lines().map(|line| line.split_once(' ').unwrap().1.parse().unwrap()).collect();
        assert!(epochs.is_sorted(), "{name} ran twice at once:\n{text}");
        let starts = text.lines().filter(|line| line.starts_with("start")).collect::<Vec<_>>();
        let distinct: BTreeSet<_> = starts.iter().collect();
        assert_eq!(starts.len(), distinct.len(), "one run of {name} started its program twice:\n{text}");
        assert!(text.lines().next_back().unwrap().starts_with("end"), "{name} succeeded without its end:\n{text}");
        restarted += usize::from(starts.len() > 1);
    }
    println!("{restarted} of {} jobs needed more than one run", jobs.len());
}

async fn assert_the_ledger_is_exact(api: &Api, jobs: &[pb::Job]) {
    let budget = eventually("no money held", || async {
        let budget = api.budget("team").await;
        (budget.held_micros == 0).then_some(budget)
    })
    .await;
    let mut posted: BTreeMap<String, i64> = BTreeMap::new();
    for line in api.ledger().await {
        let (run, amount) = match line.kind.unwrap() {
            Kind::Post(post) => (post.run_id, post.amount_micros),
            Kind::ForcePost(post) => (post.run_id, post.amount_micros),
            _ => continue,
        };
        *posted.entry(run.rsplit_once("-r").unwrap().0.to_owned()).or_default() += amount;
    }
    let mut total = 0;
    for job in jobs {
        // Settled late: the proof that its machines are gone may come after its end.
        let (job, _) = api.until_settled(&job.job_id).await;
        let bill = job.posted.unwrap().total_micros;
        assert!(bill > 0, "{} cost nothing", job.job_id);
        assert_eq!(posted.get(&job.job_id).copied().unwrap_or(0), bill, "the ledger of {}", job.job_id);
        total += bill;
    }
    assert_eq!(budget.posted_micros, total);
    assert_eq!(posted.values().sum::<i64>(), total);
    assert_eq!(budget.overrun_micros, 0);
}
