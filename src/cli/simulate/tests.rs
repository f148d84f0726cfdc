//! Tests of the output of `simulate` for people.

use super::*;

fn run(text: &str, output: Output, trace: bool) -> (String, usize) {
    let mut out = Vec::new();
    let options =
        Options { rules: Rules::Default, output, trace, check: false, patches: Vec::new(), files: Vec::new() };
    let tally = simulate(text, &options, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), tally.malformed)
}

const MANIFESTS: &str = r#"
# Two clusters and a deployment.
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: near}
spec: {syncMode: Push}
status:
  apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}]
  resourceSummary: {allocatable: {cpu: 8, memory: 16Gi, pods: 110}}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: far}
spec:
  syncMode: Push
  taints: [{key: maintenance, effect: NoSchedule}]
status:
  apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}]
  resourceSummary: {allocatable: {cpu: 8, memory: 16Gi, pods: 110}}
---
apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata: {name: web-deployment, namespace: shop, generation: 1}
spec:
  resource: {apiVersion: apps/v1, kind: Deployment, name: web, namespace: shop}
  replicas: 3
  replicaRequirements: {resourceRequest: {cpu: 500m}}
  placement:
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference: {dynamicWeight: AvailableReplicas}
"#;

#[test]
fn manifests_are_decided_binding_by_binding() {
    let (out, malformed) = run(MANIFESTS, Output::Json, false);
    assert_eq!(malformed, 0, "{out}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["id"], "shop/web-deployment");
    assert_eq!(answer["clusters"], json!([{"name": "near", "replicas": 3}]));
    assert!(answer.get("trace").is_none());
}

#[test]
fn a_trace_tells_why_each_cluster_is_out() {
    let (out, _) = run(MANIFESTS, Output::Json, true);
    let answer: Value = serde_json::from_str(&out).unwrap();
    let clusters = &answer["trace"]["attempts"][0]["clusters"];
    assert_eq!(clusters[0]["name"], "far");
    assert_eq!(clusters[0]["out"], "cluster(s) had untolerated taint {maintenance:NoSchedule}");
    assert_eq!((&clusters[1]["free"], &clusters[1]["replicasAfter"]), (&json!(16), &json!(3)));
    assert_eq!(clusters[1]["freeFrom"], "resource summary");
}

#[test]
fn a_table_reads_from_left_to_right() {
    let (out, _) = run(MANIFESTS, Output::Table, false);
    let expected = "\
shop/web-deployment (Steady): Success: Binding has been scheduled successfully.
  CLUSTER  SCORE  FREE  FROM              WEIGHT  BEFORE  AFTER  WHY NOT
  far          -     -  -                      -       0      0  cluster(s) had untolerated taint {maintenance:NoSchedule}
  near         0    16  resource summary      16       0      3

";
    assert_eq!(out, expected);
}

#[test]
fn a_malformed_line_is_answered_and_stops_nobody() {
    let lines = concat!(
        r#"{"id": "a", "clusters": 7, "binding": {}}"#,
        "\n",
        r#"{"id": "b", "clusters": [], "binding": {"spec": {"resource": {"apiVersion": "v1", "kind": "X", "name": "x"}}}}"#,
        "\n",
        r#"{"id": "c", "clusters": ["#,
        "\n{}\n",
    );
    let (out, malformed) = run(lines, Output::Json, false);
    let answers: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(malformed, 3, "{out}");
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!("a"), &json!("b"), &json!("c"), &Value::Null]);
    assert_eq!(answers[1]["skip"], "noPlacement");
}

#[test]
fn lists_of_objects_and_json_streams_are_manifests_too() {
    let stream = r#"{"apiVersion": "v1", "kind": "List", "items": []}
{"apiVersion": "v1",
 "kind": "ConfigMap"}"#;
    assert_eq!(run(stream, Output::Json, false), (String::new(), 0));
    let (out, malformed) = run("kind: [", Output::Json, false);
    assert_eq!(malformed, 1);
    assert!(out.contains("document 1"), "{out}");
}

#[test]
fn region_weights_are_in_the_table_and_in_the_trace() {
    let places = "    spreadConstraints: [{spreadByField: region, minGroups: 1, maxGroups: 1}]\n    replicaScheduling:";
    let text = MANIFESTS
        .replace("spec: {syncMode: Push}", "spec: {syncMode: Push, region: north}")
        .replace("  taints: [{key: maintenance, effect: NoSchedule}]", "  region: south")
        .replace("    replicaScheduling:", places);
    let (out, _) = run(&text, Output::Table, false);
    let expected = "\
shop/web-deployment (Steady): Success: Binding has been scheduled successfully.
     REGION  CLUSTERS  WEIGHT
  *  north          1    3000
     south          1    3000
  CLUSTER  SCORE  FREE  FROM              WEIGHT  BEFORE  AFTER  WHY NOT
  far          0    16  resource summary       -       0      0  region \"south\" was not chosen
  near         0    16  resource summary      16       0      3

";
    assert_eq!(out, expected);
    let (out, _) = run(&text, Output::Json, true);
    let answer: Value = serde_json::from_str(&out).unwrap();
    let attempt = &answer["trace"]["attempts"][0];
    assert_eq!((&answer["trace"]["mode"], &attempt["spreadBy"]), (&json!("Steady"), &json!("region")));
    assert_eq!(attempt["groups"][0], json!({"name": "north", "clusters": 1, "weight": 3000, "chosen": true}));
    let filters: Vec<&str> =
        attempt["clusters"][0]["filters"].as_array().unwrap().iter().filter_map(|f| f["filter"].as_str()).collect();
    let all = [
        "APIEnablement",
        "TaintToleration",
        "ClusterAffinity",
        "SpreadConstraint",
        "ClusterEviction",
        "TolerationSeconds",
        "WorkloadAffinity",
        "WorkloadAntiAffinity",
    ];
    assert_eq!(filters, all, "each filter has its say");
}

#[test]
fn r42_a_trace_names_the_mode_steady_or_fresh() {
    let mode = |text: &str| {
        let (out, _) = run(text, Output::Json, true);
        serde_json::from_str::<Value>(&out).unwrap()["trace"]["mode"].clone()
    };
    assert_eq!(mode(MANIFESTS), "Steady");
    assert_eq!(mode(&MANIFESTS.replace("  replicas: 3", "  replicas: 3\n  forceRescheduling: true")), "Fresh");
}

#[test]
fn r122_the_algorithm_runs_once_for_each_group_until_one_can_take_it() {
    let groups = r#"    clusterAffinities:
    - {affinityName: shanghai, clusterNames: [nowhere]}
    - {affinityName: beijing, clusterNames: [near]}
    - {affinityName: hongkong, clusterNames: [far]}
    replicaScheduling:"#;
    let (out, _) = run(&MANIFESTS.replace("    replicaScheduling:", groups), Output::Json, true);
    let answer: Value = serde_json::from_str(&out).unwrap();
    let attempts = answer["trace"]["attempts"].as_array().unwrap();
    let tried: Vec<&Value> = attempts.iter().map(|attempt| &attempt["group"]).collect();
    assert_eq!(tried, ["shanghai", "beijing"], "hongkong is never looked at");
    assert_eq!((&answer["affinityName"], &attempts[0]["failure"]), (&json!("beijing"), &json!("no cluster fits")));
}
