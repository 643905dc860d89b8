//! What is wrong with a trace is said with file, line and column, or skipped and counted.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{open, read, skim};

const PHILLY: &str = "vc,job,submit_s,gpus,duration_s\n";
const LEEWAY: &str = "name,submitted_ms,runtime_ms,nodes,gpus_per_node,accelerator,cpus_per_node,memory_bytes_per_node,team,user,status\n";
const OPENB: &str =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n";
const ALIBABA: &str =
    "instance_sn,app_name,cpu_request,gpu_request,memory_request,creation_time,scheduled_time,deletion_time\n";
const SPOT: &str = "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n";
const SIA: &str = "name,submit_s,application,gpus,batch_size\n";
const TABLE: &str = "submit_s,wait_s,run_s,procs,req_procs,req_time_s,status,user,group,queue\n";

/// The second line of a file is bad: what is said names it, the column and the value.
#[track_caller]
fn bad(header: &str, line: &str, column: &str, part: &str) {
    let text = format!("{header}{line}\n");
    let message = read(&text).unwrap_err().to_string();
    assert!(message.starts_with(&format!("jobs:2: {column}: ")), "{line}: {message}");
    assert!(message.contains(part), "{line}: {message}");
    let (jobs, counts) = skim(&text);
    assert_eq!((jobs.len(), counts.read, counts.skipped), (0, 0, 1), "{line}");
    assert_eq!(counts.quoted[0].to_string(), message);
}

#[test]
fn t_09_wrong_values_are_named_in_every_format() {
    for wrong in ["-1", "nan", "inf", "1e300", "", "3155760001", "abc"] {
        bad(PHILLY, &format!("a,1,{wrong},1,60"), "submit_s", wrong);
        bad(PHILLY, &format!("a,1,0,1,{wrong}"), "duration_s", wrong);
        bad(SPOT, &format!("j,o,m,1,1,1,{wrong},60,HP"), "submit_time", wrong);
        bad(SIA, &format!("b-1,{wrong},bert,8,384"), "submit_s", wrong);
        bad("duration_s,gpus\n", &format!("{wrong},1"), "duration_s", wrong);
        bad(
            LEEWAY,
            &format!("a,0,{},1,1,,0,0,,,done", wrong.replace("3155760001", "3155760000001")),
            "runtime_ms",
            "century",
        );
    }
    bad(PHILLY, "a,1,0,-4,60", "gpus", "-4");
    bad(PHILLY, "a,1,0,1.5,60", "gpus", "1.5");
    bad(PHILLY, ",1,0,1,60", "vc", "empty");
    bad(PHILLY, "a,1,0,1", "(line)", "4 fields; the header has 5");
    bad(PHILLY, "a,1,0,1,\"60", "(line)", "quote");
    bad(PHILLY, "a\u{7},1,0,1,60", "vc", "printable");
    bad(PHILLY, &"x".repeat(70_000), "(line)", "longer");
    bad(OPENB, "p,1000,1024,1,1000,,LS,Running,0,5,10", "deletion_time", "before the job began");
    bad(OPENB, "p,1000,1024,1,1000,,LS,Running,20,30,10", "scheduled_time", "before the job began");
    bad(OPENB, "p,-1,1024,1,1000,,LS,Running,0,5,1", "cpu_milli", "-1");
    bad(ALIBABA, "i,app,1,1,10,50,60,55", "deletion_time", "before the job began");
    bad(ALIBABA, "i,app,1,1,nan,50,60,70", "memory_request", "nan");
    bad(SPOT, "j,o,m,1,1,0,0,60,HP", "worker_num", "from 1");
    bad(SPOT, "j,o,m,1,1,1,0,60,??", "job_type", "HP or Spot");
    bad(SIA, "b-1,0,resnet,8,384", "application", "resnet");
    bad(TABLE, "0,-1,-2,1,1,-1,1,1,1,-1", "run_s", "-2");
    bad(TABLE, "0,-1,2,0,1,-1,1,1,1,-1", "procs", "'0'");
    bad(TABLE, "0,-1,2,1,1,-1,9,1,1,-1", "status", "'9'");
    bad(LEEWAY, "a,0,0,1,1,,0,0,,,done", "runtime_ms", "at least 1");
    bad(LEEWAY, "a,0,1,0,1,,0,0,,,done", "nodes", "from 1");
    bad(LEEWAY, "a,0,1,1,1,,0,99999999999999999999,,,done", "memory_bytes_per_node", "1 PiB");
    bad(LEEWAY, "a,0,1,1,1,,0,0,,,finished", "status", "finished");
    bad("; SWF\n", "1 0 -1 -3 1 -1 -1 1 -1 -1 1 1 1 1 1 -1 -1 -1", "field 4 (run time)", "-3");
    bad("; SWF\n", "1 0 -1 3 1 -1 -1 1 -1 -1 1 1 1 1 1 -1 -1", "(line)", "17 fields");
    bad("; SWF\n", "x 0 -1 3 1 -1 -1 1 -1 -1 1 1 1 1 1 -1 -1 -1", "field 1 (job number)", "'x'");
}

