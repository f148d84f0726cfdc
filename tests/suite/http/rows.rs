//! Requirements of the API server that no other module tests. Each test names its ids
//! (docs/dev/requirements.md).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ballast::server::{Check, Counts};
use bytes::BytesMut;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::objects::{
    self, ALL_BINDINGS, BINDINGS, CLUSTERS, REBALANCERS, TASKS, binding, rebalancer, task, workload,
};
use crate::support::raw::{Connection, Protocol, Reply};
use crate::support::server::{Options, TestServer};
use crate::support::wait_for;

const SOON: Duration = Duration::from_secs(60);
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const TABLE: (&str, &str) = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
/// The `Accept` header of client-go's metadata client.
const METADATA_LIST: (&str, &str) = (
    "accept",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
);

async fn start() -> (TestServer, Connection) {
    let server = TestServer::start().await;
    let connection = server.admin().connect().await;
    (server, connection)
}

async fn post(admin: &Connection, path: &str, object: &Value) -> Reply {
    admin.send(Method::POST, path, &[], object.to_string()).await
}

async fn get(admin: &Connection, path: &str) -> Reply {
    admin.send(Method::GET, path, &[], "").await
}

fn message(reply: &Reply) -> String {
    reply.json()["message"].as_str().unwrap_or_default().to_owned()
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

struct Events {
    body: Incoming,
    buffer: BytesMut,
}

impl Events {
    async fn open(connection: &Connection, path: &str, headers: &[(&str, &str)]) -> Events {
        let response = connection.open(Method::GET, path, headers, "").await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(!response.headers().contains_key("content-encoding"));
        Events { body: response.into_body(), buffer: BytesMut::new() }
    }

    async fn next(&mut self) -> Value {
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                return serde_json::from_slice(&self.buffer.split_to(end + 1)).unwrap();
            }
            let frame = tokio::time::timeout(SOON, self.body.frame()).await.expect("the watch says something");
            self.buffer.extend_from_slice(&frame.expect("it goes on").unwrap().into_data().unwrap());
        }
    }
}

#[tokio::test]
async fn ad1_ad8_az8_what_is_asked_first_is_refused_first() {
    let (server, admin) = start().await;
    // Without the right, the response reveals neither errors in the body nor whether the object
    // exists (AZ8).
    let stranger = server.client("stranger", &[], |_| {});
    assert_eq!(stranger.send(Method::POST, BINDINGS, &[], "{").await.code, 403);
    assert_eq!(stranger.get(&format!("{BINDINGS}/none")).await.code, 403);
    // Decoding comes before the namespace, the namespace before the rules of the object.
    let mut object = binding("No Name");
    object["metadata"]["namespace"] = json!("other");
    object["spec"]["surprise"] = json!(1);
    let strict = format!("{BINDINGS}?fieldValidation=Strict");
    assert!(message(&post(&admin, &strict, &object).await).contains("strict decoding error"));
    assert!(message(&post(&admin, BINDINGS, &object).await).contains("namespace of the provided object"));
    object["metadata"]["namespace"] = json!("shop");
    assert_eq!(post(&admin, BINDINGS, &object).await.code, 422);
    // Several errors are reported together.
    object["spec"]["replicas"] = json!("many");
    let causes = post(&admin, BINDINGS, &object).await.json()["details"]["causes"].as_array().unwrap().len();
    assert!(causes >= 2, "{causes}");
    server.stop().await;
}

#[tokio::test]
async fn ad5_md3_md11_md16_what_is_stored_is_pruned_and_says_what_it_is() {
    let (server, admin) = start().await;
    let mut object = binding("web");
    object["spec"]["surprise"] = json!(1);
    object["metadata"]["surprise"] = json!(1);
    object["metadata"]["selfLink"] = json!("/x");
    let reply = post(&admin, BINDINGS, &object).await;
    assert_eq!(reply.code, 201);
    let stored = get(&admin, &format!("{BINDINGS}/web")).await.json();
    assert_eq!((stored["spec"].get("surprise"), stored["metadata"].get("surprise")), (None, None));
    assert_eq!(stored["metadata"].get("selfLink"), None);
    assert_eq!((&stored["kind"], &stored["apiVersion"]), (&object["kind"], &object["apiVersion"]));
    server.stop().await;
}

