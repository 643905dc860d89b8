//! Brings the scheduler up to date with what the configuration declares, and starts to follow markets.
//!
//! **A declaration counts when it is new or was changed since the last start; then it wins over whatever stands.** As
//! long as it stays as it was, what people changed over the API since then stands: a raised cap, a replaced or removed
//! cluster. So a restart never takes back what an operator did, and editing the file always has an effect. What is no
//! longer declared stays as it is. The file `declared.json` of the data directory remembers digests of the declarations;
//! without it, or beside a store that was restored, everything is declared anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use leeway_core::{Event, Reply};
use leeway_model::Name;
use leeway_model::budget::BudgetSpec;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;

use crate::check::Declared;
use crate::drivers::Drivers;
use crate::grpc::Shared;
use crate::{market, uploads};

/// Who declared what stands in the configuration.
const BY: &str = "configuration";
const FILE: &str = "declared.json";

pub(crate) struct Declaring<'a> {
    pub shared: &'a Shared,
    pub drivers: &'a Drivers,
    /// The data directory.
    pub data: &'a Path,
    pub incarnation: String,
}

impl Declaring<'_> {
    pub async fn all(
        &self,
        budgets: &[BudgetSpec],
        clusters: Vec<Declared>,
        tasks: &mut Vec<JoinHandle<()>>,
    ) -> anyhow::Result<()> {
        let mut known = Known::read(&self.data.join(FILE), &self.incarnation)?;
        let by: Name = BY.parse()?;
        for spec in in_order(budgets)? {
            let what = format!("budget '{}'", spec.name);
            let (name, same) = (spec.name.clone(), spec.clone());
            let stands = self
                .shared
                .handle
                .read(move |view| view.scheduler.tables().budgets.get(&name).is_some_and(|budget| budget.spec == same));
            let digest = digest(&spec)?;
            if known.wants(&what, &digest, stands.await?) {
                accept(self.shared, Event::BudgetSet { spec, by: by.clone() }, &what).await?;
                known.took(what, digest);
            }
        }
        known.write()?;
        for Declared { spec, prices, market } in clusters {
            let (name, what) = (spec.name.clone(), format!("cluster '{}'", spec.name));
            let driver = spec.driver.clone();
            let digest = digest(&spec)?;
            let (wanted, same) = (name.clone(), spec.clone());
            let stands = self
                .shared
                .handle
                .read(move |view| view.scheduler.tables().clusters.get(&wanted).map(|cluster| cluster.spec == same));
            let stands = stands.await?;
            if known.wants(&what, &digest, stands == Some(true)) {
                accept(self.shared, Event::ClusterRegistered { spec }, &what).await?;
                known.took(what, digest);
            } else if stands.is_none() {
                // It was removed over the API: nobody follows its market.
                continue;
            }
            if !prices.is_empty() {
                self.shared.handle.bring(Event::PricesObserved { prices }).await?;
            }
            if let Some(driver) = self.drivers.by_name.get(&driver) {
                // Agents of an earlier server look here when they cannot reach it.
                if let Err(error) = driver.readdress(&name, &self.shared.agents_url).await {
                    tracing::warn!(cluster = %name, %error, "agents of an earlier start were not told where this one is");
                }
            }
            if let Some(market) = market {
                let begun = market::begun(&self.data.join("markets"), &name, self.shared.clock.now())?;
                tasks.push(tokio::spawn(market::follow(self.shared.clone(), self.drivers.clone(), market, begun)));
            }
        }
        known.write()
    }
}

/// What earlier starts declared.
#[derive(Debug)]
struct Known {
    path: PathBuf,
    record: Record,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    /// Of the store that took the declarations.
    incarnation: String,
    digests: BTreeMap<String, String>,
}

impl Known {
    fn read(path: &Path, incarnation: &str) -> anyhow::Result<Self> {
        let fresh = || Record { incarnation: incarnation.to_owned(), digests: BTreeMap::new() };
        let record = match std::fs::read(path) {
            Ok(bytes) => {
                let read: Record = serde_json::from_slice(&bytes).with_context(|| {
                    format!("{} is damaged; remove it, and everything is declared anew", path.display())
                })?;
                if read.incarnation == incarnation { read } else { fresh() }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => fresh(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Ok(Self { path: path.to_path_buf(), record })
    }

    /// Whether a declaration is to be brought. `stands` tells whether the scheduler has it just so.
    fn wants(&self, what: &str, digest: &str, stands: bool) -> bool {
        if self.record.digests.get(what).is_none_or(|known| known != digest) {
            return true;
        }
        if !stands {
            tracing::info!(
                "{what} was changed over the API since it was declared, and that stands; a change of its declaration wins over it"
            );
        }
        false
    }

    fn took(&mut self, what: String, digest: String) {
        self.record.digests.insert(what, digest);
    }

    fn write(&self) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(&self.record)?;
        crate::files::replace(&self.path, &text).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

fn digest(spec: &impl Serialize) -> anyhow::Result<String> {
    Ok(uploads::hex(&Sha256::digest(serde_json::to_vec(spec)?)))
}

/// Parents before their children, since the scheduler knows no others.
fn in_order(budgets: &[BudgetSpec]) -> anyhow::Result<Vec<BudgetSpec>> {
    let mut rest: Vec<_> = budgets.to_vec();
    let mut ordered: Vec<BudgetSpec> = Vec::new();
    while !rest.is_empty() {
        let waits = |parent: &Name, rest: &[BudgetSpec]| rest.iter().any(|budget| budget.name == *parent);
        let next = rest.iter().position(|budget| budget.parent.as_ref().is_none_or(|parent| !waits(parent, &rest)));
        match next {
            Some(place) => ordered.push(rest.remove(place)),
            None => bail!("budgets: '{}' is its own ancestor", rest[0].name),
        }
    }
    Ok(ordered)
}

async fn accept(shared: &Shared, event: Event, what: &str) -> anyhow::Result<()> {
    match shared.handle.bring(event).await? {
        Reply::Refused(refusal) => bail!("{what} of the configuration is refused: {}", refusal.message),
        _ => Ok(()),
    }
}
