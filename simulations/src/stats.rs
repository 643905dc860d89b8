//! Means, quantiles and intervals, the same for every evaluation.

use crate::random;

/// Draws of a bootstrap.
const DRAWS: usize = 2_000;

/// NaN of nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The quantile between the two nearest values, in proportion to their distance; NaN of nothing.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = share * last as f64;
    let below = (at.floor() as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64)
}

/// The 95 % interval of the mean of independent values, by the bootstrap of B. Efron (Annals of Statistics 7, 1979):
/// the percentiles of means of values drawn with replacement. `name` names the luck, so that equal samples have equal
/// intervals.
pub fn interval(values: &[f64], name: &str) -> (f64, f64) {
    let mut luck = random::stream(0, name);
    let draw = |luck: &mut random::Stream| {
        let sum: f64 = values.iter().map(|_| values[luck.below(values.len() as u64) as usize]).sum();
        sum / values.len() as f64
    };
    let means: Vec<f64> = (0..DRAWS).map(|_| draw(&mut luck)).collect();
    (quantile(&means, 0.025), quantile(&means, 0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_holds_it_and_narrows_with_more_values() {
        let values = |count: u32| (0..count).map(|n| f64::from(n % 10)).collect::<Vec<_>>();
        let (low, high) = interval(&values(20), "test");
        let (narrow_low, narrow_high) = interval(&values(2_000), "test");
        assert!(low < 4.5 && 4.5 < high && narrow_high - narrow_low < (high - low) / 5.0);
        assert_eq!(interval(&[3.0], "test"), (3.0, 3.0));
    }

    #[test]
    fn a_quantile_lies_between_its_neighbours() {
        let check = |share, expected: f64| assert!((quantile(&[4.0, 1.0, 3.0, 2.0], share) - expected).abs() < 1e-12);
        check(0.0, 1.0);
        check(0.5, 2.5);
        check(0.9, 3.7);
        check(1.0, 4.0);
        assert!(quantile(&[], 0.5).is_nan() && mean(&[]).is_nan());
    }
}
