//! What a configuration may say, and how it is refused.

use std::collections::BTreeMap;

use leeway_server::settings::EXAMPLE;
use leeway_server::{Settings, Sources};

#[test]
fn the_example_names_every_key_and_says_the_defaults() {
    let example = Settings::from_toml(EXAMPLE).unwrap();
    let empty = Settings::from_toml("").unwrap();
    assert_eq!(format!("{:?}", example.lease), format!("{:?}", empty.lease));
    assert_eq!(format!("{:?}", example.money), format!("{:?}", empty.money));
    assert_eq!(format!("{:?}", example.launch), format!("{:?}", empty.launch));
    assert_eq!(format!("{:?}", example.limits), format!("{:?}", empty.limits));
    assert_eq!(example.wait_for_cheaper_factor.to_bits(), empty.wait_for_cheaper_factor.to_bits());
    assert_eq!(format!("{:?}", example.webhooks), format!("{:?}", empty.webhooks));
    assert_eq!((example.listen, example.metrics_listen), (empty.listen, empty.metrics_listen));
    assert_eq!((example.price_max_age, example.keep_finished), (empty.price_max_age, empty.keep_finished));
    assert_eq!((&example.queue_order, example.fair_share.half_life), (&empty.queue_order, empty.fair_share.half_life));
    assert_eq!(example.core().fair_share.weights.values().copied().collect::<Vec<f64>>(), [2.0]);
    assert_eq!(example.core().queue_order.as_str(), leeway_policies::order::DEFAULT);
    for key in leeway_server::settings::scalar_keys() {
        let name = key.rsplit('.').next().unwrap();
        assert!(EXAMPLE.contains(&format!("{name} = ")), "{key} is not in the example");
    }
    let cluster = &example.clusters[0];
    assert_eq!(cluster.spec.machines[0].spot.unwrap().to_string(), "0.95");
    assert!(cluster.spec.checkpoints.starts_with("file:///"));
    assert_eq!(example.estimates.speeds["A100-80GB"], 3.5, "names of models keep their case");
}

