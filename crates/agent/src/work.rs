//! The life of a run on one machine.
//!
//! ```text
//! stage -> setup -> restore -> program -> last checkpoint -> last output -> exit reported
//! ```
//! An order to end cuts every stage short; the end of the lease cuts everything short and reports nothing, except that how
//! a program ended before it is told whenever there is somebody to tell.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use leeway_drivers::process::since_boot;
use leeway_proto::pb;
use leeway_proto::pb::report_exit_request::Exit;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::agent::Agent;
use crate::environment::{self, Places, Restored};
use crate::lease::Over;
use crate::link::{CallError, Client};
use crate::logs::{self, Pusher};
use crate::orders::Orders;
use crate::progress;
use crate::restore::restore;
use crate::stage::{Other, StageError, stage};
use crate::{checkpoints, exit};

/// How often deadlines and the program's files are looked at.
const TICK: Duration = Duration::from_millis(100);
/// How long the last output may take.
const FLUSH: Duration = Duration::from_secs(10);
/// How long the last checkpoint may take when nothing hurries: after a success it will not be needed.
const LAST_SAVE: Duration = Duration::from_secs(15 * 60);
const LAST_SAVE_AFTER_SUCCESS: Duration = Duration::from_secs(60);

/// How the run ended here.
struct Ended {
    exit: Exit,
    phase: pb::AgentPhase,
    during_notice: bool,
}

/// Runs the assignment and reports how it ended. Returns the agent's own exit code.
async fn work(agent: &Agent, pusher: &Pusher, phases: JoinHandle<()>) -> Result<u8, Over> {
    let ended = match lead(agent).await {
        Ok(ended) => ended,
        Err(StageError::Over(over)) => return Err(over),
        Err(StageError::Failed(error)) => {
            kill(agent).await;
            failed(agent, &error)
        }
    };
    agent.lease.settle()?;
    agent.enter(pb::AgentPhase::Finishing, None);
    agent.enter_no_more();
    // An exit must not overtake the phases before it. While the server is away this waits for it, be it for longer than
    // the lease: the time for the output counts from when there is somebody to take it.
    let _ = phases.await;
    if !pusher.flush(agent, FLUSH).await {
        tracing::warn!("not all output was taken in time");
    }
    report(agent, ended).await?;
    Ok(exit::REPORTED)
}

fn failed(agent: &Agent, error: &anyhow::Error) -> Ended {
    let detail: String = format!("{error:#}").chars().take(1_000).collect();
    agent.log.say(&format!("the program was not started: {detail}"));
    let phase = pb::AgentPhase::try_from(agent.phase()).unwrap_or(pb::AgentPhase::Setup);
    Ended { exit: Exit::AgentError(detail), phase, during_notice: agent.board.now().is_ending() }
}

async fn lead(agent: &Agent) -> Result<Ended, StageError> {
    let places = Places::new(agent).map_err(Other)?;
    agent.enter(pb::AgentPhase::Setup, None);
    if unless_ending(agent, stage(agent, &places)).await?.is_none() {
        return Ok(cut_short(pb::AgentPhase::Setup));
    }
    if let Some(setup) = &agent.assignment.setup {
        let status = execute(agent, &places, None, setup).await?;
        if !status.success() || agent.board.now().is_ending() {
            return Ok(ended(agent, status, pb::AgentPhase::Setup));
        }
    }
    let mut restored = None;
    if agent.assignment.restore.is_some() {
        agent.enter(pb::AgentPhase::Restoring, None);
        restored = match unless_ending(agent, restore(agent)).await? {
            Some(restored) => restored,
            None => return Ok(cut_short(pb::AgentPhase::Restoring)),
        };
    }
    agent.enter(pb::AgentPhase::Running, restored.as_ref().map(|restored| (restored.id, restored.step)));
    if let Some(restored) = &restored {
        agent.note_progress(progress::Said { step: restored.step, total: None });
    }
    let (program_ended, finish) = oneshot::channel();
    let publishing = async {
        match &places.checkpoints {
            Some(dir) => checkpoints::run(agent, dir.clone(), finish).await,
            None => Ok(()),
        }
    };
    tokio::pin!(publishing);
    let mut published = None;
    let status = {
        let executing = execute(agent, &places, restored.as_ref(), &agent.assignment.run);
        tokio::pin!(executing);
        loop {
            tokio::select! {
                biased;
                status = &mut executing => break status?,
                done = &mut publishing, if published.is_none() => published = Some(done?),
            }
        }
    };
    let ended = ended(agent, status, pb::AgentPhase::Running);
    agent.lease.settle()?;
    if published.is_none() {
        let _ = program_ended.send(());
        let left = time_for_last_save(&agent.board.now(), status);
        let in_time = tokio::select! {
            biased;
            published = publishing => published.map(|()| true)?,
            () = agent.lease.lapsed() => false,
            () = tokio::time::sleep(left) => false,
        };
        if !in_time {
            // After the lease another run may publish.
            agent.lease.check()?;
            tracing::warn!("the last checkpoint does not fit before the deadline, or before the end of the lease");
            agent.log.say("the last checkpoint could not be published in time");
        }
    }
    Ok(ended)
}

