//! Which keys there are, so that an unknown one is refused with the nearest known name.

use config::{Value, ValueKind};

use super::SettingsError;

/// What may stand under a key.
#[derive(Clone, Copy, Debug)]
pub enum Node {
    /// A single value, or a list of them.
    Value,
    /// Names that the operator chooses.
    Free,
    Table(&'static [(&'static str, Node)]),
    List(&'static [(&'static str, Node)]),
}

use Node::{Free, List, Table, Value as Leaf};

/// The whole file.
pub const ROOT: &[(&str, Node)] = &[
    ("installation", Leaf),
    ("data_dir", Leaf),
    ("listen", Leaf),
    ("metrics_listen", Leaf),
    ("default_policy", Leaf),
    ("default_budget", Leaf),
    ("currency", Leaf),
    ("log", Table(&[("level", Leaf), ("format", Leaf)])),
    ("lease", Table(&[("ttl", Leaf), ("kill_grace", Leaf), ("margin", Leaf)])),
    (
        "money",
        Table(&[
            ("horizon", Leaf),
            ("stop_reserve", Leaf),
            ("extend_before", Leaf),
            ("meter_every", Leaf),
            ("disk_gb_hour", Leaf),
            ("price_max_age", Leaf),
        ]),
    ),
    (
        "launch",
        Table(&[
            ("deadline", Leaf),
            ("cooldown", Leaf),
            ("cooldown_max", Leaf),
            ("backoff", Leaf),
            ("stop_again", Leaf),
            ("drain", Leaf),
        ]),
    ),
    (
        "estimates",
        Table(&[
            ("running_time", Leaf),
            ("input_size", Leaf),
            ("save_time", Leaf),
            ("restore_time", Leaf),
            ("launch_time", Leaf),
            ("bandwidth", Leaf),
            ("egress_per_gb", Leaf),
            ("speeds", Free),
        ]),
    ),
    (
        "limits",
        Table(&[
            ("queue", Leaf),
            ("group", Leaf),
            ("placements_per_step", Leaf),
            ("log_size", Leaf),
            ("upload_size", Leaf),
            ("keep_finished", Leaf),
            ("keep_requests", Leaf),
        ]),
    ),
    ("local", Table(&[("agent", Leaf)])),
    (
        "webhooks",
        Table(&[
            ("allow_http", Leaf),
            ("allowed_networks", Leaf),
            ("allowed_ports", Leaf),
            ("any_port", Leaf),
            ("timeout", Leaf),
        ]),
    ),
    ("budgets", List(&[("name", Leaf), ("parent", Leaf), ("cap", Leaf), ("soft_limit", Leaf)])),
    (
        "clusters",
        List(&[
            ("name", Leaf),
            ("driver", Leaf),
            ("region", Leaf),
            ("zone", Leaf),
            ("checkpoints", Leaf),
            ("labels", Free),
            (
                "machines",
                List(&[
                    ("name", Leaf),
                    ("instance_type", Leaf),
                    ("cpus", Leaf),
                    ("memory", Leaf),
                    ("accelerator", Leaf),
                    ("accelerators", Leaf),
                    ("disk", Leaf),
                    ("count", Leaf),
                    ("on_demand", Leaf),
                    ("spot", Leaf),
                    ("reserved", Leaf),
                ]),
            ),
            ("market", Table(&[("trace", Leaf), ("shape", Leaf), ("notice", Leaf), ("end", Leaf)])),
        ]),
    ),
    ("catalogs", List(&[("file", Leaf), ("layout", Leaf), ("provider", Leaf), ("as_of", Leaf), ("max_age", Leaf)])),
    (
        "egress",
        Table(&[
            ("defaults", Leaf),
            ("files", List(&[("file", Leaf), ("provider", Leaf)])),
            ("pairs", List(&[("from", Leaf), ("to", Leaf), ("per_gb", Leaf)])),
        ]),
    ),
    ("clock", Table(&[("speed", Leaf)])),
];

/// Refuses the first key that is not known, at whatever depth.
pub fn check(value: &Value) -> Result<(), SettingsError> {
    check_table(value, ROOT, "")
}

fn check_table(value: &Value, known: &[(&str, Node)], path: &str) -> Result<(), SettingsError> {
    let ValueKind::Table(table) = &value.kind else {
        return Err(shape(value, path, "a table"));
    };
    let mut keys: Vec<&String> = table.keys().collect();
    keys.sort();
    for key in keys {
        let inner = &table[key];
        let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let Some((_, node)) = known.iter().find(|(name, _)| name == key) else {
            return Err(unknown(key, known, &at).from_origin(inner.origin().or_else(|| origin_within(inner))));
        };
        match (node, &inner.kind) {
            (Node::Table(known), _) => check_table(inner, known, &at)?,
            (Node::List(known), ValueKind::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    check_table(item, known, &format!("{at}[{index}]"))?;
                }
            }
            (Node::List(_), _) => return Err(shape(inner, &at, "a list of tables, written [[...]]")),
            (Node::Free, ValueKind::Table(_)) => {}
            (Node::Free, _) => return Err(shape(inner, &at, "a table")),
            (Node::Value, ValueKind::Table(_)) => return Err(shape(inner, &at, "a single value")),
            (Node::Value, _) => {}
        }
    }
    Ok(())
}

fn shape(value: &Value, path: &str, wanted: &str) -> SettingsError {
    SettingsError::new(path, format!("must be {wanted}")).from_origin(value.origin())
}

/// A table itself has no origin, but what is in it has.
fn origin_within(value: &Value) -> Option<&str> {
    match &value.kind {
        ValueKind::Table(table) => table.values().find_map(|inner| inner.origin().or_else(|| origin_within(inner))),
        ValueKind::Array(items) => items.iter().find_map(|inner| inner.origin().or_else(|| origin_within(inner))),
        _ => None,
    }
}

fn unknown(key: &str, known: &[(&str, Node)], at: &str) -> SettingsError {
    let names = known.iter().map(|(name, _)| *name);
    let message = match nearest(key, names.clone()) {
        Some(name) => format!("there is no such key; did you mean '{name}'?"),
        None => format!("there is no such key; the keys here are {}", names.collect::<Vec<_>>().join(", ")),
    };
    SettingsError::new(at, message)
}

/// The known name that is most like this one, when any is like it at all.
pub fn nearest<'a>(key: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // One slip in a short name changes much of it, so a single edit is always near enough.
    let likeness = |name: &str| {
        let slip = strsim::damerau_levenshtein(key, name) == 1;
        if slip { 1.0 } else { strsim::jaro_winkler(key, name) }
    };
    let best = names.map(|name| (likeness(name), name)).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= 0.75).then_some(best.1)
}

/// Keys of single values that are not in a list: what environment and command line can set, as `lease.ttl`.
pub fn scalar_keys() -> Vec<String> {
    fn collect(known: &[(&str, Node)], path: &str, out: &mut Vec<String>) {
        for (name, node) in known {
            let at = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
            match node {
                Node::Value => out.push(at),
                Node::Table(inner) => collect(inner, &at, out),
                Node::List(_) | Node::Free => {}
            }
        }
    }
    let mut out = Vec::new();
    collect(ROOT, "", &mut out);
    out
}
