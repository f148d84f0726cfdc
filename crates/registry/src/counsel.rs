//! Counsels: who has a say in what clients write of one kind, from inside the server. They know
//! what the kind means, which the registry does not.
//!
//! A counsel is asked last: after defaults, the kind's own rules and external admission, and before
//! the write or a dry run's answer. Kinds that nobody has counsel for pay for one look-up. As with
//! external admission, writes of Ballast's own workers are not asked about.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::external_admission::Asked;
use super::metadata::Tree;
use ballast_k8s::{GroupResource, Status};

/// Judges clients' writes of one kind. Warnings and audit annotations go to the caller's remarks.
#[async_trait]
pub trait Counsel: Send + Sync + 'static {
    /// Accepts or refuses the object that would be stored, or that would act. `old` is the stored
    /// object on an update. Deletes, writes of a status and updates that change nothing are not
    /// asked about.
    ///
    /// It may set annotations of its own. On a dry run it may also fill in `status`, which is then
    /// part of the answer and of nothing else.
    async fn hear(&self, asked: &Asked<'_>, object: &mut Tree, old: Option<&Tree>) -> Result<(), Status>;
}

/// The counsels by kind, in the order in which they are asked.
#[derive(Default)]
pub(super) struct Counsels {
    by_kind: BTreeMap<GroupResource, Vec<Arc<dyn Counsel>>>,
}

impl Counsels {
    pub fn add(&mut self, resource: GroupResource, counsel: Arc<dyn Counsel>) {
        self.by_kind.entry(resource).or_default().push(counsel);
    }

    pub fn of(&self, resource: GroupResource) -> &[Arc<dyn Counsel>] {
        self.by_kind.get(&resource).map_or(&[], Vec::as_slice)
    }
}
