//! Requests through `clusters/{name}/proxy` to members that are real servers over TLS: a fake that
//! echoes requests, and another Ballast.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ballast::auth::Policy;
use ballast::node::certs::Files;
use ballast::node::config::ServeArgs;
use ballast::node::serve;
use ballast::store::MemoryStore;
use bytes::Bytes;
use http::{HeaderName, Method, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::member::{Member, cluster};
use crate::support::raw::{Protocol, Raw};
use crate::support::server::{Options, TestServer};
use crate::support::{metric, wait_for};

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const TOKEN: &str = "the-impersonators-token";
const PATIENCE: Duration = Duration::from_secs(30);

fn through(path: &str) -> String {
    format!("{CLUSTERS}/m1/proxy{path}")
}

/// The secret of member `m1`, as a pod mounts it.
fn write_secret(folder: &Path, ca: &[u8]) {
    let secret = folder.join("karmada-cluster/m1");
    fs::create_dir_all(&secret).unwrap();
    fs::write(secret.join("caBundle"), ca).unwrap();
    fs::write(secret.join("token"), TOKEN).unwrap();
}

/// Jane may read, and Joe may do everything, through the proxy.
const POLICY: &str = "
rules:
- users: [jane]
  verbs: [get]
  apiGroups: [cluster.karmada.io]
  resources: [clusters/proxy]
  resourceNames: [m1]
- users: [joe]
  verbs: ['*']
  apiGroups: [cluster.karmada.io]
  resources: [clusters/proxy]
";

/// Starts a server that knows the member, with changes to its spec.
async fn server_for(ca: &Path, cluster: &Value) -> (TestServer, TempDir) {
    let secrets = tempfile::tempdir().unwrap();
    write_secret(secrets.path(), &fs::read(ca).unwrap());
    let options = Options {
        policy: Some(Policy::parse(POLICY).unwrap()),
        member_secrets: Some(secrets.path().to_owned()),
        ..Options::default()
    };
    let server = TestServer::with(options).await;
    let json = [("content-type", "application/json")];
    let made = server.admin().send(Method::POST, CLUSTERS, &json, cluster.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.text());
    (server, secrets)
}

async fn change(server: &TestServer, patch: Value) {
    let headers = [("content-type", "application/merge-patch+json")];
    let path = format!("{CLUSTERS}/m1");
    let changed = server.admin().send(Method::PATCH, &path, &headers, patch.to_string()).await;
    assert_eq!(changed.code, 200, "{}", changed.text());
}

#[tokio::test]
async fn cp1_cp2_each_method_reaches_the_member_in_the_name_of_the_user() {
    let member = Member::start().await;
    let (server, _secrets) = server_for(&member.files.ca_cert, &cluster(member.address)).await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let joe = server.client("joe", &["ops"], |_| {}).over(protocol);
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            let headers = [
                ("x-remote-user", "root"),
                ("cookie", "a=b"),
                ("accept", "application/json;as=Table"),
                ("accept-encoding", "gzip"),
                ("user-agent", "curl/8"),
            ];
            let body = if method == "GET" { "" } else { "said" };
            let method: Method = method.parse().unwrap();
            let path = through("/api/v1/pods/a%2Fb?watch=1&timeout=x&x=%20");
            let reply = joe.send(method.clone(), &path, &headers, body).await;
            assert_eq!(reply.code, 200, "{method}: {}", reply.text());
            let told = reply.json();
            assert_eq!(told["method"], method.as_str());
            assert_eq!(told["uri"], "/api/v1/pods/a%2Fb?watch=1&timeout=x&x=%20");
            assert_eq!(told["body"], body);
            let heard = &told["headers"];
            assert_eq!(heard["authorization"], json!([format!("Bearer {TOKEN}")]));
            assert_eq!(heard["impersonate-user"], json!(["joe"]));
            assert_eq!(heard["impersonate-group"], json!(["ops"]), "and no group that is implied");
            assert_eq!(heard["accept"], json!(["application/json;as=Table"]));
            assert_eq!(heard["accept-encoding"], json!(["gzip"]));
            assert_eq!(heard["host"], json!([member.address.to_string()]));
            assert_eq!(heard["x-forwarded-for"], json!(["127.0.0.1"]));
            for name in ["x-remote-user", "cookie", "impersonate-uid", "connection"] {
                assert!(heard.get(name).is_none(), "{name}: {heard}");
            }
            // A header that applies to the whole origin, or an unknown one, is only for the member.
            let mut names: Vec<&str> = reply.headers.keys().map(HeaderName::as_str).collect();
            names.retain(|name| !["content-length", "transfer-encoding", "vary"].contains(name));
            names.sort_unstable();
            let known = ["audit-id", "cache-control", "content-security-policy", "content-type", "date"];
            assert_eq!(names, [&known[..], &["x-content-type-options"]].concat());
            assert_eq!(reply.header("content-security-policy"), Some("default-src 'none'; sandbox"));
            assert_eq!(reply.header("content-type"), Some("text/html"));
        }
        let head = joe.send(Method::HEAD, &through("/healthz"), &[], "").await;
        assert_eq!((head.code.as_u16(), head.body.len()), (200, 0));
        assert!(head.header("content-length").unwrap().parse::<usize>().unwrap() > 0);
        let root = joe.get(&through("")).await;
        assert_eq!(root.json()["uri"], "/");
        let gone = joe.get(&through("/gone")).await;
        assert_eq!((gone.code.as_u16(), gone.text(), gone.header("retry-after")), (410, "compacted", Some("7")));
        let refused = joe.get(&through("/refused")).await;
        assert_eq!((refused.code.as_u16(), refused.header("www-authenticate")), (401, None));
        let climbing = joe.get(&through("/a/%2e%2e/b")).await;
        assert_eq!(climbing.code, 400, "{}", climbing.text());
    }
    let metrics = server.admin().get("/metrics").await;
    let counted = metrics.text().lines().find(|line| {
        line.starts_with("apiserver_request_total{")
            && line.contains("subresource=\"proxy\"")
            && line.contains("\"200\"")
    });
    assert!(counted.is_some_and(|line| line.contains("verb=\"CONNECT\"")), "{counted:?}");
    let of_requests = |line: &&str| line.starts_with("apiserver_") || line.starts_with("ballast_member");
    let labelled = metrics.text().lines().filter(of_requests).find(|line| line.contains("pods"));
    assert_eq!(labelled, None, "what a client asks for is no label");
    server.stop().await;
    member.stop().await;
}

