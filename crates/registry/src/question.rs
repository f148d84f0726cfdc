//! Questions: what workers ask others about before they write, such as a webhook that means what
//! the scheduler writes.
//!
//! A question is about one edit of one object. It is shown as kube-apiserver would show an update
//! of the object: with the status that is stored. So an edit of metadata or status alone needs no
//! question. Who answers can refuse, and cannot change what is written (D48).
//!
//! An answer holds for the version of the object that the question was about: the edit names it,
//! and conflicts where another one is stored.

use std::sync::Arc;
use std::time::Instant;

use super::client::Client;
use super::external_admission::{AdmissionAttributes, Caller, ExternalAdmission, Operation, RequestOptions};
use super::metadata::{self, Tree};
use super::warnings::Warnings;
use ballast_base::metrics;
use ballast_k8s::{Edit, GroupResource, Key, Object, Status, WriteOptions};
use ballast_resource::ResourceKind;

/// The answer to a question.
#[derive(Debug)]
pub enum Verdict {
    Allowed,
    /// Another version of the object is stored, so nobody was asked.
    Overtaken,
    /// Nobody can answer yet.
    Unknown,
    /// Somebody refuses, or could not be asked and counts as if.
    Refused(Box<Status>),
}

impl Verdict {
    /// In a word, for the metrics.
    fn as_str(&self) -> &'static str {
        match self {
            Verdict::Allowed => "allowed",
            Verdict::Overtaken => "overtaken",
            Verdict::Unknown => "unknown",
            Verdict::Refused(_) => "refused",
        }
    }
}

impl Client {
    /// Whether questions about objects of any of these kinds are possible. If not, nobody needs to
    /// look at each of them.
    pub fn may_ask(&self, resources: &[GroupResource]) -> bool {
        let matches_any = |external: &dyn ExternalAdmission, row, key: &Key| {
            self.with_attributes(row, key, &Warnings::default(), |attributes| external.matches_any(attributes))
        };
        resources.iter().any(|resource| {
            self.external_admission_of(*resource)
                .is_some_and(|(external, row)| matches_any(external, row, &Key::cluster(*resource, "")))
        })
    }

    /// Whether these edits must be asked about before they are committed.
    pub fn must_ask(&self, base: &Object, edits: &[Edit]) -> bool {
        let Some((external, row)) = self.external_admission_of(base.key.resource).filter(|_| counts(edits)) else {
            return false;
        };
        let is_match = |attributes: &AdmissionAttributes<'_>| {
            external.matches_any(attributes)
                && shown(base, edits).is_some_and(|(object, old)| external.matches(attributes, &object, &old))
        };
        self.with_attributes(row, &base.key, &Warnings::default(), is_match)
    }

    /// Asks whether these edits may be committed. Takes as long as others take to answer, which
    /// they have bounds for. `worker` is who asks, for the metrics.
    pub async fn ask(&self, worker: &'static str, base: &Arc<Object>, edits: &[Edit]) -> Verdict {
        let started = Instant::now();
        let verdict = self.verdict(base, edits).await;
        metrics::asked(worker, verdict.as_str(), started.elapsed());
        verdict
    }

    async fn verdict(&self, base: &Arc<Object>, edits: &[Edit]) -> Verdict {
        let Some((external, row)) = self.external_admission_of(base.key.resource) else { return Verdict::Allowed };
        let is_newest = self.view().get(&base.key).is_some_and(|stored| stored.revision == base.revision);
        let Some((object, old)) = shown(base, edits).filter(|_| is_newest) else { return Verdict::Overtaken };
        let (warnings, options) = (Warnings::default(), self.options());
        let attributes = self.attributes(row, &base.key, &warnings, &options);
        let answer = external.review(&attributes, &object, &old).await;
        for warning in warnings.texts() {
            tracing::warn!(key = %base.key, warning, "somebody who was asked warns");
        }
        match answer {
            None => Verdict::Unknown,
            Some(Ok(())) => Verdict::Allowed,
            Some(Err(status)) => Verdict::Refused(Box::new(status)),
        }
    }

    /// Whom to ask. A home asks whoever it wants to.
    fn external_admission_of(&self, resource: GroupResource) -> Option<(&dyn ExternalAdmission, &ResourceKind)> {
        let row = self.core.rows.get(&resource).filter(|_| !self.is_away(resource))?;
        Some((&**self.core.external_admission.get()?, &**row))
    }

    fn options(&self) -> WriteOptions {
        WriteOptions { field_manager: Some(self.manager.to_string()), ..WriteOptions::default() }
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

/// The object as it would be stored, and as it is. `None`: it cannot be read, which the write says.
fn shown(base: &Object, edits: &[Edit]) -> Option<(Tree, Tree)> {
    let old = base.value().ok()?;
    let mut object = old.clone();
    edits.iter().filter(|edit| edit.member.first() != Some(&"status")).for_each(|edit| edit.apply(&mut object));
    metadata::of_mut(&mut object).insert("generation".to_owned(), (base.generation + 1).into());
    Some((object, old))
}
