//! From what is written to what it means.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leeway_core::Config;
use leeway_data::Stores;
use leeway_market::egress::{defaults, read_matrix};
use leeway_market::replay::End;
use leeway_model::budget::{BudgetSpec, Period};
use leeway_model::cluster::{ClusterSpec, Machines, Region};
use leeway_model::egress::{EgressTable, Tariff, Unit};
use leeway_model::name::escape;
use leeway_model::resources::{Accelerators, MachineShape, MilliCpus};
use leeway_model::{Bytes, Currency, InstallationId, Micros, Millis, Name};
use leeway_webhook::{Ports, TargetPolicy};

use super::raw::{
    Raw, RawBudget, RawCatalog, RawCluster, RawEgress, RawEgressFile, RawEgressPair, RawMachines, RawMarket,
    RawWebhooks,
};
use super::read::{Result, SECOND, amount, length, loopback, optional, parsed, rate, required, size, word};
use super::{
    CatalogSettings, ClusterSettings, Limits, Log, LogFormat, MarketSettings, Problems, Settings, SettingsError,
    Webhooks, aws, filter, order, schema, slurm, stores, tree,
};

/// Longest queue of commands; each waiting submission holds its whole spec.
const QUEUE_MAX: u32 = 1_000_000;
/// Shortest pause between two attempts.
const PAUSE_MIN: Millis = Millis::new(100);
/// A bill is never taken for so many times another.
const FACTOR_MAX: f64 = 1e9;
/// A clock that is faster leaves agents no time.
const SPEED_MAX: u32 = 100_000;

