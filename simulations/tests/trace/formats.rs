//! A small sample of each format and the jobs that it is.

use leeway_model::{Bytes, Millis};
use leeway_simulations::trace::{JobRecord, Status};

use super::{read, skim};

/// A job on one line: name, submission and runtime in milliseconds, nodes x GPUs, accelerator, CPUs, memory, owner.
fn shown(job: &JobRecord) -> String {
    format!(
        "{} {}+{} {}x{} {} {}c {}B {}/{} {}",
        job.name,
        job.submitted.as_millis(),
        job.runtime.as_millis(),
        job.nodes,
        job.gpus,
        job.accelerator.as_deref().unwrap_or("any"),
        job.cpus,
        job.memory.get(),
        job.team,
        job.user,
        job.status.as_str()
    )
}

#[track_caller]
fn check(text: &str, expected: &[&str], notes: &[(&str, u64)]) {
    let (jobs, counts) = skim(text);
    assert_eq!(jobs.iter().map(shown).collect::<Vec<_>>(), expected);
    assert_eq!(counts.quoted, [], "no line is bad");
    assert_eq!(counts.read, expected.len() as u64);
    let found: Vec<_> = counts.notes.iter().collect();
    assert_eq!(found, notes);
}

#[test]
fn philly_by_virtual_cluster_is_merged_over_clusters_and_split_into_nodes_of_eight() {
    check(
        "vc,job,submit_s,gpus,duration_s\na,0,0,1,60\na,1,100,16,7200\nb,0,50,12,3600.5\nb,1,51,9,0\n",
        &[
            "a/0 0+60000 1x1 any 0c 0B a/ unknown",
            "b/0 50000+3600500 2x6 any 0c 0B b/ unknown",
            "b/1 51000+1 2x5 any 0c 0B b/ unknown",
            "a/1 100000+7200000 2x8 any 0c 0B a/ unknown",
        ],
        &[
            ("jobs whose GPUs do not divide evenly over nodes have them rounded up", 1),
            ("jobs with a runtime of 0 run for 1 ms", 1),
        ],
    );
}

#[test]
fn columns_are_found_by_name_in_any_order_beside_others() {
    check(
        "\u{feff}Gpus, extra ,duration_s,submit_s,job,VC\r\n2,\"x,y\",10,5,7,a\r\n\r\n",
        &["a/7 5000+10000 1x2 any 0c 0B a/ unknown"],
        &[],
    );
}

#[test]
fn philly_durations_are_a_backlog_at_time_zero() {
    check(
        "duration_s,gpus\n7944,1\n6192,8\n",
        &["job-1 0+7944000 1x1 any 0c 0B / unknown", "job-2 0+6192000 1x8 any 0c 0B / unknown"],
        &[("jobs have no arrival in the source and are submitted at time zero", 2)],
    );
}

