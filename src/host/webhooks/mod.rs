//! Admission webhooks of the host cluster that mean our kinds (AD3): kube-apiserver does not call them for
//! what it passes on, so we do.
//!
//! Order as upstream: mutating ones one after the other, by the name of their configuration; validating ones
//! all at once. What fails is refused or passed over as the webhook's failure policy says.
//!
//! Deliberately absent: reinvocation, `matchPolicy: Equivalent` across versions (each group here has one that
//! stores), ValidatingAdmissionPolicy, and match conditions beyond comparisons (`condition`); a condition that
//! cannot be read is a failure of its webhook.

mod call;
mod condition;
mod hook;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::join_all;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Map, Value};

use self::hook::Hook;
use super::Host;
use super::namespaces::Namespaces;
use crate::k8s::Status;
use crate::registry::{Asked, Gate, Operation};

type Tree = Map<String, Value>;

/// Webhooks by the name of their configuration.
type Known = BTreeMap<String, Vec<Arc<Hook>>>;

/// All webhooks of one sort, in the order in which they are called.
type Hooks = ArcSwap<Vec<Arc<Hook>>>;

pub struct Webhooks {
    host: Host,
    namespaces: Namespaces,
    keeps_lifecycle: bool,
    mutating: Hooks,
    validating: Hooks,
}

impl Webhooks {
    /// `keeps_lifecycle`: whether namespaces must be there for something to be created in them. Calls nobody
    /// until it is followed.
    pub fn new(host: Host, namespaces: Namespaces, keeps_lifecycle: bool) -> Webhooks {
        let (mutating, validating) = (Hooks::default(), Hooks::default());
        Webhooks { host, namespaces, keeps_lifecycle, mutating, validating }
    }

    /// Keeps up with the host cluster's configurations for as long as it is polled.
    pub async fn follow(self: Arc<Webhooks>) {
        let mutating = follow::<MutatingWebhookConfiguration>(&self.host, &self.mutating, |configuration| {
            let hooks = configuration.webhooks.into_iter().flatten();
            hooks.map(Hook::of_mutating).collect()
        });
        let validating = follow::<ValidatingWebhookConfiguration>(&self.host, &self.validating, |configuration| {
            let hooks = configuration.webhooks.into_iter().flatten();
            hooks.map(Hook::of_validating).collect()
        });
        tokio::join!(mutating, validating);
    }

    fn meant<'h>(&self, hooks: &'h [Arc<Hook>], asked: &Asked<'_>) -> impl Iterator<Item = &'h Arc<Hook>> {
        hooks.iter().filter(move |hook| hook.rules_fit(asked))
    }
}

async fn follow<K>(host: &Host, hooks: &Hooks, read: impl Fn(K) -> Vec<Hook>)
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
        hooks.store(Arc::new(known.values().flatten().cloned().collect()));
    };
    let mut listed = Known::new();
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let arcs = |configuration: K| read(configuration).into_iter().map(Arc::new).collect::<Vec<_>>();
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(configuration)) => {
                listed.insert(configuration.name_any(), arcs(configuration));
            }
            Ok(Event::InitDone) => publish(&|known| *known = listed.clone()),
            Ok(Event::Apply(configuration)) => {
                let (name, hooks) = (configuration.name_any(), arcs(configuration));
                publish(&|known| drop(known.insert(name.clone(), hooks.clone())));
            }
            Ok(Event::Delete(configuration)) => {
                publish(&|known| drop(known.remove(&configuration.name_any())));
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "failed to watch webhook configurations");
            }
        }
    }
}

#[async_trait]
impl Gate for Webhooks {
    async fn enter(&self, asked: &Asked<'_>) -> Result<(), Status> {
        match asked.namespace {
            "" => Ok(()),
            _ if !self.keeps_lifecycle => Ok(()),
            namespace => self.namespaces.may_create(asked.row.resource, namespace, asked.name).await,
        }
    }

    fn cares(&self, asked: &Asked<'_>) -> bool {
        let (mutating, validating) = (self.mutating.load(), self.validating.load());
        self.meant(&mutating, asked).next().is_some() || self.meant(&validating, asked).next().is_some()
    }

    async fn mutate(&self, asked: &Asked<'_>, object: &mut Tree, old: Option<&Tree>) -> Result<Vec<String>, Status> {
        let hooks = self.mutating.load_full();
        let mut warnings = Vec::new();
        for hook in self.meant(&hooks, asked) {
            let review =
                call::Review { asked, object: (asked.operation != Operation::Delete).then_some(&*object), old };
            if !hook.is_meant(&review, &self.namespaces)? {
                continue;
            }
            let answer = call::call(hook, &review, "admit").await?;
            warnings.extend(answer.warnings);
            if let Some(patch) = answer.patch.filter(|_| asked.operation != Operation::Delete) {
                *object = call::patched(hook, object, &patch)?;
            }
        }
        Ok(warnings)
    }

    async fn validate(
        &self,
        asked: &Asked<'_>,
        object: Option<&Tree>,
        old: Option<&Tree>,
    ) -> Result<Vec<String>, Status> {
        let hooks = self.validating.load_full();
        let review = call::Review { asked, object, old };
        let mut meant = Vec::new();
        for hook in self.meant(&hooks, asked) {
            if hook.is_meant(&review, &self.namespaces)? {
                meant.push(hook);
            }
        }
        let answers = join_all(meant.into_iter().map(|hook| call::call(hook, &review, "validating"))).await;
        let mut warnings = Vec::new();
        for answer in answers {
            warnings.extend(answer?.warnings);
        }
        Ok(warnings)
    }
}