#[test]
fn o_04_what_is_wrong_is_refused_with_its_key_its_value_and_a_fix() {
    let cluster = "[[clusters]]\nname = \"a\"\nregion = \"x/y\"\n";
    let machine = format!("{cluster}[[clusters.machines]]\nname = \"m\"\n");
    let table: &[(&str, &str)] = &[
        ("instalation = \"x\"", "instalation: there is no such key; did you mean 'installation'?"),
        ("[leas]\nttl = \"60s\"", "leas: there is no such key; did you mean 'lease'?"),
        ("[lease]\nttls = \"60s\"", "lease.ttls: there is no such key; did you mean 'ttl'?"),
        ("[lease]\nttl = \"60\"", "lease.ttl: '60' is not a length of time"),
        ("[lease]\nttl = \"0s\"", "lease.ttl: '0s' is out of range"),
        ("[lease]\nttl = \"1ms\"", "lease.ttl: '1ms' is out of range; use 1s to 10 years"),
        (
            "[lease]\nttl = \"9m\"\n[clock]\nspeed = 600",
            "lease.ttl: '9m' is less than a second at clock.speed 600; use 10m",
        ),
        ("[lease]\nkill_grace = \"999ms\"", "lease.kill_grace: '999ms' is out of range; use 1s to 10 years"),
        ("[lease]\nmargin = \"1ms\"", "lease.margin: '1ms' is out of range; use 1s"),
        ("[launch]\nbackoff = \"1ms\"", "launch.backoff: '1ms' is out of range; use 100ms"),
        (
            "[lease]\nkill_grace = \"2m\"",
            "lease.kill_grace: 2m is longer than lease.ttl, 1m: a program would outlive its lease by more than the lease",
        ),
        ("[lease]\nttl = \"5s\"", "lease.kill_grace: 10s is longer than lease.ttl, 5s"),
        ("[lease]\nmargin = \"5m\"", "lease.margin: 5m is longer than lease.ttl, 1m"),
        ("[launch]\ncooldown = \"2h\"", "launch.cooldown: 2h is longer than launch.cooldown_max, 1h"),
        ("[launch]\ndrain = \"9m\"", "launch.drain: 9m is longer than money.stop_reserve, 8m"),
        ("[launch]\ndeadline = \"1m\"", "estimates.launch_time: 3m is longer than launch.deadline, 1m"),
        (
            "[launch]\nwait_for_cheaper_factor = 0.5",
            "launch.wait_for_cheaper_factor: 0.5 is out of range; use 1 to 1000000000",
        ),
        ("[launch]\nwait_for_cheaper_factor = nan", "launch.wait_for_cheaper_factor: NaN is out of range"),
        ("[limits]\nsubmissions_per_second = 0", "limits.submissions_per_second: 0 is out of range; use 1 to 1000000"),
        ("[money]\nmeter_every = \"1ms\"", "money.meter_every: '1ms' is out of range; use 1s"),
        ("[webhooks]\ntimeout = \"1ms\"", "webhooks.timeout: '1ms' is out of range; use 1s"),
        ("[limits]\nkeep_requests = \"1ms\"", "limits.keep_requests: '1ms' is out of range; use 1s"),
        ("data_dir = 5", "data_dir: '5' is not a text; write it in quotes"),
        ("data_dir = true", "data_dir: 'true' is not a text; write it in quotes"),
        ("[local]\nagent = 1.5", "local.agent: '1.5' is not a text"),
        (&format!("{cluster}labels = {{ a = 1 }}"), "clusters[0].labels.a: '1' is not a text"),
        ("[log]\nlevel = \"inof\"", "log.level: 'inof' is no filter; did you mean 'info'? write one of off, error"),
        ("[log]\nlevel = \"\"", "log.level: '' is no filter; write one of off, error, warn"),
        ("[log]\nlevel = \"leeway_server=debgu,warn\"", "did you mean 'debug'?"),
        ("[log]\nlevel = \"leeway_sever::grpc=debug,warn\"", "did you mean 'leeway_server'?"),
        ("[log]\nlevel = \"info,\"", "log.level: 'info,' is no filter; write one of"),
        ("[log]\nlevel = \"leeway_server\"", "log.level: 'leeway_server' is no filter; write one of"),
        ("lease = 5", "lease: must be a table"),
        ("[[lease]]\nttl = \"5s\"", "lease: must be a table"),
        ("installation = \"A B\"", "installation: 'A B' is not a name"),
        ("listen = \"0.0.0.0:7070\"", "listen: 0.0.0.0:7070 can be reached from other machines"),
        ("listen = \"localhost\"", "listen: 'localhost' is not an address"),
        ("metrics_listen = \"[::]:1\"", "metrics_listen: [::]:1 can be reached from other machines"),
        ("default_policy = \"whole-bil\"", "default_policy: 'whole-bil' is no policy; did you mean 'whole-bill'?"),
        (
            "queue_order = \"fairshare\"",
            "queue_order: 'fairshare' is no order of the queue; did you mean 'fair-share'?",
        ),
        (
            "queue_order = \"random\"",
            "queue_order: 'random' is no order of the queue; use one of earliest-deadline, fair-share, first-come",
        ),
        ("[fair_share]\nhalf_live = \"7d\"", "fair_share.half_live: there is no such key; did you mean 'half_life'?"),
        ("[fair_share]\nhalf_life = \"7\"", "fair_share.half_life: '7' is not a length of time"),
        ("[fair_share]\nhalf_life = \"5s\"", "fair_share.half_life: '5s' is out of range; use 1m to 10 years"),
        ("[fair_share]\nweights = 2", "fair_share.weights: must be a table"),
        ("[fair_share.weights]\nada = \"much\"", "fair_share.weights.ada: 'much' is not a number"),
        ("[fair_share.weights]\nada = 0", "fair_share.weights.ada: 0 is no weight; use a number above zero"),
        ("[fair_share.weights]\nada = -1.5", "fair_share.weights.ada: -1.5 is no weight"),
        ("[fair_share.weights]\nada = nan", "fair_share.weights.ada: NaN is no weight"),
        ("[fair_share.weights]\n\"A B\" = 1", "'A B' is not a name"),
        ("[log]\nformat = \"xml\"", "log.format: 'xml' is unknown; use one of text, json"),
        ("[clock]\nspeed = 0", "clock.speed: 0 is out of range"),
        ("[clock]\nspeed = \"fast\"", "clock.speed: 'fast' is not a whole number"),
        ("[clock]\nspeed = nan", "clock.speed: 'NaN' is not a whole number; write one such as 1"),
        ("[clock]\nspeed = 1.5", "clock.speed: '1.5' is not a whole number"),
        ("[webhooks]\nallow_http = \"yes\"", "webhooks.allow_http: 'yes' is not a yes or no; write true or false"),
        ("[webhooks]\nallowed_ports = [443, 70000]", "webhooks.allowed_ports[1]: 70000 is no port"),
        ("installation = [\"a\"]", "installation: must be a single value"),
        (&format!("{machine}count = \"two\""), "clusters[0].machines[0].count: 'two' is not a whole number"),
        (&format!("{machine}cpus = nan"), "clusters[0].machines[0].cpus: NaN is out of range"),
        ("default_budget = \"team\"", "default_budget: no budget 'team' is declared here; declare it with [[budgets]]"),
        (
            "[[budgets]]\nname = \"a\"\ncap = \"5 USD\"\nparent = \"top\"",
            "budgets[0].parent: no budget 'top' is declared here",
        ),
        ("listen = \"127.0.0.1:7071\"", "metrics_listen: 127.0.0.1:7071 is also where gRPC listens"),
        (
            "[[egress.pairs]]\nfrom = \"a/b\"\nto = \"a/c\"\nper_gb = \"1 USD\"\n[[egress.pairs]]\nfrom = \"a/b\"\nto = \"a/c\"\nper_gb = \"2 USD\"",
            "egress.pairs[1].from: 'a/b' to 'a/c' is egress.pairs[0] already",
        ),
        ("[[budgets]]\nname = \"a\"", "budgets[0].cap: is missing"),
        ("[[budgets]]\nname = \"a\"\ncap = \"5\"", "budgets[0].cap: '5' states no currency"),
        ("[[budgets]]\nname = \"a\"\ncap = \"5 EUR\"", "budgets[0].cap: '5 EUR' is in EUR"),
        ("[[budgets]]\nname = \"a\"\ncap = \"-5 USD\"", "budgets[0].cap:"),
        (
            "[[budgets]]\nname = \"a\"\ncap = \"5 USD\"\n[[budgets]]\nname = \"a\"\ncap = \"5 USD\"",
            "budgets[1].name: 'a' is there twice",
        ),
        ("[[clusters]]\nname = \"a\"", "clusters[0].region: is missing"),
        (cluster, "clusters[0].machines: has no entry"),
        (&format!("{machine}on_demand = \"0 USD\""), "clusters[0].machines[0].on_demand: '0 USD' is no price"),
        (&format!("{machine}on_demand = \"nan USD\""), "clusters[0].machines[0].on_demand: 'nan' is not an amount"),
        (&format!("{machine}count = 0"), "clusters[0].machines[0].count: is 0"),
        (&format!("{machine}cpus = -1"), "clusters[0].machines[0].cpus: -1 is out of range"),
        (&format!("{machine}price = \"1 USD\""), "clusters[0].machines[0].price: there is no such key"),
        (
            &format!("{machine}[clusters.market]\ntrace = \"t\"\nshape = \"z\""),
            "clusters[0].market.shape: 'z' is none of",
        ),
        (
            "[webhooks]\nallowed_networks = [\"10.0.0.0/99\"]",
            "webhooks.allowed_networks[0]: '10.0.0.0/99' is no network",
        ),
        ("[estimates.speeds]\nV100 = -1.0", "estimates.speeds.V100: -1 is no speed"),
        ("[[catalogs]]\nfile = \"x\"\nlayout = \"gpuhunt\"", "catalogs[0].provider: is missing"),
        ("not toml", "is not TOML"),
    ];
    for (text, expected) in table {
        let error = Settings::from_toml(text).map(|_| ()).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}\n  gave: {error}\n  not:  {expected}");
    }
}

