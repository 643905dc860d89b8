//! Rows and events as bytes: postcard, compact and without names. A change of a stored type is a new format version of
//! the store.

use std::borrow::Cow;

use leeway_core::event::{Event, RequestKey};
use leeway_core::state::rows::RowSource;
use leeway_core::state::table::{RowSink, TableId};
use leeway_store::RowChange;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Changed rows of one step.
#[derive(Debug)]
pub struct Rows<'a> {
    pub changes: Vec<RowChange>,
    scratch: &'a mut Scratch,
}

impl<'a> Rows<'a> {
    pub const fn new(scratch: &'a mut Scratch) -> Self {
        Self { changes: Vec::new(), scratch }
    }
}

impl RowSink for Rows<'_> {
    fn put<V: Serialize>(&mut self, table: TableId, key: &[u8], value: &V) {
        let value = self.scratch.encode(value);
        self.changes.push(RowChange { key: join_key(table, key), value: Some(value) });
    }

    fn delete(&mut self, table: TableId, key: &[u8]) {
        self.changes.push(RowChange { key: join_key(table, key), value: None });
    }
}

/// A stored value.
#[derive(Debug)]
pub struct Encoded<'a>(pub &'a [u8]);

impl RowSource for Encoded<'_> {
    fn decode<V: DeserializeOwned>(&self) -> Result<V, String> {
        postcard::from_bytes(self.0).map_err(|error| error.to_string())
    }
}

/// Room to encode in, kept from value to value so that it need not grow each time.
#[derive(Debug, Default)]
pub struct Scratch(Vec<u8>);

impl Scratch {
    pub fn encode(&mut self, value: &impl Serialize) -> Box<[u8]> {
        self.0.clear();
        let room = std::mem::take(&mut self.0);
        self.0 = postcard::to_extend(value, room).expect("rows and events hold nothing that postcard cannot write");
        self.0.as_slice().into()
    }
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

/// An event as the journal keeps it. The specs of submitted jobs are in the rows of the same entry, in the order of
/// their numbers, and are not written twice; a spec that was refused is not kept.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Recorded<'a> {
    Submitted {
        request: Option<Cow<'a, RequestKey>>,
        /// For each job the positions of those that it waits for.
        after: Vec<Cow<'a, [u32]>>,
    },
    Other(Cow<'a, Event>),
}

impl<'a> Recorded<'a> {
    pub fn of(event: &'a Event) -> Self {
        match event {
            Event::JobsSubmitted { request, jobs } => Self::Submitted {
                request: request.as_ref().map(Cow::Borrowed),
                after: jobs.iter().map(|job| Cow::Borrowed(job.after.as_slice())).collect(),
            },
            other => Self::Other(Cow::Borrowed(other)),
        }
    }
}

/// Reads an event back from history.
pub fn decode_event(bytes: &[u8]) -> Result<Recorded<'static>, String> {
    postcard::from_bytes(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_back_as_it_was_recorded() {
        let mut scratch = Scratch::default();
        let submitted =
            Event::JobsSubmitted { request: Some(RequestKey { id: "me/1".into(), body: [7; 32] }), jobs: Vec::new() };
        for event in [submitted, Event::Woke, Event::SpaceChanged { short: true }] {
            let recorded = Recorded::of(&event);
            let bytes = scratch.encode(&recorded);
            assert_eq!(decode_event(&bytes).unwrap(), recorded);
        }
        assert!(decode_event(&[0xff; 9]).is_err());
    }
}
