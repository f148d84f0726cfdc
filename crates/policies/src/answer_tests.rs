//! Results of kube-apiserver 1.36.2, derived from its source and that of cel-go 0.26: texts, URLs,
//! errors and costs.

use serde_json::{Value as Json, json};

use super::tests::{evaluated, judgements};
use super::*;

#[track_caller]
fn assert_values(cases: &[(&str, Json)]) {
    for (expression, value) in cases {
        assert_eq!(evaluated(expression).as_ref(), Ok(value), "{expression}");
    }
}

#[track_caller]
fn assert_errors(cases: &[(&str, &str)]) {
    for (expression, why) in cases {
        assert_eq!(evaluated(expression), Err((*why).to_owned()), "{expression}");
    }
}

#[test]
fn ad27_numbers_are_formatted_as_in_the_locale_of_upstream() {
    assert_values(&[
        ("'%e'.format([1052.032911275])", json!("1.052033\u{202f}×\u{202f}10⁰³")),
        ("'%.0e|%.1e'.format([25.0, -0.00012])", json!("2\u{202f}×\u{202f}10⁰¹|-1.2\u{202f}×\u{202f}10⁻⁰⁴")),
        ("'%e'.format([0.0])", json!("0.000000\u{202f}×\u{202f}10⁰⁰")),
        ("'%.1e'.format([1e100])", json!("1.0\u{202f}×\u{202f}10¹⁰⁰")),
        ("'%e %f %f'.format(['NaN', 'Infinity', '-Infinity'])", json!("NaN ∞ -∞")),
        ("'%f %.0f'.format([1234567.891, 999.5])", json!("1,234,567.891000 1,000")),
        ("'%.3f %.2f'.format([1.2345, -1234.005])", json!("1.234 -1,234.01")),
        ("'%d %d'.format([1234567, -5])", json!("1234567 -5")),
        ("'%b %b %o %x %X'.format([-5, true, -11, 'Hi', b'\\x00\\xff'])", json!("-101 1 -13 4869 00FF")),
        ("'%s %s'.format([1000000.0, 123456.5])", json!("1e+06 123456.5")),
        ("'%s'.format([[1000000.0, 2e-9]])", json!("[1000000.000000, 0.000000]")),
        ("'%s'.format([[double('NaN'), double('Inf'), double('-Inf')]])", json!("[\"NaN\", \"+Inf\", \"-Inf\"]")),
        ("string(123456.0) + ' ' + string(1234567.0)", json!("123456 1.234567e+06")),
        ("string(0.0001) + ' ' + string(0.00001)", json!("0.0001 1e-05")),
    ]);
}

#[test]
fn ad27_values_are_formatted_as_upstream_does() {
    assert_values(&[
        ("'%s'.format([{'b': [1, 2.0], 'a': true}])", json!("{\"a\":true, \"b\":[1, 2.000000]}")),
        ("'%s'.format([{1: null, 'x': {}}])", json!("{\"x\":{}, 1:null}")),
        ("'%s'.format([['a\"\\n\\t', '\\u0001é']])", json!("[\"a\\\"\\n\\t\", \"\\x01é\"]")),
        ("'%s %s'.format([b'xyz', [b'xyz']])", json!("xyz [b\"xyz\"]")),
        ("'%s %s'.format([duration('1h1m1.5s'), [duration('90s')]])", json!("3661.5s [duration(\"90s\")]")),
        ("'%s'.format([[timestamp('2026-11-27T03:04:05Z')]])", json!("[timestamp(\"2026-11-27T03:04:05Z\")]")),
        ("'%s %s %s'.format([null, type(1), [type('')]])", json!("null int [string]")),
        ("'%%%s%%'.format(['x'])", json!("%x%")),
        ("string(duration('1ns')) + string(duration('-1.5s'))", json!("0.000000001s-1.5s")),
        // The seconds of a duration are a double.
        ("string(duration('100000h1ns'))", json!("360000000s")),
        ("string(duration('1234567890.123456789s'))", json!("1234567890.1234567s")),
        ("lists.range(-1)", json!([])),
    ]);
}

