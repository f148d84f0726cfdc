//! Evaluates the host cluster's admission policies for the kinds that are served here (AD20-AD27).
//! kube-apiserver does not evaluate them for the requests that its aggregator forwards.
//!
//! Policies and their bindings are watched like the webhook configurations: every write is rejected
//! until they have been read for the first time. If the host cluster does not serve a kind of
//! policy, there are none of it. Parameter objects are watched while a policy with a binding names
//! their kind (`params`).
//!
//! Errors in a policy are reported once, in the log and by an event on the policy. Writes that it
//! matches fail according to its failure policy. An expression that fails for a write also causes
//! an event on the policy.

mod constraints;
mod context;
mod loaded;
mod mutating;
mod params;
mod patch_faults;
mod validating;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, Once};

use arc_swap::ArcSwap;
use futures_util::StreamExt;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Map, Value as Json};

use self::constraints::Constraints;
use self::loaded::{Hook, Hooks, Loaded, LoadedBinding, LoadedPolicy};
use self::params::{Param, Params};
use super::connect::Host;
use super::first_read::FirstRead;
use super::namespaces::{Known, Namespaces};
use super::pauses::Pauses;
use super::reviews::Reviews;
use ballast_base::telemetry;
use ballast_k8s::Status;
use ballast_policies::PolicyKind;
use ballast_registry::AdmissionAttributes;
use ballast_worker::events::{Note, ObjectReference, Recorder, Severity};

pub use self::context::name_of;
pub use self::mutating::Pass;

type Tree = Map<String, Json>;

const GROUP: &str = "admissionregistration.k8s.io";
const VERSION: &str = "v1";
/// The reason of the event about a policy that cannot be parsed.
const UNREADABLE: &str = "PolicyNotReadable";
/// The reason of the event about a policy that failed for a write.
const FAILED: &str = "PolicyFailed";

/// The admission policies of the host cluster.
pub struct AdmissionPolicies {
    host: Host,
    namespaces: Namespaces,
    reviews: Reviews,
    recorder: Recorder,
    loaded: [Mutex<Loaded>; 2],
    validating: ArcSwap<Hooks>,
    mutating: ArcSwap<Hooks>,
    params: Params,
    /// The signals for each of the four kinds of objects.
    first_reads: [FirstRead; 4],
    /// Logs missing permissions once for all four kinds.
    missing_rule: Once,
}

/// The namespace of a write, or why it could not be looked up.
type NamespaceLabels = Result<Arc<Known>, String>;

/// A binding that matches the write. `is_bound` is an error if it cannot be used.
struct Bound<'a> {
    binding: &'a LoadedBinding,
    is_bound: Result<(), String>,
}

/// A watched kind, with its position among the first reads.
#[derive(Clone, Copy)]
struct Watched {
    kind: PolicyKind,
    are_bindings: bool,
}

impl Watched {
    const ALL: [Watched; 4] = [
        Watched { kind: PolicyKind::Validating, are_bindings: false },
        Watched { kind: PolicyKind::Validating, are_bindings: true },
        Watched { kind: PolicyKind::Mutating, are_bindings: false },
        Watched { kind: PolicyKind::Mutating, are_bindings: true },
    ];

    fn resource(self) -> ApiResource {
        let suffix = if self.are_bindings { "Binding" } else { "" };
        ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(GROUP, VERSION, &format!("{}{suffix}", self.kind.as_str())),
            match (self.kind, self.are_bindings) {
                (PolicyKind::Validating, false) => "validatingadmissionpolicies",
                (PolicyKind::Validating, true) => "validatingadmissionpolicybindings",
                (PolicyKind::Mutating, false) => "mutatingadmissionpolicies",
                (PolicyKind::Mutating, true) => "mutatingadmissionpolicybindings",
            },
        )
    }
}

impl AdmissionPolicies {
    /// Returns the policies of a host cluster. With `evaluates`, every write waits until `follow`
    /// has read the policies. Without it, there are none.
    pub fn new(host: Host, namespaces: Namespaces, recorder: Recorder, evaluates: bool) -> AdmissionPolicies {
        AdmissionPolicies {
            reviews: Reviews::new(host.clone()),
            params: Params::new(host.clone()),
            host,
            namespaces,
            recorder,
            loaded: Default::default(),
            validating: ArcSwap::default(),
            mutating: ArcSwap::default(),
            first_reads: [(); 4].map(|()| FirstRead::new(!evaluates)),
            missing_rule: Once::new(),
        }
    }

    /// Returns whether all policies have been read once.
    pub fn is_ready(&self) -> bool {
        self.first_reads.iter().all(FirstRead::is_done)
    }

    /// Waits until all policies have been read once.
    pub async fn ready(&self) {
        for first_read in &self.first_reads {
            first_read.done().await;
        }
    }

    fn hooks(&self, kind: PolicyKind) -> &ArcSwap<Hooks> {
        match kind {
            PolicyKind::Validating => &self.validating,
            PolicyKind::Mutating => &self.mutating,
        }
    }

