//! Which bindings a change of a policy of all namespaces can concern, so that it costs a look at
//! those and not at all the others. Pure.
//!
//! Bindings are filed under the kind of their template and what they name as their policies: a
//! shelf. A changed policy concerns
//!
//! - the bindings that name it,
//! - the bindings that no living policy is known to select, if it selects their kind,
//! - the bindings whose policy it comes before, if it preempts and selects their kind,
//! - the bindings whose template it selects by name.
//!
//! *Invariant:* a binding stands (a living policy selects it) only if the last look at it said so,
//! and neither it nor a policy that it names has changed since. Whoever looks at a binding tells
//! the outcome (`judge`).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::plan::{Policy, is_active};
use ballast_api::karmada::policy::v1alpha1::PolicyIds;
use ballast_api::karmada::work::v1alpha2::BindingSketch;
use ballast_k8s::{Key, Object};
use ballast_worker::Roster;

#[derive(Default)]
pub struct Managed {
    numbers: Roster,
    /// By number.
    filed: Vec<Filed>,
    shelves: BTreeMap<Arc<Place>, u32>,
    /// By the number of the shelf. The place of one that is empty is used again.
    members: Vec<Members>,
    vacant: Vec<u32>,
    /// By the kind and the name of the template.
    named: BTreeSet<(u32, u32)>,
    /// The permanent ids of policies at the last look at their bindings.
    ids: BTreeMap<Key, String>,
    is_whole: bool,
}

/// What a binding says that decides where it is filed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    place: Place,
    /// Digests of the kind and the name of the template, and of the labels. Equal ones only cost a
    /// look more.
    name: u32,
    labels: u32,
}

/// What the bindings of a shelf have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    api_version: String,
    kind: String,
    /// By their names.
    pub policies: Vec<Key>,
    /// By their permanent ids.
    pub ids: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Filed {
    shelf: u32,
    name: u32,
    labels: u32,
}

/// The bindings of a shelf, by whether they stand.
#[derive(Default)]
struct Members {
    place: Arc<Place>,
    standing: BTreeSet<u32>,
    open: BTreeSet<u32>,
}

impl Card {
    /// `None` for a binding that no policy can have.
    pub fn of(binding: &Object, sketch: &BindingSketch<'_>) -> Option<Card> {
        let annotations = sketch.annotations();
        // Policies that are found by an id are not known here.
        let policies = PolicyIds::default().managers(binding, &annotations);
        let ids: Vec<String> = PolicyIds::named_by(binding).map(str::to_owned).collect();
        if policies.is_empty() && ids.is_empty() && !PolicyIds::is_released(&annotations) {
            return None;
        }
        let resource = sketch.spec.resource()?;
        let name = digest_of_name(&resource.api_version, &resource.kind, &resource.name);
        let labels = digest(&binding.labels);
        let place = Place { api_version: resource.api_version, kind: resource.kind, policies, ids };
        Some(Card { place, name, labels })
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

impl Managed {
    /// Says that all bindings were filed.
    pub fn end(&mut self) {
        self.is_whole = true;
    }

    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Files a binding, or files it again. One whose card is the same stands as before.
    pub fn file(&mut self, key: &Key, card: Option<Card>) {
        if card.as_ref().is_some_and(|card| self.is_filed(key, card)) {
            return;
        }
        self.forget(key);
        let Some(Card { place, name, labels }) = card else { return };
        let number = self.numbers.enter(key);
        let shelf = self.shelf(place);
        self.members[shelf as usize].open.insert(number);
        self.named.insert((name, number));
        if number as usize == self.filed.len() {
            self.filed.push(Filed::default());
        }
        self.filed[number as usize] = Filed { shelf, name, labels };
    }

    pub fn forget(&mut self, key: &Key) {
        let Some(number) = self.numbers.remove(key) else { return };
        let Filed { shelf, name, .. } = self.filed[number as usize];
        self.named.remove(&(name, number));
        let members = &mut self.members[shelf as usize];
        members.standing.remove(&number);
        members.open.remove(&number);
        if members.standing.is_empty() && members.open.is_empty() {
            self.shelves.remove(&members.place);
            self.vacant.push(shelf);
        }
    }

    /// Notes what a look at a binding with this card has said: whether a living policy selects it.
    /// It says nothing of a binding that is filed with another card meanwhile.
    pub fn judge(&mut self, key: &Key, card: &Card, stands: bool) {
        if !self.is_filed(key, card) {
            return;
        }
        let Some(number) = self.numbers.number(key) else { return };
        let members = &mut self.members[self.filed[number as usize].shelf as usize];
        let Members { standing, open, .. } = members;
        let (from, to) = if stands { (open, standing) } else { (standing, open) };
        if from.remove(&number) {
            to.insert(number);
        }
    }

    /// The bindings that the change of one policy can concern. `policy` is `None` where it is gone,
    /// and `id` is its permanent id, if it has one. `living` gives the living policies of a place.
    pub fn concerned<'a>(
        &mut self,
        key: &Key,
        policy: Option<Policy<'a>>,
        id: Option<&str>,
        living: impl Fn(&Place) -> Vec<Policy<'a>>,
    ) -> Vec<Key> {
        let former = match id {
            Some(id) => self.ids.insert(key.clone(), id.to_owned()),
            None => self.ids.remove(key),
        };
        let is_id = |there: &String| Some(there.as_str()) == id || Some(there) == former.as_ref();
        let claims = policy.filter(|policy| is_active(policy.tree));
        let mut concerned = BTreeSet::new();
        for (place, shelf) in &self.shelves {
            let members = &self.members[*shelf as usize];
            if place.policies.contains(key) || place.ids.iter().any(is_id) {
                concerned.extend(members.open.iter().chain(&members.standing));
                continue;
            }
            let Some(policy) = claims.filter(|policy| policy.selects_widely(&place.api_version, &place.kind)) else {
                continue;
            };
            concerned.extend(&members.open);
            let before = living(place).iter().map(Policy::standing).min();
            if policy.preempts() && before.is_some_and(|before| policy.standing() > before) {
                concerned.extend(&members.standing);
            }
        }
        for (api_version, kind, name) in claims.iter().flat_map(Policy::selected_names) {
            let name = digest_of_name(api_version, kind, name);
            concerned.extend(self.named.range((name, 0)..=(name, u32::MAX)).map(|(_, number)| number));
        }
        concerned.into_iter().filter_map(|number| self.numbers.key(number).cloned()).collect()
    }

    fn is_filed(&self, key: &Key, card: &Card) -> bool {
        let filed = self.numbers.number(key).map(|number| self.filed[number as usize]);
        filed.is_some_and(|filed| {
            filed.name == card.name
                && filed.labels == card.labels
                && self.shelves.get(&card.place) == Some(&filed.shelf)
        })
    }

    fn shelf(&mut self, place: Place) -> u32 {
        if let Some(known) = self.shelves.get(&place) {
            return *known;
        }
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.members.push(Members::default());
            self.members.len() as u32 - 1
        });
        let place = Arc::new(place);
        self.members[number as usize].place = Arc::clone(&place);
        self.shelves.insert(place, number);
        number
    }
}
