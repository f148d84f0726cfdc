//! Smaller features of an API server: status pages, bodies without a kind, connections that are
//! moved (CU2, CU3, CU5), and a log without a reader (LG4).

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use ballast::node::certs::Files;
use ballast::server::ConnectionLimits;
use http::Method;
use http_body_util::BodyExt as _;
use serde_json::json;

use crate::process::{ServerProcess, WITHIN};
use crate::support::objects::{BINDINGS, REBALANCERS, binding, rebalancer};
use crate::support::raw::Raw;
use crate::support::server::{Options, TestServer};

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn cu2_statusz_and_flagz_are_text_and_objects_for_clients_that_name_them() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &["--max-requests-inflight=123"]);
    let files = Files::in_dir(&home.path().join("certs"));
    let (admin, nobody) = (Raw::admin(server.address, &files), Raw::nobody(server.address, &files));
    let get = async |path: &str, accept: &str| admin.send(Method::GET, path, &[("accept", accept)], "").await;
    for (path, kind, line) in
        [("/statusz", "Statusz", "Binary version: "), ("/flagz", "Flagz", "max-requests-inflight=123\n")]
    {
        for accept in ["*/*", "text/plain", "text/*;q=0.5, application/json"] {
            let text = get(path, accept).await;
            assert_eq!((text.code.as_u16(), text.header("content-type")), (200, Some("text/plain; charset=utf-8")));
            assert!(text.text().starts_with(&format!("\nballast {}\nWarning: ", &path[1..])), "{}", text.text());
            assert!(text.text().contains(line), "{}", text.text());
        }
        let named = format!("application/json;g=config.k8s.io;v=v1beta1;as={kind}");
        let object = get(path, &named).await.json();
        assert_eq!((&object["kind"], &object["apiVersion"]), (&json!(kind), &json!("config.k8s.io/v1beta1")));
        assert_eq!(object["metadata"]["name"], "ballast");
        let yaml = get(path, &named.replace("json", "yaml")).await;
        assert_eq!(yaml.header("content-type"), Some("application/yaml"));
        let old = get(path, &named.replace("v1beta1", "v1alpha1")).await;
        assert_eq!((old.code.as_u16(), &old.json()["apiVersion"]), (200, &json!("config.k8s.io/v1alpha1")));
        let deprecated =
            format!("299 - \"This version of the {} endpoint is deprecated. Please use a newer version.\"", &path[1..]);
        assert_eq!(old.header("warning"), Some(deprecated.as_str()));
        assert_eq!(object["kind"], get(path, &named.replace("application/json", "*/*")).await.json()["kind"]);
        let [streamed, text] = [format!("{named};stream=watch"), named.replace("application/json", "text/plain")];
        let v1 = named.replace("v1beta1", "v1");
        for accept in ["application/json", "application/yaml", "text/html", "text/plain;sv=v1", &v1, &streamed, &text] {
            let refused = get(path, accept).await;
            assert_eq!(refused.code, 406, "{accept}");
            let served = "only the following media types are accepted: application/json, application/yaml, text/plain";
            assert!(refused.text().contains(served), "{accept}: {}", refused.text());
        }
        assert_eq!(nobody.get(path).await.code, 401);
        assert_eq!(admin.send(Method::POST, path, &[JSON], "{}").await.code, 405);
    }
    let flags = get("/flagz", "application/json;g=config.k8s.io;v=v1beta1;as=Flagz").await.json();
    assert_eq!(flags["flags"]["max-requests-inflight"], "123");
    let status = get("/statusz", "application/json;g=config.k8s.io;v=v1beta1;as=Statusz").await.json();
    assert!(status["paths"].as_array().unwrap().contains(&json!("/readyz")), "{status}");
    server.terminate();
}

