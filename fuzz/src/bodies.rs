//! Fuzzes request bodies (JSON, YAML, protobuf) and patches (merge patch, JSON patch). They are
//! read strictly and applied to an object, which is then pruned, defaulted and validated.

use ballast::k8s::protobuf::{Field, Message};
use ballast::k8s::{Body, Patch};
use serde_json::{Map, Value, json};

use super::apply::schema;
use super::tape::Tape;

const JSON: [&str; 22] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"a\"",
    "\"spec\"",
    "\"replicas\"",
    "\"metadata\"",
    "null",
    "true",
    "1",
    "-0.0",
    "1e400",
    "\"op\"",
    "\"path\"",
    "\"/spec/replicas\"",
    "\"value\"",
    "\"add\"",
    "\"copy\"",
    "\"\\ud800\"",
];
const YAML: [&str; 22] = [
    "a: ",
    "spec:\n  ",
    "- ",
    "\n",
    "  ",
    "&x ",
    "*x",
    "<<: ",
    "|",
    ">",
    "'",
    "\"",
    "{",
    "}",
    "[",
    "]",
    "010",
    "yes",
    "---\n",
    "!!binary ",
    "? ",
    "#",
];

/// The form of an access review that kubectl sends about its user.
const QUESTION: Message = Message(&[(2, "spec", Field::Message(&Message(&[(1, "verb", Field::Text)])))]);

pub fn run(input: &[u8]) {
    let mut tape = Tape::new(input);
    let text = match tape.below(4) {
        0 => String::from_utf8_lossy(tape.rest()).into_owned(),
        1 => tape.some(40, |tape| tape.pick(&YAML)).concat(),
        _ => tape.some(40, |tape| tape.pick(&JSON)).concat(),
    };
    let text = text.as_bytes();
    match (Body::from_json(text), serde_json::from_slice::<Option<Map<String, Value>>>(text)) {
        (Ok(body), Ok(plain)) => assert_eq!(body.value, plain.unwrap_or_default(), "the last of equal keys wins"),
        (Err(_), Err(_)) => {}
        (body, plain) => panic!("{body:?} against {plain:?}"),
    }
    if let Ok(body) = Body::from_protobuf(input, &QUESTION) {
        assert!(body.value.keys().all(|name| ["apiVersion", "kind", "spec"].contains(&&**name)));
    }
    if let Ok(body) = Body::from_yaml(text) {
        let _ = body.strict_faults();
        judged(body.value);
    }
    for patch in [Patch::json(text), Patch::merge(text)].into_iter().flatten() {
        let Value::Object(object) = object() else { return };
        match patch.apply(object) {
            Ok(object) => judged(object),
            Err(status) => assert!((400..500).contains(&status.code), "{status:?}"),
        }
    }
}

fn object() -> Value {
    json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "a"},
        "spec": {"replicas": 1, "clusters": [{"name": "m1"}],
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}})
}

/// Pruning and defaulting an object a second time changes nothing.
fn judged(mut object: Map<String, Value>) {
    let schema = schema();
    schema.prune(&mut object);
    assert!(schema.prune(&mut object.clone()).paths.is_empty());
    let (pruned, text) = (object.clone(), Value::from(object.clone()).to_string());
    schema.default(&mut object);
    assert_eq!(schema.lacks_defaults(text.as_bytes()).expect("it is JSON"), object != pruned);
    let once = object.clone();
    schema.default(&mut object);
    assert_eq!(object, once);
    let _ = schema.validate(&object);
}
