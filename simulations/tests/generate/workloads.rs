//! Workloads that are drawn from known parameters show these parameters again.

use leeway_model::Millis;
use leeway_simulations::generate::arrivals::Arrivals;
use leeway_simulations::generate::params::{Params, SCHEMA, Size, Team};
use leeway_simulations::generate::spread::Spread;
use leeway_simulations::generate::{Limit, Workload};
use leeway_simulations::trace::Writer;
use proptest::prelude::*;

use super::{fit_texts, is_near};

fn workload(arrivals: Arrivals, mu: f64, sigma: f64) -> Workload {
    let size = |weight, nodes, gpus| Size { weight, nodes, gpus, ..Size::default() };
    let team = |name: &str, weight, users| Team { name: name.to_owned(), weight, users };
    Workload {
        arrivals,
        runtime: Spread::LogNormal { mu, sigma },
        runtime_max: Millis::from_hours(876_600),
        sizes: vec![size(6.0, 1, 1), size(3.0, 1, 8), size(1.0, 2, 8)],
        teams: vec![team("vision", 3.0, 4), team("speech", 1.0, 2)],
    }
}

fn text(workload: &Workload, seed: u64, limit: Limit) -> String {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for job in workload.jobs(seed, limit) {
        writer.write(&job).unwrap();
    }
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn arrivals_runtimes_sizes_and_teams_are_found_again(
        per_hour in 5.0..60.0_f64, swing in 0.0..0.9_f64, mu in 5.0..10.0_f64, sigma in 0.3..2.0_f64, seed: u64,
    ) {
        let arrivals = Arrivals::diurnal(per_hour, swing, 14.0, 0.5);
        let known = workload(arrivals.clone(), mu, sigma);
        let fitted = fit_texts(&[text(&known, seed, Limit::until(Millis::from_hours(168 * 10)))]).unwrap();
        let found = fitted.params.workload.clone().unwrap();
        prop_assert!(is_near(found.arrivals.per_hour, per_hour, 0.06), "{}", found.arrivals.per_hour);
        // By parts of the day, since a single hour of the week was seen ten times only.
        for part in 0..28 {
            let mean = |weekly: &[f64]| weekly[part * 6..part * 6 + 6].iter().sum::<f64>() / 6.0;
            let (found, expected) = (mean(&found.arrivals.weekly), mean(&arrivals.weekly));
            let error = (expected / (per_hour * 60.0)).sqrt();
            prop_assert!((found - expected).abs() < 5.0 * error + 0.03, "{part}: {found} for {expected}");
        }
        let Spread::LogNormal { mu: found_mu, sigma: found_sigma } = found.runtime else { panic!("{found:?}") };
        prop_assert!((found_mu - mu).abs() < 0.06 * sigma + 0.01 && is_near(found_sigma, sigma, 0.05), "{found_mu} {found_sigma}");
        let total: f64 = found.sizes.iter().map(|size| size.weight).sum();
        prop_assert_eq!((found.sizes[0].gpus, found.sizes[1].gpus, found.sizes[2].nodes), (1, 8, 2));
        prop_assert!((found.sizes[0].weight / total - 0.6).abs() < 0.05);
        prop_assert_eq!(found.teams.iter().map(|team| (team.name.as_str(), team.users)).collect::<Vec<_>>(), [("team-1", 4), ("team-2", 2)]);
        for row in fitted.rows.iter().filter(|row| ["arrivals", "runtimes"].contains(&row.what.as_str())) {
            prop_assert!(row.distance.unwrap() < 0.05, "{row:?}");
        }
        // The file of the fit is a file that can be drawn from.
        let params = Params { schema: SCHEMA.to_owned(), ..fitted.params };
        prop_assert_eq!(Params::parse("params", &params.write()).unwrap(), params);
    }
}