    /// Returns whether a policy of this kind may match the write. True until they have been read.
    pub fn may_match(&self, kind: PolicyKind, attributes: &AdmissionAttributes<'_>) -> bool {
        !self.is_ready()
            || self.hooks(kind).load().of(attributes.row).any(|hook| hook.policy.matching_version(attributes).is_some())
    }

    /// Looks up the namespace of a write if a selector of the policy or of its bindings needs it.
    async fn namespace_for(&self, hook: &Hook, attributes: &AdmissionAttributes<'_>) -> NamespaceLabels {
        let of_bindings = hook.bindings.iter().filter_map(|binding| binding.constraints.as_ref());
        let mut all = of_bindings.chain([&hook.policy.constraints]).filter_map(|read| read.as_ref().ok());
        match !attributes.namespace.is_empty() && all.any(Constraints::reads_namespaces) {
            true => self.namespaces.get(attributes.namespace).await.map_err(|status| status.message),
            false => Err("no selector reads the namespace".to_owned()),
        }
    }

    /// Returns whether a validating policy matches this write of a worker.
    pub fn matches(&self, attributes: &AdmissionAttributes<'_>, object: &Tree, old: &Tree) -> bool {
        let namespace = self.namespaces.delivered(attributes.namespace);
        let namespace = namespace.ok_or_else(|| "the namespace has to be looked up".to_owned());
        self.validating.load().of(attributes.row).any(|hook| {
            // If the match is undecidable, the evaluation returns the reason.
            hook.policy.matching_version(attributes).is_some()
                && bound(hook, attributes, &namespace, Some(object), Some(old)).map_or(true, |bound| !bound.is_empty())
        })
    }

    async fn params_of(
        &self,
        hook: &Hook,
        binding: &LoadedBinding,
        attributes: &AdmissionAttributes<'_>,
    ) -> Result<Vec<Param>, String> {
        let kind = hook.policy.policy.as_ref().ok().and_then(|policy| policy.params.as_ref());
        self.params.collect(kind, binding.binding.params.as_ref(), attributes.namespace).await
    }

    /// Returns the namespace object for expressions.
    async fn namespace_of(&self, attributes: &AdmissionAttributes<'_>) -> Result<Option<Arc<Json>>, Status> {
        match attributes.namespace {
            "" => Ok(None),
            namespace => self.namespaces.get(namespace).await.map(|known| Some(Arc::clone(&known.object))),
        }
    }

    /// Reports a policy that failed for a write, with a rate-limited log line and an event on the
    /// policy.
    fn report_failure(&self, policy: &LoadedPolicy, binding: Option<&str>, why: &str, is_closed: bool) {
        let Some(left_out) = policy.told.pass() else { return };
        let does = if is_closed { "refused" } else { "not held back" };
        tracing::warn!(policy = policy.name, binding, why, left_out, "a policy failed; the write was {does}");
        let binding = binding.map_or_else(String::new, |binding| format!(" with binding '{binding}'"));
        let message = format!("A write was {does} because the policy{binding} failed: {why}");
        let note = Note::new(&self.recorder, policy.about.clone(), Severity::Warning, FAILED, message);
        self.recorder.record(note);
    }

    /// Watches the policies, their bindings and their parameters, until it is dropped.
    pub async fn follow(self: Arc<AdmissionPolicies>) {
        let watches = Watched::ALL.iter().zip(&self.first_reads).map(|(what, first)| self.follow_one(*what, first));
        tokio::join!(futures_util::future::join_all(watches), self.params.follow());
    }

