//! Which keys there are, so that an unknown one is refused with the nearest known name.

use config::{Value, ValueKind};
use leeway_model::name::escape;

use super::{Problems, SettingsError};

/// What may stand under a key.
#[derive(Clone, Copy, Debug)]
pub enum Node {
    /// A text, which has a reading of its own.
    Text,
    /// A whole number from 0.
    Whole,
    Number,
    /// `true` or `false`.
    Flag,
    /// A list of texts.
    Texts,
    /// A list of whole numbers from 0.
    Wholes,
    /// Texts under names that the operator chooses.
    FreeTexts,
    /// Numbers under names that the operator chooses.
    FreeNumbers,
    Table(&'static [(&'static str, Node)]),
    List(&'static [(&'static str, Node)]),
}

use Node::{Flag, FreeNumbers, FreeTexts, List, Number, Table, Text, Texts, Whole, Wholes};

/// The whole file.
pub const ROOT: &[(&str, Node)] = &[
    ("installation", Text),
    ("data_dir", Text),
    ("listen", Text),
    ("metrics_listen", Text),
    ("advertise", Text),
    ("default_policy", Text),
    ("deadline_policy", Text),
    ("queue_order", Text),
    ("default_budget", Text),
    ("currency", Text),
    ("confirm_restore", Text),
    ("log", Table(&[("level", Text), ("format", Text)])),
    ("lease", Table(&[("ttl", Text), ("kill_grace", Text), ("margin", Text)])),
    (
        "money",
        Table(&[
            ("horizon", Text),
            ("stop_reserve", Text),
            ("extend_before", Text),
            ("meter_every", Text),
            ("disk_gb_hour", Text),
            ("price_max_age", Text),
        ]),
    ),
    (
        "launch",
        Table(&[
            ("deadline", Text),
            ("cooldown", Text),
            ("cooldown_max", Text),
            ("backoff", Text),
            ("stop_again", Text),
            ("drain", Text),
            ("wait_for_cheaper_factor", Number),
        ]),
    ),
    (
        "estimates",
        Table(&[
            ("running_time", Text),
            ("input_size", Text),
            ("save_time", Text),
            ("restore_time", Text),
            ("launch_time", Text),
            ("bandwidth", Text),
            ("egress_per_gb", Text),
            ("speeds", FreeNumbers),
        ]),
    ),
    ("fair_share", Table(&[("half_life", Text), ("weights", FreeNumbers)])),
    (
        "limits",
        Table(&[
            ("queue", Whole),
            ("group", Whole),
            ("placements_per_step", Whole),
            ("open_jobs_per_owner", Whole),
            ("submissions_per_second", Whole),
            ("log_size", Text),
            ("upload_size", Text),
            ("keep_finished", Text),
            ("keep_requests", Text),
        ]),
    ),
    ("local", Table(&[("agent", Text)])),
    (
        "webhooks",
        Table(&[
            ("allow_http", Flag),
            ("allowed_networks", Texts),
            ("allowed_ports", Wholes),
            ("any_port", Flag),
            ("timeout", Text),
        ]),
    ),
    ("budgets", List(&[("name", Text), ("parent", Text), ("cap", Text), ("soft_limit", Text)])),
    (
        "clusters",
        List(&[
            ("name", Text),
            ("driver", Text),
            ("region", Text),
            ("zone", Text),
            ("checkpoints", Text),
            ("labels", FreeTexts),
            (
                "machines",
                List(&[
                    ("name", Text),
                    ("instance_type", Text),
                    ("cpus", Number),
                    ("memory", Text),
                    ("accelerator", Text),
                    ("accelerators", Whole),
                    ("disk", Text),
                    ("count", Whole),
                    ("on_demand", Text),
                    ("spot", Text),
                    ("reserved", Text),
                    (
                        "slurm",
                        Table(&[
                            ("partition", Text),
                            ("qos", Text),
                            ("spot_partition", Text),
                            ("spot_qos", Text),
                            ("gres", Text),
                            ("constraint", Text),
                        ]),
                    ),
                ]),
            ),
            ("market", Table(&[("trace", Text), ("shape", Text), ("notice", Text), ("end", Text)])),
            (
                "aws",
                Table(&[
                    ("endpoint", Text),
                    ("profile", Text),
                    ("credentials", Text),
                    ("image", Text),
                    ("subnet", Text),
                    ("security_groups", Texts),
                    ("instance_profile", Text),
                    ("agent", Text),
                    ("work_dir", Text),
                    ("metadata", Text),
                    ("max_lifetime", Text),
                    ("visibility", Text),
                    ("poll", Text),
                ]),
            ),
            (
                "slurm",
                Table(&[
                    ("work_dir", Text),
                    ("agent", Text),
                    ("commands", Text),
                    ("conf", Text),
                    ("account", Text),
                    ("time_limit", Text),
                    ("notice", Text),
                    ("poll", Text),
                ]),
            ),
        ]),
    ),
    ("stores", List(&[("url", Text), ("region", Text), ("endpoint", Text), ("credentials", Text)])),
    ("catalogs", List(&[("file", Text), ("layout", Text), ("provider", Text), ("as_of", Text), ("max_age", Text)])),
    (
        "egress",
        Table(&[
            ("defaults", Flag),
            ("files", List(&[("file", Text), ("provider", Text)])),
            ("pairs", List(&[("from", Text), ("to", Text), ("per_gb", Text)])),
        ]),
    ),
    ("clock", Table(&[("speed", Whole)])),
];

