//! Runs the hooks of the kinds in the same order as the registry.

use serde_json::{Value, json};

use super::*;
use ballast_k8s::Time;
use ballast_resource::{Given, Resource, ResourceKind};

/// Returns the object as it would be stored, or the errors for which it is rejected.
fn admit<T: Resource>(object: Value, old: Option<&Value>) -> Result<Value, Vec<String>> {
    let kind = ResourceKind::of::<T>();
    let Value::Object(mut object) = object else { panic!("an object") };
    let old = old.map(|old| old.as_object().expect("an object"));
    let found = (kind.inspect)(&kind.schema, &object);
    if !found.errors.is_empty() {
        return Err(found.errors.iter().map(ToString::to_string).collect());
    }
    assert_eq!(kind.schema.prune(&mut object).paths, Vec::<String>::new());
    kind.schema.default(&mut object);
    (kind.prepare)(&mut object, &Given { old, now: Time::from_seconds(0), is_by_client: true });
    let mut faults = kind.schema.validate(&object);
    if faults.is_empty() {
        faults = (kind.validate)(&object, old);
    }
    match faults.is_empty() {
        true => Ok(Value::Object(object)),
        false => Err(faults.iter().map(ToString::to_string).collect()),
    }
}

fn of(spec: Value) -> Value {
    json!({"metadata": {"name": "after-outage"}, "spec": spec})
}

/// Returns the single error of a ClusterRebalance.
#[track_caller]
fn fault(spec: Value) -> String {
    the_one(admit::<ClusterRebalance>(of(spec), None))
}

#[track_caller]
fn the_one(admitted: Result<Value, Vec<String>>) -> String {
    let mut faults = admitted.expect_err("refused");
    assert_eq!(faults.len(), 1, "{faults:#?}");
    faults.remove(0)
}

#[track_caller]
fn accepted(spec: Value) -> Value {
    admit::<ClusterRebalance>(of(spec), None).expect("accepted")["spec"].take()
}

#[test]
fn defaults_are_written_out() {
    let spec = accepted(json!({"select": [{}]}));
    let rollout = json!({"strategy": "Direct", "intervalSeconds": 0, "order": "Priority",
        "settle": {"when": "Healthy", "timeoutSeconds": 600}});
    let expected = json!({"select": [{"all": true}], "mode": "Fresh", "rollout": rollout, "approval": "NotRequired",
        "approved": false, "paused": false, "abort": false});
    assert_eq!(spec, expected);
    let surge = accepted(json!({"select": [{}], "rollout": {"strategy": "SurgeFirst", "maxSurge": 3}}));
    assert_eq!((&surge["rollout"]["minAvailable"], &surge["rollout"]["maxSurge"]), (&json!("90%"), &json!(3)));
}

/// The defaults of the schema and of the type are the same.
#[test]
fn the_type_has_the_schemas_defaults() {
    let stored = accepted(json!({"select": [{}]}));
    let typed = RebalanceSpec { select: vec![SelectEntry::everything()], ..RebalanceSpec::default() };
    assert_eq!(serde_json::to_value(typed).unwrap(), stored);
    let review = of(json!({"select": [{}]}));
    let stored = admit::<PlacementReview>(review, None).unwrap()["spec"].take();
    let typed = ReviewSpec { select: vec![SelectEntry::everything()], ..ReviewSpec::default() };
    assert_eq!(serde_json::to_value(typed).unwrap(), stored);
}

