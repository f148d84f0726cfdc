//! The requests of one user do not starve others (LI4, LI10 to LI12): slow strangers, bodies that
//! never arrive, endless reviews, large patches. Each test checks that another user and the probes
//! are served meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ballast::auth::Policy;
use ballast::node::certs::Files;
use ballast::server::ConnectionLimits;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

use crate::process::ServerProcess;
use crate::support::fleet::{binding, by_room, cluster};
use crate::support::objects::{BINDINGS, CLUSTERS, REBALANCERS, binding_in, rebalancer};
use crate::support::raw::{Protocol, Raw};
use crate::support::server::{Options, TestServer};
use crate::support::size::sized;
use crate::support::skip::skipped;
use crate::support::{metric, wait_for};

const JSON: (&str, &str) = ("content-type", "application/json");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const REVIEWS: &str = "/apis/ballast.dev/v1alpha1/placementreviews";
const LOCAL_REVIEWS: &str = "/apis/ballast.dev/v1alpha1/namespaces/shop/localplacementreviews";
const OTHER_BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/other/resourcebindings";

/// jane may do anything in `shop`, bob in `other`; no other user has rights.
const POLICY: &str = "rules:
- {users: [jane], verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: [shop]}
- {users: [bob], verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: [other]}
- {users: [bob], verbs: [create], apiGroups: [ballast.dev], resources: [localplacementreviews], namespaces: [shop]}
";

async fn server_with(connections: ConnectionLimits) -> TestServer {
    let policy = Some(Policy::parse(POLICY).unwrap());
    TestServer::with(Options { policy, connections, ..Options::default() }).await
}

/// Opens a connection with a rejected request, and sends its body byte by byte.
async fn stranger(client: &Raw) -> Option<TlsStream<TcpStream>> {
    let mut stream = client.try_connect().await.ok()?;
    stream.write_all(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n ").await.ok()?;
    stream.flush().await.ok()?;
    Some(stream)
}

/// Opens `count` connections of strangers, several at a time, and sends single bytes on the open
/// ones. Returns the number of accepted connections.
async fn drip(client: Raw, count: usize, opened: Arc<AtomicUsize>) {
    let client = client.over(Protocol::Http1);
    let mut openers = JoinSet::new();
    for _ in 0..8 {
        let (client, opened) = (client.clone(), Arc::clone(&opened));
        openers.spawn(async move {
            let mut open = Vec::new();
            while opened.load(Ordering::Relaxed) < count {
                open.extend(stranger(&client).await);
                opened.fetch_add(1, Ordering::Relaxed);
                if open.len() % 16 == 0 {
                    for stream in &mut open {
                        let _ = stream.write_all(b" ").await;
                    }
                }
            }
            open
        });
    }
    let open = openers.join_all().await;
    // They continue until the test drops this.
    let mut open: Vec<TlsStream<TcpStream>> = open.into_iter().flatten().collect();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for stream in &mut open {
            let _ = stream.write_all(b" ").await;
        }
    }
}

/// Twice the limit of connections.
#[tokio::test]
async fn strangers_that_drip_keep_neither_users_nor_probes_out() {
    let server = server_with(ConnectionLimits { connections_max: 48, ..ConnectionLimits::default() }).await;
    let opened = Arc::new(AtomicUsize::new(0));
    let dripping = tokio::spawn(drip(server.nobody(), 96, Arc::clone(&opened)));
    // A watch is active, so it remains.
    let watching = server.admin().connect().await;
    let mut watch = watching.open(Method::GET, &format!("{REBALANCERS}?watch=1"), &[], "").await.unwrap().into_body();
    while opened.load(Ordering::Relaxed) < 96 {
        assert_eq!(server.nobody().get("/livez").await.code, 200);
    }
    assert_eq!(server.nobody().get("/readyz").await.code, 200);
    assert_eq!(server.admin().send(Method::POST, REBALANCERS, &[JSON], rebalancer("a").to_string()).await.code, 201);
    let event = tokio::time::timeout(Duration::from_secs(30), watch.frame()).await.expect("in time").unwrap().unwrap();
    assert!(event.into_data().unwrap().starts_with(b"{\"type\":\"ADDED\""));
    dripping.abort();
    drop((watch, watching));
    server.stop().await;
}

