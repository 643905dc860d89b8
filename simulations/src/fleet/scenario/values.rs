//! Values of scenarios that TOML has no type for, and messages that name the nearest known key.

use std::fmt::Display;
use std::str::FromStr;

use leeway_model::{Micros, Millis, Rate};
use serde::{Deserialize, Deserializer, de};

use super::super::setup::Span;

/// Reads a text by its `FromStr`.
///
/// # Errors
/// What `FromStr` says.
pub fn text<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr,
    T::Err: Display,
    D: Deserializer<'de>,
{
    let text = String::deserialize(from)?;
    text.parse().map_err(de::Error::custom)
}

/// As [`text`], for a key that may be absent.
///
/// # Errors
/// What `FromStr` says.
pub fn maybe_text<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: FromStr,
    T::Err: Display,
    D: Deserializer<'de>,
{
    text(from).map(Some)
}

/// An amount of dollars, as a number or a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Money(pub Micros);

/// Dollars an hour, as a number or a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price(pub Rate);

/// A length, `90s`, or an even spread of lengths, `20s..90s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range(pub Span);

/// A number as the text that stands for it; TOML's floats print as the shortest text that reads back as them.
fn decimal<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an amount is a number or a text such as \"3.06\"")]
    enum Number {
        Whole(u64),
        Part(f64),
        Text(String),
    }
    Ok(match Number::deserialize(from)? {
        Number::Whole(number) => number.to_string(),
        Number::Part(number) => format!("{number}"),
        Number::Text(text) => text.trim().trim_end_matches("USD").trim_end().to_owned(),
    })
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = decimal(from)?;
        let amount = Micros::parse_decimal(&text).map_err(de::Error::custom)?;
        if amount.is_negative() {
            return Err(de::Error::custom(format!("'{text}' is negative; write an amount from 0 on")));
        }
        Ok(Self(amount))
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Rate::parse_decimal(&decimal(from)?).map(Self).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let read = |part: &str| part.trim().parse::<Millis>().map_err(de::Error::custom);
        let span = match text.split_once("..") {
            Some((low, high)) => Span { low: read(low)?, high: read(high)? },
            None => Span::of(read(&text)?),
        };
        if span.low > span.high {
            return Err(de::Error::custom(format!("'{text}' runs backwards; write the shorter length first")));
        }
        Ok(Self(span))
    }
}

/// A message of the reader, with the known key that an unknown one most likely meant.
pub fn explained(error: &toml::de::Error) -> String {
    let mut text = error.to_string().trim_end().to_owned();
    if let Some(near) = nearest(error.message()) {
        text.push_str(&format!("\ndid you mean `{near}`?"));
    }
    text
}

/// Of "unknown field `a`, expected one of `b`, `c`" the name that is nearest to the first.
fn nearest(message: &str) -> Option<&str> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let mut names = message.split('`').skip(1).step_by(2);
    near(names.next()?, names)
}

/// The known name that an unknown one most likely meant.
pub fn near<'a>(unknown: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|known| (strsim::damerau_levenshtein(unknown, known), known))
        .filter(|(distance, known)| *distance <= (known.len() / 3).max(1))
        .min()
        .map(|(_, known)| known)
}

/// Sets `key` of a scenario, such as `world.notice` or `clusters.0.count`, to a value as TOML writes it; a bare word is
/// a text.
///
/// # Errors
/// What is wrong with the key.
pub fn set(table: &mut toml::Table, key: &str, value: &str) -> Result<(), String> {
    let wrapped = format!("value = {value}");
    let value = match toml::from_str::<toml::Table>(&wrapped) {
        Ok(mut parsed) => parsed.remove("value").unwrap_or_else(|| toml::Value::String(value.to_owned())),
        Err(_) => toml::Value::String(value.to_owned()),
    };
    let parts: Vec<&str> = key.split('.').collect();
    let (Some(last), path) = (parts.last(), &parts[..parts.len() - 1]) else { return Err("is empty".into()) };
    let Some((first, rest)) = path.split_first() else {
        table.insert((*last).to_owned(), value);
        return Ok(());
    };
    let mut at = table.entry((*first).to_owned()).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    for part in rest {
        at = step(at, part)?;
    }
    *step(at, last)? = value;
    Ok(())
}

fn step<'t>(at: &'t mut toml::Value, part: &str) -> Result<&'t mut toml::Value, String> {
    match at {
        toml::Value::Table(table) => {
            Ok(table.entry(part.to_owned()).or_insert_with(|| toml::Value::Table(toml::Table::new())))
        }
        toml::Value::Array(list) => {
            let length = list.len();
            let found = part.parse().ok().and_then(|index: usize| list.get_mut(index));
            found.ok_or_else(|| format!("'{part}' is not the number of an entry; there are 0 to {}", length.max(1) - 1))
        }
        _ => Err(format!("'{part}' leads into a single value")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        cap: Option<Money>,
        price: Option<Price>,
        boot: Option<Range>,
    }

    fn read(text: &str) -> Result<Sample, String> {
        toml::from_str(text).map_err(|error| explained(&error))
    }

    #[test]
    fn amounts_are_numbers_or_texts_and_never_pass_through_a_binary_fraction() {
        let sample = read("cap = 0.1\nprice = \"3.06 USD\"").unwrap();
        assert_eq!(sample.cap, Some(Money(Micros::new(100_000))));
        assert_eq!(sample.price, Some(Price(Rate::from_micros(3_060_000))));
        for wrong in ["cap = -1", "cap = nan", "cap = true", "price = \"cheap\"", "price = -0.1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_range_has_one_end_or_two() {
        assert_eq!(read("boot = \"90s\"").unwrap().boot, Some(Range(Span::of(Millis::from_secs(90)))));
        assert!(read("boot = \"20s..90s\"").is_ok());
        assert!(read("boot = \"90s..20s\"").unwrap_err().contains("backwards"));
        assert!(read("boot = \"90\"").unwrap_err().contains("90"));
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_nearest_one() {
        let text = read("boots = \"90s\"").unwrap_err();
        assert!(text.contains("line 1") && text.ends_with("did you mean `boot`?"), "{text}");
        assert!(!read("nonsense = 1").unwrap_err().contains("did you mean"));
    }

    #[test]
    fn a_setting_reaches_into_tables_and_lists() {
        let mut table: toml::Table = toml::from_str("length = \"1d\"\n[[clusters]]\ncount = 1").unwrap();
        set(&mut table, "length", "2d").unwrap();
        set(&mut table, "clusters.0.count", "64").unwrap();
        set(&mut table, "world.notice", "30s").unwrap();
        let text = toml::to_string(&table).unwrap();
        assert!(text.contains("length = \"2d\"") && text.contains("count = 64") && text.contains("notice = \"30s\""));
        assert!(set(&mut table, "clusters.7.count", "64").unwrap_err().contains("0 to 0"));
        assert!(set(&mut table, "length.more", "1").unwrap_err().contains("single value"));
    }
}