#[test]
fn z_05_nothing_listens_where_other_machines_can_reach_it() {
    for key in ["listen", "metrics_listen"] {
        for address in ["0.0.0.0:7070", "[::]:7070", "192.168.1.4:7070", "[::ffff:10.0.0.1]:7070"] {
            let error = Settings::from_toml(&format!("{key} = \"{address}\"")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{key}: ")) && error.contains("neither TLS nor"), "{error}");
        }
        Settings::from_toml(&format!("{key} = \"[::1]:0\"")).unwrap();
    }
}

#[test]
fn a_file_is_named_in_its_errors_and_the_environment_and_flags_win_over_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leeway.toml");
    std::fs::write(&file, "installation = \"file\"\ndata_dir = \"here\"\n[lease]\nttl = \"70s\"\nmargin = \"7s\"\n")
        .unwrap();
    let environment = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let sources = Sources {
        file: Some(file.clone()),
        environment: environment(&[
            ("LEEWAY_LEASE__TTL", "80s"),
            ("LEEWAY_INSTALLATION", "env"),
            ("LEEWAY_SERVER", "http://127.0.0.1:1"),
            ("LEEWAY_JOB_ID", "a job may be a server"),
            ("LEEWAY_PORT_7070_TCP_ADDR", "10.0.0.1"),
            ("HOME", "/root"),
        ]),
        overrides: vec![("installation".into(), "flag".into())],
    };
    let settings = Settings::load(&sources).unwrap();
    assert_eq!(settings.installation.as_str(), "flag");
    assert_eq!((settings.lease.ttl.to_string().as_str(), settings.lease.margin.to_string().as_str()), ("1m 20s", "7s"));
    assert_eq!(settings.data_dir, folder.path().join("here"));

    let slip = Sources { environment: environment(&[("LEEWAY_LEASE__TLL", "1s")]), ..sources.clone() };
    let error = Settings::load(&slip).unwrap_err().to_string();
    assert_eq!(error, "the environment: LEEWAY_LEASE__TLL: there is no such key; did you mean LEEWAY_LEASE__TTL?");
    for (name, fix) in [
        ("LEEWAY_LEASE_TTL", "did you mean LEEWAY_LEASE__TTL?"),
        ("LEEWAY_LOGLEVEL", "did you mean LEEWAY_LOG__LEVEL?"),
        ("LEEWAY_SERVR", "did you mean LEEWAY_SERVER?"),
        ("LEEWAY_QQQ", "unset it; LEEWAY_LEASE__TTL, for example, sets lease.ttl"),
    ] {
        let unknown = Sources { environment: environment(&[(name, "1")]), ..sources.clone() };
        let error = Settings::load(&unknown).unwrap_err().to_string();
        assert_eq!(error, format!("the environment: {name}: there is no such key; {fix}"));
    }
    // A value of the environment that cannot be used is told under its variable, also where only reading it shows that.
    for (name, value, expected) in [
        ("LEEWAY_LEASE__TTL", "60", "the environment: LEEWAY_LEASE__TTL: '60' is not a length of time"),
        ("LEEWAY_LEASE__TTL", "1ms", "the environment: LEEWAY_LEASE__TTL: '1ms' is out of range"),
        ("LEEWAY_CLOCK__SPEED", "fast", "the environment: LEEWAY_CLOCK__SPEED: 'fast' is not a whole number"),
        ("LEEWAY_LISTEN", "0.0.0.0:1", "the environment: LEEWAY_LISTEN: 0.0.0.0:1 can be reached from other machines"),
        ("LEEWAY_LEASE__KILL_GRACE", "1h", "the environment: LEEWAY_LEASE__KILL_GRACE: 1h is longer than lease.ttl"),
        ("LEEWAY_LOCAL__AGENT", "/none", "the environment: LEEWAY_LOCAL__AGENT: '/none' is no file"),
    ] {
        let wrong = Sources { environment: environment(&[(name, value)]), ..sources.clone() };
        let error = Settings::load(&wrong).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let both = Sources { overrides: vec![("lease.ttl".into(), "never".into())], ..sources.clone() };
    let error = Settings::load(&both).unwrap_err().to_string();
    assert!(error.starts_with("the command line: lease.ttl: 'never' is not"), "{error}");
    let wrong = Sources { overrides: vec![("lease.tttl".into(), "1s".into())], ..sources.clone() };
    let error = Settings::load(&wrong).unwrap_err().to_string();
    assert_eq!(error, "the command line: lease.tttl: there is no such key; did you mean 'lease.ttl'?");

    std::fs::write(&file, "[lease]\ntl = \"70s\"\n").unwrap();
    let error = Settings::load(&sources).unwrap_err().to_string();
    assert!(error.starts_with(&file.display().to_string()) && error.contains("did you mean 'ttl'?"), "{error}");
    let missing = Sources { file: Some(folder.path().join("none.toml")), ..Sources::default() };
    assert!(Settings::load(&missing).unwrap_err().to_string().contains("none.toml: cannot be read"));
}

/// The keys that are wrong in a text, in the order in which they are told.
fn wrong(text: &str) -> Vec<String> {
    let problems = Settings::from_toml(text).map(|_| ()).expect_err(text);
    problems.iter().map(|problem| problem.key.clone()).collect()
}

#[test]
fn o_04_everything_that_is_wrong_is_told_at_once_and_nothing_twice() {
    let text = r#"
instalation = "x"
listen = "0.0.0.0:1"
default_budget = "tem"
[lease]
ttl = "0s"
margin = 5
[clock]
speed = nan
[[budgets]]
name = "team"
cap = "5 EUR"
[[budgets]]
name = "team"
cap = "5 USD"
[[clusters]]
name = "a"
region = "nowhere"
[[clusters.machines]]
name = "m"
count = 0
spot = "free"
[[clusters.machines]]
name = "m"
cpus = -1
count = "two"
[[clusters]]
name = "a"
region = "x/y"
"#;
    let expected = [
        "clock.speed",
        "clusters[0].machines[1].count",
        "instalation",
        "lease.margin",
        "lease.ttl",
        "clusters[0].region",
        "clusters[0].machines[0].spot",
        "clusters[0].machines[0].count",
        "clusters[0].machines[1].cpus",
        "clusters[0].machines[1].name",
        "clusters[1].machines",
        "clusters[1].name",
        "budgets[0].cap",
        "budgets[1].name",
        "default_budget",
        "listen",
    ]
    .map(str::to_owned);
    assert_eq!(wrong(text), expected);
}

#[test]
fn budgets_that_go_round_or_too_deep_are_refused_with_their_line() {
    let budgets = |pairs: &[(&str, &str)]| -> String {
        let budget = |(name, parent): &(&str, &str)| {
            format!("[[budgets]]\nname = \"{name}\"\ncap = \"5 USD\"\nparent = \"{parent}\"\n")
        };
        pairs.iter().map(budget).collect()
    };
    let round = budgets(&[("c", "a"), ("a", "b"), ("b", "a"), ("d", "d")]);
    let told = Settings::from_toml(&round).map(|_| ()).unwrap_err().to_string();
    assert!(told.contains("budgets[1].parent: 'a' makes it its own ancestor (a < b < a)"), "{told}");
    assert!(told.contains("budgets[3].parent: 'd' makes it its own ancestor (d < d)"), "{told}");
    assert_eq!(told.lines().count(), 2, "each cycle is told once, and who hangs on it not at all: {told}");
    let names: Vec<String> = (0..9).map(|level| format!("l{level}")).collect();
    let pairs: Vec<(&str, &str)> = names.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let deep = budgets(&pairs) + "[[budgets]]\nname = \"l8\"\ncap = \"5 USD\"\n";
    assert_eq!(wrong(&deep), ["budgets[0].parent"]);
    let flat = deep.replacen("parent = \"l1\"", "", 1);
    Settings::from_toml(&flat).unwrap();
}

/// Loads a file of this text as `leeway serve --check` does.
fn loaded(folder: &std::path::Path, text: &str) -> Result<Settings, leeway_server::Problems> {
    let file = folder.join("leeway.toml");
    std::fs::write(&file, text).expect("the test folder can be written");
    Settings::load(&Sources { file: Some(file), ..Sources::default() })
}

#[test]
fn what_a_start_would_refuse_is_found_before_it_and_all_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"
data_dir = "data"
[local]
agent = "no-such-agent"
[[catalogs]]
file = "no-such-list.csv"
[[clusters]]
name = "a"
driver = "locall"
region = "x/y"
checkpoints = "gs://bucket/x"
[[clusters.machines]]
name = "m"
[clusters.market]
trace = "builtin:nothing.json"
[[clusters]]
name = "b"
region = "x/y"
checkpoints = "file://relative/x"
[[clusters.machines]]
name = "m"
[clusters.market]
trace = "no-such-trace.json"
[[clusters]]
name = "c"
region = "x/z"
"#;
    let problems = loaded(folder.path(), text).unwrap_err();
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    let expected = [
        "local.agent",
        "catalogs[0].file",
        "clusters[0].driver",
        "clusters[0].checkpoints",
        "clusters[0].market.trace",
        "clusters[1].checkpoints",
        "clusters[1].market.trace",
        "clusters[2].machines",
    ];
    assert_eq!(keys, expected, "{problems}");
    let told = problems.to_string();
    for part in ["did you mean 'local'?", "'gs", "nothing.json", "no-such-trace.json", "no-such-list.csv", "x/z"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert!(told.lines().all(|line| line.contains("leeway.toml: ")), "{told}");
    assert!(!folder.path().join("data").exists(), "looking makes nothing");
    loaded(folder.path(), "data_dir = \"data\"").unwrap();
    loaded(folder.path(), EXAMPLE).unwrap();
    assert!(!folder.path().join("leeway-data").exists());
}

#[test]
fn a_data_directory_that_is_another_s_is_found_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::write(&data, "a file").unwrap();
    let keys = |text: &str| -> Vec<String> {
        let problems = match loaded(folder.path(), text) {
            Ok(settings) => leeway_server::check_store(&settings),
            Err(problems) => problems,
        };
        problems.iter().map(|problem| problem.key.clone()).collect()
    };
    let text = "data_dir = \"data\"\ninstallation = \"mine\"\n";
    assert_eq!(keys(text), ["data_dir"]);
    std::fs::remove_file(&data).unwrap();
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("ledger-currency"), "EUR\n").unwrap();
    std::fs::write(data.join("secret.key"), [0; 64]).unwrap();
    assert_eq!(keys(text), ["currency"]);
    let euros = &format!("{text}currency = \"EUR\"\n");
    assert_eq!(keys(euros), ["data_dir"], "a key whose store is gone");
    let identity = leeway_store::Identity { installation: "yours".into(), incarnation: "i-1".into() };
    let options = leeway_store::Options::small();
    leeway_store::DiskStore::init(&data.join("store"), identity, options).unwrap().close().unwrap();
    assert_eq!(keys(euros), ["installation"]);
    assert_eq!(keys("data_dir = \"data\"\ninstallation = \"yours\"\ncurrency = \"EUR\""), [""; 0]);
}

