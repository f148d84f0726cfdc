//! Tests that run the hooks of the kinds in the same order as the registry.

use serde_json::{Value, json};

use super::karmada::{apps, cluster, policy, task, work};
use ballast_k8s::Time;
use ballast_resource::{Given, Resource, ResourceKind};

mod clusters;

type Policy = policy::v1alpha1::PropagationPolicy;
type ClusterPolicy = policy::v1alpha1::ClusterPropagationPolicy;
type Binding = work::v1alpha2::ResourceBinding;
type Rebalancer = apps::v1alpha1::WorkloadRebalancer;
type Cluster = cluster::v1alpha1::Cluster;
type Task = task::v1alpha1::RescheduleTask;

/// Returns the stored form of the object, or the errors for which it is rejected.
fn admit<T: Resource>(object: Value, old: Option<&Value>) -> Result<Value, Vec<String>> {
    let kind = ResourceKind::of::<T>();
    let Value::Object(mut object) = object else { panic!("an object") };
    let old = old.map(|old| old.as_object().expect("an object"));
    (kind.mend)(&mut object);
    kind.schema.prune(&mut object);
    kind.schema.default(&mut object);
    let now = "2024-04-17T15:04:05Z".parse::<Time>().unwrap();
    (kind.prepare)(&mut object, &Given { old, now, is_by_client: true });
    let mut faults = kind.schema.validate(&object);
    if faults.is_empty() {
        faults = (kind.validate)(&object, old);
    }
    match faults.is_empty() {
        true => Ok(Value::Object(object)),
        false => Err(faults.iter().map(ToString::to_string).collect()),
    }
}

fn refused<T: Resource>(object: Value) -> Vec<String> {
    admit::<T>(object, None).expect_err("refused")
}

fn accepted<T: Resource>(object: Value) -> Value {
    admit::<T>(object, None).expect("accepted")
}

fn policy_with(placement: Value) -> Value {
    json!({
        "metadata": {"name": "p", "namespace": "shop", "uid": "u-1"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": placement},
    })
}

fn binding_with(placement: Value) -> Value {
    json!({
        "metadata": {"name": "web-deployment", "namespace": "shop", "uid": "u-1"},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "placement": placement},
    })
}

fn rebalancer(spec: Value) -> Value {
    json!({"metadata": {"name": "demo"}, "spec": spec})
}

#[test]
fn r58_a_rebalancer_names_at_least_one_workload() {
    assert_eq!(
        refused::<Rebalancer>(rebalancer(json!({"workloads": []}))),
        ["spec.workloads: Invalid value: 0: spec.workloads in body should have at least 1 items"]
    );
    assert_eq!(refused::<Rebalancer>(rebalancer(json!({}))), ["spec.workloads: Required value"]);
}

#[test]
fn r59_a_negative_ttl_is_refused() {
    let workloads = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}]);
    let spec = json!({"workloads": workloads, "ttlSecondsAfterFinished": -1});
    assert_eq!(
        refused::<Rebalancer>(rebalancer(spec)),
        ["spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0"]
    );
    accepted::<Rebalancer>(rebalancer(json!({"workloads": workloads, "ttlSecondsAfterFinished": 0})));
}

#[test]
fn r60_a_workload_without_a_kind_is_refused_by_its_place() {
    let good = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let missing = json!({"apiVersion": "apps/v1", "name": "web"});
    assert_eq!(
        refused::<Rebalancer>(rebalancer(json!({"workloads": [good, missing]}))),
        ["spec.workloads[1].kind: Required value"]
    );
    let empty = json!({"apiVersion": "", "kind": "", "name": ""});
    assert_eq!(
        refused::<Rebalancer>(rebalancer(json!({"workloads": [empty]}))),
        ["apiVersion", "kind", "name"].map(|name| format!("spec.workloads[0].{name}: Required value"))
    );
}

#[test]
fn c5_an_empty_task_is_refused_with_what_to_write() {
    let task = |spec: Value| json!({"metadata": {"name": "t"}, "spec": spec});
    let expected = "spec: Required value: name policies in targetRefPolicy or resources in targetRefResource; to \
                    reschedule everything that any policy manages, write targetRefPolicy: [{}]";
    assert_eq!(refused::<Task>(task(json!({}))), [expected]);
    assert_eq!(refused::<Task>(task(json!({"targetRefPolicy": [], "targetRefResource": []}))), [expected]);
    accepted::<Task>(task(json!({"targetRefPolicy": [{}]})));
    assert_eq!(refused::<Task>(json!({"metadata": {"name": "t"}})), ["spec: Required value"]);
}

