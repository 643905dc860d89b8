//! Folders of recorded markets: `DIR/FAMILY/*.json` in the `spot-trace-v1` format, one file a zone.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path as FilePath, PathBuf};

use leeway_market::trace::{self, SpotTrace};
use leeway_model::Bytes;
use leeway_model::cluster::Region;
use leeway_model::egress::EgressTable;
use leeway_policies::deadline::Zone;

use super::model::Path;

/// Why a set cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("'{}': {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Trace(#[from] trace::Error),
    #[error("'{}' has no folder '{family}' with traces; it has {has}", set.display())]
    NoFamily { set: PathBuf, family: String, has: String },
    #[error("'{}' has no folder with traces in it", .0.display())]
    NoTraces(PathBuf),
    #[error("{zone}: ticks of {gap} s, but {first} has ticks of {first_gap} s; zones of one job must agree")]
    Gaps { zone: String, gap: f64, first: String, first_gap: f64 },
}

/// One zone for one size of gang.
#[derive(Clone, Debug, PartialEq)]
pub struct Market {
    /// Name of the file without its ending.
    pub name: String,
    pub region: Region,
    /// Length of a tick in seconds.
    pub tick: f64,
    /// Dollars an hour, as the trace states it for its unit.
    pub on_demand: f64,
    /// For each tick, whether the whole gang could run.
    pub available: Vec<bool>,
    /// For each tick, dollars an hour.
    pub spot_price: Vec<f64>,
}

impl Market {
    /// A trace as a job of `gang` nodes sees it.
    pub fn new(name: &str, trace: &SpotTrace, gang: u32) -> Self {
        let mut spot_price = vec![trace.spot.as_units_f64(); trace.data.len()];
        for change in &trace.price_changes {
            spot_price[change.tick as usize..].fill(change.rate.as_units_f64());
        }
        Self {
            name: name.to_owned(),
            region: trace.region.clone(),
            tick: trace.gap.as_secs_f64(),
            on_demand: trace.on_demand.as_units_f64(),
            available: trace.data.iter().map(|&nodes| nodes >= gang).collect(),
            spot_price,
        }
    }

    /// These ticks of it.
    pub fn window(&self, ticks: Range<usize>) -> Path<'_> {
        Path { available: &self.available[ticks.clone()], spot_price: &self.spot_price[ticks] }
    }

    /// Ticks of the trace.
    pub fn ticks(&self) -> usize {
        self.available.len()
    }
}

/// Reads one trace.
///
/// # Errors
/// Names the file, and within it the field.
pub fn read_market(path: &FilePath, gang: u32) -> Result<Market, Error> {
    let trace = trace::read(path)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Market::new(&name, &trace, gang))
}

/// Reads every trace of a family, in the order of their names.
///
/// # Errors
/// A family that is not there is answered with those that are.
pub fn read_family(set: &FilePath, family: &str, gang: u32) -> Result<Vec<Market>, Error> {
    let files = if is_plain(family) { traces(&set.join(family)).unwrap_or_default() } else { Vec::new() };
    if files.is_empty() {
        let has = families(set)?.join(", ");
        return Err(Error::NoFamily { set: set.to_owned(), family: family.to_owned(), has });
    }
    files.iter().map(|path| read_market(path, gang)).collect()
}

/// A name that stays within the folder of the set.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\'])
}

/// Names of the folders with traces in them.
///
/// # Errors
/// The folder cannot be read, or there is no such folder in it.
pub fn families(set: &FilePath) -> Result<Vec<String>, Error> {
    let failed = |error| Error::Io { path: set.to_owned(), error };
    let mut names = Vec::new();
    for entry in fs::read_dir(set).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if traces(&entry.path()).is_ok_and(|files| !files.is_empty()) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    if names.is_empty() { Err(Error::NoTraces(set.to_owned())) } else { Ok(names) }
}

fn traces(folder: &FilePath) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "json") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// That zones of one job have ticks of one length.
///
/// # Errors
/// Names the first that differs.
pub fn agree(markets: &[Market]) -> Result<(), Error> {
    let Some(first) = markets.first() else { return Ok(()) };
    match markets.iter().find(|market| market.tick != first.tick) {
        None => Ok(()),
        Some(other) => Err(Error::Gaps {
            zone: other.name.clone(),
            gap: other.tick,
            first: first.name.clone(),
            first_gap: first.tick,
        }),
    }
}

/// What a rule knows of the zones from the start, where a move takes a checkpoint of this size.
pub fn zones(markets: &[Market], table: &EgressTable, checkpoint: Bytes) -> Vec<Zone> {
    let egress = egress(markets, table, checkpoint);
    markets.iter().zip(egress).map(|(market, egress)| Zone { on_demand: market.on_demand, egress }).collect()
}

/// Dollars for moving a checkpoint of this size between each two of the zones. A pair that the table does not know costs
/// the most that it knows.
fn egress(markets: &[Market], table: &EgressTable, checkpoint: Bytes) -> Vec<Vec<f64>> {
    let most = table.upper_bound().map(|tariff| tariff.cost(checkpoint, Bytes::ZERO));
    let price = |from: &Market, to: &Market| {
        let known = table.cost(&from.region, &to.region, checkpoint, Bytes::ZERO).ok();
        known.or(most).unwrap_or_default().as_units_f64()
    };
    markets.iter().map(|from| markets.iter().map(|to| price(from, to)).collect()).collect()
}
