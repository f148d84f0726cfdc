//! Enforces the FederatedResourceQuotas of the bindings' namespaces (QU1-QU5), as a hook in each
//! commit of the log.
//!
//! *Invariants.* `status.overallUsed` of every quota is the sum over the bindings of its namespace,
//! at every revision: it changes in the transaction that places, scales or deletes them. No write
//! of any writer (a client, the scheduler, a rebalance or a controller) raises it above
//! `spec.overall`.
//!
//! A write of a binding adds its difference to the usage. All bindings of the namespace are counted
//! again only when the quota itself is written. In a namespace without a quota, a write costs one
//! look-up.
//!
//! A plan uses its own `QuotaLedger`, so that it contains no change that a quota would reject.
//!
//! Differs from Karmada (D53): only an increase is compared with the limit. A binding may shrink,
//! move or be evicted although its namespace is over the limit, as with a ResourceQuota.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `usage`: the usage of a binding
//! - `tracked_quota`: one quota, with its limits and its usage
//! - `hook`: applies quotas to each commit
//! - `ledger`: the quotas of a plan

mod hook;
mod ledger;
#[cfg(test)]
mod tests;
mod tracked_quota;
mod usage;

use std::sync::Arc;

use ballast_api::karmada::policy::v1alpha1::FederatedResourceQuotaStatus;
use ballast_k8s::Object;
use ballast_watch::View;

pub use hook::{QUOTA_EXCEEDED, Quotas};
pub use ledger::{Exceeded, Headroom, QuotaLedger};
pub use tracked_quota::has_more_capacity;

/// Returns the desired status of a quota at this view, or `None` if the quota is malformed. The
/// part that clusters report is kept.
pub fn counted(view: &View, quota: &Arc<Object>) -> Option<FederatedResourceQuotaStatus> {
    tracked_quota::TrackedQuota::counted(view, quota).map(|tracked| tracked.status())
}
