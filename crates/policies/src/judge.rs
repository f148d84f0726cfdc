//! The decision of a policy about one object and one parameter. The rules and messages are the ones
//! of kube-apiserver.

use std::time::{Duration, Instant};

use serde_json::{Map as JsonMap, Value as Json};

use super::authorizer::AccessQuestion;
use super::evaluate::{Evaluation, Inputs};
use super::fault::Fault;
use super::meter::{CONDITIONS_COST_MAX, POLICY_COST_MAX};
use super::policy::{Annotation, MatchConditions, Mutation, Parsed, PatchKind, Policy, PolicyCondition, Validation};
use super::value::Value;

/// The longest message that a messageExpression may return, as in kube-apiserver.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// An access query that must be decided before the evaluation can finish.
#[derive(Debug)]
pub struct Asks(pub Box<AccessQuestion>);

/// Returns the label `error_type` of kube-apiserver's metrics for a decision with this message. As
/// in kube-apiserver, the message determines the label, so a plain denial is an `invalid_error` as
/// well.
pub fn error_type(message: &str) -> &'static str {
    match message {
        compile if compile.starts_with("compilation") => "compile_error",
        spent if spent.starts_with("validation failed due to running out of cost budget") => "out_of_budget",
        _ => "invalid_error",
    }
}

/// The failure of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFailure {
    pub message: String,
}

/// The result of one validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    Admitted,
    Denied { message: String, reason: String },
    Failed(PolicyFailure),
}

#[derive(Clone, Debug)]
pub struct ValidationDecision {
    pub judgement: Judgement,
    pub elapsed: Duration,
}

/// The result of one audit annotation. Empty annotations are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    Published { key: String, value: String },
    Failed(PolicyFailure),
}

#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// One decision for each validation, in their order. Empty if the match conditions do not hold.
    pub decisions: Vec<ValidationDecision>,
    pub annotations: Vec<Noted>,
}

/// A patch that a mutation creates.
#[derive(Clone, Debug, PartialEq)]
pub enum MutationPatch {
    Apply(JsonMap<String, Json>),
    Json(Json),
}

/// A result, or an access query that must be decided first.
pub type Judged<T> = Result<T, Asks>;

/// The error of an expression, which ends either the whole evaluation or only this expression.
enum Trouble {
    Asks(Asks),
    Failed(PolicyFailure),
    /// The budget is spent, so no further expression is evaluated.
    Spent(PolicyFailure),
}

fn evaluate<'a>(evaluation: &mut Evaluation<'a>, text: &str, parsed: &'a Parsed) -> Result<Value<'a>, Trouble> {
    let expression = parsed
        .as_ref()
        .map_err(|why| Trouble::Failed(PolicyFailure { message: format!("compilation error: {why}") }))?;
    evaluation.value(expression).map_err(|fault| match fault {
        Fault::Asks(question) => Trouble::Asks(Asks(question)),
        Fault::OutOfBudget => Trouble::Spent(PolicyFailure { message: fault.to_string() }),
        fault => Trouble::Failed(PolicyFailure { message: format!("expression '{text}' resulted in error: {fault}") }),
    })
}

impl MatchConditions {
    /// Evaluates whether all conditions hold. The inner error is a failure under the failure policy
    /// `Fail`.
    pub fn holds(&self, inputs: &Inputs<'_>) -> Judged<Result<bool, PolicyFailure>> {
        if self.conditions.is_empty() {
            return Ok(Ok(true));
        }
        // As upstream, `namespaceObject` is null here.
        let inputs = Inputs { namespace: Value::Null, ..inputs.clone() };
        let mut evaluation = Evaluation::new(inputs, &[], CONDITIONS_COST_MAX);
        let mut failures: Vec<PolicyFailure> = Vec::new();
        for PolicyCondition { expression, .. } in &self.conditions {
            let text = expression.as_ref().map_or("", |expression| &expression.text);
            match evaluate(&mut evaluation, text, expression) {
                Ok(Value::Bool(true)) => {}
                // A condition that is false determines the result, even if others fail.
                Ok(Value::Bool(false)) => return Ok(Ok(false)),
                Ok(_) => failures.push(PolicyFailure { message: not_boolean(text) }),
                Err(Trouble::Asks(asks)) => return Err(asks),
                Err(Trouble::Failed(failure)) => failures.push(failure),
                Err(Trouble::Spent(failure)) => {
                    failures = vec![failure];
                    break;
                }
            }
        }
        if failures.is_empty() {
            return Ok(Ok(true));
        }
        if !self.fails_closed {
            return Ok(Ok(false));
        }
        let message = match failures.as_slice() {
            [only] => only.message.clone(),
            many => {
                let texts: Vec<&str> = many.iter().map(|failure| failure.message.as_str()).collect();
                format!("[{}]", texts.join(", "))
            }
        };
        Ok(Err(PolicyFailure { message }))
    }
}

