//! A recorded market as a stream of events in the order of time, driven by whoever holds a clock.
//!
//! The daemon and the simulator use the same stream: they look at [`Replay::peek`], wait until its instant on their own
//! clock, and take it. A market keeps one pending instant however long it is. Only changes are events; between them
//! the last value holds.
//!
//! At one instant the order is price, capacity, reclaim, so that whoever reacts to a reclaim already knows what is left.

use std::sync::Arc;

use leeway_model::{Millis, Rate};

use crate::trace::SpotTrace;

/// What happened in a market, and when, counted from the start of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarketEvent {
    pub at: Millis,
    pub kind: EventKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The spot price is now this.
    Price(Rate),
    /// So many nodes can be held now in all, those that are already held included.
    Available(u32),
    /// The market takes nodes back: only `alive` may stay after `lost_at`, which is `notice` from now. Without
    /// notice the nodes are gone at once.
    Reclaim { alive: u32, notice: Millis, lost_at: Millis },
}

/// What holds at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarketState {
    pub price: Rate,
    pub available: u32,
}

/// What happens after the last tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The last values hold for ever; the stream ends.
    #[default]
    Hold,
    /// The trace starts again; the stream never ends.
    Wrap,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Warning before a loss for which the trace states none; zero means that nodes vanish unannounced.
    pub default_notice: Millis,
    pub end: End,
}

/// A change within one pass through the trace. The instant of a loss is filled in when the event is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    at: u64,
    kind: EventKind,
}

/// A stream of [`MarketEvent`]s. Cloning is cheap; clones move on their own.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Events of the first pass, including the values at its start.
    first: Arc<[Change]>,
    /// Events of every later pass; empty when the stream ends.
    later: Arc<[Change]>,
    period: u64,
    /// The next event: pass and position in it.
    pass: u64,
    next: usize,
}

impl Replay {
    pub fn new(trace: &SpotTrace, options: Options) -> Self {
        // A checked trace is never empty; one built by hand may be, and must not divide by zero.
        let period = trace.length().as_millis().max(1);
        let (first, later) = match options.end {
            End::Hold => (changes(trace, options, false, true), Vec::new()),
            End::Wrap => (changes(trace, options, true, true), changes(trace, options, true, false)),
        };
        let mut replay = Self { first: first.into(), later: later.into(), period, pass: 0, next: 0 };
        replay.settle();
        replay
    }

    /// The next event, without taking it.
    pub fn peek(&self) -> Option<MarketEvent> {
        let change = self.pass_changes(self.pass).get(self.next)?;
        let start = self.pass.checked_mul(self.period)?;
        let at = Millis::new(start.checked_add(change.at)?);
        let kind = match change.kind {
            EventKind::Reclaim { alive, notice, .. } => {
                EventKind::Reclaim { alive, notice, lost_at: at.saturating_add(notice) }
            }
            other => other,
        };
        Some(MarketEvent { at, kind })
    }

    /// The first event strictly after `offset`, wherever the stream stands.
    pub fn next_after(&self, offset: Millis) -> Option<MarketEvent> {
        let mut replay = self.clone();
        replay.seek(offset);
        replay.peek()
    }

    /// Moves the stream so that its next event is the first one strictly after `offset`.
    pub fn seek(&mut self, offset: Millis) {
        self.pass = if self.later.is_empty() { 0 } else { offset.as_millis() / self.period };
        let within = offset.as_millis() - self.pass * self.period;
        self.next = self.pass_changes(self.pass).partition_point(|change| change.at <= within);
        self.settle();
    }

    /// What holds at `offset`, after the events of that instant.
    pub fn state_at(&self, offset: Millis) -> MarketState {
        let pass = if self.later.is_empty() { 0 } else { offset.as_millis() / self.period };
        let within = offset.as_millis() - pass * self.period;
        let changes = self.pass_changes(pass);
        let known = &changes[..changes.partition_point(|change| change.at <= within)];
        // A later pass starts with the values at the end of the pass before, which are the same in every pass.
        let before = if pass == 0 { &[][..] } else { &self.first[..] };
        let newest = || known.iter().rev().chain(before.iter().rev());
        MarketState {
            price: newest().find_map(price).expect("the first pass starts with a price"),
            available: newest().find_map(available).expect("the first pass starts with a number of nodes"),
        }
    }

