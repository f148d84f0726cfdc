//! Request bodies: reads JSON and YAML into a tree, and collects what the tree cannot hold (FV6).
//!
//! Of two equal keys a tree keeps the last, as Kubernetes does. Strict validation must still name
//! them, so they are collected while reading. YAML is read as in Kubernetes: YAML 1.1 booleans,
//! octal numbers with a leading zero, keys turned into text, whole floats into integers. A body is
//! one object: several YAML documents are refused. Depth, size and alias replay are bounded.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Result as JsonResult, Value};
use serde_saphyr::{DuplicateKeyPolicy, Options, Spanned};

use super::field_errors::{TOLD_MAX, and_more, shown_name};

/// The deepest nesting of a YAML body, far beyond any object of the API. The parser recurses, and
/// unoptimised builds need 16 KiB of stack for each level. (serde_json stops at 128 by itself.)
const YAML_DEPTH_MAX: usize = 64;
/// The largest number of values in a YAML body. A 3 MiB body of short items stays below it.
const YAML_NODES_MAX: usize = 1_000_000;
/// The largest number of events that aliases may replay, and of bytes that they may multiply to.
const YAML_REPLAY_MAX: usize = 100_000;
const YAML_TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A decoded request body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    pub value: Map<String, Value>,
    /// Keys that occur more than once, in the order of the text.
    pub duplicates: Vec<Duplicate>,
    /// Further ones, which are not told.
    pub more_duplicates: usize,
}

/// A repeated key. Displays as the warning for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Duplicate {
    Json { path: String },
    Yaml { line: u64, key: String },
}

/// A body that is not an object. Displays what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("{0}")]
    Unreadable(String),
    /// The body could be read, but it is not an object.
    #[error("json: cannot unmarshal {0} into Go value of type map[string]interface {{}}")]
    NoObject(&'static str),
}

impl Body {
    /// A body that was not parsed from text, so it has no duplicates.
    pub fn of(value: Map<String, Value>) -> Body {
        Body { value, ..Body::default() }
    }

    pub fn from_json(text: &[u8]) -> Result<Body, Malformed> {
        let reading = Reading::new(Source::Json);
        // As in `read_json`: the encoding is checked once.
        let value = match std::str::from_utf8(text) {
            Ok(text) => reading.whole(&mut serde_json::Deserializer::from_str(text)),
            Err(_) => reading.whole(&mut serde_json::Deserializer::from_slice(text)),
        };
        reading.body(value.map_err(|error| Malformed::Unreadable(json_fault(&error)))?)
    }

    /// Reads YAML. JSON is YAML too and is read as JSON, unless a key occurs twice: YAML reports
    /// that with its line.
    pub fn from_yaml(text: &[u8]) -> Result<Body, Malformed> {
        if text.trim_ascii_start().first() == Some(&b'{')
            && let Ok(body) = Body::from_json(text)
            && body.duplicates.is_empty()
        {
            return Ok(body);
        }
        let text = std::str::from_utf8(text).map_err(|_| Malformed::Unreadable("yaml: invalid UTF-8".to_owned()))?;
        let reading = Reading::new(Source::Yaml);
        let seed = reading.tree(&Chain::Root);
        let value = serde_saphyr::with_deserializer_from_str_with_options(text, yaml_options(), |deserializer| {
            seed.deserialize(deserializer)
        });
        reading.body(value.map_err(|error| Malformed::Unreadable(yaml_words(&error)))?)
    }

    /// The faults that strict validation reports: one per key for JSON, one in all for YAML.
    pub fn strict_faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = Vec::new();
        let mut lines = String::new();
        for duplicate in &self.duplicates {
            match duplicate {
                Duplicate::Json { .. } => faults.push(duplicate.to_string()),
                Duplicate::Yaml { .. } => lines.push_str(&format!("\n  {duplicate}")),
            }
        }
        let more = Some(self.more_duplicates).filter(|more| *more > 0).map(and_more);
        if !lines.is_empty() {
            more.iter().for_each(|more| lines.push_str(&format!("\n  {more}")));
            faults.push(format!("yaml: unmarshal errors:{lines}"));
        } else {
            faults.extend(more);
        }
        faults
    }

    /// The warnings about repeated keys.
    pub fn duplicate_warnings(&self) -> Vec<String> {
        let more = Some(self.more_duplicates).filter(|more| *more > 0).map(and_more);
        self.duplicates.iter().map(ToString::to_string).chain(more).collect()
    }
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Duplicate::Json { path } => write!(f, "duplicate field {path:?}"),
            Duplicate::Yaml { line, key } => write!(f, "line {line}: key {key:?} already set in map"),
        }
    }
}

