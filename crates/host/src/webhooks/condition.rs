//! Match conditions of webhooks, in CEL (Common Expression Language), over the variables `request`,
//! `object` and `oldObject`. `ballast_policies` reads and evaluates them as it does those of
//! policies, with the same functions, bounds and words.
//!
//! A condition is read once, together with its webhook configuration. One that cannot be read, also
//! because it is beyond a bound, makes its webhook count as failed.
//!
//! Deliberately absent: the variable `authorizer`. A condition that names it fails.

use serde_json::Value as Json;

use ballast_policies::{AccessAnswers, CONDITIONS_COST_MAX, Evaluation, Expression, Inputs, Value};

/// One expression, ready to be evaluated.
pub struct CompiledCondition(Expression);

impl CompiledCondition {
    /// Reads a condition. The error says why it cannot be read.
    pub fn parse(text: &str) -> Result<CompiledCondition, String> {
        Expression::parse(text, &[]).map(CompiledCondition)
    }

    /// Whether the condition holds. It is an error where CEL has one: for a member that does not
    /// exist, an operator that does not fit its operands, or a result that is not a boolean. The
    /// cost counts against the budget of all conditions of a webhook.
    pub fn holds<'a>(&'a self, evaluation: &mut Evaluation<'a>) -> Result<bool, String> {
        match evaluation.value(&self.0) {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err("its result is not a boolean".to_owned()),
            Err(fault) => Err(fault.to_string()),
        }
    }
}

/// The evaluation of all conditions of a webhook. `variables` is an object with `request`, `object`
/// and `oldObject`.
pub fn evaluation<'a>(variables: &'a Json, answers: &'a AccessAnswers) -> Evaluation<'a> {
    let inputs = Inputs {
        object: Value::of(&variables["object"]),
        old_object: Value::of(&variables["oldObject"]),
        request: Value::of(&variables["request"]),
        params: Value::Null,
        namespace: Value::Null,
        authorizer: None,
        answers,
    };
    Evaluation::new(inputs, &[], CONDITIONS_COST_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn variables() -> Json {
        json!({
            "request": {"operation": "CREATE", "dryRun": false, "resource": {"group": "apps.karmada.io"},
                "userInfo": {"username": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]}},
            "object": {"metadata": {"name": "web", "labels": {"team/name": "a"}}, "spec": {"replicas": 3, "weight": 1.5}},
            "oldObject": null,
        })
    }

    /// None: an error, when it is read or when it is asked.
    fn asked(expression: &str) -> Option<bool> {
        let (condition, variables, answers) =
            (CompiledCondition::parse(expression).ok()?, variables(), AccessAnswers::new());
        condition.holds(&mut evaluation(&variables, &answers)).ok()
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
        assert!(CompiledCondition::parse(&chain(" && true", 5_000)).is_err(), "too long");
        let path = |times| format!("request{}", ".a".repeat(times));
        assert_eq!(asked(&path(100)), None, "it has no such member");
        assert!(CompiledCondition::parse(&path(100)).is_ok());
        assert!(CompiledCondition::parse(&path(300)).is_err(), "too deep");
        assert_eq!(asked(&format!("{}true{}", "(".repeat(60), ")".repeat(60))), Some(true));
        assert!(CompiledCondition::parse(&format!("{}true{}", "(".repeat(500), ")".repeat(500))).is_err());
        assert_eq!(asked(&format!("{}true{}", "[".repeat(60), "]".repeat(60))), None, "no boolean");
        let nested = |times: usize| format!("{}true{}", "[1].all(x, ".repeat(times), ")".repeat(times));
        assert_eq!(asked(&nested(8)), Some(true));
        assert!(CompiledCondition::parse(&nested(9)).is_err(), "too many macros");
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
            assert!(CompiledCondition::parse(expression).is_err(), "{expression}");
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
}