#[test]
fn a_task_with_a_selector_that_selects_nothing_is_refused() {
    let resource = |expression: Value| {
        json!({"metadata": {"name": "t"}, "spec": {"targetRefResource": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchExpressions": [expression]}}]}})
    };
    let path = "spec.targetRefResource[0].labelSelector.matchExpressions[0]";
    assert_eq!(
        refused::<Task>(resource(json!({"key": "app", "operator": "Bogus"}))),
        [format!("{path}.operator: Invalid value: \"Bogus\": not a valid selector operator")]
    );
    assert_eq!(
        refused::<Task>(resource(json!({"key": "app", "operator": "In"}))),
        [format!("{path}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'")]
    );
    accepted::<Task>(resource(json!({"key": "app", "operator": "Exists"})));
}

#[test]
fn c2_r35_r94_triggers_under_the_placement_are_unknown_fields() {
    for kind in [ResourceKind::of::<Binding>(), ResourceKind::of::<Policy>()] {
        let mut object = binding_with(json!({"forceRescheduling": true, "rescheduleTriggeredAt": "x"}));
        let unknown = kind.schema.prune(object.as_object_mut().unwrap());
        for field in ["forceRescheduling", "rescheduleTriggeredAt"] {
            assert!(unknown.paths.contains(&format!("spec.placement.{field}")), "{field} in {unknown:?}");
        }
    }
}

#[test]
fn r105_groups_and_a_single_group_exclude_each_other() {
    let placement = json!({
        "clusterAffinity": {"clusterNames": ["m1"]},
        "clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1"]}],
    });
    for faults in [
        refused::<Policy>(policy_with(placement.clone())),
        refused::<ClusterPolicy>(policy_with(placement.clone())),
        refused::<Binding>(binding_with(placement)),
    ] {
        let [fault] = faults.as_slice() else { panic!("{faults:?}") };
        assert!(fault.starts_with("spec.placement: Invalid value: {"), "{fault}");
        assert!(fault.ends_with(": clusterAffinities cannot co-exist with clusterAffinity"), "{fault}");
    }
}

#[test]
fn r107_names_of_groups_are_unique() {
    let placement = json!({"clusterAffinities": [
        {"affinityName": "a", "clusterNames": ["m1"]}, {"affinityName": "a", "clusterNames": ["m2"]}]});
    let expected = "spec.placement.clusterAffinities[1].affinityName: Invalid value: \"a\": \
                    each affinity term in a policy must have a unique name";
    assert_eq!(refused::<Policy>(policy_with(placement.clone())), [expected]);
    assert_eq!(refused::<Binding>(binding_with(placement)), [expected]);
}

#[test]
fn r112_a_cluster_may_be_in_several_groups() {
    accepted::<Policy>(policy_with(json!({"clusterAffinities": [
        {"affinityName": "a", "clusterNames": ["m1"]}, {"affinityName": "b", "clusterNames": ["m1"]}]})));
}

#[test]
fn a_binding_whose_placement_was_broken_before_stays_writable() {
    let broken = json!({"clusterAffinities": [{"affinityName": "a"}, {"affinityName": "a"}]});
    let mut changed = binding_with(broken.clone());
    changed["spec"]["replicas"] = json!(3);
    assert!(admit::<Binding>(changed, Some(&binding_with(broken))).is_ok());
}

#[test]
fn field_selectors_know_three_keys_and_two_operators() {
    let select = |key: &str, operator: &str| {
        let expressions = json!([{"key": key, "operator": operator, "values": ["x"]}]);
        policy_with(json!({"clusterAffinity": {"fieldSelector": {"matchExpressions": expressions}}}))
    };
    let path = "spec.placement.clusterAffinity.fieldSelector.matchExpressions[0]";
    assert_eq!(
        refused::<Policy>(select("country", "Gt")),
        [
            format!(
                "{path}.key: Invalid value: \"country\": unsupported key \"country\", must be provider, region, or zone"
            ),
            format!("{path}.operator: Invalid value: \"Gt\": unsupported operator \"Gt\", must be In or NotIn"),
        ]
    );
    accepted::<Policy>(select("region", "NotIn"));
}

