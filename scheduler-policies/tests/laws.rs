//! Laws that every policy obeys, whatever it minimises. A new policy is held to them by being in `all()`.

#![allow(clippy::unwrap_used, reason = "a helper that finds nothing is a failed test")]

#[path = "../../crates/core/tests/support/mod.rs"]
mod support;

use std::sync::{Arc, LazyLock};

use leeway_core::policy::{JobView, LastPlace, Policy, Ranked, Scored, Verdict};
use leeway_model::job::{Job, JobState};
use leeway_model::market::OfferKey;
use leeway_model::resources::CapacityType;
use leeway_model::{Bill, Micros, Millis, Rate, Term, Timestamp};
use proptest::prelude::*;
use support::{Desk, job, name, offer};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A job that waits where nothing is on offer.
static JOB: LazyLock<Job> = LazyLock::new(|| {
    let mut desk = Desk::empty();
    desk.budget("team", None, "100");
    let id = desk.submit(job("train"));
    desk.job(id).clone()
});

fn a_job() -> impl Strategy<Value = Job> {
    (proptest::option::of(0_u64..200), proptest::option::of(0_u64..100_000_000)).prop_map(|(deadline, value)| {
        let mut spec = job("train");
        spec.time.deadline = deadline.map(|hours| NOW.after(Millis::from_hours(hours)));
        spec.money.value_per_hour = value.map(Rate::from_micros);
        let mut job = JOB.clone();
        job.spec = Arc::new(spec);
        job
    })
}

/// Mostly ordinary amounts, sometimes the largest there is.
fn an_amount() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0..1_000_000_000_i64, 1 => 0..=i64::MAX, 1 => Just(i64::MAX)]
}

fn a_capacity() -> impl Strategy<Value = CapacityType> {
    prop_oneof![Just(CapacityType::Spot), Just(CapacityType::OnDemand), Just(CapacityType::Reserved)]
}

fn a_place() -> impl Strategy<Value = Scored> {
    let rate = prop_oneof![9 => 0..100_000_000_000_u64, 1 => any::<u64>()];
    let time = prop_oneof![9 => 0..1_000_000_000_u64, 1 => any::<u64>()];
    let launched = 0.001..=1.0_f64;
    (a_capacity(), rate, 1..16_u32, proptest::array::uniform8(an_amount()), time, launched).prop_map(
        |(capacity, rate, nodes, terms, time, launched)| {
            let mut bill = Bill::default();
            Term::ALL.into_iter().zip(terms).for_each(|(term, micros)| bill.set(term, Micros::new(micros)));
            Scored { capacity, rate: Rate::from_nanos(rate), nodes, bill, expected_time: Millis::new(time), launched }
        },
    )
}

/// What may rise between two places.
#[derive(Clone, Copy, Debug)]
enum Rise {
    Rate(u64),
    Time(u64),
    Term(Term, i64),
    /// A share of launches that fails.
    Failures(f64),
}

fn a_rise() -> impl Strategy<Value = Rise> {
    prop_oneof![
        any::<u64>().prop_map(Rise::Rate),
        any::<u64>().prop_map(Rise::Time),
        (0..Term::ALL.len(), an_amount()).prop_map(|(term, more)| Rise::Term(Term::ALL[term], more)),
        (0.001..=1.0_f64).prop_map(Rise::Failures),
    ]
}

fn risen(mut place: Scored, rise: Rise) -> Scored {
    match rise {
        Rise::Rate(more) => place.rate = Rate::from_nanos(place.rate.nanos_per_hour().saturating_add(more)),
        Rise::Time(more) => place.expected_time = Millis::new(place.expected_time.as_millis().saturating_add(more)),
        Rise::Term(term, more) => place.bill.add(term, Micros::new(more)),
        Rise::Failures(share) => place.launched *= share,
    }
    place
}

fn view<'a>(job: &'a Job, last: Option<&'a OfferKey>, ago: Millis) -> JobView<'a> {
    let last = last.map(|offer| LastPlace { offer, ended: NOW.before(ago), closed_until: NOW.before(ago) });
    JobView {
        now: NOW,
        job,
        last,
        work: Millis::from_hours(1),
        remaining: Millis::from_hours(1),
        changeover: Millis::from_mins(4),
        outlook: None,
    }
}

