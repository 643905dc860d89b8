//! Jobs: the queue, one job with its runs, and what became of submissions.

use leeway_model::Timestamp;
use leeway_proto::pb;

use super::amounts::{instant, length, money, price, rate, relative, size};
use super::listing::{Keep, Listing};
use super::{Align, Field, Grid, Tone, nothing, plain, properties};
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
    let (left, right) = (Align::Left, Align::Right);
    let mut listing = Listing::new([
        ("JOB", left, Keep::Always),
        ("NAME", left, Keep::Always),
        ("OWNER", left, Keep::Roomy(3)),
        ("STATE", left, Keep::Always),
        ("SINCE", right, Keep::Roomy(2)),
        ("PROGRESS", right, Keep::Roomy(1)),
        ("COST", right, Keep::Always),
        ("CAP", right, Keep::Filled),
        ("DEADLINE", right, Keep::Filled),
        ("SUBMITTED", right, Keep::Roomy(4)),
        ("WHY", left, Keep::Filled),
    ]);
    for job in jobs {
        let spec = job.spec.clone().unwrap_or_default();
        let cap = spec.money.as_ref().and_then(|money| money.max_cost_micros);
        listing.row([
            job.job_id.as_str().into(),
            spec.name.as_str().into(),
            spec.owner.as_str().into(),
            state(job.state()),
            relative(job.since_ms, view.now).into(),
            progress(job.progress.as_ref()).into(),
            spent(job),
            cap.map(|cap| money(cap, &job.currency)).unwrap_or_default().into(),
            deadline(job, false, view),
            relative(job.submitted_ms, view.now).into(),
            job.reason.as_ref().map_or("", |reason| reason.code.as_str()).into(),
        ]);
    }
    listing.finish(view)
}

/// What was spent; it stands out where the job's cap is nearly reached.
fn spent(job: &pb::Job) -> Field {
    let spent = total(job.posted.as_ref());
    let text = money(spent, &job.currency);
    let tone = match used_percent(job) {
        Some(100..) => Tone::Bad,
        Some(80..) => Tone::Waiting,
        _ => Tone::Plain,
    };
    Field::new(text, tone)
}

/// How much of the job's cap is spent.
fn used_percent(job: &pb::Job) -> Option<i128> {
    let cap = job.spec.as_ref()?.money.as_ref()?.max_cost_micros.filter(|cap| *cap > 0)?;
    Some(i128::from(total(job.posted.as_ref())) * 100 / i128::from(cap))
}

/// By when it must be done, or whether it was: `in 2h`, `passed 5m ago`, `met`, `missed`; `whole` says the instant, too.
fn deadline(job: &pb::Job, whole: bool, view: &View) -> Field {
    let time = job.spec.as_ref().and_then(|spec| spec.time.as_ref());
    let Some(at) = time.and_then(|time| time.deadline_ms) else { return Field::default() };
    let (text, tone) = match (job.state(), job.ended_ms) {
        (pb::JobState::Succeeded, Some(ended)) if ended <= at => ("met".to_owned(), Tone::Good),
        (pb::JobState::Cancelled, Some(_)) => ("cancelled".to_owned(), Tone::Faint),
        (_, Some(_)) => ("missed".to_owned(), Tone::Bad),
        (_, None) if at < view.now.as_millis() => (format!("passed {}", relative(at, view.now)), Tone::Bad),
        (_, None) => (format!("in {}", length(u64::try_from(at - view.now.as_millis()).unwrap_or(0))), Tone::Plain),
    };
    if whole { Field::new(format!("{} ({text})", Timestamp::from_millis(at)), tone) } else { Field::new(text, tone) }
}

/// One job and its runs.
pub fn status(job: &pb::Job, runs: &[pb::Run], view: &View) -> String {
    let spec = job.spec.clone().unwrap_or_default();
    let money_terms = spec.money.clone().unwrap_or_default();
    let ended = job.ended_ms.map(|at| instant(at, view.now)).unwrap_or_default();
    let reason = job.reason.as_ref().map(|reason| format!("{} [{}]", plain(&reason.message), reason.code));
    let cap = money_terms.max_cost_micros.map(|cap| {
        let percent = used_percent(job).map(|percent| format!(" ({percent}%)")).unwrap_or_default();
        format!(" of at most {}{percent}", money(cap, &job.currency))
    });
    let time = spec.time.unwrap_or_default();
    let each = spec.resources.iter().filter_map(|one| one.max_hourly_cost_nanos_per_hour).max();
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
            ("deadline", deadline(job, true, view)),
            ("estimate", time.estimate_ms.map(length).unwrap_or_default().into()),
            ("runs at most", time.max_duration_ms.map(length).unwrap_or_default().into()),
            (
                "pays at most",
                each.map(|most| format!("{} a machine", rate(most, &job.currency))).unwrap_or_default().into(),
            ),
            ("waits for", spec.depends_on.join(", ").into()),
            ("progress", progress(job.progress.as_ref()).into()),
            ("checkpoint", checkpoint.unwrap_or_default().into()),
            ("restarts", restarts(job.retries.as_ref()).into()),
            ("cost", spent(job).and(&cap.unwrap_or_default())),
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
    let (left, right) = (Align::Left, Align::Right);
    let mut listing = Listing::new([
        ("RUN", left, Keep::Always),
        ("WHERE", left, Keep::Always),
        ("CAPACITY", left, Keep::Always),
        ("PRICE", right, Keep::Always),
        ("STATE", left, Keep::Roomy(4)),
        ("ENDED", left, Keep::Filled),
        ("TIME", right, Keep::Roomy(1)),
        ("COST", right, Keep::Always),
        ("FROM STEP", right, Keep::Roomy(3)),
        ("TO STEP", right, Keep::Roomy(2)),
        ("REDONE", right, Keep::Filled),
    ]);
    for run in runs {
        let restored = run.restored_from.as_ref().map_or(0, |saved| saved.step);
        listing.row([
            run.run_id.as_str().into(),
            place(run.offer.as_ref()).into(),
            capacity(run.offer.as_ref()).into(),
            price(run.price.as_ref()).into(),
            word(run.state().as_str_name(), "RunState").into(),
            end(run.end.as_ref()),
            ran_for(run, view).into(),
            money(total(run.posted.as_ref()), &run.currency).into(),
            Field::from(restored.to_string()).idle_if(restored == 0),
            reached(run).into(),
            Field::from(run.steps_redone.to_string()).idle_if(run.steps_redone == 0),
        ]);
    }
    listing.finish(view)
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
    let warnings = warnings(&submitted.warnings);
    format!("{} {}{again}: {state}{}{warnings}", submitted.job_id, plain(name), why.unwrap_or_default())
}

