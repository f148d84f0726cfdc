//! Calls the host cluster's admission webhooks for the kinds that are served here (AD3).
//! kube-apiserver does not call webhooks for the requests that its aggregator forwards.
//!
//! The order is kube-apiserver's. Mutating webhooks are called one after the other, by the name of
//! their configuration. A webhook with `reinvocationPolicy: IfNeeded` is called again if another
//! webhook changed the object after it. Validating webhooks are called concurrently. A failed call
//! denies the request or is ignored, according to the webhook's failure policy. Audit annotations
//! have kube-apiserver's keys.
//!
//! Every write is rejected until the configurations have been read for the first time, because the
//! webhooks to call are unknown before.
//!
//! Validating webhooks are also called for writes of Ballast's own scheduler and rebalances to a
//! binding's spec (AD13). Mutating webhooks are not, which is logged (D48).
//!
//! Deliberately absent: AdmissionReview v1beta1. `admission` combines the webhooks with the host
//! cluster's policies.

mod call;
mod hook;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arc_swap::ArcSwap;
use futures_util::StreamExt;
use futures_util::future::join_all;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Map, Value, json};

use self::call::{Answer, Review};
use self::hook::Hook;
use super::connect::Host;
use super::first_read::FirstRead;
use super::namespaces::Namespaces;
use super::pauses::Pauses;
use super::questions::until_answered;
use super::reviews::Reviews;
use super::rules::Written;
use ballast_base::log_limit::LogLimit;
use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_k8s::Status;
use ballast_policies::AccessAnswers;
use ballast_registry::{AdmissionAttributes, Operation};

type Tree = Map<String, Value>;

/// The writes of the scheduler. No mutating webhook is called for them (D48).
const SCHEDULED: [Written<'static>; 2] = {
    let written = Written {
        operation: "UPDATE",
        group: "work.karmada.io",
        version: "v1alpha2",
        resource: "resourcebindings",
        subresource: "",
        is_namespaced: true,
    };
    [written, Written { resource: "clusterresourcebindings", is_namespaced: false, ..written }]
};

/// Webhooks by the name of their configuration.
type Known = BTreeMap<String, Vec<Arc<Hook>>>;

/// All mutating or all validating webhooks.
struct Hooks {
    /// The webhooks in the order of their calls.
    called: ArcSwap<Vec<Arc<Hook>>>,
    first_read: FirstRead,
}

impl Hooks {
    /// Returns no webhooks. `is_known` is false if the configurations have not been read yet.
    fn none(is_known: bool) -> Hooks {
        Hooks { called: ArcSwap::default(), first_read: FirstRead::new(is_known) }
    }

    /// Returns whether a webhook may match this write. True until they have been read.
    fn may_match(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        !self.first_read.is_done() || self.called.load().iter().any(|hook| hook.matching_version(attributes).is_some())
    }
}

/// The admission webhooks of the host cluster, and the check of namespaces.
pub struct Webhooks {
    host: Host,
    reviews: Reviews,
    namespaces: Namespaces,
    keeps_lifecycle: bool,
    /// Whether validating webhooks are called for the writes of workers.
    asks_for_workers: bool,
    mutating: Hooks,
    validating: Hooks,
}

impl Webhooks {
    /// Returns the webhooks of a host cluster.
    ///
    /// `keeps_lifecycle` specifies whether an object may only be created in a namespace that exists
    /// and is not terminating. With `calls`, every write waits until `follow` has read the
    /// configurations. Without it, no webhook is ever called.
    pub fn new(host: Host, namespaces: Namespaces, keeps_lifecycle: bool, calls: bool) -> Webhooks {
        let (mutating, validating) = (Hooks::none(!calls), Hooks::none(!calls));
        let reviews = Reviews::new(host.clone());
        Webhooks { host, reviews, namespaces, keeps_lifecycle, asks_for_workers: true, mutating, validating }
    }

    /// Disables webhooks for the writes of workers.
    #[must_use]
    pub fn for_clients_only(self) -> Webhooks {
        Webhooks { asks_for_workers: false, ..self }
    }

