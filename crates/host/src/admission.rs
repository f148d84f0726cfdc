//! The admission of the host cluster, in kube-apiserver's order: mutating policies, mutating
//! webhooks, then reinvocation of both if the object was changed after them; later validating
//! policies and validating webhooks. After a policy denies a request, no webhook is called.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::policies::{AdmissionPolicies, Pass, name_of};
use super::webhooks::Webhooks;
use ballast_base::metrics;
use ballast_k8s::{Details, Status};
use ballast_policies::PolicyKind;
use ballast_registry::{AdmissionAttributes, ExternalAdmission};

type Tree = Map<String, Value>;

/// Timeout for the first read of policies and webhook configurations, as in kube-apiserver.
const READY_MAX: Duration = Duration::from_secs(10);

/// Policies and webhooks of the host cluster, and the check of namespaces.
pub struct HostAdmission {
    pub policies: Arc<AdmissionPolicies>,
    pub webhooks: Arc<Webhooks>,
    /// Whether validating policies and webhooks also apply to the writes of workers.
    pub asks_for_workers: bool,
}

impl HostAdmission {
    async fn all_read(&self) {
        self.policies.ready().await;
        self.webhooks.both_read().await;
    }

    /// Waits until everything has been read. The error has kube-apiserver's text.
    async fn ready(&self, attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
        if tokio::time::timeout(READY_MAX, self.all_read()).await.is_ok() {
            return Ok(());
        }
        tracing::error!("a write was refused: the host cluster's policies and webhooks could not be read yet");
        let (resource, name) = (attributes.row.resource, name_of(attributes, None));
        let message = format!("{resource} {name:?} is forbidden: not yet ready to handle request");
        Err(Status::failure(403, "Forbidden", message).with(Details::of(resource, name)))
    }

    async fn run_mutating(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Tree,
        old: Option<&Tree>,
    ) -> Result<(), Status> {
        self.ready(attributes).await?;
        let mut policies = Pass::default();
        // Policies cannot change a deletion or a connection.
        let has_policies = attributes.operation.stores() && self.policies.may_match(PolicyKind::Mutating, attributes);
        if has_policies {
            self.policies.mutate(attributes, object, old, &mut policies).await?;
        }
        let mut webhooks = self.webhooks.first_round(attributes, object, old).await?;
        if webhooks.is_changed {
            policies.changed();
        }
        if has_policies && policies.has_more() {
            policies.begin_second();
            if self.policies.mutate(attributes, object, old, &mut policies).await? {
                webhooks.changed();
            }
        }
        self.webhooks.second_round(attributes, object, old, webhooks).await
    }

    async fn run_validating(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Tree>,
        old: Option<&Tree>,
    ) -> Result<(), Status> {
        self.ready(attributes).await?;
        if self.policies.may_match(PolicyKind::Validating, attributes) {
            self.policies.validate(attributes, object, old).await?;
        }
        self.webhooks.call_validating(attributes, object, old).await
    }

    fn is_ready(&self) -> bool {
        self.policies.is_ready() && self.webhooks.is_ready()
    }
}

#[async_trait]
impl ExternalAdmission for HostAdmission {
    async fn check_create(&self, attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
        self.webhooks.check_create(attributes).await
    }

    fn applies_to(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.policies.may_match(PolicyKind::Validating, attributes)
            || self.policies.may_match(PolicyKind::Mutating, attributes)
            || self.webhooks.may_match(attributes)
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Tree,
        old: Option<&Tree>,
    ) -> Result<(), Status> {
        let started = Instant::now();
        let outcome = self.run_mutating(attributes, object, old).await;
        metrics::admission_step("admit", attributes.operation.as_str(), outcome.is_err(), started.elapsed());
        outcome
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Tree>,
        old: Option<&Tree>,
    ) -> Result<(), Status> {
        let started = Instant::now();
        let outcome = self.run_validating(attributes, object, old).await;
        metrics::admission_step("validate", attributes.operation.as_str(), outcome.is_err(), started.elapsed());
        outcome
    }

    fn matches_any(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.asks_for_workers
            && (self.policies.may_match(PolicyKind::Validating, attributes)
                || self.webhooks.may_match_workers(attributes))
    }

    fn matches(&self, attributes: &AdmissionAttributes<'_>, object: &Tree, old: &Tree) -> bool {
        !self.is_ready()
            || self.policies.matches(attributes, object, old)
            || self.webhooks.matches(attributes, object, old)
    }

    async fn review(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &Tree,
        old: &Tree,
    ) -> Option<Result<(), Status>> {
        match tokio::time::timeout(READY_MAX, self.all_read()).await {
            Ok(()) => Some(self.validate(attributes, Some(object), Some(old)).await),
            Err(_) => None,
        }
    }
}
