//! A Slurm of one host: jobs wait for nodes, batch scripts run as processes, and every call can be made to fail before or
//! after its effect.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use leeway_drivers::slurm::{CallError, Calls, Job, Node, Partition};
use leeway_model::Millis;

/// When a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing was done, and nobody says so.
    Before,
    /// It was done, and nobody says so.
    After,
}

#[derive(Debug)]
pub struct FakeSlurm {
    /// Stand-ins for the commands that a batch script calls.
    commands: PathBuf,
    nodes: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u32,
    jobs: BTreeMap<u32, Entry>,
    /// The next call of a name fails so.
    faults: BTreeMap<&'static str, Vec<Fault>>,
    refusals: BTreeMap<&'static str, String>,
    is_cut: bool,
    /// How long a listing takes.
    delay: std::time::Duration,
    calls: BTreeMap<&'static str, u32>,
}

#[derive(Debug)]
struct Entry {
    job: Job,
    script: String,
    child: Option<Child>,
}

impl FakeSlurm {
    pub fn new(folder: &Path, nodes: u32) -> Self {
        let commands = folder.join("commands");
        std::fs::create_dir_all(&commands).unwrap();
        let command = |name: &str, text: &str| {
            let path = commands.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        };
        command("scontrol", "for i in $(seq \"$SLURM_NNODES\"); do echo node$i; done\n");
        command(
            "srun",
            "while case \"$1\" in --*) true;; *) false;; esac; do shift; done\n\
             i=0; while [ $i -lt \"$SLURM_NNODES\" ]; do SLURM_PROCID=$i \"$@\" & i=$((i+1)); done; wait\n",
        );
        Self { commands, nodes, state: Mutex::default() }
    }

    /// The next call fails so; several in turn.
    pub fn fail(&self, call: &'static str, fault: Fault) {
        self.state().faults.entry(call).or_default().push(fault);
    }

    /// Every call of a name is refused in these words, until they are empty.
    pub fn refuse(&self, call: &'static str, said: &str) {
        self.state().refusals.insert(call, said.to_owned());
    }

    pub fn delay(&self, delay: std::time::Duration) {
        self.state().delay = delay;
    }

    pub fn cut(&self, is_cut: bool) {
        self.state().is_cut = is_cut;
    }

    pub fn count(&self, call: &str) -> u32 {
        self.state().calls.get(call).copied().unwrap_or(0)
    }

    /// A job with a script that sleeps, whoever's it is.
    pub fn add(&self, name: &str, comment: &str, user: u32) -> u32 {
        let script = "#!/bin/sh\n#SBATCH --nodes=1\nexec sleep 600\n";
        let id = self.enqueue(script);
        let mut state = self.state();
        let job = &mut state.jobs.get_mut(&id).unwrap().job;
        (job.name, job.comment, job.user) = (name.into(), comment.into(), user);
        drop(state);
        self.schedule();
        id
    }

    pub fn lives(&self, id: u32) -> bool {
        self.refresh();
        self.state().jobs.get(&id).is_some_and(|entry| entry.job.state == "RUNNING")
    }

    /// The jobs of a name that have not ended.
    pub fn living(&self, name: &str) -> Vec<u32> {
        self.refresh();
        let state = self.state();
        let living = state.jobs.values().filter(|entry| entry.job.name == name && is_open(&entry.job.state));
        living.map(|entry| entry.job.id).collect()
    }

    /// Changes the jobs of a name, as Slurm itself does.
    pub fn change(&self, name: &str, change: impl Fn(&mut Job)) {
        let mut state = self.state();
        state.jobs.values_mut().filter(|entry| entry.job.name == name).for_each(|entry| change(&mut entry.job));
    }

    /// Ends the jobs of a name without a word.
    pub fn kill(&self, name: &str, end: &str) {
        for id in self.living(name) {
            self.end(id, end);
        }
    }

    /// Slurm forgets ended jobs after a while.
    pub fn forget_ended(&self) {
        self.refresh();
        self.state().jobs.retain(|_, entry| is_open(&entry.job.state));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, call: &'static str) -> Result<Option<Fault>, CallError> {
        let mut state = self.state();
        *state.calls.entry(call).or_default() += 1;
        if state.is_cut {
            return Err(CallError::Lost("Unable to contact slurm controller".into()));
        }
        if let Some(said) = state.refusals.get(call).filter(|said| !said.is_empty()) {
            return Err(CallError::Refused(said.clone()));
        }
        let faults = state.faults.entry(call).or_default();
        let fault = if faults.is_empty() { None } else { Some(faults.remove(0)) };
        if fault == Some(Fault::Before) {
            return Err(CallError::Lost("Socket timed out".into()));
        }
        Ok(fault)
    }

    fn answer<T>(fault: Option<Fault>, value: T) -> Result<T, CallError> {
        match fault {
            Some(_) => Err(CallError::Lost("Zero Bytes were transmitted or received".into())),
            None => Ok(value),
        }
    }

    fn enqueue(&self, script: &str) -> u32 {
        let option = |name: &str| {
            let wanted = format!("#SBATCH --{name}=");
            let line = script.lines().find_map(|line| line.strip_prefix(&wanted));
            line.unwrap_or_default().trim_matches('"').to_owned()
        };
        let mut state = self.state();
        state.next += 1;
        let id = state.next;
        let job = Job {
            id,
            name: option("job-name"),
            comment: option("comment"),
            user: rustix::process::getuid().as_raw(),
            partition: option("partition"),
            nodes: option("nodes").parse().unwrap(),
            state: "PENDING".into(),
            reason: "Priority".into(),
            ..Job::default()
        };
        state.jobs.insert(id, Entry { job, script: script.to_owned(), child: None });
        id
    }

