//! Independent pieces of work on all cores, with results that do not depend on how many there are.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// As many threads as there are cores.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Does `work` for each number below `count` on at most so many threads; the results in the order of the numbers. Each
/// takes the next piece when it is free, so that long ones do not hold up the others.
pub fn map<T: Send>(count: usize, threads: usize, work: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let share = || {
        let mut found = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return found;
            }
            found.push((number, work(number)));
        }
    };
    let mut results = BTreeMap::new();
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.clamp(1, count.max(1))).map(|_| scope.spawn(share)).collect();
        results.extend(share());
        for other in others {
            match other.join() {
                Ok(found) => results.extend(found),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    results.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_their_numbers_on_any_number_of_threads() {
        let squares: Vec<usize> = (0..100).map(|number| number * number).collect();
        for threads in [0, 1, 3, 200] {
            assert_eq!(map(100, threads, &|number| number * number), squares);
        }
        assert!(map(0, 4, &|number| number).is_empty());
    }
}
