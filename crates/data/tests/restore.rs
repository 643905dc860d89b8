//! Restoring: verified and whole, or the target stays as it was and the error says whose fault it is.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod common;

use std::fs;

use common::{Fixture, id, job, reference, shard, tree, write_tree};
use leeway_data::faulty::{Fault, Op, Rule};
use leeway_data::{Manifest, RestoreError, open_store};
use leeway_model::checkpoint::CheckpointRef;
use object_store::ObjectStoreExt;
use serde_json::{Value, json};

/// Damages the newest checkpoint and sees it condemned, while the one before still restores.
async fn check_damage(damage: impl AsyncFnOnce(&Fixture)) {
    let fixture = Fixture::new();
    let files = tree(&[("model", b"weights"), ("opt/state", b"momentum")]);
    let older = fixture.committed(&shard(1, 1), &files).await;
    let newer = fixture.committed(&shard(1, 2), &files).await;
    damage(&fixture).await;
    let condemned = fixture.restore(&newer).await.unwrap_err();
    assert_eq!(condemned.code(), "CHECKPOINT_DAMAGED", "{condemned}");
    assert!(condemned.condemns() && !condemned.retryable());
    let verified = fixture.repository.verify(&job(), &newer, true).await;
    assert_eq!(verified.unwrap_err().code(), "CHECKPOINT_DAMAGED");
    assert_eq!(fixture.restore(&older).await.unwrap(), files);
}

const MODEL: &str = "lab/j-7/1/2/rank0/data/model";
const MANIFEST: &str = "lab/j-7/1/2/rank0/MANIFEST.json";

#[tokio::test]
async fn k_02_an_empty_or_truncated_object_is_damage() {
    check_damage(async |fixture| fixture.change(MODEL, Vec::clear).await).await;
    check_damage(async |fixture| fixture.change(MODEL, |bytes| bytes.truncate(3)).await).await;
    check_damage(async |fixture| fixture.change(MODEL, |bytes| bytes.push(0)).await).await;
    check_damage(async |fixture| fixture.change(MANIFEST, Vec::clear).await).await;
    check_damage(async |fixture| fixture.change(MANIFEST, |bytes| bytes.truncate(99)).await).await;
    let remove = async |fixture: &Fixture, object: &str| {
        fixture.repository.store().delete(&object_store::path::Path::parse(object).unwrap()).await.unwrap();
    };
    check_damage(async |fixture| remove(fixture, MODEL).await).await;
    check_damage(async |fixture| remove(fixture, MANIFEST).await).await;
}

#[tokio::test]
async fn k_03_an_object_changed_later_is_damage() {
    check_damage(async |fixture| fixture.change(MODEL, |bytes| bytes[3] ^= 1).await).await;
    check_damage(async |fixture| fixture.change(MANIFEST, |bytes| bytes[30] ^= 1).await).await;
    // A manifest that was rewritten to fit the changed data is still not the committed one.
    check_damage(async |fixture| {
        let other = fixture.publish(&shard(1, 3), &tree(&[("model", b"WEIGHTS")])).await.unwrap();
        assert_ne!(other.manifest, [0; 32]);
        let bytes = common::read_object(fixture, "lab/j-7/1/3/rank0/MANIFEST.json").await;
        fixture.change(MANIFEST, |old| *old = bytes).await;
    })
    .await;
    // Bytes that change on the way are no different from bytes that changed at rest.
    check_damage(async |fixture| {
        fixture.faults.set([Rule::new(Fault::Flip { at: 6, mask: 0x80 }).on(Op::Get).object(MODEL)]);
    })
    .await;
    check_damage(async |fixture| {
        fixture.faults.set([Rule::new(Fault::Missing).on(Op::Get).object(MODEL)]);
    })
    .await;
}

#[tokio::test]
async fn k_03_a_damaged_error_names_object_and_both_values() {
    let fixture = Fixture::new();
    let checkpoint = fixture.committed(&shard(1, 2), &tree(&[("model", b"weights")])).await;
    fixture.change(MODEL, |bytes| *bytes = b"WEIGHTS".to_vec()).await;
    let Err(RestoreError::Damaged(damage)) = fixture.restore(&checkpoint).await else { panic!("must be damaged") };
    assert_eq!(damage.object, MODEL);
    assert_eq!(damage.expected, format!("sha256 {}", leeway_data::digest::hex(&leeway_data::digest::of(b"weights"))));
    assert_eq!(damage.found, format!("sha256 {}", leeway_data::digest::hex(&leeway_data::digest::of(b"WEIGHTS"))));
}

