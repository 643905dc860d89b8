//! What budgets of the configuration say of each other. Compared as they are written, so that a budget with another
//! mistake is still there for its children.

use std::collections::BTreeMap;

use leeway_core::ledger::MAX_DEPTH;
use leeway_model::name::escape;

use super::raw::Raw;
use super::schema::nearest;
use super::{Problems, SettingsError};

/// Twice the same name, a parent or a default that is not declared, a cycle, too many levels.
pub fn check(raw: &Raw, problems: &mut Problems) {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, budget) in raw.budgets.iter().enumerate() {
        let Some(name) = budget.name.as_deref() else { continue };
        match places.get(name) {
            Some(first) => {
                let message = format!("'{}' is there twice, first as budgets[{first}]; rename one", escape(name));
                problems.add(SettingsError::new(format!("budgets[{index}].name"), message));
            }
            None => {
                places.insert(name, index);
            }
        }
    }
    let parent = |index: usize| raw.budgets[index].parent.as_deref();
    for (name, &index) in &places {
        let key = format!("budgets[{index}].parent");
        let mut line = vec![*name];
        let mut next = parent(index);
        while let Some(above) = next {
            // A cycle further up is told of those in it, and only once.
            let in_cycle = above == *name;
            if in_cycle || line.contains(&above) {
                if in_cycle && line.iter().min() == Some(name) {
                    line.push(above);
                    let message =
                        format!("'{}' makes it its own ancestor ({}); leave one out", above, line.join(" < "));
                    problems.add(SettingsError::new(&key, message));
                }
                break;
            }
            line.push(above);
            next = match places.get(above) {
                Some(&found) => parent(found),
                None => {
                    if line.len() == 2 {
                        problems.add(undeclared(&key, above, places.keys().copied()));
                    }
                    None
                }
            };
            if line.len() == MAX_DEPTH + 1 {
                let message =
                    format!("'{}' is its level {}; a tree has at most {MAX_DEPTH}", escape(above), line.len());
                problems.add(SettingsError::new(&key, message));
            }
        }
    }
    if let Some(name) = raw.default_budget.as_deref()
        && !places.contains_key(name)
    {
        problems.add(undeclared("default_budget", name, places.keys().copied()));
    }
}

fn undeclared<'a>(key: &str, name: &str, known: impl Iterator<Item = &'a str>) -> SettingsError {
    let fix = match nearest(name, known) {
        Some(near) => format!("did you mean '{near}'?"),
        None => "declare it with [[budgets]], or leave it out".to_owned(),
    };
    SettingsError::new(key, format!("no budget '{}' is declared here; {fix}", escape(name)))
}
