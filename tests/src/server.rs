//! `leeway serve` as a process that can be killed, stopped and started again on the same files and the same port.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::cli::{self, Ran};
use crate::wait::eventually;
use crate::{binary, cluster};

/// A configuration, from parts that tests change.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long an agent may be silent.
    pub lease_ttl: &'static str,
    /// Machines of the one cluster.
    pub machines: u32,
    /// Cap of the budget `team`.
    pub cap: &'static str,
    /// Further sections.
    pub more: String,
    /// Further keys of `[money]`.
    pub money: &'static str,
    /// What is logged.
    pub log: &'static str,
}

impl Default for Config {
    fn default() -> Self {
        Self { lease_ttl: "5s", machines: 4, cap: "1000000 USD", more: String::new(), money: "", log: "info" }
    }
}

impl Config {
    /// A machine costs a dollar a second, so that even the shortest job leaves something in the ledger.
    fn text(&self) -> String {
        let Self { lease_ttl, machines, cap, more, money, log } = self;
        format!(
            r#"
installation = "e2e"
data_dir = "data"
default_budget = "team"

[log]
level = "{log}"
format = "json"

[lease]
ttl = "{lease_ttl}"
kill_grace = "1s"
margin = "1s"

[launch]
cooldown = "500ms"
backoff = "200ms"
stop_again = "1s"
drain = "5s"

[money]
meter_every = "1s"
{money}

[estimates]
launch_time = "1s"
running_time = "1m"

[webhooks]
allow_http = true
allowed_networks = ["127.0.0.0/8"]
any_port = true

[[budgets]]
name = "team"
cap = "{cap}"

[[clusters]]
name = "here"
driver = "local"
region = "onprem/here"

[[clusters.machines]]
name = "gpu"
instance_type = "p3.2xlarge"
cpus = 8
memory = "61GiB"
accelerator = "V100"
accelerators = 1
disk = "100GB"
count = {machines}
on_demand = "3600 USD"
spot = "1800 USD"
{more}
"#
        )
    }
}

/// A server in a folder of its own. What it and its runs leave alive ends with it.
#[derive(Debug)]
pub struct Server {
    folder: TempDir,
    port: u16,
    metrics_port: u16,
    child: Option<Child>,
}

impl Server {
    /// Starts one and waits until it serves.
    pub async fn start(config: &Config) -> Self {
        let folder = tempfile::Builder::new().prefix("leeway-e2e-").tempdir().unwrap();
        std::fs::write(folder.path().join("leeway.toml"), config.text()).unwrap();
        let mut server = Self { folder, port: free_port(), metrics_port: free_port(), child: None };
        server.spawn();
        server.ready().await;
        server
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn config(&self) -> PathBuf {
        self.folder.path().join("leeway.toml")
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What it says of itself at `/metrics`.
    pub async fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.metrics_port)).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    /// Everything that all its processes wrote to standard error.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.path().join("stderr")).unwrap()).into_owned()
    }

    /// Starts the process and waits for nothing.
    pub fn spawn(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let out = File::create(self.stdout()).unwrap();
        let err = File::options().create(true).append(true).open(self.folder.path().join("stderr")).unwrap();
        let mut command = Command::new(binary::leeway());
        command.arg("--json").arg("serve").arg("--config").arg(self.config());
        command.args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        command.args(["--metrics-listen", &format!("127.0.0.1:{}", self.metrics_port)]);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LEEWAY_") {
                command.env_remove(name);
            }
        }
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap();
        self.child = Some(child);
    }

    /// Waits until it says that it serves. Returns what it says.
    pub async fn ready(&mut self) -> Value {
        let stdout = self.stdout();
        let ended = |child: &mut Option<Child>| child.as_mut().map(|child| child.try_wait().unwrap());
        loop {
            let said = std::fs::read_to_string(&stdout).unwrap();
            if let Ok(value) = serde_json::from_str(&said) {
                return value;
            }
            let state = ended(&mut self.child);
            assert!(matches!(state, Some(None)), "the server ended: {state:?}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends it without a word, at whatever it is doing.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts it again on the same files and port, and waits until it serves.
    pub async fn restart(&mut self) {
        self.kill9();
        self.spawn();
        self.ready().await;
    }

    /// Asks it to stop. Returns how and after how long it ended.
    pub async fn terminate(&mut self) -> (ExitStatus, Duration) {
        let begun = Instant::now();
        let pid = i32::try_from(self.child.as_ref().unwrap().id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
        (self.ended().await, begun.elapsed())
    }

    /// Waits until it has ended by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        let status = eventually("the server's end", || {
            let status = child.try_wait().unwrap();
            async move { status }
        });
        status.await
    }

    /// Runs a command of the binary against it, with `--json`.
    pub async fn cli(&self, arguments: &[&str]) -> Ran {
        let mut command = cli::command(&["--json"]);
        command.args(arguments).env("LEEWAY_SERVER", self.url()).current_dir(self.folder.path());
        cli::run(command).await
    }

    fn stdout(&self) -> PathBuf {
        self.folder.path().join("stdout")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill9();
        cluster::clear(&self.data());
        if std::thread::panicking() {
            let log = self.log();
            let tail = log.lines().rev().take(40).collect::<Vec<_>>();
            eprintln!("the server's last words:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
    }
}

/// A port that nobody listens on. It lies below those that the system gives to outgoing connections, so that nobody takes
/// it while a server is away.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 1_000).unwrap_or(0) * 12;
    loop {
        let port = 18_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 14_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
