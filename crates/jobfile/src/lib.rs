//! Job files: Leeway's own YAML and SkyPilot task files, into values of the model.
//!
//! [`parse`] takes a text and gives jobs that are ready to be submitted, or every mistake in the text at once with its
//! place and what to write instead. It reads no file, no clock and no environment: what it needs is in [`Context`].
//! What a file asks for is taken, or refused by name; it is never ignored.
//!
//! A text is first read into a tree that keeps positions and the spelling of numbers (`yaml`), then field by field
//! (`fields`, `scalars`), a topic in each module. The tree is walked by hand instead of by derived types because a
//! derived reader stops at its first mistake and forgets where values stood.

mod accelerators;
mod checkpoint;
mod data;
mod depends;
mod environment;
mod error;
mod fields;
mod files;
mod infra;
mod job;
mod recovery;
mod refused;
mod resources;
mod scalars;
mod yaml;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use leeway_model::job::JobSpec;
use leeway_model::{Currency, JobId, Millis, Name, Timestamp};

pub use error::{Code, Error, Errors, Position};

use crate::error::Report;
use crate::fields::{Field, Level};
use crate::job::Draft;
use crate::yaml::{Node, Value};

/// The bounds that a file is held to.
pub mod limits {
    pub use crate::data::MAX_INPUTS;
    pub use crate::depends::MAX_DEPENDENCIES;
    pub use crate::environment::{MAX_ENVIRONMENT_BYTES, MAX_VALUE_BYTES};
    pub use crate::files::MAX_MOUNTS;
    pub use crate::job::{MAX_NODES, MAX_SCRIPT_BYTES};
    pub use crate::resources::MAX_ALTERNATIVES;
    pub use crate::yaml::{MAX_ALIASED, MAX_DEPTH, MAX_DOCUMENTS, MAX_FILE_BYTES};
}

/// Every level that has named fields, to tell where a misplaced field belongs.
pub(crate) const LEVELS: &[&Level] =
    &[&job::LEVEL, &resources::LEVEL, &checkpoint::LEVEL, &recovery::LEVEL, &recovery::RECOVERY];

/// What a file does not say itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Context {
    /// Values given on the command line (`--env NAME=VALUE`). They go before the file's values, to a secret where the
    /// file names one, and to the environment otherwise. An empty value is none for a secret.
    pub env_overrides: BTreeMap<String, String>,
    /// Who submits; a file may name another owner, and whether that is allowed is the server's question.
    pub owner: Name,
    /// Where relative local paths begin.
    pub base_dir: PathBuf,
    /// Where `~` in local paths points; without it such paths are refused.
    pub home: Option<PathBuf>,
    /// For relative deadlines such as `+6h`, and to refuse those that are past.
    pub now: Timestamp,
    /// The currency of the installation's ledger: amounts in another are refused.
    pub currency: Currency,
}

/// One job of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct JobFile {
    /// Complete but for what only a submission can add: `program.secrets`, `program.workdir` and `program.mounts` are
    /// empty until they are sealed and uploaded, `depends_on` until every job's id is known.
    pub spec: JobSpec,
    /// The deadline as a length from the submission on, where the file has it so; the spec's is counted from `now`.
    pub deadline_in: Option<Millis>,
    /// Plain values by the name of the variable. Never logged, shown or stored: seal them first.
    pub secrets: BTreeMap<String, String>,
    /// The local folder to upload. Whether it exists is not checked here.
    pub workdir: Option<PathBuf>,
    /// Local files and folders to upload, by the path at which the program finds them.
    pub mounts: BTreeMap<String, PathBuf>,
    /// Jobs that must succeed first.
    pub depends_on: Vec<Dependency>,
    /// What was accepted and means something that a person should know.
    pub notes: Vec<String>,
}

/// A job that must succeed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dependency {
    /// Submitted before.
    Job(JobId),
    /// The document at this index of what [`parse`] returned.
    Document(usize),
}

impl JobFile {
    /// The dependencies as ids, given the ids of this file's jobs in their order; `None` when one is missing.
    pub fn dependencies(&self, submitted: &[JobId]) -> Option<Vec<JobId>> {
        let id = |dependency: &Dependency| match *dependency {
            Dependency::Job(id) => Some(id),
            Dependency::Document(index) => submitted.get(index).copied(),
        };
        self.depends_on.iter().map(id).collect()
    }
}