#[test]
fn overflow_groups_need_a_group_to_overflow_from_and_a_strategy_that_fills_it() {
    let placement = |affinity_names: Value, strategy: Value| {
        json!({"clusterAffinities": [{"affinityName": "a", "clusterNames": affinity_names, "overflowAffinities": [
            {"affinityName": "b", "clusterNames": ["m2"]}]}], "replicaScheduling": strategy})
    };
    let aggregated = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    let by_room = json!({"weightPreference": {"dynamicWeight": "AvailableReplicas"}});
    accepted::<Policy>(policy_with(placement(json!(["m1"]), aggregated.clone())));
    accepted::<Policy>(policy_with(placement(json!(["m1"]), by_room)));
    let path = "spec.placement.clusterAffinities[0].overflowAffinities";
    let not_filled = format!(
        "{path}: Forbidden: overflowAffinities can only be used together with dynamic weight or aggregated scheduling"
    );
    for strategy in [json!(null), json!({"replicaSchedulingType": "Duplicated"}), json!({})] {
        assert_eq!(refused::<Policy>(policy_with(placement(json!(["m1"]), strategy))), [not_filled.as_str()]);
    }
    assert_eq!(
        refused::<Policy>(policy_with(placement(json!([]), aggregated.clone()))),
        [format!("{path}: Forbidden: overflowAffinities can only be used together with the inline ClusterAffinity")]
    );
    let mut twice = placement(json!(["m1"]), aggregated);
    twice["clusterAffinities"][0]["overflowAffinities"][0]["affinityName"] = json!("a");
    assert_eq!(
        refused::<Policy>(policy_with(twice)),
        [format!(
            "{path}[0].affinityName: Invalid value: \"a\": overflow affinity name must be unique and must not \
             duplicate the primary group's affinityName"
        )]
    );
}

#[test]
fn spread_constraints_must_make_sense_together() {
    let spread = |constraints: Value| refused::<Policy>(policy_with(json!({"spreadConstraints": constraints})));
    let path = "spec.placement.spreadConstraints";
    let both = spread(json!([{"spreadByField": "cluster", "spreadByLabel": "env"}]));
    assert!(both[0].starts_with(&format!("{path}[0]: Invalid value: {{")), "{both:?}");
    assert!(both[0].ends_with(": spreadByLabel should not co-exist with spreadByField"), "{both:?}");
    assert_eq!(
        spread(json!([{"maxGroups": 1, "minGroups": 2}])),
        [format!("{path}[0].maxGroups: Invalid value: 1: maxGroups lower than minGroups is not allowed")]
    );
    assert_eq!(
        spread(json!([{"maxGroups": -1, "minGroups": -2}])),
        [
            format!("{path}[0].minGroups: Invalid value: -2: minGroups lower than 0 is not allowed"),
            format!("{path}[0].maxGroups: Invalid value: -1: maxGroups lower than 0 is not allowed"),
        ]
    );
    assert_eq!(
        spread(json!([{"spreadByField": "cluster"}, {"spreadByField": "cluster"}])),
        [format!(
            "{path}[1].spreadByField: Invalid value: \"cluster\": multiple cluster spread constraints are not allowed"
        )]
    );
    let alone = spread(json!([{"spreadByField": "region"}]));
    assert!(alone[0].starts_with(&format!("{path}: Invalid value: [")), "{alone:?}");
    assert!(alone[0].contains("the cluster spread constraint must be enabled in one of the constraints"), "{alone:?}");
    accepted::<Policy>(policy_with(json!({"spreadConstraints": [
        {"spreadByField": "region", "minGroups": 2, "maxGroups": 2}, {"spreadByField": "cluster", "minGroups": 3}]})));
}

#[test]
fn tolerations_know_two_operators() {
    let tolerate = |operator: &str| policy_with(json!({"clusterTolerations": [{"key": "gpu", "operator": operator}]}));
    assert_eq!(
        refused::<Policy>(tolerate("Lt")),
        [
            "spec.placement.clusterTolerations[0].operator: Unsupported value: \"Lt\": supported values: \"Equal\", \"Exists\""
        ]
    );
    accepted::<Policy>(tolerate("Exists"));
}

