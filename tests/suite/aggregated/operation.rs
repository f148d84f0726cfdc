//! What operators see: metrics, probes, the audit log, the end of a process.

use http::Method;
use serde_json::{Value, json};

use crate::support::aggregated::Aggregated;
use crate::support::host::{Fault, Host};
use crate::support::raw::Reply;
use crate::support::wait_for;

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

/// The audit log once the server has stopped: nothing is missing then.
fn events(folder: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("audit.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn me1_me2_me3_metrics_name_what_was_done() {
    let server = Aggregated::start().await;
    assert_eq!(send(&server, Method::POST, REBALANCERS, rebalancer("counted")).await.code, 201);
    let reply = send(&server, Method::GET, "/metrics", String::new()).await;
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = reply.text();
    for line in [
        "apiserver_request_total{code=\"201\",component=\"apiserver\",dry_run=\"\",group=\"apps.karmada.io\",\
         resource=\"workloadrebalancers\",scope=\"cluster\",subresource=\"\",verb=\"POST\",version=\"v1alpha1\"}",
        "apiserver_current_inflight_requests{request_kind=\"readOnly\"}",
        "apiserver_storage_objects{resource=\"workloadrebalancers.apps.karmada.io\"}",
        "apiserver_tls_handshake_errors_total",
        "authentication_attempts{result=\"success\"}",
        "authorization_attempts_total{result=\"allowed\"}",
        "ballast_store_commits_total{result=\"success\"}",
        "ballast_worker_queue_depth{worker=\"rebalancer\"}",
        "process_resident_memory_bytes",
    ] {
        assert!(text.lines().any(|it| it.starts_with(line)), "{line} is missing in:\n{text}");
    }
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
    assert_eq!(send(&server, Method::GET, "/readyz", String::new()).await.code, 200);
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
    let expected = "[+]ping ok\n[+]authentication-config ok\n[+]writer ok\n[+]storage ok\n[+]shutdown ok\n\
                    readyz check passed\n";
    assert_eq!(ready.await.text(), expected);
    assert_eq!(send(&server, Method::GET, "/readyz/storage", String::new()).await.code, 200);
    server.stop().await;
}
