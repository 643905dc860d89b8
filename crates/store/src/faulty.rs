//! A store that fails on purpose, around any other store.
//!
//! Staged entries are held back here until `flush`, so that a crash ([`FaultyStore::crash`]) loses exactly what was
//! not flushed, whatever the inner store does. What fails, and when, is asked of a [`Plan`]: a closure or a
//! [`SeededPlan`]. Slowness is not simulated here; it belongs to whoever owns the clock.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::{Entry, Error, Head, Index, Store, codec};

/// What is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The entry with this index is about to be staged; `essential` when by `append_essential`.
    Append { index: Index, essential: bool },
    /// So many staged entries are about to be made durable.
    Flush { staged: usize },
}

/// What goes wrong in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The step fails with an I/O error and the store is failed from then on.
    Fail,
    /// The step is refused as on a full disk. In a flush this counts as `Fail`, for a refusal is of one append.
    DiskFull,
    /// Flush only: the first so many staged entries become durable, then the step fails. A number not below the count
    /// of staged entries is the case that all is durable and yet nobody was told.
    FailAfter(usize),
}

/// Decides what fails. Closures are plans.
pub trait Plan: Send {
    fn fault(&mut self, step: Step) -> Fault;
}

impl<F: FnMut(Step) -> Fault + Send> Plan for F {
    fn fault(&mut self, step: Step) -> Fault {
        self(step)
    }
}

impl Plan for Box<dyn Plan> {
    fn fault(&mut self, step: Step) -> Fault {
        (**self).fault(step)
    }
}

/// Random faults at given rates; the same seed and the same steps give the same faults.
#[derive(Clone, Debug)]
pub struct SeededPlan {
    state: u64,
    /// Failing flushes, per million.
    pub flush_fails_ppm: u32,
    /// Appends refused as on a full disk, per million.
    pub disk_full_ppm: u32,
    /// How many appends in a row a full disk refuses.
    pub disk_full_run: u32,
    full_left: u32,
}

impl SeededPlan {
    pub fn new(seed: u64, flush_fails_ppm: u32, disk_full_ppm: u32, disk_full_run: u32) -> Self {
        SeededPlan { state: seed, flush_fails_ppm, disk_full_ppm, disk_full_run, full_left: 0 }
    }

    fn draw(&mut self, bound: u64) -> u64 {
        splitmix(&mut self.state) % bound.max(1)
    }
}

impl Plan for SeededPlan {
    fn fault(&mut self, step: Step) -> Fault {
        match step {
            Step::Append { essential: true, .. } => Fault::None,
            Step::Append { .. } => {
                if self.full_left == 0 && self.draw(1_000_000) < u64::from(self.disk_full_ppm) {
                    self.full_left = self.disk_full_run;
                }
                if self.full_left == 0 {
                    return Fault::None;
                }
                self.full_left -= 1;
                Fault::DiskFull
            }
            Step::Flush { staged } => {
                if self.draw(1_000_000) >= u64::from(self.flush_fails_ppm) {
                    return Fault::None;
                }
                Fault::FailAfter(self.draw(staged as u64 + 1) as usize)
            }
        }
    }
}

/// One step of the splitmix64 generator: enough luck for choosing faults, and no dependency.
pub(crate) fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Any store, failing as its plan says.
pub struct FaultyStore<S, P> {
    inner: S,
    plan: P,
    staged: Vec<(Entry, bool)>,
    /// The last head that was acknowledged; the inner store may be further after a failed flush.
    head: Head,
    failed: bool,
}

impl<S: fmt::Debug, P> fmt::Debug for FaultyStore<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore")
            .field("inner", &self.inner)
            .field("staged", &self.staged.len())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl<S: Store, P: Plan> FaultyStore<S, P> {
    pub fn new(inner: S, plan: P) -> Self {
        let head = inner.head();
        FaultyStore { inner, plan, staged: Vec::new(), head, failed: false }
    }

    /// The inner store as a crash leaves it: what was not flushed is lost.
    pub fn crash(self) -> S {
        self.inner
    }

    /// True after a failure; only opening the inner store again helps.
    pub fn is_failed(&self) -> bool {
        self.failed
    }

    fn stage(&mut self, entry: Entry, essential: bool) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Failed);
        }
        codec::check(&entry, self.head.index + self.staged.len() as Index + 1)?;
        match self.plan.fault(Step::Append { index: entry.index, essential }) {
            Fault::None => {}
            Fault::DiskFull => return Err(Error::DiskFull { dir: PathBuf::from("faulty"), free: 0 }),
            Fault::Fail | Fault::FailAfter(_) => return Err(self.fail("append")),
        }
        self.staged.push((entry, essential));
        Ok(())
    }

    fn commit(&mut self, count: usize) -> Result<Head, Error> {
        for (entry, essential) in self.staged.drain(..count.min(self.staged.len())) {
            if essential {
                self.inner.append_essential(entry)?;
            } else {
                self.inner.append(entry)?;
            }
        }
        self.inner.flush()
    }

    fn fail(&mut self, step: &str) -> Error {
        self.failed = true;
        Error::Io(io::Error::other(format!("planned failure of {step}")))
    }
}

impl<S: Store, P: Plan> Store for FaultyStore<S, P> {
    fn head(&self) -> Head {
        self.head
    }

    fn append(&mut self, entry: Entry) -> Result<(), Error> {
        self.stage(entry, false)
    }

    fn append_essential(&mut self, entry: Entry) -> Result<(), Error> {
        self.stage(entry, true)
    }

    fn flush(&mut self) -> Result<Head, Error> {
        if self.failed {
            return Err(Error::Failed);
        }
        let fault = self.plan.fault(Step::Flush { staged: self.staged.len() });
        let result = match fault {
            Fault::None => self.commit(usize::MAX),
            Fault::Fail | Fault::DiskFull => Err(self.fail("flush")),
            Fault::FailAfter(count) => self.commit(count).and_then(|_| Err(self.fail("flush"))),
        };
        match &result {
            Ok(head) => self.head = *head,
            Err(_) => {
                tracing::debug!(?fault, head = self.head.index, "a flush failed as planned");
                self.failed = true;
            }
        }
        result
    }

    fn rows(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Failed);
        }
        self.inner.rows(visit)
    }

    fn entries(&self, from: Index, visit: &mut dyn FnMut(Entry) -> bool) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Failed);
        }
        self.inner.entries(from, visit)
    }

    fn first_entry(&self) -> Index {
        self.inner.first_entry()
    }
}
