//! A host cluster that is slow, sends malformed responses or is down. Requests that need it are
//! rejected, others succeed, and the log and the metrics report the reason. The server is a
//! separate process, so that its log can be read.

use std::path::{Path, PathBuf};

use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::process::ServerProcess;
use crate::support::aggregated::{Aggregated, CONFIG_MAP, PROXY, config_map};
use crate::support::host::{Fault, Host};
use crate::support::objects::{BINDINGS, REBALANCERS, binding, rebalancer};
use crate::support::pki::Ca;
use crate::support::raw::{Raw, Reply};
use crate::support::{metric, wait_for};

const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const LEASES: &str = "/apis/coordination.k8s.io";
const JSON: (&str, &str) = ("content-type", "application/json");
const MASTER: [(&str, &str); 3] = [("x-remote-user", "admin"), ("x-remote-group", "system:masters"), JSON];
const JANE: [(&str, &str); 2] = [("x-remote-user", "jane"), JSON];

struct Behind {
    process: ServerProcess,
    host: Host,
    proxy: Raw,
    nobody: Raw,
    folder: TempDir,
}

impl Behind {
    async fn start(host: Host, flags: &[&str]) -> Behind {
        let folder = tempfile::tempdir().unwrap();
        let (proxy_ca, client_ca) = (Ca::new("front-proxy-ca"), Ca::new("kubernetes"));
        host.put(CONFIG_MAP, config_map(&client_ca.pem, &proxy_ca.pem));
        let kubeconfig = folder.path().join("host.kubeconfig");
        host.write_kubeconfig(&kubeconfig);
        let path = folder.path().to_owned();
        let flags: Vec<String> =
            ["--kubeconfig", kubeconfig.to_str().unwrap()].iter().chain(flags).map(|flag| (*flag).to_owned()).collect();
        // The fake host cluster runs on this thread, which must not block until the process is
        // ready.
        let process = tokio::task::spawn_blocking(move || {
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            ServerProcess::start(&path, &flags)
        });
        let process = process.await.unwrap();
        let files = ballast::node::certs::Files::in_dir(&folder.path().join("certs"));
        let (cert, key) = proxy_ca.client(folder.path(), PROXY, &[], |_| {});
        let proxy = Raw::with_certificate(process.address, &files, &cert, &key);
        let nobody = Raw::nobody(process.address, &files);
        Behind { process, host, proxy, nobody, folder }
    }

    fn log(&self) -> String {
        log(self.folder.path())
    }

    async fn metrics(&self) -> String {
        self.proxy.send(Method::GET, "/metrics", &MASTER, "").await.text().to_owned()
    }

    async fn create(&self, path: &str, object: &Value) -> Reply {
        self.proxy.send(Method::POST, path, &MASTER, object.to_string()).await
    }

    /// Sends one request of each kind that needs the host cluster, all at once, with requests that
    /// do not need it in between.
    async fn codes(&self) -> [u16; 3] {
        let token = [("authorization", "Bearer unknown")];
        let (web, in_between) = (binding("web"), async {
            assert_eq!(self.nobody.get("/livez").await.code, 200);
            assert_eq!(
                self.proxy.send(Method::GET, REBALANCERS, &MASTER, "").await.code,
                200,
                "masters are not reviewed"
            );
        });
        let (by_token, by_jane, created, ()) = tokio::join!(
            self.nobody.send(Method::GET, REBALANCERS, &token, ""),
            self.proxy.send(Method::GET, REBALANCERS, &JANE, ""),
            self.create(BINDINGS, &web),
            in_between,
        );
        [&by_token, &by_jane, &created].map(|reply| reply.code.as_u16())
    }
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap()
}

