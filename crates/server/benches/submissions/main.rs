//! How fast submissions become durable over gRPC, against the bound: an echo of the same message over the same library,
//! in the same process and on the same runtime.
//!
//! `cargo bench -p leeway-server --bench submissions` prints criterion's figures and, at the end, the table that the
//! README quotes, and what a storm of prices does to it. There, echo and submission take turns of about a second, so that a busy moment of the machine hits
//! both; shown are the medians of the rates and of the ratios. With `TABLE_ONLY` in the environment only the table is made.

mod echo;
mod place;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use leeway_proto::pb;
use leeway_proto::pb::job_service_client::JobServiceClient;
use leeway_proto::pb::market_service_client::MarketServiceClient;
use place::{Place, Wish};
use tokio::runtime::Runtime;
use tonic::transport::Channel;

/// As the binary has it; the echo gains from it as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CLIENTS: usize = 64;
const ROUNDS: usize = 7;
const TURN: Duration = Duration::from_secs(1);

/// Numbers that no two requests share, so that no submission is a replay.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// What a measurement sends.
#[derive(Clone, Copy, Debug)]
struct Load {
    wish: Wish,
    clients: usize,
    /// Jobs of one call; 1 is `SubmitJob`, more is `SubmitJobs`.
    jobs: usize,
}

impl Load {
    async fn echo_server(self) -> SocketAddr {
        if self.jobs == 1 {
            echo::serve::<pb::SubmitJobRequest>().await
        } else {
            echo::serve::<pb::SubmitJobsRequest>().await
        }
    }

    async fn echo(self, channel: &Channel, number: usize) {
        if self.jobs == 1 {
            echo::say(channel, place::one(self.wish, number)).await.expect("the echo answers");
        } else {
            echo::say(channel, place::batch(self.wish, number, self.jobs)).await.expect("the echo answers");
        }
    }

    async fn submit(self, channel: &Channel, number: usize) {
        let mut client = JobServiceClient::new(channel.clone());
        if self.jobs == 1 {
            let answer = client.submit_job(place::one(self.wish, number)).await.expect("the job is taken");
            assert!(answer.into_inner().submitted.is_some_and(|job| !job.replayed));
        } else {
            let request = place::batch(self.wish, number, self.jobs);
            let answer = client.submit_jobs(request).await.expect("the batch is taken");
            let made = |result: &pb::SubmissionResult| {
                matches!(result.result, Some(pb::submission_result::Result::Submitted(_)))
            };
            let results = answer.into_inner().results;
            let refused = results.iter().find(|result| !made(result));
            assert!(refused.is_none() && results.len() == self.jobs, "not all jobs were taken: {refused:?}");
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Echo,
    Submit,
}

/// What one turn achieved.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Jobs a second.
    rate: f64,
    /// Time of this process's processors for one job, servers and clients together.
    cpu: Duration,
    p50: Duration,
    p99: Duration,
}

/// Both servers, with connected clients.
struct Arena {
    load: Load,
    place: Place,
    echo: Vec<Channel>,
    submit: Vec<Channel>,
}

impl Arena {
    async fn start(load: Load) -> Self {
        Self::start_at(load, Place::start().await).await
    }

    async fn start_at(load: Load, place: Place) -> Self {
        let echo = connect(load.echo_server().await, load.clients).await;
        let submit = connect(place.server.grpc_addr, load.clients).await;
        Self { load, place, echo, submit }
    }

    /// Every client calls again and again until `go_on` says no; returns how long each call took.
    async fn calls(&self, side: Side, go_on: impl Fn() -> bool + Send + Sync + 'static) -> Vec<Duration> {
        let go_on = Arc::new(go_on);
        let channels = match side {
            Side::Echo => &self.echo,
            Side::Submit => &self.submit,
        };
        let tasks: Vec<_> = channels
            .iter()
            .map(|channel| {
                let (load, channel, go_on) = (self.load, channel.clone(), go_on.clone());
                tokio::spawn(async move {
                    let mut calls = Vec::new();
                    while go_on() {
                        let number = NEXT.fetch_add(1, Ordering::Relaxed);
                        let began = Instant::now();
                        match side {
                            Side::Echo => load.echo(&channel, number).await,
                            Side::Submit => load.submit(&channel, number).await,
                        }
                        calls.push(began.elapsed());
                    }
                    calls
                })
            })
            .collect();
        let mut calls = Vec::new();
        for task in tasks {
            calls.extend(task.await.expect("no client panics"));
        }
        calls
    }

