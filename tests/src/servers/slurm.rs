//! A whole Slurm on this host: controller, authentication and made-up nodes, in a folder of its own.
//!
//! Partition `ondemand` takes nodes from partition `spot`, whose jobs are warned and have a grace.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{program, skipped};

/// Grace of a job in partition `spot`, in seconds.
pub const GRACE: u64 = 6;

/// See the module.
#[derive(Debug)]
pub struct Slurm {
    folder: TempDir,
    daemons: Vec<Child>,
}

impl Slurm {
    /// One with so many nodes, each of 4 CPUs, 4 GB and one GPU `a100`. `None`, with a word about it, where Slurm is not
    /// installed or does not start.
    pub fn start(nodes: u16) -> Option<Self> {
        let missing = ["munged", "slurmctld", "slurmd", "sbatch"].into_iter().find(|name| program(name).is_none());
        if let Some(missing) = missing {
            skipped(&format!("'{missing}' is not installed; these tests need a real Slurm"));
            return None;
        }
        let folder = tempfile::Builder::new().prefix("leeway-slurm-").tempdir().unwrap();
        let mut slurm = Self { folder, daemons: Vec::new() };
        slurm.configure(nodes);
        slurm.launch("munged", &["--foreground", "--force"], true);
        slurm.until("munged answers", || slurm.path("munge.sock").exists());
        slurm.launch("slurmctld", &["-D", "-i"], false);
        for node in 1..=nodes {
            slurm.launch("slurmd", &["-D", "-N", &format!("n{node}")], false);
        }
        let idle = || {
            let states = slurm.run("sinfo", &["-h", "-N", "-p", "spot", "-o", "%T"]);
            let states: Vec<&str> = states.lines().collect();
            states.len() == usize::from(nodes) && states.iter().all(|state| *state == "idle")
        };
        if !slurm.holds(idle, Duration::from_secs(30)) {
            skipped(&format!("Slurm does not start here:\n{}", slurm.run("sinfo", &[])));
            return None;
        }
        Some(slurm)
    }

    pub fn conf(&self) -> PathBuf {
        self.path("slurm.conf")
    }

    /// A folder that server and nodes share.
    pub fn shared(&self) -> PathBuf {
        self.path("shared")
    }

