//! Gates with real servers that respond, hang, lie, send too much, fail and redirect; the flags;
//! and SIGKILL during a request (SG15-SG18, SG20).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get};
use ballast::api::ballast::v1alpha1::{Gate, PrometheusGate, WebhookGate};
use ballast::node::http_gates::{HttpGates, HttpGatesOptions};
use ballast::rebalance::gates::{GateAnswer, GateClient, WaveQuestion};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::operator::after_an_outage;
use crate::process::{ServerProcess, wait};

const CREB: &str = "/apis/ballast.dev/v1alpha1/clusterrebalances";

/// A server with valid and invalid responses, which counts requests to its gate `/counted`.
#[derive(Default)]
struct Asked {
    counted: AtomicUsize,
    is_open: std::sync::atomic::AtomicBool,
}

fn answer(body: &Value) -> Response {
    body.to_string().into_response()
}

async fn counted(State(asked): State<Arc<Asked>>) -> Response {
    asked.counted.fetch_add(1, Ordering::SeqCst);
    match asked.is_open.load(Ordering::SeqCst) {
        true => answer(&json!({"allowed": true})),
        // The request is still pending when the server is killed.
        false => std::future::pending().await,
    }
}

async fn prometheus(uri: http::Uri, headers: HeaderMap) -> Response {
    let is_known = headers.get("authorization").is_some_and(|it| it == "Bearer of-prom");
    let query = uri.query().unwrap_or_default();
    if !is_known || !query.contains("sum%28rate%28errors%5B1m%5D%29%29") {
        return (StatusCode::UNAUTHORIZED, query.to_owned()).into_response();
    }
    let result = json!([{"metric": {}, "value": [1.5, "4.5"]}]);
    answer(&json!({"status": "success", "data": {"resultType": "vector", "result": result}}))
}

