//! From one record to the offers it makes, or to the value that spoils it.

use leeway_model::cluster::Region;
use leeway_model::market::{Price, Source};
use leeway_model::resources::{Accelerators, CapacityType, MachineShape, MilliCpus};
use leeway_model::{Bytes, Currency, Micros, Name, Rate, Timestamp};

use super::layout::{Columns, Field, Layout};
use super::{CatalogRow, Options, Rule};
use crate::accelerator;
use crate::decimal::{self, NotAPrice};

/// Longest value of any column.
const LONGEST_VALUE: usize = 256;

/// A value that is not used, with the column it stands in.
pub(super) struct Fault {
    pub field: Field,
    pub rule: Rule,
    pub value: String,
}

/// What a record says.
pub(super) enum Found {
    Offer(CatalogRow),
    Fault(Fault),
    /// A second price that is left empty.
    Unpriced,
}

/// One record with its columns.
pub(super) struct Record<'a> {
    pub columns: &'a Columns,
    pub values: &'a csv::ByteRecord,
    pub options: &'a Options,
}

impl<'a> Record<'a> {
    /// Hands every offer and fault of the record to `take`. A fault of what all its offers share ends it.
    pub fn read(&self, take: &mut impl FnMut(Found)) {
        let shared = match self.shared() {
            Ok(shared) => shared,
            Err(fault) => return take(Found::Fault(fault)),
        };
        match self.columns.layout {
            Layout::Leeway | Layout::Gpuhunt => {
                take(self.capacity().and_then(|capacity| self.offer(shared, capacity, Field::Price)).into());
            }
            Layout::SkyPilot => self.two_prices(shared, take),
        }
    }

    /// A row with both prices makes up to two offers. Only when both are absent is that a fault (C-04).
    fn two_prices(&self, shared: Shared, take: &mut impl FnMut(Found)) {
        let (on_demand, spot) = (!self.raw(Field::Price).is_empty(), !self.raw(Field::SpotPrice).is_empty());
        match (on_demand, spot) {
            (true, true) => {
                take(self.offer(shared.clone(), CapacityType::OnDemand, Field::Price).into());
                take(self.offer(shared, CapacityType::Spot, Field::SpotPrice).into());
            }
            (false, true) => {
                take(Found::Unpriced);
                take(self.offer(shared, CapacityType::Spot, Field::SpotPrice).into());
            }
            (_, false) => {
                take(self.offer(shared, CapacityType::OnDemand, Field::Price).into());
                take(Found::Unpriced);
            }
        }
    }

    fn offer(&self, shared: Shared, capacity: CapacityType, field: Field) -> Result<CatalogRow, Fault> {
        let rate = self.rate(field, capacity)?;
        let Shared { region, zone, shape, currency, observed } = shared;
        let price = Price { rate, currency, observed, source: Source::Catalog };
        Ok(CatalogRow { region, zone, shape, capacity, price })
    }

    fn shared(&self) -> Result<Shared, Fault> {
        self.unit()?;
        let (region, zone) = self.place()?;
        Ok(Shared { region, zone, shape: self.shape()?, currency: self.currency()?, observed: self.observed()? })
    }

    fn unit(&self) -> Result<(), Fault> {
        if self.columns.layout != Layout::Leeway || self.raw(Field::Unit) == b"hour" {
            return Ok(());
        }
        Err(self.fault(Field::Unit, Rule::UnknownUnit))
    }

    fn currency(&self) -> Result<Currency, Fault> {
        let currency = match self.columns.layout {
            Layout::Leeway => self.text(Field::Currency)?.parse().ok(),
            Layout::SkyPilot | Layout::Gpuhunt => Some(Currency::USD),
        };
        currency
            .filter(|currency| self.options.currencies.contains(currency))
            .ok_or_else(|| self.fault(Field::Currency, Rule::UnknownCurrency))
    }

    fn observed(&self) -> Result<Timestamp, Fault> {
        match self.columns.layout {
            Layout::Leeway => self.text(Field::AsOf)?.parse().map_err(|_| self.fault(Field::AsOf, Rule::BadTime)),
            Layout::SkyPilot | Layout::Gpuhunt => Ok(self.options.as_of),
        }
    }

    fn capacity(&self) -> Result<CapacityType, Fault> {
        let field = if self.columns.layout == Layout::Gpuhunt { Field::IsSpot } else { Field::Capacity };
        match self.text(field)? {
            "spot" | "True" | "true" => Ok(CapacityType::Spot),
            "on-demand" | "False" | "false" => Ok(CapacityType::OnDemand),
            "reserved" if field == Field::Capacity => Ok(CapacityType::Reserved),
            _ => Err(self.fault(field, Rule::BadValue)),
        }
    }

    fn place(&self) -> Result<(Region, Option<Box<str>>), Fault> {
        let provider = match self.columns.layout {
            Layout::Leeway => self.text(Field::Provider)?,
            Layout::SkyPilot | Layout::Gpuhunt => self.options.provider.as_deref().unwrap_or_default(),
        };
        let location = self.text(Field::Region)?;
        let (region, zone) = match self.columns.layout {
            Layout::Gpuhunt => split_location(provider, location),
            Layout::Leeway | Layout::SkyPilot => (location, self.optional_text(Field::Zone)?),
        };
        let region = format!("{provider}/{}", region.to_ascii_lowercase());
        let region = region.parse().map_err(|_| self.fault(Field::Region, Rule::BadRegion))?;
        Ok((region, zone.map(Into::into)))
    }

