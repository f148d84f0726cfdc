//! The same policies over the same objects: once as custom resources of a kube-apiserver, and once
//! served by Ballast behind it. The results are equal (AD27).

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};

use crate::kube_apiserver::{Cluster, definitions};
use crate::support::aggregated::Aggregated;
use crate::support::raw::{Raw, Reply};
use crate::support::wait_for;

const GROUP: &str = "apps.karmada.io";
const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1";

/// Validations of which only the expressions matter: an object is denied if they are false or fail.
const EXPRESSIONS: &[&str] = &[
    "object.spec.workloads.size() > 1",
    "object.spec.workloads[3].name == 'x'",
    "object.spec.missing == 1",
    "object.spec.missing == 1 || object.metadata.name != ''",
    "object.spec.missing == 1 && object.metadata.name == ''",
    "has(object.metadata.labels) && object.metadata.labels['a/b'] == 'c'",
    "object.metadata.labels.missing == 'x'",
    "oldObject == null && request.operation == 'CREATE' && namespaceObject == null",
    "oldObject.spec == null",
    "request.name == object.metadata.name && !has(request.namespace) && !has(request.subResource)",
    "request.resource.resource == 'workloadrebalancers' && request.kind.kind == 'WorkloadRebalancer'",
    "request.userInfo.username == 'nobody'",
    "object.spec.workloads.all(w, w.kind == 'Deployment') && object.spec.workloads.exists_one(w, w.name == 'web')",
    "object.spec.workloads.map(w, w.name).join(',') == 'web,api'",
    "object.spec.workloads.filter(w, w.name.startsWith('z')).size() == 1",
    "object.spec.ttlSecondsAfterFinished / 0 == 1",
    "object.spec.ttlSecondsAfterFinished % 7 == 4 && object.spec.ttlSecondsAfterFinished > 1.5",
    "object.spec.ttlSecondsAfterFinished + 9223372036854775807 > 0",
    "int(object.metadata.name) == 1",
    "'a'.charAt(5) == ''",
    "'hello'.substring(4, 2) == ''",
    "'a-b-c'.split('-', 2) == ['a', 'b-c'] && 'abc'.indexOf('c') == 2 && 'x'.upperAscii() == 'Y'",
    "'%s and %d'.format(['a', 1]) == 'a and 2'",
    "'%.2f|%x|%s'.format([1.5, 255, {'a': [1, 2.0]}]) == ''",
    "quantity('1Gi').isLessThan(quantity('1G'))",
    "quantity('1.5').asInteger() == 1",
    "quantity('x').isInteger()",
    "isQuantity('1Ki') && quantity('500m').add(quantity('1')).compareTo(quantity('1500m')) == 0 && sign(quantity('-2')) == -1",
    "url('http://a b/').getHost() == ''",
    "url('https://example.com:80/p?x=1').getPort() == '81'",
    "ip('10.0.0.300').family() == 4",
    "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsIP('11.1.2.3')",
    "format.dns1123Label().validate(object.metadata.name).hasValue()",
    "format.dns1123Label().validate('A_b').value()[0] == ''",
    "semver('1.2.3').isGreaterThan(semver('1.10.0'))",
    "semver('1.x').major() == 1",
    "sets.contains([1, 2], [3])",
    "['b', 'a'].sort() == ['a', 'b'] && [1, 2, 2].distinct() == [1, 2] && [[1], [2]].flatten() == [1, 2] && lists.range(2) == [1]",
    "[].max() == 1",
    "'abc123'.find('[0-9]+') == '124'",
    "'a'.matches('^b')",
    "object.?spec.?nothing.orValue('x') == 'y'",
    "optional.none().value() == 1",
    "object.metadata.labels.all(k, v, v == 'c') && {'a': 1}.transformMap(k, v, v + 1) == {'a': 3}",
    "timestamp('2026-11-27T03:04:05Z').getHours() == 4",
    "duration('1h') > duration('61m')",
    "duration(object.metadata.name) > duration('1m')",
    "type(object.spec.workloads) == map",
    "dyn(1) == 'a' || [1, 2] == [1, 3] || {'a': 1} == {'a': 2}",
    "authorizer.group('apps').resource('deployments').check('get').allowed() == false",
    "lists.range(2000).all(i, lists.range(2000).all(j, i + j >= 0))",
];