async fn serve() -> (SocketAddr, Arc<Asked>) {
    let asked = Arc::new(Asked::default());
    let huge = || async {
        let chunks = stream::iter((0..64).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 64 << 10]))));
        let end = stream::iter([Ok(Bytes::from_static(br#"{"allowed": true}"#))]);
        Response::new(Body::from_stream(futures_util::StreamExt::chain(chunks, end)))
    };
    let slow = || async {
        let drops = stream::unfold(0u64, |sent| async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), sent + 1))
        });
        Response::new(Body::from_stream(drops))
    };
    let echo = |body: Bytes| async move {
        let question: Value = serde_json::from_slice(&body).unwrap();
        answer(&json!({"allowed": question["wave"] == 7, "message": "seen"}))
    };
    let router = Router::new()
        .route("/hooks/echo", any(echo))
        .route("/hooks/counted", any(counted))
        .route("/hooks/never", any(|| async { std::future::pending::<Response>().await }))
        .route("/hooks/slow", any(slow))
        .route("/hooks/huge", any(huge))
        .route("/hooks/500", any(|| async { (StatusCode::INTERNAL_SERVER_ERROR, r#"{"allowed": true}"#) }))
        .route("/hooks/lies", any(|| async { "yes, of course" }))
        .route("/hooks/away", any(|| async { Redirect::temporary("/hooks/yes") }))
        .route("/hooks/yes", any(|| async { answer(&json!({"allowed": true})) }))
        .route("/prom/api/v1/query", get(prometheus))
        .with_state(asked.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, asked)
}

fn webhook(url: String) -> Gate {
    Gate { name: "smoke".to_owned(), webhook: Some(WebhookGate { url }), ..Gate::default() }
}

async fn ask(client: &HttpGates, gate: &Gate) -> GateAnswer {
    let body = Arc::new(json!({"rebalance": {"name": "home"}, "wave": 7, "moves": []}));
    client.ask(gate, &WaveQuestion { namespace: "shop".into(), body, within: Duration::from_secs(3) }).await
}

#[tokio::test]
async fn gates_of_one_namespace_leave_connections_to_the_others() {
    let (address, _) = serve().await;
    let allow = vec![format!("http://{address}/hooks").parse().unwrap()];
    let client = Arc::new(HttpGates::new(HttpGatesOptions { allow, ..HttpGatesOptions::default() }));
    let ask = |namespace: &str, path: &str| {
        let (client, namespace, gate) =
            (Arc::clone(&client), namespace.into(), webhook(format!("http://{address}{path}")));
        let about = WaveQuestion { namespace, body: Arc::new(json!({})), within: Duration::from_secs(60) };
        async move { client.ask(&gate, &about).await }
    };
    let held = || {
        let text = ballast::metrics::text();
        crate::support::metric(&text, "ballast_places_held{class=\"outgoing_gate\"}")
    };
    let mut hanging = tokio::task::JoinSet::new();
    (0..200).for_each(|_| drop(hanging.spawn(ask("busy", "/hooks/never"))));
    crate::support::wait_for("most slots are in use", async || (held() >= 48.0).then_some(())).await;
    assert!(held() <= 64.0);
    assert!(ask("other", "/hooks/yes").await.is_yes, "it has a slot of its own");
    hanging.abort_all();
    while hanging.join_next().await.is_some() {}
}

#[tokio::test]
async fn sg16_only_a_whole_answer_in_time_is_a_yes() {
    let (address, _) = serve().await;
    let allow = vec![format!("http://{address}/hooks").parse().unwrap()];
    let client = HttpGates::new(HttpGatesOptions { allow, ..HttpGatesOptions::default() });
    let asked = async |path: &str| ask(&client, &webhook(format!("http://{address}{path}"))).await;
    assert_eq!(asked("/hooks/echo").await, GateAnswer::yes("it allows it: seen"));
    for (path, words) in [
        ("/hooks/never", "no answer came within 3 s"),
        ("/hooks/slow", "no answer came within 3 s"),
        ("/hooks/huge", "its answer is larger than 1048576 bytes"),
        ("/hooks/500", "it answers 500 Internal Server Error"),
        ("/hooks/lies", "its answer is no JSON"),
        ("/hooks/away", "redirects are not followed"),
        ("/hooks/none", "it answers 404 Not Found"),
        // The flag has another address, regardless of the object.
        ("/prom/api/v1/query", "is not allowed"),
        ("/hooks/../prom/api/v1/query", "is not allowed"),
    ] {
        let answer = asked(path).await;
        assert!(!answer.is_yes && answer.words.contains(words), "{path}: {answer:?}");
    }
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let allow = vec![format!("http://{closed}/hooks").parse().unwrap()];
    let client = HttpGates::new(HttpGatesOptions { allow, ..HttpGatesOptions::default() });
    let answer = ask(&client, &webhook(format!("http://{closed}/hooks"))).await;
    assert!(!answer.is_yes && answer.words.contains("it cannot be asked"), "{answer:?}");
}

#[tokio::test]
async fn sg18_private_headers_go_to_the_addresses_that_the_file_names_and_are_read_again() {
    let (address, _) = serve().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("headers.yaml");
    let write = |below: &str| {
        let text = format!("- address: http://{address}{below}\n  headers: {{Authorization: Bearer of-prom}}\n");
        std::fs::write(&file, text).unwrap();
    };
    let allow = vec![format!("http://{address}").parse().unwrap()];
    let options = HttpGatesOptions { allow, headers_file: Some(file.clone()), ..HttpGatesOptions::default() };
    let client = HttpGates::new(options);
    let gate = |holds: &str| Gate {
        name: "rate".to_owned(),
        prometheus: Some(PrometheusGate {
            address: format!("http://{address}/prom/"),
            query: "sum(rate(errors[1m]))".to_owned(),
            holds: holds.to_owned(),
        }),
        ..Gate::default()
    };
    write("/prom");
    client.check_files().unwrap();
    assert_eq!(ask(&client, &gate("< 5")).await, GateAnswer::yes("4.5 < 5"));
    assert_eq!(ask(&client, &gate("< 4")).await, GateAnswer::no("4.5 is not < 4"));
    write("/hooks");
    assert_eq!(ask(&client, &gate("< 5")).await, GateAnswer::no("it answers 401 Unauthorized"));
    std::fs::write(&file, "secret: [").unwrap();
    let fault = client.check_files().unwrap_err();
    assert!(fault.contains("headers.yaml") && !fault.contains("secret"), "{fault}");
    assert!(!ask(&client, &gate("< 5")).await.is_yes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sg20_a_server_that_is_killed_while_a_gate_is_asked_asks_again() {
    let (address, asked) = serve().await;
    let folder = tempfile::tempdir().unwrap();
    let allow = format!("http://{address}/hooks");
    let flags = ["--gate-address-allow", &allow];
    let server = ServerProcess::start(folder.path(), &flags);
    let client = after_an_outage(&server).await;
    let gate = json!({"name": "smoke", "webhook": {"url": format!("{allow}/counted")}});
    let of = |name: &str, gate: &Value| {
        let rollout = json!({"gates": [gate], "settle": {"when": "Scheduled"}});
        json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": name},
            "spec": {"select": [{"displaced": true}], "mode": "AsBefore", "rollout": rollout}})
    };
    let other = json!({"name": "smoke", "webhook": {"url": "http://169.254.169.254/latest"}});
    let refused = client.post(CREB, &of("other", &other)).await.unwrap_err().to_string();
    assert!(refused.contains("spec.rollout.gates[0].webhook.url"), "{refused}");
    client.post(CREB, &of("home", &gate)).await.unwrap();
    let waits = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        object["metadata"]["name"] == "home"
            && conditions.iter().any(|it| it["type"] == "Gate" && it["status"] == "False")
    };
    wait(&client, CREB, waits).await;
    let is_asked = async |times: usize| {
        let asked_so_often = async {
            while asked.counted.load(Ordering::SeqCst) < times {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), asked_so_often).await.expect("the gate is asked");
    };
    is_asked(1).await;
    server.kill();
    let before = asked.counted.load(Ordering::SeqCst);
    let server = ServerProcess::start(folder.path(), &flags);
    let client = server.client().await;
    is_asked(before + 1).await;
    asked.is_open.store(true, Ordering::SeqCst);
    let is_over = |object: &Value| object["metadata"]["name"] == "home" && object["status"]["phase"] == "Completed";
    wait(&client, CREB, is_over).await;
    let home = client.get(&format!("{CREB}/home")).await.unwrap();
    assert_eq!((&home["status"]["wave"]["number"], &home["status"]["wave"]["passed"]), (&json!(1), &json!(true)));
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sg17_without_the_flag_gates_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    let gates = json!([{"name": "smoke", "webhook": {"url": "https://ci.example/check"}}]);
    let object = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": "home"},
        "spec": {"select": [{}], "rollout": {"gates": gates}}});
    let refused = client.post(CREB, &object).await.unwrap_err().to_string();
    assert!(refused.contains("spec.rollout.gates: Forbidden") && refused.contains("--gate-address-allow"), "{refused}");
    assert!(server.terminate().success());
}
