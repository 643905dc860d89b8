//! What is wrong with a scenario is said before anything runs, with the field and what to write instead.

use std::fs;
use std::path::Path;

use leeway_simulations::fleet::scenario::{Named, build::Choice};
use leeway_simulations::fleet::study::{self, Plan};

use super::worlds::{WORLD, cluster, job};

fn good() -> String {
    WORLD.to_owned()
        + &cluster("east", "aws/us-east-1", 0.4, 4)
        + "\n[[budgets]]\nname = \"lab\"\ncap = 10\n"
        + &job("one", "0s", "1h", "")
}

/// A thousand million jobs an hour.
fn flood(more: &str) -> String {
    format!(
        "\n[[workload]]\n{more}\n[workload.generate]\nruntime_max_s = 3600\narrivals = {{ per_hour = 1e9 }}\n\
         runtime = {{ kind = \"log-normal\", mu = 8.0, sigma = 1.0 }}\n\
         sizes = [{{ weight = 1.0, gpus = 1, accelerator = \"A10G\" }}]\n"
    )
}

/// What is said of a text, whether in reading it or in making a run of it.
fn said(text: &str, folder: &Path) -> String {
    let choice = Choice { policy: "whole-bill".parse().unwrap(), seed: 1, checked: true };
    match Named::parse("mine", text, folder, &[]).and_then(|named| named.setup(&choice)) {
        Ok(_) => panic!("this was taken:\n{text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_scenario_of_these_tests_is_taken() {
    let choice = Choice { policy: "whole-bill".parse().unwrap(), seed: 1, checked: true };
    Named::parse("mine", &good(), Path::new("."), &[]).unwrap().setup(&choice).unwrap();
}

#[test]
fn a_wrong_value_is_answered_with_its_field_and_what_to_write() {
    let replaced = |from: &str, to: &str| {
        assert!(good().contains(from), "{from}");
        good().replacen(from, to, 1)
    };
    let added = |more: &str| good() + more;
    let shock = |more: &str| added(&format!("\n[[shocks]]\nat = \"1h\"\nlength = \"1h\"\n{more}\n"));
    let asking =
        |more: &str| WORLD.to_owned() + &cluster("east", "aws/us-east-1", 0.4, 4) + &job("one", "0s", "1h", more);
    let without_cluster = WORLD.to_owned() + &job("one", "0s", "1h", "");
    let cases: Vec<(&str, String, &[&str])> = vec![
        ("an unknown key", replaced("on_demand = 1.2", "on_demnd = 1.2"), &["line", "did you mean `on_demand`?"]),
        ("an unknown table", added("[[shock]]\nat = \"1h\"\n"), &["did you mean `shocks`?"]),
        ("an unknown key of the world", replaced("boot =", "boots ="), &["did you mean `boot`?"]),
        ("a negative amount", replaced("cap = 10", "cap = -10"), &["cap", "negative"]),
        ("a negative price", replaced("on_demand = 1.2", "on_demand = -1.2"), &["on_demand"]),
        ("a price that is no number", replaced("on_demand = 1.2", "on_demand = nan"), &["on_demand"]),
        ("no clusters", without_cluster.clone(), &["missing field `clusters`"]),
        ("an empty list of clusters", format!("clusters = []\n{without_cluster}"), &["clusters", "[[clusters]]"]),
        ("no jobs", WORLD.to_owned() + &cluster("east", "aws/us-east-1", 0.4, 4), &["workload", "[[jobs]]"]),
        (
            "a job on machines that nobody has",
            replaced("accelerator = \"A10G\"", "accelerator = \"H100\""),
            &["jobs[0]", "H100", "never run"],
        ),
        (
            "a gang that is too large",
            replaced("on_demand = 1.2\n", "on_demand = 1.2\ncount = 4\n").replacen(
                "gpus = 1\n",
                "gpus = 1\nnodes = 5\n",
                1,
            ),
            &["jobs[0]", "5 of", "never run"],
        ),
        ("no machines", replaced("gpus = 1\n", "gpus = 1\nnodes = 0\n"), &["jobs[0].nodes", "from 1 to"]),
        (
            "more machines than there are",
            replaced("gpus = 1\n", "gpus = 1\nnodes = 4000000000\n"),
            &["jobs[0].nodes", "from 1 to"],
        ),
        ("GPUs of no model", replaced("accelerator = \"A10G\"", ""), &["jobs[0]", "ask.accelerator"]),
        (
            "a deadline before the end of the work",
            asking("ask.deadline = 0.9"),
            &["jobs[0].ask.deadline", "write more than 1"],
        ),
        ("a deadline that is no number", asking("ask.deadline = nan"), &["jobs[0].ask.deadline", "NaN"]),
        ("an estimate that is no number", asking("ask.estimate = nan"), &["jobs[0].ask.estimate", "from 0 to"]),
        (
            "a budget that is not there",
            asking("ask.budget = \"labs\""),
            &["jobs[0].ask.budget", "no budget 'labs'", "only all"],
        ),
        (
            "both price and capacity",
            shock("price = 2\ncapacity = 0.5"),
            &["shocks[0].price", "either price or capacity"],
        ),
        ("neither price nor capacity", shock(""), &["shocks[0].price", "either price or capacity"]),
        ("a price factor that is no number", shock("price = nan"), &["shocks[0].price", "from 0.01 to 100"]),
        ("a share above the whole", shock("capacity = 1.5"), &["shocks[0].capacity", "from 0 to 1"]),
        (
            "a cluster that is not there",
            shock("price = 2\nclusters = [\"eats\"]"),
            &["shocks[0].clusters", "'eats'", "only east"],
        ),
        ("a cluster twice", added(&cluster("east", "aws/us-west-2", 0.5, 4)), &["clusters[1].name", "already"]),
        ("a budget twice", added("\n[[budgets]]\nname = \"lab\"\ncap = 20\n"), &["budgets[1].name", "already"]),
        (
            "a parent that is not there",
            added("\n[[budgets]]\nname = \"team\"\nparent = \"labs\"\ncap = 20\n"),
            &["budgets[1].parent", "'labs'", "parent first"],
        ),
        (
            "a share above a hundred",
            replaced("short_percent = 0", "short_percent = 101"),
            &["world.short_percent", "101"],
        ),
        ("a range that runs backwards", replaced("boot = \"60s\"", "boot = \"60s..30s\""), &["backwards"]),
        ("a length without a unit", replaced("length = \"1d\"", "length = \"24\""), &["length", "24"]),
        ("no length", replaced("length = \"1d\"", "length = \"0s\""), &["length: is zero", "such as 24h"]),
        (
            "a limit before the end",
            replaced("limit = \"10d\"", "limit = \"1h\""),
            &["limit: 1h is shorter", "1d or more"],
        ),
        ("a limit of nothing", replaced("limit = \"10d\"", "limit = \"0s\""), &["limit: 0s is shorter", "1d or more"]),
        (
            "more jobs than can be held",
            added(&flood("")),
            &[
                "workload[0].generate.arrivals.per_hour: 1000000000 jobs an hour for 1d",
                "24000000000",
                "10000000 at most",
            ],
        ),
        (
            "years of prices of each second",
            replaced("gap_s = 600", "gap_s = 1").replacen("limit = \"10d\"", "limit = \"1000d\"", 1),
            &["clusters[0].market.generate.gap_s: a price every 1 s", "86400000 ticks", "20000000 at most", "limit"],
        ),
        (
            "ticks of no length",
            replaced("gap_s = 600", "gap_s = 0"),
            &["clusters[0].market.generate.gap_s", "1 to 86400"],
        ),
        ("a speed that is no number", added("\n[speeds]\nA10G = nan\n"), &["speeds.A10G", "NaN"]),
        (
            "an order of the queue that is not there",
            format!("queue_order = \"fairshare\"\n{}", good()),
            &["queue_order", "'fairshare'", "did you mean 'fair-share'?"],
        ),
        (
            "an order unlike any",
            format!("queue_order = \"random\"\n{}", good()),
            &["queue_order", "there are earliest-deadline, fair-share, first-come"],
        ),
        (
            "a half-life of a moment",
            added("\n[fair_share]\nhalf_life = \"5s\"\n"),
            &["fair_share.half_life", "1m or more"],
        ),
        ("a weight of nothing", added("\n[fair_share.weights]\nada = 0\n"), &["fair_share.weights.ada", "above 0"]),
        (
            "a weight that is no number",
            added("\n[fair_share.weights]\nada = nan\n"),
            &["fair_share.weights.ada", "NaN"],
        ),
        ("a weight of nobody", added("\n[fair_share.weights]\n\"A B\" = 1\n"), &["fair_share.weights.A B", "name"]),
        ("no TOML at all", "{".into(), &["line 1"]),
        ("nothing", String::new(), &["missing field `about`"]),
    ];
    for (what, text, parts) in cases {
        let said = said(&text, Path::new("."));
        assert!(said.starts_with("mine: "), "{what}: {said}");
        for part in parts {
            assert!(said.contains(part), "{what} should say '{part}': {said}");
        }
    }
}

#[test]
fn a_shock_must_reach_the_clusters_that_it_names() {
    let home = "\n[[clusters]]\nname = \"home\"\nregion = \"onprem/here\"\naccelerators = \"A10G:1\"\nreserved = 0.3\n";
    for (kind, part) in [("capacity = 0", "no market"), ("price = 2", "no spot machines")] {
        let shock = format!("\n[[shocks]]\nat = \"1h\"\nlength = \"1h\"\nclusters = [\"home\"]\n{kind}\n");
        let said = said(&(good() + home + &shock), Path::new("."));
        assert!(said.contains("shocks[0].clusters") && said.contains("'home'") && said.contains(part), "{said}");
    }
}

#[test]
fn a_job_that_wants_only_spot_where_there_is_none_can_never_run() {
    let home = "\n[[clusters]]\nname = \"home\"\nregion = \"onprem/here\"\naccelerators = \"A10G:1\"\nreserved = 0.3\n";
    let text = WORLD.to_owned() + home + &job("one", "0s", "1h", "ask.capacity = \"spot\"");
    let said = said(&text, Path::new("."));
    assert!(said.contains("jobs[0]") && said.contains("as spot"), "{said}");
}

#[test]
fn a_recording_that_is_missing_or_empty_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("empty.json"), "").unwrap();
    fs::write(folder.path().join("empty.csv"), "").unwrap();
    let market = |key: &str, file: &str| {
        WORLD.to_owned()
            + &format!(
                "\n[[clusters]]\nname = \"a\"\nregion = \"aws/us-east-1\"\n[clusters.market]\n{key} = \"{file}\"\n"
            )
            + &job("one", "0s", "1h", "")
    };
    let jobs = |key: &str, file: &str| {
        WORLD.to_owned() + &cluster("east", "aws/us-east-1", 0.4, 4) + &format!("\n[[workload]]\n{key} = \"{file}\"\n")
    };
    for (text, file, field) in [
        (market("trace", "gone.json"), "gone.json", ""),
        (market("trace", "empty.json"), "empty.json", ""),
        (market("fitted", "gone.toml"), "gone.toml", "clusters[0].market.fitted"),
        (jobs("trace", "gone.csv"), "gone.csv", "workload[0].trace"),
        (jobs("trace", "empty.csv"), "empty.csv", "workload[0].trace"),
        (jobs("fitted", "gone.toml"), "gone.toml", "workload[0].fitted"),
        (jobs("most", "3").replace("\"3\"", "3"), "trace, generate and fitted", "workload[0]"),
    ] {
        let said = said(&text, folder.path());
        assert!(said.contains(file) && said.contains(field), "{file}: {said}");
    }
}

