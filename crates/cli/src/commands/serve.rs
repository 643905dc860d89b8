//! `leeway serve`: the server, until it is told to stop.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use leeway_server::{Parameters, Settings, Sources};
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::simulator;
use crate::terminal::Terminal;

const AFTER: &str = "\
Settings come from the file, then from the environment (LEEWAY_LEASE__TTL sets lease.ttl), then from these options.

The server ends on SIGTERM or SIGINT; running jobs go on, and the next start takes them over.

Examples:
  leeway serve --example > leeway.toml
  leeway serve --config leeway.toml
  leeway serve --config leeway.toml --check
  leeway serve --config leeway.toml --listen 127.0.0.1:8080 --log-format json";

/// Run the server
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    /// The configuration; without one every setting has its default.
    #[arg(long, short, value_name = "FILE", env = "LEEWAY_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// Where gRPC listens.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Where metrics and health listen.
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_listen: Option<SocketAddr>,
    /// Home of the store, keys, logs and uploads.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// How the log is written on standard error.
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    pub log_format: Option<String>,
    /// What is logged, for example info or leeway_server=debug,warn.
    #[arg(long, value_name = "FILTER")]
    pub log_level: Option<String>,
    /// Read and check the configuration, and start nothing.
    #[arg(long)]
    pub check: bool,
    /// Print a configuration with every key explained, and start nothing.
    #[arg(long, conflicts_with = "check")]
    pub example: bool,
}

pub fn run(args: &Args, terminal: &Terminal) -> Result<Exit, Failure> {
    if args.example {
        terminal.show(|_| leeway_server::settings::EXAMPLE.to_owned(), || leeway_server::settings::EXAMPLE.into())?;
        return Ok(Exit::Success);
    }
    let settings = settings(args)?;
    if args.check {
        let problems = leeway_server::check_store(&settings);
        if !problems.is_empty() {
            return Err(Failure::new(Exit::Usage, "INVALID_CONFIG", problems.to_string()));
        }
        let remarks: Vec<String> =
            leeway_server::check_remarks(&settings).iter().map(|remark| format!("note: {remark}")).collect();
        let sound = format!("the configuration is sound; gRPC would listen on {}", settings.listen);
        terminal.show(
            |_| remarks.iter().chain(std::iter::once(&sound)).map(|line| format!("{line}\n")).collect(),
            || {
                json!({
                    "ok": true,
                    "notes": remarks,
                    "installation": settings.installation.as_str(),
                    "data_dir": settings.data_dir,
                    "listen": settings.listen,
                    "metrics_listen": settings.metrics_listen,
                    "default_policy": settings.default_policy.as_str(),
                    "clusters": settings.clusters.iter().map(|one| one.spec.name.as_str()).collect::<Vec<_>>(),
                    "budgets": settings.budgets.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
                })
            },
        )?;
        return Ok(Exit::Success);
    }
    leeway_server::observability::init(&settings.log);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::from(anyhow::Error::from(error)))?;
    runtime.block_on(Box::pin(async {
        let parameters = Parameters { services: Some(simulator::services()), ..Parameters::default() };
        let server = leeway_server::start_with(settings, parameters).await?;
        if terminal.json {
            terminal.value(&json!({ "grpc": server.grpc_addr, "metrics": server.metrics_addr }))?;
        } else {
            terminal
                .text(&format!("serving on http://{}; metrics on http://{}", server.grpc_addr, server.metrics_addr))?;
        }
        server.wait().await.map_err(Failure::from)
    }))?;
    Ok(Exit::Success)
}

fn settings(args: &Args) -> Result<Settings, Failure> {
    let path = |path: &PathBuf| match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Failure::usage(format!("--data-dir '{}' is not UTF-8", path.display()))),
    };
    let given = [
        ("listen", args.listen.map(|address| address.to_string())),
        ("metrics_listen", args.metrics_listen.map(|address| address.to_string())),
        ("data_dir", args.data_dir.as_ref().map(path).transpose()?),
        ("log.format", args.log_format.clone()),
        ("log.level", args.log_level.clone()),
    ];
    // A folder on the command line is counted from where the command runs, unlike one in the file.
    let given = given.into_iter().filter_map(|(key, value)| {
        let value = value?;
        let value = if key == "data_dir" { absolute(value) } else { value };
        Some((key.to_owned(), value))
    });
    let overrides = given.collect();
    Settings::load(&Sources { file: args.config.clone(), environment: environment(), overrides })
        .map_err(|error| Failure::new(Exit::Usage, "INVALID_CONFIG", error.to_string()))
}

fn absolute(path: String) -> String {
    std::path::absolute(&path).ok().and_then(|path| path.into_os_string().into_string().ok()).unwrap_or(path)
}

/// Our variables; those that are not text cannot be settings.
fn environment() -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).filter(|(name, _)| name.starts_with("LEEWAY_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Args {
        Args {
            config: None,
            listen: None,
            metrics_listen: None,
            data_dir: None,
            log_format: None,
            log_level: None,
            check: true,
            example: false,
        }
    }

    #[test]
    fn options_win_over_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("leeway.toml");
        std::fs::write(&config, "listen = '127.0.0.1:9000'\ndata_dir = 'data'\n").unwrap();
        let from_file = settings(&Args { config: Some(config.clone()), ..args() }).unwrap();
        assert_eq!(from_file.listen.port(), 9_000);
        assert_eq!(from_file.data_dir, dir.path().join("data"));
        let listen = Some("127.0.0.1:9001".parse().unwrap());
        let data_dir = Some(PathBuf::from("elsewhere"));
        let given = settings(&Args { config: Some(config), listen, data_dir, ..args() }).unwrap();
        assert_eq!(given.listen.port(), 9_001);
        assert_eq!(given.data_dir, std::env::current_dir().unwrap().join("elsewhere"));
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("leeway.toml");
        std::fs::write(&config, "datadir = 'data'\n").unwrap();
        let failure = settings(&Args { config: Some(config), ..args() }).unwrap_err();
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::Usage, "INVALID_CONFIG"));
        assert!(failure.message.contains("data_dir"), "{}", failure.message);
        let absent = settings(&Args { config: Some(dir.path().join("absent.toml")), ..args() }).unwrap_err();
        assert!(absent.message.contains("absent.toml"), "{}", absent.message);
    }

    #[test]
    fn the_example_of_deploy_parses() {
        let example = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/leeway.toml");
        let found = settings(&Args { config: Some(example), ..args() }).unwrap();
        assert_eq!(found.data_dir, PathBuf::from("/var/lib/leeway"));
        assert!(found.listen.ip().is_loopback() && !found.clusters.is_empty() && !found.budgets.is_empty());
    }
}
