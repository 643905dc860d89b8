//! Creating and opening a data directory.
//!
//! ```text
//! identity and formats (read only) -> lock -> leftovers -> base -> journal (scan, judge, cut) -> index (prove or
//! rebuild) -> base again when it was damaged -> unused blobs -> reserve -> the index thread
//! ```
//!
//! An empty store is only ever made by `init`. Opening refuses whenever one part says that another must be missing.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use super::{DiskStore, OpenReport, Options, SpaceWatch};
use crate::blobs::Blobs;
use crate::export::{Base, base_files};
use crate::files::{Files, names};
use crate::index::worker::{Setup, Worker};
use crate::index::{self, BuildError, Changes};
use crate::journal::{self, Journal, Layout, Scan};
use crate::lock::Lock;
use crate::reserve::Reserve;
use crate::{Error, Head, Identity, identity};

impl DiskStore {
    /// Makes a new store in `dir`, which must be vacant (see [`is_vacant`]), and opens it.
    pub fn init(dir: &Path, identity: Identity, options: Options) -> Result<DiskStore, Error> {
        if !is_vacant(dir)? {
            return Err(Error::NotEmpty { path: dir.to_path_buf() });
        }
        create(dir, &identity, Head::default(), &options)?;
        DiskStore::open(dir, options)
    }

    /// Opens the store in `dir`, or makes one when the directory is vacant.
    pub fn open_or_init(dir: &Path, identity: Identity, options: Options) -> Result<DiskStore, Error> {
        if is_vacant(dir)? { DiskStore::init(dir, identity, options) } else { DiskStore::open(dir, options) }
    }

    /// Opens the store in `dir`. Never makes one.
    pub fn open(dir: &Path, options: Options) -> Result<DiskStore, Error> {
        let identity = known_identity(dir)?;
        refuse_others(dir)?;
        let lock = Lock::take(dir)?;
        let files = options.files.clone();
        if identity::place(dir)?.is_none() {
            // Of a program that did not note it: whatever is copied from now on is told apart.
            identity::write(&*files, dir, &identity)?;
        }
        let mut report = OpenReport { leftovers_removed: remove_leftovers(dir, &*files)?, ..OpenReport::default() };
        let mut reserve = Reserve::of(dir, options.reserve_bytes, files.clone());
        let blobs = Blobs::new(dir, files.clone());

        let (mut base, base_damage) = find_base(dir)?;
        let wanted = index::open(&dir.join("index"), options.cache_bytes, options.index_patience);
        let applied = wanted.as_ref().map(|index| index.applied.head).unwrap_or_default();
        let (scan, chains) = scan(dir, [base.as_ref().map(|base| base.head), Some(applied)])?;
        refuse_gaps(dir, &scan, base.as_ref(), base_damage.as_ref(), &chains[0])?;
        let judged = wanted.and_then(|index| match disagreement(&scan, applied, &chains[1]) {
            None => Ok(index),
            Some(reason) => {
                index::discard(index);
                Err(index::Damage(reason))
            }
        });
        if judged.is_ok() && applied.index > scan.head.index {
            return Err(behind_index(dir, &scan, applied.index));
        }
        // Last, so that damage with a place of its own is named first.
        if scan.mark.is_none() {
            return Err(Error::mark_missing(dir, scan.head.index));
        }
        if let Some(tear) = &scan.tear {
            report.cut_bytes = tear.lost_bytes;
            report.cut_at = Some((tear.place.clone(), tear.keep_bytes));
        }
        let before_journal = scan.segments.first().map_or(1, |segment| segment.first) - 1;
        let journal = Journal::open(files.clone(), dir, options.segment_bytes, options.promise_bytes, scan)?;
        report.head = journal.head();

        let index = match judged {
            Ok(index) => Ok(index),
            Err(damage) if base_damage.is_some() && before_journal > 0 => {
                let (path, error) = base_damage.unwrap_or_else(|| (dir.to_path_buf(), Error::Failed));
                let reason = format!("{error}, and the index cannot stand in for it: {}", damage.0);
                return Err(Error::corrupt(crate::export::base_place(&path), 0, reason));
            }
            Err(damage) => {
                report.index_set_aside = index::set_aside(dir)?;
                // A store that was made a moment ago has no index, and that is all right.
                if report.index_set_aside.is_some() || journal.head().index > 0 {
                    tracing::warn!(reason = %damage.0, "the index is made anew from base and journal");
                    report.index_rebuilt = Some(damage.0);
                }
                let aside = &mut report.index_set_aside;
                rebuild(dir, &options, base.as_ref(), &journal.layout(), &mut reserve, aside)?
            }
        };
        let applied = index.as_ref().map(|index| index.applied.head.index).unwrap_or_default();
        report.index_behind = journal.head().index - applied;

        let setup = Setup {
            data_dir: dir.to_path_buf(),
            identity: identity.clone(),
            files: files.clone(),
            layout: journal.layout(),
            mark: journal.mark_file(),
            cache_bytes: options.cache_bytes,
            queue_bytes: options.queue_bytes,
        };
        let head = journal.head();
        let worker = Worker::start(setup, index, base.clone(), head)?;
        if let Some((path, error)) = base_damage {
            tracing::warn!(%error, "the base is damaged and is written anew");
            worker.want_base();
            let fresh = worker.wait_for_base()?;
            if fresh.path != path {
                files.remove(&path).map_err(|error| Error::at(&path, error))?;
            }
            report.base_rebuilt = Some(error.to_string());
            base = Some(fresh);
        }
        report.blobs_removed = collect_blobs(&blobs, base.as_ref(), &journal)?.0;
        let space = files.space(dir).map_err(|error| Error::at(dir, error))?;
        let limit = options.min_free_bytes.min(space.total / 20);
        reserve.fill(space.free, limit)?;
        let watch =
            SpaceWatch { tight: space.free < limit, free: space.free, looked: Instant::now(), written_since: 0 };
        Ok(DiskStore {
            dir: dir.to_path_buf(),
            options,
            identity,
            journal,
            blobs,
            worker,
            reserve,
            base,
            staged: Changes::new(),
            staged_bytes: 0,
            flushing: None,
            worker_next: head.index + 1,
            space: watch,
            compacting: false,
            compact_after: None,
            report,
            _lock: lock,
        })
    }
}

