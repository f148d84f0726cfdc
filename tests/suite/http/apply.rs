//! Server-side apply and managed fields over HTTP (AP1-AP23).

use ballast::auth::Policy;
use http::Method;
use serde_json::{Value, json};

use crate::support::objects::{BINDINGS, REBALANCERS, binding, rebalancer};
use crate::support::raw::{Connection, Reply};
use crate::support::server::{Options, TestServer};

const APPLY: (&str, &str) = ("content-type", "application/apply-patch+yaml");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const JSON_PATCH: (&str, &str) = ("content-type", "application/json-patch+json");
const BINDING_VERSION: &str = "work.karmada.io/v1alpha2";

struct Cluster {
    server: TestServer,
    connection: Connection,
}

impl Cluster {
    async fn start() -> Cluster {
        let server = TestServer::start().await;
        let connection = server.admin().connect().await;
        Cluster { server, connection }
    }

    /// Applies as this manager. `options` are added to the query.
    async fn apply(&self, manager: &str, path: &str, config: &Value, options: &str) -> Reply {
        let uri = format!("{path}?fieldManager={manager}{options}");
        self.connection.send(Method::PATCH, &uri, &[APPLY], config.to_string()).await
    }

    async fn patch(&self, path: &str, media: (&str, &str), patch: &Value) -> Reply {
        self.connection.send(Method::PATCH, path, &[media], patch.to_string()).await
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Reply {
        self.connection.send(method, path, &[], body.to_string()).await
    }

    async fn get(&self, path: &str) -> Value {
        self.connection.send(Method::GET, path, &[], "").await.json()
    }

    async fn stop(self) {
        drop(self.connection);
        self.server.stop().await;
    }
}

fn rb(name: &str) -> String {
    format!("{BINDINGS}/{name}")
}

/// A binding with only its resource, the one required field.
fn config(members: Value) -> Value {
    let mut config = binding("web");
    for (name, value) in members.as_object().unwrap() {
        config["spec"][name] = value.clone();
    }
    config
}

fn entry<'a>(object: &'a Value, manager: &str, operation: &str) -> Option<&'a Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    entries.iter().find(|entry| entry["manager"] == manager && entry["operation"] == operation)
}

