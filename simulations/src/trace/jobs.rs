//! Jobs of one or more files in the order of their submission.
//!
//! A file is read once. Where its format does not promise an order, jobs wait in a heap of bounded size, so that a file
//! of up to [`SORTED_MAX`] jobs may have any order and a longer one may be out of order by as many. Files are merged. A
//! name that came before, among the last [`NAMES_MAX`], is a bad line.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use leeway_model::{Millis, name};

use super::error::{BadLine, Error, Fault};
use super::format::{Format, Input, Notes, Order, TraceReader, Zero};
use super::record::JobRecord;

/// Most jobs of a file that are held back to be sorted; about 250 MB.
pub const SORTED_MAX: usize = 1_000_000;
/// Names that are remembered; about 100 MB.
pub const NAMES_MAX: usize = 1 << 22;
/// Skipped lines that are kept as they are, for a person to look at.
pub const QUOTED_MAX: usize = 5;
/// As much of a file as is looked at to tell its format.
const HEAD: usize = 64 << 10;

/// A file as it comes.
pub type Bytes = Box<dyn Read + Send>;

/// How a trace is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The format, where it is not to be told from the file.
    pub format: Option<Format>,
    /// Whether bad lines are skipped and counted instead of being the end.
    pub lenient: bool,
}

/// What was made of the lines so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs read and good.
    pub read: u64,
    /// Bad lines passed by.
    pub skipped: u64,
    /// The first of them.
    pub quoted: Vec<BadLine>,
    /// Lines that are right, but that something was done to.
    pub notes: Notes,
}

/// Opens a file and yields its jobs in the order of their submission. Packed files (gzip) are unpacked.
///
/// # Errors
/// A file that cannot be read, that is empty, whose format is not known or that lacks a column.
pub fn open(path: &Path, format: Option<Format>, lenient: bool) -> Result<Jobs, Error> {
    Jobs::open(&[path], Options { format, lenient })
}

/// The jobs of one or more files. After an error there are no more.
pub struct Jobs {
    sources: Vec<Source>,
    /// The earliest job of each source that has any left.
    heads: Vec<Option<Waiting>>,
    is_started: bool,
    is_over: bool,
    lenient: bool,
    names: Names,
    /// Taken from every time.
    zero: Millis,
    counts: Counts,
    format: Format,
    /// Bytes read from the files, as they come.
    bytes: Arc<AtomicU64>,
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").field("format", &self.format).field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Jobs {
    /// Opens files of one format, whose jobs are merged by their time of submission.
    ///
    /// # Errors
    /// As [`open`]; also when files have different formats.
    pub fn open(paths: &[impl AsRef<Path>], options: Options) -> Result<Self, Error> {
        let mut sources: Vec<Source> = Vec::new();
        let bytes = Arc::new(AtomicU64::new(0));
        for path in paths {
            let source = Source::open(path.as_ref(), options.format, &bytes)?;
            if let Some(first) = sources.first().filter(|first| first.format != source.format) {
                let problem = format!(
                    "it has the format {}, but '{}' has {}; read them one after the other",
                    source.format.name(),
                    first.file,
                    first.format.name()
                );
                return Err(Error::Unusable { file: source.file, problem });
            }
            sources.push(source);
        }
        let Some(format) = sources.first().map(|source| source.format) else {
            return Err(Error::Unusable { file: Arc::from(""), problem: "no file was named".to_owned() });
        };
        Ok(Self { bytes, ..Self::new(sources, format, options.lenient) })
    }

    /// The jobs of something that is not a file. `file` is only for messages.
    ///
    /// # Errors
    /// As [`open`].
    pub fn read(input: impl Read + Send + 'static, file: &str, options: Options) -> Result<Self, Error> {
        let source = Source::read(Box::new(input), Arc::from(file), options.format)?;
        let format = source.format;
        Ok(Self::new(vec![source], format, options.lenient))
    }

    fn new(sources: Vec<Source>, format: Format, lenient: bool) -> Self {
        Self {
            sources,
            heads: Vec::new(),
            is_started: false,
            is_over: false,
            lenient,
            names: Names::default(),
            zero: Millis::ZERO,
            counts: Counts::default(),
            format,
            bytes: Arc::new(AtomicU64::new(0)),
        }
    }

    /// Bytes of the files that were read so far, packed where they are packed.
    pub fn bytes_read(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub const fn format(&self) -> Format {
        self.format
    }

    /// What was made of the lines so far. It runs ahead of the jobs that were yielded where jobs wait to be sorted.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    fn start(&mut self) -> Result<(), Error> {
        for index in 0..self.sources.len() {
            let head = self.sources[index].next(self.lenient, &mut self.counts)?;
            self.heads.push(head);
        }
        if self.format.0.zero == Zero::Elsewhere {
            self.zero = self.heads.iter().flatten().map(|head| head.job.submitted).min().unwrap_or_default();
        }
        self.is_started = true;
        Ok(())
    }

    fn take(&mut self) -> Result<Option<JobRecord>, Error> {
        if !self.is_started {
            self.start()?;
        }
        loop {
            let waiting = self.heads.iter().enumerate();
            let earliest =
                waiting.filter_map(|(index, head)| head.as_ref().map(|head| (head.job.submitted, index))).min();
            let Some((_, index)) = earliest else { return Ok(None) };
            let next = self.sources[index].next(self.lenient, &mut self.counts)?;
            let Some(Waiting { line, mut job, .. }) = std::mem::replace(&mut self.heads[index], next) else {
                return Ok(None);
            };
            if self.names.is_new(&job.name) {
                job.submitted = job.submitted.saturating_sub(self.zero);
                return Ok(Some(job));
            }
            let problem = format!("'{}' is the name of an earlier job; names must differ", name::escape(&job.name));
            self.counts.read -= 1;
            self.counts.refuse(Fault::new("(name)", problem).at(&self.sources[index].file, line), self.lenient)?;
        }
    }
}

