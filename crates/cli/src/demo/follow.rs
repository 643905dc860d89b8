//! What a person sees while the job runs: a line for everything that happens, and a bar.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leeway_proto::pb;
use leeway_webhook::receiver::{Event, Receiver};

use super::report::Webhooks;
use crate::client::Client;
use crate::failure::Failure;
use crate::render::{amounts, jobs};
use crate::terminal::Terminal;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long the last webhooks may take after everything else has ended.
const LAST_WEBHOOKS: Duration = Duration::from_secs(10);

/// A job that ended and whose machines are all gone.
#[derive(Debug)]
pub struct Settled {
    pub job: pb::Job,
    pub runs: Vec<pb::Run>,
}

/// Shows what happens until the job has ended and its last machine is proven gone, so that its cost is final.
pub async fn until_settled(
    client: &Client,
    job_id: &str,
    receiver: &Receiver,
    terminal: &Terminal,
) -> Result<Settled, Failure> {
    let mut story = Story::new(terminal);
    loop {
        let request = pb::ExplainJobRequest { job_id: job_id.to_owned() };
        let answer = client.ask(|| async { client.jobs().explain_job(request.clone()).await }).await?;
        let (job, decisions) = (answer.job.unwrap_or_default(), answer.decisions);
        let request = pb::ListRunsRequest { job_id: job_id.to_owned() };
        let runs = client.ask(|| async { client.jobs().list_runs(request.clone()).await }).await?.runs;
        story.tell(&job, &runs, &decisions, &receiver.events());
        let ended = matches!(job.state(), pb::JobState::Succeeded | pb::JobState::Failed | pb::JobState::Cancelled);
        if ended && runs.iter().all(|run| run.state() == pb::RunState::Released) {
            story.end();
            // The job was read before its runs; only now is its cost final.
            let request = pb::GetJobRequest { job_id: job_id.to_owned() };
            let answer = client.ask(|| async { client.jobs().get_job(request.clone()).await }).await?;
            return Ok(Settled { job: answer.job.unwrap_or(job), runs });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits until nothing is left to deliver, and counts what the receiver got.
pub async fn webhooks(client: &Client, receiver: &Receiver) -> Result<Webhooks, Failure> {
    let until = tokio::time::Instant::now() + LAST_WEBHOOKS;
    loop {
        let request = pb::ListDeliveriesRequest { page_size: 1, ..Default::default() };
        let left = client.ask(|| async { client.webhooks().list_deliveries(request.clone()).await }).await?;
        if left.deliveries.is_empty() || tokio::time::Instant::now() > until {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let requests = receiver.requests();
    let verified = requests.iter().filter(|request| request.verified).count();
    Ok(Webhooks { received: requests.len(), verified, events: receiver.events() })
}

/// Tells each thing once.
struct Story {
    bar: ProgressBar,
    seen: BTreeMap<String, pb::RunState>,
    noticed: Vec<String>,
    ended: Vec<String>,
    alerts: usize,
    begun_ms: Option<i64>,
}

impl Story {
    fn new(terminal: &Terminal) -> Self {
        let bar = ProgressBar::new(0);
        bar.set_draw_target(if terminal.lively { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() });
        // Nothing to draw before the program has said how many steps there are.
        bar.set_style(ProgressStyle::with_template("  {msg}").unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, seen: BTreeMap::new(), noticed: Vec::new(), ended: Vec::new(), alerts: 0, begun_ms: None }
    }

    fn tell(&mut self, job: &pb::Job, runs: &[pb::Run], decisions: &[pb::Decision], events: &[Event]) {
        let begun = *self.begun_ms.get_or_insert(job.submitted_ms);
        for run in runs {
            let decision = decisions.iter().find(|decision| decision.run_id == run.run_id);
            self.tell_run(run, decision, begun);
        }
        for event in events.iter().skip(self.alerts).filter(|event| event.kind.starts_with("leeway.budget.")) {
            let data = &event.json["data"];
            let text = match event.kind.as_str() {
                "leeway.budget.threshold_crossed" => {
                    format!("{} reached {} % of its cap ({})", data["budget"], data["threshold_percent"], data["kind"])
                }
                other => other.to_owned(),
            };
            self.line(None, &format!("webhook     budget {}", text.replace('"', "")));
        }
        self.alerts = events.len();
        if let Some((progress, steps)) = job.progress.as_ref().and_then(|one| Some((one, one.total_steps?))) {
            if self.bar.length() == Some(0) {
                let style = ProgressStyle::with_template("  {bar:36.green/black} step {pos}/{len}  {msg}");
                self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            }
            self.bar.set_length(steps);
            self.bar.set_position(progress.step);
            let spent = job.posted.as_ref().map_or(0, |bill| bill.total_micros);
            let place = runs.last().map(|run| jobs::place(run.offer.as_ref())).unwrap_or_default();
            self.bar.set_message(format!("{place}  {} so far", amounts::money(spent, &job.currency)));
        }
    }

    fn tell_run(&mut self, run: &pb::Run, decision: Option<&pb::Decision>, begun: i64) {
        let place = jobs::place(run.offer.as_ref());
        let before = self.seen.insert(run.run_id.clone(), run.state());
        if before.is_none() {
            let price = amounts::price(run.price.as_ref());
            let what = format!("{} {price}", jobs::capacity(run.offer.as_ref()));
            self.line(Some(run.placed_ms - begun), &format!("placed      {} on {place}, {what}", run.run_id));
            if let Some(decision) = decision {
                self.line(None, &format!("            {}", considered(decision)));
            }
        }
        let started = run.started_ms.filter(|_| before != Some(pb::RunState::Running));
        if let (pb::RunState::Running, Some(started)) = (run.state(), started) {
            let step = run.restored_from.as_ref().map_or(0, |checkpoint| checkpoint.step);
            let from =
                if step == 0 { "from the beginning".into() } else { format!("from the checkpoint at step {step}") };
            self.line(Some(started - begun), &format!("running     {} {from}", run.run_id));
        }
        if let Some(notice) = run.notice.as_ref().filter(|_| !self.noticed.contains(&run.run_id)) {
            self.noticed.push(run.run_id.clone());
            let left = amounts::length(u64::try_from(notice.deadline_ms - notice.received_ms).unwrap_or(0));
            self.line(
                Some(notice.received_ms - begun),
                &format!("notice      {place} will be taken in {left}; saving"),
            );
        }
        if let (Some(end), Some(stopped)) = (&run.end, run.stopped_ms)
            && !self.ended.contains(&run.run_id)
        {
            self.ended.push(run.run_id.clone());
            let step = run.progress.as_ref().map_or(0, |progress| progress.step);
            self.line(Some(stopped - begun), &format!("{:<11} {} at step {step}", end.reason, run.run_id));
        }
    }

    /// A line with its time since the submission, by the market's clock.
    fn line(&self, at_ms: Option<i64>, text: &str) {
        let at = at_ms.map_or(String::new(), |ms| format!("{:02}:{:02}", ms / 60_000, ms / 1_000 % 60));
        let line = format!("  {at:>5}  {text}");
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Columns of the longest line that tells of a decision, with its indentation.
const STORY_WIDTH: usize = 98;

/// The expected bills that were compared, as many as one line holds: spot places by their cluster, others with their
/// capacity.
fn considered(decision: &pb::Decision) -> String {
    let one = |candidate: &pb::Candidate| {
        let total = candidate.bill.as_ref().map_or(0, |bill| bill.total_micros);
        let offer = candidate.offer.clone().unwrap_or_default();
        let capacity = if offer.capacity() == pb::CapacityType::Spot { "" } else { " on demand" };
        format!("{}{capacity} {}", offer.cluster, amounts::money(total, &candidate.currency))
    };
    let mut text = "expected bill: ".to_owned();
    for (index, place) in decision.chosen.iter().chain(&decision.others).map(one).enumerate() {
        let joined = if index == 0 { place } else { format!(" < {place}") };
        // Nine columns of time and eleven of indentation stand before it, and there may be an ellipsis behind it.
        if index > 0 && text.chars().count() + joined.chars().count() + 24 > STORY_WIDTH {
            return text + " < …";
        }
        text += &joined;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    #[test]
    fn a_decision_is_told_in_one_line() {
        let mut decision = samples::decision();
        assert_eq!(
            considered(&decision),
            "expected bill: aws-us-east-1 $2.22 < gcp-us-central1 $2.81 < …",
            "the third does not fit"
        );
        decision.others.truncate(1);
        assert_eq!(considered(&decision), "expected bill: aws-us-east-1 $2.22 < gcp-us-central1 $2.81");
    }
}