#[test]
fn workloads_cannot_seek_and_shun_the_same_group() {
    let term = json!({"groupByLabelKey": "app.group"});
    let faults = refused::<Policy>(policy_with(json!({"workloadAffinity": {"affinity": term, "antiAffinity": term}})));
    assert!(faults[0].ends_with("affinity and antiAffinity must not use the same groupByLabelKey"), "{faults:?}");
    let faults =
        refused::<Policy>(policy_with(json!({"workloadAffinity": {"affinity": {"groupByLabelKey": "NO KEY"}}})));
    assert!(
        faults[0].starts_with("spec.placement.workloadAffinity.affinity.groupByLabelKey: Invalid value"),
        "{faults:?}"
    );
}

#[test]
fn r140_replicas_are_specified_only_where_they_are_divided() {
    let strategy = |scheduling: &str| json!({"replicaScheduling": {"replicaSchedulingType": scheduling, "replicaDivisionPreference": "Specified"}});
    let expected = "spec.placement.replicaScheduling.replicaDivisionPreference: Invalid value: \"Specified\": \
                    replicas can only be specified when replicaSchedulingType is Divided";
    assert_eq!(refused::<Policy>(policy_with(strategy("Duplicated"))), [expected]);
    assert_eq!(refused::<Binding>(binding_with(strategy("Duplicated"))), [expected]);
    accepted::<Policy>(policy_with(strategy("Divided")));
}

#[test]
fn r144_specified_replicas_are_numbers_of_replicas() {
    let with = |replicas: Value| {
        let list = json!([{"targetCluster": {"clusterNames": ["m1"]}, "replicas": replicas}]);
        policy_with(json!({"replicaScheduling": {
            "replicaDivisionPreference": "Specified", "specifyPreference": {"staticSpecifyList": list}}}))
    };
    let path = "spec.placement.replicaScheduling.specifyPreference.staticSpecifyList[0].replicas";
    accepted::<Policy>(with(json!(0)));
    assert_eq!(
        refused::<Policy>(with(json!(-1))),
        [format!("{path}: Invalid value: -1: {path} in body should be greater than or equal to 0")]
    );
    assert_eq!(
        refused::<Policy>(with(json!(2_147_483_648_i64))),
        [format!("{path}: Invalid value: 2147483648: must be less than or equal to 2147483647")]
    );
}

#[test]
fn r151_extended_fields_pass_through_as_they_are() {
    let strategy = json!({"replicaSchedulingType": "Divided", "extendReplicaDivisionPreference": "ours",
        "extendClusterPreferences": {"extendStaticList": [
            {"targetCluster": {"clusterNames": ["m1"]}, "extendFields": {"replicas": 2, "spare": 1}}]}});
    let mut object = policy_with(json!({"replicaScheduling": strategy}));
    object["spec"]["schedulerName"] = json!("our-scheduler");
    assert_eq!(accepted::<Policy>(object)["spec"]["placement"]["replicaScheduling"], strategy);
}

fn extended(name: &str, more: Value) -> Value {
    let mut strategy = json!({"replicaSchedulingType": "Divided", "extendReplicaDivisionPreference": name});
    strategy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"replicaScheduling": strategy})
}

fn numbers(replicas: i64) -> Value {
    json!({"staticSpecifyList": [{"targetCluster": {"clusterNames": ["m1"]}, "replicas": replicas}]})
}

fn extended_numbers(replicas: i64) -> Value {
    json!({"extendStaticList": [
        {"targetCluster": {"clusterNames": ["m1"]}, "extendFields": {"replicas": replicas}}]})
}

#[test]
fn r152_specified_replicas_stay_beside_the_name_of_an_extended_strategy() {
    for name in ["SpecifiedClusters", "SpecifiedRegions", "Regions"] {
        for list in [json!({}), json!({"extendClusterPreferences": {"extendStaticList": []}})] {
            let mut more = json!({"specifyPreference": numbers(2)});
            more.as_object_mut().unwrap().extend(list.as_object().unwrap().clone());
            let policy = accepted::<Policy>(policy_with(extended(name, more.clone())));
            let binding = accepted::<Binding>(binding_with(extended(name, more)));
            for stored in [policy, binding] {
                let strategy = &stored["spec"]["placement"]["replicaScheduling"];
                assert_eq!(strategy["specifyPreference"], numbers(2), "{name}");
                assert_eq!(strategy["replicaDivisionPreference"], "Specified", "{name}");
            }
        }
    }
}

