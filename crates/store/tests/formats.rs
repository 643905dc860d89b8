//! Stores and exports of another format are refused, with what to do.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::Path;

use leeway_store::{Error, FORMAT_VERSION, Options, export, import, verify};
use support::{code, copy_dir, files_below, fill, init, open, segments, snapshot, temp};

#[test]
fn s_15_a_newer_format_is_refused_naming_both_versions_and_nothing_is_written() {
    refuses_format(FORMAT_VERSION + 7, "STORE_FORMAT_NEWER", "use a newer program");
}

#[test]
fn s_15_an_older_format_is_refused_naming_both_versions_and_what_to_do() {
    refuses_format(FORMAT_VERSION - 1, "STORE_FORMAT_OLDER", "give this one a fresh data directory");
}

/// Gives every kind of file that carries a version this one, and looks at what is said and written.
fn refuses_format(version: u32, code_of_refusal: &str, advice: &str) {
    let (origin, away) = (temp(), temp());
    let mut store = init(origin.path());
    fill(&mut store, 10, 5);
    store.compact(u64::MAX).unwrap();
    store.close().unwrap();
    let check = |what: &str, refused: &Error| {
        assert_eq!(refused.code(), code_of_refusal, "{what}: {refused}");
        let text = refused.to_string();
        let versions = [format!("format {version},"), format!("reads only {FORMAT_VERSION}:")];
        assert!(text.contains(what) && versions.iter().all(|version| text.contains(version)), "{text}");
        assert!(text.contains(advice), "{text}");
    };

    type Change = (&'static str, fn(&Path, u32));
    let changes: [Change; 3] = [
        ("IDENTITY", |dir, version| {
            let text = fs::read_to_string(dir.join("IDENTITY")).unwrap();
            // Another program may have other fields, too.
            let (ours, theirs) = (format!("\"format\": {FORMAT_VERSION}"), format!("\"format\": {version}"));
            assert!(text.contains(&ours), "{text}");
            fs::write(dir.join("IDENTITY"), text.replace(&ours, &theirs).replace("\"installation\"", "\"place\""))
                .unwrap();
        }),
        ("journal/", |dir, version| {
            let path = segments(dir).pop().unwrap();
            let mut bytes = fs::read(&path).unwrap();
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            let crc = crc32fast::hash(&bytes[..52]).to_le_bytes();
            bytes[52..56].copy_from_slice(&crc);
            fs::write(&path, bytes).unwrap();
        }),
        ("base/", |dir, version| give_rows_version(&files_below(&dir.join("base")).pop().unwrap(), version)),
    ];
    for (what, change) in changes {
        let dir = temp();
        copy_dir(origin.path(), dir.path());
        change(dir.path(), version);
        fs::write(dir.path().join("index/snap.00.generating"), b"left").unwrap();
        let before = snapshot(dir.path());
        check(what, &open(dir.path()).unwrap_err());
        assert_eq!(code(verify(dir.path(), Options::small())), code_of_refusal);
        let file = away.path().join("none.export");
        assert_eq!(code(export(dir.path(), &file, Options::small())), code_of_refusal);
        assert!(before == snapshot(dir.path()) && !file.exists(), "{what}: something was written");
    }

    let (file, new) = (away.path().join("rows.export"), away.path().join("new"));
    export(origin.path(), &file, Options::small()).unwrap();
    give_rows_version(&file, version);
    check("rows.export", &import(&file, &new, "second", Options::small()).unwrap_err());
    assert!(!new.exists());
}

/// Gives a base or an export this format version, with a header that is whole.
fn give_rows_version(path: &Path, version: u32) {
    let mut bytes = fs::read(path).unwrap();
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    let len = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let crc = crc32fast::hash(&[&bytes[8..12], &bytes[20..20 + len]].concat()).to_le_bytes();
    bytes[16..20].copy_from_slice(&crc);
    fs::write(path, bytes).unwrap();
}
