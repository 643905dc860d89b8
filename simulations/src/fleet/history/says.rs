//! A history and what a replay of it assumes, in sentences.

use super::super::report::format::{count, dollars, listed, plural};
use super::{Check, Happened, History};

impl History {
    pub(super) fn about(&self) -> String {
        let jobs = plural(self.past.jobs.len() as f64, "job", "jobs");
        let what = if self.past.is_whole { "its whole history" } else { "the rows of an export" };
        format!("What an installation did: {jobs} in {}, out of {what}.", self.length())
    }

    /// "whole-bill (12 jobs) and cheapest (3 jobs)".
    pub fn policies_text(&self) -> String {
        let of =
            |(name, jobs): (&leeway_model::Name, &u64)| format!("{name} ({})", plural(*jobs as f64, "job", "jobs"));
        let known: Vec<String> = self.policies.iter().map(of).collect();
        if known.is_empty() { "none, as nothing was placed".into() } else { listed(&known) }
    }

    /// How far the model may be trusted.
    pub fn check_text(&self, check: &Check) -> String {
        let jobs = plural(check.jobs as f64, "job", "jobs");
        let (then, now) = (dollars(check.recorded), dollars(check.simulated));
        let apart = match check.difference {
            Some(apart) => format!("{:+.1} %", apart * 100.0),
            None => "nothing to compare with".into(),
        };
        let out = if check.left_out > 0 {
            format!("; {} more did not end in the simulation", count(check.left_out as f64))
        } else {
            String::new()
        };
        format!("{jobs} cost {then} when it happened and {now} in the simulation of {} ({apart}){out}", check.policy)
    }

    /// What the figures do not say by themselves.
    pub fn notes(&self, happened: &Happened) -> Vec<String> {
        let mut notes = Vec::new();
        let estimated = self.estimated();
        if estimated > 0 {
            let jobs = plural(estimated as f64, "job", "jobs");
            notes.push(format!("{jobs} never came to an end; their work is what was expected of them"));
        }
        if happened.ran.row.open > 0 {
            let jobs = plural(happened.ran.row.open as f64, "job", "jobs");
            let cost = dollars(happened.open_cost.as_units_f64());
            notes.push(format!(
                "{jobs} had not ended when the history did; the {cost} posted for them are not in '{}', and the \
                 simulation goes on until they end",
                super::AS_IT_HAPPENED
            ));
        }
        let (forgotten, cost) = self.forgotten();
        if forgotten > 0 {
            let jobs = plural(forgotten as f64, "job is", "jobs are");
            notes.push(format!(
                "{jobs} forgotten but for {} in the ledger, and not replayed",
                dollars(cost.as_units_f64())
            ));
        }
        for (policy, jobs) in &self.unknown_policies {
            notes.push(format!(
                "{} by '{policy}', which this program does not have",
                plural(*jobs as f64, "job was placed", "jobs were placed")
            ));
        }
        notes
    }

    /// What the model takes for true.
    pub fn assumptions(&self) -> Vec<String> {
        let terms = self.pace.terms();
        let mut says = vec![
            "The scheduler is told of prices, capacity, clusters and budgets what it was told then, when it was told; between \
             two observations the last one holds, and after the last one it goes on holding."
                .to_owned(),
            "Where capacity was observed, spot machines are there as observed. Where it was not, a loss or a refused launch \
             means that no more than was then held could be had until the next launch that succeeded, for an hour at the \
             most; otherwise there is as much as the cluster has."
                .to_owned(),
            "What a market takes it takes from whoever holds machines then, the newest first, with the warning that was \
             recorded for that loss. Our own demand moves no price."
                .to_owned(),
            format!(
                "Machines come {} after the order, programs begin {} later and machines are gone {} after the end: the means \
                 of the record, inputs and set-up included.",
                terms.provision.low, terms.boot.low, terms.release
            ),
            "A job's work is the time its program ran without saves and work done twice; failures of programs happen again \
             after the same work, unless somebody had the job tried again; jobs that people cancelled are cancelled at \
             the same moment."
                .to_owned(),
            "The server never stops, agents never fail, and programs that left by themselves to be continued do not.".to_owned(),
        ];
        if !self.past.is_whole {
            says.push(
                "Of an export only rows are left: prices are known where runs were placed and at the end, clusters, \
                 datasets and budgets are as they were at the end, and capacity is inferred from losses."
                    .to_owned(),
            );
        }
        if self.config.estimates.speeds.is_empty() {
            says.push("All machines are taken to be equally fast, as no configuration says otherwise.".to_owned());
        }
        says
    }
}
