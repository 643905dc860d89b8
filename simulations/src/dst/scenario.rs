//! The worlds that seeds make, and small builders that tests make theirs with.

use leeway_core::event::{Event, Submission};
use leeway_model::budget::{BudgetSpec, Period};
use leeway_model::checkpoint::{CheckpointPolicy, Interval};
use leeway_model::cluster::{ClusterSpec, Machines};
use leeway_model::job::{JobSpec, JobState, MoneyTerms, Program, RetryPolicy, Sealed, TimeTerms};
use leeway_model::notify::Endpoint;
use leeway_model::resources::{MachineShape, MilliCpus, ResourceRequest, SpotPolicy};
use leeway_model::{Bytes, JobId, Micros, Millis, Name, Rate};

use crate::dst::faults::FaultPlan;
use crate::dst::run::{Happening, Options, Simulation, name};
use crate::dst::world::clients::submission;
use crate::dst::world::programs::Nature;
use crate::random::stream;

/// A cluster of one shape.
pub fn cluster(of: &str, region: &str, count: u32, on_demand_cents: u64, spot_cents: Option<u64>) -> ClusterSpec {
    let shape = MachineShape {
        name: name("m"),
        instance_type: "m.large".into(),
        cpus: MilliCpus(8_000),
        memory: Bytes::from_gib(32),
        accelerators: None,
        disk: Bytes::from_gb(100),
    };
    let cents = |cents: u64| Rate::from_micros(cents * 10_000);
    ClusterSpec {
        name: name(of),
        driver: name("simulated"),
        region: region.parse().expect("regions in the simulator are valid"),
        zone: None,
        machines: vec![Machines {
            shape,
            count: Some(count),
            on_demand: Some(cents(on_demand_cents)),
            spot: spot_cents.map(cents),
            reserved: None,
        }],
        checkpoints: format!("sim://{of}").into(),
        labels: Default::default(),
    }
}

pub fn budget(of: &str, parent: Option<&str>, cap: Micros) -> Event {
    let spec = BudgetSpec { name: name(of), parent: parent.map(name), cap, period: Period::Total, soft_limit: None };
    Event::BudgetSet { spec, by: name("operator") }
}

/// A job that any machine can take, with checkpoints every minute.
pub fn job(of: &str) -> JobSpec {
    JobSpec {
        name: of.parse().expect("job names in the simulator are valid"),
        owner: name("alice"),
        nodes: 1,
        resources: vec![ResourceRequest::default()],
        ordered: false,
        priority: 0,
        program: Program { run: "simulated".into(), ..Program::default() },
        money: MoneyTerms { budget: Some(name("org")), ..MoneyTerms::default() },
        time: TimeTerms { estimate: Some(Millis::from_mins(10)), ..TimeTerms::default() },
        data: Vec::new(),
        outputs: None,
        checkpoint: Some(CheckpointPolicy {
            path: None,
            interval: Interval::Every(Millis::from_mins(1)),
            size: Some(Bytes::from_gb(1)),
            save_time: Some(Millis::from_secs(5)),
            restore_time: Some(Millis::from_secs(15)),
            keep: 2,
            restart_without: true,
        }),
        retry: RetryPolicy { user_failures: 3, ..RetryPolicy::default() },
        depends_on: Vec::new(),
        policy: None,
        labels: Default::default(),
    }
}

pub fn on(mut spec: JobSpec, spot: SpotPolicy) -> JobSpec {
    spec.resources[0].spot = spot;
    spec
}

pub fn submit(request: &str, specs: Vec<JobSpec>) -> Event {
    submission(request, specs.into_iter().map(|spec| Submission { spec, after: Vec::new() }).collect())
}

/// A receiver of every alert.
pub fn endpoint() -> Event {
    Event::EndpointSet {
        endpoint: Endpoint {
            name: name("hook"),
            url: "https://receiver.example/hook".into(),
            secret: Sealed(Box::default()),
            types: Vec::new(),
            disabled: None,
            last_success: None,
            failing_since: None,
            failures: 0,
        },
    }
}

