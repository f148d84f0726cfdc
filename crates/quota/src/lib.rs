//! Holds bindings to the FederatedResourceQuotas of their namespace (QU1-QU5).
//!
//! *Invariants.* `status.overallUsed` of every quota is the sum over the bindings of its namespace,
//! at every revision: it changes in the transaction that places, scales or deletes them. No write
//! raises it above `spec.overall`, whoever writes: a client, the scheduler, a rebalance or a
//! controller.
//!
//! A write of a binding is charged by the difference that it makes. Only a quota that others write
//! is counted anew, from all bindings of its namespace. A namespace without a quota pays for one
//! look-up.
//!
//! Plans ask a `Ledger` of their own, and promise nothing that a quota would refuse.
//!
//! Differs from Karmada (D53): only what a write raises is held against the limit. A binding may
//! shrink, move or be evicted although its namespace is over the limit, as with a ResourceQuota.

mod account;
mod ledger;
mod usage;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::account::Account;
use self::usage::Usage;
use ballast_api::karmada::policy::v1alpha1::{FEDERATED_RESOURCE_QUOTAS, FederatedResourceQuotaStatus};
use ballast_api::karmada::work::v1alpha2::RESOURCE_BINDINGS;
use ballast_k8s::{Details, Document, GroupResource, Members, Object, Status};
use ballast_watch::{Book, Bookkeeper, View};

pub use account::has_more_room;
pub use ledger::{Exceeded, Ledger, Left};

/// The reason of a refusal, and of the condition `Scheduled` of a binding that was refused.
pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";

/// Keeps the quotas' books.
pub struct Quotas;

impl Bookkeeper for Quotas {
    fn open(&self) -> Box<dyn Book> {
        Box::new(QuotaBook::default())
    }

    fn keeps(&self, resource: GroupResource) -> &'static [Members] {
        match resource {
            FEDERATED_RESOURCE_QUOTAS => account::KEPT,
            _ => &[],
        }
    }
}

/// The quotas that the writes of one transaction are about.
#[derive(Clone, Default)]
struct QuotaBook {
    /// By namespace, each in the order of their names.
    accounts: BTreeMap<Arc<str>, Vec<Account>>,
}

impl QuotaBook {
    /// The accounts of a namespace. They are read when they are first needed.
    fn of(&mut self, view: &View, namespace: &Arc<str>) -> &mut Vec<Account> {
        self.accounts.entry(Arc::clone(namespace)).or_insert_with(|| {
            let quotas = view.list(FEDERATED_RESOURCE_QUOTAS, Some(namespace));
            quotas.filter_map(|quota| Account::of(view, quota)).collect()
        })
    }

    fn charge(&mut self, view: &View, before: Option<&Arc<Object>>, after: Option<&Arc<Object>>) -> Result<(), Status> {
        let Some(Object { key, .. }) = after.or(before).map(|object| &**object) else { return Ok(()) };
        if self.accounts.is_empty() && view.count(FEDERATED_RESOURCE_QUOTAS, None) == 0 {
            return Ok(());
        }
        let accounts = self.of(view, &key.namespace);
        if accounts.is_empty() {
            return Ok(());
        }
        let usage = |object: Option<&Arc<Object>>| object.map(|object| Usage::of(object)).unwrap_or_default();
        let difference = usage(after).minus(usage(before));
        if difference.is_empty() {
            return Ok(());
        }
        // All quotas take it, or none.
        for account in accounts.iter() {
            account.check(&difference).map_err(|message| {
                Status::failure(403, QUOTA_EXCEEDED, message).with(Details::of(key.resource, &key.name))
            })?;
        }
        accounts.iter_mut().for_each(|account| account.take(&difference));
        Ok(())
    }

    /// A quota was written by others. What it says is used is theirs, so it is counted anew.
    fn replace(&mut self, view: &View, before: Option<&Arc<Object>>, after: Option<&Arc<Object>>) {
        let Some(Object { key, .. }) = after.or(before).map(|object| &**object) else { return };
        let accounts = self.of(view, &key.namespace);
        accounts.retain(|account| account.name() != &key.name);
        if let Some(account) = after.and_then(|quota| Account::counted(view, quota)) {
            let place = accounts.partition_point(|known| known.name() < account.name());
            accounts.insert(place, account);
        }
    }
}

impl Book for QuotaBook {
    fn enter(&mut self, view: &View, before: Option<&Arc<Object>>, after: Option<&Arc<Object>>) -> Result<(), Status> {
        match after.or(before).map(|object| object.key.resource) {
            Some(RESOURCE_BINDINGS) => self.charge(view, before, after)?,
            Some(FEDERATED_RESOURCE_QUOTAS) => self.replace(view, before, after),
            _ => {}
        }
        Ok(())
    }

    fn copy(&self) -> Box<dyn Book> {
        Box::new(self.clone())
    }

    fn close(&mut self, view: &View) -> Vec<(Arc<Object>, Document)> {
        let accounts = std::mem::take(&mut self.accounts);
        accounts.into_values().flatten().filter_map(|account| account.written(view)).collect()
    }
}

/// The status of a quota as it should be at this view; `None` where the quota cannot be read. What
/// the clusters report stays.
pub fn counted(view: &View, quota: &Arc<Object>) -> Option<FederatedResourceQuotaStatus> {
    Account::counted(view, quota).map(|account| account.status())
}
