//! Jobs come out in the order of their submission, whatever order the file has, within a stated bound.

use std::fmt::Write as _;
use std::fs;

use leeway_model::Millis;
use leeway_simulations::trace::{Error, Jobs, Options, SORTED_MAX};

use super::{open, read, skim};

#[test]
fn jobs_of_one_moment_keep_the_order_of_the_file() {
    let jobs = read("vc,job,submit_s,gpus,duration_s\na,1,9,1,60\na,2,5,1,60\na,3,9,1,60\na,4,5,1,60\n").unwrap();
    assert_eq!(jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["a/2", "a/4", "a/1", "a/3"]);
}

#[test]
fn a_format_that_promises_an_order_is_held_to_it() {
    let text = "name,submitted_ms,runtime_ms,nodes,gpus_per_node,accelerator,cpus_per_node,memory_bytes_per_node,team,user,status\n\
                a,5,1,1,1,,0,0,,,done\nb,4,1,1,1,,0,0,,,done\nc,5,1,1,1,,0,0,,,done\n";
    let message = read(text).unwrap_err().to_string();
    assert!(message.starts_with("jobs:3: (time of submission): 4 ms is before the 5 ms"), "{message}");
    let (jobs, counts) = skim(text);
    assert_eq!((jobs.len(), counts.skipped), (2, 1));
}

/// So many jobs, a second apart, and then one at time zero.
fn late(jobs: usize) -> Result<usize, Error> {
    let mut text = String::from("vc,job,submit_s,gpus,duration_s\n");
    for job in 1..=jobs {
        writeln!(text, "a,{job},{job},1,1").unwrap();
    }
    text.push_str("a,0,0,1,1\n");
    let mut last = Millis::ZERO;
    let mut count = 0;
    for job in open(text.into_bytes(), true)? {
        let job = job?;
        assert!(job.submitted >= last);
        last = job.submitted;
        count += 1;
    }
    Ok(count)
}

#[test]
fn a_job_may_be_late_by_as_many_as_are_held_back_and_no_more() {
    assert_eq!(late(SORTED_MAX).unwrap(), SORTED_MAX + 1);
    let error = late(SORTED_MAX + 1).unwrap_err();
    assert!(matches!(error, Error::Unsorted { .. }));
    let message = error.to_string();
    assert!(message.contains("jobs:1000003: ") && message.contains("sort the file"), "{message}");
}

#[test]
fn files_are_merged_by_time_and_share_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let one = file("one.csv", "vc,job,submit_s,gpus,duration_s\na,1,9,1,60\na,2,1,1,60\n");
    let two = file("two.csv", "vc,job,submit_s,gpus,duration_s\nb,1,5,1,60\na,1,10,1,60\n");
    let mut jobs = Jobs::open(&[&one, &two], Options { format: None, lenient: true }).unwrap();
    let names: Vec<String> = jobs.by_ref().map(|job| job.unwrap().name).collect();
    assert_eq!((names.join(" ").as_str(), jobs.counts().skipped), ("a/2 b/1 a/1", 1));
    assert!(jobs.counts().quoted[0].to_string().contains("two.csv:3: (name)"));
    let swf = file("jobs.swf", "; SWF\n");
    let error = Jobs::open(&[&one, &swf], Options::default()).unwrap_err().to_string();
    assert!(error.contains("one after the other"), "{error}");
    assert!(Jobs::open(&[folder.path().join("none")], Options::default()).unwrap_err().to_string().contains("none"));
}