/// True when a store may be made in `dir`: it is absent or empty, or holds nothing but what a creation left that ended
/// before the identity was written. No entry can have been acknowledged there.
///
/// # Errors
/// When the directory cannot be looked at.
pub fn is_vacant(dir: &Path) -> Result<bool, Error> {
    let found = names(dir).map_err(|error| Error::at(dir, error))?;
    let of_creation = |name: &String| matches!(name.as_str(), "LOCK" | "IDENTITY.tmp" | "journal");
    Ok(found.iter().all(of_creation) && journal::is_never_used(&dir.join("journal"))?)
}

/// Makes everything but the base; the identity comes last, so that a store half made is never taken for one.
pub(crate) fn create(dir: &Path, identity: &Identity, before: Head, options: &Options) -> Result<(), Error> {
    crate::files::create_private_dir(dir).map_err(|error| Error::at(dir, error))?;
    let _lock = Lock::take(dir)?;
    let files = &*options.files;
    if is_vacant(dir)? {
        let unfinished = dir.join("journal");
        match std::fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(Error::at(&unfinished, error)),
            _ => {}
        }
    }
    Journal::create(files, dir, before)?;
    identity::write(files, dir, identity)?;
    let parent = crate::files::parent(dir);
    files.sync_dir(parent).map_err(|error| Error::at(parent, error))
}

pub(crate) fn require_empty(dir: &Path) -> Result<(), Error> {
    if names(dir).map_err(|error| Error::at(dir, error))?.is_empty() {
        return Ok(());
    }
    Err(Error::NotEmpty { path: dir.to_path_buf() })
}

