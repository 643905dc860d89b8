//! Why: the bill of each candidate term by term, and every rejection with its reason.

use leeway_proto::pb;

use super::amounts::{instant, length, money, price, rate};
use super::jobs::{capacity, place};
use super::{Align, Grid, first_that_fits, plain};
use crate::json::word;
use crate::terminal::View;

/// The terms of a bill that a person reads, in their order; every term is there.
const TERMS: [(pb::Term, &str, &str); 8] = [
    (pb::Term::Compute, "compute", "COMPUTE"),
    (pb::Term::Checkpoints, "checkpoints", "SAVES"),
    (pb::Term::Rework, "rework", "REWORK"),
    (pb::Term::InputEgress, "input egress", "INPUT"),
    (pb::Term::CheckpointMove, "checkpoint move", "MOVE"),
    (pb::Term::OutputEgress, "output egress", "OUTPUT"),
    (pb::Term::Disk, "disk", "DISK"),
    (pb::Term::Waiting, "waiting", "WAIT"),
];

fn term(bill: Option<&pb::Bill>, term: pb::Term) -> i64 {
    let lines = bill.iter().flat_map(|bill| &bill.lines);
    lines.filter(|line| line.term() == term).map(|line| line.amount_micros).sum()
}

/// The terms of a bill that are not zero, and their sum; nothing for an empty bill.
pub fn terms(bill: &pb::Bill, currency: &str) -> Vec<(String, String)> {
    let mut rows: Vec<_> = TERMS
        .iter()
        .map(|(which, name, _)| (name, term(Some(bill), *which)))
        .filter(|(_, amount)| *amount != 0)
        .map(|(name, amount)| ((*name).to_owned(), money(amount, currency)))
        .collect();
    if !rows.is_empty() {
        rows.push(("total".to_owned(), money(bill.total_micros, currency)));
    }
    rows
}

/// The answer of a dry run.
pub fn dry_run(name: &str, answer: &pb::DryRunJobResponse, limits: &str, view: &View) -> String {
    let found = answer.evaluation.clone().unwrap_or_default();
    evaluation(name, &found, limits, &answer.warnings, view)
}

/// What would be decided about a job now: the answer of a dry run, or of `explain` for a job that waits. `limits` are
/// the job's own, since what is rejected may be rejected for them.
fn evaluation(name: &str, evaluation: &pb::Evaluation, limits: &str, warnings: &[pb::Reason], view: &View) -> String {
    let rejected = evaluation.rejected.iter().map(|count| u64::from(count.count)).sum::<u64>();
    let mut text = format!(
        "{} by the policy {} at {}\n{} can take it, {rejected} cannot",
        plain(name),
        plain(&evaluation.policy),
        instant(evaluation.at_ms, view.now),
        evaluation.candidates.len(),
    );
    if let Some(reason) = &evaluation.reason {
        text += &format!("\nnow: {} [{}]", plain(&reason.message), reason.code);
    }
    if let Some(why) = evaluation.why.as_ref().filter(|_| evaluation.reason.is_none()) {
        text += &format!("\nnow: #1; {}", plain(why));
    }
    if !limits.is_empty() {
        text += &format!("\nlimits: {limits}");
    }
    text += &super::jobs::warnings(warnings);
    if !evaluation.candidates.is_empty() {
        text += &format!("\n\nCandidates, best first\n{}", candidates(&evaluation.candidates, view));
        text += &holds(evaluation);
    }
    if evaluation.rejections.is_empty() {
        if !evaluation.rejected.is_empty() {
            text += &format!("\n\nRejected\n{}", counts(&evaluation.rejected, view));
        }
    } else {
        text += &format!("\n\nRejected\n{}", rejections(&evaluation.rejections, view));
        let listed = evaluation.rejections.len() as u64;
        if rejected > listed {
            text += &format!("\nand {} more", rejected - listed);
        }
    }
    text
}

/// Whether the money for the candidates is there: for the best, and for the first other where it differs.
fn holds(evaluation: &pb::Evaluation) -> String {
    let numbered = || (1..).zip(evaluation.holds.iter().zip(&evaluation.candidates));
    let Some((_, (first, _))) = numbered().next() else { return String::new() };
    let differs = numbered().find(|(_, (hold, _))| hold.refused.is_some() != first.refused.is_some());
    let line = |(number, (hold, candidate)): (usize, (&pb::HoldCheck, &pb::Candidate))| match &hold.refused {
        Some(reason) => format!("\nhold for #{number}: refused, {} [{}]", plain(&reason.message), reason.code),
        None => {
            let amount = money(hold.amount_micros.unwrap_or_default(), &candidate.currency);
            format!("\nhold for #{number}: {amount}; there is room for it")
        }
    };
    numbered().take(1).chain(differs).map(line).collect()
}