#[tokio::test]
async fn a_host_cluster_that_hangs_babbles_or_is_gone_lets_nobody_in_and_says_why() {
    let server = Behind::start(Host::start().await, &[]).await;
    server.host.allow(|_| true);
    // Failed reads are retried with increasing backoffs, which a test must not wait for.
    wait_for("readiness", async || (server.nobody.get("/readyz").await.code == 200).then_some(())).await;
    for fault in [Fault::Garbage, Fault::Code(503), Fault::Hang] {
        server.host.break_below("/a", fault);
        assert_eq!(server.codes().await, [401, 500, 500], "{fault:?}");
    }
    let metrics = server.metrics().await;
    for line in [
        "apiserver_delegated_authn_request_total{code=\"503\"}",
        "apiserver_delegated_authn_request_total{code=\"<error>\"}",
        "apiserver_delegated_authz_request_total{code=\"503\"}",
        "apiserver_delegated_authz_request_total{code=\"<error>\"}",
        "authorization_attempts_total{result=\"error\"}",
        "apiserver_admission_controller_admission_duration_seconds_count{name=\"NamespaceLifecycle\",\
         operation=\"CREATE\",rejected=\"true\",type=\"validate\"}",
    ] {
        assert!(metric(&metrics, line) > 0.0, "{line} is 0 or missing in:\n{metrics}");
    }
    for words in ["a token could not be reviewed", "an access could not be reviewed", "failed to look up a namespace"] {
        wait_for(words, async || server.log().contains(words).then_some(())).await;
    }
    server.host.mend();
    server
        .host
        .put("/api/v1/namespaces/shop", json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "shop"}}));
    // If another of the three had not recovered, the object of this round exists in the next one.
    let is_back = |codes: [u16; 3]| matches!(codes, [401, 200, 201 | 409]);
    wait_for("its recovery", async || is_back(server.codes().await).then_some(())).await;
    let Behind { process, host, proxy, nobody, folder } = server;
    drop(host);
    let jane = proxy.send(Method::GET, REBALANCERS, &[("x-remote-user", "joe")], "").await;
    assert_eq!(jane.code, 500, "nobody listens there any more");
    assert_eq!(nobody.get("/readyz").await.code, 200, "and that is no reason to restart");
    assert!(process.terminate().success());
    drop(folder);
}

#[tokio::test]
async fn made_up_tokens_cost_few_reviews_and_few_lines() {
    let server = Behind::start(Host::start().await, &[]).await;
    server.host.break_below("/apis/authentication.k8s.io", Fault::Garbage);
    let began = std::time::Instant::now();
    for number in 0..150 {
        let token = format!("Bearer made-up-{number}");
        let refused = server.nobody.send(Method::GET, REBALANCERS, &[("authorization", &token)], "").await;
        assert_eq!(refused.code, 401);
    }
    // A review without a user holds one of 24 slots for a quarter of a second.
    assert!(began.elapsed() >= std::time::Duration::from_secs(1), "{:?}", began.elapsed());
    let lines = server.log().matches("a token could not be reviewed").count();
    assert!((1..=20).contains(&lines), "{lines} lines");
    server.host.mend();
    let Behind { process, host, folder, .. } = server;
    assert!(process.terminate().success());
    drop((host, folder));
}

#[tokio::test]
async fn until_the_webhook_configurations_are_known_nothing_is_written() {
    let host = Host::start().await;
    host.break_below(WEBHOOKS, Fault::Code(503));
    let server = Behind::start(host, &[]).await;
    let ready = server.nobody.get("/readyz?verbose").await;
    assert!(ready.text().contains("[-]admission-webhooks failed: reason withheld\n"), "{}", ready.text());
    let refused = server.create(REBALANCERS, &rebalancer("early")).await;
    let expected = "workloadrebalancers.apps.karmada.io \"early\" is forbidden: not yet ready to handle request";
    assert_eq!((refused.code.as_u16(), &refused.json()["message"]), (403, &json!(expected)));
    let words = "failed to watch webhook configurations";
    wait_for("the log to say why", async || server.log().contains(words).then_some(())).await;
    server.host.mend();
    wait_for("readiness", async || (server.nobody.get("/readyz").await.code == 200).then_some(())).await;
    assert_eq!(server.create(REBALANCERS, &rebalancer("later")).await.code, 201);
}

#[tokio::test]
async fn a_webhook_that_hangs_costs_its_own_requests_their_time_and_nothing_else() {
    let host = Host::start().await;
    host.break_below("/hooks/stuck", Fault::Hang);
    let hook = json!({
        "name": "stuck.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 1,
        "clientConfig": {"url": format!("http://{}/hooks/stuck", host.address)},
        "rules": [{"apiGroups": ["apps.karmada.io"], "apiVersions": ["*"], "resources": ["workloadrebalancers"],
            "operations": ["CREATE"], "scope": "*"}],
    });
    let configuration = json!({"kind": "ValidatingWebhookConfiguration", "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": {"name": "stuck"}, "webhooks": [hook]});
    host.put(&format!("{WEBHOOKS}/stuck"), configuration);
    let server = Behind::start(host, &[]).await;
    wait_for("readiness", async || (server.nobody.get("/readyz").await.code == 200).then_some(())).await;
    let object = rebalancer("held");
    let (refused, listed) =
        tokio::join!(server.create(REBALANCERS, &object), server.proxy.send(Method::GET, REBALANCERS, &MASTER, ""));
    assert_eq!(refused.code, 500);
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("\"stuck.example.com\": failed to call webhook: no answer in 1s"), "{message}");
    assert_eq!((listed.code.as_u16(), &listed.json()["items"]), (200, &json!([])));
    let line = "the call of a webhook failed, so the request is refused";
    wait_for(line, async || server.log().contains(line).then_some(())).await;
    let line = "apiserver_admission_webhook_admission_duration_seconds_count{name=\"stuck.example.com\",\
        operation=\"CREATE\",rejected=\"true\"";
    assert!(server.metrics().await.contains(line));
}