/// A line for each thing that is to be said of a job's deadline.
pub fn warnings(warnings: &[pb::Reason]) -> String {
    warnings.iter().map(|warning| format!("\nwarning: {} [{}]", plain(&warning.message), warning.code)).collect()
}

/// A change of a job's state while somebody waits.
pub fn change(job: &pb::Job) -> String {
    let why = job.reason.as_ref().map(|reason| format!(": {}", plain(&reason.message))).unwrap_or_default();
    let step = progress(job.progress.as_ref());
    let step = if step.is_empty() { step } else { format!(", {step}") };
    format!("{} {}{step}{why}", job.job_id, state_word(job.state()))
}

/// How a job ended and what it cost, for whoever waited for it.
pub fn ended(job: &pb::Job) -> String {
    let code = job.reason.as_ref().map(|reason| format!(" [{}]", plain(&reason.code))).unwrap_or_default();
    format!("{}{code}; it cost {}", change(job), money(total(job.posted.as_ref()), &job.currency))
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
    fn the_end_of_a_job_is_told_with_its_reason_and_its_cost() {
        let reason = pb::Reason { code: "FAILED".into(), message: "the program ended with exit code 3".into() };
        let job = pb::Job {
            state: pb::JobState::Failed.into(),
            reason: Some(reason),
            progress: None,
            ..samples::running_job()
        };
        let cost = money(total(job.posted.as_ref()), &job.currency);
        let told = ended(&job);
        assert_eq!(told, format!("{} failed: the program ended with exit code 3 [FAILED]; it cost {cost}", job.job_id));
        assert_ne!(cost, "$0.00");
        let succeeded = pb::Job { state: pb::JobState::Succeeded.into(), reason: None, ..job };
        assert_eq!(ended(&succeeded), format!("{} succeeded; it cost {cost}", succeeded.job_id));
    }

    #[test]
    fn a_deadline_is_told_from_now_and_by_how_it_went() {
        use pb::JobState::{Cancelled, Failed, Running, Succeeded};
        let view = samples::view(None);
        let now = view.now.as_millis();
        let told = |state: pb::JobState, at: i64, ended: Option<i64>| {
            let mut job = samples::running_job();
            job.state = state.into();
            job.ended_ms = ended;
            job.spec.get_or_insert_default().time.get_or_insert_default().deadline_ms = Some(at);
            deadline(&job, false, &view).text
        };
        assert_eq!(told(Running, now + 5_400_000, None), "in 1h 30m");
        assert_eq!(told(Running, now - 7_200_000, None), "passed 2h ago");
        assert_eq!(told(Succeeded, now - 5, Some(now - 6)), "met");
        assert_eq!(told(Succeeded, now - 5, Some(now - 4)), "missed");
        assert_eq!(told(Failed, now + 5, Some(now)), "missed");
        assert_eq!(told(Cancelled, now + 5, Some(now)), "cancelled");
        assert_eq!(deadline(&pb::Job::default(), true, &view).text, "");
    }

    #[test]
    fn what_is_spent_is_seen_against_the_cap() {
        let mut job = samples::running_job();
        let spends = |job: &pb::Job| status(job, &[], &samples::view(None));
        assert!(spends(&job).contains("$3.17 of at most $250.00 (1%)"), "{}", spends(&job));
        job.posted.get_or_insert_default().total_micros = 250_000_000;
        assert!(spends(&job).contains("(100%)") && spent(&job).tone == Tone::Bad);
        assert!(queue(&[job], &samples::view(None)).contains("CAP"));
        assert!(!queue(&[pb::Job::default()], &samples::view(None)).contains("CAP"), "no job has a cap");
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
