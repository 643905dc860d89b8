//! Jobs: the queue, one job with its runs, and what became of submissions.

use leeway_proto::pb;

use super::amounts::{instant, length, money, price, relative, size};
use super::{Align, Field, Grid, Tone, first_that_fits, nothing, plain, properties};
use crate::json::word;
use crate::terminal::View;

/// The word for a job's state.
pub fn state_word(state: pb::JobState) -> String {
    word(state.as_str_name(), "JobState")
}

fn state(state: pb::JobState) -> Field {
    let tone = match state {
        pb::JobState::Succeeded => Tone::Good,
        pb::JobState::Failed => Tone::Bad,
        pb::JobState::Waiting | pb::JobState::Pending => Tone::Waiting,
        pb::JobState::Starting | pb::JobState::Running => Tone::Busy,
        pb::JobState::Cancelling | pb::JobState::Cancelled | pb::JobState::Unspecified => Tone::Faint,
    };
    Field::new(state_word(state), tone)
}

/// Where a run is or was: `cluster/shape`.
pub fn place(offer: Option<&pb::OfferKey>) -> String {
    offer.map_or_else(String::new, |offer| format!("{}/{}", offer.cluster, offer.shape))
}

/// How it is bought.
pub fn capacity(offer: Option<&pb::OfferKey>) -> String {
    offer.map_or_else(String::new, |offer| word(offer.capacity().as_str_name(), "CapacityType"))
}

fn progress(progress: Option<&pb::Progress>) -> String {
    match progress {
        None => String::new(),
        Some(pb::Progress { step: 0, total_steps: None }) => String::new(),
        Some(pb::Progress { step, total_steps: None }) => format!("step {step}"),
        Some(pb::Progress { step, total_steps: Some(total) }) => {
            let percent = u128::from(*step) * 100 / u128::from(*total).max(1);
            format!("{step}/{total} ({percent}%)")
        }
    }
}

fn total(bill: Option<&pb::Bill>) -> i64 {
    bill.map_or(0, |bill| bill.total_micros)
}

/// The queue, in the order in which it is given.
pub fn queue(jobs: &[pb::Job], view: &View) -> String {
    if jobs.is_empty() {
        return nothing("jobs", "launch one with 'leeway jobs launch FILE', or see finished ones with --all");
    }
    first_that_fits(view, &[&|view| queue_table(jobs, true, view), &|view| queue_table(jobs, false, view)])
}

/// `whole` shows also what is left out where there is little room: owner and time of submission.
fn queue_table(jobs: &[pb::Job], whole: bool, view: &View) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let columns = [
        (true, ("JOB", left)),
        (true, ("NAME", left)),
        (whole, ("OWNER", left)),
        (true, ("STATE", left)),
        (true, ("SINCE", right)),
        (true, ("PROGRESS", right)),
        (true, ("COST", right)),
        (whole, ("SUBMITTED", right)),
        (true, ("WHY", left)),
    ];
    let shown: Vec<_> = columns.iter().filter(|(show, _)| *show).map(|(_, column)| *column).collect();
    let mut grid = Grid::new(&shown, view);
    for job in jobs {
        let spec = job.spec.clone().unwrap_or_default();
        let fields: [Field; 9] = [
            job.job_id.as_str().into(),
            spec.name.as_str().into(),
            spec.owner.as_str().into(),
            state(job.state()),
            relative(job.since_ms, view.now).into(),
            progress(job.progress.as_ref()).into(),
            money(total(job.posted.as_ref()), &job.currency).into(),
            relative(job.submitted_ms, view.now).into(),
            job.reason.as_ref().map_or("", |reason| reason.code.as_str()).into(),
        ];
        grid.cells(columns.iter().zip(fields).filter(|((show, _), _)| *show).map(|(_, field)| field));
    }
    grid.finish()
}

