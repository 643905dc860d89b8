//! Seeds that once failed, with what they found. A seed's world changes when the simulator draws differently, so each
//! fault also has its directed test; the seeds stay because they are cheap.

use leeway_simulations::{Options, run};

/// Seed, and what it showed when it failed.
const FAILED_ONCE: [(u64, &str); 9] = [
    (1, "a run whose lease was over looped for ever on its own timer"),
    (424, "after a restart a silent agent was judged only at the launch deadline"),
    (566, "as 424, with a checkpoint lost to a rank that was silent"),
    (632, "as 424"),
    (1031, "as 424"),
    (1603, "a cap cut that overtook a raise"),
    (5345, "restarts in a row, each of which rightly postpones the loss of a silent agent"),
    (8652, "as 5345"),
    (1871, "a launch ordered again after a crash was told as refused although machines existed"),
];

#[test]
fn seeds_that_failed_once_pass() {
    for (seed, what) in FAILED_ONCE {
        let outcome = run(seed, &Options::default());
        assert_eq!(outcome.failure, None, "seed {seed}: {what}");
    }
}
