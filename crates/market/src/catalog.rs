//! Price catalogs: files that list what machines a provider sells, where, and for how much.
//!
//! A catalog is judged row by row. A row that cannot be trusted is set aside with its line, its column and the rule it
//! broke, and the rest loads; only a file whose shape is wrong (no known header, an unclosed quote) is refused whole.
//! No value is ever guessed: an absent price makes no offer, and a number written `1,5` is not a number.
//!
//! ```text
//! bytes -> guard (line length, quotes) -> csv -> layout (which column says what) -> row -> settle (conflicts, range)
//! ```

use std::collections::BTreeMap;
use std::fmt;

use leeway_model::cluster::Region;
use leeway_model::market::Price;
use leeway_model::resources::{CapacityType, MachineShape};
use leeway_model::{Currency, Timestamp};

mod guard;
mod layout;
mod machines;
mod read;
mod row;
mod settle;

pub use layout::Layout;
pub use machines::machines_in;
pub use read::{ROWS_MAX, read};

/// What a file does not say about itself.
#[derive(Clone, Debug)]
pub struct Options {
    /// Provider of layouts that name none in their rows (SkyPilot, gpuhunt); lower case.
    pub provider: Option<String>,
    /// When the prices were observed, for layouts that do not say.
    pub as_of: Timestamp,
    /// Currencies whose exchange rate the ledger knows. Layouts without a currency column mean USD.
    pub currencies: Vec<Currency>,
}

impl Options {
    /// USD prices of `provider` as of an instant.
    pub fn of_provider(provider: &str, as_of: Timestamp) -> Self {
        Self { provider: Some(provider.to_owned()), as_of, currencies: vec![Currency::USD] }
    }
}

/// What a catalog file holds, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// `None` for a file without a header.
    pub layout: Option<Layout>,
    pub rows: Vec<CatalogRow>,
    /// The first [`QUARANTINED_MAX`] values that were set aside; `counts` counts all of them.
    pub quarantined: Vec<Quarantined>,
    pub counts: BTreeMap<Rule, u64>,
    /// Offers that a row with two prices leaves open: a machine that is not sold as spot, for example. They are no
    /// fault and make no offer.
    pub unpriced: u64,
    /// Records read after the header.
    pub records: u64,
}

/// Quarantined values kept with their details.
pub const QUARANTINED_MAX: usize = 1_000;

/// One offer: a machine at a place under one capacity type, with its price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogRow {
    pub region: Region,
    /// The provider's own spelling; `None` when the price holds for the whole region.
    pub zone: Option<Box<str>>,
    /// Disk is zero where the catalog does not state it.
    pub shape: MachineShape,
    pub capacity: CapacityType,
    pub price: Price,
}

impl CatalogRow {
    pub fn provider(&self) -> &str {
        self.region.provider()
    }
}

/// A value that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Line of the record's first character, counted from 1.
    pub line: u64,
    /// The column as the file names it.
    pub column: &'static str,
    pub rule: Rule,
    /// The value, clipped and escaped.
    pub value: Box<str>,
}

/// Why a value is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    MissingPrice,
    BadPrice,
    NegativePrice,
    ZeroPrice,
    PriceOutOfRange,
    UnknownCurrency,
    UnknownUnit,
    NoAccelerators,
    UnnamedAccelerators,
    FractionalAccelerators,
    MissingValue,
    BadNumber,
    BadValue,
    BadRegion,
    BadName,
    BadTime,
    BadText,
    WrongWidth,
    Superseded,
}

