//! Money: integer micro-units of the ledger currency, prices in nano-units an hour, and the meter between them.
//!
//! Rounding is against the spender: charges and holds go up to the next micro-unit, credits go down. A charge is the
//! difference of one cumulative function, so how often usage is metered cannot change what it costs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Millis, Timestamp};

/// An amount in micro-units of the installation's ledger currency (1 USD = 1,000,000).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Micros(i64);

/// A price in nano-units an hour (1 USD/h = 1,000,000,000).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rate(u64);

/// An ISO 4217 code, three capital letters. Whether a rate for it is known is the ledger's question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Currency([u8; 3]);

/// Why a text is not money.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    #[error("'{0}' is not an amount; write a decimal number such as 12.50")]
    NotANumber(String),
    #[error("'{0}' has more than {1} decimal places")]
    TooPrecise(String, u32),
    #[error("'{0}' is too large")]
    TooLarge(String),
    #[error("'{0}' is negative")]
    Negative(String),
    #[error("'{0}' is not a currency; write a code of three capital letters such as USD")]
    Currency(String),
    #[error("'{0}' states no currency; write for example '{0} USD'")]
    NoCurrency(String),
}

impl Micros {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(i64::MAX);

    pub const fn new(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn from_units(units: i64) -> Self {
        Self(units.saturating_mul(1_000_000))
    }

    pub const fn get(self) -> i64 {
        self.0
    }

    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(difference) => Some(Self(difference)),
            None => None,
        }
    }

    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// The amount as a float in whole units, for ranking and display only.
    pub fn as_units_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// An estimate in whole units, rounded up; NaN becomes zero, the rest saturates. Only for estimates.
    pub fn from_units_f64(units: f64) -> Self {
        Self((units * 1e6).ceil() as i64)
    }

    /// `percent` of this amount, rounded down.
    pub fn percent(self, percent: u32) -> Self {
        Self((i128::from(self.0) * i128::from(percent) / 100) as i64)
    }

    /// A decimal number of whole units without a currency, at most six decimal places.
    pub fn parse_decimal(text: &str) -> Result<Self, MoneyError> {
        let scaled = parse_scaled(text, 6)?;
        i64::try_from(scaled).map(Self).map_err(|_| MoneyError::TooLarge(text.to_owned()))
    }
}

impl fmt::Display for Micros {
    /// A decimal number with two to six places and no currency sign: `12.50`, `0.000001`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, value) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        let mut places = format!("{:06}", value % 1_000_000);
        while places.len() > 2 && places.ends_with('0') {
            places.pop();
        }
        f.pad(&format!("{sign}{}.{places}", value / 1_000_000))
    }
}

impl Rate {
    pub const ZERO: Self = Self(0);

    pub const fn from_nanos(nanos_per_hour: u64) -> Self {
        Self(nanos_per_hour)
    }

    /// A rate from micro-units an hour.
    pub const fn from_micros(micros_per_hour: u64) -> Self {
        Self(micros_per_hour.saturating_mul(1_000))
    }

    pub const fn nanos_per_hour(self) -> u64 {
        self.0
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The rate of `count` such machines; `None` when it does not fit.
    pub const fn checked_mul(self, count: u64) -> Option<Self> {
        match self.0.checked_mul(count) {
            Some(nanos) => Some(Self(nanos)),
            None => None,
        }
    }

    /// Cost of running for `length`, rounded up to a micro-unit; saturates.
    pub fn cost(self, length: Millis) -> Micros {
        ceil_micros(u128::from(self.0) * u128::from(length.as_millis()))
    }

    /// Units an hour as a float, for ranking and display only.
    pub fn as_units_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// A decimal number of units an hour, at most nine places; never through a float.
    pub fn parse_decimal(text: &str) -> Result<Self, MoneyError> {
        let scaled = parse_scaled(text, 9)?;
        if scaled < 0 {
            return Err(MoneyError::Negative(text.to_owned()));
        }
        u64::try_from(scaled).map(Self).map_err(|_| MoneyError::TooLarge(text.to_owned()))
    }
}

impl fmt::Display for Rate {
    /// Units an hour with two to nine places: `3.06`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut places = format!("{:09}", self.0 % 1_000_000_000);
        while places.len() > 2 && places.ends_with('0') {
            places.pop();
        }
        f.pad(&format!("{}.{places}", self.0 / 1_000_000_000))
    }
}

impl Currency {
    pub const USD: Self = Self(*b"USD");

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a currency holds three ASCII capitals")
    }
}

impl FromStr for Currency {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, MoneyError> {
        match text.as_bytes() {
            &[a, b, c] if [a, b, c].iter().all(u8::is_ascii_uppercase) => Ok(Self([a, b, c])),
            _ => Err(MoneyError::Currency(text.chars().take(16).collect())),
        }
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An amount as a person writes it, `25 USD`, `25.50 USD` or `$25`. A bare number is refused.
pub fn parse_amount(text: &str) -> Result<(Micros, Currency), MoneyError> {
    let trimmed = text.trim();
    if let Some(number) = trimmed.strip_prefix('$') {
        return Ok((Micros::parse_decimal(number.trim())?, Currency::USD));
    }
    match trimmed.split_once(char::is_whitespace) {
        Some((number, currency)) => Ok((Micros::parse_decimal(number)?, currency.trim().parse()?)),
        None => match Micros::parse_decimal(trimmed) {
            Ok(_) => Err(MoneyError::NoCurrency(trimmed.to_owned())),
            Err(error) => Err(error),
        },
    }
}

/// Cumulative charge of one run over constant-rate pieces: `C(t)` is the ceiling of the exact sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// Exact sum of rate x milliseconds over the pieces before `since`.
    accrued: u128,
    /// Start of the present piece.
    since: Timestamp,
    rate: Rate,
}

impl Meter {
    pub const fn starting(at: Timestamp, rate: Rate) -> Self {
        Self { accrued: 0, since: at, rate }
    }

    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Total charge from the start to `at`. Earlier instants than the present piece count nothing of it.
    pub fn charge(&self, at: Timestamp) -> Micros {
        ceil_micros(self.exact(at))
    }