/// The world of a seed: a few clusters, budgets, programs and clients, and its own bad luck.
pub fn seeded(seed: u64, options: &Options) -> Simulation {
    let mut luck = stream(seed, "scenario");
    let mut worth = stream(seed, "worth");
    let faults = FaultPlan::draw(&mut stream(seed, "plan"));
    let mut simulation = Simulation::new(seed, options.clone(), faults);
    let clusters = luck.between(1, 3);
    for number in 0..clusters {
        let on_demand = luck.between(100, 500);
        let spot = (luck.below(4) > 0).then(|| on_demand * luck.between(20, 60) / 100);
        let region = ["aws/a", "gcp/b", "onprem/c"][number as usize];
        let count = luck.between(2, 6) as u32;
        simulation.add_cluster(cluster(["north", "south", "west"][number as usize], region, count, on_demand, spot));
    }
    let cap = |luck: &mut crate::random::Stream| Micros::from_units(luck.between(1, 30) as i64);
    let org = cap(&mut luck);
    simulation.ask_for(budget("org", None, org));
    if luck.below(3) > 0 {
        simulation.ask_for(endpoint());
    }
    let with_team = luck.below(2) == 0;
    if with_team {
        let team = cap(&mut luck);
        let number = simulation.clients.want(budget("team", Some("org"), team));
        simulation.kernel.after(Millis::from_secs(2), Happening::Client(number));
    }
    let jobs = luck.between(2, 7);
    let mut position = 0;
    let mut batch = 0;
    while position < jobs {
        let size = if luck.below(4) == 0 { luck.between(2, 3) } else { 1 };
        let mut specs = Vec::new();
        for of in 0..size {
            let mut spec = job(&format!("job-{position}"));
            spec.nodes = if luck.below(4) == 0 { luck.between(2, 3) as u32 } else { 1 };
            spec.nodes = spec.nodes.min(2);
            spec.resources[0].spot =
                [SpotPolicy::Auto, SpotPolicy::Auto, SpotPolicy::Spot, SpotPolicy::OnDemand][luck.below(4) as usize];
            if simulation.market.prices.is_empty() {
                spec.resources[0].spot = SpotPolicy::Auto;
            }
            let policies = [None, None, Some("cheapest"), Some("failover"), Some("whole-bill")];
            spec.policy = policies[luck.below(5) as usize].map(name);
            spec.priority = luck.below(3) as i32;
            if with_team && luck.below(2) == 0 {
                spec.money.budget = Some(name("team"));
            }
            if luck.below(5) == 0 {
                spec.checkpoint = None;
            } else if let Some(policy) = &mut spec.checkpoint {
                policy.restart_without = luck.below(2) == 0;
                policy.keep = luck.between(1, 3) as u32;
                let auto = luck.below(3) == 0;
                policy.interval =
                    if auto { Interval::Auto } else { Interval::Every(Millis::from_mins(luck.between(1, 3))) };
            }
            if luck.below(8) == 0 {
                spec.money.max_cost = Some(Micros::new(luck.between(50_000, 5_000_000) as i64));
            }
            if worth.below(3) == 0 {
                // From an hour that anything is worth waiting for to one that nothing is.
                spec.money.value_per_hour = Some(Rate::from_micros(10_u64.pow(worth.between(4, 8) as u32)));
            }
            if luck.below(10) == 0 {
                spec.time.max_duration = Some(Millis::from_mins(luck.between(2, 20)));
            }
            let steps = luck.between(6, 90);
            spec.time.estimate = (luck.below(3) > 0).then(|| Millis::from_secs(steps * 10));
            let fails = (0..luck.below(4))
                .map(|_| {
                    let code = [1, 1, 75, 78][luck.below(4) as usize];
                    let fails = luck.chance(simulation.faults.program_fails);
                    fails.then_some(code)
                })
                .collect();
            let nature = Nature { steps, fails, ..Nature::default() };
            simulation.programs.natures.insert(spec.name.as_str().to_owned(), nature);
            let after = if of > 0 && luck.below(2) == 0 { vec![0] } else { Vec::new() };
            specs.push(Submission { spec, after });
            position += 1;
        }
        let event = submission(&format!("request-{batch}"), specs);
        batch += 1;
        let number = simulation.clients.want(event);
        let at = luck.millis(Millis::from_secs(20), Millis::from_mins(10));
        simulation.kernel.after(at, Happening::Client(number));
    }
    simulation.whims_until = simulation.now().after(options.stormy);
    simulation.kernel.after(Millis::from_mins(2), Happening::Whim);
    simulation
}

