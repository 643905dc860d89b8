//! What `squeue --json` and its like print, in the forms of several releases: a state is a text or a list of texts, a
//! number may come wrapped with whether it is set.

use serde::Deserialize;
use serde_json::Value;

use super::calls::{CallError, Job, Node};

#[derive(Deserialize)]
struct Jobs {
    jobs: Vec<Value>,
}

#[derive(Deserialize)]
struct Nodes {
    nodes: Vec<Value>,
}

/// Of `squeue --json`. A job that has no id or no state makes the whole listing unreadable: it could be ours.
pub fn jobs(text: &[u8]) -> Result<Vec<Job>, CallError> {
    let listing: Jobs = serde_json::from_slice(text).map_err(|error| unreadable("squeue", &error.to_string()))?;
    listing.jobs.iter().map(job).collect()
}

fn job(value: &Value) -> Result<Job, CallError> {
    let id = number(&value["job_id"]).and_then(|id| u32::try_from(id).ok());
    let id = id.ok_or_else(|| unreadable("squeue", "a job has no job_id"))?;
    let state = word(&value["job_state"]).ok_or_else(|| unreadable("squeue", &format!("job {id} has no job_state")))?;
    let user = number(&value["user_id"]).and_then(|user| u32::try_from(user).ok());
    let user = user.ok_or_else(|| unreadable("squeue", &format!("job {id} has no user_id")))?;
    Ok(Job {
        id,
        name: text_of(&value["name"]),
        comment: text_of(&value["comment"]),
        user,
        partition: text_of(&value["partition"]),
        nodes: small(&value["node_count"]),
        state,
        reason: text_of(&value["state_reason"]),
        preempted: number(&value["preempt_time"]).unwrap_or(0),
        end: number(&value["end_time"]).unwrap_or(0),
    })
}

/// Of `sacct --json`: a state there is an object.
pub fn accounted(text: &[u8]) -> Result<Vec<(u32, String)>, CallError> {
    let listing: Jobs = serde_json::from_slice(text).map_err(|error| unreadable("sacct", &error.to_string()))?;
    let one = |value: &Value| {
        let id = number(&value["job_id"]).and_then(|id| u32::try_from(id).ok())?;
        Some((id, word(&value["state"]["current"])?))
    };
    Ok(listing.jobs.iter().filter_map(one).collect())
}

/// Of `sinfo --json` up to 22.05; later releases print nodes in `scontrol show nodes --json` alone, in the same form.
pub fn nodes(text: &[u8]) -> Result<Vec<Node>, CallError> {
    let listing: Nodes = serde_json::from_slice(text).map_err(|error| unreadable("sinfo", &error.to_string()))?;
    let list = |value: &Value| match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Value::String(text) => text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let one = |value: &Value| {
        let states = [&value["state"], &value["state_flags"]];
        let states: Vec<String> = states.iter().flat_map(|value| list(value)).map(|word| word.to_lowercase()).collect();
        Node {
            name: text_of(&value["name"]),
            state: states.join(" "),
            partitions: list(&value["partitions"]),
            features: list(&value["active_features"]),
            cpus: small(&value["cpus"]),
            cpus_used: small(&value["alloc_cpus"]),
            memory: number(&value["real_memory"]).and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
            memory_used: number(&value["alloc_memory"]).and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
            gres: text_of(&value["gres"]),
            gres_used: text_of(&value["gres_used"]),
        }
    };
    Ok(listing.nodes.iter().map(one).collect())
}

fn unreadable(command: &str, why: &str) -> CallError {
    CallError::Lost(format!("{command} printed what cannot be read: {why}"))
}

fn small(value: &Value) -> u32 {
    number(value).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::Object(wrapped) if wrapped.get("set") != Some(&Value::Bool(false)) => wrapped.get("number")?.as_i64(),
        _ => None,
    }
}

/// The first of a list is the state itself, what follows are flags; one flag says more than the state.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(word) => Some(word.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            let telling = words.iter().find(|word| **word == "COMPLETING");
            telling.or(words.first()).map(|word| (*word).to_owned())
        }
        _ => None,
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
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