#[test]
fn r152_what_contradicts_an_extended_strategy_is_refused() {
    let path = "spec.placement.replicaScheduling";
    for (more, field) in [
        (json!({"specifyPreference": numbers(3)}), "specifyPreference"),
        (json!({"replicaDivisionPreference": "Weighted"}), "replicaDivisionPreference"),
        (json!({"replicaSchedulingType": "Duplicated"}), "replicaSchedulingType"),
    ] {
        let mut all = json!({"extendClusterPreferences": extended_numbers(2)});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let placement = extended("SpecifiedClusters", all);
        for faults in [refused::<Policy>(policy_with(placement.clone())), refused::<Binding>(binding_with(placement))] {
            let fault = faults.iter().find(|fault| fault.starts_with(&format!("{path}.{field}: Invalid value")));
            let fault = fault.unwrap_or_else(|| panic!("{faults:?}"));
            assert!(fault.contains("contradicts extendReplicaDivisionPreference \"SpecifiedClusters\""), "{fault}");
        }
    }
}

#[test]
fn r152_the_translation_follows_the_strategy_and_not_an_edit_of_the_translation() {
    let list = |stored: &Value| stored["spec"]["placement"]["replicaScheduling"]["specifyPreference"].clone();
    let placement = extended("SpecifiedClusters", json!({"extendClusterPreferences": extended_numbers(2)}));
    let old = accepted::<Policy>(policy_with(placement));
    assert_eq!(list(&old), numbers(2));
    let mut changed = old.clone();
    changed["spec"]["placement"]["replicaScheduling"]["extendClusterPreferences"] = extended_numbers(3);
    assert_eq!(list(&admit::<Policy>(changed, Some(&old)).unwrap()), numbers(3));
    let mut edited = old.clone();
    edited["spec"]["placement"]["replicaScheduling"]["specifyPreference"] = numbers(3);
    let faults = admit::<Policy>(edited, Some(&old)).unwrap_err();
    assert!(faults[0].contains("specifyPreference: Invalid value"), "{faults:?}");
}