#[tokio::test]
async fn cp1_im1_who_impersonates_here_is_the_other_user_there() {
    let member = Member::start().await;
    let (server, _secrets) = server_for(&member.files.ca_cert, &cluster(member.address)).await;
    let headers = [("impersonate-user", "jane"), ("impersonate-group", "staff")];
    let told = server.admin().send(Method::GET, &through("/x"), &headers, "").await.json();
    assert_eq!(told["headers"]["impersonate-user"], json!(["jane"]));
    assert_eq!(told["headers"]["impersonate-group"], json!(["staff"]));
    let headers = [("impersonate-user", "root"), ("impersonate-group", "system:masters")];
    let joe = server.client("joe", &[], |_| {});
    assert_eq!(joe.send(Method::GET, &through("/x"), &headers, "").await.code, 403);
    server.stop().await;
    member.stop().await;
}

#[tokio::test]
async fn cp1_the_right_is_that_of_the_subresource_with_the_verb_of_the_method() {
    let member = Member::start().await;
    let (server, _secrets) = server_for(&member.files.ca_cert, &cluster(member.address)).await;
    let jane = server.client("jane", &[], |_| {});
    assert_eq!(jane.get(&through("/x?watch=1")).await.code, 200);
    assert_eq!(jane.send(Method::HEAD, &through("/x"), &[], "").await.code, 200);
    for (method, verb) in
        [("POST", "create"), ("PUT", "update"), ("PATCH", "patch"), ("DELETE", "delete"), ("OPTIONS", "")]
    {
        let reply = jane.send(method.parse().unwrap(), &through("/x"), &[], "").await;
        assert_eq!(reply.code, 403);
        let expected = format!("User \"jane\" cannot {verb} resource \"clusters/proxy\" in API group");
        assert!(reply.json()["message"].as_str().unwrap().contains(&expected), "{}", reply.text());
    }
    let eve = server.client("eve", &[], |_| {});
    assert_eq!(eve.get(&through("/x")).await.code, 403);
    assert_eq!(eve.get(&format!("{CLUSTERS}/none/proxy/x")).await.code, 403, "she does not learn what exists");
    assert_eq!(server.nobody().get(&through("/x")).await.code, 401);
    server.stop().await;
    member.stop().await;
}