    async fn follow_one(&self, what: Watched, first_read: &FirstRead) {
        let resource = what.resource();
        let api: Api<DynamicObject> = Api::all_with(self.host.client.clone(), &resource);
        let mut listed: Option<BTreeSet<String>> = None;
        let mut is_told = false;
        let mut events = pin!(watcher(api, watcher::Config::default()).backoff(Pauses::default()));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed = Some(BTreeSet::new()),
                Ok(Event::InitApply(object)) => {
                    listed.get_or_insert_default().insert(object.name_any());
                    self.put(what, &resource, &object);
                }
                Ok(Event::InitDone) => {
                    self.keep(what, &listed.take().unwrap_or_default());
                    self.publish(what.kind);
                    first_read.end();
                    is_told = false;
                }
                Ok(Event::Apply(object)) => {
                    self.put(what, &resource, &object);
                    self.publish(what.kind);
                }
                Ok(Event::Delete(object)) => {
                    self.remove(what, &object.name_any());
                    self.publish(what.kind);
                }
                // A host cluster of an older version does not serve the kind, so there are no
                // policies.
                Err(watcher::Error::InitialListFailed(kube::Error::Api(status))) if status.code == 404 => {
                    self.keep(what, &BTreeSet::new());
                    self.publish(what.kind);
                    first_read.end();
                }
                Err(watcher::Error::InitialListFailed(kube::Error::Api(status))) if status.code == 403 => {
                    self.missing_rule.call_once(|| {
                        let plurals = Watched::ALL.map(|it| it.resource().plural).join(", ");
                        let (error, rule) = (&status.message, format!("get, list, watch of {plurals} in {GROUP}"));
                        tracing::error!(
                            error,
                            rule,
                            "every write is refused until the ClusterRole of this server has a rule: apply the RBAC \
                             of this version (UPGRADING.md), or start with --admission-policies=false"
                        );
                    });
                }
                Err(error) if std::mem::replace(&mut is_told, true) => {
                    tracing::debug!(error = telemetry::with_causes(&error), "still failing to watch policies");
                }
                Err(error) => {
                    let (error, kind) = (telemetry::with_causes(&error), &resource.kind);
                    tracing::warn!(kind, error, "failed to watch policies; until they are read, writes are refused");
                }
            }
        }
    }

    fn loaded(&self, kind: PolicyKind) -> std::sync::MutexGuard<'_, Loaded> {
        let index = usize::from(kind == PolicyKind::Mutating);
        self.loaded[index].lock().expect("no panic while it is held")
    }

    fn put(&self, what: Watched, resource: &ApiResource, object: &DynamicObject) {
        let (name, spec) = (object.name_any(), &object.data["spec"]);
        if what.are_bindings {
            if let Err(why) = self.loaded(what.kind).put_binding(&name, spec) {
                self.tell(resource, object, &format!("The binding cannot be read: {why}"));
            }
            return;
        }
        let about = reference(resource, object);
        let read = self.loaded(what.kind).put_policy(&name, what.kind, about, spec.clone());
        if let Some(read) = read {
            self.tell_faults(resource, object, &read);
        }
    }

    fn keep(&self, what: Watched, names: &BTreeSet<String>) {
        let mut loaded = self.loaded(what.kind);
        match what.are_bindings {
            true => loaded.keep_bindings(names),
            false => loaded.keep_policies(names),
        }
    }

    fn remove(&self, what: Watched, name: &str) {
        let mut loaded = self.loaded(what.kind);
        match what.are_bindings {
            true => loaded.remove_binding(name),
            false => loaded.remove_policy(name),
        }
    }

    fn publish(&self, kind: PolicyKind) {
        self.hooks(kind).store(Arc::new(self.loaded(kind).hooks()));
        let mut kinds = self.loaded(PolicyKind::Validating).param_kinds();
        kinds.append(&mut self.loaded(PolicyKind::Mutating).param_kinds());
        self.params.want(kinds);
    }

    /// Reports the errors in a policy once.
    fn tell_faults(&self, resource: &ApiResource, object: &DynamicObject, read: &LoadedPolicy) {
        let faults = read.faults();
        if !faults.is_empty() {
            let does = if read.fails_closed() { "refuses" } else { "ignores" };
            let why = format!(
                "Ballast cannot evaluate this policy, and {does} the writes of its kinds that need it, as \
                 failurePolicy says: {}",
                faults.join("; ")
            );
            self.tell(resource, object, &why);
        }
    }

    fn tell(&self, resource: &ApiResource, object: &DynamicObject, why: &str) {
        let name = object.name_any();
        tracing::warn!(kind = resource.kind, name, why, "a policy cannot be read");
        let about = reference(resource, object);
        self.recorder.record(Note::new(&self.recorder, about, Severity::Warning, UNREADABLE, why.to_owned()));
    }
}

fn reference(resource: &ApiResource, object: &DynamicObject) -> ObjectReference {
    ObjectReference {
        api_version: Some(resource.api_version.clone()),
        kind: Some(resource.kind.clone()),
        name: Some(object.name_any()),
        uid: object.uid(),
        ..ObjectReference::default()
    }
}

/// Returns the bindings of a policy that match this write, or an error if the policy cannot be
/// used.
fn bound<'h>(
    hook: &'h Hook,
    attributes: &AdmissionAttributes<'_>,
    namespace: &NamespaceLabels,
    object: Option<&Tree>,
    old: Option<&Tree>,
) -> Result<Vec<Bound<'h>>, String> {
    let constraints = hook.policy.constraints.as_ref().map_err(String::clone)?;
    if !constraints.selects(attributes, namespace, object, old)? {
        return Ok(Vec::new());
    }
    if let Err(why) = &hook.policy.policy {
        return Err(why.clone());
    }
    let is_bound = |binding: &'h Arc<LoadedBinding>| {
        let is_bound = match &binding.constraints {
            None => Ok(true),
            Some(Err(why)) => Err(why.clone()),
            Some(Ok(constraints)) if constraints.matching_version(attributes).is_none() => Ok(false),
            Some(Ok(constraints)) => constraints.selects(attributes, namespace, object, old),
        };
        match is_bound {
            Ok(false) => None,
            Ok(true) => Some(Bound { binding, is_bound: Ok(()) }),
            Err(why) => Some(Bound { binding, is_bound: Err(why) }),
        }
    };
    Ok(hook.bindings.iter().filter_map(is_bound).collect())
}
