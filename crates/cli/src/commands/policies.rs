//! `leeway policies`: how places are chosen, and which job is looked at first. Needs no server: both are part of the program.

use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::render::{self, Align};
use crate::terminal::{Terminal, View};

pub fn run(terminal: &Terminal) -> Result<Exit, Failure> {
    terminal.show(table, list)?;
    Ok(Exit::Success)
}

fn table(view: &View) -> String {
    let mut grid = render::Grid::new(&[("POLICY", Align::Left), ("", Align::Left), ("ABOUT", Align::Left)], view);
    let policies = leeway_policies::all();
    for policy in policies.iter() {
        let mark = match policy.name() {
            leeway_policies::DEFAULT => "default",
            leeway_policies::DEADLINE_DEFAULT => "with a deadline",
            _ => "",
        };
        grid.row([policy.name().into(), mark.into(), policy.about().into()]);
    }
    let mut orders =
        render::Grid::new(&[("QUEUE ORDER", Align::Left), ("", Align::Left), ("ABOUT", Align::Left)], view);
    for order in policies.orders().map(|(_, order)| order) {
        let mark = if order.name() == leeway_policies::order::DEFAULT { "default" } else { "" };
        orders.row([order.name().into(), mark.into(), order.about().into()]);
    }
    format!("{}\n\n{}", grid.finish(), orders.finish())
}

fn list() -> Value {
    let policies = leeway_policies::all();
    let described = policies.iter().map(|policy| {
        json!({
            "kind": "policy",
            "name": policy.name(),
            "about": policy.about(),
            "is_default": policy.name() == leeway_policies::DEFAULT,
            "is_default_with_deadline": policy.name() == leeway_policies::DEADLINE_DEFAULT,
        })
    });
    let orders = policies.orders().map(|(_, order)| {
        json!({
            "kind": "queue-order",
            "name": order.name(),
            "about": order.about(),
            "is_default": order.name() == leeway_policies::order::DEFAULT,
        })
    });
    described.chain(orders).collect()
}