#[test]
fn every_field_of_the_document_is_accepted() {
    let select = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web",
        "labelSelector": {}, "policyRef": {"kind": "PropagationPolicy", "namespace": "shop", "name": "web"},
        "placedOn": ["member2"], "notPlacedOn": ["member1"], "displaced": true}]);
    let limits = json!({"maxMovedReplicas": "20%", "minMovedReplicas": 1, "preserveAvailable": false});
    let rollout = json!({"strategy": "SurgeFirst", "maxConcurrent": "10%", "maxMovingReplicas": 200,
        "maxIncomingPerCluster": 50, "intervalSeconds": 0, "order": "FewestReplicas", "minAvailable": "90%",
        "maxSurge": "100%", "settle": {"when": "Applied", "timeoutSeconds": 600}, "abortOn": {"failed": "10%"}});
    let spec = json!({"select": select, "exclude": [{"name": "db"}], "mode": "Steady", "limits": limits,
        "rollout": rollout, "approval": "Required", "approved": false, "paused": false, "abort": false,
        "ttlSecondsAfterFinished": 3600});
    assert_eq!(accepted(spec.clone()), spec);
    accepted(json!({"undo": {"name": "before"}}));
    let drain = accepted(json!({"drain": {"clusters": ["member3"]}}));
    assert_eq!(drain["drain"], json!({"clusters": ["member3"], "includeDuplicated": false}));
    assert_eq!((&drain["rollout"]["strategy"], &drain["rollout"]["maxSurge"]), (&json!("SurgeFirst"), &json!("100%")));
    let direct = accepted(json!({"drain": {"clusters": ["member3"]}, "rollout": {"strategy": "Direct"}}));
    assert_eq!(direct["rollout"]["strategy"], "Direct");
    accepted(json!({"select": [{"drifted": true}], "mode": "AsBefore", "before": {"revision": "7"}}));
}

#[test]
fn rm30_an_undo_without_bounds_leaves_them_open_and_keeps_those_that_it_has_taken_over() {
    let undo = json!({"undo": {"name": "before"}});
    let spec = accepted(undo.clone());
    assert_eq!((spec.get("rollout"), spec.get("limits")), (None, None), "the server fills them in");
    let taken = json!({"undo": {"name": "before"}, "rollout": {"maxConcurrent": 1}, "limits": {"maxMovedReplicas": 1}});
    let stored = admit::<ClusterRebalance>(of(taken), None).unwrap();
    let again = admit::<ClusterRebalance>(of(undo), Some(&stored)).unwrap();
    assert_eq!(again["spec"], stored["spec"], "a writer that does not repeat them changes nothing");
}

#[test]
fn exactly_one_of_select_and_undo_is_given() {
    let needed = "spec.select: Required value: select workloads, or name a rebalance in undo, or clusters in drain; \
                  everything in scope is select: [{all: true}]";
    assert_eq!(fault(json!({})), needed);
    assert_eq!(fault(json!({"select": []})), needed);
    assert_eq!(
        fault(json!({"select": [{}], "undo": {"name": "x"}})),
        "spec.undo: Forbidden: exactly one of select, undo and drain can be given"
    );
    assert_eq!(
        fault(json!({"undo": {"name": "after-outage"}})),
        "spec.undo.name: Invalid value: \"after-outage\": a rebalance cannot undo itself"
    );
    assert!(fault(json!({"undo": {"name": "x"}, "exclude": [{"name": "db"}]})).starts_with("spec.exclude: Forbidden"));
}

#[test]
fn selections_that_contradict_themselves_are_refused() {
    assert_eq!(
        fault(json!({"select": [{"placedOn": ["m1", "m2"], "notPlacedOn": ["m3", "m2"]}]})),
        "spec.select[0].notPlacedOn[1]: Invalid value: \"m2\": is in placedOn, too: no binding fulfils both"
    );
    assert_eq!(
        fault(json!({"select": [{}], "exclude": [{"name": "a"}, {}]})),
        "spec.exclude[1]: Invalid value: {}: the entry excludes everything, so nothing is selected"
    );
    assert_eq!(
        fault(json!({"select": [{"name": "a"}], "exclude": [{"name": "a"}]})),
        "spec.exclude[0]: Invalid value: {\"name\":\"a\"}: excludes everything that spec.select[0] selects"
    );
}