/// What a job may cost at most, in all and for one machine an hour; nothing where it says neither.
pub fn limits(spec: &pb::JobSpec, spent_micros: i64, currency: &str) -> String {
    let cap = spec.money.as_ref().and_then(|terms| terms.max_cost_micros).map(|cap| {
        let spent =
            if spent_micros == 0 { String::new() } else { format!(", {} spent", money(spent_micros, currency)) };
        format!("max_cost {}{spent}", money(cap, currency))
    });
    // Each alternative may have its own.
    let mut each: Vec<u64> = spec.resources.iter().filter_map(|one| one.max_hourly_cost_nanos_per_hour).collect();
    each.sort_unstable();
    each.dedup();
    let each = (!each.is_empty()).then(|| {
        let rates: Vec<String> = each.iter().map(|most| rate(*most, currency)).collect();
        format!("max_hourly_cost {}", rates.join(" or "))
    });
    cap.into_iter().chain(each).collect::<Vec<_>>().join("; ")
}

/// The decision behind each run, and what stands in the way of the next one.
pub fn explain(answer: &pb::ExplainJobResponse, view: &View) -> String {
    let job = answer.job.clone().unwrap_or_default();
    let mut parts = vec![super::jobs::change(&job) + &super::jobs::warnings(&answer.warnings)];
    parts.extend(answer.decisions.iter().map(|one| decision(one, view)));
    if let Some(present) = &answer.evaluation {
        let spec = job.spec.clone().unwrap_or_default();
        let spent = job.posted.as_ref().map_or(0, |bill| bill.total_micros);
        parts.push(evaluation("next run", present, &limits(&spec, spent, &job.currency), &[], view));
    }
    if parts.len() == 1 {
        parts.push("nothing was decided about it yet".to_owned());
    }
    parts.extend(answer.cluster_says.iter().map(|says| format!("its cluster says: {}", plain(says))));
    parts.join("\n\n")
}

fn decision(decision: &pb::Decision, view: &View) -> String {
    let chosen: Vec<pb::Candidate> = decision.chosen.iter().chain(&decision.others).cloned().collect();
    let offer = decision.chosen.as_ref().and_then(|chosen| chosen.offer.as_ref());
    let mut text = format!(
        "{} on {} ({}), decided {} by the policy {}\nwhy: {}\nheld: {}\n\n{}",
        decision.run_id,
        place(offer),
        capacity(offer),
        instant(decision.at_ms, view.now),
        plain(&decision.policy),
        plain(&decision.why),
        money(decision.held_micros, &decision.currency),
        candidates(&chosen, view),
    );
    if !decision.rejected.is_empty() {
        text += &format!("\n\nRejected\n{}", counts(&decision.rejected, view));
    }
    text
}

/// Columns of a table of candidates where nobody says how many there are.
const USUAL_WIDTH: u16 = 100;

/// Candidates with every term that one of them has, a row each where that fits, else a column each; the terms that none
/// of them has are named below.
fn candidates(candidates: &[pb::Candidate], view: &View) -> String {
    let (paid, free): (Vec<_>, Vec<_>) = TERMS
        .iter()
        .copied()
        .partition(|(which, _, _)| candidates.iter().any(|one| term(one.bill.as_ref(), *which) != 0));
    let view = View { width: view.width.or(Some(USUAL_WIDTH)), ..*view };
    let width = usize::from(view.width.unwrap_or(USUAL_WIDTH));
    let table =
        first_that_fits(&view, &[&|view| rows(candidates, &paid, view), &|view| sheet(candidates, &paid, view, width)]);
    if free.is_empty() {
        return table;
    }
    let names: Vec<&str> = free.iter().map(|(_, name, _)| *name).collect();
    format!("{table}\nnothing for: {}", names.join(", "))
}

/// A term with its name and its heading.
type Named = (pb::Term, &'static str, &'static str);