/// Commits a manifest that an attacker wrote.
async fn forged(fixture: &Fixture, change: impl FnOnce(&mut Value)) -> CheckpointRef {
    let mut checkpoint = fixture.committed(&shard(1, 2), &tree(&[("model", b"weights")])).await;
    let mut value: Value = serde_json::from_slice(&common::read_object(fixture, MANIFEST).await).unwrap();
    change(&mut value);
    let bytes = serde_json::to_vec(&value).unwrap();
    checkpoint.manifests = vec![leeway_data::manifest::digest(&bytes)];
    fixture.change(MANIFEST, |old| *old = bytes).await;
    checkpoint
}

#[tokio::test]
async fn k_06_nothing_is_written_for_a_manifest_with_an_unsafe_path() {
    for path in
        ["../escaped", "/tmp/escaped", "a/../../escaped", "a\\..\\escaped", "a\0", "", ".", "C:/escaped", "a//b"]
    {
        let fixture = Fixture::new();
        let checkpoint = forged(&fixture, |value| value["files"][0]["path"] = json!(path)).await;
        fixture.faults.set([]);
        let refused = fixture.restore(&checkpoint).await.unwrap_err();
        assert_eq!((refused.code(), refused.condemns()), ("MANIFEST_UNSAFE_PATH", true), "{path:?}");
        assert_eq!(fixture.faults.calls().len(), 1, "no data is even asked for");
        assert!(!fixture.local.path().join("escaped").exists());
    }
    for kind in ["symlink", "device"] {
        let fixture = Fixture::new();
        let checkpoint = forged(&fixture, |value| value["files"][0]["kind"] = json!(kind)).await;
        assert_eq!(fixture.restore(&checkpoint).await.unwrap_err().code(), "MANIFEST_UNSAFE_PATH");
    }
    for second in ["model", "Model", "model/x"] {
        let fixture = Fixture::new();
        let twice = |value: &mut Value| {
            let mut entry = value["files"][0].clone();
            entry["path"] = json!(second);
            value["files"].as_array_mut().unwrap().push(entry);
            value["total_size"] = json!(14);
        };
        let checkpoint = forged(&fixture, twice).await;
        assert_eq!(fixture.restore(&checkpoint).await.unwrap_err().code(), "MANIFEST_UNSAFE_PATH", "{second}");
    }
}

#[tokio::test]
async fn a_manifest_from_a_newer_version_is_not_condemned() {
    let fixture = Fixture::new();
    let checkpoint = forged(&fixture, |value| value["format"] = json!("leeway.ckpt.v2")).await;
    let unknown = fixture.restore(&checkpoint).await.unwrap_err();
    assert_eq!((unknown.code(), unknown.condemns()), ("MANIFEST_UNSUPPORTED", false));
}

#[tokio::test]
async fn k_13_a_gang_without_the_shard_of_one_rank_is_no_checkpoint() {
    let fixture = Fixture::new();
    let dir = fixture.local.path().join("saved");
    write_tree(&dir, &tree(&[("model", b"weights")]));
    let mut ranks = Vec::new();
    for rank in 0..3 {
        let at = job().shard(id(1, 1), rank);
        ranks.push(fixture.repository.publish(&at, 100, 3, &dir, |_| {}).await.unwrap());
    }
    let whole = reference(id(1, 1), &ranks);
    let verified = fixture.repository.verify(&job(), &whole, true).await.unwrap();
    assert_eq!((verified.files, verified.size), (3, whole.size));
    let dest = fixture.local.path().join("rank2");
    assert_eq!(fixture.repository.restore(&job(), &whole, 2, &dest).await.unwrap().step, 100);
    assert!(matches!(
        fixture.repository.restore(&job(), &whole, 3, &fixture.local.path().join("rank3")).await,
        Err(RestoreError::NoSuchRank { rank: 3, ranks: 3 })
    ));
    // A root with fewer or swapped ranks is not the gang that was saved.
    let fewer = reference(id(1, 1), &ranks[..2]);
    assert_eq!(fixture.repository.verify(&job(), &fewer, false).await.unwrap_err().code(), "CHECKPOINT_DAMAGED");
    let swapped = reference(id(1, 1), &[ranks[1], ranks[0], ranks[2]]);
    assert_eq!(fixture.repository.verify(&job(), &swapped, false).await.unwrap_err().code(), "CHECKPOINT_DAMAGED");
    assert!(fixture.repository.verify(&job(), &reference(id(1, 1), &[]), false).await.is_err());

    fixture.repository.store().delete(&job().shard(id(1, 1), 1).manifest()).await.unwrap();
    let gone = fixture.repository.verify(&job(), &whole, false).await.unwrap_err();
    assert!(matches!(&gone, RestoreError::Damaged(damage) if damage.object.contains("rank1/MANIFEST")), "{gone}");
}