impl fmt::Debug for JobFile {
    /// Shows the names of secrets and not their values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobFile")
            .field("spec", &self.spec)
            .field("deadline_in", &self.deadline_in)
            .field("secrets", &self.secrets.keys().map(|name| (name, "<secret>")).collect::<BTreeMap<_, _>>())
            .field("workdir", &self.workdir)
            .field("mounts", &self.mounts)
            .field("depends_on", &self.depends_on)
            .field("notes", &self.notes)
            .finish()
    }
}

impl fmt::Debug for Context {
    /// Shows the names of given values and not the values, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("env_overrides", &self.env_overrides.keys().collect::<Vec<_>>())
            .field("owner", &self.owner)
            .field("base_dir", &self.base_dir)
            .field("home", &self.home)
            .field("now", &self.now)
            .field("currency", &self.currency)
            .finish()
    }
}

/// A complete job file with a comment on each field, for `--help` and for copying.
pub const fn example() -> &'static str {
    include_str!("example.yaml")
}

/// Reads every job of a text, in the order of its documents.
///
/// Several documents that say nothing of `depends_on` follow each other as in a SkyPilot pipeline, with or without its
/// header document. As soon as one document says `depends_on`, only what is said holds.
///
/// # Errors
/// All mistakes of the text, never just the first.
pub fn parse(text: &str, context: &Context) -> Result<Vec<JobFile>, Errors> {
    let mut report = Report::default();
    environment::check_overrides(&context.env_overrides, &mut report);
    let mistakes = report.mistakes();
    let mut documents = yaml::documents(text, &mut report);
    if documents.is_empty() {
        if report.mistakes() == mistakes {
            let fix = "write at least 'run: ...'; 'leeway jobs example' prints a complete file";
            report.file(Code::FileEmpty, None, "the file holds no job", fix);
        }
        return report.finish(Vec::new());
    }
    let header = if is_header(&documents) { Some(documents.remove(0)) } else { None };
    let pipeline = header.and_then(|header| pipeline_name(header, &mut report));
    let several = documents.len() > 1;
    let mut drafts: Vec<Draft<'_>> = Vec::with_capacity(documents.len());
    for (index, node) in documents.into_iter().enumerate() {
        let name = match &pipeline {
            Some(pipeline) => format!("{pipeline}-{}", index + 1),
            None if several => format!("job-{}", index + 1),
            None => "job".to_owned(),
        };
        let path = if several { format!("document {}", index + 1) } else { String::new() };
        let document = Field { path, key_at: node.at, node };
        drafts.push(job::read(document, &name, context, &mut report));
    }
    let chain = depends::is_chain(&drafts);
    let dependencies = depends::resolve(&mut drafts, &mut report);
    let mut jobs = Vec::with_capacity(drafts.len());
    for (index, (draft, dependencies)) in drafts.into_iter().zip(dependencies).enumerate() {
        let Some(mut job) = draft.job else { continue };
        job.depends_on = dependencies;
        if chain && index > 0 {
            job.depends_on = vec![Dependency::Document(index - 1)];
            job.notes.push(format!("waits for document {index}, because no document of this file says depends_on"));
        }
        jobs.push(job);
    }
    report.finish(jobs)
}

const HEADER: Level =
    Level { name: "the header of a pipeline", known: &["name", "execution"], refused: refused::HEADER };

/// A first document that only names the pipeline whose jobs follow.
fn is_header(documents: &[Node<'_>]) -> bool {
    let [Node { value: Value::Map(entries), .. }, _, ..] = documents else { return false };
    let of_header = |entry: &yaml::Entry<'_>| {
        HEADER.known.contains(&&*entry.key) || HEADER.refused.iter().any(|refused| refused.name == entry.key)
    };
    entries.iter().all(of_header) && entries.iter().any(|entry| entry.key == "name")
}

fn pipeline_name(header: Node<'_>, report: &mut Report) -> Option<String> {
    let field = Field { path: "header".to_owned(), key_at: header.at, node: header };
    let mut fields = fields::Fields::open(field, &HEADER, report)?;
    if let Some(field) = fields.take("execution")
        && field.literal() != Some("serial")
    {
        let fix = "write 'serial', or remove the header and say with depends_on what waits for what ('depends_on: []' \
                   for nothing)";
        field.fail(Code::NotSupported, "is not a way to run a pipeline here", fix, report);
    }
    // Room for the number of a document.
    let name = fields.take("name").and_then(|field| job::display_name(&field, report))?;
    Some(name.as_str().chars().take(60).collect())
}