    /// Starts what there is room for, in order; jobs of one name wait for each other.
    fn schedule(&self) {
        self.refresh();
        let mut state = self.state();
        let ids: Vec<u32> = state.jobs.keys().copied().collect();
        for id in ids {
            let running = state.jobs.values().filter(|entry| entry.job.state == "RUNNING");
            let used: u32 = running.clone().map(|entry| entry.job.nodes).sum();
            let names: Vec<String> = running.map(|entry| entry.job.name.clone()).collect();
            let Some(entry) = state.jobs.get_mut(&id) else { continue };
            if entry.job.state != "PENDING" {
                continue;
            }
            if names.contains(&entry.job.name) {
                entry.job.reason = "Dependency".into();
            } else if used + entry.job.nodes > self.nodes {
                entry.job.reason = "Resources".into();
            } else {
                entry.child = Some(self.start(&entry.script, entry.job.nodes));
                entry.job.state = "RUNNING".into();
                entry.job.reason = "None".into();
            }
        }
    }

    fn start(&self, script: &str, nodes: u32) -> Child {
        let path = std::env::join_paths(
            std::iter::once(self.commands.clone()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).env("PATH", path.unwrap()).env("SLURM_NNODES", nodes.to_string());
        command.env("SLURM_JOB_NODELIST", "node[1-9]").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0).spawn().unwrap()
    }

    fn refresh(&self) {
        for entry in self.state().jobs.values_mut() {
            let ended = entry.child.as_mut().and_then(|child| child.try_wait().unwrap());
            if let Some(status) = ended.filter(|_| is_open(&entry.job.state)) {
                entry.job.state = if status.success() { "COMPLETED" } else { "FAILED" }.into();
            }
        }
    }

    /// Kills everything below a job's script.
    fn end(&self, id: u32, end: &str) {
        let mut state = self.state();
        let Some(entry) = state.jobs.get_mut(&id).filter(|entry| is_open(&entry.job.state)) else { return };
        entry.job.state = end.into();
        if let Some(child) = &mut entry.child {
            for process in below(child.id()) {
                let pid = rustix::process::Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            child.wait().unwrap();
        }
    }
}

impl Drop for FakeSlurm {
    fn drop(&mut self) {
        let ids: Vec<u32> = self.state().jobs.keys().copied().collect();
        for id in ids {
            // Whatever a test made of its state: what it started ends.
            if let Some(entry) = self.state().jobs.get_mut(&id) {
                entry.job.state = "RUNNING".into();
            }
            self.end(id, "CANCELLED");
        }
    }
}

fn is_open(state: &str) -> bool {
    matches!(state, "PENDING" | "RUNNING" | "COMPLETING")
}

/// A process and all that descend from it.
fn below(root: u32) -> Vec<u32> {
    let mut parents: Vec<(u32, u32)> = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent| (pid, parent)));
    }
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(parents.iter().filter(|(_, one)| *one == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found
}

#[async_trait]
impl Calls for FakeSlurm {
    async fn submit(&self, script: &str) -> Result<u32, CallError> {
        let fault = self.begin("submit")?;
        let id = self.enqueue(script);
        self.schedule();
        Self::answer(fault, id)
    }

    async fn jobs(&self) -> Result<Vec<Job>, CallError> {
        let fault = self.begin("jobs")?;
        let delay = self.state().delay;
        tokio::time::sleep(delay).await;
        self.schedule();
        let jobs = self.state().jobs.values().map(|entry| entry.job.clone()).collect();
        Self::answer(fault, jobs)
    }

    async fn accounted(&self, _: &[u32]) -> Result<Option<Vec<(u32, String)>>, CallError> {
        let fault = self.begin("accounted")?;
        Self::answer(fault, None)
    }

    async fn nodes(&self) -> Result<Vec<Node>, CallError> {
        let fault = self.begin("nodes")?;
        let node = |number: u32| Node {
            name: format!("node{number}"),
            state: "idle".into(),
            partitions: vec!["spot".into(), "ondemand".into()],
            cpus: 1,
            memory: 2_048,
            ..Node::default()
        };
        Self::answer(fault, (0..self.nodes).map(node).collect())
    }

    async fn partition(&self, _: &str) -> Result<Partition, CallError> {
        let fault = self.begin("partition")?;
        Self::answer(fault, Partition { grace: Some(Millis::from_secs(10)) })
    }

    async fn cancel(&self, id: u32, name: &str) -> Result<(), CallError> {
        let fault = self.begin("cancel")?;
        if self.state().jobs.get(&id).is_some_and(|entry| entry.job.name == name) {
            self.end(id, "CANCELLED");
        }
        Self::answer(fault, ())
    }

    async fn terminate(&self, id: u32, name: &str) -> Result<(), CallError> {
        let fault = self.begin("terminate")?;
        let child = {
            let state = self.state();
            let entry = state.jobs.get(&id).filter(|entry| entry.job.name == name);
            entry.and_then(|entry| Some(entry.child.as_ref()?.id()))
        };
        // The steps hear it; a script that waits for them does not mind.
        for process in child.into_iter().flat_map(below) {
            let pid = rustix::process::Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
            let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            if name.trim() == "idle_agent" {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
        Self::answer(fault, ())
    }
}