/// `None` when an order to end came first.
async fn unless_ending<T>(
    agent: &Agent,
    stage: impl Future<Output = Result<T, StageError>>,
) -> Result<Option<T>, StageError> {
    tokio::select! {
        biased;
        over = agent.lease.over() => Err(over.into()),
        () = agent.board.ending() => Ok(None),
        done = stage => done.map(Some),
    }
}

/// An order came before there was a program: as if it had been terminated.
const fn cut_short(phase: pb::AgentPhase) -> Ended {
    Ended { exit: Exit::Signal(15), phase, during_notice: true }
}

fn ended(agent: &Agent, status: ExitStatus, phase: pb::AgentPhase) -> Ended {
    let exit = match (status.code(), status.signal()) {
        (Some(code), _) => Exit::ExitCode(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::AgentError(format!("the program ended strangely: {status}")),
    };
    Ended { exit, phase, during_notice: agent.board.now().is_ending() }
}

fn time_for_last_save(orders: &Orders, status: ExitStatus) -> Duration {
    match orders.deadline() {
        Some(deadline) => deadline.saturating_sub(since_boot()),
        None if status.success() => LAST_SAVE_AFTER_SUCCESS,
        None => LAST_SAVE,
    }
}

/// Starts a command, obeys orders about it until its main process has ended, and leaves none of its processes behind.
async fn execute(
    agent: &Agent,
    places: &Places,
    restored: Option<&Restored>,
    text: &str,
) -> Result<ExitStatus, StageError> {
    let (writer, output) = logs::capture(agent.log.clone()).map_err(Other)?;
    let mut command = environment::command(agent, places, restored, text);
    command.stdout(writer.try_clone().map_err(Other)?).stderr(writer);
    // Before the program starts, since it may look at its control file at once.
    let mut obedience = Obedience::new(agent, places);
    let mut child = match agent.program.start(&mut command) {
        Ok(child) => child,
        // The watchdog was quicker.
        Err(error) => return Err(agent.lease.check().map_or_else(StageError::Over, |()| Other(error).into())),
    };
    // The pipe ends when the program's own ends of it do.
    drop(command);
    let mut ticks = tokio::time::interval(TICK);
    let mut orders = agent.board.subscribe();
    let status = loop {
        tokio::select! {
            biased;
            // Whoever hears of it ends the program.
            over = agent.lease.over() => return Err(over.into()),
            status = child.wait() => break status.map_err(Other)?,
            // The board outlives this.
            _ = orders.changed() => obedience.obey().await,
            _ = ticks.tick() => obedience.obey().await,
        }
    };
    // A shell dies of the signal that its children use to save: they have until the deadline, at which `obey` kills them.
    while obedience.terminated && agent.program.lives() {
        agent.link.sleep(TICK / 2).await?;
        obedience.obey().await;
    }
    agent.lease.check()?;
    kill(agent).await;
    obedience.read_progress();
    let drained = spawn_blocking(move || output.join());
    if tokio::time::timeout(Duration::from_secs(2), drained).await.is_err() {
        tracing::warn!("something still holds the program's output open");
    }
    Ok(status)
}

async fn kill(agent: &Agent) {
    let program = agent.program.clone();
    let _ = spawn_blocking(move || program.kill()).await;
}

/// Passes orders on to the running program, each once.
struct Obedience<'a> {
    agent: &'a Agent,
    places: &'a Places,
    told: Orders,
    terminated: bool,
    killed: bool,
    progress: progress::Reader,
    ticks: u32,
}

impl<'a> Obedience<'a> {
    fn new(agent: &'a Agent, places: &'a Places) -> Self {
        let interval_ms = agent.board.now().interval_ms;
        let told = Orders { interval_ms, ..Orders::default() };
        if let Some(interval_ms) = interval_ms.or(agent.assignment.interval_ms) {
            write(&places.control, &environment::seconds(interval_ms));
        }
        Self { agent, places, told, terminated: false, killed: false, progress: progress::Reader::default(), ticks: 0 }
    }