    fn shape(&self) -> Result<MachineShape, Fault> {
        let instance_type = self.text(Field::InstanceType)?;
        Ok(MachineShape {
            name: shape_name(instance_type).ok_or_else(|| self.fault(Field::InstanceType, Rule::BadName))?,
            instance_type: instance_type.into(),
            cpus: self.cpus()?,
            memory: self.gibibytes(Field::Memory)?.ok_or_else(|| self.fault(Field::Memory, Rule::MissingValue))?,
            accelerators: self.accelerators()?,
            disk: self.gibibytes(Field::Disk)?.unwrap_or(Bytes::ZERO),
        })
    }

    fn cpus(&self) -> Result<MilliCpus, Fault> {
        let micros = self.number(Field::Cpus)?.ok_or_else(|| self.fault(Field::Cpus, Rule::MissingValue))?;
        match u32::try_from(micros / 1_000) {
            Ok(milli) if milli > 0 && micros % 1_000 == 0 => Ok(MilliCpus(milli)),
            _ => Err(self.fault(Field::Cpus, Rule::BadNumber)),
        }
    }

    /// A size given in GiB; `None` where the column is absent or empty.
    fn gibibytes(&self, field: Field) -> Result<Option<Bytes>, Fault> {
        let Some(micros) = self.number(field)? else { return Ok(None) };
        let bytes = u128::from(micros.unsigned_abs()) * u128::from(Bytes::GIB) / 1_000_000;
        match u64::try_from(bytes) {
            Ok(bytes) if micros > 0 => Ok(Some(Bytes::new(bytes))),
            _ => Err(self.fault(field, Rule::BadNumber)),
        }
    }

    fn accelerators(&self) -> Result<Option<Accelerators>, Fault> {
        let field = Field::AcceleratorCount;
        let model = self.optional_text(Field::Accelerator)?;
        let micros = self.number(field)?.unwrap_or(0);
        match (model, micros) {
            (_, ..0) => Err(self.fault(field, Rule::BadNumber)),
            (_, micros) if micros % 1_000_000 != 0 => Err(self.fault(field, Rule::FractionalAccelerators)),
            (None, 0) => Ok(None),
            (Some(_), 0) => Err(self.fault(field, Rule::NoAccelerators)),
            (None, _) => Err(self.fault(field, Rule::UnnamedAccelerators)),
            (Some(model), micros) => {
                let count = u32::try_from(micros / 1_000_000).map_err(|_| self.fault(field, Rule::BadNumber))?;
                let memory = self.number(Field::AcceleratorMemory)?.filter(|micros| micros % 1_000_000 == 0);
                let gib = memory.and_then(|micros| u64::try_from(micros / 1_000_000).ok());
                Ok(Some(Accelerators { model: accelerator::canonical_with_memory(model, gib).into(), count }))
            }
        }
    }

    /// A price; `free` is the operator's word for reserved capacity that is paid for anyway (C-03).
    fn rate(&self, field: Field, capacity: CapacityType) -> Result<Rate, Fault> {
        let text = self.optional_text(field)?.unwrap_or_default();
        if text == "free" && capacity == CapacityType::Reserved {
            return Ok(Rate::ZERO);
        }
        decimal::positive_rate(text).map_err(|fault| {
            let rule = match fault {
                NotAPrice::Missing => Rule::MissingPrice,
                NotAPrice::NotANumber => Rule::BadPrice,
                NotAPrice::Negative => Rule::NegativePrice,
                NotAPrice::Zero => Rule::ZeroPrice,
            };
            self.fault(field, rule)
        })
    }

    /// Millionths of the number in a column; `None` where the column is absent or empty.
    fn number(&self, field: Field) -> Result<Option<i64>, Fault> {
        let Some(text) = self.optional_text(field)? else { return Ok(None) };
        Micros::parse_decimal(text).map(|micros| Some(micros.get())).map_err(|_| self.fault(field, Rule::BadNumber))
    }

    fn text(&self, field: Field) -> Result<&'a str, Fault> {
        self.optional_text(field)?.ok_or_else(|| self.fault(field, Rule::MissingValue))
    }

    fn optional_text(&self, field: Field) -> Result<Option<&'a str>, Fault> {
        match std::str::from_utf8(self.raw(field)) {
            Ok(text) if text.len() <= LONGEST_VALUE && !text.bytes().any(|byte| byte.is_ascii_control()) => {
                Ok(Some(text).filter(|text| !text.is_empty()))
            }
            _ => Err(self.fault(field, Rule::BadText)),
        }
    }

    fn raw(&self, field: Field) -> &'a [u8] {
        self.columns.index(field).and_then(|at| self.values.get(at)).unwrap_or_default().trim_ascii()
    }

    fn fault(&self, field: Field, rule: Rule) -> Fault {
        Fault { field, rule, value: String::from_utf8_lossy(self.raw(field)).into_owned() }
    }
}

impl From<Result<CatalogRow, Fault>> for Found {
    fn from(result: Result<CatalogRow, Fault>) -> Self {
        result.map_or_else(Self::Fault, Self::Offer)
    }
}

/// What all offers of one record have in common.
#[derive(Clone)]
struct Shared {
    region: Region,
    zone: Option<Box<str>>,
    shape: MachineShape,
    currency: Currency,
    observed: Timestamp,
}

/// gpuhunt gives a region, but for GCP a zone: a region's name and one more letter.
fn split_location<'a>(provider: &str, location: &'a str) -> (&'a str, Option<&'a str>) {
    match location.rsplit_once('-') {
        Some((region, letter)) if provider == "gcp" && letter.len() == 1 => (region, Some(location)),
        _ => (location, None),
    }
}

/// `Standard_NC24ads_A100_v4` as a name: `standard-nc24ads-a100-v4`.
fn shape_name(instance_type: &str) -> Option<Name> {
    let mut name = String::with_capacity(instance_type.len());
    for c in instance_type.chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(63);
    name.trim_end_matches('-').parse().ok()
}
