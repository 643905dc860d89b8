//! Sizes in bytes. GB means 10^9 and GiB 2^30; providers differ in which they bill, so both are named.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Bytes(u64);

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a size; write a whole or decimal number with a unit, such as 500MB, 50GB or 64GiB")]
pub struct SizeError(String);

impl Bytes {
    pub const ZERO: Self = Self(0);
    pub const GB: u64 = 1_000_000_000;
    pub const GIB: u64 = 1 << 30;

    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    pub const fn from_gb(gb: u64) -> Self {
        Self(gb.saturating_mul(Self::GB))
    }

    pub const fn from_gib(gib: u64) -> Self {
        Self(gib.saturating_mul(Self::GIB))
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub fn as_gb_f64(self) -> f64 {
        self.0 as f64 / Self::GB as f64
    }

    pub fn as_gib_f64(self) -> f64 {
        self.0 as f64 / Self::GIB as f64
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0 as f64;
        let text = match self.0 {
            0..1_000 => format!("{} B", self.0),
            1_000..1_000_000 => format!("{:.1} kB", value / 1e3),
            1_000_000..1_000_000_000 => format!("{:.1} MB", value / 1e6),
            1_000_000_000..1_000_000_000_000 => format!("{:.1} GB", value / 1e9),
            _ => format!("{:.1} TB", value / 1e12),
        };
        f.pad(&text)
    }
}

impl FromStr for Bytes {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let bad = || SizeError(text.chars().take(64).collect());
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
        let scale: u128 = match unit.to_ascii_lowercase().as_str() {
            "b" => 1,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            "tib" => 1 << 40,
            _ => return Err(bad()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || whole.len() > 18 || fraction.len() > 6 || fraction.contains('.') {
            return Err(bad());
        }
        let parse = |part: &str| if part.is_empty() { Ok(0_u128) } else { part.parse::<u128>().map_err(|_| bad()) };
        let bytes = parse(whole)? * scale + parse(fraction)? * scale / 10_u128.pow(fraction.len() as u32);
        u64::try_from(bytes).map(Self).map_err(|_| bad())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_name_their_unit() {
        assert_eq!("50GB".parse::<Bytes>().unwrap(), Bytes::from_gb(50));
        assert_eq!("1.5 GiB".parse::<Bytes>().unwrap(), Bytes::new(3 << 29));
        for text in ["", "50", "-1GB", "1e3GB", "GB", "99999999999999999999GB", "1..5GB", "1.2.3GB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
