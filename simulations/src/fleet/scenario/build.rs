//! From the text of a scenario to a run of it, for one policy and one seed.

use leeway_core::Config;
use leeway_core::config::FairShare;
use leeway_model::budget::{BudgetSpec, Period};
use leeway_model::cluster::{ClusterSpec, Machines};
use leeway_model::resources::{Accelerators, MachineShape, MilliCpus};
use leeway_model::{Bytes, InstallationId, Micros, Name};

use super::super::setup::{self, ClusterPlan, Setup, Shock, ShockKind, Terms, Workload};
use super::cluster::Cluster;
use super::values::near;
use super::{Error, Named, Sight, World, feasible, jobs};

/// A budget for scenarios that have none: nobody reaches it.
const PLENTY: Micros = Micros::from_units(1_000_000_000);
/// Most machines, nodes of a gang and the like.
pub(super) const MANY: u32 = 1_000_000;

/// Which run of a scenario.
#[derive(Clone, Debug)]
pub struct Choice {
    pub policy: Name,
    pub seed: u64,
    /// Whether the core's invariants are checked after every step.
    pub checked: bool,
}

impl Named {
    /// Makes a run. Everything that the text refers to is read here, so that nothing is missing once it goes on.
    ///
    /// # Errors
    /// A value that means nothing here, a file that cannot be read, or a job that no machine could ever run.
    pub fn setup(&self, choice: &Choice) -> Result<Setup, Error> {
        let scenario = &self.scenario;
        let mut config = Config::new(InstallationId(name("simulated")), choice.policy.clone());
        setup::quiet(&mut config);
        config.egress = leeway_market::egress::defaults();
        config.open_jobs_per_owner = u64::MAX;
        for (model, speed) in &scenario.speeds {
            if !(0.01..=1_000.0).contains(speed) {
                return Err(self.wrong(format!("speeds.{model}"), format!("{speed} is not from 0.01 to 1000")));
            }
            config.estimates.speeds.insert(model.as_str().into(), *speed);
        }
        self.order(&mut config)?;
        let budgets = self.budgets()?;
        config.default_budget = budgets.iter().find(|budget| budget.parent.is_none()).map(|b| b.name.clone());
        // Before anything large is made.
        self.extent()?;
        let clusters = self.clusters(choice.seed)?;
        feasible::check(self, &clusters, &budgets, &config)?;
        let limit = scenario.limit.unwrap_or_else(|| scenario.length.saturating_mul(4));
        if scenario.length.is_zero() {
            return Err(self.wrong("length", "is zero; write how long jobs arrive, such as 24h".to_owned()));
        }
        if limit < scenario.length {
            return Err(self.wrong(
                "limit",
                format!("{limit} is shorter than the length, {0}; leave it out, or write {0} or more", scenario.length),
            ));
        }
        Ok(Setup {
            start: scenario.start,
            limit,
            seed: choice.seed,
            shocks: self.shocks(&clusters)?,
            news: Vec::new(),
            terms: self.terms(&scenario.world)?,
            workload: Workload(jobs::stream(self, &budgets, choice.seed)?),
            config,
            clusters,
            budgets,
            samples: 400,
            checked: choice.checked,
        })
    }

    /// The queue's order, and what owners weigh in it.
    fn order(&self, config: &mut Config) -> Result<(), Error> {
        let of = &self.scenario;
        if let Some(text) = &of.queue_order {
            let installed = leeway_policies::all();
            let found = installed.orders().map(|(name, _)| name).find(|name| name.as_str() == text);
            config.queue_order = found.cloned().ok_or_else(|| {
                let names: Vec<&str> = installed.orders().map(|(name, _)| name.as_str()).collect();
                let hint = match near(text, names.iter().copied()) {
                    Some(name) => format!("did you mean '{name}'?"),
                    None => format!("there are {}", names.join(", ")),
                };
                self.wrong("queue_order", format!("there is no order '{text}'; {hint}"))
            })?;
        }
        if let Some(half_life) = of.fair_share.half_life {
            let least = FairShare::HALF_LIFE_MIN;
            if half_life < least {
                let problem = format!("{half_life} is too short; write {least} or more");
                return Err(self.wrong("fair_share.half_life", problem));
            }
            config.fair_share.half_life = half_life;
        }
        for (owner, weight) in &of.fair_share.weights {
            let field = format!("fair_share.weights.{owner}");
            if !FairShare::is_weight(*weight) {
                return Err(self.wrong(field, format!("{weight} is not above 0")));
            }
            config.fair_share.weights.insert(self.named(field, owner)?, *weight);
        }
        Ok(())
    }

