//! What is uploaded with a job: its working directory and the files it finds at given paths.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::environment::{Environment, substitute};
use crate::error::{Code, Report, shown};
use crate::fields::{Field, join};
use crate::yaml::{Node, Value};

/// Most uploaded mounts of one job.
pub const MAX_MOUNTS: usize = 256;
const MAX_PATH_BYTES: usize = 4_096;

/// Where relative and home paths of the submitting machine begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folders<'c> {
    pub base: &'c Path,
    pub home: Option<&'c Path>,
}

pub(crate) fn workdir(
    field: Field<'_>,
    env: &Environment,
    folders: Folders<'_>,
    report: &mut Report,
) -> Option<PathBuf> {
    if matches!(field.node.value, Value::Map(_)) {
        let (problem, fix) =
            ("asks for a git checkout; Leeway uploads a folder", "clone it in setup, or name a folder");
        field.fail(Code::NotSupported, problem, fix, report);
        return None;
    }
    let text = field.clone().text(report)?;
    let text = substitute(&field, &text, env, report)?;
    local(&text, &field, folders, report)
}

/// Paths in the job by local path. Buckets and storage objects are refused: the data a job reads is named in `data`,
/// so that moving it is priced.
pub(crate) fn mounts(
    field: Field<'_>,
    env: &Environment,
    folders: Folders<'_>,
    report: &mut Report,
) -> BTreeMap<String, PathBuf> {
    let (path, at) = (field.path.clone(), field.key_at);
    let entries = field.entries(report).unwrap_or_default();
    if entries.len() > MAX_MOUNTS {
        let fix = format!("keep at most {MAX_MOUNTS}; a folder counts as one");
        report.at(Code::TooMany, at, &path, format!("lists {} mounts", entries.len()), fix);
        return BTreeMap::new();
    }
    let mut mounts = BTreeMap::new();
    for entry in entries {
        let here = join(&path, &entry.key);
        let target = Field {
            path: here.clone(),
            key_at: entry.key_at,
            node: Node { value: Value::Text(entry.key), at: entry.key_at },
        };
        let source = Field { path: here, key_at: entry.key_at, node: entry.node };
        // A source that cannot be uploaded is told first: with it the whole line goes.
        let Some(source) = local_source(&source, env, folders, report) else { continue };
        if let Some(target) = in_job(&target, env, report)
            && let Some(earlier) = mounts.insert(target.clone(), source)
        {
            let problem = format!("'{target}' is mounted twice, also from {}", earlier.display());
            report.at(Code::Conflict, at, &path, problem, "keep one of them");
        }
    }
    mounts
}

fn local_source(field: &Field<'_>, env: &Environment, folders: Folders<'_>, report: &mut Report) -> Option<PathBuf> {
    match &field.node.value {
        Value::Map(_) => {
            let fix = "list what the job reads under 'data' and what it leaves under 'outputs'";
            field.fail(Code::NotSupported, "is a storage object; Leeway mounts no buckets", fix, report);
            None
        }
        Value::Null => {
            let fix = "write the local path of a file or folder";
            report.at(Code::MissingField, field.key_at, &field.path, "has no source", fix);
            None
        }
        _ => {
            let text = field.clone().text(report)?;
            let text = substitute(field, &text, env, report)?;
            if text.contains("://") {
                let fix = "list it under 'data' with its size, and read it from there in the program";
                field.fail(Code::NotSupported, "is a URL; only local files are uploaded", fix, report);
                return None;
            }
            local(&text, field, folders, report)
        }
    }
}

fn local(text: &str, field: &Field<'_>, folders: Folders<'_>, report: &mut Report) -> Option<PathBuf> {
    if !well_formed(text, field, report) {
        return None;
    }
    match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => match folders.home {
            Some(home) => Some(home.join(rest.trim_start_matches('/'))),
            None => {
                field.fail(Code::InvalidValue, "needs a home folder and none is known", "write the full path", report);
                None
            }
        },
        // Without the `.` parts, so that the same folder has one spelling.
        _ => Some(folders.base.join(text).components().collect()),
    }
}

/// The path at which the program finds the files, in its one spelling: below the working directory, or below `~`.
///
/// Anywhere else would be shared by all runs of the machine, so nothing could mount there.
fn in_job(field: &Field<'_>, env: &Environment, report: &mut Report) -> Option<String> {
    let text = field.clone().text(report)?;
    let text = substitute(field, &text, env, report)?;
    if !well_formed(&text, field, report) {
        return None;
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let path = parts.join("/");
    if text.starts_with('/') {
        let problem = "is an absolute path: every run of the machine would share what is mounted there";
        let fix = if path.is_empty() || parts.contains(&"..") {
            "write a path relative to the working directory, such as 'labels', or below ~/".to_owned()
        } else {
            format!("write '{0}' (relative to the working directory) or '~/{0}', and read it there", shown(&path))
        };
        field.fail(Code::NotSupported, problem, fix, report);
        return None;
    }
    let home = parts.first().is_some_and(|first| first.starts_with('~'));
    let is_whole = path.is_empty() || path == "~";
    let of_another = home && parts.first() != Some(&"~");
    if text.contains("://") || text.contains('\\') || parts.contains(&"..") || of_another || is_whole {
        let fix = "write a path such as data/labels or ~/labels, without '..'";
        field.fail(Code::InvalidValue, "is not a path inside the job", fix, report);
        return None;
    }
    Some(path)
}

fn well_formed(text: &str, field: &Field<'_>, report: &mut Report) -> bool {
    let valid = !text.is_empty() && text.len() <= MAX_PATH_BYTES && !text.chars().any(char::is_control);
    if !valid {
        let fix = format!("write 1 to {MAX_PATH_BYTES} bytes without control characters");
        field.fail(Code::InvalidValue, "is not a path", fix, report);
    }
    valid
}
