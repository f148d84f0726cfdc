//! The requests to webhooks for each verb, and the effect of each part of their responses (AD3).

use base64::Engine;
use http::Method;
use serde_json::{Value, json};

use super::admission::{CONFIGURATIONS, MASTER, REBALANCERS, create, create_until, rebalancer, register};
use crate::support::aggregated::Aggregated;
use crate::support::host::ACCESS_REVIEWS;
use crate::support::raw::Reply;
use crate::support::wait_for;

const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io";
const VALIDATING: &str = "validatingwebhookconfigurations";
const MUTATING: &str = "mutatingwebhookconfigurations";

/// A response with a patch.
fn patch(patch: Value) -> Value {
    let patch = base64::engine::general_purpose::STANDARD.encode(patch.to_string());
    json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
}

async fn send(server: &Aggregated, method: Method, path: &str, media: &str, body: impl ToString) -> Reply {
    let headers = [MASTER[0], MASTER[1], ("Content-Type", media)];
    server.proxy().send(method, path, &headers, body.to_string()).await
}

/// Waits until the workers have finished the rebalancer, so that they do not write during a
/// request.
async fn settled(server: &Aggregated, name: &str) -> Value {
    let path = format!("{REBALANCERS}/{name}");
    wait_for("its end", async || {
        let object = send(server, Method::GET, &path, "application/json", "").await.json();
        (!object["status"]["finishTime"].is_null()).then_some(object)
    })
    .await
}

/// Returns the requests that a webhook has received, without the first `since`.
fn seen(server: &Aggregated, name: &str, before: usize) -> Vec<Value> {
    let asked = server.host.asked(&format!("/hooks/{name}"));
    asked.iter().skip(before).map(|review| review["request"].clone()).collect()
}

