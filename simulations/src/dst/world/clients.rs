//! Clients that ask until they are answered, and remember what they were promised.

use std::collections::BTreeMap;

use leeway_core::event::{Event, RequestKey, Submission};
use leeway_core::reply::{RefusedKind, Reply};
use leeway_model::{JobId, Micros, Millis, Name};

use crate::random::Stream;

/// One thing a client wants, asked again until it is answered.
#[derive(Debug)]
pub struct Request {
    pub event: Event,
    pub answered: bool,
    /// Jobs that were acknowledged, in the order of the batch.
    pub jobs: Vec<Option<JobId>>,
    pub names: Vec<String>,
    pub sent: u32,
}

#[derive(Debug)]
pub struct Clients {
    pub requests: Vec<Request>,
    pub luck: Stream,
    /// Every acknowledged job with the name it was submitted under.
    pub promised: BTreeMap<JobId, String>,
    /// The highest cap asked for of each budget, and the budgets of which two were asked for.
    pub caps: BTreeMap<Name, Micros>,
    pub cut: std::collections::BTreeSet<Name>,
}

/// How long a client waits for an answer.
pub const PATIENCE: Millis = Millis::from_secs(10);

impl Clients {
    pub fn new(luck: Stream) -> Self {
        Self { requests: Vec::new(), luck, promised: BTreeMap::new(), caps: BTreeMap::new(), cut: Default::default() }
    }

    /// Keeps a wish; the position is its number.
    pub fn want(&mut self, event: Event) -> usize {
        let names = match &event {
            Event::JobsSubmitted { jobs, .. } => jobs.iter().map(|job| job.spec.name.as_str().to_owned()).collect(),
            _ => Vec::new(),
        };
        self.requests.push(Request { event, answered: false, jobs: Vec::new(), names, sent: 0 });
        self.requests.len() - 1
    }

    /// Takes an answer; a second answer must agree with the first.
    pub fn answered(&mut self, number: usize, reply: &Reply) {
        let Some(request) = self.requests.get_mut(number) else { return };
        match reply {
            Reply::Submitted(results) => {
                let jobs: Vec<Option<JobId>> =
                    results.iter().map(|result| result.as_ref().ok().map(|submitted| submitted.job)).collect();
                if request.answered {
                    assert_eq!(request.jobs, jobs, "A-01: one request id makes one set of jobs");
                }
                for (job, name) in jobs.iter().zip(&request.names) {
                    if let Some(job) = job {
                        let earlier = self.promised.insert(*job, name.clone());
                        assert!(earlier.is_none_or(|earlier| earlier == *name), "{job} was promised under two names");
                    }
                }
                request.jobs = jobs;
            }
            // Its parent's request is still on its way.
            Reply::Refused(refused) if refused.code == "UNKNOWN_BUDGET" => return,
            Reply::Refused(refused) if refused.kind == RefusedKind::Invalid => {
                panic!("a simulated client asked for nonsense: {refused:?}");
            }
            _ => {}
        }
        request.answered = true;
    }

    /// Jobs acknowledged so far.
    pub fn jobs(&self) -> Vec<JobId> {
        self.promised.keys().copied().collect()
    }
}

/// A submission under a request id; the digest stands for the body.
pub fn submission(id: &str, jobs: Vec<Submission>) -> Event {
    let mut body = [0; 32];
    for (slot, byte) in body.iter_mut().zip(id.bytes()) {
        *slot = byte;
    }
    Event::JobsSubmitted { request: Some(RequestKey { id: id.into(), body }), jobs }
}
