//! SenseTime's Helios, reduced to how many jobs were submitted, started and ended in each ten minutes: a rate, from which
//! `fit` takes the rhythm of arrivals. There are no jobs in it.

use std::sync::Arc;

use jiff::civil::DateTime;
use leeway_model::Millis;

use super::error::{BadLine, Error, Fault};
use super::format::{Entry, Input, Order, Sign, Zero};
use super::lines::Lines;
use super::table::{Fields, column_name};
use super::value::Value;

pub const ENTRY: Entry = Entry {
    name: "helios-rates",
    what: "jobs submitted in each ten minutes: a rate for 'fit', no jobs",
    sign: Sign::Columns(&["time", "submit_job_all", "submit_gpu_job"]),
    order: Order::Submitted,
    zero: Zero::Elsewhere,
    has_arrivals: true,
    open: |_, file| {
        let problem =
            "it has the number of jobs in each ten minutes, but no jobs; 'leeway simulate fit' can read the rhythm \
                       of their arrivals from it"
                .to_owned();
        Err(Error::Unusable { file, problem })
    },
};

/// Jobs submitted in slots of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// From the Monday before the first slot, as the source's clock had it, to that slot.
    pub since_monday: Millis,
    pub slot: Millis,
    /// Jobs with a GPU that were submitted in each slot.
    pub submitted: Vec<u32>,
}

/// Most slots of a series.
const SLOTS_MAX: usize = 5_000_000;

/// Reads a series of rates.
///
/// # Errors
/// Names the line and the column; slots must follow each other without a gap.
pub fn read(input: Input, file: &Arc<str>) -> Result<Rates, Error> {
    let io = |error| Error::Io { file: file.clone(), error };
    let mut lines = Lines::new(input);
    let (mut line, mut fields) = (Vec::new(), Fields::default());
    let mut columns: Option<(usize, usize)> = None;
    let mut times: Vec<DateTime> = Vec::new();
    let mut submitted = Vec::new();
    let mut slot = Millis::ZERO;
    while let Some(read) = lines.read(&mut line).map_err(io)? {
        let bad = |fault: Fault| -> BadLine { fault.at(file, lines.number) };
        read.and_then(|()| fields.split(&mut line)).map_err(bad)?;
        let texts: Vec<&str> = fields.iter().map(str::trim).collect();
        if texts.iter().all(|text| text.is_empty()) {
            continue;
        }
        let Some((time, count)) = columns else {
            let names: Vec<String> = texts.iter().map(|text| column_name(text)).collect();
            let place = |column| {
                let found = names.join(", ");
                let missing = || Error::Column { file: file.clone(), format: ENTRY.name, column, found };
                names.iter().position(|name| name == column).ok_or_else(missing)
            };
            columns = Some((place("time")?, place("submit_gpu_job")?));
            continue;
        };
        let value = |column, at: usize| Value { column, text: texts.get(at).copied().unwrap_or_default() };
        let at: DateTime = (value("time", time).text.parse())
            .map_err(|_| bad(value("time", time).fault("must be written as 2020-04-01 00:10:00")))?;
        if let Some(last) = times.last() {
            let gap = at.duration_since(*last).as_millis();
            let gap = u64::try_from(gap).ok().filter(|gap| *gap > 0).map(Millis::new);
            match gap {
                Some(gap) if slot.is_zero() => slot = gap,
                Some(gap) if gap == slot => {}
                _ => {
                    return Err(
                        bad(value("time", time).fault("does not follow the line above at the same distance")).into()
                    );
                }
            }
        }
        if submitted.len() == SLOTS_MAX {
            return Err(Error::Unusable { file: file.clone(), problem: format!("it has more than {SLOTS_MAX} slots") });
        }
        submitted.push(value("submit_gpu_job", count).count(0, u32::MAX).map_err(bad)?);
        // The first is needed for its weekday, the last for the distance.
        times.truncate(1);
        times.push(at);
    }
    let Some(first) = times.first().filter(|_| submitted.len() > 1) else {
        return Err(Error::Empty { file: file.clone() });
    };
    let days = u64::from(first.date().weekday().to_monday_zero_offset().unsigned_abs());
    let in_day = first.duration_since(first.date().to_datetime(jiff::civil::Time::midnight())).as_millis();
    let in_day = u64::try_from(in_day).unwrap_or_default();
    Ok(Rates { since_monday: Millis::from_hours(24 * days).saturating_add(Millis::new(in_day)), slot, submitted })
}
