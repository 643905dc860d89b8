//! Copies of a data directory: never a second server of the same runs by accident, and what an operator says of them.

use std::path::Path;

use leeway_proto::pb;
use leeway_tests::api::{Api, shell};
use leeway_tests::cluster::Machine;
use leeway_tests::wait::eventually;
use leeway_tests::{Config, Server, cli};

/// As an operator copies it: owners, modes and times stay.
fn cp_a(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

/// Serves another data directory under the same configuration, on ports of its own.
async fn serve(server: &Server, data: &Path, more: &[&str]) -> cli::Ran {
    let mut command = cli::command(&["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]);
    command.arg("--config").arg(server.config()).arg("--data-dir").arg(data).args(more);
    cli::run(command).await
}

/// Counts its own starts in a file, then waits for another file.
fn starting(server: &Server) -> String {
    let (starts, go) = (server.folder().join("starts"), server.folder().join("go"));
    format!("echo started >> '{}'; until [ -e '{}' ]; do sleep 0.05; done", starts.display(), go.display())
}

fn starts(server: &Server) -> usize {
    std::fs::read_to_string(server.folder().join("starts")).map_or(0, |text| text.lines().count())
}

fn go(server: &Server) {
    std::fs::write(server.folder().join("go"), "").unwrap();
}

#[tokio::test]
async fn s_12_a_server_on_a_copy_of_a_served_directory_is_refused_and_stops_and_starts_nothing() {
    let server = Server::start(&Config { lease_ttl: "20s", machines: 1, ..Config::default() }).await;
    let api = Api::of(&server);
    let job = api.submit("1", shell("one", &starting(&server))).await;
    let waiting = api.submit("2", shell("two", &starting(&server))).await;
    api.until(&job, &[pb::JobState::Running]).await;
    eventually("the program", || async { (starts(&server) == 1).then_some(()) }).await;
    let copy = server.folder().join("copy");
    cp_a(&server.data(), &copy);

    let refused = serve(&server, &copy, &[]).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    for part in ["STORE_COPIED", "store adopt", "twice"] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
    let checked = serve(&server, &copy, &["--check"]).await;
    assert!(checked.code == 2 && checked.err.contains("STORE_COPIED"), "{checked:?}");
    // Not even an operator can have two of them at once on one host.
    let adopted = server.cli(&["store", "adopt", "--moved", "copy"]).await;
    assert!(adopted.code == 1 && adopted.err.contains("STORE_SERVED_ELSEWHERE"), "{adopted:?}");
    // A copy can be looked at all the same; its index was copied in the middle of a write.
    let report = server.cli(&["store", "verify", "copy"]).await.json();
    let problems = report["problems"].as_array().unwrap();
    assert!(problems.iter().all(|problem| problem["repairable"] == true), "{report}");

    let machine = Machine::of(&server.data(), "here", &format!("{job}-r1"), 0);
    assert!(machine.agent().lives().unwrap() && !machine.program().is_empty(), "the job is left alone");
    go(&server);
    for job in [job, waiting] {
        let (ended, runs) = api.until_settled(&job).await;
        assert_eq!((ended.state(), runs.len()), (pb::JobState::Succeeded, 1), "{ended:?}");
    }
    assert_eq!(starts(&server), 2, "each was started once");
}

#[tokio::test]
async fn a_directory_that_was_moved_to_another_disk_is_adopted_and_its_running_job_goes_on() {
    let mut server = Server::start(&Config { lease_ttl: "20s", ..Config::default() }).await;
    let api = Api::of(&server);
    let job = api.submit("1", shell("long", &starting(&server))).await;
    api.until(&job, &[pb::JobState::Running]).await;
    eventually("the program", || async { (starts(&server) == 1).then_some(()) }).await;
    server.terminate().await;
    cp_a(&server.data(), &server.folder().join("moved"));
    let text = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), text.replace("data_dir = \"data\"", "data_dir = \"moved\"")).unwrap();
    server.spawn();
    assert_eq!(server.ended().await.code(), Some(1));
    assert!(server.log().contains("STORE_COPIED"), "{}", server.log());

    let report = server.cli(&["store", "adopt", "--moved", "moved"]).await.ok().json();
    assert_eq!(report["from"], report["identity"]["incarnation"], "it is what it was");
    server.restart().await;
    go(&server);
    let (ended, runs) = api.until_settled(&job).await;
    assert_eq!((ended.state(), runs.len(), starts(&server)), (pb::JobState::Succeeded, 1, 1), "{ended:?}");
}

#[tokio::test]
async fn s_14_an_older_copy_is_adopted_as_a_new_incarnation_whose_runs_take_no_number_of_a_later_one() {
    let mut server = Server::start(&Config::default()).await;
    let api = Api::of(&server);
    let first = api.submit("1", shell("first", "true")).await;
    api.until_settled(&first).await;
    server.terminate().await;
    let backup = server.folder().join("backup");
    cp_a(&server.data(), &backup);
    server.restart().await;
    let later = api.submit("2", shell("later", "true")).await;
    api.until_settled(&later).await;
    server.terminate().await;

    // The directory is lost and the backup takes its place.
    std::fs::rename(server.data(), server.folder().join("lost")).unwrap();
    cp_a(&backup, &server.data());
    let neither = server.cli(&["store", "adopt", "data"]).await;
    assert_eq!(neither.code, 2, "what it is must be said: {neither:?}");
    let report = server.cli(&["store", "adopt", "--restored", "data"]).await.ok().json();
    let incarnation = report["identity"]["incarnation"].as_str().unwrap().to_owned();
    assert_ne!(report["from"], incarnation.as_str());
    server.restart().await;
    assert!(server.log().contains(&format!("confirm_restore = \\\"{incarnation}\\\"")), "{}", server.log());
    assert_eq!(api.all_jobs().await.len(), 1, "the later job is not known");
    let job = api.submit("3", shell("after", "true")).await;
    let (ended, runs) = api.until_settled(&job).await;
    assert_eq!(ended.state(), pb::JobState::Succeeded, "{ended:?}");
    let epoch: u64 = runs[0].run_id.rsplit_once("-r").unwrap().1.parse().unwrap();
    assert!(epoch > 1_000_000, "{runs:?}");
}