#[test]
fn a_bad_job_in_json_is_named_by_the_line_on_which_it_begins() {
    let job = |id: &str, end: &str| {
        format!(
            r#"{{"status": "Pass", "vc": "v", "jobid": "{id}", "user": "u", "submitted_time": "2017-10-09 07:00:00",
"attempts": [{{"start_time": "2017-10-09 08:00:00", "end_time": "{end}", "detail": [{{"gpus": ["g"]}}]}}]}}"#
        )
    };
    let (good, early) = (job("a", "2017-10-09 08:00:10"), job("b", "2017-10-09 07:59:59"));
    let message = read(&format!("[{good},\n{early}]")).unwrap_err().to_string();
    assert!(
        message.starts_with("jobs:3: attempts.end_time: '2017-10-09 07:59:59' is before the job began"),
        "{message}"
    );
    let wrong = job("c", "9 Oct");
    let (jobs, counts) =
        skim(&format!("[{good},\n{early}, {wrong}, {{\"jobid\": 5}}, {}]", job("d", "2017-10-09 08:00:10")));
    assert_eq!((jobs.len(), counts.skipped), (2, 3));
    assert!(counts.quoted[1].to_string().contains("'9 Oct' must be a time"), "{:?}", counts.quoted);
    for (text, part) in [
        (format!("[{good},"), "ends within the array"),
        (format!("[{}", &good[..good.len() - 4]), "ends within a job"),
        (format!("[{good}, 7]"), "must be an object"),
    ] {
        let message = read(&text).unwrap_err().to_string();
        assert!(message.contains("(file)") && message.contains(part), "{message}");
    }
}

#[test]
fn x_02_a_file_with_nothing_in_it_is_said_to_be_empty() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(b"").unwrap();
    for bytes in [Vec::new(), b" \n\n".to_vec(), packed.finish().unwrap()] {
        assert!(open(bytes, true).unwrap_err().to_string().contains("'jobs' is empty"));
    }
    assert_eq!(read(PHILLY).unwrap(), [], "a header without jobs is a trace without jobs");
}

#[test]
fn files_that_are_no_job_trace_are_answered_with_the_known_formats() {
    for text in ["hello,world\n1,2\n", "{\"a\": 1}", "\u{0}\u{1}\u{2}"] {
        let message = read(text).unwrap_err().to_string();
        assert!(message.contains("philly-vc-jobs") && message.contains("leeway-jobs-v1"), "{message}");
    }
    let rates = read("time,submit_job_all,submit_gpu_job\n2020-04-01 00:00:00,6,3\n").unwrap_err().to_string();
    assert!(rates.contains("simulate fit"), "{rates}");
}

#[test]
fn a_column_that_is_missing_is_named_with_those_that_are_there() {
    let format = leeway_simulations::trace::Format::named("philly-vc-jobs");
    let options = leeway_simulations::trace::Options { format, lenient: true };
    let error =
        leeway_simulations::trace::Jobs::read("vc,job,gpus\n".as_bytes(), "jobs", options).unwrap_err().to_string();
    assert!(error.contains("no column 'submit_s'") && error.contains("vc, job, gpus"), "{error}");
}

#[test]
fn two_jobs_of_one_name_are_a_bad_line() {
    let text = format!("{PHILLY}a,1,0,1,60\nb,1,1,1,60\na,1,2,1,60\n");
    let message = read(&text).unwrap_err().to_string();
    assert!(message.starts_with("jobs:4: (name): 'a/1' is the name of an earlier job"), "{message}");
    let (jobs, counts) = skim(&text);
    assert_eq!((jobs.len(), counts.read, counts.skipped), (2, 2, 1));
}

#[test]
fn only_the_first_skipped_lines_are_quoted_and_all_are_counted() {
    let (jobs, counts) = skim(&format!("{PHILLY}{}b,1,0,1,60\n", "a,1,x,1,60\n".repeat(50)));
    assert_eq!((jobs.len(), counts.skipped, counts.quoted.len()), (1, 50, 5));
}

#[test]
fn a_packed_file_that_is_cut_off_is_an_error_also_when_lenient() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::none());
    packed.write_all(PHILLY.as_bytes()).unwrap();
    for job in 0..20_000 {
        writeln!(packed, "a,{job},{job},1,60").unwrap();
    }
    let whole = packed.finish().unwrap();
    let cut = whole[..whole.len() / 2].to_vec();
    let told: Result<Vec<_>, _> = open(cut, true).unwrap().collect();
    assert!(told.unwrap_err().to_string().starts_with("'jobs': "));
    // Several packed members behind each other are one file.
    let mut second = GzEncoder::new(Vec::new(), Compression::fast());
    second.write_all(b"b,1,0,1,60\n").unwrap();
    let both = [whole, second.finish().unwrap()].concat();
    assert_eq!(open(both, false).unwrap().count(), 20_001);
}

#[test]
fn after_an_error_there_are_no_more_jobs() {
    let mut jobs = open(format!("{PHILLY}a,1,0,x,60\na,2,0,1,60\n").into_bytes(), false).unwrap();
    assert!(jobs.next().unwrap().is_err());
    assert!(jobs.next().is_none() && jobs.next().is_none());
}
