//! Objects as the versions of Karmada and KubeFleet write them (VERSIONING.md). Karmada's
//! definitions of 1.14 to 1.19 only gained fields, except that two values of `purgeMode` got other
//! names (D127). KubeFleet's of 0.1 to 0.3 only gained fields.

use http::Method;
use serde_json::{Value, json};

use crate::support::raw::{Connection, Reply};
use crate::support::server::TestServer;

const JSON: (&str, &str) = ("content-type", "application/json");
const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
const POLICIES: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const FLEET: &str = "/apis/placement.kubernetes-fleet.io";

async fn send(admin: &Connection, method: Method, path: &str, object: &Value) -> Reply {
    admin.send(method, path, &[JSON], object.to_string()).await
}

fn binding(name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": name, "namespace": "shop", "finalizers": ["karmada.io/binding-controller"]},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name,
                              "uid": "5a8ee1dc", "resourceVersion": "310"},
                 "replicas": 2, "schedulerName": "another-scheduler"},
    });
    object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    object
}

fn policy(name: &str, failover: Value, placement: Value) -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
           "metadata": {"name": name, "namespace": "shop"},
           "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}],
                    "propagateDeps": true, "failover": failover, "placement": placement}})
}

/// A field or name that a version adds to the previous one.
fn written_by(version: &str) -> Vec<(&'static str, Value)> {
    let eviction = |mode: &str| {
        json!({"clusters": [{"name": "member1", "replicas": 2}],
               "gracefulEvictionTasks": [{"fromCluster": "member2", "purgeMode": mode, "reason": "ApplicationFailure",
                                          "producer": "a-controller", "suppressDeletion": true}]})
    };
    let failover = |mode: &str, grace: Value| {
        let mut behavior = json!({"decisionConditions": {"tolerationSeconds": 300}, "purgeMode": mode});
        if !grace.is_null() {
            behavior["gracePeriodSeconds"] = grace;
        }
        json!({"application": behavior})
    };
    match version {
        "1.14" => vec![
            (POLICIES, policy("graciously", failover("Graciously", json!(600)), json!({}))),
            (POLICIES, policy("immediately", failover("Immediately", Value::Null), json!({}))),
            (BINDINGS, binding("graciously", eviction("Graciously"))),
            (BINDINGS, binding("immediately", eviction("Immediately"))),
            (BINDINGS, binding("behavior", json!({"failover": failover("Graciously", json!(600))}))),
            (
                CLUSTERS,
                json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m14"},
                       "spec": {"syncMode": "Pull", "provider": "a", "region": "r", "zones": ["z"]}}),
            ),
        ],
        "1.15" => vec![
            (BINDINGS, binding("gracefully", eviction("Gracefully"))),
            (
                BINDINGS,
                binding(
                    "components",
                    json!({"components": [
                        {"name": "jobmanager", "replicas": 1,
                         "replicaRequirements": {"resourceRequest": {"cpu": "1", "memory": "2Gi"}}},
                        {"name": "taskmanager", "replicas": 3,
                         "replicaRequirements": {"priorityClassName": "high",
                                                 "nodeClaim": {"nodeSelector": {"disk": "ssd"}}}}]}),
                ),
            ),
            (
                BINDINGS,
                binding(
                    "cluster",
                    json!({"failover": {"cluster": {"purgeMode": "Directly", "statePreservation":
                           {"rules": [{"aliasLabelName": "job-id", "jsonPath": "{.jobStatus.jobID}"}]}}}}),
                ),
            ),
        ],
        "1.17" => vec![(
            BINDINGS,
            binding(
                "affinity",
                json!({"placement": {"workloadAffinity": {"affinity": {"groupByLabelKey": "app"},
                                                          "antiAffinity": {"groupByLabelKey": "tier"}}},
                       "workloadAffinityGroups": {"affinityGroup": "app=web", "antiAffinityGroup": "tier=front"}}),
            ),
        )],
        "1.18" => vec![(
            BINDINGS,
            binding(
                "overflow",
                json!({"placement": {"clusterAffinities": [
                    {"affinityName": "own", "clusterNames": ["member1"],
                     "overflowAffinities": [{"affinityName": "rented", "clusterNames": ["member2"]}]}]}}),
            ),
        )],
        "1.19" => vec![(
            BINDINGS,
            binding(
                "assigned",
                json!({"components": [{"name": "jobmanager", "replicas": 1}],
                       "clusters": [{"name": "member1", "components": [{"name": "jobmanager", "replicas": 1}]}]}),
            ),
        )],
        unknown => panic!("{unknown} has no objects here"),
    }
}