impl Policy {
    /// Evaluates whether the match conditions hold. The inner error is a failure under the failure
    /// policy `Fail`.
    pub fn holds(&self, inputs: &Inputs<'_>) -> Judged<Result<bool, PolicyFailure>> {
        self.conditions.holds(inputs)
    }

    /// Evaluates a validating policy.
    pub fn validate(&self, inputs: &Inputs<'_>) -> Judged<Verdict> {
        let only = |failure| {
            let decision = ValidationDecision { judgement: Judgement::Failed(failure), elapsed: Duration::ZERO };
            Ok(Verdict { decisions: vec![decision], annotations: Vec::new() })
        };
        match self.holds(inputs)? {
            Ok(true) => {}
            Ok(false) => return Ok(Verdict::default()),
            Err(failure) => return only(failure),
        }
        let mut evaluation = Evaluation::new(inputs.clone(), &self.variables, POLICY_COST_MAX);
        let mut decisions = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            let started = Instant::now();
            let judgement = match evaluate(&mut evaluation, &validation.text, &validation.expression) {
                Ok(Value::Bool(true)) => Judgement::Admitted,
                Ok(_) => Judgement::Denied { message: String::new(), reason: validation.reason.clone() },
                Err(Trouble::Asks(asks)) => return Err(asks),
                Err(Trouble::Failed(failure)) => Judgement::Failed(failure),
                Err(Trouble::Spent(failure)) => return only(failure),
            };
            decisions.push(ValidationDecision { judgement, elapsed: started.elapsed() });
        }
        evaluation.without_authorizer();
        self.find_messages(&mut evaluation, &mut decisions);
        if self.annotations.is_empty() {
            return Ok(Verdict { decisions, annotations: Vec::new() });
        }
        evaluation.renew(POLICY_COST_MAX);
        let mut annotations = Vec::new();
        for annotation in &self.annotations {
            match noted(&mut evaluation, annotation) {
                Ok(note) => annotations.extend(note),
                Err(Trouble::Asks(asks)) => return Err(asks),
                Err(Trouble::Failed(failure)) if self.fails_closed => annotations.push(Noted::Failed(failure)),
                Err(Trouble::Failed(_)) => {}
                Err(Trouble::Spent(failure)) => return only(failure),
            }
        }
        Ok(Verdict { decisions, annotations })
    }

    /// Sets the messages of the validations that deny.
    fn find_messages<'a>(&'a self, evaluation: &mut Evaluation<'a>, decisions: &mut [ValidationDecision]) {
        for (validation, decision) in self.validations.iter().zip(decisions) {
            let Judgement::Denied { message, .. } = &mut decision.judgement else { continue };
            match message_of(evaluation, validation) {
                Ok(text) => *message = text,
                Err(failure) => decision.judgement = Judgement::Failed(failure),
            }
        }
    }

    /// Returns the patch of this object that a mutation creates.
    pub fn patch(&self, mutation: &Mutation, inputs: &Inputs<'_>) -> Judged<Result<MutationPatch, PolicyFailure>> {
        let mut evaluation = Evaluation::new(inputs.clone(), &self.variables, POLICY_COST_MAX);
        let value = match evaluate(&mut evaluation, &mutation.text, &mutation.expression) {
            Ok(value) => value,
            Err(Trouble::Asks(asks)) => return Err(asks),
            Err(Trouble::Failed(failure) | Trouble::Spent(failure)) => return Ok(Err(failure)),
        };
        let patch = match mutation.patch {
            PatchKind::ApplyConfiguration => configuration(&value).map(MutationPatch::Apply),
            PatchKind::JsonPatch => operations(&value).map(MutationPatch::Json),
        };
        Ok(patch.map_err(|message| PolicyFailure { message }))
    }
}