fn yaml_options() -> Options {
    serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        legacy_octal_numbers: true,
        emit_comments: false,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: YAML_REPLAY_MAX },
        budget: serde_saphyr::budget! {
            max_depth: YAML_DEPTH_MAX,
            flow_nesting_limit: YAML_DEPTH_MAX,
            max_documents: 2,
            max_nodes: YAML_NODES_MAX,
            max_events: 3 * YAML_NODES_MAX,
            max_recorded_anchor_events: YAML_REPLAY_MAX,
        },
    }
}

/// Why a text is not JSON, with line and column. The most frequent fault, a text that ends too
/// early, has the message of Kubernetes.
pub(super) fn json_fault(error: &serde_json::Error) -> String {
    match error.is_eof() {
        true => "unexpected end of JSON input".to_owned(),
        false => error.to_string(),
    }
}

/// The JSON type of a value, as Go's decoder names it.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn yaml_words(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let what = text.lines().next().unwrap_or_default();
    format!("error converting YAML to JSON: yaml: {what}")
}

/// The place of the reader, as a chain on the stack.
#[derive(Clone, Copy)]
enum Chain<'a> {
    Root,
    Key(&'a Chain<'a>, &'a str),
    Index(&'a Chain<'a>, usize),
}

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Chain::Root => Ok(()),
            Chain::Key(Chain::Root, key) => f.write_str(&shown_name(key)),
            Chain::Key(parent, key) => write!(f, "{parent}.{}", shown_name(key)),
            Chain::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Json,
    Yaml,
}

struct Reading {
    source: Source,
    duplicates: RefCell<Vec<Duplicate>>,
    more_duplicates: Cell<usize>,
    text_bytes_left: Cell<usize>,
}

impl Reading {
    fn new(source: Source) -> Reading {
        let text_bytes_left = match source {
            // JSON has no aliases, so nothing multiplies.
            Source::Json => usize::MAX,
            Source::Yaml => YAML_TEXT_BYTES_MAX,
        };
        Reading {
            source,
            duplicates: RefCell::default(),
            more_duplicates: Cell::new(0),
            text_bytes_left: Cell::new(text_bytes_left),
        }
    }

    fn tree<'a>(&'a self, at: &'a Chain<'a>) -> Tree<'a> {
        Tree { reading: self, at }
    }

    /// The one value of a text.
    fn whole<'de, R: serde_json::de::Read<'de>>(&self, from: &mut serde_json::Deserializer<R>) -> JsonResult<Value> {
        let value = self.tree(&Chain::Root).deserialize(&mut *from)?;
        from.end().map(|()| value)
    }

    /// Null is read as an object without members, as upstream does.
    fn body(self, value: Value) -> Result<Body, Malformed> {
        match value {
            Value::Object(value) => {
                let (duplicates, more_duplicates) = (self.duplicates.into_inner(), self.more_duplicates.get());
                Ok(Body { value, duplicates, more_duplicates })
            }
            Value::Null => Ok(Body::default()),
            other => Err(Malformed::NoObject(type_of(&other))),
        }
    }

    /// Notes a repeated key. Its text is made only while more of them are told (LI11).
    fn note(&self, duplicate: impl FnOnce() -> Duplicate) {
        let mut duplicates = self.duplicates.borrow_mut();
        if duplicates.len() >= TOLD_MAX {
            self.more_duplicates.set(self.more_duplicates.get() + 1);
            return;
        }
        let duplicate = duplicate();
        if !duplicates.contains(&duplicate) {
            duplicates.push(duplicate);
        }
    }
}

