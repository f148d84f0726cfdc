//! Fuzzes the whole scheduling pipeline with arbitrary clusters and bindings: they are read,
//! lowered, decided, explained and reported.
//!
//! Random bytes are hardly ever JSON. So most inputs are read as a tape of choices among the words
//! that placements consist of. One input in eight is read as the text for `ballast simulate`.

use ballast::cli::simulate::{Case, Options, Output, answer, read, simulate};
use ballast::engine::karmada::{ClusterSet, Decision, Pass, Request, Rules, Workloads, check, decide, explain};
use serde_json::{Map, Value, json};

use super::tape::Tape;

pub fn run(input: &[u8]) {
    let mut tape = Tape::new(input);
    if tape.one_in(8) {
        return as_text(tape.rest());
    }
    let case = case(&mut tape);
    [Rules::Karmada, Rules::Default].iter().for_each(|rules| decided(&case, &options(*rules, Output::Json)));
}

fn options(rules: Rules, output: Output) -> Options {
    Options { rules, output, trace: true, check: false, patches: Vec::new(), files: Vec::new() }
}

fn as_text(text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    for output in [Output::Json, Output::Table] {
        simulate(&text, &options(Rules::Default, output), &mut std::io::sink()).expect("a sink takes everything");
    }
}

/// The decision has no fault. It is the same in any order of the input, alone and among other
/// bindings, with and without a trace.
fn decided(case: &Case, options: &Options) {
    let Ok((fleet, workloads, binding)) = read(case) else {
        assert!(answer(case, options).is_err(), "an answer to what cannot be read");
        return;
    };
    answer(case, options).expect("it can be read");
    let (request, profile) = (binding.request(), options.profile(&case.gates));
    let decision = decide(&fleet, &workloads, &request, &profile);
    let faults = check(&fleet, &workloads, &request, &profile, &decision);
    assert!(faults.is_empty(), "{faults:?}\n{case:#?}");
    let (explained, trace) = explain(&fleet, &workloads, &request, &profile);
    assert_eq!(decision, explained, "explained otherwise");
    for cluster in trace.attempts.last().into_iter().flat_map(|attempt| &attempt.clusters) {
        let is_in = decision.targets().is_some_and(|targets| targets.iter().any(|target| target.name == cluster.name));
        assert!(is_in || cluster.out.is_some(), "{} is out for no reason", cluster.name);
    }
    let clusters: Vec<_> = fleet.iter().collect();
    let reversed = ClusterSet::new(clusters.into_iter().rev().map(|cluster| (**cluster).clone()));
    assert_eq!(decision, decide(&reversed, &workloads, &request, &profile), "clusters in another order");
    let company = in_company(&fleet, &workloads, &request, &options.profile(&case.gates));
    assert_eq!(decision, company, "after another of the same placement");
}

/// The decision that follows one for a larger binding with another name.
fn in_company(
    fleet: &ClusterSet,
    workloads: &Workloads,
    request: &Request,
    profile: &ballast::engine::karmada::Profile,
) -> Decision {
    let mut sibling = request.clone();
    sibling.replicas = sibling.replicas.saturating_add(3);
    // It is in no workload group, so its replicas must not count for the other.
    sibling.groups = Default::default();
    let mut pass = Pass::new(fleet, workloads, profile);
    pass.decide(&sibling);
    pass.decide(request)
}

fn case(tape: &mut Tape<'_>) -> Case {
    let count = tape.below(9);
    let clusters = (0..count).map(|index| cluster(tape, index)).collect();
    let others = tape.some(2, |tape| binding(tape, "other"));
    let mut gates = Map::new();
    for gate in ["WorkloadAffinity", "MultiplePodTemplatesScheduling"] {
        if tape.one_in(3) {
            gates.insert(gate.to_owned(), json!(true));
        }
    }
    let binding = binding(tape, "web");
    Case { id: "fuzz".to_owned(), gates, clusters, others, binding, expected: Vec::new() }
}