    async fn obey(&mut self) {
        self.ticks += 1;
        if self.ticks % 4 == 1 {
            self.read_progress();
        }
        let orders = self.agent.board.now();
        if orders.notice != self.told.notice
            && let Some(notice) = orders.notice
        {
            write(&self.places.notice, &notice_text(notice.kind, notice.deadline.saturating_sub(since_boot())));
        }
        if orders.interval_ms != self.told.interval_ms
            && let Some(interval_ms) = orders.interval_ms
        {
            write(&self.places.control, &environment::seconds(interval_ms));
        }
        if orders.checkpoints != self.told.checkpoints
            && let Some(signal) = environment::checkpoint_signal(&self.agent.assignment)
        {
            let caught = self.agent.program.nudge(signal);
            tracing::info!(caught, "asked the program for a checkpoint");
        }
        let now = since_boot();
        if !self.terminated && orders.terminate_at().is_some_and(|at| now >= at) {
            self.terminated = true;
            self.agent.enter(pb::AgentPhase::Stopping, None);
            self.agent.program.terminate();
        }
        if !self.killed && orders.deadline().is_some_and(|deadline| now >= deadline) {
            self.killed = true;
            self.agent.log.say("the deadline has come; the program is killed");
            kill(self.agent).await;
        }
        self.told = orders;
    }

    fn read_progress(&mut self) {
        if let Some(said) = self.progress.read(&self.places.progress) {
            self.agent.note_progress(said);
        }
    }
}

/// `{"kind":"interruption","deadline":"…","seconds_left":97}`; the deadline is by this machine's clock.
fn notice_text(kind: pb::NoticeKind, left: Duration) -> String {
    let kind = match kind {
        pb::NoticeKind::Preemption => "preemption",
        pb::NoticeKind::Budget => "budget",
        pb::NoticeKind::Interruption | pb::NoticeKind::Unspecified => "interruption",
    };
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let millis = wall.saturating_add(left).as_millis();
    let deadline = leeway_model::Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX));
    serde_json::json!({ "kind": kind, "deadline": deadline.to_string(), "seconds_left": left.as_secs() }).to_string()
}

/// A small file that appears whole.
fn write(path: &std::path::Path, text: &str) {
    let draft = path.with_extension("part");
    let written = std::fs::write(&draft, format!("{text}\n")).and_then(|()| std::fs::rename(&draft, path));
    if let Err(error) = written {
        tracing::warn!(%error, path = %path.display(), "cannot tell the program");
    }
}

const LAST_RENEWAL: Duration = Duration::from_secs(2);

/// Reports the end until the server acknowledges it.
async fn report(agent: &Agent, ended: Ended) -> Result<(), Over> {
    // The last steps travel with a last renewal; what it costs to go without is a number in a report.
    if let Err(CallError::Over(over)) = crate::agent::renew_once(agent, LAST_RENEWAL).await {
        return Err(over);
    }
    let request = pb::ReportExitRequest {
        caller: agent.link.caller(),
        exit: Some(ended.exit),
        during_notice: ended.during_notice,
        phase: ended.phase.into(),
    };
    let call = |mut client: Client| {
        let request = request.clone();
        async move { client.report_exit(request).await }
    };
    match agent.link.insist(call, |_| ()).await {
        Ok(_) => Ok(()),
        Err(CallError::Over(over)) => Err(over),
        Err(error) => {
            tracing::error!(%error, "the server does not take the exit");
            Ok(())
        }
    }
}

/// The tasks beside the work; all of them end with the lease.
pub async fn alongside(agent: Arc<Agent>, pusher: Arc<Pusher>, phases: crate::agent::Phases) -> Result<u8, Over> {
    let mut tasks = tokio::task::JoinSet::new();
    let shared = agent.clone();
    tasks.spawn(async move { crate::agent::renew(&shared).await });
    let shared = agent.clone();
    tasks.spawn(async move { crate::agent::listen(&shared).await });
    let (shared, pushing) = (agent.clone(), pusher.clone());
    tasks.spawn(async move { pushing.run(&shared).await });
    let shared = agent.clone();
    let reporting = tokio::spawn(async move { crate::agent::report_phases(&shared, phases).await });
    work(&agent, &pusher, reporting).await
}
