//! A file with all rows as of one entry. As *base* it stands for the history before it inside a data directory; as
//! *portable export* it carries long values inline and moves a store to another place.
//!
//! ```text
//! header:  magic 8 | version 4 | length 4 | crc 4 | JSON {identity, head, portable}
//! row:     length 4 | crc 4 | key length 2 | key | kept value
//! trailer: 0xffff_ffff | row count 8 | SHA-256 of everything before it 32
//! ```
//!
//! Magic, version, length and CRC of the header stay the same in every later version.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::codec::{Cursor, MAX_ENTRY_BYTES, Value};
use crate::files::{Files, LogFile, parent, remove_if_there};
use crate::format::{self, FORMAT_VERSION};
use crate::{Chain, Error, Head, Identity, Index, Key};

const MAGIC: &[u8; 8] = b"LEEWAYX\n";
const END: u32 = u32::MAX;
const BUFFER_BYTES: usize = 256 * 1024;
/// A row is a key and a value; neither is longer than this together.
const MAX_ROW_BYTES: usize = MAX_ENTRY_BYTES + 4096;
const MAX_HEADER_BYTES: usize = 64 * 1024;

/// What an export says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub identity: Identity,
    pub head: Head,
    pub portable: bool,
}

#[derive(Serialize, Deserialize)]
struct HeaderJson {
    identity: Identity,
    index: Index,
    chain: [u8; 32],
    portable: bool,
}

/// Writes an export under a temporary name; only `finish` gives it its own.
#[derive(Debug)]
pub(crate) struct Writer {
    files: Arc<dyn Files>,
    file: Arc<dyn LogFile>,
    path: PathBuf,
    temporary: PathBuf,
    buffer: Vec<u8>,
    at: u64,
    count: u64,
    digest: Sha256,
    finished: bool,
}

/// Count of rows and length in bytes of a finished export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub rows: u64,
    pub bytes: u64,
}

impl Writer {
    pub fn create(files: Arc<dyn Files>, path: &Path, header: &Header) -> Result<Writer, Error> {
        let temporary = path.with_extension("tmp");
        let at = |error| Error::at(&temporary, error);
        remove_if_there(&*files, &temporary).map_err(at)?;
        let file = files.create(&temporary).map_err(at)?;
        let json = serde_json::to_vec(&HeaderJson {
            identity: header.identity.clone(),
            index: header.head.index,
            chain: header.head.chain.0,
            portable: header.portable,
        })
        .map_err(std::io::Error::from)?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + 4096);
        buffer.extend_from_slice(MAGIC);
        buffer.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        buffer.extend_from_slice(&(json.len() as u32).to_le_bytes());
        buffer.extend_from_slice(&header_crc(FORMAT_VERSION, &json).to_le_bytes());
        buffer.extend_from_slice(&json);
        let path = path.to_path_buf();
        let digest = Sha256::new();
        Ok(Writer { files, file, path, temporary, buffer, at: 0, count: 0, digest, finished: false })
    }

    pub fn row(&mut self, key: &[u8], value: &Value) -> Result<(), Error> {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 8]);
        self.buffer.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.buffer.extend_from_slice(key);
        value.put(&mut self.buffer);
        let body = &self.buffer[start + 8..];
        let (len, crc) = (body.len() as u32, crc32fast::hash(body));
        self.buffer[start..start + 4].copy_from_slice(&len.to_le_bytes());
        self.buffer[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
        self.count += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.spill()?;
        }
        Ok(())
    }

    /// Writes the trailer, makes everything durable, and gives the file its name.
    pub fn finish(mut self) -> Result<Written, Error> {
        self.spill()?;
        let digest = self.digest.clone().finalize();
        self.buffer.extend_from_slice(&END.to_le_bytes());
        self.buffer.extend_from_slice(&self.count.to_le_bytes());
        self.buffer.extend_from_slice(&digest);
        self.spill()?;
        let at = |error| Error::at(&self.path, error);
        self.file.sync().map_err(at)?;
        self.files.rename(&self.temporary, &self.path).map_err(at)?;
        self.finished = true;
        self.files.sync_dir(parent(&self.path)).map_err(at)?;
        Ok(Written { rows: self.count, bytes: self.at })
    }

    fn spill(&mut self) -> Result<(), Error> {
        self.digest.update(&self.buffer);
        self.file.write_at(&self.buffer, self.at).map_err(|error| Error::at(&self.temporary, error))?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.finished {
            // An export that was given up must not go on filling the disk.
            let _ = self.files.remove(&self.temporary);
        }
    }
}

/// Reads an export row by row. Only after `next` returned `None` is it known to be whole.
#[derive(Debug)]
pub(crate) struct ExportReader {
    pub header: Header,
    input: BufReader<File>,
    place: String,
    at: u64,
    count: u64,
    digest: Sha256,
    buffer: Vec<u8>,
}

impl ExportReader {
    /// `place` names the file in errors.
    pub fn open(path: &Path, place: &str) -> Result<ExportReader, Error> {
        let file = File::open(path).map_err(|error| Error::at(path, error))?;
        let mut reader = ExportReader {
            header: Header { identity: Identity::default(), head: Head::default(), portable: false },
            input: BufReader::with_capacity(BUFFER_BYTES, file),
            place: place.to_owned(),
            at: 0,
            count: 0,
            digest: Sha256::new(),
            buffer: Vec::new(),
        };
        reader.read_header()?;
        Ok(reader)
    }