/// A user's watches use all connections, and another user can still connect.
#[tokio::test]
async fn li10_watches_of_one_user_keep_no_newcomer_out() {
    let server = server_with(ConnectionLimits { connections_max: 16, ..ConnectionLimits::default() }).await;
    let mut held = Vec::new();
    let bob = server.client("bob", &[], |_| {}).connect().await;
    let bobs = bob.open(Method::GET, &format!("{OTHER_BINDINGS}?watch=1"), &[], "").await.unwrap();
    for _ in 1..16 {
        let jane = server.client("jane", &[], |_| {}).connect().await;
        let watch = jane.open(Method::GET, &format!("{BINDINGS}?watch=1"), &[], "").await.unwrap();
        assert_eq!(watch.status(), 200);
        held.push((jane, watch.into_body()));
    }
    assert_eq!(server.nobody().get("/readyz").await.code, 200);
    assert_eq!(server.admin().get(BINDINGS).await.code, 200);
    let (_, oldest) = &mut held[0];
    assert!(!matches!(oldest.frame().await, Some(Ok(_))), "the oldest watch of jane was closed");
    let object = binding_in("other", "b", "b", json!({}));
    let sent = bob.send(Method::POST, OTHER_BINDINGS, &[JSON], object.to_string()).await;
    assert_eq!(sent.code, 201, "{}", sent.text());
    assert!(bobs.into_body().frame().await.unwrap().is_ok(), "bob's watch goes on");
    drop(held);
    server.stop().await;
}

/// sec-02, with fewer descriptors than connections.
#[tokio::test]
async fn probes_are_answered_where_strangers_take_all_descriptors() {
    let home = tempfile::tempdir().unwrap();
    let (files, strangers) = (150, 200);
    let server = ServerProcess::start_with_files(home.path(), files, &[]);
    let certs = Files::in_dir(&home.path().join("certs"));
    let (nobody, admin) = (Raw::nobody(server.address, &certs), Raw::admin(server.address, &certs));
    let opened = Arc::new(AtomicUsize::new(0));
    let dripping = tokio::spawn(drip(nobody.clone(), strangers, Arc::clone(&opened)));
    wait_for("the strangers", async || (opened.load(Ordering::Relaxed) >= strangers).then_some(())).await;
    for _ in 0..5 {
        assert_eq!(nobody.get("/livez").await.code, 200);
        assert_eq!(admin.get("/readyz").await.code, 200);
        assert_eq!(admin.get(REBALANCERS).await.code, 200);
    }
    assert!(metric(admin.get("/metrics").await.text(), "ballast_connections_closed_total{reason=\"evicted\"}") > 0.0);
    dripping.abort();
}

/// Opens an HTTP/2 connection that is silent but responds to pings.
async fn silent(client: &Raw) -> Option<SendRequest<Empty<Bytes>>> {
    let io = TokioIo::new(client.try_connect().await.ok()?);
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.ok()?;
    tokio::spawn(connection);
    Some(sender)
}

