//! Messages of the contract as JSON: the field names of `proto/leeway/v1`, which state their units, and every field
//! always there.
//!
//! An unset optional field is `null`, an enum is a lower-case word with dashes (`on-demand`), bytes are hex, 64-bit
//! numbers are numbers, and a secret is `<secret>`. Of a choice (`oneof`) only the chosen member appears. It is done by
//! reflection so that a field added to the contract cannot be forgotten here.

use std::sync::OnceLock;

use leeway_proto::pb;
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, ReflectMessage as _,
};
use serde_json::{Map, Number, Value};

fn pool() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    POOL.get_or_init(|| {
        DescriptorPool::decode(pb::FILE_DESCRIPTOR_SET).expect("the compiled contract holds sound descriptors")
    })
}

/// The message `name` of the contract, for example `Job`.
pub fn of(name: &str, message: &impl leeway_proto::Message) -> Value {
    let descriptor = pool().get_message_by_name(&format!("leeway.v1.{name}"));
    let descriptor = descriptor.expect("callers name messages of the contract");
    let message = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice());
    object(&message.expect("a generated message fits its own descriptor"))
}

/// A list of such messages.
pub fn list<M: leeway_proto::Message>(name: &str, messages: &[M]) -> Value {
    messages.iter().map(|message| of(name, message)).collect()
}

/// The word for a member of an enum, as JSON and tables spell it; empty for the unspecified one.
pub fn word(proto_name: &str, enum_name: &str) -> String {
    let prefix = screaming(enum_name);
    let bare = proto_name.strip_prefix(&prefix).unwrap_or(proto_name);
    let bare = bare.trim_start_matches('_');
    if bare == "UNSPECIFIED" { String::new() } else { bare.to_lowercase().replace('_', "-") }
}

fn object(message: &DynamicMessage) -> Value {
    let descriptor = message.descriptor();
    if descriptor.full_name() == "leeway.v1.SecretValue" {
        return Value::from("<secret>");
    }
    let mut fields = Map::new();
    for field in descriptor.fields() {
        let is_choice = field.containing_oneof().is_some() && !field.field_descriptor_proto().proto3_optional();
        let is_there = !field.supports_presence() || message.has_field(&field);
        if is_there {
            fields.insert(field.name().to_owned(), value(&field, &message.get_field(&field)));
        } else if !is_choice {
            fields.insert(field.name().to_owned(), Value::Null);
        }
    }
    Value::Object(fields)
}

fn value(field: &FieldDescriptor, found: &prost_reflect::Value) -> Value {
    use prost_reflect::Value as Found;
    match found {
        Found::List(items) => items.iter().map(|item| value(field, item)).collect(),
        Found::Map(entries) => {
            let Kind::Message(entry) = field.kind() else { return Value::Null };
            let of_value = entry.map_entry_value_field();
            Value::Object(entries.iter().map(|(name, item)| (key(name), value(&of_value, item))).collect())
        }
        Found::Message(message) => object(message),
        Found::EnumNumber(number) => match field.kind() {
            Kind::Enum(descriptor) => enum_word(&descriptor, *number),
            _ => Value::from(*number),
        },
        Found::Bool(flag) => Value::from(*flag),
        Found::I32(number) => Value::from(*number),
        Found::I64(number) => Value::from(*number),
        Found::U32(number) => Value::from(*number),
        Found::U64(number) => Value::from(*number),
        Found::F32(number) => float(f64::from(*number)),
        Found::F64(number) => float(*number),
        Found::String(text) => Value::from(text.as_str()),
        Found::Bytes(bytes) => Value::from(hex(bytes)),
    }
}

fn enum_word(descriptor: &EnumDescriptor, number: i32) -> Value {
    match descriptor.get_value(number) {
        // From a newer server.
        None => Value::from(number),
        Some(member) => match word(member.name(), descriptor.name()) {
            text if text.is_empty() => Value::Null,
            text => Value::from(text),
        },
    }
}

/// JSON has no infinity; `null` says that there is no number.
fn float(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

fn key(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

/// Bytes in lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// `JobState` as `JOB_STATE`.
fn screaming(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for (index, letter) in name.char_indices() {
        if index > 0 && letter.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_is_not_set_is_null_and_a_zero_is_zero() {
        let progress = pb::Progress { step: 0, total_steps: None };
        assert_eq!(of("Progress", &progress), json!({ "step": 0, "total_steps": null }));
        let progress = pb::Progress { step: 1 << 60, total_steps: Some(0) };
        assert_eq!(of("Progress", &progress), json!({ "step": 1_u64 << 60, "total_steps": 0 }));
    }

    #[test]
    fn enums_are_words_and_bytes_are_hex() {
        let key =
            pb::OfferKey { cluster: "here".into(), shape: "gpu".into(), capacity: pb::CapacityType::OnDemand.into() };
        assert_eq!(of("OfferKey", &key), json!({ "cluster": "here", "shape": "gpu", "capacity": "on-demand" }));
        let unknown = pb::OfferKey { capacity: 77, ..key.clone() };
        assert_eq!(of("OfferKey", &unknown)["capacity"], 77);
        assert_eq!(of("OfferKey", &pb::OfferKey { capacity: 0, ..key })["capacity"], Value::Null);
        let upload = pb::Upload { sha256: vec![0, 255].into(), size_bytes: 3 };
        assert_eq!(of("Upload", &upload), json!({ "sha256": "00ff", "size_bytes": 3 }));
    }

    #[test]
    fn of_a_choice_only_the_chosen_member_appears() {
        let kind = pb::ledger_entry::Kind::CapSet(pb::CapSet { budget: "b".into(), cap_micros: 5, by: "me".into() });
        let entry = pb::LedgerEntry { number: 1, at_ms: 2, kind: Some(kind) };
        let expected = json!({ "number": 1, "at_ms": 2, "cap_set": { "budget": "b", "cap_micros": 5, "by": "me" } });
        assert_eq!(of("LedgerEntry", &entry), expected);
    }

    #[test]
    fn a_secret_is_never_shown() {
        let secret = pb::SecretValue { value: "hush".into() };
        let request =
            pb::SubmitJobRequest { secrets: [("TOKEN".to_owned(), secret)].into(), ..pb::SubmitJobRequest::default() };
        let text = of("SubmitJobRequest", &request).to_string();
        assert!(text.contains("TOKEN") && text.contains("<secret>") && !text.contains("hush"), "{text}");
    }
}