fn fields(object: &Value, manager: &str, operation: &str) -> Value {
    entry(object, manager, operation).map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

#[tokio::test]
async fn ap1_an_apply_creates_and_then_changes() {
    let cluster = Cluster::start().await;
    let yaml = "apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata:\n  name: web\nspec:\n  \
                replicas: 2\n  resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}\n";
    let path = format!("{}?fieldManager=me", rb("web"));
    let created = cluster.connection.send(Method::PATCH, &path, &[APPLY], yaml).await;
    assert_eq!((created.code.as_u16(), &created.json()["metadata"]["generation"]), (201, &json!(1)));
    let changed = cluster.apply("me", &rb("web"), &config(json!({"replicas": 3})), "").await;
    assert_eq!((changed.code.as_u16(), &changed.json()["spec"]["replicas"]), (200, &json!(3)));
    cluster.stop().await;
}

#[tokio::test]
async fn ap2_an_apply_needs_a_manager() {
    let cluster = Cluster::start().await;
    let reply = cluster.patch(&rb("web"), APPLY, &binding("web")).await;
    assert_eq!(reply.code, 422);
    let message = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
    assert_eq!(reply.json()["message"], message);
    cluster.stop().await;
}

#[tokio::test]
async fn ap3_and_ap4_the_entry_names_the_fields_of_the_configuration() {
    let cluster = Cluster::start().await;
    let mut applied = config(json!({"replicas": 2, "clusters": [{"name": "m1", "replicas": 2}]}));
    applied["metadata"]["labels"] = json!({"tier": "front"});
    applied["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let object = cluster.apply("me", &rb("web"), &applied, "").await.json();
    let entry = entry(&object, "me", "Apply").unwrap();
    assert_eq!(
        (&entry["apiVersion"], &entry["fieldsType"], entry.get("subresource")),
        (&json!(BINDING_VERSION), &json!("FieldsV1"), None)
    );
    assert!(entry["time"].as_str().is_some_and(|time| time.len() == 20 && time.ends_with('Z')));
    let expected = json!({
        "f:metadata": {"f:labels": {"f:tier": {}}, "f:finalizers": {"v:\"example.com/hold\"": {}}},
        "f:spec": {
            "f:clusters": {},
            "f:replicas": {},
            "f:resource": {"f:apiVersion": {}, "f:kind": {}, "f:name": {}, "f:namespace": {}},
        },
    });
    assert_eq!(entry["fieldsV1"], expected);
    cluster.stop().await;
}

#[tokio::test]
async fn ap5_lists_are_what_the_schema_says() {
    let cluster = Cluster::start().await;
    // Workloads are an atomic list, which is one field: two managers cannot share it.
    let path = format!("{REBALANCERS}/web");
    let object = cluster.apply("me", &path, &rebalancer("web"), "").await.json();
    assert_eq!(fields(&object, "me", "Apply")["f:spec"], json!({"f:workloads": {}}));
    // Owners are a map by uid, so each of them is a field.
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": uid});
    let owned = |uid: &str| {
        json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
            "metadata": {"name": "web", "ownerReferences": [owner(uid)]}})
    };
    cluster.apply("one", &path, &owned("u1"), "").await;
    let object = cluster.apply("two", &path, &owned("u2"), "").await.json();
    assert_eq!(object["metadata"]["ownerReferences"], json!([owner("u1"), owner("u2")]));
    let expected = json!({"f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"u2\"}": {}}}});
    assert_eq!(fields(&object, "two", "Apply"), expected);
    // Karmada's conditions are an atomic list, so two managers conflict.
    let status = |kind: &str| {
        json!({"apiVersion": BINDING_VERSION, "kind": "ResourceBinding", "metadata": {"name": "web"},
            "status": {"conditions": [{"type": kind, "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2024-01-01T00:00:00Z"}]}})
    };
    cluster.apply("me", &rb("web"), &binding("web"), "").await;
    let path = format!("{}/status", rb("web"));
    assert_eq!(cluster.apply("one", &path, &status("A"), "").await.code, 200);
    let reply = cluster.apply("two", &path, &status("B"), "").await;
    assert_eq!(reply.json()["details"]["causes"][0]["field"], ".status.conditions");
    cluster.stop().await;
}

#[tokio::test]
async fn ap6_a_conflict_names_manager_and_fields() {
    let cluster = Cluster::start().await;
    let path = format!("{REBALANCERS}/web");
    cluster.send(Method::POST, REBALANCERS, &rebalancer("web")).await;
    let mut other = rebalancer("other");
    other["metadata"]["name"] = json!("web");
    let reply = cluster.apply("me", &path, &other, "").await;
    assert_eq!(reply.code, 409);
    let cause = json!({"reason": "FieldManagerConflict", "field": ".spec.workloads",
        "message": "conflict with \"unknown\" using apps.karmada.io/v1alpha1"});
    let status = reply.json();
    assert_eq!((&status["reason"], &status["details"]), (&json!("Conflict"), &json!({"causes": [cause]})));
    assert_eq!(
        status["message"],
        "Apply failed with 1 conflict: conflict with \"unknown\" using apps.karmada.io/v1alpha1: .spec.workloads"
    );

    let mut mine = rebalancer("web");
    mine["metadata"]["labels"] = json!({"l": "1"});
    mine["spec"]["ttlSecondsAfterFinished"] = json!(5);
    cluster.apply("m1", &path, &mine, "&force=true").await;
    other["metadata"]["labels"] = json!({"l": "2"});
    other["spec"]["ttlSecondsAfterFinished"] = json!(6);
    let status = cluster.apply("m2", &path, &other, "").await.json();
    assert_eq!(
        status["message"],
        "Apply failed with 4 conflicts: conflicts with \"m1\":\n- .metadata.labels.l\n- .spec.ttlSecondsAfterFinished\n\
         - .spec.workloads\nconflicts with \"unknown\" using apps.karmada.io/v1alpha1:\n- .spec.workloads"
    );
    cluster.stop().await;
}