#[test]
fn s_15_a_store_of_another_format_is_found_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("data/store");
    let identity = leeway_store::Identity { installation: "local".into(), incarnation: "i-1".into() };
    leeway_store::DiskStore::init(&store, identity, leeway_store::Options::small()).unwrap().close().unwrap();
    let settings = loaded(folder.path(), "data_dir = \"data\"").unwrap();
    assert_eq!(leeway_server::check_store(&settings).to_string(), "");
    let path = store.join("IDENTITY");
    let ours = format!("\"format\": {}", leeway_store::FORMAT_VERSION);
    let older = std::fs::read_to_string(&path).unwrap().replace(&ours, "\"format\": 1");
    std::fs::write(&path, older).unwrap();
    let told = leeway_server::check_store(&settings).to_string();
    assert!(told.contains("data_dir: STORE_FORMAT_OLDER: IDENTITY has format 1, this program reads only"), "{told}");
}

#[test]
fn filters_of_the_log_that_are_right_are_taken() {
    for level in ["info", "INFO", "off", "leeway_server=debug,warn", "leeway_server::grpc=trace,h2=info,sled=off,debug"]
    {
        Settings::from_toml(&format!("[log]\nlevel = \"{level}\"")).unwrap();
    }
}

/// A variable that some part reads and the server does not know would keep the server from starting beside it.
#[test]
fn every_variable_of_the_sources_is_known() {
    /// Planted by tests because nothing knows them.
    const PLANTED: [&str; 8] = [
        "LEEWAY_SERVER_SECRET",
        "LEEWAY_LEASE__TLL",
        "LEEWAY_LEASE_TTL",
        "LEEWAY_LOGLEVEL",
        "LEEWAY_SERVR",
        "LEEWAY_QQQ",
        "LEEWAY_RESTORE",
        "LEEWAY_",
    ];
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = ["crates", "simulations", "scheduler-policies", "tests"].map(|name| root.join(name)).to_vec();
    let mut seen = std::collections::BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(path).unwrap();
                for (at, _) in text.match_indices("LEEWAY_") {
                    let name = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
                    let end = text[at..].find(|letter| !name(letter)).map_or(text.len(), |length| at + length);
                    seen.insert(text[at..end].to_owned());
                }
            }
        }
    }
    assert!(seen.contains("LEEWAY_CKPT_DIR") && seen.contains("LEEWAY_SERVER"), "{seen:?}");
    seen.retain(|name| !PLANTED.contains(&name.as_str()) && !leeway_server::settings::is_known_variable(name));
    assert!(seen.is_empty(), "add to the lists of settings/environment.rs: {seen:?}");
}