/// Returns whether `found` contains all of `written`, possibly with further defaults.
fn missing(written: &Value, found: &Value, path: &str, faults: &mut Vec<String>) {
    match (written, found) {
        (Value::Object(written), Value::Object(found)) => {
            for (name, value) in written {
                missing(value, found.get(name).unwrap_or(&Value::Null), &format!("{path}.{name}"), faults);
            }
        }
        (Value::Array(written), Value::Array(found)) if written.len() == found.len() => {
            for (at, (value, found)) in written.iter().zip(found).enumerate() {
                missing(value, found, &format!("{path}[{at}]"), faults);
            }
        }
        (written, found) if written == found => {}
        (written, found) => faults.push(format!("{path}: {written} became {found}")),
    }
}

/// Returns a placement of the namespace `shop` with this strategy.
fn placement(version: &str, name: &str, term: Value, more: Value) -> Value {
    let mut object = json!({
        "apiVersion": format!("placement.kubernetes-fleet.io/{version}"), "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
                 "policy": {"placementType": "PickN", "numberOfClusters": 2, "tolerations": [{"operator": "Exists"}]}},
    });
    object["spec"]["resourceSelectors"][0].as_object_mut().unwrap().extend(term.as_object().unwrap().clone());
    object["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// A field that a version of KubeFleet adds to the previous one.
fn written_by_fleet(version: &str) -> Vec<(String, Value)> {
    let placements = |version: &str| format!("{FLEET}/{version}/clusterresourceplacements");
    let careful = json!({"type": "ServerSideApply", "serverSideApplyConfig": {"force": true},
                         "comparisonOption": "FullComparison", "whenToApply": "IfNotDrifted",
                         "whenToTakeOver": "IfNoDiff", "allowCoOwnership": true});
    match version {
        "0.1" => vec![
            (
                placements("v1"),
                placement(
                    "v1",
                    "old",
                    json!({}),
                    json!({"revisionHistoryLimit": 5, "strategy": {
                    "type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1},
                    "applyStrategy": {"type": "ServerSideApply", "serverSideApplyConfig": {"force": true}}}}),
                ),
            ),
            (
                placements("v1beta1"),
                placement(
                    "v1beta1",
                    "careful",
                    json!({"selectionScope": "NamespaceOnly"}),
                    json!({
                    "statusReportingScope": "NamespaceAccessible",
                    "strategy": {"type": "External", "applyStrategy": careful,
                                 "deleteStrategy": {"propagationPolicy": "Abandon"},
                                 "reportBackStrategy": {"type": "Mirror", "destination": "WorkAPI"}}}),
                ),
            ),
        ],
        "0.2" => vec![(
            format!("{FLEET}/v1/clusterresourcebindings"),
            json!({"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourceBinding",
                   "metadata": {"name": "web-edge-1"},
                   "spec": {"state": "Bound", "targetCluster": "edge-1", "resourceSnapshotName": "web-0-snapshot",
                            "schedulingPolicySnapshotName": "web-0", "applyStrategy": careful,
                            "clusterDecision": {"clusterName": "edge-1", "selected": true, "reason": "picked"}}}),
        )],
        "0.3" => vec![
            (
                placements("v1"),
                placement(
                    "v1",
                    "scoped",
                    json!({"selectionScope": "NamespaceWithResourceSelectors"}),
                    json!({
                    "statusReportingScope": "NamespaceAccessible", "strategy": {"applyStrategy": careful}}),
                ),
            ),
            (
                "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters".to_owned(),
                json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
                       "metadata": {"name": "edge-1"},
                       "spec": {"identity": {"kind": "ServiceAccount", "name": "edge-1", "namespace": "fleet-system"},
                                "deleteOptions": {"validationMode": "Skip"}, "heartbeatPeriodSeconds": 15}}),
            ),
        ],
        unknown => panic!("{unknown} has no objects here"),
    }
}