fn cluster(tape: &mut Tape<'_>, index: usize) -> Value {
    let mut metadata = json!({"name": format!("m{index}"), "labels": labels(tape)});
    if tape.one_in(12) {
        metadata["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
    }
    let mut spec = json!({
        "syncMode": "Push",
        "provider": tape.pick(&PROVIDERS),
        "region": tape.pick(&REGIONS),
        "zones": tape.some(2, |tape| tape.pick(&ZONES)),
        "taints": tape.some(1, |tape| json!({
            "key": tape.pick(&["busy", "cluster.karmada.io/not-ready"]),
            "value": tape.pick(&["", "yes"]),
            "effect": tape.pick(&["PreferNoSchedule", "NoSchedule", "NoExecute"]),
        })),
    });
    let mut status = json!({});
    if !tape.one_in(10) {
        let resources = [json!({"kind": "Deployment", "name": "deployments"})];
        status["apiEnablements"] = json!([{"groupVersion": "apps/v1", "resources": resources}]);
    }
    if !tape.one_in(10) {
        status["resourceSummary"] = json!({
            "allocatable": {"pods": quantity(tape), "cpu": quantity(tape), "memory": quantity(tape)},
            "allocated": {"pods": quantity(tape), "cpu": quantity(tape)},
        });
        if tape.one_in(4) {
            spec["resourceModels"] = models(tape);
            status["resourceSummary"]["allocatableModelings"] =
                json!(tape.some(3, |tape| json!({"grade": tape.below(3), "count": number(tape)})));
        }
    }
    json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": metadata, "spec": spec, "status": status})
}

fn models(tape: &mut Tape<'_>) -> Value {
    let models = tape.some(3, |tape| {
        let range = json!({"name": "cpu", "min": quantity(tape), "max": quantity(tape)});
        json!({"grade": tape.below(3), "ranges": [range]})
    });
    json!(models)
}

fn binding(tape: &mut Tape<'_>, name: &str) -> Value {
    let mut spec = json!({
        "resource": {
            "apiVersion": "apps/v1", "kind": tape.pick(&["Deployment", "Deployment", "Deployment", "ConfigMap"]),
            "namespace": "shop", "name": name, "uid": tape.pick(&["", "a", "b"]),
        },
        "replicas": number(tape),
        "clusters": tape.some(4, |tape| json!({"name": name_of(tape), "replicas": number(tape)})),
        "gracefulEvictionTasks": tape.some(1, |tape| json!({
            "fromCluster": name_of(tape), "reason": "TaintUntolerated", "producer": "TaintManager",
        })),
    });
    if !tape.one_in(20) {
        spec["placement"] = placement(tape);
    }
    if tape.one_in(2) {
        spec["replicaRequirements"] = json!({"resourceRequest": {"cpu": quantity(tape), "memory": quantity(tape)}});
    }
    if tape.one_in(6) {
        spec["components"] = json!(tape.some(3, |tape| json!({
            "name": tape.pick(&["a", "b", "c"]),
            "replicas": number(tape),
            "replicaRequirements": {"resourceRequest": {"cpu": quantity(tape)}},
        })));
    }
    if tape.one_in(5) {
        let group = |tape: &mut Tape<'_>| tape.pick(&["", "g", "h"]);
        spec["workloadAffinityGroups"] = json!({"affinityGroup": group(tape), "antiAffinityGroup": group(tape)});
    }
    if tape.one_in(4) {
        spec["rescheduleTriggeredAt"] = json!(tape.pick(&TIMES));
    }
    if tape.one_in(6) {
        spec["forceRescheduling"] = json!(true);
    }
    if tape.one_in(12) {
        spec["schedulerName"] = json!(tape.pick(&["default-scheduler", "another"]));
    }
    if tape.one_in(12) {
        spec["suspension"] = json!({"scheduling": tape.one_in(2)});
    }
    let mut status = json!({});
    if tape.one_in(2) {
        status["lastScheduledTime"] = json!(tape.pick(&TIMES));
    }
    if tape.one_in(3) {
        status["schedulerObservingAffinityName"] = json!(tape.pick(&["t0", "t1", "t9"]));
    }
    let metadata = json!({
        "name": format!("{name}-deployment"), "namespace": "shop", "generation": 2,
        "labels": {"propagationpolicy.karmada.io/permanent-id": "1"},
    });
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": metadata, "spec": spec, "status": status,
    })
}

