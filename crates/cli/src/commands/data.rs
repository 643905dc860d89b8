//! `leeway data`: named data with the places that hold it, so that reading it is part of a job's bill.

use leeway_model::Bytes;
use leeway_proto::pb;
use serde_json::json;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::json;
use crate::render;
use crate::terminal::Terminal;

const DATASETS: &str = "Examples:
  leeway data register imagenet --size 150GB --at aws/us-east-1=s3://vision/imagenet
  leeway data ls";
const REGISTER: &str = "Jobs name it as dataset://NAME. A dataset of that name is replaced; no data is moved.

Examples:
  leeway data register imagenet --size 150GB --at aws/us-east-1=s3://vision/imagenet
  leeway data register imagenet --size 150GB --at aws/us-east-1=s3://a/i --at gcp/us-central1=gs://b/i";
const LS: &str = "Examples:
  leeway data ls";
const RM: &str = "The data itself stays. Refused while unfinished jobs read it.

Examples:
  leeway data rm imagenet";

/// Datasets and the places that hold them
#[derive(Debug, clap::Subcommand)]
#[command(after_help = DATASETS)]
pub enum Command {
    /// Declare a dataset, or replace its declaration
    #[command(after_help = REGISTER)]
    Register {
        /// The dataset.
        name: String,
        /// Size of one copy, for example 150GB.
        #[arg(long, value_name = "SIZE")]
        size: Bytes,
        /// A complete copy, as REGION=URL; give it once for each copy.
        #[arg(long = "at", value_name = "REGION=URL", required = true, value_parser = replica)]
        replicas: Vec<pb::Replica>,
    },
    /// Show all datasets
    #[command(after_help = LS, visible_alias = "list")]
    Ls,
    /// Forget a dataset
    #[command(after_help = RM, visible_alias = "remove")]
    Rm {
        /// The dataset.
        name: String,
    },
}

fn replica(text: &str) -> Result<pb::Replica, String> {
    match text.split_once('=') {
        Some((region, url)) if !region.is_empty() && !url.is_empty() => {
            Ok(pb::Replica { region: region.to_owned(), url: url.to_owned() })
        }
        _ => Err(format!(
            "'{}' is not REGION=URL; write for example aws/us-east-1=s3://bucket/data",
            text.escape_debug()
        )),
    }
}

pub async fn run(command: Command, client: Client, terminal: &Terminal) -> Result<Exit, Failure> {
    let datasets = match command {
        Command::Register { name, size, replicas } => {
            let dataset = pb::Dataset { name, size_bytes: size.get(), replicas };
            let request = pb::RegisterDatasetRequest { dataset: Some(dataset) };
            let ask = || async { client.datasets().register_dataset(request.clone()).await };
            client.ask(ask).await?.dataset.into_iter().collect()
        }
        Command::Ls => {
            let ask = || async { client.datasets().list_datasets(pb::ListDatasetsRequest {}).await };
            client.ask(ask).await?.datasets
        }
        Command::Rm { name } => {
            let request = pb::RemoveDatasetRequest { name: name.clone() };
            client.ask_once(client.datasets().remove_dataset(request)).await?;
            terminal.show(|_| format!("forgot {name}"), || json!({ "removed": name }))?;
            return Ok(Exit::Success);
        }
    };
    terminal.show(|view| render::datasets::table(&datasets, view), || json::list("Dataset", &datasets))?;
    Ok(Exit::Success)
}