const HPC: &str = r#"
installation = "lab"
[[clusters]]
name = "hpc"
driver = "slurm"
region = "onprem/here"
[clusters.slurm]
work_dir = "/shared/leeway"
agent = "/shared/bin/leeway"
[[clusters.machines]]
name = "a100x4"
cpus = 32
accelerator = "A100"
accelerators = 4
on_demand = "11.00 USD"
spot = "4.00 USD"
[clusters.machines.slurm]
partition = "gpu"
spot_partition = "preempt"
spot_qos = "scavenger"
"#;

#[test]
fn a_slurm_cluster_says_where_its_machines_are_queued() {
    let settings = Settings::from_toml(HPC).unwrap();
    let slurm = settings.clusters[0].slurm.as_ref().unwrap();
    let machines = &slurm.machines[&"a100x4".parse().unwrap()];
    assert_eq!(machines.gres.as_deref(), Some("gpu:a100:4"), "from the accelerators");
    let queues: Vec<String> = machines.queues.iter().map(|(kind, queue)| format!("{kind}: {queue:?}")).collect();
    assert_eq!(queues.len(), 3, "{queues:?}");
    assert!(queues[0].contains("preempt") && queues[0].contains("scavenger"), "{queues:?}");
    assert!(queues[1].contains("gpu") && queues[1].contains("None"), "{queues:?}");
    assert_eq!((slurm.poll.to_string(), slurm.notice.to_string()), ("5s".into(), "1m".into()));
}

