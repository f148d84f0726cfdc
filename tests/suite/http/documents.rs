//! Discovery over HTTP: the document for each `Accept`, and the caching by clients.

use http::Method;

use crate::support::server::TestServer;

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const V2BETA1: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

#[tokio::test]
async fn di7_di12_the_aggregated_document_goes_to_who_takes_it() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    for (accept, kind) in [
        ("application/json".to_owned(), "APIGroupList"),
        ("*/*".to_owned(), "APIGroupList"),
        ("application/vnd.kubernetes.protobuf, application/json".to_owned(), "APIGroupList"),
        (V2.to_owned(), "APIGroupDiscoveryList"),
        (format!("{V2};profile=nopeer"), "APIGroupDiscoveryList"),
        (format!("{V2},{V2BETA1},application/json"), "APIGroupDiscoveryList"),
        (format!("application/json,{V2}"), "APIGroupDiscoveryList"),
        (format!("{V2BETA1},application/json"), "APIGroupList"),
    ] {
        let reply = admin.send(Method::GET, "/apis", &[("accept", &accept)], "").await;
        assert_eq!(reply.code, 200, "{accept}");
        assert_eq!(reply.json()["kind"], kind, "{accept}");
        let expected = if kind == "APIGroupList" { "application/json" } else { V2 };
        assert_eq!(reply.header("content-type"), Some(expected), "{accept}");
    }
    for accept in [V2BETA1, "application/vnd.kubernetes.protobuf", "text/html"] {
        let reply = admin.send(Method::GET, "/apis", &[("accept", accept)], "").await;
        assert_eq!((reply.code.as_u16(), &*reply.json()["reason"].to_string()), (406, "\"NotAcceptable\""));
    }
    server.stop().await;
}

#[tokio::test]
async fn di9_an_unchanged_document_is_not_sent_again() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let first = admin.send(Method::GET, "/apis", &[("accept", V2)], "").await;
    let etag = first.header("etag").unwrap().to_owned();
    assert_eq!((first.header("vary"), first.header("cache-control")), (Some("Accept"), Some("public")));
    let again = admin.send(Method::GET, "/apis", &[("accept", V2), ("if-none-match", &etag)], "").await;
    assert_eq!((again.code.as_u16(), again.body.len()), (304, 0));
    let other = admin.send(Method::GET, "/apis", &[("accept", V2), ("if-none-match", "\"x\"")], "").await;
    assert_eq!((other.code.as_u16(), other.body), (200, first.body));
    server.stop().await;
}

#[tokio::test]
async fn di1_di2_di3_vb9_every_level_has_its_document_and_the_rest_is_not_found() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    for (path, kind) in [
        ("/api", "APIVersions"),
        ("/api/v1", "APIResourceList"),
        ("/apis/", "APIGroupList"),
        ("/apis/apps.karmada.io", "APIGroup"),
        ("/apis/apps.karmada.io/v1alpha1", "APIResourceList"),
    ] {
        let reply = admin.send(Method::GET, path, &[], "").await;
        assert_eq!(reply.json()["kind"], kind, "{path}");
        assert!(reply.text().ends_with('\n'));
    }
    let root = admin.send(Method::GET, "/", &[], "").await;
    assert!(root.json()["paths"].as_array().unwrap().iter().any(|path| path == "/apis/apps.karmada.io/v1alpha1"));
    for path in [
        "/nowhere",
        "/apis/x.io",
        "/apis/apps.karmada.io/v9",
        "/apis/apps.karmada.io/v1alpha1/things",
        "/api/v2",
        "/api/v1/pods",
        "/readyz/nothing",
        "/apis/a/b/c/d/e/f/g",
    ] {
        let reply = admin.send(Method::GET, path, &[], "").await;
        assert_eq!((reply.code.as_u16(), reply.text()), (404, "404 page not found\n"), "{path}");
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
    }
    let post = admin.send(Method::POST, "/apis", &[], "{}").await;
    assert_eq!((post.code.as_u16(), &*post.json()["reason"].to_string()), (405, "\"MethodNotAllowed\""));
    server.stop().await;
}

#[tokio::test]
async fn di16_head_is_get_without_a_body() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let full = admin.send(Method::GET, "/apis", &[], "").await;
    let head = admin.send(Method::HEAD, "/apis", &[], "").await;
    assert_eq!((head.code.as_u16(), head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some(&*full.body.len().to_string()));
    server.stop().await;
}

#[tokio::test]
async fn oa1_oa3_openapi_is_indexed_by_hash_and_kept_by_clients() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let index = admin.send(Method::GET, "/openapi/v3", &[], "").await;
    assert_eq!(index.header("content-type"), Some("application/json"));
    let index = index.json();
    let url = index["paths"]["apis/apps.karmada.io/v1alpha1"]["serverRelativeURL"].as_str().unwrap();
    let (path, hash) = url.split_once("?hash=").unwrap();
    let hashed = admin.send(Method::GET, url, &[], "").await;
    assert!(hashed.json()["openapi"].as_str().unwrap().starts_with("3.0"));
    assert_eq!(hashed.header("etag"), Some(&*format!("\"{hash}\"")));
    assert_eq!(hashed.header("cache-control"), Some("public, immutable"));
    assert!(hashed.header("expires").unwrap().ends_with(" GMT"));
    let plain = admin.send(Method::GET, path, &[], "").await;
    assert_eq!((plain.header("cache-control"), &plain.body), (Some("public"), &hashed.body));
    let moved = admin.send(Method::GET, &format!("{path}?hash=OLD"), &[], "").await;
    assert_eq!((moved.code.as_u16(), moved.header("location")), (301, Some(url)));
    let html = admin.send(Method::GET, path, &[("accept", "text/html")], "").await;
    assert_eq!(html.code, 406);
    assert_eq!(admin.send(Method::GET, "/openapi/v3/apis/x.io/v1", &[], "").await.code, 404);
    let v2 = admin.send(Method::GET, "/openapi/v2", &[("accept", "application/json")], "").await;
    assert_eq!(v2.json()["swagger"], "2.0");
    let old_name = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let binary = admin.send(Method::GET, "/openapi/v2", &[("accept", old_name)], "").await;
    let new_name = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    assert_eq!((binary.code.as_u16(), binary.header("content-type")), (200, Some(new_name)));
    assert!(binary.body.starts_with(b"\x0a\x032.0"));
    let etag = v2.header("etag").unwrap().to_owned();
    let known = admin.send(Method::GET, "/openapi/v2", &[("if-none-match", &etag)], "").await;
    assert_eq!(known.code, 304);
    server.stop().await;
}