    fn pass_changes(&self, pass: u64) -> &[Change] {
        if pass == 0 { &self.first } else { &self.later }
    }

    /// Steps into the following pass when this one has no event left.
    fn settle(&mut self) {
        if self.next >= self.pass_changes(self.pass).len() && !self.later.is_empty() {
            (self.pass, self.next) = (self.pass + 1, 0);
        }
    }
}

impl Iterator for Replay {
    type Item = MarketEvent;

    fn next(&mut self) -> Option<MarketEvent> {
        let event = self.peek()?;
        self.next += 1;
        self.settle();
        Some(event)
    }
}

fn price(change: &Change) -> Option<Rate> {
    if let EventKind::Price(rate) = change.kind { Some(rate) } else { None }
}

fn available(change: &Change) -> Option<u32> {
    if let EventKind::Available(nodes) = change.kind { Some(nodes) } else { None }
}

/// The events of one pass in order. The first pass states the values at its start and has no loss at tick 0; a later
/// one states there only what differs from the end of the pass before.
fn changes(trace: &SpotTrace, options: Options, wraps: bool, first: bool) -> Vec<Change> {
    let mut changes = Vec::new();
    push_prices(trace, first, &mut changes);
    push_nodes(trace, first, &mut changes);
    push_reclaims(trace, options, wraps, first, &mut changes);
    changes.sort_by_key(|change| (change.at, order(change.kind)));
    changes
}

const fn order(kind: EventKind) -> u8 {
    match kind {
        EventKind::Price(_) => 0,
        EventKind::Available(_) => 1,
        EventKind::Reclaim { .. } => 2,
    }
}

fn push_prices(trace: &SpotTrace, first: bool, changes: &mut Vec<Change>) {
    let gap = trace.gap.as_millis();
    let last = trace.price_changes.last().map_or(trace.spot, |change| change.rate);
    let listed = trace.price_changes.iter().map(|change| (u64::from(change.tick) * gap, change.rate));
    let starts_listed = trace.price_changes.first().is_some_and(|change| change.tick == 0);
    let start = (!starts_listed).then_some((0, trace.spot));
    let mut held = if first { None } else { Some(last) };
    for (at, rate) in start.into_iter().chain(listed) {
        if held != Some(rate) {
            changes.push(Change { at, kind: EventKind::Price(rate) });
            held = Some(rate);
        }
    }
}

fn push_nodes(trace: &SpotTrace, first: bool, changes: &mut Vec<Change>) {
    let gap = trace.gap.as_millis();
    let mut held = if first { None } else { trace.data.last().copied() };
    if trace.data.is_empty() {
        changes.push(Change { at: 0, kind: EventKind::Available(0) });
    }
    for (tick, &nodes) in (0_u64..).zip(&trace.data) {
        if held != Some(nodes) {
            changes.push(Change { at: tick * gap, kind: EventKind::Available(nodes) });
            held = Some(nodes);
        }
    }
}

/// A notice longer than what lies before its loss begins in the pass before, or, in the first pass, at the start.
fn push_reclaims(trace: &SpotTrace, options: Options, wraps: bool, first: bool, changes: &mut Vec<Change>) {
    let (gap, period) = (trace.gap.as_millis(), trace.length().as_millis());
    let mut losses: Vec<u32> = trace.loss_ticks().collect();
    if wraps && trace.data.first() < trace.data.last() {
        losses.insert(0, 0);
    }
    for tick in losses {
        let alive = trace.data[tick as usize];
        let length = trace.notice_at(tick).unwrap_or(options.default_notice).as_millis();
        let lost_at = u64::from(tick) * gap;
        let mut push = |at: u64, notice: u64| {
            let kind = EventKind::Reclaim { alive, notice: Millis::new(notice), lost_at: Millis::ZERO };
            changes.push(Change { at, kind });
        };
        match lost_at.checked_sub(length) {
            Some(at) if tick > 0 || !first => push(at, length),
            Some(_) => {}
            None => {
                if first && tick > 0 {
                    push(0, lost_at);
                }
                if wraps {
                    // The same loss of the next pass; a notice never begins more than one pass before its loss.
                    let early = (length - lost_at).min(period);
                    push(period - early, lost_at + early);
                }
            }
        }
    }
}
