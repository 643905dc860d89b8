//! The grammars of single values: whole numbers, amounts, lengths of time, sizes, money. Each refuses with the range.

use leeway_model::money::{MoneyError, parse_amount};
use leeway_model::resources::{MilliCpus, Quantity};
use leeway_model::{Bytes, Currency, Micros, Millis, Rate, Timestamp};

use crate::error::{Code, Report};
use crate::fields::Field;
use crate::yaml::Value;

/// Largest size that a file may state: 10^18 bytes.
const MAX_SIZE: Bytes = Bytes::new(1_000_000_000_000_000_000);
const MAX_CPUS: u32 = 100_000;

/// `0`, `12`, `-3`: no leading zero, sign plus, point or exponent.
fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'))
}

/// A whole number, optionally with decimal places. What YAML dialects disagree about (`010`, `1e3`, `1_000`) is none.
fn is_decimal(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    is_whole(whole) && !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit())
}

impl Field<'_> {
    /// A whole number within `min..=max`.
    pub fn integer(&self, min: i64, max: i64, report: &mut Report) -> Option<i64> {
        let range = format!("write a whole number from {min} to {max}");
        let Value::Number(text) = self.node.value else {
            // `010` is kept as text by the reader, so say what is wrong with the number instead of naming a type.
            let leading_zero = self.literal().is_some_and(|text| text.trim_start_matches(['-', '+']).starts_with('0'));
            let problem = if leading_zero { "is not a plain whole number" } else { "is not a whole number" };
            self.fail(Code::WrongType, problem, range, report);
            return None;
        };
        if !is_whole(text) {
            self.fail(Code::InvalidValue, "is not a plain whole number", range, report);
            return None;
        }
        let value = text.parse().ok().filter(|value| (min..=max).contains(value));
        if value.is_none() {
            self.fail(Code::OutOfRange, "is outside the allowed range", range, report);
        }
        value
    }

    /// A whole number within `0..=max`.
    pub fn count(&self, max: u32, report: &mut Report) -> Option<u32> {
        self.integer(0, i64::from(max), report).and_then(|value| u32::try_from(value).ok())
    }

    /// A length of time in the range that a person may ask for.
    pub fn length(&self, report: &mut Report) -> Option<Millis> {
        self.length_within(Millis::from_secs(1), Millis::from_hours(24 * 366 * 10), "1 s to 10 years", report)
    }

    pub fn length_within(&self, min: Millis, max: Millis, range: &str, report: &mut Report) -> Option<Millis> {
        let Some(text) = self.literal() else {
            self.wrong_type("a length of time", "write a number with a unit, such as 90s, 15m, 4h or 2d", report);
            return None;
        };
        if text.starts_with('-') {
            self.fail(Code::OutOfRange, "is negative", format!("allowed is {range}"), report);
            return None;
        }
        match text.parse::<Millis>() {
            Ok(length) if (min..=max).contains(&length) => Some(length),
            Ok(_) => {
                self.fail(Code::OutOfRange, "is outside the allowed range", format!("allowed is {range}"), report);
                None
            }
            Err(_) => {
                let fix = format!("write a whole number with a unit, such as 90s, 15m, 4h or 2d; allowed is {range}");
                self.fail(Code::InvalidValue, "is not a length of time", fix, report);
                None
            }
        }
    }

    /// An instant, or a length from now on such as `+6h`, which is given back as well; it must lie ahead.
    pub fn deadline(&self, now: Timestamp, report: &mut Report) -> Option<(Timestamp, Option<Millis>)> {
        const FIX: &str =
            "write an instant such as 2026-03-14T15:09:26Z, or a length from now in whole units, such as +6h or +90m";
        let Some(text) = self.literal() else {
            self.wrong_type("an instant", FIX, report);
            return None;
        };
        let horizon = now.after(Millis::from_hours(24 * 366 * 10));
        let length = text.strip_prefix('+').map(|length| length.parse::<Millis>().ok());
        let instant = match length {
            Some(length) => length.map(|length| now.after(length)),
            None => text.parse().ok(),
        };
        match instant {
            None => self.fail(Code::InvalidValue, "is not an instant", FIX, report),
            Some(at) if at <= now => {
                let problem = format!("does not lie ahead of now ({now})");
                self.fail(Code::OutOfRange, problem, "write a later instant, or a length such as +6h", report);
            }
            Some(at) if at > horizon => {
                self.fail(Code::OutOfRange, "is more than 10 years ahead", "write an earlier instant", report);
            }
            Some(at) => return Some((at, length.flatten())),
        }
        None
    }

    /// A size with its unit.
    pub fn size(&self, report: &mut Report) -> Option<Bytes> {
        let fix = "write a number with a unit, such as 500MB, 50GB or 64GiB";
        match self.literal() {
            Some(text) if text.starts_with('-') => self.fail(Code::OutOfRange, "is negative", fix, report),
            Some(text) => match text.parse::<Bytes>() {
                Ok(size) if size <= MAX_SIZE => return Some(size),
                Ok(_) => self.fail(Code::OutOfRange, "is too large", "the largest size is 1000000TB", report),
                Err(_) => self.fail(Code::InvalidValue, "is not a size", fix, report),
            },
            None => self.wrong_type("a size", fix, report),
        }
        None
    }

    /// A size whose bare number counts GB, as in SkyPilot's `disk_size` and `inputs`.
    pub fn size_or_gb(&self, report: &mut Report) -> Option<Bytes> {
        let Some(text) = self.literal().filter(|text| !text.contains(|c: char| c.is_ascii_alphabetic())) else {
            return self.size(report);
        };
        let fix = "write a number of GB such as 256 or 0.5, or a size with its unit such as 256GB";
        if text.starts_with('-') {
            self.fail(Code::OutOfRange, "is negative", fix, report);
        } else if !is_decimal(text) {
            self.fail(Code::InvalidValue, "is not a plain number", fix, report);
        } else {
            match format!("{text}GB").parse::<Bytes>() {
                Ok(size) if size <= MAX_SIZE => return Some(size),
                Ok(_) => self.fail(Code::OutOfRange, "is too large", "the largest size is 1000000TB", report),
                Err(_) => self.fail(Code::InvalidValue, "is too large or too precise", fix, report),
            }
        }
        None
    }

    /// CPUs: `4`, `0.5`, `4+`.
    pub fn cpus(&self, report: &mut Report) -> Option<Quantity<MilliCpus>> {
        let fix = format!("write a number above 0 and up to {MAX_CPUS} such as 4 or 0.5, or at least that many as 4+");
        let (number, or_more) = self.amount(&fix, report)?;
        let milli = thousandths(number).filter(|milli| (1..=MAX_CPUS * 1_000).contains(milli));
        if milli.is_none() {
            self.fail(Code::OutOfRange, "is outside the allowed range or has more than 3 decimal places", fix, report);
        }
        Some(Quantity { amount: MilliCpus(milli?), or_more })
    }

    /// Memory: `32`, `32+`, `64GB+`, counted in powers of two as machine catalogs and SkyPilot do, however it is spelt.
    pub fn memory(&self, report: &mut Report) -> Option<Quantity<Bytes>> {
        let fix = "write GiB such as 32, at least that many as 32+, or a size with its unit such as 64GiB";
        let Some(text) = self.literal() else {
            self.wrong_type("an amount of memory", fix, report);
            return None;
        };
        let (text, or_more) = text.strip_suffix('+').map_or((text, false), |less| (less.trim(), true));
        let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = (text[..split].trim(), text[split..].to_ascii_lowercase());
        let binary = match unit.as_str() {
            "" | "g" | "gb" | "gib" => "GiB",
            "m" | "mb" | "mib" => "MiB",
            "t" | "tb" | "tib" => "TiB",
            "k" | "kb" | "kib" => "KiB",
            _ => "",
        };
        if number.starts_with('-') {
            self.fail(Code::OutOfRange, "is negative", fix, report);
            return None;
        }
        let size = is_decimal(number).then(|| format!("{number}{binary}").parse::<Bytes>().ok()).flatten();
        match size {
            None => self.fail(Code::InvalidValue, "is not an amount of memory", fix, report),
            Some(size) if size.is_zero() || size > MAX_SIZE => {
                self.fail(Code::OutOfRange, "is outside the allowed range", fix, report);
            }
            Some(amount) => return Some(Quantity { amount, or_more }),
        }
        None
    }

    /// A decimal number with or without a plus behind it.
    fn amount(&self, fix: &str, report: &mut Report) -> Option<(&str, bool)> {
        let Some(text) = self.literal() else {
            self.wrong_type("a number", fix, report);
            return None;
        };
        let (number, or_more) = text.strip_suffix('+').map_or((text, false), |less| (less.trim(), true));
        if is_decimal(number) {
            return Some((number, or_more));
        }
        self.fail(Code::InvalidValue, "is not a plain number", fix, report);
        None
    }

    /// An amount of money above zero with its currency, `25 USD`.
    pub fn money(&self, ledger: Currency, report: &mut Report) -> Option<Micros> {
        let amount = self.amount_of_money(self.literal(), ledger, report)?;
        if amount <= Micros::ZERO {
            self.fail(Code::OutOfRange, "is not above zero", format!("write for example '25 {ledger}'"), report);
            return None;
        }
        Some(amount)
    }

    /// Money an hour with its currency, `3 USD` or `3 USD/h`; zero is allowed.
    pub fn money_per_hour(&self, ledger: Currency, report: &mut Report) -> Option<Rate> {
        let text = self.literal().map(|text| text.strip_suffix("/h").unwrap_or(text));
        let amount = self.amount_of_money(text, ledger, report)?;
        let rate = u64::try_from(amount.get()).ok().filter(|micros| *micros <= u64::MAX / 1_000).map(Rate::from_micros);
        if rate.is_none() {
            self.fail(Code::OutOfRange, "is negative", format!("write for example '3 {ledger}'"), report);
        }
        rate
    }

    /// A price for one machine an hour: SkyPilot's bare number means USD.
    pub fn price(&self, ledger: Currency, report: &mut Report) -> Option<Rate> {
        let rate = match self.node.value {
            Value::Number(text) if ledger == Currency::USD && is_decimal(text) && !text.starts_with('-') => {
                match Rate::parse_decimal(text) {
                    Ok(rate) => rate,
                    Err(error) => {
                        self.fail(Code::OutOfRange, money_problem(&error), "write for example 3.50", report);
                        return None;
                    }
                }
            }
            Value::Number(text) if ledger == Currency::USD => {
                let code = if is_decimal(text) { Code::OutOfRange } else { Code::InvalidValue };
                let fix = "write a plain decimal number above 0, such as 3.50, or with its currency, '3.50 USD'";
                self.fail(code, "is not a price", fix, report);
                return None;
            }
            _ => self.money_per_hour(ledger, report)?,
        };
        if rate.is_zero() {
            self.fail(Code::OutOfRange, "is not above zero", "write a price such as 3.50, or remove the line", report);
            return None;
        }
        Some(rate)
    }

    fn amount_of_money(&self, text: Option<&str>, ledger: Currency, report: &mut Report) -> Option<Micros> {
        let fix = format!("write an amount with its currency, such as '25 {ledger}'");
        let Some(text) = text else {
            self.wrong_type("an amount of money", fix, report);
            return None;
        };
        match parse_amount(text) {
            Ok((amount, currency)) if currency == ledger => return Some(amount),
            Ok((_, currency)) => {
                let problem = format!("is in {currency}, and this installation keeps its ledger in {ledger}");
                self.fail(Code::InvalidValue, problem, fix, report);
            }
            Err(error) => self.fail(Code::InvalidValue, money_problem(&error), fix, report),
        }
        None
    }
}