#[test]
fn an_entry_without_a_condition_must_select_all() {
    assert_eq!(accepted(json!({"select": [{}]}))["select"], json!([{"all": true}]), "as before the field existed");
    accepted(json!({"select": [{"all": true}]}));
    accepted(json!({"select": [{"all": false, "name": "a"}]}));
    let no_condition = "has no condition; an entry that selects everything in scope is all: true";
    for entry in [
        json!({"labelSelector": {}}),
        json!({"labelSelector": {"matchLabels": {}}}),
        json!({"kind": "", "namespace": ""}),
        json!({"displaced": null}),
        json!({"placedOn": []}),
        json!({"all": false}),
        json!({"all": null}),
    ] {
        let of_select = fault(json!({"select": [entry]}));
        assert_eq!(of_select, format!("spec.select[0]: Invalid value: {entry}: {no_condition}"));
        let review = admit::<PlacementReview>(of(json!({"select": [entry]})), None);
        assert!(the_one(review).ends_with(no_condition), "{entry}");
        let template = json!({"schedule": "0 3 * * *", "template": {"spec": {"select": [entry]}}});
        let schedule = admit::<RebalanceSchedule>(json!({"metadata": {"name": "nightly"}, "spec": template}), None);
        assert!(the_one(schedule).starts_with("spec.template.spec.select[0]: Invalid value"), "{entry}");
    }
    assert_eq!(
        fault(json!({"select": [{"all": true, "name": "a"}]})),
        "spec.select[0].all: Invalid value: true: selects everything in scope: no other field of the entry can be given"
    );
    assert!(fault(json!({"select": [{"all": true, "labelSelector": {}}]})).starts_with("spec.select[0].all"));
    let everything = json!({"select": [{"name": "a"}], "exclude": [{"all": true}]});
    assert!(fault(everything).ends_with("the entry excludes everything, so nothing is selected"));
}

#[test]
fn an_empty_entry_is_warned_about() {
    let kind = ResourceKind::of::<ClusterRebalance>();
    let warnings = |spec: Value| (kind.inspect)(&kind.schema, of(spec).as_object().unwrap()).warnings;
    assert_eq!(
        warnings(json!({"select": [{"name": "a"}, {}]})),
        ["spec.select[1]: an empty entry selects everything in scope; write all: true"]
    );
    assert_eq!(warnings(json!({"select": [{"all": true}]})), [""; 0]);
}

#[test]
fn an_object_with_an_empty_entry_from_before_can_be_changed() {
    let mut stored = admit::<ClusterRebalance>(of(json!({"select": [{}]})), None).unwrap();
    stored["spec"]["select"] = json!([{}]);
    let mut paused = stored.clone();
    paused["spec"]["paused"] = json!(true);
    assert_eq!(admit::<ClusterRebalance>(paused, Some(&stored)).unwrap()["spec"]["select"], json!([{"all": true}]));
}

