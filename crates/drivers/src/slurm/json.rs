//! What `squeue --json` and its like print, in the forms of several releases: a state is a text or a list of texts, a
//! number may come wrapped with whether it is set.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::calls::{CallError, Job, Node};

/// Only what is used is read of a job: a listing of ten thousand jobs is tens of megabytes.
#[derive(Deserialize)]
struct RawJob {
    job_id: Option<Number>,
    #[serde(default)]
    name: Text,
    #[serde(default)]
    comment: Text,
    user_id: Option<Number>,
    #[serde(default)]
    partition: Text,
    node_count: Option<Number>,
    #[serde(default)]
    job_state: Words,
    #[serde(default)]
    state_reason: Text,
    preempt_time: Option<Number>,
    end_time: Option<Number>,
}

#[derive(Deserialize)]
struct RawAccounted {
    job_id: Option<Number>,
    #[serde(default)]
    state: RawState,
}

#[derive(Default, Deserialize)]
struct RawState {
    #[serde(default)]
    current: Words,
}

#[derive(Deserialize)]
struct RawNode {
    #[serde(default)]
    name: Text,
    #[serde(default)]
    state: Words,
    #[serde(default)]
    state_flags: Words,
    #[serde(default)]
    partitions: Words,
    #[serde(default)]
    active_features: Words,
    cpus: Option<Number>,
    alloc_cpus: Option<Number>,
    real_memory: Option<Number>,
    alloc_memory: Option<Number>,
    #[serde(default)]
    gres: Text,
    #[serde(default)]
    gres_used: Text,
}

#[derive(Deserialize)]
struct Jobs<T> {
    jobs: Vec<T>,
}

#[derive(Deserialize)]
struct Nodes {
    nodes: Vec<RawNode>,
}

/// A number, bare or wrapped.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Bare(i64),
    Wrapped {
        #[serde(default = "yes")]
        set: bool,
        #[serde(default)]
        number: i64,
    },
    Other(serde::de::IgnoredAny),
}

const fn yes() -> bool {
    true
}

/// A text, or whatever stands for none.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Text {
    Some(String),
    #[default]
    None,
    Other(serde::de::IgnoredAny),
}

/// One text or several.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    Many(Vec<String>),
    #[default]
    None,
    Other(serde::de::IgnoredAny),
}

fn number<T: TryFrom<i64>>(number: Option<Number>) -> Option<T> {
    match number? {
        Number::Bare(number) | Number::Wrapped { set: true, number } => number.try_into().ok(),
        Number::Wrapped { set: false, .. } | Number::Other(_) => None,
    }
}

fn text(text: Text) -> String {
    match text {
        Text::Some(text) => text,
        Text::None | Text::Other(_) => String::new(),
    }
}

fn words(words: Words) -> Vec<String> {
    match words {
        Words::One(text) => text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
        Words::Many(words) => words,
        Words::None | Words::Other(_) => Vec::new(),
    }
}

/// The first of a list is the state itself, what follows are flags; one flag says more than the state.
fn state(state: Words) -> Option<String> {
    let mut words = match state {
        Words::One(word) => vec![word],
        other => words(other),
    };
    let telling = words.iter().position(|word| word == "COMPLETING").unwrap_or(0);
    if words.is_empty() { None } else { Some(words.swap_remove(telling)) }
}

/// Of `squeue --json`. A job that has no id, no user or no state makes the whole listing unreadable: it could be ours.
pub fn jobs(printed: &[u8]) -> Result<Vec<Job>, CallError> {
    read::<Jobs<RawJob>>("squeue", printed)?.jobs.into_iter().map(job).collect()
}

fn job(raw: RawJob) -> Result<Job, CallError> {
    let id = number(raw.job_id).ok_or_else(|| unreadable("squeue", "a job has no job_id"))?;
    let state = state(raw.job_state).ok_or_else(|| unreadable("squeue", &format!("job {id} has no job_state")))?;
    let user = number(raw.user_id).ok_or_else(|| unreadable("squeue", &format!("job {id} has no user_id")))?;
    Ok(Job {
        id,
        name: text(raw.name),
        comment: text(raw.comment),
        user,
        partition: text(raw.partition),
        nodes: number(raw.node_count).unwrap_or(0),
        state,
        reason: text(raw.state_reason),
        preempted: number(raw.preempt_time).unwrap_or(0),
        end: number(raw.end_time).unwrap_or(0),
    })
}

/// Of `sacct --json`: a state there is an object.
pub fn accounted(printed: &[u8]) -> Result<Vec<(u32, String)>, CallError> {
    let listing: Jobs<RawAccounted> = read("sacct", printed)?;
    let one = |raw: RawAccounted| Some((number(raw.job_id)?, state(raw.state.current)?));
    Ok(listing.jobs.into_iter().filter_map(one).collect())
}

/// Of `sinfo --json` up to 22.05; later releases print nodes in `scontrol show nodes --json` alone, in the same form.
pub fn nodes(printed: &[u8]) -> Result<Vec<Node>, CallError> {
    let node = |raw: RawNode| Node {
        name: text(raw.name),
        state: words(raw.state).into_iter().chain(words(raw.state_flags)).collect::<Vec<_>>().join(" ").to_lowercase(),
        partitions: words(raw.partitions),
        features: words(raw.active_features),
        cpus: number(raw.cpus).unwrap_or(0),
        cpus_used: number(raw.alloc_cpus).unwrap_or(0),
        memory: number(raw.real_memory).unwrap_or(0),
        memory_used: number(raw.alloc_memory).unwrap_or(0),
        gres: text(raw.gres),
        gres_used: text(raw.gres_used),
    };
    Ok(read::<Nodes>("sinfo", printed)?.nodes.into_iter().map(node).collect())
}

fn read<T: DeserializeOwned>(command: &str, printed: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(printed).map_err(|error| unreadable(command, &error.to_string()))
}

fn unreadable(command: &str, why: &str) -> CallError {
    CallError::Lost(format!("{command} printed what cannot be read: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read_in_the_forms_of_several_releases() {
        let old = br#"{"jobs":[{"job_id":7,"name":"n","comment":"c","user_id":0,"job_state":"RUNNING",
            "state_reason":"None","preempt_time":5,"end_time":15}]}"#;
        let new = br#"{"jobs":[{"job_id":7,"name":"n","comment":"c","user_id":0,"job_state":["RUNNING"],
            "state_reason":"None","preempt_time":{"set":true,"infinite":false,"number":5},
            "end_time":{"set":true,"infinite":false,"number":15}}]}"#;
        assert_eq!(jobs(old).unwrap(), jobs(new).unwrap());
        assert_eq!(jobs(old).unwrap()[0].preempted, 5);
        let ending = br#"{"jobs":[{"job_id":7,"user_id":0,"job_state":["CANCELLED","COMPLETING"]}]}"#;
        assert_eq!(jobs(ending).unwrap()[0].state, "COMPLETING");
    }

    #[test]
    fn p_14_a_listing_with_a_job_that_cannot_be_read_is_no_listing() {
        for text in ["", "{}", r#"{"jobs":[{"job_state":"RUNNING"}]}"#, r#"{"jobs":[{"job_id":1,"user_id":0}]}"#, "[1"]
        {
            assert!(matches!(jobs(text.as_bytes()), Err(CallError::Lost(_))), "{text}");
        }
    }
}
