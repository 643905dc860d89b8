//! Jobs of several machines: all or nothing.

use leeway_proto::pb;
use leeway_tests::api::{Api, shell};
use leeway_tests::cluster::Machine;
use leeway_tests::wait::eventually;
use leeway_tests::{Config, Server};

fn gang(name: &str, run: &str) -> pb::JobSpec {
    pb::JobSpec {
        nodes: 3,
        retry: Some(pb::RetryPolicy { infrastructure_failures: 3, ..Default::default() }),
        ..shell(name, run)
    }
}

async fn three_machines() -> (Server, Api) {
    let server = Server::start(&Config { machines: 3, ..Config::default() }).await;
    let api = Api::of(&server);
    (server, api)
}

#[tokio::test]
async fn every_rank_of_a_gang_knows_its_place_and_its_peers() {
    let (server, api) = three_machines().await;
    let folder = server.folder().display().to_string();
    let script = format!(
        "echo \"$LEEWAY_RANK of $LEEWAY_WORLD_SIZE with $(echo \"$LEEWAY_NODES\" | wc -l)\" > '{folder}/rank-'$LEEWAY_RANK"
    );
    let job = api.submit("1", gang("peers", &script)).await;
    let (ended, runs) = api.until_settled(&job).await;
    assert_eq!(ended.state(), pb::JobState::Succeeded, "{ended:?}");
    assert_eq!((runs.len(), runs[0].instances.len()), (1, 3), "{runs:?}");
    for rank in 0..3 {
        let said = std::fs::read_to_string(server.folder().join(format!("rank-{rank}"))).unwrap();
        assert_eq!(said, format!("{rank} of 3 with 3\n"));
    }
}

#[tokio::test]
async fn n_12_a_rank_that_fails_stops_the_whole_gang() {
    let (server, api) = three_machines().await;
    // The rank fails only once its peers are at work, so that there is something to stop.
    let folder = server.folder().display().to_string();
    let script = format!(
        "touch '{folder}/at-work-'$LEEWAY_RANK
         test $LEEWAY_RANK = 1 || exec sleep 600
         until [ -e '{folder}/at-work-0' ] && [ -e '{folder}/at-work-2' ]; do sleep 0.05; done; exit 3"
    );
    let job = api.submit("1", gang("failing", &script)).await;
    let (ended, runs) = api.until_settled(&job).await;
    assert_eq!(ended.state(), pb::JobState::Failed, "{ended:?}");
    assert_eq!(ended.reason.unwrap().code, "PROGRAM_FAILED");
    let end = runs[0].end.as_ref().unwrap();
    assert_eq!((runs.len(), end.reason.as_str(), end.exit_code), (1, "failed", Some(3)), "{runs:?}");
    for rank in 0..3 {
        let machine = Machine::of(&server.data(), "here", &format!("{job}-r1"), rank);
        assert!(machine.program().is_empty() && !machine.agent().lives().unwrap(), "rank {rank} lives on");
    }
}

#[tokio::test]
async fn a_gang_waits_until_all_its_machines_are_free() {
    let (server, api) = three_machines().await;
    let go = server.folder().join("go");
    let wait = format!("until [ -e '{}' ]; do sleep 0.05; done", go.display());
    let single = api.submit("1", shell("in-the-way", &wait)).await;
    api.until(&single, &[pb::JobState::Running]).await;
    let job = api.submit("2", gang("patient", "true")).await;
    let waiting = eventually("a reason to wait", || async { api.job(&job).await.reason }).await;
    assert_eq!(waiting.code, "NO_CAPACITY", "{waiting:?}");
    let pending = api.job(&job).await;
    assert_eq!(pending.state(), pb::JobState::Pending);
    assert!(api.runs(&job).await.is_empty(), "two machines are never taken for three");
    std::fs::write(go, "").unwrap();
    let (ended, runs) = api.until_settled(&job).await;
    assert_eq!((ended.state(), runs.len()), (pb::JobState::Succeeded, 1), "{ended:?}");
}