#[test]
fn a_slurm_that_cannot_be_reached_is_found_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let text = HPC.replacen("agent = ", "conf = \"slurm.conf\"\ncommands = \"bin\"\nagent = ", 1);
    let told = loaded(folder.path(), &text).unwrap_err().to_string();
    assert!(told.contains("clusters[0].slurm.conf: ") && told.contains("slurm.conf' is no file"), "{told}");
    assert!(told.contains("clusters[0].slurm.commands: 'sbatch' is neither here nor in PATH"), "{told}");
    std::fs::write(folder.path().join("slurm.conf"), "").unwrap();
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::fs::write(folder.path().join("bin/sbatch"), "").unwrap();
    loaded(folder.path(), &text).unwrap();
}

#[test]
fn what_is_wrong_with_a_slurm_cluster_is_told_with_its_key_and_a_fix() {
    let table: &[(&str, &str, &str)] = &[
        ("\"lab\"", "\"local\"", "installation: 'local' is everybody's; give this installation a name of its own"),
        ("work_dir = \"/shared/leeway\"", "", "clusters[0].slurm.work_dir: is missing; name a folder"),
        (
            "partition = \"gpu\"",
            "",
            "clusters[0].machines[0].slurm.partition: is missing; name the partition of on-demand",
        ),
        (
            "\"preempt\"",
            "\"a b\"",
            "clusters[0].machines[0].slurm.spot_partition: 'a b' cannot stand in a batch script",
        ),
        ("driver = \"slurm\"", "", "clusters[0].slurm: belongs to clusters with driver = \"slurm\""),
        (
            "spot_qos",
            "spot_qoss",
            "clusters[0].machines[0].slurm.spot_qoss: there is no such key; did you mean 'spot_qos'?",
        ),
        ("agent = ", "notice = \"0s\"\nagent = ", "clusters[0].slurm.notice: '0s' is out of range"),
        ("agent = ", "time_limit = \"5s\"\nagent = ", "clusters[0].slurm.time_limit: '5s' is out of range"),
        (
            "installation = ",
            "advertise = \"leeway:7070\"\ninstallation = ",
            "advertise: 'leeway:7070' is no address for agents",
        ),
    ];
    for (from, to, expected) in table {
        let said = Settings::from_toml(&HPC.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(said.contains(expected), "{to}: {said}");
    }
}

#[test]
fn the_examples_of_deploy_are_what_they_say() {
    let slurm = Settings::from_toml(include_str!("../../../deploy/slurm.toml")).unwrap();
    assert_eq!(slurm.clusters[0].slurm.as_ref().unwrap().machines.len(), 1);
    assert_eq!(slurm.advertise.as_deref(), Some("http://127.0.0.1:7070"));
    let aws = Settings::from_toml(include_str!("../../../deploy/aws.toml")).unwrap();
    let zones: Vec<_> =
        aws.clusters.iter().map(|cluster| cluster.aws.as_ref().unwrap().zone.as_deref().unwrap()).collect();
    assert_eq!(zones, ["us-east-1a", "us-east-1b"]);
    assert_eq!(aws.stores.0[0].options["aws_region"], "us-east-1");
    let policy: serde_json::Value = serde_json::from_str(include_str!("../../../deploy/aws-policy.json")).unwrap();
    let ends = policy["Statement"].as_array().unwrap().iter().find(|one| one["Action"] == "ec2:TerminateInstances");
    assert_eq!(ends.unwrap()["Condition"]["StringEquals"]["aws:ResourceTag/leeway:installation"], "lab", "p_19");
}

const EAST: &str = r#"
installation = "lab"
[[clusters]]
name = "east"
driver = "aws"
region = "aws/us-east-1"
[clusters.aws]
image = "ami-1"
[[clusters.machines]]
name = "small"
on_demand = "1 USD"
"#;

#[test]
fn what_is_wrong_with_a_cluster_of_ec2_is_told_with_its_key_and_a_fix() {
    assert!(Settings::from_toml(EAST).is_ok());
    let table: &[(&str, &str, &str)] = &[
        ("\"lab\"", "\"local\"", "installation: 'local' is everybody's"),
        ("image = \"ami-1\"", "", "clusters[0].aws.image: is missing; name the image"),
        ("aws/us-east-1", "gcp/us-central1", "clusters[0].region: 'gcp/us-central1' is no region of AWS"),
        ("driver = \"aws\"", "", "clusters[0].aws: belongs to clusters with driver = \"aws\""),
        ("image = ", "endpoint = \"localhost\"\nimage = ", "clusters[0].aws.endpoint: 'localhost' is no address"),
        ("image = ", "max_lifetime = \"1s\"\nimage = ", "clusters[0].aws.max_lifetime: '1s' is out of range"),
        ("image = ", "imag = \"x\"\nimage = ", "clusters[0].aws.imag: there is no such key; did you mean 'image'?"),
    ];
    for (from, to, expected) in table {
        let said = Settings::from_toml(&EAST.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(said.contains(expected), "{to}: {said}");
    }
}

#[test]
fn z_08_keys_of_stores_are_read_from_a_file_that_is_nobody_elses() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    let text =
        |url: &str| format!("[[stores]]\nurl = \"{url}\"\nendpoint = \"http://127.0.0.1:1\"\ncredentials = \"keys\"\n");
    let load = |url: &str| loaded(folder.path(), &text(url)).map_err(|problems| problems.to_string());
    assert!(load("s3://a").unwrap_err().contains("stores[0].credentials: "), "there is no such file");
    std::fs::write(&file, "[default]\naws_access_key_id = id\naws_secret_access_key = hush\n").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    assert!(load("s3://a").unwrap_err().contains("can be read by others (mode 644); make it 600"));
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let settings = load("s3://a").unwrap();
    assert_eq!(settings.stores.0[0].options["aws_allow_http"], "true");
    assert_eq!(settings.stores.0[0].keys["aws_secret_access_key"], "hush");
    assert!(!format!("{settings:?}").contains("hush"), "it is shown nowhere");
    assert!(load("gs://a").unwrap_err().contains("stores[0].url: 'gs://a' is no place in an object store"));
    std::fs::write(&file, "aws_access_key_id = id\n").unwrap();
    assert!(load("s3://a").unwrap_err().contains("holds no keys"));
}
