//! From windows to a table: how far each rule is from the best possible, with the spread that belongs to the figure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::bench::{Case, Measured};
use crate::random;
use crate::stats::{mean, quantile};

/// The family of sums over all families.
pub const ALL: &str = "all";
/// Draws of the bootstrap.
const DRAWS: usize = 1_000;

/// One rule over the windows of one family.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub setting: &'static str,
    pub family: String,
    pub policy: String,
    /// Windows, each deadline and changeover counted on its own.
    pub windows: usize,
    pub misses: usize,
    /// Mean of cost over optimum, with the 95 % interval of a bootstrap over windows.
    pub mean_over_optimum: f64,
    pub ci_low: f64,
    pub ci_high: f64,
    pub p90_over_optimum: f64,
    pub max_over_optimum: f64,
    pub mean_cost_over_on_demand: f64,
    pub mean_launches: f64,
    pub mean_moves: f64,
}

/// The difference of two rules on the same windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    pub setting: &'static str,
    pub family: String,
    pub policy: String,
    /// What it is compared with.
    pub against: String,
    /// Mean of the difference in cost over optimum; below zero where `policy` is cheaper.
    pub mean_difference: f64,
    pub ci_low: f64,
    pub ci_high: f64,
}

/// Rows by setting, then family with the sums last, then rule.
pub fn rows(measured: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    for slice in slices(measured) {
        for (index, policy) in measured.rules.iter().enumerate() {
            let ratios: Vec<f64> = slice.cases.iter().map(|case| case.outcomes[index].cost / case.optimum).collect();
            let (ci_low, ci_high) = slice.interval(&ratios);
            let of =
                |value: &dyn Fn(&Case) -> f64| mean(&slice.cases.iter().map(|case| value(case)).collect::<Vec<_>>());
            rows.push(Row {
                setting: slice.setting,
                family: slice.family.clone(),
                policy: policy.clone(),
                windows: ratios.len(),
                misses: slice.cases.iter().filter(|case| case.outcomes[index].missed).count(),
                mean_over_optimum: mean(&ratios),
                ci_low,
                ci_high,
                p90_over_optimum: quantile(&ratios, 0.9),
                max_over_optimum: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                mean_cost_over_on_demand: of(&|case| case.outcomes[index].cost / case.on_demand),
                mean_launches: of(&|case| case.outcomes[index].launches.into()),
                mean_moves: of(&|case| case.outcomes[index].moves.into()),
            });
        }
    }
    rows
}

/// Every rule against the one named `against`; none where that was not measured.
pub fn pairs(measured: &Measured, against: &str) -> Vec<Pair> {
    let Some(base) = measured.rules.iter().position(|rule| rule == against) else { return Vec::new() };
    let mut pairs = Vec::new();
    for slice in slices(measured) {
        for (index, policy) in measured.rules.iter().enumerate().filter(|(index, _)| *index != base) {
            let difference = |case: &&Case| (case.outcomes[index].cost - case.outcomes[base].cost) / case.optimum;
            let differences: Vec<f64> = slice.cases.iter().map(difference).collect();
            let (ci_low, ci_high) = slice.interval(&differences);
            pairs.push(Pair {
                setting: slice.setting,
                family: slice.family.clone(),
                policy: policy.clone(),
                against: against.to_owned(),
                mean_difference: mean(&differences),
                ci_low,
                ci_high,
            });
        }
    }
    pairs
}

/// The windows of one setting and family.
struct Slice<'a> {
    setting: &'static str,
    family: String,
    cases: Vec<&'a Case>,
    /// For each case the number of its cluster: the same stretch of the same market under other tasks.
    cluster: Vec<usize>,
    clusters: usize,
}

fn slices(measured: &Measured) -> Vec<Slice<'_>> {
    let mut settings: Vec<&'static str> = Vec::new();
    let mut families: Vec<&str> = Vec::new();
    for case in &measured.cases {
        if !settings.contains(&case.setting) {
            settings.push(case.setting);
        }
        if !families.contains(&case.family.as_str()) {
            families.push(&case.family);
        }
    }
    families.push(ALL);
    let of = |setting, family: &&str| {
        let belongs = |case: &&Case| case.setting == setting && (*family == ALL || case.family == *family);
        Slice::new(setting, (*family).to_owned(), measured.cases.iter().filter(belongs).collect())
    };
    let all = settings.iter().flat_map(|setting| families.iter().map(move |family| of(setting, family)));
    all.filter(|slice| !slice.cases.is_empty()).collect()
}

impl<'a> Slice<'a> {
    fn new(setting: &'static str, family: String, cases: Vec<&'a Case>) -> Self {
        let mut known = BTreeMap::new();
        let cluster = |case: &&Case| {
            let fresh = known.len();
            *known.entry((case.family.clone(), case.market.clone(), case.window)).or_insert(fresh)
        };
        let cluster: Vec<usize> = cases.iter().map(cluster).collect();
        Self { setting, family, cases, cluster, clusters: known.len() }
    }

    /// The 95 % interval of the mean. Whole clusters are drawn, since cases of one share their weather, and every rule
    /// is judged on the same draws.
    fn interval(&self, values: &[f64]) -> (f64, f64) {
        let mut sums = vec![(0.0, 0.0); self.clusters];
        for (&cluster, &value) in self.cluster.iter().zip(values) {
            sums[cluster].0 += value;
            sums[cluster].1 += 1.0;
        }
        let mut luck = random::stream(0, &format!("bootstrap/{}/{}", self.setting, self.family));
        let mut means: Vec<f64> = Vec::with_capacity(DRAWS);
        for _ in 0..DRAWS {
            let (mut sum, mut count) = (0.0, 0.0);
            for _ in 0..sums.len() {
                let drawn = sums[luck.below(sums.len() as u64) as usize];
                sum += drawn.0;
                count += drawn.1;
            }
            means.push(sum / count);
        }
        (quantile(&means, 0.025), quantile(&means, 0.975))
    }
}
