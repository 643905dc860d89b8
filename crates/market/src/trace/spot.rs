//! The `spot-trace-v1` format: one JSON object a file, described in this crate's README.
//!
//! Numbers are taken as the text that stands in the file, so that a price never passes through a float and an error can
//! name the element that is wrong.

use std::fmt::Write as _;
use std::path::Path;

use leeway_model::cluster::Region;
use leeway_model::resources::Accelerators;
use leeway_model::{Millis, Rate, Timestamp, name};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Error, FILE_MAX, Kind, NODES_MAX, Notice, PriceChange, SPAN_MAX, SpotTrace, TICKS_MAX};
use crate::{accelerator, decimal};

const SCHEMA: &str = "spot-trace-v1";

/// The object as it stands; what a reader does not need (`source`, the notes) is left out.
#[derive(Deserialize)]
struct Raw<'a> {
    schema: String,
    #[serde(default)]
    family: String,
    cloud: String,
    region: String,
    zone: String,
    accelerator: Option<String>,
    #[serde(borrow)]
    accelerators_per_instance: &'a RawValue,
    instance_type: String,
    #[serde(borrow)]
    nodes_requested: &'a RawValue,
    kind: String,
    #[serde(borrow)]
    gap_seconds: &'a RawValue,
    #[serde(default)]
    start_time_utc: Option<String>,
    #[serde(borrow)]
    on_demand_usd_per_h: &'a RawValue,
    #[serde(borrow)]
    spot_usd_per_h: &'a RawValue,
    #[serde(borrow, default)]
    price_changes: Option<&'a RawValue>,
    #[serde(borrow, default)]
    notice_seconds: Option<&'a RawValue>,
    #[serde(borrow, default)]
    missing_ticks: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ticks: Option<&'a RawValue>,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// Reads a trace from a file, unless that is too large to be one.
///
/// # Errors
/// As [`parse`]; what the file system says is the problem of the field `(file)`.
pub fn read(path: &Path) -> Result<SpotTrace, Error> {
    let file = path.display().to_string();
    let check = Check { file: &file };
    let failed = |error: std::io::Error| check.error("(file)", format!("cannot be read: {error}"));
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > FILE_MAX as u64 {
        return Err(check.error("(file)", format!("has {size} bytes; at most {FILE_MAX} are read")));
    }
    parse(&file, &std::fs::read(path).map_err(failed)?)
}

/// Reads a trace and checks all of it. `file` is only for messages.
///
/// # Errors
/// Names the file, the field and, in a list, the index.
pub fn parse(file: &str, json: &[u8]) -> Result<SpotTrace, Error> {
    let check = Check { file };
    if json.len() > FILE_MAX {
        return Err(check.error("(file)", format!("has {} bytes; at most {FILE_MAX} are read", json.len())));
    }
    let json = json.strip_prefix("\u{feff}".as_bytes()).unwrap_or(json);
    let raw: Raw<'_> = serde_json::from_slice(json).map_err(|error| check.error("(file)", error))?;
    if raw.schema != SCHEMA {
        let found = name::escape(&raw.schema);
        return Err(check.error("schema", format!("'{found}' is not known; this reader knows {SCHEMA}")));
    }
    check.trace(&raw)
}

struct Check<'a> {
    file: &'a str,
}

