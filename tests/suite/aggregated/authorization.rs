//! Authorization by the host cluster. Its responses are cached, and a failure never allows
//! anything.

use http::Method;
use serde_json::json;

use crate::support::aggregated::Aggregated;
use crate::support::host::{ACCESS_REVIEWS, Fault};

const BINDING: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings/web";

fn as_user(name: &str) -> [(&str, &str); 1] {
    [("X-Remote-User", name)]
}

#[tokio::test]
async fn az1_az4_az5_each_verb_is_reviewed_once() {
    let server = Aggregated::start().await;
    let proxy = server.proxy();
    let collection = BINDING.rsplit_once('/').unwrap().0;
    for (method, path, verb, subresource) in [
        (Method::GET, BINDING.to_owned(), "get", None),
        (Method::GET, collection.to_owned(), "list", None),
        (Method::GET, format!("{collection}?watch=1"), "watch", None),
        (Method::POST, collection.to_owned(), "create", None),
        (Method::PUT, BINDING.to_owned(), "update", None),
        (Method::PATCH, format!("{BINDING}/status"), "patch", Some("status")),
        (Method::DELETE, BINDING.to_owned(), "delete", None),
        (Method::DELETE, collection.to_owned(), "deletecollection", None),
    ] {
        let before = server.host.asked(ACCESS_REVIEWS).len();
        for _ in 0..2 {
            let reply = proxy.send(method.clone(), &path, &as_user("jane"), "").await;
            assert_eq!(reply.code, 403, "AZ7, AZ8: {verb}");
        }
        let asked = server.host.asked(ACCESS_REVIEWS);
        assert_eq!(asked.len(), before + 1, "AZ4: {verb}");
        let attributes = &asked.last().unwrap()["spec"]["resourceAttributes"];
        assert_eq!((&attributes["verb"], &attributes["subresource"]), (&json!(verb), &json!(subresource)));
    }
    let reply = proxy.send(Method::GET, "/metrics", &as_user("jane"), "").await;
    assert_eq!(reply.code, 403, "ME1");
    let path = server.host.asked(ACCESS_REVIEWS).last().unwrap()["spec"]["nonResourceAttributes"].clone();
    assert_eq!(path, json!({"verb": "get", "path": "/metrics"}));
    server.stop().await;
}

#[tokio::test]
async fn di15_discovery_is_reviewed_as_a_path_and_needs_no_right_to_any_resource() {
    let server = Aggregated::start().await;
    server.host.allow(|spec| spec["nonResourceAttributes"]["verb"] == "get");
    for path in ["/apis", "/apis/work.karmada.io", "/apis/work.karmada.io/v1alpha2", "/openapi/v3"] {
        assert_eq!(server.proxy().send(Method::GET, path, &as_user("jane"), "").await.code, 200, "{path}");
        let spec = server.host.asked(ACCESS_REVIEWS).last().unwrap()["spec"].clone();
        assert_eq!(spec["nonResourceAttributes"], json!({"verb": "get", "path": path}));
        assert_eq!(spec.get("resourceAttributes"), None);
    }
    server.stop().await;
}

#[tokio::test]
async fn az7_a_no_is_a_403_that_says_to_whom_and_why() {
    let server = Aggregated::start().await;
    let refused = server.proxy().send(Method::GET, BINDING, &as_user("jane"), "").await;
    assert_eq!((refused.code.as_u16(), refused.header("x-content-type-options")), (403, Some("nosniff")));
    let status = refused.json();
    assert_eq!(
        (&status["kind"], &status["reason"], &status["code"]),
        (&json!("Status"), &json!("Forbidden"), &json!(403))
    );
    let expected = "resourcebindings.work.karmada.io \"web\" is forbidden: User \"jane\" cannot get resource \
                    \"resourcebindings\" in API group \"work.karmada.io\" in the namespace \"shop\"";
    assert!(status["message"].as_str().unwrap().starts_with(expected), "{status}");
    server.stop().await;
}

#[tokio::test]
async fn az2_selectors_of_what_names_many_objects_are_reviewed_too() {
    let server = Aggregated::start().await;
    server.host.allow(|spec| {
        let attributes = &spec["resourceAttributes"];
        attributes["labelSelector"]["rawSelector"] == "team=a" && attributes["fieldSelector"].is_null()
    });
    let proxy = server.proxy();
    let collection = BINDING.rsplit_once('/').unwrap().0;
    for (method, path, code) in [
        (Method::GET, format!("{collection}?labelSelector=team%3Da"), 200),
        (Method::GET, collection.to_owned(), 403),
        (Method::GET, format!("{collection}?labelSelector=team%3Db"), 403),
        (Method::GET, format!("{collection}?labelSelector=team%3Da&fieldSelector=metadata.name%3Dx"), 403),
        (Method::DELETE, format!("{collection}?labelSelector=team%3Da"), 200),
        // A selector means nothing for a single object.
        (Method::GET, format!("{BINDING}?labelSelector=team%3Da"), 403),
    ] {
        let reply = proxy.send(method, &path, &as_user("jane"), "").await;
        assert_eq!(reply.code, code, "{path}: {}", reply.text());
    }
    server.stop().await;
}

