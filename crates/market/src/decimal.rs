//! Prices as decimal text, never through a float.
//!
//! Published catalogs and traces are often written by programs that hold prices as floats, so that `17.529216` appears
//! as `17.529215999999998`. Such a tail is rounded to the nearest nano-unit on the digits themselves. What no program
//! that means a price would write (an exponent, forty digits, a thousands separator) is refused.

use leeway_model::Rate;
use leeway_model::money::MoneyError;

/// Why a text is not a usable price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum NotAPrice {
    #[error("no price is given")]
    Missing,
    #[error("not a plain decimal number such as 3.06")]
    NotANumber,
    #[error("negative")]
    Negative,
    #[error("zero, or below a billionth of a currency unit")]
    Zero,
}

/// Longest text taken for a price: 18 whole digits are already beyond any price, and a float prints at most 17.
const LONGEST: usize = 32;
const PLACES: usize = 9;

/// A positive price in currency units an hour (or a GB), rounded to the nearest nano-unit.
pub fn positive_rate(text: &str) -> Result<Rate, NotAPrice> {
    let rate = rate(text)?;
    if rate.is_zero() { Err(NotAPrice::Zero) } else { Ok(rate) }
}

/// Like [`positive_rate`], but zero is a value: egress inside a region may be free.
pub fn rate(text: &str) -> Result<Rate, NotAPrice> {
    let text = text.trim();
    if text.is_empty() {
        return Err(NotAPrice::Missing);
    }
    if text.len() > LONGEST {
        return Err(NotAPrice::NotANumber);
    }
    let (kept, round_up) = cut_places(text)?;
    let rate = Rate::parse_decimal(kept).map_err(|error| match error {
        MoneyError::Negative(_) => NotAPrice::Negative,
        _ => NotAPrice::NotANumber,
    })?;
    let nanos = rate.nanos_per_hour().checked_add(u64::from(round_up)).ok_or(NotAPrice::NotANumber)?;
    Ok(Rate::from_nanos(nanos))
}

/// The text up to its ninth decimal place, and whether the digits after it round it up.
fn cut_places(text: &str) -> Result<(&str, bool), NotAPrice> {
    let Some(point) = text.find('.') else { return Ok((text, false)) };
    let Some(tail) = text.as_bytes().get(point + 1 + PLACES..).filter(|tail| !tail.is_empty()) else {
        return Ok((text, false));
    };
    // The tail is all digits, hence ASCII, hence the cut before it lies on a character boundary.
    if !tail.iter().all(u8::is_ascii_digit) {
        return Err(NotAPrice::NotANumber);
    }
    let kept = text.get(..point + 1 + PLACES).ok_or(NotAPrice::NotANumber)?;
    Ok((kept, tail[0] >= b'5' && !text.starts_with('-')))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_float_tail_is_rounded_on_its_digits() {
        for (text, nanos) in [
            ("17.529215999999998", 17_529_216_000),
            ("107.00772038400001", 107_007_720_384),
            ("3.06", 3_060_000_000),
            ("0.9999999999", 1_000_000_000),
            ("0.0000000005", 1),
            ("+2", 2_000_000_000),
        ] {
            assert_eq!(positive_rate(text).unwrap().nanos_per_hour(), nanos, "{text}");
        }
    }

    #[test]
    fn c_01_c_02_c_03_c_04_nan_negative_zero_and_missing_are_told_apart() {
        for (text, fault) in [
            ("NaN", NotAPrice::NotANumber),
            ("inf", NotAPrice::NotANumber),
            ("-Infinity", NotAPrice::NotANumber),
            ("-0.5", NotAPrice::Negative),
            ("-0.50000000000001", NotAPrice::Negative),
            ("0", NotAPrice::Zero),
            ("0.00000000001", NotAPrice::Zero),
            ("", NotAPrice::Missing),
            ("  ", NotAPrice::Missing),
        ] {
            assert_eq!(positive_rate(text), Err(fault), "{text}");
        }
    }

    #[test]
    fn c_06_exponents_separators_and_forty_digits_are_refused() {
        for text in ["1e300", "1e-300", "1,5", "1 000", "1.5.5", "0.1234567891x", "0.12345678ä1", ".", "$3", "0x1"] {
            assert_eq!(positive_rate(text), Err(NotAPrice::NotANumber), "{text}");
        }
        assert!(positive_rate(&"9".repeat(40)).is_err());
        assert!(positive_rate(&format!("0.{}", "9".repeat(40))).is_err());
        assert!(positive_rate("99999999999999999999").is_err());
    }

    proptest! {
        #[test]
        fn any_text_gives_a_price_or_a_reason(text in any::<String>()) {
            let _ = positive_rate(&text);
        }

        #[test]
        fn a_shown_rate_reads_back(nanos in 1_u64..1_000_000_000_000_000) {
            let rate = Rate::from_nanos(nanos);
            prop_assert_eq!(positive_rate(&rate.to_string()), Ok(rate));
        }
    }
}
