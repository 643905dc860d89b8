//! Files that fail on purpose: full disks, failing syncs, read-only directories, and power cuts that drop, tear or
//! reorder what was not synced.
//!
//! Works on real files below a real directory. For each file written through it, it remembers what a power cut would
//! leave (the bytes as of the last sync) and the writes since; [`FaultyFiles::power_cut`] then rewrites the real files
//! to one of the states that a disk may have kept. Renames and removals are treated as durable at once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Files, LogFile, RealFiles, Space, parent};
use crate::faulty::splitmix;

/// What a power cut does to writes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerCut {
    /// All of them are lost.
    DropAll,
    /// By luck of the seed: each is kept, lost, or torn in the middle, in no order.
    Scramble { seed: u64 },
}

#[derive(Debug)]
enum Pending {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
}

#[derive(Debug, Default)]
struct Tracked {
    durable: Vec<u8>,
    pending: Vec<Pending>,
    /// Bytes from the start of the file for which there is room whatever the quota; the quota has paid for them.
    promised: u64,
    /// The directory entry was synced since the file was created.
    entry_durable: bool,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<PathBuf, Tracked>,
    frozen: bool,
    read_only: bool,
    failing_syncs: BTreeSet<u64>,
    syncs: u64,
    /// Bytes that may still be written before the disk is full.
    quota: Option<u64>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct FaultyFiles {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct FaultyFile {
    path: Mutex<PathBuf>,
    state: Arc<Mutex<State>>,
    real: Arc<dyn LogFile>,
}

impl FaultyFiles {
    pub fn new() -> Self {
        FaultyFiles::default()
    }

    /// From now on so many bytes can be written; `None` lifts the limit. Removing a file gives its bytes back.
    pub fn set_quota(&self, bytes: Option<u64>) {
        self.lock().quota = bytes;
    }

    /// From now on every write says that the file system is read-only.
    pub fn set_read_only(&self, read_only: bool) {
        self.lock().read_only = read_only;
    }

    /// The sync that comes after `ahead` others fails with an I/O error.
    pub fn fail_sync(&self, ahead: u64) {
        let mut state = self.lock();
        let number = state.syncs + ahead;
        state.failing_syncs.insert(number);
    }

    /// How many syncs of files were asked for so far.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// From now on nothing reaches the files: the process is as good as dead.
    pub fn freeze(&self) {
        self.lock().frozen = true;
    }

    /// Rewrites the real files to a state that a power cut may leave, and works again afterwards.
    pub fn power_cut(&self, cut: PowerCut) -> io::Result<()> {
        let mut state = self.lock();
        let mut luck = match cut {
            PowerCut::DropAll => 0,
            PowerCut::Scramble { seed } => seed,
        };
        let scramble = matches!(cut, PowerCut::Scramble { .. });
        for (path, file) in std::mem::take(&mut state.files) {
            if !path.exists() {
                continue;
            }
            let keep_entry = file.entry_durable || (scramble && splitmix(&mut luck).is_multiple_of(2));
            if !keep_entry {
                std::fs::remove_file(&path)?;
                continue;
            }
            let mut bytes = file.durable;
            if scramble {
                for pending in file.pending {
                    apply_by_luck(&mut bytes, pending, &mut luck);
                }
            }
            std::fs::write(&path, &bytes)?;
        }
        state.frozen = false;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn apply_by_luck(bytes: &mut Vec<u8>, pending: Pending, luck: &mut u64) {
    match pending {
        Pending::Write { offset, bytes: written } => match splitmix(luck) % 3 {
            0 => {}
            1 => overwrite(bytes, offset, &written),
            _ => {
                let keep = splitmix(luck) as usize % (written.len() + 1);
                overwrite(bytes, offset, &written[..keep]);
            }
        },
        Pending::SetLen(len) if splitmix(luck).is_multiple_of(2) => bytes.resize(len as usize, 0),
        Pending::SetLen(_) => {}
    }
}

fn overwrite(bytes: &mut Vec<u8>, offset: u64, written: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + written.len());
    if written.is_empty() {
        return;
    }
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(written);
}

impl State {
    fn check(&self) -> io::Result<()> {
        if self.frozen {
            return Err(io::Error::other("the machine has no power"));
        }
        if self.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(())
    }
}

impl FaultyFile {
    fn with<T>(&self, act: impl FnOnce(&mut State, &Path) -> io::Result<T>) -> io::Result<T> {
        let path = self.path.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.check()?;
        act(&mut state, &path)
    }
}

impl LogFile for FaultyFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.with(|state, path| {
            let promised = state.files.get(path).map_or(0, |file| file.promised);
            let mut room = bytes.len();
            if let Some(quota) = &mut state.quota
                && offset + room as u64 > promised
            {
                room = room.min(*quota as usize);
                *quota -= room as u64;
            }
            // A full disk may keep the first part of a write, as the real one does.
            self.real.write_at(&bytes[..room], offset)?;
            let pending = Pending::Write { offset, bytes: bytes[..room].to_vec() };
            state.files.entry(path.to_path_buf()).or_default().pending.push(pending);
            if room < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        })
    }

    fn promise(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.with(|state, path| {
            let end = offset + len;
            let file = state.files.entry(path.to_path_buf()).or_default();
            let more = end.saturating_sub(offset.max(file.promised));
            if let Some(quota) = &mut state.quota {
                *quota = quota.checked_sub(more).ok_or(io::ErrorKind::StorageFull)?;
            }
            file.promised = file.promised.max(end);
            Ok(true)
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|state, path| {
            let before = std::fs::metadata(path).map_or(0, |meta| meta.len());
            self.real.set_len(len)?;
            let file = state.files.entry(path.to_path_buf()).or_default();
            let paid = before.max(std::mem::take(&mut file.promised));
            file.pending.push(Pending::SetLen(len));
            if let Some(quota) = &mut state.quota {
                *quota += paid.saturating_sub(len);
            }
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|state, path| {
            let number = state.syncs;
            state.syncs += 1;
            if state.failing_syncs.remove(&number) {
                return Err(io::Error::other("planned failure of a sync"));
            }
            let file = state.files.entry(path.to_path_buf()).or_default();
            for pending in file.pending.drain(..) {
                match pending {
                    Pending::Write { offset, bytes } => overwrite(&mut file.durable, offset, &bytes),
                    Pending::SetLen(len) => file.durable.resize(len as usize, 0),
                }
            }
            Ok(())
        })
    }
}

impl FaultyFiles {
    fn wrap(&self, path: &Path, real: Arc<dyn LogFile>) -> Arc<dyn LogFile> {
        Arc::new(FaultyFile { path: Mutex::new(path.to_path_buf()), state: self.state.clone(), real })
    }
}

impl Files for FaultyFiles {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let mut state = self.lock();
        state.check()?;
        let real = RealFiles.create(path)?;
        state.files.insert(path.to_path_buf(), Tracked::default());
        drop(state);
        Ok(self.wrap(path, real))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let mut state = self.lock();
        state.check()?;
        let real = RealFiles.open(path)?;
        if !state.files.contains_key(path) {
            // What an earlier process left counts as durable.
            let durable = std::fs::read(path)?;
            state.files.insert(path.to_path_buf(), Tracked { durable, entry_durable: true, ..Tracked::default() });
        }
        drop(state);
        Ok(self.wrap(path, real))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.check()?;
        let len = std::fs::metadata(path).map_or(0, |meta| meta.len());
        RealFiles.remove(path)?;
        let len = len.max(state.files.remove(path).map_or(0, |file| file.promised));
        if let Some(quota) = &mut state.quota {
            *quota += len;
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.check()?;
        RealFiles.rename(from, to)?;
        if let Some(mut file) = state.files.remove(from) {
            file.entry_durable = true;
            state.files.insert(to.to_path_buf(), file);
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.check()?;
        for (path, file) in &mut state.files {
            if parent(path) == dir {
                file.entry_durable = true;
            }
        }
        Ok(())
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        match self.lock().quota {
            Some(free) => Ok(Space { free, total: u64::MAX }),
            None => RealFiles.space(dir),
        }
    }
}
