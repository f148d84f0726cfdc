//! Rules and defaults for policies of both families. Each rule of upstream's schemas and webhooks,
//! and of the seeds, has a row with the field in the response.

use http::Method;
use serde_json::{Value, json};

use crate::support::raw::Reply;
use crate::support::server::TestServer;

pub(super) const JSON: (&str, &str) = ("content-type", "application/json");
pub(super) const OWN: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies";
pub(super) const WIDE: &str = "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies";
const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
const OWN_PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/shop/resourceplacements";

/// Returns a policy of this path's kind. `spec` is added to the required fields.
pub(super) fn object(path: &str, name: &str, spec: &Value) -> Value {
    let (api_version, kind, selector) = match path {
        OWN => ("policy.karmada.io/v1alpha1", "PropagationPolicy", karmada_selector()),
        WIDE => ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy", karmada_selector()),
        PLACEMENTS => ("placement.kubernetes-fleet.io/v1beta1", "ClusterResourcePlacement", namespace("shop")),
        _ => (
            "placement.kubernetes-fleet.io/v1beta1",
            "ResourcePlacement",
            json!({"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}),
        ),
    };
    let mut whole = json!({"resourceSelectors": [selector]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": whole})
}

fn karmada_selector() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

fn namespace(name: &str) -> Value {
    json!({"group": "", "version": "v1", "kind": "Namespace", "name": name})
}

/// Returns the fields in a rejection.
pub(super) fn fields(reply: &Reply) -> Vec<String> {
    let status = reply.json();
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    causes.iter().map(|cause| cause["field"].as_str().unwrap_or_default().to_owned()).collect()
}

/// POSTs the spec of each row to each path. Each is rejected for exactly its field.
async fn refused_for_their_fields(paths: &[&str], rows: &[(Value, &str)]) {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let mut faults = Vec::new();
    for path in paths {
        for (spec, field) in rows {
            let body = object(path, "p", spec).to_string();
            let reply = connection.send(Method::POST, &format!("{path}?dryRun=All"), &[JSON], body).await;
            if reply.code != 422 || fields(&reply) != [*field] {
                faults.push(format!("{path}\n{spec}\nexpected {field}\nanswer {}\n", reply.text()));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    server.stop().await;
}

fn placed(placement: Value) -> Value {
    json!({"placement": placement})
}

fn divided(strategy: Value) -> Value {
    placed(json!({"replicaScheduling": strategy}))
}

/// Returns a group that overflows into `overflow`, with a division by capacity.
fn overflowing(inline: Value, overflow: Value) -> Value {
    let mut term = json!({"affinityName": "a", "overflowAffinities": overflow});
    term.as_object_mut().unwrap().extend(inline.as_object().unwrap().clone());
    let strategy = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    placed(json!({"clusterAffinities": [term], "replicaScheduling": strategy}))
}

fn by_field(key: &str, operator: &str) -> Value {
    json!({"fieldSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": ["x"]}]}})
}

fn fails(application: Value) -> Value {
    json!({"propagateDeps": true, "failover": {"application": application}})
}

#[tokio::test]
async fn what_breaks_a_rule_of_karmada_s_policies_is_refused_for_its_field() {
    let expression = |affinity: &str| format!("spec.placement.{affinity}.fieldSelector.matchExpressions[0]");
    let (alone_key, alone_operator) =
        (expression("clusterAffinity") + ".key", expression("clusterAffinity") + ".operator");
    let group_key = expression("clusterAffinities[0]") + ".key";
    let overflow_key = expression("clusterAffinities[0].overflowAffinities[0]") + ".key";
    let inline = json!({"clusterNames": ["m1"]});
    let long = "a".repeat(33);
    let rows = [
        // Selectors, preemption and the rest of the spec.
        (json!({"resourceSelectors": []}), "spec.resourceSelectors"),
        (json!({"resourceSelectors": [{"kind": "Deployment"}]}), "spec.resourceSelectors[0].apiVersion"),
        (json!({"resourceSelectors": [{"apiVersion": "apps/v1"}]}), "spec.resourceSelectors[0].kind"),
        (
            json!({"preemption": "Always", "resourceSelectors": [
                karmada_selector(), {"apiVersion": "apps/v1", "kind": "Deployment"}]}),
            "spec.resourceSelectors[1].name",
        ),
        (json!({"preemption": "Sometimes"}), "spec.preemption"),
        (json!({"conflictResolution": "Merge"}), "spec.conflictResolution"),
        (json!({"activationPreference": "Eager"}), "spec.activationPreference"),
        (
            json!({"suspension": {"dispatching": true, "dispatchingOnClusters": {"clusterNames": ["m1"]}}}),
            "spec.suspension",
        ),
        (
            json!({"schedulePriority": {"priorityClassSource": "Own", "priorityClassName": "high"}}),
            "spec.schedulePriority.priorityClassSource",
        ),
        (
            json!({"schedulePriority": {"priorityClassSource": "KubePriorityClass"}}),
            "spec.schedulePriority.priorityClassName",
        ),
        // Clusters and affinity groups.
        (placed(json!({"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "a"}]})), "spec.placement"),
        (placed(json!({"clusterAffinity": by_field("planet", "In")})), alone_key.as_str()),
        (placed(json!({"clusterAffinity": by_field("zone", "Exists")})), alone_operator.as_str()),
        (placed(json!({"clusterAffinities": [{}]})), "spec.placement.clusterAffinities[0].affinityName"),
        (
            placed(json!({"clusterAffinities": [{"affinityName": "a b"}]})),
            "spec.placement.clusterAffinities[0].affinityName",
        ),
        (
            placed(json!({"clusterAffinities": [{"affinityName": long}]})),
            "spec.placement.clusterAffinities[0].affinityName",
        ),
        (
            placed(json!({"clusterAffinities": [{"affinityName": "a"}, {"affinityName": "a"}]})),
            "spec.placement.clusterAffinities[1].affinityName",
        ),
        (
            placed(json!({"clusterAffinities": [
                {"affinityName": "a", "fieldSelector": by_field("planet", "In")["fieldSelector"]}]})),
            group_key.as_str(),
        ),
        (
            overflowing(json!({}), json!([{"affinityName": "b", "clusterNames": ["m2"]}])),
            "spec.placement.clusterAffinities[0].overflowAffinities",
        ),
        (
            placed(json!({"clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1"],
                "overflowAffinities": [{"affinityName": "b"}]}]})),
            "spec.placement.clusterAffinities[0].overflowAffinities",
        ),
        (
            overflowing(inline.clone(), json!([{"affinityName": "a"}])),
            "spec.placement.clusterAffinities[0].overflowAffinities[0].affinityName",
        ),
        (
            overflowing(
                inline,
                json!([
                {"affinityName": "b", "fieldSelector": by_field("planet", "In")["fieldSelector"]}]),
            ),
            overflow_key.as_str(),
        ),
        (
            placed(json!({"clusterTolerations": [{"key": "a", "operator": "Like"}]})),
            "spec.placement.clusterTolerations[0].operator",
        ),
        // Spread constraints.
        (
            placed(json!({"spreadConstraints": [{"spreadByField": "cluster", "spreadByLabel": "rack"}]})),
            "spec.placement.spreadConstraints[0]",
        ),
        (
            placed(json!({"spreadConstraints": [{"spreadByField": "planet"}]})),
            "spec.placement.spreadConstraints[0].spreadByField",
        ),
        (
            placed(json!({"spreadConstraints": [{"spreadByField": "cluster", "minGroups": -1}]})),
            "spec.placement.spreadConstraints[0].minGroups",
        ),
        (
            placed(json!({"spreadConstraints": [{"spreadByField": "cluster", "maxGroups": -1}]})),
            "spec.placement.spreadConstraints[0].maxGroups",
        ),
        (
            placed(json!({"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 3, "maxGroups": 2}]})),
            "spec.placement.spreadConstraints[0].maxGroups",
        ),
        (
            placed(json!({"spreadConstraints": [{"spreadByField": "cluster"}, {"spreadByField": "cluster"}]})),
            "spec.placement.spreadConstraints[1].spreadByField",
        ),
        (placed(json!({"spreadConstraints": [{"spreadByField": "region"}]})), "spec.placement.spreadConstraints"),
        // Replica scheduling.
        (divided(json!({"replicaSchedulingType": "Halved"})), "spec.placement.replicaScheduling.replicaSchedulingType"),
        (
            divided(json!({"replicaDivisionPreference": "Random"})),
            "spec.placement.replicaScheduling.replicaDivisionPreference",
        ),
        (
            divided(json!({"weightPreference": {"dynamicWeight": "Price"}})),
            "spec.placement.replicaScheduling.weightPreference.dynamicWeight",
        ),
        (
            divided(json!({"weightPreference": {"staticWeightList": [{"targetCluster": {}, "weight": 0}]}})),
            "spec.placement.replicaScheduling.weightPreference.staticWeightList[0].weight",
        ),
        (
            divided(json!({"weightPreference": {"staticWeightList": [{"targetCluster": {}}]}})),
            "spec.placement.replicaScheduling.weightPreference.staticWeightList[0].weight",
        ),
        (
            divided(json!({"replicaSchedulingType": "Duplicated", "replicaDivisionPreference": "Specified"})),
            "spec.placement.replicaScheduling.replicaDivisionPreference",
        ),
        (
            divided(json!({"replicaDivisionPreference": "Specified",
                "specifyPreference": {"staticSpecifyList": [{"targetCluster": {}, "replicas": -1}]}})),
            "spec.placement.replicaScheduling.specifyPreference.staticSpecifyList[0].replicas",
        ),
        (
            divided(json!({"replicaDivisionPreference": "Specified",
                "specifyPreference": {"staticSpecifyList": [{"targetCluster": {}, "replicas": 2_147_483_648_i64}]}})),
            "spec.placement.replicaScheduling.specifyPreference.staticSpecifyList[0].replicas",
        ),
        // Behavior if not all replicas fit, and bounds of clusters (S7).
        (
            placed(json!({"spreadConstraints": [{"spreadByField": "cluster", "whenUnsatisfiable": "Perhaps"}]})),
            "spec.placement.spreadConstraints[0].whenUnsatisfiable",
        ),
        (divided(json!({"whenUnsatisfiable": "ScheduleAnyway"})), "spec.placement.replicaScheduling.whenUnsatisfiable"),
        (
            divided(json!({"clusterBounds": [{"targetCluster": {}, "minReplicas": 3, "maxReplicas": 2}]})),
            "spec.placement.replicaScheduling.clusterBounds[0].minReplicas",
        ),
        (
            divided(json!({"clusterBounds": [{"targetCluster": {}, "minReplicas": -1}]})),
            "spec.placement.replicaScheduling.clusterBounds[0].minReplicas",
        ),
        (
            divided(json!({"clusterBounds": [{"targetCluster": {}, "maxReplicas": 0}]})),
            "spec.placement.replicaScheduling.clusterBounds[0].maxReplicas",
        ),
        (
            divided(json!({"clusterBounds": [{"targetCluster": {}, "maxReplicas": i64::MAX}]})),
            "spec.placement.replicaScheduling.clusterBounds[0].maxReplicas",
        ),
        (
            divided(json!({"clusterBounds": [{"maxReplicas": 2}]})),
            "spec.placement.replicaScheduling.clusterBounds[0].targetCluster",
        ),
        // Each is valid alone, but not with the other.
        (
            divided(json!({"clusterBounds": [
                {"targetCluster": {"clusterNames": ["m1"]}, "minReplicas": 3},
                {"targetCluster": {"clusterNames": ["m2", "m1"]}, "maxReplicas": 2}]})),
            "spec.placement.replicaScheduling.clusterBounds[1].maxReplicas",
        ),
        (
            divided(json!({"clusterBounds": [
                {"targetCluster": {"clusterNames": ["m1"]}, "minReplicas": 3},
                {"targetCluster": {}, "maxReplicas": 2}]})),
            "spec.placement.replicaScheduling.clusterBounds[0].minReplicas",
        ),
        (
            divided(json!({"clusterBounds": [
                {"targetCluster": {"labelSelector": {"matchLabels": {"a": "b"}}}, "maxReplicas": 2},
                {"targetCluster": {"labelSelector": {"matchLabels": {"a": "b"}}}, "minReplicas": 3}]})),
            "spec.placement.replicaScheduling.clusterBounds[1].minReplicas",
        ),
        // Workload affinity.
        (
            placed(json!({"workloadAffinity": {"affinity": {"groupByLabelKey": "a b"}}})),
            "spec.placement.workloadAffinity.affinity.groupByLabelKey",
        ),
        (
            placed(json!({"workloadAffinity": {"antiAffinity": {}}})),
            "spec.placement.workloadAffinity.antiAffinity.groupByLabelKey",
        ),
        (
            placed(json!({"workloadAffinity": {
                "affinity": {"groupByLabelKey": "app"}, "antiAffinity": {"groupByLabelKey": "app"}}})),
            "spec.placement.workloadAffinity",
        ),
        // Failover.
        (json!({"failover": {"application": {"decisionConditions": {}}}}), "spec.propagateDeps"),
        (fails(json!({})), "spec.failover.application.decisionConditions"),
        (
            fails(json!({"decisionConditions": {"tolerationSeconds": -1}})),
            "spec.failover.application.decisionConditions.tolerationSeconds",
        ),
        (
            fails(json!({"decisionConditions": {}, "purgeMode": "Directly", "gracePeriodSeconds": 5})),
            "spec.failover.application.gracePeriodSeconds",
        ),
        (
            fails(json!({"decisionConditions": {}, "gracePeriodSeconds": 0})),
            "spec.failover.application.gracePeriodSeconds",
        ),
        (fails(json!({"decisionConditions": {}, "purgeMode": "Later"})), "spec.failover.application.purgeMode"),
        (
            fails(json!({"decisionConditions": {}, "statePreservation": {"rules": [
                {"aliasLabelName": "a b", "jsonPath": "{.a}"}]}})),
            "spec.failover.application.statePreservation.rules[0].aliasLabelName",
        ),
        (
            fails(json!({"decisionConditions": {}, "statePreservation": {"rules": [{"aliasLabelName": "a"}]}})),
            "spec.failover.application.statePreservation.rules[0].jsonPath",
        ),
        (json!({"failover": {"cluster": {"purgeMode": "Never"}}}), "spec.failover.cluster.purgeMode"),
        (
            json!({"failover": {"cluster": {"statePreservation": {"rules": [
                {"aliasLabelName": "a b", "jsonPath": "{.a}"}]}}}}),
            "spec.failover.cluster.statePreservation.rules[0].aliasLabelName",
        ),
    ];
    refused_for_their_fields(&[OWN, WIDE], &rows).await;
    // A namespaced policy selects only in its namespace.
    let elsewhere = json!({"resourceSelectors": [
        {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "office", "name": "web"}]});
    refused_for_their_fields(&[OWN], &[(elsewhere, "spec.resourceSelectors[0].namespace")]).await;
}

#[tokio::test]
async fn what_breaks_a_rule_of_fleet_s_placements_is_refused_for_its_field() {
    let policy = |policy: Value| json!({"policy": policy});
    let fixed = |more: Value| {
        let mut fixed = json!({"placementType": "PickFixed", "clusterNames": ["m1"]});
        fixed.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        policy(fixed)
    };
    let affinity = |affinity: Value| policy(json!({"affinity": {"clusterAffinity": affinity}}));
    let required = |term: Value| {
        affinity(json!({"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [term]}}))
    };
    let preferred = |type_: &str, preference: Value| {
        let terms = json!([{"weight": 1, "preference": preference}]);
        policy(
            json!({"placementType": type_, "numberOfClusters": if type_ == "PickN" { json!(1) } else { Value::Null },
            "affinity": {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}),
        )
    };
    let property = |name: &str, operator: &str, values: Value| {
        required(json!({"propertySelector": {"matchExpressions": [
            {"name": name, "operator": operator, "values": values}]}}))
    };
    let tolerates = |toleration: Value| policy(json!({"tolerations": [toleration]}));
    let spread = |constraint: Value| {
        policy(json!({"placementType": "PickN", "numberOfClusters": 1, "topologySpreadConstraints": [constraint]}))
    };
    let rollout = |strategy: Value| json!({"strategy": strategy});
    const TERMS: &str =
        "spec.policy.affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms[0]";
    const PREFERRED: &str = "spec.policy.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution";
    let at = |place: &str, more: &str| format!("{place}{more}");
    let rows: Vec<(Value, String)> = vec![
        (json!({"resourceSelectors": []}), "spec.resourceSelectors".into()),
        (
            json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "a",
                "labelSelector": {"matchLabels": {"a": "b"}}}]}),
            "spec.resourceSelectors".into(),
        ),
        (
            json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap",
                "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}]}),
            "spec.resourceSelectors[0].labelSelector".into(),
        ),
        (
            json!({"resourceSelectors": [{"group": "", "kind": "ConfigMap"}]}),
            "spec.resourceSelectors[0].version".into(),
        ),
        (json!({"revisionHistoryLimit": 0}), "spec.revisionHistoryLimit".into()),
        // Which fields go with which placement type.
        (policy(json!({"placementType": "PickSome"})), "spec.policy.placementType".into()),
        (policy(json!({"placementType": "PickFixed"})), "spec.policy.clusterNames".into()),
        (fixed(json!({"clusterNames": ["M_1"]})), "spec.policy.clusterNames[0]".into()),
        (fixed(json!({"clusterNames": ["a".repeat(64)]})), "spec.policy.clusterNames[0]".into()),
        (fixed(json!({"clusterNames": ["m1", "m1"]})), "spec.policy.clusterNames[1]".into()),
        (fixed(json!({"numberOfClusters": 1})), "spec.policy".into()),
        (fixed(json!({"affinity": {}})), "spec.policy".into()),
        (fixed(json!({"tolerations": [{"key": "a", "operator": "Exists"}]})), "spec.policy".into()),
        (fixed(json!({"topologySpreadConstraints": [{"topologyKey": "zone"}]})), "spec.policy".into()),
        (policy(json!({"placementType": "PickN"})), "spec.policy".into()),
        (policy(json!({"placementType": "PickN", "numberOfClusters": -1})), "spec.policy.numberOfClusters".into()),
        (
            policy(json!({"placementType": "PickN", "numberOfClusters": 1, "clusterNames": ["m1"]})),
            "spec.policy".into(),
        ),
        (policy(json!({"clusterNames": ["m1"]})), "spec.policy".into()),
        (policy(json!({"numberOfClusters": 1})), "spec.policy".into()),
        (policy(json!({"topologySpreadConstraints": [{"topologyKey": "zone"}]})), "spec.policy".into()),
        (
            spread(json!({"topologyKey": "zone", "maxSkew": 0})),
            "spec.policy.topologySpreadConstraints[0].maxSkew".into(),
        ),
        (spread(json!({})), "spec.policy.topologySpreadConstraints[0].topologyKey".into()),
        (
            spread(json!({"topologyKey": "zone", "whenUnsatisfiable": "Cry"})),
            "spec.policy.topologySpreadConstraints[0].whenUnsatisfiable".into(),
        ),
        // Affinity.
        (
            required(json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}})),
            at(TERMS, ".labelSelector"),
        ),
        (
            required(json!({"propertySorter": {"name": "nodes", "sortOrder": "Ascending"}})),
            at(TERMS, ".propertySorter"),
        ),
        (property("a b", "Ge", json!(["1"])), at(TERMS, ".propertySelector.matchExpressions[0].name")),
        (property("nodes", "Like", json!(["1"])), at(TERMS, ".propertySelector.matchExpressions[0].operator")),
        (property("nodes", "Ge", json!(["1", "2"])), at(TERMS, ".propertySelector.matchExpressions[0].values")),
        (property("nodes", "Ge", json!(["many"])), at(TERMS, ".propertySelector.matchExpressions[0].values")),
        (preferred("PickAll", json!({"labelSelector": {"matchLabels": {"a": "b"}}})), at(PREFERRED, "")),
        (
            preferred("PickN", json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}})),
            at(PREFERRED, "[0].preference.labelSelector"),
        ),
        (
            preferred("PickN", json!({"propertySelector": {"matchExpressions": []}})),
            at(PREFERRED, "[0].preference.propertySelector"),
        ),
        (
            preferred("PickN", json!({"propertySorter": {"name": "a b", "sortOrder": "Ascending"}})),
            at(PREFERRED, "[0].preference.propertySorter.name"),
        ),
        // Tolerations.
        (tolerates(json!({"key": "a b", "operator": "Exists"})), "spec.policy.tolerations[0].key".into()),
        (tolerates(json!({"key": "a", "operator": "Like"})), "spec.policy.tolerations[0].operator".into()),
        (tolerates(json!({"key": "a", "operator": "Exists", "value": "b"})), "spec.policy.tolerations".into()),
        (tolerates(json!({"operator": "Equal", "value": "b"})), "spec.policy.tolerations".into()),
        (tolerates(json!({"key": "a", "value": "b c"})), "spec.policy.tolerations[0].value".into()),
        (tolerates(json!({"key": "a", "effect": "NoExecute"})), "spec.policy.tolerations[0].effect".into()),
        (
            policy(json!({"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists"}]})),
            "spec.policy.tolerations[1]".into(),
        ),
        // Rollout.
        (rollout(json!({"type": "Recreate"})), "spec.strategy.type".into()),
        (rollout(json!({"rollingUpdate": {"maxSurge": -1}})), "spec.strategy.rollingUpdate.maxSurge".into()),
        (
            rollout(json!({"rollingUpdate": {"maxUnavailable": -1}})),
            "spec.strategy.rollingUpdate.maxUnavailable".into(),
        ),
        (
            rollout(json!({"rollingUpdate": {"unavailablePeriodSeconds": -1}})),
            "spec.strategy.rollingUpdate.unavailablePeriodSeconds".into(),
        ),
        (rollout(json!({"type": "External", "rollingUpdate": {}})), "spec.strategy.rollingUpdate".into()),
        (
            rollout(json!({"applyStrategy": {"serverSideApplyConfig": {"force": true}}})),
            "spec.strategy.applyStrategy.serverSideApplyConfig".into(),
        ),
        (rollout(json!({"reportBackStrategy": {"type": "Mirror"}})), "spec.strategy.reportBackStrategy".into()),
    ];
    let rows: Vec<(Value, &str)> = rows.iter().map(|(spec, field)| (spec.clone(), field.as_str())).collect();
    refused_for_their_fields(&[PLACEMENTS, OWN_PLACEMENTS], &rows).await;
    let cluster_wide = [
        (
            json!({"statusReportingScope": "NamespaceAccessible", "resourceSelectors": [namespace("a"), namespace("b")]}),
            "spec",
        ),
        (json!({"statusReportingScope": "Everybody"}), "spec.statusReportingScope"),
    ];
    refused_for_their_fields(&[PLACEMENTS], &cluster_wide).await;
}

