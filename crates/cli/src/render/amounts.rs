//! Amounts, times and sizes as people read them.

use leeway_model::{Bytes, Millis, Rate, Timestamp};
use leeway_proto::pb;

/// An amount to the cent, or finer where a cent says nothing: `$1.23`, `$0.0042`, `-$3.00`, `1.23 EUR`.
pub fn money(micros: i64, currency: &str) -> String {
    let size = micros.unsigned_abs();
    let places = match size {
        0 | 100_000.. => 2,
        1_000..100_000 => 4,
        _ => 6,
    };
    with_places(micros, places, currency)
}

/// An amount with all its places, at least two: what the ledger says.
pub fn exact(micros: i64, currency: &str) -> String {
    let mut places = 6;
    while places > 2 && micros.unsigned_abs().is_multiple_of(10_u64.pow(7 - places)) {
        places -= 1;
    }
    with_places(micros, places, currency)
}

fn with_places(micros: i64, places: u32, currency: &str) -> String {
    let unit = 10_u64.pow(6 - places);
    // Half away from zero.
    let rounded = (micros.unsigned_abs().saturating_add(unit / 2)) / unit;
    let scale = 10_u64.pow(places);
    let number = format!("{}.{:0width$}", rounded / scale, rounded % scale, width = places as usize);
    let sign = if micros < 0 && rounded > 0 { "-" } else { "" };
    match currency {
        "USD" | "" => format!("{sign}${number}"),
        other => format!("{sign}{number} {other}"),
    }
}

/// The price of one machine for one hour: `$3.06/h`.
pub fn price(price: Option<&pb::Price>) -> String {
    price.map_or_else(|| "unknown".to_owned(), |price| rate(price.rate_nanos_per_hour, &price.currency))
}

/// A rate, to at most six places.
pub fn rate(nanos_per_hour: u64, currency: &str) -> String {
    let micros = i64::try_from(nanos_per_hour / 1_000).unwrap_or(i64::MAX);
    if micros == 0 && nanos_per_hour > 0 {
        return format!("{} {currency}/h", Rate::from_nanos(nanos_per_hour));
    }
    format!("{}/h", money(micros, currency))
}

/// How long ago or ahead, with one unit: `3m ago`, `in 2h`, `now`.
pub fn relative(at_ms: i64, now: Timestamp) -> String {
    let at = Timestamp::from_millis(at_ms);
    let (ago, ahead) = (now.since(at), at.since(now));
    if ago.as_millis() < 1_000 && ahead.as_millis() < 1_000 {
        "now".to_owned()
    } else if ahead.is_zero() {
        format!("{} ago", one_unit(ago))
    } else {
        format!("in {}", one_unit(ahead))
    }
}

/// An instant with how far away it is: `2026-03-14T15:09:26Z (3m ago)`.
pub fn instant(at_ms: i64, now: Timestamp) -> String {
    format!("{} ({})", Timestamp::from_millis(at_ms), relative(at_ms, now))
}

/// A length of time with at most two units: `1h 4m`.
pub fn length(ms: u64) -> String {
    let whole = if ms >= 10_000 { ms / 1_000 * 1_000 } else { ms };
    Millis::new(whole).to_string()
}

fn one_unit(length: Millis) -> String {
    let seconds = length.as_millis() / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A size: `61.0 GiB` for memory.
pub fn memory(bytes: u64) -> String {
    let gib = Bytes::new(bytes).as_gib_f64();
    if gib.fract() < 0.05 { format!("{gib:.0} GiB") } else { format!("{gib:.1} GiB") }
}

/// A size in decimal units: `1.5 GB`.
pub fn size(bytes: u64) -> String {
    Bytes::new(bytes).to_string()
}

/// CPUs: `8`, `0.5`.
pub fn cpus(milli: u32) -> String {
    leeway_model::resources::MilliCpus(milli).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_to_what_says_something() {
        for (micros, text) in [
            (0, "$0.00"),
            (1_230_000, "$1.23"),
            (1_234_999, "$1.23"),
            (1_235_000, "$1.24"),
            (-3_000_000, "-$3.00"),
            (999_999, "$1.00"),
            (4_200, "$0.0042"),
            (42, "$0.000042"),
            (i64::MAX, "$9223372036854.78"),
            (i64::MIN, "-$9223372036854.78"),
        ] {
            assert_eq!(money(micros, "USD"), text, "{micros}");
        }
        assert_eq!(money(1_500_000, "EUR"), "1.50 EUR");
        assert_eq!(
            [exact(1_000_000, "USD"), exact(1_234_567, "USD"), exact(-10, "USD"), exact(500_000, "USD")],
            ["$1.00", "$1.234567", "-$0.00001", "$0.50"]
        );
    }

    #[test]
    fn rates_and_lengths_are_short() {
        assert_eq!(
            [rate(3_060_000_000, "USD"), rate(5, "USD"), rate(0, "USD")],
            ["$3.06/h", "0.000000005 USD/h", "$0.00/h"]
        );
        assert_eq!(price(None), "unknown");
        assert_eq!([length(250), length(3_900_000), length(125_678)], ["250ms", "1h 5m", "2m 5s"]);
        assert_eq!([memory(61 << 30), memory(3 << 29), cpus(500), cpus(8_000)], ["61 GiB", "1.5 GiB", "0.500", "8"]);
    }

    #[test]
    fn times_are_told_from_the_present() {
        let now = Timestamp::from_millis(1_000_000_000);
        let at = |offset: i64| relative(1_000_000_000 + offset, now);
        assert_eq!([at(0), at(-59_000), at(-61_000), at(7_200_000)], ["now", "59s ago", "1m ago", "in 2h"]);
        assert_eq!([at(-200_000_000), at(-7_199_000)], ["2d ago", "1h ago"]);
        assert_eq!(relative(i64::MIN, now).split_whitespace().last(), Some("ago"));
    }
}
