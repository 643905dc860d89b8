//! Machines, what jobs ask of them, offers' keys, prices, checkpoints: what several services share.

use leeway_model::checkpoint::{CheckpointId, CheckpointRef};
use leeway_model::job::{Progress, Reason, Upload};
use leeway_model::market::{OfferKey, Price};
use leeway_model::resources::{Accelerators, Infra, MachineShape, MilliCpus, Quantity, ResourceRequest, SpotPolicy};
use leeway_model::{Bytes, Rate};

use super::one_of;
use crate::check;
use crate::invalid::Within;
use crate::limits::{ACCELERATORS_MAX, INSTANCE_TYPE_MAX, NODES_MAX, WORD_MAX};
use crate::{Invalid, pb};

impl From<&Accelerators> for pb::Accelerators {
    fn from(value: &Accelerators) -> Self {
        Self { model: value.model.to_string(), count: value.count }
    }
}

impl TryFrom<pb::Accelerators> for Accelerators {
    type Error = Invalid;

    fn try_from(wire: pb::Accelerators) -> Result<Self, Invalid> {
        Ok(Self {
            model: check::word("model", wire.model, WORD_MAX)?,
            count: check::between("count", wire.count, 1..=ACCELERATORS_MAX)?,
        })
    }
}

impl From<&MachineShape> for pb::MachineShape {
    fn from(value: &MachineShape) -> Self {
        Self {
            name: value.name.to_string(),
            instance_type: value.instance_type.to_string(),
            milli_cpus: value.cpus.0,
            memory_bytes: value.memory.get(),
            accelerators: value.accelerators.as_ref().map(Into::into),
            disk_bytes: value.disk.get(),
        }
    }
}

impl TryFrom<pb::MachineShape> for MachineShape {
    type Error = Invalid;

    fn try_from(wire: pb::MachineShape) -> Result<Self, Invalid> {
        Ok(Self {
            name: check::name("name", &wire.name)?,
            instance_type: check::word("instance_type", wire.instance_type, INSTANCE_TYPE_MAX)?,
            cpus: MilliCpus(check::between("milli_cpus", wire.milli_cpus, 1..=u32::MAX)?),
            memory: Bytes::new(check::between("memory_bytes", wire.memory_bytes, 1..=u64::MAX)?),
            accelerators: wire.accelerators.map(Accelerators::try_from).transpose().within("accelerators")?,
            disk: Bytes::new(wire.disk_bytes),
        })
    }
}

impl From<&ResourceRequest> for pb::ResourceRequest {
    fn from(value: &ResourceRequest) -> Self {
        let Infra { cluster_or_provider, region, zone } = &value.infra;
        let text = |part: &Option<Box<str>>| part.as_deref().map(str::to_owned);
        Self {
            accelerators: value.accelerators.as_ref().map(Into::into),
            cpus: value.cpus.map(|q| pb::CpuQuantity { milli_cpus: q.amount.0, or_more: q.or_more }),
            memory: value.memory.map(|q| pb::ByteQuantity { amount_bytes: q.amount.get(), or_more: q.or_more }),
            disk_bytes: value.disk.map(Bytes::get),
            instance_type: text(&value.instance_type),
            infra: (value.infra != Infra::default()).then(|| pb::Infra {
                cluster_or_provider: text(cluster_or_provider),
                region: text(region),
                zone: text(zone),
            }),
            spot: pb::SpotPolicy::from(value.spot).into(),
            max_hourly_cost_nanos_per_hour: value.max_hourly_cost.map(Rate::nanos_per_hour),
        }
    }
}

impl TryFrom<pb::ResourceRequest> for ResourceRequest {
    type Error = Invalid;

    fn try_from(wire: pb::ResourceRequest) -> Result<Self, Invalid> {
        let cpus = |q: pb::CpuQuantity| {
            check::between("cpus.milli_cpus", q.milli_cpus, 1..=u32::MAX)
                .map(|amount| Quantity { amount: MilliCpus(amount), or_more: q.or_more })
        };
        let memory = |q: pb::ByteQuantity| {
            check::between("memory.amount_bytes", q.amount_bytes, 1..=u64::MAX)
                .map(|amount| Quantity { amount: Bytes::new(amount), or_more: q.or_more })
        };
        let instance_type = |text| check::word("instance_type", text, INSTANCE_TYPE_MAX);
        Ok(Self {
            accelerators: wire.accelerators.map(Accelerators::try_from).transpose().within("accelerators")?,
            cpus: wire.cpus.map(cpus).transpose()?,
            memory: wire.memory.map(memory).transpose()?,
            disk: wire.disk_bytes.map(Bytes::new),
            instance_type: wire.instance_type.map(instance_type).transpose()?,
            infra: wire.infra.map(Infra::try_from).transpose().within("infra")?.unwrap_or_default(),
            spot: match wire.spot {
                0 => SpotPolicy::Auto,
                number => one_of::<pb::SpotPolicy>("spot", number)?,
            },
            max_hourly_cost: wire.max_hourly_cost_nanos_per_hour.map(Rate::from_nanos),
        })
    }
}