#[test]
fn an_unknown_field_of_a_specification_is_refused() {
    let gate = json!({"name": "smoke", "webhook": {"url": "https://a"}, "onFailur": "Undo"});
    for (spec, path, nearest) in [
        (json!({"select": [{"displacd": true}]}), "select[0].displacd", "displaced"),
        (json!({"exclud": [{"name": "a"}]}), "exclud", "exclude"),
        (json!({"rollout": {"stratgy": "SurgeFirst"}}), "rollout.stratgy", "strategy"),
        (json!({"rollout": {"gates": [gate]}}), "rollout.gates[0].onFailur", "onFailure"),
        (json!({"objective": {"goal": "Pack", "maxMovedReplica": 1}}), "objective.maxMovedReplica", "maxMovedReplicas"),
        (json!({"limits": {"maxMovedReplcas": 1}}), "limits.maxMovedReplcas", "maxMovedReplicas"),
        (json!({"undo": {"name": "a", "cluster": ["m"]}}), "undo.cluster", "clusters"),
        (
            json!({"drain": {"clusters": ["m"], "includeDuplicates": true}}),
            "drain.includeDuplicates",
            "includeDuplicated",
        ),
    ] {
        let expected =
            |at: &str| format!("{at}.{path}: Forbidden: unknown field; the nearest known field is {nearest:?}");
        let name = json!({"name": "nightly", "namespace": "shop"});
        assert_eq!(fault(spec.clone()), expected("spec"));
        assert_eq!(the_one(admit::<Rebalance>(json!({"metadata": name, "spec": spec}), None)), expected("spec"));
        let template = json!({"schedule": "0 3 * * *", "template": {"spec": spec}});
        let schedule = admit::<RebalanceSchedule>(json!({"metadata": {"name": "nightly"}, "spec": template}), None);
        assert_eq!(the_one(schedule), expected("spec.template.spec"));
    }
    let review = |spec: Value| the_one(admit::<PlacementReview>(of(spec), None));
    assert!(review(json!({"select": [{"placedon": ["m"]}]})).ends_with(r#"the nearest known field is "placedOn""#));
    let on = json!({"on": {"clusterRecovered": {"clusterSelectr": {}}}, "template": {"spec": {"select": [{}]}}});
    let schedule = admit::<RebalanceSchedule>(json!({"metadata": {"name": "nightly"}, "spec": on}), None);
    assert!(the_one(schedule).starts_with("spec.on.clusterRecovered.clusterSelectr: Forbidden: unknown field"));
}

#[test]
fn entries_are_checked_field_by_field() {
    let entry = |entry: Value| fault(json!({"select": [{}, entry]}));
    assert!(entry(json!({"apiVersion": "a/b/c"})).starts_with("spec.select[1].apiVersion: Invalid value: \"a/b/c\""));
    assert!(entry(json!({"namespace": "No"})).starts_with("spec.select[1].namespace: Invalid value: \"No\""));
    assert!(entry(json!({"placedOn": ["A"]})).starts_with("spec.select[1].placedOn[0]: Invalid value: \"A\""));
    let selector = json!({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "In"}]}});
    assert!(entry(selector).starts_with("spec.select[1].labelSelector.matchExpressions[0].values: Required value"));
    let selector = json!({"labelSelector": {"matchLabels": {"app": "-"}}});
    assert!(entry(selector).starts_with("spec.select[1].labelSelector.matchLabels[app]: Invalid value: \"-\""));
    let policy = |policy: Value| entry(json!({"policyRef": policy}));
    assert_eq!(
        policy(json!({"kind": "Policy", "name": "p"})),
        "spec.select[1].policyRef.kind: Unsupported value: \"Policy\": supported values: \"PropagationPolicy\", \
         \"ClusterPropagationPolicy\""
    );
    assert!(policy(json!({"kind": "PropagationPolicy", "name": "p"})).contains("policyRef.namespace: Required"));
    let of_cluster = json!({"kind": "ClusterPropagationPolicy", "name": "p", "namespace": "shop"});
    assert!(policy(of_cluster).contains("policyRef.namespace: Forbidden"));
}

#[test]
fn a_namespaced_object_means_its_own_namespace() {
    let own = |entry: Value| json!({"metadata": {"name": "r", "namespace": "shop"}, "spec": {"select": [entry]}});
    let expected = "spec.select[0].namespace: Forbidden: a namespaced object selects only in its own namespace";
    assert_eq!(the_one(admit::<Rebalance>(own(json!({"namespace": "bank"})), None)), expected);
    assert_eq!(the_one(admit::<LocalPlacementReview>(own(json!({"namespace": "bank"})), None)), expected);
    // SG12: the own namespace is redundant but allowed.
    admit::<Rebalance>(own(json!({"namespace": "shop"})), None).unwrap();
    admit::<LocalPlacementReview>(own(json!({"namespace": "shop"})), None).unwrap();
    let supposed = |namespace: &str| {
        let workloads = json!([{"kind": "Deployment", "namespace": namespace, "name": "web", "replicas": 2}]);
        let spec = json!({"suppose": {"workloads": workloads}});
        admit::<LocalPlacementReview>(json!({"metadata": {"name": "r", "namespace": "shop"}, "spec": spec}), None)
    };
    supposed("shop").unwrap();
    assert!(the_one(supposed("bank")).contains("spec.suppose.workloads[0].namespace: Forbidden"));
    admit::<Rebalance>(own(json!({"policyRef": {"kind": "PropagationPolicy", "name": "p"}})), None).unwrap();
}