#[tokio::test]
async fn az3_masters_are_not_reviewed_and_open_paths_neither() {
    let server = Aggregated::start().await;
    let master = [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")];
    assert_eq!(server.proxy().send(Method::GET, BINDING, &master, "").await.code, 404);
    assert_eq!(server.nobody().get("/livez").await.code, 200);
    assert!(server.host.asked(ACCESS_REVIEWS).is_empty());
    server.stop().await;
}

#[tokio::test]
async fn az4_answers_last_as_long_as_the_flags_say() {
    let server = Aggregated::with(|args, _| {
        args.host.authorization_webhook_cache_authorized_ttl = "0s".parse().unwrap();
        args.host.authorization_webhook_cache_unauthorized_ttl = "10m".parse().unwrap();
    })
    .await;
    server.host.allow(|spec| spec["user"] == "jane");
    let proxy = server.proxy();
    for _ in 0..2 {
        assert_eq!(proxy.send(Method::GET, BINDING, &as_user("jane"), "").await.code, 404);
        assert_eq!(proxy.send(Method::GET, BINDING, &as_user("joe"), "").await.code, 403);
    }
    assert_eq!(server.host.asked(ACCESS_REVIEWS).len(), 3, "two for yes, one for no");
    server.stop().await;
}

#[tokio::test]
async fn az6_a_review_that_fails_is_no_permission() {
    let server = Aggregated::start().await;
    server.host.allow(|_| true);
    let proxy = server.proxy();
    for fault in [Fault::Code(403), Fault::Garbage] {
        server.host.break_below(ACCESS_REVIEWS, fault);
        let reply = proxy.send(Method::GET, BINDING, &as_user("jane"), "").await;
        assert_eq!(reply.code, 500, "{fault:?}");
        assert!(reply.json()["message"].as_str().unwrap().starts_with("Internal Server Error: \"/apis/work"));
    }
    server.host.break_below(ACCESS_REVIEWS, Fault::Hang);
    let hurried = format!("{BINDING}?timeout=100ms");
    assert_eq!(proxy.send(Method::GET, &hurried, &as_user("jane"), "").await.code, 504);
    server.host.mend();
    assert_eq!(proxy.send(Method::GET, BINDING, &as_user("jane"), "").await.code, 404);
    server.stop().await;
}

#[tokio::test]
async fn im1_acting_as_somebody_else_takes_a_permission_for_each_part() {
    let server = Aggregated::start().await;
    server.host.allow(|spec| {
        let asked = &spec["resourceAttributes"];
        match (spec["user"].as_str(), asked["verb"].as_str()) {
            (Some("joe"), Some("impersonate")) => asked["resource"] == "users" && asked["name"] == "jane",
            (user, _) => user == Some("jane"),
        }
    });
    let proxy = server.proxy();
    let wish = [("X-Remote-User", "joe"), ("Impersonate-User", "jane")];
    assert_eq!(proxy.send(Method::GET, BINDING, &wish, "").await.code, 404, "as jane");
    let spec = server.host.asked(ACCESS_REVIEWS).last().unwrap()["spec"].clone();
    assert_eq!((&spec["user"], &spec["groups"]), (&json!("jane"), &json!(["system:authenticated"])));
    let more = [wish[0], wish[1], ("Impersonate-Group", "system:masters")];
    let refused = proxy.send(Method::GET, BINDING, &more, "").await;
    assert_eq!(refused.code, 403);
    assert!(refused.text().contains("cannot impersonate resource \\\"groups\\\""), "{}", refused.text());
    let nobody = [wish[0], ("Impersonate-Group", "x")];
    assert_eq!(proxy.send(Method::GET, BINDING, &nobody, "").await.code, 400, "IM2");
    server.stop().await;
}

#[tokio::test]
async fn bd8_the_host_cluster_decides_who_approves_and_the_audit_log_says_who_did() {
    const REBALANCES: &str = "/apis/ballast.dev/v1alpha1/clusterrebalances";
    let server = Aggregated::with(|args, folder| args.audit.audit_log_path = Some(folder.join("audit.log"))).await;
    server.host.allow(|spec| spec["resourceAttributes"]["verb"] != "approve" || spec["user"] == "chief");
    let object = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": "r"},
        "spec": {"select": [{}], "approval": "Required", "approved": true}});
    let create =
        async |user: &str| server.proxy().send(Method::POST, REBALANCES, &as_user(user), object.to_string()).await;
    assert_eq!(create("jane").await.code, 403);
    let asked = server.host.asked(ACCESS_REVIEWS).last().unwrap()["spec"]["resourceAttributes"].clone();
    let expected = json!({"verb": "approve", "group": "ballast.dev", "version": "v1alpha1",
        "resource": "clusterrebalances", "name": "r"});
    assert_eq!(asked, expected);
    let created = create("chief").await;
    assert_eq!(created.code, 201, "{}", created.text());
    assert_eq!(created.json()["metadata"]["annotations"]["ballast.dev/approved-by"], "chief");
    let (_host, folder) = server.stop().await;
    let log = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    let events: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let signed = |event: &&serde_json::Value| event["annotations"]["ballast.dev/approved-by"] == "chief";
    assert_eq!(events.iter().filter(signed).count(), 1, "{log}");
}
