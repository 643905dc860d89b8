//! The trainer's state as a file: a magic word, the training it belongs to, the state, and a digest over all of it.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::trainer::{State, Trainer, Training};

/// Name of the file in a checkpoint directory.
pub(super) const FILE: &str = "state.bin";
const MAGIC: &[u8; 8] = b"LWTRAIN1";
const MODEL_MAGIC: &[u8; 8] = b"LWMODEL1";
const DIGEST_BYTES: usize = 32;
/// Longer files are not ours; the state has about 10 kB.
const MAX_BYTES: u64 = 16 << 20;

/// Why a saved state is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("cannot read the checkpoint '{path}': {source}")]
    Io { path: String, source: io::Error },
    #[error("the checkpoint '{path}' is damaged: {reason}")]
    Damaged { path: String, reason: &'static str },
    #[error(
        "the checkpoint is of another training (seed {seed}, {steps} steps); give the same --seed and --steps, or start \
         without it"
    )]
    OtherTraining { seed: u64, steps: u64 },
}

/// Writes the state and makes the file durable.
pub(super) fn write(path: &Path, trainer: &Trainer) -> io::Result<()> {
    write_durably(path, &encode(trainer))
}

/// Writes the final weights and makes the file durable. An earlier file is replaced as a whole.
pub(super) fn write_model(path: &Path, trainer: &Trainer) -> io::Result<()> {
    let mut bytes = MODEL_MAGIC.to_vec();
    put_floats(&mut bytes, &trainer.state().weights);
    let temporary = path.with_extension("tmp");
    write_durably(&temporary, &bytes)?;
    std::fs::rename(&temporary, path)
}

/// Reads the state of this very training.
pub(super) fn read(path: &Path, training: Training) -> Result<Trainer, Refused> {
    let io = |source| Refused::Io { path: path.display().to_string(), source };
    let damaged = |reason| Refused::Damaged { path: path.display().to_string(), reason };
    if std::fs::metadata(path).map_err(io)?.len() > MAX_BYTES {
        return Err(damaged("it is too long"));
    }
    let bytes = std::fs::read(path).map_err(io)?;
    let (body, digest) = bytes.split_last_chunk::<DIGEST_BYTES>().ok_or_else(|| damaged("it is cut short"))?;
    if Sha256::digest(body)[..] != digest[..] {
        return Err(damaged("its digest does not match"));
    }
    let (found, state) = decode(body).ok_or_else(|| damaged("it is not a saved training"))?;
    if found != training {
        return Err(Refused::OtherTraining { seed: found.seed, steps: found.steps });
    }
    if !state.fits(training) {
        return Err(damaged("its parts do not fit together"));
    }
    Ok(Trainer::at(training, state))
}

fn encode(trainer: &Trainer) -> Vec<u8> {
    let (training, state) = (trainer.training(), trainer.state());
    let mut bytes = MAGIC.to_vec();
    for number in [training.seed, training.steps, state.step, state.draws] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&state.used.to_le_bytes());
    bytes.extend_from_slice(&(state.order.len() as u32).to_le_bytes());
    for index in &state.order {
        bytes.extend_from_slice(&index.to_le_bytes());
    }
    put_floats(&mut bytes, &state.weights);
    put_floats(&mut bytes, &state.velocities);
    let digest = Sha256::digest(&bytes);
    bytes.extend_from_slice(&digest);
    bytes
}

fn put_floats(bytes: &mut Vec<u8>, floats: &[f32]) {
    bytes.extend_from_slice(&(floats.len() as u32).to_le_bytes());
    for float in floats {
        bytes.extend_from_slice(&float.to_le_bytes());
    }
}

fn decode(body: &[u8]) -> Option<(Training, State)> {
    let mut reader = Reader(body.strip_prefix(MAGIC)?);
    let training = Training { seed: reader.u64()?, steps: reader.u64()? };
    let (step, draws, used) = (reader.u64()?, reader.u64()?, reader.u32()?);
    let order = reader.list(Reader::u32)?;
    let weights = reader.list(|reader| reader.u32().map(f32::from_bits))?;
    let velocities = reader.list(|reader| reader.u32().map(f32::from_bits))?;
    reader.0.is_empty().then_some((training, State { step, draws, order, used, weights, velocities }))
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    /// A counted list of four-byte items; a count that the bytes do not bear out gives nothing.
    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()? as usize;
        if count > self.0.len() / 4 {
            return None;
        }
        (0..count).map(|_| item(self)).collect()
    }
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAINING: Training = Training { seed: 3, steps: 40 };

    fn saved_at(step: u64) -> (tempfile::TempDir, std::path::PathBuf, Trainer) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        let mut trainer = Trainer::new(TRAINING);
        while trainer.step() < step {
            trainer.advance();
        }
        write(&file, &trainer).unwrap();
        (dir, file, trainer)
    }

    #[test]
    fn a_state_comes_back_as_it_was() {
        for step in [0, 1, 17, 40] {
            let (_dir, file, trainer) = saved_at(step);
            assert_eq!(read(&file, TRAINING).unwrap().state(), trainer.state());
        }
    }

    #[test]
    fn a_state_of_another_training_is_refused_for_good() {
        let (_dir, file, _) = saved_at(2);
        for other in [Training { seed: 4, ..TRAINING }, Training { steps: 41, ..TRAINING }] {
            assert!(matches!(read(&file, other), Err(Refused::OtherTraining { seed: 3, steps: 40 })));
        }
    }

    #[test]
    fn any_damage_is_found() {
        let (_dir, file, _) = saved_at(2);
        let whole = std::fs::read(&file).unwrap();
        for cut in [0, 1, 8, 31, 32, 200, whole.len() - 1] {
            std::fs::write(&file, &whole[..cut]).unwrap();
            assert!(matches!(read(&file, TRAINING), Err(Refused::Damaged { .. })), "cut at {cut}");
        }
        for place in (0..whole.len()).step_by(97) {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            std::fs::write(&file, &bytes).unwrap();
            assert!(matches!(read(&file, TRAINING), Err(Refused::Damaged { .. })), "flipped at {place}");
        }
    }

    #[test]
    fn a_well_formed_state_that_cannot_be_is_refused() {
        let (_dir, file, trainer) = saved_at(2);
        type Change = fn(&mut State);
        let changes: [Change; 4] = [
            |state| state.order[0] = state.order[1],
            |state| state.step = 41,
            |state| state.used = 1 << 20,
            |state| state.weights.truncate(3),
        ];
        for change in changes {
            let mut state = trainer.state().clone();
            change(&mut state);
            assert!(!state.fits(TRAINING));
            std::fs::write(&file, encode(&Trainer::at(TRAINING, state))).unwrap();
            assert!(matches!(read(&file, TRAINING), Err(Refused::Damaged { .. })));
        }
    }
}
