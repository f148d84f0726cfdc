//! Match conditions of webhooks, in CEL (Common Expression Language), over the variables `request`,
//! `object` and `oldObject`. The `cel` crate reads and evaluates them.
//!
//! A condition is read once, together with its webhook configuration. Its length, the depth of its
//! tree and the nesting of its macros have bounds. A condition beyond a bound cannot be read, and
//! its webhook counts as failed.
//!
//! Deliberately absent: the variables `authorizer`, `namespaceObject` and `params`, timestamps and
//! durations, and Kubernetes' own libraries (`quantity`, `url`, `ip`, ...). A condition that names
//! such a variable cannot be read. One that calls such a function fails when it is evaluated.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::thread;

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::{Context, Env, Program, Value as CelValue};
use serde_json::{Number, Value};

/// The longest text, in bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// The deepest tree. It is evaluated by recursion.
const DEPTH_MAX: usize = 64;
/// The deepest nesting of macros (`all`, `exists`, ...). Each multiplies the work by the length of
/// a list.
const MACRO_DEPTH_MAX: usize = 3;
/// The stack on which a condition is parsed. The crate bounds nested brackets. But it also recurses
/// for each member of a long path, before the bounds above are checked.
const PARSER_STACK_BYTES: usize = 64 * 1024 * 1024;
/// The stack on which a condition is evaluated. In a debug build the deepest tree needs more than
/// the 2 MB of the thread that serves the request.
const EVALUATION_STACK_BYTES: usize = 16 * 1024 * 1024;
const VARIABLES: [&str; 3] = ["request", "object", "oldObject"];

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// One expression, ready to be evaluated.
pub struct CompiledCondition {
    program: Program,
    /// The variables that it names, each of them one of `VARIABLES`.
    names: Vec<&'static str>,
}

impl CompiledCondition {
    /// Reads a condition. The error says why it cannot be read.
    pub fn parse(text: &str) -> Result<CompiledCondition, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("it has {} bytes, and the limit is {TEXT_BYTES_MAX}", text.len()));
        }
        let text = text.to_owned();
        // The parser runs on its own thread, which has a larger stack. If it panics, nothing else
        // stops.
        let reader = thread::Builder::new().stack_size(PARSER_STACK_BYTES).spawn(move || compile(&text));
        let reader = reader.map_err(|error| format!("no thread could be started to read it: {error}"))?;
        reader.join().unwrap_or_else(|_| Err("the parser panicked".to_owned()))
    }

    /// Whether the condition holds. `variables` is an object with `request`, `object` and
    /// `oldObject`. It is an error where CEL has one: for a member that does not exist, an operator
    /// that does not fit its operands, or a result that is not a boolean.
    pub fn holds(&self, variables: &Value) -> Result<bool, String> {
        let mut context = Context::with_env(Arc::clone(&ENV));
        for name in &self.names {
            context.add_variable_from_value(*name, cel_value(&variables[*name]));
        }
        match stacker::grow(EVALUATION_STACK_BYTES, || self.program.execute(&context)) {
            Ok(CelValue::Bool(holds)) => Ok(holds),
            Ok(_) => Err("its result is not a boolean".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn compile(text: &str) -> Result<CompiledCondition, String> {
    let program = ENV.compile(text).map_err(|errors| {
        // The lines after the first show where in the text the fault is.
        errors.to_string().lines().next().unwrap_or_default().to_owned()
    })?;
    let mut survey = Survey { bound: Vec::new(), names: Vec::new(), macro_depth: 0 };
    survey.visit(program.expression(), 0)?;
    let names = survey.names;
    Ok(CompiledCondition { program, names })
}

/// Walks over a tree, checks its bounds, and collects the variables that it names.
struct Survey {
    /// The variables of the enclosing macros.
    bound: Vec<String>,
    names: Vec<&'static str>,
    macro_depth: usize,
}

impl Survey {
    fn visit(&mut self, node: &IdedExpr, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("it is nested more than {DEPTH_MAX} levels deep"));
        }
        let below = depth + 1;
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.note(name),
            Expr::Select(select) => self.visit(&select.operand, below),
            Expr::Call(call) => {
                call.target.iter().try_for_each(|target| self.visit(target, below))?;
                call.args.iter().try_for_each(|argument| self.visit(argument, below))
            }
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.visit(element, below)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| self.visit_entry(&entry.expr, below)),
            Expr::Struct(made) => made.entries.iter().try_for_each(|entry| self.visit_entry(&entry.expr, below)),
            Expr::Comprehension(of) => {
                self.visit(&of.iter_range, below)?;
                if self.macro_depth == MACRO_DEPTH_MAX {
                    return Err(format!("more than {MACRO_DEPTH_MAX} macros are nested"));
                }
                self.macro_depth += 1;
                let before = self.bound.len();
                self.bound.extend([of.iter_var.clone(), of.accu_var.clone()]);
                self.bound.extend(of.iter_var2.clone());
                for part in [&of.accu_init, &of.loop_cond, &of.loop_step, &of.result] {
                    self.visit(part, below)?;
                }
                self.bound.truncate(before);
                self.macro_depth -= 1;
                Ok(())
            }
        }
    }

    fn visit_entry(&mut self, entry: &EntryExpr, depth: usize) -> Result<(), String> {
        match entry {
            EntryExpr::StructField(field) => self.visit(&field.value, depth),
            EntryExpr::MapEntry(entry) => {
                self.visit(&entry.key, depth)?;
                self.visit(&entry.value, depth)
            }
        }
    }

    fn note(&mut self, name: &str) -> Result<(), String> {
        if self.bound.iter().any(|bound| bound == name) {
            return Ok(());
        }
        let known = VARIABLES.into_iter().find(|known| *known == name);
        let known = known.ok_or_else(|| {
            format!("it names the unknown variable {name:?}; the known ones are {}", VARIABLES.join(", "))
        })?;
        if !self.names.contains(&known) {
            self.names.push(known);
        }
        Ok(())
    }
}

