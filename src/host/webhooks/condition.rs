//! Match conditions, as far as they are comparisons: `request.operation == "CREATE"`, `!=`, `true`, `false`,
//! and several of them joined with `&&`.
//!
//! CEL is a language; this is the part of it that most conditions are made of. What is more is not guessed
//! at: `None`, and the webhook counts as failed.

use serde_json::Value;

/// Whether the condition holds; `None` if it is more than comparisons.
pub fn evaluate(expression: &str, variables: &Value) -> Option<bool> {
    let mut holds = true;
    for term in expression.split("&&") {
        holds &= compare(term.trim(), variables)?;
    }
    Some(holds)
}

fn compare(term: &str, variables: &Value) -> Option<bool> {
    match term {
        "true" => return Some(true),
        "false" => return Some(false),
        _ => {}
    }
    let (left, right, wanted) = match term.split_once("==") {
        Some((left, right)) => (left, right, true),
        None => {
            let (left, right) = term.split_once("!=")?;
            (left, right, false)
        }
    };
    let (left, right) = (operand(left.trim(), variables)?, operand(right.trim(), variables)?);
    Some((left == right) == wanted)
}

fn operand(text: &str, variables: &Value) -> Option<Value> {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            let inner = inner.strip_suffix(quote)?;
            return (!inner.contains([quote, '\\'])).then(|| Value::from(inner));
        }
    }
    if let Ok(literal @ (Value::Bool(_) | Value::Number(_) | Value::Null)) = serde_json::from_str::<Value>(text) {
        return Some(literal);
    }
    let is_path =
        text.split('.').all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    if !is_path {
        return None;
    }
    // A member that is not there is an error in CEL, so it is none here.
    text.split('.').try_fold(variables, |value, part| value.get(part)).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn comparisons_are_evaluated_and_what_is_more_is_not_guessed_at() {
        let variables = json!({"request": {"operation": "CREATE", "dryRun": false, "userInfo": {"username": "jane"}},
            "object": {"spec": {"replicas": 3}}});
        for (expression, expected) in [
            ("true", Some(true)),
            ("request.operation == \"CREATE\"", Some(true)),
            ("request.operation != 'CREATE'", Some(false)),
            ("request.operation == 'CREATE' && object.spec.replicas == 3", Some(true)),
            ("request.dryRun == false && request.userInfo.username == 'joe'", Some(false)),
            ("object.spec.missing == 1", None),
            ("request.operation in ['CREATE']", None),
            ("!request.userInfo.username.startsWith('system:')", None),
            ("a == 'x' || b == 'y'", None),
            ("has(object.spec)", None),
        ] {
            assert_eq!(evaluate(expression, &variables), expected, "{expression}");
        }
    }
}
