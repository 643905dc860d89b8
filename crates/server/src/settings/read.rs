//! Reading the texts of the configuration: lengths, amounts, addresses. Every refusal names key, value and fix.

use std::fmt::Display;
use std::net::SocketAddr;
use std::str::FromStr;

use leeway_model::name::escape;
use leeway_model::{Bytes, Currency, Micros, Millis, Rate};

use super::SettingsError;

pub type Result<T> = std::result::Result<T, SettingsError>;

/// A value that must be given.
pub fn required<'a>(key: &str, value: Option<&'a str>) -> Result<&'a str> {
    value.ok_or_else(|| SettingsError::new(key, "is missing; it must be set"))
}

/// Anything with a reading of its own, whose error says what would do.
pub fn parsed<T: FromStr<Err: Display>>(key: &str, text: &str) -> Result<T> {
    text.parse().map_err(|error: T::Err| SettingsError::new(key, error.to_string()))
}

pub fn optional<T: FromStr<Err: Display>>(key: &str, text: Option<&str>) -> Result<Option<T>> {
    text.map(|text| parsed(key, text)).transpose()
}

/// Shortest length of time of most keys: below it nothing here could keep up.
pub const SECOND: Millis = Millis::from_secs(1);

/// A length of time of at least `shortest`, put in place of the default when it is given.
pub fn length(key: &str, text: Option<&str>, shortest: Millis, target: &mut Millis) -> Result<()> {
    let Some(text) = text else { return Ok(()) };
    let length: Millis = parsed(key, text)?;
    let longest = Millis::from_hours(24 * 366 * 10);
    if length < shortest || length > longest {
        return Err(SettingsError::new(key, format!("'{}' is out of range; use {shortest} to 10 years", escape(text))));
    }
    *target = length;
    Ok(())
}

pub fn size(key: &str, text: Option<&str>, target: &mut Bytes) -> Result<()> {
    if let Some(text) = text {
        let size: Bytes = parsed(key, text)?;
        if size.is_zero() {
            return Err(SettingsError::new(key, "is zero; write a size such as 64MiB"));
        }
        *target = size;
    }
    Ok(())
}

/// `3.06 USD`: the number, when the currency is the ledger's.
fn number_of<'a>(key: &str, text: &'a str, ledger: Currency) -> Result<&'a str> {
    let Some((number, unit)) = text.trim().rsplit_once(char::is_whitespace) else {
        let message = format!("'{}' states no currency; write for example '{} {ledger}'", escape(text), escape(text));
        return Err(SettingsError::new(key, message));
    };
    let currency: Currency = parsed(key, unit)?;
    if currency == ledger {
        return Ok(number.trim());
    }
    Err(SettingsError::new(
        key,
        format!("'{}' is in {currency}, but the ledger is in {ledger}; state it in {ledger}", escape(text)),
    ))
}

/// An amount of money.
pub fn amount(key: &str, text: &str, ledger: Currency) -> Result<Micros> {
    let number = number_of(key, text, ledger)?;
    let amount = Micros::parse_decimal(number).map_err(|error| SettingsError::new(key, error.to_string()))?;
    if amount.is_negative() {
        return Err(SettingsError::new(key, format!("'{}' is negative; use zero or more", escape(text))));
    }
    Ok(amount)
}

/// A price for an hour.
pub fn rate(key: &str, text: &str, ledger: Currency) -> Result<Rate> {
    let number = number_of(key, text, ledger)?;
    Rate::parse_decimal(number).map_err(|error| SettingsError::new(key, error.to_string()))
}

/// An address on this machine: as long as there is neither TLS nor authentication, nothing else may reach us.
pub fn loopback(key: &str, text: &str) -> Result<SocketAddr> {
    let address: SocketAddr = text.parse().map_err(|_| {
        SettingsError::new(key, format!("'{}' is not an address; write it as 127.0.0.1:7070", escape(text)))
    })?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(SettingsError::new(
        key,
        format!(
            "{address} can be reached from other machines, and this version has neither TLS nor authentication; listen on 127.0.0.1 or [::1]"
        ),
    ))
}

/// One of a few words.
pub fn word<T: Copy>(key: &str, text: &str, choices: &[(&str, T)]) -> Result<T> {
    choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        SettingsError::new(key, format!("'{}' is unknown; use one of {}", escape(text), names.join(", ")))
    })
}
