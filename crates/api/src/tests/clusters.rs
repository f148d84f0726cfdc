//! Tests of Clusters: validation, resource models and defaults.

use super::*;

#[test]
fn clusters_are_refused_as_upstream_refuses_them() {
    let cluster = |spec: Value| json!({"metadata": {"name": "m1"}, "spec": spec});
    assert_eq!(refused::<Cluster>(cluster(json!({}))), ["spec.syncMode: Required value"]);
    assert_eq!(
        refused::<Cluster>(json!({"metadata": {"name": "M1"}, "spec": {"syncMode": "Mail"}}))
            .iter()
            .map(|fault| fault.split(" must").next().unwrap())
            .collect::<Vec<_>>(),
        [
            "metadata.name: Invalid value: \"M1\": a lowercase RFC 1123 label",
            "spec.syncMode: Unsupported value: \"Mail\": supported values: \"Pull\", \"Push\"",
        ]
    );
    assert_eq!(
        refused::<Cluster>(json!({"metadata": {"name": "m".repeat(49)}, "spec": {"syncMode": "Push"}})),
        [format!("metadata.name: Invalid value: \"{}\": must be no more than 48 characters", "m".repeat(49))]
    );
    let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    assert_eq!(
        refused::<Cluster>(cluster(json!({"syncMode": "Push", "taints": [taint("a"), taint("a")]}))),
        [
            "spec.taints[1]: Duplicate value: {\"key\":\"a\",\"effect\":\"NoSchedule\"}: taints must be unique by key and effect pair"
        ]
    );
    assert_eq!(
        refused::<Cluster>(cluster(json!({"syncMode": "Push", "taints": [{"key": "a", "effect": "Never"}]}))),
        [
            "spec.taints[0].effect: Unsupported value: \"Never\": supported values: \"NoExecute\", \"NoSchedule\", \"PreferNoSchedule\""
        ]
    );
    for (endpoint, fault) in [
        ("m1:6443", "host must be provided; desired format: hostname, hostname:port, IP or IP:port"),
        ("https://me@m1", "user information is not permitted in the URL"),
        ("https://m1#x", "fragments are not permitted in the URL"),
        ("https://m1?x", "query parameters are not permitted in the URL"),
    ] {
        let spec = json!({"syncMode": "Push", "apiEndpoint": endpoint});
        assert_eq!(
            refused::<Cluster>(cluster(spec)),
            [format!("spec.apiEndpoint: Invalid value: {endpoint:?}: {fault}")]
        );
    }
    accepted::<Cluster>(cluster(json!({"syncMode": "Pull", "apiEndpoint": "https://10.0.0.1:6443"})));
    let mut object = cluster(json!({"syncMode": "Push"}));
    object["status"] = json!({"resourceSummary": {"allocated": {"cpu": "lots"}}});
    let faults = refused::<Cluster>(object);
    assert!(
        faults[0].starts_with("status.resourceSummary.allocated[cpu]: Invalid value: \"lots\": quantities must match")
    );
    let spec = json!({"syncMode": "Push", "proxyURL": "ftp://p", "secretRef": {"name": "s"}});
    assert_eq!(
        refused::<Cluster>(cluster(spec)),
        [
            "spec.secretRef.namespace: Required value",
            "spec.proxyURL: Invalid value: \"ftp://p\": unsupported scheme \"ftp\", must be http, https, or socks5",
        ]
    );
}