/// Reads one value.
#[derive(Clone, Copy)]
struct Tree<'a> {
    reading: &'a Reading,
    at: &'a Chain<'a>,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        /// Larger integers are not exact in a float.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if self.reading.source == Source::Yaml && value.fract() == 0.0 && value.abs() < EXACT {
            return Ok(Value::from(value as i64));
        }
        serde_json::Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a JSON number"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Value, E> {
        let left = &self.reading.text_bytes_left;
        match left.get().checked_sub(text.len()) {
            Some(rest) => left.set(rest),
            None => return Err(E::custom("document contains excessive aliasing")),
        }
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.reading.tree(&Chain::Index(self.at, list.len())))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        loop {
            let (key, line) = match self.reading.source {
                Source::Json => match entries.next_key::<String>()? {
                    Some(key) => (key, 0),
                    None => break,
                },
                Source::Yaml => match entries.next_key::<Spanned<Key>>()? {
                    Some(key) => (key.value.0, key.referenced.line()),
                    None => break,
                },
            };
            if map.contains_key(&key) {
                self.reading.note(|| match self.reading.source {
                    Source::Json => Duplicate::Json { path: Chain::Key(self.at, &key).to_string() },
                    Source::Yaml => Duplicate::Yaml { line, key: shown_name(&key).into_owned() },
                });
            }
            let value = entries.next_value_seed(self.reading.tree(&Chain::Key(self.at, &key)))?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// The text of a YAML key. `1` and `true` are keys, too.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Cow<'static, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key that is a scalar")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(if value { "true" } else { "false" }))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
                Ok(Cow::Owned(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
                Ok(Cow::Owned(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
                Ok(Cow::Owned(value.to_string()))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed("null"))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Text).map(|text| Key(text.into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn yaml(text: &str) -> Value {
        Value::Object(Body::from_yaml(text.as_bytes()).unwrap().value)
    }

    fn shown(duplicates: &[Duplicate]) -> Vec<String> {
        duplicates.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn fv6_json_keeps_the_last_and_names_the_duplicates() {
        let text = br#"{"a": 1, "spec": {"list": [{"x": 1}, {"x": 1, "x": 2, "x": 3}], "n": {}, "n": []}, "a": 2}"#;
        let body = Body::from_json(text).unwrap();
        assert_eq!(Value::Object(body.value.clone()), json!({"a": 2, "spec": {"list": [{"x": 1}, {"x": 3}], "n": []}}));
        let expected = [r#"duplicate field "spec.list[1].x""#, r#"duplicate field "spec.n""#, r#"duplicate field "a""#];
        assert_eq!(shown(&body.duplicates), expected);
        assert_eq!(body.strict_faults(), expected);
    }

    #[test]
    fn vb22_numbers_keep_what_they_are() {
        let text = br#"{"i": 9007199254740993, "u": 18446744073709551615, "f": 1.5, "w": 2.0, "n": -1}"#;
        let body = Body::from_json(text).unwrap();
        assert_eq!(
            serde_json::to_string(&body.value).unwrap(),
            r#"{"f":1.5,"i":9007199254740993,"n":-1,"u":18446744073709551615,"w":2.0}"#
        );
    }

    #[test]
    fn what_is_no_json_object_is_refused_with_a_reason() {
        let reason = |text: &str| Body::from_json(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(reason(""), "unexpected end of JSON input");
        assert_eq!(reason("{\"a\":"), "unexpected end of JSON input");
        assert_eq!(reason("[1]"), "json: cannot unmarshal array into Go value of type map[string]interface {}");
        assert_eq!(reason("{} {}"), "trailing characters at line 1 column 4");
        assert_eq!(reason("{a: 1}"), "key must be a string at line 1 column 2");
        assert_eq!(Body::from_json(b"null").unwrap(), Body::default());
        let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
        assert!(reason(&deep).starts_with("recursion limit exceeded"));
        assert!(Body::from_json(b"{\"a\":\"\xff\"}").is_err());
    }

    #[test]
    fn yaml_is_read_as_kubernetes_reads_it() {
        assert_eq!(yaml("y: n"), json!({"true": false}), "the one-letter booleans too, even as keys");
        assert_eq!(
            yaml(
                "---\na: yes\nb: off\nc: 'yes'\nd: 0755\ne: 1.0\nf: 1_000\ng: ~\nh: 2024-01-01\ni: 1.5\n1: one\ntrue: t\n"
            ),
            json!({
                "a": true, "b": false, "c": "yes", "d": 493, "e": 1, "f": 1000, "g": null, "h": "2024-01-01", "i": 1.5,
                "1": "one", "true": "t",
            })
        );
        assert_eq!(
            yaml("base: &b {x: 1, z: [a]}\nother:\n  <<: *b\n  z: []\ncopy: *b\n"),
            json!({"base": {"x": 1, "z": ["a"]}, "other": {"x": 1, "z": []}, "copy": {"x": 1, "z": ["a"]}})
        );
        assert_eq!(yaml("{\"a\": [1, 2.0]}"), json!({"a": [1, 2.0]}), "JSON stays JSON");
        assert_eq!(yaml("# only\na: |\n  two\n  lines\n"), json!({"a": "two\nlines\n"}));
    }

    #[test]
    fn fv6_yaml_duplicates_are_named_by_line() {
        let body = Body::from_yaml(b"\nspec:\n  foo: 1\n  bar:\n  - {x: 1}\n  foo: 2\na: 1\na: 3\n").unwrap();
        assert_eq!(Value::Object(body.value.clone()), json!({"spec": {"foo": 2, "bar": [{"x": 1}]}, "a": 3}));
        assert_eq!(
            shown(&body.duplicates),
            [r#"line 6: key "foo" already set in map"#, r#"line 8: key "a" already set in map"#]
        );
        assert_eq!(
            body.strict_faults(),
            [
                "yaml: unmarshal errors:\n  line 6: key \"foo\" already set in map\n  line 8: key \"a\" already set in map"
            ]
        );
    }

    #[test]
    fn yaml_that_is_not_one_object_is_refused() {
        let reason = |text: &str| Body::from_yaml(text.as_bytes()).unwrap_err().to_string();
        assert!(reason("a: 1\n---\nb: 2\n").contains("multiple"), "{}", reason("a: 1\n---\nb: 2\n"));
        assert!(reason("a: [1\n").starts_with("error converting YAML to JSON: yaml: "));
        assert_eq!(reason("- a\n"), "json: cannot unmarshal array into Go value of type map[string]interface {}");
        assert_eq!(Body::from_yaml(b"").unwrap(), Body::default());
        assert!(!reason("a: \"\n").contains('\n'), "one line");
        assert!(Body::from_yaml(b"a: .nan").is_err());
        assert!(Body::from_yaml(b"? [a]\n: 1\n").is_err(), "a key that is a list");
    }

    #[test]
    fn alias_bombs_are_refused_before_they_go_off() {
        let mut bomb = format!("a0: &a0 \"{}\"\n", "x".repeat(1000));
        for level in 1..9 {
            let refs = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{refs}]\n"));
        }
        assert!(Body::from_yaml(bomb.as_bytes()).is_err());
        let long = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(1_000_000), vec!["*a"; 90].join(", "));
        assert!(Body::from_yaml(long.as_bytes()).unwrap_err().to_string().contains("excessive aliasing"));
        assert!(Body::from_yaml("[".repeat(10_000).as_bytes()).is_err());
        assert!(Body::from_yaml(format!("{}a", "- ".repeat(10_000)).as_bytes()).is_err());
    }

    /// Any JSON of a few levels, with keys that meet.
    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1000_i32..1000).prop_map(|number| Value::from(f64::from(number) / 8.0)),
            "[a-z0-9 .:#-]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map("[a-e]{1,2}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_is_read_as_it_was_written(value in any_value()) {
            let whole = json!({"root": value});
            let body = Body::from_json(whole.to_string().as_bytes()).unwrap();
            prop_assert_eq!(Value::Object(body.value), whole);
            prop_assert_eq!(body.duplicates, Vec::new());
        }

        #[test]
        fn json_read_as_yaml_says_the_same(value in any_value()) {
            fn whole_floats(value: Value) -> Value {
                match value {
                    Value::Number(number) => match number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0) {
                        Some(float) => Value::from(float as i64),
                        None => Value::Number(number),
                    },
                    Value::Array(list) => list.into_iter().map(whole_floats).collect(),
                    Value::Object(map) => map.into_iter().map(|(key, value)| (key, whole_floats(value))).collect(),
                    other => other,
                }
            }
            let whole = json!({"root": value});
            let body = Body::from_yaml(format!("---\n{whole}\n").as_bytes()).unwrap();
            prop_assert_eq!(Value::Object(body.value), whole_floats(whole));
            prop_assert_eq!(body.duplicates, Vec::new());
        }

        #[test]
        fn no_text_makes_it_panic(text in "[\\[\\]{}:,&*!|>'\"#?<%@\\-a-c0-9. \n\t~]{0,80}", noise in any::<Vec<u8>>()) {
            for text in [text.as_bytes(), &noise] {
                let _ = Body::from_json(text);
                let _ = Body::from_yaml(text);
            }
        }
    }
}
