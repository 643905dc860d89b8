//! What is logged: a level, or levels of single parts. The library that applies it takes any unknown word for the name of
//! a part and logs nothing of everything else, so a slip in a level would silence the server.

use leeway_model::name::escape;

use super::read::Result;
use super::{SettingsError, nearest};

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// The parts of ours that log; a name that begins as theirs do must be one of them.
const PARTS: [&str; 12] = [
    "leeway_agent",
    "leeway_cli",
    "leeway_core",
    "leeway_data",
    "leeway_drivers",
    "leeway_engine",
    "leeway_jobfile",
    "leeway_market",
    "leeway_proto",
    "leeway_server",
    "leeway_store",
    "leeway_webhook",
];

/// Refuses what is neither a level nor `part=level`, of which there may be several between commas.
pub fn check(key: &str, text: &str) -> Result<()> {
    let refused = |fix: String| Err(SettingsError::new(key, format!("'{}' is no filter; {fix}", escape(text))));
    for directive in text.split(',') {
        let (part, level) = match directive.split_once('=') {
            Some((part, level)) => (Some(part), level),
            None => (None, directive),
        };
        if !LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) {
            let near = nearest(&level.to_lowercase(), LEVELS.into_iter());
            let near = near.map_or_else(String::new, |near| format!("did you mean '{near}'? "));
            let levels = LEVELS.join(", ");
            return refused(format!("{near}write one of {levels}, or parts as leeway_server=debug,warn"));
        }
        let root = part.map(|part| part.split("::").next().unwrap_or_default());
        if let Some(root) = root.filter(|root| root.starts_with("leeway") && !PARTS.contains(root)) {
            return refused(match nearest(root, PARTS.into_iter()) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("the parts are {}", PARTS.join(", ")),
            });
        }
    }
    // What else the library refuses, such as a part without a name.
    match text.parse::<tracing_subscriber::filter::Targets>() {
        Ok(_) if !text.contains(",,") && !text.starts_with('=') => Ok(()),
        _ => refused("write info, debug, or leeway_server=debug,warn".to_owned()),
    }
}
