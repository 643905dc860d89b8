//! What can be known of a configuration only by looking around: whether this build has the drivers it names, whether its
//! files can be read, whether every cluster has machines, whether the data directory is the one it says.
//!
//! `leeway serve` and `leeway serve --check` ask the same questions here, so that what the one refuses the other finds.
//! Nothing is made or changed. Two things are left to the start itself, since a running server would fail them: whether
//! the ports are free, and whether the store is in use.

use std::collections::BTreeSet;

use leeway_data::Stores;
use leeway_drivers::slurm::SlurmConfig;
use leeway_model::Name;
use leeway_model::cluster::{ClusterSpec, Region};
use leeway_model::egress::Destination;
use leeway_model::market::PriceObservation;

use crate::market::{self, Catalogs, Market};
use crate::settings::{Problems, Settings, SettingsError, nearest};
use crate::{CURRENCY_FILE, KEY_FILE, STORE, drivers};

/// A cluster of the configuration with everything that files say of it.
#[derive(Clone, Debug)]
pub struct Declared {
    pub spec: ClusterSpec,
    pub prices: Vec<PriceObservation>,
    pub market: Option<Market>,
}

/// Everything that is wrong with the configuration itself.
pub fn all(settings: &Settings) -> Problems {
    let mut problems = data_dir(settings);
    if let Err(more) = clusters(settings, &drivers::names()) {
        problems.extend(more);
    }
    problems
}

/// The clusters as they are to be declared.
///
/// # Errors
/// Everything that is wrong with any of them.
pub fn clusters(settings: &Settings, drivers: &[Name]) -> Result<Vec<Declared>, Problems> {
    let mut problems = Problems::default();
    if let Some(program) = &settings.agent_program
        && !program.is_file()
    {
        let message = format!("'{}' is no file; name the program of agents, or leave it out", program.display());
        problems.add(SettingsError::new("local.agent", message));
    }
    let catalogs = Catalogs::open(settings, &mut problems);
    let mut declared = Vec::new();
    for cluster in &settings.clusters {
        let at = |field: &str| format!("{}.{field}", cluster.key);
        let spec = catalogs.complete(&cluster.spec, settings);
        if spec.machines.is_empty() {
            let message = format!(
                "has no entry, and no price list has any for {}; list what can be had there, or correct the region",
                spec.region
            );
            problems.add(SettingsError::new(at("machines"), message));
        }
        if !drivers.contains(&spec.driver) {
            let known: Vec<&str> = drivers.iter().map(Name::as_str).collect();
            let fix = match nearest(spec.driver.as_str(), known.iter().copied()) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("use one of {}", known.join(", ")),
            };
            problems.add(SettingsError::new(at("driver"), format!("'{}' is not in this build; {fix}", spec.driver)));
        }
        if let Some(slurm) = &cluster.slurm {
            problems.extend(self::slurm(&at("slurm"), slurm));
        }
        problems.take(checkpoints(&at("checkpoints"), &spec.checkpoints, &settings.stores));
        let market = cluster.market.as_ref().and_then(|market| {
            let opened = market::open(&spec.name, market);
            problems.take(opened.map_err(|error| SettingsError::new(at("market.trace"), format!("{error:#}"))))
        });
        declared.push(Declared { prices: catalogs.prices(&spec), spec, market });
    }
    problems.or(declared)
}

