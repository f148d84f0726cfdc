//! Authentication by client certificates, and the responses to requests without a valid one.

use ballast::clock::{Clock, SystemClock};
use ballast::node::certs;
use ballast::server::{Check, Counts};
use http::Method;
use rcgen::string::BmpString;
use rcgen::{DnType, DnValue, ExtendedKeyUsagePurpose};
use serde_json::json;

use crate::support::raw::{Protocol, Reply};
use crate::support::server::{Options, TestServer};

#[track_caller]
fn assert_unauthorized(reply: &Reply) {
    assert_eq!(reply.code, 401);
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401});
    assert_eq!(reply.json(), expected);
    assert_eq!(reply.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn er10_he5_without_a_certificate_only_health_and_version_answer() {
    let checks = vec![Check::new("storage", Counts::Ready, || Ok(()))];
    let server = TestServer::with(Options { checks, ..Options::default() }).await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let nobody = server.nobody().over(protocol);
        for path in ["/healthz", "/livez", "/readyz"] {
            let reply = nobody.get(path).await;
            assert_eq!((reply.code.as_u16(), reply.text()), (200, "ok"), "{path}");
            assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(reply.header("cache-control"), Some("no-cache, private"));
        }
        let version = nobody.get("/version").await;
        assert_eq!(version.json()["gitVersion"], "v1.36.0+ballast-0.2.0");
        for path in ["/", "/apis", "/apis/work.karmada.io/v1alpha2/resourcebindings", "/readyz/storage", "/nowhere"] {
            assert_unauthorized(&nobody.get(path).await);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn an10_a_token_is_a_wrong_credential_not_a_missing_one() {
    let server = TestServer::start().await;
    let reply = server.nobody().send(Method::GET, "/healthz", &[("authorization", "Bearer x")], "").await;
    assert_unauthorized(&reply);
    server.stop().await;
}

#[tokio::test]
async fn wh5_a_certificate_proves_no_name_of_the_system_and_its_strings_are_read_as_go_reads_them() {
    let server = TestServer::start().await;
    for (name, groups) in [
        ("system:anonymous", [].as_slice()),
        ("system:ballast:scheduler", &[]),
        ("system:ballast:scheduler", &["system:masters"]),
        ("jane", &["ops", "system:unauthenticated"]),
        ("", &["system:masters"]),
    ] {
        assert_unauthorized(&server.client(name, groups, |_| {}).get("/apis").await);
    }
    // The names that Kubernetes gives to certificates keep their meaning.
    for (name, groups) in [("ops", ["system:masters"]), ("system:kube-controller-manager", ["system:masters"])] {
        assert_eq!(server.client(name, &groups, |_| {}).get("/metrics").await.code, 200, "{name}");
    }
    // A last name in another string type counts, and is not skipped.
    let odd = BmpString::try_from("jané").unwrap();
    let jane = server.client("admin", &[], |params| {
        params.distinguished_name.remove(DnType::CommonName);
        params.distinguished_name.push(DnType::CommonName, DnValue::BmpString(odd));
    });
    let reply = jane.get("/metrics").await;
    assert_eq!(reply.code, 403);
    assert!(reply.text().contains("jané"), "{}", reply.text());
    server.stop().await;
}

#[tokio::test]
async fn an3_headers_that_name_a_user_are_not_believed() {
    let server = TestServer::start().await;
    let headers = [("x-remote-user", "admin"), ("x-remote-group", "system:masters")];
    assert_unauthorized(&server.nobody().send(Method::GET, "/apis", &headers, "").await);
    let jane = server.client("jane", &["staff"], |_| {});
    assert_eq!(jane.send(Method::GET, "/metrics", &headers, "").await.code, 403);
    server.stop().await;
}

#[tokio::test]
async fn an1_an13_a_bad_certificate_is_a_401_that_can_be_read_not_a_broken_handshake() {
    let server = TestServer::start().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let stranger = certs::ensure(elsewhere.path(), &[], SystemClock.now()).unwrap();
    let masters = ["system:masters"];
    let clients = [
        ("another CA", server.client_of(&stranger, "eve", &masters, |_| {})),
        ("expired", server.client("old", &masters, |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1))),
        ("not yet", server.client("new", &masters, |params| params.not_before = rcgen::date_time_ymd(3000, 1, 1))),
        (
            "for servers",
            server.client("tool", &masters, |params| {
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]
            }),
        ),
        ("no name", server.client("", &masters, |_| {})),
    ];
    for (why, client) in clients {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let reply = client.clone().over(protocol).get("/healthz").await;
            assert_eq!(reply.code, 401, "{why} over {protocol:?}");
            assert_unauthorized(&reply);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn er11_r36_users_outside_system_masters_are_refused_with_their_name() {
    let server = TestServer::start().await;
    let jane = server.client("jane", &["staff", "ops"], |_| {});
    let reply = jane.get("/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings/web").await;
    assert_eq!(reply.code, 403);
    assert_eq!(
        reply.json(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden",
            "message": "resourcebindings.work.karmada.io \"web\" is forbidden: User \"jane\" cannot get resource \
                \"resourcebindings\" in API group \"work.karmada.io\" in the namespace \"shop\"",
            "details": {"name": "web", "group": "work.karmada.io", "kind": "resourcebindings"}, "code": 403})
    );
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    let task = jane.send(Method::POST, "/apis/task.karmada.io/v1alpha1/rescheduletasks", &[], "{}").await;
    assert_eq!(task.code, 403, "nor may jane create a task");
    let reply = jane.get("/metrics").await;
    assert_eq!(reply.json()["message"], "forbidden: User \"jane\" cannot get path \"/metrics\"");
    assert_eq!(jane.get("/healthz").await.code, 200, "open to everybody is open to jane");
    server.stop().await;
}

#[tokio::test]
async fn im1_the_administrator_may_act_as_anybody_and_others_as_nobody_else() {
    let server = TestServer::start().await;
    let as_jane = [("impersonate-user", "jane"), ("impersonate-group", "staff")];
    let reply = server.admin().send(Method::GET, "/metrics", &as_jane, "").await;
    assert_eq!((reply.code.as_u16(), &reply.json()["reason"]), (403, &json!("Forbidden")));
    assert!(reply.text().contains("User \\\"jane\\\" cannot get path"), "{}", reply.text());
    let as_master = [("impersonate-user", "jane"), ("impersonate-group", "system:masters")];
    assert_eq!(server.admin().send(Method::GET, "/metrics", &as_master, "").await.code, 200);
    let joe = server.client("joe", &[], |_| {});
    let reply = joe.send(Method::GET, "/apis", &as_master, "").await;
    assert_eq!(reply.code, 403);
    assert!(reply.text().contains("User \\\"joe\\\" cannot impersonate"), "{}", reply.text());
    server.stop().await;
}

#[tokio::test]
async fn au1_an_audit_id_is_kept_or_made() {
    let server = TestServer::start().await;
    let nobody = server.nobody();
    let kept = nobody.send(Method::GET, "/version", &[("audit-id", "abc")], "").await;
    assert_eq!(kept.header("audit-id"), Some("abc"));
    let long = "x".repeat(100);
    let cut = nobody.send(Method::GET, "/version", &[("audit-id", &long)], "").await;
    assert_eq!(cut.header("audit-id"), Some(&long[..64]));
    let made = nobody.get("/version").await;
    assert_eq!(made.header("audit-id").map(str::len), Some(36));
    server.stop().await;
}
