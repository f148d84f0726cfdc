//! Match conditions: the part of CEL that they are written in. Literals and lists, members, `[…]`,
//! `has()`, `!`, `&&`, `||`, `? :`, comparisons, `in`, `size()`, `startsWith`, `endsWith`,
//! `contains`, `matches`, and the macros `all` and `exists`; over `request`, `object` and
//! `oldObject`.
//!
//! Deliberately absent: arithmetic, maps, conversions, `authorizer`, `namespaceObject`, `params`,
//! and Kubernetes' libraries. What has them is not guessed at: it cannot be read, and its webhook
//! counts as failed.

mod parse;

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// One expression, ready to be asked.
#[derive(Debug)]
pub struct CompiledCondition {
    root: Expression,
}

#[derive(Debug)]
enum Expression {
    Literal(Value),
    Name(String),
    List(Vec<Expression>),
    Member(Box<Expression>, String),
    Has(Box<Expression>, String),
    Index(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Both(Box<Expression>, Box<Expression>),
    Either(Box<Expression>, Box<Expression>),
    Compare(Comparison, Box<Expression>, Box<Expression>),
    In(Box<Expression>, Box<Expression>),
    Choose(Box<[Expression; 3]>),
    Size(Box<Expression>),
    Text(TextTest, Box<Expression>, Box<Expression>),
    Matches(Box<Expression>, regex::Regex),
    Every { of: Box<Expression>, name: String, test: Box<Expression>, wanted: Quantifier },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug)]
enum TextTest {
    StartsWith,
    EndsWith,
    Contains,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantifier {
    All,
    Exists,
}

/// What an expression may look at: the variables by name, the innermost macro's first.
struct Scope<'a> {
    name: &'a str,
    value: &'a Value,
    outer: Option<&'a Scope<'a>>,
}

type Evaluated = Result<Value, String>;

impl CompiledCondition {
    /// Reads it; the error says what of it is not understood.
    pub fn parse(text: &str) -> Result<CompiledCondition, String> {
        parse::expression(text).map(|root| CompiledCondition { root })
    }

    /// Whether it holds. An error where CEL has one: a member that is not there, a comparison of
    /// unlike things.
    pub fn holds(&self, variables: &Value) -> Result<bool, String> {
        let scope = Scope { name: "", value: variables, outer: None };
        truth(&self.root.evaluate(&scope)?)
    }
}

impl Expression {
    fn evaluate(&self, scope: &Scope<'_>) -> Evaluated {
        match self {
            Expression::Literal(value) => Ok(value.clone()),
            Expression::Name(name) => scope.find(name).cloned(),
            Expression::List(items) => {
                let items: Result<Vec<Value>, String> = items.iter().map(|item| item.evaluate(scope)).collect();
                items.map(Value::from)
            }
            Expression::Member(of, name) => of.with(scope, |of| member(of, name).cloned()),
            Expression::Has(of, name) => of.with(scope, |of| match of {
                Value::Object(members) => Ok(Value::from(members.contains_key(name))),
                _ => Err(format!("has(): {name:?} is asked of something that has no members")),
            }),
            Expression::Index(of, at) => {
                let at = at.evaluate(scope)?;
                of.with(scope, |of| match (of, &at) {
                    (Value::Object(_), Value::String(name)) => member(of, name).cloned(),
                    (Value::Array(items), Value::Number(at)) => {
                        let item = at.as_u64().and_then(|at| items.get(usize::try_from(at).ok()?));
                        item.cloned().ok_or_else(|| format!("index {at} is out of range"))
                    }
                    _ => Err("no such index".to_owned()),
                })
            }
            Expression::Not(what) => Ok(Value::from(!truth(&what.evaluate(scope)?)?)),
            Expression::Both(left, right) => unless(false, left.truth(scope), || right.truth(scope)),
            Expression::Either(left, right) => unless(true, left.truth(scope), || right.truth(scope)),
            Expression::Compare(how, left, right) => {
                how.holds(&left.evaluate(scope)?, &right.evaluate(scope)?).map(Value::from)
            }
            Expression::In(what, list) => {
                let what = what.evaluate(scope)?;
                list.with(scope, |list| match (list, &what) {
                    (Value::Array(items), _) => Ok(Value::from(items.iter().any(|item| equal(item, &what)))),
                    (Value::Object(members), Value::String(name)) => Ok(Value::from(members.contains_key(name))),
                    _ => Err("`in` wants a list".to_owned()),
                })
            }
            Expression::Choose(parts) => {
                let [test, then, otherwise] = &**parts;
                if test.truth(scope)? { then.evaluate(scope) } else { otherwise.evaluate(scope) }
            }
            Expression::Size(of) => of.with(scope, |of| match of {
                Value::String(text) => Ok(Value::from(text.chars().count())),
                Value::Array(items) => Ok(Value::from(items.len())),
                Value::Object(members) => Ok(Value::from(members.len())),
                _ => Err("size() wants a text or a list".to_owned()),
            }),
            Expression::Text(test, text, with) => {
                let with = with.evaluate(scope)?;
                let with = with.as_str().ok_or("a text is compared with something else")?;
                text.with(scope, |text| {
                    let text = text.as_str().ok_or("a text is asked for, and it is none")?;
                    Ok(Value::from(match test {
                        TextTest::StartsWith => text.starts_with(with),
                        TextTest::EndsWith => text.ends_with(with),
                        TextTest::Contains => text.contains(with),
                    }))
                })
            }
            Expression::Matches(text, pattern) => text.with(scope, |text| {
                let text = text.as_str().ok_or("matches() wants a text")?;
                Ok(Value::from(pattern.is_match(text)))
            }),
            Expression::Every { of, name, test, wanted } => of.with(scope, |of| {
                let names: Vec<Value>;
                let items = match of {
                    Value::Array(items) => items,
                    Value::Object(members) => {
                        names = members.keys().map(|name| Value::from(name.as_str())).collect();
                        &names
                    }
                    _ => return Err("a macro wants a list".to_owned()),
                };
                // The first that decides is enough, whatever errors came before it.
                let decisive = *wanted == Quantifier::Exists;
                let mut outcome = Ok(Value::from(!decisive));
                for value in items {
                    match test.truth(&Scope { name, value, outer: Some(scope) }) {
                        Ok(truth) if truth == decisive => return Ok(Value::from(decisive)),
                        Ok(_) => {}
                        Err(error) => outcome = Err(error),
                    }
                }
                outcome
            }),
        }
    }

