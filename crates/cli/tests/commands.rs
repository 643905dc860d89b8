//! The binary as scripts see it: exit codes, JSON, what is sent and what is never sent twice.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod common;

use std::path::PathBuf;

use common::{Fake, State, job_file, leeway};
use leeway_proto::pb;
use pb::JobState::{Cancelled, Failed, Pending, Running, Starting, Succeeded};

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_job_ends_with_its_code() {
    for (states, code) in
        [(&[Pending, Starting, Running, Succeeded][..], 0), (&[Running, Failed], 100), (&[Running, Cancelled], 103)]
    {
        let fake = Fake::with_job(states).await;
        let ran = fake.leeway(&["jobs", "status", "j-42", "--wait"]).await;
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.out.contains("j-42"), "{ran:?}");
    }
    let fake = Fake::with_job(&[Running]).await;
    let ran = fake.leeway(&["jobs", "status", "j-42", "--wait", "--timeout", "300ms"]).await;
    assert_eq!(ran.code, 101, "{ran:?}");
    assert_eq!(fake.leeway(&["jobs", "status", "j-42"]).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_not_there_is_102_everywhere() {
    let fake = Fake::with_job(&[Running]).await;
    for verb in ["status", "logs", "explain", "cancel", "retry"] {
        let ran = fake.leeway(&["jobs", verb, "j-9", "--json"]).await;
        assert_eq!(ran.code, 102, "{verb}: {ran:?}");
        assert_eq!((ran.out.as_str(), ran.error()["code"].as_str()), ("", Some("NOT_FOUND")), "{verb}");
        assert_eq!(ran.error()["exit_code"], 102);
    }
    let ran = fake.leeway(&["jobs", "cancel", "j-9", "j-42", "--json"]).await;
    assert_eq!((ran.code, ran.json()["jobs"][0]["job_id"].as_str()), (102, Some("j-42")), "the other one is cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_pass_bytes_on_and_end_with_the_jobs_code() {
    let fake = Fake::with_job(&[Succeeded]).await;
    fake.state.lock().unwrap().logs.insert("j-42".into(), vec!["step 1\n", "ste", "p 2\n"]);
    let ran = fake.leeway(&["jobs", "logs", "j-42"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "step 1\nstep 2\n"));
    let ran = fake.leeway(&["--json", "jobs", "logs", "j-42"]).await;
    assert_eq!(
        (ran.json()["state"].as_str(), ran.json()["pieces"][2]["text"].as_str()),
        (Some("succeeded"), Some("p 2\n"))
    );
    for (state, code) in [(Running, 101), (Failed, 100), (Cancelled, 103)] {
        assert_eq!(Fake::with_job(&[state]).await.leeway(&["jobs", "logs", "j-42"]).await.code, code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn following_logs_survives_a_break_and_shows_nothing_twice() {
    let fake = Fake::with_job(&[Running, Succeeded]).await;
    fake.state.lock().unwrap().logs.insert("j-42".into(), vec!["one\n", "two\n", "", "three\n"]);
    let ran = fake.leeway(&["jobs", "logs", "-f", "j-42"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "one\ntwo\nthree\n"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_without_an_answer_is_sent_again_under_the_same_id() {
    let fake = Fake::start(State { deaf: 2, ..State::default() }).await;
    let dir = tempfile::tempdir().unwrap();
    let file = job_file(&dir, "run: echo hello\nname: tiny\n");
    let ran = fake.leeway(&["--json", "jobs", "launch", &file]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let value = ran.json();
    assert_eq!(
        (value["submitted"][0]["job_id"].as_str(), value["submitted"][0]["replayed"].as_bool()),
        (Some("j-42"), Some(true))
    );
    let sent = &fake.state.lock().unwrap().submissions;
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|one| one.client_request_id == value["request_id"]));
    assert_eq!(sent[0].spec.as_ref().unwrap().owner, "tester");
    let other = sent[0].client_request_id.clone();
    assert!(other.len() >= 16 && other.is_ascii());
}

#[tokio::test(flavor = "multi_thread")]
async fn options_go_before_the_file_and_secrets_never_into_the_spec() {
    let fake = Fake::start(State::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let file = job_file(&dir, "run: echo\nenvs: {A: 1, B: 2}\nsecrets: {TOKEN: ''}\nbudget: other\n");
    std::fs::write(dir.path().join("key"), "hush-2\n").unwrap();
    let key = format!("KEY=@{}", dir.path().join("key").display());
    let ran = fake
        .leeway(&[
            "jobs",
            "launch",
            &file,
            "--env",
            "A=9",
            "--secret",
            "TOKEN=hush-1",
            "--secret",
            &key,
            "--secret",
            "B=hush-3",
            "--name",
            "mine",
            "--budget",
            "vision",
            "--policy",
            "cheapest",
            "--request-id",
            "r-1",
        ])
        .await;
    assert_eq!((ran.code, ran.out.trim()), (0, "j-42 mine: pending"), "{ran:?}");
    let sent = fake.state.lock().unwrap().submissions.remove(0);
    assert_eq!(sent.client_request_id, "r-1");
    let spec = sent.spec.unwrap();
    assert_eq!((spec.name.as_str(), spec.policy.as_deref()), ("mine", Some("cheapest")));
    assert_eq!(spec.money.as_ref().unwrap().budget.as_deref(), Some("vision"));
    let program = spec.program.clone().unwrap();
    assert_eq!(program.env.into_iter().collect::<Vec<_>>(), [("A".to_owned(), "9".to_owned())]);
    assert_eq!(program.secret_names, ["B", "KEY", "TOKEN"]);
    assert!(!format!("{spec:?}{ran:?}").contains("hush"), "a secret leaked");
    let value = |name: &str| String::from_utf8(sent.secrets[name].value.to_vec()).unwrap();
    assert_eq!([value("TOKEN"), value("KEY"), value("B")], ["hush-1", "hush-2", "hush-3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_working_directory_is_sent_once_and_named_by_its_digest() {
    let fake = Fake::start(State::default()).await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("code")).unwrap();
    std::fs::write(dir.path().join("code/main.py"), "print(1)").unwrap();
    std::fs::write(dir.path().join("data.bin"), vec![7; 700_000]).unwrap();
    let file = job_file(&dir, "run: echo\nworkdir: code\nfile_mounts: {etc/input: ./data.bin}\n");
    for _ in 0..2 {
        let ran = fake.leeway(&["jobs", "launch", &file]).await;
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let state = fake.state.lock().unwrap();
    assert_eq!(state.uploads_received, 2, "the second launch sends nothing");
    let program = state.submissions[1].spec.as_ref().unwrap().program.clone().unwrap();
    let workdir = program.workdir.unwrap();
    assert!(state.uploads.contains_key(&workdir.sha256[..]));
    let mount = &state.uploads[&program.mounts["etc/input"].sha256[..]];
    let mut tar = tar::Archive::new(&mount[..]);
    let names: Vec<_> = tar.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned()).collect();
    assert_eq!(names, [PathBuf::from("input")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_documents_are_one_batch_and_each_has_its_result() {
    let fake = Fake::start(State::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let file = job_file(&dir, "name: a\nrun: echo a\n---\nname: b\nrun: echo b\n");
    let ran = fake.leeway(&["--json", "jobs", "launch", &file]).await;
    assert_eq!(ran.code, 2, "one of them was refused as invalid: {ran:?}");
    let value = ran.json();
    assert_eq!(value["submitted"][0]["job_id"], "j-50");
    assert_eq!(value["submitted"][1]["error"]["field"], "spec.nodes");
    let batch = &fake.state.lock().unwrap().batches[0];
    assert_eq!(batch.submissions[1].depends_on_batch, [0], "documents without depends_on follow each other");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_shows_bills_and_rejections_and_submits_nothing() {
    let offer = |cluster: &str| pb::OfferKey { cluster: cluster.into(), shape: "gpu".into(), capacity: 1 };
    let lines = (1..=8).map(|term| pb::BillLine { term, amount_micros: i64::from(term) * 1_000_000 }).collect();
    let evaluation = pb::Evaluation {
        policy: "whole-bill".into(),
        candidates: vec![pb::Candidate {
            offer: Some(offer("here")),
            bill: Some(pb::Bill { lines, total_micros: 36_000_000 }),
            currency: "USD".into(),
            ..pb::Candidate::default()
        }],
        rejections: vec![pb::Rejection {
            offer: Some(offer("there")),
            rule: pb::Rule::NoCapacity.into(),
            detail: "0 of 1 machines free".into(),
        }],
        ..pb::Evaluation::default()
    };
    let fake = Fake::start(State { evaluation, ..State::default() }).await;
    let dir = tempfile::tempdir().unwrap();
    let file = job_file(&dir, "run: echo\nname: x\n");
    let ran = fake.leeway(&["jobs", "launch", &file, "--dryrun"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    for dollars in 1..=8 {
        assert!(ran.out.contains(&format!("${dollars}.00")), "term {dollars}: {}", ran.out);
    }
    assert!(ran.out.contains("$36.00") && ran.out.contains("no-capacity") && ran.out.contains("0 of 1 machines free"));
    let value = fake.leeway(&["jobs", "launch", &file, "--dryrun", "--json"]).await.json();
    let found = &value["dryrun"][0]["evaluation"];
    assert_eq!(found["candidates"][0]["bill"]["lines"][7]["term"], "waiting");
    assert_eq!(found["rejections"][0]["rule"], "no-capacity");
    let state = fake.state.lock().unwrap();
    assert_eq!((state.dry_runs, state.submissions.len(), state.uploads_received), (2, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_to_be_said_of_a_deadline_is_said_at_the_launch_in_a_dry_run_and_at_a_retry() {
    let warning = pb::Reason { code: "DEADLINE_TOO_CLOSE".into(), message: "it cannot be met".into() };
    let jobs = [("j-1".to_owned(), [Failed].into())];
    let fake = Fake::start(State { warnings: vec![warning], jobs: jobs.into(), ..State::default() }).await;
    let dir = tempfile::tempdir().unwrap();
    let file = job_file(&dir, "run: echo\nname: x\ndeadline: +1h\n");
    let launch = ["jobs", "launch", &file];
    for words in [&launch[..], &["jobs", "launch", &file, "--dryrun"], &["jobs", "retry", "j-1"]] {
        let ran = fake.leeway(words).await;
        assert!(ran.out.contains("\nwarning: it cannot be met [DEADLINE_TOO_CLOSE]"), "{words:?}: {ran:?}");
    }
    let code = |value: &serde_json::Value| value["warnings"][0]["code"].as_str().map(str::to_owned);
    let told = Some("DEADLINE_TOO_CLOSE".to_owned());
    assert_eq!(code(&fake.leeway(&["--json", "jobs", "launch", &file]).await.json()["submitted"][0]), told);
    assert_eq!(code(&fake.leeway(&["--json", "jobs", "launch", &file, "--dryrun"]).await.json()["dryrun"][0]), told);
    assert_eq!(code(&fake.leeway(&["--json", "jobs", "retry", "j-1"]).await.json()), told);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_hides_what_has_ended_unless_asked() {
    let jobs = [("j-1", Succeeded), ("j-2", Running)].map(|(id, state)| (id.to_owned(), [state].into()));
    let fake = Fake::start(State { jobs: jobs.into(), ..State::default() }).await;
    let ids = |value: serde_json::Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|job| job["job_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(fake.leeway(&["--json", "jobs", "queue"]).await.json()), ["j-2"]);
    assert_eq!(ids(fake.leeway(&["--json", "jobs", "list", "--all"]).await.json()), ["j-1", "j-2"]);
    assert_eq!(ids(fake.leeway(&["--json", "jobs", "queue", "--state", "succeeded"]).await.json()), ["j-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_file_is_refused_with_every_mistake_and_its_place() {
    let fake = Fake::start(State::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let file = job_file(&dir, "run: echo\nnum_nodes: 0\nresorces: {}\n");
    let ran = fake.leeway(&["jobs", "launch", &file]).await;
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(
        ran.err.contains("job.yaml:2:") && ran.err.contains("job.yaml:3:") && ran.err.contains("resources"),
        "{ran:?}"
    );
    let error = fake.leeway(&["jobs", "launch", &file, "--json"]).await.error();
    assert_eq!(
        (error["code"].as_str(), error["details"]["errors"].as_array().map(Vec::len)),
        (Some("INVALID_JOB_FILE"), Some(2))
    );
    assert_eq!(fake.leeway(&["jobs", "launch", "absent.yaml"]).await.code, 2);
    assert!(fake.state.lock().unwrap().submissions.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_4_and_says_what_to_do() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let ran = leeway(&url, &["jobs", "queue"]).await;
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains(&url) && ran.err.contains("leeway serve") && ran.err.contains("LEEWAY_SERVER"), "{ran:?}");
    let error = leeway(&url, &["clusters", "list", "--json"]).await.error();
    assert_eq!((error["code"].as_str(), error["exit_code"].as_u64()), (Some("UNAVAILABLE"), Some(4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_2_also_as_json() {
    for arguments in [
        &["jobs", "lanch"][..],
        &["jobs", "status"],
        &["--server", "ftp://x", "jobs", "queue"],
        &["jobs", "launch", "train.yaml", "--request-id", ""],
        &["serve", "--example", "--check"],
        &["jobs", "queue", "--limit", "0"],
    ] {
        let ran = leeway("http://127.0.0.1:1", arguments).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        let with_json: Vec<&str> = std::iter::once("--json").chain(arguments.iter().copied()).collect();
        let ran = leeway("http://127.0.0.1:1", &with_json).await;
        assert_eq!((ran.code, ran.error()["code"].as_str()), (2, Some("USAGE")), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_no_server_works_without_one() {
    let nowhere = "http://127.0.0.1:1";
    let ran = leeway(nowhere, &["jobs", "example"]).await;
    assert!(ran.code == 0 && ran.out.contains("resources:"));
    let policies = leeway(nowhere, &["policies", "--json"]).await.json();
    for (kind, name) in [("policy", "whole-bill"), ("queue-order", "first-come")] {
        let is_it = |one: &&serde_json::Value| one["kind"] == kind && one["is_default"] == true;
        assert!(policies.as_array().unwrap().iter().find(is_it).is_some_and(|one| one["name"] == name), "{policies}");
    }
    let told = leeway(nowhere, &["policies"]).await.out;
    assert!(told.contains("fair-share") && told.contains("QUEUE ORDER"), "{told}");
    let example = leeway(nowhere, &["serve", "--example"]).await;
    assert!(example.code == 0 && example.out.contains("[lease]"), "{example:?}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leeway.toml");
    std::fs::write(&path, &example.out).unwrap();
    let checked = leeway(nowhere, &["serve", "--check", "--config", path.to_str().unwrap()]).await;
    assert!(checked.code == 0 && checked.out.contains("sound"), "{checked:?}");
    assert!(leeway(nowhere, &["completions", "bash"]).await.out.contains("leeway"));
    for arguments in [&["--help"][..], &["jobs", "launch", "--help"], &["help", "jobs", "status"], &["--version"]] {
        assert_eq!(leeway(nowhere, arguments).await.code, 0, "{arguments:?}");
    }
}
