//! The policies and bindings of one kind in the host cluster.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, RwLock};

use serde_json::Value;

use super::constraints::Constraints;
use ballast_base::log_limit::LogLimit;
use ballast_k8s::GroupResource;
use ballast_policies::{ParamKind, Policy, PolicyBinding, PolicyKind};
use ballast_registry::AdmissionAttributes;
use ballast_resource::ResourceKind;
use ballast_worker::events::ObjectReference;

/// A policy, or the reason why it cannot be parsed.
pub struct LoadedPolicy {
    pub name: String,
    pub policy: Result<Policy, String>,
    pub constraints: Result<Constraints, String>,
    /// The reference to the policy in events.
    pub about: ObjectReference,
    /// Limits the log lines and events about its failures.
    pub told: LogLimit,
    /// The unparsed spec, to detect changes.
    spec: Value,
}

pub struct LoadedBinding {
    pub binding: PolicyBinding,
    /// `None` if the constraints of the policy apply.
    pub constraints: Option<Result<Constraints, String>>,
}

/// A policy with the bindings that name it.
pub struct Hook {
    pub policy: Arc<LoadedPolicy>,
    pub bindings: Vec<Arc<LoadedBinding>>,
}

impl LoadedPolicy {
    fn read(name: &str, kind: PolicyKind, about: ObjectReference, spec: Value) -> LoadedPolicy {
        LoadedPolicy {
            name: name.to_owned(),
            policy: Policy::read(name, kind, &spec),
            constraints: Constraints::read(&spec["matchConstraints"]),
            about,
            told: LogLimit::new(),
            spec,
        }
    }

    /// Returns whether an error denies the request. An invalid policy fails closed by default.
    pub fn fails_closed(&self) -> bool {
        match &self.policy {
            Ok(policy) => policy.fails_closed,
            Err(_) => self.spec["failurePolicy"] != "Ignore",
        }
    }

    /// Returns all compile errors, each with its field path.
    pub fn faults(&self) -> Vec<String> {
        let mut faults: Vec<String> = match &self.policy {
            Ok(policy) => policy.faults(),
            Err(why) => vec![why.clone()],
        };
        faults.extend(self.constraints.as_ref().err().map(|why| format!("matchConstraints: {why}")));
        faults
    }

    /// Returns the version of the kind in which the rules of the policy match this write.
    pub fn matching_version<'a>(&self, attributes: &AdmissionAttributes<'a>) -> Option<&'a ResourceKind> {
        match &self.constraints {
            Ok(constraints) => constraints.matching_version(attributes),
            // The constraints cannot be parsed, so the policy matches every write.
            Err(_) => Some(attributes.row),
        }
    }
}

/// Policies with their bindings, in the order of their names, indexed by the kind of a write.
/// Policies that do not match a kind cost its writes nothing.
#[derive(Default)]
pub struct Hooks {
    all: Vec<Hook>,
    /// The positions of the policies that may match, by kind. There is an entry for each served
    /// kind.
    by_kind: RwLock<HashMap<GroupResource, Arc<[usize]>>>,
}

impl Hooks {
    /// Returns the policies that may match a write of this kind.
    pub fn of(&self, row: &ResourceKind) -> impl Iterator<Item = &Hook> {
        let places = self.places(row);
        (0..places.len()).map(move |index| &self.all[places[index]])
    }

    fn places(&self, row: &ResourceKind) -> Arc<[usize]> {
        const POISONED: &str = "no holder of this lock can panic";
        if let Some(known) = self.by_kind.read().expect(POISONED).get(&row.resource) {
            return Arc::clone(known);
        }
        let may_mean = |hook: &Hook| hook.policy.constraints.as_ref().map_or(true, |it| it.may_mean(row));
        let places = self.all.iter().enumerate().filter(|(_, hook)| may_mean(hook)).map(|(place, _)| place);
        let places: Arc<[usize]> = places.collect();
        self.by_kind.write().expect(POISONED).insert(row.resource, Arc::clone(&places));
        places
    }
}

/// All policies and bindings of one kind.
#[derive(Default)]
pub struct Loaded {
    policies: BTreeMap<String, Arc<LoadedPolicy>>,
    bindings: BTreeMap<String, Arc<LoadedBinding>>,
}

impl Loaded {
    /// Parses a policy. Returns it if it is new or has changed.
    pub fn put_policy(
        &mut self,
        name: &str,
        kind: PolicyKind,
        about: ObjectReference,
        spec: Value,
    ) -> Option<Arc<LoadedPolicy>> {
        if self.policies.get(name).is_some_and(|known| known.spec == spec && known.about.uid == about.uid) {
            return None;
        }
        let read = Arc::new(LoadedPolicy::read(name, kind, about, spec));
        self.policies.insert(name.to_owned(), Arc::clone(&read));
        Some(read)
    }

    /// Parses a binding.
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

    /// Removes all policies that are not in a list.
    pub fn keep_policies(&mut self, names: &BTreeSet<String>) {
        self.policies.retain(|name, _| names.contains(name));
    }

    pub fn keep_bindings(&mut self, names: &BTreeSet<String>) {
        self.bindings.retain(|name, _| names.contains(name));
    }

    /// Returns the policies that have bindings, by name.
    pub fn hooks(&self) -> Hooks {
        let of = |policy: &Arc<LoadedPolicy>| {
            let bindings = self.bindings.values().filter(|it| it.binding.policy == policy.name).cloned();
            Hook { policy: Arc::clone(policy), bindings: bindings.collect() }
        };
        let all = self.policies.values().map(of).filter(|hook| !hook.bindings.is_empty()).collect();
        Hooks { all, by_kind: RwLock::default() }
    }

    /// Returns the kinds of the parameter objects of the policies.
    pub fn param_kinds(&self) -> BTreeSet<ParamKind> {
        let hooks = self.hooks();
        let kinds = hooks.all.iter().filter_map(|hook| hook.policy.policy.as_ref().ok()?.params.clone());
        kinds.collect()
    }
}
