//! The selection of bindings: a binding is selected if any entry selects it. An entry selects the
//! bindings that meet all its conditions.
//!
//! Bindings are partially parsed, on all cores, and only the selected ones are parsed fully. They
//! are returned in key order, independent of the number of cores.
//!
//! A KubeFleet placement is found by its kind alone: an entry without a kind selects only bindings
//! (BD10).

use std::collections::HashSet;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::parsed_binding::Common;
use super::{ParsedBinding, PlanBuilder, PlanningSnapshot, Standing, standing};
use ballast_api::ballast::v1alpha1::SelectEntry;
use ballast_api::fleet::placement::v1beta1::any::{PlacementKinds, SCOPES};
use ballast_api::fleet::placement::v1beta1::trigger;
use ballast_api::karmada::policy::v1alpha1::{CLUSTER_PROPAGATION_POLICIES, POLICIES, PROPAGATION_POLICIES, PolicyIds};
use ballast_api::karmada::work::v1alpha2::{BINDINGS, ObjectReference, PartialBinding, PartialTarget};
use ballast_k8s::{FieldErrors, FieldPath, GroupResource, Key, Object, Selector};
use ballast_watch::View;

/// Maximum number of bindings that may be selected at once (BD12).
pub const SELECTED_MAX: usize = 100_000;

/// Below this number of bindings, one thread is used, because starting another costs more.
const PER_THREAD_MIN: usize = 500;

/// The number of selected bindings, which exceeds [`SELECTED_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} bindings are selected, and {SELECTED_MAX} at most can be planned at once")]
pub struct SelectionTooLarge(pub usize);

/// A selection, prepared for matching each binding.
#[derive(Debug)]
pub struct Selection {
    select: Vec<Entry>,
    exclude: Vec<Entry>,
    /// `None`: all namespaces, and cluster-scoped bindings.
    scope: Option<Box<str>>,
    /// The policy of each permanent id, for bindings that carry only the id.
    ids: PolicyIds,
}

#[derive(Debug)]
struct Entry {
    said: SelectEntry,
    labels: Option<Selector>,
    placed_on: HashSet<String>,
    not_placed_on: HashSet<String>,
    policies: Option<GroupResource>,
}

/// Whether an entry selects a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    No,
    Yes,
    /// If the standing matches the entry: displaced or not, drifted or not.
    IfStanding {
        displaced: Option<bool>,
        drifted: Option<bool>,
    },
}

impl Selection {
    /// Prepares a selection. `scope` is the namespace of a namespaced object. Fails for malformed
    /// selectors and policies.
    pub fn new(
        select: &[SelectEntry],
        exclude: &[SelectEntry],
        scope: Option<&str>,
        view: &View,
    ) -> Result<Selection, FieldErrors> {
        let mut errors = FieldErrors::default();
        let mut entries = |list: &[SelectEntry], field: &str| -> Vec<Entry> {
            let path = FieldPath::new("spec").child(field);
            let entry = |(index, entry): (usize, &SelectEntry)| Entry::new(entry, &path.index(index), &mut errors);
            list.iter().enumerate().map(entry).collect()
        };
        let (select, exclude) = (entries(select, "select"), entries(exclude, "exclude"));
        let asks = select.iter().chain(&exclude).any(|entry| entry.policies.is_some());
        let policies = asks.then(|| POLICIES.into_iter().flat_map(|kind| view.list(kind, None)));
        let ids = PolicyIds::of(policies.into_iter().flatten());
        match errors.is_empty() {
            true => Ok(Selection { select, exclude, scope: scope.map(Box::from), ids }),
            false => Err(errors),
        }
    }

    /// Returns the selected bindings and placements, in key order, as of the view of `snapshot`.
    pub fn find(&self, snapshot: &PlanningSnapshot) -> Result<Vec<ParsedBinding>, SelectionTooLarge> {
        let objects = self.objects(&snapshot.view);
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let share = objects.len().div_ceil(threads).max(PER_THREAD_MIN);
        let count = AtomicUsize::new(0);
        let mut bindings: Vec<ParsedBinding> = match objects.len() <= share {
            true => self.find_among(&objects, snapshot, &count),
            false => std::thread::scope(|scope| {
                let count = &count;
                let find = |part| scope.spawn(move || self.find_among(part, snapshot, count));
                let parts: Vec<_> = objects.chunks(share).map(find).collect();
                let joined = parts.into_iter().map(|part| match part.join() {
                    Ok(bindings) => bindings,
                    Err(panic) => std::panic::resume_unwind(panic),
                });
                joined.flatten().collect()
            }),
        };
        bindings.extend(self.placements(&snapshot.view, &count));
        match count.into_inner() {
            count if count > SELECTED_MAX => Err(SelectionTooLarge(count)),
            _ => Ok(bindings),
        }
    }

