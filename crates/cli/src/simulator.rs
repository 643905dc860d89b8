//! The simulator as a service on the server's port: the runs of `leeway simulate compare`, for programs. It reads no file and
//! nothing of the server, takes one core and one comparison at a time, and ends when its caller goes.

use std::path::Path;
use std::sync::Arc;

use leeway_model::Name;
use leeway_proto::pb;
use leeway_proto::pb::simulation_service_server::{SimulationService, SimulationServiceServer};
use leeway_proto::status::{reason, with_reason};
use leeway_proto::{Invalid, check};
use leeway_server::Services;
use leeway_server::grpc::serve::MESSAGE_MAX;
use leeway_simulations::fleet::scenario::{self, Named, READY};
use leeway_simulations::fleet::study::{self, Plan, Row, Summary};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};

const TOML_MAX: usize = 1 << 20;
const SETTINGS_MAX: usize = 64;
const POLICIES_MAX: usize = 16;
const REPETITIONS_MAX: u32 = 1_000;
/// Largest run, so that a comparison whose caller went, or whose server stops, ends within seconds.
const JOBS_MAX: u64 = 200_000;
const TICKS_MAX: u64 = 2_000_000;
/// Messages that a caller may be behind.
const BEHIND: usize = 16;

#[derive(Debug)]
struct Simulator {
    free: Arc<Semaphore>,
}

impl Default for Simulator {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(1)) }
    }
}

/// To be served beside the server's own.
pub fn services() -> Services {
    let service = SimulationServiceServer::new(Simulator::default()).max_decoding_message_size(MESSAGE_MAX);
    Services(Box::new(|routes| routes.add_service(service)))
}

#[tonic::async_trait]
impl SimulationService for Simulator {
    async fn list_scenarios(
        &self,
        _: Request<pb::ListScenariosRequest>,
    ) -> Result<Response<pb::ListScenariosResponse>, Status> {
        let one = |(name, toml): &(&str, &str)| {
            let about = Named::parse(name, toml, Path::new("."), &[]).map(|named| named.scenario.about);
            pb::Scenario { name: (*name).into(), about: about.unwrap_or_default(), toml: (*toml).into() }
        };
        Ok(Response::new(pb::ListScenariosResponse { scenarios: READY.iter().map(one).collect() }))
    }

    type CompareScenarioStream = ReceiverStream<Result<pb::CompareScenarioResponse, Status>>;

    async fn compare_scenario(
        &self,
        request: Request<pb::CompareScenarioRequest>,
    ) -> Result<Response<Self::CompareScenarioStream>, Status> {
        let plan = plan(request.into_inner())?;
        let permit = self.free.clone().try_acquire_owned().map_err(|_| {
            let message = "another comparison is under way; ask again when it has ended";
            with_reason(Code::ResourceExhausted, reason::OVERLOADED, message, [])
        })?;
        let (tell, told) = mpsc::channel(BEHIND);
        tokio::task::spawn_blocking(move || {
            // An error here means that nobody listens any more.
            let _ = compare(&plan, &tell);
            drop(permit);
        });
        Ok(Response::new(ReceiverStream::new(told)))
    }
}

/// What is asked for, or what is wrong with it.
fn plan(request: pb::CompareScenarioRequest) -> Result<Plan, Invalid> {
    check::count("settings", request.settings.len(), 0..=SETTINGS_MAX)?;
    let scenario = world(request.world, &request.settings.into_iter().collect::<Vec<_>>())?;
    let repetitions = request.repetitions.unwrap_or(scenario.scenario.repetitions);
    check::between("repetitions", repetitions, 1..=REPETITIONS_MAX)?;
    let named = if request.policies.is_empty() { &scenario.scenario.policies } else { &request.policies };
    let policies = policies(named)?;
    let first = request.seed.unwrap_or(scenario.scenario.seed);
    let seeds = (0..u64::from(repetitions)).map(|number| first.wrapping_add(number)).collect();
    Ok(Plan { scenario, history: None, policies, seeds, threads: 1, checked: false })
}

/// A scenario that can be run here.
fn world(world: Option<pb::compare_scenario_request::World>, settings: &[(String, String)]) -> Result<Named, Invalid> {
    use pb::compare_scenario_request::World;

    let (field, name, text) = match &world {
        None => return Err(Invalid::new("world", "is missing; name a scenario, or send the TOML of one")),
        Some(World::Scenario(name)) => {
            let known = READY.iter().find(|(known, _)| known == name);
            let names = || READY.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let unknown = || format!("there is no '{}'; there are {}", name.escape_debug(), names());
            let (name, text) = known.ok_or_else(|| Invalid::new("scenario", unknown()))?;
            ("scenario", *name, *text)
        }
        Some(World::Toml(text)) => {
            if text.len() > TOML_MAX {
                return Err(Invalid::new("toml", format!("is {} bytes long; {TOML_MAX} are allowed", text.len())));
            }
            ("toml", "toml", text.as_str())
        }
    };
    let wrong = |error: scenario::Error| Invalid::new(field, error.to_string());
    let named = Named::parse(name, text, Path::new("."), settings).map_err(wrong)?;
    if let Some((key, path)) = named.scenario.files().first() {
        let path = path.display().to_string();
        let path = path.escape_debug();
        let problem = format!("{key} names the file '{path}', and a server reads none; use 'leeway simulate compare'");
        return Err(Invalid::new(field, problem));
    }
    let extent = named.extent().map_err(wrong)?;
    if extent.jobs > JOBS_MAX || extent.ticks > TICKS_MAX {
        let problem = format!(
            "has up to {} jobs and {} ticks of markets; a server runs {JOBS_MAX} and {TICKS_MAX} at most, 'leeway simulate \
             compare' more",
            extent.jobs, extent.ticks
        );
        return Err(Invalid::new(field, problem));
    }
    Ok(named)
}