    /// Returns whether all configurations have been read once.
    pub fn is_ready(&self) -> bool {
        [&self.mutating, &self.validating].iter().all(|hooks| hooks.first_read.is_done())
    }

    /// Waits until the configurations have been read.
    pub async fn both_read(&self) {
        for hooks in [&self.mutating, &self.validating] {
            hooks.first_read.done().await;
        }
    }

    /// Watches the host cluster's configurations until it is dropped.
    pub async fn follow(self: Arc<Webhooks>) {
        let mut told = BTreeSet::new();
        let tell = |hook: &Hook| tell_unasked(hook, &mut told);
        let mutating = follow::<MutatingWebhookConfiguration>(&self.host, &self.mutating, tell, |configuration| {
            let name = configuration.name_any();
            let hooks = configuration.webhooks.into_iter().flatten();
            hooks.map(|hook| Hook::of_mutating(&name, hook)).collect()
        });
        let (mut told, asks) = (BTreeSet::new(), self.asks_for_workers);
        let tell = |hook: &Hook| {
            if !asks {
                tell_unasked(hook, &mut told)
            }
        };
        let validating =
            follow::<ValidatingWebhookConfiguration>(&self.host, &self.validating, tell, |configuration| {
                let name = configuration.name_any();
                let hooks = configuration.webhooks.into_iter().flatten();
                hooks.map(|hook| Hook::of_validating(&name, hook)).collect()
            });
        tokio::join!(mutating, validating);
    }

    /// Returns whether selectors and match conditions of a webhook match too. The host cluster
    /// evaluates the access checks of the conditions.
    ///
    /// # Errors
    ///
    /// Returns an error if the namespace does not exist or could not be looked up, regardless of
    /// the failure policy (as in kube-apiserver); or if the webhook fails closed and cannot be
    /// evaluated.
    async fn is_match(&self, hook: &Hook, review: &Review<'_>) -> Result<bool, Status> {
        if !hook.selects_object(review)? {
            return Ok(false);
        }
        if hook.reads_namespace(review.attributes)
            && !hook.selects_namespace(&*self.namespaces.get(review.attributes.namespace).await?)
        {
            return Ok(false);
        }
        let mut answers = AccessAnswers::new();
        let matches = |answers: &AccessAnswers| hook.is_wanted(review, answers);
        until_answered(&self.reviews, review.attributes, &mut answers, matches).await
    }

    /// Calls a mutating webhook and applies its patch. Returns whether the object changed.
    async fn mutate_by(
        &self,
        (round, index, hook): (usize, usize, &Hook),
        attributes: &AdmissionAttributes<'_>,
        object: &mut Tree,
        old: Option<&Tree>,
    ) -> Result<bool, Status> {
        let Some(row) = hook.matching_version(attributes) else { return Ok(false) };
        let is_delete = attributes.operation == Operation::Delete;
        let review = Review { attributes, row, object: (!is_delete).then_some(&*object), old };
        if !self.is_match(hook, &review).await? {
            return Ok(false);
        }
        let place = format!("mutation.webhook.admission.k8s.io/round_{round}_index_{index}");
        let patch = match call::call(hook, &review, "admit").await? {
            Answer::Failed => {
                attributes.caller.warnings.annotate(format!("failed-open.{place}"), hook.name.clone());
                return Ok(false);
            }
            Answer::Allowed { patch } => patch.filter(|_| attributes.operation.stores()),
        };
        let changed = match patch {
            Some(patch) => Some(call::patched(hook, &review, object.clone(), &patch)?).filter(|it| it != object),
            None => None,
        };
        let is_changed = changed.is_some();
        if let Some(changed) = changed {
            *object = changed;
        }
        let note = json!({"configuration": hook.configuration, "webhook": hook.name, "mutated": is_changed});
        attributes.caller.warnings.annotate(place, note.to_string());
        Ok(is_changed)
    }
}

