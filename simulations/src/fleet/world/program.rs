//! The program of a run as arithmetic: how far it is at any instant, without an event for any step of it.
//!
//! A program alternates between `every` of work and a pause of `save` in which a checkpoint is written; after the last
//! piece of work it ends without one. Times are wall time; work is counted in milliseconds on a machine of relative
//! speed 1 and done `speed` times as fast.

use leeway_model::{Millis, Timestamp};

/// One execution, from the instant at which the program began.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub since: Timestamp,
    /// Work that was done before, in milliseconds.
    pub base: u64,
    /// Work in all.
    pub total: u64,
    /// It ends by itself once so much is done, and with which code.
    pub fails: Option<(u64, i32)>,
    pub speed: f64,
    /// Wall time of work between two saves; `None` where nothing is saved.
    pub every: Option<Millis>,
    pub save: Millis,
}

/// How far a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Work done, what was done before included.
    pub work: u64,
    /// Work that the newest checkpoint of this execution holds; `None` without one.
    pub saved: Option<u64>,
    /// Checkpoints written.
    pub saves: u64,
}

impl Program {
    /// Work that is done when it ends by itself.
    pub fn last(&self) -> u64 {
        self.fails.map_or(self.total, |(at, _)| at.min(self.total)).max(self.base)
    }

    /// The code with which it ends by itself.
    pub fn exit_code(&self) -> i32 {
        self.fails.map_or(0, |(_, code)| code)
    }

    /// When it ends if nothing comes between.
    pub fn end(&self) -> Timestamp {
        let wall = self.wall(self.last() - self.base);
        let saves = self.every.map_or(0, |every| wall.saturating_sub(1) / every.as_millis().max(1));
        self.since.after(Millis::new(wall.saturating_add(saves.saturating_mul(self.save.as_millis()))))
    }

    pub fn at(&self, now: Timestamp) -> Reached {
        let passed = now.since(self.since).as_millis();
        let (work, saves, saved) = match self.every {
            None => (passed, 0, 0),
            Some(every) => {
                let every = every.as_millis().max(1);
                let cycle = every + self.save.as_millis();
                let cycles = passed / cycle;
                let work = cycles * every + (passed % cycle).min(every);
                (work, cycles, cycles * every)
            }
        };
        let last = self.last();
        let done = |wall: u64| self.base.saturating_add((wall as f64 * self.speed) as u64).min(last);
        Reached { work: done(work), saved: (saves > 0).then(|| done(saved)), saves }
    }

    /// When the checkpoint after this instant is written.
    pub fn next_save(&self, now: Timestamp) -> Option<Timestamp> {
        let cycle = self.every?.as_millis().max(1).saturating_add(self.save.as_millis());
        let cycles = now.since(self.since).as_millis() / cycle + 1;
        Some(self.since.after(Millis::new(cycle.saturating_mul(cycles))))
    }

    /// Wall time of so much work, rounded up.
    fn wall(&self, work: u64) -> u64 {
        (work as f64 / self.speed).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn program(every: Option<u64>) -> Program {
        let every = every.map(Millis::new);
        Program {
            since: Timestamp::from_millis(1_000),
            base: 50,
            total: 350,
            fails: None,
            speed: 1.0,
            every,
            save: Millis::new(10),
        }
    }

    fn at(program: &Program, passed: i64) -> (u64, Option<u64>) {
        let reached = program.at(Timestamp::from_millis(1_000 + passed));
        (reached.work, reached.saved)
    }

    #[test]
    fn work_stands_still_while_it_is_saved() {
        let program = program(Some(100));
        assert_eq!(program.end(), Timestamp::from_millis(1_320), "two saves, none after the last piece of work");
        assert_eq!([at(&program, 0), at(&program, 100), at(&program, 109)], [(50, None), (150, None), (150, None)]);
        assert_eq!([at(&program, 110), at(&program, 150)], [(150, Some(150)), (190, Some(150))]);
        assert_eq!(at(&program, 320), (350, Some(250)));
        let save = |passed: i64| program.next_save(Timestamp::from_millis(1_000 + passed)).unwrap().as_millis() - 1_000;
        assert_eq!([save(0), save(109), save(110)], [110, 110, 220]);
    }

    #[test]
    fn without_saves_it_only_works() {
        let program = program(None);
        assert_eq!((program.end(), at(&program, 299)), (Timestamp::from_millis(1_300), (349, None)));
    }

    #[test]
    fn a_program_that_fails_stops_at_its_work_or_at_once() {
        let failing = |at| Program { fails: Some((at, 3)), ..program(Some(100)) };
        let of = |program: Program| (program.end().as_millis() - 1_000, program.last(), program.exit_code());
        assert_eq!(of(failing(200)), (160, 200, 3), "one save on the way");
        assert_eq!(of(failing(20)), (0, 50, 3), "what is behind its checkpoint fails it at once");
        assert_eq!(of(failing(900)), (320, 350, 3));
    }

    proptest! {
        #[test]
        fn it_is_done_at_its_end_and_not_before(
            base in 0_u64..1_000, left in 1_u64..100_000, speed in 0.2..8.0_f64, every in prop::option::of(1_u64..5_000),
            save in 0_u64..500,
        ) {
            let program = Program {
                since: Timestamp::ZERO, base, total: base + left, fails: None, speed,
                every: every.map(Millis::new), save: Millis::new(save),
            };
            let end = program.end();
            prop_assert_eq!(program.at(end).work, program.total);
            let before = Timestamp::from_millis(end.as_millis() - 1 - (speed * 2.0) as i64);
            prop_assert!(program.at(before).work < program.total || end.as_millis() <= 1 + (speed * 2.0) as i64);
        }

        #[test]
        fn it_never_goes_back(passed in 0_i64..100_000, more in 0_i64..1_000) {
            let program = program(Some(100));
            let (one, other) = (at(&program, passed), at(&program, passed + more));
            prop_assert!(one.0 <= other.0 && one.1 <= other.1);
        }
    }
}
