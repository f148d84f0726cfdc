//! The writes that lead from the published to the desired objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::subject::{MEMBER_SUFFIX, PLACEMENTS, SLICE, Subject};
use super::{Inventory, Wanted, owner_of};
use ballast_api::multicluster::v1alpha1::{API_VERSION, CLUSTER_PROFILES, DECISION_KEY_LABEL, PLACEMENT_DECISIONS};
use ballast_base::log_limit::LogLimit;
use ballast_k8s::{Document, GroupResource, Key, Object};
use ballast_watch::{Draft, Expect, View, Write};

/// The label of a profile with the uid of its cluster.
const CLUSTER_UID_LABEL: &str = "ballast.dev/cluster-uid";

static TAKEN: LogLimit = LogLimit::new();

/// Returns the name of the label with the uid of the source of a published object.
pub(crate) fn owner_label(resource: GroupResource) -> &'static str {
    if resource == CLUSTER_PROFILES { CLUSTER_UID_LABEL } else { DECISION_KEY_LABEL }
}

/// Returns the writes for a subject. `gone` contains the uids of sources that no longer exist.
pub(crate) fn writes(inventory: &Inventory, view: &View, subject: &Subject, gone: &BTreeSet<Arc<str>>) -> Vec<Write> {
    let wanted: BTreeMap<Key, Wanted> =
        inventory.wanted(view, subject).into_iter().map(|wanted| (wanted.key.clone(), wanted)).collect();
    let is_own = |told: &Object| {
        let owner = owner_of(told);
        owner.is_none_or(|owner| gone.contains(owner) || wanted.values().any(|wanted| &*wanted.owner == owner))
            || !is_claimed(inventory, view, told, subject)
    };
    let mut writes = Vec::new();
    for told in told(inventory, view, subject) {
        let is_kept = wanted.get(&told.key).is_some_and(|wanted| owner_of(told) == Some(&*wanted.owner));
        if !is_kept && is_own(told) {
            writes.extend(delete(told));
        }
    }
    for wanted in wanted.values() {
        let told = view.get(&wanted.key);
        match told {
            Some(told) if owner_of(told) == Some(&*wanted.owner) => writes.extend(update(wanted, told)),
            Some(told) if !is_own(told) => {
                if TAKEN.pass().is_some() {
                    tracing::warn!(key = %wanted.key, "the inventory leaves out an object: another one has its name");
                }
            }
            _ => writes.push(create(inventory, wanted)),
        }
    }
    writes
}

/// Returns whether another subject desires this object in its current state.
fn is_claimed(inventory: &Inventory, view: &View, told: &Object, subject: &Subject) -> bool {
    let others = Subject::of(told, &inventory.namespace).into_iter().filter(|other| other != subject);
    let mut wanted = others.flat_map(|other| inventory.wanted(view, &other));
    wanted.any(|wanted| wanted.key == told.key && owner_of(told) == Some(&*wanted.owner))
}

/// Returns the published objects under the names that a subject may have.
fn told<'a>(inventory: &Inventory, view: &'a View, subject: &Subject) -> Vec<&'a Arc<Object>> {
    match subject {
        Subject::Clusters(name) => {
            let names = [name.to_string(), format!("{name}{MEMBER_SUFFIX}")];
            let keys = names.map(|name| Key::namespaced(CLUSTER_PROFILES, Arc::clone(&inventory.namespace), name));
            keys.iter().filter_map(|key| view.get(key)).collect()
        }
        Subject::Placements { namespace, name } => {
            let names = PLACEMENTS.iter().map(|(_, suffix)| format!("{name}{suffix}"));
            let slices = names.flat_map(|name| {
                let further = (1..).map({
                    let name = name.clone();
                    move |index: usize| format!("{name}{SLICE}{index}")
                });
                let keys = std::iter::once(name).chain(further);
                let keys = keys.map(|name| Key::namespaced(PLACEMENT_DECISIONS, Arc::clone(namespace), name));
                keys.map_while(|key| view.get(&key)).collect::<Vec<_>>()
            });
            slices.collect()
        }
    }
}

fn create(inventory: &Inventory, wanted: &Wanted) -> Write {
    let Key { namespace, name, .. } = &wanted.key;
    let metadata = json!({
        "name": &**name, "namespace": &**namespace, "uid": inventory.clock.uuid(), "generation": 1,
        "creationTimestamp": inventory.clock.now().to_string(), "labels": labels(wanted),
    });
    let mut tree = wanted.members.clone();
    tree.insert("apiVersion".to_owned(), API_VERSION.into());
    tree.insert("metadata".to_owned(), metadata);
    Write { key: wanted.key.clone(), expect: Expect::Absent, draft: Draft::Put(Document::new(tree)) }
}

/// Returns the update of a published object. `None` if it is up to date, or malformed.
fn update(wanted: &Wanted, told: &Object) -> Option<Write> {
    let mut tree = told.value().ok()?;
    let before = tree.clone();
    tree.extend(wanted.members.clone());
    tree.get_mut("metadata")?.as_object_mut()?.insert("labels".to_owned(), labels(wanted).into());
    if tree == before {
        return None;
    }
    // As with custom resources, changes of labels or of the status do not change the generation.
    let is_desired =
        |(name, value): (&String, &Value)| !matches!(&**name, "metadata" | "status") && before.get(name) != Some(value);
    if tree.iter().any(is_desired) {
        tree.get_mut("metadata")?["generation"] = (told.generation + 1).into();
    }
    let (key, expect) = (told.key.clone(), Expect::At(told.revision));
    Some(Write { key, expect, draft: Draft::Put(Document::new(tree)) })
}

fn delete(told: &Object) -> Option<Write> {
    let (key, expect) = (told.key.clone(), Expect::At(told.revision));
    Some(Write { key, expect, draft: Draft::Delete(Document::new(told.value().ok()?)) })
}

fn labels(wanted: &Wanted) -> Map<String, Value> {
    let mut labels = wanted.labels.clone();
    labels.insert(owner_label(wanted.key.resource).to_owned(), (&*wanted.owner).into());
    labels
}