#[tokio::test]
async fn cu3_kinds_of_kubernetes_itself_are_known_by_their_url() {
    let server = TestServer::start().await;
    let admin = server.admin();
    let post =
        async |path: &str, body: serde_json::Value| admin.send(Method::POST, path, &[JSON], body.to_string()).await;
    let review = post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await;
    assert_eq!((review.code.as_u16(), &review.json()["kind"]), (201, &json!("SelfSubjectReview")));
    let access = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "clusters"}}});
    let review = post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", access).await;
    assert_eq!(review.code, 201, "{}", review.text());
    let event = json!({
        "kind": "Event", "metadata": {"name": "e", "namespace": "shop"}, "reason": "Seen", "type": "Normal",
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "p"},
    });
    let made = post("/api/v1/namespaces/shop/events", event).await;
    assert_eq!((made.code.as_u16(), &made.json()["apiVersion"]), (201, &json!("v1")), "{}", made.text());
    // An update and a patch may omit them, too.
    let mut known = made.json();
    for name in ["kind", "apiVersion"] {
        known.as_object_mut().unwrap().remove(name);
    }
    known["count"] = json!(2);
    let one = "/api/v1/namespaces/shop/events/e";
    let put = admin.send(Method::PUT, one, &[JSON], known.to_string()).await;
    assert_eq!((put.code.as_u16(), &put.json()["kind"]), (200, &json!("Event")), "{}", put.text());
    let merge = [("content-type", "application/merge-patch+json")];
    let bare = json!({"kind": null, "apiVersion": null, "count": 3}).to_string();
    let patched = admin.send(Method::PATCH, one, &merge, bare).await;
    assert_eq!((patched.code.as_u16(), &patched.json()["apiVersion"]), (200, &json!("v1")), "{}", patched.text());
    // Another kind remains an error, as do custom resources without a kind.
    let other = post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({"kind": "Pod"})).await;
    assert_eq!(other.code, 400, "{}", other.text());
    let mut bare = rebalancer("r");
    bare.as_object_mut().unwrap().remove("kind");
    assert_eq!(post(REBALANCERS, bare).await.code, 400);
    server.stop().await;
}

#[tokio::test]
async fn cu5_a_request_may_move_its_client_to_another_connection_and_watches_go_on() {
    let connections = ConnectionLimits { goaway_per_million: 1_000_000, ..ConnectionLimits::default() };
    let server = TestServer::with(Options { connections, ..Options::default() }).await;
    let connection = server.admin().connect().await;
    let watch = connection.open(Method::GET, &format!("{BINDINGS}?watch=1"), &[], "").await.unwrap();
    assert_eq!(watch.status(), 200);
    let mut watch = watch.into_body();
    let moved = tokio::time::timeout(WITHIN, async {
        while connection.open(Method::GET, BINDINGS, &[], "").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    moved.await.expect("the connection takes no further request");
    let made = server.admin().send(Method::POST, BINDINGS, &[JSON], binding("web").to_string()).await;
    assert_eq!(made.code, 201, "another connection serves: {}", made.text());
    let event = tokio::time::timeout(WITHIN, watch.frame()).await.expect("the watch goes on").unwrap().unwrap();
    assert!(event.into_data().unwrap().starts_with(b"{\"type\":\"ADDED\""));
    drop(watch);
    server.stop().await;
}

/// api-15: a full pipe at standard error does not block the server.
#[tokio::test]
async fn lg4_a_full_standard_error_stops_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_ballast"))
        .args(["serve", "--secure-port=0", "--database-url=memory:", "-v", "3", "--cert-dir"])
        .arg(home.path().join("certs"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = Vec::new();
    let stdout = server.stdout.as_mut().unwrap();
    while !ready.ends_with(b"\n") {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        ready.extend(byte);
    }
    let ready = String::from_utf8(ready).unwrap();
    let address = ready.split_whitespace().find_map(|word| word.strip_prefix("https://")).unwrap().parse().unwrap();
    let admin = Raw::admin(address, &Files::in_dir(&home.path().join("certs"))).connect().await;
    // A line has more than a hundred bytes, and the pipe takes 64 KiB.
    let long = format!("/apis?{}", "x".repeat(4000));
    for _ in 0..200 {
        let answer = tokio::time::timeout(WITHIN, admin.send(Method::GET, &long, &[], "")).await;
        assert_eq!(answer.expect("it answers").code, 200);
    }
    // Once the queue of lines is full, lines are dropped.
    let dropped = tokio::time::timeout(WITHIN * 4, async {
        loop {
            for _ in 0..200 {
                admin.send(Method::GET, "/apis", &[], "").await;
            }
            let text = admin.send(Method::GET, "/metrics", &[], "").await.text().to_owned();
            let line = text.lines().find_map(|line| line.strip_prefix("ballast_log_lines_dropped_total "));
            if line.expect("it is there").parse::<f64>().unwrap() > 0.0 {
                break;
            }
        }
    });
    dropped.await.expect("lines are dropped and counted");
    // The reader returns, and the log reports the dropped lines.
    let mut stderr = server.stderr.take().unwrap();
    let (told, is_told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut log = Vec::new();
        let mut part = [0; 65536];
        while let Ok(read @ 1..) = stderr.read(&mut part) {
            log.extend_from_slice(&part[..read]);
            if String::from_utf8_lossy(&log).contains("log lines were dropped") {
                let _ = told.send(());
            }
        }
    });
    is_told.recv_timeout(WITHIN).expect("the log says that lines were dropped");
    server.kill().unwrap();
    server.wait().unwrap();
}
