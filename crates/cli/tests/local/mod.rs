//! The real binary for commands that need no server, and a small world for those that simulate.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

pub fn leeway(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leeway"));
    command.args(words).env_remove("LEEWAY_SERVER").output().unwrap()
}

/// What a command that ends with 0 answers.
pub fn json(words: &[&str]) -> Value {
    json_with(words, 0)
}

/// What a command that ends with this code answers.
pub fn json_with(words: &[&str], code: i32) -> Value {
    let output = leeway(words);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a command says that ends with this code and gives nothing.
pub fn error(words: &[&str], code: i32) -> String {
    let output = leeway(words);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// A scenario: so many jobs, whose length has this mean logarithm in seconds, on a cluster whose spot machines come and go.
pub fn world(jobs: u32, length: f64) -> String {
    format!(
        r#"about = "Some jobs for a test."
length = "2d"
limit = "10d"

[[clusters]]
name = "east"
region = "aws/us-east-1"
accelerators = "A10G:1"
count = 8
on_demand = 1.2

[clusters.market.generate]
gap_s = 600
on_demand_usd_per_h = 1.2
nodes = 2
up = {{ kind = "weibull", shape = 0.6, scale_s = 20000 }}
down = {{ kind = "lomax", shape = 1.5, scale_s = 4000 }}
price = {{ mean_usd_per_h = 0.4, deviation = 0.2, floor_usd_per_h = 0.2, cap_of_on_demand = 1.0 }}

[[budgets]]
name = "lab"
cap = 500

[[workload]]
most = {jobs}
ask.accelerator = "A10G"
ask.checkpoint = {{ size = "3GB", save = "15s", restore = "40s" }}

[workload.generate]
runtime_max_s = 86400
arrivals = {{ per_hour = 1 }}
runtime = {{ kind = "log-normal", mu = {length}, sigma = 0.4 }}
sizes = [{{ weight = 1, gpus = 1 }}]
"#
    )
}
