//! One quota: its limits and its usage.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::usage::Usage;
use ballast_api::Pairs;
use ballast_api::core;
use ballast_api::karmada::policy::v1alpha1::{FederatedResourceQuota, FederatedResourceQuotaStatus};
use ballast_api::karmada::work::v1alpha2::RESOURCE_BINDINGS;
use ballast_k8s::{Document, Edit, MemberPath, Notation, Object, Parts, Quantity};
use ballast_watch::View;

/// A quota and its current usage.
#[derive(Clone)]
pub struct TrackedQuota {
    object: Arc<Object>,
    quota: Arc<FederatedResourceQuota>,
    entries: BTreeMap<Box<str>, Entry>,
    /// Whether a sum was cut to the largest amount that a `Quantity` can hold, so it may be too
    /// low.
    overflowed: bool,
}

/// One resource of a quota, such as `cpu`.
#[derive(Clone, Copy)]
struct Entry {
    limit: Quantity,
    used: Quantity,
    /// The notation of the limit, in which all amounts are written.
    notation: Notation,
}

impl TrackedQuota {
    /// Creates the quota with the usage in its status. If the status is incomplete, the bindings
    /// are counted. `None` if the quota is malformed.
    pub fn of(view: &View, object: &Arc<Object>) -> Option<TrackedQuota> {
        let mut tracked = TrackedQuota::new(object)?;
        let status = &tracked.quota.status;
        let is_current = status.overall == tracked.quota.spec.overall;
        for (resource, entry) in &mut tracked.entries {
            // The status omits unused resources.
            let used = status.overall_used.get(resource);
            let used = used.map_or(Some(Quantity::ZERO), |used| used.text().parse::<Quantity>().ok());
            match used.filter(|used| is_current && !used.is_at_bound()) {
                Some(used) => entry.used = used,
                None => return TrackedQuota::counted(view, object),
            }
        }
        Some(tracked)
    }

    /// Creates the quota with the usage of all bindings of its namespace. `None` if it is
    /// malformed.
    pub fn counted(view: &View, object: &Arc<Object>) -> Option<TrackedQuota> {
        let mut tracked = TrackedQuota::new(object)?;
        if !tracked.entries.is_empty() {
            let bindings = view.list(RESOURCE_BINDINGS, Some(&object.key.namespace));
            bindings.for_each(|binding| tracked.take(&Usage::of(binding)));
        }
        tracked.overflowed = false;
        Some(tracked)
    }

    /// Creates the quota without usage. `None` if it is malformed: then it limits nothing.
    fn new(object: &Arc<Object>) -> Option<TrackedQuota> {
        let quota = object.typed::<FederatedResourceQuota>().ok()?;
        let entry = |(resource, limit): (&String, &core::Quantity)| {
            let text = limit.text();
            let entry = Entry { limit: text.parse().ok()?, used: Quantity::ZERO, notation: Notation::of(&text) };
            Some((Box::from(resource.as_str()), entry))
        };
        let entries = quota.spec.overall.iter().filter_map(entry).collect();
        Some(TrackedQuota { object: Arc::clone(object), quota, entries, overflowed: false })
    }

    pub fn name(&self) -> &Arc<str> {
        &self.object.key.name
    }

    pub fn namespace(&self) -> &Arc<str> {
        &self.object.key.namespace
    }

    /// Rejects a change that raises a resource above its limit, with upstream's message (QU3).
    pub fn check(&self, difference: &Usage) -> Result<(), String> {
        for (resource, Entry { limit, used, notation }) in &self.entries {
            let more = difference.get(resource);
            let sum = used.plus(more);
            if more > Quantity::ZERO && sum > *limit {
                let (namespace, name) = (self.namespace(), self.name());
                let (sum, limit) = (notation.write(sum), notation.write(*limit));
                return Err(format!(
                    "FederatedResourceQuota({namespace}/{name}) exceeded for resource {resource}: requested sum {sum}, \
                     limit {limit}."
                ));
            }
        }
        Ok(())
    }

