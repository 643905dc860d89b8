//! What a newcomer meets between the first job file and its output: every mistake is told at the launch, with what to
//! write instead, and a script reads one stream.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod common;

use common::{Fake, State, job_file, leeway};
use leeway_proto::pb;
use pb::JobState::{Failed, Running, Succeeded};
use serde_json::Value;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn following_a_launch_as_json_is_one_stream_with_the_submission_first() {
    let fake = Fake::with_job(&[Running, Succeeded]).await;
    fake.state.lock().unwrap().logs.insert("j-42".into(), vec!["one\n", "two\n"]);
    let dir = tempfile::tempdir().unwrap();
    let file = job_file(&dir, "run: echo\nname: x\n");
    let ran = fake.leeway(&["--json", "jobs", "launch", &file, "--follow"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let lines = lines(&ran.out);
    let kinds: Vec<&str> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["submitted", "output", "output", "ended"]);
    assert_eq!(lines[0]["submitted"][0]["job_id"], "j-42");
    assert!(lines[0]["request_id"].as_str().unwrap().len() >= 16);
    assert!(lines[0]["submitted"][0]["notes"].to_string().contains("no checkpoint"), "{}", lines[0]);
    assert_eq!((&lines[1]["text"], &lines[2]["text"]), (&"one\n".into(), &"two\n".into()));
    assert_eq!((&lines[3]["state"], &lines[3]["exit_code"]), (&"succeeded".into(), &0.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rank_that_the_gang_has_not_is_refused_with_those_it_has() {
    for (nodes, has) in [(3, "the ranks 0 to 2"), (1, "one rank, 0")] {
        let jobs = [("j-42".to_owned(), [Running].into())].into();
        let fake = Fake::start(State { jobs, nodes, ..State::default() }).await;
        let ran = fake.leeway(&["jobs", "logs", "j-42", "--rank", "99"]).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.contains(has) && ran.err.contains("no rank 99"), "{ran:?}");
        let error = fake.leeway(&["--json", "jobs", "logs", "-f", "j-42", "--rank", "3"]).await.error();
        assert_eq!(error["code"], "NO_SUCH_RANK");
        assert_eq!(fake.leeway(&["jobs", "logs", "j-42", "--rank", "0"]).await.code, 101);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_a_job_is_told_apart_from_its_name_and_where_an_example_is() {
    let fake = Fake::start(State::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let file = job_file(&dir, "# nothing\n");
    let ran = fake.leeway(&["jobs", "launch", &file]).await;
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("job.yaml: the file holds no job"), "{ran:?}");
    assert!(ran.err.contains("'leeway jobs example'"), "{ran:?}");
    let file = job_file(&dir, "run: echo\n");
    for option in ["--env", "--secret"] {
        let ran = fake.leeway(&["jobs", "launch", &file, option, "A-B=hush"]).await;
        assert!(ran.err.contains(&format!("error: {option} A-B: is not the name")), "{ran:?}");
        assert!(!ran.err.contains("hush") && !ran.err.contains("job.yaml"), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_run_could_have_is_refused_at_the_launch() {
    let fake = Fake::start(State::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let file = job_file(&dir, "run: echo\nfile_mounts: {/data: .}\nsecrets: {TOKEN: ''}\n");
    for more in [&[][..], &["--dryrun"]] {
        let ran = fake.leeway(&[&["jobs", "launch", &file], more].concat()).await;
        assert_eq!(ran.code, 2, "{ran:?}");
        for wanted in ["file_mounts./data", "write 'data'", "secrets.TOKEN", "--secret TOKEN"] {
            assert!(ran.err.contains(wanted), "{wanted}: {ran:?}");
        }
    }
    let ran = fake.leeway(&["jobs", "launch", &file, "--secret", "TOKEN="]).await;
    assert!(ran.code == 2 && ran.err.contains("the value is empty"), "{ran:?}");
    assert!(fake.state.lock().unwrap().submissions.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_alone_takes_its_value_from_the_environment() {
    let fake = Fake::start(State::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let file = job_file(&dir, "run: echo\nsecrets: {PATH: null}\n");
    let ran = fake.leeway(&["jobs", "launch", &file, "--secret", "PATH"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let sent = fake.state.lock().unwrap().submissions.remove(0);
    assert_eq!(sent.secrets["PATH"].value, std::env::var("PATH").unwrap().into_bytes());
    let ran = fake.leeway(&["jobs", "launch", &file, "--secret", "NO_SUCH_VARIABLE_HERE"]).await;
    assert!(ran.code == 2 && ran.err.contains("export NO_SUCH_VARIABLE_HERE"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_typed_names_the_commands_and_not_the_hidden_ones() {
    // LEEWAY_SERVER is set here, as it is for most people.
    for (arguments, wanted) in
        [(&[][..], "Work:"), (&["jobs"], "launch"), (&["--json"], "USAGE"), (&["--json", "jobs"], "")]
    {
        let ran = leeway("http://127.0.0.1:1", arguments).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.contains(wanted) && !ran.err.contains("agent"), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_or_waits_is_told_how_it_ended_and_what_it_cost() {
    let dir = tempfile::tempdir().unwrap();
    let file = job_file(&dir, "run: echo\nresources: {use_spot: false}\n");
    let reason = pb::Reason { code: "FAILED".into(), message: "the program ended with exit code 3".into() };
    let posted = pb::Bill { total_micros: 1_250_000, ..pb::Bill::default() };
    let fake = || async {
        let fake = Fake::with_job(&[Running, Failed]).await;
        let mut state = fake.state.lock().unwrap();
        (state.reason, state.posted) = (Some(reason.clone()), Some(posted.clone()));
        state.logs.insert("j-42".into(), vec!["output\n"]);
        drop(state);
        fake
    };
    let told = "j-42 failed: the program ended with exit code 3 [FAILED]; it cost $1.25";
    for words in [&["jobs", "launch", &file, "--follow"][..], &["jobs", "logs", "-f", "j-42"]] {
        let ran = fake().await.leeway(words).await;
        assert_eq!(ran.code, 100, "{ran:?}");
        assert!(ran.out.ends_with("output\n"), "standard output is the program's: {ran:?}");
        assert_eq!(ran.err.trim_end().lines().last(), Some(told), "{ran:?}");
    }
    let ran = fake().await.leeway(&["jobs", "launch", &file, "--wait"]).await;
    assert_eq!((ran.code, ran.out.trim_end().lines().last()), (100, Some(told)), "{ran:?}");
    let ran = fake().await.leeway(&["--json", "jobs", "logs", "-f", "j-42"]).await;
    let last = lines(&ran.out).pop().unwrap();
    assert_eq!((&last["kind"], &last["reason"]["code"]), (&"ended".into(), &"FAILED".into()), "{last}");
    assert_eq!((&last["posted"]["total_micros"], &last["currency"]), (&1_250_000.into(), &"USD".into()), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_without_a_place_has_an_exit_code_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let file = job_file(&dir, "run: echo\n");
    let fake = Fake::start(State::default()).await;
    for words in [&["jobs", "launch", &file, "--dryrun"][..], &["--json", "jobs", "launch", &file, "--dryrun"]] {
        assert_eq!(fake.leeway(words).await.code, 104);
    }
    fake.state.lock().unwrap().evaluation.candidates.push(pb::Candidate::default());
    assert_eq!(fake.leeway(&["jobs", "launch", &file, "--dryrun"]).await.code, 0);
    for help in [&["--help"][..], &["jobs", "launch", "--help"]] {
        let ran = fake.leeway(help).await;
        assert!(ran.out.contains("104"), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_amount_below_zero_is_told_to_be_one() {
    for words in [&["--cap", "-1 USD"][..], &["--cap=-1 USD"], &["--cap", "1 USD", "--soft-limit", "-1 USD"]] {
        let ran = leeway("http://127.0.0.1:1", &[&["budget", "set", "team"], words].concat()).await;
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("'-1 USD'") && ran.err.contains("amounts must be positive"), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_holds_of_many_jobs_of_a_file_is_remarked_once() {
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::start(State::default()).await;
    let file = job_file(&dir, &["run: echo\n"; 3].join("---\n"));
    let ran = fake.leeway(&["jobs", "launch", &file, "--dryrun"]).await;
    assert_eq!(ran.err.matches("no checkpoint is kept").count(), 1, "{ran:?}");
    assert!(ran.err.contains("note: of 3 jobs: no checkpoint is kept"), "{ran:?}");
    let file = job_file(&dir, "run: echo\nresources: {use_spot: false}\n");
    let ran = fake.leeway(&["jobs", "launch", &file, "--dryrun"]).await;
    assert_eq!(ran.err, "", "nothing to remark where no spot machine may be used");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_job_of_a_file_is_submitted_whatever_the_last_one_waits_for() {
    for depends in [["", "depends_on: [a]\n", ""], ["depends_on: []\n", "", ""]] {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::start(State::default()).await;
        let jobs = ["a", "b", "c"].iter().zip(depends);
        let jobs: Vec<String> = jobs.map(|(name, depends)| format!("name: {name}\nrun: echo\n{depends}")).collect();
        fake.leeway(&["jobs", "launch", &job_file(&dir, &jobs.join("---\n"))]).await;
        let batches = fake.state.lock().unwrap().batches.clone();
        let names: Vec<_> = batches[0].submissions.iter().map(|one| one.spec.clone().unwrap().name).collect();
        assert_eq!(names, ["a", "b", "c"], "{depends:?}");
    }
}
