//! What is written as `leeway-jobs-v1` reads back as it was, and no bytes at all make a reader panic.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use leeway_model::{Bytes, Millis};
use leeway_simulations::trace::{Format, JobRecord, Jobs, Options, Status, Writer};
use proptest::prelude::*;

use super::open;

fn jobs() -> impl Strategy<Value = Vec<JobRecord>> {
    let text = "[ -~äß漢]{0,12}";
    let job = (
        (text, 0..100_000_000_u64, 1..=3_155_760_000_000_u64, 1..=1_000_000_u32, 0..=1_000_000_u32),
        (proptest::option::of("[ -~]{1,12}"), 0..=1_000_000_u32, 0..=1_u64 << 50, text, text, 0..4_usize),
    );
    proptest::collection::vec(job, 0..20).prop_map(|jobs| {
        let mut submitted = Millis::ZERO;
        let job = |(index, ((name, after, runtime, nodes, gpus), (accelerator, cpus, memory, team, user, status)))| {
            submitted = submitted.saturating_add(Millis::new(after));
            JobRecord {
                name: format!("{name}{index}"),
                submitted,
                runtime: Millis::new(runtime),
                nodes,
                gpus,
                accelerator,
                cpus,
                memory: Bytes::new(memory),
                team,
                user,
                status: Status::ALL[status],
            }
        };
        jobs.into_iter().enumerate().map(job).collect()
    })
}

fn written(jobs: &[JobRecord]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for job in jobs {
        writer.write(job).unwrap();
    }
    writer.finish().unwrap()
}

proptest! {
    #[test]
    fn jobs_read_back_as_they_were_written(jobs in jobs()) {
        let bytes = written(&jobs);
        let read: Vec<_> = open(bytes.clone(), false).unwrap().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(&read, &jobs);
        prop_assert_eq!(written(&read), bytes.clone());
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&bytes).unwrap();
        let read: Vec<_> = open(packed.finish().unwrap(), false).unwrap().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read, jobs);
    }

    #[test]
    fn x_03_no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), lenient: bool) {
        for format in Format::all() {
            if let Ok(jobs) = Jobs::read(std::io::Cursor::new(bytes.clone()), "jobs", Options { format: Some(format), lenient }) {
                let _ = jobs.count();
            }
        }
    }

    #[test]
    fn x_03_no_damage_to_a_good_file_makes_a_reader_panic(jobs in jobs(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = written(&jobs);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(read) = open(bytes, true) {
            let mut last = Millis::ZERO;
            for job in read.flatten() {
                prop_assert!(job.submitted >= last && job.nodes >= 1 && !job.runtime.is_zero());
                last = job.submitted;
            }
        }
    }
}