fn placement(tape: &mut Tape<'_>) -> Value {
    let mut placement = json!({});
    if tape.one_in(2) {
        placement["clusterAffinity"] = affinity(tape);
    }
    if tape.one_in(3) {
        let mut terms = tape.some(3, affinity);
        for (index, term) in terms.iter_mut().enumerate() {
            term["affinityName"] = json!(format!("t{index}"));
            if tape.one_in(4) {
                term["overflowAffinities"] = json!(tape.some(2, |tape| {
                    let mut overflow = affinity(tape);
                    overflow["affinityName"] = json!(tape.pick(&["o1", "o2"]));
                    overflow
                }));
            }
        }
        placement["clusterAffinities"] = json!(terms);
    }
    if tape.one_in(3) {
        let seconds = if tape.one_in(2) { Value::Null } else { json!(30) };
        let key = tape.pick(&["", "busy"]);
        placement["clusterTolerations"] = json!([{"key": key, "operator": "Exists", "tolerationSeconds": seconds}]);
    }
    if tape.one_in(2) {
        placement["spreadConstraints"] = json!(tape.some(3, |tape| {
            let by = tape.pick(&["cluster", "cluster", "region", "zone", "provider"]);
            let (min, max) = (number(tape), number(tape));
            if tape.one_in(6) {
                return json!({"spreadByLabel": "env", "minGroups": min, "maxGroups": max});
            }
            json!({"spreadByField": by, "minGroups": min, "maxGroups": max})
        }));
    }
    if !tape.one_in(8) {
        placement["replicaScheduling"] = replica_scheduling(tape);
    }
    placement
}

fn replica_scheduling(tape: &mut Tape<'_>) -> Value {
    let mut scheduling = json!({
        "replicaSchedulingType": tape.pick(&["Divided", "Divided", "Divided", "Duplicated"]),
        "replicaDivisionPreference": tape.pick(&["Weighted", "Weighted", "Aggregated", "Specified"]),
    });
    match tape.below(4) {
        0 => scheduling["weightPreference"] = json!({"dynamicWeight": "AvailableReplicas"}),
        1 => {
            let list = tape.some(4, |tape| json!({"targetCluster": affinity(tape), "weight": weight(tape)}));
            scheduling["weightPreference"] = json!({"staticWeightList": list});
        }
        2 => {
            let list = tape.some(3, |tape| json!({"targetCluster": affinity(tape), "replicas": weight(tape)}));
            scheduling["specifyPreference"] = json!({"staticSpecifyList": list});
        }
        _ => {}
    }
    scheduling
}

fn affinity(tape: &mut Tape<'_>) -> Value {
    let mut affinity = json!({});
    if tape.one_in(3) {
        affinity["clusterNames"] = json!(tape.some(4, name_of));
    }
    if tape.one_in(4) {
        affinity["exclude"] = json!(tape.some(2, name_of));
    }
    if tape.one_in(3) {
        affinity["labelSelector"] = json!({"matchLabels": labels(tape), "matchExpressions": tape.some(2, expression)});
    }
    if tape.one_in(3) {
        affinity["fieldSelector"] = json!({"matchExpressions": tape.some(2, expression)});
    }
    affinity
}

fn expression(tape: &mut Tape<'_>) -> Value {
    json!({
        "key": tape.pick(&["env", "tier", "provider", "region", "zone", "é", ""]),
        "operator": tape.pick(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Maybe"]),
        "values": tape.some(2, |tape| tape.pick(&["prod", "1", "aws", "north", "north-a", "", "é ∞"])),
    })
}

fn labels(tape: &mut Tape<'_>) -> Value {
    let mut labels = Map::new();
    for key in ["env", "tier"] {
        if tape.one_in(2) {
            labels.insert(key.to_owned(), json!(tape.pick(&["prod", "dev", "1", "2"])));
        }
    }
    Value::Object(labels)
}

fn name_of(tape: &mut Tape<'_>) -> Value {
    json!(format!("m{}", tape.below(10)))
}

const PROVIDERS: [&str; 3] = ["", "aws", "gcp"];
const REGIONS: [&str; 4] = ["", "north", "south", "west"];
const ZONES: [&str; 3] = ["north-a", "north-b", ""];
const TIMES: [&str; 4] =
    ["2024-01-01T00:00:00Z", "2024-01-01T00:00:01Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z"];

/// A number that is mostly small, and now and then at the limit of its type.
fn number(tape: &mut Tape<'_>) -> Value {
    if tape.one_in(16) {
        return json!(tape.pick(&[-1, i64::from(i32::MAX), i64::from(i32::MIN), i64::from(i32::MAX) + 1, i64::MAX]));
    }
    json!(tape.below(12))
}

fn weight(tape: &mut Tape<'_>) -> Value {
    if tape.one_in(8) {
        return json!(tape.pick(&[-1, i64::MAX, i64::MAX / 2, i64::MIN]));
    }
    json!(tape.below(6))
}

fn quantity(tape: &mut Tape<'_>) -> Value {
    if tape.one_in(16) {
        let odd = ["", "-5", "1e999", "9223372036854775807Ei", "0.1n", "five", "-9223372036854775808", "1E", "0x10"];
        return json!(tape.pick(&odd));
    }
    json!(tape.pick(&["0", "1", "500m", "2", "4", "10", "16", "64Gi", "110"]))
}