/// The policies of these names, each once.
fn policies(names: &[String]) -> Result<Vec<Name>, Invalid> {
    check::count("policies", names.len(), 1..=POLICIES_MAX)?;
    let known = leeway_policies::all();
    let mut chosen = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let found = name.parse::<Name>().ok().filter(|name| known.get(name).is_some());
        let unknown = || {
            let known = known.names().map(Name::as_str).collect::<Vec<_>>().join(", ");
            Invalid::new(
                format!("policies[{number}]"),
                format!("there is no '{}'; there are {known}", name.escape_debug()),
            )
        };
        let found = found.ok_or_else(unknown)?;
        if !chosen.contains(&found) {
            chosen.push(found);
        }
    }
    Ok(chosen)
}

type Told = mpsc::Sender<Result<pb::CompareScenarioResponse, Status>>;

/// Runs a plan and tells of each run; an error when nobody listens any more.
fn compare(plan: &Plan, tell: &Told) -> Result<(), mpsc::error::SendError<()>> {
    use pb::compare_scenario_response::Event;

    let say = |told: Result<Event, Status>| {
        let message = told.map(|event| pb::CompareScenarioResponse { event: Some(event) });
        tell.blocking_send(message).map_err(|_| mpsc::error::SendError(()))
    };
    let all = plan.policies.len() * plan.seeds.len();
    let mut rows = Vec::with_capacity(all);
    for policy in &plan.policies {
        for seed in &plan.seeds {
            if tell.is_closed() {
                return Ok(());
            }
            match study::run_one(plan, policy, *seed, false, &mut |_| {}) {
                Ok(ran) => rows.push(ran.row),
                Err(error) => return say(Err(Invalid::new("world", error.to_string()).into())),
            }
            if let Some(row) = rows.last() {
                say(Ok(Event::Run(run(row, rows.len(), all))))?;
            }
        }
    }
    let policies = study::summaries(&rows).iter().enumerate().map(|(number, of)| summary(of, number == 0)).collect();
    say(Ok(Event::Outcome(pb::SimulationOutcome { policies, warnings: plan.warnings(&rows) })))
}

fn run(row: &Row, done: usize, all: usize) -> pb::SimulationRun {
    pb::SimulationRun {
        done: done as u32,
        all: all as u32,
        policy: row.policy.clone(),
        seed: row.seed,
        jobs: row.jobs,
        succeeded: row.succeeded,
        open: row.open,
        missed: row.missed,
        cost_micros: row.cost_micros,
        time_value_micros: row.time_value_micros,
        work_hours: row.work_hours,
        interruptions: row.interruptions,
    }
}

