//! Seeds that once failed, with what they found. A seed's world changes when the simulator draws differently, so each
//! fault also has its directed test; the seeds stay because they are cheap.

use leeway_simulations::dst::{Options, run};

/// Seed, and what it showed when it failed.
const FAILED_ONCE: [(u64, &str); 8] = [
    (424, "core: after a restart a silent agent was judged only at the launch deadline"),
    (566, "the same invariant as 424, K6 of a gang; passed with the same change"),
    (632, "the same invariant as 424, K6 of a gang; passed with the same change"),
    (1031, "the same invariant as 424, K6 of a gang; passed with the same change"),
    (1603, "simulator: a late copy of a lower cap was not counted as a cut"),
    (1871, "simulator: a launch ordered again after a crash was told as refused although machines existed"),
    (5345, "checker: restarts in a row rightly postpone the loss of a silent agent"),
    (8652, "checker: as 5345"),
];

#[test]
fn seeds_that_failed_once_pass() {
    for (seed, what) in FAILED_ONCE {
        let outcome = run(seed, &Options::default());
        assert_eq!(outcome.failure, None, "seed {seed}: {what}");
    }
}
