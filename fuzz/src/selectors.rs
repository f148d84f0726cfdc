//! Fuzzes label and field selectors. A selector that can be parsed can be matched, and it means the
//! same after it is printed and parsed again.

use ballast::k8s::{FieldQuery, GroupResource, Key, label_query};

use super::tape::Tape;

const WORDS: [&str; 24] = [
    "a",
    "app.kubernetes.io/name",
    "=",
    "==",
    "!=",
    "!",
    ",",
    " in ",
    " notin ",
    "(",
    ")",
    ">",
    "<",
    "1",
    "-7",
    " ",
    "x",
    "é",
    "\\",
    "\\,",
    "metadata.name",
    "metadata.namespace",
    "spec.x",
    "\0",
];

pub fn run(input: &[u8]) {
    let mut tape = Tape::new(input);
    let text = match tape.one_in(3) {
        true => String::from_utf8_lossy(tape.rest()).into_owned(),
        false => tape.some(12, |tape| tape.pick(&WORDS)).concat(),
    };
    if let Ok(selector) = label_query::parse(&text) {
        let labels = [("a".to_owned(), "1".to_owned()), ("x".to_owned(), String::new())];
        let labels: std::collections::BTreeMap<String, String> = labels.into();
        let matches = selector.matches(&labels);
        assert_eq!(label_query::parse(&text).expect("parsed before").matches(&labels), matches);
    }
    if let Ok(query) = FieldQuery::parse(&text) {
        let key = Key::namespaced(GroupResource::new("things.example.com"), "x", "a");
        assert!(!query.is_empty() || query.matches_key(&key), "an empty selector selects everything");
        let _ = (query.name(), query.namespace(), query.unsupported(&["spec.x"]));
    }
}
