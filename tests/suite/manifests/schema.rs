//! Evaluates the part of JSON Schema (draft 7) that values.schema.json uses.
//!
//! An unknown keyword fails the test, so no rule is silently skipped.

use regex::Regex;
use serde_json::{Map, Value};

/// Keywords without constraints.
const REMARKS: [&str; 4] = ["$schema", "title", "description", "definitions"];

/// Returns the errors of a value as `path: fault`, with a JSON pointer as path.
pub fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    Evaluation { root: schema, found: &mut found }.judge(schema, value, "");
    found
}

struct Evaluation<'s, 'f> {
    root: &'s Value,
    found: &'f mut Vec<String>,
}

impl Evaluation<'_, '_> {
    fn judge(&mut self, schema: &Value, value: &Value, place: &str) {
        let rules = schema.as_object().unwrap_or_else(|| panic!("{schema} is no schema"));
        for (keyword, rule) in rules.iter().filter(|(keyword, _)| !REMARKS.contains(&keyword.as_str())) {
            if !self.holds(rules, keyword, rule, value, place) {
                self.found.push(format!("{place}: {value} violates {keyword} {rule}"));
            }
        }
    }

    /// Returns whether the value itself satisfies the rule. Rules about its content are checked
    /// separately.
    fn holds(&mut self, rules: &Map<String, Value>, keyword: &str, rule: &Value, value: &Value, place: &str) -> bool {
        let number = |value: &Value| value.as_f64().expect("a number");
        match (keyword, value) {
            ("$ref", _) => {
                let path = rule.as_str().unwrap().strip_prefix('#').expect("a reference inside the schema");
                let target = self.root.pointer(path).unwrap_or_else(|| panic!("{path} is missing")).clone();
                self.judge(&target, value, place);
                true
            }
            ("type", _) => match rule {
                Value::Array(types) => types.iter().any(|name| is_of(name.as_str().unwrap(), value)),
                name => is_of(name.as_str().unwrap(), value),
            },
            ("anyOf", _) => {
                let ways = rule.as_array().unwrap().iter();
                let mut fits = ways.map(|way| {
                    let mut found = Vec::new();
                    Evaluation { root: self.root, found: &mut found }.judge(way, value, place);
                    found.is_empty()
                });
                fits.any(|fits| fits)
            }
            ("allOf", _) => {
                rule.as_array().unwrap().iter().for_each(|rule| self.judge(rule, value, place));
                true
            }
            ("enum", _) => rule.as_array().unwrap().contains(value),
            ("required", Value::Object(members)) => {
                rule.as_array().unwrap().iter().all(|name| members.contains_key(name.as_str().unwrap()))
            }
            ("properties", Value::Object(members)) => {
                for (name, schema) in rule.as_object().unwrap() {
                    if let Some(value) = members.get(name) {
                        self.judge(schema, value, &format!("{place}/{name}"));
                    }
                }
                true
            }
            ("additionalProperties", Value::Object(members)) => {
                let known = |name: &String| rules.get("properties").is_some_and(|known| known.get(name).is_some());
                let others: Vec<_> = members.iter().filter(|(name, _)| !known(name)).collect();
                if *rule != Value::Bool(false) {
                    others.iter().for_each(|(name, value)| self.judge(rule, value, &format!("{place}/{name}")));
                }
                *rule != Value::Bool(false) || others.is_empty()
            }
            ("items", Value::Array(items)) => {
                items.iter().enumerate().for_each(|(at, item)| self.judge(rule, item, &format!("{place}/{at}")));
                true
            }
            ("minItems", Value::Array(items)) => items.len() as f64 >= number(rule),
            ("minLength", Value::String(text)) => text.chars().count() as f64 >= number(rule),
            ("pattern", Value::String(text)) => Regex::new(rule.as_str().unwrap()).unwrap().is_match(text),
            ("minimum", Value::Number(_)) => number(value) >= number(rule),
            ("maximum", Value::Number(_)) => number(value) <= number(rule),
            // A rule about another type does not constrain this value.
            (
                "required"
                | "properties"
                | "additionalProperties"
                | "items"
                | "minItems"
                | "minLength"
                | "pattern"
                | "minimum"
                | "maximum",
                _,
            ) => true,
            _ => panic!("this evaluation does not know {keyword}"),
        }
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => panic!("{name} is no type"),
    }
}