    /// Returns the limits that this change exceeds, each with the value that would allow it.
    pub fn too_low(&self, difference: &Usage) -> Vec<String> {
        let told = self.entries.iter().filter_map(|(resource, Entry { limit, used, notation })| {
            let more = difference.get(resource);
            let sum = used.plus(more);
            (more > Quantity::ZERO && sum > *limit).then(|| format!("{resource} {}", notation.write(sum)))
        });
        told.collect()
    }

    /// Returns how often `each` fits into the remaining amounts. `None` if none of its resources is
    /// limited.
    pub fn fits(&self, each: &Usage) -> Option<i64> {
        let counts = self.entries.iter().filter_map(|(resource, Entry { limit, used, .. })| {
            let each = each.get(resource).nanos();
            (each > 0).then(|| limit.minus(*used).nanos().max(0) / each)
        });
        counts.min().map(|count| i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Adds a change that was checked to the usage.
    pub fn take(&mut self, difference: &Usage) {
        for (resource, amount) in difference.iter() {
            let Some(entry) = self.entries.get_mut(resource) else { continue };
            entry.used = entry.used.plus(amount);
            self.overflowed |= entry.used.is_at_bound();
        }
    }

    /// Returns the status with this usage. As upstream, it omits unused resources.
    pub fn status(&self) -> FederatedResourceQuotaStatus {
        let used = self.entries.iter().filter(|(_, entry)| entry.used != Quantity::ZERO).map(|(resource, entry)| {
            let amount = entry.notation.write(entry.used);
            (resource.to_string(), core::Quantity::from(amount.as_str()))
        });
        FederatedResourceQuotaStatus {
            overall: self.quota.spec.overall.clone(),
            overall_used: used.collect(),
            aggregated_status: self.quota.status.aggregated_status.clone(),
        }
    }

    /// Returns the quota with its new status. `None` if the stored status is the same.
    pub fn written(self, view: &View) -> Option<(Arc<Object>, Document)> {
        let object = view.get(&self.object.key)?;
        let tracked = if self.overflowed { TrackedQuota::counted(view, object)? } else { self };
        let FederatedResourceQuotaStatus { overall, overall_used, .. } = tracked.status();
        let content = object.text.content();
        let mut parts = Parts::read(&content).ok()?;
        let mut changes = false;
        for (member, amounts) in [(OVERALL, overall), (OVERALL_USED, overall_used)] {
            let value = serde_json::to_value(&amounts).ok().filter(|_| !amounts.is_empty());
            changes |= parts.edit(&Edit::to(member, value));
        }
        let document =
            changes.then(|| Document::edited(object, parts, object.text.managers().cloned(), object.generation))?;
        Some((Arc::clone(object), document))
    }
}

const OVERALL: &[&str] = &["status", "overall"];
const OVERALL_USED: &[&str] = &["status", "overallUsed"];

/// The members of a quota that only this crate writes.
pub const KEPT: &[MemberPath] = &[OVERALL, OVERALL_USED];

/// Returns whether bindings may fit after this change of a quota that did not fit before.
pub fn has_more_capacity(before: Option<&Object>, after: Option<&Object>) -> bool {
    let read = |object: Option<&Object>| object.and_then(|object| object.typed::<FederatedResourceQuota>().ok());
    let Some(before) = read(before) else { return false };
    let Some(after) = read(after) else { return true };
    before.spec.overall.keys().any(|resource| match (room(&after, resource), room(&before, resource)) {
        (Some(now), Some(then)) => now > then,
        // The limit was removed.
        (None, _) => true,
        (Some(_), None) => false,
    })
}

/// Returns the limit of a resource minus its usage, which may be negative. `None` if there is no
/// limit.
fn room(quota: &FederatedResourceQuota, resource: &str) -> Option<Quantity> {
    let amount = |amounts: &Pairs<core::Quantity>| amounts.get(resource)?.text().parse::<Quantity>().ok();
    Some(amount(&quota.spec.overall)?.minus(amount(&quota.status.overall_used).unwrap_or_default()))
}