/// After the lease is lost, no decision of a worker is stored, although the server still serves
/// requests for its shutdown delay.
#[tokio::test]
async fn what_workers_decide_after_the_lease_is_lost_is_not_stored() {
    let lost_by = async |fault: Fault| {
        let flags = [
            "--leader-elect",
            "--leader-elect-retry-period=100ms",
            // Long enough for the leader to do its work on a slow machine before the lease is lost.
            "--leader-elect-renew-deadline=10s",
            "--leader-elect-lease-duration=60s",
            "--shutdown-delay-duration=3s",
        ];
        let server = Behind::start(Host::start().await, &flags).await;
        let open = server.proxy.connect().await;
        let finished = async |name: &str| {
            let path = format!("{REBALANCERS}/{name}");
            let reply = server.proxy.send(Method::GET, &path, &MASTER, "").await;
            reply.json()["status"]["finishTime"].is_string().then_some(())
        };
        assert_eq!(server.create(REBALANCERS, &rebalancer("before")).await.code, 201);
        wait_for("the leader's work", async || finished("before").await).await;
        server.host.break_below(LEASES, fault);
        wait_for("the loss", async || server.log().contains("the lease was lost").then_some(())).await;
        // This uses an open connection. If the delay has expired already, it proves nothing.
        let mut taken = Vec::new();
        for number in 0..20 {
            let name = format!("after-{number}");
            let sent = open.open(Method::POST, REBALANCERS, &MASTER, rebalancer(&name).to_string()).await;
            if sent.is_ok_and(|answer| answer.status() == 201) {
                taken.push(name);
            }
        }
        let Behind { process, folder, .. } = server;
        let ended = tokio::task::spawn_blocking(move || process.wait()).await.unwrap();
        assert_eq!(ended.code(), Some(1), "{}", log(folder.path()));
        let states = states(&folder.path().join("ballast.db")).await;
        for name in taken {
            let state = states.iter().find(|state| state["metadata"]["name"] == name).expect("it was acknowledged");
            assert_eq!(state["status"]["finishTime"], Value::Null, "{name} after {fault:?}");
        }
    };
    tokio::join!(lost_by(Fault::Hang), lost_by(Fault::Garbage), lost_by(Fault::Code(500)));
}

/// All versions of all objects in the log of a database file.
async fn states(path: &PathBuf) -> Vec<Value> {
    use sqlx::ConnectOptions;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).read_only(true);
    let mut connection = options.connect().await.unwrap();
    let query = "SELECT object FROM changes WHERE kind = 'workloadrebalancers.apps.karmada.io' ORDER BY revision DESC";
    let texts: Vec<String> = sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap();
    texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

/// api-01: kube-apiserver forwards the requests of all users over one connection. A user's
/// cancelled requests close neither that connection nor the user's own.
#[tokio::test]
async fn cancelled_requests_end_no_connection_of_a_front_proxy_or_a_user() {
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const GOAWAY: u8 = 7;
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    // All at once, so that the server reads the resets before it accepts a request.
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(SETTINGS, 0, 0, &[]));
    for stream in (1..200).step_by(2) {
        // GET / of https://x, with END_STREAM and END_HEADERS; then CANCEL.
        sent.extend(frame(HEADERS, 5, stream, &[0x82, 0x84, 0x87, 0x41, 1, b'x']));
        sent.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
    }
    sent.extend(frame(PING, 0, 0, &[7; 8]));
    let server = Aggregated::start().await;
    let user = server.client_of(&server.client_ca, "jane", &[], |_| {});
    let unknown = server.client_of(&Ca::new("unknown"), "jane", &[], |_| {});
    let clients = [(server.proxy(), PING), (user, PING), (unknown, GOAWAY), (server.nobody(), GOAWAY)];
    for (client, expected) in clients {
        let mut stream = client.try_connect().await.unwrap();
        stream.write_all(&sent).await.unwrap();
        let answer = loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.unwrap();
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            stream.read_exact(&mut vec![0; length]).await.unwrap();
            if [PING, GOAWAY].contains(&head[3]) {
                break head[3];
            }
        };
        assert_eq!(answer, expected, "a stranger's connection has the bound of the library");
    }
    server.stop().await;
}
