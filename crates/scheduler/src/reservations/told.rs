//! Says who has the room of a cluster (RM6): `20 free, 12 promised to others (shop/web 8, shop/api
//! 4), 8 left`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use super::Room;
use super::holders::Holder;
use ballast_engine::karmada::{Cluster, ClusterSet, Pass, Profile, Request, Workloads};

/// The workloads that a sentence names, those with the most replicas first.
const HOLDERS_TOLD_MAX: usize = 3;
/// The clusters that a message names.
const CLUSTERS_TOLD_MAX: usize = 3;

/// Which workloads may be named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Those of the namespace of the binding that the sentence is about. Of others only the sum is
    /// told. A sentence about a cluster-scoped binding names all.
    #[default]
    OfNamespace,
    All,
}

/// What is promised to others on one cluster.
struct Promised {
    /// The copies that fit if nothing was promised.
    free: i64,
    left: i64,
    holders: String,
}

impl fmt::Display for Promised {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Promised { free, left, holders } = self;
        write!(out, "{free} free, {} promised to others ({holders}), {left} left", (free - left).max(0))
    }
}

impl Room {
    /// What of the cluster is promised to others. `None`: nothing that matters to this binding.
    /// `left` is the cluster with what is left, and `pass` has the answers of estimators.
    pub fn sentence(
        &self,
        request: &Request,
        left: &Cluster,
        pass: &Pass,
        profile: &Profile,
        names: Names,
    ) -> Option<String> {
        Some(self.promised(request, left, pass, profile, names)?.to_string())
    }

    /// `message`, with what is promised on the clusters that would have had the most room.
    pub fn told(
        &self,
        message: &str,
        request: &Request,
        clusters: &ClusterSet,
        pass: &Pass,
        profile: &Profile,
        names: Names,
    ) -> Option<String> {
        let promised = |cluster| Some((cluster, self.promised(request, cluster, pass, profile, names)?));
        let mut told: Vec<(&Cluster, Promised)> =
            clusters.iter().filter_map(|cluster| promised(cluster.as_ref())).collect();
        if told.is_empty() {
            return None;
        }
        // Those with the same room stay in the order of their names.
        told.sort_by_key(|(_, promised)| Reverse(promised.free));
        let more = told.len().saturating_sub(CLUSTERS_TOLD_MAX);
        let told: Vec<String> = told
            .into_iter()
            .take(CLUSTERS_TOLD_MAX)
            .map(|(cluster, promised)| format!("cluster {}: {promised}", cluster.name))
            .collect();
        let more = if more > 0 { format!("; and {more} more clusters are alike") } else { String::new() };
        Some(format!("{message}; {}{more}", told.join("; ")))
    }

    fn promised(
        &self,
        request: &Request,
        left: &Cluster,
        pass: &Pass,
        profile: &Profile,
        names: Names,
    ) -> Option<Promised> {
        let name = &left.name;
        let account = self.accounts.of(name).filter(|account| account.copies > 0)?;
        let mut open = Cluster::clone(self.open.find(name)?);
        let summary = self.summaries.get(name).cloned().unwrap_or_default();
        account.count_existing(&summary, self.accounts.now(), open.capacity.as_mut()?);
        let fits = |cluster: Cluster| {
            let name = cluster.name.clone();
            Pass::new(&ClusterSet::new([cluster]), &Workloads::default(), profile).capacity(request, &name)
        };
        let is_own = |namespace: &str, name: &str| (namespace, name) == (&*request.namespace, &*request.name);
        let mut own = 0;
        // Several bindings may be of workloads with one name.
        let mut others: BTreeMap<String, i64> = BTreeMap::new();
        let mut elsewhere = 0;
        for (Holder { namespace, name, workload }, copies) in self.accounts.holders(name) {
            if is_own(namespace, name) {
                own = copies;
            } else if names == Names::All || request.namespace.is_empty() || **namespace == *request.namespace {
                let shown = workload.shown(name);
                let shown = if namespace.is_empty() { shown.to_owned() } else { format!("{namespace}/{shown}") };
                *others.entry(shown).or_default() += copies;
            } else {
                elsewhere += copies;
            }
        }
        if others.is_empty() && elsewhere == 0 {
            return None;
        }
        let mut others: Vec<(String, i64)> = others.into_iter().collect();
        others.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        let more: i64 = others.iter().skip(HOLDERS_TOLD_MAX).map(|(_, copies)| copies).sum();
        let mut holders: Vec<String> =
            others.iter().take(HOLDERS_TOLD_MAX).map(|(name, copies)| format!("{name} {copies}")).collect();
        holders.extend((more > 0).then(|| format!("{} more workloads {more}", others.len() - HOLDERS_TOLD_MAX)));
        holders.extend((elsewhere > 0).then(|| format!("other namespaces {elsewhere}")));
        let (mut free, mut left) = (fits(open), fits(left.clone()));
        if let Some((answered, left_of_it)) = pass.answer(request, name) {
            (free, left) = (free.min(answered), left.min(left_of_it));
        }
        let left = left.saturating_add(own);
        // Where the division does not look at room, there is nothing to tell.
        let is_bounded = free < i64::from(i32::MAX);
        is_bounded.then(|| Promised { free, left: left.min(free), holders: holders.join(", ") })
    }
}