#[tokio::test]
async fn k_09_a_store_that_holds_nothing_condemns_no_checkpoint() {
    let fixture = Fixture::new();
    let checkpoint = fixture.committed(&shard(1, 1), &tree(&[("model", b"weights")])).await;
    let empty = Fixture::new();
    let unmounted = empty.restore(&checkpoint).await.unwrap_err();
    assert_eq!((unmounted.code(), unmounted.retryable(), unmounted.condemns()), ("STORE_UNAVAILABLE", true, false));
    // Late visibility is not absence either, as long as the object then comes.
    fixture.faults.set([Rule::new(Fault::Unavailable).on(Op::Get).times(2)]);
    fixture.restore(&checkpoint).await.unwrap();
}

#[tokio::test]
async fn a_target_that_is_in_use_is_not_touched() {
    let fixture = Fixture::new();
    let checkpoint = fixture.committed(&shard(1, 1), &tree(&[("model", b"weights")])).await;
    let dest = fixture.local.path().join("deep/er/target");
    let restored = fixture.repository.restore(&job(), &checkpoint, 0, &dest).await.unwrap();
    assert_eq!((restored.step, restored.size.get()), (100, 7));
    fs::write(dest.join("model"), "in use").unwrap();
    let occupied = fixture.repository.restore(&job(), &checkpoint, 0, &dest).await.unwrap_err();
    assert!(matches!(occupied, RestoreError::Occupied { .. }));
    assert_eq!(common::read_tree(&dest), tree(&[("model", b"in use")]));
    let file = fixture.local.path().join("file");
    fs::write(&file, "mine").unwrap();
    assert!(matches!(
        fixture.repository.restore(&job(), &checkpoint, 0, &file).await,
        Err(RestoreError::Occupied { .. })
    ));
    assert!(matches!(
        fixture.repository.restore(&job(), &checkpoint, 0, &file.join("below")).await,
        Err(RestoreError::Local { .. })
    ));
}

#[tokio::test]
async fn a_cancelled_restore_leaves_nothing() {
    let fixture = Fixture::new();
    let checkpoint = fixture.committed(&shard(1, 1), &tree(&[("a", b"1"), ("b", b"2")])).await;
    fixture.faults.set([Rule::new(Fault::Hang).on(Op::Get).object("data/b")]);
    let (job, dest) = (job(), fixture.local.path().join("dest"));
    tokio::select! {
        outcome = fixture.repository.restore(&job, &checkpoint, 0, &dest) => panic!("{outcome:?}"),
        () = fixture.faults.hung() => {}
    }
    assert!(!dest.exists());
    // The piece that was being written holds the directory until it is.
    let began = std::time::Instant::now();
    while !common::leftovers(fixture.local.path()).is_empty() {
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "the directory of a cancelled restore stays");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn k_19_file_times_mean_nothing() {
    let store = tempfile::tempdir().unwrap();
    let fixture = Fixture::over(open_store(&format!("file://{}", store.path().display())).unwrap());
    let first = fixture.committed(&shard(1, 1), &tree(&[("m", b"older")])).await;
    let second = fixture.committed(&shard(1, 2), &tree(&[("m", b"newer")])).await;
    for (place, seconds) in [("1/1", 2_000_000_000), ("1/2", 1)] {
        for file in ["MANIFEST.json", "UPLOAD.json", "data/m"] {
            let path = store.path().join("lab/j-7").join(place).join("rank0").join(file);
            let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        }
    }
    assert!(second.id > first.id);
    assert_eq!(fixture.restore(&first).await.unwrap(), tree(&[("m", b"older")]));
    assert_eq!(fixture.restore(&second).await.unwrap(), tree(&[("m", b"newer")]));
}

#[tokio::test]
async fn k_12_a_tree_copied_to_another_store_restores_and_verifies() {
    let store = tempfile::tempdir().unwrap();
    let fixture = Fixture::over(open_store(&format!("file://{}", store.path().display())).unwrap());
    let files = tree(&[("model #1", b"weights"), ("opt/été", b"x")]);
    let checkpoint = fixture.committed(&shard(1, 1), &files).await;
    let copy = Fixture::new();
    for object in fixture.objects().await {
        let bytes = common::read_object(&fixture, &object).await;
        copy.repository.store().put(&object_store::path::Path::parse(&object).unwrap(), bytes.into()).await.unwrap();
    }
    copy.repository.verify(&job(), &checkpoint, true).await.unwrap();
    assert_eq!(copy.restore(&checkpoint).await.unwrap(), files);
    let manifest = Manifest::parse(&common::read_object(&copy, "lab/j-7/1/1/rank0/MANIFEST.json").await).unwrap();
    assert!(manifest.files.iter().all(|file| !file.path.starts_with('/')));
}
