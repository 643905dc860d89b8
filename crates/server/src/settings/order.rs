//! The queue's order, and what owners weigh in it.

use leeway_core::Config;
use leeway_core::config::FairShare;
use leeway_model::Name;

use super::convert::installed_name;
use super::raw::Raw;
use super::read::{length, parsed};
use super::{Problems, SettingsError};

pub fn read(raw: &Raw, core: &mut Config, problems: &mut Problems) {
    let installed = leeway_policies::all();
    let names = installed.orders().map(|(name, _)| name.as_str()).collect();
    if let Some(text) = raw.queue_order.as_deref()
        && let Some(name) = problems.take(installed_name("queue_order", text, "order of the queue", names))
    {
        core.queue_order = name;
    }
    let half_life = &mut core.fair_share.half_life;
    problems.take(length(
        "fair_share.half_life",
        raw.fair_share.half_life.as_deref(),
        FairShare::HALF_LIFE_MIN,
        half_life,
    ));
    for (owner, &weight) in &raw.fair_share.weights {
        let key = format!("fair_share.weights.{owner}");
        let Some(name) = problems.take(parsed::<Name>(&key, owner)) else { continue };
        if FairShare::is_weight(weight) {
            core.fair_share.weights.insert(name, weight);
        } else {
            problems.add(SettingsError::new(key, format!("{weight} is no weight; use a number above zero, such as 2")));
        }
    }
}
