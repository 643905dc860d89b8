//! Removing: what is provably ours goes, everything else stays and is named.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use common::{Fixture, id, job, shard, tree};
use leeway_data::faulty::{Fault, Op, Rule};
use leeway_data::{Published, Uncommitted, open_store};
use leeway_model::{Bytes, Timestamp};
use object_store::ObjectStoreExt;
use object_store::path::Path;

const LATER: Timestamp = Timestamp::from_millis(i64::MAX);

async fn put(fixture: &Fixture, object: &str, text: &str) {
    let bytes = text.as_bytes().to_vec();
    fixture.repository.store().put(&Path::parse(object).unwrap(), bytes.into()).await.unwrap();
}

fn left(removal: &leeway_data::Removal) -> Vec<&str> {
    removal.left.iter().map(|left| &*left.object).collect()
}

#[tokio::test]
async fn k_12_only_what_our_manifest_names_is_deleted() {
    let fixture = Fixture::new();
    let files = tree(&[("model", b"weights"), ("opt/state", b"x")]);
    let other = fixture.committed(&shard(1, 2), &files).await;
    fixture.committed(&shard(1, 1), &files).await;
    let foreign = [
        "lab/j-7/1/1/notes.txt",
        "lab/j-7/1/1/rank0/data/mine.txt",
        "lab/j-7/1/1/rank0/extra",
        "lab/j-7/1/1/rank01/data/x",
        "lab/j-7/1/1/rank9/data/model",
    ];
    for object in foreign {
        put(&fixture, object, "precious").await;
    }
    // A whole shard of another job, copied here with its manifest: it says itself that it belongs elsewhere.
    let stranger = leeway_data::ShardAt { job: leeway_model::JobId(8), ..shard(1, 1) };
    fixture.publish(&stranger, &files).await.unwrap();
    for file in ["MANIFEST.json", "UPLOAD.json", "data/model"] {
        let bytes = common::read_object(&fixture, &format!("lab/j-8/1/1/rank0/{file}")).await;
        put(&fixture, &format!("lab/j-7/1/1/rank5/{file}"), &String::from_utf8(bytes).unwrap()).await;
    }
    let removal = fixture.repository.delete(&job(), id(1, 1)).await.unwrap();
    let removed: BTreeSet<_> = removal.removed.iter().map(|object| object.replace("lab/j-7/1/1/rank0/", "")).collect();
    let expected = ["MANIFEST.json", "UPLOAD.json", "data/model", "data/opt/state"].map(str::to_owned);
    assert_eq!(removed, expected.into());
    for object in foreign.iter().chain(&["lab/j-7/1/1/rank5/data/model", "lab/j-7/1/1/rank5/MANIFEST.json"]) {
        assert!(left(&removal).contains(object), "{object} must be reported");
        assert!(fixture.objects().await.contains(&(*object).to_owned()), "{object} must stay");
    }
    assert_eq!(removal.left.len(), foreign.len() + 3);
    assert_eq!(fixture.restore(&other).await.unwrap(), files);
    assert_eq!(fixture.repository.delete(&job(), id(9, 9)).await.unwrap(), Default::default());
}

#[tokio::test]
async fn k_12_a_deletion_that_was_cut_short_can_be_finished() {
    let fixture = Fixture::new();
    fixture.committed(&shard(1, 1), &tree(&[("a", b"1"), ("b", b"2")])).await;
    let count = fixture.objects().await.len();
    for skip in 0..count {
        fixture.faults.set([Rule::new(Fault::Denied).on(Op::Delete).skip(skip)]);
        let outcome = fixture.repository.delete(&job(), id(1, 1)).await;
        if outcome.is_ok() {
            break;
        }
        assert_eq!(outcome.unwrap_err().code(), "STORE_DENIED");
    }
    fixture.faults.set([Rule::new(Fault::ReplyLost).on(Op::Delete).times(1)]);
    let removal = fixture.repository.delete(&job(), id(1, 1)).await.unwrap();
    assert_eq!(removal.left, []);
    assert_eq!(fixture.objects().await, Vec::<String>::new());
}

#[tokio::test]
async fn k_12_a_link_in_a_folder_never_leads_a_deletion_outside() {
    let store = tempfile::tempdir().unwrap();
    let fixture = Fixture::over(open_store(&format!("file://{}", store.path().display())).unwrap());
    fixture.committed(&shard(1, 1), &tree(&[("opt/state", b"x"), ("model", b"y")])).await;
    let data = store.path().join("lab/j-7/1/1/rank0/data");
    let outside = fixture.local.path().join("outside");
    fs::rename(data.join("opt"), &outside).unwrap();
    symlink(&outside, data.join("opt")).unwrap();
    let removal = fixture.repository.delete(&job(), id(1, 1)).await.unwrap();
    assert_eq!(left(&removal), ["lab/j-7/1/1/rank0/data/opt/state"]);
    assert_eq!(fs::read_to_string(outside.join("state")).unwrap(), "x");

    fixture.committed(&shard(1, 2), &tree(&[("model", b"y")])).await;
    let elsewhere = fixture.local.path().join("elsewhere");
    fs::rename(store.path().join("lab/j-7/1/2"), &elsewhere).unwrap();
    symlink(&elsewhere, store.path().join("lab/j-7/1/2")).unwrap();
    let removal = fixture.repository.delete(&job(), id(1, 2)).await.unwrap();
    assert_eq!((removal.removed.len(), left(&removal)), (0, vec!["lab/j-7/1/2"]));
    assert!(elsewhere.join("rank0/data/model").exists());
}