#[test]
fn ad27_faults_of_templates_have_the_words_of_upstream() {
    assert_errors(&[
        ("'%e'.format([1])", "error during formatting: scientific clause can only be used on doubles, was given int"),
        (
            "'%f'.format(['x'])",
            "error during formatting: fixed-point clause can only be used on doubles, was given string",
        ),
        (
            "'%d'.format([1.5])",
            "error during formatting: decimal clause can only be used on integers, was given double",
        ),
        (
            "'%b'.format(['x'])",
            "error during formatting: only integers and bools can be formatted as binary, was given string",
        ),
        ("'%o'.format([1.0])", "error during formatting: octal clause can only be used on integers, was given double"),
        (
            "'%x'.format([1.0])",
            "error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given double",
        ),
        ("'%s'.format([[quantity('1')]])", "error during formatting: no formatting function for kubernetes.Quantity"),
        ("'%s'.format([{1.5: 1}])", "error during formatting: no formatting function for map key of type double"),
        ("'%q'.format([1])", "could not parse formatting clause: unrecognized formatting clause \"q\""),
        ("'%'.format([1])", "unexpected end of string"),
        ("'%s %s'.format([1])", "index 1 out of range"),
        (
            "'%.2'.format([1.0])",
            "could not parse formatting clause: error while parsing precision: could not find end of precision specifier",
        ),
        (
            "'%.f'.format([1.0])",
            "could not parse formatting clause: error while parsing precision: error while converting precision to \
             integer: strconv.Atoi: parsing \"\": invalid syntax",
        ),
    ]);
}

#[test]
fn ad27_urls_are_read_as_upstream_does() {
    assert_values(&[
        ("url('https://example.com/a?b=c#frag').getQuery()", json!({"b": ["c"]})),
        ("url('https://example.com/a#frag?b=c').getEscapedPath()", json!("/a")),
        ("url('/p#x').getEscapedPath()", json!("/p")),
        ("url('/a%2Fb c').getEscapedPath()", json!("/a/b%20c")),
        ("url('/a%2Fb!').getEscapedPath()", json!("/a%2Fb!")),
        ("url('*').getEscapedPath()", json!("*")),
        ("url('mailto:a#b').getScheme() + url('mailto:a#b').getHost()", json!("mailto")),
        ("url('HTTP://Host:8080/').getScheme() + url('HTTP://Host:8080/').getHost()", json!("httpHost:8080")),
        ("url('https://[fe80::1%25en0]:80/').getHostname()", json!("fe80::1%en0")),
        ("url('https://user:pw@host/').getHost()", json!("host")),
        ("url('HTTP://x/') == url('http://x/')", json!(true)),
        ("isURL('https://example.com#f') || isURL('a/b') || isURL('')", json!(false)),
        ("format.uri().validate('a b').value()[0]", json!("parse \"a b\": invalid URI for request")),
    ]);
    let wrong = |why: &str| format!("URL parse error during conversion from string: {why}");
    for (text, why) in [
        ("https://example.com#f", "parse \"https://example.com#f\": invalid character \"#\" in host name"),
        ("/p?q#%zz", "parse \"/p?q#%zz\": invalid URL escape \"%zz\""),
        ("/p%zz", "parse \"/p%zz\": invalid URL escape \"%zz\""),
        ("../x", "parse \"../x\": invalid URI for request"),
        ("", "parse \"\": empty url"),
        (":x", "parse \":x\": missing protocol scheme"),
        ("http://[::1", "parse \"http://[::1\": missing ']' in host"),
        ("http://a:b/", "parse \"http://a:b/\": invalid port \":b\" after host"),
        ("http://a:1:2/", "parse \"http://a:1:2/\": invalid port \":1:2\" after host"),
        ("http://a b@h/", "parse \"http://a b@h/\": net/url: invalid userinfo"),
        ("http://h%41/", "parse \"http://h%41/\": invalid URL escape \"%41\""),
    ] {
        assert_eq!(evaluated(&format!("url('{text}').getHost()")), Err(wrong(why)), "{text}");
    }
}

