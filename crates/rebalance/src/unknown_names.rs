//! Warnings about unknown names of clusters and regions, with the nearest known name (NG4).
//!
//! Such a name is not refused: the cluster may be created later, for example when objects are
//! restored before clusters. Only names that a write adds are reported, so that a controller that
//! rewrites a policy gets no warnings again.

use std::collections::{BTreeSet, HashSet};

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::nameable::{MayList, Nameable};
use super::record::CLUSTERS;
use ballast_api::fleet::placement::v1beta1::names::MEMBER_CLUSTERS;
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_k8s::Status;
use ballast_k8s::suggestion::Hints;
use ballast_registry::{AdmissionAttributes, Client, Validator};
use ballast_watch::View;

/// Maximum number of warnings for one write. The rest is a number.
const WARNINGS_MAX: usize = 10;
/// Maximum depth of the search in a placement. Its lists of names are five levels deep.
const DEPTH_MAX: usize = 12;

/// The known names.
pub(super) struct Known {
    clusters: BTreeSet<String>,
    regions: BTreeSet<String>,
    /// The names of clusters that hints may contain.
    shown: BTreeSet<String>,
    shows_regions: bool,
}

impl Known {
    pub(super) fn of(view: &View, nameable: &Nameable) -> Known {
        let kinds = [CLUSTERS, MEMBER_CLUSTERS].into_iter();
        let names = |kind| view.list(kind, None).map(|object| object.key.name.to_string());
        let (clusters, shown) =
            (kinds.clone().flat_map(names), kinds.filter(|kind| nameable.has(*kind)).flat_map(names));
        let typed = view.list(CLUSTERS, None).filter_map(|object| object.typed::<Cluster>().ok());
        let regions = typed.filter_map(|cluster| cluster.spec.region.clone()).filter(|region| !region.is_empty());
        let shows_regions = nameable.has(CLUSTERS);
        Known { clusters: clusters.collect(), regions: regions.collect(), shown: shown.collect(), shows_regions }
    }

    /// Returns a warning about an unknown cluster. `with_hint`: whether it may name another
    /// cluster.
    pub(super) fn cluster(&self, path: &str, name: &str, with_hint: bool, hints: &mut Hints) -> Option<String> {
        // `*` represents all clusters in some fields.
        let is_known = self.clusters.contains(name) || name == "*";
        let what = format!("{path}: no cluster is named {name:?}");
        let known = || self.shown.iter().filter(|_| with_hint).map(String::as_str);
        (!is_known).then(|| hints.with_suggestion(what, name, known()))
    }

    fn region(&self, path: &str, name: &str, hints: &mut Hints) -> Option<String> {
        let what = format!("{path}: no cluster is in region {name:?}");
        let known = || self.regions.iter().filter(|_| self.shows_regions).map(String::as_str);
        (!self.regions.contains(name)).then(|| hints.with_suggestion(what, name, known()))
    }
}

/// Returns warnings about unknown clusters and regions in a placement that are not in `old`.
pub fn in_placement(view: &View, placement: &Value, old: Option<&Value>, nameable: &Nameable) -> Vec<String> {
    let mut named = Vec::new();
    find(placement, "spec.placement", 0, &mut named);
    let mut before = Vec::new();
    if let Some(old) = old {
        find(old, "spec.placement", 0, &mut before);
    }
    let before: HashSet<(&str, Is)> = before.iter().map(|old| (&*old.name, old.is)).collect();
    named.retain(|new| !before.contains(&(&*new.name, new.is)));
    if named.is_empty() {
        return Vec::new();
    }
    let known = Known::of(view, nameable);
    let mut hints = Hints::default();
    let warned = named.iter().filter_map(|Named { path, name, is }| match is {
        Is::Cluster => known.cluster(path, name, true, &mut hints),
        Is::Region => known.region(path, name, &mut hints),
    });
    shortened(warned.collect(), "names of clusters or regions")
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Is {
    Cluster,
    Region,
}

struct Named {
    path: String,
    name: String,
    is: Is,
}

/// Finds the names in a placement, wherever an affinity may be.
fn find(value: &Value, path: &str, depth: usize, named: &mut Vec<Named>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                let path = format!("{path}.{member}");
                match member.as_str() {
                    "clusterNames" | "exclude" => add(value, &path, Is::Cluster, named),
                    "fieldSelector" => find_regions(value, &path, named),
                    _ => find(value, &path, depth + 1, named),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find(item, &format!("{path}[{index}]"), depth + 1, named);
            }
        }
        _ => {}
    }
}