/// sec-02 with as many connections as the built program accepts. Most strangers are silent, because
/// a slow one is closed after 30 s: a slow machine would never have so many at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_and_probes_get_in_beside_4096_strangers() {
    const CONNECTIONS: usize = 4096;
    let strangers = sized(0, CONNECTIONS + 64);
    if strangers == 0 {
        return;
    }
    if !may_open(strangers + 1000) {
        return skipped("the limit of open files is too low for so many strangers");
    }
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &[]);
    let certs = Files::in_dir(&home.path().join("certs"));
    let (nobody, admin) = (Raw::nobody(server.address, &certs), Raw::admin(server.address, &certs));
    let watching = admin.connect().await;
    let mut watch = watching.open(Method::GET, &format!("{REBALANCERS}?watch=1"), &[], "").await.unwrap().into_body();
    let (dripped, next) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let dripping = tokio::spawn(drip(nobody.clone(), 500, dripped));
    let mut openers = JoinSet::new();
    for _ in 0..8 {
        let (nobody, next) = (nobody.clone(), Arc::clone(&next));
        openers.spawn(async move {
            let mut open = Vec::new();
            while next.fetch_add(1, Ordering::Relaxed) < strangers {
                open.extend(silent(&nobody).await);
            }
            // They remain until the test drops this.
            std::future::pending::<()>().await;
            drop(open);
        });
    }
    let measured = async |name: &str| metric(admin.get("/metrics").await.text(), name);
    let evicted = "ballast_connections_closed_total{reason=\"evicted\"}";
    wait_for("strangers that have to make room", async || (measured(evicted).await > 0.0).then_some(())).await;
    for turn in 0..5 {
        for path in ["/livez", "/readyz", "/healthz"] {
            assert_eq!(nobody.get(path).await.code, 200, "{path}");
        }
        assert_eq!(admin.get(REBALANCERS).await.code, 200);
        let object = rebalancer(&format!("r{turn}")).to_string();
        assert_eq!(admin.send(Method::POST, REBALANCERS, &[JSON], object).await.code, 201);
    }
    let open = measured("ballast_connections").await;
    assert!(open > CONNECTIONS as f64 * 0.9, "{open} connections");
    let event = tokio::time::timeout(Duration::from_secs(30), watch.frame()).await.expect("in time").unwrap().unwrap();
    assert!(event.into_data().unwrap().starts_with(b"{\"type\":\"ADDED\""), "the watch from before them goes on");
    dripping.abort();
}

/// Raises the limit of open files, and returns whether it suffices.
fn may_open(files: usize) -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.is_none_or(|most| most >= files as u64)
}

