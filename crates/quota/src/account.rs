//! One quota: its limits, and what is used of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::usage::Usage;
use ballast_api::Pairs;
use ballast_api::core;
use ballast_api::karmada::policy::v1alpha1::{FederatedResourceQuota, FederatedResourceQuotaStatus};
use ballast_api::karmada::work::v1alpha2::RESOURCE_BINDINGS;
use ballast_k8s::{Document, Edit, Members, Notation, Object, Parts, Quantity};
use ballast_watch::View;

/// A quota, and what is used of it so far.
#[derive(Clone)]
pub struct Account {
    object: Arc<Object>,
    quota: Arc<FederatedResourceQuota>,
    lines: BTreeMap<Box<str>, Line>,
    /// A sum came to the largest amount there is, so it may stand for a larger one.
    overflowed: bool,
}

/// One resource of a quota.
#[derive(Clone, Copy)]
struct Line {
    limit: Quantity,
    used: Quantity,
    /// Amounts are written as the limit is.
    notation: Notation,
}

impl Account {
    /// The quota as its status says. It is counted where the status does not say all of it.
    pub fn of(view: &View, object: &Arc<Object>) -> Option<Account> {
        let mut account = Account::new(object)?;
        let status = &account.quota.status;
        let is_told = status.overall == account.quota.spec.overall;
        for (resource, line) in &mut account.lines {
            // What is not named is not used.
            let used = status.overall_used.get(resource);
            let used = used.map_or(Some(Quantity::ZERO), |used| used.text().parse::<Quantity>().ok());
            match used.filter(|used| is_told && !used.is_at_bound()) {
                Some(used) => line.used = used,
                None => return Account::counted(view, object),
            }
        }
        Some(account)
    }

    /// The quota with what all bindings of its namespace use.
    pub fn counted(view: &View, object: &Arc<Object>) -> Option<Account> {
        let mut account = Account::new(object)?;
        if !account.lines.is_empty() {
            let bindings = view.list(RESOURCE_BINDINGS, Some(&object.key.namespace));
            bindings.for_each(|binding| account.take(&Usage::of(binding)));
        }
        account.overflowed = false;
        Some(account)
    }

    /// A quota of which nothing is used. `None`: it cannot be read, so it limits nothing.
    fn new(object: &Arc<Object>) -> Option<Account> {
        let quota = object.typed::<FederatedResourceQuota>().ok()?;
        let line = |(resource, limit): (&String, &core::Quantity)| {
            let text = limit.text();
            let line = Line { limit: text.parse().ok()?, used: Quantity::ZERO, notation: Notation::of(&text) };
            Some((Box::from(resource.as_str()), line))
        };
        let lines = quota.spec.overall.iter().filter_map(line).collect();
        Some(Account { object: Arc::clone(object), quota, lines, overflowed: false })
    }

    pub fn name(&self) -> &Arc<str> {
        &self.object.key.name
    }

    pub fn namespace(&self) -> &Arc<str> {
        &self.object.key.namespace
    }

    /// Refuses a use that raises a resource above its limit, in upstream's words (QU3).
    pub fn check(&self, difference: &Usage) -> Result<(), String> {
        for (resource, Line { limit, used, notation }) in &self.lines {
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

    /// The limits that this use would break, each with what it would have to be.
    pub fn too_low(&self, difference: &Usage) -> Vec<String> {
        let told = self.lines.iter().filter_map(|(resource, Line { limit, used, notation })| {
            let more = difference.get(resource);
            let sum = used.plus(more);
            (more > Quantity::ZERO && sum > *limit).then(|| format!("{resource} {}", notation.write(sum)))
        });
        told.collect()
    }

    /// How often this use fits in what is left. `None`: it is of no resource that is limited.
    pub fn fits(&self, each: &Usage) -> Option<i64> {
        let counts = self.lines.iter().filter_map(|(resource, Line { limit, used, .. })| {
            let each = each.get(resource).nanos();
            (each > 0).then(|| limit.minus(*used).nanos().max(0) / each)
        });
        counts.min().map(|count| i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Takes a use that was checked.
    pub fn take(&mut self, difference: &Usage) {
        for (resource, amount) in difference.iter() {
            let Some(line) = self.lines.get_mut(resource) else { continue };
            line.used = line.used.plus(amount);
            self.overflowed |= line.used.is_at_bound();
        }
    }

    /// The status that says so. As upstream it names no resource of which nothing is used.
    pub fn status(&self) -> FederatedResourceQuotaStatus {
        let used = self.lines.iter().filter(|(_, line)| line.used != Quantity::ZERO).map(|(resource, line)| {
            let amount = line.notation.write(line.used);
            (resource.to_string(), core::Quantity::from(amount.as_str()))
        });
        FederatedResourceQuotaStatus {
            overall: self.quota.spec.overall.clone(),
            overall_used: used.collect(),
            aggregated_status: self.quota.status.aggregated_status.clone(),
        }
    }

    /// The quota with its new status. `None`: the status says so already.
    pub fn written(self, view: &View) -> Option<(Arc<Object>, Document)> {
        let object = view.get(&self.object.key)?;
        let account = if self.overflowed { Account::counted(view, object)? } else { self };
        let FederatedResourceQuotaStatus { overall, overall_used, .. } = account.status();
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

/// What is in the books of a quota, and nowhere else.
pub const KEPT: &[Members] = &[OVERALL, OVERALL_USED];

/// Whether something may fit after this change of a quota that did not fit before.
pub fn has_more_room(before: Option<&Object>, after: Option<&Object>) -> bool {
    let read = |object: Option<&Object>| object.and_then(|object| object.typed::<FederatedResourceQuota>().ok());
    let Some(before) = read(before) else { return false };
    let Some(after) = read(after) else { return true };
    before.spec.overall.keys().any(|resource| match (room(&after, resource), room(&before, resource)) {
        (Some(now), Some(then)) => now > then,
        // There is no limit any more.
        (None, _) => true,
        (Some(_), None) => false,
    })
}

/// What is left of a resource; negative where more is used. `None`: there is no limit.
fn room(quota: &FederatedResourceQuota, resource: &str) -> Option<Quantity> {
    let amount = |amounts: &Pairs<core::Quantity>| amounts.get(resource)?.text().parse::<Quantity>().ok();
    Some(amount(&quota.spec.overall)?.minus(amount(&quota.status.overall_used).unwrap_or_default()))
}
