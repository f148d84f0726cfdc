//! The view of operators: metrics, probes, the audit log, and the end of a process.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ballast::server::audit::{Audit, Log, Policy, Rotation};
use ballast::server::{Check, Counts};
use http::Method;
use serde_json::{Value, json};

use crate::support::aggregated::Aggregated;
use crate::support::host::{Fault, Host};
use crate::support::raw::Reply;
use crate::support::server::{Options, TestServer};
use crate::support::{metric, wait_for};

const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";
const MASTER: [(&str, &str); 2] = [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")];

fn rebalancer(name: &str) -> String {
    json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": name},
        "spec": {"workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}]}})
    .to_string()
}

async fn send(server: &Aggregated, method: Method, path: &str, body: String) -> Reply {
    let headers = [MASTER[0], MASTER[1], ("Content-Type", "application/json"), ("User-Agent", "probe/1")];
    server.proxy().send(method, path, &headers, body).await
}

/// Returns the audit log after the server has stopped, when it is complete.
fn events(folder: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("audit.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn me1_me2_me3_me4_metrics_name_what_was_done() {
    let server = Aggregated::start().await;
    server.host.answer_webhook("/hooks/kind", |_| json!({"allowed": true}));
    let hook = json!({"name": "kind.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"url": format!("http://{}/hooks/kind", server.host.address)},
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"], "scope": "*"}]});
    server.host.put(
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kind",
        json!({"kind": "MutatingWebhookConfiguration", "apiVersion": "admissionregistration.k8s.io/v1",
            "metadata": {"name": "kind"}, "webhooks": [hook]}),
    );
    let mut number = 0;
    wait_for("the webhook to be called", async || {
        number += 1;
        assert_eq!(send(&server, Method::POST, REBALANCERS, rebalancer(&format!("n{number}"))).await.code, 201);
        (!server.host.asked("/hooks/kind").is_empty()).then_some(())
    })
    .await;
    let apply = [MASTER[0], MASTER[1], ("Content-Type", "application/apply-patch+yaml")];
    let path = format!("{REBALANCERS}/applied?fieldManager=probe&dryRun=All");
    assert_eq!(server.proxy().send(Method::PATCH, &path, &apply, rebalancer("applied")).await.code, 201);
    let nowhere = "/apis/work.karmada.io/v1alpha2/namespaces/nowhere/resourcebindings";
    let object = crate::support::objects::binding("web").to_string();
    assert_eq!(send(&server, Method::POST, nowhere, object).await.code, 404);
    // A selector that matches nothing, so that other watches do not disturb this one.
    let collection = format!("{REBALANCERS}?labelSelector=no%3Dsuch");
    assert_eq!(send(&server, Method::DELETE, &collection, String::new()).await.code, 200);
    let watch = server.proxy().connect().await;
    let _open = watch.open(Method::GET, &format!("{REBALANCERS}?watch=1"), &MASTER, "").await.unwrap();
    let reply = send(&server, Method::GET, "/metrics", String::new()).await;
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = reply.text();
    for line in [
        "apiserver_request_total{code=\"201\",component=\"apiserver\",dry_run=\"\",group=\"apps.karmada.io\",\
         resource=\"workloadrebalancers\",scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1alpha1\"}",
        "apiserver_request_total{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"apps.karmada.io\",\
         resource=\"workloadrebalancers\",scope=\"cluster\",subresource=\"\",verb=\"DELETE\",version=\"v1alpha1\"}",
        "apiserver_current_inflight_requests{request_kind=\"readOnly\"}",
        "apiserver_storage_objects{resource=\"workloadrebalancers.apps.karmada.io\"}",
        "apiserver_resource_objects{group=\"apps.karmada.io\",resource=\"workloadrebalancers\"}",
        "apiserver_admission_webhook_admission_duration_seconds_count{name=\"kind.example.com\",operation=\"CREATE\",\
         rejected=\"false\",type=\"admit\"}",
        // Other tests of this process count too.
        "ballast_trust_reloads_total{result=\"failure\"} ",
        "ballast_store_compactions_total{result=\"failure\"} ",
        "ballast_connections_closed_total{reason=\"evicted\"}",
        "# TYPE process_cpu_seconds_total counter",
        "apiserver_tls_handshake_errors_total",
        "apiserver_request_duration_seconds_bucket{component=\"apiserver\",dry_run=\"\",group=\"apps.karmada.io\",\
         resource=\"workloadrebalancers\",scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1alpha1\",le=\"0.005\"}",
        "apiserver_response_sizes_count{component=\"apiserver\",group=\"apps.karmada.io\",\
         resource=\"workloadrebalancers\",scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1alpha1\"}",
        "apiserver_request_total{code=\"201\",component=\"apiserver\",dry_run=\"All\",group=\"apps.karmada.io\",\
         resource=\"workloadrebalancers\",scope=\"resource\",subresource=\"\",verb=\"APPLY\",version=\"v1alpha1\"}",
        "apiserver_longrunning_requests{component=\"apiserver\",group=\"apps.karmada.io\",\
         resource=\"workloadrebalancers\",scope=\"cluster\",subresource=\"\",verb=\"WATCH\",version=\"v1alpha1\"}",
        "apiserver_admission_step_admission_duration_seconds_count{operation=\"CREATE\",rejected=\"false\",type=\"admit\"}",
        "apiserver_admission_controller_admission_duration_seconds_count{name=\"NamespaceLifecycle\",\
         operation=\"CREATE\",rejected=\"true\",type=\"validate\"}",
        "ballast_worker_queue_depth{worker=\"rebalancer\"}",
        "ballast_worker_queue_waiting{worker=\"rebalancer\"}",
        "process_resident_memory_bytes",
    ] {
        assert!(text.lines().any(|it| it.starts_with(line)), "{line} is missing in:\n{text}");
    }
    for series in [
        "authentication_attempts{result=\"success\"}",
        "authorization_attempts_total{result=\"allowed\"}",
        "ballast_store_commits_total{result=\"success\"}",
    ] {
        assert!(metric(text, series) > 0.0, "{series} is 0 or missing in:\n{text}");
    }
    assert!(!text.contains("apiserver_storage_objects{resource=\"rescheduletasks"), "nothing is stored of them");
    server.stop().await;
}

#[tokio::test]
async fn me5_paths_that_lead_nowhere_make_no_series() {
    let server = Aggregated::start().await;
    for path in ["/apis/made.up/v1/things", "/nowhere-at-all", "/apis/work.karmada.io/v1alpha2/made-up"] {
        send(&server, Method::GET, path, String::new()).await;
    }
    let reply = send(&server, Method::GET, "/metrics", String::new()).await;
    for word in ["made.up", "nowhere-at-all", "made-up"] {
        assert!(!reply.text().contains(word), "{word}");
    }
    server.stop().await;
}

#[tokio::test]
async fn au2_au3_an_audit_event_says_who_asked_for_what_and_what_came_of_it() {
    let server = Aggregated::with(|args, folder| {
        let policy = folder.join("policy.yaml");
        std::fs::write(
            &policy,
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n\
             - {level: RequestResponse, verbs: [create], resources: [{group: apps.karmada.io}]}\n\
             - {level: None, nonResourceURLs: ['/readyz']}\n- {level: Metadata, omitStages: [RequestReceived]}\n",
        )
        .unwrap();
        args.audit.audit_log_path = Some(folder.join("audit.log"));
        args.audit.audit_policy_file = Some(policy);
    })
    .await;
    send(&server, Method::GET, "/readyz", String::new()).await;
    let headers = [
        MASTER[0],
        MASTER[1],
        ("Content-Type", "application/json"),
        ("User-Agent", "probe/1"),
        ("X-Forwarded-For", "10.0.0.7"),
        ("Audit-ID", "from-outside"),
        ("Accept-Encoding", "gzip"),
    ];
    let reply = server.proxy().send(Method::POST, REBALANCERS, &headers, rebalancer("audited")).await;
    assert_eq!((reply.code.as_u16(), reply.header("audit-id")), (201, Some("from-outside")));
    let mut jane = vec![("X-Remote-User", "jane")];
    jane.push(("Authorization", "Bearer secret-of-jane"));
    server.proxy().send(Method::GET, &format!("{REBALANCERS}/audited"), &jane, "").await;
    let watch = server.proxy().connect().await;
    let path = format!("{REBALANCERS}?watch=1&timeoutSeconds=1");
    let answer = watch.open(Method::GET, &path, &MASTER, "").await.unwrap();
    assert_eq!(answer.status(), 200);
    drop((answer, watch));
    let (_host, folder) = server.stop().await;

    let mode = std::fs::metadata(folder.path().join("audit.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else reads it");
    let events = events(folder.path());
    assert!(events.iter().all(|event| event["requestURI"] != "/readyz"), "a rule of level None");
    let of = |uri: &str, stage: &str| {
        let found = events.iter().find(|event| event["requestURI"] == uri && event["stage"] == stage);
        found.unwrap_or_else(|| panic!("{stage} of {uri} is missing in {events:#?}"))
    };
    let received = of(REBALANCERS, "RequestReceived");
    assert_eq!((&received["auditID"], &received["responseStatus"]), (&json!("from-outside"), &Value::Null));
    let created = of(REBALANCERS, "ResponseComplete");
    assert_eq!(created["level"], "RequestResponse");
    assert_eq!(created["verb"], "create");
    assert_eq!(created["user"]["username"], "admin");
    assert_eq!(created["sourceIPs"], json!(["10.0.0.7", "127.0.0.1"]));
    assert_eq!(created["userAgent"], "probe/1");
    assert_eq!(created["objectRef"]["resource"], "workloadrebalancers");
    assert_eq!(created["responseStatus"]["code"], 201);
    assert_eq!(created["requestObject"]["metadata"]["name"], "audited");
    assert!(created["responseObject"]["metadata"]["uid"].is_string());
    assert_eq!(created["annotations"]["authorization.k8s.io/decision"], "allow");
    let forbidden = of(&format!("{REBALANCERS}/audited"), "ResponseComplete");
    assert_eq!(forbidden["responseStatus"]["reason"], "Forbidden");
    assert_eq!(forbidden["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(of(&path, "ResponseStarted")["verb"], "watch");
    of(&path, "ResponseComplete");
    let text = serde_json::to_string(&events).unwrap();
    assert!(!text.contains("secret-of-jane"), "no credential is written down");
}

#[tokio::test]
async fn he2_he4_readiness_names_its_checks_and_fails_until_it_is_known_whom_to_let_in() {
    let host = Host::start().await;
    host.break_below("/api/v1/namespaces/kube-system/configmaps", Fault::Code(503));
    let server = Aggregated::on(host, |args, _| args.host.authentication_tolerate_lookup_failure = true).await;
    let reply = server.nobody().get("/readyz?verbose").await;
    assert_eq!(reply.code, 500);
    assert!(reply.text().contains("[-]authentication-config failed: reason withheld\n"), "{}", reply.text());
    server.host.mend();
    let ready = wait_for("the ConfigMap to be read", async || {
        let reply = server.nobody().get("/readyz?verbose").await;
        (reply.code == 200).then_some(reply)
    });
    let expected = "[+]ping ok\n[+]authentication-config ok\n[+]admission-policies ok\n\
                    [+]admission-webhooks ok\n[+]writer ok\n[+]storage ok\n[+]shutdown ok\nreadyz check passed\n";
    assert_eq!(ready.await.text(), expected);
    assert_eq!(send(&server, Method::GET, "/readyz/storage", String::new()).await.code, 200);
    server.stop().await;
}

#[tokio::test]
async fn au3_a_panic_is_a_stage_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let rotation = Rotation { bytes_max: 1 << 20, backups_max: 1, age_max: Duration::ZERO };
    let audit = Arc::new(Audit::new(Policy::metadata(), Log::open(&path, rotation).unwrap()));
    let broken = Check::new("broken", Counts::Ready, || panic!("the probe of a test"));
    let options = Options { checks: vec![broken], audit: Some(Arc::clone(&audit)), ..Options::default() };
    let server = TestServer::with(options).await;
    assert_eq!(server.admin().get("/readyz").await.code, 500);
    assert_eq!(server.admin().get("/livez").await.code, 200, "and the server goes on");
    server.stop().await;
    audit.flush();
    let events = events(folder.path());
    let stages: Vec<(&str, u64)> = events
        .iter()
        .filter(|event| event["requestURI"] == "/readyz")
        .map(|event| (event["stage"].as_str().unwrap(), event["responseStatus"]["code"].as_u64().unwrap_or(0)))
        .collect();
    assert_eq!(stages, [("Panic", 500)], "and nothing says that it was completed");
}

/// A store that takes longer than the timeout of the request: the response is 504, and the write
/// may have happened or not.
#[tokio::test]
async fn li2_er18_a_write_that_does_not_end_in_time_is_a_504_that_claims_nothing() {
    use sqlx::ConnectOptions;
    let mut database = PathBuf::new();
    let server = Aggregated::with(|args, folder| {
        database = folder.join("ballast.db");
        args.database_url = format!("sqlite://{}", database.display());
    })
    .await;
    wait_for("readiness", async || (server.nobody().get("/readyz").await.code == 200).then_some(())).await;
    let mut other = sqlx::sqlite::SqliteConnectOptions::new().filename(&database).connect().await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let held_up = send(&server, Method::POST, &format!("{REBALANCERS}?timeout=500ms"), rebalancer("late")).await;
    assert_eq!(held_up.code, 504, "{}", held_up.text());
    let status = held_up.json();
    assert_eq!(status["reason"], "Timeout");
    assert_eq!(status["message"], "Timeout: request did not complete within the allotted timeout");
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    wait_for("the store", async || {
        let again = send(&server, Method::POST, REBALANCERS, rebalancer("late")).await;
        matches!(again.code.as_u16(), 201 | 409).then_some(())
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn he6_a_database_that_takes_no_write_makes_the_server_unready_and_leaves_it_alive() {
    use sqlx::ConnectOptions;
    let mut database = PathBuf::new();
    let server = Aggregated::with(|args, folder| {
        database = folder.join("ballast.db");
        args.database_url = format!("sqlite://{}", database.display());
    })
    .await;
    let ready = async || server.nobody().get("/readyz?verbose").await;
    wait_for("readiness", async || (ready().await.code == 200).then_some(())).await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&database);
    let mut other = options.connect().await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let unready = wait_for("the probe to fail", async || Some(ready().await).filter(|reply| reply.code == 500)).await;
    assert!(unready.text().contains("[-]storage failed: reason withheld\n"), "{}", unready.text());
    assert_eq!(server.nobody().get("/livez").await.code, 200);
    assert_eq!(send(&server, Method::GET, REBALANCERS, String::new()).await.code, 200, "reading goes on");
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    wait_for("readiness again", async || (ready().await.code == 200).then_some(())).await;
    assert_eq!(send(&server, Method::POST, REBALANCERS, rebalancer("later")).await.code, 201);
    server.stop().await;
}