    pub(super) fn wrong(&self, field: impl Into<String>, problem: impl Into<String>) -> Error {
        Error::Field { name: self.name.clone(), field: field.into(), problem: problem.into() }
    }

    fn named(&self, field: impl Into<String>, text: &str) -> Result<Name, Error> {
        text.parse().map_err(|error: leeway_model::name::NameError| self.wrong(field, error.to_string()))
    }

    fn terms(&self, world: &World) -> Result<Terms, Error> {
        let known = Terms::default();
        let percent = |field: &str, value: Option<u32>, known: u32| match value {
            Some(value) if value > 100 => Err(self.wrong(format!("world.{field}"), format!("{value} is above 100"))),
            value => Ok(value.unwrap_or(known)),
        };
        Ok(Terms {
            sight: match world.sight {
                Some(Sight::Free) => setup::Sight::Free,
                Some(Sight::Tried) => setup::Sight::Tried,
                None => known.sight,
            },
            provision: world.provision.map_or(known.provision, |range| range.0),
            boot: world.boot.map_or(known.boot, |range| range.0),
            release: world.release.unwrap_or(known.release),
            notice: world.notice.unwrap_or(known.notice),
            unwarned_percent: percent("unwarned_percent", world.unwarned_percent, known.unwarned_percent)?,
            short_percent: percent("short_percent", world.short_percent, known.short_percent)?,
            between_regions: world.between_regions.unwrap_or(known.between_regions),
            within_region: world.within_region.unwrap_or(known.within_region),
        })
    }

    fn budgets(&self) -> Result<Vec<BudgetSpec>, Error> {
        let mut budgets: Vec<BudgetSpec> = Vec::new();
        for (number, budget) in self.scenario.budgets.iter().enumerate() {
            let field = |key: &str| format!("budgets[{number}].{key}");
            let parent = budget.parent.as_ref().map(|parent| self.named(field("parent"), parent)).transpose()?;
            let title = self.named(field("name"), &budget.name)?;
            if budgets.iter().any(|other| other.name == title) {
                return Err(self.wrong(field("name"), format!("there is a budget '{title}' already; choose another")));
            }
            if let Some(parent) = parent.as_ref().filter(|parent| budgets.iter().all(|other| other.name != **parent)) {
                let problem = format!("there is no budget '{parent}' above this one; write the parent first");
                return Err(self.wrong(field("parent"), problem));
            }
            budgets.push(BudgetSpec {
                name: title,
                parent,
                cap: budget.cap.0,
                period: Period::Total,
                soft_limit: None,
            });
        }
        if budgets.iter().all(|budget| budget.parent.is_some()) {
            budgets.insert(
                0,
                BudgetSpec { name: name("all"), parent: None, cap: PLENTY, period: Period::Total, soft_limit: None },
            );
        }
        Ok(budgets)
    }

    fn shocks(&self, clusters: &[ClusterPlan]) -> Result<Vec<Shock>, Error> {
        let mut shocks = Vec::new();
        for (number, shock) in self.scenario.shocks.iter().enumerate() {
            let field = |key: &str| format!("shocks[{number}].{key}");
            let kind = match (shock.price, shock.capacity) {
                (Some(factor), None) if (0.01..=100.0).contains(&factor) => ShockKind::Price(factor),
                (Some(factor), None) => {
                    return Err(self.wrong(field("price"), format!("{factor} is not from 0.01 to 100")));
                }
                (None, Some(share)) if (0.0..=1.0).contains(&share) => ShockKind::Capacity(share),
                (None, Some(share)) => return Err(self.wrong(field("capacity"), format!("{share} is not from 0 to 1"))),
                _ => return Err(self.wrong(field("price"), "give either price or capacity")),
            };
            let mut hit = Vec::new();
            for cluster in &shock.clusters {
                let found = clusters.iter().position(|plan| plan.spec.name.as_str() == cluster);
                let known = || clusters.iter().map(|plan| plan.spec.name.as_str()).collect::<Vec<_>>().join(", ");
                let unknown =
                    || self.wrong(field("clusters"), format!("there is no cluster '{cluster}', only {}", known()));
                let found = found.ok_or_else(unknown)?;
                // Without a list, clusters that a shock cannot reach are simply not hit; one that is named must be.
                let problem = match kind {
                    ShockKind::Capacity(_) if clusters[found].market.is_none() => {
                        "has no market whose capacity could change; give it one, or leave it out"
                    }
                    ShockKind::Price(_)
                        if clusters[found].spec.machines.iter().all(|machines| machines.spot.is_none()) =>
                    {
                        "has no spot machines whose price could change; leave it out"
                    }
                    _ => {
                        hit.push(found);
                        continue;
                    }
                };
                return Err(self.wrong(field("clusters"), format!("'{cluster}' {problem}")));
            }
            if hit.is_empty() {
                hit = (0..clusters.len()).collect();
            }
            shocks.push(Shock { at: shock.at, length: shock.length, clusters: hit, kind });
        }
        Ok(shocks)
    }

