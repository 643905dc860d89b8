//! The recorded traces, where they are.

use leeway_simulations::trace;

/// File, format, jobs, and rows that no job comes of.
const FILES: [(&str, &str, u64, u64); 10] = [
    ("philly-vc-jobs.csv.gz", "philly-vc-jobs", 11_132, 0),
    ("philly-duration-gpus.csv.gz", "philly-duration-gpus", 33_192, 0),
    ("openb-pods.csv.gz", "openb-pods", 7_255, 897),
    ("openb-pods-gpuspec33.csv.gz", "openb-pods", 7_255, 897),
    ("alibaba2025-dlrm-instances.csv.gz", "alibaba2025-instances", 23_871, 0),
    ("sia-philly.csv.gz", "sia", 1_280, 0),
    ("sia-saturn.csv.gz", "sia", 1_600, 0),
    ("sia-scale32x.csv.gz", "sia", 5_120, 0),
    ("swf-lcg.csv.gz", "swf-table", 141_030, 0),
    ("swf-nasa-ipsc.csv.gz", "swf-table", 18_239, 0),
];

#[test]
fn every_recorded_trace_reads_to_its_last_row_without_a_bad_line() {
    let Some(folder) = crate::shared::folder("job-traces") else { return };
    for (file, format, expected, left_out) in FILES {
        let mut jobs = trace::open(&folder.join(file), None, false).unwrap();
        assert_eq!(jobs.format().name(), format, "{file}");
        let mut gpu_hours = 0.0;
        let mut count = 0;
        for job in jobs.by_ref() {
            let job = job.unwrap();
            gpu_hours += job.gpu_hours();
            count += 1;
        }
        println!("{file}: {count} jobs, {gpu_hours:.0} GPU-hours, {:?}", jobs.counts().notes);
        assert_eq!((count, jobs.counts().read, jobs.counts().skipped), (expected, expected, 0), "{file}");
        let out: u64 =
            jobs.counts().notes.iter().filter(|(what, _)| what.contains("left out")).map(|(_, count)| count).sum();
        assert_eq!(out, left_out, "{file}");
    }
    let nodes = trace::open(&folder.join("openb-nodes.csv.gz"), None, false).unwrap_err();
    assert!(matches!(nodes, trace::Error::Unknown { .. }), "{nodes}");
}
