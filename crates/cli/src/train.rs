//! `leeway train`: a small model, really trained, as a program that lives with interruptions.
//!
//! It is the workload of `leeway demo`, and an example of what Leeway asks of a program: write checkpoints where
//! `LEEWAY_CKPT_DIR` says, mark them READY, resume from `LEEWAY_RESTORE_DIR`, save once more on SIGTERM and exit with 75.
//!
//! The training is deterministic to the last bit. Only additions and multiplications of `f32` in a fixed order are used,
//! no function of the platform's mathematics library, and everything that decides the next step (weights, velocities,
//! the order of the examples, the generator's place) is in the checkpoint. So a training that was interrupted at any
//! steps ends with the same weights as one that was not, which the digest at the end shows.
//!
//! ```text
//! dataset   two spirals from a fixed seed
//! network   fully connected layers with their gradients
//! trainer   one step after another; the whole state
//! saved     that state as bytes and back
//! protocol  what Leeway and the program say to each other
//! ```

mod dataset;
mod network;
mod protocol;
mod saved;
mod trainer;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};

use protocol::{Protocol, Wish};
use saved::Refused;
use trainer::Trainer;
pub use trainer::Training;

/// Exit code of a program that was stopped, saved its state, and wants to be continued.
pub const EXIT_SAVED: i32 = 75;
/// Exit code of a program that was stopped and had nowhere to save: 128 and the number of SIGTERM.
pub const EXIT_TERMINATED: i32 = 143;
/// Exit code for an error that no restart can mend.
pub const EXIT_PERMANENT: i32 = 78;

/// Most steps of one training.
const MAX_STEPS: u64 = 10_000_000;

/// Trains a small deterministic model and survives interruptions
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Steps to train.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=MAX_STEPS))]
    pub steps: u64,
    /// Seed of the data, the first weights and the order of the examples.
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// Save every so many steps; 0 means by LEEWAY_CKPT_INTERVAL alone.
    #[arg(long, default_value_t = 0, value_name = "STEPS")]
    pub checkpoint_every: u64,
    /// Sleep so many milliseconds after each step, to make a demonstration visible. The numbers do not depend on it.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=60_000))]
    pub pace_ms: u64,
    /// Print a line every so many steps; 0 prints ten lines in all.
    #[arg(long, default_value_t = 0, value_name = "STEPS")]
    pub log_every: u64,
    /// Where the final model goes.
    #[arg(long, default_value = "model.bin", value_name = "FILE")]
    pub out: PathBuf,
    /// Train without any checkpoint and print only the digest of the final weights.
    #[arg(long)]
    pub digest_only: bool,
}

impl Args {
    const fn training(&self) -> Training {
        Training { seed: self.seed, steps: self.steps }
    }
}

/// Trains and returns the exit code: 0 done, 75 saved and to be continued, 78 never to be tried again.
///
/// # Errors
/// When files cannot be read or written.
pub fn run(args: &Args) -> anyhow::Result<i32> {
    if args.digest_only {
        say(&digest(args.training()));
        return Ok(0);
    }
    let mut protocol = Protocol::from_environment()?;
    let mut trainer = match protocol.restore_dir() {
        None => Trainer::new(args.training()),
        Some(dir) => match saved::read(&dir.join(saved::FILE), args.training()) {
            Ok(trainer) => {
                say(&format!("resumed at step {} from a checkpoint", trainer.step()));
                trainer
            }
            Err(refused @ Refused::OtherTraining { .. }) => {
                eprintln!("error: {refused}");
                return Ok(EXIT_PERMANENT);
            }
            Err(refused) => bail!(refused),
        },
    };
    train(args, &mut trainer, &mut protocol)
}

/// The digest of the weights that this training ends with, in lower-case hex.
pub fn digest(training: Training) -> String {
    let mut trainer = Trainer::new(training);
    while !trainer.is_done() {
        trainer.advance();
    }
    trainer.digest()
}

fn train(args: &Args, trainer: &mut Trainer, protocol: &mut Protocol) -> anyhow::Result<i32> {
    let log_every = if args.log_every == 0 { (args.steps / 10).max(1) } else { args.log_every };
    protocol.report(trainer.step(), args.steps)?;
    while !trainer.is_done() {
        let loss = trainer.advance();
        let step = trainer.step();
        if step.is_multiple_of(log_every) || trainer.is_done() {
            say(&format!("step {step}/{} loss {loss:.6}", args.steps));
        }
        protocol.report(step, args.steps)?;
        let due = args.checkpoint_every > 0 && step.is_multiple_of(args.checkpoint_every);
        match protocol.wish(args.pace_ms) {
            Wish::Stop if !protocol.can_save() => return Ok(EXIT_TERMINATED),
            Wish::Stop => {
                protocol.save(step, |dir| saved::write(&dir.join(saved::FILE), trainer))?;
                say(&format!("asked to stop: saved step {step}"));
                return Ok(EXIT_SAVED);
            }
            Wish::Save => protocol.save(step, |dir| saved::write(&dir.join(saved::FILE), trainer))?,
            Wish::GoOn if due => protocol.save(step, |dir| saved::write(&dir.join(saved::FILE), trainer))?,
            Wish::GoOn => {}
        }
    }
    saved::write_model(&args.out, trainer).with_context(|| format!("cannot write '{}'", args.out.display()))?;
    say(&format!("final loss {:.6}", trainer.loss()));
    say(&format!("digest {}", trainer.digest()));
    Ok(0)
}

/// A line of output. Whoever read it may be gone; that is no reason to stop training.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Trains with a save and a restore at each of `cuts`, each time in a fresh trainer.
    fn interrupted(training: Training, cuts: &[u64]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(saved::FILE);
        let mut trainer = Trainer::new(training);
        while !trainer.is_done() {
            if cuts.contains(&trainer.step()) {
                saved::write(&file, &trainer).unwrap();
                // Work after the save is lost with the machine.
                trainer.advance();
                trainer = saved::read(&file, training).unwrap();
            }
            trainer.advance();
        }
        trainer.digest()
    }

    #[test]
    fn training_learns_what_it_is_shown() {
        let mut trainer = Trainer::new(Training { seed: 7, steps: 600 });
        let before = trainer.loss();
        while !trainer.is_done() {
            trainer.advance();
        }
        let after = trainer.loss();
        assert!(after < before / 2.0, "loss went from {before} to {after}");
    }

    #[test]
    fn the_digest_depends_on_the_seed_and_on_the_number_of_steps() {
        let of = |seed, steps| digest(Training { seed, steps });
        assert_eq!(of(1, 5), of(1, 5));
        assert_ne!(of(1, 5), of(2, 5));
        assert_ne!(of(1, 5), of(1, 6));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn interruptions_at_any_steps_change_no_bit(seed in 0_u64..4, cuts in prop::collection::vec(0_u64..60, 0..6)) {
            let training = Training { seed, steps: 60 };
            prop_assert_eq!(interrupted(training, &cuts), digest(training));
        }
    }
}
