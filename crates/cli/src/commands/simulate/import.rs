//! `leeway simulate import`: job traces of any known format as one file that the simulator reads.

use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use leeway_model::Millis;
use leeway_simulations::trace::{self, Counts, Format, Jobs, Options, Output, Summary};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::render::{Align, Grid};
use crate::terminal::{Terminal, View};

const AFTER: &str =
    "FORMAT is 'auto' or one of the formats below. Files may be packed with gzip. Several files of one format are merged by \
the time of submission. Jobs that are out of order are sorted over at most a million of them; a longer file must be sorted \
before. Without --lenient the first bad line ends the import and leaves nothing behind.

Examples:
  leeway simulate import auto philly-vc-jobs.csv.gz -o jobs.csv.gz
  leeway simulate import swf lublin.swf --lenient -o jobs.csv
  leeway simulate import sia sia-saturn.csv.gz --team sample-1 -o sample.csv
  leeway --json simulate import philly cluster_job_log -o jobs.csv.gz

Formats:
";

/// Turn a recorded job trace into the simulator's own format
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// The format of the files, or 'auto' to tell it from their first line.
    #[arg(value_name = "FORMAT", value_parser = format)]
    pub format: Chosen,
    /// The recorded traces.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The file to write, packed when its name ends in .gz.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Skip bad lines and count them.
    #[arg(long)]
    pub lenient: bool,
    /// Only the jobs of this team; give it once for each.
    #[arg(long = "team", value_name = "NAME")]
    pub teams: Vec<String>,
}

/// A format by its name, or none for 'auto'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen(Option<Format>);

fn format(text: &str) -> Result<Chosen, String> {
    if text == "auto" {
        return Ok(Chosen(None));
    }
    let unknown = || format!("there is no format '{}'; there are auto, {}", text.escape_debug(), Format::known());
    Format::named(text).map(|format| Chosen(Some(format))).ok_or_else(unknown)
}

fn after_help() -> String {
    let line = |format: Format| format!("  {:<22} {}\n", format.name(), format.what());
    AFTER.to_owned() + &Format::all().map(line).collect::<String>()
}

pub fn run(args: &Args, terminal: &Terminal) -> Result<Exit, Failure> {
    if let Some(same) = args.files.iter().find(|file| is_same(file, &args.output)) {
        let message = format!("--output {} is the trace itself; write to another file", same.display());
        return Err(Failure::new(Exit::Usage, "OUTPUT_IS_INPUT", message));
    }
    let options = Options { format: args.format.0, lenient: args.lenient };
    let mut jobs = Jobs::open(&args.files, options).map_err(|error| refused(&error))?;
    let mut output = Output::create(&args.output).map_err(|error| Failure::file(&args.output, &error))?;
    let bar = bar(&args.files, terminal);
    let mut summary = Summary::default();
    let told = copy(args, &mut jobs, &mut output, &mut summary, &bar);
    bar.finish_and_clear();
    told?;
    if summary.jobs == 0 && !args.teams.is_empty() {
        let message = format!("none of the {} jobs is of the team {}", jobs.counts().read, args.teams.join(" or "));
        return Err(Failure::new(Exit::Usage, "NO_JOBS", message));
    }
    output.finish().map_err(|error| Failure::file(&args.output, &error))?;
    let (format, counts) = (jobs.format(), jobs.counts());
    terminal.show(
        |view| table(&summary, counts, format, &args.output, view),
        || {
            json!({
                "format": format.name(),
                "output": args.output.display().to_string(),
                "summary": summary,
                "skipped": counts.skipped,
                "skipped_first": quoted(counts),
                "notes": counts.notes.iter().map(|(what, count)| json!({"what": what, "lines": count})).collect::<Vec<_>>(),
            })
        },
    )?;
    for bad in &counts.quoted {
        terminal.remark(&format!("skipped: {bad}"));
    }
    Ok(Exit::Success)
}

/// Whether two paths lead to one file that is there.
fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn copy(
    args: &Args,
    jobs: &mut Jobs,
    output: &mut Output,
    summary: &mut Summary,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    while let Some(job) = jobs.next() {
        let job = job.map_err(|error| refused(&error))?;
        if !args.teams.is_empty() && !args.teams.contains(&job.team) {
            continue;
        }
        summary.add(&job);
        output.write(&job).map_err(|error| Failure::file(&args.output, &error))?;
        if summary.jobs.is_multiple_of(4_096) {
            bar.set_position(jobs.bytes_read());
        }
    }
    Ok(())
}

/// A trace that cannot be read, or not to its end.
pub(super) fn refused(error: &trace::Error) -> Failure {
    use trace::Error;
    let (code, advice) = match error {
        Error::Io { .. } => ("FILE", None),
        Error::Empty { .. } => ("EMPTY_TRACE", None),
        Error::Unknown { .. } => ("UNKNOWN_FORMAT", None),
        Error::Unusable { .. } | Error::Column { .. } => ("INVALID_TRACE", None),
        Error::Bad(_) => ("BAD_LINE", Some("mend the line, or skip such lines with --lenient")),
        Error::Unsorted { .. } => ("UNSORTED_TRACE", None),
    };
    let failure = Failure::new(Exit::Usage, code, error.to_string());
    if let Some(advice) = advice { failure.advise(advice) } else { failure }
}

/// The first skipped lines, for programs.
pub(super) fn quoted(counts: &Counts) -> Vec<Value> {
    let value = |bad: &trace::BadLine| json!({"file": &*bad.file, "line": bad.line, "column": bad.column, "problem": bad.problem});
    counts.quoted.iter().map(value).collect()
}

fn bar(files: &[PathBuf], terminal: &Terminal) -> ProgressBar {
    if !terminal.lively {
        return ProgressBar::hidden();
    }
    let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let style = ProgressStyle::with_template("{bar:30} {bytes} of {total_bytes}, {elapsed} gone, {eta} to go");
    let bar = ProgressBar::new(files.iter().map(size).sum());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn table(summary: &Summary, counts: &Counts, format: Format, output: &Path, view: &View) -> String {
    let mut grid = Grid::new(&[("TRACE", Align::Left), ("", Align::Right)], view);
    let rows = [
        ("format", format.name().to_owned()),
        ("jobs", summary.jobs.to_string()),
        ("without GPUs", summary.jobs_without_gpus.to_string()),
        ("on several nodes", summary.gangs.to_string()),
        ("span", summary.span().to_string()),
        ("GPUs of the largest", summary.gpus_max.to_string()),
        ("longest", Millis::new(summary.longest_ms).to_string()),
        ("GPU-hours", format!("{:.0}", summary.gpu_hours)),
        ("node-hours", format!("{:.0}", summary.node_hours)),
        ("teams", summary.teams.to_string()),
        ("bad lines skipped", counts.skipped.to_string()),
    ];
    for (what, amount) in rows {
        grid.row([what.into(), amount.into()]);
    }
    let mut text = grid.finish();
    text.push('\n');
    for (what, count) in counts.notes.iter() {
        text.push_str(&format!("note: {count} {what}\n"));
    }
    text.push_str(&format!("written to {}\n", output.display()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_that_is_not_there_is_answered_with_those_that_are() {
        assert_eq!(format("auto"), Ok(Chosen(None)));
        assert_eq!(format("swf"), Ok(Chosen(Format::named("swf"))));
        assert!(format("SWF2").unwrap_err().contains("openb-pods"));
    }
}
