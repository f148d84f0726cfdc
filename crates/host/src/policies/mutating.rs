//! Applies mutating policies to a write.

use std::time::Instant;

use serde_json::{Map, Value as Json};

use super::context::{Context, name_of};
use super::loaded::{Hooks, LoadedBinding, LoadedPolicy};
use super::params::Param;
use super::patch_faults::why_refused;
use super::{AdmissionPolicies, Bound, bound};
use ballast_base::metrics;
use ballast_k8s::{Cause, Details, Patch as JsonPatch, Status};
use ballast_policies::{AccessAnswers, Inputs, MutationPatch, Policy, PolicyFailure, error_type};
use ballast_registry::AdmissionAttributes;
use ballast_resource::ResourceKind;

type Tree = Map<String, Json>;

/// The state of the policies for one write. Policies with reinvocation run once more if the object
/// was changed after them.
#[derive(Default)]
pub struct Pass {
    is_second: bool,
    /// The policies with reinvocation that have run.
    ran: Vec<Invocation>,
    /// Among them, the policies after which the object was changed.
    again: Vec<Invocation>,
}

/// One policy, binding and parameter.
type Invocation = (String, String, String);

impl Pass {
    /// Records that the object was changed.
    pub fn changed(&mut self) {
        self.again.append(&mut self.ran);
    }

    /// Returns whether policies have to run again.
    pub fn has_more(&self) -> bool {
        !self.again.is_empty()
    }

    /// Starts the second pass, which runs only the policies that have to run again.
    pub fn begin_second(&mut self) {
        self.is_second = true;
    }
}

/// Errors of policies that fail closed. The first one is the message.
#[derive(Default)]
struct Errors {
    messages: Vec<String>,
    /// The reason of the status. Empty: `Forbidden`.
    reason: &'static str,
}

impl Errors {
    fn add(&mut self, policy: &str, binding: Option<&str>, why: &str, reason: &'static str) {
        let message = match binding {
            Some(binding) => format!("policy '{policy}' with binding '{binding}' denied request: {why}"),
            None => format!("policy {policy:?} denied request: {why}"),
        };
        if self.messages.is_empty() {
            self.reason = reason;
        }
        self.messages.push(message);
    }
}

/// A policy that matches the write, with one parameter.
struct Invoked<'a> {
    policy: &'a Policy,
    is_closed: bool,
    loaded: &'a LoadedPolicy,
    row: &'a ResourceKind,
    binding: &'a LoadedBinding,
    param: Param,
}

