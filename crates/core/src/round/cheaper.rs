//! Waiting for a place that is far cheaper and only cools down.
//!
//! Without a value of time a bill says nothing of waiting, and the cheapest place that can be had this minute may cost a
//! thousand times what the best one costs a few minutes later. So a job does not take a place whose bill is more than
//! `wait_for_cheaper_factor` times that of one that only cools down. It waits until the first of those takes runs again,
//! and never for one that has proved gone: where a launch was refused again after a cool-down, or the job's own was.
//!
//! A job that says what an hour is worth has the waiting in its bill; a policy for deadlines weighs it by itself.

use leeway_model::job::{Job, Reason};
use leeway_model::market::OfferKey;
use leeway_model::run::EndReason;
use leeway_model::{Micros, Timestamp};

use super::fleet::{GroupId, OfferId};
use super::queue;
use super::score::Economics;
use super::select::{self, Market, Place};
use crate::policy::JobView;
use crate::scheduler::Scheduler;

/// Most offers of a group that are looked at, from the cheapest on.
const LOOK_AT: usize = 16;

/// A far cheaper place that cools down, and the dear one that is not taken meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Soon {
    pub until: Timestamp,
    offer: OfferKey,
    bill: Micros,
    instead_of: OfferKey,
    dear: Micros,
}

impl Soon {
    /// Why the job waits, and until when.
    pub fn reason(&self) -> Reason {
        let Self { until, offer, bill, instead_of, dear } = self;
        let message = format!(
            "waits until {until} for {offer}, which cools down and is expected to cost {bill}; the best place that can be \
             had now, {instead_of}, is expected to cost {dear}; value_per_hour says what waiting costs"
        );
        Reason::new("WAITS_FOR_CHEAPER", message)
    }
}

impl Scheduler {
    /// The first to take runs again of the places that are far cheaper than this one.
    pub(crate) fn far_cheaper_soon(
        &self,
        job: &Job,
        view: &JobView<'_>,
        economics: &Economics<'_>,
        place: &Place,
    ) -> Option<Soon> {
        if job.spec.money.value_per_hour.is_some() || self.weighs_waiting(job) {
            return None;
        }
        let (_, policy) = self.policy_of(job);
        let market = self.market(job, policy.as_ref());
        let dear = select::money(&place.ranked.scored);
        let is_far_cheaper =
            |bill: Micros| bill.as_units_f64() * self.config.wait_for_cheaper_factor < dear.as_units_f64();
        let mut soonest: Option<Soon> = None;
        let mut look = |offer: OfferId, until: Timestamp| {
            if self.is_gone(job, offer) || soonest.as_ref().is_some_and(|soon| soon.until <= until) {
                return;
            }
            // As it will be judged then, as far as can be known.
            let then = Market { now: until, setback: None, ..market };
            let Ok((priced, alternative)) = select::consider(then, view, economics, offer, None) else { return };
            let bill = select::money(&priced.scored);
            if is_far_cheaper(bill) && (!job.spec.ordered || alternative <= place.alternative) {
                let key = |offer| self.fleet.slot(offer).offer.key.clone();
                soonest = Some(Soon { until, offer: key(offer), bill, instead_of: key(place.offer), dear });
            }
        };
        if let Some((offer, until)) = market.setback {
            look(offer, until);
        }
        for group in self.cooling_groups(job).iter().flat_map(|groups| groups.iter()) {
            let least = economics.least(&self.config, self.fleet.group(*group));
            for (rate, offer) in self.fleet.cooling(*group).take(LOOK_AT) {
                if !is_far_cheaper(select::money(&economics.floor(&self.config, &least, rate))) {
                    break;
                }
                if let Some(until) = self.fleet.slot(offer).offer.cooling_until.filter(|until| self.now < *until) {
                    look(offer, until);
                }
            }
        }
        soonest
    }

    /// Groups of offers that could answer a job, when any offer cools down at all.
    pub(super) fn cooling_groups(&self, job: &Job) -> Option<Vec<GroupId>> {
        let any = self.fleet.has_cooling();
        any.then(|| queue::groups_for(&job.spec.resources, &self.fleet).to_vec())
    }

    fn weighs_waiting(&self, job: &Job) -> bool {
        self.deadline_of(job).is_some() && self.config.deadline_policy.as_ref() == Some(self.policy_of(job).0)
    }

    /// Whether waiting for an offer has come to nothing: it took no run after it had cooled down, or none of this job.
    fn is_gone(&self, job: &Job, offer: OfferId) -> bool {
        let slot = self.fleet.slot(offer);
        let refused_again = slot.probes.was_refused() && slot.offer.cooldown > self.config.launch.cooldown;
        let failed = |end: &Option<EndReason>| matches!(end, Some(EndReason::LaunchFailed { .. }));
        let own = self.runs_of(job.id).rev().take_while(|run| failed(&run.end)).take(LOOK_AT);
        refused_again || own.into_iter().any(|run| run.offer == slot.offer.key)
    }
}