fn not_boolean(text: &str) -> String {
    format!("expression '{text}' resulted in error: its result is not a boolean")
}

fn message_of<'a>(evaluation: &mut Evaluation<'a>, validation: &'a Validation) -> Result<String, PolicyFailure> {
    if let Some(expression) = &validation.message_expression {
        match evaluate(evaluation, "", expression) {
            Ok(Value::String(text)) => {
                let text = text.as_str().trim();
                if !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n') {
                    return Ok(text.to_owned());
                }
            }
            Err(Trouble::Spent(PolicyFailure { message })) => {
                return Err(PolicyFailure { message: format!("failed messageExpression: {message}") });
            }
            // The static message of the policy is used instead.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(match validation.message.trim() {
        "" => format!("failed expression: {}", validation.text.trim()),
        message => message.to_owned(),
    })
}

fn noted<'a>(evaluation: &mut Evaluation<'a>, annotation: &'a Annotation) -> Result<Option<Noted>, Trouble> {
    match evaluate(evaluation, &annotation.text, &annotation.expression)? {
        Value::Null => Ok(None),
        Value::String(text) => {
            let value = text.as_str().trim();
            let key = annotation.key.clone();
            Ok((!value.is_empty()).then(|| Noted::Published { key, value: value.to_owned() }))
        }
        other => {
            let message = format!(
                "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or \
                 null.",
                annotation.text,
                other.type_name()
            );
            Err(Trouble::Failed(PolicyFailure { message }))
        }
    }
}

fn configuration(value: &Value<'_>) -> Result<JsonMap<String, Json>, String> {
    let Value::Object(object) = value else {
        return Err(format!("unsupported return type from ApplyConfiguration expression: {}", value.type_name()));
    };
    object.check_type_names().map_err(|why| format!("type mismatch: {why}"))?;
    object.to_json().map_err(|fault| fault.to_string())
}

/// Returns the operations of a JSON patch.
fn operations(value: &Value<'_>) -> Result<Json, String> {
    let Value::List(list) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let mut operations = Vec::with_capacity(list.len());
    for item in list.iter() {
        let Value::Object(object) = &item else {
            return Err("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".to_owned());
        };
        let mut operation = JsonMap::new();
        for (name, value) in &object.fields {
            if let Value::Object(made) = value {
                made.check_type_names().map_err(|why| format!("type mismatch: {why}"))?;
            }
            let is_unset = name == "from" && value.is_zero();
            if !is_unset {
                let mut json = value.to_json().map_err(|fault| {
                    format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {fault}")
                })?;
                as_protobuf(&mut json);
                operation.insert(name.clone(), json);
            }
        }
        operations.push(Json::Object(operation));
    }
    Ok(Json::Array(operations))
}

/// Converts numbers as `google.protobuf.Value` does: a double without a fraction becomes an
/// integer, and an integer beyond the precision of a double becomes a string.
fn as_protobuf(json: &mut Json) {
    const EXACT_MAX: u64 = (1 << 53) - 1;
    match json {
        Json::Array(items) => items.iter_mut().for_each(as_protobuf),
        Json::Object(members) => members.values_mut().for_each(as_protobuf),
        Json::Number(number) => {
            let whole = number.as_f64().filter(|it| it.fract() == 0.0 && it.abs() <= EXACT_MAX as f64);
            let is_beyond = number.as_i64().map(i64::unsigned_abs).or(number.as_u64()).is_some_and(|it| it > EXACT_MAX);
            match whole {
                _ if is_beyond => *json = Json::from(number.to_string()),
                Some(whole) => *json = Json::from(whole as i64),
                None => {}
            }
        }
        _ => {}
    }
}