#[test]
fn a_name_that_is_no_scenario_or_policy_is_answered_with_those_that_are() {
    let said = Named::read("price-strom").unwrap_err().to_string();
    assert!(said.contains("'price-strom'") && said.contains("price-storm"), "{said}");
    let plan = Plan {
        scenario: Named::read("first-week").unwrap(),
        policies: vec!["whole-bil".parse().unwrap()],
        seeds: vec![1],
        threads: 1,
        history: None,
        checked: false,
    };
    let said = study::study(&plan, &|_| false, &|_| {}).unwrap_err().to_string();
    assert!(said.contains("'whole-bil'") && said.contains("whole-bill"), "{said}");
}

#[test]
fn a_setting_that_leads_nowhere_is_refused_with_its_key() {
    let set = |key: &str, value: &str| {
        let settings = [(key.to_owned(), value.to_owned())];
        Named::read_with("first-week", &settings).map(|_| ()).unwrap_err().to_string()
    };
    assert!(set("clusters.9.count", "3").contains("clusters.9.count"));
    assert!(set("world.notise", "30s").contains("did you mean `notice`?"));
    assert!(set("length", "soon").contains("soon"));
}

#[test]
fn a_flood_of_jobs_is_taken_where_most_bounds_it_and_its_extent_is_told() {
    let text = good() + &flood("most = 100");
    let named = Named::parse("mine", &text, Path::new("."), &[]).unwrap();
    let extent = named.extent().unwrap();
    assert_eq!((extent.jobs, extent.ticks), (101, 10 * 24 * 6), "one is written out, and the limit is ten days");
    assert_eq!(extent.warning(1), None);
}