    /// Runs one of Slurm's commands and returns what it printed.
    pub fn run(&self, command: &str, arguments: &[&str]) -> String {
        let output = Command::new(command).args(arguments).env("SLURM_CONF", self.conf()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }

    /// Every job that Slurm knows.
    pub fn jobs(&self) -> Vec<Value> {
        let text = self.run("squeue", &["--json", "--states=all"]);
        let listing: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        listing["jobs"].as_array().cloned().unwrap_or_default()
    }

    /// The jobs that bear a run's name.
    pub fn of_run(&self, installation: &str, run: &str) -> Vec<Value> {
        let name = format!("leeway.{installation}.{run}");
        self.jobs().into_iter().filter(|job| job["name"] == *name).collect()
    }

    /// Jobs that hold nodes or wait for some.
    pub fn living(&self) -> Vec<String> {
        let ended = ["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "PREEMPTED", "NODE_FAIL"];
        let is_living = |job: &Value| !ended.contains(&job["job_state"].as_str().unwrap_or_default());
        self.jobs().iter().filter(|job| is_living(job)).map(|job| job["name"].to_string()).collect()
    }

    /// Somebody else's job, which takes so many whole nodes of a partition.
    pub fn submit_other(&self, partition: &str, nodes: u16, seconds: u32) -> String {
        let (partition, nodes) = (format!("--partition={partition}"), format!("--nodes={nodes}"));
        let sleep = format!("--wrap=exec sleep {seconds}");
        let options =
            ["--parsable", &partition, &nodes, "--exclusive", "--job-name=other", "--output=/dev/null", &sleep];
        self.run("sbatch", &options).trim().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configure(&self, nodes: u16) {
        for name in ["state", "spool", "shared"] {
            std::fs::create_dir(self.path(name)).unwrap();
        }
        // munged insists that nobody else can change what leads to its socket.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.folder.path(), open).unwrap();
        let mut key = [0_u8; 128];
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").unwrap(), &mut key).unwrap();
        std::fs::write(self.path("munge.key"), key).unwrap();
        std::fs::set_permissions(self.path("munge.key"), std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
        let ports = free_ports(usize::from(nodes) + 1);
        let here = self.folder.path().display();
        let user = rustix::process::getuid().as_raw();
        let user = std::fs::read_to_string("/etc/passwd").unwrap_or_default().lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?.to_owned();
            (fields.nth(1)?.parse() == Ok(user)).then_some(name)
        });
        let user = user.unwrap_or_else(|| "root".into());
        let mut conf = format!(
            "ClusterName=leeway\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={}\nSlurmUser={user}\nSlurmdUser={user}\n\
             AuthType=auth/munge\nAuthInfo=socket={here}/munge.sock\nCredType=cred/munge\n\
             StateSaveLocation={here}/state\nSlurmdSpoolDir={here}/spool/%n\n\
             SlurmctldPidFile={here}/slurmctld.pid\nSlurmdPidFile={here}/slurmd-%n.pid\n\
             SlurmctldLogFile={here}/slurmctld.log\nSlurmdLogFile={here}/slurmd-%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\nSwitchType=switch/none\n\
             MailProg=/bin/true\nReturnToService=2\nSlurmdParameters=config_overrides\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nDefMemPerCPU=64\n\
             SchedulerType=sched/backfill\n\
             SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0\n\
             PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\nSlurmctldParameters=preempt_send_user_signal\n\
             KillWait=2\nMinJobAge=300\nSlurmctldTimeout=30\nSlurmdTimeout=60\nInactiveLimit=0\nGresTypes=gpu\n\
             AccountingStorageType=accounting_storage/none\nJobCompType=jobcomp/none\n",
            ports[0]
        );
        let all = if nodes == 1 { "n1".to_owned() } else { format!("n[1-{nodes}]") };
        for node in 1..=nodes {
            conf += &format!(
                "NodeName=n{node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={} CPUs=4 RealMemory=4000 Gres=gpu:a100:1 State=UNKNOWN\n",
                ports[usize::from(node)]
            );
        }
        conf += &format!(
            "PartitionName=ondemand Nodes={all} Default=YES MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF\n\
             PartitionName=spot Nodes={all} MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime={GRACE}\n"
        );
        std::fs::write(self.conf(), conf).unwrap();
        // Any file stands for the device.
        std::fs::write(self.path("gpu0"), "").unwrap();
        let gres = format!("NodeName={all} Name=gpu Type=a100 File={here}/gpu0\n");
        std::fs::write(self.path("gres.conf"), gres).unwrap();
        std::fs::write(self.path("cgroup.conf"), "CgroupAutomount=no\n").unwrap();
    }

    fn launch(&mut self, name: &str, arguments: &[&str], is_munge: bool) {
        let log = std::fs::File::options().create(true).append(true).open(self.path(&format!("{name}.out"))).unwrap();
        let mut command = Command::new(program(name).unwrap());
        command.args(arguments).env("SLURM_CONF", self.conf()).current_dir(self.folder.path());
        if is_munge {
            for (option, file) in [
                ("--key-file", "munge.key"),
                ("--socket", "munge.sock"),
                ("--pid-file", "munged.pid"),
                ("--log-file", "munged.log"),
                ("--seed-file", "munge.seed"),
            ] {
                command.arg(format!("{option}={}", self.path(file).display()));
            }
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.daemons.push(command.spawn().unwrap());
    }

    fn until(&self, what: &str, condition: impl Fn() -> bool) {
        assert!(self.holds(condition, Duration::from_secs(20)), "waited in vain: {what}");
    }

    fn holds(&self, condition: impl Fn() -> bool, within: Duration) -> bool {
        let begun = Instant::now();
        while !condition() {
            if begun.elapsed() > within {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("Slurm's jobs:\n{}", self.run("squeue", &["--states=all"]));
            eprintln!("Slurm's controller:\n{}", tail(&self.path("slurmctld.log")));
        }
        // Its daemons gone, nobody would end the jobs.
        self.run("scancel", &["--signal=KILL", "--full", "--partition=spot"]);
        self.run("scancel", &["--signal=KILL", "--full", "--partition=ondemand"]);
        self.run("scancel", &["--partition=spot"]);
        self.run("scancel", &["--partition=ondemand"]);
        self.holds(|| self.run("squeue", &["-h"]).trim().is_empty(), Duration::from_secs(8));
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn tail(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// Ports that were free a moment ago, all held at once while they are looked for.
fn free_ports(count: usize) -> Vec<u16> {
    let held: Vec<TcpListener> = (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap()).collect();
    held.iter().map(|port| port.local_addr().unwrap().port()).collect()
}
