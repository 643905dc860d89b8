//! How a job's state is kept: where it writes it, how often, and what to do when none of it is left.

use leeway_model::Millis;
use leeway_model::checkpoint::{CheckpointPolicy, Interval};

use crate::error::{Code, Report};
use crate::fields::{Field, Fields, Level};

/// Most committed checkpoints to keep.
const MAX_KEEP: i64 = 1_000;

pub(crate) const LEVEL: Level = Level {
    name: "checkpoint",
    known: &["path", "interval", "size", "save_time", "restore_time", "keep", "on_no_checkpoint"],
    refused: &[],
};

pub(crate) fn read(field: Field<'_>, report: &mut Report) -> Option<CheckpointPolicy> {
    let mut fields = Fields::open(field, &LEVEL, report)?;
    let path = fields.take_stated("path", report).and_then(|field| relative(&field, report));
    let interval = fields.take_stated("interval", report).and_then(|field| interval(&field, report));
    let size = fields.take_stated("size", report).and_then(|field| {
        let size = field.size(report)?;
        if size.is_zero() {
            field.fail(Code::OutOfRange, "is not above zero", "write its size, or remove the line", report);
        }
        Some(size)
    });
    let save_time = fields.take_stated("save_time", report).and_then(|field| pause(&field, report));
    let restore_time = fields.take_stated("restore_time", report).and_then(|field| pause(&field, report));
    let keep = fields.take_stated("keep", report).and_then(|field| field.integer(1, MAX_KEEP, report));
    let restart_without = fields
        .take_stated("on_no_checkpoint", report)
        .and_then(|field| field.choice(&[("fail", false), ("restart", true)], report));
    Some(CheckpointPolicy {
        path,
        interval: interval.unwrap_or_default(),
        size,
        save_time,
        restore_time,
        keep: keep.and_then(|keep| u32::try_from(keep).ok()).unwrap_or(3),
        restart_without: restart_without.unwrap_or(false),
    })
}

fn interval(field: &Field<'_>, report: &mut Report) -> Option<Interval> {
    if field.literal() == Some("auto") {
        return Some(Interval::Auto);
    }
    let range = "1 s to 7 days, or auto";
    field.length_within(Millis::from_secs(1), Millis::from_hours(24 * 7), range, report).map(Interval::Every)
}

fn pause(field: &Field<'_>, report: &mut Report) -> Option<Millis> {
    field.length_within(Millis::new(1), Millis::from_hours(24), "1 ms to 1 day", report)
}

/// A path below the working directory.
fn relative(field: &Field<'_>, report: &mut Report) -> Option<Box<str>> {
    let text = field.clone().text(report)?;
    let trimmed = text.strip_prefix("./").unwrap_or(&text).trim_end_matches('/');
    let inside = trimmed.split('/').all(|part| !matches!(part, "" | "." | ".."));
    let plain = trimmed.len() <= 1_024 && !trimmed.chars().any(|c| c.is_control() || c == '\\' || c == ':');
    if inside && plain && !trimmed.starts_with('~') {
        return Some(trimmed.into());
    }
    let fix = "write a path below the working directory such as checkpoints, or remove the line and write to \
               LEEWAY_CKPT_DIR";
    field.fail(Code::InvalidValue, "does not lie below the working directory", fix, report);
    None
}