    pub fn next(&mut self) -> Result<Option<(Key, Value)>, Error> {
        let before = self.digest.clone();
        self.fill(4)?;
        let len = Cursor(&self.buffer).u32().unwrap_or(END);
        if len == END {
            return self.trailer(before).map(|()| None);
        }
        if len as usize > MAX_ROW_BYTES {
            return Err(self.damaged("a row's length is beyond the limit"));
        }
        self.fill(4)?;
        let crc = Cursor(&self.buffer).u32();
        self.fill(len as usize)?;
        if crc != Some(crc32fast::hash(&self.buffer)) {
            return Err(self.damaged("a row's checksum does not match"));
        }
        let row = row(&self.buffer).ok_or_else(|| self.damaged("a row cannot be read"))?;
        self.count += 1;
        Ok(Some(row))
    }

    fn read_header(&mut self) -> Result<(), Error> {
        self.fill(20)?;
        let mut cursor = Cursor(&self.buffer);
        let is_ours = cursor.take(8) == Some(MAGIC);
        let (version, len, crc) = (cursor.u32(), cursor.u32(), cursor.u32());
        let (Some(version), Some(len), Some(crc)) = (version, len, crc) else {
            return Err(self.damaged("the header is cut short"));
        };
        if !is_ours || len as usize > MAX_HEADER_BYTES {
            return Err(self.damaged("this is not an export of a store"));
        }
        self.fill(len as usize)?;
        if crc != header_crc(version, &self.buffer) {
            return Err(self.damaged("the header's checksum does not match"));
        }
        format::check(self.place.clone(), version)?;
        let json: HeaderJson =
            serde_json::from_slice(&self.buffer).map_err(|_| self.damaged("the header cannot be read"))?;
        let head = Head { index: json.index, chain: Chain(json.chain) };
        self.header = Header { identity: json.identity, head, portable: json.portable };
        Ok(())
    }

    /// `digest` is that of everything before the trailer.
    fn trailer(&mut self, digest: Sha256) -> Result<(), Error> {
        let digest: [u8; 32] = digest.finalize().into();
        self.fill(40)?;
        let mut cursor = Cursor(&self.buffer);
        if cursor.u64() != Some(self.count) {
            return Err(self.damaged("the count of rows does not match"));
        }
        if cursor.array() != Some(digest) {
            return Err(self.damaged("the digest of the whole does not match"));
        }
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.damaged("something follows the end")),
            Err(error) => Err(error.into()),
        }
    }

    fn fill(&mut self, len: usize) -> Result<(), Error> {
        self.buffer.resize(len, 0);
        match self.input.read_exact(&mut self.buffer) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err(self.damaged("the file is cut short"));
            }
            Err(error) => return Err(error.into()),
        }
        self.digest.update(&self.buffer);
        self.at += len as u64;
        Ok(())
    }

    fn damaged(&self, reason: &str) -> Error {
        Error::corrupt(self.place.clone(), self.at, reason)
    }
}

fn header_crc(version: u32, json: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&version.to_le_bytes());
    hasher.update(json);
    hasher.finalize()
}

fn row(body: &[u8]) -> Option<(Key, Value)> {
    let mut cursor = Cursor(body);
    let len = cursor.u16()?;
    let key = cursor.take(len as usize)?;
    Some((key.into(), Value::parse(cursor.0)?))
}

/// The base of a data directory.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub path: PathBuf,
    pub place: String,
    pub head: Head,
    /// Digests of the blobs its rows name.
    pub blobs: Vec<[u8; 32]>,
    pub bytes: u64,
}

/// Path of the base as of `index`.
pub(crate) fn base_path(data_dir: &Path, index: Index) -> PathBuf {
    data_dir.join("base").join(format!("{index:020}.base"))
}

/// All base files, newest first.
pub(crate) fn base_files(data_dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let dir = data_dir.join("base");
    let names = crate::files::names(&dir).map_err(|error| Error::at(&dir, error))?;
    Ok(names.iter().rev().filter(|name| name.ends_with(".base")).map(|name| dir.join(name)).collect())
}

impl Base {
    /// Reads a base to its end, so that it is known to be whole.
    pub fn check(path: &Path) -> Result<Base, Error> {
        let mut reader = Base::reader(path)?;
        let mut blobs = Vec::new();
        while let Some((_, value)) = reader.next()? {
            if let Value::Blob(blob) = value {
                blobs.push(blob.digest);
            }
        }
        let bytes = std::fs::metadata(path).map_or(0, |meta| meta.len());
        Ok(Base { path: path.to_path_buf(), place: base_place(path), head: reader.header.head, blobs, bytes })
    }

    /// A base that was written just now.
    pub fn written(path: &Path, head: Head, blobs: Vec<[u8; 32]>, bytes: u64) -> Base {
        Base { path: path.to_path_buf(), place: base_place(path), head, blobs, bytes }
    }

    pub fn reader(path: &Path) -> Result<ExportReader, Error> {
        ExportReader::open(path, &base_place(path))
    }
}

pub(crate) fn base_place(path: &Path) -> String {
    format!("base/{}", path.file_name().unwrap_or_default().to_string_lossy())
}
