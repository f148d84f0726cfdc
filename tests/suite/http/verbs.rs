//! Verbs over raw HTTP: status codes, paths, media types, and bodies that are no objects.

use http::Method;
use serde_json::{Value, json};

use crate::support::objects::{ALL_BINDINGS, BINDINGS, CLUSTERS, REBALANCERS, TASKS, binding, rebalancer, task};
use crate::support::raw::{Connection, Protocol, Reply};
use crate::support::server::TestServer;

const JSON: (&str, &str) = ("content-type", "application/json");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

async fn post(admin: &Connection, path: &str, object: &Value) -> Reply {
    admin.send(Method::POST, path, &[JSON], object.to_string()).await
}

#[track_caller]
fn assert_status(reply: &Reply, code: u16, reason: &str, message: &str) {
    let status = reply.json();
    assert_eq!((reply.code.as_u16(), status["reason"].as_str()), (code, Some(reason)), "{status}");
    assert_eq!((&status["kind"], &status["apiVersion"]), (&json!("Status"), &json!("v1")), "{status}");
    let text = status["message"].as_str().unwrap_or_default();
    assert!(text.contains(message), "{text:?} lacks {message:?}");
}

#[tokio::test]
async fn vb1_vb2_vb5_er4_ct11_an_object_lives_through_all_verbs_over_both_protocols() {
    let server = TestServer::start().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let admin = server.admin().over(protocol).connect().await;
        let created = post(&admin, BINDINGS, &binding("web")).await;
        assert_eq!(created.code, 201, "{}", created.text());
        assert_eq!(created.header("content-type"), Some("application/json"));
        assert_eq!(created.header("cache-control"), Some("no-cache, private"));
        assert!(created.text().ends_with("}\n"));
        let path = format!("{BINDINGS}/web");
        let got = admin.send(Method::GET, &path, &[], "").await;
        assert_eq!((got.code.as_u16(), &got.body), (200, &created.body), "what was answered is what is stored");

        let mut object = got.json();
        object["metadata"]["labels"] = json!({"tier": "front"});
        let updated = admin.send(Method::PUT, &path, &[JSON], object.to_string()).await;
        assert_eq!((updated.code.as_u16(), &updated.json()["metadata"]["labels"]["tier"]), (200, &json!("front")));
        let stale = admin.send(Method::PUT, &path, &[JSON], {
            object["metadata"]["labels"]["tier"] = json!("back");
            object.to_string()
        });
        assert_status(&stale.await, 409, "Conflict", "the object has been modified");

        let patched = admin.send(Method::PATCH, &path, &[MERGE], r#"{"metadata":{"labels":{"tier":null}}}"#).await;
        assert_eq!((patched.code.as_u16(), &patched.json()["metadata"]["labels"]["tier"]), (200, &Value::Null));
        let patch = r#"[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]"#;
        let json_patch = [("content-type", "application/json-patch+json")];
        let patched = admin.send(Method::PATCH, &path, &json_patch, patch).await;
        assert_eq!((patched.code.as_u16(), &patched.json()["metadata"]["annotations"]["a"]), (200, &json!("b")));

        let list = admin.send(Method::GET, ALL_BINDINGS, &[], "").await.json();
        assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&json!("ResourceBindingList"), 1));
        assert_eq!((&list["metadata"]["continue"], &list["items"][0]), (&json!(""), &patched.json()));

        let deleted = admin.send(Method::DELETE, &path, &[], "").await;
        let uid = created.json()["metadata"]["uid"].clone();
        assert_eq!(
            deleted.json(),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details":
                {"name": "web", "group": "work.karmada.io", "kind": "resourcebindings", "uid": uid}})
        );
        assert_status(&admin.send(Method::GET, &path, &[], "").await, 404, "NotFound", "\"web\" not found");
        let list = admin.send(Method::GET, ALL_BINDINGS, &[], "").await.json();
        assert_eq!(list["items"], json!([]), "an empty list is a list");
    }
    server.stop().await;
}

#[tokio::test]
async fn vb5_a_finalizer_makes_a_delete_wait() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let mut object = binding("web");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert_eq!(post(&admin, BINDINGS, &object).await.code, 201);
    let path = format!("{BINDINGS}/web");
    let waiting = admin.send(Method::DELETE, &path, &[], "").await;
    assert_eq!(waiting.code, 200);
    assert!(waiting.json()["metadata"]["deletionTimestamp"].is_string());
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "orphanDependents": false});
    let accepted = admin.send(Method::DELETE, &path, &[JSON], options.to_string()).await;
    assert_eq!(accepted.code, 202);
    let freed = admin.send(Method::PATCH, &path, &[MERGE], r#"{"metadata":{"finalizers":null}}"#).await;
    assert_eq!(freed.code, 200);
    assert_eq!(admin.send(Method::GET, &path, &[], "").await.code, 404);
    server.stop().await;
}