    /// Continues at another rate from `at` on.
    pub fn change_rate(&mut self, at: Timestamp, rate: Rate) {
        self.accrued = self.exact(at);
        self.since = self.since.max(at);
        self.rate = rate;
    }

    fn exact(&self, at: Timestamp) -> u128 {
        let piece = u128::from(self.rate.0).saturating_mul(u128::from(at.since(self.since).as_millis()));
        self.accrued.saturating_add(piece)
    }
}

/// Nano-units an hour times milliseconds, to micro-units: divide by 1,000 x 3,600,000, rounding up.
fn ceil_micros(nano_millis: u128) -> Micros {
    Micros(i64::try_from(nano_millis.div_ceil(3_600_000_000)).unwrap_or(i64::MAX))
}

fn parse_scaled(text: &str, places: u32) -> Result<i128, MoneyError> {
    let shown = || text.chars().take(64).collect::<String>();
    let trimmed = text.trim();
    let (negative, digits) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if !all_digits || (whole.is_empty() && fraction.is_empty()) {
        return Err(MoneyError::NotANumber(shown()));
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > places as usize {
        return Err(MoneyError::TooPrecise(shown(), places));
    }
    if whole.trim_start_matches('0').len() > 18 {
        return Err(MoneyError::TooLarge(shown()));
    }
    let number = |part: &str| if part.is_empty() { 0 } else { part.parse::<i128>().expect("at most 18 digits") };
    let scaled = number(whole) * 10_i128.pow(places) + number(fraction) * 10_i128.pow(places - fraction.len() as u32);
    Ok(if negative { -scaled } else { scaled })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_decimal_and_never_pass_through_a_float() {
        assert_eq!(Micros::parse_decimal("3.626667").unwrap(), Micros::new(3_626_667));
        assert_eq!(Micros::parse_decimal("-0.5").unwrap(), Micros::new(-500_000));
        assert_eq!(Rate::parse_decimal("0.000000001").unwrap(), Rate::from_nanos(1));
        assert_eq!(Micros::new(12_500_000).to_string(), "12.50");
        assert_eq!(Rate::parse_decimal("3.06").unwrap().to_string(), "3.06");
    }

    #[test]
    fn c_06_numbers_no_price_can_have_are_refused() {
        for text in ["1e300", "1e-300", "NaN", "inf", "", ".", "1,5", "1 000", &"9".repeat(40), "0x10", "--1"] {
            assert!(Rate::parse_decimal(text).is_err(), "{text}");
        }
        assert!(matches!(Rate::parse_decimal("-1"), Err(MoneyError::Negative(_))));
        assert!(matches!(Micros::parse_decimal("0.0000001"), Err(MoneyError::TooPrecise(..))));
    }

    #[test]
    fn an_amount_states_its_currency() {
        assert_eq!(parse_amount("25.50 USD").unwrap(), (Micros::new(25_500_000), Currency::USD));
        assert_eq!(parse_amount("$3").unwrap(), (Micros::from_units(3), Currency::USD));
        assert!(matches!(parse_amount("25"), Err(MoneyError::NoCurrency(_))));
        assert!(matches!(parse_amount("25 dollars"), Err(MoneyError::Currency(_))));
    }

    #[test]
    fn the_worked_example_of_a_hold_is_exact() {
        let rate = Rate::parse_decimal("3.20").unwrap();
        assert_eq!(rate.cost(Millis::from_mins(68)), Micros::new(3_626_667));
    }

    proptest! {
        #[test]
        fn b_08_any_ticking_of_a_meter_charges_what_one_reading_charges(
            rate in 0_u64..50_000_000_000, ticks in proptest::collection::vec(1_u64..200_000, 1..200)
        ) {
            let start = Timestamp::from_millis(1_000);
            let meter = Meter::starting(start, Rate::from_nanos(rate));
            let (mut at, mut posted) = (start, Micros::ZERO);
            for tick in &ticks {
                at = at.after(Millis::new(*tick));
                let step = meter.charge(at).checked_sub(posted).unwrap();
                prop_assert!(!step.is_negative());
                posted = posted.checked_add(step).unwrap();
            }
            prop_assert_eq!(posted, meter.charge(at));
            prop_assert_eq!(posted, Rate::from_nanos(rate).cost(at.since(start)));
        }

        #[test]
        fn b_07_amounts_near_the_limits_never_wrap(rate in any::<u64>(), length in any::<u64>()) {
            let cost = Rate::from_nanos(rate).cost(Millis::new(length));
            prop_assert!(!cost.is_negative());
        }

        #[test]
        fn a_shown_amount_reads_back(micros in any::<i64>()) {
            prop_assert_eq!(Micros::parse_decimal(&Micros::new(micros).to_string()).ok(), Some(Micros::new(micros)));
        }
    }
}
