//! What agents say.

use leeway_model::checkpoint::{CheckpointId, Digest};
use leeway_model::job::Progress;
use leeway_model::{Bytes, Millis, RunId};
use prost::bytes::Bytes as RawBytes;

use super::one_of;
use crate::check;
use crate::invalid::Within;
use crate::limits::{CHUNK_MAX, DETAIL_MAX, LENGTH_MAX_MS, NODES_MAX, WORD_MAX};
use crate::{Invalid, pb};

/// Who speaks, as it claims: the token is still to be compared.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    pub run: RunId,
    pub rank: u32,
    pub token: RawBytes,
    pub sequence: u64,
}

impl std::fmt::Debug for Caller {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}#{}", self.run, self.rank, self.sequence)
    }
}

impl TryFrom<pb::AgentCaller> for Caller {
    type Error = Invalid;

    fn try_from(wire: pb::AgentCaller) -> Result<Self, Invalid> {
        let run = check::run_id("run_id", &wire.run_id)?;
        check::between("run_id", run.epoch, 1..=u64::MAX)?;
        if !(16..=64).contains(&wire.token.len()) {
            return Err(Invalid::new(
                "token",
                format!("has {} bytes; use the 16 to 64 given at launch", wire.token.len()),
            ));
        }
        let rank = check::between("rank", wire.rank, 0..=NODES_MAX - 1)?;
        Ok(Self { run, rank, token: wire.token, sequence: wire.sequence })
    }
}

/// The caller of any agent request.
pub fn caller(wire: Option<pb::AgentCaller>) -> Result<Caller, Invalid> {
    Caller::try_from(check::required("caller", wire)?).within("caller")
}

/// Which process speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub agent_id: Box<str>,
    pub boot_id: Box<str>,
    pub pid: u32,
    pub version: Box<str>,
}

impl pb::RegisterRequest {
    pub fn into_model(self) -> Result<(Caller, Identity), Invalid> {
        let wire = check::required("identity", self.identity)?;
        let word = |field, text| check::word(field, text, WORD_MAX).within("identity");
        let identity = Identity {
            agent_id: word("agent_id", wire.agent_id)?,
            boot_id: word("boot_id", wire.boot_id)?,
            pid: wire.pid,
            version: check::plain_text("version", wire.version, 0..=WORD_MAX).within("identity")?,
        };
        Ok((caller(self.caller)?, identity))
    }
}

/// What an agent is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Setup,
    Restoring,
    Running,
    Stopping,
    Finishing,
}

impl From<Phase> for pb::AgentPhase {
    fn from(value: Phase) -> Self {
        match value {
            Phase::Setup => Self::Setup,
            Phase::Restoring => Self::Restoring,
            Phase::Running => Self::Running,
            Phase::Stopping => Self::Stopping,
            Phase::Finishing => Self::Finishing,
        }
    }
}

impl super::enums::WireEnum for pb::AgentPhase {
    type Model = Phase;

    fn choices() -> String {
        let known = [Phase::Setup, Phase::Restoring, Phase::Running, Phase::Stopping, Phase::Finishing];
        known.map(|phase| Self::from(phase).as_str_name()).join(", ")
    }

    fn model(self) -> Option<Phase> {
        match self {
            Self::Unspecified => None,
            Self::Setup => Some(Phase::Setup),
            Self::Restoring => Some(Phase::Restoring),
            Self::Running => Some(Phase::Running),
            Self::Stopping => Some(Phase::Stopping),
            Self::Finishing => Some(Phase::Finishing),
        }
    }
}

/// A renewal of the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    pub caller: Caller,
    pub phase: Phase,
    /// `None` while the program has said nothing.
    pub progress: Option<Progress>,
    pub notice_unavailable: bool,
    /// A checkpoint found no room since the last renewal.
    pub store_full: bool,
}

impl TryFrom<pb::RenewLeaseRequest> for Renewal {
    type Error = Invalid;

    fn try_from(wire: pb::RenewLeaseRequest) -> Result<Self, Invalid> {
        Ok(Self {
            caller: caller(wire.caller)?,
            phase: one_of::<pb::AgentPhase>("phase", wire.phase)?,
            progress: wire.progress.map(Into::into),
            notice_unavailable: wire.notice_unavailable,
            store_full: wire.store_full,
        })
    }
}

/// One rank's published part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub caller: Caller,
    /// From 1.
    pub seq: u64,
    pub step: u64,
    pub manifest: Digest,
    pub size: Bytes,
    pub save_time: Option<Millis>,
    pub after_notice: bool,
}

impl TryFrom<pb::CommitCheckpointRequest> for Commit {
    type Error = Invalid;