/// sec-03.
#[tokio::test]
async fn li12_two_hundred_bodies_that_never_come_keep_no_write_waiting() {
    let server = server_with(ConnectionLimits::default()).await;
    let nobody = server.client("nobody", &[], |_| {});
    let io = TokioIo::new(nobody.try_connect().await.unwrap());
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let mut waiting = JoinSet::new();
    for _ in 0..200 {
        let never = futures_util::stream::pending::<Result<Frame<Bytes>, std::convert::Infallible>>();
        let request = Request::post(format!("https://localhost{ACCESS_REVIEWS}")).header(JSON.0, JSON.1);
        let request = request.body(StreamBody::new(never)).unwrap();
        let mut sender = sender.clone();
        waiting.spawn(async move {
            sender.ready().await.unwrap();
            sender.send_request(request).await.map(|answer| answer.status().as_u16())
        });
    }
    let jane = server.client("jane", &[], |_| {}).connect().await;
    let admin = server.admin().connect().await;
    let began = Instant::now();
    for number in 0..20 {
        let made = jane.send(Method::POST, BINDINGS, &[JSON], own_binding("shop", &format!("w{number}"))).await;
        assert_eq!(made.code, 201, "{}", made.text());
        let made = admin.send(Method::POST, REBALANCERS, &[JSON], rebalancer(&format!("r{number}")).to_string()).await;
        assert_eq!(made.code, 201, "{}", made.text());
        assert_eq!(server.nobody().get("/livez").await.code, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "none waits for the bodies: {:?}", began.elapsed());
    // They were closed or not accepted.
    while let Some(answer) = waiting.join_next().await {
        let code = answer.unwrap().unwrap();
        assert!(matches!(code, 408 | 429), "{code}");
    }
    server.stop().await;
}

/// sec-06.
#[tokio::test]
async fn li10_a_reviewer_that_never_stops_is_one_of_many() {
    let server = server_with(ConnectionLimits::default()).await;
    let admin = server.admin().connect().await;
    for name in ["m1", "m2"] {
        let whole = cluster(name);
        let mut made = admin.send(Method::POST, CLUSTERS, &[JSON], whole.to_string()).await.json();
        made["status"] = whole["status"].clone();
        let path = format!("{CLUSTERS}/{name}/status");
        assert_eq!(admin.send(Method::PUT, &path, &[JSON], made.to_string()).await.code, 200);
    }
    for number in 0..20 {
        let mut made = binding(&format!("web-{number}"), 4, by_room());
        for path in ["/metadata/namespace", "/spec/resource/namespace"] {
            *made.pointer_mut(path).unwrap() = json!("shop");
        }
        let made = admin.send(Method::POST, BINDINGS, &[JSON], made.to_string()).await;
        assert_eq!(made.code, 201, "{}", made.text());
    }
    let supposing = |count: usize, explain: &str| {
        let clusters: Vec<Value> =
            (0..count).map(|number| json!({"name": format!("n{number}"), "like": "m1"})).collect();
        let spec = json!({"select": [{}], "explain": explain, "limit": 10_000, "suppose": {"clusters": clusters}});
        json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "LocalPlacementReview", "spec": spec}).to_string()
    };
    let jane = server.client("jane", &[], |_| {});
    let refused = jane.send(Method::POST, LOCAL_REVIEWS, &[JSON], supposing(1_000, "Full")).await;
    assert_eq!(refused.code, 422);
    let cause = refused.json()["details"]["causes"][0].clone();
    assert_eq!(cause["field"], "spec.suppose.clusters");
    assert!(cause["message"].as_str().unwrap().starts_with("Too many: 1000: with 20 workloads"), "{cause}");
    assert_eq!(jane.send(Method::POST, LOCAL_REVIEWS, &[JSON], supposing(1_000, "None")).await.code, 201);

    let is_over = Arc::new(AtomicBool::new(false));
    let mut reviewers = JoinSet::new();
    for _ in 0..12 {
        let (jane, is_over, question) = (jane.connect().await, Arc::clone(&is_over), supposing(200, "Full"));
        reviewers.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let code = jane.send(Method::POST, LOCAL_REVIEWS, &[JSON], question.clone()).await.code.as_u16();
                assert!(matches!(code, 201 | 429), "{code}");
            }
        });
    }
    let bob = server.client("bob", &[], |_| {}).connect().await;
    let small = json!({"select": [{"name": "web-1"}], "mode": "AsIs"});
    let question = |kind: &str| json!({"apiVersion": "ballast.dev/v1alpha1", "kind": kind, "spec": small}).to_string();
    for _ in 0..10 {
        let answer = admin.send(Method::POST, REVIEWS, &[JSON], question("PlacementReview")).await;
        assert_eq!(answer.code, 201, "{}", answer.text());
        let answer = bob.send(Method::POST, LOCAL_REVIEWS, &[JSON], question("LocalPlacementReview")).await;
        assert_eq!(answer.code, 201, "{}", answer.text());
        assert_eq!(server.nobody().get("/livez").await.code, 200);
    }
    is_over.store(true, Ordering::Relaxed);
    reviewers.join_all().await;
    server.stop().await;
}

fn own_binding(namespace: &str, name: &str) -> String {
    let resource = json!({"apiVersion": "v1", "kind": "X", "name": name, "namespace": namespace});
    let spec = json!({"resource": resource});
    json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": name}, "spec": spec})
        .to_string()
}

/// sec-09: writers of a large object wait for each other, and block no other request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_object_costs_its_writer() {
    let server = server_with(ConnectionLimits::default()).await;
    let (jane, bob) = (server.client("jane", &[], |_| {}), server.client("bob", &[], |_| {}));
    let targets = |turn: usize| -> Vec<Value> {
        (0..4_000).map(|number| json!({"name": format!("{turn}-{number:032}"), "replicas": 1})).collect()
    };
    let mut large: Value = serde_json::from_str(&own_binding("shop", "grow")).unwrap();
    large["spec"]["clusters"] = Value::from(targets(0));
    assert_eq!(jane.send(Method::POST, BINDINGS, &[JSON], large.to_string()).await.code, 201);
    assert_eq!(bob.send(Method::POST, OTHER_BINDINGS, &[JSON], own_binding("other", "small")).await.code, 201);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for turn in 1..=4 {
        let (jane, is_over) = (jane.connect().await, Arc::clone(&is_over));
        let patch = json!({"spec": {"clusters": targets(turn)}}).to_string();
        writers.spawn(async move {
            let mut written = 0;
            while !is_over.load(Ordering::Relaxed) {
                let reply = jane.send(Method::PATCH, &format!("{BINDINGS}/grow"), &[MERGE], patch.clone()).await;
                assert_eq!(reply.code, 200, "{}", reply.text());
                written += 1;
            }
            written
        });
    }
    let bob = bob.connect().await;
    let mut slowest = Duration::ZERO;
    for turn in 0..30 {
        let began = Instant::now();
        let patch = json!({"metadata": {"annotations": {"turn": turn.to_string()}}}).to_string();
        let path = format!("{OTHER_BINDINGS}/small");
        assert_eq!(bob.send(Method::PATCH, &path, &[MERGE], patch).await.code, 200);
        slowest = slowest.max(began.elapsed());
        assert_eq!(server.nobody().get("/livez").await.code, 200);
    }
    is_over.store(true, Ordering::Relaxed);
    let written: usize = writers.join_all().await.into_iter().sum();
    assert!(slowest < Duration::from_secs(5), "a small write took {slowest:?} beside {written} large ones");
    server.stop().await;
}

