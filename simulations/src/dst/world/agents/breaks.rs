//! What befalls an agent: its link breaks one way or both, or its machine, or only itself, stands still for a while.

use leeway_model::{Millis, Timestamp};

use super::{Mode, Tick};
use crate::dst::run::{Happening, Simulation};

impl Simulation {
    /// Breaks an agent's link to the scheduler, one way or both.
    pub fn block(&mut self, instance: u64, length: Millis, up: bool, down: bool) {
        let until = self.kernel.now().after(length);
        if let Some(agent) = self.agents.get_mut(&instance) {
            agent.up_blocked_until = if up { until } else { agent.up_blocked_until };
            agent.down_blocked_until = if down { until } else { agent.down_blocked_until };
        }
    }

    /// Freezes a machine, or its agent only.
    pub fn freeze(&mut self, instance: u64, until: Timestamp, machine: bool) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        if now < agent.frozen_until {
            return;
        }
        agent.base = agent.step(now);
        agent.since = now;
        agent.frozen_until = until;
        let (run, step, running) = (agent.run, agent.base, agent.has_program());
        if machine {
            agent.machine_frozen = true;
            self.programs.executing.remove(&instance);
        } else if running {
            self.programs.lease_broken.insert(run);
        }
        if running {
            self.reach(run, step);
        }
        self.kernel.at(until, Happening::Agent { instance, tick: Tick::Thaw });
    }

    /// A machine that stood still goes on, if its agent still lets it.
    pub(super) fn thaw(&mut self, instance: u64) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        if !std::mem::take(&mut agent.machine_frozen) {
            return;
        }
        agent.since = now;
        if agent.has_program() && !matches!(agent.mode, Mode::Killing { .. }) {
            self.executes(instance);
            if self.agents.get(&instance).is_some_and(|agent| agent.mode == Mode::Running) {
                self.plan_program(instance);
            }
        }
    }
}
