//! Datasets.

use std::collections::BTreeSet;

use leeway_model::Bytes;
use leeway_model::dataset::{Dataset, Replica};

use crate::limits::REPLICAS_MAX;
use crate::{Invalid, check, pb};

impl From<&Dataset> for pb::Dataset {
    fn from(value: &Dataset) -> Self {
        let replica = |r: &Replica| pb::Replica { region: r.region.to_string(), url: r.url.to_string() };
        Self {
            name: value.name.to_string(),
            size_bytes: value.size.get(),
            replicas: value.replicas.iter().map(replica).collect(),
        }
    }
}

impl TryFrom<pb::Dataset> for Dataset {
    type Error = Invalid;

    fn try_from(wire: pb::Dataset) -> Result<Self, Invalid> {
        let replicas = check::list("replicas", wire.replicas, 1..=REPLICAS_MAX, |replica| {
            Ok(Replica {
                region: check::region("region", &replica.region)?,
                url: check::url("url", replica.url, "s3://bucket/path")?,
            })
        })?;
        let mut regions = BTreeSet::new();
        if let Some(index) = replicas.iter().position(|replica| !regions.insert(&replica.region)) {
            let message = format!("'{}' is there twice; one copy a region is enough", replicas[index].region);
            return Err(Invalid::new(format!("replicas[{index}].region"), message));
        }
        Ok(Self { name: check::name("name", &wire.name)?, size: Bytes::new(wire.size_bytes), replicas })
    }
}