impl AdmissionPolicies {
    /// Applies the policies to the object. Returns whether it has changed. A policy that fails
    /// denies the write, unless its failure policy is `Ignore`; its earlier changes remain.
    pub async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Tree,
        old: Option<&Tree>,
        pass: &mut Pass,
    ) -> Result<bool, Status> {
        let hooks = self.mutating.load_full();
        let (mut errors, mut answers) = (Errors::default(), AccessAnswers::new());
        let name = name_of(attributes, Some(object)).to_owned();
        let invoked = self.invocations(&hooks, attributes, object, old, &mut errors).await;
        let mut is_changed = false;
        for invoked in &invoked {
            is_changed |= self.invoke(invoked, attributes, object, old, pass, (&mut errors, &mut answers)).await?;
        }
        match errors.messages.is_empty() {
            true => Ok(is_changed),
            false => Err(refusal(attributes, &name, errors)),
        }
    }

    /// Returns the policies that match the write before any of them has changed it.
    async fn invocations<'h>(
        &self,
        hooks: &'h Hooks,
        attributes: &AdmissionAttributes<'h>,
        object: &Tree,
        old: Option<&Tree>,
        errors: &mut Errors,
    ) -> Vec<Invoked<'h>> {
        let mut invoked = Vec::new();
        for hook in hooks.of(attributes.row) {
            let Some(row) = hook.policy.matching_version(attributes) else { continue };
            let is_closed = hook.policy.fails_closed();
            let mut misconfigured = |binding: Option<&str>, why: &str| {
                self.report_failure(&hook.policy, binding, why, is_closed);
                if is_closed {
                    let what = if binding.is_some() { "binding" } else { "policy" };
                    errors.add(&hook.policy.name, binding, &format!("failed to configure {what}: {why}"), "");
                }
            };
            let namespace = self.namespace_for(hook, attributes).await;
            let bound = match bound(hook, attributes, &namespace, Some(object), old) {
                Ok(bound) => bound,
                Err(why) => {
                    misconfigured(None, &why);
                    continue;
                }
            };
            let Ok(policy) = &hook.policy.policy else { continue };
            for Bound { binding, is_bound } in bound {
                let params = match is_bound {
                    Ok(()) => self.params_of(hook, binding, attributes).await,
                    Err(why) => Err(why),
                };
                match params {
                    Ok(params) => invoked.extend(params.into_iter().map(|param| Invoked {
                        policy,
                        is_closed,
                        loaded: &hook.policy,
                        row,
                        binding,
                        param,
                    })),
                    Err(why) => misconfigured(Some(&binding.binding.name), &why),
                }
            }
        }
        invoked
    }

    /// Runs one policy. Its mutations run in order, each on the result of the previous one.
    async fn invoke(
        &self,
        invoked: &Invoked<'_>,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Tree,
        old: Option<&Tree>,
        pass: &mut Pass,
        (errors, answers): (&mut Errors, &mut AccessAnswers),
    ) -> Result<bool, Status> {
        let Invoked { policy, row, binding, param, .. } = invoked;
        let key = key_of(policy, binding, param);
        if pass.is_second && !pass.again.contains(&key) {
            return Ok(false);
        }
        let label = binding.binding.name.as_str();
        let namespace = self.namespace_of(attributes).await?;
        let context = Context::new(attributes, row, Some(object), old, namespace.clone());
        let holds = |inputs: &Inputs<'_>| policy.holds(inputs);
        match context.judge(&self.reviews, attributes, answers, param, holds).await {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(failure) => {
                self.failed(invoked, &failure, errors);
                return Ok(false);
            }
        }
        let mut is_changed = false;
        for mutation in &policy.mutations {
            let started = Instant::now();
            let context = Context::new(attributes, row, Some(object), old, namespace.clone());
            let patch = |inputs: &Inputs<'_>| policy.patch(mutation, inputs);
            let patch = context.judge(&self.reviews, attributes, answers, param, patch).await;
            drop(context);
            let made = patch.and_then(|patch| patched(row, object, patch));
            match made {
                Ok(made) => {
                    is_changed |= made != *object;
                    *object = made;
                    metrics::policy_mutation([policy.name.as_str(), label, "no_error"], started.elapsed());
                }
                // As upstream, the next mutation still runs, and its error is reported, too.
                Err(failure) => {
                    let labels = [policy.name.as_str(), label, error_type(&failure.message)];
                    metrics::policy_mutation(labels, started.elapsed());
                    self.failed(invoked, &failure, errors);
                }
            }
        }
        if is_changed {
            pass.changed();
        }
        if policy.is_reinvocable && !pass.is_second {
            pass.ran.push(key);
        }
        Ok(is_changed)
    }

    fn failed(&self, invoked: &Invoked<'_>, failure: &PolicyFailure, errors: &mut Errors) {
        let Invoked { policy, is_closed, loaded, binding, .. } = invoked;
        let (binding, why) = (Some(binding.binding.name.as_str()), failure.message.as_str());
        self.report_failure(loaded, binding, why, *is_closed);
        if *is_closed {
            errors.add(&policy.name, binding, why, "Invalid");
        }
    }
}

fn key_of(policy: &Policy, binding: &LoadedBinding, param: &Param) -> Invocation {
    let metadata = |member: &str| param.as_ref().and_then(|param| param["metadata"][member].as_str()).unwrap_or("");
    let param = format!("{}/{}", metadata("namespace"), metadata("name"));
    (policy.name.clone(), binding.binding.name.clone(), param)
}