#[tokio::test]
async fn ap7_the_same_value_is_shared() {
    let cluster = Cluster::start().await;
    cluster.apply("one", &rb("web"), &config(json!({"replicas": 2})), "").await;
    let shared = cluster.apply("two", &rb("web"), &config(json!({"replicas": 2})), "").await;
    assert_eq!(shared.code, 200);
    let object = shared.json();
    for manager in ["one", "two"] {
        assert_eq!(fields(&object, manager, "Apply")["f:spec"]["f:replicas"], json!({}), "{manager}");
    }
    // Neither of them may change it alone.
    let reply = cluster.apply("one", &rb("web"), &config(json!({"replicas": 3})), "").await;
    assert_eq!(reply.code, 409);
    cluster.stop().await;
}

#[tokio::test]
async fn ap8_force_takes_fields_from_others() {
    let cluster = Cluster::start().await;
    cluster.apply("one", &rb("web"), &config(json!({"replicas": 2, "suspension": {"dispatching": true}})), "").await;
    let taken = cluster.apply("two", &rb("web"), &config(json!({"replicas": 3})), "&force=true").await.json();
    assert_eq!(taken["spec"]["replicas"], 3);
    let left = fields(&taken, "one", "Apply");
    assert_eq!((left["f:spec"].get("f:replicas"), left["f:spec"].get("f:suspension").is_some()), (None, true));
    assert_eq!(fields(&taken, "two", "Apply")["f:spec"]["f:replicas"], json!({}));
    cluster.stop().await;
}

#[tokio::test]
async fn ap9_what_nobody_applies_any_more_goes() {
    let cluster = Cluster::start().await;
    let mut both = config(json!({"replicas": 2, "schedulerName": "s"}));
    both["metadata"]["labels"] = json!({"mine": "1", "ours": "1"});
    both["metadata"]["finalizers"] = json!(["example.com/mine", "example.com/ours"]);
    cluster.apply("me", &rb("web"), &both, "").await;
    let mut theirs = config(json!({"schedulerName": "s"}));
    theirs["metadata"]["labels"] = json!({"ours": "1"});
    theirs["metadata"]["finalizers"] = json!(["example.com/ours"]);
    cluster.apply("you", &rb("web"), &theirs, "").await;
    let mut left = cluster.apply("me", &rb("web"), &binding("web"), "").await.json();
    // The server's own label has no owner and remains, too.
    left["metadata"]["labels"].as_object_mut().unwrap().remove("resourcebinding.karmada.io/permanent-id");
    assert_eq!(left["metadata"]["labels"], json!({"ours": "1"}));
    assert_eq!(left["metadata"]["finalizers"], json!(["example.com/ours"]));
    assert_eq!((left["spec"].get("replicas"), &left["spec"]["schedulerName"]), (None, &json!("s")));
    cluster.stop().await;
}

#[tokio::test]
async fn ap10_and_ap24_other_writes_are_updates_of_their_program() {
    let cluster = Cluster::start().await;
    let agent = ("user-agent", "curl/8.5.0 (linux)");
    let created =
        cluster.connection.send(Method::POST, BINDINGS, &[agent], config(json!({"replicas": 2})).to_string()).await;
    let object = created.json();
    let owned = fields(&object, "curl", "Update");
    assert_eq!((&owned["f:spec"]["."], &owned["f:spec"]["f:replicas"]), (&json!({}), &json!({})));
    let patch = json!({"spec": {"replicas": 3}, "metadata": {"labels": {"a": "b"}}});
    let patched = cluster.patch(&format!("{}?fieldManager=mine", rb("web")), MERGE, &patch).await.json();
    let expected = json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:replicas": {}}});
    assert_eq!(fields(&patched, "mine", "Update"), expected);
    assert_eq!(fields(&patched, "curl", "Update")["f:spec"].get("f:replicas"), None);
    let mut put = patched.clone();
    put["spec"]["replicas"] = json!(4);
    let put = cluster.send(Method::PUT, &rb("web"), &put).await.json();
    assert_eq!(fields(&put, "unknown", "Update"), json!({"f:spec": {"f:replicas": {}}}));
    cluster.stop().await;
}

