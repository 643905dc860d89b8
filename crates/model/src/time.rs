//! Instants and lengths of time: UTC milliseconds, integers, checked.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An instant: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(i64);

/// A length of time in milliseconds, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Millis(u64);

impl Timestamp {
    pub const ZERO: Self = Self(0);

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The instant `length` later; stays at the last representable instant instead of wrapping.
    pub const fn after(self, length: Millis) -> Self {
        let millis = if length.0 > i64::MAX as u64 { i64::MAX } else { length.0 as i64 };
        Self(self.0.saturating_add(millis))
    }

    /// The instant `length` earlier; stays at the first representable instant instead of wrapping.
    pub const fn before(self, length: Millis) -> Self {
        let millis = if length.0 > i64::MAX as u64 { i64::MAX } else { length.0 as i64 };
        Self(self.0.saturating_sub(millis))
    }

    /// The UTC calendar month, counted from year 0: what monthly tiers and budgets go by.
    pub fn month(self) -> i32 {
        let instant = jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let date = jiff::tz::Offset::UTC.to_datetime(instant);
        i32::from(date.year()) * 12 + i32::from(date.month()) - 1
    }

    /// Time from `earlier` to here; zero when `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> Millis {
        let span = self.0.saturating_sub(earlier.0);
        Millis(if span < 0 { 0 } else { span as u64 })
    }
}

impl Millis {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(u64::MAX);

    pub const fn new(millis: u64) -> Self {
        Self(millis)
    }

    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000))
    }

    pub const fn from_mins(mins: u64) -> Self {
        Self::from_secs(mins.saturating_mul(60))
    }

    pub const fn from_hours(hours: u64) -> Self {
        Self::from_mins(hours.saturating_mul(60))
    }

    /// Seconds as a float, rounded to whole milliseconds; NaN and negative become zero. For estimates, never for money.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1_000.0).round().clamp(0.0, u64::MAX as f64) as u64)
    }

    pub const fn as_millis(self) -> u64 {
        self.0
    }

    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1_000.0
    }

    pub fn as_hours_f64(self) -> f64 {
        self.0 as f64 / 3_600_000.0
    }

    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, to the second, or to the millisecond where there are any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(instant) => write!(f, "{instant}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

/// Why a text is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    #[error("'{0}' is not an instant; write it as 2026-03-14T15:09:26Z, with a zone or offset")]
    Instant(String),
    #[error("'{0}' is not a length of time; write a number with a unit, such as 90s, 15m, 4h or 2d")]
    Length(String),
    #[error("'{0}' is outside the allowed range of 1 s to 10 years")]
    Range(String),
}

impl FromStr for Timestamp {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        let instant: jiff::Timestamp = text.trim().parse().map_err(|_| TimeError::Instant(clip(text)))?;
        Ok(Self(instant.as_millisecond()))
    }
}

impl fmt::Display for Millis {
    /// Two units at most, such as `1h 4m`, `35s` or `250ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, hours) = (self.0 / 86_400_000, self.0 / 3_600_000 % 24);
        let (mins, secs, millis) = (self.0 / 60_000 % 60, self.0 / 1_000 % 60, self.0 % 1_000);
        let text = match (days, hours, mins, secs) {
            (0, 0, 0, 0) if millis > 0 => format!("{millis}ms"),
            (0, 0, 0, s) => format!("{s}s"),
            (0, 0, m, 0) => format!("{m}m"),
            (0, 0, m, s) => format!("{m}m {s}s"),
            (0, h, 0, _) => format!("{h}h"),
            (0, h, m, _) => format!("{h}h {m}m"),
            (d, 0, _, _) => format!("{d}d"),
            (d, h, _, _) => format!("{d}d {h}h"),
        };
        f.pad(&text)
    }
}

impl FromStr for Millis {
    type Err = TimeError;

    /// Numbers with units, added up: `90s`, `1h 30m`, `250ms`, `2d`, `1w`. A bare number is refused: it has no unit.
    fn from_str(text: &str) -> Result<Self, TimeError> {
        let bad = || TimeError::Length(clip(text));
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(bad());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
            let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
            rest = rest[digits..].trim_start();
            let unit_end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            let unit = match &rest[..unit_end] {
                "ms" => 1,
                "s" | "sec" | "secs" | "second" | "seconds" => 1_000,
                "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
                "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000,
                "d" | "day" | "days" => 86_400_000,
                "w" | "week" | "weeks" => 604_800_000,
                _ => return Err(bad()),
            };
            total = number.checked_mul(unit).and_then(|part| total.checked_add(part)).ok_or_else(bad)?;
            rest = rest[unit_end..].trim_start();
        }
        Ok(Self(total))
    }
}

impl Millis {
    /// The length, when it lies in the range that a person may ask for: 1 s to 10 years.
    pub fn in_range(self) -> Result<Self, TimeError> {
        const TEN_YEARS: u64 = 10 * 366 * 86_400_000;
        if (1_000..=TEN_YEARS).contains(&self.0) { Ok(self) } else { Err(TimeError::Range(self.to_string())) }
    }
}

fn clip(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_with_units_and_shown_in_two() {
        for (text, millis, shown) in [
            ("90s", 90_000, "1m 30s"),
            ("1h 30m", 5_400_000, "1h 30m"),
            ("250ms", 250, "250ms"),
            ("2d", 172_800_000, "2d"),
            ("1w", 604_800_000, "7d"),
            ("0ms", 0, "0s"),
        ] {
            let length: Millis = text.parse().unwrap();
            assert_eq!(length.as_millis(), millis, "{text}");
            assert_eq!(length.to_string(), shown, "{text}");
        }
    }

    #[test]
    fn t_09_a_length_without_unit_or_out_of_range_is_refused() {
        for text in ["", "5", "-5m", "1y", "h", "9223372036854775807h", "1.5h"] {
            assert!(text.parse::<Millis>().is_err(), "{text}");
        }
        assert!(Millis::ZERO.in_range().is_err());
        assert!(Millis::from_hours(24 * 366 * 11).in_range().is_err());
        assert!(Millis::from_secs(1).in_range().is_ok());
    }

    #[test]
    fn t_05_months_begin_at_utc_midnight_also_in_leap_years() {
        let month = |text: &str| text.parse::<Timestamp>().unwrap().month();
        assert_eq!(month("2024-02-29T23:59:59Z") + 1, month("2024-03-01T00:00:00Z"));
        assert_eq!(month("2025-12-31T23:59:59Z") + 1, month("2026-01-01T00:00:00Z"));
    }

    #[test]
    fn an_instant_needs_a_zone_and_never_wraps() {
        assert_eq!("1970-01-01T00:00:01Z".parse::<Timestamp>().unwrap().as_millis(), 1_000);
        assert!("2026-03-14T15:09:26".parse::<Timestamp>().is_err());
        let last = Timestamp::from_millis(i64::MAX);
        assert_eq!(last.after(Millis::MAX), last);
        assert_eq!(Timestamp::ZERO.since(last), Millis::ZERO);
    }
}