/// `base` is the folder of the file, from which relative paths in it are counted. What is wrong is added to `problems`
/// and left out or left at its default, so that the rest can be looked at.
pub fn settings(raw: &Raw, base: &Path, problems: &mut Problems) -> Settings {
    if raw.data_dir.as_deref().is_some_and(|dir| dir.trim().is_empty()) {
        problems.add(SettingsError::new("data_dir", "is empty; name a folder, such as /var/lib/leeway"));
    }
    let installation = parsed("installation", raw.installation.as_deref().unwrap_or("local"));
    let installation: Name = problems.take(installation).unwrap_or_else(local);
    let currency: Currency =
        problems.take(parsed("currency", raw.currency.as_deref().unwrap_or("USD"))).unwrap_or(Currency::USD);
    let usual = || leeway_policies::DEFAULT.parse().expect("the default policy has a name");
    let default_policy = policy("default_policy", raw.default_policy.as_deref().unwrap_or(leeway_policies::DEFAULT));
    let default_policy: Name = problems.take(default_policy).unwrap_or_else(usual);
    let deadline_policy = raw.deadline_policy.as_deref().unwrap_or(leeway_policies::DEADLINE_DEFAULT);
    let deadline_policy = problems.take(policy("deadline_policy", deadline_policy));
    let mut core = Config::new(InstallationId(installation.clone()), default_policy.clone());
    lengths(raw, &mut core, problems);
    contradictions(&core, problems);
    order::read(raw, &mut core, problems);
    amounts(raw, currency, &mut core, problems);
    let mut limits = Limits {
        queue: 8_192,
        group: 512,
        log_size: Bytes::new(256 << 20),
        upload_size: Bytes::from_gib(1),
        submissions_per_second: 20_000,
    };
    bounds(raw, &mut limits, &mut core, problems);
    let clusters = raw.clusters.iter().enumerate();
    let clusters = clusters
        .filter_map(|(index, cluster)| {
            self::cluster(&format!("clusters[{index}]"), cluster, currency, base, raw, problems)
        })
        .collect();
    if installation == local() && raw.clusters.iter().any(|one| one.slurm.is_some() || one.aws.is_some()) {
        let message =
            "'local' is everybody's; give this installation a name of its own, which marks what it makes at a provider";
        problems.add(SettingsError::new("installation", message));
    }
    unique("clusters", raw.clusters.iter().map(|cluster| cluster.name.as_deref()), problems);
    let stores = raw.stores.iter().enumerate();
    let stores = stores
        .filter_map(|(index, store)| self::stores::read(&format!("stores[{index}]"), store, base, problems))
        .collect();
    let budgets = raw.budgets.iter().enumerate();
    let budgets = budgets
        .filter_map(|(index, budget)| self::budget(&format!("budgets[{index}]"), budget, currency, problems))
        .collect();
    tree::check(raw, problems);
    let catalogs = raw.catalogs.iter().enumerate();
    let catalogs = catalogs
        .filter_map(|(index, catalog)| problems.take(self::catalog(&format!("catalogs[{index}]"), catalog, base)))
        .collect();
    let speed = raw.clock.speed.unwrap_or(1);
    if !(1..=SPEED_MAX).contains(&speed) {
        problems.add(SettingsError::new("clock.speed", format!("{speed} is out of range; use 1 to {SPEED_MAX}")));
    } else if let Some(text) = raw.lease.ttl.as_deref().filter(|_| core.lease.ttl < SECOND.saturating_mul(speed.into()))
    {
        // Agents live in real time, of which a fast clock leaves them little.
        let least = SECOND.saturating_mul(speed.into());
        let message = format!("'{}' is less than a second at clock.speed {speed}; use {least} or more", escape(text));
        problems.add(SettingsError::new("lease.ttl", message));
    }
    let mut address = |key: &str, text: Option<&str>, usual: SocketAddr| {
        text.and_then(|text| problems.take(loopback(key, text))).unwrap_or(usual)
    };
    let listen = address("listen", raw.listen.as_deref(), LISTEN);
    let metrics_listen = address("metrics_listen", raw.metrics_listen.as_deref(), METRICS_LISTEN);
    if listen == metrics_listen && listen.port() != 0 {
        let message = format!("{listen} is also where gRPC listens; choose another port");
        problems.add(SettingsError::new("metrics_listen", message));
    }
    Settings {
        installation,
        data_dir: data_dir(raw, base),
        listen,
        metrics_listen,
        advertise: raw.advertise.as_deref().and_then(|text| problems.take(advertised(text))),
        default_policy,
        deadline_policy,
        queue_order: core.queue_order,
        fair_share: core.fair_share,
        default_budget: problems.or_default(optional("default_budget", raw.default_budget.as_deref())),
        currency,
        log: problems.take(log(raw)).unwrap_or_else(|| Log { level: "info".into(), format: LogFormat::Text }),
        lease: core.lease,
        money: core.money,
        launch: core.launch,
        estimates: core.estimates,
        price_max_age: core.price_max_age,
        keep_finished: core.keep_finished,
        keep_requests: core.keep_requests,
        placements_per_step: core.placements_per_step,
        open_jobs_per_owner: core.open_jobs_per_owner,
        wait_for_cheaper_factor: core.wait_for_cheaper_factor,
        limits,
        agent_program: raw.local.agent.as_ref().map(|path| base.join(path)),
        webhooks: webhooks(&raw.webhooks, problems),
        budgets,
        clusters,
        stores: Stores(stores),
        catalogs,
        egress: egress(&raw.egress, currency, base, problems),
        clock_speed: speed,
        confirm_restore: raw.confirm_restore.clone(),
    }
}

const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7070);
const METRICS_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7071);

fn local() -> Name {
    "local".parse().expect("'local' is a name")
}

fn data_dir(raw: &Raw, base: &Path) -> PathBuf {
    base.join(raw.data_dir.as_deref().unwrap_or("leeway-data"))
}

fn policy(key: &str, text: &str) -> Result<Name> {
    let installed = leeway_policies::all();
    installed_name(key, text, "policy", installed.names().map(Name::as_str).collect())
}

/// One of these names, or the nearest of them as the answer.
pub(super) fn installed_name(key: &str, text: &str, what: &str, names: Vec<&str>) -> Result<Name> {
    let name: Name = parsed(key, text)?;
    if names.contains(&name.as_str()) {
        return Ok(name);
    }
    let hint = match schema::nearest(text, names.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("use one of {}", names.join(", ")),
    };
    Err(SettingsError::new(key, format!("'{}' is no {what}; {hint}", escape(text))))
}

