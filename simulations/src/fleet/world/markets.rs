//! What markets do to those who stand in them: prices, capacity, warnings and losses.

use leeway_core::event::Event;
use leeway_model::market::{CapacityObservation, Price, PriceObservation, Source};
use leeway_model::{Currency, Millis, RunId};
use leeway_store::Store;

use super::super::run::{Error, Fleet, Happening};
use super::super::setup::Sight;
use super::place::News;

const WARNING: u64 = 3;

impl<S: Store> Fleet<'_, S> {
    pub(in super::super) fn plan_market(&mut self, place: usize) {
        if let Some(at) = self.places[place].next() {
            self.kernel.at(self.start.after(at), Happening::Market(place as u32));
        }
    }

    pub(in super::super) fn on_market(&mut self, place: usize) -> Result<(), Error> {
        let news = self.places[place].advance();
        self.plan_market(place);
        match news {
            Some(News::Price | News::Capacity) if self.places[place].is_told => Ok(()),
            Some(News::Price) => self.tell_price(place),
            Some(News::Capacity) => self.tell_capacity(place),
            Some(News::Reclaim { alive, notice }) => self.warn(place, alive, notice),
            None => Ok(()),
        }
    }

    fn tell_price(&mut self, place: usize) -> Result<(), Error> {
        let place = &self.places[place];
        let price = Price {
            rate: place.spot_price(),
            currency: Currency::USD,
            observed: self.kernel.now(),
            source: Source::Trace,
        };
        let prices = vec![PriceObservation { offer: place.spot.clone(), price }];
        self.step(Event::PricesObserved { prices })
    }

    fn tell_capacity(&mut self, place: usize) -> Result<(), Error> {
        let place = &self.places[place];
        if self.terms.sight == Sight::Tried {
            return Ok(());
        }
        let observed = CapacityObservation { offer: place.spot.clone(), available: place.spot_nodes() };
        self.step(Event::CapacityObserved { capacities: vec![observed] })
    }

    /// The market will take back all but `alive` machines.
    fn warn(&mut self, place: usize, alive: u32, notice: Millis) -> Result<(), Error> {
        if notice.is_zero() {
            return self.reclaim(place, alive);
        }
        let now = self.kernel.now();
        let end = now.after(notice);
        self.kernel.at(end, Happening::Reclaimed { place: place as u32, alive });
        for run in self.places[place].victims(alive) {
            let percent = self.luck(run, WARNING).below(100) as u32;
            let (unwarned, short) = (self.terms.unwarned_percent, self.terms.short_percent);
            let deadline = if percent < unwarned {
                continue;
            } else if percent < unwarned.saturating_add(short) {
                let early = now.after(Millis::new(notice.as_millis() / 10));
                if let Some((slot, serial)) =
                    self.runs.slot(run).and_then(|slot| Some((slot, self.runs.get(slot)?.serial)))
                {
                    self.kernel.at(early, Happening::Taken { slot, serial });
                }
                early
            } else {
                end
            };
            self.step(Event::InterruptionNoticed { run, deadline, source: "market".into() })?;
        }
        Ok(())
    }

    /// All but `alive` machines of a place are gone.
    pub(in super::super) fn reclaim(&mut self, place: usize, alive: u32) -> Result<(), Error> {
        let victims: Vec<RunId> = self.places[place].victims(alive);
        for run in victims {
            self.totals.machines_taken += 1;
            self.take_away(run)?;
        }
        Ok(())
    }

    pub(in super::super) fn on_taken(&mut self, slot: u32, serial: u32) -> Result<(), Error> {
        let Some(run) = self.runs.get(slot).filter(|run| run.serial == serial).map(|run| run.id) else { return Ok(()) };
        self.totals.machines_taken += 1;
        self.take_away(run)
    }

    pub(in super::super) fn on_shock(&mut self, number: usize, is_over: bool) -> Result<(), Error> {
        let Some(shock) = self.shocks.get(number).cloned() else { return Ok(()) };
        for place in shock.clusters {
            self.places[place].shock(shock.kind, is_over);
            self.tell_price(place)?;
            self.tell_capacity(place)?;
            if let Some(nodes) = self.places[place].spot_nodes() {
                self.warn(place, nodes, self.terms.notice)?;
            }
        }
        Ok(())
    }
}
