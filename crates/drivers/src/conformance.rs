//! What every driver must pass: the contract of [`ClusterDriver`] as plain functions. A driver's tests call each with a
//! [`Bench`] over a cluster whose agents stay until they are stopped.

use std::time::Duration;

use async_trait::async_trait;
use leeway_model::{Millis, RunId};

use crate::contract::{ClusterDriver, InstanceState, Launch, Observation};

/// What a test does to a cluster behind the driver's back.
#[async_trait]
pub trait Ground: Send + Sync {
    /// The machines of a run go, by the provider's or another person's hand.
    async fn take(&self, launch: &Launch);

    /// The provider warns that it will take the machines of a run. `false` where this kind of cluster tells its agents
    /// alone, or nobody.
    async fn warn(&self, launch: &Launch) -> bool;

    /// Makes a machine that looks much like ours and is another's. `None` where there can be none.
    async fn make_foreign(&self) -> Option<Box<str>>;

    async fn foreign_lives(&self, machine: &str) -> bool;

    /// While it is cut, no listing can be had.
    async fn cut(&self, is_cut: bool);
}

/// A driver under test.
pub struct Bench<'a, F> {
    pub driver: &'a dyn ClusterDriver,
    pub ground: &'a dyn Ground,
    /// The launch of a run over so many machines, always in the same cluster, which has room for three.
    pub launch: F,
    /// How long a machine may take to come, or to go.
    pub patience: Duration,
}

impl<F> std::fmt::Debug for Bench<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("driver", &self.driver).finish_non_exhaustive()
    }
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

    /// P-11: machines that were ended by another hand are seen to be gone.
    pub async fn p_11_machines_that_were_taken_are_seen_gone(&self, run: RunId) {
        let launch = (self.launch)(run, 2);
        self.driver.launch(&launch).await.expect("the cluster has room");
        self.ground.take(&launch).await;
        self.await_gone(&launch).await;
        let refused = self.driver.launch(&launch).await.expect_err("p_15: the token is of machines that have ended");
        assert_eq!(refused.class, leeway_model::run::LaunchErrorClass::Transient, "{refused}");
    }

    /// P-10, P-19: what is not ours is neither listed nor touched, whatever is done with what is.
    pub async fn p_10_what_is_not_ours_is_neither_listed_nor_touched(&self, run: RunId) {
        let Some(foreign) = self.ground.make_foreign().await else { return };
        let launch = (self.launch)(run, 1);
        let made = self.driver.launch(&launch).await.expect("the cluster has room");
        let seen = self.observe(&launch).await;
        let living = seen.instances.iter().filter(|instance| instance.state != InstanceState::Gone);
        let ids: Vec<_> = living.map(|instance| instance.id.clone()).collect();
        assert_eq!(ids, made);
        self.stop(&launch).await;
        self.await_gone(&launch).await;
        self.driver.stop(&launch.cluster.name, run, Millis::ZERO).await.expect("a stop must succeed");
        assert!(self.ground.foreign_lives(&foreign).await, "{foreign} was touched");
    }

    /// P-14: without a listing nothing is proven, and what was there before is there after.
    pub async fn p_14_without_a_listing_nothing_is_proven(&self, run: RunId) {
        let launch = (self.launch)(run, 1);
        self.driver.launch(&launch).await.expect("the cluster has room");
        self.ground.cut(true).await;
        let seen = self.driver.observe(&launch.cluster.name).await;
        assert!(!seen.is_ok_and(|seen| seen.proves_gone(run)));
        self.ground.cut(false).await;
        let state = self.observe(&launch).await.of(run).next().map(|instance| instance.state);
        assert_eq!(state, Some(InstanceState::Running));
        self.stop(&launch).await;
        self.await_gone(&launch).await;
    }

    /// A provider's warning comes with the machine it is about and the time that is left.
    pub async fn a_warning_is_passed_on(&self, run: RunId) {
        let launch = (self.launch)(run, 1);
        self.driver.launch(&launch).await.expect("the cluster has room");
        let before = self.observe(&launch).await;
        assert!(before.of(run).all(|instance| instance.warning.is_none()));
        if self.ground.warn(&launch).await {
            let end = tokio::time::Instant::now() + self.patience;
            while !self.observe(&launch).await.of(run).any(|instance| instance.warning.is_some()) {
                assert!(tokio::time::Instant::now() < end, "the warning never came");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        self.stop(&launch).await;
        self.await_gone(&launch).await;
    }

    /// What is left on disk of a run can be removed once it is gone, and not before.
    pub async fn only_a_run_that_is_gone_can_be_forgotten(&self, run: RunId) {
        let launch = (self.launch)(run, 1);
        self.driver.launch(&launch).await.expect("the cluster has room");
        let refused = self.driver.forget(&launch.cluster.name, run).await;
        self.stop(&launch).await;
        self.await_gone(&launch).await;
        for _ in 0..2 {
            self.driver.forget(&launch.cluster.name, run).await.expect("it is gone");
        }
        if let Err(refused) = refused {
            assert_eq!(refused.class, crate::contract::DriverErrorClass::Invalid, "{refused}");
        }
        assert!(self.observe(&launch).await.proves_gone(run));
    }
}
