//! The batch script of a run: the request in its head, then one agent a node.

use std::fmt::Write as _;
use std::path::Path;

use leeway_model::resources::MachineShape;
use leeway_model::{InstallationId, RunId};

use super::config::{Queue, SlurmConfig, SlurmMachines};

/// The name under which a run's job stands in Slurm. Jobs of one name of one user never run at once (`singleton`), so that
/// a submission that was repeated though it had succeeded takes no second set of nodes.
pub fn job_name(installation: &InstallationId, run: RunId) -> String {
    format!("leeway.{installation}.{run}")
}

/// The mark of ownership that a job carries beside its name.
pub fn mark(installation: &InstallationId, run: RunId) -> String {
    format!("leeway installation={installation} run={run}")
}

/// The run that a name stands for, when it is one of this installation.
pub fn run_of(installation: &InstallationId, name: &str) -> Option<RunId> {
    let run = name.strip_prefix("leeway.")?.strip_prefix(installation.0.as_str())?.strip_prefix('.')?;
    run.parse().ok().filter(|run: &RunId| job_name(installation, *run) == name)
}

/// Everything that the script says.
#[derive(Debug)]
pub struct Request<'a> {
    pub config: &'a SlurmConfig,
    pub machines: &'a SlurmMachines,
    pub queue: &'a Queue,
    pub shape: &'a MachineShape,
    pub installation: &'a InstallationId,
    pub run: RunId,
    pub nodes: u32,
    /// The run's directory.
    pub dir: &'a Path,
}

