//! Results as tables for other programs: CSV, or Parquet where the name of the file ends with `.parquet`.
//!
//! Columns say their units. Times are RFC 3339 in UTC, money is whole micro-dollars.

use std::path::Path;

use super::outcome::Ended;
use super::study::Row;

#[cfg(feature = "parquet")]
mod parquet;

/// A value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    Whole(i64),
    Real(f64),
    Flag(bool),
    /// A text that is not there.
    Nothing,
}

/// A table: names of columns, and rows of as many values, each column of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<Value>>,
}

/// The figures of runs as a file of this name.
///
/// # Errors
/// What stands in the way, for a person.
pub fn runs(path: &Path, rows: &[Row]) -> Result<Vec<u8>, String> {
    encode(path, &table(rows, run))
}

/// Jobs as a file of this name.
///
/// # Errors
/// What stands in the way, for a person.
pub fn jobs(path: &Path, jobs: &[Ended]) -> Result<Vec<u8>, String> {
    encode(path, &table(jobs, job))
}

/// Whether a file of this name can be written by this program, to be asked before the runs rather than after them.
///
/// # Errors
/// What stands in the way, for a person.
pub fn check(path: &Path) -> Result<(), String> {
    encode(path, &Table { columns: vec!["nothing"], rows: Vec::new() }).map(|_| ())
}

fn table<T>(of: &[T], row: fn(&T) -> Vec<(&'static str, Value)>) -> Table {
    let mut table = Table::default();
    for one in of {
        let fields = row(one);
        if table.columns.is_empty() {
            table.columns = fields.iter().map(|(name, _)| *name).collect();
        }
        table.rows.push(fields.into_iter().map(|(_, value)| value).collect());
    }
    table
}

fn encode(path: &Path, table: &Table) -> Result<Vec<u8>, String> {
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet")) {
        #[cfg(feature = "parquet")]
        return parquet::encode(table).map_err(|error| error.to_string());
        #[cfg(not(feature = "parquet"))]
        return Err(format!(
            "'{}': this program was built without Parquet; build it with '--features parquet', or write a .csv file",
            path.display()
        ));
    }
    csv(table).map_err(|error| error.to_string())
}