fn rows(candidates: &[pb::Candidate], terms: &[Named], view: &View) -> String {
    let mut columns =
        vec![("#", Align::Right), ("WHERE", Align::Left), ("CAPACITY", Align::Left), ("PRICE", Align::Right)];
    columns.extend(terms.iter().map(|(_, _, short)| (*short, Align::Right)));
    columns.extend([("TOTAL", Align::Right), ("TIME", Align::Right)]);
    let guesses = candidates.iter().any(|one| !one.assumed.is_empty());
    columns.extend(guesses.then_some(("ASSUMED", Align::Left)));
    let mut grid = Grid::new(&columns, view);
    for (index, candidate) in candidates.iter().enumerate() {
        let mut fields = vec![
            (index + 1).to_string(),
            place(candidate.offer.as_ref()),
            capacity(candidate.offer.as_ref()),
            price(candidate.price.as_ref()),
        ];
        let amount = |amount| money(amount, &candidate.currency);
        fields.extend(terms.iter().map(|(which, _, _)| amount(term(candidate.bill.as_ref(), *which))));
        fields.push(amount(candidate.bill.as_ref().map_or(0, |bill| bill.total_micros)));
        fields.push(length(candidate.expected_time_ms));
        fields.extend(guesses.then(|| assumed(candidate)));
        grid.cells(fields.into_iter().map(Into::into));
    }
    grid.finish()
}

/// The same, turned round, in blocks of as many candidates as stand side by side.
fn sheet(candidates: &[pb::Candidate], terms: &[Named], view: &View, width: usize) -> String {
    const LABEL: usize = 18;
    const COLUMN: usize = 24;
    let beside = (width.saturating_sub(LABEL) / COLUMN).max(1);
    let blocks = candidates.chunks(beside).enumerate().map(|(block, chunk)| {
        let aligns = std::iter::once(Align::Left).chain(chunk.iter().map(|_| Align::Right));
        let mut grid = Grid::bare(aligns, view);
        let mut line = |label: &str, value: &dyn Fn(usize, &pb::Candidate) -> String| {
            let values =
                chunk.iter().enumerate().map(|(index, candidate)| value(block * beside + index + 1, candidate));
            grid.cells(std::iter::once(label.to_owned()).chain(values).map(Into::into));
        };
        line("#", &|number, _| number.to_string());
        line("cluster", &|_, one| one.offer.as_ref().map_or_else(String::new, |offer| offer.cluster.clone()));
        line("machine", &|_, one| one.offer.as_ref().map_or_else(String::new, |offer| offer.shape.clone()));
        line("capacity", &|_, one| capacity(one.offer.as_ref()));
        line("price", &|_, one| price(one.price.as_ref()));
        for (which, name, _) in terms {
            line(name, &|_, one| money(term(one.bill.as_ref(), *which), &one.currency));
        }
        line("expected total", &|_, one| money(one.bill.as_ref().map_or(0, |bill| bill.total_micros), &one.currency));
        line("expected time", &|_, one| length(one.expected_time_ms));
        if chunk.iter().any(|one| !one.assumed.is_empty()) {
            line("assumed", &|_, one| assumed(one));
        }
        grid.finish()
    });
    blocks.collect::<Vec<_>>().join("\n\n")
}

fn assumed(candidate: &pb::Candidate) -> String {
    let words = candidate.assumed().map(|assumption| word(assumption.as_str_name(), "Assumption"));
    words.collect::<Vec<_>>().join(", ")
}

fn rejections(rejections: &[pb::Rejection], view: &View) -> String {
    let mut grid = Grid::new(
        &[("WHERE", Align::Left), ("CAPACITY", Align::Left), ("RULE", Align::Left), ("WHY", Align::Left)],
        view,
    );
    for rejection in rejections {
        grid.row([
            place(rejection.offer.as_ref()).into(),
            capacity(rejection.offer.as_ref()).into(),
            word(rejection.rule().as_str_name(), "Rule").into(),
            rejection.detail.as_str().into(),
        ]);
    }
    grid.finish()
}

