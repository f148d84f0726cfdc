//! Swagger 2.0 in its binary form (`openapi.v2.Document` of gnostic). kubectl requests it for
//! client-side validation: `create` of a kind without PATCH, `--dry-run=client`, and `--validate`
//! without a server.
//!
//! Only the definitions are written, because nothing else is needed for that. Left out: paths,
//! parameters, responses, security. The encoder is written by hand: a schema has two dozen fields,
//! and a code generator would need a compiler of its own.

use serde_json::{Map, Value};

/// Encodes a Swagger document.
pub fn encode(swagger: &Value) -> Vec<u8> {
    let mut document = Message::default();
    document.text(1, text(&swagger["swagger"]));
    let mut info = Message::default();
    info.text(1, text(&swagger["info"]["title"]));
    info.text(2, text(&swagger["info"]["version"]));
    document.message(2, &info);
    document.message(8, &Message::default());
    if let Some(definitions) = swagger["definitions"].as_object() {
        document.message(9, &named_schemas(definitions));
    }
    document.0
}

/// `Definitions` and `Properties` have the same form: repeated pairs of name and schema.
fn named_schemas(schemas: &Map<String, Value>) -> Message {
    let mut all = Message::default();
    for (name, value) in schemas {
        let mut pair = Message::default();
        pair.text(1, name);
        pair.message(2, &schema(value));
        all.message(1, &pair);
    }
    all
}

fn schema(value: &Value) -> Message {
    let mut out = Message::default();
    let Some(members) = value.as_object() else { return out };
    for (name, value) in members {
        match name.as_str() {
            "$ref" => out.text(1, text(value)),
            "format" => out.text(2, text(value)),
            "title" => out.text(3, text(value)),
            "description" => out.text(4, text(value)),
            "default" => out.message(5, &any(value)),
            "maximum" => out.double(7, value.as_f64()),
            "exclusiveMaximum" => out.boolean(8, value),
            "minimum" => out.double(9, value.as_f64()),
            "exclusiveMinimum" => out.boolean(10, value),
            "maxLength" => out.integer(11, value.as_u64()),
            "minLength" => out.integer(12, value.as_u64()),
            "pattern" => out.text(13, text(value)),
            "maxItems" => out.integer(14, value.as_u64()),
            "minItems" => out.integer(15, value.as_u64()),
            "uniqueItems" => out.boolean(16, value),
            "maxProperties" => out.integer(17, value.as_u64()),
            "minProperties" => out.integer(18, value.as_u64()),
            "required" => items(value).for_each(|name| out.text(19, text(name))),
            "enum" => items(value).for_each(|value| out.message(20, &any(value))),
            "additionalProperties" => {
                let mut either = Message::default();
                match value {
                    Value::Bool(_) => either.boolean(2, value),
                    _ => either.message(1, &schema(value)),
                }
                out.message(21, &either);
            }
            "type" => {
                let mut kinds = Message::default();
                kinds.text(1, text(value));
                out.message(22, &kinds);
            }
            "items" => {
                let mut of = Message::default();
                of.message(1, &schema(value));
                out.message(23, &of);
            }
            "allOf" => items(value).for_each(|part| out.message(24, &schema(part))),
            "properties" => {
                if let Some(properties) = value.as_object() {
                    out.message(25, &named_schemas(properties));
                }
            }
            extension if extension.starts_with("x-") => {
                let mut pair = Message::default();
                pair.text(1, extension);
                pair.message(2, &any(value));
                out.message(31, &pair);
            }
            _ => {}
        }
    }
    out
}

/// Encodes any value as YAML text. JSON is valid YAML.
fn any(value: &Value) -> Message {
    let mut out = Message::default();
    out.text(2, &value.to_string());
    out
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A protobuf message under construction. Zero values are left out, as proto3 requires.
#[derive(Default)]
struct Message(Vec<u8>);

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Adds text even if it is empty, so that every element of a list counts.
    fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    fn integer(&mut self, field: u64, value: Option<u64>) {
        if let Some(value) = value.filter(|&value| value != 0) {
            self.varint(field << 3 | VARINT);
            self.varint(value);
        }
    }

    fn boolean(&mut self, field: u64, value: &Value) {
        self.integer(field, (*value == Value::Bool(true)).then_some(1));
    }

    fn double(&mut self, field: u64, value: Option<f64>) {
        if let Some(value) = value.filter(|&value| value != 0.0) {
            self.varint(field << 3 | FIXED64);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_texts_and_messages_are_encoded_as_protobuf_has_it() {
        let schema = schema(&json!({"format": "int32", "maxLength": 300, "minimum": 1.0, "minLength": 0,
            "required": ["a"], "uniqueItems": true}));
        let expected: Vec<u8> = [
            b"\x12\x05int32".as_slice(),
            b"\x58\xac\x02",
            b"\x49\0\0\0\0\0\0\xf0\x3f",
            b"\x9a\x01\x01a",
            b"\x80\x01\x01",
        ]
        .concat();
        assert_eq!(schema.0.len(), expected.len());
        for part in [b"\x12\x05int32".as_slice(), b"\x58\xac\x02", b"\x9a\x01\x01a", b"\x80\x01\x01"] {
            assert!(schema.0.windows(part.len()).any(|window| window == part), "{part:?}");
        }
        let named = named_schemas(json!({"A": {"type": "object"}}).as_object().unwrap());
        assert_eq!(named.0, b"\x0a\x10\x0a\x01A\x12\x0b\xb2\x01\x08\x0a\x06object");
    }
}
