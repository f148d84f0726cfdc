//! What plans count of the quotas: the books as they would be after changes that are not written.
//!
//! The writer has the last word. This ledger only saves a plan from promising what the writer would
//! refuse, so it counts as the writer does, in the order of the changes.

use std::sync::Arc;

use super::QuotaBook;
use super::account::Account;
use super::usage::Usage;
use ballast_api::karmada::policy::v1alpha1::FEDERATED_RESOURCE_QUOTAS;
use ballast_api::karmada::work::v1alpha2::RESOURCE_BINDINGS;
use ballast_k8s::Object;
use ballast_watch::View;

/// The books over one view. They are opened where somebody asks, which costs one look-up in a
/// namespace without a quota.
pub struct Ledger {
    view: Arc<View>,
    book: QuotaBook,
}

/// A quota stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// As the writer would say it.
    pub message: String,
    /// What the quota would have to be.
    pub remedy: String,
}

/// How much more a quota leaves to a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub copies: i64,
    /// `FederatedResourceQuota shop/q`
    pub quota: String,
}

impl Ledger {
    pub fn new(view: Arc<View>) -> Ledger {
        Ledger { view, book: QuotaBook::default() }
    }

    /// Whether the quotas allow the binding to go from so many replicas on each cluster to so many.
    pub fn check(&mut self, binding: &Object, from: &[i32], to: &[i32]) -> Result<(), Exceeded> {
        let Some(accounts) = self.accounts(binding) else { return Ok(()) };
        let difference = Usage::on(binding, to).minus(Usage::on(binding, from));
        for account in accounts.iter() {
            account.check(&difference).map_err(|message| {
                let enough = account.too_low(&difference).join(" and ");
                Exceeded { message, remedy: format!("{} with {enough} would do", named(account)) }
            })?;
        }
        Ok(())
    }

    /// Counts the change for those that follow. It may also be one that gives back.
    pub fn take(&mut self, binding: &Object, from: &[i32], to: &[i32]) {
        let Some(accounts) = self.accounts(binding) else { return };
        let difference = Usage::on(binding, to).minus(Usage::on(binding, from));
        accounts.iter_mut().for_each(|account| account.take(&difference));
    }

    /// How often `each` more of the binding fits, by the quota that leaves least. `None`: no quota
    /// limits it.
    pub fn left(&mut self, binding: &Object, each: &[i32]) -> Option<Left> {
        let accounts = self.accounts(binding)?;
        let each = Usage::on(binding, each);
        let left = |account: &Account| Some(Left { copies: account.fits(&each)?, quota: named(account) });
        accounts.iter().filter_map(left).min_by_key(|left| left.copies)
    }

    /// The quotas of the binding's namespace. `None`: there is none, or none is for such bindings.
    fn accounts(&mut self, binding: &Object) -> Option<&mut Vec<Account>> {
        let is_charged = binding.key.resource == RESOURCE_BINDINGS;
        if !is_charged || self.view.count(FEDERATED_RESOURCE_QUOTAS, None) == 0 {
            return None;
        }
        Some(self.book.of(&self.view, &binding.key.namespace)).filter(|accounts| !accounts.is_empty())
    }
}

fn named(account: &Account) -> String {
    format!("FederatedResourceQuota {}/{}", account.namespace(), account.name())
}
