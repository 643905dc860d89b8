//! A process that appends and acknowledges is killed at random moments; its parent, who read the acknowledgements,
//! then looks at what is left.

// Everything here is a test; the lint only knows functions marked as such.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use leeway_store::conformance::entries_of;
use leeway_store::{DiskStore, Options, Store};
use support::{assert_sound, assert_verified, busy_entry, identity, temp};

const DIR: &str = "LEEWAY_STORE_KILL_DIR";
const ROUNDS: u64 = 50;

fn options() -> Options {
    Options { segment_bytes: 16 * 1024, history_bytes: Some(1 << 20), ..Options::small() }
}

/// Not a test of its own: the process that is killed.
#[test]
#[ignore = "the child of the kill test"]
fn writer() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let mut store = DiskStore::open_or_init(Path::new(&dir), identity(), options()).unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "\nopen {}", store.head().index).unwrap();
    loop {
        let next = store.head().index + 1;
        for index in next..next + 1 + next % 4 {
            store.append(busy_entry(index)).unwrap();
        }
        let head = store.flush().unwrap();
        // One write: an acknowledgement is whole or was not given.
        out.write_all(format!("ack {}\n", head.index).as_bytes()).unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn s_01_a_writer_killed_at_any_moment_loses_nothing_it_acknowledged() {
    let dir = temp();
    let data = dir.path().join("data");
    let mut luck = 7u64;
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer", "--ignored", "--nocapture", "--test-threads=1"])
            .env(DIR, &data)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let patience = 1 + (luck >> 40) % 60;
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut acks = 0;
        let mut read = |line: String, acks: &mut u64| {
            if let Some(index) = line.strip_prefix("ack ").and_then(|index| index.parse::<u64>().ok()) {
                acknowledged = acknowledged.max(index);
                *acks += 1;
            }
        };
        while acks < patience {
            match lines.next() {
                Some(line) => read(line.unwrap(), &mut acks),
                None => panic!("round {round}: the writer ended by itself"),
            }
        }
        child.kill().unwrap();
        // What it still managed to say counts as well.
        lines.map_while(Result::ok).for_each(|line| read(line, &mut acks));
        child.wait().unwrap();

        let store = DiskStore::open(&data, options()).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let recovered = store.head().index;
        assert!(recovered >= acknowledged, "round {round}: {acknowledged} acknowledged, {recovered} recovered");
        let first = store.first_entry();
        let entries = entries_of(&store, first);
        assert!(
            entries == (first..=recovered).map(busy_entry).collect::<Vec<_>>(),
            "round {round}: the history has gaps"
        );
        if round % 5 == 0 || round + 1 == ROUNDS {
            assert_sound(&store);
        }
        // Half of the time the next writer finds a store that was closed, half of the time one that was not.
        if round % 2 == 0 { store.abandon() } else { assert!(store.close().is_ok()) }
    }
    assert!(acknowledged > 500, "only {acknowledged} entries: the test proves too little");
    DiskStore::open(&data, options()).unwrap().close().unwrap();
    assert_verified(&data);
}