/// One job and its runs.
pub fn status(job: &pb::Job, runs: &[pb::Run], view: &View) -> String {
    let spec = job.spec.clone().unwrap_or_default();
    let money_terms = spec.money.clone().unwrap_or_default();
    let ended = job.ended_ms.map(|at| instant(at, view.now)).unwrap_or_default();
    let reason = job.reason.as_ref().map(|reason| format!("{} [{}]", plain(&reason.message), reason.code));
    let cap = money_terms.max_cost_micros.map(|cap| format!(" of at most {}", money(cap, &job.currency)));
    let checkpoint = job.checkpoint.as_ref().map(|saved| {
        let id = saved.id.unwrap_or_default();
        format!(
            "step {} (run {}, number {}), {} in {}",
            saved.step,
            id.epoch,
            id.seq,
            size(saved.size_bytes),
            saved.region
        )
    });
    let head = properties(
        &[
            ("job", job.job_id.as_str().into()),
            ("name", spec.name.as_str().into()),
            ("owner", spec.owner.as_str().into()),
            ("state", state(job.state())),
            ("why", reason.unwrap_or_default().into()),
            ("since", instant(job.since_ms, view.now).into()),
            ("submitted", instant(job.submitted_ms, view.now).into()),
            ("ended", ended.into()),
            ("machines", spec.nodes.to_string().into()),
            ("policy", spec.policy.unwrap_or_default().into()),
            ("budget", money_terms.budget.unwrap_or_default().into()),
            ("waits for", spec.depends_on.join(", ").into()),
            ("progress", progress(job.progress.as_ref()).into()),
            ("checkpoint", checkpoint.unwrap_or_default().into()),
            ("restarts", restarts(job.retries.as_ref()).into()),
            ("cost", format!("{}{}", money(total(job.posted.as_ref()), &job.currency), cap.unwrap_or_default()).into()),
        ],
        view,
    );
    let bill = job.posted.as_ref().map(|bill| super::decisions::terms(bill, &job.currency)).unwrap_or_default();
    let bill = if bill.is_empty() { String::new() } else { format!("\n\nBill\n{}", properties_of(bill, view)) };
    let runs = if runs.is_empty() { String::new() } else { format!("\n\nRuns\n{}", runs_table(runs, view)) };
    format!("{head}{bill}{runs}")
}

fn properties_of(rows: Vec<(String, String)>, view: &View) -> String {
    let mut grid = Grid::bare([Align::Left, Align::Right].into_iter(), view);
    for (name, amount) in rows {
        grid.row([Field::new(name, Tone::Faint), amount.into()]);
    }
    grid.finish()
}

fn restarts(used: Option<&pb::RetriesUsed>) -> String {
    let Some(used) = used else { return String::new() };
    let counts = [
        (used.interruptions, "after interruptions"),
        (used.infrastructure_failures, "after failed machines"),
        (used.user_failures, "after failures of the program"),
    ];
    let said = counts.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}"));
    said.collect::<Vec<_>>().join(", ")
}

/// Runs, in the order in which they are given.
pub fn runs_table(runs: &[pb::Run], view: &View) -> String {
    first_that_fits(view, &[&|view| runs_grid(runs, true, view), &|view| runs_grid(runs, false, view)])
}

/// `whole` shows also what is left out where there is little room: state and steps.
fn runs_grid(runs: &[pb::Run], whole: bool, view: &View) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let columns = [
        (true, ("RUN", left)),
        (true, ("WHERE", left)),
        (true, ("CAPACITY", left)),
        (true, ("PRICE", right)),
        (whole, ("STATE", left)),
        (true, ("ENDED", left)),
        (true, ("TIME", right)),
        (true, ("COST", right)),
        (whole, ("FROM STEP", right)),
        (whole, ("TO STEP", right)),
        (true, ("REDONE", right)),
    ];
    let shown: Vec<_> = columns.iter().filter(|(show, _)| *show).map(|(_, column)| *column).collect();
    let mut grid = Grid::new(&shown, view);
    for run in runs {
        let restored = run.restored_from.as_ref().map_or(0, |saved| saved.step);
        let fields: [Field; 11] = [
            run.run_id.as_str().into(),
            place(run.offer.as_ref()).into(),
            capacity(run.offer.as_ref()).into(),
            price(run.price.as_ref()).into(),
            word(run.state().as_str_name(), "RunState").into(),
            end(run.end.as_ref()),
            ran_for(run, view).into(),
            money(total(run.posted.as_ref()), &run.currency).into(),
            restored.to_string().into(),
            reached(run).into(),
            run.steps_redone.to_string().into(),
        ];
        grid.cells(columns.iter().zip(fields).filter(|((show, _), _)| *show).map(|(_, field)| field));
    }
    grid.finish()
}