#[tokio::test]
async fn cp4_what_is_missing_or_away_is_told_with_the_name_of_the_cluster() {
    let member = Member::start().await;
    let (server, secrets) = server_for(&member.files.ca_cert, &cluster(member.address)).await;
    let joe = server.client("joe", &[], |_| {});
    let ask = async |path: &str| {
        let reply = joe.get(path).await;
        let status = reply.json();
        assert_eq!(status["kind"], "Status", "{status}");
        (reply.code.as_u16(), status["reason"].as_str().unwrap().to_owned(), status)
    };
    let (code, reason, status) = ask(&format!("{CLUSTERS}/none/proxy/x")).await;
    assert_eq!((code, &*reason, &status["details"]["name"]), (404, "NotFound", &json!("none")));
    for (patch, field) in [
        (json!({"spec": {"apiEndpoint": null}}), "spec.apiEndpoint"),
        (
            json!({"spec": {"apiEndpoint": format!("https://{}", member.address), "impersonatorSecretRef": null}}),
            "spec.impersonatorSecretRef",
        ),
    ] {
        change(&server, patch).await;
        let (code, reason, status) = ask(&through("/x")).await;
        assert_eq!((code, &*reason), (400, "BadRequest"), "{status}");
        assert_eq!(status["details"]["causes"][0]["field"], field);
        assert_eq!(status["details"]["name"], "m1");
    }
    let lost = json!({"namespace": "karmada-cluster", "name": "lost"});
    change(&server, json!({"spec": {"impersonatorSecretRef": lost}})).await;
    let (code, reason, status) = ask(&through("/x")).await;
    assert_eq!((code, &*reason), (503, "ServiceUnavailable"));
    assert!(status["message"].as_str().unwrap().contains("secret karmada-cluster/lost"), "{status}");

    let secret = json!({"namespace": "karmada-cluster", "name": "m1"});
    change(&server, json!({"spec": {"impersonatorSecretRef": secret}})).await;
    assert_eq!(joe.get(&through("/x")).await.code, 200);
    member.stop().await;
    let (code, reason, status) = ask(&through("/x")).await;
    assert_eq!((code, &*reason), (503, "ServiceUnavailable"));
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("cluster \"m1\" is out of reach: "), "{message}");
    drop(secrets);
    server.stop().await;
}

#[tokio::test]
async fn cp3_only_a_member_with_a_certificate_of_its_ca_is_believed() {
    let (member, stranger) = (Member::start().await, Member::start().await);
    let (server, secrets) = server_for(&stranger.files.ca_cert, &cluster(member.address)).await;
    let joe = server.client("joe", &[], |_| {});
    let reply = joe.get(&through("/x")).await;
    assert_eq!(reply.code, 503);
    assert!(reply.text().contains("certificate"), "{}", reply.text());
    change(&server, json!({"spec": {"insecureSkipTLSVerification": true}})).await;
    assert_eq!(joe.get(&through("/x")).await.code, 200);
    change(&server, json!({"spec": {"insecureSkipTLSVerification": false}})).await;
    assert_eq!(joe.get(&through("/x")).await.code, 503);
    write_secret(secrets.path(), &fs::read(&member.files.ca_cert).unwrap());
    wait_for("the right CA to count", async || (joe.get(&through("/x")).await.code == 200).then_some(())).await;
    server.stop().await;
    member.stop().await;
    stranger.stop().await;
}