/// The identity, and proof that the truth is there with it.
pub(crate) fn known_identity(dir: &Path) -> Result<Identity, Error> {
    let mismatch = |reason: &str| Err(Error::IdentityMismatch { dir: dir.to_path_buf(), reason: reason.to_owned() });
    let found = names(dir).map_err(|error| Error::at(dir, error))?;
    if found.is_empty() {
        return Err(Error::NotInitialised { dir: dir.to_path_buf() });
    }
    let has = |name: &str| found.iter().any(|found| found == name);
    let no_journal = journal::is_missing(&dir.join("journal"))?;
    match identity::read(dir)? {
        Some(_) if no_journal => mismatch(
            "the identity of a store is here, its journal is not: wrong mount or partial restore; bring the journal back, or import an export elsewhere",
        ),
        Some(identity) => Ok(identity),
        None if has("journal") || has("index") || has("base") || has("blobs") => mismatch(
            "parts of a store are here, its IDENTITY is not: a partial restore; bring the file back, or name an empty directory",
        ),
        None => Err(Error::NotInitialised { dir: dir.to_path_buf() }),
    }
}

/// Looks at every header before anything is written.
pub(crate) fn refuse_others(dir: &Path) -> Result<(), Error> {
    journal::refuse_others(&dir.join("journal"))?;
    for path in base_files(dir)? {
        if let Err(error @ (Error::NewerFormat { .. } | Error::OlderFormat { .. })) = Base::reader(&path) {
            return Err(error);
        }
    }
    Ok(())
}

fn remove_leftovers(dir: &Path, files: &dyn Files) -> Result<u64, Error> {
    let mut removed = index::remove_leftovers(&dir.join("index"))?;
    for folder in [dir.to_path_buf(), dir.join("journal"), dir.join("base"), dir.join("blobs")] {
        for name in names(&folder).map_err(|error| Error::at(&folder, error))? {
            if name.ends_with(".tmp") {
                let path = folder.join(name);
                files.remove(&path).map_err(|error| Error::at(&path, error))?;
                removed += 1;
            }
        }
    }
    Ok(removed)
}

type Damaged = Option<(std::path::PathBuf, Error)>;

/// The newest base that is whole, and the newest one if that is not.
pub(crate) fn find_base(dir: &Path) -> Result<(Option<Base>, Damaged), Error> {
    let mut damaged = None;
    for path in base_files(dir)? {
        match Base::check(&path) {
            Ok(base) => return Ok((Some(base), damaged)),
            Err(error @ Error::Corrupt { .. }) => damaged = damaged.or(Some((path, error))),
            Err(error) => return Err(error),
        }
    }
    Ok((None, damaged))
}

/// Scans the journal and tells of each given head whether the journal has it: `None` when the journal does not reach
/// it (on either side), else whether the chain is the same.
pub(crate) fn scan<const N: usize>(dir: &Path, heads: [Option<Head>; N]) -> Result<(Scan, [Option<bool>; N]), Error> {
    let mut agree = [None; N];
    let journal_dir = dir.join("journal");
    let scan = journal::scan(&journal_dir, &mut |entry| {
        for (agree, head) in agree.iter_mut().zip(&heads) {
            if let Some(head) = head.filter(|head| head.index == entry.head.index) {
                *agree = Some(head.chain == entry.head.chain);
            }
        }
        Ok(())
    })?;
    for (agree, head) in agree.iter_mut().zip(&heads) {
        if let (Some(head), Some(before)) = (head, scan.before())
            && head.index == before.index
        {
            *agree = Some(head.chain == before.chain);
        }
    }
    Ok((scan, agree))
}

/// The journal as far as it goes, whatever was marked as durable, once it is certain that it goes as far as its base.
pub(crate) fn scan_as_is(dir: &Path) -> Result<Scan, Error> {
    let (base, base_damage) = find_base(dir)?;
    let scan = journal::scan_unmarked(&dir.join("journal"))?;
    refuse_gaps(dir, &scan, base.as_ref(), base_damage.as_ref(), &None)?;
    Ok(scan)
}