#[test]
fn classes_of_nodes_go_up_without_a_gap() {
    let cluster =
        |models: Value| json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push", "resourceModels": models}});
    let range = |name: &str, min: Value, max: Value| json!({"name": name, "min": min, "max": max});
    let stored = accepted::<Cluster>(cluster(json!([
        {"grade": 1, "ranges": [range("cpu", json!(2), json!(4))]},
        {"grade": 0, "ranges": [range("cpu", json!("1"), json!("2"))]}])));
    assert_eq!(
        stored["spec"]["resourceModels"],
        json!([{"grade": 0, "ranges": [range("cpu", json!("0"), json!("2"))]},
            {"grade": 1, "ranges": [range("cpu", json!("2"), json!("9223372036854775807"))]}])
    );
    let path = "spec.resourceModels[1]";
    assert_eq!(
        refused::<Cluster>(cluster(json!([
            {"grade": 0, "ranges": [range("cpu", json!(0), json!(2))]},
            {"grade": 0, "ranges": [range("gpu", json!(3), json!(4))]},
        ]))),
        [
            format!("{path}.grade: Invalid value: 0: The grade of each models should not be the same"),
            format!(
                "{path}.ranges[0].name: Unsupported value: \"gpu\": supported values: \"cpu\", \"ephemeral-storage\", \
                 \"memory\", \"storage\""
            ),
            format!(
                "{path}.ranges[0].name: Invalid value: \"gpu\": The resource types of each models should be the same"
            ),
        ]
    );
    let gap = refused::<Cluster>(cluster(json!([
        {"grade": 0, "ranges": [range("cpu", json!(0), json!(2))]},
        {"grade": 1, "ranges": [range("cpu", json!(3), json!(4))]}])));
    assert_eq!(
        gap,
        [format!(
            "{path}.ranges[0].min: Invalid value: \"3\": Model intervals for resources must be contiguous and non-overlapping"
        )]
    );
}

#[test]
fn bk6_a_new_cluster_gets_nine_classes_of_nodes_and_an_old_one_none() {
    let cluster = || json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push"}});
    let stored = accepted::<Cluster>(cluster());
    let models = stored["spec"]["resourceModels"].as_array().unwrap();
    let shown = |model: &Value| {
        let range = |range: &Value| {
            let text = |name: &str| range[name].as_str().unwrap().to_owned();
            format!("{} {} to {}", text("name"), text("min"), text("max"))
        };
        let ranges: Vec<String> = model["ranges"].as_array().unwrap().iter().map(range).collect();
        format!("{}: {}", model["grade"], ranges.join(", "))
    };
    assert_eq!(
        models.iter().map(shown).collect::<Vec<_>>(),
        [
            "0: cpu 0 to 1, memory 0 to 4Gi",
            "1: cpu 1 to 2, memory 4Gi to 16Gi",
            "2: cpu 2 to 4, memory 16Gi to 32Gi",
            "3: cpu 4 to 8, memory 32Gi to 64Gi",
            "4: cpu 8 to 16, memory 64Gi to 128Gi",
            "5: cpu 16 to 32, memory 128Gi to 256Gi",
            "6: cpu 32 to 64, memory 256Gi to 512Gi",
            "7: cpu 64 to 128, memory 512Gi to 1Ti",
            "8: cpu 128 to 9223372036854775807, memory 1Ti to 9223372036854775807",
        ]
    );
    let mut empty = cluster();
    empty["spec"]["resourceModels"] = json!([]);
    assert_eq!(accepted::<Cluster>(empty)["spec"]["resourceModels"], stored["spec"]["resourceModels"]);
    let old = cluster();
    let updated = admit::<Cluster>(cluster(), Some(&old)).expect("accepted");
    assert_eq!(updated["spec"].get("resourceModels"), None);
}

#[test]
fn clusters_get_the_defaults_of_upstream() {
    let stored = accepted::<Cluster>(json!({"metadata": {"name": "m1"},
        "spec": {"syncMode": "Push", "zone": "a", "taints": [
            {"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "NoSchedule"}]},
        "status": {"resourceSummary": {"allocatable": {"cpu": 8, "memory": "32Gi"}}}}));
    assert_eq!(stored["spec"]["zones"], json!(["a"]));
    assert_eq!(stored["spec"].get("zone"), None);
    assert_eq!(stored["spec"]["taints"][0]["timeAdded"], "2024-04-17T15:04:05Z");
    assert_eq!(stored["spec"]["taints"][1].get("timeAdded"), None);
    assert_eq!(stored["status"]["resourceSummary"]["allocatable"], json!({"cpu": "8", "memory": "32Gi"}));
}