fn lengths(raw: &Raw, core: &mut Config, problems: &mut Problems) {
    let (lease, money, launch, estimates) = (&raw.lease, &raw.money, &raw.launch, &raw.estimates);
    let mut at_least = |shortest: Millis, key: &str, text: &Option<String>, target: &mut Millis| {
        problems.take(self::length(key, text.as_deref(), shortest, target));
    };
    // Pauses between attempts may be short; nothing is taken for lost or dead by them.
    let mut pause = |key: &str, text: &Option<String>, target: &mut Millis| at_least(PAUSE_MIN, key, text, target);
    pause("launch.cooldown", &launch.cooldown, &mut core.launch.cooldown);
    pause("launch.cooldown_max", &launch.cooldown_max, &mut core.launch.cooldown_max);
    pause("launch.backoff", &launch.backoff, &mut core.launch.backoff);
    pause("launch.stop_again", &launch.stop_again, &mut core.launch.stop_again);
    let mut length = |key: &str, text: &Option<String>, target: &mut Millis| at_least(SECOND, key, text, target);
    length("lease.ttl", &lease.ttl, &mut core.lease.ttl);
    length("lease.kill_grace", &lease.kill_grace, &mut core.lease.kill_grace);
    length("lease.margin", &lease.margin, &mut core.lease.margin);
    length("money.horizon", &money.horizon, &mut core.money.horizon);
    length("money.stop_reserve", &money.stop_reserve, &mut core.money.stop_reserve);
    length("money.extend_before", &money.extend_before, &mut core.money.extend_before);
    length("money.meter_every", &money.meter_every, &mut core.money.meter_every);
    length("money.price_max_age", &money.price_max_age, &mut core.price_max_age);
    length("launch.deadline", &launch.deadline, &mut core.launch.deadline);
    length("launch.drain", &launch.drain, &mut core.launch.drain);
    length("estimates.running_time", &estimates.running_time, &mut core.estimates.running_time);
    length("estimates.save_time", &estimates.save_time, &mut core.estimates.save_time);
    length("estimates.restore_time", &estimates.restore_time, &mut core.estimates.restore_time);
    length("estimates.launch_time", &estimates.launch_time, &mut core.estimates.launch_time);
    length("limits.keep_finished", &raw.limits.keep_finished, &mut core.keep_finished);
    length("limits.keep_requests", &raw.limits.keep_requests, &mut core.keep_requests);
}

/// Lengths that are sound in themselves and make no sense beside each other. Both are named, since either may be the mistake.
fn contradictions(core: &Config, problems: &mut Problems) {
    let (lease, launch, money, estimates) = (core.lease, core.launch, core.money, &core.estimates);
    let mut at_most = |(key, length): (&str, Millis), (other, most): (&str, Millis), why: &str| {
        if length > most {
            let message = format!("{length} is longer than {other}, {most}: {why}; shorten it, or lengthen {other}");
            problems.add(SettingsError::new(key, message));
        }
    };
    let ttl = ("lease.ttl", lease.ttl);
    at_most(("lease.kill_grace", lease.kill_grace), ttl, "a program would outlive its lease by more than the lease");
    at_most(("lease.margin", lease.margin), ttl, "a lost run would be waited for longer than it may be silent");
    let longest = ("launch.cooldown_max", launch.cooldown_max);
    at_most(
        ("launch.cooldown", launch.cooldown),
        longest,
        "the first of the doubling cool-downs is no longer than the last",
    );
    let reserve = ("money.stop_reserve", money.stop_reserve);
    at_most(("launch.drain", launch.drain), reserve, "the reserve pays for a run that saves and stops");
    let deadline = ("launch.deadline", launch.deadline);
    let launching = ("estimates.launch_time", estimates.launch_time);
    at_most(launching, deadline, "a launch would be given up before it is expected to be done");
}

fn amounts(raw: &Raw, ledger: Currency, core: &mut Config, problems: &mut Problems) {
    let estimates = &raw.estimates;
    core.currency = ledger;
    if let Some(text) = raw.money.disk_gb_hour.as_deref()
        && let Some(found) = problems.take(rate("money.disk_gb_hour", text, ledger))
    {
        core.money.disk_gb = found;
    }
    if let Some(text) = estimates.egress_per_gb.as_deref()
        && let Some(found) = problems.take(amount("estimates.egress_per_gb", text, ledger))
    {
        core.estimates.egress_per_gb = found;
    }
    problems.take(size("estimates.input_size", estimates.input_size.as_deref(), &mut core.estimates.input_size));
    problems.take(size("estimates.bandwidth", estimates.bandwidth.as_deref(), &mut core.estimates.bandwidth));
    for (model, &speed) in &estimates.speeds {
        if speed.is_finite() && speed > 0.0 {
            core.estimates.speeds.insert(model.as_str().into(), speed);
        } else {
            let message = format!("{speed} is no speed; use a number above zero");
            problems.add(SettingsError::new(format!("estimates.speeds.{model}"), message));
        }
    }
}

