//! Egress prices from CSV: matrices of region pairs, and lists of monthly tiers.
//!
//! Three matrix layouts are known by their header: `from_region,to_region,price_usd_per_gb` and
//! `src_region,dst,usd_per_gb` (one provider, `internet` allowed as destination) and `src,dest,cost` (places written
//! `provider:region`, GCP by zone). Lists of tiers have
//! `provider,path,from_gb_per_month,to_gb_per_month,usd_per_gb`. Prices are USD per GB.

use std::collections::BTreeMap;
use std::io::Read;

use leeway_model::cluster::Region;
use leeway_model::egress::{EgressTable, Tariff, Tier, Unit};

use crate::decimal;

/// Most records of one file.
const RECORDS_MAX: usize = 1_000_000;

/// Prices of region pairs as read from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    pairs: BTreeMap<(Region, Region), Tariff>,
    /// First-tier price to the internet by sending region.
    pub internet: BTreeMap<Region, Tariff>,
    /// Records whose two ends lie in one region; the region's own price holds there.
    pub within_region: u64,
    /// Pairs stated twice with different prices; the dearer holds.
    pub conflicts: u64,
}

impl Matrix {
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// States every pair in a table.
    pub fn apply_to(&self, table: &mut EgressTable) {
        for ((from, to), tariff) in &self.pairs {
            table.set_pair(from.clone(), to.clone(), tariff.clone());
        }
    }

    fn add(&mut self, from: Region, to: &str, to_region: Option<Region>, tariff: Tariff) {
        match to_region {
            Some(to) if from == to => self.within_region += 1,
            Some(to) => keep_dearer(&mut self.pairs, (from, to), tariff, &mut self.conflicts),
            None if to == "internet" => keep_dearer(&mut self.internet, from, tariff, &mut self.conflicts),
            None => {}
        }
    }
}

/// Tiers of one path, whose meaning the file gives in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierList {
    pub provider: Box<str>,
    pub path: Box<str>,
    pub tariff: Tariff,
}

/// Why a file is refused.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    #[error("cannot read the file: {0}")]
    Csv(#[from] csv::Error),
    #[error("line 1: the columns '{0}' are no known layout of egress prices")]
    Layout(String),
    #[error("line {line}, column {column}: '{value}': {problem}")]
    Value { line: u64, column: &'static str, value: String, problem: String },
    #[error("the file has more than {RECORDS_MAX} records")]
    TooMany,
}

struct Columns {
    from: &'static str,
    to: &'static str,
    price: &'static str,
    /// Places carry their provider.
    qualified: bool,
}

const LAYOUTS: [Columns; 3] = [
    Columns { from: "from_region", to: "to_region", price: "price_usd_per_gb", qualified: false },
    Columns { from: "src_region", to: "dst", price: "usd_per_gb", qualified: false },
    Columns { from: "src", to: "dest", price: "cost", qualified: true },
];

const TIER_COLUMNS: [&str; 5] = ["provider", "path", "from_gb_per_month", "to_gb_per_month", "usd_per_gb"];

/// Reads a matrix of region pairs. `provider` is that of layouts whose places carry none.
///
/// # Errors
/// The first bad value ends it, with its line and column: half a price list is worse than none.
pub fn read_matrix(input: impl Read, provider: &str) -> Result<Matrix, MatrixError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(input);
    let header = reader.headers()?.clone();
    let has = |name: &str| header.iter().any(|column| column == name);
    let layout = LAYOUTS
        .iter()
        .find(|layout| has(layout.from) && has(layout.to) && has(layout.price))
        .ok_or_else(|| unknown_layout(&header))?;
    let at = |name: &str| header.iter().position(|column| column == name).unwrap_or_default();
    let (from_at, to_at, price_at) = (at(layout.from), at(layout.to), at(layout.price));
    let mut matrix = Matrix::default();
    for (index, record) in reader.into_records().enumerate() {
        let record = limited(index, record)?;
        let place = |at: usize, column: &'static str| {
            region(&record[at], provider, layout.qualified).map_err(|problem| bad(&record, column, at, problem))
        };
        let from = place(from_at, layout.from)?;
        let to = &record[to_at];
        let to_region = if to == "internet" { None } else { Some(place(to_at, layout.to)?) };
        let tariff = flat(&record, price_at, layout.price)?;
        matrix.add(from, to, to_region, tariff);
    }
    Ok(matrix)
}