/// Takes out every key that is not known and every value that is not of its key's kind, and says so of each.
pub fn check(value: &mut Value, problems: &mut Problems) {
    check_table(value, ROOT, "", problems);
}

/// Whether the value may stay.
fn check_table(value: &mut Value, known: &[(&str, Node)], path: &str, problems: &mut Problems) -> bool {
    let origin = value.origin().map(str::to_owned);
    let ValueKind::Table(table) = &mut value.kind else {
        problems.add(shape(path, "a table").from_origin(origin.as_deref()));
        return false;
    };
    let mut keys: Vec<String> = table.keys().cloned().collect();
    keys.sort();
    for key in keys {
        let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let Some(inner) = table.get_mut(&key) else { continue };
        let fits = match known.iter().find(|(name, _)| *name == key) {
            Some((_, node)) => check_node(inner, node, &at, problems),
            None => {
                problems.add(unknown(&key, known, &at).from_origin(inner.origin().or_else(|| origin_within(inner))));
                false
            }
        };
        if !fits {
            table.remove(&key);
        }
    }
    true
}

fn check_node(value: &mut Value, node: &Node, at: &str, problems: &mut Problems) -> bool {
    let origin = value.origin().map(str::to_owned);
    let refused = match (node, &mut value.kind) {
        (Node::Table(known), _) => return check_table(value, known, at, problems),
        (Node::List(known), ValueKind::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                let path = format!("{at}[{index}]");
                // A place in the list stays taken, so that the paths of those behind it are right.
                if !check_table(item, known, &path, problems) {
                    item.kind = ValueKind::Table(config::Map::new());
                }
            }
            return true;
        }
        (Node::List(_), _) => shape(at, "a list of tables, written [[...]]"),
        (Node::FreeTexts | Node::FreeNumbers, ValueKind::Table(table)) => {
            let kind = if matches!(node, Node::FreeTexts) { &Text } else { &Number };
            table.retain(|name, inner| check_node(inner, kind, &format!("{at}.{name}"), problems));
            return true;
        }
        (Node::FreeTexts | Node::FreeNumbers, _) => shape(at, "a table"),
        (Node::Texts | Node::Wholes, ValueKind::Array(items)) => {
            let kind = if matches!(node, Node::Texts) { &Text } else { &Whole };
            let mut fits = true;
            for (index, item) in items.iter_mut().enumerate() {
                fits &= check_node(item, kind, &format!("{at}[{index}]"), problems);
            }
            return fits;
        }
        (Node::Texts | Node::Wholes, _) => shape(at, "a list, written [\"...\", \"...\"]"),
        (_, ValueKind::Table(_)) => shape(at, "a single value"),
        (_, ValueKind::Array(_)) => shape(at, "a single value, not a list"),
        (Node::Text, ValueKind::String(_)) => return true,
        (Node::Whole, kind) if whole(kind) => return true,
        (Node::Number, kind) if number(kind) => return true,
        (Node::Flag, kind) if flag(kind) => return true,
        (node, kind) => {
            let wanted = match node {
                Node::Whole => "a whole number; write one such as 1",
                Node::Number => "a number; write one such as 1.5",
                Node::Flag => "a yes or no; write true or false",
                _ => "a text; write it in quotes, with its unit where it has one",
            };
            SettingsError::new(at, format!("'{}' is not {wanted}", escape(&kind.to_string())))
        }
    };
    problems.add(refused.from_origin(origin.as_deref()));
    false
}

/// Variables of the environment and flags are texts, whatever they say.
fn whole(kind: &ValueKind) -> bool {
    match kind {
        ValueKind::I64(number) => u32::try_from(*number).is_ok(),
        ValueKind::U64(number) => u32::try_from(*number).is_ok(),
        ValueKind::String(text) => text.parse::<u32>().is_ok(),
        _ => false,
    }
}

fn number(kind: &ValueKind) -> bool {
    match kind {
        ValueKind::I64(_) | ValueKind::U64(_) | ValueKind::Float(_) => true,
        ValueKind::String(text) => text.parse::<f64>().is_ok(),
        _ => false,
    }
}

fn flag(kind: &ValueKind) -> bool {
    match kind {
        ValueKind::Boolean(_) => true,
        ValueKind::String(text) => matches!(text.as_str(), "true" | "false"),
        _ => false,
    }
}

fn shape(path: &str, wanted: &str) -> SettingsError {
    SettingsError::new(path, format!("must be {wanted}"))
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
                Text | Whole | Number | Flag | Texts | Wholes => out.push(at),
                Table(inner) => collect(inner, &at, out),
                List(_) | FreeTexts | FreeNumbers => {}
            }
        }
    }
    let mut out = Vec::new();
    collect(ROOT, "", &mut out);
    out
}
