//! The layouts a catalog may have, told apart by their header.

use std::fmt;

use super::Error;

/// Which program's column names a file uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Leeway's own: a row is one offer, with its unit, currency and date.
    Leeway,
    /// SkyPilot's catalogs: a row is a machine with an on-demand and a spot price.
    SkyPilot,
    /// The raw catalogs of gpuhunt: a row is one offer; the provider is the file's name.
    Gpuhunt,
}

/// What a column says, whatever a layout calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Provider,
    Region,
    Zone,
    InstanceType,
    Accelerator,
    AcceleratorCount,
    AcceleratorMemory,
    Cpus,
    Memory,
    Disk,
    Capacity,
    IsSpot,
    Price,
    SpotPrice,
    Currency,
    Unit,
    AsOf,
}

const FIELDS: usize = Field::AsOf as usize + 1;

#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    field: Field,
    required: bool,
}

const fn required(name: &'static str, field: Field) -> Column {
    Column { name, field, required: true }
}

const fn optional(name: &'static str, field: Field) -> Column {
    Column { name, field, required: false }
}

const LEEWAY: &[Column] = &[
    required("provider", Field::Provider),
    required("region", Field::Region),
    optional("zone", Field::Zone),
    required("instance_type", Field::InstanceType),
    required("accelerator", Field::Accelerator),
    required("accelerator_count", Field::AcceleratorCount),
    required("cpus", Field::Cpus),
    required("memory_gib", Field::Memory),
    optional("disk_gib", Field::Disk),
    required("capacity", Field::Capacity),
    required("price_per_hour", Field::Price),
    required("currency", Field::Currency),
    required("unit", Field::Unit),
    required("as_of", Field::AsOf),
];

const SKYPILOT: &[Column] = &[
    required("InstanceType", Field::InstanceType),
    required("AcceleratorName", Field::Accelerator),
    required("AcceleratorCount", Field::AcceleratorCount),
    required("vCPUs", Field::Cpus),
    required("MemoryGiB", Field::Memory),
    required("Price", Field::Price),
    required("SpotPrice", Field::SpotPrice),
    required("Region", Field::Region),
    optional("AvailabilityZone", Field::Zone),
];

const GPUHUNT: &[Column] = &[
    required("instance_name", Field::InstanceType),
    required("location", Field::Region),
    required("price", Field::Price),
    required("cpu", Field::Cpus),
    required("memory", Field::Memory),
    required("gpu_count", Field::AcceleratorCount),
    required("gpu_name", Field::Accelerator),
    optional("gpu_memory", Field::AcceleratorMemory),
    required("spot", Field::IsSpot),
    optional("disk_size", Field::Disk),
];

impl Layout {
    pub const ALL: [Self; 3] = [Self::Leeway, Self::SkyPilot, Self::Gpuhunt];

    const fn columns(self) -> &'static [Column] {
        match self {
            Self::Leeway => LEEWAY,
            Self::SkyPilot => SKYPILOT,
            Self::Gpuhunt => GPUHUNT,
        }
    }

    /// Name of the column that says `field`, for messages.
    pub(super) fn name_of(self, field: Field) -> &'static str {
        self.columns().iter().find(|column| column.field == field).map_or("", |column| column.name)
    }

    fn missing(self, header: &[&str]) -> Vec<&'static str> {
        let absent = |column: &&Column| column.required && !header.contains(&column.name);
        self.columns().iter().filter(absent).map(|column| column.name).collect()
    }

    fn found(self, header: &[&str]) -> usize {
        self.columns().iter().filter(|column| header.contains(&column.name)).count()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Leeway => "leeway",
            Self::SkyPilot => "skypilot",
            Self::Gpuhunt => "gpuhunt",
        })
    }
}

/// Where each field stands in the records of one file.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    pub layout: Layout,
    /// Fields a record must have.
    pub width: usize,
    at: [Option<usize>; FIELDS],
}

impl Columns {
    /// Finds the layout that the header fits, or says what is missing to the one it resembles most.
    pub fn detect(header: &[&str]) -> Result<Self, Error> {
        if let Some((at, name)) = header.iter().enumerate().find(|(at, name)| header[..*at].contains(name)) {
            return Err(Error::DuplicateColumn { column: (*name).into(), position: at + 1 });
        }
        let nearest = Layout::ALL
            .into_iter()
            .min_by_key(|layout| (layout.missing(header).len(), usize::MAX - layout.found(header)))
            .unwrap_or(Layout::Leeway);
        if nearest.found(header) == 0 {
            return Err(Error::UnknownLayout { header: clip(header) });
        }
        let missing = nearest.missing(header);
        if !missing.is_empty() {
            return Err(Error::MissingColumns { layout: nearest, missing: missing.join(", ") });
        }
        let mut at = [None; FIELDS];
        for column in nearest.columns() {
            at[column.field as usize] = header.iter().position(|name| *name == column.name);
        }
        Ok(Self { layout: nearest, width: header.len(), at })
    }

    pub fn index(&self, field: Field) -> Option<usize> {
        self.at[field as usize]
    }
}

fn clip(header: &[&str]) -> String {
    leeway_model::name::escape(&header.join(","))
}