impl Rule {
    /// Stable code, for counters and messages.
    pub const fn code(self) -> &'static str {
        match self {
            Self::MissingPrice => "MISSING_PRICE",
            Self::BadPrice => "BAD_PRICE",
            Self::NegativePrice => "NEGATIVE_PRICE",
            Self::ZeroPrice => "ZERO_PRICE",
            Self::PriceOutOfRange => "PRICE_OUT_OF_RANGE",
            Self::UnknownCurrency => "UNKNOWN_CURRENCY",
            Self::UnknownUnit => "UNKNOWN_UNIT",
            Self::NoAccelerators => "NO_ACCELERATORS",
            Self::UnnamedAccelerators => "UNNAMED_ACCELERATORS",
            Self::FractionalAccelerators => "FRACTIONAL_ACCELERATORS",
            Self::MissingValue => "MISSING_VALUE",
            Self::BadNumber => "BAD_NUMBER",
            Self::BadValue => "BAD_VALUE",
            Self::BadRegion => "BAD_REGION",
            Self::BadName => "BAD_NAME",
            Self::BadTime => "BAD_TIME",
            Self::BadText => "BAD_TEXT",
            Self::WrongWidth => "WRONG_WIDTH",
            Self::Superseded => "SUPERSEDED",
        }
    }

    /// What is wrong and what to write instead.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::MissingPrice => "no price is given; the offer cannot be used",
            Self::BadPrice => "not a price; write a decimal number such as 3.06",
            Self::NegativePrice => "a price must be above zero",
            Self::ZeroPrice => "a price must be above zero; capacity that is paid for anyway is 'reserved' and 'free'",
            Self::PriceOutOfRange => "outside 0.02 to 5 times the on-demand price of the same machine and region",
            Self::UnknownCurrency => "no exchange rate is known for this currency",
            Self::UnknownUnit => "the unit must be 'hour'",
            Self::NoAccelerators => "an accelerator is named but its count is 0 or absent",
            Self::UnnamedAccelerators => "accelerators are counted but not named",
            Self::FractionalAccelerators => "accelerators come in whole numbers",
            Self::MissingValue => "a value is required here",
            Self::BadNumber => "not a decimal number above zero; write it without separators or exponent",
            Self::BadValue => "not one of the words this column knows",
            Self::BadRegion => "not a region; use lower-case letters, digits and '-'",
            Self::BadName => "a machine's name needs a letter or digit",
            Self::BadTime => "not an instant; write it as 2026-03-14T15:09:26Z",
            Self::BadText => "not UTF-8, too long, or with a control character in it",
            Self::WrongWidth => "the record has another number of values than the header",
            Self::Superseded => "another row of the same offer is newer, or of the same time and dearer",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}

impl fmt::Display for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, rule, value } = self;
        write!(f, "line {line}, column {column}: {rule}: '{value}': {}", rule.advice())
    }
}

/// Why a whole file is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the catalog: {0}")]
    Io(#[from] std::io::Error),
    #[error("line {line}: {reason}")]
    Line { line: u64, reason: String },
    #[error("line 1: no known catalog layout has any of these columns: {header}")]
    UnknownLayout { header: String },
    #[error("line 1: the header resembles the {layout} layout but lacks: {missing}")]
    MissingColumns { layout: Layout, missing: String },
    #[error("line 1: column '{column}' stands twice, the second time at position {position}")]
    DuplicateColumn { column: Box<str>, position: usize },
    #[error("a {layout} catalog does not name its provider; give it beside the file, such as aws")]
    NoProvider { layout: Layout },
    #[error("the provider '{provider}' is not a name; use lower-case letters, digits and '-'")]
    BadProvider { provider: String },
    #[error("the catalog has more than {ROWS_MAX} records; split it by provider or region")]
    TooManyRows,
}

impl Catalog {
    /// Values set aside, over all rules.
    pub fn quarantined_total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Why the catalog offers nothing, if it does not.
    pub fn note(&self) -> Option<&'static str> {
        match (self.rows.is_empty(), self.records) {
            (false, _) => None,
            (true, 0) => Some("the catalog is empty: no machine can be offered from it"),
            (true, _) => Some("no record of the catalog is usable: no machine can be offered from it"),
        }
    }

    fn quarantine(&mut self, line: u64, column: &'static str, rule: Rule, value: &str) {
        *self.counts.entry(rule).or_default() += 1;
        if self.quarantined.len() < QUARANTINED_MAX {
            let value = leeway_model::name::escape(value).into();
            self.quarantined.push(Quarantined { line, column, rule, value });
        }
    }
}