    /// Returns whether this binding is selected. Placements are ignored.
    pub fn selects(&self, parsed: &ParsedBinding, builder: &mut PlanBuilder) -> bool {
        let is_in_scope = self.scope.as_deref().is_none_or(|scope| *scope == *parsed.object.key.namespace);
        is_in_scope
            && PartialBinding::of(&parsed.object.text.content()).is_ok_and(|partial| {
                let known = &mut None;
                let mut stands = || *known.get_or_insert_with(|| standing(builder, parsed));
                self.decide_binding(&parsed.object, &partial, &mut stands)
            })
    }

    /// Returns the candidates of the selection.
    fn objects<'v>(&self, view: &'v View) -> Vec<&'v Arc<Object>> {
        if let Some(scope) = &self.scope {
            return view.list(BINDINGS[0], Some(scope)).collect();
        }
        // A namespaced workload has its binding in its namespace.
        let mut namespaces: Vec<Option<&str>> =
            self.select.iter().map(|entry| entry.said.namespace.as_deref()).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        match namespaces.first() {
            None => Vec::new(),
            Some(None) => BINDINGS.into_iter().flat_map(|kind| view.list(kind, None)).collect(),
            Some(Some(_)) => {
                namespaces.into_iter().flatten().flat_map(|namespace| view.list(BINDINGS[0], Some(namespace))).collect()
            }
        }
    }

    fn find_among(
        &self,
        objects: &[&Arc<Object>],
        snapshot: &PlanningSnapshot,
        count: &AtomicUsize,
    ) -> Vec<ParsedBinding> {
        let mut builder = None;
        let mut common = Common::default();
        let mut bindings = Vec::new();
        for object in objects {
            let content = object.text.content();
            let Ok(partial) = PartialBinding::of(&content) else { continue };
            let mut parsed = None;
            let mut known = None;
            let mut stands = || {
                *known.get_or_insert_with(|| {
                    let parsed = parsed.get_or_insert_with(|| ParsedBinding::of(object));
                    let builder = builder.get_or_insert_with(|| PlanBuilder::new(snapshot));
                    parsed.as_ref().map_or(Standing::Well, |parsed| standing(builder, parsed))
                })
            };
            if !self.decide_binding(object, &partial, &mut stands) {
                continue;
            }
            // Beyond the bound they are only counted, for the message.
            if count.fetch_add(1, Ordering::Relaxed) < SELECTED_MAX {
                let parsed = parsed.unwrap_or_else(|| ParsedBinding::of(object));
                bindings.extend(parsed.map(|parsed| parsed.shared(&mut common)));
            }
        }
        bindings
    }

    fn decide_binding(
        &self,
        object: &Object,
        partial: &PartialBinding<'_>,
        stands: &mut dyn FnMut() -> Standing,
    ) -> bool {
        let looked = Looked::new(object, partial, &self.ids);
        let mut any = |entries: &[Entry]| {
            // Conditions that need a decision are evaluated last.
            let found: Vec<Match> = entries.iter().map(|entry| entry.matches(&looked)).collect();
            found.contains(&Match::Yes)
                || found.iter().any(|found| match found {
                    Match::IfStanding { displaced, drifted } => {
                        let standing = stands();
                        displaced.is_none_or(|wanted| wanted == (standing == Standing::Displaced))
                            && drifted.is_none_or(|wanted| wanted == (standing == Standing::Drifted))
                    }
                    _ => false,
                })
        };
        any(&self.select) && !any(&self.exclude)
    }

    fn placements(&self, view: &View, count: &AtomicUsize) -> Vec<ParsedBinding> {
        let mut bindings = Vec::new();
        for kinds in SCOPES {
            let names = |entry: &&Entry| entry.names(kinds);
            if !self.select.iter().any(|entry| names(&entry)) {
                continue;
            }
            for object in view.list(kinds.placements, self.scope.as_deref()) {
                // A namespaced object refers to its own namespace, which contains no cluster-scoped
                // kinds.
                if self.scope.is_some() && object.key.namespace.is_empty() {
                    continue;
                }
                let parsed = ParsedBinding::of_placement(view, object, kinds);
                let selects = |entries: &[Entry]| entries.iter().filter(names).any(|entry| entry.is_about(&parsed));
                if selects(&self.select) && !selects(&self.exclude) {
                    count.fetch_add(1, Ordering::Relaxed);
                    bindings.push(parsed);
                }
            }
        }
        bindings
    }
}

/// The properties of a binding that entries match, each parsed at most once.
struct Looked<'a> {
    object: &'a Object,
    resource: Option<ObjectReference>,
    targets: Vec<PartialTarget<'a>>,
    managers: std::cell::OnceCell<Vec<Key>>,
    partial: &'a PartialBinding<'a>,
    ids: &'a PolicyIds,
}

