//! Messages about the holders of the capacity of a cluster (RM6): `20 free, 12 promised to others
//! (shop/web 8, shop/api 4), 8 left`.
//!
//! All numbers are copies of the workload that lacks capacity, computed for its scarcest resource.
//! Only workloads that reserve this resource are named, and their shares add up to the total.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Room;
use super::holders::Holder;
use super::holding::{CopySize, WorkloadName};
use super::ledger::Account;
use crate::cause::counted;
use ballast_engine::karmada::{
    Amounts, Cluster, ClusterCapacity, ClusterSet, Needs, Pass, Profile, Request, Workloads,
};
use ballast_engine::webster::{self, Party};

/// Maximum number of workloads that a sentence names, the largest first.
const HOLDERS_TOLD_MAX: usize = 3;
/// Maximum number of clusters that a message names.
const CLUSTERS_TOLD_MAX: usize = 3;

/// The workloads that a message may name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Workloads in the namespace of the binding; others are only counted. A message about a
    /// cluster-scoped binding names all.
    #[default]
    OfNamespace,
    All,
}

/// The capacity of one cluster for one workload, in copies of the workload.
#[derive(Clone, Copy)]
struct Fit<'a> {
    cluster: &'a Cluster,
    account: &'a Account,
    /// The copies that would fit without reservations.
    free: i64,
    left: i64,
}

impl Fit<'_> {
    fn taken(&self) -> i64 {
        self.free - self.left
    }
}

/// Formats how much of a cluster others have reserved.
struct Sentence<'a> {
    fit: Fit<'a>,
    holders: Vec<String>,
}

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Fit { free, left, .. }, holders) = (self.fit, self.holders.join(", "));
        write!(out, "{free} free, {} promised to others ({holders}), {left} left", self.fit.taken())
    }
}

/// The name of a holder in a message: a namespace, empty for cluster-scoped bindings, and a
/// workload. `None`: all other namespaces.
type ShownName<'a> = Option<(&'a str, &'a str)>;

impl Room {
    /// Returns how much of the cluster others have reserved, or `None` if they reserve nothing that
    /// this workload could use. `left` is the cluster with its free capacity, and `pass` has the
    /// estimates.
    pub fn sentence(
        &self,
        request: &Request,
        left: &Cluster,
        pass: &Pass,
        profile: &Profile,
        names: Names,
    ) -> Option<String> {
        let each = Needs::of(request)?.amounts();
        let fit = self.fit(request, left, pass, profile, &own(request))?;
        Some(self.sentence_of(fit, request, &each, names).to_string())
    }

    /// Appends to `message` how much others have reserved on the clusters that would otherwise have
    /// the most capacity. Only clusters that accept new replicas of the workload count, according
    /// to `pass`.
    pub fn told(
        &self,
        message: &str,
        request: &Request,
        pass: &Pass,
        profile: &Profile,
        names: Names,
    ) -> Option<String> {
        let (each, own) = (Needs::of(request)?.amounts(), own(request));
        let clusters = pass.fleet().iter().filter(|cluster| pass.is_open_to(request, cluster));
        let mut fits: Vec<Fit<'_>> =
            clusters.filter_map(|cluster| self.fit(request, cluster, pass, profile, &own)).collect();
        if fits.is_empty() {
            return None;
        }
        // The sort is stable, so clusters with the same capacity stay in the order of their names.
        fits.sort_by_key(|fit| Reverse(fit.free));
        let more = fits.len().saturating_sub(CLUSTERS_TOLD_MAX);
        fits.truncate(CLUSTERS_TOLD_MAX);
        let sentence =
            |fit: Fit<'_>| format!("cluster {}: {}", fit.cluster.name, self.sentence_of(fit, request, &each, names));
        let told: Vec<String> = fits.into_iter().map(sentence).collect();
        let more = if more > 0 { format!("; and {}", counted(more as i64, "more cluster")) } else { String::new() };
        Some(format!("{message}; {}{more}", told.join("; ")))
    }