fn csv(table: &Table) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    if !table.columns.is_empty() {
        writer.write_record(&table.columns)?;
    }
    for row in &table.rows {
        writer.write_record(row.iter().map(|value| match value {
            Value::Text(text) => text.clone(),
            Value::Whole(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::Nothing => String::new(),
        }))?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

fn run(row: &Row) -> Vec<(&'static str, Value)> {
    let whole = |number: u64| Value::Whole(number as i64);
    vec![
        ("policy", Value::Text(row.policy.clone())),
        ("seed", whole(row.seed)),
        ("complete", Value::Flag(row.complete)),
        ("jobs", whole(row.jobs)),
        ("succeeded", whole(row.succeeded)),
        ("failed", whole(row.failed)),
        ("open", whole(row.open)),
        ("refused", whole(row.refused)),
        ("with_deadline", whole(row.with_deadline)),
        ("missed", whole(row.missed)),
        ("interruptions", whole(row.interruptions)),
        ("cost_micros", Value::Whole(row.cost_micros)),
        ("egress_micros", Value::Whole(row.egress_micros)),
        ("overrun_micros", Value::Whole(row.overrun_micros)),
        ("time_value_micros", Value::Whole(row.time_value_micros)),
        ("cost_per_work_hour", Value::Real(row.cost_per_work_hour)),
        ("work_hours", Value::Real(row.work_hours)),
        ("lost_hours", Value::Real(row.lost_hours)),
        ("spot_hours", Value::Real(row.spot_hours)),
        ("other_hours", Value::Real(row.other_hours)),
        ("carbon_kg", Value::Real(row.carbon_kg)),
        ("wait_mean_hours", Value::Real(row.wait_mean_hours)),
        ("wait_p50_hours", Value::Real(row.wait_p50_hours)),
        ("wait_p90_hours", Value::Real(row.wait_p90_hours)),
        ("wait_max_hours", Value::Real(row.wait_max_hours)),
        ("turnaround_mean_hours", Value::Real(row.turnaround_mean_hours)),
        ("turnaround_p90_hours", Value::Real(row.turnaround_p90_hours)),
        ("length_hours", Value::Real(row.length_hours)),
        ("over_optimum_jobs", whole(row.over_optimum_jobs)),
        // No number where no job was measured; the column before says so.
        ("over_optimum_p50", Value::Real(row.over_optimum_p50.unwrap_or(f64::NAN))),
        ("over_optimum_p90", Value::Real(row.over_optimum_p90.unwrap_or(f64::NAN))),
        ("over_optimum_worst", Value::Real(row.over_optimum_worst.unwrap_or(f64::NAN))),
    ]
}

fn job(job: &Ended) -> Vec<(&'static str, Value)> {
    let text = |text: &str| Value::Text(text.to_owned());
    let maybe =
        |time: Option<leeway_model::Timestamp>| time.map_or(Value::Nothing, |time| Value::Text(time.to_string()));
    vec![
        ("job", Value::Text(job.job.to_string())),
        ("name", text(&job.name)),
        ("team", text(&job.team)),
        ("state", text(job.state.as_str())),
        ("submitted", Value::Text(job.submitted.to_string())),
        ("first_start", maybe(job.first_start)),
        ("ended", Value::Text(job.ended.to_string())),
        ("deadline", maybe(job.deadline)),
        ("missed", Value::Flag(job.missed_deadline())),
        ("nodes", Value::Whole(job.nodes.into())),
        ("work_hours", Value::Real(job.work.as_hours_f64())),
        ("lost_hours", Value::Real(job.lost.as_hours_f64())),
        ("runs", Value::Whole(job.runs.into())),
        ("interruptions", Value::Whole(job.interruptions.into())),
        ("spot_machine_hours", Value::Real(job.spot.as_hours_f64())),
        ("other_machine_hours", Value::Real(job.other.as_hours_f64())),
        ("cost_micros", Value::Whole(job.cost.get())),
        ("egress_micros", Value::Whole(job.egress.get())),
        ("time_value_micros", Value::Whole(job.time_value.get())),
        ("carbon_kg", Value::Real(job.carbon)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        Table {
            columns: vec!["name", "cost_micros", "share", "late", "deadline"],
            rows: vec![
                vec![
                    Value::Text("a, \"b\"".into()),
                    Value::Whole(-3),
                    Value::Real(0.25),
                    Value::Flag(true),
                    Value::Nothing,
                ],
                vec![
                    Value::Text(String::new()),
                    Value::Whole(i64::MAX),
                    Value::Real(1e-9),
                    Value::Flag(false),
                    Value::Text("2026-03-02T00:00:00Z".into()),
                ],
            ],
        }
    }

    #[test]
    fn csv_quotes_what_it_must_and_has_a_heading() {
        let text = String::from_utf8(encode(Path::new("runs.csv"), &sample()).unwrap()).unwrap();
        assert_eq!(text.lines().next(), Some("name,cost_micros,share,late,deadline"));
        assert_eq!(text.lines().nth(1), Some("\"a, \"\"b\"\"\",-3,0.25,true,"));
        assert_eq!(encode(Path::new("none.csv"), &Table::default()), Ok(Vec::new()));
    }

    #[cfg(not(feature = "parquet"))]
    #[test]
    fn parquet_that_is_not_built_in_is_refused_with_what_to_do() {
        let refused = encode(Path::new("runs.parquet"), &sample()).unwrap_err();
        assert!(refused.contains("--features parquet") && refused.contains(".csv"), "{refused}");
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn a_parquet_file_reads_back_as_what_was_written() {
        let bytes = encode(Path::new("runs.PARQUET"), &sample()).unwrap();
        let rows = super::parquet::tests_read(bytes);
        assert_eq!(
            rows,
            [
                "{name: \"a, \"b\"\", cost_micros: -3, share: 0.25, late: true, deadline: null}",
                "{name: \"\", cost_micros: 9223372036854775807, share: 0.000000001, late: false, deadline: \"2026-03-02T00:00:00Z\"}",
            ]
        );
    }
}
