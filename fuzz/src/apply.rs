//! Fuzzes fieldsV1 and server-side apply with configurations of a real kind.

use std::sync::LazyLock;

use ballast::k8s::Body;
use ballast::k8s::fields::{FieldSet, ManagedFields};
use ballast::resource::{Kinds, Schema};
use serde_json::{Map, Value, json};

use super::tape::Tape;

const WIRE: [&str; 12] =
    ["f:spec", "f:replicas", "f:labels", "f:", ".", "k:{\"uid\":\"u\"}", "k:[]", "v:1", "v:\"a\"", "v:", "i:3", "x"];
const MEMBERS: [&str; 9] =
    ["metadata", "spec", "labels", "finalizers", "ownerReferences", "replicas", "clusters", "resource", "unknown"];

pub fn schema() -> &'static Schema {
    static KINDS: LazyLock<Kinds> = LazyLock::new(ballast::api::kinds);
    &KINDS.rows().iter().find(|row| row.kind == "ResourceBinding").expect("it is served").schema
}

pub fn run(input: &[u8]) {
    let mut tape = Tape::new(input);
    fields(&wire(&mut tape, 4));
    if let Ok(body) = Body::from_yaml(tape.rest()) {
        fields(&body.value);
        let list = body.value.into_iter().map(|(_, value)| value).collect();
        if let Ok(managed) = ManagedFields::decode_strictly(list, "g/v1") {
            let _ = managed.encode();
        }
    }
    let (live, config) = (object(&mut tape, 4), object(&mut tape, 4));
    laid_over(live, config);
}

fn wire(tape: &mut Tape<'_>, depth: usize) -> Map<String, Value> {
    let mut wire = Map::new();
    for _ in 0..tape.below(4) {
        let key = tape.pick(&WIRE).to_owned();
        let below = match depth {
            0 => json!({}),
            _ if tape.one_in(12) => json!(1),
            _ => Value::Object(self::wire(tape, depth - 1)),
        };
        wire.insert(key, below);
    }
    wire
}

/// A fieldsV1 that can be read is written in a form that can be read again.
fn fields(wire: &Map<String, Value>) {
    if let Ok(set) = FieldSet::from_fields_v1(wire) {
        let again = FieldSet::from_fields_v1(&set.to_fields_v1()).expect("what was written can be read");
        assert_eq!(again, set);
        assert!(set.difference(&set).is_empty());
        let _ = set.paths().iter().map(ToString::to_string).collect::<String>();
    }
}

fn object(tape: &mut Tape<'_>, depth: usize) -> Map<String, Value> {
    let members = tape.some(5, |tape| (tape.pick(&MEMBERS).to_owned(), value(tape, depth)));
    members.into_iter().collect()
}

fn value(tape: &mut Tape<'_>, depth: usize) -> Value {
    match tape.below(8) {
        0 => Value::Null,
        1 => json!(tape.byte()),
        2 => json!("a"),
        3 if depth > 0 => Value::from(tape.some(3, |tape| value(tape, depth - 1))),
        4 => json!({"uid": "u", "name": "a"}),
        _ if depth > 0 => Value::Object(object(tape, depth - 1)),
        _ => json!({}),
    }
}

/// The live object may be anything. The applied configuration was checked before.
fn laid_over(live: Map<String, Value>, config: Map<String, Value>) {
    let schema = schema();
    assert!(schema.compare(&live, &live).is_empty());
    let _ = schema.without(live.clone(), &schema.with_structs(&schema.fields_of(&config)));
    let is_fit = schema.check_config(&config).is_empty();
    let merged = schema.merge(live.clone(), &config);
    let comparison = schema.compare(&live, &merged);
    assert!(live != merged || comparison.is_empty());
    if is_fit {
        assert_eq!(schema.merge(merged.clone(), &config), merged, "applying twice is applying once");
    }
}
