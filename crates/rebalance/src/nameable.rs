//! The names that hints may contain: only of kinds that the requester may list (NG4). Otherwise a
//! near miss in any write would reveal names of clusters, namespaces and policies.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};

use super::record::CLUSTERS;
use ballast_api::ballast::v1alpha1::{ClusterRebalance, Rebalance};
use ballast_api::fleet::placement::v1beta1::any::SCOPES;
use ballast_api::fleet::placement::v1beta1::names::MEMBER_CLUSTERS;
use ballast_api::karmada::policy::v1alpha1::POLICIES;
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_k8s::{GroupResource, User};
use ballast_registry::AdmissionAttributes;
use ballast_resource::Resource;

/// Decides whether a user may list a kind in a namespace; in all namespaces if it is empty.
pub type MayList = Arc<dyn Fn(User, GroupResource, String) -> BoxFuture<'static, bool> + Send + Sync>;

/// The kinds of which hints may contain names. `None`: all of them.
#[derive(Clone, Debug)]
pub struct Nameable(Option<BTreeSet<GroupResource>>);

impl Nameable {
    /// Returns all kinds, for a reader with access to everything.
    pub fn all() -> Nameable {
        Nameable(None)
    }

    /// Returns no kinds, for unknown readers.
    pub fn nothing() -> Nameable {
        Nameable(Some(BTreeSet::new()))
    }

    /// Queries which kinds the user of a write may list in the namespace of the object. A user with
    /// access to other namespaces gets no hints from them.
    pub async fn for_write(may_list: &MayList, write: &AdmissionAttributes<'_>) -> Nameable {
        let user = write.caller.user;
        if user.is_master() {
            return Nameable::all();
        }
        let placements = SCOPES.into_iter().map(|kinds| kinds.placements);
        let rebalances = [Rebalance::resource(), ClusterRebalance::resource()];
        let kinds = [CLUSTERS, MEMBER_CLUSTERS].into_iter().chain(BINDINGS).chain(POLICIES);
        let is_namespaced = |kind| write.kinds.rows().iter().any(|row| row.resource == kind && row.is_namespaced());
        let decided = kinds.chain(placements).chain(rebalances).map(async |kind| {
            let namespace = if is_namespaced(kind) { write.namespace } else { "" };
            may_list(user.clone(), kind, namespace.to_owned()).await.then_some(kind)
        });
        Nameable(Some(join_all(decided).await.into_iter().flatten().collect()))
    }

    pub fn has(&self, kind: GroupResource) -> bool {
        self.0.as_ref().is_none_or(|kinds| kinds.contains(&kind))
    }
}