/// Reads lists of tiers; the tiers of a path must follow each other without a gap.
pub fn read_tiers(input: impl Read) -> Result<Vec<TierList>, MatrixError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(input);
    let header = reader.headers()?.clone();
    let position = |name: &str| header.iter().position(|column| column == name);
    let at: Option<Vec<usize>> = TIER_COLUMNS.iter().map(|name| position(name)).collect();
    let Some(&[provider, path, from, to, price]) = at.as_deref() else { return Err(unknown_layout(&header)) };
    let mut open: Vec<OpenList> = Vec::new();
    for (index, record) in reader.into_records().enumerate() {
        let record = limited(index, record)?;
        let whole =
            |at: usize, column| record[at].parse::<u64>().map_err(|error| bad(&record, column, at, error.to_string()));
        let tier =
            Tier { from_units: whole(from, TIER_COLUMNS[2])?, nanos_per_unit: nanos(&record, price, TIER_COLUMNS[4])? };
        let end = if record[to].is_empty() { None } else { Some(whole(to, TIER_COLUMNS[3])?) };
        match open.last_mut().filter(|list| *list.provider == record[provider] && *list.path == record[path]) {
            Some(list) if list.end == Some(tier.from_units) => {
                list.tiers.push(tier);
                list.end = end;
            }
            Some(_) => return Err(bad(&record, TIER_COLUMNS[2], from, "does not follow the tier before".to_owned())),
            None => {
                let line = record.position().map_or(0, csv::Position::line);
                let (provider, path) = (record[provider].into(), record[path].into());
                open.push(OpenList { line, provider, path, tiers: vec![tier], end });
            }
        }
    }
    open.into_iter().map(OpenList::finish).collect()
}

/// Tiers of a path while its records are read.
struct OpenList {
    line: u64,
    provider: Box<str>,
    path: Box<str>,
    tiers: Vec<Tier>,
    /// Where the next tier must begin; `None` after the last.
    end: Option<u64>,
}

impl OpenList {
    fn finish(self) -> Result<TierList, MatrixError> {
        let Self { line, provider, path, tiers, .. } = self;
        match Tariff::new(Unit::Gb, tiers) {
            Ok(tariff) => Ok(TierList { provider, path, tariff }),
            Err(error) => {
                let (value, problem) = (leeway_model::name::escape(&path), error.to_string());
                Err(MatrixError::Value { line, column: TIER_COLUMNS[1], value, problem })
            }
        }
    }
}

fn limited(index: usize, record: csv::Result<csv::StringRecord>) -> Result<csv::StringRecord, MatrixError> {
    if index >= RECORDS_MAX { Err(MatrixError::TooMany) } else { Ok(record?) }
}

fn unknown_layout(header: &csv::StringRecord) -> MatrixError {
    let header: Vec<&str> = header.iter().collect();
    MatrixError::Layout(leeway_model::name::escape(&header.join(",")))
}

fn bad(record: &csv::StringRecord, column: &'static str, at: usize, problem: String) -> MatrixError {
    let line = record.position().map_or(0, csv::Position::line);
    MatrixError::Value { line, column, value: leeway_model::name::escape(&record[at]), problem }
}

fn flat(record: &csv::StringRecord, at: usize, column: &'static str) -> Result<Tariff, MatrixError> {
    Tariff::flat(Unit::Gb, nanos(record, at, column)?).map_err(|error| bad(record, column, at, error.to_string()))
}

/// A price per GB has the scale of a rate: nano-units.
fn nanos(record: &csv::StringRecord, at: usize, column: &'static str) -> Result<u64, MatrixError> {
    let price = decimal::rate(&record[at]).map_err(|fault| bad(record, column, at, fault.to_string()))?;
    Ok(price.nanos_per_hour())
}

/// A place as its region. GCP places are written by zone in measured matrices: `gcp:us-west1-a`.
fn region(text: &str, provider: &str, qualified: bool) -> Result<Region, String> {
    let (provider, place) =
        if qualified { text.split_once(':').ok_or("must be written provider:region")? } else { (provider, text) };
    let place = match place.rsplit_once('-') {
        Some((region, zone)) if provider == "gcp" && zone.len() == 1 => region,
        _ => place,
    };
    format!("{provider}/{place}").parse().map_err(|error: leeway_model::cluster::RegionError| error.to_string())
}

fn keep_dearer<K: Ord>(map: &mut BTreeMap<K, Tariff>, key: K, tariff: Tariff, conflicts: &mut u64) {
    match map.get_mut(&key) {
        Some(held) => {
            *conflicts += u64::from(*held != tariff);
            if tariff.highest() > held.highest() {
                *held = tariff;
            }
        }
        None => {
            map.insert(key, tariff);
        }
    }
}