/// JSON as kube-apiserver shows it to CEL: a number without a fraction is an `int`.
fn cel_value(value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(number) => cel_number(number),
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(cel_value).collect())),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), cel_value(value)));
            CelValue::from(members.collect::<HashMap<String, CelValue>>())
        }
    }
}

fn cel_number(number: &Number) -> CelValue {
    match (number.as_i64(), number.as_u64()) {
        (Some(integer), _) => CelValue::Int(integer),
        (None, Some(large)) => CelValue::UInt(large),
        (None, None) => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
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
    fn the_longest_and_deepest_that_is_read_can_be_evaluated() {
        let chain = |link: &str, times| format!("true{}", link.repeat(times));
        assert_eq!(asked(&chain(" && true", 400)), Some(true));
        assert!(CompiledCondition::parse(&chain(" && true", 600)).is_err(), "too long");
        let path = |times| CompiledCondition::parse(&format!("request{}", ".a".repeat(times)));
        assert!(path(DEPTH_MAX).unwrap().holds(&variables()).is_err());
        assert!(path(DEPTH_MAX + 1).is_err(), "too deep");
        assert_eq!(asked(&format!("{}true{}", "(".repeat(60), ")".repeat(60))), Some(true));
        assert!(CompiledCondition::parse(&format!("{}true{}", "(".repeat(500), ")".repeat(500))).is_err());
        assert_eq!(asked(&format!("{}true{}", "[".repeat(60), "]".repeat(60))), None, "no boolean");
        let nested = |times: usize| format!("{}true{}", "[1].all(x, ".repeat(times), ")".repeat(times));
        assert_eq!(asked(&nested(MACRO_DEPTH_MAX)), Some(true));
        assert!(CompiledCondition::parse(&nested(MACRO_DEPTH_MAX + 1)).is_err(), "too many macros");
    }

    #[test]
    fn what_the_hand_written_subset_lacked_is_there() {
        for expression in [
            "object.spec.replicas + 1 == 4",
            "{'a': 1}.a == 1",
            "request.userInfo.groups.filter(g, g.startsWith('system:')).size() == 2",
            "request.userInfo.groups.exists_one(g, g == 'system:nodes')",
            "object.metadata.name.matches('^' + object.metadata.name + '$')",
            "string(object.spec.replicas) == '3' && int('3') == object.spec.replicas",
            "r'\\d' == '\\\\d'",
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
            "authorizer.group('').resource('x').check('get').allowed()",
            "params.x == 1",
            "namespaceObject.metadata.name == 'x'",
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
        for expression in
            ["quantity('1Gi').isLessThan(quantity('2Gi'))", "object.metadata.name.matches('(')", "nothing(1)"]
        {
            assert_eq!(asked(expression), None, "{expression}");
        }
    }
}
