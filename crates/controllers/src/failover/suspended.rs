//! Bindings with suspended scheduling. No scheduler would replace evicted replicas, so evictions
//! stay pending, and a condition names the clusters. Pure.

use serde_json::Value;

use super::plan::EvictionPlan;
use ballast_api::conditions::{self, ConditionUpdate};
use ballast_api::karmada::work::v1alpha2::{AnyBinding, EVICTION_SUSPENDED, PartialBinding, PartialSpec};
use ballast_k8s::{Edit, Object, Time, read_json};

/// Maximum number of clusters that the condition names. There may be thousands.
const CLUSTERS_TOLD_MAX: usize = 5;

/// Removes the evictions of a suspended binding from the plan. Returns the clusters that it would
/// leave, and those with evictions that have begun without a replacement.
pub fn held_back(spec: &PartialSpec<'_>, plan: &mut EvictionPlan) -> Vec<String> {
    if !spec.is_suspended() {
        return Vec::new();
    }
    let leaving = plan.leave.drain(..).map(|(cluster, _)| cluster);
    let placed: i64 = spec.clusters().iter().map(|target| i64::from(target.replicas.unwrap_or_default())).sum();
    let is_short = placed < i64::from(spec.replicas());
    leaving.chain(spec.evicted_from().into_iter().filter(|_| is_short)).collect()
}

/// Returns the change of the condition, or `None` if it is up to date. `waits` is empty if no
/// eviction is pending.
pub fn edit(object: &Object, partial: &PartialBinding<'_>, waits: &[String], now: Time) -> Option<Edit> {
    let known = partial.conditions().into_iter().find(|known| known.type_ == EVICTION_SUSPENDED);
    let message = message(waits);
    match (&known, waits.is_empty()) {
        (None, true) => return None,
        (Some(known), false) if known.status == "True" && known.message == *message => return None,
        _ => {}
    }
    let binding: AnyBinding = read_json(&object.text.content()).ok()?;
    let mut conditions = binding.status.conditions;
    match waits.is_empty() {
        true => conditions.retain(|condition| condition.type_ != EVICTION_SUSPENDED),
        false => {
            let reason = "SchedulingSuspended";
            let update = ConditionUpdate { type_: EVICTION_SUSPENDED, status: "True", reason, message: &message };
            conditions::set(&mut conditions, None, now, update);
        }
    }
    let value: Value = serde_json::to_value(&conditions).ok()?;
    Some(Edit::set(&["status", "conditions"], value))
}

fn message(waits: &[String]) -> String {
    let told = waits.iter().take(CLUSTERS_TOLD_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match waits.len().saturating_sub(CLUSTERS_TOLD_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("the eviction from {told}{more} waits: scheduling is suspended, so nothing would replace what leaves")
}
