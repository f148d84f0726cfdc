//! A parser for the subset of the Kubernetes protobuf encoding that is needed. Stock clients send
//! some bodies only in this encoding, for example `kubectl auth can-i`. Ballast never writes it.
//!
//! A body is `k8s\0`, then a `runtime.Unknown` with the type and the object. Fields that a shape
//! does not contain are skipped.

use serde_json::{Map, Value};

use super::body::{Body, Malformed};

/// The fields of a message that are parsed, by number.
#[derive(Debug)]
pub struct Message(pub &'static [(u64, &'static str, Field)]);

/// The type of a field.
#[derive(Debug)]
pub enum Field {
    Text,
    Message(&'static Message),
}

const MAGIC: &[u8] = b"k8s\0";
const TYPE_META: Message = Message(&[(1, "apiVersion", Field::Text), (2, "kind", Field::Text)]);

impl Body {
    /// Parses an object of this shape.
    pub fn from_protobuf(bytes: &[u8], shape: &Message) -> Result<Body, Malformed> {
        let unknown = || Malformed::Unreadable("not the binary form of an object".to_owned());
        let envelope = bytes.strip_prefix(MAGIC).ok_or_else(unknown)?;
        let (mut kind, mut object) = (Map::new(), Map::new());
        for (number, bytes) in fields(envelope).ok_or_else(unknown)? {
            match number {
                1 => kind = message(&TYPE_META, bytes).ok_or_else(unknown)?,
                2 => object = message(shape, bytes).ok_or_else(unknown)?,
                _ => {}
            }
        }
        kind.extend(object);
        Ok(Body::of(kind))
    }
}

/// Parses one message. The shapes are finite, so they bound the recursion.
fn message(shape: &Message, bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut read = Map::new();
    for (number, bytes) in fields(bytes)? {
        let Some((_, name, field)) = shape.0.iter().find(|(known, ..)| *known == number) else { continue };
        let value = match field {
            Field::Text => Value::from(std::str::from_utf8(bytes).ok()?),
            Field::Message(shape) => message(shape, bytes)?.into(),
        };
        read.insert((*name).to_owned(), value);
    }
    Some(read)
}

/// Returns the fields that have a length: text and messages. Numbers are skipped.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, &[u8])>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let skipped = match key & 7 {
            0 => varint(&mut bytes).map(|_| 0)?,
            1 => 8,
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (field, rest) = bytes.split_at_checked(length)?;
                fields.push((key >> 3, field));
                bytes = rest;
                0
            }
            5 => 4,
            _ => return None,
        };
        bytes = bytes.get(skipped..)?;
    }
    Some(fields)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SPEC: Message = Message(&[(1, "resourceAttributes", Field::Message(&ASKED))]);
    const ASKED: Message =
        Message(&[(1, "namespace", Field::Text), (2, "verb", Field::Text), (5, "resource", Field::Text)]);
    const REVIEW: Message = Message(&[(2, "spec", Field::Message(&SPEC))]);

    /// The body that `kubectl auth can-i get clusters` of version 1.32 sends.
    const CAN_I: &[u8] = b"k8s\0\n\x32\n\x17authorization.k8s.io/v1\x12\x17SelfSubjectAccessReview\
        \x12\x52\n\x10\n\0\x12\0\x1a\0\"\0*\0\x32\0\x38\0B\0\x124\n\x32\n\x07default\x12\x03get\
        \x1a\x12cluster.karmada.io\"\0*\x08clusters\x32\0:\0\x1a\x08\x08\0\x12\0\x1a\0\x20\0\x1a\0\"\0";

    #[test]
    fn what_kubectl_asks_is_read() {
        let body = Body::from_protobuf(CAN_I, &REVIEW).unwrap();
        let asked = json!({"namespace": "default", "verb": "get", "resource": "clusters"});
        let expected = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked}});
        assert_eq!(Value::from(body.value), expected);
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_refused_or_means_less() {
        for length in 0..CAN_I.len() {
            let _ = Body::from_protobuf(&CAN_I[..length], &REVIEW);
            let mut damaged = CAN_I.to_vec();
            damaged[length] ^= 0xff;
            let _ = Body::from_protobuf(&damaged, &REVIEW);
        }
        assert!(Body::from_protobuf(b"{}", &REVIEW).is_err());
        assert!(Body::from_protobuf(b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", &REVIEW).is_err());
    }
}
