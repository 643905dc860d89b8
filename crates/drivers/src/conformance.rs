//! What every driver must pass: the contract of [`ClusterDriver`] as plain functions. A driver's tests call each with a
//! [`Bench`] over a cluster whose agents stay until they are stopped.

use std::time::Duration;

use leeway_model::{Millis, RunId};

use crate::contract::{ClusterDriver, InstanceState, Launch, Observation};

/// A driver under test.
#[derive(Debug)]
pub struct Bench<'a, F> {
    pub driver: &'a dyn ClusterDriver,
    /// The launch of a run over so many machines, always in the same cluster, which has room for three.
    pub launch: F,
    /// How long a machine may take to come, or to go.
    pub patience: Duration,
}

impl<F: Fn(RunId, u32) -> Launch> Bench<'_, F> {
    async fn observe(&self, launch: &Launch) -> Observation {
        self.driver.observe(&launch.cluster.name).await.expect("an observation must succeed on a healthy cluster")
    }

    async fn await_gone(&self, launch: &Launch) {
        let end = tokio::time::Instant::now() + self.patience;
        while !self.observe(launch).await.proves_gone(launch.run) {
            assert!(tokio::time::Instant::now() < end, "run {} is still there", launch.run);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn stop(&self, launch: &Launch) {
        let stopped = self.driver.stop(&launch.cluster.name, launch.run, Millis::new(200)).await;
        stopped.expect("a stop must succeed on a healthy cluster");
    }

    /// P-01: a launch whose answer was lost is repeated under the same id and makes nothing new.
    pub async fn a_second_launch_adopts_what_the_first_made(&self, run: RunId) {
        let launch = (self.launch)(run, 2);
        let first = self.driver.launch(&launch).await.expect("the cluster has room");
        let again = self.driver.launch(&launch).await.expect("a repeated launch adopts");
        assert_eq!(first, again);
        let seen: Vec<_> = self.observe(&launch).await.of(run).map(|instance| instance.id.clone()).collect();
        assert_eq!(seen, first, "exactly the launched machines are there, in rank order");
        self.stop(&launch).await;
        self.await_gone(&launch).await;
    }

    /// P-12: a gang that does not fit leaves nothing behind.
    pub async fn p_12_a_gang_that_does_not_fit_leaves_no_machine(&self, fits: RunId, does_not: RunId) {
        let small = (self.launch)(fits, 2);
        self.driver.launch(&small).await.expect("the cluster has room");
        let large = (self.launch)(does_not, 2);
        let refused = self.driver.launch(&large).await.expect_err("two of three machines are taken");
        assert_eq!(refused.class, leeway_model::run::LaunchErrorClass::Capacity, "{refused}");
        self.await_gone(&large).await;
        let observed = self.observe(&small).await;
        assert!(observed.of(fits).all(|instance| instance.state == InstanceState::Running));
        self.stop(&small).await;
        self.await_gone(&small).await;
    }

    /// Stops may be repeated, also of what never was; a run that was stopped is never launched again.
    pub async fn a_stop_is_idempotent_and_final(&self, run: RunId, never: RunId) {
        let launch = (self.launch)(run, 1);
        self.driver.launch(&launch).await.expect("the cluster has room");
        self.stop(&launch).await;
        self.stop(&launch).await;
        self.await_gone(&launch).await;
        self.stop(&launch).await;
        assert!(self.driver.launch(&launch).await.is_err(), "a stopped run must not come back");
        let other = (self.launch)(never, 1);
        self.stop(&other).await;
        assert!(self.driver.launch(&other).await.is_err(), "a launch that comes after its stop makes nothing");
        self.await_gone(&other).await;
    }

    /// P-02: what was launched is found by another driver over the same cluster, as after a restart of the server.
    pub async fn p_02_a_new_driver_finds_what_an_earlier_one_launched(&self, later: &dyn ClusterDriver, run: RunId) {
        let launch = (self.launch)(run, 1);
        let made = self.driver.launch(&launch).await.expect("the cluster has room");
        let seen = later.observe(&launch.cluster.name).await.expect("an observation must succeed");
        assert!(seen.complete);
        let found: Vec<_> = seen.of(run).map(|instance| (&instance.id, instance.state)).collect();
        assert_eq!(found, [(&made[0], InstanceState::Running)]);
        assert_eq!(later.launch(&launch).await.as_ref(), Ok(&made));
        later.stop(&launch.cluster.name, run, Millis::new(200)).await.expect("a stop must succeed");
        self.await_gone(&launch).await;
    }
}
