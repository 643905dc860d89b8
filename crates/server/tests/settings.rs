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
    assert_eq!(format!("{:?}", example.webhooks), format!("{:?}", empty.webhooks));
    assert_eq!((example.listen, example.metrics_listen), (empty.listen, empty.metrics_listen));
    assert_eq!((example.price_max_age, example.keep_finished), (empty.price_max_age, empty.keep_finished));
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
        ("lease = 5", "lease: must be a table"),
        ("[[lease]]\nttl = \"5s\"", "lease: must be a table"),
        ("installation = \"A B\"", "installation: 'A B' is not a name"),
        ("listen = \"0.0.0.0:7070\"", "listen: 0.0.0.0:7070 can be reached from other machines"),
        ("listen = \"localhost\"", "listen: 'localhost' is not an address"),
        ("metrics_listen = \"[::]:1\"", "metrics_listen: [::]:1 can be reached from other machines"),
        ("default_policy = \"whole-bil\"", "default_policy: 'whole-bil' is no policy; did you mean 'whole-bill'?"),
        ("[log]\nformat = \"xml\"", "log.format: 'xml' is unknown; use one of text, json"),
        ("[clock]\nspeed = 0", "clock.speed: 0 is out of range"),
        ("[clock]\nspeed = \"fast\"", "clock.speed: found"),
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
            ("LEEWAY_OTHER", "x"),
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
    let wrong = Sources { overrides: vec![("lease.tttl".into(), "1s".into())], ..sources.clone() };
    let error = Settings::load(&wrong).unwrap_err().to_string();
    assert_eq!(error, "the command line: lease.tttl: there is no such key; did you mean 'lease.ttl'?");

    std::fs::write(&file, "[lease]\ntl = \"70s\"\n").unwrap();
    let error = Settings::load(&sources).unwrap_err().to_string();
    assert!(error.starts_with(&file.display().to_string()) && error.contains("did you mean 'ttl'?"), "{error}");
    let missing = Sources { file: Some(folder.path().join("none.toml")), ..Sources::default() };
    assert!(Settings::load(&missing).unwrap_err().to_string().contains("none.toml: cannot be read"));
}
