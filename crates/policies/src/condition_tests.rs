//! Match conditions evaluate as in CEL, within bounds.

use serde_json::{Value as Json, json};

use super::*;

fn variables() -> Json {
    json!({
        "request": {"operation": "CREATE", "dryRun": false, "resource": {"group": "apps.karmada.io"},
            "userInfo": {"username": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]}},
        "object": {"metadata": {"name": "web", "labels": {"team/name": "a"}}, "spec": {"replicas": 3, "weight": 1.5}},
        "oldObject": null,
    })
}

fn read(expression: &str) -> Result<MatchConditions, String> {
    let conditions = MatchConditions::read([("one".to_owned(), expression.to_owned())], true);
    match &conditions.conditions[0].expression {
        Ok(_) => Ok(conditions),
        Err(why) => Err(why.clone()),
    }
}

/// Returns the value of a condition. `None` means that it fails to parse or to evaluate.
fn asked(expression: &str) -> Option<bool> {
    let (conditions, variables, answers) = (read(expression).ok()?, variables(), AccessAnswers::new());
    let inputs = Inputs {
        object: Value::of(&variables["object"]),
        old_object: Value::of(&variables["oldObject"]),
        request: Value::of(&variables["request"]),
        params: Value::Null,
        namespace: Value::Null,
        authorizer: None,
        answers: &answers,
    };
    conditions.holds(&inputs).expect("it asks nothing").ok()
}

#[test]
fn ad3_conditions_mean_what_they_mean_in_cel() {
    for (expression, expected) in [
        ("true", Some(true)),
        ("request.operation == \"CREATE\"", Some(true)),
        ("request.operation != 'CREATE'", Some(false)),
        ("request.operation in ['CREATE', 'UPDATE']", Some(true)),
        ("!(\"system:nodes\" in request.userInfo.groups)", Some(false)),
        ("!(request.resource.group == 'coordination.k8s.io' && request.resource.resource == 'leases')", Some(true)),
        ("!request.userInfo.username.startsWith('system:node:')", Some(false)),
        ("request.userInfo.username.matches('^system:(node|serviceaccount):')", Some(true)),
        ("request.userInfo.groups.exists(g, g.endsWith(':nodes'))", Some(true)),
        ("request.userInfo.groups.all(g, g.contains('auth'))", Some(false)),
        ("object.metadata.labels.exists(key, key == 'team/name')", Some(true)),
        ("has(object.metadata.labels) && object.metadata.labels['team/name'] == 'a'", Some(true)),
        ("has(object.metadata.annotations)", Some(false)),
        ("has(object.metadata.annotations) ? object.metadata.annotations['x'] == 'y' : true", Some(true)),
        ("object.spec.replicas > 2 && object.spec.replicas <= 3 && object.spec.weight < 2", Some(true)),
        ("object.spec.replicas == 3.0 && -1 < 0", Some(true)),
        ("oldObject == null", Some(true)),
        ("size(request.userInfo.groups) == 2 && object.metadata.name.size() == 3", Some(true)),
        ("[1, 2].exists(x, [x].all(y, x == y)) // a comment", Some(true)),
        ("request.dryRun == false ||\n request.missing == 'x'", Some(true)),
    ] {
        assert_eq!(asked(expression), expected, "{expression}");
    }
}

#[test]
fn the_longest_and_deepest_that_is_read_can_be_evaluated() {
    let chain = |link: &str, times| format!("true{}", link.repeat(times));
    assert_eq!(asked(&chain(" && true", 400)), Some(true));
    assert!(read(&chain(" && true", 5_000)).is_err(), "too long");
    let path = |times| format!("request{}", ".a".repeat(times));
    assert_eq!(asked(&path(100)), None, "it has no such member");
    assert!(read(&path(100)).is_ok());
    assert!(read(&path(300)).is_err(), "too deep");
    assert_eq!(asked(&format!("{}true{}", "(".repeat(60), ")".repeat(60))), Some(true));
    assert!(read(&format!("{}true{}", "(".repeat(500), ")".repeat(500))).is_err());
    assert_eq!(asked(&format!("{}true{}", "[".repeat(60), "]".repeat(60))), None, "no boolean");
    let nested = |times: usize| format!("{}true{}", "[1].all(x, ".repeat(times), ")".repeat(times));
    assert_eq!(asked(&nested(8)), Some(true));
    assert!(read(&nested(9)).is_err(), "too many macros");
}

#[test]
fn ad3_conditions_have_the_functions_of_policies() {
    for expression in [
        "object.spec.replicas + 1 == 4",
        "{'a': 1}.a == 1",
        "request.userInfo.groups.filter(g, g.startsWith('system:')).size() == 2",
        "request.userInfo.groups.exists_one(g, g == 'system:nodes')",
        "object.metadata.name.matches('^' + object.metadata.name + '$')",
        "string(object.spec.replicas) == '3' && int('3') == object.spec.replicas",
        "r'\\d' == '\\\\d'",
        "quantity('1Gi').isLessThan(quantity('2Gi'))",
        "timestamp('2026-01-01T00:00:00Z') < timestamp('2026-01-02T00:00:00Z')",
    ] {
        assert_eq!(asked(expression), Some(true), "{expression}");
    }
}

#[test]
fn an_error_on_one_side_is_none_where_the_other_settles_it() {
    for (expression, expected) in [
        ("object.spec.missing == 1", None),
        ("object.spec.missing == 1 || true", Some(true)),
        ("object.spec.missing == 1 && false", Some(false)),
        ("object.spec.missing == 1 && true", None),
        ("oldObject.spec.replicas == 1", None),
        ("[1, 0].exists(x, object.missing[x] || x == 0)", Some(true)),
        ("object.spec.replicas", None),
        ("object.spec.replicas < 'a'", None),
    ] {
        assert_eq!(asked(expression), expected, "{expression}");
    }
}

#[test]
fn what_is_malformed_or_unknown_fails() {
    for expression in [
        "request.operation == 'CREATE",
        "request.operation ==",
        "(true",
        "true true",
        "a",
        "",
        &"!".repeat(4_000),
        &"(".repeat(4_000),
        &"[".repeat(4_000),
        &format!("{}true", "true ? true : ".repeat(280)),
    ] {
        assert!(read(expression).is_err(), "{expression}");
    }
    for expression in [
        "authorizer.group('').resource('x').check('get').allowed()",
        "params.x == 1",
        "namespaceObject.metadata.name == 'x'",
        "object.metadata.name.matches('(')",
        "nothing(1)",
    ] {
        assert_eq!(asked(expression), None, "{expression}");
    }
}
