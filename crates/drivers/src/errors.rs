//! From what a provider says to what the scheduler may make of it: a table a driver, and one answer for what no table
//! knows.

use leeway_model::run::LaunchErrorClass;

use crate::contract::{DriverErrorClass, LaunchError};

/// Parts of a provider's words, in lower case, with what they mean. The first that is found counts.
pub type ErrorTable = &'static [(&'static str, LaunchErrorClass)];

/// What a provider's words mean. What no table knows is `Transient`: it costs a short pause and another try, and is logged
/// as new so that the table can learn it.
pub fn classify(driver: &str, table: ErrorTable, said: &str) -> LaunchErrorClass {
    let lower = said.to_lowercase();
    match table.iter().find(|(part, _)| lower.contains(part)) {
        Some((_, class)) => *class,
        None => {
            tracing::warn!(driver, said, "an error that this driver does not know; taken as one that passes");
            LaunchErrorClass::Transient
        }
    }
}

/// A refused launch in the provider's own words.
pub fn refused(driver: &str, table: ErrorTable, said: &str) -> LaunchError {
    LaunchError::new(classify(driver, table, said), format!("{driver}: {}", said.trim()))
}

/// What the class of a launch means for any other call.
pub const fn other_call(class: LaunchErrorClass) -> DriverErrorClass {
    match class {
        LaunchErrorClass::Throttled => DriverErrorClass::Throttled,
        LaunchErrorClass::Denied => DriverErrorClass::Denied,
        LaunchErrorClass::Invalid | LaunchErrorClass::Permanent => DriverErrorClass::Invalid,
        LaunchErrorClass::Capacity | LaunchErrorClass::Quota | LaunchErrorClass::Transient => {
            DriverErrorClass::Unreachable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: ErrorTable = &[("no room", LaunchErrorClass::Capacity), ("room", LaunchErrorClass::Invalid)];

    #[test]
    fn the_first_entry_counts_and_the_unknown_passes() {
        assert_eq!(classify("x", TABLE, "No Room today"), LaunchErrorClass::Capacity);
        assert_eq!(classify("x", TABLE, "which room?"), LaunchErrorClass::Invalid);
        assert_eq!(classify("x", TABLE, "E-4711"), LaunchErrorClass::Transient);
    }
}
