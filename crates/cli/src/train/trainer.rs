//! Stochastic descent with momentum, one step after another. Equal trainings give equal bits.

use std::fmt::Write as _;

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;
use sha2::{Digest as _, Sha256};

use super::dataset::{Example, spirals};
use super::network::{Pass, first_weights, parameters};

const BATCH: usize = 32;
const RATE: f32 = 0.01;
const MOMENTUM: f32 = 0.9;
/// Streams of the generator: one more draw for the data must not change the order of the examples.
const DATA: u64 = 1;
const WEIGHTS: u64 = 2;
const ORDER: u64 = 3;

/// What is trained; two equal ones end with the same weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Training {
    /// Of data, first weights and order.
    pub seed: u64,
    /// Steps in all.
    pub steps: u64,
}

/// Everything that decides the next step, as it is saved.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    /// Steps done.
    pub step: u64,
    /// Numbers drawn for the order so far: the place of the generator.
    pub draws: u64,
    /// The order of the examples in the present round.
    pub order: Vec<u32>,
    /// How many of them were used.
    pub used: u32,
    pub weights: Vec<f32>,
    pub velocities: Vec<f32>,
}

/// A training under way.
#[derive(Debug)]
pub(super) struct Trainer {
    training: Training,
    examples: Vec<Example>,
    random: Pcg32,
    state: State,
    gradient: Vec<f32>,
    pass: Pass,
}

impl Trainer {
    pub fn new(training: Training) -> Self {
        let weights = first_weights(&mut Pcg32::new(training.seed, WEIGHTS));
        let velocities = vec![0.0; weights.len()];
        let count = spirals(&mut Pcg32::new(training.seed, DATA)).len();
        // As if a round had just ended: the first step shuffles.
        let order: Vec<u32> = (0..count as u32).collect();
        let used = order.len() as u32;
        Self::at(training, State { step: 0, draws: 0, order, used, weights, velocities })
    }

    /// Goes on from `state`, which must fit (see [`State::fits`]).
    pub fn at(training: Training, state: State) -> Self {
        let mut random = Pcg32::new(training.seed, ORDER);
        random.advance(state.draws);
        Self {
            training,
            examples: spirals(&mut Pcg32::new(training.seed, DATA)),
            random,
            gradient: vec![0.0; state.weights.len()],
            state,
            pass: Pass::default(),
        }
    }

    pub const fn training(&self) -> Training {
        self.training
    }

    pub const fn state(&self) -> &State {
        &self.state
    }

    pub const fn step(&self) -> u64 {
        self.state.step
    }

    pub const fn is_done(&self) -> bool {
        self.state.step >= self.training.steps
    }

    /// One step over one batch; returns the batch's mean squared error.
    pub fn advance(&mut self) -> f32 {
        self.gradient.fill(0.0);
        let mut loss = 0.0;
        for _ in 0..BATCH {
            let example = self.next_example();
            loss += self.pass.backward(&self.state.weights, example, &mut self.gradient);
        }
        let State { weights, velocities, .. } = &mut self.state;
        for ((weight, velocity), slope) in weights.iter_mut().zip(velocities).zip(&self.gradient) {
            *velocity = MOMENTUM * *velocity - RATE * (slope / BATCH as f32);
            *weight += *velocity;
        }
        self.state.step += 1;
        loss / BATCH as f32
    }

    /// Mean squared error over all examples.
    pub fn loss(&mut self) -> f32 {
        let mut loss = 0.0;
        for example in &self.examples {
            let miss = self.pass.forward(&self.state.weights, example.point) - example.arm;
            loss += miss * miss;
        }
        loss / self.examples.len() as f32
    }

    /// SHA-256 of the weights in lower-case hex.
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        for weight in &self.state.weights {
            hasher.update(weight.to_le_bytes());
        }
        hasher.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    fn next_example(&mut self) -> Example {
        if self.state.used as usize >= self.state.order.len() {
            self.shuffle();
        }
        let index = self.state.order[self.state.used as usize];
        self.state.used += 1;
        self.examples[index as usize]
    }

    /// Fisher and Yates, with exactly one draw for each place, so that the generator's place is a count.
    fn shuffle(&mut self) {
        for last in (1..self.state.order.len()).rev() {
            let choices = last as u64 + 1;
            let chosen = (u64::from(self.random.next_u32()) * choices) >> 32;
            self.state.draws += 1;
            self.state.order.swap(last, chosen as usize);
        }
        self.state.used = 0;
    }
}

impl State {
    /// Whether this can be the state of `training`: right sizes, a true order, not past the end.
    pub fn fits(&self, training: Training) -> bool {
        let mut seen = vec![false; self.order.len()];
        let is_order = self
            .order
            .iter()
            .all(|&index| seen.get_mut(index as usize).is_some_and(|seen| !std::mem::replace(seen, true)));
        is_order
            && self.step <= training.steps
            && self.order.len() == spirals(&mut Pcg32::new(training.seed, DATA)).len()
            && self.used as usize <= self.order.len()
            && self.weights.len() == parameters()
            && self.velocities.len() == parameters()
    }
}
