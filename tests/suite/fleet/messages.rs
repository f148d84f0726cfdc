//! Upstream's rules, one row each: the request, and every error with its path. Rules of upstream's
//! schemas (CEL) have upstream's messages and paths, and rules of its webhooks have their messages.

use ballast::api::fleet::placement::v1beta1::ClusterResourcePlacement;
use ballast::resource::ResourceKind;
use http::Method;
use serde_json::{Value, json};

use super::stage::{CLUSTERS, PLACEMENTS, SNAPSHOTS, member, placement, rules_of};
use crate::support::raw::{Connection, Reply};
use crate::support::server::TestServer;

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUANTITY: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

const IN_TEAM: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/team/resourceplacements";

const REQUIRED: &str = "spec.policy.affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution\
    .clusterSelectorTerms[0]";
const PREFERRED: &str = "spec.policy.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution";

const REMOVED: &str = r#"spec: Invalid value: "object": policy cannot be removed once set"#;
const OF_FIXED: &str = r#"spec.policy: Invalid value: "object": affinity, numberOfClusters, topologySpreadConstraints, and tolerations cannot be set when placementType is PickFixed"#;
const OF_ALL: &str = r#"spec.policy: Invalid value: "object": clusterNames, numberOfClusters, and topologySpreadConstraints cannot be set when placementType is PickAll"#;
const OF_N: &str = r#"spec.policy: Invalid value: "object": clusterNames cannot be set and numberOfClusters must be set when placementType is PickN"#;
const TYPE_IS_IMMUTABLE: &str = r#"spec.policy: Invalid value: "object": placement type is immutable"#;
const TOLERATIONS_STAY: &str = "spec.policy.tolerations: Forbidden: tolerations have been updated/deleted, only \
    additions to tolerations are allowed";

fn policy(policy: Value) -> Value {
    json!({"spec": {"policy": policy}})
}

fn strategy(strategy: Value) -> Value {
    json!({"spec": {"strategy": strategy}})
}

fn selectors(selectors: Value) -> Value {
    json!({"spec": {"resourceSelectors": selectors}})
}

fn namespace(with: Value) -> Value {
    let mut selector = json!({"group": "", "version": "v1", "kind": "Namespace"});
    selector.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
    selector
}

