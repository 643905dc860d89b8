//! The ledger, a line for each entry, with all places of every amount.

use leeway_model::Timestamp;
use leeway_proto::pb;
use pb::ledger_entry::Kind;

use super::amounts::exact;
use super::{Align, Grid, nothing};
use crate::json::word;
use crate::terminal::View;

/// Entries in the order in which they are given.
pub fn table(entries: &[pb::LedgerEntry], currency: &str, view: &View) -> String {
    if entries.is_empty() {
        return nothing("entries", "the ledger begins with the first budget");
    }
    let columns = [
        ("#", Align::Right),
        ("AT", Align::Left),
        ("ENTRY", Align::Left),
        ("FOR", Align::Left),
        ("AMOUNT", Align::Right),
        ("WHAT", Align::Left),
    ];
    let mut grid = Grid::new(&columns, view);
    for entry in entries {
        let line = Line::of(entry.kind.as_ref());
        grid.row([
            entry.number.to_string().into(),
            Timestamp::from_millis(entry.at_ms).to_string().into(),
            line.entry.into(),
            line.subject.into(),
            exact(line.micros, currency).into(),
            line.detail.into(),
        ]);
    }
    grid.finish()
}

#[derive(Default)]
struct Line {
    entry: &'static str,
    subject: String,
    micros: i64,
    detail: String,
}

impl Line {
    fn of(kind: Option<&Kind>) -> Self {
        let line = |entry, subject: &str, micros, detail| Self { entry, subject: subject.to_owned(), micros, detail };
        match kind {
            None => Self::default(),
            Some(Kind::HoldOpen(hold)) => {
                line("hold", &hold.run_id, hold.amount_micros, format!("from {}", hold.path.join(" < ")))
            }
            Some(Kind::HoldExtend(hold)) => line("hold more", &hold.run_id, hold.amount_micros, String::new()),
            Some(Kind::Post(post)) => line("spent", &post.run_id, post.amount_micros, term(post.term())),
            Some(Kind::HoldClose(hold)) => line("released", &hold.run_id, hold.released_micros, String::new()),
            Some(Kind::ForcePost(post)) => {
                let cause = word(post.cause().as_str_name(), "Overrun");
                let detail = format!("{}, past the hold of {}: {cause}", term(post.term()), post.path.join(" < "));
                line("overrun", &post.run_id, post.amount_micros, detail)
            }
            Some(Kind::Adjust(one)) => {
                let detail = format!("{} by {}", one.reference, one.source);
                line("adjusted", &one.budget, one.amount_micros, detail)
            }
            Some(Kind::Credit(one)) => line("credit", &one.budget, one.amount_micros, one.reference.clone()),
            Some(Kind::CapSet(one)) => line("cap", &one.budget, one.cap_micros, format!("by {}", one.by)),
        }
    }
}

fn term(term: pb::Term) -> String {
    word(term.as_str_name(), "Term")
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn the_ledger_has_a_line_for_each_kind_of_entry() {
        insta::assert_snapshot!("ledger", table(&samples::ledger(), "USD", &samples::view(None)));
    }
}