#[tokio::test]
async fn ad3_pa15_each_verb_is_shown_as_what_it_comes_to() {
    let server = Aggregated::start().await;
    server.host.answer_webhook("/hooks/label", |review| {
        match review["request"]["operation"] == "DELETE" || review["request"]["subResource"] == "status" {
            true => json!({"allowed": true}),
            false => patch(json!([{"op": "add", "path": "/metadata/annotations", "value": {"by": "hook"}}])),
        }
    });
    server.host.answer_webhook("/hooks/guard", |_| json!({"allowed": true}));
    let everything = |hook: &mut Value| {
        hook["rules"][0]["resources"] = json!(["workloadrebalancers", "workloadrebalancers/status"]);
        hook["sideEffects"] = json!("NoneOnDryRun");
    };
    register(&server, MUTATING, "label", everything);
    register(&server, VALIDATING, "guard", everything);
    wait_for("both webhooks", async || {
        let number = server.host.asked("/hooks/label").len() + server.host.asked("/hooks/guard").len();
        let reply = create(&server, &format!("probe-{number}")).await.json();
        let is_guarded = !server.host.asked("/hooks/guard").is_empty();
        (is_guarded && reply["metadata"]["annotations"]["by"] == "hook").then_some(())
    })
    .await;
    let one = format!("{REBALANCERS}/one");
    let (json_media, merge) = ("application/json", "application/merge-patch+json");
    let (json_patch, apply) = ("application/json-patch+json", "application/apply-patch+yaml");
    let put = async || {
        let mut object = settled(&server, "one").await;
        object["metadata"]["labels"] = json!({"put": "1"});
        object
    };
    let labels = |value: &str| json!({"metadata": {"labels": {"a": value}}});
    let tested = json!([{"op": "add", "path": "/metadata/labels/b", "value": "c"}]);
    let dry = format!("{one}?dryRun=All");
    let applied = format!("{one}?fieldManager=m&force=true");
    let status = format!("{one}/status");
    let cases: Vec<(Method, &str, &str, Value, &str, &str, &str)> = vec![
        (Method::PATCH, &applied, apply, rebalancer("one"), "CREATE", "CreateOptions", ""),
        (Method::PATCH, &applied, apply, rebalancer("one"), "UPDATE", "UpdateOptions", ""),
        (Method::PATCH, &one, merge, labels("1"), "UPDATE", "UpdateOptions", ""),
        (Method::PATCH, &one, json_patch, tested, "UPDATE", "UpdateOptions", ""),
        (Method::PUT, &one, json_media, Value::Null, "UPDATE", "UpdateOptions", ""),
        (Method::PATCH, &dry, merge, labels("2"), "UPDATE", "UpdateOptions", ""),
        (
            Method::PATCH,
            &status,
            merge,
            json!({"status": {"observedGeneration": 1}}),
            "UPDATE",
            "UpdateOptions",
            "status",
        ),
        (Method::DELETE, &dry, json_media, Value::Null, "DELETE", "DeleteOptions", ""),
        (
            Method::DELETE,
            &one,
            json_media,
            json!({"propagationPolicy": "Orphan", "kind": "DeleteOptions", "apiVersion": "v1"}),
            "DELETE",
            "DeleteOptions",
            "",
        ),
    ];
    for (method, path, media, body, operation, options, subresource) in cases {
        if operation != "CREATE" {
            settled(&server, "one").await;
        }
        let before = ["label", "guard"].map(|name| seen(&server, name, 0).len());
        let body = match (&method, body) {
            (&Method::PUT, _) => put().await.to_string(),
            (_, Value::Null) => String::new(),
            (_, body) => body.to_string(),
        };
        let reply = send(&server, method.clone(), path, media, body).await;
        let what = format!("{method} {path} {media}: {}", reply.text());
        assert!(reply.code.is_success(), "{what}");
        if operation != "DELETE" && subresource.is_empty() {
            assert_eq!(reply.json()["metadata"]["annotations"]["by"], "hook", "{what}");
        }
        for (name, before) in ["label", "guard"].into_iter().zip(before) {
            let seen = seen(&server, name, before);
            let [request] = seen.as_slice() else { panic!("{name} was asked {} times: {what}", seen.len()) };
            assert_eq!(
                (&request["operation"], &request["options"]["kind"]),
                (&json!(operation), &json!(options)),
                "{what}"
            );
            assert_eq!(request["subResource"].as_str().unwrap_or_default(), subresource, "{what}");
            assert_eq!(request["dryRun"], path.contains("dryRun"), "{what}");
            assert_eq!(request["oldObject"].is_null(), operation == "CREATE", "{what}");
            assert_eq!(request["object"].is_null(), operation == "DELETE", "{what}");
            assert_eq!(request["name"], "one", "{what}");
        }
    }
    let orphaning = seen(&server, "guard", 0).pop().unwrap();
    assert_eq!(orphaning["options"]["propagationPolicy"], "Orphan");
    let before = seen(&server, "guard", 0).len();
    assert_eq!(create(&server, "two").await.code, 201);
    settled(&server, "two").await;
    assert_eq!(send(&server, Method::DELETE, &format!("{REBALANCERS}?dryRun=All"), json_media, "").await.code, 200);
    assert_eq!(send(&server, Method::GET, &format!("{REBALANCERS}/two"), json_media, "").await.code, 200);
    assert_eq!(send(&server, Method::DELETE, REBALANCERS, json_media, "").await.code, 200);
    let deleted = seen(&server, "guard", before);
    // The request names the collection, and no object of it.
    let is_of_two = |it: &&Value| it["operation"] == "DELETE" && it["oldObject"]["metadata"]["name"] == "two";
    let deleted: Vec<&Value> = deleted.iter().filter(is_of_two).collect();
    assert!(deleted.iter().all(|it| it["name"].is_null()), "{deleted:?}");
    assert_eq!(deleted.iter().map(|it| it["dryRun"] == true).collect::<Vec<_>>(), [true, false]);
    server.stop().await;
}

