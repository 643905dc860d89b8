//! Publishing under faults: there is a manifest only when everything it names is there.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;

use bytes::Bytes;
use common::{Fixture, QUICK, id, job, reference, shard, tree, write_tree};
use leeway_data::faulty::{Fault, Op, Rule};
use leeway_data::{Class, Patience, PublishError, RestoreError, open_store};
use leeway_model::Timestamp;

#[tokio::test]
async fn a_published_directory_comes_back_whole() {
    let fixture = Fixture::new();
    let files =
        tree(&[("model.bin", b"weights"), ("opt/state #1.bin", b""), ("opt/été~.txt", b"x"), ("opt/READY", b"y")]);
    let mut saved = files.clone();
    saved.insert("READY".into(), b"step=100".to_vec());
    let checkpoint = fixture.committed(&shard(1, 1), &saved).await;
    assert_eq!(fixture.restore(&checkpoint).await.unwrap(), files, "the READY marker is no part of the state");
    let verified = fixture.repository.verify(&job(), &checkpoint, true).await.unwrap();
    assert_eq!((verified.files, verified.size.get()), (4, 9));
}

#[tokio::test]
async fn the_manifest_is_the_last_thing_written() {
    let fixture = Fixture::new();
    fixture.publish(&shard(1, 1), &tree(&[("a", b"1"), ("b", b"2")])).await.unwrap();
    let writes: Vec<_> =
        fixture.faults.calls().into_iter().filter(|(op, _)| *op == Op::Put).map(|call| call.1).collect();
    assert!(writes.first().unwrap().ends_with("UPLOAD.json"), "{writes:?}");
    assert!(writes.last().unwrap().ends_with("MANIFEST.json"), "{writes:?}");
    assert_eq!(writes.len(), 4);
}

#[tokio::test]
async fn k_01_killed_anywhere_in_an_upload_leaves_a_whole_checkpoint_or_none() {
    let files = tree(&[("a", b"first"), ("b/c", b"second"), ("d", b"third")]);
    let fixture = Fixture::new();
    fixture.publish(&shard(1, 1), &files).await.unwrap();
    let calls = fixture.faults.calls().len();
    assert!(calls > 10);
    for killed_at in 0..calls {
        let fixture = Fixture::new();
        let before = fixture.committed(&shard(1, 1), &files).await;
        fixture.faults.set([Rule::new(Fault::Hang).skip(killed_at)]);
        let at = shard(1, 2);
        tokio::select! {
            outcome = fixture.publish(&at, &files) => panic!("call {killed_at} never came: {outcome:?}"),
            () = fixture.faults.hung() => {}
        }
        fixture.faults.set([]);
        if fixture.objects().await.contains(&at.manifest().to_string()) {
            // Whole but uncommitted; publishing again is how a successor learns its digest.
            let published = fixture.publish(&at, &files).await.unwrap();
            fixture.repository.verify(&job(), &reference(at.id(), &[published]), true).await.unwrap();
        }
        assert_eq!(fixture.restore(&before).await.unwrap(), files);

        let committed = [before.id].into();
        let later = Timestamp::from_millis(i64::MAX);
        let which = leeway_data::Uncommitted { committed: &committed, epochs_below: 2, begun_before: later };
        let removal = fixture.repository.collect_uncommitted(&job(), which).await.unwrap();
        assert_eq!(removal.left, []);
        let rest = fixture.objects().await;
        assert!(rest.iter().all(|object| object.starts_with("lab/j-7/1/1/")), "killed at {killed_at}: {rest:?}");
        assert_eq!(fixture.restore(&before).await.unwrap(), files);
    }
}

#[tokio::test]
async fn k_01_an_interrupted_upload_can_be_finished_under_its_id() {
    let fixture = Fixture::new();
    let files = tree(&[("a", b"first"), ("b", b"second")]);
    fixture.faults.set([Rule::new(Fault::Denied).on(Op::Put).object("/data/b")]);
    let refused = fixture.publish(&shard(1, 1), &files).await.unwrap_err();
    assert_eq!((refused.code(), refused.retryable()), ("STORE_DENIED", false));
    fixture.faults.set([]);
    let checkpoint = fixture.committed(&shard(1, 1), &files).await;
    assert_eq!(fixture.restore(&checkpoint).await.unwrap(), files);
}

