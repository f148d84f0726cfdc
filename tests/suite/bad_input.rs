//! Invalid, contradictory or huge input gets a decision with a reason, in both profiles. There is
//! no panic, and no number overflows.

use crate::support::objects;
use ballast::cli::simulate::{Case, Malformed, Options, Output, answer};
use ballast::engine::karmada::Rules;
use serde_json::{Map, Value, json};

fn cluster(name: &str, pods: &str) -> Value {
    let place = json!({"spec": {"region": "north", "provider": "aws"}});
    objects::with(objects::with(objects::cluster(name), place), objects::room("1000", "4000Gi", pods))
}

fn fleet(count: usize) -> Vec<Value> {
    (0..count).map(|number| cluster(&format!("m{number:05}"), "100")).collect()
}

fn dynamic() -> Value {
    json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }})
}

fn with(mut placement: Value, field: &str, value: Value) -> Value {
    placement[field] = value;
    placement
}

fn decide(clusters: &[Value], placement: &Value, spec: Value, rules: Rules) -> Result<Value, Malformed> {
    let mut whole = json!({
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
        "placement": placement,
    });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "name": "web-deployment", "namespace": "shop", "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "1"},
        },
        "spec": whole,
    });
    let case = Case {
        id: "bad".to_owned(),
        gates: Map::new(),
        clusters: clusters.to_vec(),
        others: Vec::new(),
        binding,
        expected: Vec::new(),
    };
    answer(
        &case,
        &Options { rules, output: Output::Json, trace: true, check: false, patches: Vec::new(), files: Vec::new() },
    )
}

/// Returns the results of both profiles.
fn both(clusters: &[Value], placement: &Value, spec: Value) -> [Value; 2] {
    [Rules::Karmada, Rules::Default].map(|rules| decide(clusters, placement, spec.clone(), rules).unwrap())
}

#[track_caller]
fn fails(clusters: &[Value], placement: &Value, spec: Value, reason: &str, part: &str) {
    for answer in both(clusters, placement, spec) {
        let condition = &answer["condition"];
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!(reason)), "{condition}");
        assert!(condition["message"].as_str().unwrap().contains(part), "{condition} lacks {part:?}");
        assert_eq!(answer["clusters"], json!([]));
    }
}

fn replicas(answer: &Value) -> Vec<i64> {
    let clusters = answer["clusters"].as_array().unwrap().iter();
    clusters.map(|cluster| cluster["replicas"].as_i64().unwrap()).collect()
}

#[test]
fn a_selector_that_makes_no_sense_selects_nothing_and_says_so() {
    let selectors = [
        json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Maybe", "values": ["b"]}]}}),
        json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}}),
        json!({"labelSelector": {"matchLabels": {"not a key": "b"}}}),
        json!({"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "Gt", "values": ["north"]}]}}),
        json!({"fieldSelector": {"matchExpressions": [{"key": "planet", "operator": "In", "values": ["earth"]}]}}),
    ];
    for selector in selectors {
        let placement = with(dynamic(), "clusterAffinity", selector);
        fails(&fleet(2), &placement, json!({"replicas": 2}), "NoClusterFit", "0/2 clusters are available: 2 ");
    }
}

#[test]
fn a_cluster_with_an_amount_that_makes_no_sense_has_no_room_for_it_and_the_others_do() {
    for amount in ["five", "", "1e999", "0x10", "-3", "--1", "1Zi"] {
        let clusters = [cluster("m1", amount), cluster("m2", "100")];
        for answer in both(&clusters, &dynamic(), json!({"replicas": 4, "replicaRequirements": {}})) {
            assert_eq!(answer["clusters"], json!([{"name": "m2", "replicas": 4}]), "{amount}");
        }
    }
}

#[test]
fn a_request_that_makes_no_sense_is_named() {
    for amount in ["five", "0x10", "1Zi"] {
        let needs = json!({"resourceRequest": {"cpu": amount}});
        let part = "spec.replicaRequirements.resourceRequest[cpu]";
        fails(&fleet(2), &dynamic(), json!({"replicas": 2, "replicaRequirements": needs}), "SchedulerError", part);
    }
}

#[test]
fn more_than_any_cluster_could_have_is_no_mistake_but_fits_nowhere() {
    let needs = json!({"resourceRequest": {"cpu": "1e999"}});
    fails(&fleet(2), &dynamic(), json!({"replicas": 2, "replicaRequirements": needs}), "Unschedulable", "not enough");
}

#[test]
fn replicas_at_and_below_zero_are_none() {
    for number in [0, -1, i32::MIN] {
        for answer in both(&fleet(3), &dynamic(), json!({"replicas": number, "replicaRequirements": {}})) {
            assert!(replicas(&answer).iter().all(|replicas| *replicas == 0), "{number}: {answer}");
        }
    }
}