fn summary(of: &Summary, is_first: bool) -> pb::PolicySummary {
    let micros = |dollars: f64| (dollars * 1e6).round() as i64;
    let compared = |value: f64| (!is_first && value.is_finite()).then_some(value);
    pb::PolicySummary {
        policy: of.policy.clone(),
        runs: of.runs as u32,
        cost_micros: micros(of.cost),
        cost_per_work_hour_micros: micros(of.cost_per_work_hour),
        cost_against_first: compared(of.cost_against_first),
        against_low: compared(of.against_low).filter(|_| of.runs > 1),
        against_high: compared(of.against_high).filter(|_| of.runs > 1),
        time_value_micros: micros(of.time_value),
        succeeded: of.succeeded,
        with_deadline: of.with_deadline,
        missed: of.missed,
        spot_share: of.spot_share,
        wait_p90_hours: of.wait_p90_hours,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leeway_proto::pb::compare_scenario_request::World;
    use leeway_proto::pb::compare_scenario_response::Event;
    use leeway_proto::pb::simulation_service_client::SimulationServiceClient;
    use tonic::transport::Channel;

    use super::*;

    const SMALL: &str = "about = \"A few jobs.\"\nlength = \"1d\"\n[[clusters]]\nname = \"one\"\nregion = \"aws/us-east-1\"\n\
                         accelerators = \"V100:1\"\ncount = 8\nspot = 1\non_demand = 3\n[[workload]]\nask.accelerator = \
                         \"V100\"\n[workload.generate]\nruntime_max_s = 7200\narrivals = { per_hour = 1 }\nruntime = { kind \
                         = \"log-normal\", mu = 7.5, sigma = 0.5 }\nsizes = [{ weight = 1, gpus = 1 }]\n";

    async fn client() -> SimulationServiceClient<Channel> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let Services(add) = services();
        let routes = add(tonic::service::Routes::default());
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        tokio::spawn(tonic::transport::Server::builder().add_routes(routes).serve_with_incoming(incoming));
        let channel = Channel::from_shared(url).expect("an address makes a URL").connect().await;
        SimulationServiceClient::new(channel.expect("it serves"))
    }

    fn small(repetitions: u32) -> pb::CompareScenarioRequest {
        pb::CompareScenarioRequest {
            world: Some(World::Toml(SMALL.into())),
            policies: vec!["whole-bill".into(), "on-demand".into()],
            repetitions: Some(repetitions),
            ..Default::default()
        }
    }

    #[tokio::test]
    async fn a_comparison_tells_each_run_and_then_what_simulate_compare_says() {
        let mut client = client().await;
        let mut told = client.compare_scenario(small(3)).await.unwrap().into_inner();
        let (mut runs, mut outcome) = (Vec::new(), None);
        while let Some(message) = told.message().await.unwrap() {
            match message.event.unwrap() {
                Event::Run(run) => runs.push(run),
                Event::Outcome(last) => outcome = Some(last),
            }
        }
        assert_eq!(
            runs.iter().map(|run| (run.done, run.all)).collect::<Vec<_>>(),
            (1..=6).map(|n| (n, 6)).collect::<Vec<_>>()
        );
        let plan = plan(small(3)).unwrap();
        let ran = study::study(&plan, &|_| false, &|_| {}).unwrap();
        let rows: Vec<Row> = ran.into_iter().map(|ran| ran.row).collect();
        for (run, row) in runs.iter().zip(&rows) {
            assert_eq!((&run.policy, run.seed, run.cost_micros), (&row.policy, row.seed, row.cost_micros));
        }
        let expected: Vec<_> = study::summaries(&rows).iter().enumerate().map(|(n, of)| summary(of, n == 0)).collect();
        let outcome = outcome.unwrap();
        assert_eq!(outcome.policies, expected);
        assert!(expected[1].cost_against_first.unwrap() > 0.0 && expected[0].cost_against_first.is_none());
        assert!(outcome.warnings.iter().any(|said| said.contains("few")), "{outcome:?}");
    }

    #[tokio::test]
    async fn the_ready_scenarios_are_listed_and_none_of_them_names_a_file() {
        let listed = client().await.list_scenarios(pb::ListScenariosRequest {}).await.unwrap().into_inner().scenarios;
        assert_eq!(listed.len(), READY.len());
        for one in listed {
            assert!(!one.about.is_empty());
            let world = Some(World::Scenario(one.name.clone()));
            let checked = plan(pb::CompareScenarioRequest { world, ..Default::default() });
            assert!(checked.is_ok(), "{}: {checked:?}", one.name);
        }
    }

    #[tokio::test]
    async fn what_cannot_be_run_is_refused_with_what_is_wrong() {
        let mut client = client().await;
        let setting = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
        let long = pb::CompareScenarioRequest { world: Some(World::Toml("#".repeat(TOML_MAX + 1))), ..small(1) };
        let unknown = pb::CompareScenarioRequest { world: Some(World::Scenario("nosuch".into())), ..small(1) };
        let wrong = [
            (pb::CompareScenarioRequest { world: None, ..small(1) }, "world"),
            (unknown, "shared-pool"),
            (long, "1048576"),
            (pb::CompareScenarioRequest { world: Some(World::Toml("length = 3".into())), ..small(1) }, "length"),
            (pb::CompareScenarioRequest { policies: vec!["nosuch".into()], ..small(1) }, "whole-bill"),
            (small(0), "repetitions"),
            (small(1_001), "1000"),
            (
                pb::CompareScenarioRequest { settings: setting("workload.0.trace", "/etc/passwd"), ..small(1) },
                "reads none",
            ),
            (
                pb::CompareScenarioRequest { settings: setting("clusters.0.market.fitted", "x.json"), ..small(1) },
                "clusters[0].market.fitted",
            ),
            (
                pb::CompareScenarioRequest {
                    settings: setting("workload.0.generate.arrivals.per_hour", "1e5"),
                    ..small(1)
                },
                "200000",
            ),
            (
                pb::CompareScenarioRequest {
                    settings: (0..65).map(|n| (format!("k{n}"), String::new())).collect(),
                    ..small(1)
                },
                "settings",
            ),
        ];
        for (request, part) in wrong {
            let refused = client.compare_scenario(request).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
            assert!(refused.message().contains(part), "{part}: {}", refused.message());
            assert_eq!(leeway_proto::status::reason_of(&refused).as_deref(), Some(reason::INVALID_FIELD));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_comparison_is_under_way_at_a_time_and_ends_when_its_caller_goes() {
        let mut client = client().await;
        let first = client.compare_scenario(small(1_000)).await.unwrap();
        let busy = client.compare_scenario(small(1)).await.unwrap_err();
        assert_eq!(busy.code(), Code::ResourceExhausted, "{busy:?}");
        drop(first);
        let free = async {
            while client.compare_scenario(small(1)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), free).await.expect("it is free again");
    }
}
