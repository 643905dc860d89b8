//! Output of runs: a file for each rank of each run, `<data>/logs/<job>/<run>-<rank>.log`.
//!
//! An agent sends its output with the offset of each piece. What lies before the durable end is dropped, so sending again
//! is harmless, and a server that restarts simply says how far it has come. A file stops growing at a bound; what comes
//! after is accepted and forgotten, and the file says so.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use leeway_model::{JobId, RunId};
use tokio::sync::watch;

use crate::files;

/// Bytes that are read at once.
pub const PIECE: usize = 64 << 10;
const CUT: &str = "\n[leeway: the output is longer than is kept; the rest was dropped]\n";

#[derive(Clone, Debug)]
pub struct Logs {
    root: Arc<PathBuf>,
    bytes_max: u64,
    /// Counts appends, so that followers need not poll quickly.
    grown: Arc<watch::Sender<u64>>,
}

/// Why a piece was not taken.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    #[error("offset {offset} is beyond the durable end {end}; send from there")]
    Gap { offset: u64, end: u64 },
    #[error("the output cannot be kept: {0}")]
    Io(#[from] io::Error),
}

impl Logs {
    pub fn new(root: PathBuf, bytes_max: u64) -> Self {
        Self { root: Arc::new(root), bytes_max, grown: Arc::new(watch::channel(0).0) }
    }

    fn path(&self, run: RunId, rank: u32) -> PathBuf {
        self.root.join(run.job.to_string()).join(format!("{run}-{rank}.log"))
    }

    /// Opens the output of a rank to add to it.
    pub fn writer(&self, run: RunId, rank: u32) -> io::Result<Writer> {
        let path = self.path(run, rank);
        if let Some(folder) = path.parent() {
            files::create_private_dir(folder)?;
        }
        let file = files::private().read(true).write(true).create(true).truncate(false).open(path)?;
        let len = file.metadata()?.len();
        Ok(Writer { file, end: len, bytes_max: self.bytes_max, grown: self.grown.clone() })
    }