#[tokio::test]
async fn ad3_a_rule_for_one_version_means_the_others_unless_it_is_to_be_taken_exactly() {
    let server = Aggregated::start().await;
    let placements = |hook: &mut Value| {
        hook["rules"][0] = json!({"apiGroups": ["placement.kubernetes-fleet.io"], "apiVersions": ["v1beta1"],
            "resources": ["clusterresourceplacements"], "operations": ["*"]});
    };
    server.host.answer_webhook("/hooks/exact", |_| json!({"allowed": false}));
    register(&server, VALIDATING, "exact", |hook| {
        placements(hook);
        hook["matchPolicy"] = json!("Exact");
    });
    server.host.answer_webhook("/hooks/label", |_| {
        patch(json!([{"op": "test", "path": "/apiVersion", "value": "placement.kubernetes-fleet.io/v1beta1"},
            {"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}}]))
    });
    register(&server, MUTATING, "label", placements);
    let placement = |version: &str, name: &str| {
        json!({"apiVersion": format!("placement.kubernetes-fleet.io/{version}"), "kind": "ClusterResourcePlacement",
            "metadata": {"name": name}, "spec": {"policy": {"placementType": "PickAll"},
                "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]}})
    };
    let mut number = 0;
    let post = async |version: &str, name: String| {
        let path = format!("{PLACEMENTS}/{version}/clusterresourceplacements");
        send(&server, Method::POST, &path, "application/json", placement(version, &name)).await
    };
    wait_for("the exact one", async || {
        number += 1;
        (post("v1beta1", format!("exact-{number}")).await.code == 400).then_some(())
    })
    .await;
    let labelled = wait_for("the label", async || {
        number += 1;
        let reply = post("v1", format!("v1-{number}")).await;
        assert_eq!(reply.code, 201, "{}", reply.text());
        Some(reply.json()).filter(|it| it["metadata"]["labels"]["by"] == "hook")
    });
    assert_eq!(labelled.await["apiVersion"], "placement.kubernetes-fleet.io/v1");
    let asked = seen(&server, "label", 0).pop().unwrap();
    let versions = ["kind", "requestKind", "resource", "requestResource"].map(|name| asked[name]["version"].clone());
    assert_eq!(versions, ["v1beta1", "v1", "v1beta1", "v1"]);
    assert_eq!(asked["object"]["apiVersion"], "placement.kubernetes-fleet.io/v1beta1");
    let name = format!("v1-{number}");
    let path = format!("{PLACEMENTS}/v1/clusterresourceplacements/{name}");
    let body = json!({"metadata": {"annotations": {"a": "b"}}});
    assert_eq!(send(&server, Method::PATCH, &path, "application/merge-patch+json", body).await.code, 200);
    let asked = seen(&server, "label", 0).pop().unwrap();
    assert_eq!(asked["oldObject"]["apiVersion"], "placement.kubernetes-fleet.io/v1beta1");
    assert!(seen(&server, "exact", 0).iter().all(|it| it["requestKind"]["version"] == "v1beta1"));

    // A rule for the caller's own version comes first. The webhook receives the object in that
    // version.
    server.host.answer_webhook("/hooks/own", |_| json!({"allowed": true}));
    register(&server, VALIDATING, "own", |hook| {
        placements(hook);
        hook["rules"][0]["apiVersions"] = json!(["v1", "v1beta1"]);
    });
    wait_for("the caller's own version", async || {
        number += 1;
        assert_eq!(post("v1", format!("v1-{number}")).await.code, 201);
        seen(&server, "own", 0).pop()
    })
    .await;
    let asked = seen(&server, "own", 0).pop().unwrap();
    assert_eq!(asked["object"]["apiVersion"], "placement.kubernetes-fleet.io/v1");
    assert_eq!((&asked["kind"]["version"], &asked["requestKind"]["version"]), (&json!("v1"), &json!("v1")));
    server.stop().await;
}

#[tokio::test]
async fn ad3_who_wants_it_is_asked_once_more_when_others_changed_the_object_after_it() {
    let server = Aggregated::start().await;
    // They are called in the order of their names. Each counts its calls in an annotation.
    for name in ["a-again", "b-never", "c-adds", "d-again"] {
        let path = format!("/hooks/{name}");
        server.host.answer_webhook(&path, move |review| {
            let annotations = &review["request"]["object"]["metadata"]["annotations"];
            match name == "c-adds" && annotations["c"].is_null() {
                true => patch(json!([{"op": "add", "path": "/metadata/annotations", "value": {"c": "1"}}])),
                false => json!({"allowed": true}),
            }
        });
        register(&server, MUTATING, name, |hook| {
            if name != "b-never" {
                hook["reinvocationPolicy"] = json!("IfNeeded");
            }
        });
    }
    let mut number = 0;
    let name = wait_for("all of them", async || {
        number += 1;
        let name = format!("n{number}");
        assert_eq!(create(&server, &name).await.code, 201);
        let was_asked = |hook| seen(&server, hook, 0).iter().any(|it| it["name"] == *name);
        ["a-again", "b-never", "c-adds", "d-again"].into_iter().all(was_asked).then_some(name)
    })
    .await;
    let times = |hook| seen(&server, hook, 0).iter().filter(|it| it["name"] == *name).count();
    assert_eq!(["a-again", "b-never", "c-adds", "d-again"].map(times), [2, 1, 1, 1]);
    let last = seen(&server, "a-again", 0).into_iter().rfind(|it| it["name"] == *name).unwrap();
    assert_eq!(last["object"]["metadata"]["annotations"]["c"], "1", "it sees what the other did");
    server.stop().await;
}

#[tokio::test]
async fn ad3_warnings_and_annotations_are_passed_on_also_with_a_refusal() {
    let server = Aggregated::with(|args, folder| {
        args.audit.audit_log_path = Some(folder.join("audit.log"));
    })
    .await;
    server.host.answer_webhook("/hooks/guard", |_| {
        json!({"allowed": false, "warnings": ["mind the gap"], "auditAnnotations": {"why": "because"},
            "status": {"message": "no", "code": 418}})
    });
    server.host.answer_webhook("/hooks/open", |_| json!({"nonsense": true}));
    register(&server, MUTATING, "open", |hook| hook["failurePolicy"] = json!("Ignore"));
    // The two kinds of configurations are watched separately, so one may arrive before the other.
    let mut number = 0;
    wait_for("the mutating one", async || {
        number += 1;
        create(&server, &format!("open-{number}")).await;
        (!seen(&server, "open", 0).is_empty()).then_some(())
    })
    .await;
    register(&server, VALIDATING, "guard", |_| {});
    let refused = create_until(&server, "a refusal", 418).await;
    assert_eq!(refused.header("warning"), Some("299 - \"mind the gap\""));
    let (_host, folder) = server.stop().await;
    let log = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let event = events.into_iter().rfind(|event| event["responseStatus"]["code"] == 418).unwrap();
    assert_eq!(event["annotations"]["guard.example.com/why"], "because");
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "allow");
    assert_eq!(
        event["annotations"]["failed-open.mutation.webhook.admission.k8s.io/round_0_index_0"],
        "open.example.com"
    );
}

#[tokio::test]
async fn ad3_a_condition_that_cannot_be_read_counts_as_a_failure_of_its_webhook() {
    let server = Aggregated::start().await;
    server.host.answer_webhook("/hooks/odd", |_| json!({"allowed": false}));
    let odd = |policy: &'static str, more: Value| {
        move |hook: &mut Value| {
            hook["failurePolicy"] = json!(policy);
            let odd = json!({"name": "odd", "expression": "nothing.group('').check('x').allowed()"});
            hook["matchConditions"] = json!([odd, more]);
        }
    };
    let never = |expression: &str| json!({"name": "more", "expression": expression});
    register(&server, VALIDATING, "odd", odd("Fail", never("true")));
    let refused = create_until(&server, "an odd condition", 403).await.json();
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("compilation error: "), "{message}");
    assert!(seen(&server, "odd", 0).is_empty(), "it is not called");
    // Another condition that is false decides.
    register(&server, VALIDATING, "odd", odd("Fail", never("request.operation in ['DELETE', 'CONNECT']")));
    create_until(&server, "a settled question", 201).await;
    let path = format!("{CONFIGURATIONS}/{VALIDATING}/odd");
    assert!(server.host.object(&path).is_some());
    register(&server, VALIDATING, "odd", odd("Ignore", never("has(object.spec)")));
    create_until(&server, "indifference", 201).await;
    server.stop().await;
}

/// AD23 for webhooks: kube-apiserver gives their conditions an authorizer too.
#[tokio::test]
async fn ad23_match_conditions_of_webhooks_ask_the_host_cluster() {
    let server = Aggregated::start().await;
    server.host.allow(|spec| spec["resourceAttributes"]["verb"] != "breakglass" || spec["user"] == "jane");
    server.host.answer_webhook("/hooks/asking", |_| json!({"allowed": false}));
    register(&server, VALIDATING, "asking", |hook| {
        let expression = "!authorizer.requestResource.check('breakglass').allowed() && namespaceObject == null";
        hook["matchConditions"] = json!([{"name": "breakglass", "expression": expression}]);
    });
    create_until(&server, "the webhook", 400).await;
    let asked = server.host.asked(ACCESS_REVIEWS);
    let mut questions = asked.iter().map(|it| &it["spec"]["resourceAttributes"]);
    let question = questions.find(|it| it["verb"] == "breakglass").expect("the host cluster is asked");
    assert_eq!((&question["group"], &question["resource"]), (&json!("apps.karmada.io"), &json!("workloadrebalancers")));
    let headers = [("X-Remote-User", "jane"), MASTER[1], MASTER[2]];
    let reply = server.proxy().send(Method::POST, REBALANCERS, &headers, rebalancer("by-jane").to_string()).await;
    assert_eq!(reply.code, 201, "{}", reply.text());
    server.stop().await;
}
