//! Ready scenarios with bytes changed at random: whatever the text becomes, it is read or refused, never a panic.

use std::path::Path;

use leeway_simulations::fleet::scenario::{Named, READY, build::Choice};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Edit {
    Put(u8),
    Replace(u8),
    Remove(u8),
    /// A stretch again, right after itself.
    Repeat(u8),
}

fn edit() -> impl Strategy<Value = (prop::sample::Index, Edit)> {
    // Bytes that mean something to TOML or to a number are likelier to make a text that still reads.
    let byte = || prop_oneof![any::<u8>(), prop::sample::select(b"0123456789-.e\"[]{}=,\n naif".to_vec())];
    let edit = prop_oneof![
        1 => byte().prop_map(Edit::Put),
        4 => byte().prop_map(Edit::Replace),
        1 => (1_u8..40).prop_map(Edit::Remove),
        1 => (1_u8..80).prop_map(Edit::Repeat),
    ];
    (any::<prop::sample::Index>(), edit)
}

fn apply(text: &mut Vec<u8>, at: usize, edit: &Edit) {
    let end = |length: u8| (at + usize::from(length)).min(text.len());
    match edit {
        Edit::Put(byte) => text.insert(at, *byte),
        Edit::Replace(byte) => text[at] = *byte,
        Edit::Remove(length) => drop(text.drain(at..end(*length))),
        Edit::Repeat(length) => {
            let again = text[at..end(*length)].to_vec();
            text.splice(at..at, again);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_scenario_with_broken_bytes_is_read_or_refused(
        which in 0..READY.len(), edits in prop::collection::vec(edit(), 1..6), seed in any::<u64>(),
    ) {
        let mut text = READY[which].1.as_bytes().to_vec();
        for (at, edit) in &edits {
            if text.is_empty() {
                break;
            }
            let at = at.index(text.len());
            apply(&mut text, at, edit);
        }
        let text = String::from_utf8_lossy(&text);
        match Named::parse("broken", &text, Path::new("."), &[]) {
            Ok(named) => {
                let choice = Choice { policy: "whole-bill".parse().unwrap(), seed, checked: true };
                match named.setup(&choice) {
                    // The first jobs show whether the law can be drawn from.
                    Ok(setup) => drop(setup.workload.0.take(20).collect::<Vec<_>>()),
                    Err(error) => prop_assert!(!error.to_string().is_empty()),
                }
            }
            Err(error) => prop_assert!(error.to_string().starts_with("broken: "), "{}", error),
        }
    }
}