impl<'a> Looked<'a> {
    fn new(object: &'a Object, partial: &'a PartialBinding<'a>, ids: &'a PolicyIds) -> Looked<'a> {
        let (resource, targets) = (partial.workload(&object.key), partial.spec.clusters());
        Looked { object, resource, targets, managers: std::cell::OnceCell::new(), partial, ids }
    }

    fn managers(&self) -> &[Key] {
        self.managers.get_or_init(|| self.ids.managing(self.object, self.partial))
    }
}

impl Entry {
    fn new(said: &SelectEntry, path: &FieldPath, errors: &mut FieldErrors) -> Entry {
        let labels = said.label_selector.as_ref().map(|selector| {
            let equal = selector.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            let others = selector
                .match_expressions
                .iter()
                .map(|wanted| (wanted.key.as_str(), wanted.operator.as_str(), wanted.values.as_slice()));
            Selector::from_parts(equal, others).unwrap_or_else(|malformed| {
                errors.invalid(&path.child("labelSelector"), selector, malformed);
                Selector::default()
            })
        });
        let policies = said.policy_ref.as_ref().map(|policy| match &*policy.kind {
            "PropagationPolicy" => PROPAGATION_POLICIES,
            "ClusterPropagationPolicy" => CLUSTER_PROPAGATION_POLICIES,
            other => {
                let kinds = ["PropagationPolicy", "ClusterPropagationPolicy"];
                errors.not_supported(&path.child("policyRef").child("kind"), other, &kinds);
                PROPAGATION_POLICIES
            }
        });
        let (placed_on, not_placed_on) = (said.placed_on.iter(), said.not_placed_on.iter());
        let (placed_on, not_placed_on) = (placed_on.cloned().collect(), not_placed_on.cloned().collect());
        Entry { said: said.clone(), labels, placed_on, not_placed_on, policies }
    }

    fn matches(&self, binding: &Looked<'_>) -> Match {
        let SelectEntry { displaced, drifted, .. } = &self.said;
        let fits = self.fits_resource(binding)
            && self.labels.as_ref().is_none_or(|labels| labels.matches(&*binding.object.labels))
            && self.fits_clusters(binding.targets.iter().map(|target| &*target.name))
            && self.fits_policy(binding);
        match (displaced, drifted) {
            _ if !fits => Match::No,
            (None, None) => Match::Yes,
            _ => Match::IfStanding { displaced: *displaced, drifted: *drifted },
        }
    }

    /// Returns whether a workload on these clusters fulfils `placedOn` and `notPlacedOn`.
    fn fits_clusters<'t>(&self, mut targets: impl Iterator<Item = &'t str> + Clone) -> bool {
        let wanted = || targets.clone().filter(|name| self.placed_on.contains(*name)).collect::<HashSet<_>>();
        (self.placed_on.is_empty() || wanted().len() == self.placed_on.len())
            && (self.not_placed_on.is_empty() || !targets.any(|name| self.not_placed_on.contains(name)))
    }

    fn fits_resource(&self, binding: &Looked<'_>) -> bool {
        let SelectEntry { api_version, kind, namespace, name, .. } = &self.said;
        if api_version.is_none() && kind.is_none() && namespace.is_none() && name.is_none() {
            return true;
        }
        let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        binding.resource.as_ref().is_some_and(|resource| {
            is(api_version, &resource.api_version)
                && is(kind, &resource.kind)
                && is(namespace, resource.namespace.as_deref().unwrap_or_default())
                && is(name, &resource.name)
        })
    }

    fn fits_policy(&self, binding: &Looked<'_>) -> bool {
        let (Some(wanted), Some(resource)) = (&self.said.policy_ref, self.policies) else { return true };
        binding.managers().iter().any(|policy| {
            let namespace = wanted.namespace.as_deref().filter(|_| resource == PROPAGATION_POLICIES);
            policy.resource == resource
                && *policy.name == *wanted.name
                && namespace.is_none_or(|namespace| *policy.namespace == *namespace)
        })
    }

    /// Returns whether the entry is about placements of this scope.
    fn names(&self, kinds: &PlacementKinds) -> bool {
        let kind = self.said.kind.as_deref().unwrap_or_default();
        let of_group =
            |version: &String| trigger::kinds_named(version, kind).is_some_and(|known| known.kind == kinds.kind);
        kind == kinds.kind && self.said.api_version.as_ref().is_none_or(of_group)
    }

    /// Returns whether all conditions of the entry except its kind hold for the placement. The
    /// policy of a placement and its future clusters are unknown.
    fn is_about(&self, placement: &ParsedBinding) -> bool {
        let SelectEntry { namespace, name, displaced, drifted, policy_ref, .. } = &self.said;
        let key = &placement.object.key;
        let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        is(namespace, &key.namespace)
            && is(name, &key.name)
            && self.labels.as_ref().is_none_or(|labels| labels.matches(&*placement.object.labels))
            && self.fits_clusters(placement.request.targets.iter().map(|target| &*target.name))
            && displaced.is_none()
            && drifted.is_none()
            && policy_ref.is_none()
    }
}