#[tokio::test]
async fn vb6_a_collection_is_deleted_as_a_list() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    for name in ["a", "b"] {
        assert_eq!(post(&admin, REBALANCERS, &rebalancer(name)).await.code, 201);
    }
    let reply = admin.send(Method::DELETE, REBALANCERS, &[], "").await;
    let list = reply.json();
    assert_eq!((reply.code.as_u16(), &list["kind"]), (200, &json!("WorkloadRebalancerList")));
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    assert_eq!(admin.send(Method::GET, REBALANCERS, &[], "").await.json()["items"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn vb7_vb10_paths_fit_the_scope_of_their_kind() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let namespaced_rebalancers = "/apis/apps.karmada.io/v1alpha1/namespaces/shop/workloadrebalancers";
    let all_b = format!("{ALL_BINDINGS}/web");
    for (method, path) in [
        (Method::POST, ALL_BINDINGS),
        (Method::DELETE, ALL_BINDINGS),
        (Method::GET, all_b.as_str()),
        (Method::GET, namespaced_rebalancers),
        (Method::POST, namespaced_rebalancers),
    ] {
        let reply = admin.send(method.clone(), path, &[JSON], binding("web").to_string()).await;
        assert_eq!((reply.code.as_u16(), reply.text()), (404, "404 page not found\n"), "{method} {path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn vb8_vb9_er12_methods_and_subresources_that_a_kind_lacks_are_refused() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    assert_eq!(post(&admin, BINDINGS, &binding("web")).await.code, 201);
    let (item, status) = (format!("{BINDINGS}/web"), format!("{BINDINGS}/web/status"));
    let trace = Method::TRACE;
    for (method, path, verb) in [
        (Method::DELETE, &status, "delete"),
        (Method::POST, &status, "create"),
        (Method::OPTIONS, &item, ""),
        (trace, &item, ""),
    ] {
        let reply = admin.send(method, path, &[JSON], "{}").await;
        let message = format!("{verb} is not supported on resources of kind \"resourcebindings.work.karmada.io\"");
        assert_status(&reply, 405, "MethodNotAllowed", &message);
    }
    for (method, headers) in [(Method::PUT, [JSON]), (Method::PATCH, [MERGE])] {
        let reply = admin.send(method, BINDINGS, &headers, binding("web").to_string()).await;
        assert_status(&reply, 400, "BadRequest", "name must be provided");
    }
    let reply = admin.send(Method::GET, &format!("{BINDINGS}/web/log"), &[], "").await;
    assert_status(&reply, 404, "NotFound", "resourcebindings.work.karmada.io \"web\" not found");
    let reply = admin.send(Method::GET, &format!("{BINDINGS}/web/scale"), &[], "").await;
    let message = "resourcebindings.work.karmada.io cannot be scaled: it has no subresource scale; scale the workload \
                   that the binding is for, or patch spec.replicas of the binding";
    assert_status(&reply, 404, "NotFound", message);
    assert_eq!(admin.send(Method::GET, &format!("{status}/x"), &[], "").await.code, 200);
    server.stop().await;
}

#[tokio::test]
async fn vb24_a_task_can_be_created_and_nothing_else() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
        let reply = admin.send(method.clone(), TASKS, &[JSON], "").await;
        assert_status(&reply, 405, "MethodNotAllowed", "the server does not allow this method");
        assert_eq!(reply.json()["details"], json!({}));
        let reply = admin.send(method, &format!("{TASKS}/x"), &[JSON], "").await;
        assert_status(&reply, 404, "NotFound", "the server could not find the requested resource");
    }
    let table = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let reply = admin.send(Method::POST, TASKS, &[JSON, table], task("t").to_string()).await;
    assert_status(&reply, 406, "NotAcceptable", "application/json");
    server.stop().await;
}

#[tokio::test]
async fn vb15_vb18_vb19_er9_li6_bodies_that_are_no_such_object_are_refused_and_nothing_is_stored() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let deep = format!("{}1{}", r#"{"a":"#.repeat(5000), "}".repeat(5000));
    let deep_yaml = "- ".repeat(5000);
    let yaml = ("content-type", "application/yaml");
    let (json_fault, yaml_fault) =
        ("couldn't get version/kind; json parse error: ", "(must be of type ResourceBinding): yaml: ");
    for (header, body, code, message) in [
        (JSON, "", 400, "unexpected end of JSON input (<empty>)"),
        (JSON, "{", 400, "unexpected end of JSON input ({)"),
        (JSON, "{]", 400, json_fault),
        (JSON, "[]", 400, "json: cannot unmarshal array into Go value of type map[string]interface {} (5b5d)"),
        (JSON, "nonsense", 400, "json parse error: a word is none of true, false and null (line 1, column 2) (6e6f6e"),
        (JSON, "null", 400, "Object 'Kind' is missing in 'null' (6e756c6c)"),
        (JSON, r#"{"kind":1}"#, 400, "json: cannot unmarshal number into Go struct field .kind of type string"),
        (JSON, r#"{"metadata":{"name":"web"},"spec":{}}"#, 400, r#" ({"metadata":{"name":"web"},"sp ...)"#),
        (JSON, &deep, 400, json_fault),
        (yaml, "a: [", 400, yaml_fault),
        (yaml, &deep_yaml, 400, yaml_fault),
        (yaml, "a: &a [x]\nb: *c\n", 400, yaml_fault),
        (JSON, "{}", 400, "Object 'Kind' is missing in '{}' ({})"),
        (JSON, r#"{"kind":"ResourceBinding"}"#, 400, "the API version in the data () does not match the expected"),
        (JSON, r#"{"kind":"ResourceBinding","apiVersion":"v1"}"#, 400, "does not match the expected API version"),
    ] {
        let reply = admin.send(Method::POST, BINDINGS, &[header], body.to_owned()).await;
        assert_status(&reply, code, "BadRequest", message);
    }
    let mut wrong_kind = binding("web");
    wrong_kind["kind"] = json!("Thing");
    let message = "Thing.work.karmada.io \"web\" is invalid: kind: Invalid value: \"Thing\": must be ResourceBinding";
    assert_status(&post(&admin, BINDINGS, &wrong_kind).await, 422, "Invalid", message);
    let mut elsewhere = binding("web");
    elsewhere["metadata"]["namespace"] = json!("other");
    assert_status(&post(&admin, BINDINGS, &elsewhere).await, 400, "BadRequest", "namespace of the provided object");
    assert_status(&post(&admin, BINDINGS, &binding("No_DNS")).await, 422, "Invalid", "metadata.name");
    assert_eq!(admin.send(Method::GET, ALL_BINDINGS, &[], "").await.json()["items"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn ct2_ct3_ct5_media_types_of_bodies() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    for media in ["application/vnd.kubernetes.protobuf", "application/cbor", "text/plain", "x"] {
        let reply = admin.send(Method::POST, BINDINGS, &[("content-type", media)], "{}").await;
        assert_status(&reply, 415, "UnsupportedMediaType", "accepted media types include: application/json");
    }
    for media in ["application/json", "application/strategic-merge-patch+json"] {
        let reply = admin.send(Method::PATCH, &format!("{BINDINGS}/web"), &[("content-type", media)], "{}").await;
        assert_status(&reply, 415, "UnsupportedMediaType", "application/json-patch+json, application/merge-patch+json");
    }
    let reply = admin.send(Method::POST, BINDINGS, &[], binding("a").to_string()).await;
    assert_eq!(reply.code, 201, "no media type means JSON");
    let charset = [("content-type", "application/json; charset=utf-8")];
    assert_eq!(admin.send(Method::POST, BINDINGS, &charset, binding("b").to_string()).await.code, 201);
    let yaml = "apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {name: c}\n\
                spec:\n  resource: {apiVersion: apps/v1, kind: Deployment, name: c, namespace: shop}\n";
    let reply = admin.send(Method::POST, BINDINGS, &[("content-type", "application/yaml")], yaml).await;
    assert_eq!(reply.code, 201, "{}", reply.text());
    server.stop().await;
}

#[tokio::test]
async fn ct1_er24_answers_are_yaml_when_that_is_asked_for() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let mut object = binding("web");
    object["metadata"]["annotations"] = json!({"a": "true", "b": "1e3", "c": "two\nlines\n", "d": "- x: #y", "e": ""});
    assert_eq!(post(&admin, BINDINGS, &object).await.code, 201);
    let yaml = [("accept", "application/yaml")];
    for path in [format!("{BINDINGS}/web"), BINDINGS.to_owned()] {
        let json = admin.send(Method::GET, &path, &[], "").await.json();
        let reply = admin.send(Method::GET, &path, &yaml, "").await;
        assert_eq!(reply.header("content-type"), Some("application/yaml"));
        let read = ballast::k8s::Body::from_yaml(&reply.body).unwrap().value;
        assert_eq!(Value::Object(read), json, "{}", reply.text());
    }
    let missing = admin.send(Method::GET, &format!("{BINDINGS}/x"), &yaml, "").await;
    assert_eq!((missing.code.as_u16(), missing.header("content-type")), (404, Some("application/yaml")));
    assert!(missing.text().contains("reason: NotFound"), "{}", missing.text());
    server.stop().await;
}

#[tokio::test]
async fn fv3_unknown_fields_come_back_as_warnings_and_strict_refuses_them() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let mut object = rebalancer("web");
    object["spec"]["surprise"] = json!(1);
    let created = post(&admin, REBALANCERS, &object).await;
    assert_eq!(created.code, 201);
    let told: Vec<_> = created.headers.get_all("warning").iter().collect();
    assert!(told.iter().any(|warning| *warning == r#"299 - "unknown field \"spec.surprise\"""#), "{told:?}");
    assert_eq!(created.json()["spec"]["surprise"], Value::Null);
    let strict = format!("{REBALANCERS}?fieldValidation=Strict");
    assert_status(&post(&admin, &strict, &object).await, 400, "BadRequest", "unknown field \"spec.surprise\"");
    server.stop().await;
}

#[tokio::test]
async fn queries_that_make_no_sense_are_refused() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    for (query, code, reason) in [
        ("labelSelector=a+in+(", 400, "BadRequest"),
        ("fieldSelector=spec.x%3Dy", 400, "BadRequest"),
        ("limit=x", 400, "BadRequest"),
        ("resourceVersion=x", 400, "BadRequest"),
        ("timeout=x", 400, "BadRequest"),
        ("resourceVersion=999999999", 504, "Timeout"),
        ("continue=x", 400, "BadRequest"),
    ] {
        let reply = admin.send(Method::GET, &format!("{CLUSTERS}?{query}"), &[], "").await;
        assert_status(&reply, code, reason, "");
    }
    server.stop().await;
}

#[tokio::test]
async fn ta1_pm1_lists_and_objects_come_as_tables_and_metadata() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    for name in ["a", "b"] {
        assert_eq!(post(&admin, BINDINGS, &binding(name)).await.code, 201);
    }
    let one = format!("{BINDINGS}/a");
    for version in ["v1", "v1beta1"] {
        let table = format!("application/json;as=Table;v={version};g=meta.k8s.io,application/json");
        let list = admin.send(Method::GET, ALL_BINDINGS, &[("accept", &table)], "").await.json();
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("Table"), &json!(format!("meta.k8s.io/{version}"))));
        assert_eq!(list["rows"].as_array().unwrap().len(), 2);
        assert_eq!(list["rows"][1]["cells"][0], "b");
        assert_eq!(list["rows"][1]["object"]["kind"], "PartialObjectMetadata");
        let single = admin.send(Method::GET, &one, &[("accept", &table)], "").await.json();
        assert_eq!(single["rows"].as_array().unwrap().len(), 1);
        let with = |include: &str| format!("{one}?includeObject={include}");
        let whole = admin.send(Method::GET, &with("Object"), &[("accept", &table)], "").await.json();
        assert_eq!(whole["rows"][0]["object"]["kind"], "ResourceBinding");
        let bad = admin.send(Method::GET, &with("x"), &[("accept", &table)], "").await;
        assert_status(&bad, 400, "BadRequest", "must be 'Metadata', 'Object', 'None', or empty");
        let missing = admin.send(Method::GET, &format!("{BINDINGS}/x"), &[("accept", &table)], "").await;
        assert_status(&missing, 404, "NotFound", "\"x\" not found");

        let partial = format!("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v={version}");
        let object = admin.send(Method::GET, &one, &[("accept", &partial)], "").await.json();
        assert_eq!((&object["kind"], &object["spec"]), (&json!("PartialObjectMetadata"), &Value::Null));
        let partials = format!(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v={version},\
             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v={version}"
        );
        let list = admin.send(Method::GET, BINDINGS, &[("accept", &partials)], "").await;
        assert_eq!(list.header("content-type"), Some("application/json"));
        assert_eq!(list.json()["kind"], "PartialObjectMetadataList");
        assert_eq!(list.json()["items"][0]["metadata"]["name"], "a");
        let wrong = admin.send(Method::GET, BINDINGS, &[("accept", &partial)], "").await;
        assert_status(&wrong, 406, "NotAcceptable", "");
    }
    server.stop().await;
}

#[tokio::test]
async fn vb9_vb20_paths_that_lead_nowhere_and_names_that_no_object_can_have() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let nowhere = admin.send(Method::GET, "/apis/work.karmada.io/v1alpha2/things", &[], "").await;
    assert_eq!((nowhere.code.as_u16(), nowhere.text()), (404, "404 page not found\n"));
    assert_eq!(nowhere.header("x-content-type-options"), Some("nosniff"));
    for (name, why) in [("..", "may not be '..'"), (".", "may not be '.'"), ("a%25b", "may not contain '%'")] {
        let reply = admin.send(Method::GET, &format!("{BINDINGS}/{name}"), &[], "").await;
        assert_status(&reply, 400, "BadRequest", why);
    }
    server.stop().await;
}

#[tokio::test]
async fn fv3_what_is_said_of_a_body_is_said_also_when_it_is_refused() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let mut unknown = binding("web");
    unknown["spec"]["zz"] = json!(1);
    unknown["spec"]["replicas"] = json!("x");
    let refused = post(&admin, BINDINGS, &unknown).await;
    let message = "spec.replicas: Invalid value: \"string\": spec.replicas in body must be of type integer: \"string\"";
    assert_status(&refused, 422, "Invalid", message);
    let warning = "299 - \"unknown field \\\"spec.zz\\\"\"";
    assert_eq!(refused.header("warning"), Some(warning));
    let put = admin.send(Method::PUT, &format!("{BINDINGS}/web"), &[JSON], unknown.to_string()).await;
    assert_eq!((put.code.as_u16(), put.header("warning")), (404, Some(warning)));
    server.stop().await;
}

#[tokio::test]
async fn pa5_pa7_patches_that_make_no_object_are_refused_for_what_they_make() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let path = format!("{BINDINGS}/web");
    let json_patch = ("content-type", "application/json-patch+json");
    let missing = admin.send(Method::PATCH, &path, &[MERGE], "[]").await;
    assert_status(&missing, 404, "NotFound", "\"web\" not found");
    assert_eq!(post(&admin, BINDINGS, &binding("web")).await.code, 201);
    for (header, patch, code, message) in [
        (MERGE, "null", 400, "Invalid JSON Patch"),
        (
            MERGE,
            "[]",
            400,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (MERGE, r#"{"kind":"Foo"}"#, 422, "Foo.work.karmada.io \"web\" is invalid: kind: Invalid value: \"Foo\""),
        (
            MERGE,
            r#"{"apiVersion":"x/v1"}"#,
            422,
            "ResourceBinding.x \"web\" is invalid: apiVersion: Invalid value: \"x/v1\"",
        ),
        (MERGE, r#"{"kind":null}"#, 422, "Object 'Kind' is missing in '"),
        (
            MERGE,
            r#"{"metadata":{"labels":{"a":1}}}"#,
            422,
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels",
        ),
        (
            MERGE,
            r#"{"metadata":null}"#,
            400,
            "the name of the object (web based on URL) was undeterminable: name must be provided",
        ),
        (json_patch, "{}", 400, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (json_patch, "[1]", 400, "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (
            json_patch,
            r#"[{"op":"foo","path":"/a"}]"#,
            400,
            r#"invalid operation {"op":"foo","path":"/a"}: unsupported operation"#,
        ),
        (
            json_patch,
            r#"[{"op":"add","path":"/a"}]"#,
            400,
            "failed to decode 'value': operation, missing value field: missing value",
        ),
        (
            json_patch,
            r#"[{"op":"copy","path":"/a"}]"#,
            400,
            "failed to decode 'from': operation, missing from field: missing value",
        ),
        (
            json_patch,
            r#"[{"op":"remove"}]"#,
            400,
            "failed to decode 'path': operation missing path field: missing value",
        ),
    ] {
        let reply = admin.send(Method::PATCH, &path, &[header], patch).await;
        assert_status(&reply, code, if code == 422 { "Invalid" } else { "BadRequest" }, message);
    }
    assert_eq!(admin.send(Method::PATCH, &path, &[json_patch], "null").await.code, 200, "no operations");
    server.stop().await;
}

#[tokio::test]
async fn md6_a_time_that_is_only_written_otherwise_is_no_change() {
    let server = TestServer::start().await;
    let admin = server.admin().connect().await;
    let created = post(&admin, BINDINGS, &binding("web")).await.json();
    let mut object = created.clone();
    let time = created["metadata"]["creationTimestamp"].as_str().unwrap().replace('Z', "+00:00");
    object["metadata"]["creationTimestamp"] = json!(time);
    let path = format!("{BINDINGS}/web");
    let updated = admin.send(Method::PUT, &path, &[JSON], object.to_string()).await;
    assert_eq!((updated.code.as_u16(), updated.json()), (200, created));
    server.stop().await;
}