/// What makes room for everyone once the storm is over; returns the requests to send.
pub fn amnesty(simulation: &mut Simulation) -> Vec<usize> {
    let budgets: Vec<(Name, Option<Name>)> = match simulation.shell.scheduler() {
        Some(scheduler) => {
            scheduler.tables().budgets.values().map(|b| (b.spec.name.clone(), b.spec.parent.clone())).collect()
        }
        None => simulation.clients.caps.keys().map(|budget| (budget.clone(), parent_of(budget))).collect(),
    };
    let mut requests: Vec<usize> = budgets
        .into_iter()
        .map(|(of, parent)| {
            let event = budget(of.as_str(), parent.as_ref().map(Name::as_str), PLENTY);
            simulation.clients.want(event)
        })
        .collect();
    requests.push(simulation.clients.want(Event::ClusterResumed { cluster: name("north") }));
    requests
}

/// A cap that nobody reaches.
const PLENTY: Micros = Micros::from_units(1_000_000);

/// An operator looks at budgets that an overrun froze, and opens them again.
pub fn thaw(simulation: &mut Simulation) {
    let Some(scheduler) = simulation.shell.scheduler() else { return };
    let drained = scheduler.tables().clusters.values().filter(|cluster| cluster.drained);
    let drained: Vec<Name> = drained.map(|cluster| cluster.spec.name.clone()).collect();
    let frozen: Vec<_> = scheduler.tables().budgets.values().filter(|b| b.frozen).map(|b| b.spec.clone()).collect();
    for spec in frozen {
        simulation.ask_for(budget(spec.name.as_str(), spec.parent.as_ref().map(Name::as_str), PLENTY));
    }
    for cluster in drained {
        simulation.ask_for(Event::ClusterResumed { cluster });
    }
}

fn parent_of(budget: &Name) -> Option<Name> {
    (budget.as_str() != "org").then(|| name("org"))
}

/// Clients change their minds: a cancel, a retry, another cap.
pub fn whim(simulation: &mut Simulation) {
    let jobs = simulation.clients.jobs();
    let luck = &mut simulation.clients.luck;
    let chosen = |luck: &mut crate::random::Stream, jobs: &[JobId]| jobs[luck.below(jobs.len() as u64) as usize];
    let event = match luck.below(12) {
        0 if !jobs.is_empty() => Event::JobCancelled { job: chosen(luck, &jobs), by: name("alice") },
        1..=4 if !jobs.is_empty() => {
            let job = chosen(luck, &jobs);
            let ended = |state: JobState| matches!(state, JobState::Failed | JobState::Cancelled);
            let known = simulation.shell.scheduler().and_then(|scheduler| scheduler.job(job));
            match known {
                Some(known) if ended(known.state) => Event::JobRetried { job },
                _ => return,
            }
        }
        5 => {
            let cap = Micros::from_units(luck.between(1, 60) as i64);
            budget("org", None, cap)
        }
        6 => Event::ClusterDrained { cluster: name("north") },
        7..=9 => Event::ClusterResumed { cluster: name("north") },
        _ => return,
    };
    simulation.ask_for(event);
}
