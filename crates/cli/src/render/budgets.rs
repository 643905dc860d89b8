//! Budgets.

use leeway_proto::pb;

use super::amounts::money;
use super::{Align, Field, Grid, Tone, nothing, properties};
use crate::json::word;
use crate::terminal::View;

fn percent(budget: &pb::Budget) -> String {
    let cap = budget.spec.as_ref().map_or(0, |spec| spec.cap_micros);
    if cap <= 0 {
        return "-".to_owned();
    }
    let used = i128::from(budget.posted_micros) + i128::from(budget.held_micros);
    format!("{}%", used * 100 / i128::from(cap))
}

fn state(budget: &pb::Budget) -> Field {
    if budget.frozen { Field::new("frozen", Tone::Bad) } else { Field::new("open", Tone::Good) }
}

fn fired(budget: &pb::Budget) -> String {
    let one = |fired: &pb::FiredThreshold| {
        format!("{}% {}", fired.percent, word(fired.kind().as_str_name(), "ThresholdKind"))
    };
    budget.fired.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Budgets in the order in which they are given.
pub fn table(budgets: &[pb::Budget], view: &View) -> String {
    if budgets.is_empty() {
        return nothing("budgets", "make one with \"leeway budget set NAME --cap '100 USD'\"");
    }
    let (left, right) = (Align::Left, Align::Right);
    let columns = [
        ("BUDGET", left),
        ("PART OF", left),
        ("STATE", left),
        ("CAP", right),
        ("SPENT", right),
        ("HELD", right),
        ("FREE", right),
        ("USED", right),
        ("ALERTS", left),
    ];
    let mut grid = Grid::new(&columns, view);
    for budget in budgets {
        let spec = budget.spec.clone().unwrap_or_default();
        let amount = |micros| Field::from(money(micros, &budget.currency));
        grid.row([
            spec.name.as_str().into(),
            spec.parent.unwrap_or_default().into(),
            state(budget),
            amount(spec.cap_micros),
            amount(budget.posted_micros),
            amount(budget.held_micros),
            amount(budget.available_micros),
            percent(budget).into(),
            fired(budget).into(),
        ]);
    }
    grid.finish()
}

/// One budget.
pub fn one(budget: &pb::Budget, view: &View) -> String {
    let spec = budget.spec.clone().unwrap_or_default();
    let amount = |micros| money(micros, &budget.currency);
    let nonzero = |micros| if micros == 0 { String::new() } else { amount(micros) };
    properties(
        &[
            ("budget", spec.name.as_str().into()),
            ("part of", spec.parent.unwrap_or_default().into()),
            ("state", state(budget)),
            ("cap", amount(spec.cap_micros).into()),
            ("soft limit", spec.soft_limit_micros.map(amount).unwrap_or_default().into()),
            ("spent", amount(budget.posted_micros).into()),
            ("held", amount(budget.held_micros).into()),
            ("free", amount(budget.available_micros).into()),
            ("used", percent(budget).into()),
            ("past holds", nonzero(budget.overrun_micros).into()),
            ("credits", nonzero(budget.credit_micros).into()),
            ("alerts", fired(budget).into()),
        ],
        view,
    )
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn budgets_show_what_is_left() {
        insta::assert_snapshot!("budgets", table(&samples::budgets(), &samples::view(None)));
        insta::assert_snapshot!("budget", one(&samples::budgets()[0], &samples::view(None)));
    }

    #[test]
    fn a_cap_of_zero_and_the_largest_amounts_do_not_trip_it() {
        let huge = pb::Budget { posted_micros: i64::MAX, held_micros: i64::MAX, ..samples::budgets()[0].clone() };
        assert!(percent(&huge).ends_with('%'));
        assert_eq!(percent(&pb::Budget::default()), "-");
    }
}