fn bounds(raw: &Raw, limits: &mut Limits, core: &mut Config, problems: &mut Problems) {
    let mut count = |key: &str, given: Option<u32>, max: u32, target: &mut usize| match given {
        None => {}
        Some(number) if (1..=max).contains(&number) => *target = number as usize,
        Some(number) => {
            problems.add(SettingsError::new(key, format!("{number} is out of range; use 1 to {max}")));
        }
    };
    count("limits.queue", raw.limits.queue, QUEUE_MAX, &mut limits.queue);
    count("limits.group", raw.limits.group, 100_000, &mut limits.group);
    count("limits.placements_per_step", raw.limits.placements_per_step, 100_000, &mut core.placements_per_step);
    let mut open = usize::try_from(core.open_jobs_per_owner).unwrap_or(usize::MAX);
    count("limits.open_jobs_per_owner", raw.limits.open_jobs_per_owner, u32::MAX, &mut open);
    core.open_jobs_per_owner = open as u64;
    let per_second = raw.limits.submissions_per_second;
    count("limits.submissions_per_second", per_second, 1_000_000, &mut limits.submissions_per_second);
    if let Some(factor) = raw.launch.wait_for_cheaper_factor {
        if (1.0..=FACTOR_MAX).contains(&factor) {
            core.wait_for_cheaper_factor = factor;
        } else {
            let message = format!("{factor} is out of range; use 1 to {FACTOR_MAX}, which waits for hardly anything");
            problems.add(SettingsError::new("launch.wait_for_cheaper_factor", message));
        }
    }
    problems.take(size("limits.log_size", raw.limits.log_size.as_deref(), &mut limits.log_size));
    problems.take(size("limits.upload_size", raw.limits.upload_size.as_deref(), &mut limits.upload_size));
}

fn log(raw: &Raw) -> Result<Log> {
    let level = raw.log.level.as_deref().unwrap_or("info");
    filter::check("log.level", level)?;
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let format = word("log.format", raw.log.format.as_deref().unwrap_or("text"), &formats)?;
    Ok(Log { level: level.to_owned(), format })
}

fn webhooks(raw: &RawWebhooks, problems: &mut Problems) -> Webhooks {
    let networks = raw.allowed_networks.iter().enumerate();
    let allowed_networks = networks
        .filter_map(|(index, text)| {
            let parsed = text.parse().map_err(|_| {
                let message = format!("'{}' is no network; write it as 10.0.0.0/8", escape(text));
                SettingsError::new(format!("webhooks.allowed_networks[{index}]"), message)
            });
            problems.take(parsed)
        })
        .collect();
    let ports = raw.allowed_ports.iter().enumerate();
    let ports: Vec<u16> = ports
        .filter_map(|(index, &port)| {
            let port = u16::try_from(port).ok().filter(|port| *port > 0).ok_or_else(|| {
                let key = format!("webhooks.allowed_ports[{index}]");
                SettingsError::new(key, format!("{port} is no port; use 1 to 65535"))
            });
            problems.take(port)
        })
        .collect();
    let any = raw.any_port.unwrap_or(false);
    if any && !ports.is_empty() {
        let message = "is true beside allowed_ports; keep one of the two";
        problems.add(SettingsError::new("webhooks.any_port", message));
    }
    let allowed_ports = match (any, ports.is_empty()) {
        (true, _) => Ports::Any,
        (false, true) => Ports::Usual,
        (false, false) => Ports::Only(ports),
    };
    let mut timeout = Millis::from_secs(15);
    problems.take(length("webhooks.timeout", raw.timeout.as_deref(), SECOND, &mut timeout));
    let policy = TargetPolicy { allow_http: raw.allow_http.unwrap_or(false), allowed_networks, allowed_ports };
    Webhooks { policy, timeout: Duration::from_millis(timeout.as_millis()) }
}