/// Whether Slurm's commands and its configuration are there: without them every command would wait in vain.
fn slurm(key: &str, slurm: &SlurmConfig) -> Problems {
    let mut problems = Problems::default();
    if let Some(conf) = slurm.conf.as_ref().filter(|conf| !conf.is_file()) {
        let message = format!("'{}' is no file; name Slurm's configuration file, or leave it out", conf.display());
        problems.add(SettingsError::new(format!("{key}.conf"), message));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = match &slurm.commands {
        Some(folder) => vec![folder.clone()],
        None => std::env::split_paths(&path).collect(),
    };
    if !folders.iter().any(|folder| folder.join("sbatch").is_file()) {
        let message = "'sbatch' is neither here nor in PATH; name the folder of Slurm's commands";
        problems.add(SettingsError::new(format!("{key}.commands"), message));
    }
    problems
}

/// Whether checkpoints can be kept at a URL, as far as can be said without making its folder.
fn checkpoints(key: &str, text: &str, stores: &Stores) -> Result<(), SettingsError> {
    let refused = |why: String| {
        SettingsError::new(key, format!("{why}; write it as file:///var/lib/leeway/checkpoints or s3://bucket/prefix"))
    };
    let folder = url::Url::parse(text).ok().filter(|url| url.scheme() == "file").and_then(|url| {
        let plain = url.query().is_none() && url.fragment().is_none() && text.starts_with("file:///");
        url.to_file_path().ok().filter(|_| plain)
    });
    match folder.filter(|folder| !folder.is_dir()) {
        // It exists, or is none: opening it makes nothing.
        None => stores.open(text).map(|_| ()).map_err(|error| refused(error.to_string())),
        Some(folder) => match folder.ancestors().find(|above| above.exists()) {
            Some(above) if !above.is_dir() => Err(refused(format!("'{}' is no folder", above.display()))),
            _ => Ok(()),
        },
    }
}

/// What holds of paths between the clusters and is not refused: where an egress price is missing, the estimate is used.
pub fn remarks(settings: &Settings) -> Vec<SettingsError> {
    let regions: BTreeSet<&Region> = settings.clusters.iter().map(|cluster| &cluster.spec.region).collect();
    let mut remarks = Vec::new();
    let mut told = BTreeSet::new();
    for cluster in &settings.clusters {
        let from = &cluster.spec.region;
        if !told.insert(from) {
            continue;
        }
        let others = regions.iter().filter(|to| **to != from);
        let unknown: Vec<String> = others
            .filter(|to| settings.egress.price(from, Destination::Region(to)).is_err())
            .map(|to| format!("'{to}'"))
            .collect();
        if !unknown.is_empty() {
            let message = format!(
                "no tariff prices egress from '{from}' to {}; {} {}/GB is assumed (estimates.egress_per_gb) until [[egress.pairs]] says more",
                unknown.join(", "),
                settings.estimates.egress_per_gb,
                settings.currency,
            );
            remarks.push(SettingsError::new(format!("{}.region", cluster.key), message));
        }
    }
    remarks
}

/// Whether there can be a data directory, and whether its ledger is in the currency. A directory that is not there yet is made by the start.
fn data_dir(settings: &Settings) -> Problems {
    let data = &settings.data_dir;
    let mut problems = Problems::default();
    let existing = data.ancestors().find(|above| above.as_os_str().is_empty() || above.exists());
    if let Some(existing) = existing.filter(|above| !above.as_os_str().is_empty() && !above.is_dir()) {
        let message = format!("'{}' is no folder; name one, or a place for one", existing.display());
        problems.add(SettingsError::new("data_dir", message));
        return problems;
    }
    if let Ok(kept) = std::fs::read_to_string(data.join(CURRENCY_FILE))
        && kept.trim() != settings.currency.as_str()
    {
        let kept = kept.trim();
        let message = format!(
            "is {}, but the ledger in {} is kept in {kept}; set it to {kept}",
            settings.currency,
            data.display()
        );
        problems.add(SettingsError::new("currency", message));
    }
    problems
}

/// What is wrong with the store that the configuration names: the start refuses it with the same words and codes. No
/// mistake of the configuration, so [`Settings::load`] does not ask.
pub fn store(settings: &Settings) -> Problems {
    let data = &settings.data_dir;
    let mut problems = Problems::default();
    let store = data.join(STORE);
    let key = data.join(KEY_FILE);
    // What cannot be looked at is refused below, with its reason.
    let vacant = leeway_store::is_vacant(&store).unwrap_or(false);
    match (vacant, key.exists()) {
        (true, true) => {
            let message = format!(
                "STORE_IDENTITY_MISMATCH: '{}' holds no store, but {} shows that there was one; mount or restore it, or name another data_dir",
                store.display(),
                key.display()
            );
            problems.add(SettingsError::new("data_dir", message));
        }
        (false, _) => match leeway_store::refuse_copy(&store).and_then(|()| leeway_store::identify(&store)) {
            Ok(known) if known.installation == settings.installation.as_str() => {}
            Ok(known) => {
                let message = format!(
                    "STORE_IDENTITY_MISMATCH: is '{}', but {} belongs to '{}'; name the right data_dir",
                    settings.installation,
                    data.display(),
                    known.installation
                );
                problems.add(SettingsError::new("installation", message));
            }
            Err(error) => problems.add(SettingsError::new("data_dir", format!("{}: {error}", error.code()))),
        },
        (true, false) => {}
    }
    problems
}