#[tokio::test]
async fn what_may_not_change_is_refused_for_its_field() {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let pick_all = json!({"policy": {"tolerations": [{"key": "a", "operator": "Exists"}]}});
    let mut faults = Vec::new();
    for (path, spec, patch, field) in [
        (OWN, json!({}), json!({"spec": {"schedulerName": "other"}}), "spec.schedulerName"),
        (WIDE, json!({}), json!({"spec": {"schedulerName": "other"}}), "spec.schedulerName"),
        (
            PLACEMENTS,
            pick_all.clone(),
            json!({"spec": {"policy": {"placementType": "PickN", "numberOfClusters": 1}}}),
            "spec.policy",
        ),
        (PLACEMENTS, pick_all.clone(), json!({"spec": {"policy": null}}), "spec"),
        (
            PLACEMENTS,
            pick_all,
            json!({"spec": {"policy": {"tolerations": [{"key": "b", "operator": "Exists"}]}}}),
            "spec.policy.tolerations",
        ),
        (
            PLACEMENTS,
            json!({"statusReportingScope": "ClusterScopeOnly"}),
            json!({"spec": {"statusReportingScope": "NamespaceAccessible"}}),
            "spec",
        ),
        (
            PLACEMENTS,
            json!({"strategy": {"type": "External"}}),
            json!({"spec": {"strategy": {"type": "RollingUpdate"}}}),
            "spec.strategy.type",
        ),
    ] {
        let created = connection.send(Method::POST, path, &[JSON], object(path, "p", &spec).to_string()).await;
        assert_eq!(created.code, 201, "{}", created.text());
        let merge = [("content-type", "application/merge-patch+json")];
        let reply = connection.send(Method::PATCH, &format!("{path}/p"), &merge, patch.to_string()).await;
        if reply.code != 422 || !fields(&reply).contains(&field.to_owned()) {
            faults.push(format!("{path}\n{patch}\nexpected {field}\nanswer {}\n", reply.text()));
        }
        assert_eq!(connection.send(Method::DELETE, &format!("{path}/p"), &[], "").await.code, 200);
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    server.stop().await;
}

#[tokio::test]
async fn what_is_not_said_is_upstream_s_default() {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let spread = |constraint: Value| placed(json!({"spreadConstraints": [constraint]}));
    let application = fails(json!({"decisionConditions": {}}));
    let imported = json!({"resourceSelectors": [
        {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport", "name": "web"}]});
    const CONSTRAINT: &str = "/spec/placement/spreadConstraints/0";
    const STRATEGY: &str = "/spec/placement/replicaScheduling";
    let at = |place: &str, more: &str| format!("{place}{more}");
    let both = [
        (json!({}), at("/spec", "/priority"), json!(0)),
        (json!({}), at("/spec", "/preemption"), json!("Never")),
        (json!({}), at("/spec", "/schedulerName"), json!("default-scheduler")),
        (json!({}), at("/spec", "/conflictResolution"), json!("Abort")),
        (spread(json!({})), at(CONSTRAINT, "/spreadByField"), json!("cluster")),
        (spread(json!({"maxGroups": 2})), at(CONSTRAINT, "/minGroups"), json!(1)),
        (spread(json!({"spreadByLabel": "rack"})), at(CONSTRAINT, "/spreadByField"), Value::Null),
        (divided(json!({})), at(STRATEGY, "/replicaSchedulingType"), json!("Divided")),
        (divided(json!({})), at(STRATEGY, "/replicaDivisionPreference"), json!("Weighted")),
        (
            divided(json!({"replicaSchedulingType": "Duplicated"})),
            at(STRATEGY, "/replicaDivisionPreference"),
            Value::Null,
        ),
        (application.clone(), at("/spec/failover/application", "/purgeMode"), json!("Gracefully")),
        (application.clone(), at("/spec/failover/application", "/gracePeriodSeconds"), json!(600)),
        (application, at("/spec/failover/application", "/decisionConditions/tolerationSeconds"), json!(300)),
        (json!({"failover": {"cluster": {}}}), at("/spec/failover/cluster", "/purgeMode"), json!("Gracefully")),
        (imported, at("/spec", "/propagateDeps"), json!(true)),
    ];
    let mut rows: Vec<(&str, Value, String, Value)> = Vec::new();
    for (spec, place, expected) in both {
        rows.push((OWN, spec.clone(), place.clone(), expected.clone()));
        rows.push((WIDE, spec, place, expected));
    }
    let namespace_of = "/spec/resourceSelectors/0/namespace";
    rows.push((OWN, json!({}), namespace_of.to_owned(), json!("shop")));
    rows.push((WIDE, json!({}), namespace_of.to_owned(), Value::Null));
    let pick = |spread: Value| json!({"policy": {"placementType": "PickN", "numberOfClusters": 1, "topologySpreadConstraints": [spread]}});
    let topology = pick(json!({"topologyKey": "zone"}));
    let tolerates = json!({"policy": {"tolerations": [{"key": "a"}]}});
    for (spec, place, expected) in [
        (json!({"policy": {}}), "/spec/policy/placementType", json!("PickAll")),
        (json!({}), "/spec/revisionHistoryLimit", json!(10)),
        (json!({}), "/spec/statusReportingScope", json!("ClusterScopeOnly")),
        (json!({"strategy": {"rollingUpdate": {}}}), "/spec/strategy/rollingUpdate/maxSurge", json!("25%")),
        (json!({"strategy": {"rollingUpdate": {}}}), "/spec/strategy/rollingUpdate/maxUnavailable", json!("25%")),
        (
            json!({"strategy": {"rollingUpdate": {}}}),
            "/spec/strategy/rollingUpdate/unavailablePeriodSeconds",
            json!(60),
        ),
        (json!({"strategy": {}}), "/spec/strategy/type", json!("RollingUpdate")),
        (topology.clone(), "/spec/policy/topologySpreadConstraints/0/maxSkew", json!(1)),
        (topology, "/spec/policy/topologySpreadConstraints/0/whenUnsatisfiable", json!("DoNotSchedule")),
        (tolerates, "/spec/policy/tolerations/0/operator", json!("Equal")),
    ] {
        rows.push((PLACEMENTS, spec, place.to_owned(), expected));
    }
    for (path, spec, place, expected) in rows {
        let body = object(path, "p", &spec).to_string();
        let created = connection.send(Method::POST, &format!("{path}?dryRun=All"), &[JSON], body).await;
        assert_eq!(created.code, 201, "{spec}: {}", created.text());
        let created = created.json();
        assert_eq!(created.pointer(&place).unwrap_or(&Value::Null), &expected, "{path} {spec} {place}");
    }
    // The label with the permanent id cannot be changed.
    for (path, label) in
        [(OWN, "propagationpolicy.karmada.io/permanent-id"), (WIDE, "clusterpropagationpolicy.karmada.io/permanent-id")]
    {
        let created = connection.send(Method::POST, path, &[JSON], object(path, "p", &json!({})).to_string()).await;
        let id = created.json()["metadata"]["labels"][label].as_str().unwrap().to_owned();
        assert_eq!(id.len(), 36, "{id}");
        let other = json!({"metadata": {"labels": {label: "other"}}}).to_string();
        let merge = [("content-type", "application/merge-patch+json")];
        let reply = connection.send(Method::PATCH, &format!("{path}/p"), &merge, other).await;
        assert_eq!(reply.code, 422, "{}", reply.text());
        assert!(fields(&reply)[0].starts_with("metadata.labels"), "{}", reply.text());
    }
    server.stop().await;
}

#[tokio::test]
async fn wh6_a_client_does_not_choose_the_permanent_id_of_a_policy_or_a_binding() {
    const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let id = |object: &Value, label: &str| object["metadata"]["labels"][label].clone();
    for (path, label, spec) in [
        (OWN, "propagationpolicy.karmada.io/permanent-id", json!({})),
        (WIDE, "clusterpropagationpolicy.karmada.io/permanent-id", json!({})),
        (
            BINDINGS,
            "resourcebinding.karmada.io/permanent-id",
            json!({"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}),
        ),
    ] {
        let is_binding = path == BINDINGS;
        let mut chosen = if is_binding {
            json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {}, "spec": spec})
        } else {
            object(path, "p", &spec)
        };
        chosen["metadata"]["name"] = json!("chosen");
        chosen["metadata"]["labels"] = json!({label: "of-another", "kept": "yes"});
        let made = connection.send(Method::POST, path, &[JSON], chosen.to_string()).await;
        assert_eq!(made.code, 201, "{path}: {}", made.text());
        let made = made.json();
        assert_eq!(
            (id(&made, label), &made["metadata"]["labels"]["kept"]),
            (made["metadata"]["uid"].clone(), &json!("yes"))
        );
        let mut changed = made.clone();
        changed["metadata"]["labels"][label] = json!("of-another");
        let reply = connection.send(Method::PUT, &format!("{path}/chosen"), &[JSON], changed.to_string()).await;
        match is_binding {
            true => assert_eq!((reply.code.as_u16(), id(&reply.json(), label)), (200, id(&made, label))),
            false => assert_eq!(reply.code, 422, "{}", reply.text()),
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn wh7_a_binding_is_about_a_workload_of_its_own_namespace() {
    const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    let binding = |namespace: Value| {
        json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "web"},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": namespace}}})
    };
    let refused = connection.send(Method::POST, BINDINGS, &[JSON], binding(json!("other")).to_string()).await;
    assert_eq!((refused.code.as_u16(), fields(&refused)), (422, vec!["spec.resource.namespace".to_owned()]));
    for own in [json!("shop"), json!("")] {
        let path = format!("{BINDINGS}?dryRun=All");
        let made = connection.send(Method::POST, &path, &[JSON], binding(own).to_string()).await;
        assert_eq!(made.code, 201, "{}", made.text());
    }
    let mut absent = binding(json!("shop"));
    absent["spec"]["resource"].as_object_mut().unwrap().remove("namespace");
    assert_eq!(connection.send(Method::POST, BINDINGS, &[JSON], absent.to_string()).await.code, 201);
    let path = format!("{BINDINGS}/web");
    for (form, body) in [
        ("application/merge-patch+json", json!({"spec": {"resource": {"namespace": "other"}}})),
        ("application/json-patch+json", json!([{"op": "add", "path": "/spec/resource/namespace", "value": "other"}])),
    ] {
        let changed = connection.send(Method::PATCH, &path, &[("content-type", form)], body.to_string()).await;
        assert_eq!((changed.code.as_u16(), fields(&changed)), (422, vec!["spec.resource.namespace".to_owned()]));
    }
    server.stop().await;
}