    fn try_from(wire: pb::CommitCheckpointRequest) -> Result<Self, Invalid> {
        let save_time = |millis| check::between("save_time_ms", millis, 0..=LENGTH_MAX_MS).map(Millis::new);
        Ok(Self {
            caller: caller(wire.caller)?,
            seq: check::between("seq", wire.seq, 1..=u64::MAX)?,
            step: wire.step,
            manifest: check::digest("manifest_sha256", &wire.manifest_sha256)?,
            size: Bytes::new(wire.size_bytes),
            save_time: wire.save_time_ms.map(save_time).transpose()?,
            after_notice: wire.after_notice,
        })
    }
}

/// A phase that began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseReport {
    pub caller: Caller,
    pub phase: Phase,
    /// With [`Phase::Running`]: what was restored, and its step.
    pub restored: Option<(CheckpointId, u64)>,
}

impl TryFrom<pb::ReportPhaseRequest> for PhaseReport {
    type Error = Invalid;

    fn try_from(wire: pb::ReportPhaseRequest) -> Result<Self, Invalid> {
        let phase = one_of::<pb::AgentPhase>("phase", wire.phase)?;
        let restored = match (wire.restored, wire.restored_step) {
            (None, None) => None,
            (Some(_), None) => return Err(Invalid::missing("restored_step")),
            (None, Some(_)) => return Err(Invalid::missing("restored")),
            (Some(id), Some(step)) => Some((CheckpointId::try_from(id).within("restored")?, step)),
        };
        if restored.is_some() && phase != Phase::Running {
            return Err(Invalid::new("restored", "belongs only to AGENT_PHASE_RUNNING; leave it out"));
        }
        Ok(Self { caller: caller(wire.caller)?, phase, restored })
    }
}

/// A checkpoint whose bytes did not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub caller: Caller,
    pub checkpoint: CheckpointId,
    pub detail: Box<str>,
}

impl TryFrom<pb::ReportDamagedRequest> for Damage {
    type Error = Invalid;

    fn try_from(wire: pb::ReportDamagedRequest) -> Result<Self, Invalid> {
        Ok(Self {
            caller: caller(wire.caller)?,
            checkpoint: CheckpointId::try_from(check::required("checkpoint", wire.checkpoint)?).within("checkpoint")?,
            detail: check::lines("detail", wire.detail, DETAIL_MAX)?,
        })
    }
}

/// A provider's warning that a machine heard itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeReport {
    pub caller: Caller,
    pub left: Millis,
    pub source: Box<str>,
}

impl TryFrom<pb::ReportNoticeRequest> for NoticeReport {
    type Error = Invalid;

    fn try_from(wire: pb::ReportNoticeRequest) -> Result<Self, Invalid> {
        Ok(Self {
            caller: caller(wire.caller)?,
            left: check::between("time_left_ms", wire.time_left_ms, 0..=LENGTH_MAX_MS).map(Millis::new)?,
            source: check::word("source", wire.source, WORD_MAX)?,
        })
    }
}

/// How a rank's program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitReport {
    pub caller: Caller,
    pub exit: Exit,
    pub during_notice: bool,
    pub phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0 to 255.
    Code(i32),
    /// 1 to 64.
    Signal(i32),
    /// The agent could not prepare or start it.
    Agent(Box<str>),
}

impl Exit {
    /// As a shell shows it: 128 and the signal for one that a signal ended, 125 for one that was never started.
    pub fn code(&self) -> i32 {
        match self {
            Self::Code(code) => *code,
            Self::Signal(signal) => 128_i32.saturating_add(*signal),
            Self::Agent(_) => 125,
        }
    }
}

impl TryFrom<pb::ReportExitRequest> for ExitReport {
    type Error = Invalid;

    fn try_from(wire: pb::ReportExitRequest) -> Result<Self, Invalid> {
        use pb::report_exit_request::Exit as Wire;
        let exit = match check::required("exit", wire.exit)? {
            Wire::ExitCode(code) => Exit::Code(check::between("exit_code", code, 0..=255)?),
            Wire::Signal(signal) => Exit::Signal(check::between("signal", signal, 1..=64)?),
            Wire::AgentError(detail) => Exit::Agent(check::lines("agent_error", detail, DETAIL_MAX)?),
        };
        Ok(Self {
            caller: caller(wire.caller)?,
            exit,
            during_notice: wire.during_notice,
            phase: one_of::<pb::AgentPhase>("phase", wire.phase)?,
        })
    }
}

/// Checks one message of a stream of bytes.
pub fn chunk(data: &[u8]) -> Result<(), Invalid> {
    if data.len() <= CHUNK_MAX {
        return Ok(());
    }
    Err(Invalid::new("data", format!("has {} bytes; send at most {CHUNK_MAX} at once", data.len())))
}