#[tokio::test]
async fn cp3_a_token_that_the_member_refuses_is_read_again() {
    let member = Member::start().await;
    let (server, secrets) = server_for(&member.files.ca_cert, &cluster(member.address)).await;
    let joe = server.client("joe", &[], |_| {});
    assert_eq!(joe.get(&through("/x")).await.code, 200);
    fs::write(secrets.path().join("karmada-cluster/m1/token"), "another").unwrap();
    wait_for("the other token to count", async || {
        assert_eq!(joe.get(&through("/refused")).await.text(), "who are you?");
        let told = joe.get(&through("/x")).await.json();
        (told["headers"]["authorization"] == json!(["Bearer another"])).then_some(())
    })
    .await;
    server.stop().await;
    member.stop().await;
}

#[tokio::test]
async fn cp3_a_proxy_is_asked_with_its_headers_and_carries_what_it_cannot_read() {
    let member = Member::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut described = cluster(member.address);
    described["spec"]["proxyURL"] = format!("http://joe:secret@{}", listener.local_addr().unwrap()).into();
    described["spec"]["proxyHeader"] = json!({"X-Way": "a,b"});
    let (server, _secrets) = server_for(&member.files.ca_cert, &described).await;
    let proxying = tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let asked = head(&mut near).await;
        let mut far = TcpStream::connect(member.address).await.unwrap();
        near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let _ended = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        (asked, member)
    });
    let told = server.client("joe", &[], |_| {}).get(&through("/x")).await;
    assert_eq!(told.code, 200, "{}", told.text());
    server.stop().await;
    let (asked, member) = tokio::time::timeout(PATIENCE, proxying).await.expect("the proxy ends").unwrap();
    let asked = asked.to_ascii_lowercase();
    assert!(asked.starts_with(&format!("connect {} http/1.1\r\n", member.address)), "{asked}");
    for line in ["x-way: a\r\n", "x-way: b\r\n", "proxy-authorization: basic am9lonnly3jlda==\r\n"] {
        assert!(asked.contains(line), "{line}: {asked}");
    }
    member.stop().await;
}

/// Reads up to the end of a head.
async fn head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tokio::time::timeout(PATIENCE, stream.read_u8()).await.expect("a head comes").unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn cp5_an_upgrade_becomes_a_tunnel_of_bytes_both_ways() {
    let member = Member::start().await;
    let (server, _secrets) = server_for(&member.files.ca_cert, &cluster(member.address)).await;
    let joe = server.client("joe", &[], |_| {}).over(Protocol::Http1);
    let mut open = Vec::new();
    for (method, protocol) in [("POST", "SPDY/3.1"), ("GET", "websocket")] {
        let mut stream = joe.try_connect().await.unwrap();
        let request = format!(
            "{method} {} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: {protocol}\r\ncontent-length: 0\r\n\r\n",
            through("/exec?command=sh")
        );
        // Bytes directly after the request belong to the other protocol.
        stream.write_all(format!("{request}early ").as_bytes()).await.unwrap();
        let answer = head(&mut stream).await.to_ascii_lowercase();
        assert!(answer.starts_with("http/1.1 101 "), "{answer}");
        assert!(answer.contains(&format!("upgrade: {}\r\n", protocol.to_ascii_lowercase())), "{answer}");
        for text in ["early ", "ls -l", "exit\n"] {
            if text != "early " {
                stream.write_all(text.as_bytes()).await.unwrap();
            }
            let mut heard = vec![0; text.len()];
            tokio::time::timeout(PATIENCE, stream.read_exact(&mut heard)).await.expect("it comes back").unwrap();
            assert_eq!(String::from_utf8(heard).unwrap(), text.to_uppercase());
        }
        open.push(stream);
    }
    let series = "apiserver_longrunning_requests{component=\"apiserver\",group=\"cluster.karmada.io\",\
                  resource=\"clusters\",scope=\"resource\",subresource=\"proxy\",verb=\"CONNECT\",version=\"v1alpha1\"}";
    let admin = server.admin();
    let shown = async || metric(admin.get("/metrics").await.text(), series);
    assert!(shown().await >= 2.0, "they are counted while they are open");
    let mut first = open.remove(0);
    first.shutdown().await.unwrap();
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, first.read_to_end(&mut rest)).await.expect("the end comes back").unwrap();
    assert!(rest.is_empty());
    // The other one is still open, and must not delay the shutdown of the server.
    server.stop().await;
    let ended = tokio::time::timeout(PATIENCE, open.remove(0).read_to_end(&mut rest)).await.expect("it ends, too");
    assert!(ended.is_ok() || rest.is_empty());
    member.stop().await;
}