#[test]
fn r154_what_contradicts_the_annotation_is_refused_and_the_rest_follows_it() {
    let annotation = "scheduling.karmada.io/specified-replicas";
    let with = |text: &str, placement: Value| {
        let mut policy = policy_with(placement);
        policy["metadata"]["annotations"] = json!({annotation: text});
        policy
    };
    let by_name = r#"{"specifiedClusters":[{"name":"m1","replicas":2}]}"#;
    let strategy = |stored: &Value| stored["spec"]["placement"]["replicaScheduling"].clone();
    let old = accepted::<Policy>(with(by_name, json!({})));
    assert_eq!(strategy(&old)["specifyPreference"], numbers(2));
    let weighted = json!({"replicaScheduling": {"replicaDivisionPreference": "Weighted"}});
    let faults = refused::<Policy>(with(by_name, weighted));
    assert!(faults[0].contains(&format!("contradicts the annotation {annotation}")), "{faults:?}");
    // A list of regions without a total has no numbers, so the earlier numbers are removed.
    let mut changed = old.clone();
    changed["metadata"]["annotations"][annotation] = json!(r#"{"idcs":[{"name":"A"}]}"#);
    let target = json!({"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["A"]}]}});
    assert_eq!(
        strategy(&admit::<Policy>(changed, Some(&old)).unwrap()),
        json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Specified",
            "extendReplicaDivisionPreference": "Regions",
            "extendClusterPreferences": {"extendStaticList": [{"targetCluster": target, "extendFields": {}}]}})
    );
}

#[test]
fn r152_entries_without_a_number_are_warned_of() {
    let advice = |name: &str, fields: Value| {
        let list = json!([{"targetCluster": {"clusterNames": ["m1"]}, "extendFields": {"replicas": 1}},
            {"targetCluster": {"clusterNames": ["m2"]}, "extendFields": fields}]);
        let more = json!({"extendClusterPreferences": {"extendStaticList": list}});
        let stored = accepted::<Policy>(policy_with(extended(name, more)));
        Policy::advise(stored.as_object().unwrap())
    };
    for name in ["SpecifiedClusters", "SpecifiedRegions", "Regions"] {
        assert_eq!(
            advice(name, json!({})),
            [format!(
                "spec.placement.replicaScheduling.extendClusterPreferences.extendStaticList[1]: \
                 {name} needs extendFields.replicas in each entry, and nothing is scheduled without it"
            )]
        );
        assert_eq!(advice(name, json!({"replicas": 2})), Vec::<String>::new());
    }
    // Another scheduler may not need numbers.
    assert_eq!(advice("Theirs", json!({})), Vec::<String>::new());
}

#[test]
fn policies_get_the_defaults_of_upstream() {
    let mut object = policy_with(json!({"spreadConstraints": [{"maxGroups": 2}], "replicaScheduling": {}}));
    object["spec"]["resourceSelectors"] = json!([
        {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport"},
        {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop"}]);
    object["spec"]["failover"] = json!({"application": {"decisionConditions": {}}});
    let stored = accepted::<Policy>(object.clone());
    let spec = &stored["spec"];
    assert_eq!(spec["resourceSelectors"][0]["namespace"], "shop");
    assert_eq!(spec["propagateDeps"], true);
    assert_eq!(spec["schedulerName"], "default-scheduler");
    assert_eq!(
        spec["placement"],
        json!({"spreadConstraints": [{"maxGroups": 2, "minGroups": 1, "spreadByField": "cluster"}],
            "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}})
    );
    assert_eq!(
        spec["failover"]["application"],
        json!({"decisionConditions": {"tolerationSeconds": 300}, "purgeMode": "Gracefully", "gracePeriodSeconds": 600})
    );
    assert_eq!(stored["metadata"]["labels"][Policy::PERMANENT_ID], "u-1");
    let stored = accepted::<ClusterPolicy>(object);
    assert_eq!(stored["spec"]["resourceSelectors"][0].get("namespace"), None);
    assert_eq!(stored["metadata"]["labels"][ClusterPolicy::PERMANENT_ID], "u-1");
}

#[test]
fn a_policy_that_selected_elsewhere_before_it_was_a_fault_stays_writable() {
    let mut old = accepted::<Policy>(policy_with(json!({})));
    old["spec"]["resourceSelectors"][0]["namespace"] = json!("other");
    let mut changed = old.clone();
    changed["spec"]["priority"] = json!(3);
    assert!(admit::<Policy>(changed.clone(), Some(&old)).is_ok());
    changed["spec"]["resourceSelectors"][0]["name"] = json!("web");
    let fault = "spec.resourceSelectors[0].namespace: Invalid value: \"other\": namespace of resource selector \
         must be the same as the namespace of the policy";
    assert_eq!(admit::<Policy>(changed, Some(&old)).unwrap_err(), [fault]);
}

#[test]
fn what_is_prepared_once_is_prepared() {
    let object = policy_with(json!({"spreadConstraints": [{"maxGroups": 2}], "replicaScheduling": {}}));
    let once = accepted::<Policy>(object);
    assert_eq!(admit::<Policy>(once.clone(), Some(&once)).unwrap(), once);
}

#[test]
fn permanent_ids_stay_with_their_object() {
    let old = accepted::<Policy>(policy_with(json!({})));
    let mut replaced = policy_with(json!({}));
    replaced["metadata"]["uid"] = json!("u-2");
    let stored = admit::<Policy>(replaced, Some(&old)).unwrap();
    assert_eq!(stored["metadata"]["labels"][Policy::PERMANENT_ID], "u-1");
    let mut changed = old.clone();
    changed["metadata"]["labels"][Policy::PERMANENT_ID] = json!("mine");
    assert_eq!(
        admit::<Policy>(changed, Some(&old)).unwrap_err(),
        ["metadata.labels[propagationpolicy.karmada.io/permanent-id]: Invalid value: \"mine\": label \
          propagationpolicy.karmada.io/permanent-id is immutable, it can only be set by the system during creation"]
    );
    let binding = accepted::<Binding>(binding_with(json!({})));
    let mut changed = binding.clone();
    changed["metadata"]["labels"][Binding::PERMANENT_ID] = json!("mine");
    assert_eq!(admit::<Binding>(changed, Some(&binding)).unwrap()["metadata"]["labels"], binding["metadata"]["labels"]);
    assert_eq!(binding["metadata"]["labels"], json!({"resourcebinding.karmada.io/permanent-id": "u-1"}));
}

#[test]
fn wh6_the_server_chooses_the_permanent_id() {
    let mut policy = policy_with(json!({}));
    policy["metadata"]["labels"] = json!({Policy::PERMANENT_ID: "of-another-policy", "a": "b"});
    let stored = accepted::<Policy>(policy);
    assert_eq!(stored["metadata"]["labels"], json!({Policy::PERMANENT_ID: "u-1", "a": "b"}));
    let mut binding = binding_with(json!({}));
    // The client may choose the first label, which references the policy.
    binding["metadata"]["labels"] = json!({Policy::PERMANENT_ID: "a-policy", Binding::PERMANENT_ID: "mine"});
    let stored = accepted::<Binding>(binding);
    assert_eq!(stored["metadata"]["labels"], json!({Policy::PERMANENT_ID: "a-policy", Binding::PERMANENT_ID: "u-1"}));
    // A stored object without the label gets it from the server as well.
    let mut old = stored.clone();
    old["metadata"]["labels"].as_object_mut().unwrap().remove(Binding::PERMANENT_ID);
    let mut chosen = stored.clone();
    chosen["metadata"]["labels"][Binding::PERMANENT_ID] = json!("mine");
    assert_eq!(admit::<Binding>(chosen, Some(&old)).unwrap()["metadata"]["labels"], stored["metadata"]["labels"]);
}

#[test]
fn wh7_a_stored_binding_of_a_workload_elsewhere_stays_writable() {
    let mut stray = binding_with(json!({}));
    stray["spec"]["resource"]["namespace"] = json!("other");
    let said = "spec.resource.namespace: Invalid value: \"other\": must be the namespace of the binding, \"shop\"";
    assert_eq!(refused::<Binding>(stray.clone()), [said]);
    stray["spec"]["resource"]["namespace"] = json!("");
    accepted::<Binding>(stray.clone());
    type ClusterBinding = work::v1alpha2::ClusterResourceBinding;
    stray["metadata"].as_object_mut().unwrap().remove("namespace");
    accepted::<ClusterBinding>(stray);
}

#[test]
fn a_policy_keeps_its_scheduler() {
    let old = accepted::<Policy>(policy_with(json!({})));
    let mut changed = old.clone();
    changed["spec"]["schedulerName"] = json!("mine");
    assert_eq!(
        admit::<Policy>(changed, Some(&old)).unwrap_err(),
        ["spec.schedulerName: Invalid value: \"mine\": the schedulerName should not be updated"]
    );
}

#[test]
fn policies_are_refused_as_upstream_refuses_them() {
    let with = |name: &str, value: Value| {
        let mut object = policy_with(json!({}));
        object["spec"][name] = value;
        refused::<Policy>(object)
    };
    assert_eq!(with("resourceSelectors", json!([]))[0].split(": ").next(), Some("spec.resourceSelectors"));
    assert!(
        with("preemption", json!("Always"))[0].starts_with("spec.resourceSelectors[0].name: Invalid value: \"\": name")
    );
    assert_eq!(
        with(
            "failover",
            json!({"application": {"decisionConditions": {"tolerationSeconds": -1}, "purgeMode": "Never",
            "gracePeriodSeconds": 0, "statePreservation": {"rules": [{"aliasLabelName": "-x", "jsonPath": "{.a}"}]}}})
        )
        .iter()
        .map(|fault| fault.split(", and must").next().unwrap())
        .collect::<Vec<_>>(),
        [
            "spec.propagateDeps: Invalid value: false: application failover is set, propagateDeps must be true",
            "spec.failover.application.decisionConditions.tolerationSeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.failover.application.gracePeriodSeconds: Invalid value: 0: only takes effect when purgeMode is gracefully",
            "spec.failover.application.gracePeriodSeconds: Invalid value: 0: must be greater than 0",
            "spec.failover.application.statePreservation.rules[0].aliasLabelName: Invalid value: \"-x\": name part must \
             consist of alphanumeric characters, '-', '_' or '.'",
        ]
    );
    let faults = with("suspension", json!({"dispatching": true, "dispatchingOnClusters": {"clusterNames": ["m1"]}}));
    assert!(faults[0].ends_with("suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames"));
}