#[tokio::test]
async fn k_02_a_torn_object_is_noticed_before_the_manifest() {
    for keep in [0, 3] {
        let fixture = Fixture::new();
        fixture.faults.set([Rule::new(Fault::Torn { keep }).on(Op::Put).object("/data/")]);
        let torn = fixture.publish(&shard(1, 1), &tree(&[("model", b"weights")])).await.unwrap_err();
        let PublishError::Damaged(damage) = torn else { panic!("{torn}") };
        assert_eq!((&*damage.expected, damage.found), ("7 bytes", format!("{keep} bytes")));
        assert!(!fixture.objects().await.contains(&shard(1, 1).manifest().to_string()));
    }
}

#[tokio::test]
async fn k_02_a_torn_manifest_or_object_is_noticed_by_the_read_back() {
    let check = async |rule: Rule| {
        let fixture = Fixture::new();
        fixture.faults.set([rule]);
        let torn = fixture.publish(&shard(1, 1), &tree(&[("model", b"weights")])).await;
        assert_eq!(torn.unwrap_err().code(), "CHECKPOINT_DAMAGED");
    };
    check(Rule::new(Fault::Torn { keep: 20 }).on(Op::Put).object("MANIFEST.json")).await;
    check(Rule::new(Fault::Flip { at: 30, mask: 1 }).on(Op::Get).object("MANIFEST.json")).await;
}

#[tokio::test]
async fn k_07_two_epochs_publish_the_same_step_side_by_side() {
    let fixture = Fixture::new();
    let old = fixture.committed(&shard(1, 9), &tree(&[("m", b"old epoch")])).await;
    let new = fixture.committed(&shard(2, 9), &tree(&[("m", b"new epoch")])).await;
    assert_eq!(fixture.restore(&old).await.unwrap(), tree(&[("m", b"old epoch")]));
    assert_eq!(fixture.restore(&new).await.unwrap(), tree(&[("m", b"new epoch")]));
    // A digest committed for one epoch opens nothing in the other.
    let mixed = leeway_model::checkpoint::CheckpointRef { id: new.id, ..old };
    assert_eq!(fixture.restore(&mixed).await.unwrap_err().code(), "CHECKPOINT_DAMAGED");
    // Bytes of one epoch copied over the other's place, with their manifest committed there, still name their epoch.
    for file in ["MANIFEST.json", "data/m"] {
        let from = format!("lab/j-7/1/9/rank0/{file}");
        let bytes = common::read_object(&fixture, &from).await;
        fixture.change(&format!("lab/j-7/2/9/rank0/{file}"), |old| *old = bytes).await;
    }
    assert!(
        matches!(fixture.restore(&mixed).await, Err(RestoreError::Damaged(damage)) if damage.found.contains("1/9"))
    );
}

#[tokio::test]
async fn k_08_publishing_the_same_again_is_the_same_answer() {
    let fixture = Fixture::new();
    let files = tree(&[("a", b"first"), ("b", b"second")]);
    let first = fixture.publish(&shard(1, 1), &files).await.unwrap();
    fixture.faults.set([]);
    assert_eq!(fixture.publish(&shard(1, 1), &files).await.unwrap(), first);
    assert!(fixture.faults.calls().iter().all(|(op, _)| *op != Op::Put), "nothing is written twice");

    for other in [tree(&[("a", b"first"), ("b", b"sECOND")]), tree(&[("a", b"first")])] {
        let refused = fixture.publish(&shard(1, 1), &other).await.unwrap_err();
        assert_eq!(refused.code(), "CHECKPOINT_CONFLICT");
    }
    assert_eq!(fixture.restore(&reference(id(1, 1), &[first])).await.unwrap(), files);
}

