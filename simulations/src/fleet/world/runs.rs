//! The runs that hold machines or have ordered some, and what each is doing.

use std::collections::BTreeMap;

use leeway_model::checkpoint::CheckpointRef;
use leeway_model::{RunId, Timestamp};

use super::program::Program;

#[derive(Debug, Default)]
pub struct Runs {
    slots: Vec<Option<Standing>>,
    free: Vec<u32>,
    by_id: BTreeMap<RunId, u32>,
    serial: u32,
    turn: u32,
}

#[derive(Clone, Debug)]
pub struct Standing {
    pub id: RunId,
    pub place: usize,
    pub is_spot: bool,
    pub nodes: u32,
    /// Since when it holds machines.
    pub since: Option<Timestamp>,
    /// Only the newest plan of a run counts.
    pub turn: u32,
    /// Tells runs apart that had the same slot.
    pub serial: u32,
    pub doing: Doing,
    pub restore: Option<CheckpointRef>,
    /// Transfers that it still waits for.
    pub transfers: u32,
}

/// ```text
/// Ordered -> Booting -> Staging -> Restoring -> Program -> Leaving -> gone
///                any -> Leaving (told to stop), gone (taken by the market)
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Doing {
    Ordered,
    Booting,
    /// Inputs and the checkpoint are on their way.
    Staging,
    Restoring,
    Program(Program),
    /// The program goes on until it is killed: no last checkpoint would be through in time.
    Doomed(Program),
    /// A last checkpoint, of so much work, is written; then the program is ended.
    LastSave {
        program: Program,
        work: u64,
    },
    /// The program has ended; the machines go.
    Leaving,
}

impl Runs {
    pub fn add(&mut self, mut run: Standing) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        run.serial = self.serial;
        let id = run.id;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(run);
                slot
            }
            None => {
                self.slots.push(Some(run));
                (self.slots.len() - 1) as u32
            }
        };
        self.by_id.insert(id, slot);
        slot
    }

    /// Makes every plan of a run void but the next one, which gets this number. No two plans share one, so that a plan
    /// of a run that is gone does not stir the next in its slot.
    pub fn next_turn(&mut self, slot: u32) -> Option<u32> {
        let run = self.slots.get_mut(slot as usize)?.as_mut()?;
        self.turn = self.turn.wrapping_add(1);
        run.turn = self.turn;
        Some(run.turn)
    }

    pub fn slot(&self, id: RunId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub fn get(&self, slot: u32) -> Option<&Standing> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub fn change(&mut self, slot: u32) -> Option<&mut Standing> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    pub fn take(&mut self, slot: u32) -> Option<Standing> {
        let run = self.slots.get_mut(slot as usize)?.take()?;
        self.by_id.remove(&run.id);
        self.free.push(slot);
        Some(run)
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}