    fn truth(&self, scope: &Scope<'_>) -> Result<bool, String> {
        truth(&self.evaluate(scope)?)
    }

    /// Looks at a value where it is, if it is a variable or a part of one: objects are large.
    fn with<T>(&self, scope: &Scope<'_>, look: impl FnOnce(&Value) -> Result<T, String>) -> Result<T, String> {
        match self.place(scope) {
            Some(place) => look(place?),
            None => look(&self.evaluate(scope)?),
        }
    }

    fn place<'a>(&self, scope: &Scope<'a>) -> Option<Result<&'a Value, String>> {
        match self {
            Expression::Name(name) => Some(scope.find(name)),
            Expression::Member(of, name) => {
                let of = of.place(scope)?;
                Some(of.and_then(|of| member(of, name)))
            }
            _ => None,
        }
    }
}

impl<'a> Scope<'a> {
    fn find(&self, name: &str) -> Result<&'a Value, String> {
        match self.outer {
            Some(_) if self.name == name => Ok(self.value),
            Some(outer) => outer.find(name),
            None => self.value.get(name).ok_or_else(|| format!("undeclared reference to {name:?}")),
        }
    }
}

/// `&&` and `||`: one side may settle it though the other is an error.
fn unless(settles: bool, left: Result<bool, String>, right: impl FnOnce() -> Result<bool, String>) -> Evaluated {
    match (left, right) {
        (Ok(left), _) if left == settles => Ok(Value::from(settles)),
        (Ok(_), right) => right().map(Value::from),
        (Err(error), right) => match right() {
            Ok(right) if right == settles => Ok(Value::from(settles)),
            _ => Err(error),
        },
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> Result<bool, String> {
        let order = || match (left, right) {
            (Value::Number(left), Value::Number(right)) => Ok(compare(left, right)),
            (Value::String(left), Value::String(right)) => Ok(Some(left.cmp(right))),
            (Value::Bool(left), Value::Bool(right)) => Ok(Some(left.cmp(right))),
            _ => Err("unlike things are compared".to_owned()),
        };
        Ok(match self {
            Comparison::Equal => equal(left, right),
            Comparison::Unequal => !equal(left, right),
            Comparison::Less => order()?.is_some_and(Ordering::is_lt),
            Comparison::LessOrEqual => order()?.is_some_and(Ordering::is_le),
            Comparison::Greater => order()?.is_some_and(Ordering::is_gt),
            Comparison::GreaterOrEqual => order()?.is_some_and(Ordering::is_ge),
        })
    }
}

fn truth(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "it is neither true nor false".to_owned())
}

fn member<'a>(of: &'a Value, name: &str) -> Result<&'a Value, String> {
    of.get(name).ok_or_else(|| format!("no such key: {name}"))
}

/// Numbers are equal across their types, also inside of lists and objects.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare(left, right) == Some(Ordering::Equal),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let has = |(name, value)| right.get(name).is_some_and(|other| equal(value, other));
            left.len() == right.len() && left.iter().all(has)
        }
        _ => left == right,
    }
}

fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn variables() -> Value {
        json!({
            "request": {"operation": "CREATE", "dryRun": false, "resource": {"group": "apps.karmada.io"},
                "userInfo": {"username": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]}},
            "object": {"metadata": {"name": "web", "labels": {"team/name": "a"}}, "spec": {"replicas": 3, "weight": 1.5}},
            "oldObject": null,
        })
    }

    /// None: an error, when it is read or when it is asked.
    fn asked(expression: &str) -> Option<bool> {
        CompiledCondition::parse(expression).ok()?.holds(&variables()).ok()
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
    fn the_longest_that_is_read_can_be_asked() {
        let chain = |link: &str, times| format!("true{}", link.repeat(times));
        assert_eq!(asked(&chain(" && true", 255)), Some(true));
        assert!(CompiledCondition::parse(&chain(" && true", 256)).is_err());
        assert!(
            CompiledCondition::parse(&format!("request{}", ".a".repeat(255))).unwrap().holds(&variables()).is_err()
        );
        assert_eq!(asked(&format!("{}true{}", "(".repeat(60), ")".repeat(60))), Some(true));
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
    fn what_is_more_is_refused_when_it_is_read() {
        for expression in [
            "object.spec.replicas + 1 == 4",
            "authorizer.group('').resource('x').check('get').allowed()",
            "quantity('1Gi').isLessThan(quantity('2Gi'))",
            "{'a': 1}.a == 1",
            "object.?spec.orValue(1) == 1",
            "params.x == 1",
            "request.operation == 'CREATE",
            "request.operation ==",
            "(true",
            "true true",
            "object.metadata.name.matches(object.metadata.name)",
            "object.metadata.name.matches('(')",
            "a",
            "",
            &"!".repeat(10_000),
            &"(".repeat(10_000),
        ] {
            assert!(CompiledCondition::parse(expression).is_err(), "{expression}");
        }
    }
}