#[tokio::test]
async fn ap11_appliers_come_before_updaters() {
    let cluster = Cluster::start().await;
    cluster.send(Method::POST, &format!("{BINDINGS}?fieldManager=a"), &binding("web")).await;
    let object = cluster.apply("z", &rb("web"), &config(json!({"replicas": 2})), "").await.json();
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.iter().map(|entry| entry["manager"].as_str().unwrap()).collect::<Vec<_>>(), ["z", "a"]);
    cluster.stop().await;
}

#[tokio::test]
async fn ap13_an_unmanaged_object_is_credited_to_its_past() {
    let cluster = Cluster::start().await;
    cluster.send(Method::POST, BINDINGS, &config(json!({"replicas": 2}))).await;
    let reset = json!({"metadata": {"managedFields": [{}]}});
    let bare = cluster.patch(&rb("web"), MERGE, &reset).await.json();
    assert_eq!(bare["metadata"].get("managedFields"), None);
    let object = cluster.apply("me", &rb("web"), &binding("web"), "").await.json();
    assert_eq!(fields(&object, "before-first-apply", "Update")["f:spec"]["f:replicas"], json!({}));
    let reply = cluster.apply("me", &rb("web"), &config(json!({"replicas": 9})), "").await;
    assert_eq!(reply.code, 409);
    cluster.stop().await;
}

#[tokio::test]
async fn ap14_nobody_owns_identity() {
    let cluster = Cluster::start().await;
    let object = cluster.apply("me", &rb("web"), &binding("web"), "").await.json();
    let owned = fields(&object, "me", "Apply");
    assert_eq!(owned.as_object().unwrap().keys().collect::<Vec<_>>(), ["f:spec"]);
    let created = cluster.send(Method::POST, REBALANCERS, &rebalancer("other")).await.json();
    assert_eq!(fields(&created, "unknown", "Update").as_object().unwrap().keys().collect::<Vec<_>>(), ["f:spec"]);
    cluster.stop().await;
}

#[tokio::test]
async fn ap15_only_a_configuration_of_this_kind_is_applied() {
    let cluster = Cluster::start().await;
    for (member, value, message) in [
        ("apiVersion", json!("g/v2"), "invalid object type: g/v2, Kind=ResourceBinding"),
        ("kind", json!("K"), "invalid object type: work.karmada.io/v1alpha2, Kind=K"),
        ("metadata", json!({"name": "web", "managedFields": []}), "metadata.managedFields must be nil"),
    ] {
        let mut config = binding("web");
        config[member] = value;
        let reply = cluster.apply("me", &rb("web"), &config, "").await;
        assert_eq!((reply.code.as_u16(), &reply.json()["message"]), (400, &json!(message)));
    }
    let reply = cluster.connection.send(Method::PATCH, &format!("{}?fieldManager=m", rb("web")), &[APPLY], "{").await;
    assert_eq!(reply.code, 400);
    assert!(reply.json()["message"].as_str().unwrap().starts_with("error decoding YAML: "));
    cluster.stop().await;
}

#[tokio::test]
async fn ap16_uid_and_version_are_preconditions() {
    let cluster = Cluster::start().await;
    let mut config = binding("web");
    config["metadata"]["uid"] = json!("X");
    let reply = cluster.apply("me", &rb("web"), &config, "").await;
    assert_eq!(
        (reply.code.as_u16(), &reply.json()["message"]),
        (
            409,
            &json!(
                "Operation cannot be fulfilled on resourcebindings.work.karmada.io \"web\": uid mismatch: the provided \
                 object specified uid X, and no existing object was found"
            )
        )
    );
    let first = cluster.apply("me", &rb("web"), &binding("web"), "").await.json();
    assert_eq!(cluster.apply("me", &rb("web"), &config, "").await.code, 422, "the uid that is there is immutable");
    let mut config = self::config(json!({"replicas": 2}));
    config["metadata"]["resourceVersion"] = json!(version(&first));
    assert_eq!(cluster.apply("me", &rb("web"), &config, "").await.code, 200);
    assert_eq!(cluster.apply("me", &rb("web"), &config, "").await.code, 409);
    cluster.stop().await;
}

