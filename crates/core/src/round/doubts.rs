//! What is to be said of a job's deadline before it runs: that it is past, that it cannot be met, that nothing protects it, or
//! that it rests on a guess. None of it keeps a job from being taken.
//!
//! A deadline is protected where some place that nobody takes back could do the work (see `deadline.rs`), and where a move
//! there loses nothing that was done.

use leeway_model::decision::Rule;
use leeway_model::job::{Job, Reason};
use leeway_model::market::OfferKey;
use leeway_model::resources::{CapacityType, SpotPolicy};
use leeway_model::{Micros, Millis, Rate, Timestamp};

use super::queue;
use super::score::{self, Economics};
use super::select;
use crate::scheduler::Scheduler;

/// Offers that are looked at, from the cheapest of each kind of machine on.
const LOOK_AT: usize = 256;

/// What the offers have to say about one kind of capacity.
#[derive(Default)]
struct Prospects<'a> {
    /// The place that would be done first, now or when it is free again.
    fastest: Option<(Millis, &'a OfferKey)>,
    /// The cheapest one that the job's limits keep it from: an hour of a machine, or the whole job.
    over_hourly: Option<(Rate, &'a OfferKey)>,
    over_cost: Option<(Micros, &'a OfferKey)>,
    /// The job's policy takes no such capacity.
    is_shunned: bool,
    /// There are more offers than were looked at.
    has_more: bool,
}

impl Scheduler {
    /// See the head of this file; empty for a job without a deadline, and where nothing fits at all, which is said elsewhere.
    pub(crate) fn doubts(&self, job: &Job) -> Vec<Reason> {
        let Some(deadline) = job.spec.time.deadline else { return Vec::new() };
        if self.deadline_of(job).is_none() {
            let message =
                format!("its deadline of {deadline} is past and binds it no more: it goes where it costs least");
            return vec![Reason::new("DEADLINE_PAST", message)];
        }
        let economics = Economics::of(&self.config, &self.tables.datasets, job);
        let (calm, spot) = (self.offered(job, &economics, false), self.offered(job, &economics, true));
        let fastest = [calm.fastest, spot.fastest].into_iter().flatten().min();
        let Some((time, offer)) = fastest else { return Vec::new() };
        if self.now.after(time) > deadline {
            return vec![too_close(deadline, self.now, time, offer)];
        }
        let mut doubts = Vec::new();
        if calm.fastest.is_none() && !calm.has_more {
            doubts.push(Reason::new("DEADLINE_UNPROTECTED", unprotected(job, &calm)));
        } else if job.spec.checkpoint.is_none() && spot.fastest.is_some() {
            let message = "its deadline is not protected: without 'checkpoint' a loss of spot undoes all its work; add it, or \
                           say spot_policy: on-demand";
            doubts.push(Reason::new("DEADLINE_UNPROTECTED", message));
        }
        if job.spec.time.estimate.is_none() {
            let work = score::work(&self.config, job);
            let message = format!(
                "its deadline is planned for {work} of work, which is a guess; say how long it runs in 'estimate'"
            );
            doubts.push(Reason::new("DEADLINE_WITHOUT_ESTIMATE", message));
        }
        doubts
    }

    fn offered(&self, job: &Job, economics: &Economics<'_>, is_spot: bool) -> Prospects<'_> {
        let (_, policy) = self.policy_of(job);
        let (market, view) = (self.market(job, policy.as_ref()), self.view(job, economics));
        let groups = queue::groups_for(&job.spec.resources, &self.fleet);
        let is_kind = |capacity: CapacityType| (capacity == CapacityType::Spot) == is_spot;
        let groups: Vec<_> =
            groups.iter().copied().filter(|group| is_kind(self.fleet.group(*group).capacity)).collect();
        let each = (LOOK_AT / groups.len().max(1)).max(1);
        let mut found = Prospects::default();
        for group in groups {
            let mut offers = self.fleet.priced(group);
            for (rate, offer) in offers.by_ref().take(each) {
                let slot = self.fleet.slot(offer);
                let key = &slot.offer.key;
                let scored = || economics.price(market.config, market.locality, slot, rate).scored;
                match select::consider(market, &view, economics, offer, None) {
                    Ok((priced, _)) => keep_least(&mut found.fastest, (priced.scored.expected_time, key)),
                    // Another time it may take the job.
                    Err(Rule::NoCapacity | Rule::CoolingDown) => {
                        keep_least(&mut found.fastest, (scored().expected_time, key));
                    }
                    Err(Rule::MaxHourlyCost) => keep_least(&mut found.over_hourly, (rate, key)),
                    Err(Rule::MaxCost) => keep_least(&mut found.over_cost, (select::money(&scored()), key)),
                    Err(Rule::Policy) => found.is_shunned = true,
                    Err(_) => {}
                }
            }
            found.has_more |= offers.next().is_some();
        }
        found
    }
}

fn keep_least<T: Ord>(least: &mut Option<T>, one: T) {
    if least.as_ref().is_none_or(|known| one < *known) {
        *least = Some(one);
    }
}

fn too_close(deadline: Timestamp, now: Timestamp, time: Millis, offer: &OfferKey) -> Reason {
    let left = deadline.since(now);
    let message = format!(
        "its deadline of {deadline} cannot be met: it is {left} from now, and the fastest place that fits, {offer}, is \
         expected to take {time}; set a later deadline, ask for faster machines, or correct 'estimate'"
    );
    Reason::new("DEADLINE_TOO_CLOSE", message)
}

/// Why nothing that nobody takes back may do the work.
fn unprotected(job: &Job, calm: &Prospects<'_>) -> String {
    const HEAD: &str = "its deadline is not protected: spot may be taken from it,";
    if job.spec.resources.iter().all(|request| request.spot == SpotPolicy::Spot) {
        return format!("{HEAD} and spot_policy: spot allows nothing else; say spot_policy: auto");
    }
    if let Some((rate, offer)) = calm.over_hourly {
        return format!(
            "{HEAD} and the cheapest machine that stays, {offer}, costs {rate} an hour, more than its max_hourly_cost; raise it"
        );
    }
    if let (Some((money, offer)), Some(cap)) = (calm.over_cost, job.spec.money.max_cost) {
        return format!(
            "{HEAD} and on the cheapest machine that stays, {offer}, it is expected to cost {money}, more than its max_cost of \
             {cap} leaves; raise it"
        );
    }
    if calm.is_shunned {
        return format!("{HEAD} and its policy takes nothing else; name another in 'policy'");
    }
    format!("{HEAD} and no cluster that fits has on-demand or reserved machines")
}