impl Check<'_> {
    fn error(&self, field: impl Into<String>, problem: impl ToString) -> Error {
        Error { file: self.file.to_owned(), field: field.into(), problem: problem.to_string() }
    }

    fn trace(&self, raw: &Raw<'_>) -> Result<SpotTrace, Error> {
        let nodes_requested = self.count("nodes_requested", raw.nodes_requested, 1, NODES_MAX)?;
        let data = self.data(raw.data, nodes_requested)?;
        self.ticks_agree(raw.ticks, data.len())?;
        let ticks = data.len() as u32;
        let trace = SpotTrace {
            family: self.text("family", &raw.family, 0)?,
            region: self.region(raw)?,
            zone: self.text("zone", &raw.zone, 1)?,
            instance_type: self.text("instance_type", &raw.instance_type, 1)?,
            accelerators: self.accelerators(raw)?,
            nodes_requested,
            kind: self.kind(&raw.kind)?,
            gap: self.gap(raw.gap_seconds)?,
            start: self.start(raw.start_time_utc.as_deref())?,
            on_demand: self.price("on_demand_usd_per_h", raw.on_demand_usd_per_h)?,
            spot: self.price("spot_usd_per_h", raw.spot_usd_per_h)?,
            price_changes: self.price_changes(raw.price_changes, ticks)?,
            notices: self.notices(raw.notice_seconds, &data)?,
            missing_ticks: self.missing_ticks(raw.missing_ticks, ticks)?,
            data,
        };
        Ok(trace)
    }

    fn text(&self, field: &str, text: &str, least: usize) -> Result<Box<str>, Error> {
        if (least..=128).contains(&text.len()) && !text.chars().any(char::is_control) {
            return Ok(text.into());
        }
        Err(self.error(field, format!("'{}' must have {least} to 128 printable characters", name::escape(text))))
    }

    fn region(&self, raw: &Raw<'_>) -> Result<Region, Error> {
        format!("{}/{}", raw.cloud, raw.region).parse().map_err(|error| self.error("region", error))
    }

    fn accelerators(&self, raw: &Raw<'_>) -> Result<Option<Accelerators>, Error> {
        let field = "accelerators_per_instance";
        let count = self.count(field, raw.accelerators_per_instance, 0, 1_024)?;
        match (raw.accelerator.as_deref(), count) {
            (None, 0) => Ok(None),
            (None, _) => Err(self.error("accelerator", format!("is null although {field} is {count}"))),
            (Some(_), 0) => Err(self.error(field, "is 0 although an accelerator is named")),
            (Some(model), count) => {
                let model = self.text("accelerator", model, 1)?;
                Ok(Some(Accelerators { model: accelerator::canonical(&model).into(), count }))
            }
        }
    }

    fn kind(&self, text: &str) -> Result<Kind, Error> {
        let known = [Kind::AvailabilityProbe, Kind::PreemptionRun].into_iter().find(|kind| kind.as_str() == text);
        known.ok_or_else(|| {
            let text = name::escape(text);
            self.error("kind", format!("'{text}' is neither availability-probe nor preemption-run"))
        })
    }

    fn gap(&self, value: &RawValue) -> Result<Millis, Error> {
        let longest = (SPAN_MAX.as_millis() / 1_000) as u32;
        self.count("gap_seconds", value, 1, longest).map(|secs| Millis::from_secs(secs.into()))
    }

    fn start(&self, text: Option<&str>) -> Result<Option<Timestamp>, Error> {
        text.map(str::parse).transpose().map_err(|error| self.error("start_time_utc", error))
    }

    fn price(&self, field: &str, value: &RawValue) -> Result<Rate, Error> {
        decimal::positive_rate(value.get())
            .map_err(|fault| self.error(field, format!("'{}' is not a price: {fault}", name::escape(value.get()))))
    }

    fn count(&self, field: &str, value: &RawValue, least: u32, most: u32) -> Result<u32, Error> {
        whole(value.get()).filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            let found = name::escape(value.get());
            self.error(field, format!("'{found}' must be a whole number from {least} to {most}"))
        })
    }

    fn list<'a>(&self, field: &str, value: &'a RawValue) -> Result<Vec<&'a RawValue>, Error> {
        let list: Vec<&RawValue> =
            serde_json::from_str(value.get()).map_err(|error| self.error(field, format!("must be a list: {error}")))?;
        if list.len() > TICKS_MAX {
            return Err(self.error(field, format!("has {} entries; at most {TICKS_MAX} are read", list.len())));
        }
        Ok(list)
    }

    fn data(&self, value: &RawValue, nodes_requested: u32) -> Result<Vec<u32>, Error> {
        let list = self.list("data", value)?;
        if list.is_empty() {
            return Err(self.error("data", "must have at least one tick"));
        }
        let nodes = |(index, value): (usize, &&RawValue)| {
            whole(value.get()).filter(|nodes| *nodes <= nodes_requested).ok_or_else(|| {
                let found = name::escape(value.get());
                let field = format!("data[{index}]");
                self.error(field, format!("'{found}' must be a whole number from 0 to nodes_requested"))
            })
        };
        list.iter().enumerate().map(nodes).collect()
    }

    fn ticks_agree(&self, value: Option<&RawValue>, found: usize) -> Result<(), Error> {
        match value {
            Some(stated) if whole(stated.get()).map(|ticks| ticks as usize) != Some(found) => {
                let stated = name::escape(stated.get());
                Err(self.error("ticks", format!("is {stated}, but data has {found} entries")))
            }
            _ => Ok(()),
        }
    }

    /// Entries `[tick, value]`, strictly rising in their ticks, all within the trace.
    fn pairs<'a>(
        &self,
        field: &str,
        value: Option<&'a RawValue>,
        ticks: u32,
    ) -> Result<Vec<(u32, &'a RawValue)>, Error> {
        let Some(value) = value else { return Ok(Vec::new()) };
        let mut pairs = Vec::new();
        for (index, entry) in self.list(field, value)?.into_iter().enumerate() {
            let at = format!("{field}[{index}]");
            let (tick, value): (&RawValue, &RawValue) = serde_json::from_str(entry.get())
                .map_err(|_| self.error(&at, "must be a pair of a tick and a value"))?;
            let last = pairs.last().map(|(tick, _)| *tick);
            pairs.push((self.tick(&at, tick, last, ticks)?, value));
        }
        Ok(pairs)
    }

    fn tick(&self, field: &str, value: &RawValue, last: Option<u32>, ticks: u32) -> Result<u32, Error> {
        let tick = self.count(field, value, 0, ticks - 1)?;
        match last {
            Some(last) if tick <= last => Err(self.error(field, format!("tick {tick} must come after tick {last}"))),
            _ => Ok(tick),
        }
    }

    fn price_changes(&self, value: Option<&RawValue>, ticks: u32) -> Result<Vec<PriceChange>, Error> {
        let field = "price_changes";
        let change = |(index, (tick, rate)): (usize, (u32, &RawValue))| {
            Ok(PriceChange { tick, rate: self.price(&format!("{field}[{index}]"), rate)? })
        };
        self.pairs(field, value, ticks)?.into_iter().enumerate().map(change).collect()
    }

    fn notices(&self, value: Option<&RawValue>, data: &[u32]) -> Result<Vec<Notice>, Error> {
        let field = "notice_seconds";
        let longest = (SPAN_MAX.as_millis() / 1_000) as u32;
        let mut notices = Vec::new();
        for (index, (tick, secs)) in self.pairs(field, value, data.len() as u32)?.into_iter().enumerate() {
            let at = format!("{field}[{index}]");
            // Tick 0 follows the last tick when a trace is played in a loop.
            let before = data[if tick == 0 { data.len() - 1 } else { tick as usize - 1 }];
            if data[tick as usize] >= before {
                return Err(self.error(at, format!("no loss begins at tick {tick}: data does not fall there")));
            }
            let length = Millis::from_secs(self.count(&at, secs, 0, longest)?.into());
            notices.push(Notice { tick, length });
        }
        Ok(notices)
    }

    fn missing_ticks(&self, value: Option<&RawValue>, ticks: u32) -> Result<Vec<u32>, Error> {
        let Some(value) = value else { return Ok(Vec::new()) };
        let mut missing = Vec::new();
        for (index, entry) in self.list("missing_ticks", value)?.into_iter().enumerate() {
            missing.push(self.tick(&format!("missing_ticks[{index}]"), entry, missing.last().copied(), ticks)?);
        }
        Ok(missing)
    }
}