fn find_regions(selector: &Value, path: &str, named: &mut Vec<Named>) {
    for (index, term) in selector["matchExpressions"].as_array().into_iter().flatten().enumerate() {
        if term["key"] == "region" && term["operator"] == "In" {
            add(&term["values"], &format!("{path}.matchExpressions[{index}].values"), Is::Region, named);
        }
    }
}

fn add(names: &Value, path: &str, is: Is, named: &mut Vec<Named>) {
    let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
    named.extend(names.enumerate().map(|(at, name)| Named {
        path: format!("{path}[{at}]"),
        name: name.to_owned(),
        is,
    }));
}

/// Returns the first warnings, and the number of the others.
pub(super) fn shortened(mut warnings: Vec<String>, what: &str) -> Vec<String> {
    let more = warnings.len().saturating_sub(WARNINGS_MAX);
    warnings.truncate(WARNINGS_MAX);
    if more > 0 {
        warnings.push(format!("{more} more {what} are not known"));
    }
    warnings
}

/// Warns about policies, and about bindings that no policy manages.
pub struct PlacementNames {
    client: Client,
    may_list: MayList,
}

impl PlacementNames {
    pub fn new(client: Client, may_list: MayList) -> PlacementNames {
        PlacementNames { client, may_list }
    }
}

#[async_trait]
impl Validator for PlacementNames {
    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), Status> {
        let labels = object.get("metadata").and_then(|meta| meta.get("labels")).and_then(Value::as_object);
        // The names of a policy were reported when the policy was written.
        if labels
            .is_some_and(|labels| labels.keys().any(|key| key.ends_with("propagationpolicy.karmada.io/permanent-id")))
            && attributes.row.kind.ends_with("Binding")
        {
            return Ok(());
        }
        if let Some(placement) = placement_of(object) {
            let (view, old) = (self.client.view(), old.and_then(placement_of));
            // Most placements contain no unknown cluster, and need no authorization.
            if in_placement(&view, placement, old, &Nameable::nothing()).is_empty() {
                return Ok(());
            }
            let nameable = Nameable::for_write(&self.may_list, attributes).await;
            let warned = in_placement(&view, placement, old, &nameable);
            warned.iter().for_each(|line| attributes.caller.warnings.warn(line));
        }
        Ok(())
    }
}

fn placement_of(object: &Map<String, Value>) -> Option<&Value> {
    object.get("spec")?.get("placement")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use ballast_k8s::{Key, Object, Revision};

    fn view() -> View {
        let cluster = |name: &str, region: &str| {
            let tree = json!({"metadata": {"name": name}, "spec": {"syncMode": "Push", "region": region}});
            let key = Key::cluster(CLUSTERS, name);
            Arc::new(Object::decode(key, Revision(1), tree.to_string().into()).unwrap())
        };
        View::of([cluster("member1", "eu-west"), cluster("member2", "us-east")])
    }

    #[test]
    fn ng4_a_name_that_no_cluster_has_is_told_with_the_nearest_one_wherever_it_is() {
        let affinity = |names: &[&str]| json!({"clusterNames": names, "exclude": ["member2"]});
        let region = json!({"fieldSelector": {"matchExpressions": [
            {"key": "region", "operator": "In", "values": ["eu-wst", "us-east"]},
            {"key": "zone", "operator": "In", "values": ["nowhere"]}]}});
        let placement = json!({
            "clusterAffinity": affinity(&["member1", "membr2"]),
            "replicaScheduling": {"weightPreference": {"staticWeightList": [{"targetCluster": region}]}},
        });
        let expected = [
            r#"spec.placement.clusterAffinity.clusterNames[1]: no cluster is named "membr2"; the nearest known name is "member2""#,
            "spec.placement.replicaScheduling.weightPreference.staticWeightList[0].targetCluster.fieldSelector\
             .matchExpressions[0].values[0]: no cluster is in region \"eu-wst\"; the nearest known name is \"eu-west\"",
        ];
        assert_eq!(in_placement(&view(), &placement, None, &Nameable::all()), expected);
        let again = in_placement(&view(), &placement, Some(&placement), &Nameable::all());
        assert_eq!(again, [""; 0], "it was told before");
        let told = in_placement(&view(), &placement, None, &Nameable::nothing());
        assert!(told.len() == 2 && told.iter().all(|line| !line.contains("nearest")), "{told:?}");
    }
}
