//! When a job starts again: SkyPilot's `job_recovery` and Leeway's `retry`, into one policy of three allowances.

use leeway_model::Name;
use leeway_model::job::RetryPolicy;

use crate::error::{Code, Report};
use crate::fields::{Field, Fields, Level};
use crate::yaml::Value;

/// Most restarts of one kind that a file may ask for by number.
const MAX_RESTARTS: u32 = 1_000_000;
/// Most exit codes there are to list.
const MAX_EXIT_CODES: usize = 255;

pub(crate) const LEVEL: Level = Level {
    name: "retry",
    known: &["user_failures", "infrastructure_failures", "interruptions", "on_events", "duration", "exit_codes"],
    refused: &[],
};

pub(crate) const RECOVERY: Level = Level {
    name: "job_recovery",
    known: &["strategy", "max_restarts_on_errors", "recover_on_exit_codes"],
    refused: &[],
};

/// What `job_recovery` asks for.
#[derive(Debug, Default)]
pub(crate) struct SkyPilotRecovery {
    path: String,
    pub policy: Option<Name>,
    user_failures: Option<u32>,
    exit_codes: Option<Vec<i32>>,
}

pub(crate) fn skypilot(field: Field<'_>, report: &mut Report) -> Option<SkyPilotRecovery> {
    let path = field.path.clone();
    if matches!(field.node.value, Value::Text(_)) {
        let policy = strategy(&field, report);
        return Some(SkyPilotRecovery { path, policy, ..SkyPilotRecovery::default() });
    }
    let mut fields = Fields::open(field, &RECOVERY, report)?;
    let policy = fields.take("strategy").and_then(|field| strategy(&field, report));
    let user_failures = fields.take("max_restarts_on_errors").and_then(|field| field.count(MAX_RESTARTS, report));
    let exit_codes = fields.take("recover_on_exit_codes").and_then(|field| exit_codes(field, report));
    Some(SkyPilotRecovery { path, policy, user_failures, exit_codes })
}

/// The policy that does what the strategy says.
fn strategy(field: &Field<'_>, report: &mut Report) -> Option<Name> {
    const STRATEGIES: &str = "write FAILOVER or EAGER_NEXT_REGION, or name a policy of Leeway in 'policy'";
    let Value::Text(text) = &field.node.value else {
        field.wrong_type("a strategy", STRATEGIES, report);
        return None;
    };
    match text.to_ascii_uppercase().as_str() {
        "FAILOVER" => {}
        "EAGER_NEXT_REGION" => report.note(format!(
            "{}: the policy 'failover' is used; it retries in place first and then elsewhere",
            field.path
        )),
        "NONE" => {
            report.note(format!(
                "{}: no strategy is asked for, so the job's policy decides; to forbid restarts after interruptions write \
                 retry.interruptions: 0",
                field.path
            ));
            return None;
        }
        _ => {
            field.fail(Code::InvalidValue, "is not a recovery strategy", STRATEGIES, report);
            return None;
        }
    }
    Some("failover".parse().expect("'failover' is a name"))
}

/// One exit code or a list of them; 0 is success and never a reason to start again.
fn exit_codes(field: Field<'_>, report: &mut Report) -> Option<Vec<i32>> {
    let code = |field: &Field<'_>, report: &mut Report| {
        field.integer(1, 255, report).and_then(|code| i32::try_from(code).ok())
    };
    if matches!(field.node.value, Value::Number(_)) {
        return code(&field, report).map(|code| vec![code]);
    }
    let (path, at) = (field.path.clone(), field.key_at);
    let items = field.items("write a list of exit codes, such as [75, 137]", report)?;
    if items.len() > MAX_EXIT_CODES {
        let fix = format!("list each code once, at most {MAX_EXIT_CODES}");
        report.at(Code::TooMany, at, &path, format!("lists {} exit codes", items.len()), fix);
        return None;
    }
    let mut codes: Vec<i32> = items.iter().filter_map(|item| code(item, report)).collect();
    codes.sort_unstable();
    codes.dedup();
    Some(codes)
}

/// What `retry` says about one kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Interruption,
    Infrastructure,
    Failure,
}

