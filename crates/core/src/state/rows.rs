//! Reading rows back.

use serde::de::DeserializeOwned;

use super::table::TableId;
use super::{Cluster, Delivery, Meta, Request, Tables};

/// A stored row that this program cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a row of table {table:?} cannot be read: {detail}")]
pub struct RowError {
    pub table: TableId,
    pub detail: String,
}

/// A row's value, still encoded.
pub trait RowSource {
    fn decode<V: DeserializeOwned>(&self) -> Result<V, String>;
}

impl Tables {
    /// Puts back one durable row. Offers are kept by the fleet and ledger lines are not read back; both are left to the
    /// caller and are no error here.
    pub fn load(&mut self, table: TableId, key: &[u8], source: &impl RowSource) -> Result<(), RowError> {
        let mut read = || -> Result<(), String> {
            match table {
                TableId::Meta => {
                    let meta: Meta = source.decode()?;
                    self.load_meta(meta);
                }
                TableId::Job => {
                    let row: leeway_model::job::Job = source.decode()?;
                    self.jobs.load(row.id, row);
                }
                TableId::Run => {
                    let row: leeway_model::run::Run = source.decode()?;
                    self.runs.load(row.id, row);
                }
                TableId::Decision => {
                    let row: leeway_model::decision::Decision = source.decode()?;
                    self.decisions.load(row.run, row);
                }
                TableId::Cluster => {
                    let row: Cluster = source.decode()?;
                    self.clusters.load(row.spec.name.clone(), row);
                }
                TableId::Checkpoint => {
                    let row: leeway_model::checkpoint::Checkpoint = source.decode()?;
                    self.checkpoints.load((row.job, row.reference.id), row);
                }
                TableId::Budget => {
                    let row: leeway_model::budget::Budget = source.decode()?;
                    self.budgets.load(row.spec.name.clone(), row);
                }
                TableId::Hold => {
                    let row: leeway_model::budget::Hold = source.decode()?;
                    self.holds.load(row.id, row);
                }
                TableId::Delivery => {
                    let row: Delivery = source.decode()?;
                    let id =
                        key.try_into().map(u64::from_be_bytes).map_err(|_| "its key is not a number".to_owned())?;
                    self.deliveries.load(leeway_model::OutboxId(id), row);
                }
                TableId::Endpoint => {
                    let row: leeway_model::notify::Endpoint = source.decode()?;
                    self.endpoints.load(row.name.clone(), row);
                }
                TableId::Dataset => {
                    let row: leeway_model::dataset::Dataset = source.decode()?;
                    self.datasets.load(row.name.clone(), row);
                }
                TableId::Request => {
                    let row: Request = source.decode()?;
                    let id = std::str::from_utf8(key).map_err(|_| "its key is not UTF-8".to_owned())?;
                    self.requests.load(id.into(), row);
                }
                TableId::Moved => {
                    let row: crate::locality::Moved = source.decode()?;
                    self.moved.load(row.key.clone(), row);
                }
                TableId::Usage => {
                    let row: crate::usage::Usage = source.decode()?;
                    self.usage.load(row.owner.clone(), row);
                }
                TableId::Spells => {
                    let row: crate::spells::Spells = source.decode()?;
                    self.spells.load(row.place.clone(), row);
                }
                TableId::Offer | TableId::Ledger => {}
            }
            Ok(())
        };
        read().map_err(|detail| RowError { table, detail })
    }
}
