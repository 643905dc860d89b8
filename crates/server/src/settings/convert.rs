//! From what is written to what it means.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leeway_core::Config;
use leeway_market::egress::{defaults, read_matrix};
use leeway_market::replay::End;
use leeway_model::budget::{BudgetSpec, Period};
use leeway_model::cluster::{ClusterSpec, Machines, Region};
use leeway_model::egress::{EgressTable, Tariff, Unit};
use leeway_model::name::escape;
use leeway_model::resources::{Accelerators, MachineShape, MilliCpus};
use leeway_model::{Bytes, Currency, InstallationId, Micros, Millis, Name};
use leeway_webhook::{Ports, TargetPolicy};

use super::raw::{Raw, RawBudget, RawCatalog, RawCluster, RawEgress, RawMachines, RawMarket, RawWebhooks};
use super::read::{Result, amount, length, loopback, optional, parsed, rate, required, size, word};
use super::{
    CatalogSettings, ClusterSettings, Limits, Log, LogFormat, MarketSettings, Settings, SettingsError, Webhooks, schema,
};

/// Longest queue of commands; each waiting submission holds its whole spec.
const QUEUE_MAX: u32 = 1_000_000;
/// A clock that is faster leaves agents no time.
const SPEED_MAX: u32 = 100_000;

/// `base` is the folder of the file, from which relative paths in it are counted.
pub fn settings(raw: &Raw, base: &Path) -> Result<Settings> {
    let installation: Name = parsed("installation", raw.installation.as_deref().unwrap_or("local"))?;
    let currency: Currency = parsed("currency", raw.currency.as_deref().unwrap_or("USD"))?;
    let default_policy = policy(raw.default_policy.as_deref())?;
    let mut core = Config::new(InstallationId(installation.clone()), default_policy.clone());
    lengths(raw, &mut core)?;
    amounts(raw, currency, &mut core)?;
    let mut limits =
        Limits { queue: 8_192, group: 512, log_size: Bytes::new(256 << 20), upload_size: Bytes::from_gib(1) };
    bounds(raw, &mut limits, &mut core)?;
    let clusters = raw
        .clusters
        .iter()
        .enumerate()
        .map(|(index, cluster)| self::cluster(&format!("clusters[{index}]"), cluster, currency, base, raw))
        .collect::<Result<Vec<_>>>()?;
    unique("clusters", clusters.iter().map(|cluster| &cluster.spec.name))?;
    let budgets = raw
        .budgets
        .iter()
        .enumerate()
        .map(|(index, budget)| self::budget(&format!("budgets[{index}]"), budget, currency))
        .collect::<Result<Vec<_>>>()?;
    unique("budgets", budgets.iter().map(|budget| &budget.name))?;
    let egress = egress(&raw.egress, currency, base)?;
    let speed = raw.clock.speed.unwrap_or(1);
    if !(1..=SPEED_MAX).contains(&speed) {
        return Err(SettingsError::new("clock.speed", format!("{speed} is out of range; use 1 to {SPEED_MAX}")));
    }
    Ok(Settings {
        installation,
        data_dir: data_dir(raw, base),
        listen: loopback("listen", raw.listen.as_deref().unwrap_or("127.0.0.1:7070"))?,
        metrics_listen: loopback("metrics_listen", raw.metrics_listen.as_deref().unwrap_or("127.0.0.1:7071"))?,
        default_policy,
        default_budget: optional("default_budget", raw.default_budget.as_deref())?,
        currency,
        log: log(raw)?,
        lease: core.lease,
        money: core.money,
        launch: core.launch,
        estimates: core.estimates,
        price_max_age: core.price_max_age,
        keep_finished: core.keep_finished,
        keep_requests: core.keep_requests,
        placements_per_step: core.placements_per_step,
        limits,
        agent_program: raw.local.agent.as_ref().map(|path| base.join(path)),
        webhooks: webhooks(&raw.webhooks)?,
        budgets,
        clusters,
        catalogs: raw
            .catalogs
            .iter()
            .enumerate()
            .map(|(index, catalog)| self::catalog(&format!("catalogs[{index}]"), catalog, base))
            .collect::<Result<Vec<_>>>()?,
        egress,
        clock_speed: speed,
    })
}

