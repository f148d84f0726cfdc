//! Validators: built-in admission of one kind, implemented in crates above this one, because the
//! registry does not know the meaning of a kind.
//!
//! Validators run last: after defaults, the kind's own rules and external admission, and before the
//! write or the response of a dry run. A kind without validators costs one look-up. Like external
//! admission, validators see the writes of clients only, and not those of Ballast's own workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::external_admission::AdmissionAttributes;
use super::metadata::Tree;
use ballast_k8s::{GroupResource, Status};

/// Checks clients' writes of one kind. Warnings and audit annotations go to `Caller::warnings`.
#[async_trait]
pub trait Validator: Send + Sync + 'static {
    /// Accepts or rejects the object that would be stored, or that would act. `old` is the stored
    /// object on an update. It is not called for deletes, for writes of a status, and for updates
    /// that change nothing.
    ///
    /// A validator may set annotations of its own, and fill in fields that the client left out. On
    /// a dry run it may also fill in `status`, which only the response contains.
    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Tree,
        old: Option<&Tree>,
    ) -> Result<(), Status>;
}

/// The validators by kind, in the order in which they run.
#[derive(Default)]
pub(super) struct Validators {
    by_kind: BTreeMap<GroupResource, Vec<Arc<dyn Validator>>>,
}

impl Validators {
    pub fn add(&mut self, resource: GroupResource, validator: Arc<dyn Validator>) {
        self.by_kind.entry(resource).or_default().push(validator);
    }

    pub fn of(&self, resource: GroupResource) -> &[Arc<dyn Validator>] {
        self.by_kind.get(&resource).map_or(&[], Vec::as_slice)
    }
}
