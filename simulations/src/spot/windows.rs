//! Where windows begin: spread evenly over a trace, from its first tick to the last at which a whole window fits.

/// Starts of at most `count` windows of `length` ticks in a trace of `ticks`; fewer where they would begin together, none
/// where not one fits. Halves round to even.
pub fn starts(ticks: usize, length: usize, count: usize) -> Vec<usize> {
    let Some(last) = ticks.checked_sub(length) else { return Vec::new() };
    if count == 0 {
        return Vec::new();
    }
    if last == 0 || count == 1 {
        return vec![0];
    }
    let steps = count - 1;
    let at = |index: usize| ((index * last) as f64 / steps as f64).round_ties_even() as usize;
    let mut starts: Vec<usize> = (0..count).map(at).collect();
    starts.dedup();
    starts
}

/// Whether neighbouring windows share ticks, so that they are not independent of each other.
pub fn overlap(starts: &[usize], length: usize) -> bool {
    starts.windows(2).any(|pair| pair[1] - pair[0] < length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_reach_from_the_first_tick_to_the_last() {
        assert_eq!(starts(100, 20, 5), [0, 20, 40, 60, 80]);
        assert_eq!(starts(22, 20, 5), [0, 1, 2], "0, 0.5, 1, 1.5 and 2, halves to even");
        assert!(!overlap(&[0, 20, 40], 20) && overlap(&[0, 19], 20));
    }

    #[test]
    fn a_trace_that_is_too_short_has_no_window() {
        assert!(starts(19, 20, 5).is_empty() && starts(20, 20, 0).is_empty());
        assert_eq!(starts(20, 20, 5), [0]);
        assert_eq!(starts(90, 20, 1), [0]);
    }
}