fn data_dir(raw: &Raw, base: &Path) -> PathBuf {
    base.join(raw.data_dir.as_deref().unwrap_or("leeway-data"))
}

fn policy(text: Option<&str>) -> Result<Name> {
    let text = text.unwrap_or(leeway_policies::DEFAULT);
    let installed = leeway_policies::all();
    let names: Vec<&str> = installed.names().map(Name::as_str).collect();
    let name: Name = parsed("default_policy", text)?;
    if installed.get(&name).is_some() {
        return Ok(name);
    }
    let hint = match schema::nearest(text, names.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("use one of {}", names.join(", ")),
    };
    Err(SettingsError::new("default_policy", format!("'{}' is no policy; {hint}", escape(text))))
}

fn lengths(raw: &Raw, core: &mut Config) -> Result<()> {
    let (lease, money, launch, estimates) = (&raw.lease, &raw.money, &raw.launch, &raw.estimates);
    length("lease.ttl", lease.ttl.as_deref(), &mut core.lease.ttl)?;
    length("lease.kill_grace", lease.kill_grace.as_deref(), &mut core.lease.kill_grace)?;
    length("lease.margin", lease.margin.as_deref(), &mut core.lease.margin)?;
    length("money.horizon", money.horizon.as_deref(), &mut core.money.horizon)?;
    length("money.stop_reserve", money.stop_reserve.as_deref(), &mut core.money.stop_reserve)?;
    length("money.extend_before", money.extend_before.as_deref(), &mut core.money.extend_before)?;
    length("money.meter_every", money.meter_every.as_deref(), &mut core.money.meter_every)?;
    length("money.price_max_age", money.price_max_age.as_deref(), &mut core.price_max_age)?;
    length("launch.deadline", launch.deadline.as_deref(), &mut core.launch.deadline)?;
    length("launch.cooldown", launch.cooldown.as_deref(), &mut core.launch.cooldown)?;
    length("launch.cooldown_max", launch.cooldown_max.as_deref(), &mut core.launch.cooldown_max)?;
    length("launch.backoff", launch.backoff.as_deref(), &mut core.launch.backoff)?;
    length("launch.stop_again", launch.stop_again.as_deref(), &mut core.launch.stop_again)?;
    length("launch.drain", launch.drain.as_deref(), &mut core.launch.drain)?;
    length("estimates.running_time", estimates.running_time.as_deref(), &mut core.estimates.running_time)?;
    length("estimates.save_time", estimates.save_time.as_deref(), &mut core.estimates.save_time)?;
    length("estimates.restore_time", estimates.restore_time.as_deref(), &mut core.estimates.restore_time)?;
    length("estimates.launch_time", estimates.launch_time.as_deref(), &mut core.estimates.launch_time)?;
    length("limits.keep_finished", raw.limits.keep_finished.as_deref(), &mut core.keep_finished)?;
    length("limits.keep_requests", raw.limits.keep_requests.as_deref(), &mut core.keep_requests)
}

fn amounts(raw: &Raw, ledger: Currency, core: &mut Config) -> Result<()> {
    let estimates = &raw.estimates;
    core.currency = ledger;
    if let Some(text) = raw.money.disk_gb_hour.as_deref() {
        core.money.disk_gb = rate("money.disk_gb_hour", text, ledger)?;
    }
    if let Some(text) = estimates.egress_per_gb.as_deref() {
        core.estimates.egress_per_gb = amount("estimates.egress_per_gb", text, ledger)?;
    }
    size("estimates.input_size", estimates.input_size.as_deref(), &mut core.estimates.input_size)?;
    size("estimates.bandwidth", estimates.bandwidth.as_deref(), &mut core.estimates.bandwidth)?;
    for (model, &speed) in &estimates.speeds {
        if !(speed.is_finite() && speed > 0.0) {
            let key = format!("estimates.speeds.{model}");
            return Err(SettingsError::new(key, format!("{speed} is no speed; use a number above zero")));
        }
        core.estimates.speeds.insert(model.as_str().into(), speed);
    }
    Ok(())
}