/// A case: its additions to a policy, to its binding, and to the created object.
struct Case {
    kind: &'static str,
    policy: Value,
    binding: Value,
    object: Value,
}

fn validating(policy: Value, binding: Value) -> Case {
    Case { kind: "validating", policy, binding, object: json!({}) }
}

fn mutating(policy: Value, binding: Value) -> Case {
    Case { kind: "mutating", policy, binding, object: json!({}) }
}

fn apply(expression: &str) -> Value {
    json!({"reinvocationPolicy": "Never", "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]})
}

fn patch(expression: &str) -> Value {
    json!({"reinvocationPolicy": "Never", "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]})
}

fn cases() -> Vec<Case> {
    let never = |more: Value| {
        let mut validation = json!({"expression": "false"});
        json_patch::merge(&mut validation, &more);
        json!({"validations": [validation]})
    };
    let expression = |text: &&str| validating(json!({"validations": [{"expression": text}]}), json!({}));
    let mut cases: Vec<Case> = EXPRESSIONS.iter().map(expression).collect();
    let params = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [
        {"expression": "params != null && object.spec.workloads.size() > int(params.data.most)",
            "messageExpression": "'most is ' + params.data.most + ' in ' + params.metadata.name"}]});
    let reference = |name: &str, action: &str| json!({"paramRef": {"name": name, "namespace": "default", "parameterNotFoundAction": action}});
    let selected = json!({"paramRef": {"selector": {"matchLabels": {"for": "policies"}}, "namespace": "default",
        "parameterNotFoundAction": "Deny"}});
    cases.extend([
        validating(never(json!({"message": "plain", "reason": "Forbidden"})), json!({})),
        validating(never(json!({"message": "plain", "reason": "Invalid"})), json!({})),
        validating(never(json!({"message": "large", "reason": "RequestEntityTooLarge"})), json!({})),
        validating(never(json!({"messageExpression": "object.metadata.name + ' of ' + request.userInfo.username"})), json!({})),
        validating(never(json!({"message": "instead", "messageExpression": "string(object.spec.nothing)"})), json!({})),
        validating(never(json!({"message": "instead", "messageExpression": "'  '"})), json!({})),
        validating(never(json!({"message": "told"})), json!({"validationActions": ["Warn", "Audit"]})),
        validating(json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.spec.nothing == 1"}]}), json!({})),
        validating(
            json!({"variables": [{"name": "count", "expression": "object.spec.workloads.size()"},
                {"name": "twice", "expression": "variables.count * 2"}, {"name": "bad", "expression": "object.spec.nothing"}],
                "validations": [{"expression": "variables.twice == 4 || variables.bad == 1"}, {"expression": "variables.bad == 1"}]}),
            json!({}),
        ),
        validating(json!({"validations": [{"expression": "true"}, {"expression": "false", "message": "second"}, {"expression": "false", "message": "third"}]}), json!({})),
        validating(params.clone(), reference("limits", "Deny")),
        validating(params.clone(), reference("missing", "Deny")),
        validating(params.clone(), reference("missing", "Allow")),
        validating(params, selected),
        mutating(apply("Object{metadata: Object.metadata{labels: Object.metadata.labels{by: 'policy'}}}"), json!({})),
        mutating(apply("Object{spec: Object.spec{ttlSecondsAfterFinished: object.spec.ttlSecondsAfterFinished + 1}}"), json!({})),
        mutating(apply("Object{spec: Object.spec{nothing: 'x'}}"), json!({})),
        mutating(apply("Object{metadata: Object.metadata{labels: {'n': string(object.spec.nothing)}}}"), json!({})),
        mutating(patch("[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('x/y'), value: 'z'}]"), json!({})),
        mutating(patch("[JSONPatch{op: 'test', path: '/spec/ttlSecondsAfterFinished', value: 1}, JSONPatch{op: 'remove', path: '/metadata/labels'}]"), json!({})),
        mutating(patch("[JSONPatch{op: 'remove', path: '/spec/nothing'}]"), json!({})),
        mutating(patch("object.spec.nothing == 1 ? [JSONPatch{op: 'remove', path: '/spec'}] : []"), json!({})),
    ]);
    cases
}

fn name(index: usize) -> String {
    format!("case-{index:02}")
}

/// The objects of the cases. The last policy exists once all others do.
fn objects(cases: &[Case]) -> Vec<(String, Value)> {
    let mut objects = Vec::new();
    let marker = validating(json!({"validations": [{"expression": "false", "message": "marked"}]}), json!({}));
    let all =
        || cases.iter().enumerate().map(|(index, case)| (name(index), case)).chain([("marker".to_owned(), &marker)]);
    for are_bindings in [false, true] {
        for (name, case) in all() {
            let kind = if case.kind == "validating" { "ValidatingAdmissionPolicy" } else { "MutatingAdmissionPolicy" };
            let suffix = if are_bindings { "Binding" } else { "" };
            let mut spec = match are_bindings {
                // Names too: the parameter of a policy is resolved before its conditions are
                // evaluated.
                false => {
                    json!({"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [{"apiGroups": [GROUP], "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"], "resources": ["workloadrebalancers"], "resourceNames": [name]}]},
                    "matchConditions": [{"name": "own", "expression": format!("object.metadata.name == '{name}'")}]})
                }
                true if case.kind == "validating" => json!({"policyName": name, "validationActions": ["Deny"]}),
                true => json!({"policyName": name}),
            };
            json_patch::merge(&mut spec, if are_bindings { &case.binding } else { &case.policy });
            let plural = if are_bindings {
                format!("{}bindings", kind.to_lowercase())
            } else {
                format!("{}admissionpolicies", case.kind)
            };
            let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}{suffix}"),
                "metadata": {"name": name}, "spec": spec});
            objects.push((format!("{POLICIES}/{plural}"), object));
        }
    }
    objects
}

