//! A browser with the administrator's certificate on a page of another site: all its requests are
//! rejected before anything is read or changed (WH1).

use ballast::server::Cors;
use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::member::{Member, cluster};
use crate::support::objects::CLUSTERS;
use crate::support::raw::{Protocol, Raw};
use crate::support::server::{Options, TestServer};

const REBALANCES: &str = "/apis/ballast.dev/v1alpha1/clusterrebalances";
const JSON: (&str, &str) = ("content-type", "application/json");
const EVIL: (&str, &str) = ("origin", "https://evil.example");
const CROSS: (&str, &str) = ("sec-fetch-site", "cross-site");

fn approved() -> String {
    json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"generateName": "evil-"},
        "spec": {"select": [{}], "approval": "Required", "approved": true}})
    .to_string()
}

async fn code(client: &Raw, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> u16 {
    // A rejected client must reconnect (AN11).
    client.send(method, path, headers, body.to_owned()).await.code.as_u16()
}

#[tokio::test]
async fn wh1_a_page_of_another_site_does_nothing_with_the_browser_s_certificate() {
    let server = TestServer::start().await;
    for client in [server.admin(), server.admin().over(Protocol::Http1), server.nobody()] {
        for headers in [
            [CROSS, EVIL].as_slice(),
            &[("sec-fetch-site", "same-site"), ("origin", "https://wiki.localhost")],
            &[CROSS, ("sec-fetch-mode", "no-cors")],
            &[CROSS, ("origin", "https://localhost")],
            // Older browsers send only the origin; that of a sandboxed frame is null.
            &[EVIL],
            &[("origin", "null")],
            &[("origin", "https://localhost:8443")],
            // Such a client is not a proxy.
            &[EVIL, ("x-forwarded-host", "evil.example")],
            &[CROSS, ("sec-fetch-mode", "navigate")],
        ] {
            for (method, path, body) in [
                // Without a Content-Type a body is JSON, and the browser needs no preflight.
                (Method::POST, REBALANCES, approved()),
                (Method::GET, CLUSTERS, String::new()),
                (Method::GET, "/version", String::new()),
                (Method::POST, "/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy/api/v1/pods", "{}".to_owned()),
            ] {
                let reply = client.send(method.clone(), path, headers, body).await;
                assert_eq!(reply.code, 403, "{method} {path} {headers:?}");
                let status = reply.json();
                assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("Forbidden")));
                assert!(status["message"].as_str().unwrap().contains("another site"), "{status}");
                assert_eq!(reply.header("access-control-allow-origin"), None);
            }
        }
    }
    let made = server.admin().get(REBALANCES).await.json();
    assert_eq!(made["items"], json!([]), "nothing was made");
    server.stop().await;
}

#[tokio::test]
async fn wh1_the_own_page_links_to_it_and_other_clients_pass() {
    let server = TestServer::start().await;
    let admin = server.admin();
    let own = ("origin", "https://localhost");
    let navigates = [CROSS, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    for (method, path, headers, expected) in [
        (Method::POST, REBALANCES, [].as_slice(), 201),
        (Method::POST, REBALANCES, &[own], 201),
        (Method::POST, REBALANCES, &[("origin", "https://LOCALHOST")], 201),
        // Behind a kube-apiserver and `kubectl proxy` the Host differs.
        (Method::POST, REBALANCES, &[("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:8001")], 201),
        (Method::GET, CLUSTERS, &[("sec-fetch-site", "none")], 200),
        (Method::GET, "/ui/", &navigates, 200),
        (Method::GET, "/ui", &navigates, 308),
        (Method::GET, CLUSTERS, &navigates, 403),
        (Method::HEAD, "/ui/", &navigates, 403),
        (Method::GET, "/ui/main.js", &[CROSS, ("sec-fetch-mode", "no-cors")], 403),
    ] {
        let body = if method == Method::POST { approved() } else { String::new() };
        for client in [admin.clone(), admin.clone().over(Protocol::Http1)] {
            assert_eq!(
                code(&client, method.clone(), path, headers, &body).await,
                expected,
                "{method} {path} {headers:?}"
            );
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn wh1_pages_of_allowed_origins_pass() {
    let cors = Cors::new(&["^https://console\\.example$".to_owned()]).unwrap();
    let server = TestServer::with(Options { cors, ..Options::default() }).await;
    let admin = server.admin();
    let console = ("origin", "https://console.example");
    for headers in
        [[console, CROSS, JSON], [console, ("sec-fetch-site", "same-site"), JSON], [console, ("accept", "*/*"), JSON]]
    {
        let reply = admin.send(Method::POST, REBALANCES, &headers, approved()).await;
        assert_eq!(reply.code, 201, "{headers:?}: {}", reply.text());
        assert_eq!(reply.header("access-control-allow-origin"), Some("https://console.example"));
    }
    let preflight = [console, CROSS, ("access-control-request-method", "POST")];
    assert_eq!(code(&admin, Method::OPTIONS, REBALANCES, &preflight, "").await, 204);
    let foreign = [EVIL, CROSS, ("access-control-request-method", "POST")];
    assert_eq!(code(&admin, Method::OPTIONS, REBALANCES, &foreign, "").await, 403);
    assert_eq!(code(&admin, Method::POST, REBALANCES, &[EVIL, CROSS], &approved()).await, 403);
    server.stop().await;
}

/// A browser sends the certificate with a WebSocket as well, without a preflight, and passes the
/// messages to the page.
#[tokio::test]
async fn wh1_a_websocket_of_another_site_reaches_no_member() {
    let member = Member::start().await;
    let secrets = tempfile::tempdir().unwrap();
    let server =
        TestServer::with(Options { member_secrets: Some(secrets.path().to_owned()), ..Options::default() }).await;
    let known = cluster(member.address).to_string();
    assert_eq!(code(&server.admin(), Method::POST, CLUSTERS, &[JSON], &known).await, 201);
    let asked = async |more: &str| {
        let mut stream = server.admin().over(Protocol::Http1).try_connect().await.unwrap();
        let head = format!(
            "GET {CLUSTERS}/m1/proxy/api/v1/namespaces/default/pods/p/exec?command=id HTTP/1.1\r\nHost: localhost\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{more}\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    // The member has no secret here, which an upgrade would need next.
    assert_eq!(asked("Origin: https://localhost\r\n").await, "HTTP/1.1 503");
    assert_eq!(asked("Origin: https://evil.example\r\n").await, "HTTP/1.1 403");
    assert_eq!(asked("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: websocket\r\n").await, "HTTP/1.1 403");
    server.stop().await;
    member.stop().await;
}
