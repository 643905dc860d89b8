//! What was found in a data directory, and what was done with it.

use std::path::Path;

use leeway_store::{AdoptReport, ExportReport, ImportReport, RebuildReport, Report};

use super::amounts::size;

/// What `store verify` found.
pub fn verified(report: &Report) -> String {
    let mut lines = vec![format!(
        "read all of {}: installation {}, incarnation {}",
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
    let count = match report.problems.len() {
        1 => "1 problem".to_owned(),
        count => format!("{count} problems"),
    };
    lines.push(if report.problems.is_empty() {
        "sound: a server can start here".to_owned()
    } else if report.problems.iter().all(|problem| problem.repairable) {
        format!("{count} that the next start repairs")
    } else {
        format!("{count}: keep these files, and import the last export into a new directory with 'leeway store import'")
    });
    lines.join("\n")
}

/// What `store export` wrote.
pub fn exported(report: &ExportReport) -> String {
    format!(
        "wrote {}: {} rows as of entry {}, {}\n\
         'leeway store import' makes a data directory of it; keep secret.key of this one with it, which opens the secrets in it",
        report.path.display(),
        report.rows,
        report.head.index,
        size(report.bytes)
    )
}

/// What `store import` read and made, and what is to be done before a server uses it. `data` is the data directory.
pub fn imported(report: &ImportReport, file: &Path, data: &Path) -> String {
    let (identity, data) = (&report.identity, data.display());
    format!(
        "read {}: {} rows as of entry {} of installation {}, incarnation {}\n\
         made {}: a new incarnation of it, {}\n\
         next:\n  \
         cp OLD/secret.key {data}/secret.key, OLD being the data directory that was exported; it opens the secrets\n  \
         start 'leeway serve' with data_dir = \"{data}\": it reports what the store does not know and removes nothing\n  \
         when that is as it should be, start once with confirm_restore = \"{}\"",
        file.display(),
        report.rows,
        report.head.index,
        identity.installation,
        report.from.incarnation,
        report.dir.display(),
        identity.incarnation,
        identity.incarnation
    )
}

/// What `store rebuild` did.
pub fn rebuilt(report: &RebuildReport) -> String {
    let aside = report.set_aside.as_ref().map(|path| format!("; the old index is in {}", path.display()));
    format!("{} rows as of entry {}{}", report.rows, report.head.index, aside.unwrap_or_default())
}

/// What `store adopt` made of a copy.
pub fn adopted(report: &AdoptReport) -> String {
    let (dir, index, incarnation) = (report.dir.display(), report.head.index, &report.identity.incarnation);
    if report.from == *incarnation {
        return format!("{dir} is at home here, as of entry {index}; never serve the one that it was copied from");
    }
    format!(
        "{dir} is at home here, as of entry {index}, as the new incarnation {incarnation}; never serve another copy of it\n\
         start 'leeway serve': it reports what this store does not know and removes nothing; when that is as it should be, \
         start once with confirm_restore = \"{incarnation}\""
    )
}

#[cfg(test)]
mod tests {
    use leeway_store::{Head, Identity};

    use super::*;

    #[test]
    fn an_import_says_what_it_read_what_it_made_and_what_is_next() {
        let identity = |incarnation: &str| Identity { installation: "lab".into(), incarnation: incarnation.into() };
        let report = ImportReport {
            dir: "/var/lib/new/store".into(),
            from: identity("i-1"),
            identity: identity("i-2"),
            head: Head { index: 7, ..Head::default() },
            rows: 12,
        };
        let told = imported(&report, Path::new("/backup/x.export"), Path::new("/var/lib/new"));
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[0], "read /backup/x.export: 12 rows as of entry 7 of installation lab, incarnation i-1");
        assert_eq!(lines[1], "made /var/lib/new/store: a new incarnation of it, i-2");
        for next in ["/var/lib/new/secret.key", "data_dir = \"/var/lib/new\"", "confirm_restore = \"i-2\""] {
            assert!(told.contains(next), "{told}");
        }
    }

    #[test]
    fn a_verification_says_what_was_read_and_what_follows() {
        let report = Report { dir: "/var/lib/leeway/store".into(), ..Report::default() };
        let told = verified(&report);
        assert!(told.starts_with("read all of /var/lib/leeway/store: "), "{told}");
        assert!(told.ends_with("sound: a server can start here"), "{told}");
        let problem = |repairable| leeway_store::Problem {
            code: "STORE_CORRUPT",
            place: "index".into(),
            offset: 3,
            message: "bad".into(),
            repairable,
        };
        let with = |problems| verified(&Report { problems, ..report.clone() });
        assert!(with(vec![problem(true)]).ends_with("1 problem that the next start repairs"));
        let told = with(vec![problem(true), problem(false)]);
        assert!(told.contains("2 problems: ") && told.contains("'leeway store import'"), "{told}");
    }
}
