//! `leeway clusters`: where machines can be had.

use std::path::{Path, PathBuf};

use leeway_proto::pb;
use leeway_server::Settings;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::json;
use crate::render;
use crate::terminal::Terminal;

const CLUSTERS: &str = "Examples:
  leeway clusters list
  leeway clusters add berlin.toml
  leeway clusters drain berlin";
const LIST: &str = "Examples:
  leeway clusters list";
const ADD: &str = "\
FILE is TOML with [[clusters]] exactly as in the server's configuration; 'checkpoints' must be stated. A cluster of that \
name is replaced.

Examples:
  leeway clusters add berlin.toml";
const DRAIN: &str = "Runs finish; nothing new is placed.

Examples:
  leeway clusters drain berlin";
const RESUME: &str = "Examples:
  leeway clusters resume berlin";
const REMOVE: &str = "Refused while runs exist on it: drain it first.

Examples:
  leeway clusters remove berlin";

/// Where machines can be had
#[derive(Debug, clap::Subcommand)]
#[command(after_help = CLUSTERS)]
pub enum Command {
    /// Show all clusters
    #[command(after_help = LIST, visible_alias = "ls")]
    List,
    /// Declare clusters, or replace their declarations
    #[command(after_help = ADD)]
    Add {
        /// The declarations.
        file: PathBuf,
    },
    /// Place nothing new on a cluster
    #[command(after_help = DRAIN)]
    Drain {
        /// The cluster.
        name: String,
    },
    /// Place on a drained cluster again
    #[command(after_help = RESUME)]
    Resume {
        /// The cluster.
        name: String,
    },
    /// Forget a cluster
    #[command(after_help = REMOVE, visible_alias = "rm")]
    Remove {
        /// The cluster.
        name: String,
    },
}

pub async fn run(command: Command, client: Client, terminal: &Terminal) -> Result<Exit, Failure> {
    let service = || client.clusters();
    let clusters = match command {
        Command::List => {
            let ask = || async { service().list_clusters(pb::ListClustersRequest {}).await };
            client.ask(ask).await?.clusters
        }
        Command::Add { file } => {
            let text = std::fs::read_to_string(&file).map_err(|error| Failure::file(&file, &error))?;
            let mut added = Vec::new();
            for spec in declared(&file, &text)? {
                let request = pb::RegisterClusterRequest { spec: Some(spec) };
                let ask = || async { service().register_cluster(request.clone()).await };
                added.extend(client.ask(ask).await?.cluster);
            }
            added
        }
        Command::Drain { name } => {
            let ask = || async { service().drain_cluster(pb::DrainClusterRequest { name: name.clone() }).await };
            client.ask(ask).await?.cluster.into_iter().collect()
        }
        Command::Resume { name } => {
            let ask = || async { service().resume_cluster(pb::ResumeClusterRequest { name: name.clone() }).await };
            client.ask(ask).await?.cluster.into_iter().collect()
        }
        Command::Remove { name } => {
            client.ask_once(service().remove_cluster(pb::RemoveClusterRequest { name: name.clone() })).await?;
            terminal.show(|_| format!("removed {name}"), || serde_json::json!({ "removed": name }))?;
            return Ok(Exit::Success);
        }
    };
    terminal.show(|view| render::clusters::table(&clusters, view), || json::list("Cluster", &clusters))?;
    Ok(Exit::Success)
}

/// The clusters that a file declares.
fn declared(file: &Path, text: &str) -> Result<Vec<pb::ClusterSpec>, Failure> {
    let wrong = |what: &str| Failure::new(Exit::Usage, "INVALID_FILE", format!("'{}': {what}", file.display()));
    let table: toml::Table = text.parse().map_err(|error| wrong(&format!("is not TOML: {error}")))?;
    let listed = table.get("clusters").and_then(toml::Value::as_array);
    let listed = listed.filter(|listed| !listed.is_empty()).ok_or_else(|| wrong("declares no [[clusters]]"))?;
    for (index, cluster) in listed.iter().enumerate() {
        if cluster.get("checkpoints").is_none() {
            // The default is a folder of the server, which only the server knows.
            return Err(wrong(&format!("clusters[{index}].checkpoints is missing; state the URL of their store")));
        }
        if cluster.get("market").is_some() {
            let fix = "put such a cluster into the server's configuration";
            return Err(wrong(&format!("clusters[{index}].market: a recorded market cannot be added; {fix}")));
        }
    }
    let settings = Settings::from_toml(text).map_err(|error| wrong(&error.to_string()))?;
    Ok(settings.clusters.iter().map(|one| pb::ClusterSpec::from_model(&one.spec, settings.currency)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[[clusters]]
name = "berlin"
driver = "local"
region = "onprem/berlin"
checkpoints = "file:///tmp/checkpoints"
[[clusters.machines]]
name = "gpu"
instance_type = "p3.2xlarge"
cpus = 8
memory = "61GiB"
count = 2
on_demand = "3.06 USD"
"#;

    fn read(text: &str) -> Result<Vec<pb::ClusterSpec>, String> {
        declared(Path::new("x.toml"), text).map_err(|failure| failure.message)
    }

    #[test]
    fn a_file_declares_clusters_as_the_configuration_does() {
        let specs = read(GOOD).unwrap();
        assert_eq!((specs[0].name.as_str(), specs[0].region.as_str()), ("berlin", "onprem/berlin"));
        assert_eq!(specs[0].machines[0].on_demand_nanos_per_hour, Some(3_060_000_000));
        assert_eq!(specs[0].currency, "USD");
    }

    #[test]
    fn what_a_file_must_not_say_is_refused_by_name() {
        let refused = |text: &str, expected: &str| {
            let message = read(text).unwrap_err();
            assert!(message.contains(expected), "{message}");
        };
        refused("", "no [[clusters]]");
        refused("clusters = 3", "no [[clusters]]");
        refused("[[clusters", "not TOML");
        refused(&GOOD.replace("checkpoints", "# checkpoints"), "clusters[0].checkpoints is missing");
        refused(&GOOD.replace("driver", "drivre"), "drivre");
        let market =
            GOOD.replace("[[clusters.machines]]", "market = {trace = \"x\", shape = \"gpu\"}\n[[clusters.machines]]");
        refused(&market, "clusters[0].market");
    }
}
