//! Evaluates validating policies for a write.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use super::context::{Context, name_of};
use super::loaded::{Hook, LoadedBinding};
use super::{AdmissionPolicies, Bound, bound};
use ballast_base::metrics;
use ballast_k8s::{Cause, Details, Status};
use ballast_policies::{
    AccessAnswers, Judgement, Noted, PolicyFailure, ValidationAction, ValidationDecision, Verdict, error_type,
};
use ballast_registry::AdmissionAttributes;

type Tree = Map<String, Json>;

/// Maximum length of an audit annotation in bytes, as in kube-apiserver.
const ANNOTATION_BYTES_MAX: usize = 10 * 1024;
const FAILURE_ANNOTATION: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The first denial, which the client receives.
struct Denial {
    message: String,
    reason: String,
}

/// The result of all policies evaluated so far.
#[derive(Default)]
struct Outcome {
    denial: Option<Denial>,
}

impl Outcome {
    fn deny(&mut self, policy: &str, binding: Option<&str>, message: &str, reason: &str) {
        let binding = binding.map_or_else(String::new, |binding| format!(" with binding '{binding}'"));
        let message = format!("ValidatingAdmissionPolicy '{policy}'{binding} denied request: {message}");
        self.denial.get_or_insert(Denial { message, reason: reason.to_owned() });
    }
}

impl AdmissionPolicies {
    /// Accepts or denies a write. All policies are evaluated, because each may warn or write to the
    /// audit log; the first denial is the response.
    pub async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Tree>,
        old: Option<&Tree>,
    ) -> Result<(), Status> {
        let hooks = self.validating.load();
        let mut outcome = Outcome::default();
        let mut answers = AccessAnswers::new();
        for hook in hooks.of(attributes.row) {
            let Some(row) = hook.policy.matching_version(attributes) else { continue };
            let name = &hook.policy.name;
            let namespace = self.namespace_for(hook, attributes).await;
            let bound = match bound(hook, attributes, &namespace, object, old) {
                Ok(bound) => bound,
                Err(why) => {
                    self.misconfigured(&mut outcome, hook, None, &why);
                    continue;
                }
            };
            let mut annotations = Annotations::default();
            for Bound { binding, is_bound } in bound {
                let label = &binding.binding.name;
                let params = match is_bound {
                    Ok(()) => self.params_of(hook, binding, attributes).await,
                    Err(why) => Err(why),
                };
                let params = match params {
                    Ok(params) => params,
                    Err(why) => {
                        self.misconfigured(&mut outcome, hook, Some(label), &why);
                        continue;
                    }
                };
                let Ok(policy) = &hook.policy.policy else { continue };
                let namespace = self.namespace_of(attributes).await?;
                let context = Context::new(attributes, row, object, old, namespace);
                for param in params {
                    let judge = |inputs: &ballast_policies::Inputs<'_>| policy.validate(inputs);
                    let verdict = context.judge(&self.reviews, attributes, &mut answers, &param, judge).await;
                    let told = Told { policies: self, attributes, hook, binding };
                    told.decisions(&verdict, policy.fails_closed, &mut outcome);
                    told.annotations(&verdict, &mut annotations, &mut outcome);
                }
            }
            annotations.publish(name, attributes);
        }
        match outcome.denial {
            None => Ok(()),
            Some(denial) => Err(refusal(attributes, name_of(attributes, object), denial)),
        }
    }

    /// Handles a policy or binding that cannot be used: denies the write, unless the failure policy
    /// is `Ignore`.
    fn misconfigured(&self, outcome: &mut Outcome, hook: &Hook, binding: Option<&str>, why: &str) {
        let is_closed = hook.policy.fails_closed();
        self.report_failure(&hook.policy, binding, why, is_closed);
        if is_closed {
            let what = if binding.is_some() { "binding" } else { "policy" };
            outcome.deny(&hook.policy.name, binding, &format!("failed to configure {what}: {why}"), "");
        }
    }
}

/// The subject of one verdict.
struct Told<'a> {
    policies: &'a AdmissionPolicies,
    attributes: &'a AdmissionAttributes<'a>,
    hook: &'a Hook,
    binding: &'a LoadedBinding,
}

