//! Authentication behind an aggregator: its requests, forged headers, foreign, expired and wrong
//! certificates, tokens, and requests without a credential.

use http::Method;
use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};

use crate::support::aggregated::{Aggregated, PROXY};
use crate::support::host::{ACCESS_REVIEWS, Fault, TOKEN_REVIEWS};
use crate::support::pki::Ca;
use crate::support::raw::{Protocol, Raw, Reply};

const GV: &str = "/apis/work.karmada.io/v1alpha2";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

async fn get_as(client: &Raw, path: &str, headers: &[(&str, &str)]) -> Reply {
    client.send(Method::GET, path, headers, "").await
}

/// Returns the user in the last SubjectAccessReview sent to the host cluster.
fn last_review(server: &Aggregated) -> Value {
    server.host.asked(ACCESS_REVIEWS).last().expect("it was asked").clone()["spec"].clone()
}

#[tokio::test]
async fn ag1_ag8_ag11_ag13_the_aggregators_own_requests_are_answered() {
    let server = Aggregated::start().await;
    // RBAC allows this to every authenticated user.
    server.host.allow(|spec| {
        let path = spec["nonResourceAttributes"]["path"].as_str().unwrap_or_default();
        let is_known = spec["groups"].as_array().is_some_and(|it| it.contains(&json!("system:authenticated")));
        is_known && ["/apis", "/openapi"].iter().any(|start| path.starts_with(start))
    });
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let proxy = server.proxy().over(protocol);
        let masters = [("X-Remote-User", "system:kube-aggregator"), ("X-Remote-Group", "system:masters")];
        assert_eq!(get_as(&proxy, GV, &masters).await.code, 200, "availability");
        let ask = [masters[0], masters[1], ("Accept", AGGREGATED)];
        let discovery = get_as(&proxy, "/apis", &ask).await;
        assert_eq!(discovery.code, 200);
        let etag = discovery.header("etag").unwrap().to_owned();
        let again = [ask[0], ask[1], ask[2], ("If-None-Match", &*etag)];
        assert_eq!(get_as(&proxy, "/apis", &again).await.code, 304);
        let legacy = [("X-Remote-User", "system:kube-aggregator")];
        assert_eq!(get_as(&proxy, GV, &legacy).await.code, 200, "AN9: no group at all");
        for path in ["/openapi/v2", "/openapi/v3"] {
            let poller = [("X-Remote-User", "system:aggregator"), ("Accept", "application/json")];
            assert_eq!(get_as(&proxy, path, &poller).await.code, 200, "{path}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn ag6_an5_the_proxys_headers_become_the_user_that_is_reviewed() {
    let server = Aggregated::start().await;
    server.host.allow(|_| true);
    let headers = [
        ("X-Remote-User", "jane"),
        ("X-Remote-Group", "staff"),
        ("X-Remote-Group", "ops"),
        ("X-Remote-Uid", "u-7"),
        ("X-Remote-Extra-Example.com%2fScopes", "read"),
        ("X-Remote-Extra-Example.com%2fScopes", "write"),
        ("Authorization", "Bearer nonsense"),
    ];
    let reply = get_as(&server.proxy(), &format!("{GV}/namespaces/shop/resourcebindings?limit=500"), &headers).await;
    assert_eq!(reply.code, 200);
    assert_eq!(
        last_review(&server),
        json!({"user": "jane", "uid": "u-7", "groups": ["staff", "ops", "system:authenticated"],
            "extra": {"example.com/scopes": ["read", "write"]},
            "resourceAttributes": {"group": "work.karmada.io", "version": "v1alpha2", "resource": "resourcebindings",
                "verb": "list", "namespace": "shop"}})
    );
    assert!(server.host.asked(TOKEN_REVIEWS).is_empty(), "the proxy's word is enough");
    server.stop().await;
}

#[tokio::test]
async fn an3_an13_headers_count_only_with_a_front_proxys_certificate() {
    let server = Aggregated::start().await;
    let foreign = Ca::new("front-proxy-ca");
    let ca = &server.proxy_ca;
    let none: fn(&mut rcgen::CertificateParams) = |_| {};
    let clients: [(&str, Raw); 5] = [
        ("foreign CA of the same name", server.client_of(&foreign, PROXY, &["system:masters"], none)),
        ("name not allowed", server.client_of(ca, "somebody", &[], none)),
        ("expired", server.client_of(ca, PROXY, &[], |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1))),
        ("not yet valid", server.client_of(ca, PROXY, &[], |it| it.not_before = rcgen::date_time_ymd(3000, 1, 1))),
        (
            "for servers",
            server.client_of(ca, PROXY, &[], |params| {
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            }),
        ),
    ];
    let forged = [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")];
    for (why, client) in clients {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            assert_eq!(get_as(&client.clone().over(protocol), GV, &forged).await.code, 401, "{why}");
        }
    }
    let nobody = get_as(&server.nobody(), GV, &forged).await;
    assert_eq!(nobody.code, 403);
    assert!(nobody.text().contains("system:anonymous"), "{}", nobody.text());
    // The certificate of a user is accepted and names the user. The headers are ignored.
    let jane = server.client_of(&server.client_ca, "jane", &["staff"], none);
    let reply = get_as(&jane, GV, &forged).await;
    assert_eq!(reply.code, 403);
    assert!(reply.text().contains("jane"), "{}", reply.text());
    assert_eq!(last_review(&server)["groups"], json!(["staff", "system:authenticated"]));
    assert!(last_review(&server)["extra"]["authentication.kubernetes.io/credential-id"][0].is_string());
    server.stop().await;
}

/// A browser adds its certificate to the requests of any page. It adds neither a token nor the
/// headers of a front proxy, which has authenticated the user separately.
#[tokio::test]
async fn wh1_only_a_certificate_is_refused_for_its_origin() {
    let server = Aggregated::start().await;
    server.host.know_token("good", json!({"username": "bot"}));
    server.host.allow(|_| true);
    let (jane, bearer) = (("x-remote-user", "jane"), ("authorization", "Bearer good"));
    let user = || server.client_of(&server.client_ca, "jane", &["system:masters"], |_| {});
    let foreign = [("origin", "https://console.example:8443"), ("sec-fetch-site", "cross-site")];
    for (what, client, credential, expected) in [
        ("a certificate", user(), None, 403),
        ("a certificate, which comes before a token", user(), Some(bearer), 403),
        ("a certificate of a user", user(), Some(jane), 403),
        ("a token", server.nobody(), Some(bearer), 200),
        ("a wrong token", server.nobody(), Some(("authorization", "Bearer bad")), 401),
        ("a password, which browsers remember", server.nobody(), Some(("authorization", "Basic Zm9v")), 403),
        ("nothing", server.nobody(), None, 403),
        ("a front proxy", server.proxy(), Some(jane), 200),
        ("a front proxy that names no user", server.proxy(), None, 403),
    ] {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let client = client.clone().over(protocol);
            for site in &foreign {
                let headers = [credential.as_slice(), &[*site]].concat();
                assert_eq!(get_as(&client, GV, &headers).await.code, expected, "{what}: {site:?}");
            }
        }
        // A watch over a WebSocket, which browsers always send with an Origin.
        let headers = [
            credential.as_slice(),
            &[
                foreign[0],
                ("connection", "Upgrade"),
                ("upgrade", "websocket"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ],
        ];
        let watch = format!("{GV}/resourcebindings?watch=1&timeoutSeconds=1");
        let opened = get_as(&client.over(Protocol::Http1), &watch, &headers.concat()).await.code;
        assert_eq!(opened, if expected == 200 { 101 } else { expected }, "a watch with {what}");
    }
    server.stop().await;
}

#[tokio::test]
async fn an7_the_development_ca_lets_nobody_in_behind_a_host_cluster() {
    let server = Aggregated::start().await;
    let admin = Raw::admin(server.address, &server.files);
    assert_eq!(admin.get(GV).await.code, 401);
    server.stop().await;
}

#[tokio::test]
async fn an8_tokens_are_reviewed_once_and_refused_ones_too() {
    let long = "10m".parse().unwrap();
    let server = Aggregated::with(|args, _| args.host.authentication_token_webhook_cache_ttl = long).await;
    server.host.know_token("good", json!({"username": "bot", "uid": "1", "groups": ["robots"], "extra": {"k": ["v"]}}));
    server.host.allow(|spec| spec["user"] == "bot");
    let nobody = server.nobody();
    for _ in 0..3 {
        assert_eq!(get_as(&nobody, GV, &[("Authorization", "Bearer good")]).await.code, 200);
        assert_eq!(get_as(&nobody, GV, &[("Authorization", "bearer  bad")]).await.code, 401);
    }
    assert_eq!(server.host.asked(TOKEN_REVIEWS).len(), 2);
    assert_eq!(last_review(&server)["groups"], json!(["robots", "system:authenticated"]));
    assert_eq!(last_review(&server)["extra"], json!({"k": ["v"]}));
    for odd in ["Bearer", "Bearer ", "Basic Zm9vOmJhcg==", "good"] {
        assert_eq!(get_as(&nobody, GV, &[("Authorization", odd)]).await.code, 401, "{odd:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn an8_a_host_cluster_that_fails_lets_nobody_in_and_is_asked_again() {
    let server = Aggregated::start().await;
    server.host.know_token("good", json!({"username": "bot"}));
    server.host.allow(|_| true);
    let nobody = server.nobody();
    let bearer = [("Authorization", "Bearer good")];
    for fault in [Fault::Code(403), Fault::Garbage] {
        server.host.break_below(TOKEN_REVIEWS, fault);
        assert_eq!(get_as(&nobody, GV, &bearer).await.code, 401, "{fault:?}");
    }
    server.host.mend();
    assert_eq!(get_as(&nobody, GV, &bearer).await.code, 200, "a failure is not remembered");
    server.stop().await;
}

#[tokio::test]
async fn an2_an10_a_good_token_beside_a_bad_certificate_is_enough_and_two_bad_ones_are_not_nobody() {
    let server = Aggregated::start().await;
    server.host.know_token("good", json!({"username": "bot"}));
    server.host.allow(|_| true);
    let stranger = server.client_of(&Ca::new("elsewhere"), "eve", &[], |_| {});
    assert_eq!(get_as(&stranger, GV, &[("Authorization", "Bearer good")]).await.code, 200);
    assert_eq!(get_as(&stranger, GV, &[("Authorization", "Bearer bad")]).await.code, 401);
    assert_eq!(get_as(&stranger, GV, &[]).await.code, 401, "an anonymous user would be let in here");
    assert_eq!(get_as(&server.nobody(), GV, &[]).await.code, 200);
    assert_eq!(last_review(&server)["groups"], json!(["system:unauthenticated"]));
    server.stop().await;
}

#[tokio::test]
async fn an10_anonymous_users_can_be_kept_out() {
    let server = Aggregated::with(|args, _| args.identity.anonymous_auth = Some(false)).await;
    server.host.allow(|_| true);
    assert_eq!(server.nobody().get(GV).await.code, 401);
    assert_eq!(server.nobody().get("/livez").await.code, 200, "HE5");
    server.stop().await;
}