#[test]
fn equal_seeds_give_equal_bytes() {
    let workload = workload(Arrivals::diurnal(20.0, 0.5, 14.0, 0.5), 8.0, 1.5);
    assert_eq!(text(&workload, 9, Limit::jobs(3_000)), text(&workload, 9, Limit::jobs(3_000)));
    assert_ne!(text(&workload, 9, Limit::jobs(3_000)), text(&workload, 10, Limit::jobs(3_000)));
}

#[test]
fn arrivals_that_come_in_bunches_are_said_to_be_no_poisson_process() {
    let mut text = String::from("vc,job,submit_s,gpus,duration_s\n");
    for job in 0..5_000 {
        text.push_str(&format!("a,{job},{},1,60\n", job / 50 * 3_600));
    }
    let fitted = fit_texts(&[text]).unwrap();
    assert!(fitted.rows[0].what == "arrivals" && fitted.rows[0].distance.unwrap() > 0.5, "{:?}", fitted.rows[0]);
}

const RATES: &str = "time,submit_job_all,start_job_all,submit_gpu_job\n";

/// A series of rates over so many hours from a Wednesday on, with six jobs in each ten minutes of the afternoons.
fn rates(hours: usize) -> String {
    let mut text = RATES.to_owned();
    for slot in 0..hours * 6 {
        let (day, hour, minute) = (slot / 144, slot / 6 % 24, slot % 6 * 10);
        let jobs = if hour >= 12 { 6 } else { 0 };
        text.push_str(&format!("2020-04-{:02} {hour:02}:{minute:02}:00,9,9,{jobs}\n", day + 1));
    }
    text
}

#[test]
fn a_series_of_rates_gives_the_arrivals_of_jobs_that_have_none() {
    let durations = "duration_s,gpus\n3600,1\n7200,8\n".to_owned();
    let error = fit_texts(std::slice::from_ref(&durations)).unwrap_err().to_string();
    assert!(error.contains("do not say when jobs arrive"), "{error}");
    assert!(fit_texts(&[rates(24 * 21)]).unwrap_err().to_string().contains("no jobs"));
    let found = fit_texts(&[durations, rates(24 * 21)]).unwrap().params.workload.unwrap();
    assert!(is_near(found.arrivals.per_hour, 18.0, 0.001), "{}", found.arrivals.per_hour);
    assert!(found.arrivals.weekly[13] > 1.9 && found.arrivals.weekly[3] < 0.05, "{:?}", found.arrivals.weekly);
}

#[test]
fn weeks_of_a_series_of_rates_begin_with_monday() {
    // All jobs on Wednesdays.
    let mut text = RATES.to_owned();
    for day in 1..=29 {
        let jobs = if day % 7 == 1 { 60 } else { 0 };
        for hour in 0..24 {
            text.push_str(&format!("2020-04-{day:02} {hour:02}:00:00,9,9,{jobs}\n"));
        }
    }
    let found = fit_texts(&["duration_s,gpus\n3600,1\n".to_owned(), text]).unwrap().params.workload.unwrap();
    let most = |day: usize| found.arrivals.weekly[day * 24..day * 24 + 24].iter().all(|factor| *factor > 5.0);
    assert!(most(2) && !most(0) && !most(1), "{:?}", found.arrivals.weekly);
}

#[test]
fn gaps_and_nonsense_in_a_series_of_rates_are_named() {
    for (line, part) in [
        ("2020-04-01 00:30:00,1,1,1", "trace-0:4: time: '2020-04-01 00:30:00' does not follow"),
        ("2020-04-01 00:00:00,1,1,1", "does not follow"),
        ("yesterday,1,1,1", "must be written as"),
        ("2020-04-01 00:20:00,1,1,-1", "submit_gpu_job: '-1'"),
        ("2020-04-01 00:20:00,1", "submit_gpu_job: is empty"),
    ] {
        let text = format!("{RATES}2020-04-01 00:00:00,1,1,1\n2020-04-01 00:10:00,1,1,1\n{line}\n");
        let error = fit_texts(&[text]).unwrap_err().to_string();
        assert!(error.contains(part), "{line}: {error}");
    }
}