fn bounds(raw: &Raw, limits: &mut Limits, core: &mut Config) -> Result<()> {
    let count = |key: &str, given: Option<u32>, max: u32, target: &mut usize| match given {
        None => Ok(()),
        Some(number) if (1..=max).contains(&number) => {
            *target = number as usize;
            Ok(())
        }
        Some(number) => Err(SettingsError::new(key, format!("{number} is out of range; use 1 to {max}"))),
    };
    count("limits.queue", raw.limits.queue, QUEUE_MAX, &mut limits.queue)?;
    count("limits.group", raw.limits.group, 100_000, &mut limits.group)?;
    count("limits.placements_per_step", raw.limits.placements_per_step, 100_000, &mut core.placements_per_step)?;
    size("limits.log_size", raw.limits.log_size.as_deref(), &mut limits.log_size)?;
    size("limits.upload_size", raw.limits.upload_size.as_deref(), &mut limits.upload_size)
}

fn log(raw: &Raw) -> Result<Log> {
    let level = raw.log.level.as_deref().unwrap_or("info");
    level.parse::<tracing_subscriber::filter::Targets>().map_err(|_| {
        let message = format!("'{}' is no filter; write info, debug, or leeway_server=debug,warn", escape(level));
        SettingsError::new("log.level", message)
    })?;
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let format = word("log.format", raw.log.format.as_deref().unwrap_or("text"), &formats)?;
    Ok(Log { level: level.to_owned(), format })
}