impl TryFrom<pb::Infra> for Infra {
    type Error = Invalid;

    fn try_from(wire: pb::Infra) -> Result<Self, Invalid> {
        let part = |field, text: Option<String>| text.map(|text| check::word(field, text, WORD_MAX)).transpose();
        Ok(Self {
            cluster_or_provider: part("cluster_or_provider", wire.cluster_or_provider)?,
            region: part("region", wire.region)?,
            zone: part("zone", wire.zone)?,
        })
    }
}

impl From<&OfferKey> for pb::OfferKey {
    fn from(value: &OfferKey) -> Self {
        Self {
            cluster: value.cluster.to_string(),
            shape: value.shape.to_string(),
            capacity: pb::CapacityType::from(value.capacity).into(),
        }
    }
}

impl TryFrom<pb::OfferKey> for OfferKey {
    type Error = Invalid;

    fn try_from(wire: pb::OfferKey) -> Result<Self, Invalid> {
        Ok(Self {
            cluster: check::name("cluster", &wire.cluster)?,
            shape: check::name("shape", &wire.shape)?,
            capacity: one_of::<pb::CapacityType>("capacity", wire.capacity)?,
        })
    }
}

impl From<&Price> for pb::Price {
    fn from(value: &Price) -> Self {
        Self {
            rate_nanos_per_hour: value.rate.nanos_per_hour(),
            currency: value.currency.to_string(),
            observed_ms: value.observed.as_millis(),
            source: pb::Source::from(value.source).into(),
        }
    }
}

impl TryFrom<pb::Price> for Price {
    type Error = Invalid;

    /// A price of zero passes: judging prices is the market's business.
    fn try_from(wire: pb::Price) -> Result<Self, Invalid> {
        Ok(Self {
            rate: Rate::from_nanos(wire.rate_nanos_per_hour),
            currency: check::currency("currency", &wire.currency)?,
            observed: check::instant("observed_ms", wire.observed_ms)?,
            source: one_of::<pb::Source>("source", wire.source)?,
        })
    }
}

impl From<Progress> for pb::Progress {
    fn from(value: Progress) -> Self {
        Self { step: value.step, total_steps: value.total }
    }
}

impl From<pb::Progress> for Progress {
    fn from(wire: pb::Progress) -> Self {
        Self { step: wire.step, total: wire.total_steps }
    }
}

impl From<&Reason> for pb::Reason {
    fn from(value: &Reason) -> Self {
        Self { code: value.code.to_string(), message: value.message.to_string() }
    }
}

impl From<&Upload> for pb::Upload {
    fn from(value: &Upload) -> Self {
        Self { sha256: value.sha256.to_vec().into(), size_bytes: value.size.get() }
    }
}

impl TryFrom<pb::Upload> for Upload {
    type Error = Invalid;

    fn try_from(wire: pb::Upload) -> Result<Self, Invalid> {
        Ok(Self { sha256: check::digest("sha256", &wire.sha256)?, size: Bytes::new(wire.size_bytes) })
    }
}

impl From<CheckpointId> for pb::CheckpointId {
    fn from(value: CheckpointId) -> Self {
        Self { epoch: value.epoch, seq: value.seq }
    }
}

impl TryFrom<pb::CheckpointId> for CheckpointId {
    type Error = Invalid;

    fn try_from(wire: pb::CheckpointId) -> Result<Self, Invalid> {
        Ok(Self {
            epoch: check::between("epoch", wire.epoch, 1..=u64::MAX)?,
            seq: check::between("seq", wire.seq, 1..=u64::MAX)?,
        })
    }
}

impl From<&CheckpointRef> for pb::CheckpointRef {
    fn from(value: &CheckpointRef) -> Self {
        Self {
            id: Some(value.id.into()),
            step: value.step,
            size_bytes: value.size.get(),
            manifests: value.manifests.iter().map(|digest| digest.to_vec().into()).collect(),
            base_url: value.base.to_string(),
            region: value.region.to_string(),
        }
    }
}

impl TryFrom<pb::CheckpointRef> for CheckpointRef {
    type Error = Invalid;

    fn try_from(wire: pb::CheckpointRef) -> Result<Self, Invalid> {
        Ok(Self {
            id: CheckpointId::try_from(check::required("id", wire.id)?).within("id")?,
            step: wire.step,
            size: Bytes::new(wire.size_bytes),
            manifests: check::list("manifests", wire.manifests, 1..=NODES_MAX as usize, |bytes| {
                check::digest("", &bytes)
            })?,
            base: check::url("base_url", wire.base_url, "file:///var/lib/leeway/checkpoints")?,
            region: check::region("region", &wire.region)?,
        })
    }
}
