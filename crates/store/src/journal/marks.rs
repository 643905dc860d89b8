//! How far the journal is known to be durable: the small file `journal/head`.
//!
//! After each flush the new head is written to one of two slots, in turn, without a sync of its own: a killed process
//! leaves it in the page cache, and a power cut leaves at worst an older one. It is synced when a segment is sealed,
//! on close, and once a second by the index thread. A journal that ends before its mark has lost acknowledged entries;
//! bad bytes after the mark are a torn write that nobody was answered for. The first mark is durable before a store has its
//! identity, so a store without any has been damaged, and nobody can say whether its journal is whole.

use std::path::Path;
use std::sync::Arc;

use crate::codec::Cursor;
use crate::files::{Files, LogFile, write_whole};
use crate::{Chain, Error, Head};

const MAGIC: &[u8; 8] = b"LEEWAYH\n";
const SLOT_BYTES: usize = 52;
/// Slots lie in blocks of their own, so that damage to one does not reach the other.
const SLOT_DISTANCE: u64 = 4096;
const NAME: &str = "head";

#[derive(Debug)]
pub(crate) struct Marks {
    file: Arc<dyn LogFile>,
    turn: u64,
}

impl Marks {
    /// Reads the newest mark; `None` when there is none that can be read. A store has one from its creation on.
    pub fn read(journal_dir: &Path) -> Result<Option<Head>, Error> {
        let slots = slots(journal_dir)?;
        Ok(slots.into_iter().flatten().max_by_key(|head| head.index))
    }

    /// Makes the file, in place of any other, with a first mark that is durable when this returns.
    pub fn create(files: &dyn Files, journal_dir: &Path, head: Head) -> Result<(), Error> {
        let path = journal_dir.join(NAME);
        write_whole(files, &path, &slot(head)).map_err(|error| Error::at(&path, error))
    }

    /// Opens the file for writing. The newest mark is overwritten last, so that a torn write leaves one.
    pub fn open(files: &dyn Files, journal_dir: &Path) -> Result<Marks, Error> {
        let path = journal_dir.join(NAME);
        let file = files.open(&path).map_err(|error| Error::at(&path, error))?;
        let [even, odd] = slots(journal_dir)?.map(|mark| mark.map(|head| head.index));
        Ok(Marks { file, turn: u64::from(odd > even) })
    }

    /// Notes a head that is durable. Failing is not fatal: the mark is evidence, not truth.
    pub fn note(&mut self, head: Head) {
        self.turn += 1;
        if let Err(error) = self.file.write_at(&slot(head), self.turn % 2 * SLOT_DISTANCE) {
            tracing::warn!(%error, "the mark of the durable head could not be written");
        }
    }

    /// The file, for syncing it from another thread.
    pub fn file(&self) -> Arc<dyn LogFile> {
        self.file.clone()
    }

    pub fn sync(&self) {
        if let Err(error) = self.file.sync() {
            tracing::warn!(%error, "the mark of the durable head could not be synced");
        }
    }
}

fn slots(journal_dir: &Path) -> Result<[Option<Head>; 2], Error> {
    let path = journal_dir.join(NAME);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Error::at(&path, error)),
    };
    Ok([0, SLOT_DISTANCE as usize].map(|at| bytes.get(at..).and_then(parse)))
}

fn slot(head: Head) -> Vec<u8> {
    let mut out = Vec::with_capacity(SLOT_BYTES);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&head.index.to_le_bytes());
    out.extend_from_slice(&head.chain.0);
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

fn parse(bytes: &[u8]) -> Option<Head> {
    let bytes = bytes.get(..SLOT_BYTES)?;
    let mut cursor = Cursor(bytes);
    if cursor.take(8)? != MAGIC {
        return None;
    }
    let (index, chain) = (cursor.u64()?, Chain(cursor.array()?));
    (cursor.u32()? == crc32fast::hash(&bytes[..SLOT_BYTES - 4])).then_some(Head { index, chain })
}
