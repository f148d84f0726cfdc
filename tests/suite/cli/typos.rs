//! Typing errors at the command line and in files: none of them makes a command do more, or report
//! success.

use std::path::Path;

use serde_json::{Value, json};

use super::operator::{after_an_outage, ballast, text, told};
use crate::process::{ServerProcess, wait};

const CLUSTER_REBALANCES: &str = "/apis/ballast.dev/v1alpha1/clusterrebalances";

fn write(folder: &Path, name: &str, object: &Value) {
    std::fs::write(folder.join(name), object.to_string()).unwrap();
}

fn rebalance(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_misspelt_file_is_refused_and_nothing_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    for (spec, words) in [
        (
            json!({"select": [{"displacd": true}]}),
            r#"spec.select[0].displacd: unknown field; the nearest known field is "displaced""#,
        ),
        (json!({"select": [{"displaced": true}], "rollout": {"stratgy": "SurgeFirst"}}), "spec.rollout.stratgy"),
        (json!({"select": [{"displaced": true}], "expectPln": "x"}), r#"the nearest known field is "expectPlan""#),
        (json!({"select": [{}]}), "write all: true"),
        (json!({"select": [{"labelSelector": {}}]}), "all: true"),
        (json!({"select": [{"displaced": "yes"}]}), "spec.select[0].displaced in body must be of type boolean"),
    ] {
        write(folder.path(), "f.json", &rebalance("home", spec.clone()));
        for command in ["rebalance --yes --wait", "rebalance --dry-run", "preview"] {
            let refused = told(folder.path(), &format!("{command} -f f.json"), 2);
            assert!(refused.contains(words) && !refused.contains(" line "), "{spec}: {refused}");
        }
    }
    let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "nosuch", "namespace": "default"});
    let trigger = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": {"name": "a"}, "spec": {"workloads": [workload], "ttlSecondsAfterFinishd": 5}});
    write(folder.path(), "f.json", &trigger);
    let refused = told(folder.path(), "preview -f f.json", 2);
    assert!(
        refused.contains(
            r#"spec.ttlSecondsAfterFinishd: unknown field; the nearest known field is "ttlSecondsAfterFinished""#
        ),
        "{refused}"
    );
    assert_eq!(client.get(CLUSTER_REBALANCES).await.unwrap()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_refused_where_it_does_not_scope() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    write(
        folder.path(),
        "f.json",
        &rebalance("home", json!({"select": [{"displaced": true}], "approval": "Required"})),
    );
    client
        .post(CLUSTER_REBALANCES, &rebalance("all", json!({"select": [{"all": true}], "approval": "Required"})))
        .await
        .unwrap();
    for line in [
        "drain member1 -n shop --yes",
        "cordon member1 -n shop",
        "uncordon member1 -n shop",
        "evictions -n shop --hold --for 1m",
        "evictions -n shop --reset",
        "preview -f f.json -n shop",
        "rebalance -f f.json -n shop --yes",
        "abort clusterrebalance/all -n shop",
    ] {
        let refused = told(folder.path(), line, 2);
        assert!(refused.contains("-n shop: ") && refused.contains("leave -n out"), "{line}: {refused}");
    }
    let refused = told(folder.path(), "abort all -n shop", 2);
    assert!(refused.contains("no rebalance all in namespace shop"), "{refused}");
    told(folder.path(), "evictions -n default", 0);
    let limits = client.get("/apis/ballast.dev/v1alpha1/evictionlimits").await.unwrap();
    assert_eq!(limits["items"], json!([]));
    assert!(told(folder.path(), "abort all", 0).contains("clusterrebalance/all aborted"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_name_that_selects_nothing_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    let near = r#"no binding in namespace "default" is of kind "Deploymnt"; the nearest known name is "Deployment""#;
    let refused = told(folder.path(), "rebalance --kind Deploymnt --yes --wait", 2);
    assert!(refused.contains("nothing is selected: ") && refused.contains(near), "{refused}");
    // Exactly once, with its last quote.
    assert_eq!(refused.matches(&format!("Warning: spec.select[0].kind: {near}\n")).count(), 1, "{refused}");
    let refused = told(folder.path(), "rebalance --policy default/nosuch --yes --wait", 2);
    assert!(refused.contains(r#"there is no PropagationPolicy "default/nosuch""#), "{refused}");
    let refused = told(folder.path(), "rebalance --displaced -n defalt --yes --wait", 2);
    assert!(refused.contains(r#"no binding is in namespace "defalt""#), "{refused}");
    write(folder.path(), "f.json", &rebalance("typo", json!({"select": [{"kind": "Deploymnt"}]})));
    let refused = told(folder.path(), "rebalance -f f.json --yes --wait", 2);
    assert!(refused.contains("nothing is selected: ") && refused.contains("Deploymnt"), "{refused}");
    for (line, name) in [("displaced --kind Deploymnt", "Deploymnt"), ("displaced --policy default/nosuch", "nosuch")] {
        let done = ballast(folder.path(), line);
        let warned = text(&done.stderr);
        assert_eq!(warned.matches("Warning: ").count(), 1, "{warned}");
        assert!(done.status.success() && warned.contains(name), "{line}: {warned}");
    }
    assert!(
        told(folder.path(), "rebalance --drifted --kind StatefulSet --yes --wait", 0).contains("Nothing would move")
    );

    // A client of the API recognizes it by a condition.
    client.post(CLUSTER_REBALANCES, &rebalance("typo", json!({"select": [{"kind": "Deploymnt"}]}))).await.unwrap();
    client
        .post(CLUSTER_REBALANCES, &rebalance("none", json!({"select": [{"drifted": true, "kind": "Job"}]})))
        .await
        .unwrap();
    let condition = |object: &Value, kind: &str| {
        let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let of_kind = all.into_iter().find(|it| it["type"] == kind).unwrap_or_default();
        format!("{} {}", of_kind["status"].as_str().unwrap_or_default(), of_kind["reason"].as_str().unwrap_or_default())
    };
    for (name, reason) in [("typo", "False UnknownNames"), ("none", "False NothingMatches")] {
        let path = format!("{CLUSTER_REBALANCES}?fieldSelector=metadata.name%3D{name}");
        wait(&client, &path, |it| condition(it, "Completed") == "True NothingSelected").await;
        let object = client.get(&format!("{CLUSTER_REBALANCES}/{name}")).await.unwrap();
        assert_eq!(condition(&object, "Selected"), reason);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_number_is_no_hint_for_a_drain() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    for line in ["drain member9 --yes", "cordon member9"] {
        let refused = told(folder.path(), line, 2);
        assert!(refused.contains("no cluster member9") && !refused.contains("did you mean"), "{refused}");
    }
    for line in ["drain membr1 --yes", "cordon membr1"] {
        assert!(told(folder.path(), line, 2).contains("did you mean member1?"));
    }
    client
        .post(CLUSTER_REBALANCES, &rebalance("home-1", json!({"select": [{"all": true}], "approval": "Required"})))
        .await
        .unwrap();
    for line in ["abort home-2", "undo home-2 --yes"] {
        let refused = told(folder.path(), line, 2);
        assert!(refused.contains("no rebalance home-2") && !refused.contains("did you mean"), "{refused}");
    }
    assert!(told(folder.path(), "abort hom-1", 2).contains("did you mean home-1?"));
}