#[test]
fn philly_json_sums_its_attempts_and_counts_from_the_first_submission() {
    let text = r#"[
{"status": "Pass", "vc": "ee9e8c", "jobid": "application_2", "user": "u1", "submitted_time": "2017-10-09 07:02:48",
 "attempts": [
  {"start_time": "2017-10-09 07:03:00", "end_time": "2017-10-09 07:04:00", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]},
  {"start_time": "2017-10-09 08:00:00", "end_time": "2017-10-09 09:00:00", "detail": []}]},
{"status": "Killed", "vc": "6214e9", "jobid": "application_1", "user": "u\"{2", "submitted_time": "2017-10-09 07:01:48",
 "attempts": [{"start_time": "2017-10-09 07:01:50", "end_time": "2017-10-09 07:01:51", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
{"status": "Failed", "vc": "6214e9", "jobid": "application_3", "user": "u2", "submitted_time": "None", "attempts": []},
{"status": "Killed", "vc": "6214e9", "jobid": "application_4", "user": "u2", "submitted_time": "2017-10-09 07:05:48",
 "attempts": [{"start_time": "None", "end_time": null, "detail": []}]}
]"#;
    check(
        text,
        &[
            "application_1 0+1000 1x1 any 0c 0B 6214e9/u\"{2 cancelled",
            "application_2 60000+3660000 2x2 any 0c 0B ee9e8c/u1 done",
        ],
        &[
            ("jobs that were never submitted or never ran to an end on GPUs are left out", 2),
            ("jobs whose GPUs do not divide evenly over nodes have them rounded up", 1),
        ],
    );
}

#[test]
fn openb_pods_round_a_part_of_a_gpu_up_and_leave_out_what_never_ran() {
    check(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
         p0,12500,16384,1,460,V100M16|V100M32,LS,Running,0,100,10\n\
         p1,4000,1024,0,0,,BE,Failed,5,6,5\n\
         p2,4000,1024,2,1000,,BE,Pending,7,9,\n\
         p3,4000,1024,2,1000,,BE,Succeeded,8,20,9.5\n",
        &[
            "p0 0+90000 1x1 V100M16|V100M32 13c 17179869184B / unknown",
            "p1 5000+1000 1x0 any 4c 1073741824B / failed",
            "p3 8000+10500 1x2 any 4c 1073741824B / done",
        ],
        &[
            ("jobs with a part of a GPU have a whole one", 1),
            ("pods that were never placed, or that had no end, are left out", 1),
        ],
    );
}

#[test]
fn alibaba_2025_instances_are_there_from_the_start_and_to_the_end_where_the_trace_does_not_see_it() {
    check(
        "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,memory_request,\
         memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,deletion_time\n\
         i0,HN,app_0,12,12,1,1,25,25,120.0,120.0,640.0,800.0,8,,,\n\
         i1,CN,app_1,64,64,0,0,1,1,320.0,320.0,544.0,640.0,-1,475.00000000000006,623.0,700\n",
        &[
            "i0 0+2678400000 1x1 any 12c 128849018880B app_0/ unknown",
            "i1 475000+77000 1x0 any 64c 343597383680B app_1/ unknown",
        ],
        &[
            ("jobs that outlive the trace run until its end", 1),
            ("jobs that were there before the trace began are submitted at its start", 1),
        ],
    );
}

#[test]
fn alibaba_2026_workers_are_nodes() {
    check(
        "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n\
         j1,org-3,A100-SXM4-80GB,96,8,4,0,3600,HP\nj2,org-1,,12,0.5,1,10,60,Spot\n",
        &["j1 0+3600000 4x8 A100-SXM4-80GB 96c 0B org-3/ unknown", "j2 10000+60000 1x1 any 12c 0B org-1/ unknown"],
        &[("jobs were spot jobs in the source", 1), ("jobs with a part of a GPU have a whole one", 1)],
    );
}

#[test]
fn sia_samples_are_teams_with_assumed_runtimes() {
    check(
        "sample,name,submit_s,application,gpus,batch_size\n2,cifar10-0,107.0,cifar10,4,2048\n1,imagenet-1,50,imagenet,16,64\n",
        &[
            "1/imagenet-1 50000+71100000 2x8 any 0c 0B sample-1/ unknown",
            "2/cifar10-0 107000+284400 1x4 any 0c 0B sample-2/ unknown",
        ],
        &[("jobs have no runtime in the source; it is assumed from their application", 2)],
    );
    let one = read("name,submit_s,application,gpus,batch_size\nbert-5119,1,bert,8,384\n").unwrap();
    assert_eq!((one[0].name.as_str(), one[0].team.as_str()), ("bert-5119", ""));
}

#[test]
fn swf_lines_have_eighteen_fields_and_comments() {
    check(
        "; Version: 2.2\n;Computer: test\n\n\
         1 0 5 100 128 -1 1024 -1 -1 -1 1 3 1 -1 1 -1 -1 -1\n\
         \t 2  10 -1 50 -1 -1 -1 4 3600 2048 5 -1 -1 -1 1 -1 -1 -1 \n\
         3 11 -1 -1 4 -1 -1 4 3600 -1 5 1 1 -1 1 -1 -1 -1\n\
         4 12 -1 0 1 -1 -1 1 3600 -1 0 1 1 -1 1 -1 -1 -1\n",
        &[
            "1 0+100000 2x0 any 64c 67108864B group-1/user-3 done",
            "2 10000+50000 1x0 any 4c 8388608B / cancelled",
            "4 12000+1 1x0 any 1c 0B group-1/user-1 failed",
        ],
        &[
            ("jobs with a runtime of 0 run for 1 ms", 1),
            ("jobs without a runtime or without processors are left out", 1),
        ],
    );
}

#[test]
fn swf_as_a_table_is_the_same() {
    check(
        "submit_s,wait_s,run_s,procs,req_procs,req_time_s,status,user,group,queue\n\
         0,-1,1451,128,-1,-1,-1,1,1,-1\n5,-1,2,-1,3,-1,1,2,1,-1\n",
        &["job-1 0+1451000 2x0 any 64c 0B group-1/user-1 unknown", "job-2 5000+2000 1x0 any 3c 0B group-1/user-2 done"],
        &[],
    );
}

#[test]
fn leeway_jobs_are_the_record_itself() {
    let jobs = read(
        "name,submitted_ms,runtime_ms,nodes,gpus_per_node,accelerator,cpus_per_node,memory_bytes_per_node,team,user,status\n\
         a,0,1,2,8,H100,12,34359738368,vision,ann,done\n",
    )
    .unwrap();
    let expected = JobRecord {
        name: "a".to_owned(),
        submitted: Millis::ZERO,
        runtime: Millis::new(1),
        nodes: 2,
        gpus: 8,
        accelerator: Some("H100".to_owned()),
        cpus: 12,
        memory: Bytes::from_gib(32),
        team: "vision".to_owned(),
        user: "ann".to_owned(),
        status: Status::Done,
    };
    assert_eq!(jobs, [expected]);
}