/// A whole number that is not negative and has neither fraction nor exponent.
fn whole(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Writes a trace as `spot-trace-v1`; [`parse`] reads the same trace back.
pub fn write(trace: &SpotTrace) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let accelerators = trace.accelerators.as_ref();
    let pairs = |list: Vec<String>| if list.is_empty() { "[]".to_owned() } else { format!("[{}]", list.join(", ")) };
    let prices = trace.price_changes.iter().map(|change| format!("[{}, {}]", change.tick, change.rate)).collect();
    let secs = |length: Millis| length.as_millis() / 1_000;
    let notices = trace.notices.iter().map(|notice| format!("[{}, {}]", notice.tick, secs(notice.length))).collect();
    let fields = [
        ("schema", quoted(SCHEMA)),
        ("family", quoted(&trace.family)),
        ("cloud", quoted(trace.region.provider())),
        ("region", quoted(trace.region.name())),
        ("zone", quoted(&trace.zone)),
        ("accelerator", accelerators.map_or("null".to_owned(), |accelerators| quoted(&accelerators.model))),
        ("accelerators_per_instance", accelerators.map_or(0, |accelerators| accelerators.count).to_string()),
        ("instance_type", quoted(&trace.instance_type)),
        ("nodes_requested", trace.nodes_requested.to_string()),
        ("kind", quoted(trace.kind.as_str())),
        ("gap_seconds", secs(trace.gap).to_string()),
        ("start_time_utc", trace.start.map_or("null".to_owned(), |start| quoted(&start.to_string()))),
        ("on_demand_usd_per_h", trace.on_demand.to_string()),
        ("spot_usd_per_h", trace.spot.to_string()),
        ("price_changes", pairs(prices)),
        ("notice_seconds", pairs(notices)),
        ("missing_ticks", pairs(trace.missing_ticks.iter().map(u32::to_string).collect())),
        ("ticks", trace.data.len().to_string()),
        ("data", pairs(trace.data.iter().map(u32::to_string).collect())),
    ];
    let mut json = String::from("{\n");
    for (index, (field, value)) in fields.iter().enumerate() {
        let comma = if index + 1 < fields.len() { "," } else { "" };
        writeln!(json, "  \"{field}\": {value}{comma}").expect("writing to a string cannot fail");
    }
    json.push_str("}\n");
    json
}
