//! Properties over random trees: what goes in comes out, and no changed byte gets through.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod common;

use common::{Fixture, Tree, shard};
use leeway_data::open_store;
use proptest::prelude::*;

/// Trees that a program may save: names with awkward characters, some files empty, no two that meet.
fn trees() -> impl Strategy<Value = Tree> {
    let name = "[a-z0-9éß ._#%~\\[-]{1,12}";
    let path = prop::collection::vec(name, 1..4).prop_map(|parts| parts.join("/"));
    let bytes = prop::collection::vec(any::<u8>(), 0..300);
    prop::collection::btree_map(path, bytes, 0..8).prop_map(|mut tree| {
        let mut kept: Vec<String> = Vec::new();
        tree.retain(|path, _| {
            let fits = leeway_data::path::check_all(kept.iter().map(|path| &**path).chain([&**path])).is_ok();
            if fits {
                kept.push(path.clone());
            }
            fits
        });
        tree
    })
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_random_tree_comes_back_byte_for_byte(tree in trees(), folder in any::<bool>()) {
        run(async {
            let store = tempfile::tempdir().unwrap();
            let url = if folder { format!("file://{}", store.path().display()) } else { "memory:".into() };
            let fixture = Fixture::over(open_store(&url).unwrap());
            let checkpoint = fixture.committed(&shard(1, 1), &tree).await;
            assert_eq!(fixture.restore(&checkpoint).await.unwrap(), tree);
            let removal = fixture.repository.delete(&common::job(), checkpoint.id).await.unwrap();
            assert_eq!((removal.left, fixture.objects().await), (vec![], vec![]));
        });
    }

    #[test]
    fn k_03_any_changed_byte_is_detected(
        tree in trees(),
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        mask in 1_u8..,
    ) {
        run(async {
            let fixture = Fixture::new();
            let checkpoint = fixture.committed(&shard(1, 1), &tree).await;
            let mut objects = fixture.objects().await;
            // The upload record proves ownership and is no part of what is restored.
            objects.retain(|object| !object.ends_with("UPLOAD.json"));
            let object = which.get(&objects);
            let mut changed = false;
            fixture
                .change(object, |bytes| {
                    if !bytes.is_empty() {
                        let at = at.index(bytes.len());
                        bytes[at] ^= mask;
                        changed = true;
                    }
                })
                .await;
            match fixture.restore(&checkpoint).await {
                Ok(restored) => assert!(!changed && restored == tree, "a change of {object} got through"),
                Err(error) => assert!(changed && error.code() == "CHECKPOINT_DAMAGED", "{object}: {error}"),
            }
        });
    }
}
