//! The market that a cluster follows: a recording as it is, or one made up for the seed.

use std::path::Path;

use leeway_market::trace::{self, SpotTrace};
use leeway_model::Millis;

use super::build::MANY;
use super::cluster::{Cluster, Market};
use super::{Error, Named};
use crate::generate::market::Place;
use crate::generate::params::{self, Params};

impl Named {
    pub(super) fn market(
        &self,
        number: usize,
        cluster: &Cluster,
        market: &Market,
        seed: u64,
    ) -> Result<SpotTrace, Error> {
        let field = format!("clusters[{number}].market");
        let mut trace = match (&market.trace, &market.generate, &market.fitted) {
            (Some(path), None, None) => trace::read(&self.folder.join(path))?,
            (None, Some(params), None) => self.generated(&format!("{field}.generate"), cluster, params, seed)?,
            (None, None, Some(path)) => {
                let path = self.folder.join(path);
                let field = format!("{field}.fitted");
                let params = self.params(&field, &path)?.market;
                let params =
                    params.ok_or_else(|| self.wrong(&field, format!("'{}' has no [market]", path.display())))?;
                self.generated(&field, cluster, &params, seed)?
            }
            _ => return Err(self.wrong(field, "give one of trace, generate and fitted")),
        };
        if market.times == 0 || market.times > MANY {
            return Err(self.wrong(format!("{field}.times"), format!("must be from 1 to {MANY}")));
        }
        if market.times > 1 {
            trace.nodes_requested = trace.nodes_requested.saturating_mul(market.times);
            trace.data.iter_mut().for_each(|nodes| *nodes = nodes.saturating_mul(market.times));
        }
        if let Some(from) = market.from {
            trace = trace.rotated(from.as_millis() / trace.gap.as_millis().max(1));
        }
        Ok(trace)
    }

    /// A market for the whole of the run; what is beyond its last tick begins anew.
    fn generated(
        &self,
        field: &str,
        cluster: &Cluster,
        params: &params::Market,
        seed: u64,
    ) -> Result<SpotTrace, Error> {
        let scenario = &self.scenario;
        let place = Place {
            family: self.name.as_str().into(),
            region: cluster.region.clone(),
            zone: cluster.zone.as_deref().unwrap_or(&cluster.name).into(),
            instance_type: cluster.instance_type.as_str().into(),
            accelerators: None,
            start: Some(scenario.start),
        };
        let length = self.market_length().as_millis() / 1_000;
        let ticks = u32::try_from(length / u64::from(params.gap_s.max(1))).unwrap_or(u32::MAX);
        params.trace(&place, ticks, seed).map_err(|(key, problem)| self.wrong(format!("{field}.{key}"), problem))
    }

    /// What a made-up market covers before it begins anew.
    pub(super) fn market_length(&self) -> Millis {
        self.scenario.limit.unwrap_or_else(|| self.scenario.length.saturating_mul(2))
    }

    pub(super) fn params(&self, field: &str, path: &Path) -> Result<Params, Error> {
        Params::read(path).map_err(|error| self.wrong(field, error.to_string()))
    }
}