#[tokio::test]
async fn k_10_a_folder_is_empty_after_deletion_even_of_half_written_files() {
    let store = tempfile::tempdir().unwrap();
    let fixture = Fixture::over(open_store(&format!("file://{}", store.path().display())).unwrap());
    fixture.committed(&shard(1, 1), &tree(&[("opt/state", b"x"), ("model", b"y")])).await;
    let rank = store.path().join("lab/j-7/1/1/rank0");
    for staged in ["data/model#1", "data/opt/state#27", "MANIFEST.json#1"] {
        fs::write(rank.join(staged), "half").unwrap();
    }
    fs::write(rank.join("data/foreign#1"), "not ours").unwrap();
    fixture.repository.delete(&job(), id(1, 1)).await.unwrap();
    assert_eq!(common::read_tree(store.path()), tree(&[("lab/j-7/1/1/rank0/data/foreign#1", b"not ours")]));
    fs::remove_file(rank.join("data/foreign#1")).unwrap();

    fixture.committed(&shard(2, 1), &tree(&[("opt/state", b"x"), ("model", b"y")])).await;
    fs::write(store.path().join("lab/j-7/2/1/rank0/data/opt/state#1"), "half").unwrap();
    fixture.repository.delete(&job(), id(2, 1)).await.unwrap();
    assert!(!store.path().join("lab/j-7/2").exists(), "no folders are left behind");
}

#[tokio::test]
async fn only_old_uncommitted_data_of_finished_epochs_is_collected() {
    let fixture = Fixture::new();
    let files = tree(&[("m", b"x")]);
    let mut ids = Vec::new();
    for at in [shard(1, 1), shard(1, 2), shard(2, 1), shard(3, 1)] {
        let published = fixture.publish(&at, &files).await.unwrap();
        fixture.repository.write_pending(&at, 1, 5, &published).await.unwrap();
        ids.push(at.id());
    }
    put(&fixture, "lab/j-7/README", "people's").await;
    put(&fixture, "lab/j-7/01/1/rank0/data/m", "people's").await;
    put(&fixture, "lab/j-7/1/7/rank0/data/m", "without proof").await;
    let committed = BTreeSet::from([ids[0]]);
    let young = Uncommitted { committed: &committed, epochs_below: 3, begun_before: Timestamp::ZERO };
    assert_eq!(fixture.repository.collect_uncommitted(&job(), young).await.unwrap().removed, Vec::<String>::new());

    let old = Uncommitted { begun_before: LATER, ..young };
    let removal = fixture.repository.collect_uncommitted(&job(), old).await.unwrap();
    let strange = BTreeSet::from(["lab/j-7/README", "lab/j-7/01", "lab/j-7/1/7/rank0/data/m"]);
    assert_eq!(left(&removal).into_iter().collect::<BTreeSet<_>>(), strange);
    assert_eq!(removal.removed.len(), 2 * 4, "data, manifest, record and note of two checkpoints");
    let (notes, _) = fixture.repository.list_pending(&job()).await.unwrap();
    assert_eq!(notes.iter().map(|note| note.id()).collect::<Vec<_>>(), [ids[0], ids[3]]);
    let rest = fixture.objects().await;
    assert!(rest.iter().all(|object| !object.contains("j-7/1/2/") && !object.contains("j-7/2/1/")), "{rest:?}");
    for kept in [shard(1, 1), shard(3, 1)] {
        assert!(rest.contains(&kept.manifest().to_string()));
    }
}

#[tokio::test]
async fn notes_of_an_unreachable_scheduler_are_written_once_and_read_back() {
    let fixture = Fixture::new();
    let published = |byte| Published { manifest: [byte; 32], size: Bytes::new(10), files: 1 };
    for rank in [1, 0] {
        let at = job().shard(id(2, 5), rank);
        fixture.repository.write_pending(&at, 2, 77, &published(rank as u8)).await.unwrap();
        fixture.repository.write_pending(&at, 2, 77, &published(rank as u8)).await.unwrap();
        let other = fixture.repository.write_pending(&at, 2, 77, &published(9)).await.unwrap_err();
        assert_eq!(other.code(), "CHECKPOINT_CONFLICT");
    }
    fixture.repository.write_pending(&job().shard(id(2, 6), 0), 2, 78, &published(3)).await.unwrap();
    put(&fixture, "lab/j-7/pending/notes.txt", "people's").await;
    put(&fixture, "lab/j-7/pending/2-7.rank0.json", "{}").await;
    let (notes, strange) = fixture.repository.list_pending(&job()).await.unwrap();
    assert_eq!(strange.len(), 2);
    let whole = leeway_data::pending::whole(&notes);
    assert_eq!(whole.len(), 1, "the newer one lacks a rank");
    assert_eq!((whole[0].id, whole[0].step, whole[0].size.get()), (id(2, 5), 77, 20));
    assert_eq!(whole[0].manifests, [[0; 32], [1; 32]]);
    let removed = fixture.repository.remove_pending(&job(), id(2, 5)).await.unwrap();
    assert_eq!(removed, ["lab/j-7/pending/2-5.rank0.json", "lab/j-7/pending/2-5.rank1.json"]);
    assert_eq!(fixture.repository.list_pending(&job()).await.unwrap().0.len(), 1);
}