#[test]
fn amounts_are_numbers_or_percentages_that_mean_something() {
    let limit = |name: &str, amount: Value| fault(json!({"select": [{}], "limits": {name: amount}}));
    let rollout = |name: &str, amount: Value| fault(json!({"select": [{}], "rollout": {name: amount}}));
    for (amount, told) in [
        (json!(-1), "-1: must be greater than or equal to 1"),
        (json!(0), "0: must be greater than or equal to 1"),
        (json!(2_000_000_000), "2000000000: must be less than or equal to 1000000000"),
        (json!("0%"), "\"0%\": must be greater than 0%"),
    ] {
        assert_eq!(
            limit("maxMovedReplicas", amount.clone()),
            format!("spec.limits.maxMovedReplicas: Invalid value: {told}")
        );
        assert_eq!(
            rollout("maxConcurrent", amount.clone()),
            format!("spec.rollout.maxConcurrent: Invalid value: {told}")
        );
        let path = "spec.rollout.abortOn.failed";
        assert_eq!(rollout("abortOn", json!({"failed": amount})), format!("{path}: Invalid value: {told}"));
    }
    for text in ["101%", "-5%", "5", "1.5%", "9999999999999%", "%", "ten"] {
        let told = format!("{text:?}: spec.rollout.minAvailable in body should match '^(100|[0-9]{{1,2}})%$'");
        assert_eq!(rollout("minAvailable", json!(text)), format!("spec.rollout.minAvailable: Invalid value: {told}"));
    }
    assert!(limit("maxMovedReplicas", json!(1.5)).contains("spec.limits.maxMovedReplicas in body must be of type"));
    assert!(limit("maxMovedReplicas", json!(u64::MAX)).contains("must be less than or equal to"));
    assert!(rollout("maxMovingReplicas", json!(0)).contains("should be greater than or equal to 1"));
    assert!(rollout("maxIncomingPerCluster", json!(-7)).contains("should be greater than or equal to 1"));
    assert!(rollout("intervalSeconds", json!(86401)).contains("should be less than or equal to 86400"));
    assert!(rollout("settle", json!({"timeoutSeconds": 0})).contains("should be greater than or equal to 1"));
    let limits = json!({"maxMovedReplicas": 2, "minMovedReplicas": 3});
    assert!(
        fault(json!({"select": [{}], "limits": limits})).starts_with("spec.limits.minMovedReplicas: Invalid value: 3")
    );
}

#[test]
fn lists_are_bounded() {
    let entries = |count: usize| vec![json!({}); count];
    assert_eq!(fault(json!({"select": entries(101)})), "spec.select: Too many: 101: must have at most 100 items");
    accepted(json!({"select": entries(100)}));
    let clusters: Vec<Value> = (0..1001).map(|at| json!({"name": format!("m{at}"), "absent": true})).collect();
    let review = of(json!({"select": [{}], "suppose": {"clusters": clusters}, "limit": 10_001}));
    let faults = admit::<PlacementReview>(review, None).unwrap_err();
    assert_eq!(faults[0], "spec.suppose.clusters: Too many: 1001: must have at most 1000 items");
    assert!(faults[1].starts_with("spec.limit: Invalid value: 10001"), "{faults:?}");
}

#[test]
fn only_four_fields_change_after_creation() {
    let stored = admit::<ClusterRebalance>(of(json!({"select": [{}], "approval": "Required"})), None).unwrap();
    let change = |name: &str, value: Value| {
        let mut changed = stored.clone();
        changed["spec"][name] = value;
        admit::<ClusterRebalance>(changed, Some(&stored))
    };
    for (name, value) in [("approved", json!(true)), ("paused", json!(true)), ("abort", json!(true))] {
        change(name, value).unwrap();
    }
    change("ttlSecondsAfterFinished", json!(5)).unwrap();
    for (name, value) in [
        ("select", json!([{"name": "a"}])),
        ("exclude", json!([{"name": "a"}])),
        ("mode", json!("Steady")),
        ("limits", json!({"maxMovedReplicas": 1})),
        ("rollout", json!({"maxConcurrent": 1})),
        ("approval", json!("NotRequired")),
    ] {
        let told = the_one(change(name, value));
        assert!(told.starts_with(&format!("spec.{name}: Forbidden: cannot change after creation")), "{told}");
    }
}

#[test]
fn bd8_an_approval_and_an_abort_stay() {
    let stored = of(json!({"select": [{}], "approved": true, "abort": true}));
    let changed = of(json!({"select": [{}]}));
    assert_eq!(
        admit::<ClusterRebalance>(changed, Some(&stored)).unwrap_err(),
        ["spec.approved: Invalid value: false: cannot be unset", "spec.abort: Invalid value: false: cannot be unset"]
    );
}