/// Places in a policy's order, as a search hands them over.
fn ranked(policy: &dyn Policy, view: &JobView<'_>, places: &[Scored]) -> Vec<Ranked> {
    let mut ranked: Vec<Ranked> = places
        .iter()
        .enumerate()
        .map(|(position, scored)| Ranked {
            offer: offer(&format!("c{position}"), scored.capacity),
            scored: *scored,
            rank: policy.rank(view, scored),
        })
        .collect();
    ranked.sort_by(|a, b| (a.rank, &a.offer).cmp(&(b.rank, &b.offer)));
    ranked
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    /// The bounded search ranks the least that a place could cost, and stops on the strength of it.
    #[test]
    fn a_rank_never_falls_when_a_rate_a_time_a_term_or_failures_rise(job in a_job(), place in a_place(), rise in a_rise()) {
        let view = view(&job, None, Millis::ZERO);
        for policy in leeway_policies::all().iter() {
            let (low, high) = (policy.rank(&view, &place), policy.rank(&view, &risen(place, rise)));
            prop_assert!(low <= high, "{}: {low} fell to {high}", policy.name());
            prop_assert_eq!(low, policy.rank(&view, &place), "{} ranks one place twice alike", policy.name());
        }
    }

    #[test]
    fn a_decision_is_the_same_twice_lies_in_the_list_and_says_why(
        job in a_job(),
        places in proptest::collection::vec(a_place(), 1..5),
        last in proptest::option::of((0..6_usize, a_capacity())),
        minutes in 0..20_u64,
    ) {
        let last = last.map(|(position, capacity)| offer(&format!("c{position}"), capacity));
        let view = view(&job, last.as_ref(), Millis::from_mins(minutes));
        for policy in leeway_policies::all().iter() {
            let ranked = ranked(policy.as_ref(), &view, &places);
            let verdict = policy.decide(&view, &ranked);
            prop_assert_eq!(&verdict, &policy.decide(&view, &ranked));
            match verdict {
                Verdict::Place { position, why } => {
                    prop_assert!(position < ranked.len(), "{}: no place {position}", policy.name());
                    prop_assert!(!why.is_empty());
                }
                Verdict::WaitUntil { at, why } => {
                    prop_assert!(at > NOW, "{} waits for the past", policy.name());
                    prop_assert!(!why.is_empty());
                }
            }
        }
    }

    /// Who waits only while something may still come back must not wait for ever. A job with a deadline may wait as long
    /// as the round lets it, which is until its last call, but its policy looks again within the hour.
    #[test]
    fn no_policy_waits_longer_than_an_hour_for_a_place_it_lost(
        job in a_job(),
        places in proptest::collection::vec(a_place(), 1..5),
        minutes in 60..100_000_u64,
    ) {
        let last = offer("gone", CapacityType::Spot);
        let view = view(&job, Some(&last), Millis::from_mins(minutes));
        for policy in leeway_policies::all().iter() {
            let verdict = policy.decide(&view, &ranked(policy.as_ref(), &view, &places));
            match verdict {
                Verdict::Place { .. } => {}
                Verdict::WaitUntil { at, .. } => {
                    let is_timed = job.spec.time.deadline.is_some();
                    prop_assert!(is_timed && at <= NOW.after(Millis::from_hours(1)), "{} still waits", policy.name());
                }
            }
        }
    }
}

#[test]
fn every_policy_has_a_name_a_sentence_and_some_capacity_it_uses() {
    let policies = leeway_policies::all();
    assert!(policies.get(&name(leeway_policies::DEFAULT)).is_some());
    let spec = Arc::new(job("train"));
    for policy in policies.iter() {
        assert_eq!(policy.name().parse(), Ok(name(policy.name())));
        assert!(policy.about().len() > 20, "{} says too little", policy.name());
        assert!(!policy.about().ends_with('.'), "{} is a phrase in a table", policy.name());
        let mut desk = Desk::new();
        let mut spec = (*spec).clone();
        spec.policy = Some(name(policy.name()));
        let id = desk.submit(spec);
        assert_eq!(desk.state(id), JobState::Starting, "{} finds a place among spot and on-demand", policy.name());
    }
}
