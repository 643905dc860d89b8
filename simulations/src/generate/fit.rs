//! Parameters from recordings: which few numbers would have made a market or a workload like this one, and how well.
//!
//! `spells` and `price` fit a `market`, `workload` fits jobs; `distance` says how far the fit is from what was seen and
//! `minimise` finds the likeliest parameters. Files are told apart by what stands in them.

mod distance;
mod market;
mod minimise;
mod price;
mod spells;
mod workload;

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use leeway_market::trace::{self as spot, SpotTrace};
use leeway_model::Millis;
use serde::Serialize;

use super::params::{Params, SCHEMA};
use super::spread::Spread;
use crate::trace::{self, Format, Jobs, Options, helios};

/// What a recording shows.
#[derive(Clone, Debug)]
pub struct Fitted {
    pub params: Params,
    pub rows: Vec<Row>,
    /// Bad lines that were passed by.
    pub skipped: u64,
    pub quoted: Vec<trace::BadLine>,
}

/// One thing that was fitted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub what: String,
    /// The distribution and its parameters.
    pub found: String,
    /// Observations behind it.
    pub seen: u64,
    /// Of spells: those whose end was not seen.
    pub censored: u64,
    /// Distance of Kolmogorov and Smirnov, where there is a distribution to compare.
    pub distance: Option<f64>,
}

impl Row {
    fn new(what: &str, found: String, seen: u64) -> Self {
        Self { what: what.to_owned(), found, seen, censored: 0, distance: None }
    }
}

/// Why nothing can be fitted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Trace(#[from] trace::Error),
    #[error(transparent)]
    Spot(#[from] spot::Error),
    #[error("there is nothing to fit: name a recorded spot market or a job trace")]
    Nothing,
    #[error("{0}, but {1}; fit zones that are measured alike, or one at a time")]
    Unlike(String, String),
    #[error("{0} never has capacity, so there is no spell to fit; leave it out")]
    NeverUp(String),
    #[error("there are no jobs in these traces, so there are no sizes and no runtimes; add a trace of jobs")]
    NoJobs,
    #[error("these traces do not say when jobs arrive; add one that does, such as one in the format helios-rates")]
    NoArrivals,
    #[error("{field} {problem}: the traces are too short or too odd to be fitted")]
    Impossible { field: String, problem: String },
    #[error("'{0}' has prices but no capacity and no on-demand price; a market needs all three")]
    PricesOnly(Arc<str>),
}

/// Fits a market to all spot traces among the files and a workload to all job traces. `on_file` is told each file before
/// it is read.
///
/// # Errors
/// A file that cannot be read, or too little in all of them together.
pub fn fit(paths: &[impl AsRef<Path>], lenient: bool, on_file: &dyn Fn(&Path)) -> Result<Fitted, Error> {
    let mut markets: Vec<SpotTrace> = Vec::new();
    let mut seen = workload::Seen::default();
    let mut has_jobs = false;
    let (mut skipped, mut quoted) = (0, Vec::new());
    for path in paths {
        let path = path.as_ref();
        on_file(path);
        match kind(path)? {
            Kind::Market(trace) => markets.push(*trace),
            Kind::Rates(rates) => {
                has_jobs = true;
                seen.add_rates(&rates);
            }
            Kind::Jobs(format) => {
                has_jobs = true;
                let mut jobs = Jobs::open(&[path], Options { format: Some(format), lenient })?;
                let mut last = Millis::ZERO;
                seen.begin();
                for job in jobs.by_ref() {
                    let job = job?;
                    last = job.submitted;
                    seen.add(&job, format.has_arrivals());
                }
                seen.end(last, format.has_arrivals());
                skipped += jobs.counts().skipped;
                quoted.extend(jobs.counts().quoted.iter().cloned());
            }
        }
    }
    quoted.truncate(trace::jobs::QUOTED_MAX);
    let mut params = Params { schema: SCHEMA.to_owned(), ..Params::default() };
    let mut rows = Vec::new();
    if !markets.is_empty() {
        let (market, found) = market::fit(&markets)?;
        params.market = Some(market);
        rows.extend(found);
    }
    if has_jobs {
        let (workload, found) = seen.fit()?;
        params.workload = Some(workload);
        rows.extend(found);
    }
    if rows.is_empty() { Err(Error::Nothing) } else { Ok(Fitted { params, rows, skipped, quoted }) }
}

/// Six digits: more is noise in a file that a person reads.
fn tidy(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}

fn tidy_spread(spread: Spread) -> Spread {
    match spread {
        Spread::LogNormal { mu, sigma } => Spread::LogNormal { mu: tidy(mu), sigma: tidy(sigma) },
        Spread::Weibull { shape, scale_s } => Spread::Weibull { shape: tidy(shape), scale_s: tidy(scale_s) },
        Spread::Lomax { shape, scale_s } => Spread::Lomax { shape: tidy(shape), scale_s: tidy(scale_s) },
    }
}

enum Kind {
    Market(Box<SpotTrace>),
    Rates(helios::Rates),
    Jobs(Format),
}

fn kind(path: &Path) -> Result<Kind, Error> {
    let file: Arc<str> = Arc::from(path.display().to_string());
    let io = |error| trace::Error::Io { file: file.clone(), error };
    let opened = File::open(path).map_err(io)?;
    let (head, rest) = trace::jobs::unpack(Box::new(opened)).map_err(io)?;
    let first = head.iter().find(|byte| !byte.is_ascii_whitespace() && !b"\xef\xbb\xbf".contains(byte));
    match first {
        None => return Err(trace::Error::Empty { file }.into()),
        Some(b'{') => {
            let mut bytes = Vec::new();
            let most = spot::FILE_MAX as u64 + 1;
            Cursor::new(head).chain(rest).take(most).read_to_end(&mut bytes).map_err(io)?;
            if String::from_utf8_lossy(&bytes[..bytes.len().min(4_096)]).contains("\"SpotPriceHistory\"") {
                return Err(Error::PricesOnly(file));
            }
            return Ok(Kind::Market(Box::new(spot::parse(&file, &bytes)?)));
        }
        Some(_) => {}
    }
    let unknown = |found| trace::Error::Unknown { file: file.clone(), found, known: Format::known() };
    let format = Format::recognise(&head).map_err(unknown)?;
    if format.name() != helios::ENTRY.name {
        return Ok(Kind::Jobs(format));
    }
    Ok(Kind::Rates(helios::read(Box::new(Cursor::new(head).chain(rest)), &file)?))
}

/// A distribution for people.
fn shown(spread: &Spread) -> String {
    let median = Millis::from_secs_f64(spread.median());
    match spread {
        Spread::LogNormal { mu, sigma } => format!("log-normal, mu {mu:.3}, sigma {sigma:.3}, median {median}"),
        Spread::Weibull { shape, scale_s } => {
            format!("Weibull, shape {shape:.3}, scale {scale_s:.0} s, median {median}")
        }
        Spread::Lomax { shape, scale_s } => format!("Lomax, shape {shape:.3}, scale {scale_s:.0} s, median {median}"),
    }
}
