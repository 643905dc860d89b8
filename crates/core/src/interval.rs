//! How often to save. With C' the cost of one save in seconds, M the mean time between interruptions of the whole run
//! and p the share of interruptions whose last save succeeds, the overhead per second is about C'/t + (1-p) t/(2M);
//! it is least at t = sqrt(2 C' M / (1-p)). With p = 0 that is Young's rule (J. W. Young, "A first order approximation
//! to the optimum checkpoint interval", CACM 17(9), 1974; refined by J. T. Daly, FGCS 22, 2006).

use leeway_model::Millis;

/// What the interval follows from; times in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Saving {
    /// Pause of the program for one save.
    pub pause: f64,
    /// Mean time between interruptions of the whole run; infinite when there are none.
    pub mean_between: f64,
    /// Lower bound of the share of interruptions whose last save succeeded.
    pub saved_share: f64,
}

/// The interval with the least overhead, between four saves and twice Young's.
pub fn optimal(saving: Saving) -> Option<Millis> {
    let Saving { pause, mean_between, saved_share } = saving;
    if !mean_between.is_finite() || pause <= 0.0 {
        return None;
    }
    let young = (2.0 * pause * mean_between).sqrt();
    let best = young / (1.0 - saved_share.clamp(0.0, 0.99)).sqrt();
    Some(Millis::from_secs_f64(best.min(2.0 * young).max(4.0 * pause)))
}

/// Share of time lost to saving and to work done twice, for a given interval.
pub fn overhead(saving: Saving, interval: f64, restart: f64) -> f64 {
    let Saving { pause, mean_between, saved_share } = saving;
    pause / interval + ((1.0 - saved_share) * interval / 2.0 + restart) / mean_between
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(pause: f64, hours: f64, saved_share: f64) -> f64 {
        optimal(Saving { pause, mean_between: hours * 3600.0, saved_share }).unwrap().as_secs_f64()
    }

    #[test]
    fn the_intervals_of_the_published_table_come_out() {
        assert_eq!(interval(60.0, 6.0, 0.0).round(), 1610.0);
        assert_eq!(interval(60.0, 6.0, 0.8).round(), 3220.0, "bounded by twice Young's");
        assert_eq!(interval(60.0, 2.0, 0.0).round(), 930.0);
        assert_eq!(interval(300.0, 6.0, 0.0).round(), 3600.0);
        assert_eq!(interval(20.0, 1.0, 0.5).round(), 537.0);
    }

    #[test]
    fn the_interval_is_no_worse_than_its_neighbours() {
        let saving = Saving { pause: 30.0, mean_between: 7200.0, saved_share: 0.3 };
        let best = optimal(saving).unwrap().as_secs_f64();
        for factor in [0.5, 0.8, 1.25, 2.0] {
            assert!(overhead(saving, best, 180.0) <= overhead(saving, best * factor, 180.0) + 1e-9);
        }
    }

    #[test]
    fn a_place_without_interruptions_needs_no_interval() {
        assert_eq!(optimal(Saving { pause: 30.0, mean_between: f64::INFINITY, saved_share: 0.0 }), None);
    }
}
