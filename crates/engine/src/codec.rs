//! Rows and events as bytes: postcard, compact and without names. A change of a stored type is a new format version of
//! the store.

use leeway_core::event::Event;
use leeway_core::state::rows::RowSource;
use leeway_core::state::table::{RowSink, TableId};
use leeway_store::RowChange;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Changed rows of one step.
#[derive(Debug, Default)]
pub struct Rows(pub Vec<RowChange>);

impl RowSink for Rows {
    fn put<V: Serialize>(&mut self, table: TableId, key: &[u8], value: &V) {
        let value = encode(value);
        self.0.push(RowChange { key: join_key(table, key), value: Some(value) });
    }

    fn delete(&mut self, table: TableId, key: &[u8]) {
        self.0.push(RowChange { key: join_key(table, key), value: None });
    }
}

/// A stored value.
#[derive(Debug)]
pub struct Encoded(pub Box<[u8]>);

impl RowSource for Encoded {
    fn decode<V: DeserializeOwned>(&self) -> Result<V, String> {
        postcard::from_bytes(&self.0).map_err(|error| error.to_string())
    }
}

fn encode(value: &impl Serialize) -> Box<[u8]> {
    postcard::to_stdvec(value).expect("rows hold nothing that postcard cannot write").into_boxed_slice()
}

fn join_key(table: TableId, key: &[u8]) -> Box<[u8]> {
    let mut joined = Vec::with_capacity(1 + key.len());
    joined.push(table as u8);
    joined.extend_from_slice(key);
    joined.into_boxed_slice()
}

/// The table and the rest of a stored key; the unknown table's byte otherwise.
pub fn split_key(key: &[u8]) -> Result<(TableId, &[u8]), u8> {
    let (&byte, rest) = key.split_first().ok_or(0_u8)?;
    TableId::from_byte(byte).map(|table| (table, rest)).ok_or(byte)
}

pub fn encode_event(event: &Event) -> Box<[u8]> {
    encode(event)
}

/// Reads an event back from history.
pub fn decode_event(bytes: &[u8]) -> Result<Event, String> {
    postcard::from_bytes(bytes).map_err(|error| error.to_string())
}
