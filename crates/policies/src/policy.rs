//! Policies and their bindings, as read from the host cluster. An expression that cannot be parsed
//! makes its policy fail when the expression is evaluated, according to the failure policy.

use serde::Deserialize;
use serde_json::Value as Json;

use super::evaluate::Variable;
use super::expression::Expression;

/// The two kinds of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    Validating,
    Mutating,
}

/// A policy without its match constraints, which the caller evaluates.
#[derive(Debug)]
pub struct Policy {
    pub name: String,
    pub kind: PolicyKind,
    pub params: Option<ParamKind>,
    pub conditions: MatchConditions,
    pub variables: Vec<Variable>,
    pub validations: Vec<Validation>,
    pub annotations: Vec<Annotation>,
    pub mutations: Vec<Mutation>,
    /// Whether an error refuses the request (failure policy `Fail`).
    pub fails_closed: bool,
    /// Whether the policy runs again if the object is changed after it.
    pub is_reinvocable: bool,
}

impl PolicyKind {
    pub fn as_str(self) -> &'static str {
        match self {
            PolicyKind::Validating => "ValidatingAdmissionPolicy",
            PolicyKind::Mutating => "MutatingAdmissionPolicy",
        }
    }
}

/// An expression, or the reason why it cannot be parsed.
pub type Parsed = Result<Expression, String>;

/// The match conditions of a policy or of a webhook. They are evaluated before variables and cannot
/// use them.
#[derive(Debug)]
pub struct MatchConditions {
    pub conditions: Vec<PolicyCondition>,
    /// Whether a condition that cannot be evaluated refuses the request (failure policy `Fail`).
    pub fails_closed: bool,
}

#[derive(Debug)]
pub struct PolicyCondition {
    pub name: String,
    pub expression: Parsed,
}

impl MatchConditions {
    /// Parses conditions, each a name and a text.
    pub fn read(conditions: impl IntoIterator<Item = (String, String)>, fails_closed: bool) -> MatchConditions {
        let read = |(name, text): (String, String)| {
            let expression = Expression::parse(&text, &[]);
            PolicyCondition { name, expression }
        };
        MatchConditions { conditions: conditions.into_iter().map(read).collect(), fails_closed }
    }
}

#[derive(Debug)]
pub struct Validation {
    pub text: String,
    pub expression: Parsed,
    pub message: String,
    pub message_expression: Option<Parsed>,
    /// The reason of a denial. Empty means `Invalid`.
    pub reason: String,
}

#[derive(Debug)]
pub struct Annotation {
    pub key: String,
    pub text: String,
    pub expression: Parsed,
}

#[derive(Debug)]
pub struct Mutation {
    pub patch: PatchKind,
    pub text: String,
    pub expression: Parsed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    ApplyConfiguration,
    JsonPatch,
}

/// The kind of the objects that configure a policy.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct ParamKind {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
}

impl std::fmt::Display for ParamKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}, Kind={}", self.api_version, self.kind)
    }
}

/// The objects of the policy's parameter kind that a binding uses.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParamRef {
    pub name: String,
    pub namespace: String,
    pub selector: Option<Json>,
    pub parameter_not_found_action: Option<String>,
}

/// The effect of a failed validation.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum ValidationAction {
    Deny,
    Warn,
    Audit,
}

impl ValidationAction {
    pub fn as_str(self) -> &'static str {
        match self {
            ValidationAction::Deny => "Deny",
            ValidationAction::Warn => "Warn",
            ValidationAction::Audit => "Audit",
        }
    }
}