async fn follow<K>(host: &Host, hooks: &Hooks, mut tell: impl FnMut(&Hook), read: impl Fn(K) -> Vec<Hook>)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + 'static,
{
    let api: Api<K> = Api::all(host.client.clone());
    let known: Mutex<Known> = Mutex::default();
    let publish = |change: &dyn Fn(&mut Known)| {
        let mut known = known.lock().expect("no panic while it is held");
        change(&mut known);
        hooks.called.store(Arc::new(known.values().flatten().cloned().collect()));
    };
    let (mut listed, failures) = (Known::new(), LogLimit::new());
    let mut events = pin!(watcher(api, watcher::Config::default()).backoff(Pauses::default()));
    while let Some(event) = events.next().await {
        let arcs = |configuration: K| read(configuration).into_iter().map(Arc::new).collect::<Vec<_>>();
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(configuration)) => {
                listed.insert(configuration.name_any(), arcs(configuration));
            }
            Ok(Event::InitDone) => {
                publish(&|known| *known = listed.clone());
                hooks.first_read.end();
                listed.values().flatten().for_each(|hook| tell(hook));
            }
            Ok(Event::Apply(configuration)) => {
                let (name, hooks) = (configuration.name_any(), arcs(configuration));
                hooks.iter().for_each(|hook| tell(hook));
                publish(&|known| drop(known.insert(name.clone(), hooks.clone())));
            }
            Ok(Event::Delete(configuration)) => {
                publish(&|known| drop(known.remove(&configuration.name_any())));
            }
            Err(error) => {
                if failures.pass().is_some() {
                    tracing::warn!(error = telemetry::with_causes(&error), "failed to watch webhook configurations");
                }
            }
        }
    }
}

/// Returns the resource of a scheduler's write that matches the webhook's rules (BK9).
fn unasked(hook: &Hook) -> Option<&'static str> {
    SCHEDULED.iter().find(|written| hook.rules_match(written)).map(|written| written.resource)
}

/// Logs, once for each webhook, that it is not called for the scheduler's writes.
fn tell_unasked(hook: &Hook, told: &mut BTreeSet<String>) {
    let Some(resource) = unasked(hook) else { return };
    let Hook { configuration, name, .. } = hook;
    if told.insert(format!("{configuration}/{name}")) {
        tracing::warn!(
            configuration,
            webhook = name,
            resource,
            "a mutating webhook matches what the scheduler writes, but is called only for what clients write"
        );
    }
}

/// The state of mutating webhooks after the first round.
#[derive(Default)]
pub struct Round {
    /// Whether a webhook has changed the object.
    pub is_changed: bool,
    /// The webhooks with reinvocation that have been called.
    passed: Vec<usize>,
    /// Among them, the webhooks after which the object was changed.
    again: Vec<usize>,
}

impl Round {
    /// Records that the object was changed.
    pub fn changed(&mut self) {
        self.again.append(&mut self.passed);
    }
}

impl Webhooks {
    /// Rejects the creation of an object in a namespace that is missing or terminating.
    pub async fn check_create(&self, attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
        match attributes.namespace {
            "" => Ok(()),
            _ if !self.keeps_lifecycle => Ok(()),
            namespace => {
                let started = Instant::now();
                let verdict = self.namespaces.may_create(attributes.row.resource, namespace, attributes.name).await;
                let operation = attributes.operation.as_str();
                metrics::admission_controller("NamespaceLifecycle", operation, verdict.is_err(), started.elapsed());
                verdict
            }
        }
    }

    /// Returns whether a webhook may have to be called for this write of a client.
    pub fn may_match(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.mutating.may_match(attributes) || self.validating.may_match(attributes)
    }

    /// Returns whether a validating webhook may have to be called for such a write of a worker.
    pub fn may_match_workers(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        !self.is_ready() || self.validating.may_match(attributes)
    }