/// oas-13, oas-14: a request of a megabyte has no large response, and takes no long time.
#[tokio::test]
async fn li11_a_small_request_has_no_large_answer() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let whole = |metadata: Value, workloads: Vec<Value>| {
        let mut object = rebalancer("many");
        object["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        object["spec"]["workloads"] = Value::from(workloads);
        object.to_string()
    };
    let one = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a"});
    let owner = |number: usize| json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": format!("u{number}")});
    let owners = json!({"ownerReferences": (0..20_000).map(owner).collect::<Vec<Value>>()});
    let finalizers = json!({"finalizers": (0..40_000).map(|number| format!("f{number}")).collect::<Vec<String>>()});
    let unknown =
        (0..40_000).map(|number| json!({"apiVersion": "v1", "kind": "A", "name": "a", format!("u{number}"): 1}));
    let repeated =
        format!(r#"{{"a":{{{}}},{}"#, [r#""k":1"#; 40_000].join(","), &whole(json!({}), vec![one.clone()])[1..]);
    let of_yaml = format!(
        "apiVersion: apps.karmada.io/v1alpha1\nkind: WorkloadRebalancer\nmetadata:\n  name: many\n  \
        annotations:\n{}spec:\n  workloads: []\n",
        "    k: v\n".repeat(160_000)
    );
    let long_key = json!({"annotations": {"k".repeat(500_000): "v", "l".repeat(400_000): "v"}});
    let rows = [
        ("empty items", JSON, 422, whole(json!({}), vec![json!({}); 300_000])),
        ("owners", JSON, 201, whole(owners, vec![one.clone()])),
        ("finalizers", JSON, 201, whole(finalizers, vec![one.clone()])),
        ("unknown fields", JSON, 400, whole(json!({}), unknown.collect())),
        ("repeated keys", JSON, 400, repeated),
        ("repeated keys of YAML", ("content-type", "application/yaml"), 400, of_yaml),
        ("long keys", JSON, 422, whole(long_key, vec![one])),
    ];
    for (name, media, code, body) in rows {
        let began = Instant::now();
        let path = format!("{REBALANCERS}?dryRun=All&fieldValidation=Strict");
        let reply = admin.send(Method::POST, &path, &[media], body).await;
        let shown = String::from_utf8_lossy(&reply.body[..reply.body.len().min(300)]).into_owned();
        assert_eq!(reply.code, code, "{name}: {shown}");
        let echoed = if code == 201 { 4 << 20 } else { 1 << 20 };
        assert!(reply.body.len() < echoed, "{name}: {} bytes", reply.body.len());
        // In an unoptimized build, on a busy machine.
        assert!(began.elapsed() < Duration::from_secs(60), "{name}: {:?}", began.elapsed());
        if code == 422 && name == "empty items" {
            let causes = reply.json()["details"]["causes"].as_array().unwrap().clone();
            assert_eq!(causes.len(), 101);
            assert!(causes[100]["message"].as_str().unwrap().starts_with("and "), "{}", causes[100]);
        }
    }
    server.stop().await;
}
