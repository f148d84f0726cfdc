//! Several replicas, by the chart and by the overlay for kustomize.

use serde_json::{Value, json};

use super::chart::{by_name, render};
use super::{check_kind, print_config, tools, yaml};

const URL: &str =
    "postgres://ballast@ballast-db-rw/ballast?sslmode=verify-full&sslrootcert=/etc/ballast/database/ca.crt";

fn shared() -> Value {
    json!({
        "replicas": 3, "certificates": {"source": "cert-manager"},
        "database": {"url": URL, "passwordSecret": {"name": "ballast-database"},
            "caSecret": {"name": "ballast-database"}},
    })
}

#[test]
fn replicas_share_a_database_and_nodes_can_drain() {
    let rendered = render("placement", shared());
    rendered.iter().for_each(check_kind);
    let rendered = by_name(rendered);
    assert!(!rendered.contains_key("PersistentVolumeClaim ballast-data"), "the database is elsewhere");
    let deployment = &rendered["Deployment ballast"];
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(deployment["spec"]["strategy"]["type"], "RollingUpdate");
    let config = print_config(deployment);
    for shown in [
        URL,
        "database-password-file: /etc/ballast/database/password",
        // The database elects the leader.
        "leader-elect: false",
        "leader-lease-seconds: 5",
        // Each pod uses its own address.
        "advertise-address: fd00::7",
    ] {
        assert!(config.contains(shown), "{shown:?} is missing in:\n{config}");
    }
    let pod = &deployment["spec"]["template"]["spec"];
    let apart = &pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    let places: Vec<&Value> =
        apart.as_array().unwrap().iter().map(|it| &it["podAffinityTerm"]["topologyKey"]).collect();
    assert_eq!(places, ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]);
    for term in apart.as_array().unwrap() {
        assert_eq!(term["podAffinityTerm"]["labelSelector"]["matchLabels"], *labels);
    }
    let files = &pod["volumes"].as_array().unwrap().iter().find(|it| it["name"] == "database").unwrap()["projected"];
    let paths: Vec<&Value> =
        files["sources"].as_array().unwrap().iter().map(|it| &it["secret"]["items"][0]["path"]).collect();
    assert_eq!(paths, ["password", "ca.crt"], "the names that the flags say");
    assert_eq!(rendered["PodDisruptionBudget ballast"]["spec"]["maxUnavailable"], 1);
    let ports = rendered["NetworkPolicy ballast"]["spec"]["egress"][0]["ports"].clone();
    for port in [5432, 7443] {
        assert!(ports.as_array().unwrap().iter().any(|it| it["port"] == port), "{port} is not let out: {ports}");
    }
}

#[test]
fn a_database_without_a_secret_and_an_affinity_of_ones_own_are_taken_as_they_are() {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}});
    let values = json!({"replicas": 2, "database": {"url": "postgres://ballast@db/ballast"}, "affinity": affinity});
    let rendered = render("placement", values);
    rendered.iter().for_each(check_kind);
    let rendered = by_name(rendered);
    let pod = &rendered["Deployment ballast"]["spec"]["template"]["spec"];
    assert_eq!(pod["affinity"], affinity);
    assert!(!pod["volumes"].to_string().contains("database"), "{}", pod["volumes"]);
    assert!(!print_config(&rendered["Deployment ballast"]).contains("/etc/ballast/database"));
}

#[test]
fn the_overlay_says_what_the_chart_says_of_the_same_values() {
    let Some(built) = tools::kustomized("replicas") else { return };
    let (overlay, mut chart) = (by_name(built), by_name(render("ballast-system", shared())));
    chart.retain(|name, _| overlay.contains_key(name));
    let differs: Vec<&String> = overlay
        .iter()
        .filter(|(name, it)| chart.get(*name).map(sorted) != Some(sorted(it)))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(differs, ["Namespace ballast-system"], "the chart leaves the namespace to Helm");
}

/// Kubernetes finds these by name, and kustomize inserts its additions first.
fn sorted(manifest: &Value) -> Value {
    let mut manifest = manifest.clone();
    for list in [
        "/spec/template/spec/volumes",
        "/spec/template/spec/containers/0/env",
        "/spec/template/spec/containers/0/volumeMounts",
    ] {
        if let Some(Value::Array(items)) = manifest.pointer_mut(list) {
            items.sort_by_key(|it| it["name"].to_string());
        }
    }
    manifest
}

#[test]
fn the_overlay_starts_from_the_manifests() {
    let overlay = &yaml(&super::read("replicas/kustomization.yaml"))[0];
    assert_eq!(overlay["resources"], json!(["../manifests"]));
}
