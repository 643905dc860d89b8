//! Money that is really kept within its cap while many ask at once.

use leeway_proto::pb;
use leeway_tests::api::{Api, shell};
use leeway_tests::wait::{eventually, within};
use leeway_tests::{Config, Server};

const JOBS: usize = 20;
const FIT: usize = 4;

/// A job that waits for a file. Its hold covers the whole test, so that none is extended meanwhile.
fn waiting(name: &str, server: &Server, budget: &str) -> pb::JobSpec {
    let run = format!("until [ -e '{}' ]; do sleep 0.1; done", server.folder().join("go").display());
    pb::JobSpec {
        money: Some(pb::MoneyTerms { budget: Some(budget.into()), ..Default::default() }),
        time: Some(pb::TimeTerms { estimate_ms: Some(1_800_000), ..Default::default() }),
        ..shell(name, &run)
    }
}

/// Posted and held may never come above the cap, at whatever moment one looks.
async fn within_cap(api: &Api) -> pb::Budget {
    let budget = api.budget("tight").await;
    let cap = budget.spec.as_ref().unwrap().cap_micros;
    assert!(budget.posted_micros + budget.held_micros <= cap, "{budget:?}");
    budget
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b_01_of_twenty_submissions_at_once_exactly_those_start_that_the_cap_can_hold() {
    let money = "horizon = \"10m\"\nstop_reserve = \"1m\"\nextend_before = \"10s\"";
    let server = Server::start(&Config { machines: 40, money, lease_ttl: "15s", ..Config::default() }).await;
    let api = Api::of(&server);
    // What one such job needs is asked of the server itself.
    let probe = api.submit("probe", waiting("probe", &server, "team")).await;
    api.until(&probe, &[pb::JobState::Running]).await;
    let request = pb::ExplainJobRequest { job_id: probe.clone() };
    let hold = api.jobs().explain_job(request).await.unwrap().into_inner().decisions[0].held_micros;
    assert!(hold > 0);
    api.cancel(&probe).await;
    let cap = hold * i64::try_from(FIT).unwrap() + hold / 2;
    set_cap(&server, cap).await;

    let submissions = (0..JOBS).map(|number| {
        let (api, spec) = (api.clone(), waiting(&format!("job-{number}"), &server, "tight"));
        tokio::spawn(async move { api.submit(&format!("request-{number}"), spec).await })
    });
    let submissions: Vec<_> = submissions.collect();
    let mut jobs = Vec::new();
    for submission in submissions {
        jobs.push(submission.await.unwrap());
    }
    let states = || async {
        let mut states = Vec::new();
        for job in &jobs {
            states.push(api.job(job).await);
        }
        states
    };
    eventually("those that fit run, the rest has a reason to wait", || async {
        let budget = within_cap(&api).await;
        assert!(budget.held_micros + budget.posted_micros <= cap);
        let now = states().await;
        let running = now.iter().filter(|job| job.state() == pb::JobState::Running).count();
        let pending = now.iter().filter(|job| job.state() == pb::JobState::Pending).count();
        assert!(running <= FIT && pending >= JOBS - FIT, "{running} run, {pending} wait");
        (running == FIT).then_some(())
    })
    .await;
    for job in states().await.iter().filter(|job| job.state() == pb::JobState::Pending) {
        assert_eq!(job.reason.as_ref().unwrap().code, "BUDGET_EXCEEDED", "{job:?}");
        assert!(api.runs(&job.job_id).await.is_empty());
    }

    set_cap(&server, hold * i64::try_from(JOBS).unwrap() * 2).await;
    within(std::time::Duration::from_secs(90), "the rest runs once there is money", || async {
        within_cap(&api).await;
        states().await.iter().all(|job| job.state() == pb::JobState::Running).then_some(())
    })
    .await;
    std::fs::write(server.folder().join("go"), "").unwrap();
    let mut total = 0;
    for job in &jobs {
        let (ended, _) = api.until_settled(job).await;
        assert_eq!(ended.state(), pb::JobState::Succeeded, "{ended:?}");
        total += ended.posted.unwrap().total_micros;
    }
    let budget = within_cap(&api).await;
    assert_eq!((budget.held_micros, budget.posted_micros), (0, total));
}

async fn set_cap(server: &Server, micros: i64) {
    let cap = format!("{}.{:06} USD", micros / 1_000_000, micros % 1_000_000);
    let set = server.cli(&["budget", "set", "tight", "--cap", &cap]).await.ok().json();
    assert_eq!(set["spec"]["cap_micros"].as_i64().unwrap(), micros);
}

#[tokio::test]
async fn a_dry_run_says_that_the_budget_has_no_room_in_the_words_of_a_submission() {
    let server = Server::start(&Config { cap: "1 USD", ..Config::default() }).await;
    let file = server.folder().join("job.yaml");
    std::fs::write(&file, "name: dear\nresources: {accelerators: V100}\nspot_policy: on-demand\nrun: 'true'\n")
        .unwrap();
    let job = file.to_str().unwrap();
    let asked = server.cli(&["jobs", "launch", job, "--dryrun"]).await.ok().json();
    let evaluation = &asked["dryrun"][0]["evaluation"];
    let refused = &evaluation["holds"][0]["refused"];
    assert_eq!(refused["code"], "BUDGET_EXCEEDED", "{evaluation}");
    assert_eq!(&evaluation["reason"]["message"], &refused["message"], "{evaluation}");
    let mut text = leeway_tests::cli::command(&["jobs", "launch", job, "--dryrun"]);
    text.env("LEEWAY_SERVER", server.url());
    let text = leeway_tests::cli::run(text).await.ok().out;
    assert!(text.contains("hold for #1: refused, budget 'team' would pass its cap"), "{text}");

    let launched = server.cli(&["jobs", "launch", job]).await.ok().json();
    let id = launched["submitted"][0]["job_id"].as_str().unwrap().to_owned();
    let api = Api::of(&server);
    let parked = eventually("the job's reason", || async { api.job(&id).await.reason }).await;
    assert_eq!(refused["message"], parked.message.as_str());
}