/// A binding without its match constraints.
#[derive(Debug)]
pub struct PolicyBinding {
    pub name: String,
    pub policy: String,
    pub params: Option<ParamRef>,
    pub actions: Vec<ValidationAction>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PolicySpec {
    param_kind: Option<ParamKind>,
    failure_policy: Option<String>,
    reinvocation_policy: Option<String>,
    match_conditions: Vec<Named>,
    variables: Vec<Named>,
    validations: Vec<ValidationSpec>,
    audit_annotations: Vec<AnnotationSpec>,
    mutations: Vec<MutationSpec>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    name: String,
    expression: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ValidationSpec {
    expression: String,
    message: String,
    message_expression: String,
    reason: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct AnnotationSpec {
    key: String,
    value_expression: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct MutationSpec {
    patch_type: String,
    apply_configuration: Option<Named>,
    json_patch: Option<Named>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct BindingSpec {
    policy_name: String,
    param_ref: Option<ParamRef>,
    validation_actions: Vec<ValidationAction>,
}

impl Policy {
    /// Parses the `spec` of a policy. The error is the reason why the spec is invalid; such a
    /// policy cannot be evaluated.
    pub fn read(name: &str, kind: PolicyKind, spec: &Json) -> Result<Policy, String> {
        let spec = PolicySpec::deserialize(spec).map_err(|error| error.to_string())?;
        let mut names: Vec<String> = Vec::new();
        let mut variables = Vec::with_capacity(spec.variables.len());
        for Named { name, expression } in spec.variables {
            let expression = Expression::parse(&expression, &names);
            names.push(name.clone());
            variables.push(Variable { name, expression });
        }
        let parse = |text: &str| Expression::parse(text, &names);
        let validation = |it: ValidationSpec| Validation {
            expression: parse(&it.expression),
            message_expression: (!it.message_expression.is_empty()).then(|| parse(&it.message_expression)),
            text: it.expression,
            message: it.message,
            reason: it.reason.unwrap_or_default(),
        };
        let annotation = |AnnotationSpec { key, value_expression: text }: AnnotationSpec| Annotation {
            key,
            expression: parse(&text),
            text,
        };
        let mutation = |it: MutationSpec| {
            let (patch, named) = match it.patch_type.as_str() {
                "JSONPatch" => (PatchKind::JsonPatch, it.json_patch),
                _ => (PatchKind::ApplyConfiguration, it.apply_configuration),
            };
            let text = named.unwrap_or_default().expression;
            Mutation { patch, expression: parse(&text), text }
        };
        let fails_closed = spec.failure_policy.as_deref() != Some("Ignore");
        let conditions = spec.match_conditions.into_iter().map(|it| (it.name, it.expression));
        Ok(Policy {
            name: name.to_owned(),
            kind,
            params: spec.param_kind,
            conditions: MatchConditions::read(conditions, fails_closed),
            validations: spec.validations.into_iter().map(validation).collect(),
            annotations: spec.audit_annotations.into_iter().map(annotation).collect(),
            mutations: spec.mutations.into_iter().map(mutation).collect(),
            variables,
            fails_closed,
            is_reinvocable: spec.reinvocation_policy.as_deref() == Some("IfNeeded"),
        })
    }

    /// Returns the compile errors of the policy's expressions, each with its field path.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut note = |place: String, parsed: &Parsed| {
            if let Err(why) = parsed {
                faults.push(format!("{place}: {why}"));
            }
        };
        for condition in &self.conditions.conditions {
            note(format!("matchConditions[{:?}]", condition.name), &condition.expression);
        }
        for variable in &self.variables {
            note(format!("variables[{:?}]", variable.name), &variable.expression);
        }
        for (index, validation) in self.validations.iter().enumerate() {
            note(format!("validations[{index}].expression"), &validation.expression);
            if let Some(message) = &validation.message_expression {
                note(format!("validations[{index}].messageExpression"), message);
            }
        }
        for annotation in &self.annotations {
            note(format!("auditAnnotations[{:?}]", annotation.key), &annotation.expression);
        }
        for (index, mutation) in self.mutations.iter().enumerate() {
            note(format!("mutations[{index}]"), &mutation.expression);
        }
        faults
    }
}

impl PolicyBinding {
    /// Parses the `spec` of a binding. The error is the reason why the spec is invalid.
    pub fn read(name: &str, spec: &Json) -> Result<PolicyBinding, String> {
        let spec = BindingSpec::deserialize(spec).map_err(|error| error.to_string())?;
        Ok(PolicyBinding {
            name: name.to_owned(),
            policy: spec.policy_name,
            params: spec.param_ref,
            actions: spec.validation_actions,
        })
    }
}