#[tokio::test]
async fn ap17_an_unknown_field_is_never_applied() {
    let cluster = Cluster::start().await;
    for validation in ["Strict", "Warn", "Ignore"] {
        let options = format!("&fieldValidation={validation}");
        let reply = cluster.apply("me", &rb("web"), &config(json!({"x": 1})), &options).await;
        let expected = "failed to create typed patch object (shop/web; work.karmada.io/v1alpha2, \
                        Kind=ResourceBinding): .spec.x: field not declared in schema";
        assert_eq!((reply.code.as_u16(), &reply.json()["message"]), (400, &json!(expected)), "{validation}");
    }
    cluster.stop().await;
}

#[tokio::test]
async fn ap18_and_fv9_duplicates_are_refused() {
    let cluster = Cluster::start().await;
    let mut twice = binding("web");
    twice["metadata"]["finalizers"] = json!(["example.com/a", "example.com/a"]);
    let reply = cluster.apply("me", &rb("web"), &twice, "").await;
    assert_eq!(reply.code, 400);
    let message = reply.json()["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with(".metadata.finalizers: duplicate entries for key [=\"example.com/a\"]"), "{message}");

    let yaml = "apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {name: web}\nspec:\n  \
                replicas: 2\n  replicas: 3\n  resource: {apiVersion: apps/v1, kind: Deployment, name: web}\n";
    let apply = |validation: &str| {
        let path = format!("{}?fieldManager=me&fieldValidation={validation}", rb("web"));
        let connection = cluster.connection.clone();
        async move { connection.send(Method::PATCH, &path, &[APPLY], yaml).await }
    };
    let refused = apply("Strict").await;
    assert_eq!(refused.code, 400);
    let expected = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 6: key \
                    \"replicas\" already set in map";
    assert_eq!(refused.json()["message"], expected);
    let warned = apply("Warn").await;
    assert_eq!((warned.code.as_u16(), warned.json()["spec"]["replicas"].clone()), (201, json!(3)));
    assert!(warned.header("warning").unwrap().contains("already set in map"));
    assert_eq!(apply("Ignore").await.header("warning"), None);
    // A conflict is reported before a duplicate key.
    cluster.apply("you", &rb("web"), &config(json!({"replicas": 9})), "&force=true").await;
    assert_eq!(apply("Strict").await.code, 409);
    cluster.stop().await;
}