fn counts(rejected: &[pb::RejectionCount], view: &View) -> String {
    let mut grid = Grid::new(
        &[("OFFERS", Align::Right), ("RULE", Align::Left), ("FOR EXAMPLE", Align::Left), ("WHY", Align::Left)],
        view,
    );
    for one in rejected {
        let example = one.example.clone().unwrap_or_default();
        grid.row([
            one.count.to_string().into(),
            word(one.rule().as_str_name(), "Rule").into(),
            place(example.offer.as_ref()).into(),
            example.detail.as_str().into(),
        ]);
    }
    grid.finish()
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn a_dry_run_shows_every_term_and_every_rejection() {
        let found = samples::evaluation();
        let wide = evaluation("resnet", &found, "", &[], &samples::view(None));
        insta::assert_snapshot!("dryrun", wide);
        insta::assert_snapshot!("dryrun_80", evaluation("resnet", &found, "", &[], &samples::view(Some(80))));
        for rejection in &found.rejections {
            assert!(wide.contains(&rejection.detail), "{}", rejection.detail);
        }
    }

    #[test]
    fn both_layouts_hold_the_same_amounts() {
        let found = samples::evaluation();
        let narrow = evaluation("resnet", &found, "", &[], &samples::view(Some(70)));
        for candidate in &found.candidates {
            for (which, name, _) in TERMS {
                let amount = money(term(candidate.bill.as_ref(), which), "USD");
                assert!(narrow.contains(name) && narrow.contains(&amount), "{name} {amount}");
            }
        }
        assert!(narrow.lines().all(|line| line.chars().count() <= 70), "{narrow}");
    }

    #[test]
    fn a_bill_fits_a_hundred_columns_wherever_it_is_printed() {
        let found = samples::evaluation();
        for width in [None, Some(100)] {
            let text = evaluation("resnet", &found, "", &[], &samples::view(width));
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        }
        let wide = evaluation("resnet", &found, "", &[], &samples::view(Some(200)));
        assert!(wide.contains("  COMPUTE "), "there is room for a row each: {wide}");
    }

    #[test]
    fn a_term_that_no_candidate_has_is_named_once_instead_of_shown() {
        let mut found = samples::evaluation();
        for bill in found.candidates.iter_mut().filter_map(|one| one.bill.as_mut()) {
            bill.lines.retain(|line| line.term() == pb::Term::Compute);
            bill.total_micros = bill.lines.iter().map(|line| line.amount_micros).sum();
        }
        insta::assert_snapshot!("dryrun_one_term", evaluation("resnet", &found, "", &[], &samples::view(None)));
    }

    #[test]
    fn the_limits_of_a_job_stand_beside_what_they_reject() {
        let mut spec = samples::running_job().spec.unwrap();
        assert_eq!(limits(&pb::JobSpec::default(), 0, "USD"), "");
        assert_eq!(limits(&spec, 3_170_000, "USD"), "max_cost $250.00, $3.17 spent");
        let request = |nanos| pb::ResourceRequest { max_hourly_cost_nanos_per_hour: nanos, ..Default::default() };
        spec.resources = vec![request(Some(2_500_000_000)), request(None), request(Some(1_000_000_000))];
        let text = limits(&spec, 0, "USD");
        assert_eq!(text, "max_cost $250.00; max_hourly_cost $1.00/h or $2.50/h");
        assert!(evaluation("x", &samples::evaluation(), &text, &[], &samples::view(None)).contains(&text));
    }

    #[test]
    fn money_that_is_not_there_is_told_for_the_best_and_where_it_differs() {
        let found = |refused: &[bool]| {
            let hold = |refused: &bool| match refused {
                true => {
                    let reason = pb::Reason { code: "BUDGET_EXCEEDED".into(), message: "budget 'team' is full".into() };
                    pb::HoldCheck { amount_micros: None, refused: Some(reason) }
                }
                false => pb::HoldCheck { amount_micros: Some(2_375_000), refused: None },
            };
            holds(&pb::Evaluation { holds: refused.iter().map(hold).collect(), ..samples::evaluation() })
        };
        assert_eq!(found(&[]), "");
        assert_eq!(found(&[false, false]), "\nhold for #1: $2.38; there is room for it");
        let refused = "refused, budget 'team' is full [BUDGET_EXCEEDED]";
        assert_eq!(found(&[true, true]), format!("\nhold for #1: {refused}"));
        assert_eq!(
            found(&[true, false]),
            format!("\nhold for #1: {refused}\nhold for #2: $2.38; there is room for it")
        );
        assert!(samples::evaluation().candidates.len() >= 2);
    }

    #[test]
    fn nothing_to_decide_says_what_stands_in_the_way() {
        let reason = pb::Reason { code: "NO_CAPACITY".into(), message: "no machine is free".into() };
        let found =
            pb::Evaluation { candidates: vec![], rejections: vec![], reason: Some(reason), ..samples::evaluation() };
        insta::assert_snapshot!("dryrun_none", evaluation("resnet", &found, "", &[], &samples::view(None)));
    }

    #[test]
    fn explain_goes_through_the_runs_and_ends_with_the_present() {
        let answer = pb::ExplainJobResponse {
            job: Some(samples::running_job()),
            decisions: vec![samples::decision()],
            evaluation: Some(samples::evaluation()),
            warnings: vec![pb::Reason { code: "DEADLINE_UNPROTECTED".into(), message: "spot may be taken".into() }],
            cluster_says: Some("PENDING: Resources".into()),
        };
        insta::assert_snapshot!("explain", explain(&answer, &samples::view(None)));
        insta::assert_snapshot!("explain_empty", explain(&pb::ExplainJobResponse::default(), &samples::view(None)));
    }
}