/// The step that its program reported last; nothing when it reported none.
fn reached(run: &pb::Run) -> String {
    let progress = run.progress.as_ref().filter(|progress| progress.step > 0);
    progress.map(|progress| progress.step.to_string()).unwrap_or_default()
}

fn end(end: Option<&pb::RunEnd>) -> Field {
    let Some(end) = end else { return Field::default() };
    let tone = match end.reason.as_str() {
        "succeeded" => Tone::Good,
        "failed" | "failed-for-good" => Tone::Bad,
        _ => Tone::Waiting,
    };
    let detail = match (end.exit_code, &end.launch_error) {
        (Some(code), _) if code != 0 => format!(" ({code})"),
        (_, Some(class)) => format!(" ({class})"),
        _ => String::new(),
    };
    Field::new(format!("{}{detail}", end.reason), tone)
}

/// Time from the appearance of the machines to their end, or to now.
fn ran_for(run: &pb::Run, view: &View) -> String {
    let Some(launched) = run.launched_ms else { return String::new() };
    let end = run.released_ms.or(run.stopped_ms).unwrap_or_else(|| view.now.as_millis());
    length(u64::try_from(end.saturating_sub(launched)).unwrap_or(0))
}

/// What became of one submission: `j-42 resnet: pending`.
pub fn submitted(name: &str, submitted: &pb::Submitted) -> String {
    let again = if submitted.replayed { " (submitted before)" } else { "" };
    let why = submitted.reason.as_ref().map(|reason| format!(": {} [{}]", plain(&reason.message), reason.code));
    let state = state_word(submitted.state());
    format!("{} {}{again}: {state}{}", submitted.job_id, plain(name), why.unwrap_or_default())
}

/// A change of a job's state while somebody waits.
pub fn change(job: &pb::Job) -> String {
    let why = job.reason.as_ref().map(|reason| format!(": {}", plain(&reason.message))).unwrap_or_default();
    let step = progress(job.progress.as_ref());
    let step = if step.is_empty() { step } else { format!(", {step}") };
    format!("{} {}{step}{why}", job.job_id, state_word(job.state()))
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn the_queue_has_a_line_for_each_job() {
        insta::assert_snapshot!("queue", queue(&samples::jobs(), &samples::view(None)));
        insta::assert_snapshot!("queue_80", queue(&samples::jobs(), &samples::view(Some(80))));
        assert!(queue(&[], &samples::view(None)).contains("leeway jobs launch"));
    }

    #[test]
    fn a_job_is_shown_with_its_bill_and_its_runs() {
        insta::assert_snapshot!("status", status(&samples::running_job(), &samples::runs(), &samples::view(None)));
        insta::assert_snapshot!("status_empty", status(&pb::Job::default(), &[], &samples::view(None)));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [20, 60, 80, 100, 140] {
            let text = status(&samples::running_job(), &samples::runs(), &samples::view(Some(width)));
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            // Eleven columns need some room each, however narrow the terminal says it is.
            assert!(widest <= usize::from(width.max(60)), "{widest} columns for {width}:\n{text}");
        }
    }

    #[test]
    fn control_characters_of_a_name_do_not_reach_the_terminal() {
        let mut job = samples::running_job();
        job.spec.get_or_insert_default().name = "\u{1b}[2Jgone\u{7}".into();
        job.reason = Some(pb::Reason { code: "X".into(), message: "a\u{1b}]0;b".into() });
        let view = samples::view(None);
        let all = [queue(std::slice::from_ref(&job), &view), status(&job, &[], &view), change(&job)].concat();
        assert!(!all.chars().any(|c| c.is_control() && c != '\n'), "{all:?}");
    }
}
