//! `leeway jobs queue`.

use leeway_proto::pb;

use super::QueueArgs;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::render::jobs::state_word;
use crate::terminal::Terminal;
use crate::{json, render};

const STATES: [pb::JobState; 8] = [
    pb::JobState::Waiting,
    pb::JobState::Pending,
    pb::JobState::Starting,
    pb::JobState::Running,
    pb::JobState::Cancelling,
    pb::JobState::Succeeded,
    pb::JobState::Failed,
    pb::JobState::Cancelled,
];
/// States from which something is still to come.
const UNFINISHED: usize = 5;
/// Jobs of one page.
const PAGE: u32 = 1_000;

/// Reads a state by its word.
pub(super) fn state(text: &str) -> Result<i32, String> {
    let found = STATES.iter().find(|state| state_word(**state) == text.to_lowercase());
    found.map(|state| i32::from(*state)).ok_or_else(|| {
        let words: Vec<String> = STATES.iter().map(|state| state_word(*state)).collect();
        format!("there is no such state; use {}", words.join(", "))
    })
}

pub(super) async fn run(args: QueueArgs, client: Client, terminal: &Terminal) -> Result<Exit, Failure> {
    let unfinished = STATES[..UNFINISHED].iter().map(|state| i32::from(*state));
    let states = match (args.all, args.state.is_empty()) {
        (false, true) => unfinished.collect(),
        _ => args.state,
    };
    let filter = pb::JobFilter { states, owner: args.owner, ..pb::JobFilter::default() };
    let mut request = pb::ListJobsRequest { filter: Some(filter), ..pb::ListJobsRequest::default() };
    let mut jobs = Vec::new();
    let limit = args.limit as usize;
    let is_cut = loop {
        request.page_size = PAGE.min(args.limit.saturating_sub(jobs.len() as u32)).max(1);
        let page = client.ask(|| async { client.jobs().list_jobs(request.clone()).await }).await?;
        jobs.extend(page.jobs);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() || jobs.len() >= limit {
            break !request.page_token.is_empty() || jobs.len() > limit;
        }
    };
    jobs.truncate(limit);
    terminal.show(|view| render::jobs::queue(&jobs, view), || json::list("Job", &jobs))?;
    if is_cut {
        terminal.remark("there are more; a higher --limit shows them");
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_word_that_is_read_back() {
        for one in STATES {
            assert_eq!(state(&state_word(one)), Ok(one.into()));
        }
        assert!(state("").is_err() && state("done").unwrap_err().contains("succeeded"));
    }
}
