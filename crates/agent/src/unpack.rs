//! Unpacking an uploaded archive: files, folders and links that stay inside, nothing else and nowhere else.

use std::fs::File;
use std::io;
use std::path::{Component, Path};

use tar::{Archive, Entry, EntryType};

/// Entries of one archive.
const ENTRIES_MAX: usize = 1_000_000;

/// Unpacks a tar file below `target`, which is made if need be. Stops at the first entry that must not be.
pub fn unpack(archive: &Path, target: &Path) -> io::Result<()> {
    std::fs::create_dir_all(target)?;
    let mut archive = Archive::new(io::BufReader::new(File::open(archive)?));
    for (number, entry) in archive.entries()?.enumerate() {
        if number == ENTRIES_MAX {
            return Err(refuse(&format!("the archive has more than {ENTRIES_MAX} entries")));
        }
        let mut entry = entry?;
        if entry.header().entry_type() == EntryType::XGlobalHeader {
            continue;
        }
        let path = check(&entry).map_err(|why| {
            let path = leeway_model::name::escape(&String::from_utf8_lossy(&entry.path_bytes()));
            refuse(&format!("the archive's entry '{path}' {why}"))
        })?;
        if !path {
            continue;
        }
        if !entry.unpack_in(target)? {
            return Err(refuse("an entry of the archive leads out of its folder"));
        }
    }
    Ok(())
}

/// Unpacks a mount: a folder at `target`, or one file there, when the archive holds only a file of that name.
pub fn unpack_mount(archive: &Path, target: &Path) -> io::Result<()> {
    let name = target.file_name().ok_or_else(|| refuse("a mount needs a name"))?;
    let parent = target.parent().unwrap_or(Path::new("."));
    if only_file(archive)?.is_some_and(|file| file == Path::new(name)) {
        return unpack(archive, parent);
    }
    unpack(archive, target)
}

/// The path of the only entry, when that is a file.
fn only_file(archive: &Path) -> io::Result<Option<std::path::PathBuf>> {
    let mut archive = Archive::new(io::BufReader::new(File::open(archive)?));
    let mut found = None;
    for entry in archive.entries()? {
        let entry = entry?;
        match entry.header().entry_type() {
            EntryType::XGlobalHeader => {}
            EntryType::Regular if found.is_none() => found = Some(entry.path()?.into_owned()),
            _ => return Ok(None),
        }
    }
    Ok(found)
}

/// Whether an entry is to be unpacked; an error says why it must not be there.
fn check<R: io::Read>(entry: &Entry<'_, R>) -> Result<bool, &'static str> {
    let path = entry.path().map_err(|_| "has no usable path")?;
    let mut names = 0;
    for part in path.components() {
        match part {
            Component::Normal(_) => names += 1,
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err("leads out of its folder"),
        }
    }
    match entry.header().entry_type() {
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse | EntryType::Directory => {}
        EntryType::Symlink => {
            let target = entry.link_name().ok().flatten().ok_or("links to nothing")?;
            if !stays_inside(names - 1, &target) {
                return Err("links out of its folder");
            }
        }
        EntryType::Link => {
            let target = entry.link_name().ok().flatten().ok_or("links to nothing")?;
            if !stays_inside(0, &target) {
                return Err("links out of its folder");
            }
        }
        _ => return Err("is neither file, folder nor link"),
    }
    Ok(names > 0)
}

/// Whether a path that starts `depth` folders deep never climbs above the top.
fn stays_inside(depth: i64, target: &Path) -> bool {
    let mut depth = depth;
    target.components().all(|part| {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir => depth -= 1,
            Component::RootDir | Component::Prefix(_) => return false,
        }
        depth >= 0
    })
}

fn refuse(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use tar::{Builder, Header};

    use super::*;

    enum Put<'a> {
        File(&'a str, &'a str),
        Link(EntryType, &'a str, &'a str),
        Other(EntryType, &'a str),
    }

    /// An archive with any names, also those that the library refuses to write.
    fn archive(dir: &Path, entries: &[Put<'_>]) -> std::path::PathBuf {
        let path = dir.join("archive.tar");
        let mut tar = Builder::new(File::create(&path).unwrap());
        for entry in entries {
            let mut header = Header::new_gnu();
            let (kind, name, link, text) = match entry {
                Put::File(name, text) => (EntryType::Regular, name, "", *text),
                Put::Link(kind, name, target) => (*kind, name, *target, ""),
                Put::Other(kind, name) => (*kind, name, "", ""),
            };
            header.set_entry_type(kind);
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
            header.set_size(text.len() as u64);
            header.set_mode(0o755);
            header.set_cksum();
            tar.append(&header, text.as_bytes()).unwrap();
        }
        tar.into_inner().unwrap();
        path
    }

    #[test]
    fn files_and_links_inside_are_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let tar = archive(
            dir.path(),
            &[
                Put::Other(EntryType::Directory, "./"),
                Put::File("src/run.sh", "echo"),
                Put::Link(EntryType::Symlink, "src/again", "../src/run.sh"),
                Put::Link(EntryType::Link, "hard", "src/run.sh"),
            ],
        );
        let target = dir.path().join("work");
        unpack(&tar, &target).unwrap();
        for file in ["src/run.sh", "src/again", "hard"] {
            assert_eq!(std::fs::read_to_string(target.join(file)).unwrap(), "echo", "{file}");
        }
    }

    #[test]
    fn k_06_nothing_leads_out_and_nothing_is_a_device() {
        for (entry, why) in [
            (Put::File("../out", "x"), "leads out"),
            (Put::File("a/../../out", "x"), "leads out"),
            (Put::File("/tmp/leeway-out", "x"), "leads out"),
            (Put::Link(EntryType::Symlink, "a", "/etc"), "links out"),
            (Put::Link(EntryType::Symlink, "a/b", "../../out"), "links out"),
            (Put::Link(EntryType::Link, "a", "../out"), "links out"),
            (Put::Other(EntryType::Char, "null"), "neither file"),
            (Put::Other(EntryType::Block, "disk"), "neither file"),
            (Put::Other(EntryType::Fifo, "pipe"), "neither file"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let tar = archive(dir.path(), &[entry]);
            let text = unpack(&tar, &dir.path().join("work")).unwrap_err().to_string();
            assert!(text.contains(why), "{text}");
            assert!(!dir.path().join("out").exists());
        }
    }

    #[test]
    fn a_mount_is_a_folder_or_a_single_file() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("work/labels.txt");
        unpack_mount(&archive(dir.path(), &[Put::File("labels.txt", "a")]), &target).unwrap();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "a");
        let folder = dir.path().join("work/labels");
        unpack_mount(&archive(dir.path(), &[Put::File("labels.txt", "b")]), &folder).unwrap();
        assert_eq!(std::fs::read_to_string(folder.join("labels.txt")).unwrap(), "b");
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "x", &"y".repeat(2_000)] {
            let path = dir.path().join("bad.tar");
            std::fs::write(&path, text).unwrap();
            let _ = unpack(&path, &dir.path().join("work"));
        }
    }
}
