//! How far a fitted distribution is from what was seen: the distance of Kolmogorov and Smirnov.

/// The greatest distance between the survival of sorted draws and a function.
pub fn of_draws(sorted: &[f64], survival: impl Fn(f64) -> f64) -> f64 {
    let count = sorted.len() as f64;
    let far = |(index, draw): (usize, &f64)| {
        let fitted = 1.0 - survival(*draw);
        (fitted - index as f64 / count).abs().max((fitted - (index + 1) as f64 / count).abs())
    };
    sorted.iter().enumerate().map(far).fold(0.0, f64::max)
}

/// The same where of each draw only an interval is known, given as the probabilities, under the fitted distribution, of
/// being below its two ends. Were the fit true, these probabilities spread evenly: what is compared with evenness is their
/// mean over all intervals (the non-randomized transform of Czado, Gneiting and Held, 2009). A draw whose end was not seen
/// has the interval up to 1, so it speaks neither for nor against the part that was not seen.
pub fn of_intervals(intervals: &[(f64, f64)]) -> f64 {
    const STEPS: usize = 512;
    let mean = |at: f64| {
        let share = |(from, to): &(f64, f64)| match to - from {
            width if width > 0.0 => ((at - from) / width).clamp(0.0, 1.0),
            _ => f64::from(u8::from(at >= *to)),
        };
        intervals.iter().map(share).sum::<f64>() / intervals.len().max(1) as f64
    };
    let far = |step: usize| {
        let at = step as f64 / STEPS as f64;
        (mean(at) - at).abs()
    };
    (1..STEPS).map(far).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_that_fit_are_near_and_others_are_far() {
        let draws: Vec<f64> = (0..1_000).map(|index| (f64::from(index) + 0.5) / 1_000.0).collect();
        assert!(of_draws(&draws, |x| 1.0 - x) < 0.001);
        assert!((of_draws(&draws, |x| (1.0 - x).powi(2)) - 0.25).abs() < 0.01);
    }

    #[test]
    fn intervals_that_cover_evenly_are_near_and_an_open_end_says_nothing() {
        let quarters: Vec<(f64, f64)> = (0..4).map(|part| (f64::from(part) / 4.0, f64::from(part + 1) / 4.0)).collect();
        assert!(of_intervals(&quarters) < 1e-9);
        assert!(of_intervals(&[(0.0, 1.0)]) < 1e-9);
        // All in the lowest quarter: at its end everything is below where a quarter should be.
        assert!((of_intervals(&[(0.0, 0.25), (0.0, 0.25)]) - 0.75).abs() < 0.01);
        assert!((of_intervals(&[(0.5, 0.5)]) - 0.5).abs() < 0.01);
    }
}
