//! The output of `aws ec2 describe-spot-price-history --output json`, as recorded to a file or fetched by a feed.
//!
//! Entries are judged one by one: a bad one is set aside with its index, the rest is used.

use std::collections::BTreeMap;

use leeway_model::cluster::Region;
use leeway_model::{Rate, Timestamp, name};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Error, FILE_MAX};
use crate::decimal;

/// Entries set aside that are kept with their details.
const NOTES_MAX: usize = 100;

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(rename = "SpotPriceHistory", borrow)]
    history: Vec<&'a RawValue>,
    #[serde(rename = "NextToken", default)]
    next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    availability_zone: String,
    instance_type: String,
    #[serde(default)]
    product_description: String,
    spot_price: String,
    timestamp: String,
}

/// One machine type in one zone under one product (`Linux/UNIX`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesKey {
    pub region: Region,
    pub zone: Box<str>,
    pub instance_type: Box<str>,
    pub product: Box<str>,
}

/// From `at` on the price is `rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PricePoint {
    pub at: Timestamp,
    pub rate: Rate,
}

/// Prices of one series, oldest first, one per instant.
pub type Series = Vec<PricePoint>;

/// What a page or a file of price history holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceHistory {
    pub series: BTreeMap<SeriesKey, Series>,
    pub notes: Notes,
    /// Set when the provider has more pages than this one.
    pub next_token: Option<String>,
}

/// What was set aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    pub rejected: u64,
    /// Two prices of one series at one instant; the dearer one is kept.
    pub conflicts: u64,
    /// The first hundred rejected entries.
    pub details: Vec<Error>,
}

impl PriceHistory {
    /// The newest price of a series at an instant; `None` before its first.
    pub fn price_at(&self, key: &SeriesKey, at: Timestamp) -> Option<Rate> {
        let series = self.series.get(key)?;
        let known = series.partition_point(|point| point.at <= at);
        known.checked_sub(1).map(|newest| series[newest].rate)
    }
}

/// Reads the provider's answer. `file` is only for messages.
///
/// # Errors
/// When the whole is not such an answer; single bad entries are set aside instead.
pub fn parse(file: &str, json: &[u8]) -> Result<PriceHistory, Error> {
    let refuse = |problem: String| Error { file: file.to_owned(), field: "(file)".to_owned(), problem };
    if json.len() > FILE_MAX {
        return Err(refuse(format!("has {} bytes; at most {FILE_MAX} are read", json.len())));
    }
    let raw: Raw<'_> = serde_json::from_slice(json).map_err(|error| refuse(error.to_string()))?;
    let mut history =
        PriceHistory { next_token: raw.next_token.filter(|token| !token.is_empty()), ..Default::default() };
    for (index, entry) in raw.history.iter().enumerate() {
        match read_entry(entry) {
            Ok((key, point)) => history.series.entry(key).or_default().push(point),
            Err((field, problem)) => {
                history.notes.rejected += 1;
                if history.notes.details.len() < NOTES_MAX {
                    let field = format!("SpotPriceHistory[{index}].{field}");
                    history.notes.details.push(Error { file: file.to_owned(), field, problem });
                }
            }
        }
    }
    for series in history.series.values_mut() {
        series.sort_by_key(|point| (point.at, std::cmp::Reverse(point.rate)));
        series.dedup_by(|later, kept| {
            let same = later.at == kept.at;
            history.notes.conflicts += u64::from(same && later.rate != kept.rate);
            same
        });
    }
    Ok(history)
}

fn read_entry(value: &RawValue) -> Result<(SeriesKey, PricePoint), (&'static str, String)> {
    let entry: Entry = serde_json::from_str(value.get()).map_err(|error| ("(entry)", error.to_string()))?;
    let shown = name::escape;
    let region = region_of_zone(&entry.availability_zone).ok_or_else(|| {
        ("AvailabilityZone", format!("'{}' is not a zone such as us-east-1a", shown(&entry.availability_zone)))
    })?;
    let rate = decimal::positive_rate(&entry.spot_price)
        .map_err(|fault| ("SpotPrice", format!("'{}' is not a price: {fault}", shown(&entry.spot_price))))?;
    let at =
        entry.timestamp.parse().map_err(|error: leeway_model::time::TimeError| ("Timestamp", error.to_string()))?;
    if entry.instance_type.is_empty() || entry.instance_type.len() > 64 {
        return Err(("InstanceType", format!("'{}' is not an instance type", shown(&entry.instance_type))));
    }
    let key = SeriesKey {
        region,
        zone: entry.availability_zone.into(),
        instance_type: entry.instance_type.into(),
        product: entry.product_description.into(),
    };
    Ok((key, PricePoint { at, rate }))
}

/// `us-east-1a` and the local zone `us-east-1-bos-1a` both belong to `us-east-1`.
fn region_of_zone(zone: &str) -> Option<Region> {
    let digit = zone.find(|c: char| c.is_ascii_digit())?;
    let end = zone[digit..].find(|c: char| !c.is_ascii_digit()).map_or(zone.len(), |length| digit + length);
    let region = &zone[..end];
    (region.split('-').count() >= 3 && end < zone.len()).then(|| format!("aws/{region}").parse().ok()).flatten()
}
