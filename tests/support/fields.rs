//! The tables of upstream's fields (`tests/data/*.tsv`).

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// One row of the table.
pub struct Row {
    pub kind: &'static str,
    pub path: &'static str,
    pub field_type: &'static str,
    pub required: bool,
    pub rules: BTreeMap<&'static str, Value>,
}

pub fn rows(table: &'static str) -> impl Iterator<Item = Row> {
    table.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        let [kind, path, field_type, required, rules] = cells.as_slice() else { panic!("{line}") };
        Row { kind, path, field_type, required: *required == "required", rules: parse_rules(rules) }
    })
}

/// Parses rules such as `minLength=1 enum=["a", "b"]`: names with JSON values. A name alone is
/// true.
fn parse_rules(mut text: &'static str) -> BTreeMap<&'static str, Value> {
    let mut rules = BTreeMap::new();
    if !text.is_empty() && !text.contains('=') {
        rules.insert(text, json!(true));
        return rules;
    }
    while let Some((name, rest)) = text.split_once('=') {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let value = values.next().expect(rest).expect(rest);
        text = rest[values.byte_offset()..].trim_start();
        rules.insert(name, value);
    }
    assert!(text.is_empty(), "{text}");
    rules
}