#[tokio::test]
async fn cp5_a_member_that_does_not_switch_answers_as_ever() {
    let member = Member::start().await;
    let (server, _secrets) = server_for(&member.files.ca_cert, &cluster(member.address)).await;
    let joe = server.client("joe", &[], |_| {}).over(Protocol::Http1);
    let headers = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
    let reply = joe.send(Method::POST, &through("/gone"), &headers, "").await;
    assert_eq!((reply.code.as_u16(), reply.text()), (410, "compacted"));
    server.stop().await;
    member.stop().await;
}

#[tokio::test]
async fn cp5_bodies_flow_both_ways_piece_by_piece() {
    let member = Member::start().await;
    let (server, _secrets) = server_for(&member.files.ca_cert, &cluster(member.address)).await;
    let joe = server.client("joe", &[], |_| {}).over(Protocol::Http1);
    let io = TokioIo::new(joe.try_connect().await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let (pieces, body) = pieces();
    let request = Request::post(through("/stream")).header("host", "x").body(body).unwrap();
    pieces.send(Ok(Frame::data(Bytes::from("piece 0")))).await.unwrap();
    let answer = tokio::time::timeout(PATIENCE, sender.send_request(request)).await.expect("a head comes").unwrap();
    assert_eq!(answer.status(), 200);
    let mut answer = answer.into_body();
    for number in 0..3 {
        let frame = tokio::time::timeout(PATIENCE, answer.frame()).await.expect("it comes before the next is sent");
        assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), format!("piece {number}"));
        pieces.send(Ok(Frame::data(Bytes::from(format!("piece {}", number + 1))))).await.unwrap();
    }
    drop(pieces);
    let rest = tokio::time::timeout(PATIENCE, answer.collect()).await.expect("it ends").unwrap().to_bytes();
    assert_eq!(rest, "piece 3");
    server.stop().await;
    member.stop().await;
}

type Piece = Result<Frame<Bytes>, std::io::Error>;

fn pieces() -> (tokio::sync::mpsc::Sender<Piece>, StreamBody<impl futures_util::Stream<Item = Piece> + Unpin>) {
    let (sender, receiver) = tokio::sync::mpsc::channel::<Piece>(1);
    let stream = futures_util::stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
    (sender, StreamBody::new(Box::pin(stream)))
}

#[tokio::test]
async fn cp2_cp5_another_ballast_as_a_member_decides_and_streams_a_watch() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    let hash = Sha256::digest(TOKEN).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    fs::write(&tokens, format!("sha256:{hash},karmada-impersonator,,\"system:masters\"\n")).unwrap();
    let mut args = ServeArgs {
        secure_port: 0,
        database_url: "memory:".to_owned(),
        cert_dir: folder.path().join("certs"),
        ..ServeArgs::default()
    };
    args.identity.token_auth_file = Some(tokens);
    let files = Files::in_dir(&args.cert_dir);
    let member = serve::start(args).await.unwrap();
    let (server, _secrets) = server_for(&files.ca_cert, &cluster(member.address)).await;

    let joe = server.client("joe", &[], |_| {});
    let refused = joe.get(&through(CLUSTERS)).await;
    assert_eq!(refused.code, 403);
    assert!(refused.text().contains("User \\\"joe\\\" cannot list"), "the member's own answer: {}", refused.text());

    let admin = server.admin().connect().await;
    let watch = format!("{}?watch=1&resourceVersion=0", through(CLUSTERS));
    let watch = admin.open(Method::GET, &watch, &[], "").await.unwrap();
    assert_eq!(watch.status(), 200);
    let made = cluster(member.address);
    let json = [("content-type", "application/json")];
    assert_eq!(admin.send(Method::POST, &through(CLUSTERS), &json, made.to_string()).await.code, 201);
    let event = tokio::time::timeout(PATIENCE, watch.into_body().frame()).await.expect("the event comes");
    let event: Value = serde_json::from_slice(&event.unwrap().unwrap().into_data().unwrap()).unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("m1")));
    server.stop().await;
    tokio::time::timeout(PATIENCE, member.stop()).await.expect("it ends").unwrap();
}

