//! Requirements of the seed documents about the API, through the built server over HTTPS.

use ballast::api::karmada::work::v1alpha2::PENDING_PASS;
use ballast::node::certs::Files;
use http::Method;
use serde_json::{Value, json};

use crate::process::{ServerProcess, WITHIN, wait};
use crate::support::objects::{self, BINDINGS, CLUSTERS, REBALANCERS, TASKS, binding, rebalancer, task};
use crate::support::raw::{Raw, Reply};

const JSON: (&str, &str) = ("content-type", "application/json");

/// A running server, a client of its administrator, and their folder.
struct Running {
    admin: Raw,
    server: ServerProcess,
    _folder: tempfile::TempDir,
}

impl Running {
    fn start() -> Running {
        let folder = tempfile::tempdir().unwrap();
        let server = ServerProcess::start(folder.path(), &[]);
        let admin = Raw::admin(server.address, &Files::in_dir(&folder.path().join("certs")));
        Running { admin, server, _folder: folder }
    }

    async fn post(&self, path: &str, object: &Value) -> Reply {
        self.admin.send(Method::POST, path, &[JSON], object.to_string()).await
    }

    async fn put(&self, path: &str, object: &Value) -> Reply {
        self.admin.send(Method::PUT, path, &[JSON], object.to_string()).await
    }
}

/// Otherwise memory that was released would come back while the server is idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kernel_makes_no_huge_pages_of_the_servers_memory() {
    let running = Running::start();
    // Kernels before 5.0 do not report it.
    assert_eq!(running.server.kernel_says("THP_enabled").unwrap_or("0".to_owned()), "0");
}

/// The server re-executes itself with the option, as the same process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_allocator_keeps_free_pages_longer_than_it_does_by_itself() {
    const OPTION: &str = "MIMALLOC_PURGE_DELAY";
    let wanted = std::env::var(OPTION).unwrap_or("100".to_owned());
    assert_eq!(Running::start().server.variable(OPTION), Some(wanted));
}

/// Otherwise an alert would miss the first failure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_not_failed_yet_has_failed_no_times() {
    let running = Running::start();
    let metrics = running.admin.get("/metrics").await;
    for line in
        ["ballast_trust_reloads_total{result=\"failure\"} 0", "ballast_store_compactions_total{result=\"failure\"} 0"]
    {
        assert!(metrics.text().lines().any(|it| it == line), "{line} is missing in:\n{}", metrics.text());
    }
}

/// Returns the value of a series, 0 if it is missing.
fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
}

/// Events are kept for an hour: timers like that must not look like a backlog.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_server_has_no_queue_and_its_timers_are_counted_apart() {
    let running = Running::start();
    let mut web = binding("web");
    web["spec"]["placement"] = json!({});
    assert_eq!(running.post(BINDINGS, &web).await.code, 201);
    let seen = async {
        loop {
            let metrics = running.admin.get("/metrics").await;
            let of = |gauge: &str| value(metrics.text(), &format!("ballast_worker_{gauge}{{worker=\"events\"}}"));
            if of("queue_waiting") > 0.0 && of("queue_depth") == 0.0 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WITHIN, seen).await.expect("the events of the failed pass wait for their end");
}

