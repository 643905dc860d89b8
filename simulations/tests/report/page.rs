//! What a page says, and what it may never hold.

use std::path::Path;

use leeway_simulations::fleet::report::{self, format};
use leeway_simulations::fleet::study::{self, Row};

use super::results::{plan, results};

fn page(policies: &[&str], seeds: &[u64]) -> String {
    let plan = plan(policies, seeds);
    report::page(&plan, &results(&plan))
}

/// `LEEWAY_UPDATE=1` writes the page anew; look at it with a browser before it is committed.
#[test]
fn a_small_page_is_what_it_was() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/small.html");
    let page = page(&["on-demand", "whole-bill"], &[1, 2]);
    if std::env::var_os("LEEWAY_UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap();
    let differs = known.lines().zip(page.lines()).position(|(known, now)| known != now);
    if let Some(line) = differs {
        let (was, is) = (known.lines().nth(line).unwrap(), page.lines().nth(line).unwrap());
        panic!("line {} was\n{was}\nand is\n{is}\nLEEWAY_UPDATE=1 keeps the page as it is now", line + 1);
    }
    assert_eq!(known.len(), page.len(), "one page ends before the other");
}

#[test]
fn the_same_results_make_the_same_bytes() {
    assert_eq!(page(&["on-demand", "whole-bill"], &[1, 2, 3]), page(&["on-demand", "whole-bill"], &[1, 2, 3]));
}

#[test]
fn a_page_asks_nobody_for_anything() {
    for page in [page(&["on-demand", "whole-bill"], &[1, 2]), page(&["whole-bill"], &[7])] {
        for reference in ["http:", "https:", "//cdn", "src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(reference), "{reference}");
        }
        assert!(page.contains("default-src &#39;none&#39;"));
    }
}

#[test]
fn names_of_users_stay_text() {
    let page = page(&["on-demand", "whole-bill"], &[1, 2]);
    assert_eq!(page.matches("<script>").count(), 1, "only the page's own");
    assert!(page.contains("&lt;script&gt;alert(&#39;&quot;team&quot; &amp; co&#39;)&lt;/script&gt;"));
    assert!(!page.contains("<b>bold") && page.contains("&lt;b&gt;bold&lt;/b&gt;"));
    is_well_formed(&page);
}

#[test]
fn figures_are_those_of_the_summaries() {
    let plan = plan(&["on-demand", "whole-bill"], &[1, 2, 3]);
    let ran = results(&plan);
    let page = report::page(&plan, &ran);
    let rows: Vec<Row> = ran.iter().map(|ran| ran.row.clone()).collect();
    for of in study::summaries(&rows) {
        for figure in [format::dollars(of.cost), format::per_hour(of.cost_per_work_hour)] {
            assert!(page.contains(&format!(">{figure}</td>")), "{figure}");
        }
    }
    let second = &study::summaries(&rows)[1];
    let interval = format!("{}..{}", format::change(second.against_low), format::change(second.against_high));
    assert!(page.contains(&interval), "{interval}");
    let answer = format!(
        "whole-bill costs the least: {} for an hour of useful work, {:.1}\u{a0}% less (95\u{a0}% interval from ",
        format::per_hour(second.cost_per_work_hour),
        -second.cost_against_first * 100.0
    );
    assert!(page.contains(&answer), "{answer}");
    for warning in plan.warnings(&rows) {
        assert!(page.contains(&warning), "{warning}");
    }
}

#[test]
fn one_run_alone_has_no_comparison() {
    let page = page(&["whole-bill"], &[7]);
    assert!(page.contains("whole-bill did an hour of useful work for "));
    assert!(!page.contains("Against the first") && !page.contains("95 % interval"));
    assert!(page.contains("One job over its market") && page.contains("Jobs waiting for a place"));
    is_well_formed(&page);
}

#[test]
fn results_of_nothing_make_a_page_too() {
    let plan = plan(&["whole-bill"], &[]);
    let page = report::page(&plan, &[]);
    assert!(page.contains("No job did any work"));
    is_well_formed(&page);
}

#[test]
fn runs_whose_jobs_were_not_kept_make_a_page_without_one_job() {
    let plan = plan(&["on-demand", "whole-bill"], &[1]);
    let mut ran = results(&plan);
    ran.iter_mut().for_each(|ran| ran.jobs.clear());
    let page = report::page(&plan, &ran);
    assert!(!page.contains("One job over its market") && page.contains("one seed, so no interval"));
}

#[test]
fn a_cheapest_policy_that_leaves_jobs_over_is_not_praised_alone() {
    let plan = plan(&["on-demand", "whole-bill"], &[1, 2]);
    let mut ran = results(&plan);
    for ran in ran.iter_mut().filter(|ran| ran.row.policy == "whole-bill") {
        (ran.row.missed, ran.row.open, ran.row.complete) = (1, 2, false);
    }
    let page = report::page(&plan, &ran);
    assert!(page.contains("But it missed 1.0 of 2 deadlines and left 2.0 of 5 jobs unfinished in a run on average."));
    assert!(page.contains("Of those that met every deadline and did every job, on-demand costs the least, at "));
    assert!(page.contains("whole-bill missed 2 of 4 deadlines and left 4 jobs unfinished over all seeds."));
}

/// Every element that is opened is closed, in the order that holds them within each other.
fn is_well_formed(page: &str) {
    let page = page.strip_prefix("<!DOCTYPE html>\n").unwrap();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if open.last() == Some(&"script") && !rest.starts_with("/script>") {
            continue;
        }
        let end = rest.find('>').unwrap();
        let tag = &rest[..end];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap());
        }
        rest = &rest[end..];
    }
    assert!(open.is_empty(), "{open:?}");
}