impl Iterator for Jobs {
    type Item = Result<JobRecord, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let taken = self.take();
        self.is_over = !matches!(taken, Ok(Some(_)));
        taken.transpose()
    }
}

impl Counts {
    /// A bad line: the end, or counted.
    fn refuse(&mut self, bad: BadLine, lenient: bool) -> Result<(), Error> {
        if !lenient {
            return Err(bad.into());
        }
        self.skipped += 1;
        if self.quoted.len() < QUOTED_MAX {
            self.quoted.push(bad);
        }
        Ok(())
    }
}

/// A job that waits until those before it are known.
struct Waiting {
    /// Jobs of one moment keep the order of the file.
    number: u64,
    line: u64,
    job: JobRecord,
}

impl Waiting {
    fn key(&self) -> (Millis, u64) {
        (self.job.submitted, self.number)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// One file, sorted.
struct Source {
    reader: Box<dyn TraceReader>,
    file: Arc<str>,
    format: Format,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Jobs read so far.
    number: u64,
    /// The latest moment that was handed over: nothing may come before it any more.
    handed: Millis,
    is_over: bool,
}

impl Source {
    fn open(path: &Path, format: Option<Format>, bytes: &Arc<AtomicU64>) -> Result<Self, Error> {
        let file: Arc<str> = Arc::from(path.display().to_string());
        let opened = File::open(path).map_err(|error| Error::Io { file: file.clone(), error })?;
        Self::read(Box::new(Counted { input: opened, bytes: bytes.clone() }), file, format)
    }

    fn read(input: Bytes, file: Arc<str>, format: Option<Format>) -> Result<Self, Error> {
        let (head, input) = unpack(input).map_err(|error| Error::Io { file: file.clone(), error })?;
        if head.iter().all(u8::is_ascii_whitespace) {
            return Err(Error::Empty { file });
        }
        let recognise = || {
            let unknown = |found| Error::Unknown { file: file.clone(), found, known: Format::known() };
            Format::recognise(&head).map_err(unknown)
        };
        let format = format.map_or_else(recognise, Ok)?;
        let input: Input = Box::new(Cursor::new(head).chain(input));
        let reader = (format.0.open)(input, file.clone())?;
        let waiting = BinaryHeap::new();
        Ok(Self { reader, file, format, waiting, number: 0, handed: Millis::ZERO, is_over: false })
    }

    /// The earliest job of those that can be seen.
    fn next(&mut self, lenient: bool, counts: &mut Counts) -> Result<Option<Waiting>, Error> {
        let reach = if self.format.0.order == Order::Submitted { 0 } else { SORTED_MAX };
        while !self.is_over && self.waiting.len() <= reach {
            let io = |error| Error::Io { file: self.file.clone(), error };
            match self.reader.next(&mut counts.notes).map_err(io)? {
                None => self.is_over = true,
                Some(Err(bad)) => counts.refuse(bad, lenient)?,
                Some(Ok((line, job))) if job.submitted < self.handed => {
                    let bad = self.out_of_order(line, &job);
                    if reach > 0 {
                        return Err(Error::Unsorted { bad, reach });
                    }
                    counts.refuse(bad, lenient)?;
                }
                Some(Ok((line, job))) => {
                    counts.read += 1;
                    self.number += 1;
                    self.waiting.push(Reverse(Waiting { number: self.number, line, job }));
                }
            }
        }
        let Some(Reverse(earliest)) = self.waiting.pop() else { return Ok(None) };
        self.handed = earliest.job.submitted;
        Ok(Some(earliest))
    }

    fn out_of_order(&self, line: u64, job: &JobRecord) -> BadLine {
        let (at, handed) = (job.submitted.as_millis(), self.handed.as_millis());
        let problem = format!("{at} ms is before the {handed} ms of an earlier line; sort the lines by it");
        Fault::new("(time of submission)", problem).at(&self.file, line)
    }
}

/// Counts what is read from a file.
struct Counted {
    input: File,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The beginning of the file and what follows it, both unpacked if they were packed.
///
/// # Errors
/// What the file system says, or the decoder.
pub fn unpack(input: Bytes) -> std::io::Result<(Vec<u8>, BufReader<Bytes>)> {
    let mut packed = BufReader::with_capacity(HEAD, input);
    let mut magic = Vec::new();
    packed.by_ref().take(2).read_to_end(&mut magic)?;
    let is_packed = magic == [0x1f, 0x8b];
    let whole = Cursor::new(magic).chain(packed);
    let plain: Bytes =
        if is_packed { Box::new(MultiGzDecoder::new(BufReader::with_capacity(HEAD, whole))) } else { Box::new(whole) };
    let mut plain = BufReader::with_capacity(HEAD, plain);
    let mut head = Vec::new();
    plain.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    Ok((head, plain))
}

/// Names that came before, as hashes of 64 bits: one false alarm is expected in some million files of full size.
#[derive(Default)]
struct Names {
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Names {
    fn is_new(&mut self, name: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let hash = hasher.finish();
        if !self.known.insert(hash) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > NAMES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}