/// As the administrator, through a kube-apiserver or in its format.
async fn post(to: &Raw, path: &str, body: &Value) -> Reply {
    let headers =
        [("Content-Type", "application/json"), ("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")];
    to.send(Method::POST, path, &headers, body.to_string()).await
}

fn rebalancer(name: &str, more: &Value) -> Value {
    let workload =
        |name: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "namespace": "shop"});
    let mut object = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": {"name": name, "labels": {"a/b": "c"}},
        "spec": {"ttlSecondsAfterFinished": 60, "workloads": [workload("web"), workload("api")]}});
    json_patch::merge(&mut object, more);
    object
}

/// Returns the client-visible parts of a response, without Ballast's own warnings.
fn seen(reply: &Reply) -> Value {
    let body = reply.json();
    let metadata = &body["metadata"];
    let warning = reply.header("warning").filter(|text| text.contains("Policy"));
    json!({"code": reply.code.as_u16(), "reason": body["reason"], "message": body["message"], "causes": body["details"]["causes"],
        "warning": warning, "labels": metadata["labels"], "spec": body["spec"]})
}

/// Returns the responses to a create of each case's object, in a dry run.
async fn answers(to: &Raw, cases: &[Case]) -> BTreeMap<String, Value> {
    let path = format!("{REBALANCERS}?dryRun=All");
    wait_for("the last policy", async || {
        let reply = post(to, &path, &rebalancer("marker", &json!({}))).await;
        reply.text().contains("marked").then_some(())
    })
    .await;
    let mut answers = BTreeMap::new();
    for (index, case) in cases.iter().enumerate() {
        let reply = post(to, &path, &rebalancer(&name(index), &case.object)).await;
        answers.insert(name(index), seen(&reply));
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn ad27_the_same_policies_say_the_same_of_custom_resources_and_of_what_ballast_serves() {
    let Some(cluster) = Cluster::start().await else { return };
    let version = cluster.admin().get("/version").await.json();
    let minor: u32 = version["minor"].as_str().unwrap_or_default().trim_end_matches('+').parse().unwrap_or(0);
    if minor < 36 {
        return crate::support::skipped(
            "AD27 needs a kube-apiserver 1.36: older ones have no v1 of both kinds of policies",
        );
    }
    let definition =
        definitions().into_iter().find(|it| it["spec"]["names"]["plural"] == "workloadrebalancers").unwrap();
    let definitions_path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(post(&cluster.admin(), definitions_path, &definition).await.code, 201);
    cluster.apply([limits("limits", "7"), limits("wide", "1")].iter()).await;
    let cases = cases();
    // It compiles expressions itself, and rejects invalid ones.
    let mut refused = Vec::new();
    for (path, object) in objects(&cases) {
        let reply = post(&cluster.admin(), &path, &object).await;
        if reply.code != 201 {
            refused.push(format!("{}: {}", object["metadata"]["name"], reply.json()["message"]));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    let there = answers(&cluster.admin(), &cases).await;
    let one = format!("{definitions_path}/workloadrebalancers.{GROUP}");
    assert_eq!(cluster.admin().send(Method::DELETE, &one, &[], "").await.code, 200);
    wait_for("the end of the custom resources", async || (cluster.admin().get(&one).await.code == 404).then_some(()))
        .await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "ballast:policy-params"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "ballast:policy-params"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "ballast:policy-params"},
        "subjects": [{"kind": "ServiceAccount", "name": "ballast", "namespace": "ballast-system"}]});
    cluster.apply([role, binding].iter()).await;
    let _ballast = cluster.install_ballast().await;
    let here = answers(&cluster.admin(), &cases).await;
    assert_equal(&cases, &there, &here);
    assert_equal(&cases, &there, &written_down());
}

/// The recorded responses of kube-apiserver 1.36.2.
fn written_down() -> BTreeMap<String, Value> {
    serde_json::from_str(include_str!("../../data/policy-answers.json")).unwrap()
}

fn assert_equal(cases: &[Case], there: &BTreeMap<String, Value>, here: &BTreeMap<String, Value>) {
    let difference = |(index, case): (usize, &Case)| {
        let name = name(index);
        let (there, here) = (&there[&name], &here[&name]);
        (there != here).then(|| format!("{name} {}\n  there: {there}\n  here:  {here}", case.policy))
    };
    let differences: Vec<String> = cases.iter().enumerate().filter_map(difference).collect();
    assert!(differences.is_empty(), "{} of {} differ:\n{}", differences.len(), there.len(), differences.join("\n"));
}

/// The same without a kube-apiserver of that version: the policies are in a fake, and its responses
/// are recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ad27_the_same_policies_say_what_kube_apiserver_has_said_of_custom_resources() {
    let server = Aggregated::start().await;
    server.host.allow(|_| true);
    let kinds = json!([{"name": "configmaps", "singularName": "configmap", "kind": "ConfigMap", "namespaced": true,
        "verbs": ["get", "list", "watch"]}]);
    let discovery = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": kinds});
    server.host.put("/api/v1", discovery);
    for limits in [limits("limits", "7"), limits("wide", "1")] {
        let name = limits["metadata"]["name"].as_str().unwrap().to_owned();
        server.host.put(&format!("/api/v1/namespaces/default/configmaps/{name}"), limits);
    }
    let cases = cases();
    for (path, object) in objects(&cases) {
        server.host.put(&format!("{path}/{}", object["metadata"]["name"].as_str().unwrap()), object);
    }
    let here = answers(&server.proxy(), &cases).await;
    assert_equal(&cases, &written_down(), &here);
    server.stop().await;
}

/// A parameter of policies.
fn limits(name: &str, most: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default",
        "labels": {"for": "policies"}}, "data": {"most": most}})
}
