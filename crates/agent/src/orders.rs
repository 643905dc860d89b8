//! What the server wants, whichever way and however often it said so. Orders only ever become stricter.

use std::time::Duration;

use leeway_proto::pb;
use leeway_proto::pb::directive::Directive;
use tokio::sync::watch;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    pub notice: Option<Notice>,
    /// Time since boot by which the program is killed.
    pub stop: Option<Duration>,
    pub interval_ms: Option<u64>,
    /// How many checkpoints were asked for.
    pub checkpoints: u64,
}

/// The machine or the place will go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    pub kind: pb::NoticeKind,
    /// Time since boot.
    pub deadline: Duration,
    pub save: bool,
}

impl Orders {
    /// When the program is killed, if ever.
    pub fn deadline(&self) -> Option<Duration> {
        [self.notice.map(|notice| notice.deadline), self.stop].into_iter().flatten().min()
    }

    /// Whether the program was told to end.
    pub const fn is_ending(&self) -> bool {
        self.notice.is_some() || self.stop.is_some()
    }

    /// When to ask the program to end. A program that is not to save goes on while its last upload may still finish,
    /// but only where the provider decides about the place.
    pub fn terminate_at(&self) -> Option<Duration> {
        const MARGIN: Duration = Duration::from_secs(3);
        let notice = self.notice.map(|notice| match notice.kind {
            pb::NoticeKind::Interruption if !notice.save => notice.deadline.saturating_sub(MARGIN),
            _ => Duration::ZERO,
        });
        let stop = self.stop.map(|_| Duration::ZERO);
        [notice, stop].into_iter().flatten().min()
    }
}

/// Where orders are put and read.
#[derive(Debug)]
pub struct Board(watch::Sender<Orders>);

impl Default for Board {
    fn default() -> Self {
        Self(watch::Sender::new(Orders::default()))
    }
}

impl Board {
    pub fn now(&self) -> Orders {
        self.0.borrow().clone()
    }

    pub fn subscribe(&self) -> watch::Receiver<Orders> {
        self.0.subscribe()
    }

    /// Returns when the program is to end.
    pub async fn ending(&self) {
        let mut changes = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = changes.wait_for(Orders::is_ending).await;
    }

    pub fn stop(&self, kill_at: Duration) {
        self.change(|orders| orders.stop = Some(orders.stop.map_or(kill_at, |known| known.min(kill_at))));
    }

    /// Asks the program to save now, and to go on.
    pub fn checkpoint_now(&self) {
        self.change(|orders| orders.checkpoints += 1);
    }

    /// The provider takes the machine at `deadline`. A last save is worth trying until the server, which knows how long
    /// one takes, says otherwise.
    pub fn warn(&self, deadline: Duration) {
        self.change(|orders| {
            let new = Notice { kind: pb::NoticeKind::Interruption, deadline, save: true };
            let known = orders.notice.get_or_insert(new);
            known.deadline = known.deadline.min(deadline);
        });
    }

    /// Takes an order as it came at `now`. One that is not known is skipped.
    pub fn take(&self, directive: pb::Directive, now: Duration) {
        let after = |ms| now.saturating_add(Duration::from_millis(ms));
        match directive.directive {
            None => tracing::debug!("skipped a directive of a later version"),
            Some(Directive::Notice(notice)) => self.change(|orders| {
                let (kind, deadline) = (notice.kind(), after(notice.time_left_ms));
                let known = orders.notice.unwrap_or(Notice { kind, deadline, save: notice.save });
                let deadline = if known.deadline > deadline { deadline } else { known.deadline };
                // That there is no time to save any more cannot be taken back; that there is, can come later.
                orders.notice = Some(Notice { kind: known.kind, deadline, save: notice.save });
            }),
            Some(Directive::Stop(stop)) => {
                tracing::info!(reason = stop.reason, grace_ms = stop.grace_ms, "told to stop");
                self.stop(after(stop.grace_ms));
            }
            Some(Directive::Interval(interval)) => {
                self.change(|orders| orders.interval_ms = Some(interval.interval_ms))
            }
            Some(Directive::CheckpointNow(_)) => self.checkpoint_now(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Orders)) {
        self.0.send_if_modified(|orders| {
            let before = orders.clone();
            change(orders);
            *orders != before
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(kind: pb::NoticeKind, time_left_ms: u64, save: bool) -> pb::Directive {
        let notice = pb::NoticeDirective { kind: kind.into(), time_left_ms, save };
        pb::Directive { directive: Some(Directive::Notice(notice)) }
    }

    fn stop(grace_ms: u64) -> pb::Directive {
        pb::Directive { directive: Some(Directive::Stop(pb::StopDirective { grace_ms, reason: "cancelled".into() })) }
    }

    const fn s(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn a_repeated_notice_never_moves_the_deadline_back() {
        let board = Board::default();
        board.take(notice(pb::NoticeKind::Interruption, 120_000, true), s(10));
        board.take(notice(pb::NoticeKind::Interruption, 119_500, true), s(20));
        assert_eq!(board.now().deadline(), Some(s(130)));
        board.take(notice(pb::NoticeKind::Interruption, 30_000, true), s(20));
        assert_eq!(board.now().deadline(), Some(s(50)));
        board.take(stop(5_000), s(21));
        board.take(stop(60_000), s(22));
        assert_eq!(board.now().deadline(), Some(s(26)));
        board.take(pb::Directive { directive: None }, s(23));
        assert_eq!(board.now().deadline(), Some(s(26)));
    }

    #[test]
    fn i_05_a_warning_of_the_machine_and_the_servers_word_for_it_are_one_notice() {
        let board = Board::default();
        board.warn(s(100));
        assert_eq!(board.now().terminate_at(), Some(s(0)), "a last save is tried at once");
        board.take(notice(pb::NoticeKind::Interruption, 99_000, false), s(2));
        assert_eq!(board.now().deadline(), Some(s(100)), "the earlier deadline stands");
        assert_eq!(board.now().terminate_at(), Some(s(97)), "the server says that a save does not fit");
        board.warn(s(90));
        assert_eq!(board.now().deadline(), Some(s(90)));
    }

    #[test]
    fn only_an_interruption_without_a_save_lets_the_program_go_on() {
        let at = |kind, save| {
            let board = Board::default();
            board.take(notice(kind, 100_000, save), s(0));
            board.now().terminate_at()
        };
        assert_eq!(at(pb::NoticeKind::Interruption, true), Some(s(0)));
        assert_eq!(at(pb::NoticeKind::Interruption, false), Some(s(97)));
        assert_eq!(at(pb::NoticeKind::Budget, false), Some(s(0)));
        assert_eq!(Board::default().now().terminate_at(), None);
    }

    #[test]
    fn whoever_waits_is_woken_only_by_a_change() {
        let board = Board::default();
        let mut changes = board.subscribe();
        board.take(stop(1_000), s(1));
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        board.take(stop(9_000), s(1));
        assert!(!changes.has_changed().unwrap());
    }
}
