//! What was found in a data directory, and what was done with it.

use leeway_store::{ExportReport, ImportReport, RebuildReport, Report};

use super::amounts::size;

/// What `store verify` found.
pub fn verified(report: &Report) -> String {
    let mut lines = vec![format!(
        "{}: installation {}, incarnation {}",
        report.dir.display(),
        report.identity.installation,
        report.identity.incarnation
    )];
    lines.push(format!(
        "journal: {} entries from {} to {} in {} segments, {}",
        report.entries,
        report.first_entry,
        report.head.index,
        report.segments.len(),
        size(report.journal_bytes)
    ));
    if report.torn_bytes > 0 {
        lines.push(format!(
            "torn tail: {}, which the next start cuts off; nothing acknowledged is in it",
            size(report.torn_bytes)
        ));
    }
    lines.push(format!("rows: {}, {}, hash {}", report.rows, size(report.live_bytes), report.rows_hash));
    if let Some(index) = &report.index {
        let agrees = if index.agrees { "agrees" } else { "DISAGREES" };
        lines.push(format!("index: {} rows as of entry {}, {agrees}", index.rows, index.applied));
    }
    lines.push(format!("long values: {} files, {}", report.blobs.files, size(report.blobs.bytes)));
    for problem in &report.problems {
        let then = if problem.repairable { "the next start repairs it" } else { "needs a copy or an export" };
        lines
            .push(format!("{} in {} at {}: {} ({then})", problem.code, problem.place, problem.offset, problem.message));
    }
    lines.push(if report.problems.is_empty() {
        "sound".to_owned()
    } else {
        format!("{} problems", report.problems.len())
    });
    lines.join("\n")
}

/// What `store export` wrote.
pub fn exported(report: &ExportReport) -> String {
    format!("{}: {} rows as of entry {}, {}", report.path.display(), report.rows, report.head.index, size(report.bytes))
}

/// What `store import` made.
pub fn imported(report: &ImportReport) -> String {
    format!(
        "{}: {} rows as of entry {}; installation {}, new incarnation {} (was {})\n\
         put secret.key of the old data directory beside it before a server starts there",
        report.dir.display(),
        report.rows,
        report.head.index,
        report.identity.installation,
        report.identity.incarnation,
        report.from.incarnation
    )
}

/// What `store rebuild` did.
pub fn rebuilt(report: &RebuildReport) -> String {
    let aside = report.set_aside.as_ref().map(|path| format!("; the old index is in {}", path.display()));
    format!("{} rows as of entry {}{}", report.rows, report.head.index, aside.unwrap_or_default())
}