/// History before the journal's first entry must be covered by a base that belongs to it.
fn refuse_gaps(
    dir: &Path,
    scan: &Scan,
    base: Option<&Base>,
    base_damage: Option<&(std::path::PathBuf, Error)>,
    base_agrees: &Option<bool>,
) -> Result<(), Error> {
    let first = scan.segments.first().map_or(1, |segment| segment.first);
    if let Some(base) = base {
        if *base_agrees == Some(false) {
            return Err(Error::corrupt(base.place.clone(), 0, "the base is of another history than the journal"));
        }
        if base.head.index > scan.head.index {
            let reason =
                format!("the journal ends at entry {}, but the base has entry {}", scan.head.index, base.head.index);
            return Err(end_damage(scan, reason));
        }
    }
    let covered = base.map_or(0, |base| base.head.index);
    if first > covered + 1 && base_damage.is_none() {
        if base.is_none() && base_files(dir)?.is_empty() {
            let reason = format!("entries before {first} are neither in the journal nor in a base: files are missing");
            return Err(Error::IdentityMismatch { dir: dir.to_path_buf(), reason });
        }
        let reason = format!("entries {} to {} are missing before this segment", covered + 1, first - 1);
        return Err(Error::corrupt(journal::place(first), 0, reason));
    }
    Ok(())
}

/// Why an index that is whole in itself does not belong to this journal.
fn disagreement(scan: &Scan, applied: Head, agrees: &Option<bool>) -> Option<String> {
    let first = scan.segments.first().map_or(1, |segment| segment.first);
    match agrees {
        Some(false) => Some(format!("its entry {} is of another history than the journal", applied.index)),
        Some(true) => None,
        None if applied.index + 1 < first => {
            Some(format!("it ends at entry {}, before the journal begins", applied.index))
        }
        None => None,
    }
}

/// The journal ends before what the index has seen.
pub(crate) fn behind_index(dir: &Path, scan: &Scan, seen: u64) -> Error {
    let reason = format!(
        "the journal ends at entry {}, but the index has seen entry {seen}; if the journal was restored on purpose, say so by 'leeway store adopt --restored {}'",
        scan.head.index,
        dir.display(),
    );
    end_damage(scan, reason)
}

fn end_damage(scan: &Scan, reason: String) -> Error {
    let (first, end) = scan.segments.last().map_or((1, 0), |segment| (segment.first, segment.bytes));
    Error::corrupt(journal::place(first), end, reason)
}

/// Builds the index. On a full disk, space is made of the reserve and of the index that was set aside; when even that
/// is not enough, the store goes without an index for now: base and journal have all the rows.
fn rebuild(
    dir: &Path,
    options: &Options,
    base: Option<&Base>,
    layout: &Layout,
    reserve: &mut Reserve,
    set_aside: &mut Option<std::path::PathBuf>,
) -> Result<Result<index::Index, index::Damage>, Error> {
    let path = dir.join("index");
    let remove = |path: &Path| match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::at(path, error)),
        _ => Ok(()),
    };
    let mut last_attempt = false;
    loop {
        let damage = match index::build(&path, options.cache_bytes, base, layout) {
            Ok(index) => return Ok(Ok(index)),
            Err(BuildError::Truth(error)) => return Err(error),
            Err(BuildError::Index(damage)) => damage,
        };
        remove(&path)?;
        if last_attempt {
            return Ok(Err(damage));
        }
        last_attempt = true;
        tracing::warn!(reason = %damage.0, "the index could not be made; it is tried once more with all space there is");
        reserve.release();
        if let Some(old) = set_aside.take() {
            remove(&old)?;
        }
    }
}

/// Removes blobs that neither the base nor a kept entry names.
pub(crate) fn collect_blobs(blobs: &Blobs, base: Option<&Base>, journal: &Journal) -> Result<(u64, u64), Error> {
    let mut live: BTreeSet<[u8; 32]> = journal.blobs().into_iter().collect();
    live.extend(base.iter().flat_map(|base| base.blobs.iter().copied()));
    blobs.collect(&live)
}
