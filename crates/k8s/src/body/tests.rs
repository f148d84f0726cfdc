//! Parsing of JSON and YAML bodies: results, errors and duplicate keys.

use proptest::prelude::*;
use serde_json::json;

use super::super::yaml::DEPTH_MAX;
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
    assert_eq!(reason("{} {}"), "the text goes on after the end of the JSON (line 1, column 4)");
    assert_eq!(reason("{a: 1}"), "the name of a member is not in double quotes (line 1, column 2)");
    assert_eq!(Body::from_json(b"null").unwrap(), Body::default());
    let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
    assert!(reason(&deep).starts_with("the JSON nests deeper than 127 levels"));
    assert!(reason("{\"a\": \u{fffd}}").starts_with("a value is missing"));
    assert!(Body::from_json(b"{\"a\": \xff}").is_err());
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
fn tl3_text_that_is_no_unicode_is_taken_in_json_and_refused_in_yaml() {
    let body = |text: &[u8]| Body::from_json(text).map(|body| Value::from(body.value)).unwrap();
    assert_eq!(body(b"{\"a\":\"X\xff\",\"b\":1}"), json!({"a": "X\u{fffd}", "b": 1}));
    assert_eq!(body(br#"{"\ud800":1,"a":"\udc00"}"#), json!({"\u{fffd}": 1, "a": "\u{fffd}"}));
    assert!(Body::from_yaml(b"{\"a\":\"X\xff\"}").is_err());
}

#[test]
fn tl4_yaml_scalars_are_read_as_upstream_reads_them() {
    for (text, expected) in [
        ("tRUE", json!("tRUE")),
        ("yEs", json!("yEs")),
        ("On", json!(true)),
        ("1e400", json!("1e400")),
        ("-1e400", json!("-1e400")),
        ("1e2", json!(100)),
        ("1.5e-1", json!(0.15)),
        (".5", json!(0.5)),
        ("5.", json!(5)),
        ("+5", json!(5)),
        ("0x1F", json!(31)),
        ("0b11", json!(3)),
        ("0o17", json!(15)),
        ("08", json!(8)),
        ("-0755", json!(-493)),
        ("1_000.5", json!(1000.5)),
        ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
        ("1:30", json!("1:30")),
        ("1.2.3", json!("1.2.3")),
        ("0x", json!("0x")),
        ("2001-01-01", json!("2001-01-01")),
        ("!!timestamp 2001-01-01", json!("2001-01-01")),
        ("!!str 5", json!("5")),
        ("!!int \"5\"", json!(5)),
        ("!!float 5", json!(5)),
        ("!!binary aGk=", json!("hi")),
        ("!mine 5", json!("5")),
        ("!!null ~", json!(null)),
        ("\"null\"", json!("null")),
    ] {
        let read = Body::from_yaml(format!("a: {text}\n").as_bytes());
        assert_eq!(read.map(|body| body.value["a"].clone()), Ok(expected), "{text}");
    }
    for (text, why) in [
        ("a: !!null x", "cannot decode !!str `x` as a !!null"),
        ("a: !!int x", "cannot decode !!str `x` as a !!int"),
        ("a: !!timestamp x", "cannot decode !!str `x` as a !!timestamp"),
        ("~: b", "a key must not be null"),
        ("a: .inf", "`.inf` is no number of JSON"),
        ("a: !!binary $", "!!binary value contains invalid base64 data"),
    ] {
        let fault = Body::from_yaml(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(fault, format!("error converting YAML to JSON: yaml: line 1: {why}"));
    }
}

#[test]
fn tl5_aliases_may_be_many_and_bodies_deep_within_bounds() {
    let aliases: String = (0..2_000).map(|i| format!("  k{i}: *a\n")).collect();
    let read = Body::from_yaml(format!("z: &a v\nm:\n{aliases}").as_bytes()).unwrap();
    assert_eq!(read.value["m"].as_object().unwrap().len(), 2_000);
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    for read in [Body::from_json as fn(&[u8]) -> _, Body::from_yaml] {
        let body = |levels| read(format!("{{\"a\":{}}}", nested(levels)).as_bytes());
        assert!(body(DEPTH_MAX - 1).is_ok());
        assert!(body(DEPTH_MAX).is_err());
    }
    let alias = |levels| {
        Body::from_yaml(format!("a: &a {}\nb: {}*a{}", nested(70), "[".repeat(levels), "]".repeat(levels)).as_bytes())
    };
    assert!(alias(56).is_ok());
    assert!(alias(57).unwrap_err().to_string().ends_with("exceeded max depth of 127"));
    assert!(Body::from_yaml(b"a: &a [*a]").unwrap_err().to_string().contains("contains itself"));
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
        ["yaml: unmarshal errors:\n  line 6: key \"foo\" already set in map\n  line 8: key \"a\" already set in map"]
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

/// Generates JSON of a few levels, with keys that collide.
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
