//! The policies and bindings of one kind, as they stand in the host cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::constraints::Constraints;
use ballast_policies::{ParamKind, Policy, PolicyBinding, PolicyKind};
use ballast_registry::AdmissionAttributes;
use ballast_resource::ResourceKind;

/// A policy, or why it cannot be read.
pub struct LoadedPolicy {
    pub name: String,
    pub policy: Result<Policy, String>,
    pub constraints: Result<Constraints, String>,
    /// As it was read, to notice that nothing has changed.
    spec: Value,
}

pub struct LoadedBinding {
    pub binding: PolicyBinding,
    /// `None`: what its policy means.
    pub constraints: Option<Result<Constraints, String>>,
}

/// A policy with the bindings that name it.
pub struct Hook {
    pub policy: Arc<LoadedPolicy>,
    pub bindings: Vec<Arc<LoadedBinding>>,
}

impl LoadedPolicy {
    fn read(name: &str, kind: PolicyKind, spec: Value) -> LoadedPolicy {
        LoadedPolicy {
            name: name.to_owned(),
            policy: Policy::read(name, kind, &spec),
            constraints: Constraints::read(&spec["matchConstraints"]),
            spec,
        }
    }

    /// Whether an error refuses the request. It does where the policy cannot be read.
    pub fn fails_closed(&self) -> bool {
        match &self.policy {
            Ok(policy) => policy.fails_closed,
            Err(_) => self.spec["failurePolicy"] != "Ignore",
        }
    }

    /// What of it cannot be read, each with its place.
    pub fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = match &self.policy {
            Ok(policy) => policy.faults(),
            Err(why) => vec![why.clone()],
        };
        faults.extend(self.constraints.as_ref().err().map(|why| format!("matchConstraints: {why}")));
        faults
    }

    /// The version of the kind in which its rules match this write.
    pub fn matching_version<'a>(&self, attributes: &AdmissionAttributes<'a>) -> Option<&'a ResourceKind> {
        match &self.constraints {
            Ok(constraints) => constraints.matching_version(attributes),
            // It is not known what it means, so it means everything.
            Err(_) => Some(attributes.row),
        }
    }
}

/// All policies and bindings of one kind.
#[derive(Default)]
pub struct Loaded {
    policies: BTreeMap<String, Arc<LoadedPolicy>>,
    bindings: BTreeMap<String, Arc<LoadedBinding>>,
}

impl Loaded {
    /// Reads a policy. Returns it if it is new or has changed.
    pub fn put_policy(&mut self, name: &str, kind: PolicyKind, spec: Value) -> Option<Arc<LoadedPolicy>> {
        if self.policies.get(name).is_some_and(|known| known.spec == spec) {
            return None;
        }
        let read = Arc::new(LoadedPolicy::read(name, kind, spec));
        self.policies.insert(name.to_owned(), Arc::clone(&read));
        Some(read)
    }

    /// Reads a binding. The error says why it is none.
    pub fn put_binding(&mut self, name: &str, spec: &Value) -> Result<(), String> {
        self.bindings.remove(name);
        let binding = PolicyBinding::read(name, spec)?;
        let member = &spec["matchResources"];
        let constraints = (!member.is_null()).then(|| Constraints::read(member));
        self.bindings.insert(name.to_owned(), Arc::new(LoadedBinding { binding, constraints }));
        Ok(())
    }

    pub fn remove_policy(&mut self, name: &str) {
        self.policies.remove(name);
    }

    pub fn remove_binding(&mut self, name: &str) {
        self.bindings.remove(name);
    }

    /// Keeps those alone that a list has.
    pub fn keep_policies(&mut self, names: &BTreeSet<String>) {
        self.policies.retain(|name, _| names.contains(name));
    }

    pub fn keep_bindings(&mut self, names: &BTreeSet<String>) {
        self.bindings.retain(|name, _| names.contains(name));
    }

    /// The policies that have bindings, by name.
    pub fn hooks(&self) -> Vec<Hook> {
        let of = |policy: &Arc<LoadedPolicy>| {
            let bindings = self.bindings.values().filter(|it| it.binding.policy == policy.name).cloned();
            Hook { policy: Arc::clone(policy), bindings: bindings.collect() }
        };
        self.policies.values().map(of).filter(|hook| !hook.bindings.is_empty()).collect()
    }

    /// The kinds of the objects that the policies are configured by.
    pub fn param_kinds(&self) -> BTreeSet<ParamKind> {
        let hooks = self.hooks();
        let kinds = hooks.iter().filter_map(|hook| hook.policy.policy.as_ref().ok()?.params.clone());
        kinds.collect()
    }
}