    async fn turn(&self, side: Side) -> Turn {
        let (began, cpu) = (Instant::now(), cpu_time());
        let mut calls = self.calls(side, move || began.elapsed() < TURN).await;
        let (took, cpu) = (began.elapsed(), cpu_time() - cpu);
        calls.sort_unstable();
        let jobs = calls.len() * self.load.jobs;
        let at = |percent: usize| calls[(calls.len() - 1) * percent / 100];
        Turn { rate: jobs as f64 / took.as_secs_f64(), cpu: cpu / jobs as u32, p50: at(50), p99: at(99) }
    }

    /// So many calls in all; how long they took.
    async fn count(&self, side: Side, calls: u64) -> Duration {
        let left = AtomicUsize::new(calls as usize);
        let take = move || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        let began = Instant::now();
        self.calls(side, take).await;
        began.elapsed()
    }
}

/// A connection for each client.
async fn connect(address: SocketAddr, clients: usize) -> Vec<Channel> {
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address makes a URL");
    let mut channels = Vec::with_capacity(clients);
    for _ in 0..clients {
        channels.push(endpoint.connect().await.expect("the server accepts"));
    }
    channels
}

/// Processor time of this process so far, in steps of 10 ms.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One line of the table.
async fn compare(title: &str, load: Load) {
    let arena = Arena::start(load).await;
    for side in [Side::Echo, Side::Submit] {
        // Connections, buffers and files have been used once.
        arena.turn(side).await;
    }
    let mut turns = Vec::new();
    for _ in 0..ROUNDS {
        turns.push((arena.turn(Side::Echo).await, arena.turn(Side::Submit).await));
    }
    let (flushes, steps) = (arena.place.server.metrics().flushes.get(), arena.place.server.metrics().steps.get());
    let echo = |value: fn(&Turn) -> f64| median(turns.iter().map(|(echo, _)| value(echo)).collect());
    let submit = |value: fn(&Turn) -> f64| median(turns.iter().map(|(_, submit)| value(submit)).collect());
    let ratio = median(turns.iter().map(|(echo, submit)| submit.rate / echo.rate).collect());
    println!(
        "{title:<44} {:>8.0} {:>8.0} {ratio:>6.2} {:>5.0} {:>5.0} {:>7.1} {:>7.1} {:>7.1} {:>6.1}",
        echo(|turn| turn.rate),
        submit(|turn| turn.rate),
        echo(|turn| turn.cpu.as_secs_f64() * 1e6),
        submit(|turn| turn.cpu.as_secs_f64() * 1e6),
        echo(|turn| turn.p50.as_secs_f64() * 1e3),
        submit(|turn| turn.p50.as_secs_f64() * 1e3),
        submit(|turn| turn.p99.as_secs_f64() * 1e3),
        steps as f64 / flushes as f64,
    );
    arena.place.stop().await;
}

async fn table() {
    println!(
        "\n{:<44} {:>8} {:>8} {:>6} {:>5} {:>5} {:>7} {:>7} {:>7} {:>6}",
        "", "echo", "submit", "ratio", "cpu", "cpu", "p50 ms", "p50 ms", "p99 ms", "steps"
    );
    println!(
        "{:<44} {:>8} {:>8} {:>6} {:>5} {:>5} {:>7} {:>7} {:>7} {:>6}",
        "", "jobs/s", "jobs/s", "", "us", "us", "echo", "submit", "submit", "/flush"
    );
    let (wait, placed) = (Wish::Nowhere, Wish::Here);
    for (title, load) in [
        ("64 clients, one job a call, jobs wait", Load { wish: wait, clients: CLIENTS, jobs: 1 }),
        ("64 clients, one job a call, jobs are launched", Load { wish: placed, clients: CLIENTS, jobs: 1 }),
        ("1 client, one job a call, jobs wait", Load { wish: wait, clients: 1, jobs: 1 }),
        ("1 client, 100 jobs a call, jobs wait", Load { wish: wait, clients: 1, jobs: 100 }),
        ("1 client, 1,000 jobs a call, jobs wait", Load { wish: wait, clients: 1, jobs: 1_000 }),
        ("1 client, 1,000 jobs a call, jobs are launched", Load { wish: placed, clients: 1, jobs: 1_000 }),
    ] {
        compare(title, load).await;
    }
}

/// What 10,000 new prices a second do to a submission, calm and storm in turns of about a second.
async fn storm() {
    const A_SECOND: usize = 10_000;
    const AT_ONCE: usize = 100;
    println!("\n{:<44} {:>8} {:>8} {:>7} {:>7} {:>6} {:>9}", "", "calm", "storm", "p99 ms", "p99 ms", "", "prices");
    println!("{:<44} {:>8} {:>8} {:>7} {:>7} {:>6} {:>9}", "", "jobs/s", "jobs/s", "calm", "storm", "ratio", "/s");
    for clients in [8, CLIENTS] {
        let load = Load { wish: Wish::Nowhere, clients, jobs: 1 };
        let arena = Arena::start_at(load, Place::with_market().await).await;
        arena.turn(Side::Submit).await;
        let channel = connect(arena.place.server.grpc_addr, 1).await.remove(0);
        let told = Arc::new(AtomicUsize::new(0));
        let mut turns = Vec::new();
        for _ in 0..ROUNDS {
            let calm = arena.turn(Side::Submit).await;
            let (told, channel) = (told.clone(), channel.clone());
            let raging = tokio::spawn(async move {
                let mut client = MarketServiceClient::new(channel);
                let mut beat = tokio::time::interval(Duration::from_secs(1) * AT_ONCE as u32 / A_SECOND as u32);
                loop {
                    beat.tick().await;
                    let round = NEXT.fetch_add(1, Ordering::Relaxed);
                    let answer = client.observe_market(place::prices(round, AT_ONCE)).await.expect("prices are taken");
                    told.fetch_add(answer.into_inner().accepted as usize, Ordering::Relaxed);
                }
            });
            let stormy = arena.turn(Side::Submit).await;
            raging.abort();
            turns.push((calm, stormy));
        }
        let of = |value: fn(&(Turn, Turn)) -> f64| median(turns.iter().map(value).collect());
        println!(
            "{:<44} {:>8.0} {:>8.0} {:>7.1} {:>7.1} {:>6.2} {:>9.0}",
            format!("{clients} clients, one job a call, jobs wait"),
            of(|(calm, _)| calm.rate),
            of(|(_, stormy)| stormy.rate),
            of(|(calm, _)| calm.p99.as_secs_f64() * 1e3),
            of(|(_, stormy)| stormy.p99.as_secs_f64() * 1e3),
            of(|(calm, stormy)| stormy.p99.as_secs_f64() / calm.p99.as_secs_f64()),
            told.load(Ordering::Relaxed) as f64 / (ROUNDS as f64 * TURN.as_secs_f64()),
        );
        arena.place.stop().await;
    }
}

fn figures(criterion: &mut Criterion, runtime: &Runtime) {
    for jobs in [1, 1_000] {
        let clients = if jobs == 1 { CLIENTS } else { 1 };
        let arena = runtime.block_on(Arena::start(Load { wish: Wish::Nowhere, clients, jobs }));
        let mut group = criterion.benchmark_group(format!("{clients} clients, {jobs} jobs a call"));
        group.throughput(Throughput::Elements(jobs as u64)).sample_size(10).measurement_time(Duration::from_secs(3));
        for (title, side) in [("echo", Side::Echo), ("submit", Side::Submit)] {
            group.bench_function(title, |bencher| {
                bencher.iter_custom(|calls| runtime.block_on(arena.count(side, calls)));
            });
        }
        group.finish();
        runtime.block_on(arena.place.stop());
    }
}

fn main() {
    let runtime = Runtime::new().expect("a runtime can be made");
    let mut criterion = Criterion::default().configure_from_args();
    if std::env::var_os("TABLE_ONLY").is_none() {
        figures(&mut criterion, &runtime);
    }
    // Not when only the building is tested (`cargo test --benches`), or a list of names is asked for.
    if std::env::args().any(|arg| arg == "--bench") && !std::env::args().any(|arg| arg == "--list") {
        runtime.block_on(table());
        runtime.block_on(storm());
    }
    criterion.final_summary();
}