#[tokio::test]
async fn ap19_applying_again_changes_nothing() {
    let cluster = Cluster::start().await;
    let config = config(json!({"replicas": 2}));
    let first = cluster.apply("me", &rb("web"), &config, "").await.json();
    let again = cluster.apply("me", &rb("web"), &config, "").await;
    assert_eq!((again.code.as_u16(), again.json()), (200, first.clone()));
    let forced = cluster.apply("me", &rb("web"), &config, "&force=true").await.json();
    assert_eq!(forced, first);
    let mut put = first.clone();
    put["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert_eq!(cluster.send(Method::PUT, &rb("web"), &put).await.json(), first);
    cluster.stop().await;
}

#[tokio::test]
async fn ap20_managed_fields_can_be_reset_and_not_broken() {
    let cluster = Cluster::start().await;
    let first = cluster.send(Method::POST, BINDINGS, &binding("web")).await.json();
    let managed = first["metadata"]["managedFields"].clone();
    // Clients without support for managed fields send an empty list. Invalid entries are ignored.
    for harmless in [json!([]), json!(null), json!([{"operation": "Nonsense"}]), json!([{}, {}])] {
        let mut put = cluster.get(&rb("web")).await;
        put["metadata"]["managedFields"] = harmless.clone();
        let reply = cluster.send(Method::PUT, &rb("web"), &put).await;
        assert_eq!((reply.code.as_u16(), &reply.json()["metadata"]["managedFields"]), (200, &managed), "{harmless}");
    }
    let mut put = first.clone();
    put["metadata"]["managedFields"] = json!([{}]);
    let bare = cluster.send(Method::PUT, &rb("web"), &put).await.json();
    assert_eq!(bare["metadata"].get("managedFields"), None);
    assert_eq!(bare["metadata"]["generation"], 1);
    assert_ne!(version(&bare), version(&first));
    // The list that a client writes is stored, as kubectl needs it for its migration.
    let entry = json!({"manager": "kubectl", "operation": "Apply", "apiVersion": BINDING_VERSION,
        "time": "2024-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
    let patch = json!([{"op": "add", "path": "/metadata/managedFields", "value": [entry]}]);
    let written = cluster.patch(&rb("web"), JSON_PATCH, &patch).await.json();
    assert_eq!(written["metadata"]["managedFields"], json!([entry]));
    let patch = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]);
    let bare = cluster.patch(&rb("web"), JSON_PATCH, &patch).await.json();
    assert_eq!(bare["metadata"].get("managedFields"), None);
    cluster.stop().await;
}

#[tokio::test]
async fn ap21_status_is_applied_on_its_own() {
    let cluster = Cluster::start().await;
    let mut both = config(json!({"replicas": 2}));
    both["status"] = json!({"schedulerObservedGeneration": 7});
    let main = cluster.apply("me", &rb("web"), &both, "").await.json();
    assert_eq!(main.get("status"), None);
    assert_eq!(fields(&main, "me", "Apply").as_object().unwrap().keys().collect::<Vec<_>>(), ["f:spec"]);

    both["spec"]["replicas"] = json!(9);
    let status = cluster.apply("me", &format!("{}/status", rb("web")), &both, "").await;
    let object = status.json();
    assert_eq!(
        (status.code.as_u16(), &object["spec"]["replicas"], &object["status"]["schedulerObservedGeneration"]),
        (200, &json!(2), &json!(7))
    );
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1]["subresource"], "status");
    assert_eq!(entries[1]["fieldsV1"], json!({"f:status": {"f:schedulerObservedGeneration": {}}}));

    both["status"]["schedulerObservedGeneration"] = json!(8);
    let reply = cluster.apply("you", &format!("{}/status", rb("web")), &both, "").await;
    let message = "Apply failed with 1 conflict: conflict with \"me\" with subresource \"status\": \
                   .status.schedulerObservedGeneration";
    assert_eq!((reply.code.as_u16(), &reply.json()["message"]), (409, &json!(message)));
    let missing = cluster.apply("me", &format!("{}/status", rb("none")), &binding("none"), "").await;
    assert_eq!(missing.code, 404);
    cluster.stop().await;
}

#[tokio::test]
async fn ap23_kubectl_takes_over_what_it_applied_before() {
    let cluster = Cluster::start().await;
    const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let applied = config(json!({"replicas": 2}));
    let mut created = applied.clone();
    created["metadata"]["annotations"] = json!({LAST: applied.to_string() + "\n"});
    cluster.send(Method::POST, &format!("{BINDINGS}?fieldManager=kubectl-client-side-apply"), &created).await;
    let changed = config(json!({"replicas": 3}));
    assert_eq!(cluster.apply("other", &rb("web"), &changed, "").await.code, 409);
    let taken = cluster.apply("kubectl", &rb("web"), &changed, "").await;
    let object = taken.json();
    assert_eq!((taken.code.as_u16(), &object["spec"]["replicas"]), (200, &json!(3)), "{object}");
    let annotation = object["metadata"]["annotations"][LAST].as_str().unwrap();
    let last: Value = serde_json::from_str(annotation).unwrap();
    assert_eq!(last["spec"]["replicas"], 3);
    // kubectl may not take over fields that others have changed since.
    cluster.patch(&format!("{}?fieldManager=you", rb("web")), MERGE, &json!({"spec": {"replicas": 4}})).await;
    assert_eq!(cluster.apply("kubectl", &rb("web"), &config(json!({"replicas": 5})), "").await.code, 409);
    cluster.stop().await;
}

#[tokio::test]
async fn ap27_managed_fields_are_no_change_of_the_object() {
    let cluster = Cluster::start().await;
    let first = cluster.apply("one", &rb("web"), &config(json!({"replicas": 2})), "").await.json();
    let shared = cluster.apply("two", &rb("web"), &config(json!({"replicas": 2})), "").await.json();
    assert_ne!(version(&first), version(&shared));
    assert_eq!(shared["metadata"]["generation"], 1);
    cluster.stop().await;
}

