//! An index of the bindings that a change of a cluster-wide policy can affect, which avoids a scan
//! of all bindings. Pure.
//!
//! Bindings with the same kind of template and the same referenced policies form a group. A changed
//! policy affects
//!
//! - the bindings that reference it,
//! - the bindings that no live policy is known to select, if it selects their kind,
//! - the bindings of policies that it precedes, if it preempts and selects their kind,
//! - the bindings of templates that it selects by name.
//!
//! *Invariant:* a binding counts as selected by a live policy only if its last evaluation found one
//! (`record_selected`), and neither it nor a policy that it references has changed since.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::plan::Policy;
use ballast_api::karmada::policy::v1alpha1::PolicyIds;
use ballast_api::karmada::work::v1alpha2::PartialBinding;
use ballast_k8s::{Key, Object};
use ballast_worker::KeyIndex;

#[derive(Default)]
pub struct PolicyIndex {
    numbers: KeyIndex,
    /// The entries by binding number.
    entries: Vec<IndexedBinding>,
    group_numbers: BTreeMap<Arc<GroupKey>, u32>,
    /// The groups by number. The number of an empty group is reused.
    members: Vec<BindingGroup>,
    vacant: Vec<u32>,
    /// Digests of the kind and name of the template, with the binding number.
    named: BTreeSet<(u32, u32)>,
    /// The permanent ids of policies when their bindings were last evaluated.
    ids: BTreeMap<Key, String>,
    is_whole: bool,
}

/// The parts of a binding that determine its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingEntry {
    place: GroupKey,
    /// Digests of the kind and the name of the template, and of the labels. A collision only costs
    /// one needless evaluation.
    name: u32,
    labels: u32,
}

/// The properties that the bindings of a group share.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    api_version: String,
    kind: String,
    /// The policies referenced by name.
    pub policies: Vec<Key>,
    /// The permanent ids of the policies referenced by id.
    pub ids: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct IndexedBinding {
    group: u32,
    name: u32,
    labels: u32,
}

/// The bindings of a group, divided by whether a live policy selects them.
#[derive(Default)]
struct BindingGroup {
    place: Arc<GroupKey>,
    selected: BTreeSet<u32>,
    open: BTreeSet<u32>,
}

impl BindingEntry {
    /// Returns the entry, or `None` for a binding that no policy can manage.
    pub fn of(binding: &Object, partial: &PartialBinding<'_>) -> Option<BindingEntry> {
        let annotations = partial.annotations();
        // Policies that are referenced by id are not known here.
        let policies = PolicyIds::default().managers(binding, &annotations);
        let ids: Vec<String> = PolicyIds::named_by(binding).map(str::to_owned).collect();
        if policies.is_empty() && ids.is_empty() && !PolicyIds::is_released(&annotations) {
            return None;
        }
        let resource = partial.workload(&binding.key)?;
        let name = digest_of_name(&resource.api_version, &resource.kind, &resource.name);
        let labels = digest(&binding.labels);
        let place = GroupKey { api_version: resource.api_version, kind: resource.kind, policies, ids };
        Some(BindingEntry { place, name, labels })
    }
}

fn digest_of_name(api_version: &str, kind: &str, name: &str) -> u32 {
    digest(&(api_version, kind, name))
}

fn digest(value: &impl Hash) -> u32 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish() as u32
}

impl PolicyIndex {
    /// Records that all bindings are indexed.
    pub fn end(&mut self) {
        self.is_whole = true;
    }

    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Adds or updates a binding. A binding with an unchanged entry keeps its selected state.
    pub fn upsert(&mut self, key: &Key, entry: Option<BindingEntry>) {
        if entry.as_ref().is_some_and(|entry| self.is_indexed(key, entry)) {
            return;
        }
        self.forget(key);
        let Some(BindingEntry { place, name, labels }) = entry else { return };
        let number = self.numbers.insert(key);
        let group = self.group(place);
        self.members[group as usize].open.insert(number);
        self.named.insert((name, number));
        if number as usize == self.entries.len() {
            self.entries.push(IndexedBinding::default());
        }
        self.entries[number as usize] = IndexedBinding { group, name, labels };
    }

    pub fn forget(&mut self, key: &Key) {
        let Some(number) = self.numbers.remove(key) else { return };
        let IndexedBinding { group, name, .. } = self.entries[number as usize];
        self.named.remove(&(name, number));
        let members = &mut self.members[group as usize];
        members.selected.remove(&number);
        members.open.remove(&number);
        if members.selected.is_empty() && members.open.is_empty() {
            self.group_numbers.remove(&members.place);
            self.vacant.push(group);
        }
    }

    /// Records whether a live policy selects the binding, as evaluated with this entry. Ignored if
    /// the entry has changed since.
    pub fn record_selected(&mut self, key: &Key, entry: &BindingEntry, is_selected: bool) {
        if !self.is_indexed(key, entry) {
            return;
        }
        let Some(number) = self.numbers.number(key) else { return };
        let members = &mut self.members[self.entries[number as usize].group as usize];
        let BindingGroup { selected, open, .. } = members;
        let (from, to) = if is_selected { (open, selected) } else { (selected, open) };
        if from.remove(&number) {
            to.insert(number);
        }
    }

    /// Returns the bindings that the change of one policy can affect. `policy` is `None` if it was
    /// deleted, `id` is its permanent id, if any, and `live` returns the live policies of a group.
    pub fn affected<'a>(
        &mut self,
        key: &Key,
        policy: Option<Policy<'a>>,
        id: Option<&str>,
        live: impl Fn(&GroupKey) -> Vec<Policy<'a>>,
    ) -> Vec<Key> {
        let former = match id {
            Some(id) => self.ids.insert(key.clone(), id.to_owned()),
            None => self.ids.remove(key),
        };
        let is_id = |there: &String| Some(there.as_str()) == id || Some(there) == former.as_ref();
        let claims = policy.filter(|policy| policy.outline.is_active());
        let mut affected = BTreeSet::new();
        for (place, group) in &self.group_numbers {
            let members = &self.members[*group as usize];
            if place.policies.contains(key) || place.ids.iter().any(is_id) {
                affected.extend(members.open.iter().chain(&members.selected));
                continue;
            }
            let Some(policy) = claims.filter(|policy| policy.selects_widely(&place.api_version, &place.kind)) else {
                continue;
            };
            affected.extend(&members.open);
            let before = live(place).iter().map(Policy::standing).min();
            if policy.outline.preempts() && before.is_some_and(|before| policy.standing() > before) {
                affected.extend(&members.selected);
            }
        }
        for (api_version, kind, name) in claims.iter().flat_map(Policy::selected_names) {
            let name = digest_of_name(api_version, kind, name);
            affected.extend(self.named.range((name, 0)..=(name, u32::MAX)).map(|(_, number)| number));
        }
        affected.into_iter().filter_map(|number| self.numbers.key(number).cloned()).collect()
    }

    fn is_indexed(&self, key: &Key, entry: &BindingEntry) -> bool {
        let entries = self.numbers.number(key).map(|number| self.entries[number as usize]);
        entries.is_some_and(|entries| {
            entries.name == entry.name
                && entries.labels == entry.labels
                && self.group_numbers.get(&entry.place) == Some(&entries.group)
        })
    }

    fn group(&mut self, place: GroupKey) -> u32 {
        if let Some(known) = self.group_numbers.get(&place) {
            return *known;
        }
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.members.push(BindingGroup::default());
            self.members.len() as u32 - 1
        });
        let place = Arc::new(place);
        self.members[number as usize].place = Arc::clone(&place);
        self.group_numbers.insert(place, number);
        number
    }
}
