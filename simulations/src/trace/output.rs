//! A file of jobs that is there as a whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::leeway::Writer;
use super::record::JobRecord;

/// Writes `leeway-jobs-v1` to a file beside the one that is asked for, which it replaces in the end. What is not finished
/// is removed. The file is packed when its name ends in `.gz`.
#[derive(Debug)]
pub struct Output {
    writer: Option<Writer<Sink>>,
    part: PathBuf,
    path: PathBuf,
}

#[derive(Debug)]
enum Sink {
    Plain(BufWriter<File>),
    Packed(GzEncoder<BufWriter<File>>),
}

impl Output {
    /// Begins a file.
    ///
    /// # Errors
    /// As the file system says.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = BufWriter::with_capacity(1 << 18, File::create(&part)?);
        let is_packed = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
        let sink =
            if is_packed { Sink::Packed(GzEncoder::new(file, Compression::default())) } else { Sink::Plain(file) };
        let mut output = Self { writer: None, part, path: path.to_owned() };
        output.writer = Some(Writer::new(sink)?);
        Ok(output)
    }

    /// Writes a job.
    ///
    /// # Errors
    /// As the file system says.
    pub fn write(&mut self, job: &JobRecord) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.write(job))
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// As the file system says.
    pub fn finish(mut self) -> io::Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let buffer = match writer.finish()? {
            Sink::Plain(file) => file,
            Sink::Packed(packer) => packer.finish()?,
        };
        buffer.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&self.part, &self.path)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // After `finish` there is nothing left to remove.
        let _ = fs::remove_file(&self.part);
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Packed(packer) => packer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Packed(packer) => packer.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{self, Status};
    use leeway_model::{Bytes, Millis};

    fn job() -> JobRecord {
        JobRecord {
            name: "a".to_owned(),
            submitted: Millis::ZERO,
            runtime: Millis::new(1),
            nodes: 1,
            gpus: 1,
            accelerator: None,
            cpus: 0,
            memory: Bytes::ZERO,
            team: String::new(),
            user: String::new(),
            status: Status::Done,
        }
    }

    #[test]
    fn a_file_that_was_not_finished_leaves_the_one_before_it() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["jobs.csv", "jobs.csv.gz"] {
            let path = folder.path().join(name);
            let mut output = Output::create(&path).unwrap();
            output.write(&job()).unwrap();
            output.finish().unwrap();
            let mut broken = Output::create(&path).unwrap();
            broken.write(&job()).unwrap();
            drop(broken);
            let read: Vec<_> = trace::open(&path, None, false).unwrap().map(Result::unwrap).collect();
            assert_eq!(read, [job()], "{name}");
            let packed = fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]);
            assert_eq!(packed, name.ends_with("gz"));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
