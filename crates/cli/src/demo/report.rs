//! What the demonstration came to: runs, bill, budget, webhooks and the proof.

use leeway_model::{Millis, Rate};
use leeway_proto::pb;
use leeway_webhook::receiver::Event;
use serde_json::{Value, json};

use super::markets::Market;
use crate::render::{amounts, budgets, decisions, jobs};
use crate::terminal::View;

/// What the receiver got.
#[derive(Debug)]
pub struct Webhooks {
    pub received: usize,
    pub verified: usize,
    pub events: Vec<Event>,
}

#[derive(Debug)]
pub struct Report {
    pub job: pb::Job,
    pub runs: Vec<pb::Run>,
    pub budget: pb::Budget,
    pub webhooks: Webhooks,
    /// Digest of the weights that the job ended with.
    pub digest: Option<String>,
    /// Digest of the weights of an uninterrupted training.
    pub reference: String,
    pub on_demand: Rate,
    pub markets: Vec<Market>,
    pub seconds: f64,
}

impl Report {
    fn digest_matches(&self) -> bool {
        self.digest.as_ref() == Some(&self.reference)
    }

    /// Whether everything that the demonstration is to show was there.
    pub fn proves_the_point(&self) -> bool {
        self.job.state() == pb::JobState::Succeeded
            && self.digest_matches()
            && self.webhooks.verified > 0
            && self.webhooks.verified == self.webhooks.received
    }

    fn cost_micros(&self) -> i64 {
        self.job.posted.as_ref().map_or(0, |bill| bill.total_micros)
    }

    /// What the same steps would have cost on an on-demand machine: as long as the steps took here, each once, after one
    /// launch.
    fn on_demand_cost_micros(&self) -> i64 {
        let length = |from: Option<i64>, to: Option<i64>| match (from, to) {
            (Some(from), Some(to)) => u64::try_from(to - from).unwrap_or(0),
            _ => 0,
        };
        let running: u64 = self.runs.iter().map(|run| length(run.started_ms, run.stopped_ms)).sum();
        let redone: u64 = self.runs.iter().map(|run| run.steps_redone).sum();
        let steps = self.job.progress.as_ref().map_or(0, |progress| progress.step);
        let launch = self.runs.first().map_or(0, |run| length(run.launched_ms, run.started_ms));
        let useful = (running * steps).checked_div(steps + redone).unwrap_or(0);
        self.on_demand.cost(Millis::new(launch + useful)).get()
    }

    pub fn json(&self) -> Value {
        let runs = self.runs.iter().map(|run| {
            json!({
                "run_id": run.run_id,
                "cluster": jobs::place(run.offer.as_ref()),
                "capacity_type": jobs::capacity(run.offer.as_ref()),
                "rate_nanos_per_hour": run.price.as_ref().map_or(0, |price| price.rate_nanos_per_hour),
                "placed_ms": run.placed_ms,
                "started_ms": run.started_ms,
                "stopped_ms": run.stopped_ms,
                "released_ms": run.released_ms,
                "end_reason": run.end.as_ref().map(|end| end.reason.as_str()),
                "restored_from_step": run.restored_from.as_ref().map(|checkpoint| checkpoint.step),
                "last_step": run.progress.as_ref().map_or(0, |progress| progress.step),
                "steps_redone": run.steps_redone,
                "cost_micros": run.posted.as_ref().map_or(0, |bill| bill.total_micros),
            })
        });
        let markets = self.markets.iter().map(|market| json!({ "cluster": market.cluster, "follows": market.follows }));
        let bill = self.job.posted.iter().flat_map(|bill| &bill.lines);
        let bill = bill.map(|line| {
            (line.term().as_str_name().trim_start_matches("TERM_").to_lowercase(), json!(line.amount_micros))
        });
        let alerts = self
            .webhooks
            .events
            .iter()
            .map(|event| json!({ "id": event.id, "type": event.kind, "subject": event.subject }));
        json!({
            "job_id": self.job.job_id,
            "markets": markets.collect::<Vec<_>>(),
            "job_state": jobs::state_word(self.job.state()),
            "runs": runs.collect::<Vec<_>>(),
            "currency": self.job.currency,
            "cost_micros": self.cost_micros(),
            "bill_micros": bill.collect::<serde_json::Map<_, _>>(),
            "on_demand_cost_micros": self.on_demand_cost_micros(),
            "budget": {
                "name": self.budget.spec.as_ref().map(|spec| spec.name.as_str()),
                "cap_micros": self.budget.spec.as_ref().map(|spec| spec.cap_micros),
                "posted_micros": self.budget.posted_micros,
                "held_micros": self.budget.held_micros,
            },
            "digest": self.digest,
            "uninterrupted_digest": self.reference,
            "digest_matches": self.digest_matches(),
            "webhooks_received": self.webhooks.received,
            "webhooks_verified": self.webhooks.verified,
            "webhooks": alerts.collect::<Vec<_>>(),
            "seconds": self.seconds,
        })
    }

    pub fn text(&self, view: &View) -> String {
        let currency = &self.job.currency;
        let (cost, on_demand) = (self.cost_micros(), self.on_demand_cost_micros());
        let saved = if on_demand == 0 { 0.0 } else { (1.0 - cost as f64 / on_demand as f64) * 100.0 };
        let mut out = String::new();
        let mut section = |title: &str, body: String| out += &format!("\n{title}\n{body}\n");
        section("Runs", jobs::runs_table(&self.runs, view));
        let terms = self.job.posted.iter().flat_map(|bill| decisions::terms(bill, currency));
        let lines = terms.map(|(term, amount)| format!("{term:<18}{amount:>12}"));
        let mut bill: Vec<String> = lines.collect();
        let instead = amounts::money(on_demand, currency);
        let (percent, word) = if saved < 0.0 { (-saved, "more spent") } else { (saved, "saved") };
        bill.push(format!("{:<18}{instead:>12}   {percent:.0} % {word}", "on demand instead"));
        section("Bill", bill.join("\n"));
        section("Budget", budgets::one(&self.budget, view));
        let mut kinds: Vec<(&str, usize)> = Vec::new();
        for event in &self.webhooks.events {
            match kinds.iter_mut().find(|(kind, _)| *kind == event.kind) {
                Some((_, count)) => *count += 1,
                None => kinds.push((&event.kind, 1)),
            }
        }
        let mut lines: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} x {kind}")).collect();
        lines.push(format!("{} received, {} with a valid signature", self.webhooks.received, self.webhooks.verified));
        section("Webhooks", lines.join("\n"));
        let short = |digest: &str| digest.chars().take(16).collect::<String>();
        let proof = if self.digest_matches() {
            format!(
                "the final weights are those of a training that was never interrupted: sha256 {}…",
                short(&self.reference)
            )
        } else {
            let digest = self.digest.as_deref().map_or("none".to_owned(), short);
            format!("THE WEIGHTS DIFFER: {digest} here, {} uninterrupted", short(&self.reference))
        };
        section("Proof", proof);
        out += &format!("\nDone in {:.0} s.\n", self.seconds);
        out
    }
}
