//! Datasets: named data with the places that hold it. Jobs may refer to one by `dataset://name`.

use serde::{Deserialize, Serialize};

use crate::cluster::Region;
use crate::{Bytes, Name};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dataset {
    pub name: Name,
    pub size: Bytes,
    pub replicas: Vec<Replica>,
}

/// A complete copy of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    pub region: Region,
    pub url: Box<str>,
}
