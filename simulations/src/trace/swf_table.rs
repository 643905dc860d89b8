//! The Standard Workload Format reduced to a table with a header: jobs of processors on grids and parallel machines.

use super::error::Fault;
use super::format::{Entry, Notes, Order, Sign, Zero, table};
use super::record::JobRecord;
use super::swf::{Fields, job};
use super::table::{Layout, Row};

pub const ENTRY: Entry = Entry {
    name: "swf-table",
    what: "the Standard Workload Format as a CSV table with a header",
    sign: Sign::Columns(Table::COLUMNS),
    order: Order::Any,
    zero: Zero::Start,
    has_arrivals: true,
    open: |input, file| table::<Table>("swf-table", input, file),
};

#[derive(Default)]
struct Table;

impl Layout for Table {
    const COLUMNS: &'static [&'static str] = &["submit_s", "run_s", "procs", "req_procs", "status", "user", "group"];

    fn job(&mut self, row: &Row<'_>, notes: &mut Notes) -> Result<Option<JobRecord>, Fault> {
        let fields = Fields {
            submitted: row.at(0),
            runtime: row.at(1),
            processors: row.at(2),
            requested: row.at(3),
            memory_kib: None,
            status: row.at(4),
            user: row.at(5),
            group: row.at(6),
        };
        job(format!("job-{}", row.number), &fields, notes)
    }
}