    /// Returns the capacity of a cluster with and without the reservations of others, or `None` if
    /// they reserve nothing that this workload could use.
    fn fit<'a>(
        &'a self,
        request: &Request,
        left: &'a Cluster,
        pass: &Pass,
        profile: &Profile,
        own: &Holder,
    ) -> Option<Fit<'a>> {
        let name = &left.name;
        let account = self.accounts.of(name).filter(|account| account.copies > 0)?;
        let mut open = Cluster::clone(self.open.find(name)?);
        let summary = self.summaries.get(name).cloned().unwrap_or_default();
        account.count_existing(&summary, self.accounts.now(), open.capacity.as_mut()?);
        let fits = |cluster: Cluster| {
            let name = cluster.name.clone();
            Pass::new(&ClusterSet::new([cluster]), &Workloads::default(), profile).capacity(request, &name)
        };
        let (mut free, mut remaining) = (fits(open), fits(left.clone()));
        if let Some((estimated, left_of_it)) = pass.answer(request, name) {
            (free, remaining) = (free.min(estimated), remaining.min(left_of_it));
        }
        let own = self.accounts.promised_to(name, own);
        let remaining = remaining.saturating_add(own).min(free);
        // A division that ignores capacity has no bound.
        let is_bounded = free < i64::from(i32::MAX) && remaining < free;
        is_bounded.then_some(Fit { cluster: left, account, free, left: remaining })
    }

    /// Names the holders of the scarcest resource. Their amounts are converted to copies of the
    /// workload such that the shares add up to the total.
    fn sentence_of<'a>(&self, fit: Fit<'a>, request: &Request, each: &Amounts, names: Names) -> Sentence<'a> {
        let shortest = fit.cluster.capacity.as_ref().and_then(|capacity| shortest(capacity, each, fit.account));
        let is_own = |holder: &Holder| (&*holder.namespace, &*holder.name) == (&*request.namespace, &*request.name);
        let may_be_named =
            |namespace: &str| names == Names::All || request.namespace.is_empty() || *namespace == *request.namespace;
        // Several bindings may have workloads with the same name.
        let mut amounts: BTreeMap<ShownName<'_>, i128> = BTreeMap::new();
        for (holder, copies) in self.accounts.holders(&fit.cluster.name).filter(|(holder, _)| !is_own(holder)) {
            let amount = shortest.map_or(1, |resource| holder.size.amounts.get(resource));
            if amount > 0 {
                let shown =
                    may_be_named(&holder.namespace).then(|| (&*holder.namespace, holder.workload.shown(&holder.name)));
                let sum = amounts.entry(shown).or_default();
                *sum = sum.saturating_add(amount.saturating_mul(i128::from(copies)));
            }
        }
        let mut shares = shared_out(fit.taken(), &amounts);
        shares.sort_by_key(|(name, share)| (name.is_none(), Reverse(*share), *name));
        let elsewhere = shares.pop_if(|(name, _)| name.is_none()).map_or(0, |(_, share)| share);
        let more: i64 = shares.iter().skip(HOLDERS_TOLD_MAX).map(|(_, share)| share).sum();
        let others = shares.len().saturating_sub(HOLDERS_TOLD_MAX);
        let in_words = |(name, share): &(ShownName<'_>, i64)| match name.unwrap_or_default() {
            ("", name) => format!("{name} {share}"),
            (namespace, name) => format!("{namespace}/{name} {share}"),
        };
        let mut holders: Vec<String> = shares.iter().take(HOLDERS_TOLD_MAX).map(in_words).collect();
        holders.extend((more > 0).then(|| format!("{} {more}", counted(others as i64, "more workload"))));
        holders.extend((elsewhere > 0).then(|| format!("other namespaces {elsewhere}")));
        Sentence { fit, holders }
    }
}

/// Returns the binding of the request as a holder of reservations.
fn own(request: &Request) -> Holder {
    let size = Arc::new(CopySize { needs: Needs::Replica(None), amounts: Amounts::default() });
    let (namespace, name) = ((&*request.namespace).into(), (&*request.name).into());
    Holder { namespace, name, workload: WorkloadName::Prefix(0), size }
}

/// Returns the requested resource with the fewest copies left among the resources that others have
/// reserved.
fn shortest<'a>(left: &ClusterCapacity, each: &'a Amounts, account: &Account) -> Option<&'a str> {
    let requested = each.iter().filter(|(resource, each)| *each > 0 && account.promised.get(resource) > 0);
    requested.min_by_key(|(resource, each)| left.amount(resource).div_euclid(*each)).map(|(resource, _)| resource)
}

/// Divides `total` in proportion to the amounts, omitting shares of zero.
fn shared_out<'a>(total: i64, amounts: &BTreeMap<ShownName<'a>, i128>) -> Vec<(ShownName<'a>, i64)> {
    let names: Vec<ShownName<'a>> = amounts.keys().copied().collect();
    // Votes have 64 bits. Larger amounts lose insignificant digits.
    let largest = amounts.values().copied().max().unwrap_or(0);
    let shift = (i128::BITS - largest.leading_zeros()).saturating_sub(u64::BITS);
    let party = |(id, amount): (u32, &i128)| Party { id, order: id, votes: (*amount >> shift) as u64, seats: 0 };
    let mut parties: Vec<Party> = (0..).zip(amounts.values()).map(party).collect();
    webster::divide(u32::try_from(total).unwrap_or(u32::MAX), &mut parties);
    parties.iter().map(|party| (names[party.id as usize], i64::from(party.seats))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_total_whatever_the_sizes_are() {
        let names = ["a", "b", "c", "d"].map(|name| Some(("shop", name)));
        for (total, amounts) in [
            (8, vec![8_000]),
            (7, vec![4_000, 3_000]),
            (5, vec![i128::MAX / 4, i128::MAX / 8, 1]),
            (1, vec![5, 5, 5, 5]),
            (0, vec![3]),
        ] {
            let amounts: BTreeMap<ShownName<'_>, i128> = names.into_iter().zip(amounts).collect();
            let shares = shared_out(total, &amounts);
            assert_eq!(shares.iter().map(|(_, share)| share).sum::<i64>(), total, "{amounts:?}");
            assert!(shares.iter().all(|(_, share)| *share > 0));
        }
        let amounts = names.into_iter().zip([4_000, 3_000]).collect();
        let mut shares = shared_out(7, &amounts);
        shares.sort();
        assert_eq!(shares, [(names[0], 4), (names[1], 3)]);
    }
}
