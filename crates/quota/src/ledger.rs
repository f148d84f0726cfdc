//! The quotas of a plan: their usage after the planned changes, which are not written yet.
//!
//! The quotas are enforced when the plan is written. The ledger counts in the same way, in the
//! order of the planned changes, so that no write of a plan is rejected later.

use std::sync::Arc;

use super::hook::QuotaHook;
use super::tracked_quota::TrackedQuota;
use super::usage::Usage;
use ballast_api::karmada::policy::v1alpha1::FEDERATED_RESOURCE_QUOTAS;
use ballast_api::karmada::work::v1alpha2::RESOURCE_BINDINGS;
use ballast_k8s::Object;
use ballast_watch::View;

/// The quotas of one view. The first use of a namespace reads its quotas. A namespace without a
/// quota costs one look-up.
pub struct QuotaLedger {
    view: Arc<View>,
    hook: QuotaHook,
}

/// An error: a quota does not allow a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The message of the rejection.
    pub message: String,
    /// The limits that would allow the change.
    pub remedy: String,
}

/// The further copies of a binding that a quota allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headroom {
    pub copies: i64,
    /// `FederatedResourceQuota shop/q`
    pub quota: String,
}

impl QuotaLedger {
    pub fn new(view: Arc<View>) -> QuotaLedger {
        QuotaLedger { view, hook: QuotaHook::default() }
    }

    /// Checks whether the quotas allow the binding to change from the replicas `from` to the
    /// replicas `to`, each with one number per cluster.
    pub fn check(&mut self, binding: &Object, from: &[i32], to: &[i32]) -> Result<(), Exceeded> {
        let Some(quotas) = self.quotas(binding) else { return Ok(()) };
        let difference = Usage::on(binding, to).minus(Usage::on(binding, from));
        for tracked in quotas.iter() {
            tracked.check(&difference).map_err(|message| {
                let enough = tracked.too_low(&difference).join(" and ");
                Exceeded { message, remedy: format!("{} with {enough} would do", named(tracked)) }
            })?;
        }
        Ok(())
    }

    /// Records a planned change. It may also lower the usage.
    pub fn take(&mut self, binding: &Object, from: &[i32], to: &[i32]) {
        let Some(quotas) = self.quotas(binding) else { return };
        let difference = Usage::on(binding, to).minus(Usage::on(binding, from));
        quotas.iter_mut().for_each(|tracked| tracked.take(&difference));
    }

    /// Returns how many further `each` of the binding fit in the tightest quota. `None` if no quota
    /// limits it.
    pub fn headroom(&mut self, binding: &Object, each: &[i32]) -> Option<Headroom> {
        let quotas = self.quotas(binding)?;
        let each = Usage::more(binding, each);
        let left = |tracked: &TrackedQuota| Some(Headroom { copies: tracked.fits(&each)?, quota: named(tracked) });
        quotas.iter().filter_map(left).min_by_key(|left| left.copies)
    }

    /// Returns the quotas of the binding's namespace. `None` if there are none, or if quotas do not
    /// apply to bindings of this kind.
    fn quotas(&mut self, binding: &Object) -> Option<&mut Vec<TrackedQuota>> {
        let is_charged = binding.key.resource == RESOURCE_BINDINGS;
        if !is_charged || self.view.count(FEDERATED_RESOURCE_QUOTAS, None) == 0 {
            return None;
        }
        Some(self.hook.of(&self.view, &binding.key.namespace)).filter(|quotas| !quotas.is_empty())
    }
}

fn named(tracked: &TrackedQuota) -> String {
    format!("FederatedResourceQuota {}/{}", tracked.namespace(), tracked.name())
}