#[test]
fn the_name_fits_into_a_label_and_before_a_dot() {
    let named =
        |name: &str| admit::<ClusterRebalance>(json!({"metadata": {"name": name}, "spec": {"select": [{}]}}), None);
    named(&"a".repeat(63)).unwrap();
    assert!(
        the_one(named(&"a".repeat(64)))
            .ends_with("must be no more than 63 bytes: it is the value of a label of its moves")
    );
    assert!(the_one(named("a.b")).starts_with("metadata.name: Invalid value: \"a.b\": must not contain a dot"));
}

#[test]
fn fields_without_effect_are_warned_of() {
    let kind = ResourceKind::of::<ClusterRebalance>();
    let warnings = |spec: Value| (kind.advise)(of(accepted(spec)).as_object().unwrap());
    let rollout = json!({"minAvailable": "50%", "maxSurge": 1});
    assert_eq!(
        warnings(json!({"select": [{}], "rollout": rollout})),
        ["minAvailable", "maxSurge"]
            .map(|name| format!("spec.rollout.{name} has no effect: the strategy is Direct, not SurgeFirst"))
    );
    assert!(warnings(json!({"select": [{}], "rollout": {"strategy": "SurgeFirst"}})).is_empty());
}

fn schedule(spec: Value) -> Result<Value, Vec<String>> {
    let mut spec = spec;
    spec["template"] = json!({"spec": {"select": [{}]}});
    admit::<RebalanceSchedule>(json!({"metadata": {"name": "nightly"}, "spec": spec}), None)
}

#[test]
fn schedules_have_the_defaults_of_cron_jobs() {
    let spec = schedule(json!({"schedule": "0 3 * * 6", "timeZone": "Europe/Berlin"})).unwrap()["spec"].take();
    assert_eq!((&spec["suspend"], &spec["concurrencyPolicy"]), (&json!(false), &json!("Allow")));
    assert_eq!((&spec["successfulHistoryLimit"], &spec["failedHistoryLimit"]), (&json!(3), &json!(1)));
    assert_eq!(spec["template"]["spec"]["rollout"]["settle"]["timeoutSeconds"], 600);
    let on = schedule(json!({"on": {"clusterRecovered": {}}})).unwrap();
    assert_eq!(on["spec"]["on"]["clusterRecovered"]["stableForSeconds"], 600);
    assert_eq!(
        (&on["spec"]["template"]["spec"]["mode"], &spec["template"]["spec"]["mode"]),
        (&json!("AsBefore"), &json!("Fresh"))
    );
}

#[test]
fn a_schedule_has_a_line_or_an_event() {
    let line = "0 3 * * *";
    assert!(the_one(schedule(json!({}))).starts_with("spec.schedule: Required value"));
    let both = json!({"schedule": line, "on": {"clusterRecovered": {}}});
    assert!(the_one(schedule(both)).starts_with("spec.on: Forbidden: exactly one of schedule and on"));
    assert_eq!(the_one(schedule(json!({"on": {}}))), "spec.on.clusterRecovered: Required value");
    let zone = json!({"schedule": line, "timeZone": "Europe/Atlantis"});
    assert!(
        the_one(schedule(zone)).starts_with("spec.timeZone: Invalid value: \"Europe/Atlantis\": unknown time zone")
    );
    let zone = json!({"on": {"clusterRecovered": {}}, "timeZone": "Europe/Berlin"});
    assert_eq!(the_one(schedule(zone)), "spec.timeZone: Forbidden: belongs to schedule");
    let never_stable = json!({"on": {"clusterRecovered": {"stableForSeconds": -1}}});
    assert!(the_one(schedule(never_stable)).contains("stableForSeconds in body should be greater than or equal to 0"));
}

#[test]
fn a_schedules_name_and_template_are_fit_for_cluster_rebalances() {
    let named = |name: &str, template: Value| {
        let spec = json!({"schedule": "0 3 * * *", "template": template});
        admit::<RebalanceSchedule>(json!({"metadata": {"name": name}, "spec": spec}), None)
    };
    let template = json!({"spec": {"select": [{}]}});
    named(&"a".repeat(52), template.clone()).unwrap();
    assert!(the_one(named(&"a".repeat(53), template.clone())).ends_with("must be no more than 52 characters"));
    assert!(the_one(named("a.b", template)).contains("must not contain a dot"));
    let bad = json!({"metadata": {"labels": {"a": "-"}}, "spec": {"select": [{}]}});
    assert!(the_one(named("a", bad)).starts_with("spec.template.metadata.labels[a]: Invalid value: \"-\""));
    let bad = json!({"spec": {"select": [{"placedOn": ["m"], "notPlacedOn": ["m"]}], "abort": true}});
    let faults = named("a", bad).unwrap_err();
    assert!(faults[0].starts_with("spec.template.spec.select[0].notPlacedOn[0]: Invalid value"), "{faults:?}");
    assert!(faults[1].starts_with("spec.template.spec.abort: Invalid value: true"), "{faults:?}");
}