/// Returns the object with the patch, and with the defaults of the added fields.
fn patched(row: &ResourceKind, object: &Tree, patch: MutationPatch) -> Result<Tree, PolicyFailure> {
    let failed = |message: String| PolicyFailure { message };
    let mut made = match patch {
        MutationPatch::Apply(mut config) => {
            for (name, value) in [("apiVersion", row.stored_api_version()), ("kind", row.kind.to_owned())] {
                config.insert(name.to_owned(), Json::from(value));
            }
            merged(row, object, &config).map_err(|why| failed(format!("error applying patch: {why}")))?
        }
        MutationPatch::Json(operations) => {
            let shown = crate::request::worded(object.clone(), row);
            let mut made = match applied(&operations, &shown) {
                Ok(made) => made,
                Err(status) => match refused(&operations, &shown) {
                    Some(Refused::Test) => return Ok(object.clone()),
                    Some(Refused::Because(why)) => return Err(failed(format!("JSON Patch: {why}"))),
                    None => return Err(failed(format!("JSON Patch: {}", status.message))),
                },
            };
            // A patch that changes the version makes another object, which the registry rejects.
            if made.get("apiVersion").is_some_and(|it| *it == row.api_version()) {
                made.insert("apiVersion".to_owned(), row.stored_api_version().into());
            }
            made
        }
    };
    row.schema.default(&mut made);
    Ok(made)
}

fn applied(operations: &Json, object: &Tree) -> Result<Tree, Status> {
    let text = operations.to_string();
    JsonPatch::json(text.as_bytes()).and_then(|patch| patch.apply(object.clone()))
}

/// The reason why a patch is not applied.
enum Refused {
    /// A `test` operation of the patch failed; as upstream, the patch is skipped.
    Test,
    Because(String),
}

/// Returns the failure of the first operation that fails. `None` if no single operation fails.
fn refused(operations: &Json, object: &Tree) -> Option<Refused> {
    let operations = operations.as_array().map_or(&[][..], Vec::as_slice);
    let after = |end: usize| applied(&Json::from(&operations[..end]), object).ok();
    let first = (0..operations.len()).find(|index| after(index + 1).is_none())?;
    let (operation, document) = (&operations[first], Json::Object(after(first)?));
    let path = operation["path"].as_str().unwrap_or_default();
    let has_place = path.rsplit_once('/').is_some_and(|(parent, _)| document.pointer(parent).is_some());
    Some(match operation["op"] == "test" && has_place {
        true => Refused::Test,
        false => Refused::Because(why_refused(operation, &document)),
    })
}

/// Returns the object with an apply configuration merged, or why it cannot be applied.
fn merged(row: &ResourceKind, object: &Tree, config: &Tree) -> Result<Tree, String> {
    let faults = row.schema.check_config(config);
    if !faults.is_empty() {
        return Err(format!("failed to convert patch object to typed object: {}", faults.join(", ")));
    }
    let atomics = row.schema.atomics_in(config);
    if !atomics.is_empty() {
        let atomics = atomics.join(", ");
        return Err(format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomics}"));
    }
    Ok(row.schema.merge(object.clone(), config))
}

/// Returns the denial with kube-apiserver's text: 403, also if the reason is `Invalid`.
fn refusal(attributes: &AdmissionAttributes<'_>, name: &str, errors: Errors) -> Status {
    let Errors { messages, reason } = errors;
    let reason = if reason.is_empty() { "Forbidden" } else { reason };
    let message = messages.first().cloned().unwrap_or_default();
    let causes = messages.into_iter().map(|message| Cause { message, ..Cause::default() }).collect();
    let details = Details { causes, ..Details::of(attributes.row.resource, name) };
    Status::failure(403, reason, message).with(details)
}