pub fn batch(request: &Request<'_>) -> String {
    let Request { config, machines, queue, shape, installation, run, nodes, dir } = *request;
    let mut text = String::from("#!/bin/sh\n");
    let mut option = |name: &str, value: &str| {
        // A string takes all that is written to it.
        let _ = writeln!(text, "#SBATCH --{name}={value}");
    };
    let cpus = (shape.cpus.0 / 1_000).max(1);
    option("job-name", &job_name(installation, run));
    option("comment", &format!("\"{}\"", mark(installation, run)));
    option("partition", &queue.partition);
    for (name, value) in [("qos", &queue.qos), ("account", &config.account), ("constraint", &machines.constraint)] {
        if let Some(value) = value {
            option(name, value);
        }
    }
    option("nodes", &nodes.to_string());
    option("ntasks", &nodes.to_string());
    option("ntasks-per-node", "1");
    option("cpus-per-task", &cpus.to_string());
    option("mem", &format!("{}M", (shape.memory.get() / (1 << 20)).max(1)));
    if let Some(gres) = &machines.gres {
        option("gres", gres);
    }
    if let Some(limit) = config.time_limit {
        // Minutes; a started one counts.
        option("time", &limit.as_millis().div_ceil(60_000).max(1).to_string());
    }
    // To the steps of the job, not to this script. Slurm may send it to every process of a step: the signal is one that
    // a program ignores unless it asks for it.
    option("signal", &format!("URG@{}", config.notice.as_millis().div_ceil(1_000).max(1)));
    option("dependency", "singleton");
    option("output", &quoted_pattern(&dir.join("slurm.out")));
    option("open-mode", "append");
    text.push_str("#SBATCH --no-requeue\n");
    let (dir, agent) = (quoted(dir), quoted(&config.agent));
    let _ = write!(
        text,
        "\n\
         dir={dir}\n\
         # A run that was stopped before it began never begins.\n\
         [ ! -e \"$dir/stop.json\" ] || exit 0\n\
         scontrol show hostnames \"$SLURM_JOB_NODELIST\" > \"$dir/nodes.part\" && mv \"$dir/nodes.part\" \"$dir/nodes\"\n\
         # The agents hear what is to be heard; this script waits for them.\n\
         trap : TERM\n\
         srun --ntasks={nodes} --cpus-per-task={cpus} --kill-on-bad-exit=0 \\\n\
         \x20 sh -c 'exec \"$0\" agent --run-dir \"$1/$SLURM_PROCID\"' {agent} \"$dir\" &\n\
         step=$!\n\
         while kill -0 \"$step\" 2> /dev/null; do wait \"$step\"; code=$?; done\n\
         exit \"${{code:-0}}\"\n"
    );
    text
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

/// A path as Slurm takes it for output, where `%` begins a pattern.
fn quoted_pattern(path: &Path) -> String {
    format!("\"{}\"", path.to_string_lossy().replace('%', "%%"))
}

/// Whether a path can be written into a script's head.
pub fn is_plain(path: &Path) -> bool {
    path.to_str().is_some_and(|text| path.is_absolute() && !text.contains(['"', '\n', '\r', '\\', '\0']))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use leeway_model::resources::{Accelerators, MilliCpus};
    use leeway_model::{Bytes, Millis};

    use super::*;

    #[test]
    fn a_gang_is_one_job_with_an_agent_a_node() {
        let queue = Queue { partition: "spot".into(), qos: Some("scavenger".into()) };
        let machines = SlurmMachines { gres: Some("gpu:a100:4".into()), ..SlurmMachines::default() };
        let config = SlurmConfig {
            work_dir: "/shared/it's".into(),
            agent: "/opt/leeway".into(),
            commands: None,
            conf: None,
            account: Some("ml".into()),
            time_limit: Some(Millis::from_hours(2)),
            notice: Millis::from_secs(90),
            poll: Millis::from_secs(5),
            machines: BTreeMap::new(),
        };
        let shape = MachineShape {
            name: "a100x4".parse().unwrap(),
            instance_type: "a100x4".into(),
            cpus: MilliCpus(8_000),
            memory: Bytes::new(15 << 30),
            accelerators: Some(Accelerators { model: "A100".into(), count: 4 }),
            disk: Bytes::ZERO,
        };
        let installation = InstallationId("lab".parse().unwrap());
        let run: RunId = "j-42-r3".parse().unwrap();
        let dir = Path::new("/shared/it's/hpc/j-42-r3");
        let request = Request {
            config: &config,
            machines: &machines,
            queue: &queue,
            shape: &shape,
            installation: &installation,
            run,
            nodes: 2,
            dir,
        };
        let expected = r#"#!/bin/sh
#SBATCH --job-name=leeway.lab.j-42-r3
#SBATCH --comment="leeway installation=lab run=j-42-r3"
#SBATCH --partition=spot
#SBATCH --qos=scavenger
#SBATCH --account=ml
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=15360M
#SBATCH --gres=gpu:a100:4
#SBATCH --time=120
#SBATCH --signal=URG@90
#SBATCH --dependency=singleton
#SBATCH --output="/shared/it's/hpc/j-42-r3/slurm.out"
#SBATCH --open-mode=append
#SBATCH --no-requeue

dir='/shared/it'\''s/hpc/j-42-r3'
# A run that was stopped before it began never begins.
[ ! -e "$dir/stop.json" ] || exit 0
scontrol show hostnames "$SLURM_JOB_NODELIST" > "$dir/nodes.part" && mv "$dir/nodes.part" "$dir/nodes"
# The agents hear what is to be heard; this script waits for them.
trap : TERM
srun --ntasks=2 --cpus-per-task=8 --kill-on-bad-exit=0 \
  sh -c 'exec "$0" agent --run-dir "$1/$SLURM_PROCID"' '/opt/leeway' "$dir" &
step=$!
while kill -0 "$step" 2> /dev/null; do wait "$step"; code=$?; done
exit "${code:-0}"
"#;
        assert_eq!(batch(&request), expected);
    }

    #[test]
    fn p_10_only_names_of_this_installation_are_ours() {
        let lab = InstallationId("lab".parse().unwrap());
        let run: RunId = "j-42-r3".parse().unwrap();
        assert_eq!(run_of(&lab, &job_name(&lab, run)), Some(run));
        for name in ["leeway.lab2.j-42-r3", "leeway.la.j-42-r3", "leeway.lab.j-42", "leeway.lab.j-042-r3", "train", ""]
        {
            assert_eq!(run_of(&lab, name), None, "{name}");
        }
    }
}
