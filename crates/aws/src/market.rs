//! Spot prices as EC2 tells them: the history since the last look, page by page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_ec2::Client;
use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{Filter, InstanceType};
use leeway_model::cluster::ClusterSpec;
use leeway_model::market::{OfferKey, Price, PriceObservation, Source};
use leeway_model::resources::CapacityType;
use leeway_model::{Currency, Name, Rate, Timestamp};

use crate::config::AwsConfig;
use crate::instances::CallError;

/// Between two looks; EC2's prices change every few minutes at most.
const EVERY: Duration = Duration::from_secs(300);
/// How far the first look goes back. EC2 tells the price that stood at the beginning as well.
const FIRST: Duration = Duration::from_secs(3_600);
/// What our images run.
const PRODUCT: &str = "Linux/UNIX";

/// What was heard of one cluster's prices.
#[derive(Debug, Default)]
pub struct Feed(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    /// When it was last asked.
    asked: Option<SystemTime>,
    /// The newest change that was passed on, by shape.
    newest: BTreeMap<Name, Timestamp>,
}

impl Feed {
    /// The changes since the last look, oldest first; nothing while it is too early to look again. A failed look loses
    /// nothing: the next one asks for the same.
    pub async fn news(
        &self,
        client: &Client,
        config: &AwsConfig,
        spec: &ClusterSpec,
    ) -> Result<Vec<PriceObservation>, CallError> {
        let now = SystemTime::now();
        let since = match self.heard().asked {
            Some(asked) if now.duration_since(asked).is_ok_and(|passed| passed < EVERY) => return Ok(Vec::new()),
            Some(asked) => asked,
            None => now.checked_sub(FIRST).unwrap_or(UNIX_EPOCH),
        };
        let types: BTreeSet<&str> = spec.machines.iter().map(|machines| &*machines.shape.instance_type).collect();
        if types.is_empty() {
            return Ok(Vec::new());
        }
        let mut request = client
            .describe_spot_price_history()
            .product_descriptions(PRODUCT)
            .start_time(DateTime::from(since))
            .max_results(1_000)
            .set_instance_types(Some(types.into_iter().map(InstanceType::from).collect()));
        if let Some(zone) = &config.zone {
            request = request.filters(Filter::builder().name("availability-zone").values(zone).build());
        }
        let mut pages = request.into_paginator().send();
        let mut seen: BTreeMap<(Timestamp, Name), Rate> = BTreeMap::new();
        while let Some(page) = pages.next().await {
            for row in page.map_err(CallError::from)?.spot_price_history() {
                let kind = row.instance_type().map_or("", |kind| kind.as_str());
                let shapes =
                    spec.machines.iter().map(|machines| &machines.shape).filter(|shape| *shape.instance_type == *kind);
                let at = row.timestamp().and_then(|at| at.to_millis().ok()).map(Timestamp::from_millis);
                let rate = row.spot_price().map(Rate::parse_decimal);
                let (Some(at), Some(Ok(rate))) = (at, rate) else {
                    tracing::warn!(instance_type = kind, price = row.spot_price(), "a spot price that cannot be read");
                    continue;
                };
                // Without a zone of its own a cluster is in several: what it may come to cost is the dearest.
                for shape in shapes {
                    let known = seen.entry((at, shape.name.clone())).or_insert(rate);
                    *known = rate.max(*known);
                }
            }
        }
        let mut heard = self.heard();
        heard.asked = Some(now);
        let mut news = Vec::new();
        for ((observed, shape), rate) in seen {
            if heard.newest.get(&shape).is_some_and(|newest| *newest >= observed) {
                continue;
            }
            heard.newest.insert(shape.clone(), observed);
            let offer = OfferKey { cluster: spec.name.clone(), shape, capacity: CapacityType::Spot };
            let price = Price { rate, currency: Currency::USD, observed, source: Source::Feed };
            news.push(PriceObservation { offer, price });
        }
        Ok(news)
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