#[tokio::test]
async fn k_08_a_lost_reply_to_any_write_is_harmless() {
    let files = tree(&[("a", b"first")]);
    for object in ["UPLOAD.json", "/data/a", "MANIFEST.json"] {
        let fixture = Fixture::new();
        fixture.faults.set([Rule::new(Fault::ReplyLost).on(Op::Put).object(object).times(1)]);
        let checkpoint = fixture.committed(&shard(1, 1), &files).await;
        assert_eq!(fixture.restore(&checkpoint).await.unwrap(), files);
    }
}

#[tokio::test]
async fn k_08_somebody_elses_manifest_is_never_replaced() {
    let fixture = Fixture::new();
    let bytes = Bytes::from_static(b"{\"format\":\"other\"}");
    fixture.faults.set([Rule::new(Fault::Raced { bytes: bytes.clone() }).on(Op::Put).object("MANIFEST.json").times(1)]);
    let files = tree(&[("a", b"first")]);
    for _ in 0..2 {
        assert_eq!(fixture.publish(&shard(1, 1), &files).await.unwrap_err().code(), "CHECKPOINT_CONFLICT");
        assert_eq!(common::read_object(&fixture, shard(1, 1).manifest().as_ref()).await, bytes);
    }
}

#[tokio::test]
async fn k_09_unavailability_is_ridden_out_or_reported_as_retryable() {
    let files = tree(&[("a", b"first"), ("b", b"second")]);
    let fixture = Fixture::new();
    fixture.faults.set([
        Rule::new(Fault::Unavailable).on(Op::Put).times(3),
        Rule::new(Fault::TornLost { keep: 2 }).on(Op::Put).object("/data/").times(2),
        Rule::new(Fault::Unavailable).on(Op::Get).skip(1).times(2),
        Rule::new(Fault::Unavailable).on(Op::Head).times(2),
        Rule::new(Fault::Missing).on(Op::List).times(1),
    ]);
    let checkpoint = fixture.committed(&shard(1, 1), &files).await;
    fixture.faults.set([Rule::new(Fault::Unavailable).times(3)]);
    assert_eq!(fixture.restore(&checkpoint).await.unwrap(), files);

    let fixture = Fixture { repository: fixture.repository.clone().with_patience(Patience::NONE), ..fixture };
    fixture.faults.set([Rule::new(Fault::Unavailable)]);
    let down = fixture.publish(&shard(1, 2), &files).await.unwrap_err();
    assert_eq!((down.code(), down.retryable()), ("STORE_UNAVAILABLE", true));
    let down = fixture.restore(&checkpoint).await.unwrap_err();
    assert_eq!((down.code(), down.retryable(), down.condemns()), ("STORE_UNAVAILABLE", true, false));
    fixture.faults.set([Rule::new(Fault::Denied)]);
    let denied = fixture.restore(&checkpoint).await.unwrap_err();
    assert_eq!((denied.code(), denied.retryable(), denied.condemns()), ("STORE_DENIED", false, false));
}

#[tokio::test]
async fn k_10_a_full_store_is_its_own_class_and_commits_nothing() {
    for (op, object) in [(Op::Put, "UPLOAD"), (Op::Put, "/data/b"), (Op::Put, "MANIFEST")] {
        let fixture = Fixture::new();
        let files = tree(&[("a", b"first"), ("b", b"second")]);
        let before = fixture.committed(&shard(1, 1), &files).await;
        fixture.faults.set([Rule::new(Fault::Full).on(op).object(object)]);
        let full = fixture.publish(&shard(1, 2), &files).await.unwrap_err();
        assert!(matches!(&full, PublishError::Store(error) if error.class == Class::Full), "{full}");
        assert_eq!((full.code(), full.retryable()), ("STORE_FULL", false));
        let tries =
            fixture.faults.calls().iter().filter(|call| call.1.contains("1/2") && call.1.contains(object)).count();
        assert!(tries <= 2, "a full store is not tried again");
        assert!(!fixture.objects().await.contains(&shard(1, 2).manifest().to_string()));
        // Room can be made: what the failed upload left goes, and the newest committed one stays.
        let removal = fixture.repository.delete(&job(), id(1, 2)).await.unwrap();
        assert_eq!(removal.left, []);
        assert!(fixture.objects().await.iter().all(|object| object.contains("/1/1/")));
        assert_eq!(fixture.restore(&before).await.unwrap(), files);
    }
}