fn review(spec: Value) -> Result<Value, Vec<String>> {
    admit::<PlacementReview>(of(spec), None)
}

#[test]
fn a_review_asks_about_something() {
    assert!(the_one(review(json!({}))).starts_with("spec.select: Required value"));
    let workloads = json!([{"kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 20}]);
    review(json!({"select": [], "suppose": {"workloads": workloads}})).unwrap();
    for as_of in [json!({}), json!({"revision": "1", "time": "2024-04-17T15:04:05Z"})] {
        let told = the_one(review(json!({"select": [{}], "asOf": as_of})));
        assert_eq!(told, "spec.asOf: Required value: exactly one of revision and time must be given");
    }
    assert!(the_one(review(json!({"select": [{}], "asOf": {"revision": "-1"}}))).contains("spec.asOf.revision"));
    let nothing_moves = json!({"select": [{}], "mode": "AsIs", "limits": {"maxMovedReplicas": 1}});
    assert_eq!(the_one(review(nothing_moves)), "spec.limits: Forbidden: with mode AsIs nothing moves");
}

#[test]
fn what_is_supposed_of_a_cluster_is_one_thing() {
    let suppose = |clusters: Value| review(json!({"select": [{}], "suppose": {"clusters": clusters}}));
    let path = "spec.suppose.clusters";
    suppose(json!([{"name": "member1", "absent": true}, {"name": "new", "like": "member2"},
        {"name": "member3", "taints": [{"key": "x", "effect": "NoExecute"}], "labels": {}, "allocatable": {"cpu": "400"}},
        {"name": "member4", "taints": []}]))
    .unwrap();
    assert!(the_one(suppose(json!([{"name": "m"}]))).starts_with(&format!("{path}[0]: Required value: say what")));
    let both = json!([{"name": "m", "absent": true, "taints": []}]);
    assert_eq!(the_one(suppose(both)), format!("{path}[0].taints: Forbidden: an absent cluster has none"));
    let twice = json!([{"name": "m", "absent": true}, {"name": "m", "absent": true}]);
    assert_eq!(the_one(suppose(twice)), format!("{path}[1].name: Duplicate value: \"m\""));
    assert!(the_one(suppose(json!([{"name": "m", "like": "m"}]))).starts_with(&format!("{path}[0].like")));
    let amount = |amount: &str| suppose(json!([{"name": "m", "allocatable": {"cpu": amount}}]));
    let told = the_one(amount("-1"));
    assert_eq!(told, format!("{path}[0].allocatable[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"));
    let taint = json!([{"name": "m", "taints": [{"key": "x", "effect": "Never"}]}]);
    assert!(the_one(suppose(taint)).starts_with(&format!("{path}[0].taints[0].effect: Unsupported value: \"Never\"")));
}

#[test]
fn what_is_supposed_of_a_workload_is_said_once() {
    let web = json!({"kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 2});
    let suppose = |workloads: Value| review(json!({"suppose": {"workloads": workloads}}));
    assert!(the_one(suppose(json!([web, web]))).starts_with("spec.suppose.workloads[1]: Duplicate value"));
    let mut negative = web.clone();
    negative["replicas"] = json!(-2);
    assert!(the_one(suppose(json!([negative]))).contains("replicas in body should be greater than or equal to 0"));
    let local = json!({"metadata": {"namespace": "bank"}, "spec": {"suppose": {"workloads": [web]}}});
    let told = the_one(admit::<LocalPlacementReview>(local, None));
    assert!(told.starts_with("spec.suppose.workloads[0].namespace: Forbidden"), "{told}");
}
