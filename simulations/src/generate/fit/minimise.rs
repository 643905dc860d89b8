//! The least value of a function of two numbers, by the simplex of Nelder and Mead: no derivative, a few hundred calls.

/// Where the function is least near `start`. A value that is not a number counts as infinite.
pub fn minimise(start: [f64; 2], function: impl Fn([f64; 2]) -> f64) -> [f64; 2] {
    let value = |at: [f64; 2]| {
        let value = function(at);
        (if value.is_nan() { f64::INFINITY } else { value }, at)
    };
    let [x, y] = start;
    let mut simplex = [value([x, y]), value([x + 0.5, y]), value([x, y + 0.5])];
    for _ in 0..400 {
        simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
        let [best, middle, worst] = simplex;
        let spread = (0..2).map(|i| (best.1[i] - worst.1[i]).abs()).fold(0.0, f64::max);
        if spread < 1e-7 && worst.0 - best.0 < 1e-9 * (1.0 + best.0.abs()) {
            break;
        }
        let centre = [0, 1].map(|i| (best.1[i] + middle.1[i]) / 2.0);
        let along = |factor: f64| value([0, 1].map(|i| centre[i] + factor * (worst.1[i] - centre[i])));
        let reflected = along(-1.0);
        simplex[2] = if reflected.0 < best.0 {
            let expanded = along(-2.0);
            if expanded.0 < reflected.0 { expanded } else { reflected }
        } else if reflected.0 < middle.0 {
            reflected
        } else {
            let inside = along(if reflected.0 < worst.0 { -0.5 } else { 0.5 });
            if inside.0 < worst.0.min(reflected.0) {
                inside
            } else {
                let towards = |from: [f64; 2]| value([0, 1].map(|i| (from[i] + best.1[i]) / 2.0));
                simplex[1] = towards(middle.1);
                towards(worst.1)
            }
        };
    }
    simplex.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map_or(start, |least| least.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_valley_of_rosenbrock_is_walked_to_its_end() {
        let [x, y] = minimise([-1.2, 1.0], |[x, y]| (1.0 - x).powi(2) + 100.0 * (y - x * x).powi(2));
        assert!((x - 1.0).abs() < 1e-4 && (y - 1.0).abs() < 1e-4, "{x} {y}");
        let [x, _] = minimise([3.0, 0.0], |[x, y]| if x < 1.0 { f64::NAN } else { x + y * y });
        assert!((x - 1.0).abs() < 1e-3, "{x}");
    }
}