const fn money_problem(error: &MoneyError) -> &'static str {
    match error {
        MoneyError::NotANumber(_) => "is not an amount of money",
        MoneyError::TooPrecise(..) => "has more decimal places than money has",
        MoneyError::TooLarge(_) => "is too large",
        MoneyError::Negative(_) => "is negative",
        MoneyError::Currency(_) => "does not end in a currency code",
        MoneyError::NoCurrency(_) => "states no currency",
    }
}

/// A plain decimal with at most three places, in thousandths.
fn thousandths(number: &str) -> Option<u32> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 3 {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let fraction: u32 = if fraction.is_empty() { 0 } else { format!("{fraction:0<3}").parse().ok()? };
    whole.checked_mul(1_000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_06_numbers_that_yaml_dialects_disagree_about_are_not_plain_numbers() {
        for text in ["010", "1e3", "0x10", "0o10", "1_000", "+5", ".5", "5.", "", "-", "1.2.3", ".nan", ".inf", "٣"] {
            assert!(!is_decimal(text), "{text}");
        }
        for text in ["0", "10", "-3", "0.5", "12.75"] {
            assert!(is_decimal(text), "{text}");
        }
        assert!(is_whole("-12") && !is_whole("1.0") && !is_whole("00"));
    }

    #[test]
    fn thousandths_are_exact_or_nothing() {
        assert_eq!(thousandths("0.5"), Some(500));
        assert_eq!(thousandths("2.125"), Some(2_125));
        assert_eq!(thousandths("2.1250"), Some(2_125));
        assert_eq!(thousandths("0.0001"), None);
        assert_eq!(thousandths("4294968"), None);
        assert_eq!(thousandths("-1"), None);
    }
}