fn webhooks(raw: &RawWebhooks) -> Result<Webhooks> {
    let allowed_networks = raw
        .allowed_networks
        .iter()
        .enumerate()
        .map(|(index, text)| {
            text.parse().map_err(|_| {
                let message = format!("'{}' is no network; write it as 10.0.0.0/8", escape(text));
                SettingsError::new(format!("webhooks.allowed_networks[{index}]"), message)
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let allowed_ports = match (raw.any_port.unwrap_or(false), raw.allowed_ports.is_empty()) {
        (true, true) => Ports::Any,
        (true, false) => {
            return Err(SettingsError::new("webhooks.any_port", "stands beside allowed_ports; keep one of the two"));
        }
        (false, true) => Ports::Usual,
        (false, false) => Ports::Only(raw.allowed_ports.clone()),
    };
    let mut timeout = Millis::from_secs(15);
    length("webhooks.timeout", raw.timeout.as_deref(), &mut timeout)?;
    let policy = TargetPolicy { allow_http: raw.allow_http.unwrap_or(false), allowed_networks, allowed_ports };
    Ok(Webhooks { policy, timeout: Duration::from_millis(timeout.as_millis()) })
}

fn budget(key: &str, raw: &RawBudget, ledger: Currency) -> Result<BudgetSpec> {
    let at = |field: &str| format!("{key}.{field}");
    Ok(BudgetSpec {
        name: parsed(&at("name"), required(&at("name"), raw.name.as_deref())?)?,
        parent: optional(&at("parent"), raw.parent.as_deref())?,
        cap: amount(&at("cap"), required(&at("cap"), raw.cap.as_deref())?, ledger)?,
        period: Period::Total,
        soft_limit: raw.soft_limit.as_deref().map(|text| amount(&at("soft_limit"), text, ledger)).transpose()?,
    })
}

fn cluster(key: &str, raw: &RawCluster, ledger: Currency, base: &Path, all: &Raw) -> Result<ClusterSettings> {
    let at = |field: &str| format!("{key}.{field}");
    let name: Name = parsed(&at("name"), required(&at("name"), raw.name.as_deref())?)?;
    let region: Region = parsed(&at("region"), required(&at("region"), raw.region.as_deref())?)?;
    let machines = raw
        .machines
        .iter()
        .enumerate()
        .map(|(index, machines)| self::machines(&format!("{key}.machines[{index}]"), machines, ledger))
        .collect::<Result<Vec<_>>>()?;
    unique(&at("machines"), machines.iter().map(|machines| &machines.shape.name))?;
    if machines.is_empty() && all.catalogs.is_empty() {
        return Err(SettingsError::new(at("machines"), "has no entry; list what can be had there"));
    }
    let checkpoints = match raw.checkpoints.as_deref() {
        Some(url) if url.contains("://") => url.to_owned(),
        Some(url) => {
            let message = format!("'{}' is not a URL; write it with its scheme, as file:///var/lib/x", escape(url));
            return Err(SettingsError::new(at("checkpoints"), message));
        }
        None => default_checkpoints(&data_dir(all, base), &name)?,
    };
    let market = raw.market.as_ref().map(|market| self::market(&at("market"), market, &machines, base)).transpose()?;
    let spec = ClusterSpec {
        driver: parsed(&at("driver"), raw.driver.as_deref().unwrap_or("local"))?,
        zone: raw.zone.as_deref().map(Into::into),
        checkpoints: checkpoints.into(),
        labels: raw.labels.clone(),
        name,
        region,
        machines,
    };
    Ok(ClusterSettings { spec, market })
}

/// A folder of its own below the data directory.
fn default_checkpoints(data_dir: &Path, cluster: &Name) -> Result<String> {
    let folder = std::path::absolute(data_dir.join("checkpoints").join(cluster.as_str())).map_err(|error| {
        SettingsError::new("data_dir", format!("'{}' has no absolute form: {error}", data_dir.display()))
    })?;
    Ok(format!("file://{}", folder.display()))
}

fn machines(key: &str, raw: &RawMachines, ledger: Currency) -> Result<Machines> {
    let at = |field: &str| format!("{key}.{field}");
    let name: Name = parsed(&at("name"), required(&at("name"), raw.name.as_deref())?)?;
    let cpus = raw.cpus.unwrap_or(1.0);
    if !(cpus.is_finite() && cpus > 0.0 && cpus <= 100_000.0) {
        return Err(SettingsError::new(at("cpus"), format!("{cpus} is out of range; use 0.001 to 100000")));
    }
    let mut memory = Bytes::from_gib(1);
    size(&at("memory"), raw.memory.as_deref(), &mut memory)?;
    let mut disk = Bytes::default();
    size(&at("disk"), raw.disk.as_deref(), &mut disk)?;
    let accelerators = match (&raw.accelerator, raw.accelerators) {
        (None, None | Some(0)) => None,
        (Some(model), count) => {
            let count = count.unwrap_or(1);
            if !(1..=1_024).contains(&count) {
                return Err(SettingsError::new(at("accelerators"), format!("{count} is out of range; use 1 to 1024")));
            }
            Some(Accelerators { model: model.as_str().into(), count })
        }
        (None, Some(count)) => {
            let message = format!("is {count}, but 'accelerator' does not say of which model");
            return Err(SettingsError::new(at("accelerators"), message));
        }
    };
    let priced = |field: &str, text: Option<&str>| {
        let Some(text) = text else { return Ok(None) };
        let rate = rate(&at(field), text, ledger)?;
        if rate.is_zero() && field != "reserved" {
            let message = format!("'{}' is no price; leave it out, or declare free machines as reserved", escape(text));
            return Err(SettingsError::new(at(field), message));
        }
        Ok(Some(rate))
    };
    if raw.count == Some(0) {
        return Err(SettingsError::new(at("count"), "is 0; use 1 or more, or leave the machine out"));
    }
    let instance_type = raw.instance_type.clone().unwrap_or_else(|| name.to_string());
    Ok(Machines {
        shape: MachineShape {
            name,
            instance_type: instance_type.into(),
            cpus: MilliCpus((cpus * 1_000.0).round() as u32),
            memory,
            accelerators,
            disk,
        },
        count: raw.count,
        on_demand: priced("on_demand", raw.on_demand.as_deref())?,
        spot: priced("spot", raw.spot.as_deref())?,
        reserved: priced("reserved", raw.reserved.as_deref())?,
    })
}

fn market(key: &str, raw: &RawMarket, machines: &[Machines], base: &Path) -> Result<MarketSettings> {
    let at = |field: &str| format!("{key}.{field}");
    let trace = required(&at("trace"), raw.trace.as_deref())?;
    let trace = match trace.strip_prefix("builtin:") {
        Some(_) => trace.to_owned(),
        None => base.join(trace).display().to_string(),
    };
    let shape: Name = match (&raw.shape, machines) {
        (Some(text), _) => parsed(&at("shape"), text)?,
        (None, [only]) => only.shape.name.clone(),
        (None, _) => {
            return Err(SettingsError::new(at("shape"), "is missing; say which of the cluster's machines follows it"));
        }
    };
    if !machines.iter().any(|machines| machines.shape.name == shape) {
        return Err(SettingsError::new(at("shape"), format!("'{shape}' is none of the cluster's machines")));
    }
    let mut notice = Millis::ZERO;
    length(&at("notice"), raw.notice.as_deref().filter(|text| *text != "0s"), &mut notice)?;
    let ends = [("hold", End::Hold), ("wrap", End::Wrap)];
    let end = word(&at("end"), raw.end.as_deref().unwrap_or("hold"), &ends)?;
    Ok(MarketSettings { trace, shape, notice, end })
}

fn catalog(key: &str, raw: &RawCatalog, base: &Path) -> Result<CatalogSettings> {
    let at = |field: &str| format!("{key}.{field}");
    let layouts = [("auto", ()), ("leeway", ()), ("skypilot", ()), ("gpuhunt", ())];
    let layout = raw.layout.as_deref().unwrap_or("auto");
    word(&at("layout"), layout, &layouts)?;
    if matches!(layout, "skypilot" | "gpuhunt") && raw.provider.is_none() {
        let message = format!("is missing; files in the layout '{layout}' do not name their provider");
        return Err(SettingsError::new(at("provider"), message));
    }
    let mut max_age = Millis::ZERO;
    length(&at("max_age"), raw.max_age.as_deref(), &mut max_age)?;
    Ok(CatalogSettings {
        file: base.join(required(&at("file"), raw.file.as_deref())?),
        provider: raw.provider.clone(),
        as_of: optional(&at("as_of"), raw.as_of.as_deref())?,
        max_age: (!max_age.is_zero()).then_some(max_age),
    })
}

/// Built-in list prices, then the operator's files, then single pairs.
fn egress(raw: &RawEgress, ledger: Currency, base: &Path) -> Result<EgressTable> {
    let mut table = if raw.defaults.unwrap_or(true) { defaults() } else { EgressTable::default() };
    for (index, file) in raw.files.iter().enumerate() {
        let key = format!("egress.files[{index}].file");
        let path = base.join(required(&key, file.file.as_deref())?);
        let provider_key = format!("egress.files[{index}].provider");
        let provider = required(&provider_key, file.provider.as_deref())?;
        let opened = std::fs::File::open(&path).map_err(|error| {
            SettingsError::new(&key, format!("'{}' cannot be read: {error}; check the path", path.display()))
        })?;
        let matrix = read_matrix(opened, provider)
            .map_err(|error| SettingsError::new(&key, format!("'{}': {error}", path.display())))?;
        matrix.apply_to(&mut table);
    }
    for (index, pair) in raw.pairs.iter().enumerate() {
        let at = |field: &str| format!("egress.pairs[{index}].{field}");
        let from: Region = parsed(&at("from"), required(&at("from"), pair.from.as_deref())?)?;
        let to: Region = parsed(&at("to"), required(&at("to"), pair.to.as_deref())?)?;
        let per_gb: Micros = amount(&at("per_gb"), required(&at("per_gb"), pair.per_gb.as_deref())?, ledger)?;
        let nanos = u64::try_from(per_gb.get()).unwrap_or(0).saturating_mul(1_000);
        let tariff =
            Tariff::flat(Unit::Gb, nanos).map_err(|error| SettingsError::new(at("per_gb"), error.to_string()))?;
        table.set_pair(from, to, tariff);
    }
    Ok(table)
}

fn unique<'a>(key: &str, names: impl Iterator<Item = &'a Name>) -> Result<()> {
    let mut seen = std::collections::BTreeSet::new();
    for (index, name) in names.enumerate() {
        if !seen.insert(name) {
            return Err(SettingsError::new(format!("{key}[{index}].name"), format!("'{name}' is there twice")));
        }
    }
    Ok(())
}
