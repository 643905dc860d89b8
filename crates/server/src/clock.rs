//! The scheduler's time: an instant of the wall clock at start, and from there the monotonic clock, so that it never
//! runs back and no jump of the wall clock moves it (T-01, T-02). It may run faster than real time, for demos and drills;
//! agents live in real time, and every length that goes to them or comes from them is converted here.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leeway_model::{Millis, Timestamp};

/// A wall clock that is this far from where the monotonic clock says it should be has jumped.
pub const JUMP: Millis = Millis::from_mins(5);

#[derive(Clone, Debug)]
pub struct Clock {
    origin: Timestamp,
    /// Real instant at which the scheduler's time was `origin`.
    started: Instant,
    /// The wall clock at that instant.
    wall_at_start: Timestamp,
    /// Where the wall clock is read: a test's may jump.
    read_wall: fn() -> Timestamp,
    speed: u32,
}

impl Clock {
    /// A clock that stands at the wall clock's instant, or at `not_before` when that is later: a restart must not bring
    /// back time that is in the history already.
    pub fn starting(not_before: Timestamp, speed: u32) -> Self {
        Self::reading(wall, not_before, speed)
    }

    fn reading(read_wall: fn() -> Timestamp, not_before: Timestamp, speed: u32) -> Self {
        let wall = read_wall();
        let origin = wall.max(not_before);
        Self { origin, started: Instant::now(), wall_at_start: wall, read_wall, speed: speed.max(1) }
    }

    pub fn now(&self) -> Timestamp {
        self.origin.after(self.from_real(self.started.elapsed()))
    }

    /// The scheduler's length of a real one.
    pub fn from_real(&self, real: Duration) -> Millis {
        let millis = real.as_micros().saturating_mul(u128::from(self.speed)) / 1_000;
        Millis::new(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    /// The real length of a scheduler's one.
    pub fn to_real(&self, length: Millis) -> Duration {
        let micros = u128::from(length.as_millis()) * 1_000 / u128::from(self.speed);
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// A length for an agent: real milliseconds, and never none where there were some.
    pub fn to_agent(&self, length: Millis) -> u64 {
        let real = u64::try_from(self.to_real(length).as_millis()).unwrap_or(u64::MAX);
        if length.is_zero() { 0 } else { real.max(1) }
    }

    /// A length that an agent measured.
    pub fn from_agent(&self, length: Millis) -> Millis {
        length.saturating_mul(u64::from(self.speed))
    }

    /// How long to sleep until an instant; nothing when it has passed.
    pub fn until(&self, at: Timestamp) -> Duration {
        let wait = self.to_real(at.since(self.now()));
        // The conversion rounds down: sleep a little longer rather than wake in vain.
        if wait.is_zero() { wait } else { wait + Duration::from_millis(1) }
    }

    /// How far the wall clock has moved against the monotonic one since the start, in milliseconds.
    pub fn drift(&self) -> i64 {
        let elapsed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        (self.read_wall)().as_millis().saturating_sub(self.wall_at_start.as_millis()).saturating_sub(elapsed)
    }
}

/// The wall clock, for signatures that others check against theirs. Never used to decide.
pub fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Looks at the wall clock now and then, and says so when it jumped. Scheduling is not touched by it.
pub async fn watch_jumps(clock: Clock) {
    let mut known = 0_i64;
    let mut every = tokio::time::interval(Duration::from_secs(10));
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        if let Some(moved_ms) = jump(&clock, &mut known) {
            tracing::warn!(
                code = "CLOCK_JUMP",
                moved_ms,
                "the wall clock jumped; scheduling goes on by the monotonic clock"
            );
        }
    }
}

/// How far the wall clock jumped since it stood `known` apart from the monotonic one, which is brought up to date.
fn jump(clock: &Clock, known: &mut i64) -> Option<i64> {
    let drift = clock.drift();
    let moved = drift.saturating_sub(*known);
    (moved.unsigned_abs() > JUMP.as_millis()).then(|| {
        *known = drift;
        moved
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_02_time_starts_no_earlier_than_the_history_ends() {
        let later = wall().after(Millis::from_hours(5));
        let clock = Clock::starting(later, 1);
        assert!(clock.now() >= later);
        assert!(clock.now().since(later) < Millis::from_mins(1));
    }

    #[test]
    fn lengths_are_converted_by_the_speed_and_never_vanish() {
        let clock = Clock::starting(Timestamp::ZERO, 60);
        assert_eq!(clock.to_real(Millis::from_mins(1)), Duration::from_secs(1));
        assert_eq!(clock.from_real(Duration::from_secs(1)), Millis::from_mins(1));
        assert_eq!(clock.to_agent(Millis::from_mins(1)), 1_000);
        assert_eq!(clock.from_agent(Millis::new(1_000)), Millis::from_mins(1));
        assert_eq!((clock.to_agent(Millis::new(1)), clock.to_agent(Millis::ZERO)), (1, 0));
    }

    #[test]
    fn t_01_a_wall_clock_that_jumps_is_noticed_once_and_moves_no_time_of_ours() {
        use std::sync::atomic::{AtomicI64, Ordering};
        static WALL: AtomicI64 = AtomicI64::new(1_700_000_000_000);
        let day = 86_400_000;
        let clock = Clock::reading(|| Timestamp::from_millis(WALL.load(Ordering::SeqCst)), Timestamp::ZERO, 1);
        let (before, mut known) = (clock.now(), 0);
        assert_eq!(jump(&clock, &mut known), None);
        for moved in [day, -day] {
            WALL.fetch_add(moved, Ordering::SeqCst);
            let noticed = jump(&clock, &mut known).expect("a day is a jump");
            assert!(noticed.abs_diff(moved) < 60_000, "{noticed}");
            assert_eq!(jump(&clock, &mut known), None, "it is told once");
            assert!(clock.now() >= before && clock.now().since(before) < Millis::from_mins(1), "our time did not move");
        }
        WALL.fetch_add(60_000, Ordering::SeqCst);
        assert_eq!(jump(&clock, &mut known), None, "a minute is a correction and no jump");
    }

    #[test]
    fn t_01_an_undisturbed_wall_clock_does_not_drift() {
        assert!(Clock::starting(Timestamp::ZERO, 100).drift().abs() < 1_000);
    }
}