fn budget(key: &str, raw: &RawBudget, ledger: Currency, problems: &mut Problems) -> Option<BudgetSpec> {
    let at = |field: &str| format!("{key}.{field}");
    let name = required(&at("name"), raw.name.as_deref()).and_then(|text| parsed(&at("name"), text));
    let name = problems.take(name);
    let parent = problems.or_default(optional(&at("parent"), raw.parent.as_deref()));
    let cap = required(&at("cap"), raw.cap.as_deref()).and_then(|text| amount(&at("cap"), text, ledger));
    let cap = problems.take(cap);
    let soft_limit = raw.soft_limit.as_deref().map(|text| amount(&at("soft_limit"), text, ledger)).transpose();
    let soft_limit = problems.or_default(soft_limit);
    if let (Some(soft), Some(cap)) = (soft_limit, cap)
        && soft > cap
    {
        let message = format!("{soft} is above the cap {cap}, so that it would never be reached");
        problems.add(SettingsError::new(at("soft_limit"), message));
    }
    Some(BudgetSpec { name: name?, parent, cap: cap?, period: Period::Total, soft_limit })
}

/// Where agents on other machines find the server, such as the end of a tunnel.
fn advertised(text: &str) -> Result<String> {
    let url = url::Url::parse(text).ok().filter(|url| url.scheme() == "http" && url.has_host() && url.path() == "/");
    let plain = url.filter(|url| url.username().is_empty() && url.password().is_none() && url.query().is_none());
    plain.map(|_| text.trim_end_matches('/').to_owned()).ok_or_else(|| {
        let message = format!("'{}' is no address for agents; write it as http://host:port", escape(text));
        SettingsError::new("advertise", message)
    })
}

fn cluster(
    key: &str,
    raw: &RawCluster,
    ledger: Currency,
    base: &Path,
    all: &Raw,
    problems: &mut Problems,
) -> Option<ClusterSettings> {
    let at = |field: &str| format!("{key}.{field}");
    let name = required(&at("name"), raw.name.as_deref()).and_then(|text| parsed::<Name>(&at("name"), text));
    let name = problems.take(name);
    let region = required(&at("region"), raw.region.as_deref()).and_then(|text| parsed::<Region>(&at("region"), text));
    let region = problems.take(region);
    let machines = raw.machines.iter().enumerate();
    let machines: Vec<Machines> = machines
        .filter_map(|(index, machines)| self::machines(&format!("{key}.machines[{index}]"), machines, ledger, problems))
        .collect();
    unique(&at("machines"), raw.machines.iter().map(|machines| machines.name.as_deref()), problems);
    if raw.machines.is_empty() && all.catalogs.is_empty() {
        problems.add(SettingsError::new(at("machines"), "has no entry; list what can be had there"));
    }
    let checkpoints = match (raw.checkpoints.as_deref(), &name) {
        (Some(url), _) if url.contains("://") => Some(url.to_owned()),
        (Some(url), _) => {
            let message = format!("'{}' is not a URL; write it with its scheme, as file:///var/lib/x", escape(url));
            problems.add(SettingsError::new(at("checkpoints"), message));
            None
        }
        (None, Some(name)) => problems.take(default_checkpoints(&data_dir(all, base), name)),
        (None, None) => None,
    };
    let market = raw.market.as_ref().and_then(|raw_market| {
        // Which machine it follows can be said only when all of them are understood.
        let known = if machines.len() == raw.machines.len() { Some(&*machines) } else { None };
        self::market(&at("market"), raw_market, known, base, problems)
    });
    let slurm = slurm::read(key, raw, &machines, base, problems);
    let aws = aws::read(key, raw, region.as_ref(), base, problems);
    let driver = problems.take(parsed(&at("driver"), raw.driver.as_deref().unwrap_or("local")));
    let spec = ClusterSpec {
        driver: driver?,
        zone: raw.zone.as_deref().map(Into::into),
        checkpoints: checkpoints?.into(),
        labels: raw.labels.clone(),
        name: name?,
        region: region?,
        machines,
    };
    Some(ClusterSettings { key: key.to_owned(), spec, market, slurm, aws })
}