#[tokio::test]
async fn pa14_applying_what_is_not_there_needs_the_right_to_create() {
    let policy = "rules:\n- {users: [patcher, maker], verbs: [patch], apiGroups: ['*'], resources: ['*']}\n\
                  - {users: [maker], verbs: [create], apiGroups: ['*'], resources: ['*']}\n";
    let policy = Some(Policy::parse(policy).unwrap());
    let server = TestServer::with(Options { policy, ..Options::default() }).await;
    let path = format!("{}?fieldManager=me&force=true", rb("web"));
    let apply = async |user: &str| {
        server.client(user, &[], |_| {}).send(Method::PATCH, &path, &[APPLY], binding("web").to_string()).await
    };
    let refused = apply("patcher").await;
    assert_eq!((refused.code.as_u16(), &refused.json()["reason"]), (403, &json!("Forbidden")));
    assert!(refused.text().contains("User \\\"patcher\\\" cannot create resource"), "{}", refused.text());
    assert_eq!(apply("stranger").await.code, 403);
    assert_eq!(apply("maker").await.code, 201);
    assert_eq!(apply("patcher").await.code, 200, "what is there takes no more than the right to patch");
    server.stop().await;
}

#[tokio::test]
async fn dr1_a_dry_apply_shows_and_stores_nothing() {
    let cluster = Cluster::start().await;
    let dry = cluster.apply("me", &rb("web"), &config(json!({"replicas": 2})), "&dryRun=All").await;
    assert_eq!((dry.code.as_u16(), dry.json()["metadata"].get("resourceVersion")), (201, None));
    let first = cluster.apply("me", &rb("web"), &config(json!({"replicas": 2})), "").await.json();
    let dry = cluster.apply("me", &rb("web"), &config(json!({"replicas": 3})), "&dryRun=All").await;
    assert_eq!((dry.code.as_u16(), dry.json()["spec"]["replicas"].clone()), (200, json!(3)));
    assert_eq!(cluster.get(&rb("web")).await, first);
    cluster.stop().await;
}

#[tokio::test]
async fn ap1_a_configuration_needs_a_name_only_to_create() {
    let cluster = Cluster::start().await;
    let mut nameless = config(json!({"replicas": 2}));
    nameless["metadata"].as_object_mut().unwrap().remove("name");
    let refused = cluster.apply("me", &rb("web"), &nameless, "").await;
    let message = "the name of the object (web based on URL) was undeterminable: name must be provided";
    assert_eq!((refused.code.as_u16(), &refused.json()["message"]), (400, &json!(message)));
    cluster.send(Method::POST, BINDINGS, &binding("web")).await;
    let applied = cluster.apply("me", &rb("web"), &nameless, "").await;
    assert_eq!((applied.code.as_u16(), &applied.json()["spec"]["replicas"]), (200, &json!(2)));
    cluster.stop().await;
}

#[tokio::test]
async fn ap16_another_uid_than_the_objects_is_immutable() {
    let cluster = Cluster::start().await;
    cluster.send(Method::POST, BINDINGS, &binding("web")).await;
    let mut other = config(json!({}));
    other["metadata"]["uid"] = json!("x");
    let refused = cluster.apply("me", &rb("web"), &other, "").await;
    let message =
        "ResourceBinding.work.karmada.io \"web\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable";
    assert_eq!((refused.code.as_u16(), &refused.json()["message"]), (422, &json!(message)));
    cluster.stop().await;
}

#[tokio::test]
async fn fv9_keys_that_a_configuration_has_twice_are_told_by_their_lines() {
    let cluster = Cluster::start().await;
    let twice = r#"{"apiVersion":"work.karmada.io/v1alpha2","kind":"ResourceBinding","metadata":{"name":"web"},
        "spec":{"replicas":1,"replicas":2,"resource":{"apiVersion":"v1","kind":"Pod","name":"a","namespace":"shop"}}}"#;
    let path = format!("{}?fieldManager=me&fieldValidation=Strict", rb("web"));
    let refused = cluster.connection.send(Method::PATCH, &path, &[APPLY], twice).await;
    let message = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 2: key \
                   \"replicas\" already set in map";
    assert_eq!((refused.code.as_u16(), &refused.json()["message"]), (400, &json!(message)));
    cluster.stop().await;
}