#[tokio::test]
async fn cp1_discovery_names_the_subresource() {
    let server = TestServer::start().await;
    let list = server.admin().get("/apis/cluster.karmada.io/v1alpha1").await.json();
    let found = list["resources"].as_array().unwrap().iter().find(|it| it["name"] == "clusters/proxy").unwrap().clone();
    let verbs = json!(["create", "delete", "get", "patch", "update"]);
    assert_eq!(
        found,
        json!({"name": "clusters/proxy", "singularName": "", "namespaced": false, "kind": "ClusterProxyOptions",
               "verbs": verbs})
    );
    let document = server.admin().get("/openapi/v3/apis/cluster.karmada.io/v1alpha1").await.json();
    let path = &document["paths"][format!("{CLUSTERS}/{{name}}/proxy/{{path}}")];
    assert_eq!(path["get"]["operationId"], "connectClusterV1alpha1GetClusterProxyWithPath");
    assert_eq!(path["options"]["x-kubernetes-action"], "connect");
    for path in ["/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies/a/proxy/x", "/apis/none/v1/x/a/proxy"] {
        assert_eq!(server.admin().get(path).await.code, 404, "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn cp3_a_server_without_secrets_says_what_it_lacks() {
    let server = TestServer::start().await;
    let json = [("content-type", "application/json")];
    let made = cluster("127.0.0.1:1".parse().unwrap()).to_string();
    assert_eq!(server.admin().send(Method::POST, CLUSTERS, &json, made).await.code, 201);
    let reply = server.admin().get(&through("/x")).await;
    assert_eq!(reply.code, 503);
    assert!(reply.text().contains("--member-secrets-dir"), "{}", reply.text());
    server.stop().await;
}

#[tokio::test]
async fn cp1_every_replica_reaches_members_by_itself() {
    let member = Member::start().await;
    let (store, home) = (Arc::new(MemoryStore::new()), tempfile::tempdir().unwrap());
    write_secret(home.path(), &fs::read(&member.files.ca_cert).unwrap());
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let mut args = ServeArgs { secure_port: 0, cert_dir: home.path().join("certs"), ..ServeArgs::default() };
        args.members.member_secrets_dir = Some(home.path().to_owned());
        let running = serve::join(args, store.clone()).await.unwrap();
        let admin = Raw::admin(running.address, &Files::in_dir(&home.path().join("certs")));
        replicas.push((running, admin));
    }
    let json = [("content-type", "application/json")];
    let made = replicas[1].1.send(Method::POST, CLUSTERS, &json, cluster(member.address).to_string()).await;
    assert_eq!(made.code, 201, "{}", made.text());
    for (_, admin) in &replicas {
        let told = admin.send(Method::POST, &through("/x"), &[], "said").await.json();
        assert_eq!((&told["method"], &told["body"]), (&json!("POST"), &json!("said")));
        // Requests that pass through the leader lose their upgrade.
        let mut stream = admin.clone().over(Protocol::Http1).try_connect().await.unwrap();
        let request =
            format!("POST {} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: x\r\n\r\n", through("/exec"));
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = head(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    }
    for (running, _) in replicas {
        tokio::time::timeout(PATIENCE, running.stop()).await.expect("it ends").unwrap();
    }
    member.stop().await;
}
