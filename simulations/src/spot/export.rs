//! Every run on a line of its own, for whoever wants to look behind the means.

use std::fmt::Write as _;

use super::bench::Measured;

/// The columns of [`csv`].
pub const COLUMNS: &str = "setting,family,market,window,start,deadline_h,changeover_h,availability,policy,cost,optimum,\
                           on_demand,missed,launches,moves,spot_ticks,on_demand_ticks,egress,probes";

/// All runs as CSV with a header; costs in dollars. Fields with a comma or quote are quoted.
pub fn csv(measured: &Measured) -> String {
    let mut text = format!("{COLUMNS}\n");
    for case in &measured.cases {
        for (policy, run) in measured.rules.iter().zip(&case.outcomes) {
            let written = writeln!(
                text,
                "{},{},{},{},{},{},{},{:.4},{},{:.6},{:.6},{:.6},{},{},{},{},{},{:.6},{:.6}",
                case.setting,
                field(&case.family),
                field(&case.market),
                case.window,
                case.start,
                case.deadline_hours,
                case.changeover_hours,
                case.availability,
                field(policy),
                run.cost,
                case.optimum,
                case.on_demand,
                u8::from(run.missed),
                run.launches,
                run.moves,
                run.spot_ticks,
                run.on_demand_ticks,
                run.egress,
                run.probes
            );
            written.expect("writing to a string cannot fail");
        }
    }
    text
}

fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
