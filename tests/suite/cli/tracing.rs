//! Log lines, and `--otlp-endpoint`: spans reach a collector in the caller's trace, without
//! blocking.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use http::{Method, StatusCode};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;

use crate::process::ServerProcess;
use crate::support::objects::{REBALANCERS, rebalancer};
use crate::support::raw::Raw;
use crate::support::{metric, wait_for};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
const JSON: (&str, &str) = ("content-type", "application/json");

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

impl Collector {
    /// Starts a collector. Returns it with its URL.
    async fn start() -> (Collector, String) {
        let collector = Collector::default();
        let router = axum::Router::new().fallback(take).with_state(collector.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (collector, url)
    }

    fn find(&self, is_it: impl Fn(&Span) -> bool) -> Option<Span> {
        self.0.lock().unwrap().iter().find(|span| is_it(span)).cloned()
    }
}

async fn take(State(collector): State<Collector>, method: Method, uri: http::Uri, body: Bytes) -> StatusCode {
    assert_eq!((method, uri.path()), (Method::POST, "/v1/traces"));
    let sent = ExportTraceServiceRequest::decode(body).unwrap();
    let scopes = sent.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    collector.0.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
    StatusCode::OK
}

fn attributes(span: &Span) -> HashMap<&str, String> {
    let text = |value: Option<&Value>| match value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    span.attributes
        .iter()
        .map(|it| (&*it.key, text(it.value.as_ref().and_then(|value| value.value.as_ref()))))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn admin(process: &ServerProcess, folder: &std::path::Path) -> Raw {
    Raw::admin(process.address, &ballast::node::certs::Files::in_dir(&folder.join("certs")))
}

#[tokio::test]
async fn lg2_a_request_goes_on_with_its_callers_trace_and_the_work_it_causes_is_seen() {
    let (collector, url) = Collector::start().await;
    let folder = tempfile::tempdir().unwrap();
    let process = ServerProcess::start(folder.path(), &["--otlp-endpoint", &url]);
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [JSON, ("traceparent", &*parent), ("audit-id", "traced")];
    let admin = admin(&process, folder.path());
    assert_eq!(admin.send(Method::POST, REBALANCERS, &headers, rebalancer("web").to_string()).await.code, 201);
    let of_trace = |span: &Span| hex(&span.trace_id) == TRACE;
    let request = wait_for("the request's span", async || {
        collector.find(|span| of_trace(span) && span.name == "POST workloadrebalancers")
    });
    let request = request.await;
    assert_eq!((hex(&request.parent_span_id), request.kind), (PARENT.to_owned(), 2), "a server's, below the caller's");
    let known = attributes(&request);
    assert_eq!(known["http.response.status_code"], "201");
    assert!(known["audit_id"].contains("traced"), "{known:?}");
    let write = wait_for("the write's span", async || collector.find(|span| of_trace(span) && span.name == "write"));
    assert_eq!(write.await.parent_span_id, request.span_id);
    wait_for("a commit", async || collector.find(|span| span.name == "store_commit")).await;
    let of_worker = |span: &Span| span.name == "work" && attributes(span)["worker"] == "rebalancer";
    wait_for("the worker's batch", async || collector.find(of_worker)).await;
    // The collector has the spans shortly before its response is counted.
    wait_for("the delivery to be counted", async || {
        let metrics = admin.get("/metrics").await;
        (metric(metrics.text(), "ballast_trace_exports_total{result=\"success\"}") > 0.0).then_some(())
    })
    .await;
    assert!(process.terminate().success());
}

#[tokio::test]
async fn what_is_not_sampled_is_not_sent_unless_the_caller_samples_it() {
    let (collector, url) = Collector::start().await;
    let folder = tempfile::tempdir().unwrap();
    let process = ServerProcess::start(folder.path(), &["--otlp-endpoint", &url, "--otlp-sampling-ratio=0"]);
    let admin = admin(&process, folder.path());
    let (sampled, not) = (format!("00-{TRACE}-{PARENT}-01"), format!("00-{TRACE}-{PARENT}-00"));
    for headers in [vec![], vec![("traceparent", &*not)], vec![("traceparent", &*sampled)], vec![]] {
        assert_eq!(admin.send(Method::GET, REBALANCERS, &headers, "").await.code, 200);
    }
    wait_for("the sampled one", async || collector.find(|_| true)).await;
    assert!(process.terminate().success(), "which delivers what is left");
    let names: Vec<String> = collector.0.lock().unwrap().iter().map(|span| span.name.clone()).collect();
    assert_eq!(names, ["LIST workloadrebalancers"]);
}

#[tokio::test]
async fn a_collector_that_hangs_or_is_not_there_delays_nobody_and_is_named() {
    // The kernel accepts connections, and nothing ever responds.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    for url in [&*silent, "http://127.0.0.1:1"] {
        let folder = tempfile::tempdir().unwrap();
        let process = ServerProcess::start(folder.path(), &["--otlp-endpoint", url]);
        let admin = admin(&process, folder.path());
        for _ in 0..20 {
            assert_eq!(admin.get(&format!("{REBALANCERS}?timeout=5s")).await.code, 200);
        }
        wait_for("the failure to be counted", async || {
            let metrics = admin.get("/metrics").await;
            (metric(metrics.text(), "ballast_trace_exports_total{result=\"failure\"}") > 0.0).then_some(())
        })
        .await;
        let log = || std::fs::read_to_string(folder.path().join("log")).unwrap();
        wait_for("a word of it", async || log().contains("spans could not be delivered").then_some(())).await;
        assert!(process.terminate().success());
    }
}

#[tokio::test]
async fn lg1_the_log_has_a_line_for_each_request_and_no_credential() {
    let folder = tempfile::tempdir().unwrap();
    let process = ServerProcess::start(folder.path(), &["--v=2", "--log-format=json"]);
    let admin = admin(&process, folder.path());
    let headers =
        [("audit-id", "seen-in-the-log"), ("user-agent", "probe/1"), ("authorization", "Bearer secret-of-jane")];
    assert_eq!(admin.send(Method::GET, &format!("{REBALANCERS}?limit=5"), &headers, "").await.code, 200);
    assert!(process.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let line = lines.into_iter().find(|line| line["message"] == "answered").expect("a line for the request");
    let span = &line["span"];
    assert_eq!((&line["code"], &line["user_agent"]), (&200.into(), &"probe/1".into()));
    assert!(line["latency_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0 && seconds < 60.0), "{line}");
    assert!(line["src_ip"].as_str().unwrap().parse::<std::net::SocketAddr>().is_ok(), "{line}");
    assert!(line.get("spans").is_none(), "the request is told once: {line}");
    let uri = span["uri"].as_str().unwrap();
    assert!(span["method"] == "GET" && uri.ends_with(&format!("{REBALANCERS}?limit=5")), "{line}");
    assert_eq!(span["audit_id"], "seen-in-the-log", "{line}");
    assert!(!log.contains("secret-of-jane"));
}

#[tokio::test]
async fn the_log_says_what_was_started() {
    let folder = tempfile::tempdir().unwrap();
    let start = async |number: usize| {
        // Log lines are written by a separate thread.
        let line = wait_for("a line for the start", async || {
            let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
            let starts = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
            starts.filter(|line| line["message"] == "ballast starts").nth(number)
        })
        .await;
        assert_eq!((&line["level"], &line["mode"]), (&"INFO".into(), &"standalone".into()), "{line}");
        assert_eq!(line["version"], env!("CARGO_PKG_VERSION"), "{line}");
        line
    };
    let process = ServerProcess::start(folder.path(), &["--log-format=json"]);
    let line = start(0).await;
    assert_eq!((line["objects"].as_u64(), line["revision"].as_i64()), (Some(0), Some(0)), "{line}");
    assert_eq!(line["address"], process.address.to_string(), "{line}");
    assert_eq!(line["database"], format!("sqlite://{}", process.database().display()), "{line}");
    let admin = admin(&process, folder.path());
    assert_eq!(admin.send(Method::POST, REBALANCERS, &[JSON], rebalancer("web").to_string()).await.code, 201);
    assert!(process.terminate().success());
    let process = ServerProcess::start(folder.path(), &["--log-format=json"]);
    let line = start(1).await;
    assert!(line["objects"].as_u64() >= Some(1) && line["revision"].as_i64() >= Some(1), "{line}");
    drop(process);
}