const EVENTS: &[(&str, Event)] =
    &[("interruption", Event::Interruption), ("infrastructure", Event::Infrastructure), ("failure", Event::Failure)];

/// Joins both ways to ask for restarts. What both state is a conflict.
pub(crate) fn policy(
    recovery: Option<&SkyPilotRecovery>,
    retry: Option<Field<'_>>,
    report: &mut Report,
) -> Option<RetryPolicy> {
    let mut policy = RetryPolicy::default();
    if let Some(recovery) = recovery {
        policy.user_failures = recovery.user_failures.unwrap_or(policy.user_failures);
        policy.exit_codes = recovery.exit_codes.clone().unwrap_or_default();
    }
    let Some(field) = retry else { return Some(policy) };
    let mut fields = Fields::open(field, &LEVEL, report)?;
    if let Some(recovery) = recovery {
        let both = [
            (recovery.user_failures.is_some(), "max_restarts_on_errors", "user_failures"),
            (recovery.exit_codes.is_some(), "recover_on_exit_codes", "exit_codes"),
        ];
        for (stated, theirs, ours) in both {
            if stated && fields.has(ours) {
                let (theirs, ours) = (format!("{}.{theirs}", recovery.path), format!("{}.{ours}", fields.path()));
                let problem = format!("'{theirs}' and '{ours}' both say it");
                report.at(Code::Conflict, fields.at(), &ours, problem, "keep one of them");
            }
        }
    }
    let events = fields.take_stated("on_events", report).map(|field| on_events(field, report));
    let restarts = [
        ("interruptions", Event::Interruption),
        ("infrastructure_failures", Event::Infrastructure),
        ("user_failures", Event::Failure),
    ];
    let mut stated = [None, None, None];
    for ((name, event), stated) in restarts.into_iter().zip(&mut stated) {
        let Some(field) = fields.take_stated(name, report) else { continue };
        *stated = restart_count(&field, event, report);
        let excluded = events.as_ref().is_some_and(|events| !events.contains(&event));
        if excluded && *stated != Some(Some(0)) {
            let problem = format!("allows restarts that '{}.on_events' excludes", fields.path());
            field.fail(Code::Conflict, problem, "add the event to on_events or remove this line", report);
        }
    }
    let within = fields.take_stated("duration", report).and_then(|field| field.length(report));
    let codes = fields.take_stated("exit_codes", report).and_then(|field| exit_codes(field, report));
    let [interruptions, infrastructure, user] = stated;

    policy.within = within;
    policy.exit_codes = codes.unwrap_or(policy.exit_codes);
    policy.interruptions = interruptions.unwrap_or(policy.interruptions);
    policy.infrastructure_failures = infrastructure.flatten().unwrap_or(policy.infrastructure_failures);
    policy.user_failures = user.flatten().unwrap_or(policy.user_failures);
    if let Some(events) = events {
        let has = |event| events.contains(&event);
        if !has(Event::Interruption) {
            policy.interruptions = Some(0);
        }
        if !has(Event::Infrastructure) {
            policy.infrastructure_failures = 0;
        }
        if !has(Event::Failure) {
            policy.user_failures = 0;
        } else if user.is_none() && policy.user_failures == 0 {
            if within.is_none() {
                let path = format!("{}.on_events", fields.path());
                let problem = "names 'failure' and nothing says how often";
                report.at(Code::MissingField, fields.at(), &path, problem, "add user_failures or duration to retry");
            }
            // Bounded by the duration alone.
            policy.user_failures = MAX_RESTARTS;
        }
    }
    Some(policy)
}

fn on_events(field: Field<'_>, report: &mut Report) -> Vec<Event> {
    let items = field.items("write a list such as [interruption, infrastructure]", report).unwrap_or_default();
    items.iter().filter_map(|item| item.choice(EVENTS, report)).collect()
}

/// `Some(None)` is without limit, which only interruptions may be.
fn restart_count(field: &Field<'_>, event: Event, report: &mut Report) -> Option<Option<u32>> {
    if event == Event::Interruption && field.literal() == Some("unlimited") {
        return Some(None);
    }
    field.count(MAX_RESTARTS, report).map(Some)
}