/// A rejection by a quota is a decision, and unschedulable until the quota has capacity.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_quota_refuses_is_counted_as_unschedulable_until_there_is_room() {
    let running = Running::start();
    let cluster = objects::cluster("m1");
    assert_eq!(running.post(CLUSTERS, &cluster).await.code, 201);
    let status = json!({"status": {
        "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}],
        "resourceSummary": {"allocatable": {"cpu": "8", "pods": "100"}, "allocated": {}}}});
    let merge = [("content-type", "application/merge-patch+json")];
    let path = format!("{CLUSTERS}/m1/status");
    assert_eq!(running.admin.send(Method::PATCH, &path, &merge, status.to_string()).await.code, 200);
    let quotas = "/apis/policy.karmada.io/v1alpha1/namespaces/shop/federatedresourcequotas";
    let quota = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
        "metadata": {"name": "small"}, "spec": {"overall": {"cpu": "20m"}}});
    assert_eq!(running.post(quotas, &quota).await.code, 201);
    let mut web = binding("web");
    web["spec"]["replicas"] = json!(3);
    web["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "10m"}});
    web["spec"]["placement"] = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    assert_eq!(running.post(BINDINGS, &web).await.code, 201);
    // Returns the rejected and the written decisions, and the workloads per state.
    let counted = async || {
        let metrics = running.admin.get("/metrics").await;
        let decided = |result: &str| {
            value(metrics.text(), &format!("ballast_scheduler_bindings_total{{result=\"{result}\"}}")) > 0.0
        };
        let are = |state: &str| value(metrics.text(), &format!("ballast_workloads{{state=\"{state}\"}}"));
        (decided("unschedulable"), decided("scheduled"), are("unschedulable"), are("scheduled"))
    };
    let until = async |wanted: (bool, bool, f64, f64)| {
        while counted().await != wanted {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WITHIN, until((true, false, 1.0, 0.0))).await.expect("the refusal is counted");
    let more = json!({"spec": {"overall": {"cpu": "30m"}}}).to_string();
    let grown = running.admin.send(Method::PATCH, &format!("{quotas}/small"), &merge, more).await;
    assert_eq!(grown.code, 200, "{}", grown.text());
    tokio::time::timeout(WITHIN, until((true, true, 0.0, 1.0))).await.expect("what fits now is counted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r8_r9_r19_r23_r24_a_task_is_found_nowhere_and_created_each_time_it_is_applied() {
    let running = Running::start();
    let group = running.admin.get("/apis/task.karmada.io/v1alpha1").await.json();
    let served: Vec<&str> = group["resources"].as_array().unwrap().iter().filter_map(|r| r["name"].as_str()).collect();
    assert_eq!(served, ["rescheduletasks"], "no status, nothing but the task");
    let row = &group["resources"][0];
    assert_eq!((&row["verbs"], &row["namespaced"]), (&json!(["create"]), &json!(false)));
    assert_eq!((&row["kind"], &row["singularName"]), (&json!("RescheduleTask"), &json!("rescheduletask")));
    let namespaced = "/apis/task.karmada.io/v1alpha1/namespaces/shop/rescheduletasks";
    assert_eq!(running.post(namespaced, &task("demo-task")).await.code, 404);
    for _ in 0..2 {
        // The requests of `kubectl apply`.
        assert_eq!(running.admin.get(&format!("{TASKS}/demo-task")).await.code, 404);
        let path = format!("{TASKS}?fieldManager=kubectl-client-side-apply&fieldValidation=Strict");
        let created = running.post(&path, &task("demo-task")).await;
        assert_eq!(created.code, 201, "{}", created.text());
        assert_eq!(created.json()["metadata"]["name"], "demo-task");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r10_r17_r57_r58_without_a_spec_or_with_nothing_in_it_an_object_is_refused_by_its_field() {
    let running = Running::start();
    for (path, mut object, field) in [(TASKS, task("t"), "spec"), (REBALANCERS, rebalancer("r"), "spec")] {
        object.as_object_mut().unwrap().remove("spec");
        let refused = running.post(path, &object).await;
        assert_eq!(refused.code, 422, "{}", refused.text());
        let cause = &refused.json()["details"]["causes"][0];
        assert_eq!((&cause["field"], &cause["reason"]), (&json!(field), &json!("FieldValueRequired")), "{cause}");
    }
    let mut empty = task("t");
    empty["spec"] = json!({});
    assert_eq!(running.post(TASKS, &empty).await.code, 422);
    // An update may not empty the list either.
    assert_eq!(running.post(REBALANCERS, &rebalancer("r")).await.code, 201);
    let merge = [("content-type", "application/merge-patch+json")];
    for workloads in [json!([]), Value::Null] {
        let patch = json!({"spec": {"workloads": workloads}}).to_string();
        let refused = running.admin.send(Method::PATCH, &format!("{REBALANCERS}/r"), &merge, patch).await;
        assert_eq!(refused.code, 422, "{}", refused.text());
        assert_eq!(refused.json()["details"]["causes"][0]["field"], "spec.workloads");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_r27_a_watcher_sees_the_mark_of_a_task_and_then_its_end_together_with_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    let cluster = objects::cluster("member1");
    client.post(CLUSTERS, &cluster).await.unwrap();
    let status = json!({"status": {"apiEnablements": [
        {"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}]}});
    client.merge_patch(&format!("{CLUSTERS}/member1/status"), &status).await.unwrap();
    let mut web = binding("web");
    web["spec"]["placement"] = json!({});
    client.post(BINDINGS, &web).await.unwrap();
    let path = format!("{BINDINGS}?fieldSelector=metadata.name%3Dweb");
    let placed = wait(&client, &path, |binding| binding["status"]["lastScheduledTime"].is_string()).await;
    let since = placed["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    client.post(TASKS, &task("web")).await.unwrap();
    let mut seen = Vec::new();
    let from_there = format!("{path}&resourceVersion={since}");
    let watch = client.watch(&from_there, |event| {
        let binding = &event["object"];
        let (forced, pending_pass) =
            (&binding["spec"]["forceRescheduling"], &binding["metadata"]["annotations"][PENDING_PASS]);
        let times = (&binding["spec"]["rescheduleTriggeredAt"], &binding["status"]["lastScheduledTime"]);
        let is_served = times.0.as_str() <= times.1.as_str();
        seen.push((
            event["type"].clone(),
            forced.clone(),
            pending_pass.is_string(),
            is_served || pending_pass.is_string(),
        ));
        *forced != true
    });
    assert!(tokio::time::timeout(WITHIN, watch).await.expect("the pass comes").unwrap());
    let expected = [(json!("MODIFIED"), json!(true), true, true), (json!("MODIFIED"), Value::Null, false, true)];
    assert_eq!(seen, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r26_both_kinds_of_binding_know_the_force_and_absent_is_false() {
    let running = Running::start();
    let mut wide = binding("wide");
    wide["kind"] = json!("ClusterResourceBinding");
    wide["spec"]["resource"].as_object_mut().unwrap().remove("namespace");
    let wide_path = "/apis/work.karmada.io/v1alpha2/clusterresourcebindings";
    for (path, mut object) in [(BINDINGS, binding("own")), (wide_path, wide)] {
        let created = running.post(&format!("{path}?fieldValidation=Strict"), &object).await;
        assert_eq!((created.code.as_u16(), &created.json()["spec"]["forceRescheduling"]), (201, &Value::Null));
        object["metadata"]["name"] = json!("forced");
        object["spec"]["forceRescheduling"] = json!(true);
        let created = running.post(&format!("{path}?fieldValidation=Strict"), &object).await;
        assert_eq!((created.code.as_u16(), &created.json()["spec"]["forceRescheduling"]), (201, &json!(true)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r51_r56_r67_a_rebalancer_has_a_status_of_its_own_and_room_for_what_is_to_come() {
    let running = Running::start();
    let created = running.post(REBALANCERS, &rebalancer("demo")).await;
    assert_eq!((created.code.as_u16(), &created.json()["metadata"]["name"]), (201, &json!("demo")));
    let path = format!("{REBALANCERS}/demo");
    let read = async || running.admin.get(&path).await.json();

    // A write of one leaves the other unchanged. Each may conflict with the controller's own write.
    let timestamp = "2020-01-01T00:00:00Z";
    loop {
        let mut object = read().await;
        object["status"]["finishTime"] = json!(timestamp);
        object["metadata"]["labels"] = json!({"by": "put"});
        let reply = running.put(&path, &object).await;
        assert!([200, 409].contains(&reply.code.as_u16()), "{}", reply.text());
        if reply.code == 200 {
            assert_ne!(reply.json()["status"]["finishTime"], timestamp);
            break;
        }
    }
    loop {
        let mut object = read().await;
        object["spec"]["workloads"][0]["name"] = json!("another");
        let reply = running.put(&format!("{path}/status"), &object).await;
        assert!([200, 409].contains(&reply.code.as_u16()), "{}", reply.text());
        if reply.code == 200 {
            assert_eq!(reply.json()["spec"]["workloads"][0]["name"], "demo");
            break;
        }
    }
    let bad = json!({"status": {"observedWorkloads": [{"workload": read().await["spec"]["workloads"][0], "result": "Perhaps"}]}});
    let merge = [("content-type", "application/merge-patch+json")];
    let reply = running.admin.send(Method::PATCH, &format!("{path}/status"), &merge, bad.to_string()).await;
    assert_eq!(reply.code, 422, "an unknown result is refused: {}", reply.text());
    let mut later = rebalancer("later");
    later["spec"]["rollingMode"] = json!("surge");
    let reply = running.post(REBALANCERS, &later).await;
    assert_eq!(reply.code, 201);
    assert!(reply.header("warning").unwrap().contains("spec.rollingMode"), "what is not yet known is said to be so");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r102_r127_a_policy_keeps_every_field_of_its_placement_and_groups_have_theirs_inline() {
    let running = Running::start();
    let placement = json!({
        "clusterAffinities": [{
            "affinityName": "first",
            "labelSelector": {"matchLabels": {"tier": "gold"}},
            "fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["north"]}]},
            "clusterNames": ["member1"],
            "exclude": ["member2"],
        }],
        "clusterTolerations": [{"key": "busy", "operator": "Exists", "effect": "NoSchedule"}],
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}],
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
    });
    let policy = |placement: Value| {
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
            "metadata": {"generateName": "p-"},
            "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": placement},
        })
    };
    let path = "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies?fieldValidation=Strict";
    let created = running.post(path, &policy(placement.clone())).await;
    assert_eq!((created.code.as_u16(), &created.json()["spec"]["placement"]), (201, &placement), "{}", created.text());
    let nested = json!({"clusterAffinities": [{"affinityName": "first", "clusterAffinity": {"clusterNames": ["m"]}}]});
    let refused = running.post(path, &policy(nested)).await;
    assert_eq!(refused.code, 400);
    assert!(refused.text().contains("spec.placement.clusterAffinities[0].clusterAffinity"), "{}", refused.text());
}
