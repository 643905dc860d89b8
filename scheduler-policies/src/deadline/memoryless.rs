//! Rules that decide by the moment alone.

use std::fmt::Debug;

use super::{Mode, Moment, Places, Rule, Session, Task, Zone};

/// A rule that learns nothing, so that one function is all of it.
pub trait Memoryless: Clone + Debug + Send + Sync + 'static {
    fn name(&self) -> &str;

    /// What to hold during the tick that begins now.
    fn choose(&self, places: &Places, moment: &Moment<'_>) -> Mode;
}

impl<T: Memoryless> Rule for T {
    fn name(&self) -> &str {
        Memoryless::name(self)
    }

    fn begin(&self, task: &Task, zones: &[Zone]) -> Box<dyn Session> {
        Box::new(Running { rule: self.clone(), places: Places::new(task, zones) })
    }
}

struct Running<T> {
    rule: T,
    places: Places,
}

impl<T: Memoryless> Session for Running<T> {
    fn choose(&mut self, moment: &Moment<'_>) -> Mode {
        self.rule.choose(&self.places, moment)
    }
}
