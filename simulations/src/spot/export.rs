//! Every run on a line of its own, for whoever wants to look behind the means.

use std::io;

use serde::Serialize;

use super::bench::Measured;

/// One run; costs in dollars. Its fields are the columns.
#[derive(Serialize)]
struct Line<'a> {
    setting: &'a str,
    family: &'a str,
    market: &'a str,
    window: usize,
    start: usize,
    deadline_h: f64,
    changeover_h: f64,
    availability: f64,
    policy: &'a str,
    cost: f64,
    optimum: f64,
    on_demand: f64,
    missed: u8,
    launches: u32,
    moves: u32,
    spot_ticks: u32,
    on_demand_ticks: u32,
    egress: f64,
    probes: f64,
}

/// Writes all runs as CSV with a header.
///
/// # Errors
/// The file cannot be written.
pub fn csv(measured: &Measured, to: impl io::Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(to);
    for case in &measured.cases {
        for (policy, run) in measured.rules.iter().zip(&case.outcomes) {
            writer.serialize(Line {
                setting: case.setting,
                family: &case.family,
                market: &case.market,
                window: case.window,
                start: case.start,
                deadline_h: case.deadline_hours,
                changeover_h: case.changeover_hours,
                availability: case.availability,
                policy,
                cost: run.cost,
                optimum: case.optimum,
                on_demand: case.on_demand,
                missed: run.missed.into(),
                launches: run.launches,
                moves: run.moves,
                spot_ticks: run.spot_ticks,
                on_demand_ticks: run.on_demand_ticks,
                egress: run.egress,
                probes: run.probes,
            })?;
        }
    }
    writer.flush()
}
