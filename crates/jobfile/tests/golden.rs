//! Real-looking files and the values they become. The snapshots are read like code when they change.

mod support;

use leeway_jobfile::{Dependency, example, parse};
use leeway_model::JobId;
use support::{context, context_with, errors};

fn file(text: &str) -> Vec<leeway_jobfile::JobFile> {
    parse(text, &context()).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn a_skypilot_finetuning_task_is_taken_as_it_is() {
    insta::assert_debug_snapshot!(file(include_str!("files/finetune.yaml")));
}

#[test]
fn alternatives_inherit_from_the_base_resources() {
    insta::assert_debug_snapshot!(file(include_str!("files/any_of.yaml")).remove(0).spec.resources);
}

#[test]
fn the_documents_of_a_skypilot_pipeline_follow_each_other() {
    let jobs = file(include_str!("files/pipeline.yaml"));
    let names: Vec<_> = jobs.iter().map(|job| job.spec.name.as_str()).collect();
    assert_eq!(names, ["prepare", "nightly-2", "report"]);
    let waits: Vec<_> = jobs.iter().map(|job| job.depends_on.clone()).collect();
    assert_eq!(waits, [vec![], vec![Dependency::Document(0)], vec![Dependency::Document(1)]]);
    assert_eq!(jobs[2].dependencies(&[JobId(7), JobId(8), JobId(9)]), Some(vec![JobId(8)]));
    assert_eq!(jobs[2].dependencies(&[JobId(7)]), None);
    assert!(jobs[1].notes.iter().any(|note| note.contains("waits for document 1")), "{:?}", jobs[1].notes);
    insta::assert_debug_snapshot!(&jobs[1]);
}

#[test]
fn a_leeway_file_with_every_field_of_its_own() {
    insta::assert_debug_snapshot!(file(include_str!("files/leeway.yaml")));
}

#[test]
fn every_mistake_of_a_file_is_told_at_once_with_its_place_and_its_fix() {
    let errors = errors(include_str!("files/broken.yaml"));
    assert!(!errors.to_string().contains("hunter2"), "a secret was shown: {errors}");
    insta::assert_snapshot!(errors);
}

#[test]
fn the_example_is_a_valid_job_that_uses_every_field_of_a_job() {
    // As it is, it asks for its secret, which is given at the launch.
    assert!(errors(example()).as_slice().iter().all(|error| error.path == "secrets.WANDB_API_KEY"));
    let job = parse(example(), &context_with(&[("WANDB_API_KEY", "s3cret")])).unwrap().remove(0);
    assert_eq!(job.spec.name.as_str(), "resnet-nightly");
    assert_eq!(job.spec.resources.len(), 2);
    assert_eq!(&*job.spec.data[0].url, "s3://vision-data/imagenet");
    for field in [
        "name",
        "owner",
        "num_nodes",
        "setup",
        "run",
        "envs",
        "secrets",
        "workdir",
        "file_mounts",
        "outputs",
        "data",
        "resources",
        "deadline",
        "budget",
        "checkpoint",
        "max_cost",
        "value_per_hour",
        "spot_policy",
        "retry",
        "max_duration",
        "estimate",
        "depends_on",
        "policy",
    ] {
        assert!(example().lines().any(|line| line.starts_with(&format!("{field}:"))), "{field}");
    }
}

#[test]
fn the_job_file_of_the_readme_is_accepted() {
    let readme = include_str!("../../../README.md");
    let (_, after) = readme.split_once("```yaml\n").unwrap();
    let (text, _) = after.split_once("```").unwrap();
    let jobs = file(text);
    assert_eq!(jobs.len(), 1);
    assert!(jobs[0].spec.money.value_per_hour.is_some());
}
