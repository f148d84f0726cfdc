//! The decision about a workload: the clusters of a binding of Karmada's family, or those of all
//! bindings of a Fleet placement. Pure.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::subject::{PLACEMENTS, SLICE};
use super::{Inventory, Wanted, profile};
use ballast_api::fleet::placement::v1beta1::any::{PlacementKinds, placement_of};
use ballast_api::fleet::placement::v1beta1::names::binding_prefix;
use ballast_api::multicluster::v1alpha1::{
    DECISION_INDEX_LABEL, DECISION_KEY_LABEL, PLACEMENT_DECISIONS, PLACEMENT_KEY_LABEL,
};
use ballast_k8s::{Key, Object, read_json};
use ballast_watch::View;

/// The most clusters of a slice, as upstream bounds it.
pub(crate) const SLICE_CLUSTERS_MAX: usize = 100;
/// The longest value of a label.
const LABEL_BYTES_MAX: usize = 63;
/// The longest name of an object.
const NAME_BYTES_MAX: usize = 253;
/// Why a binding of Karmada's family has a cluster. The condition Scheduled of the binding says
/// more.
const SCHEDULED: &str = "Scheduled";

/// What a binding of Karmada's family decides. A write that leaves it as it is changes no decision.
#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Decided {
    spec: Spec,
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    clusters: Vec<Target>,
    resource: Workload,
    scheduler_name: String,
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Target {
    name: String,
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Workload {
    kind: String,
    name: String,
}

impl Decided {
    pub fn of(binding: &Object) -> Decided {
        read_json(&binding.text.content()).unwrap_or_default()
    }
}

/// The same of a binding of Fleet's family.
#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct FleetDecided {
    spec: FleetSpec,
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FleetSpec {
    state: String,
    target_cluster: String,
    cluster_decision: FleetReason,
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct FleetReason {
    reason: String,
}

impl FleetDecided {
    pub fn of(binding: &Object) -> FleetDecided {
        read_json(&binding.text.content()).unwrap_or_default()
    }
}

/// The decisions about the placements with this name whose decisions are in this namespace.
pub(crate) fn wanted(inventory: &Inventory, view: &View, namespace: &Arc<str>, name: &Arc<str>) -> Vec<Wanted> {
    let sources = PLACEMENTS.into_iter().filter_map(|(kind, suffix)| {
        let key = Key { resource: kind, namespace: Arc::clone(namespace), name: Arc::clone(name) };
        let in_namespace = view.get(&key);
        let of_cluster = || view.get(&Key::cluster(kind, &**name)).filter(|_| *namespace == inventory.namespace);
        Some((in_namespace.or_else(of_cluster)?, suffix))
    });
    let told = sources.enumerate().flat_map(|(at, (source, suffix))| {
        let suffix = if at == 0 { "" } else { suffix };
        slices(inventory, view, namespace, format!("{name}{suffix}"), source)
    });
    told.collect()
}

fn slices(inventory: &Inventory, view: &View, namespace: &Arc<str>, name: String, source: &Arc<Object>) -> Vec<Wanted> {
    let Decision { mut clusters, workload, scheduler } = match PlacementKinds::of(source.key.resource) {
        Some(kinds) => of_fleet_placement(inventory, view, kinds, &source.key),
        None => of_binding(inventory, source),
    };
    clusters.sort_unstable();
    clusters.dedup_by(|one, other| one.0 == other.0);
    let slice = |(index, clusters): (usize, &[(String, String)])| {
        let name = if index == 0 { name.clone() } else { format!("{name}{SLICE}{index}") };
        let decisions = clusters.iter().map(|(profile, reason)| {
            let profile = json!({"name": profile, "namespace": &*inventory.namespace});
            json!({"clusterProfileRef": profile, "reason": reason})
        });
        let mut labels = Map::new();
        labels.insert(DECISION_KEY_LABEL.to_owned(), (&*source.uid).into());
        labels.insert(DECISION_INDEX_LABEL.to_owned(), index.to_string().into());
        labels.extend(workload.clone().map(|workload| (PLACEMENT_KEY_LABEL.to_owned(), workload.into())));
        let members: [(&str, Value); 3] = [
            ("kind", "PlacementDecision".into()),
            ("decisions", decisions.collect()),
            ("schedulerName", scheduler.clone().into()),
        ];
        Wanted {
            key: Key::namespaced(PLACEMENT_DECISIONS, Arc::clone(namespace), name),
            owner: source.uid.clone(),
            labels,
            members: members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    };
    // A decision for no cluster is a decision, too.
    let parts = match clusters.is_empty() {
        true => vec![&[][..]],
        false => clusters.chunks(SLICE_CLUSTERS_MAX).collect(),
    };
    let told = parts.into_iter().enumerate().map(slice);
    told.filter(|wanted| wanted.key.name.len() <= NAME_BYTES_MAX).collect()
}

struct Decision {
    /// The profiles of the clusters, and why each was chosen.
    clusters: Vec<(String, String)>,
    workload: Option<String>,
    scheduler: String,
}

fn of_binding(inventory: &Inventory, binding: &Object) -> Decision {
    let Decided { spec } = Decided::of(binding);
    let clusters = spec.clusters.into_iter().map(|target| (target.name, SCHEDULED.to_owned())).collect();
    let scheduler = if spec.scheduler_name.is_empty() { inventory.scheduler.to_string() } else { spec.scheduler_name };
    let Workload { kind, name } = spec.resource;
    let workload = (!kind.is_empty()).then(|| label_value(format!("{kind}.{name}")));
    Decision { clusters, workload, scheduler }
}

fn of_fleet_placement(inventory: &Inventory, view: &View, kinds: &PlacementKinds, placement: &Key) -> Decision {
    let named_alike = view.list_prefixed(kinds.bindings, &placement.namespace, binding_prefix(&placement.name));
    let bindings = named_alike.filter(|binding| placement_of(binding).as_ref() == Some(placement));
    let chosen = bindings.map(|binding| FleetDecided::of(binding).spec).filter(|spec| spec.state != "Unscheduled");
    let clusters =
        chosen.map(|spec| (profile::name_of_member(view, &spec.target_cluster), spec.cluster_decision.reason));
    Decision { clusters: clusters.collect(), workload: None, scheduler: inventory.scheduler.to_string() }
}

/// A text as the value of a label. One that is too long is cut.
fn label_value(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LABEL_BYTES_MAX));
    text.truncate(text.trim_end_matches(|last: char| !last.is_ascii_alphanumeric()).len());
    text
}