impl Told<'_> {
    fn decisions(&self, verdict: &Verdict, is_closed: bool, outcome: &mut Outcome) {
        for (index, ValidationDecision { judgement, elapsed }) in verdict.decisions.iter().enumerate() {
            let (message, reason) = match judgement {
                Judgement::Admitted => continue,
                Judgement::Failed(failure) => {
                    self.report(failure, is_closed);
                    if !is_closed {
                        self.count(*elapsed, &failure.message, "allow");
                        continue;
                    }
                    (&failure.message, "")
                }
                Judgement::Denied { message, reason } => (message, reason.as_str()),
            };
            let policy = self.hook.policy.name.as_str();
            for action in &self.binding.binding.actions {
                match action {
                    ValidationAction::Deny => {
                        outcome.deny(policy, Some(&self.binding.binding.name), message, reason);
                        self.count(*elapsed, message, "deny");
                    }
                    ValidationAction::Audit => {
                        self.note(index, message);
                        self.count(*elapsed, message, "audit");
                    }
                    ValidationAction::Warn => {
                        self.attributes.caller.warnings.warn(&format!(
                            "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                            policy, self.binding.binding.name
                        ));
                        self.count(*elapsed, message, "warn");
                    }
                }
            }
        }
    }

    fn annotations(&self, verdict: &Verdict, annotations: &mut Annotations, outcome: &mut Outcome) {
        for noted in &verdict.annotations {
            match noted {
                Noted::Published { key, value } => annotations.add(key, value),
                Noted::Failed(failure) => {
                    self.report(failure, true);
                    outcome.deny(&self.hook.policy.name, Some(&self.binding.binding.name), &failure.message, "");
                    self.count(Duration::ZERO, &failure.message, "deny");
                }
            }
        }
    }

    fn report(&self, failure: &PolicyFailure, is_closed: bool) {
        let binding = Some(self.binding.binding.name.as_str());
        self.policies.report_failure(&self.hook.policy, binding, &failure.message, is_closed);
    }

    fn count(&self, elapsed: Duration, message: &str, action: &'static str) {
        let labels = [&self.hook.policy.name, &self.binding.binding.name, error_type(message), action];
        metrics::policy_validation(labels, elapsed);
    }

    /// Records a failed validation in the audit log.
    fn note(&self, index: usize, message: &str) {
        let binding = &self.binding.binding;
        let actions: Vec<&str> = binding.actions.iter().map(|action| action.as_str()).collect();
        let failure = json!([{"message": message, "policy": binding.policy, "binding": binding.name,
            "expressionIndex": index, "validationActions": actions}]);
        self.attributes.caller.warnings.annotate(FAILURE_ANNOTATION.to_owned(), failure.to_string());
    }
}

/// The audit annotations of one policy. Equal values of several bindings are published once.
#[derive(Default)]
struct Annotations(Vec<(String, Vec<String>)>);

impl Annotations {
    fn add(&mut self, key: &str, value: &str) {
        let value = value[..value.floor_char_boundary(ANNOTATION_BYTES_MAX)].to_owned();
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, values)) if values.contains(&value) => {}
            Some((_, values)) => values.push(value),
            None => self.0.push((key.to_owned(), vec![value])),
        }
    }

    fn publish(self, policy: &str, attributes: &AdmissionAttributes<'_>) {
        for (key, values) in self.0 {
            attributes.caller.warnings.annotate(format!("{policy}/{key}"), values.join(", "));
        }
    }
}

/// Returns the denial with kube-apiserver's text.
fn refusal(attributes: &AdmissionAttributes<'_>, name: &str, denial: Denial) -> Status {
    let Denial { message, reason } = denial;
    let (code, reason) = match reason.as_str() {
        "Forbidden" => (403, "Forbidden"),
        "Unauthorized" => (401, "Unauthorized"),
        "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
        _ => (422, "Invalid"),
    };
    let resource = attributes.row.resource;
    let cause = Cause { message: message.clone(), ..Cause::default() };
    let details = Details { causes: vec![cause], ..Details::of(resource, name) };
    Status::failure(code, reason, format!("{resource} {name:?} is forbidden: {message}")).with(details)
}