#[test]
fn ad27_texts_are_converted_as_upstream_does() {
    assert_errors(&[
        ("uint('+5')", "type conversion error from 'string' to 'uint'"),
        ("int('1_000')", "type conversion error from 'string' to 'int'"),
        ("timestamp('2026-11-27 03:04:05Z')", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("timestamp('2026-11-27T03:04Z')", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("timestamp('2026-11-27T03:04:60Z')", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("duration('1')", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("quantity('1iK')", "unable to parse quantity's suffix"),
        (
            "quantity('1.2.3')",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ]);
    assert_values(&[
        ("string(timestamp('2026-11-27T05:04:05.5+02:00'))", json!("2026-11-27T03:04:05.5Z")),
        ("int('+5') == 5 && double('.5') == 0.5 && bool('T')", json!(true)),
    ]);
}

/// An expression with a cost of slightly more than 2 * 600 * 600.
const DEAR: &str = "lists.range(600).distinct().size() == 600";

#[test]
fn ad27_costs_are_those_of_upstream() {
    let too_dear = Err("operation cancelled: actual cost limit exceeded".to_owned());
    // Each list costs 11 more than its length, and the comparison costs the product plus one.
    let compared = |length: u32| format!("sets.contains(lists.range({length}), lists.range({length}))");
    assert_eq!(evaluated(&compared(998)), Ok(json!(true)));
    assert_eq!(evaluated(&compared(999)), too_dear);
    // An iteration of `all` costs 3 (two for the accumulator, one for its test), and an element of
    // the range costs 1.
    let all = |length: u32| format!("lists.range({length}).all(i, true)");
    assert_eq!(evaluated(&all(249_000)), Ok(json!(true)));
    assert_eq!(evaluated(&all(251_000)), too_dear);
    assert_eq!(evaluated("lists.range(1000001)"), too_dear);
}

#[test]
fn ad27_all_expressions_of_a_policy_share_one_budget() {
    const SPENT: &str = "validation failed due to running out of cost budget, no further validation rules will be run";
    let dear = |count: usize| vec![json!({"expression": DEAR}); count];
    assert_eq!(judgements(json!({"validations": dear(13)})), vec![Judgement::Admitted; 13]);
    let spent = Judgement::Failed(PolicyFailure { message: SPENT.to_owned() });
    assert_eq!(judgements(json!({"validations": dear(14)})), std::slice::from_ref(&spent));
    // A variable costs once, and counts against the budget.
    let variables: Vec<Json> = (0..14).map(|i| json!({"name": format!("v{i}"), "expression": DEAR})).collect();
    let uses = |count: usize| (0..count).map(|i| format!("variables.v{i}")).collect::<Vec<_>>().join(" && ");
    let with = |count: usize| {
        judgements(json!({"variables": variables, "validations": [{"expression": uses(count)},
        {"expression": uses(count)}]}))
    };
    assert_eq!(with(13), vec![Judgement::Admitted; 2]);
    assert_eq!(with(14), [spent]);
    // The messages of denials use the budget that the validations leave.
    let message = format!("string({DEAR})");
    let mut validations = dear(13);
    validations.push(json!({"expression": "false", "messageExpression": message}));
    let judged = judgements(json!({"validations": validations}));
    let failure = PolicyFailure { message: format!("failed messageExpression: {SPENT}") };
    assert_eq!(judged.last(), Some(&Judgement::Failed(failure)));
}

#[test]
fn ad27_the_message_decides_the_kind_of_error_in_the_metrics() {
    for (message, kind) in [
        ("failed expression: false", "invalid_error"),
        ("expression 'x' resulted in error: operation cancelled: actual cost limit exceeded", "invalid_error"),
        ("compilation error: undeclared reference", "compile_error"),
        (
            "validation failed due to running out of cost budget, no further validation rules will be run",
            "out_of_budget",
        ),
        ("failed messageExpression: validation failed due to running out of cost budget", "invalid_error"),
    ] {
        assert_eq!(error_type(message), kind, "{message}");
    }
}