/// A folder of its own below the data directory.
fn default_checkpoints(data_dir: &Path, cluster: &Name) -> Result<String> {
    let folder = std::path::absolute(data_dir.join("checkpoints").join(cluster.as_str())).map_err(|error| {
        SettingsError::new("data_dir", format!("'{}' has no absolute form: {error}", data_dir.display()))
    })?;
    Ok(format!("file://{}", folder.display()))
}

fn machines(key: &str, raw: &RawMachines, ledger: Currency, problems: &mut Problems) -> Option<Machines> {
    let at = |field: &str| format!("{key}.{field}");
    let name = required(&at("name"), raw.name.as_deref()).and_then(|text| parsed::<Name>(&at("name"), text));
    let name = problems.take(name);
    let cpus = raw.cpus.unwrap_or(1.0);
    if !(0.001..=100_000.0).contains(&cpus) {
        problems.add(SettingsError::new(at("cpus"), format!("{cpus} is out of range; use 0.001 to 100000")));
    }
    let mut memory = Bytes::from_gib(1);
    problems.take(size(&at("memory"), raw.memory.as_deref(), &mut memory));
    let mut disk = Bytes::default();
    problems.take(size(&at("disk"), raw.disk.as_deref(), &mut disk));
    let accelerators = problems.or_default(accelerators(&at("accelerators"), raw));
    let mut priced = |field: &str, text: Option<&str>| {
        let rate = problems.take(rate(&at(field), text?, ledger))?;
        if rate.is_zero() && field != "reserved" {
            let text = escape(text?);
            let message = format!("'{text}' is no price; leave it out, or declare free machines as reserved");
            problems.add(SettingsError::new(at(field), message));
        }
        Some(rate)
    };
    let (on_demand, spot, reserved) = (
        priced("on_demand", raw.on_demand.as_deref()),
        priced("spot", raw.spot.as_deref()),
        priced("reserved", raw.reserved.as_deref()),
    );
    if raw.count == Some(0) {
        problems.add(SettingsError::new(at("count"), "is 0; use 1 or more, or leave the machine out"));
    }
    let name = name?;
    let instance_type = raw.instance_type.clone().unwrap_or_else(|| name.to_string());
    let shape = MachineShape {
        name,
        instance_type: instance_type.into(),
        cpus: MilliCpus((cpus * 1_000.0).round() as u32),
        memory,
        accelerators,
        disk,
    };
    Some(Machines { shape, count: raw.count, on_demand, spot, reserved })
}

fn accelerators(key: &str, raw: &RawMachines) -> Result<Option<Accelerators>> {
    match (&raw.accelerator, raw.accelerators) {
        (None, None | Some(0)) => Ok(None),
        (Some(model), count) => {
            let count = count.unwrap_or(1);
            if !(1..=1_024).contains(&count) {
                return Err(SettingsError::new(key, format!("{count} is out of range; use 1 to 1024")));
            }
            Ok(Some(Accelerators { model: model.as_str().into(), count }))
        }
        (None, Some(count)) => {
            let message = format!("is {count}, but 'accelerator' does not say of which model; name it");
            Err(SettingsError::new(key, message))
        }
    }
}

/// `machines` are the cluster's, when all of them could be read.
fn market(
    key: &str,
    raw: &RawMarket,
    machines: Option<&[Machines]>,
    base: &Path,
    problems: &mut Problems,
) -> Option<MarketSettings> {
    let at = |field: &str| format!("{key}.{field}");
    let trace = problems.take(required(&at("trace"), raw.trace.as_deref()));
    let trace = trace.map(|trace| match trace.strip_prefix("builtin:") {
        Some(_) => trace.to_owned(),
        None => base.join(trace).display().to_string(),
    });
    let shape = problems.take(followed(&at("shape"), raw.shape.as_deref(), machines)).flatten();
    let mut notice = Millis::ZERO;
    let text = raw.notice.as_deref().filter(|text| *text != "0s");
    problems.take(length(&at("notice"), text, SECOND, &mut notice));
    let ends = [("hold", End::Hold), ("wrap", End::Wrap)];
    let end = problems.take(word(&at("end"), raw.end.as_deref().unwrap_or("hold"), &ends));
    Some(MarketSettings { trace: trace?, shape: shape?, notice, end: end? })
}

