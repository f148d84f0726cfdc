//! Admission checks: before a worker writes, it can query whether external admission rejects the
//! write. An example is a webhook that matches writes of the scheduler.
//!
//! A check covers one edit of one object. External admission receives it like an update from
//! kube-apiserver: with the stored status. So an edit of metadata or status alone needs no check. A
//! decision can reject an edit, and cannot change it (D48).
//!
//! A decision is valid for the version of the object that was checked: the edit carries that
//! version, and conflicts if another one is stored.

use std::sync::Arc;
use std::time::Instant;

use super::client::Client;
use super::external_admission::{AdmissionAttributes, Caller, ExternalAdmission, Operation, RequestOptions};
use super::metadata::{self, Tree};
use super::warnings::Warnings;
use ballast_base::metrics;
use ballast_k8s::{Edit, GroupResource, Key, Object, Status, WriteOptions};
use ballast_resource::ResourceKind;

/// The result of an admission check.
#[derive(Debug)]
pub enum AdmissionDecision {
    Allowed,
    /// Another version of the object is stored, so the edit was not checked.
    Outdated,
    /// External admission has not loaded its configuration yet.
    Unknown,
    /// External admission rejects the edit, or failed and fails closed.
    Refused(Box<Status>),
}

impl AdmissionDecision {
    /// Returns the label in the metrics.
    fn as_str(&self) -> &'static str {
        match self {
            AdmissionDecision::Allowed => "allowed",
            AdmissionDecision::Outdated => "overtaken",
            AdmissionDecision::Unknown => "unknown",
            AdmissionDecision::Refused(_) => "refused",
        }
    }
}

impl Client {
    /// Returns whether an edit of some object of these kinds may need a check. If not, the caller
    /// can skip the check per object.
    pub fn may_need_check(&self, resources: &[GroupResource]) -> bool {
        let matches_any = |external: &dyn ExternalAdmission, row, key: &Key| {
            self.with_attributes(row, key, &Warnings::default(), |attributes| external.matches_any(attributes))
        };
        resources.iter().any(|resource| {
            self.external_admission_of(*resource)
                .is_some_and(|(external, row)| matches_any(external, row, &Key::cluster(*resource, "")))
        })
    }

    /// Returns whether these edits must be checked before they are committed.
    pub fn needs_check(&self, base: &Object, edits: &[Edit]) -> bool {
        let Some((external, row)) = self.external_admission_of(base.key.resource).filter(|_| counts(edits)) else {
            return false;
        };
        let is_match = |attributes: &AdmissionAttributes<'_>| {
            external.matches_any(attributes)
                && shown(base, edits).is_some_and(|(object, old)| external.matches(attributes, &object, &old))
        };
        self.with_attributes(row, &base.key, &Warnings::default(), is_match)
    }

    /// Queries external admission whether these edits may be committed. The duration depends on the
    /// other servers, within the timeouts of external admission. `worker` is the label of the
    /// caller in the metrics.
    pub async fn check_admission(&self, worker: &'static str, base: &Arc<Object>, edits: &[Edit]) -> AdmissionDecision {
        let started = Instant::now();
        let decision = self.decision(base, edits).await;
        metrics::asked(worker, decision.as_str(), started.elapsed());
        decision
    }

    async fn decision(&self, base: &Arc<Object>, edits: &[Edit]) -> AdmissionDecision {
        let Some((external, row)) = self.external_admission_of(base.key.resource) else {
            return AdmissionDecision::Allowed;
        };
        let is_newest = self.view().get(&base.key).is_some_and(|stored| stored.revision == base.revision);
        let Some((object, old)) = shown(base, edits).filter(|_| is_newest) else { return AdmissionDecision::Outdated };
        let (warnings, options) = (Warnings::default(), self.options());
        let attributes = self.attributes(row, &base.key, &warnings, &options);
        let answer = external.review(&attributes, &object, &old).await;
        for warning in warnings.texts() {
            tracing::warn!(key = %base.key, warning, "external admission warns about a write of a worker");
        }
        match answer {
            None => AdmissionDecision::Unknown,
            Some(Ok(())) => AdmissionDecision::Allowed,
            Some(Err(status)) => AdmissionDecision::Refused(Box::new(status)),
        }
    }

    /// Returns the external admission, if this server admits objects of this kind. A kind that
    /// another API server stores is admitted there.
    fn external_admission_of(&self, resource: GroupResource) -> Option<(&dyn ExternalAdmission, &ResourceKind)> {
        let row = self.core.rows.get(&resource).filter(|_| !self.is_remote(resource))?;
        Some((&**self.core.external_admission.get()?, &**row))
    }

    fn options(&self) -> WriteOptions {
        let manager = self.manager.to_string();
        let given = std::iter::once(("fieldManager".to_owned(), manager.as_str().into())).collect();
        WriteOptions { field_manager: Some(manager), given, ..WriteOptions::default() }
    }

    fn with_attributes<T>(
        &self,
        row: &ResourceKind,
        key: &Key,
        warnings: &Warnings,
        look: impl FnOnce(&AdmissionAttributes<'_>) -> T,
    ) -> T {
        look(&self.attributes(row, key, warnings, &self.options()))
    }

    fn attributes<'a>(
        &'a self,
        row: &'a ResourceKind,
        key: &'a Key,
        warnings: &'a Warnings,
        options: &'a WriteOptions,
    ) -> AdmissionAttributes<'a> {
        AdmissionAttributes {
            caller: Caller { user: &self.user, warnings },
            row,
            kinds: &self.core.kinds,
            operation: Operation::Update,
            namespace: &key.namespace,
            name: &key.name,
            subresource: "",
            options: RequestOptions::Write(options),
        }
    }
}

fn counts(edits: &[Edit]) -> bool {
    edits.iter().any(|edit| edit.member.first() == Some(&"spec"))
}

/// Returns the object after the edits, and before them. `None` if it cannot be parsed, which the
/// write reports as its error.
fn shown(base: &Object, edits: &[Edit]) -> Option<(Tree, Tree)> {
    let old = base.value().ok()?;
    let mut object = old.clone();
    edits.iter().filter(|edit| edit.member.first() != Some(&"status")).for_each(|edit| edit.apply(&mut object));
    metadata::of_mut(&mut object).insert("generation".to_owned(), (base.generation + 1).into());
    Some((object, old))
}