    fn clusters(&self, seed: u64) -> Result<Vec<ClusterPlan>, Error> {
        if self.scenario.clusters.is_empty() {
            return Err(self.wrong("clusters", "there is none; write at least one [[clusters]]"));
        }
        let clusters = &self.scenario.clusters;
        for (number, cluster) in clusters.iter().enumerate() {
            if clusters[..number].iter().any(|other| other.name == cluster.name) {
                let problem = format!("there is a cluster '{}' already; choose another", cluster.name);
                return Err(self.wrong(format!("clusters[{number}].name"), problem));
            }
        }
        clusters.iter().enumerate().map(|(number, cluster)| self.cluster(number, cluster, seed)).collect()
    }

    fn cluster(&self, number: usize, cluster: &Cluster, seed: u64) -> Result<ClusterPlan, Error> {
        let field = |key: &str| format!("clusters[{number}].{key}");
        let title = self.named(field("name"), &cluster.name)?;
        let market = match &cluster.market {
            Some(market) => Some(self.market(number, cluster, market, seed)?),
            None => None,
        };
        let accelerators = match (&cluster.accelerators, &market) {
            (Some(text), _) => Some(self.accelerators(&field("accelerators"), text)?),
            (None, Some(trace)) => trace.accelerators.clone(),
            (None, None) => None,
        };
        let on_demand = cluster.on_demand.map(|price| price.0).or(market.as_ref().map(|trace| trace.on_demand));
        let spot = cluster.spot.map(|price| price.0).or(market.as_ref().map(|trace| trace.spot));
        if on_demand.is_none() && spot.is_none() && cluster.reserved.is_none() {
            return Err(
                self.wrong(field("on_demand"), "no price is given; write on_demand, spot, reserved or a market")
            );
        }
        if cluster.count.is_some_and(|count| count == 0 || count > MANY) {
            return Err(self.wrong(field("count"), format!("must be from 1 to {MANY}")));
        }
        for (key, value) in [("carbon", cluster.carbon), ("watts", cluster.watts)] {
            if let Some(value) = value.filter(|value| !(0.0..=1e6).contains(value)) {
                return Err(self.wrong(field(key), format!("{value} is not from 0 to 1000000")));
            }
        }
        let shape = MachineShape {
            name: name("machine"),
            instance_type: cluster.instance_type.as_str().into(),
            cpus: MilliCpus(cluster.cpus.saturating_mul(1_000)),
            memory: cluster.memory,
            accelerators,
            disk: Bytes::from_gb(1_000),
        };
        let machines =
            Machines { shape, count: cluster.count, on_demand, spot, reserved: cluster.reserved.map(|price| price.0) };
        let spec = ClusterSpec {
            checkpoints: format!("memory://{title}/checkpoints").into(),
            name: title,
            driver: name("simulated"),
            region: cluster.region.clone(),
            zone: cluster.zone.as_deref().map(Into::into),
            machines: vec![machines],
            labels: Default::default(),
        };
        Ok(ClusterPlan { spec, shape: 0, is_told: false, market, carbon: cluster.carbon, watts: cluster.watts })
    }

    pub(super) fn accelerators(&self, field: &str, text: &str) -> Result<Accelerators, Error> {
        let (model, count) = text.rsplit_once(':').unwrap_or((text, "1"));
        match count.parse() {
            Ok(count) if (1..=1_024).contains(&count) && !model.is_empty() => {
                Ok(Accelerators { model: leeway_market::accelerator::canonical(model).into(), count })
            }
            _ => Err(self.wrong(field, format!("'{text}' is not MODEL:COUNT; write for example V100:8"))),
        }
    }
}

fn name(text: &str) -> Name {
    text.parse().expect("names written in this file are valid")
}