/// Whose spot offer follows the market; nothing when that cannot be said.
fn followed(key: &str, text: Option<&str>, machines: Option<&[Machines]>) -> Result<Option<Name>> {
    let shape: Name = match (text, machines) {
        (Some(text), _) => parsed(key, text)?,
        (None, None) => return Ok(None),
        (None, Some([only])) => only.shape.name.clone(),
        (None, Some(_)) => {
            return Err(SettingsError::new(key, "is missing; say which of the cluster's machines follows it"));
        }
    };
    match machines {
        Some(machines) if !machines.iter().any(|machines| machines.shape.name == shape) => {
            let names: Vec<&str> = machines.iter().map(|machines| machines.shape.name.as_str()).collect();
            let message = format!("'{shape}' is none of the cluster's machines; use one of {}", names.join(", "));
            Err(SettingsError::new(key, message))
        }
        _ => Ok(Some(shape)),
    }
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
    length(&at("max_age"), raw.max_age.as_deref(), SECOND, &mut max_age)?;
    Ok(CatalogSettings {
        key: key.to_owned(),
        file: base.join(required(&at("file"), raw.file.as_deref())?),
        provider: raw.provider.clone(),
        as_of: optional(&at("as_of"), raw.as_of.as_deref())?,
        max_age: (!max_age.is_zero()).then_some(max_age),
    })
}

/// Built-in list prices, then the operator's files, then single pairs.
fn egress(raw: &RawEgress, ledger: Currency, base: &Path, problems: &mut Problems) -> EgressTable {
    let mut table = if raw.defaults.unwrap_or(true) { defaults() } else { EgressTable::default() };
    for (index, file) in raw.files.iter().enumerate() {
        problems.take(egress_file(&format!("egress.files[{index}]"), file, base, &mut table));
    }
    let mut seen = BTreeMap::new();
    for (index, pair) in raw.pairs.iter().enumerate() {
        let key = format!("egress.pairs[{index}]");
        let Some((from, to, tariff)) = problems.take(egress_pair(&key, pair, ledger)) else { continue };
        if let Some(first) = seen.insert((from.clone(), to.clone()), index) {
            let message = format!("'{from}' to '{to}' is egress.pairs[{first}] already; keep one of the two");
            problems.add(SettingsError::new(format!("{key}.from"), message));
        }
        table.set_pair(from, to, tariff);
    }
    table
}

fn egress_file(key: &str, file: &RawEgressFile, base: &Path, table: &mut EgressTable) -> Result<()> {
    let at = |field: &str| format!("{key}.{field}");
    let path = base.join(required(&at("file"), file.file.as_deref())?);
    let provider = required(&at("provider"), file.provider.as_deref())?;
    let opened = std::fs::File::open(&path).map_err(|error| {
        SettingsError::new(at("file"), format!("'{}' cannot be read: {error}; check the path", path.display()))
    })?;
    let matrix = read_matrix(opened, provider)
        .map_err(|error| SettingsError::new(at("file"), format!("'{}': {error}", path.display())))?;
    matrix.apply_to(table);
    Ok(())
}

fn egress_pair(key: &str, pair: &RawEgressPair, ledger: Currency) -> Result<(Region, Region, Tariff)> {
    let at = |field: &str| format!("{key}.{field}");
    let from: Region = parsed(&at("from"), required(&at("from"), pair.from.as_deref())?)?;
    let to: Region = parsed(&at("to"), required(&at("to"), pair.to.as_deref())?)?;
    let per_gb: Micros = amount(&at("per_gb"), required(&at("per_gb"), pair.per_gb.as_deref())?, ledger)?;
    let nanos = u64::try_from(per_gb.get()).unwrap_or(0).saturating_mul(1_000);
    let tariff = Tariff::flat(Unit::Gb, nanos).map_err(|error| SettingsError::new(at("per_gb"), error.to_string()))?;
    Ok((from, to, tariff))
}

/// Names are compared as they are written, so that an entry with another mistake still takes its name.
fn unique<'a>(key: &str, names: impl Iterator<Item = Option<&'a str>>, problems: &mut Problems) {
    let mut seen = BTreeMap::new();
    for (index, name) in names.enumerate() {
        let Some(name) = name else { continue };
        if let Some(first) = seen.insert(name, index) {
            let message = format!("'{}' is there twice, first as {key}[{first}]; rename one", escape(name));
            problems.add(SettingsError::new(format!("{key}[{index}].name"), message));
        }
    }
}
