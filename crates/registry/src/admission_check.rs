//! Admission checks: before a worker writes, it can ask external admission whether it refuses the
//! write. An example is a webhook that matches what the scheduler writes.
//!
//! A check is about one edit of one object. External admission sees it as kube-apiserver would show
//! an update of the object: with the status that is stored. So an edit of metadata or status alone
//! needs no check. A decision can refuse an edit, and cannot change it (D48).
//!
//! A decision holds for the version of the object that was checked: the edit names that version,
//! and conflicts if another one is stored.

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
    /// External admission has not read its configuration yet.
    Unknown,
    /// External admission refuses the edit, or failed and fails closed.
    Refused(Box<Status>),
}

impl AdmissionDecision {
    /// The label in the metrics.
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
    /// Whether an edit of some object of these kinds may need a check. If not, the caller need not
    /// look at each object.
    pub fn may_need_check(&self, resources: &[GroupResource]) -> bool {
        let matches_any = |external: &dyn ExternalAdmission, row, key: &Key| {
            self.with_attributes(row, key, &Warnings::default(), |attributes| external.matches_any(attributes))
        };
        resources.iter().any(|resource| {
            self.external_admission_of(*resource)
                .is_some_and(|(external, row)| matches_any(external, row, &Key::cluster(*resource, "")))
        })
    }

    /// Whether these edits must be checked before they are committed.
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

    /// Asks external admission whether these edits may be committed. It takes as long as the other
    /// servers take to answer, within the bounds of external admission. `worker` is the label of
    /// the caller in the metrics.
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

    /// External admission, if this server admits objects of this kind. A kind that another API
    /// server keeps is admitted there.
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

/// The object as it would be stored, and as it is. `None`: it cannot be read, which is the error of
/// the write.
fn shown(base: &Object, edits: &[Edit]) -> Option<(Tree, Tree)> {
    let old = base.value().ok()?;
    let mut object = old.clone();
    edits.iter().filter(|edit| edit.member.first() != Some(&"status")).for_each(|edit| edit.apply(&mut object));
    metadata::of_mut(&mut object).insert("generation".to_owned(), (base.generation + 1).into());
    Some((object, old))
}