fn required(term: Value) -> Value {
    policy(json!({"placementType": "PickAll", "affinity": {"clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [term]}}}}))
}

fn preferred(type_: &str, preference: Value) -> Value {
    let mut policy = policy(json!({"placementType": type_, "affinity": {"clusterAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": preference}]}}}));
    if type_ == "PickN" {
        policy["spec"]["policy"]["numberOfClusters"] = json!(1);
    }
    policy
}

fn property(name: &str, operator: &str, values: Value) -> Value {
    required(json!({"propertySelector": {"matchExpressions": [
        {"name": name, "operator": operator, "values": values}]}}))
}

/// Requirements on the property `nodes`: `Ge 10, Lt 20`.
fn compared(text: &str) -> Value {
    let requirement = |text: &str| {
        let (operator, value) = text.split_once(' ').unwrap();
        json!({"name": "nodes", "operator": operator, "values": [value]})
    };
    let requirements: Vec<Value> = text.split(", ").map(requirement).collect();
    required(json!({"propertySelector": {"matchExpressions": requirements}}))
}

fn contradiction(text: &str, expected: &str) -> (Value, Vec<String>) {
    let patch = compared(text);
    let at = REQUIRED.replace("[0]", "/0/").replace('.', "/") + "propertySelector/matchExpressions";
    let requirements = patch.pointer(&format!("/{at}")).unwrap();
    let requirements: Vec<String> = requirements.as_array().unwrap().iter().map(ToString::to_string).collect();
    let shown = requirements.join(",");
    let fault = format!("inconsistent requirements on property nodes: {expected}");
    (patch, vec![format!("{REQUIRED}.propertySelector.matchExpressions: Invalid value: [{shown}]: {fault}")])
}

fn tolerations(tolerations: Value) -> Value {
    policy(json!({"placementType": "PickAll", "tolerations": tolerations}))
}

struct Api {
    server: TestServer,
    admin: Connection,
}

impl Api {
    async fn start() -> Api {
        let server = TestServer::start().await;
        let admin = server.admin().connect().await;
        Api { server, admin }
    }

    async fn send(&self, method: Method, path: &str, object: &Value) -> Reply {
        let merge = method == Method::PATCH;
        let media_type = if merge { "application/merge-patch+json" } else { "application/json" };
        self.admin.send(method, path, &[("content-type", media_type)], object.to_string()).await
    }

    /// Returns the errors of a dry run of a creation, in order; none if it is accepted.
    async fn faults_of_post(&self, collection: &str, valid: &Value, patch: &Value) -> Vec<String> {
        let mut object = valid.clone();
        json_patch::merge(&mut object, patch);
        faults(&self.send(Method::POST, &format!("{collection}?dryRun=All"), &object).await)
    }

    /// Returns the errors of an update of a valid object with a policy of the same type.
    async fn faults_of_put(&self, collection: &str, valid: &Value, patch: &Value) -> Vec<String> {
        let mut object = valid.clone();
        let policy = match patch.pointer("/spec/policy/placementType").and_then(Value::as_str) {
            Some("PickN") => json!({"placementType": "PickN", "numberOfClusters": 7}),
            Some("PickFixed") => json!({"placementType": "PickFixed", "clusterNames": ["other"]}),
            Some(_) => json!({"placementType": "PickAll"}),
            None => Value::Null,
        };
        let scope = patch.pointer("/spec/statusReportingScope").unwrap_or(&Value::Null);
        json_patch::merge(&mut object, &json!({"spec": {"policy": policy, "statusReportingScope": scope}}));
        let stored = self.send(Method::POST, collection, &object).await;
        assert_eq!(stored.code, 201, "{}", stored.text());
        let mut object = valid.clone();
        json_patch::merge(&mut object, patch);
        object["metadata"]["resourceVersion"] = stored.json()["metadata"]["resourceVersion"].clone();
        let name = format!("{collection}/shop");
        let faults = faults(&self.send(Method::PUT, &format!("{name}?dryRun=All"), &object).await);
        assert_eq!(self.send(Method::DELETE, &name, &json!({})).await.code, 200);
        faults
    }

    /// Returns the errors of a change.
    async fn faults_of_patch(&self, path: &str, patch: &Value) -> Vec<String> {
        faults(&self.send(Method::PATCH, &format!("{path}?dryRun=All"), patch).await)
    }
}

fn faults(reply: &Reply) -> Vec<String> {
    if reply.code.is_success() {
        return Vec::new();
    }
    let status = reply.json();
    assert_eq!((reply.code.as_u16(), &status["reason"]), (422, &json!("Invalid")), "{status}");
    let causes = status["details"]["causes"].as_array().unwrap();
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap().to_owned();
    causes.iter().map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message"))).collect()
}

/// Prefixes each of `expected` with `at`.
fn at(at: &str, expected: &[&str]) -> Vec<String> {
    expected.iter().map(|fault| format!("{at}{fault}")).collect()
}

fn rows_of_creation() -> Vec<(Value, Vec<String>)> {
    let long = "a".repeat(64);
    let spread = json!([{"topologyKey": "region"}]);
    let key = |toleration: &str| format!(r#"[0].key: Invalid value: "-a": invalid toleration key: {toleration}"#);
    vec![
        (json!({}), vec![]),
        (policy(json!({"placementType": "PickAll"})), vec![]),
        (policy(json!({"placementType": "PickN", "numberOfClusters": 0})), vec![]),
        (policy(json!({"placementType": "PickFixed", "clusterNames": ["a", "b"]})), vec![]),
        // Names and selectors.
        (
            json!({"metadata": {"name": long}}),
            at(
                "metadata.name: ",
                &[&format!(r#"Invalid value: "{long}": the name field cannot have length exceeding 63"#)],
            ),
        ),
        (
            selectors(json!([namespace(json!({"name": "a", "labelSelector": {}}))])),
            at(
                "spec.resourceSelectors: ",
                &[r#"Invalid value: "array": name and labelSelector are mutually exclusive in a resource selector"#],
            ),
        ),
        (
            selectors(json!([namespace(
                json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}})
            )])),
            at(
                "spec.resourceSelectors[0].labelSelector: ",
                &[
                    r#"Invalid value: {"matchExpressions":[{"key":"a","operator":"In"}]}: the labelSelector in resource selector is invalid: for 'in', 'notin' operators, values set can't be empty"#,
                ],
            ),
        ),
        (
            selectors(json!([])),
            at(
                "spec.resourceSelectors: ",
                &["Invalid value: 0: spec.resourceSelectors in body should have at least 1 items"],
            ),
        ),
        (
            selectors(json!([
                namespace(json!({"name": "a", "selectionScope": "NamespaceWithResourceSelectors"})),
                namespace(json!({"name": "b", "selectionScope": "NamespaceWithResourceSelectors"})),
            ])),
            at(
                r#"spec: Invalid value: "object": "#,
                &[
                    "only one namespace selector may have the selectionScope NamespaceWithResourceSelectors",
                    "a namespace selector with the selectionScope NamespaceWithResourceSelectors must select by name",
                    "a namespace selector with the selectionScope NamespaceWithResourceSelectors must be the only namespace selector",
                ],
            ),
        ),
        (
            json!({"spec": {"statusReportingScope": "NamespaceAccessible", "resourceSelectors": [
                namespace(json!({"name": "a"})), namespace(json!({"name": "b"}))]}}),
            at(
                "spec: ",
                &[
                    r#"Invalid value: "object": when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind 'Namespace' is required"#,
                ],
            ),
        ),
        // Fields of each type of placement.
        (
            policy(json!({"placementType": "PickFixed", "clusterNames": ["a"], "numberOfClusters": 1})),
            at("", &[OF_FIXED]),
        ),
        (policy(json!({"placementType": "PickFixed", "clusterNames": ["a"], "affinity": {}})), at("", &[OF_FIXED])),
        (
            policy(json!({"placementType": "PickFixed", "clusterNames": ["a"], "topologySpreadConstraints": spread})),
            at("", &[OF_FIXED]),
        ),
        (
            policy(
                json!({"placementType": "PickFixed", "clusterNames": ["a"], "tolerations": [{"operator": "Exists"}]}),
            ),
            at("", &[OF_FIXED]),
        ),
        (
            policy(json!({"placementType": "PickFixed"})),
            at(
                "spec.policy.clusterNames: ",
                &["Required value: cluster names cannot be empty for policy type PickFixed"],
            ),
        ),
        (
            policy(json!({"placementType": "PickFixed", "clusterNames": ["a", "B"]})),
            at(
                r#"spec.policy.clusterNames[1]: Invalid value: "B": "#,
                &[&format!("PickFixed cluster name B is not a valid member name: {SUBDOMAIN}")],
            ),
        ),
        (
            policy(json!({"placementType": "PickFixed", "clusterNames": [long]})),
            at(
                "spec.policy.clusterNames[0]: ",
                &[&format!(
                    r#"Invalid value: "{long}": PickFixed cluster name {long} cannot have length exceeding 63"#
                )],
            ),
        ),
        (
            policy(json!({"placementType": "PickFixed", "clusterNames": ["a", "a", "a"]})),
            at(
                "spec.policy.clusterNames[1]: ",
                &[r#"Invalid value: "a": cluster names must be unique for policy type PickFixed"#],
            ),
        ),
        (policy(json!({"placementType": "PickAll", "clusterNames": ["a"]})), at("", &[OF_ALL])),
        (policy(json!({"placementType": "PickAll", "numberOfClusters": 1})), at("", &[OF_ALL])),
        (policy(json!({"topologySpreadConstraints": spread})), at("", &[OF_ALL])),
        (policy(json!({"placementType": "PickN"})), at("", &[OF_N])),
        (policy(json!({"placementType": "PickN", "numberOfClusters": 1, "clusterNames": ["a"]})), at("", &[OF_N])),
        (
            policy(json!({"placementType": "PickN", "numberOfClusters": -1})),
            at(
                "spec.policy.numberOfClusters: ",
                &["Invalid value: -1: spec.policy.numberOfClusters in body should be greater than or equal to 0"],
            ),
        ),
        // Affinity.
        (
            required(
                json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}}),
            ),
            at(
                REQUIRED,
                &[
                    r#".labelSelector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Exists","values":["b"]}]}: the labelSelector in cluster selector is invalid: values set must be empty for exists and does not exist"#,
                ],
            ),
        ),
        (
            required(json!({"propertySorter": {"name": "nodes", "sortOrder": "Ascending"}})),
            at(
                REQUIRED,
                &[
                    ".propertySorter: Forbidden: PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity",
                ],
            ),
        ),
        (
            preferred("PickAll", json!({})),
            at(
                PREFERRED,
                &[
                    ": Forbidden: PreferredDuringSchedulingIgnoredDuringExecution will be ignored for placement policy type PickAll",
                ],
            ),
        ),
        (
            preferred("PickN", json!({"labelSelector": {"matchLabels": {"-a": "b"}}})),
            at(
                PREFERRED,
                &[
                    r#"[0].preference.labelSelector: Invalid value: {"matchLabels":{"-a":"b"}}: the labelSelector in preferred cluster selector is invalid: "-a" is not a valid label key"#,
                ],
            ),
        ),
        (
            preferred("PickN", json!({"propertySelector": {"matchExpressions": []}})),
            at(
                PREFERRED,
                &[
                    "[0].preference.propertySelector: Forbidden: PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity",
                ],
            ),
        ),
        (
            preferred("PickN", json!({"propertySorter": {"name": "-a", "sortOrder": "Ascending"}})),
            at(
                PREFERRED,
                &[&format!(
                    r#"[0].preference.propertySorter.name: Invalid value: "-a": property name -a is not valid: {QUALIFIED}"#
                )],
            ),
        ),
        (
            preferred("PickN", json!({"propertySorter": {"name": "a", "sortOrder": "Up"}})),
            at(
                PREFERRED,
                &[
                    r#"[0].preference.propertySorter.sortOrder: Unsupported value: "Up": supported values: "Ascending", "Descending""#,
                ],
            ),
        ),
        // Properties.
        (property("resources.kubernetes-fleet.io/available-cpu", "Ge", json!(["4"])), vec![]),
        (property("kubernetes.azure.com/vm-sizes/Standard_D2/count", "Ge", json!(["4"])), vec![]),
        (
            property("resources.kubernetes-fleet.io/cpu", "Ge", json!(["4"])),
            at(
                REQUIRED,
                &[
                    r#".propertySelector.matchExpressions[0].name: Invalid value: "resources.kubernetes-fleet.io/cpu": invalid property name resources.kubernetes-fleet.io/cpu: invalid resource property name resources.kubernetes-fleet.io/cpu, expected format is [PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]"#,
                ],
            ),
        ),
        (
            property("resources.kubernetes-fleet.io/node-count", "Ge", json!(["4"])),
            at(
                REQUIRED,
                &[
                    r#".propertySelector.matchExpressions[0].name: Invalid value: "resources.kubernetes-fleet.io/node-count": invalid property name resources.kubernetes-fleet.io/node-count: invalid capacity type in resource property name resources.kubernetes-fleet.io/node-count, supported values are [allocatable available total]"#,
                ],
            ),
        ),
        (
            property("resources.kubernetes-fleet.io/total-ephemeral-storage", "Ge", json!(["4"])),
            at(
                REQUIRED,
                &[
                    r#".propertySelector.matchExpressions[0].name: Invalid value: "resources.kubernetes-fleet.io/total-ephemeral-storage": invalid property name resources.kubernetes-fleet.io/total-ephemeral-storage: a resource with a dash in its name cannot be compared"#,
                ],
            ),
        ),
        (
            property("a/-b", "Ge", json!(["4"])),
            at(
                REQUIRED,
                &[&format!(
                    r#".propertySelector.matchExpressions[0].name: Invalid value: "a/-b": invalid property name a/-b: property name segment -b is not valid: {QUALIFIED}"#
                )],
            ),
        ),
        (
            property("-a/b", "Ge", json!(["4"])),
            at(
                REQUIRED,
                &[&format!(
                    r#".propertySelector.matchExpressions[0].name: Invalid value: "-a/b": invalid property name -a/b: property name first segment -a is not valid: it is neither a valid DNS subdomain ({SUBDOMAIN}) nor a valid qualified name ({QUALIFIED})"#
                )],
            ),
        ),
        (
            property("nodes", "Approx", json!(["4"])),
            at(
                REQUIRED,
                &[
                    r#".propertySelector.matchExpressions[0].operator: Invalid value: "Approx": invalid requirement on property nodes: unsupported operator Approx"#,
                ],
            ),
        ),
        (
            property("nodes", "Ge", json!([])),
            at(
                REQUIRED,
                &[
                    ".propertySelector.matchExpressions[0].values: Invalid value: []: invalid requirement on property nodes: operator Ge requires exactly one value, got 0",
                ],
            ),
        ),
        (
            property("nodes", "Ge", json!(["many"])),
            at(
                REQUIRED,
                &[&format!(
                    r#".propertySelector.matchExpressions[0].values: Invalid value: ["many"]: invalid requirement on property nodes: value "many" is not a valid resource.Quantity: {QUANTITY}"#
                )],
            ),
        ),
        // Contradictory properties.
        contradiction("Eq 5, Eq 10", "conflicting Eq values 5 and 10"),
        contradiction("Eq 1000m, Ne 1", "conflicting Eq and Ne on same value 1000m"),
        contradiction("Gt 10, Lt 5", "lower bound (10) and upper bound (5) exclude all values"),
        contradiction("Ge 10, Gt 10, Le 10", "lower bound (10) and upper bound (10) exclude all values"),
        contradiction("Ge 10, Le 10, Lt 10", "lower bound (10) and upper bound (10) exclude all values"),
        contradiction("Eq 5, Gt 5", "eq value 5 violates lower bound 5"),
        contradiction("Eq 6, Le 5", "eq value 6 violates upper bound 5"),
        (compared("Ge 10, Le 10, Eq 10, Ne 11, Eq 10"), vec![]),
        // Tolerations.
        (
            tolerations(json!([{"key": "a", "operator": "Exists", "value": "b"}])),
            at(
                "spec.policy.tolerations: ",
                &[r#"Invalid value: "array": value must be empty when operator is Exists"#],
            ),
        ),
        (
            tolerations(json!([{"operator": "Equal", "value": "b"}, {"value": "c"}])),
            at("spec.policy.tolerations: ", &[r#"Invalid value: "array": operator must be Exists when key is empty"#]),
        ),
        (tolerations(json!([{"key": "-a"}])), at("spec.policy.tolerations", &[&key(QUALIFIED)])),
        (
            tolerations(json!([{"key": "a", "value": "-b"}])),
            at(
                "spec.policy.tolerations[0].value: ",
                &[&format!(r#"Invalid value: "-b": invalid toleration value: {LABEL_VALUE}"#)],
            ),
        ),
        (
            tolerations(json!([{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists"}])),
            at(
                "spec.policy.tolerations[1]: ",
                &[
                    r#"Invalid value: {"key":"a","operator":"Exists"}: toleration already exists, tolerations must be unique"#,
                ],
            ),
        ),
        // The rollout.
        (
            strategy(json!({"type": "External", "rollingUpdate": {"maxSurge": 1}})),
            at(
                "spec.strategy.rollingUpdate: ",
                &["Forbidden: rollingUpdateConifg is not valid for ExternalRollout strategy type"],
            ),
        ),
        (
            strategy(json!({"rollingUpdate": {"maxUnavailable": -1, "maxSurge": "5"}})),
            at(
                "spec.strategy.rollingUpdate.",
                &[
                    "maxUnavailable: Invalid value: -1: maxUnavailable must be greater than or equal to 0, got `-1`",
                    r#"maxSurge: Invalid value: "5": maxSurge `5` is invalid: invalid value for IntOrString: invalid type: string is not a percentage"#,
                ],
            ),
        ),
        (
            strategy(json!({"rollingUpdate": {"unavailablePeriodSeconds": -1}})),
            at(
                "spec.strategy.rollingUpdate.unavailablePeriodSeconds: ",
                &[
                    "Invalid value: -1: spec.strategy.rollingUpdate.unavailablePeriodSeconds in body should be greater than or equal to 0",
                ],
            ),
        ),
        (
            strategy(json!({"applyStrategy": {"serverSideApplyConfig": {"force": true}}})),
            at(
                "spec.strategy.applyStrategy.serverSideApplyConfig: ",
                &["Forbidden: serverSideApplyConfig is only valid for ServerSideApply strategy type"],
            ),
        ),
        (
            strategy(json!({"reportBackStrategy": {"type": "Mirror"}})),
            at(
                "spec.strategy.reportBackStrategy: ",
                &[
                    r#"Invalid value: "object": when reportBackStrategy.type is 'Mirror', a destination must be specified"#,
                ],
            ),
        ),
    ]
}

#[tokio::test]
async fn each_rule_for_a_placement_is_told_as_upstream_tells_it() {
    let api = Api::start().await;
    let cluster_scoped = placement("shop", json!({"placementType": "PickAll"}));
    let mut namespaced = cluster_scoped.clone();
    namespaced["kind"] = json!("ResourcePlacement");
    namespaced["metadata"]["namespace"] = json!("team");
    let v1 = PLACEMENTS.replace("v1beta1", "v1");
    let mut stable = cluster_scoped.clone();
    stable["apiVersion"] = json!("placement.kubernetes-fleet.io/v1");
    for (collection, mut valid) in [(PLACEMENTS, cluster_scoped), (&v1, stable), (IN_TEAM, namespaced)] {
        valid["spec"].as_object_mut().unwrap().remove("policy");
        for (patch, expected) in rows_of_creation() {
            let expected = rules_of(collection, &expected);
            assert_eq!(api.faults_of_post(collection, &valid, &patch).await, expected, "{collection}: {patch}");
            if patch.pointer("/metadata/name").is_none() {
                let faults = api.faults_of_put(collection, &valid, &patch).await;
                assert_eq!(faults, expected, "{collection}, as an update: {patch}");
            }
        }
    }
    api.server.stop().await;
}

/// Objects older than a rule can still be finalized, deleted and labelled: only a new spec is
/// validated.
#[tokio::test]
async fn a_spec_that_stays_is_not_judged_again() {
    let old = placement("shop", json!({"placementType": "PickN"}));
    let mut labelled = old.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let row = ResourceKind::of::<ClusterResourcePlacement>();
    let tree = |value: &Value| value.as_object().unwrap().clone();
    let judge = |object: &Value, old: Option<&Value>| (row.validate)(&tree(object), old.map(tree).as_ref());
    assert!(!judge(&old, None).is_empty());
    assert!(judge(&labelled, Some(&old)).is_empty());
}

#[tokio::test]
async fn each_rule_for_a_change_of_a_placement_is_told_as_upstream_tells_it() {
    let api = Api::start().await;
    let gone = json!({"spec": {"policy": null}});
    let (tolerated, other) = (json!({"key": "a", "operator": "Exists"}), json!({"key": "b", "operator": "Exists"}));
    let pick_all = json!({"placementType": "PickAll", "tolerations": [tolerated]});
    let one = json!({"placementType": "PickN", "numberOfClusters": 1});
    let (external, reporting) = (json!({"type": "External"}), json!("NamespaceAccessible"));
    for (before, patch, expected) in [
        (policy(pick_all.clone()), gone.clone(), at("", &[REMOVED])),
        (policy(one.clone()), gone, at("", &[REMOVED])),
        (json!({"spec": {"policy": null}}), policy(one.clone()), at("", &[TYPE_IS_IMMUTABLE])),
        (
            policy(one.clone()),
            policy(json!({"placementType": "PickAll", "numberOfClusters": null})),
            at("", &[TYPE_IS_IMMUTABLE]),
        ),
        (policy(one), policy(json!({"numberOfClusters": 3})), vec![]),
        (policy(pick_all.clone()), policy(json!({"tolerations": [other]})), at("", &[TOLERATIONS_STAY])),
        (policy(pick_all.clone()), policy(json!({"tolerations": null})), at("", &[TOLERATIONS_STAY])),
        (policy(pick_all), policy(json!({"tolerations": [other, tolerated]})), vec![]),
        (
            strategy(external),
            strategy(json!({"type": "RollingUpdate"})),
            at(
                "spec.strategy.type: ",
                &[r#"Invalid value: "string": cannot change rollout strategy type from 'External' to other types"#],
            ),
        ),
        (json!({}), strategy(json!({"type": "External"})), vec![]),
        (
            json!({"spec": {"statusReportingScope": reporting}}),
            json!({"spec": {"statusReportingScope": "ClusterScopeOnly"}}),
            at("spec: ", &[r#"Invalid value: "object": statusReportingScope is immutable"#]),
        ),
    ] {
        for (kind, collection) in [("ClusterResourcePlacement", PLACEMENTS), ("ResourcePlacement", IN_TEAM)] {
            let mut object = placement("shop", json!({"placementType": "PickAll"}));
            object["kind"] = json!(kind);
            json_patch::merge(&mut object, &before);
            let created = api.send(Method::POST, collection, &object).await;
            assert_eq!(created.code, 201, "{before}: {}", created.text());
            let shop = format!("{collection}/shop");
            let expected = rules_of(collection, &expected);
            assert_eq!(api.faults_of_patch(&shop, &patch).await, expected, "{kind}: {before}, then {patch}");
            assert_eq!(api.send(Method::DELETE, &shop, &json!({})).await.code, 200);
        }
    }
    api.server.stop().await;
}

#[tokio::test]
async fn each_rule_for_a_member_cluster_is_told_as_upstream_tells_it() {
    let api = Api::start().await;
    let taints = |taints: Value| json!({"spec": {"taints": taints}});
    let taint = |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
    for (patch, expected) in [
        (json!({}), vec![]),
        (taints(json!([taint("a", "b"), taint("a", "c"), {"key": "a", "effect": "NoSchedule"}])), vec![]),
        (
            json!({"metadata": {"name": "a".repeat(64)}}),
            at("<nil>: ", &[r#"Invalid value: "object": metadata.name max length is 63"#]),
        ),
        (
            taints(json!([taint("-a", "b")])),
            at("spec.taints[0].key: ", &[&format!(r#"Invalid value: "-a": invalid taint key: {QUALIFIED}"#)]),
        ),
        (
            taints(json!([taint("", "b")])),
            at(
                r#"spec.taints[0].key: Invalid value: "": invalid taint key: "#,
                &["name part must be non-empty", QUALIFIED],
            ),
        ),
        (
            taints(json!([taint("a", "-b")])),
            at("spec.taints[0].value: ", &[&format!(r#"Invalid value: "-b": invalid taint value: {LABEL_VALUE}"#)]),
        ),
        (
            taints(json!([taint("a", "b"), taint("a", "b")])),
            at(
                "spec.taints[1]: ",
                &[
                    r#"Invalid value: {"key":"a","value":"b","effect":"NoSchedule"}: taint already exists, taints must be unique"#,
                ],
            ),
        ),
        (
            taints(json!([{"key": "a", "effect": "NoExecute"}])),
            at("spec.taints[0].effect: ", &[r#"Unsupported value: "NoExecute": supported values: "NoSchedule""#]),
        ),
        (
            json!({"spec": {"heartbeatPeriodSeconds": 601}}),
            at(
                "spec.heartbeatPeriodSeconds: ",
                &["Invalid value: 601: spec.heartbeatPeriodSeconds in body should be less than or equal to 600"],
            ),
        ),
    ] {
        assert_eq!(api.faults_of_post(CLUSTERS, &member("a", "gold"), &patch).await, expected, "{patch}");
    }
    api.server.stop().await;
}

#[tokio::test]
async fn the_spec_of_a_snapshot_stays_and_the_rest_may_change() {
    let api = Api::start().await;
    let root = "/apis/placement.kubernetes-fleet.io/v1beta1";
    let tolerations =
        json!({"policyHash": "", "policy": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}});
    for (kind, collection, spec, other) in [
        (
            "ClusterSchedulingPolicySnapshot",
            "clusterschedulingpolicysnapshots",
            json!({"policyHash": "YQ=="}),
            json!({"policyHash": "Yg=="}),
        ),
        (
            "SchedulingPolicySnapshot",
            "namespaces/team/schedulingpolicysnapshots",
            json!({"policyHash": "YQ=="}),
            json!({"policyHash": "Yg=="}),
        ),
        (
            "ClusterResourceSnapshot",
            "clusterresourcesnapshots",
            json!({"selectedResources": []}),
            json!({"selectedResources": [{"kind": "A"}]}),
        ),
        (
            "ResourceSnapshot",
            "namespaces/team/resourcesnapshots",
            json!({"selectedResources": []}),
            json!({"selectedResources": [{"kind": "A"}]}),
        ),
    ] {
        let collection = format!("{root}/{collection}");
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
                            "metadata": {"name": "shop-0"}, "spec": spec});
        let created = api.send(Method::POST, &collection, &object).await;
        assert_eq!(created.code, 201, "{}", created.text());
        let name = format!("{collection}/shop-0");
        let faults = api.faults_of_patch(&name, &json!({"spec": other})).await;
        assert_eq!(faults, [r#"spec: Invalid value: "object": The spec field is immutable"#], "{kind}");
        let label = json!({"metadata": {"labels": {"kubernetes-fleet.io/is-latest-snapshot": "false"}}, "spec": spec});
        assert_eq!(api.faults_of_patch(&name, &label).await, [""; 0], "{kind}");
    }
    let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterSchedulingPolicySnapshot",
                        "metadata": {"name": "shop-1"}, "spec": tolerations});
    assert_eq!(
        api.faults_of_post(SNAPSHOTS, &object, &json!({})).await,
        [r#"spec.policy.tolerations: Invalid value: "array": value must be empty when operator is Exists"#]
    );
    api.server.stop().await;
}
