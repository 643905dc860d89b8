//! Fully connected layers with a ramp between them, and their gradients. Sums run in the order of the indices.

use rand_pcg::Pcg32;

use super::dataset::{Example, draw};

/// Widths from the input to the output.
pub(super) const WIDTHS: [usize; 4] = [2, 32, 16, 1];

/// Weights and offsets of all layers in one list: for each layer, for each output, its weights and then its offset.
pub(super) fn parameters() -> usize {
    WIDTHS.windows(2).map(|pair| pair[1] * (pair[0] + 1)).sum()
}

/// First weights, scaled by the number of inputs so that signals neither vanish nor grow.
pub(super) fn first_weights(random: &mut Pcg32) -> Vec<f32> {
    let mut weights = Vec::with_capacity(parameters());
    for pair in WIDTHS.windows(2) {
        let scale = (6.0 / pair[0] as f32).sqrt();
        for _ in 0..pair[1] {
            weights.extend((0..pair[0]).map(|_| scale * draw(random)));
            weights.push(0.0);
        }
    }
    weights
}

/// Activations of every layer for one example; kept between calls to save the allocations.
#[derive(Debug, Default)]
pub(super) struct Pass {
    layers: [Vec<f32>; WIDTHS.len()],
    errors: [Vec<f32>; WIDTHS.len()],
}

impl Pass {
    /// The network's answer for one point.
    pub fn forward(&mut self, weights: &[f32], point: [f32; 2]) -> f32 {
        self.layers[0].clear();
        self.layers[0].extend(point);
        let mut rest = weights;
        for layer in 1..WIDTHS.len() {
            let (inputs, outputs) = (WIDTHS[layer - 1], WIDTHS[layer]);
            let (own, after) = rest.split_at(outputs * (inputs + 1));
            rest = after;
            let (before, here) = self.layers.split_at_mut(layer);
            let (before, here) = (&before[layer - 1], &mut here[0]);
            here.clear();
            for row in own.chunks_exact(inputs + 1) {
                let mut sum = row[inputs];
                for (weight, value) in row.iter().zip(before) {
                    sum += weight * value;
                }
                here.push(if layer + 1 < WIDTHS.len() { sum.max(0.0) } else { sum });
            }
        }
        self.layers[WIDTHS.len() - 1][0]
    }

    /// Adds the gradient of the squared error of one example to `gradient`, and returns that error.
    pub fn backward(&mut self, weights: &[f32], example: Example, gradient: &mut [f32]) -> f32 {
        let miss = self.forward(weights, example.point) - example.arm;
        let last = WIDTHS.len() - 1;
        self.errors[last].clear();
        self.errors[last].push(2.0 * miss);
        let mut end = weights.len();
        for layer in (1..WIDTHS.len()).rev() {
            let inputs = WIDTHS[layer - 1];
            let start = end - WIDTHS[layer] * (inputs + 1);
            let (before, here) = self.errors.split_at_mut(layer);
            let (before, here) = (&mut before[layer - 1], &here[0]);
            before.clear();
            before.resize(inputs, 0.0);
            let rows = weights[start..end].chunks_exact(inputs + 1);
            let slopes = gradient[start..end].chunks_exact_mut(inputs + 1);
            for ((row, slope), error) in rows.zip(slopes).zip(here) {
                for input in 0..inputs {
                    slope[input] += error * self.layers[layer - 1][input];
                    before[input] += error * row[input];
                }
                slope[inputs] += error;
            }
            // The ramp lets an error back only where it let the signal through.
            for (error, value) in before.iter_mut().zip(&self.layers[layer - 1]) {
                if layer > 1 && *value <= 0.0 {
                    *error = 0.0;
                }
            }
            end = start;
        }
        miss * miss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_agrees_with_the_slope_that_a_small_change_shows() {
        let mut random = Pcg32::new(5, 5);
        let mut weights = first_weights(&mut random);
        assert_eq!(weights.len(), parameters());
        let example = Example { point: [0.4, -0.3], arm: 1.0 };
        let mut pass = Pass::default();
        let mut gradient = vec![0.0; weights.len()];
        pass.backward(&weights, example, &mut gradient);
        let mut loss = |weights: &[f32]| {
            let miss = f64::from(pass.forward(weights, example.point)) - 1.0;
            miss * miss
        };
        for index in (0..weights.len()).step_by(7) {
            let (kept, nudge) = (weights[index], 1e-3_f32);
            weights[index] = kept + nudge;
            let above = loss(&weights);
            weights[index] = kept - nudge;
            let below = loss(&weights);
            weights[index] = kept;
            let slope = (above - below) / (2.0 * f64::from(nudge));
            let miss = (slope - f64::from(gradient[index])).abs();
            assert!(miss < 0.01 + 0.03 * slope.abs(), "weight {index}: {slope} against {}", gradient[index]);
        }
    }
}