#[tokio::test]
async fn a_full_part_of_a_large_file_commits_nothing() {
    let fixture = Fixture::new();
    let files = tree(&[("large", &vec![7; 20 << 20])]);
    fixture.faults.set([Rule::new(Fault::Full).on(Op::Part).skip(1).times(1)]);
    assert_eq!(fixture.publish(&shard(1, 1), &files).await.unwrap_err().code(), "STORE_FULL");
    assert_eq!(fixture.objects().await, [shard(1, 1).upload().to_string()]);
    fixture.faults.set([Rule::new(Fault::Unavailable).on(Op::Part).skip(2).times(1)]);
    let checkpoint = fixture.committed(&shard(1, 1), &files).await;
    assert_eq!(fixture.restore(&checkpoint).await.unwrap(), files);
}

#[tokio::test]
async fn k_06_links_and_special_files_are_refused_by_name() {
    let fixture = Fixture::new();
    let check = async |prepare: &dyn Fn(&std::path::Path), part: &str| {
        let dir = tempfile::tempdir().unwrap();
        write_tree(dir.path(), &tree(&[("sub/model", b"weights")]));
        prepare(dir.path());
        let refused = fixture.repository.publish(&shard(1, 1), 1, 1, dir.path(), |_| {}).await.unwrap_err();
        assert_eq!(refused.code(), "MANIFEST_UNSAFE_PATH");
        assert!(refused.to_string().contains(part), "{refused}");
    };
    check(&|dir| symlink("/etc/passwd", dir.join("sub/link")).unwrap(), "'sub/link' is a symbolic link").await;
    check(&|dir| symlink("sub", dir.join("dirlink")).unwrap(), "'dirlink' is a symbolic link").await;
    check(&|dir| drop(std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap()), "'socket' is neither")
        .await;
    check(&|dir| fs::write(dir.join("back\\slash"), "").unwrap(), "backslash").await;
    check(&|dir| fs::write(dir.join("e\u{301}"), "").unwrap(), "normal form").await;
    check(&|dir| fs::write(dir.join("Sub"), "").unwrap(), "case").await;
    let not_utf8 = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff");
    check(&|dir| fs::write(dir.join::<&std::ffi::OsStr>(not_utf8), "").unwrap(), "UTF-8").await;
    assert_eq!(fixture.objects().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_file_that_changes_after_the_walk_is_noticed() {
    let check = async |change: &dyn Fn(&std::path::Path), code: &str| {
        let fixture = Fixture::new();
        let dir = fixture.local.path().join("saved");
        write_tree(&dir, &tree(&[("model", b"weights"), ("other", b"others.")]));
        // The walk is over when the record is written.
        fixture.faults.set([Rule::new(Fault::Hang).on(Op::Put).object("UPLOAD")]);
        let at = shard(1, 1);
        let publish = fixture.repository.publish(&at, 1, 1, &dir, |_| {});
        let interfere = async {
            fixture.faults.hung().await;
            change(&dir.join("model"));
            fixture.faults.set([]);
        };
        let (outcome, ()) = tokio::join!(publish, interfere);
        assert_eq!(outcome.unwrap_err().code(), code);
        assert!(!fixture.objects().await.contains(&shard(1, 1).manifest().to_string()));
    };
    check(&|file| fs::write(file, "weights and more").unwrap(), "CHECKPOINT_CHANGED").await;
    check(&|file| fs::write(file, "").unwrap(), "CHECKPOINT_CHANGED").await;
    let replace = |file: &std::path::Path| {
        let spare = file.parent().unwrap().with_file_name("spare");
        fs::write(&spare, "WEIGHTS").unwrap();
        fs::rename(spare, file).unwrap();
    };
    check(&replace, "CHECKPOINT_CHANGED").await;
    check(&|file| fs::remove_file(file).unwrap(), "CHECKPOINT_UNREADABLE").await;
    let link = |file: &std::path::Path| {
        fs::remove_file(file).unwrap();
        symlink("other", file).unwrap();
    };
    check(&link, "CHECKPOINT_UNREADABLE").await;
}

#[tokio::test]
async fn progress_counts_each_byte_once_even_when_tried_again() {
    let fixture = Fixture::new();
    let dir = tempfile::tempdir().unwrap();
    write_tree(dir.path(), &tree(&[("large", &vec![1; 17 << 20]), ("small", b"abc")]));
    fixture.faults.set([
        Rule::new(Fault::Unavailable).on(Op::Part).skip(2).times(1),
        Rule::new(Fault::Unavailable).on(Op::Complete).times(1),
    ]);
    let mut sum = 0;
    let progress = |more: leeway_model::Bytes| sum += more.get();
    let published = fixture.repository.publish(&shard(1, 1), 1, 1, dir.path(), progress).await.unwrap();
    assert_eq!((sum, published.size.get()), ((17 << 20) + 3, (17 << 20) + 3));
}

#[tokio::test]
async fn a_rank_outside_its_gang_is_refused() {
    let fixture = Fixture::new();
    let dir = tempfile::tempdir().unwrap();
    let at = job().shard(id(1, 1), 2);
    let refused = fixture.repository.publish(&at, 1, 2, dir.path(), |_| {}).await.unwrap_err();
    assert_eq!(refused.code(), "NO_SUCH_RANK");
}

#[tokio::test]
async fn a_large_file_is_streamed_through_a_folder() {
    let store = tempfile::tempdir().unwrap();
    let url = format!("file://{}", store.path().display());
    let fixture = Fixture::over(open_store(&url).unwrap().with_patience(QUICK));
    let dir = fixture.local.path().join("saved");
    fs::create_dir(&dir).unwrap();
    let file = fs::File::create(dir.join("model.bin")).unwrap();
    // Past the end of the first 64 MiB chunk, and small enough for an unoptimised hash.
    let size = 72_u64 << 20;
    file.set_len(size).unwrap();
    for (at, byte) in [(0, b'a'), ((64 << 20) - 1, b'b'), (size - 1, b'z')] {
        std::os::unix::fs::FileExt::write_all_at(&file, &[byte], at).unwrap();
    }
    let published = fixture.repository.publish(&shard(1, 1), 5, 1, &dir, |_| {}).await.unwrap();
    assert_eq!((published.size.get(), published.files), (size, 1));
    let parts = fixture.faults.calls().iter().filter(|(op, _)| *op == Op::Part).count();
    assert_eq!(parts, 9, "in parts of 8 MiB");
    let checkpoint = reference(id(1, 1), &[published]);
    let dest = fixture.local.path().join("restored");
    let restored = fixture.repository.restore(&job(), &checkpoint, 0, &dest).await.unwrap();
    assert_eq!((restored.step, restored.size.get()), (5, size));
    let back = fs::File::open(dest.join("model.bin")).unwrap();
    assert_eq!(back.metadata().unwrap().len(), size);
    for (at, byte) in [(0, b'a'), (1, 0), ((64 << 20) - 1, b'b'), (size - 1, b'z')] {
        let mut found = [9];
        std::os::unix::fs::FileExt::read_exact_at(&back, &mut found, at).unwrap();
        assert_eq!(found, [byte]);
    }
}

#[test]
fn work_can_be_handed_to_another_thread() {
    fn check<T: Send>(_: &T) {}
    let fixture = Fixture::new();
    let (at, job, dir) = (shard(1, 1), job(), std::path::Path::new("/absent"));
    let (checkpoint, committed) = (reference(id(1, 1), &[]), Default::default());
    check(&fixture.repository.publish(&at, 1, 1, dir, |_| {}));
    check(&fixture.repository.restore(&job, &checkpoint, 0, dir));
    check(&fixture.repository.verify(&job, &checkpoint, true));
    check(&fixture.repository.delete(&job, id(1, 1)));
    let begun_before = Timestamp::ZERO;
    let which = leeway_data::Uncommitted { committed: &committed, epochs_below: 1, begun_before };
    check(&fixture.repository.collect_uncommitted(&job, which));
    check(&fixture.repository.list_pending(&job));
}