#[tokio::test]
async fn ch11_se6_pages_and_selectors_work_in_every_form() {
    let (server, admin) = start().await;
    for name in ["a", "b", "c"] {
        let mut object = binding(name);
        object["metadata"]["labels"] = json!({"even": (name == "b").to_string()});
        post(&admin, BINDINGS, &object).await;
    }
    for (form, items) in [(TABLE, "rows"), (METADATA_LIST, "items")] {
        let page = admin.send(Method::GET, &format!("{ALL_BINDINGS}?limit=2"), &[form], "").await.json();
        assert_eq!((page[items].as_array().unwrap().len(), &page["metadata"]["remainingItemCount"]), (2, &json!(1)));
        let token = page["metadata"]["continue"].as_str().unwrap();
        let rest = format!("{ALL_BINDINGS}?limit=2&continue={token}");
        let rest = admin.send(Method::GET, &rest, &[form], "").await.json();
        assert_eq!(rest[items].as_array().unwrap().len(), 1);
        assert_eq!(rest["metadata"]["resourceVersion"], page["metadata"]["resourceVersion"]);
        let selected = format!("{ALL_BINDINGS}?labelSelector=even%3Dtrue");
        let selected = admin.send(Method::GET, &selected, &[form], "").await.json();
        assert_eq!(selected[items].as_array().unwrap().len(), 1);
    }
    server.stop().await;
}

#[tokio::test]
async fn de12_pm4_the_namespace_controller_empties_a_namespace() {
    let (server, admin) = start().await;
    post(&admin, BINDINGS, &binding("a")).await;
    post(&admin, BINDINGS, &binding("b")).await;
    let options = r#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}"#;
    assert_eq!(admin.send(Method::DELETE, BINDINGS, &[], options).await.code, 200);
    let list = admin.send(Method::GET, BINDINGS, &[METADATA_LIST], "").await;
    assert_eq!(list.header("content-type"), Some("application/json"));
    let list = list.json();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert!(list["items"].as_array().is_none_or(Vec::is_empty));
    server.stop().await;
}

#[tokio::test]
async fn er13_er14_what_is_not_served_is_refused_with_what_is() {
    let (server, admin) = start().await;
    let reply = admin.send(Method::GET, BINDINGS, &[("accept", "text/html")], "").await;
    assert_eq!((reply.code.as_u16(), reply.json()["reason"].clone()), (406, json!("NotAcceptable")));
    assert!(message(&reply).starts_with("only the following media types are accepted: application/json"));
    let strategic = ("content-type", "application/strategic-merge-patch+json");
    let reply = admin.send(Method::PATCH, &format!("{BINDINGS}/web"), &[strategic], "{}").await;
    let expected = "the body of the request was in an unknown format - accepted media types include: \
                    application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    assert_eq!((reply.code.as_u16(), message(&reply).as_str()), (415, expected));
    server.stop().await;
}