    /// Returns whether a validating webhook has to be called for this write of a worker.
    pub fn matches(&self, attributes: &AdmissionAttributes<'_>, object: &Tree, old: &Tree) -> bool {
        let namespace = self.namespaces.delivered(attributes.namespace);
        self.validating.called.load().iter().any(|hook| {
            let Some(row) = hook.matching_version(attributes) else { return false };
            let review = Review { attributes, row, object: Some(object), old: Some(old) };
            // If the match is undecidable yet, the call decides it or returns the reason.
            let is_in = || match &namespace {
                Some(namespace) if hook.reads_namespace(attributes) => hook.selects_namespace(namespace),
                _ => true,
            };
            let is_wanted = || !matches!(hook.is_wanted(&review, &AccessAnswers::new()), Ok(Ok(false)));
            hook.selects_object(&review).unwrap_or(true) && is_in() && is_wanted()
        })
    }

    /// Calls the mutating webhooks, one after the other.
    pub async fn first_round(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Tree,
        old: Option<&Tree>,
    ) -> Result<Round, Status> {
        let hooks = self.mutating.called.load_full();
        let mut round = Round::default();
        for (index, hook) in hooks.iter().enumerate() {
            if self.mutate_by((0, index, hook), attributes, object, old).await? {
                round.is_changed = true;
                round.changed();
            }
            if hook.is_reinvocable {
                round.passed.push(index);
            }
        }
        Ok(round)
    }

    /// Calls the mutating webhooks again after which the object was changed.
    pub async fn second_round(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Tree,
        old: Option<&Tree>,
        round: Round,
    ) -> Result<(), Status> {
        let hooks = self.mutating.called.load_full();
        for index in round.again {
            let Some(hook) = hooks.get(index) else { continue };
            self.mutate_by((1, index, hook), attributes, object, old).await?;
        }
        Ok(())
    }

    /// Calls the validating webhooks concurrently.
    pub async fn call_validating(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Tree>,
        old: Option<&Tree>,
    ) -> Result<(), Status> {
        let hooks = self.validating.called.load_full();
        let mut matching = Vec::new();
        for (index, hook) in hooks.iter().enumerate() {
            let Some(row) = hook.matching_version(attributes) else { continue };
            let review = Review { attributes, row, object, old };
            if self.is_match(hook, &review).await? {
                matching.push((index, hook, review));
            }
        }
        let calls = matching.iter().map(|(_, hook, review)| call::call(hook, review, "validating"));
        for (answer, (index, hook, _)) in join_all(calls).await.into_iter().zip(&matching) {
            if let Answer::Failed = answer? {
                let place = format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}");
                attributes.caller.warnings.annotate(place, hook.name.clone());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(rule: Value) -> Hook {
        let hook = json!({
            "name": "quota.example.com", "clientConfig": {"url": "https://127.0.0.1:1/quota"},
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [rule],
        });
        Hook::of_validating("karmada", serde_json::from_value(hook).unwrap())
    }

    #[tokio::test]
    async fn bk9_a_webhook_that_means_the_scheduler_s_writes_is_told() {
        let rule = |operations: &[&str], resources: &[&str]| {
            let (groups, versions) = (["work.karmada.io"], ["v1alpha2"]);
            json!({"operations": operations, "apiGroups": groups, "apiVersions": versions, "resources": resources})
        };
        for (rule, wanted) in [
            (rule(&["CREATE", "UPDATE"], &["resourcebindings"]), Some("resourcebindings")),
            (rule(&["*"], &["clusterresourcebindings"]), Some("clusterresourcebindings")),
            (rule(&["*"], &["*/*"]), Some("resourcebindings")),
            (rule(&["CREATE"], &["resourcebindings"]), None),
            (rule(&["UPDATE"], &["resourcebindings/status", "works"]), None),
        ] {
            assert_eq!(unasked(&hook(rule.clone())), wanted, "{rule}");
        }
        let (mut told, quota) = (BTreeSet::new(), hook(rule(&["UPDATE"], &["resourcebindings"])));
        tell_unasked(&quota, &mut told);
        tell_unasked(&quota, &mut told);
        assert_eq!(told.into_iter().collect::<Vec<_>>(), ["karmada/quota.example.com"]);
    }
}
