//! What a policy that plans is told of a job with a deadline: how long it may still lose, what capacity that nobody takes
//! back would cost, and how the spot places that it fits have come and gone.

use leeway_model::decision::Rule;
use leeway_model::job::Job;
use leeway_model::resources::CapacityType;

use super::fleet::OfferId;
use super::queue;
use super::score::{self, Economics};
use super::select::{self, Market, Place};
use crate::policy::{Held, JobView, Outlook, Prospect};
use crate::scheduler::Scheduler;

/// Spot places that are told at most, the best first; those that can be had now and the one that is held come on top.
const KEEP: usize = 8;
/// Offers that are looked at for them, cheapest machines first.
const LOOK_AT: usize = 64;

impl Scheduler {
    /// Spot places that a job fits, whether they can be had now or not. Those of `found` and the one that is held are
    /// among them, whatever they rank.
    pub(super) fn prospects<'a>(
        &'a self,
        market: Market<'a>,
        view: &JobView<'_>,
        economics: &Economics<'_>,
        found: &[Place],
        held: Option<OfferId>,
    ) -> Vec<Prospect<'a>> {
        let is_spot = |offer: &OfferId| self.fleet.slot(*offer).offer.key.capacity == CapacityType::Spot;
        let groups = queue::groups_for(&view.job.spec.resources, &self.fleet);
        let groups: Vec<_> =
            groups.iter().copied().filter(|group| self.fleet.group(*group).capacity == CapacityType::Spot).collect();
        let each = (LOOK_AT / groups.len().max(1)).max(1);
        let cheapest = groups.iter().flat_map(|group| self.fleet.priced(*group).take(each)).map(|(_, offer)| offer);
        let told = |offer: OfferId| {
            let (scored, is_open) = match select::consider(market, view, economics, offer, None) {
                Ok((priced, _)) => (priced.scored, true),
                // Another time it may take the job.
                Err(Rule::NoCapacity | Rule::CoolingDown) => {
                    let slot = self.fleet.slot(offer);
                    let rate = slot.offer.price.as_ref()?.rate;
                    (economics.price(market.config, market.locality, slot, rate).scored, false)
                }
                Err(_) => return None,
            };
            let slot = self.fleet.slot(offer);
            let opens = market.set_back_until(offer).max(slot.offer.cooling_until).filter(|until| self.now < *until);
            let prospect = Prospect {
                offer: &slot.offer.key,
                scored,
                is_open,
                opens,
                is_told: slot.offer.available.is_some(),
                at_stake: score::at_stake(&self.config, &view.job.spec, slot),
                seen: self.tables.spells.get(&slot.offer.key),
            };
            Some((market.policy.rank(view, &scored), prospect))
        };
        let mut best: Vec<_> = cheapest.filter_map(told).collect();
        best.sort_by(|(rank, one), (other_rank, other)| (rank, one.offer).cmp(&(other_rank, other.offer)));
        best.truncate(KEEP);
        let mut all: Vec<_> = best.into_iter().map(|(_, prospect)| prospect).collect();
        for offer in found.iter().map(|place| place.offer).chain(held).filter(is_spot) {
            if all.iter().all(|known| known.offer != &self.fleet.slot(offer).offer.key) {
                all.extend(told(offer).map(|(_, prospect)| prospect));
            }
        }
        all
    }

    /// What to plan with; `None` without a deadline, or without a place that nobody takes back.
    pub(super) fn outlook<'a>(
        &self,
        job: &Job,
        calm: &[Place],
        spot: &'a [Prospect<'a>],
        held: Option<Held<'a>>,
    ) -> Option<Outlook<'a>> {
        let free = self.last_call(job, calm)?.before(self.spot_reserve(job));
        Some(Outlook { slack: free.since(self.now), calm: calm.first()?.ranked.scored, spot, held })
    }

    /// What a run's place costs for the rest of the work.
    pub(super) fn held<'a>(
        &'a self,
        run: &'a leeway_model::run::Run,
        market: Market<'_>,
        economics: &Economics<'_>,
    ) -> Option<(OfferId, Held<'a>)> {
        let offer = self.fleet.find(&run.offer)?;
        let slot = self.fleet.slot(offer);
        let rate = slot.offer.price.as_ref().map_or(run.price.rate, |price| price.rate);
        let scored = economics.price(market.config, market.locality, slot, rate).scored;
        Some((offer, Held { offer: &run.offer, scored }))
    }
}