#[test]
fn as_many_replicas_as_there_are_numbers_are_all_there_or_refused() {
    let most = i64::from(i32::MAX);
    let huge: Vec<Value> = (0..3).map(|number| cluster(&format!("m{number}"), "9223372036854775807")).collect();
    let aggregated = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let equal = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}});
    for placement in [dynamic(), aggregated, equal] {
        for answer in both(&huge, &placement, json!({"replicas": most})) {
            assert_eq!(replicas(&answer).iter().sum::<i64>(), most, "{answer}");
        }
    }
    for answer in both(&huge, &json!({}), json!({"replicas": most})) {
        assert_eq!(replicas(&answer), [most; 3]);
    }
    fails(&fleet(3), &dynamic(), json!({"replicas": most}), "Unschedulable", "not enough to schedule");
    for beyond in [json!(most + 1), json!(i64::MAX), json!(u64::MAX), json!(1e30), json!(2.5), json!("3")] {
        let refused = decide(&huge, &dynamic(), json!({"replicas": beyond}), Rules::Default).unwrap_err();
        assert!(refused.why.starts_with("binding: "), "{refused:?}");
    }
}

#[test]
fn weights_that_overflow_still_divide_what_there_is() {
    let weights = |list: &[i64]| {
        let entry = |(number, weight): (usize, &i64)| json!({"targetCluster": {"clusterNames": [format!("m{number:05}")]}, "weight": weight});
        let list: Vec<Value> = list.iter().enumerate().map(entry).collect();
        json!({"replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList": list},
        }})
    };
    for list in [[i64::MAX; 3], [i64::MAX, 1, i64::MAX], [i64::MAX, -1, i64::MIN], [-1, 0, i64::MIN]] {
        for replica_count in [7, i64::from(i32::MAX)] {
            for answer in both(&fleet(3), &weights(&list), json!({"replicas": replica_count})) {
                assert_eq!(replicas(&answer).iter().sum::<i64>(), replica_count, "{list:?}: {answer}");
                assert!(replicas(&answer).iter().all(|replicas| *replicas > 0), "{list:?}: {answer}");
            }
        }
    }
    let thirds = both(&fleet(3), &weights(&[i64::MAX; 3]), json!({"replicas": 9}));
    assert!(thirds.iter().all(|answer| replicas(answer) == [3, 3, 3]), "{thirds:?}");
}

#[test]
fn ten_thousand_clusters_are_one_decision() {
    let clusters = fleet(10_000);
    let spread = json!([
        {"spreadByField": "region", "minGroups": 1, "maxGroups": 1},
        {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 10_000},
    ]);
    for answer in both(&clusters, &with(dynamic(), "spreadConstraints", spread), json!({"replicas": 250_000})) {
        assert_eq!((replicas(&answer).len(), replicas(&answer).iter().sum::<i64>()), (10_000, 250_000));
        assert_eq!(answer["trace"]["attempts"][0]["clusters"].as_array().unwrap().len(), 10_000);
    }
}

#[test]
fn an_empty_fleet_fits_nobody() {
    let specified = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Specified",
        "specifyPreference": {"staticSpecifyList": [{"targetCluster": {}, "replicas": 2}]},
    }});
    let groups = json!({"clusterAffinities": [{"affinityName": "a"}, {"affinityName": "b"}]});
    for placement in [json!({}), dynamic(), specified, groups] {
        fails(&[], &placement, json!({"replicas": 2}), "NoClusterFit", "0/0 clusters are available");
    }
}

#[test]
fn constraints_that_contradict_themselves_are_failures_that_say_what_is_wrong() {
    let spread = |constraints: Value| with(dynamic(), "spreadConstraints", constraints);
    let by = |field: &str, min: i64, max: i64| json!({"spreadByField": field, "minGroups": min, "maxGroups": max});
    let affinity = |affinity: Value| with(dynamic(), "clusterAffinity", affinity);
    let expression = |operator: &str| json!({"key": "region", "operator": operator, "values": ["north"]});
    let nobody = "0/3 clusters are available: 3 cluster(s) did not match the placement cluster affinity constraint.";
    for (placement, reason, part) in [
        (spread(json!([by("cluster", 4, 5)])), "SchedulerError", "less than spreadConstraint.MinGroups"),
        (spread(json!([by("cluster", i64::MAX, i64::MAX)])), "SchedulerError", "less than spreadConstraint.MinGroups"),
        (spread(json!([by("region", 2, 2), by("cluster", 1, 3)])), "SchedulerError", "feasible region is less than"),
        (spread(json!([by("region", 1, 1), by("cluster", 9, 9)])), "SchedulerError", "number of clusters is less than"),
        (affinity(json!({"clusterNames": ["m00000"], "exclude": ["m00000"]})), "NoClusterFit", nobody),
        (
            affinity(json!({"fieldSelector": {"matchExpressions": [expression("In"), expression("NotIn")]}})),
            "NoClusterFit",
            nobody,
        ),
        (affinity(json!({"clusterNames": ["nowhere"]})), "NoClusterFit", nobody),
    ] {
        fails(&fleet(3), &placement, json!({"replicas": 6}), reason, part);
    }
    // The minimum is above the maximum, so nothing can be chosen.
    for answer in both(&fleet(3), &spread(json!([by("cluster", 3, 2)])), json!({"replicas": 6})) {
        assert!(replicas(&answer).len() <= 3 && !answer["condition"]["message"].as_str().unwrap().is_empty());
    }
}