#[tokio::test]
async fn er25_er26_ta8_every_error_is_a_status() {
    let (server, admin) = start().await;
    let missing = admin.send(Method::GET, &format!("{BINDINGS}/none"), &[TABLE], "").await;
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "resourcebindings.work.karmada.io \"none\" not found", "reason": "NotFound",
        "details": {"name": "none", "group": "work.karmada.io", "kind": "resourcebindings"}, "code": 404});
    assert_eq!(missing.json(), expected);
    for (method, path, code) in [
        (Method::OPTIONS, BINDINGS.to_owned(), 405),
        (Method::PUT, BINDINGS.to_owned(), 400),
        (Method::GET, format!("{BINDINGS}?limit=x"), 400),
        (Method::GET, format!("{BINDINGS}?timeout=x"), 400),
        (Method::GET, format!("{BINDINGS}?labelSelector=a%20in%20("), 400),
        (Method::GET, "/apis/%ff".to_owned(), 400),
        (Method::POST, "/version".to_owned(), 405),
    ] {
        let reply = admin.send(method.clone(), &path, &[], "").await;
        let status = reply.json();
        assert_eq!((reply.code.as_u16(), &status["code"]), (code, &json!(code)), "{method} {path}");
        assert_eq!((&status["kind"], &status["metadata"]), (&json!("Status"), &json!({})), "{method} {path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn pa2_what_kubectl_sends_for_other_kinds_is_a_merge_patch() {
    let (server, admin) = start().await;
    post(&admin, BINDINGS, &binding("web")).await;
    let patch = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    let reply = admin.send(Method::PATCH, &format!("{BINDINGS}/web?fieldManager=kubectl-label"), &[MERGE], patch).await;
    assert_eq!((reply.code.as_u16(), &reply.json()["metadata"]["labels"]["a"]), (200, &json!("b")));
    server.stop().await;
}

#[tokio::test]
async fn pm2_pm3_pm5_metadata_alone_is_all_of_the_metadata() {
    let (server, admin) = start().await;
    let whole = post(&admin, BINDINGS, &binding("web")).await.json();
    for version in ["v1", "v1beta1"] {
        let accept = format!("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v={version}");
        let accept = [("accept", accept.as_str())];
        let partial = admin.send(Method::GET, &format!("{BINDINGS}/web"), &accept, "").await.json();
        let version = format!("meta.k8s.io/{version}");
        assert_eq!(
            partial,
            json!({"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": whole["metadata"]})
        );
        // The form of one object is invalid for a list.
        assert_eq!(admin.send(Method::GET, BINDINGS, &accept, "").await.code, 406);
    }
    server.stop().await;
}

#[tokio::test]
async fn rv1_rv2_rv5_rv6_rv8_rv17_rv19_reads_are_as_new_as_asked_for() {
    let (server, admin) = start().await;
    let first = post(&admin, BINDINGS, &binding("a")).await.json();
    let second = post(&admin, BINDINGS, &binding("b")).await.json();
    let (old, new) = (version(&first), version(&second));
    assert!(0 < old && old < new);
    for query in ["", "?resourceVersion=0", &format!("?resourceVersion={old}"), &format!("?resourceVersion={new}")] {
        assert_eq!(get(&admin, &format!("{BINDINGS}/b{query}")).await.json(), second, "{query}");
    }
    for query in [
        String::new(),
        "?resourceVersion=0".to_owned(),
        "?resourceVersion=0&limit=9".to_owned(),
        format!("?resourceVersion={old}"),
        format!("?resourceVersion={old}&resourceVersionMatch=NotOlderThan"),
        format!("?resourceVersion={old}&resourceVersionMatch=NotOlderThan&limit=5"),
    ] {
        let list = get(&admin, &format!("{BINDINGS}{query}")).await.json();
        assert_eq!(names(&list), ["a", "b"], "{query}");
        assert!(version(&list) >= new, "{query}");
    }
    server.stop().await;
}

#[tokio::test]
async fn rv10_rv11_rv12_rv13_rv14_wa13_contradictory_options_are_422() {
    let (server, admin) = start().await;
    post(&admin, BINDINGS, &binding("a")).await;
    post(&admin, BINDINGS, &binding("b")).await;
    let token = get(&admin, &format!("{BINDINGS}?limit=1")).await.json()["metadata"]["continue"].clone();
    let token = token.as_str().unwrap();
    for (query, expected) in [
        (
            "resourceVersionMatch=Exact".to_owned(),
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            format!("resourceVersionMatch=Exact&limit=1&continue={token}"),
            "resourceVersionMatch is forbidden when continue is provided",
        ),
        ("resourceVersion=1&resourceVersionMatch=foo".to_owned(), "supported values: \"Exact\", \"NotOlderThan\""),
        ("resourceVersion=0&resourceVersionMatch=Exact".to_owned(), "is forbidden for resourceVersion \"0\""),
        ("sendInitialEvents=true".to_owned(), "sendInitialEvents is forbidden for list"),
        (
            "watch=1&sendInitialEvents=true".to_owned(),
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "watch=1&resourceVersionMatch=NotOlderThan".to_owned(),
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ] {
        let reply = get(&admin, &format!("{BINDINGS}?{query}")).await;
        assert_eq!(reply.code, 422, "{query}: {}", reply.text());
        assert!(message(&reply).contains(expected), "{query}: {}", message(&reply));
    }
    server.stop().await;
}

#[tokio::test]
async fn st5_st6_the_status_subresource_is_read_and_discovered() {
    let (server, admin) = start().await;
    let object = post(&admin, BINDINGS, &binding("web")).await.json();
    let path = format!("{BINDINGS}/web/status");
    assert_eq!(get(&admin, &path).await.json(), object);
    let table = admin.send(Method::GET, &path, &[TABLE], "").await.json();
    assert_eq!((&table["kind"], table["rows"].as_array().unwrap().len()), (&json!("Table"), 1));
    let resources = get(&admin, "/apis/work.karmada.io/v1alpha2").await.json();
    let resources = resources["resources"].as_array().unwrap();
    let status = resources.iter().find(|resource| resource["name"] == "resourcebindings/status").unwrap();
    assert_eq!(status["verbs"], json!(["get", "patch", "update"]));
    server.stop().await;
}

#[tokio::test]
async fn ta7_ta10_tables_have_the_columns_of_their_kind() {
    let (server, admin) = start().await;
    let cluster = objects::cluster("m1");
    assert_eq!(post(&admin, CLUSTERS, &cluster).await.code, 201);
    let table = admin.send(Method::GET, CLUSTERS, &[TABLE], "").await.json();
    let of = |priority: i64| -> Vec<&str> {
        let columns = table["columnDefinitions"].as_array().unwrap().iter();
        columns.filter(|it| it["priority"] == priority).map(|it| it["name"].as_str().unwrap()).collect()
    };
    assert_eq!(
        of(0).iter().map(|name| name.to_lowercase()).collect::<Vec<_>>(),
        ["name", "version", "mode", "ready", "age"]
    );
    assert_eq!(
        table["rows"][0]["cells"].as_array().unwrap().len(),
        table["columnDefinitions"].as_array().unwrap().len()
    );
    assert_eq!(table["rows"][0]["cells"][0], "m1");
    // The kinds of Karmada have exactly upstream's names. Additional columns are wide (D50).
    const POLICIES: &str = "/apis/policy.karmada.io/v1alpha1/propagationpolicies";
    for (path, expected) in [
        (BINDINGS, &["Name", "SCHEDULED", "FULLYAPPLIED", "AGE"][..]),
        (POLICIES, &["Name", "CONFLICT-RESOLUTION", "PRIORITY", "AGE"]),
        (REBALANCERS, &["Name", "Age"]),
    ] {
        let table = admin.send(Method::GET, path, &[TABLE], "").await.json();
        let columns = table["columnDefinitions"].as_array().unwrap().iter();
        let names: Vec<&str> =
            columns.filter(|column| column["priority"] == 0).map(|column| column["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{path}");
    }
    let spec = json!({"replicas": 5, "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 3}]});
    let binding = objects::binding_in("shop", "web-deployment", "web", spec);
    assert_eq!(
        post(&admin, "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings", &binding).await.code,
        201
    );
    assert_eq!(wide(&admin, BINDINGS).await, [("TARGETS", json!("m1:2,m2:3")), ("REPLICAS", json!(5))]);
    let asked = rebalancer("r");
    assert_eq!(post(&admin, REBALANCERS, &asked).await.code, 201);
    let unfinished = [("DONE", json!(0)), ("FAILED", json!(0)), ("FINISHED", json!(null))];
    assert_eq!(wide(&admin, REBALANCERS).await, unfinished);
    let status = json!({"status": {"finishTime": "2000-01-01T00:00:00Z", "observedWorkloads": [
        {"workload": asked["spec"]["workloads"][0], "result": "Failed"}]}});
    let path = format!("{REBALANCERS}/r/status");
    assert_eq!(admin.send(Method::PATCH, &path, &[MERGE], status.to_string()).await.code, 200);
    let finished = wide(&admin, REBALANCERS).await;
    assert_eq!(finished[..2], [("DONE", json!(0)), ("FAILED", json!(1))]);
    assert!(finished[2].1.as_str().unwrap().ends_with('y'), "{finished:?}");
    // Kinds that act and are not stored have no rows.
    assert_eq!(admin.send(Method::POST, TASKS, &[TABLE], task("t").to_string()).await.code, 406);
    server.stop().await;
}

/// The columns of `-o wide` with the cells of the first row.
async fn wide(admin: &Connection, path: &str) -> Vec<(&'static str, Value)> {
    const NAMES: [&str; 5] = ["TARGETS", "REPLICAS", "DONE", "FAILED", "FINISHED"];
    let table = admin.send(Method::GET, path, &[TABLE], "").await.json();
    let columns = table["columnDefinitions"].as_array().unwrap().iter().enumerate();
    let wide = columns.filter(|(_, column)| column["priority"] == 1);
    let named = wide.map(|(at, column)| {
        let name = NAMES.into_iter().find(|name| column["name"] == *name).expect("a column of ours");
        (name, table["rows"][0]["cells"][at].clone())
    });
    named.collect()
}

#[tokio::test]
async fn wa2_wa16_wa23_wa32_watchers_see_the_same_whole_objects_in_one_order() {
    let (server, admin) = start().await;
    let gzip = [("accept-encoding", "gzip")];
    let path = format!("{REBALANCERS}?watch=1");
    let mut watches = vec![Events::open(&admin, &path, &gzip).await, Events::open(&admin, &path, &gzip).await];
    let mut versions = Vec::new();
    for name in ["c", "a", "b"] {
        let object = post(&admin, REBALANCERS, &rebalancer(name)).await.json();
        // A list after the write sees it (WA32).
        assert!(names(&get(&admin, REBALANCERS).await.json()).contains(&name));
        versions.push(version(&object));
    }
    for watch in &mut watches {
        for expected in &versions {
            let event = watch.next().await;
            assert_eq!((&event["type"], version(&event["object"])), (&json!("ADDED"), *expected));
            assert_eq!(event["object"]["kind"], "WorkloadRebalancer");
            assert_eq!(event["object"]["apiVersion"], "apps.karmada.io/v1alpha1");
        }
    }
    drop(watches);
    server.stop().await;
}

#[tokio::test]
async fn wa11_a_bookmark_is_not_older_than_what_came_before() {
    let (server, admin) = start().await;
    let created = version(&post(&admin, REBALANCERS, &rebalancer("a")).await.json());
    let path = format!(
        "{REBALANCERS}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    );
    let mut watch = Events::open(&admin, &path, &[]).await;
    assert_eq!(watch.next().await["type"], "ADDED");
    let bookmark = watch.next().await;
    assert_eq!(bookmark["type"], "BOOKMARK");
    let marked = version(&bookmark["object"]);
    assert!(marked >= created);
    // Resumed there, nothing is lost and nothing comes twice.
    let path = format!("{REBALANCERS}?watch=1&resourceVersion={marked}");
    let mut resumed = Events::open(&admin, &path, &[]).await;
    let next = version(&post(&admin, REBALANCERS, &rebalancer("b")).await.json());
    assert_eq!(version(&resumed.next().await["object"]), next);
    server.stop().await;
}

#[tokio::test]
async fn wa24_a_watch_has_no_deadline() {
    let (server, admin) = start().await;
    // The deadline of a request would expire before the first event.
    let mut watch = Events::open(&admin, &format!("{CLUSTERS}?watch=1&timeout=1ms"), &[]).await;
    let cluster = objects::cluster("m1");
    post(&admin, CLUSTERS, &cluster).await;
    assert_eq!(watch.next().await["type"], "ADDED");
    drop(watch);
    server.stop().await;
}

#[tokio::test]
async fn li9_nothing_is_served_without_tls() {
    let (server, _) = start().await;
    let mut plain = tokio::net::TcpStream::connect(server.address).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // However it ends, no HTTP response follows.
    let _ = tokio::time::timeout(SOON, plain.read_to_end(&mut answer)).await.expect("it is cut off");
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    server.stop().await;
}

#[tokio::test]
async fn di10_di11_di13_discovery_takes_what_clients_ask_for() {
    let (server, admin) = start().await;
    let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let beta = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList")];
    assert_eq!(admin.send(Method::GET, "/apis", &beta, "").await.code, 406);
    let nopeer = format!("{v2};profile=nopeer");
    let reply = admin.send(Method::GET, "/apis", &[("accept", nopeer.as_str())], "").await;
    assert_eq!((reply.header("content-type"), &reply.json()["kind"]), (Some(v2), &json!("APIGroupDiscoveryList")));
    assert_eq!(get(&admin, "/api").await.json()["kind"], "APIVersions");
    server.stop().await;
}

#[tokio::test]
async fn wa25_a_watch_that_nobody_reads_any_more_is_freed() {
    let (server, admin) = start().await;
    // Counters are the process's, and no other test watches this kind. Mirrors of a Karmada watch
    // policies, and not overrides.
    let watched = "/apis/policy.karmada.io/v1alpha1/clusteroverridepolicies?watch=1";
    let open = async || -> u64 {
        let metrics = get(&admin, "/metrics").await;
        let series = |line: &&str| {
            line.starts_with("apiserver_longrunning_requests{") && line.contains("\"clusteroverridepolicies\"")
        };
        let line = metrics.text().lines().find(series).map(str::to_owned);
        line.map_or(0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
    };
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let mut watches = Vec::new();
        for _ in 0..3 {
            let connection = server.admin().over(protocol).connect().await;
            watches.push((Events::open(&connection, watched, &[]).await, connection));
        }
        assert_eq!(open().await, 3);
        drop(watches.pop());
        wait_for("one watch to be freed", async || (open().await == 2).then_some(())).await;
        drop(watches);
        wait_for("all watches to be freed", async || (open().await == 0).then_some(())).await;
    }
    // Over HTTP/2 a watch ends without its connection.
    let events = Events::open(&admin, watched, &[]).await;
    assert_eq!(open().await, 1);
    drop(events);
    wait_for("the stream to be reset", async || (open().await == 0).then_some(())).await;
    server.stop().await;
}

#[tokio::test]
async fn he6_what_takes_no_requests_is_not_ready_and_what_cannot_go_on_is_not_alive() {
    let broken: [Arc<AtomicBool>; 2] = Default::default();
    let check = |name, counts, broken: &Arc<AtomicBool>| {
        let broken = Arc::clone(broken);
        Check::new(name, counts, move || if broken.load(Ordering::SeqCst) { Err("broken".to_owned()) } else { Ok(()) })
    };
    let checks = vec![check("storage", Counts::Ready, &broken[0]), check("writer", Counts::Alive, &broken[1])];
    let server = TestServer::with(Options { checks, ..Options::default() }).await;
    let admin = server.admin().connect().await;
    let probes = async || {
        let (ready, live) = (get(&admin, "/readyz").await, get(&admin, "/livez").await);
        (ready.code.as_u16(), live.code.as_u16())
    };
    assert_eq!(probes().await, (200, 200));
    broken[0].store(true, Ordering::SeqCst);
    assert_eq!(probes().await, (500, 200), "a store that does not answer is no reason to start anew");
    broken[0].store(false, Ordering::SeqCst);
    assert_eq!(probes().await, (200, 200));
    broken[1].store(true, Ordering::SeqCst);
    assert_eq!(probes().await, (500, 500));
    // Another test (`sh1_…`) covers the missing readiness during shutdown.
    server.stop().await;
}

#[tokio::test]
async fn er23_the_header_says_when_to_try_again_as_the_body_does() {
    let (server, admin) = start().await;
    let early = get(&admin, &format!("{BINDINGS}?resourceVersion=999999&timeout=30s")).await;
    assert_eq!(early.code, 504);
    let seconds = early.json()["details"]["retryAfterSeconds"].as_u64().unwrap();
    assert_eq!(early.header("retry-after"), Some(&*seconds.to_string()));
    let missing = get(&admin, &format!("{BINDINGS}/none")).await;
    assert_eq!((missing.code.as_u16(), missing.header("retry-after")), (404, None));
    server.stop().await;
}

#[tokio::test]
async fn md13_an_object_cannot_be_patched_beyond_all_bounds() {
    let (server, admin) = start().await;
    assert_eq!(post(&admin, REBALANCERS, &rebalancer("big")).await.code, 201);
    let step = json!({"op": "add", "path": "/spec/workloads/-", "value": workload(&"w".repeat(100_000))});
    let body = json!(vec![step; 28]).to_string();
    let patch = async || {
        let media = [("content-type", "application/json-patch+json")];
        admin.send(Method::PATCH, &format!("{REBALANCERS}/big"), &media, body.clone()).await
    };
    let mut codes = Vec::new();
    while codes.len() < 6 {
        let reply = patch().await;
        codes.push(reply.code.as_u16());
        if reply.code != 200 {
            assert!(message(&reply).starts_with("Request entity too large: limit is "), "{}", message(&reply));
            break;
        }
    }
    assert_eq!(codes, [200, 200, 200, 200, 413], "12 MiB are enough for anybody");
    assert_eq!(get(&admin, &format!("{REBALANCERS}/big")).await.code, 200, "what was there is still there");
    server.stop().await;
}

#[tokio::test]
async fn ct8_json_is_indented_for_who_looks_at_it() {
    let (server, admin) = start().await;
    assert_eq!(post(&admin, BINDINGS, &binding("web")).await.code, 201);
    let path = format!("{BINDINGS}/web");
    let plain = get(&admin, &path).await;
    assert!(!plain.text().trim_end().contains('\n'));
    for (path, headers) in [
        (format!("{path}?pretty=true"), vec![]),
        (path.clone(), vec![("accept", "application/json;pretty=1")]),
        (path.clone(), vec![("user-agent", "curl/8.5.0"), ("accept-encoding", "gzip")]),
    ] {
        let reply = admin.send(Method::GET, &path, &headers, "").await;
        assert_eq!(reply.text().trim_end(), format!("{:#}", plain.json()), "{path} {headers:?}");
    }
    let agent = ("user-agent", "curl/8.5.0");
    let off = admin.send(Method::GET, &format!("{path}?pretty=false"), &[agent], "").await;
    assert_eq!(off.body, plain.body);
    let list = admin.send(Method::GET, BINDINGS, &[agent], "").await;
    assert!(list.text().starts_with("{\n  \"kind\": \"ResourceBindingList\",\n"), "{}", list.text());
    assert_eq!(list.json()["items"][0], plain.json());
    let refusal = admin.send(Method::GET, &format!("{BINDINGS}/none"), &[agent], "").await;
    assert!(refusal.text().contains("\n  \"status\": \"Failure\",\n"), "{}", refusal.text());
    let event = Events::open(&admin, &format!("{BINDINGS}?watch=1"), &[agent]).await.next().await;
    assert_eq!(event["object"], plain.json(), "an event stays on its line");
    server.stop().await;
}

#[tokio::test]
async fn fv8_members_that_mean_nothing_in_a_json_patch_are_named() {
    let (server, admin) = start().await;
    assert_eq!(post(&admin, BINDINGS, &binding("web")).await.code, 201);
    let patch = r#"[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"test","path":"/kind","value":"ResourceBinding","foo":1}]"#;
    let send = async |validation: &str| {
        let path = format!("{BINDINGS}/web?fieldValidation={validation}&dryRun=All");
        admin.send(Method::PATCH, &path, &[("content-type", "application/json-patch+json")], patch).await
    };
    let strict = send("Strict").await;
    assert_eq!(strict.code, 422);
    assert!(
        message(&strict).contains(r#"strict decoding error: json patch unknown field "[1].foo""#),
        "{}",
        strict.text()
    );
    let warned = send("Warn").await;
    assert_eq!(warned.code, 200);
    assert_eq!(warned.header("warning"), Some(r#"299 - "json patch unknown field \"[1].foo\"""#));
    assert_eq!(send("Ignore").await.header("warning"), None);
    server.stop().await;
}
