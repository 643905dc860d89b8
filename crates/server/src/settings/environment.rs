//! Variables of the environment: those that set a key, those that mean something to another part of Leeway, and those
//! that are a mistake.
//!
//! An unknown `LEEWAY_` variable is refused: a setting that has no effect is found out too late.

use std::collections::BTreeMap;

use super::{Problems, SettingsError, nearest, scalar_keys};

const PREFIX: &str = "LEEWAY_";
pub(super) const ORIGIN: &str = "the environment";

/// What `leeway` itself reads besides settings.
const COMMANDS: &[&str] = &["CONFIG", "SERVER", "OWNER", "CURRENCY"];
/// What a job's program is given, which may be a server's.
const JOBS: &[&str] = &[
    "CKPT_DIR",
    "CKPT_INTERVAL",
    "CKPT_SIGNAL",
    "CONTROL_FILE",
    "EPOCH",
    "JOB_ID",
    "NODES",
    "NOTICE_FILE",
    "PROCESS_MARK",
    "PROGRESS_FILE",
    "RANK",
    "RESTORE_DIR",
    "RESTORE_STEP",
    "START_REASON",
    "WORLD_SIZE",
];
/// What tests and simulations are steered by; a developer has them in the shell in which a server starts, too.
const TESTS: &[&str] = &[
    "BINARY",
    "FIRST_SEED",
    "KILLS",
    "REPORT_DIR",
    "REPORT_SCENARIOS",
    "SEED",
    "SEEDS",
    "SHARED_DATA",
    "STORE_KILL_DIR",
    "TEST_MOTO",
    "TEST_PYTHON",
    "TRACE",
    "UPDATE",
    "WRITE_TRACES",
];

/// Keys and values that the environment sets; an unknown variable is added to `problems`.
pub(super) fn settings(variables: &BTreeMap<String, String>, problems: &mut Problems) -> Vec<(String, String)> {
    let by_variable: BTreeMap<String, String> = scalar_keys().into_iter().map(|key| (variable_of(&key), key)).collect();
    let mut found = Vec::new();
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        if let Some(key) = by_variable.get(name) {
            found.push((key.clone(), value.clone()));
        } else if !is_others(rest) {
            let known = by_variable.keys().map(|name| &name[PREFIX.len()..]).chain(COMMANDS.iter().copied());
            let fix = match nearest(rest, known) {
                Some(near) => format!("did you mean {PREFIX}{near}?"),
                None => "unset it; LEEWAY_LEASE__TTL, for example, sets lease.ttl".to_owned(),
            };
            problems.add(SettingsError::new(name, format!("there is no such key; {fix}")).from_origin(Some(ORIGIN)));
        }
    }
    found
}

/// Whether a variable of this name is known, be it as a setting or to another part of Leeway.
pub fn is_known_variable(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(is_others) || scalar_keys().iter().any(|key| variable_of(key) == name)
}

pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_uppercase())
}

fn is_others(rest: &str) -> bool {
    [COMMANDS, JOBS, TESTS].iter().any(|names| names.contains(&rest)) || is_service_link(rest)
}

/// Container platforms announce a service called `leeway` to all its neighbours, itself included, by variables such as
/// `LEEWAY_SERVICE_HOST` and `LEEWAY_PORT_7070_TCP_ADDR`.
fn is_service_link(rest: &str) -> bool {
    rest == "PORT" || ["SERVICE_HOST", "SERVICE_PORT", "PORT_"].iter().any(|link| rest.starts_with(link))
}