    /// Bytes that are kept; 0 when there is no output yet.
    pub fn end(&self, run: RunId, rank: u32) -> io::Result<u64> {
        match fs::metadata(self.path(run, rank)) {
            Ok(found) => Ok(found.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// At most [`PIECE`] bytes from an offset; none at the end. A letter is not cut by the limit.
    pub fn read(&self, run: RunId, rank: u32, offset: u64) -> io::Result<Vec<u8>> {
        let mut file = match File::open(self.path(run, rank)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(offset))?;
        let mut piece = Vec::new();
        file.take(PIECE as u64).read_to_end(&mut piece)?;
        if piece.len() == PIECE {
            // More follows, and the next piece begins with the whole letter.
            piece.truncate(whole_letters(&piece));
        }
        Ok(piece)
    }

    /// Where the last `lines` lines begin.
    pub fn tail(&self, run: RunId, rank: u32, lines: u32) -> io::Result<u64> {
        let end = self.end(run, rank)?;
        if end == 0 || lines == 0 {
            return Ok(end);
        }
        let file = File::open(self.path(run, rank))?;
        let mut start = end;
        let mut seen = 0_u32;
        let mut block = vec![0; PIECE];
        while start > 0 {
            let from = start.saturating_sub(PIECE as u64);
            let block = &mut block[..(start - from) as usize];
            file.read_exact_at(block, from)?;
            for (place, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                // The newline that ends the last line is not the beginning of another one.
                if from + place as u64 + 1 == end {
                    continue;
                }
                seen += 1;
                if seen == lines {
                    return Ok(from + place as u64 + 1);
                }
            }
            start = from;
        }
        Ok(0)
    }

    /// Changes with every append to any output.
    pub fn grown(&self) -> watch::Receiver<u64> {
        self.grown.subscribe()
    }

    /// Jobs with output.
    pub fn jobs(&self) -> io::Result<Vec<JobId>> {
        let entries = match fs::read_dir(&*self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut jobs = Vec::new();
        for entry in entries {
            // What has another name is not ours.
            jobs.extend(entry?.file_name().to_str().and_then(|name| name.parse::<JobId>().ok()));
        }
        Ok(jobs)
    }

    /// Forgets the output of a job; how much there is of it does not matter.
    pub fn remove(&self, job: JobId) -> io::Result<()> {
        match fs::remove_dir_all(self.root.join(job.to_string())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Adds to one output. One at a time is enough: an agent sends in order, and a stale stream can only repeat.
#[derive(Debug)]
pub struct Writer {
    file: File,
    /// Bytes that the agent need not send again.
    end: u64,
    bytes_max: u64,
    grown: Arc<watch::Sender<u64>>,
}

impl Writer {
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Adds what is new of a piece.
    pub fn append(&mut self, offset: u64, data: &[u8]) -> Result<(), AppendError> {
        // Another stream of the same rank may have been quicker.
        self.end = self.end.max(self.file.metadata()?.len().min(self.bytes_max));
        let full = self.end >= self.bytes_max;
        if offset > self.end && !full {
            return Err(AppendError::Gap { offset, end: self.end });
        }
        let piece_end = offset.saturating_add(data.len() as u64);
        let fresh = data.len().saturating_sub(usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX));
        let fresh = &data[data.len() - fresh..];
        if fresh.is_empty() {
            return Ok(());
        }
        if full {
            self.end = piece_end;
            return Ok(());
        }
        let room = usize::try_from(self.bytes_max - self.end).unwrap_or(usize::MAX);
        let kept = &fresh[..fresh.len().min(room)];
        self.file.write_all_at(kept, self.end)?;
        if kept.len() < fresh.len() {
            self.file.write_all_at(CUT.as_bytes(), self.bytes_max)?;
        }
        self.end = piece_end;
        self.grown.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Makes what was added durable.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// How much of the bytes is left when the beginning of a letter of UTF-8 at their end is cut off. What is no beginning of a
/// letter stays: output need not be text.
pub fn whole_letters(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(3)..bytes.len();
    // The last byte that can begin a letter of several.
    let Some(begin) = last.rev().find(|at| bytes[*at] >= 0xc0) else { return bytes.len() };
    match std::str::from_utf8(&bytes[begin..]) {
        Err(error) if error.error_len().is_none() => begin,
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;

    fn logs(bytes_max: u64) -> (tempfile::TempDir, Logs, RunId) {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::new(folder.path().join("logs"), bytes_max);
        (folder, logs, RunId { job: JobId(4), epoch: 2 })
    }

    fn all(logs: &Logs, run: RunId) -> String {
        String::from_utf8(logs.read(run, 0, 0).unwrap()).unwrap()
    }

    #[test]
    fn what_was_kept_already_is_not_kept_twice() {
        let (_folder, logs, run) = logs(1 << 20);
        let mut writer = logs.writer(run, 0).unwrap();
        writer.append(0, b"one two ").unwrap();
        writer.append(0, b"one two ").unwrap();
        writer.append(4, b"two three").unwrap();
        assert_eq!((all(&logs, run).as_str(), writer.end()), ("one two three", 13));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let path = logs.path(run, 0);
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700), "output is its owner's alone");
        assert!(matches!(writer.append(20, b"x"), Err(AppendError::Gap { offset: 20, end: 13 })));
        let mut again = logs.writer(run, 0).unwrap();
        assert_eq!(again.end(), 13);
        again.append(8, b"three four").unwrap();
        assert_eq!(all(&logs, run), "one two three four");
        assert_eq!(logs.end(run, 1).unwrap(), 0);
        assert_eq!(logs.jobs().unwrap(), [run.job]);
        logs.remove(run.job).unwrap();
        assert_eq!((logs.jobs().unwrap().len(), logs.end(run, 0).unwrap()), (0, 0));
    }

    #[test]
    fn output_beyond_the_bound_is_dropped_and_said_to_be() {
        let (_folder, logs, run) = logs(10);
        let mut writer = logs.writer(run, 0).unwrap();
        writer.append(0, b"0123456").unwrap();
        writer.append(7, b"789abcdef").unwrap();
        writer.append(16, b"more").unwrap();
        assert_eq!(writer.end(), 20, "the agent need not send it again");
        assert_eq!(all(&logs, run), format!("0123456789{CUT}"));
    }

    #[test]
    fn a_piece_does_not_end_within_a_letter() {
        let (_folder, logs, run) = logs(1 << 20);
        let text = format!("x{}", "→".repeat(PIECE / 2));
        logs.writer(run, 0).unwrap().append(0, text.as_bytes()).unwrap();
        let mut read = String::new();
        while read.len() < text.len() {
            let piece = logs.read(run, 0, read.len() as u64).unwrap();
            read += std::str::from_utf8(&piece).expect("whole letters");
        }
        assert_eq!(read, text);
    }

    #[test]
    fn only_the_beginning_of_a_letter_is_cut_off() {
        for (bytes, whole) in [
            (&b""[..], 0),
            (b"abc", 3),
            ("a🦀".as_bytes(), 5),
            (&"a🦀".as_bytes()[..4], 1),
            (&"a🦀".as_bytes()[..2], 1),
            (&"→".as_bytes()[..2], 0),
            // No beginnings: a stray end, an impossible byte, an overlong form.
            (b"a\x80\x80\x80\x80", 5),
            (b"a\xff", 2),
            (b"a\xe0\x80", 3),
        ] {
            assert_eq!(whole_letters(bytes), whole, "{bytes:?}");
        }
    }

    #[test]
    fn the_tail_is_counted_in_lines() {
        let (_folder, logs, run) = logs(1 << 20);
        let text = "first\nsecond\nthird\n";
        logs.writer(run, 0).unwrap().append(0, text.as_bytes()).unwrap();
        let tail = |lines| text[logs.tail(run, 0, lines).unwrap() as usize..].to_owned();
        assert_eq!(tail(1), "third\n");
        assert_eq!(tail(2), "second\nthird\n");
        assert_eq!((tail(3), tail(9), tail(0)), (text.to_owned(), text.to_owned(), String::new()));
    }
}
