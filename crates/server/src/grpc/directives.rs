//! What an agent should be doing, in the words of the wire. Derived from the run's row each time, so a lost message or a
//! restart costs nothing.

use leeway_core::Directive;
use leeway_core::config::Lease;
use leeway_model::run::{EndReason, Run};
use leeway_model::{RunId, Timestamp};
use leeway_proto::pb;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::Shared;
use crate::clock::Clock;
use crate::driver_loop::View;

/// Orders that wait for the network.
const AHEAD: usize = 4;

/// The order that holds for a run, when there is one.
pub(super) fn order(
    directive: &Directive,
    run: Option<&Run>,
    clock: &Clock,
    lease: Lease,
    now: Timestamp,
) -> Option<pb::Directive> {
    use pb::directive::Directive as Wire;
    let order = match directive {
        Directive::Run { interval } => {
            Wire::Interval(pb::IntervalDirective { interval_ms: clock.to_agent((*interval)?) })
        }
        Directive::Drain { deadline, save, notice } => Wire::Notice(pb::NoticeDirective {
            kind: kind(*notice, run).into(),
            time_left_ms: clock.to_agent(deadline.since(now)),
            save: *save,
        }),
        Directive::Stop => {
            let end = run.and_then(|run| run.end.as_ref());
            Wire::Stop(pb::StopDirective {
                grace_ms: clock.to_agent(lease.kill_grace),
                reason: end.map_or("over", EndReason::as_str).to_owned(),
            })
        }
    };
    Some(pb::Directive { directive: Some(order) })
}

fn kind(notice: bool, run: Option<&Run>) -> pb::NoticeKind {
    match run.and_then(|run| run.end.as_ref()) {
        _ if notice => pb::NoticeKind::Interruption,
        Some(EndReason::OutOfBudget) => pb::NoticeKind::Budget,
        _ => pb::NoticeKind::Preemption,
    }
}

/// What a stream needs to know of its run; `None` when it is forgotten.
type Seen = Option<(Directive, Run, Timestamp)>;

fn look(run: RunId) -> impl FnOnce(&mut View<'_>) -> Seen + Send + 'static {
    move |view| {
        let run = view.scheduler.run(run)?;
        Some((view.scheduler.directive(run), run.clone(), view.now))
    }
}

/// Orders for one run until it ends. Sent again whenever they change.
pub(super) async fn stream(
    shared: Shared,
    run: RunId,
) -> Result<ReceiverStream<Result<pb::StreamDirectivesResponse, Status>>, Status> {
    let mut signals = shared.signals.listen(run);
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let mut told: Option<Directive> = None;
        loop {
            signals.mark_unchanged();
            let (directive, row, now) = match shared.handle.read(look(run)).await {
                Ok(Some(seen)) => seen,
                Ok(None) => return,
                Err(failure) => {
                    let _ = sender.send(Err(failure.into())).await;
                    return;
                }
            };
            if told.as_ref() != Some(&directive) {
                let order = order(&directive, Some(&row), &shared.clock, shared.config.lease, now);
                if let Some(directive) = order {
                    let message = pb::StreamDirectivesResponse { directive: Some(directive) };
                    if sender.send(Ok(message)).await.is_err() {
                        return;
                    }
                }
                told = Some(directive);
            }
            if row.state.is_over() {
                return;
            }
            tokio::select! {
                changed = signals.changed() => if changed.is_err() { return },
                () = sender.closed() => return,
                () = shared.stopping.cancelled() => return,
            }
        }
    });
    Ok(ReceiverStream::new(receiver))
}