/// Creates the object, reads it, and writes it back, as a controller of its version does. Returns
/// rejections and losses.
async fn round_trip(admin: &Connection, version: &str, path: &str, object: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let name = object["metadata"]["name"].as_str().unwrap();
    let shown = format!("{version} {path}/{name}");
    let created = send(admin, Method::POST, &format!("{path}?fieldValidation=Strict"), object).await;
    if created.code != 201 {
        return vec![format!("{shown}: {}", created.json()["message"])];
    }
    let own = format!("{path}/{name}");
    let found = admin.send(Method::GET, &own, &[], "").await.json();
    missing(&object["spec"], &found["spec"], &shown, &mut faults);
    let put = send(admin, Method::PUT, &format!("{own}?fieldValidation=Strict"), &found).await;
    if put.code != 200 {
        faults.push(format!("{shown}, written back: {}", put.json()["message"]));
        return faults;
    }
    missing(&object["spec"], &put.json()["spec"], &format!("{shown}, written back"), &mut faults);
    faults
}

#[tokio::test]
async fn objects_of_each_version_are_kept_as_they_are_written() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let mut faults = Vec::new();
    let mut tried = 0;
    for version in ["1.14", "1.15", "1.17", "1.18", "1.19"] {
        for (path, object) in written_by(version) {
            tried += 1;
            faults.extend(round_trip(&admin, version, path, &object).await);
        }
    }
    for version in ["0.1", "0.2", "0.3"] {
        for (path, object) in written_by_fleet(version) {
            tried += 1;
            faults.extend(round_trip(&admin, version, &path, &object).await);
        }
    }
    assert_eq!((tried, faults.join("\n")), (17, String::new()));
    server.stop().await;
}

/// The agent of a member of KubeFleet 0.3 reports the namespaces that it manages.
#[tokio::test]
async fn a_member_of_kubefleet_0_3_reports_its_namespaces() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let mut versions = written_by_fleet("0.3");
    let (path, member) = versions.pop().unwrap();
    assert_eq!(send(&admin, Method::POST, &path, &member).await.code, 201);
    let own = format!("{path}/edge-1");
    let mut found = admin.send(Method::GET, &own, &[], "").await.json();
    found["status"] = json!({"namespaces": {"shop": "team-a"}});
    let put = send(&admin, Method::PUT, &format!("{own}/status?fieldValidation=Strict"), &found).await;
    assert_eq!((put.code.as_u16(), &put.json()["status"]["namespaces"]["shop"]), (200, &json!("team-a")));
    server.stop().await;
}

/// Upstream's default of the present name applies to the old one, too.
#[tokio::test]
async fn d127_the_old_name_of_gracefully_needs_a_grace_period() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let behavior =
        json!({"application": {"decisionConditions": {"tolerationSeconds": 300}, "purgeMode": "Graciously"}});
    let created = send(&admin, Method::POST, POLICIES, &policy("web", behavior, json!({}))).await;
    let application = &created.json()["spec"]["failover"]["application"];
    assert_eq!(
        (created.code.as_u16(), &application["purgeMode"], &application["gracePeriodSeconds"]),
        (201, &json!("Graciously"), &json!(600))
    );
    let at_once =
        json!({"application": {"decisionConditions": {}, "purgeMode": "Immediately", "gracePeriodSeconds": 60}});
    let refused = send(&admin, Method::POST, POLICIES, &policy("db", at_once, json!({}))).await;
    assert_eq!(refused.code, 422, "{}", refused.json());
    server.stop().await;
}

/// A version later than the known ones: its fields cause warnings, and are dropped.
#[tokio::test]
async fn a_field_of_a_later_version_is_told_of() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let later = binding("later", json!({"failover": {"region": {"purgeMode": "Gracefully"}}}));
    let strict = send(&admin, Method::POST, &format!("{BINDINGS}?fieldValidation=Strict"), &later).await;
    assert_eq!(strict.code, 400);
    assert!(strict.json()["message"].as_str().unwrap().contains("unknown field \"spec.failover.region\""));
    let warned = send(&admin, Method::POST, BINDINGS, &later).await;
    assert_eq!(
        (warned.code.as_u16(), warned.header("warning")),
        (201, Some(r#"299 - "unknown field \"spec.failover.region\"""#))
    );
    assert_eq!(warned.json()["spec"]["failover"].get("region"), None);
    let value = binding(
        "value",
        json!({"gracefulEvictionTasks": [{"fromCluster": "member2", "purgeMode": "Someday",
                                         "reason": "r", "producer": "p"}]}),
    );
    let refused = send(&admin, Method::POST, BINDINGS, &value).await;
    let causes = refused.json()["details"]["causes"].clone();
    assert_eq!((refused.code.as_u16(), &causes[0]["field"]), (422, &json!("spec.gracefulEvictionTasks[0].purgeMode")));
    server.stop().await;
}
