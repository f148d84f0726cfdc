//! Properties of field sets, checked against plain lists of paths, and the wire format.

use std::collections::BTreeSet;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::Time;

type Plain = BTreeSet<Path>;

fn element() -> impl Strategy<Value = Element> {
    let key = |name: &str| Element::keys(Map::from_iter([("name".to_owned(), Value::from(name))]));
    prop_oneof![
        (0..4usize).prop_map(|n| Element::field(["spec", "status", "a.b", "."][n])),
        (0..2usize).prop_map(move |n| key(["x", "y"][n])),
        (0..2usize).prop_map(|n| Element::value(&[json!("tcp"), json!(7)][n])),
    ]
}

fn plain() -> impl Strategy<Value = Plain> {
    btree_set(vec(element(), 1..5).prop_map(Path), 0..12)
}

fn set(plain: &Plain) -> FieldSet {
    let mut set = FieldSet::default();
    plain.iter().for_each(|path| set.insert(&path.0));
    set
}

fn back(set: &FieldSet) -> Plain {
    set.paths().into_iter().collect()
}

proptest! {
    #[test]
    fn a_set_of_fields_is_a_set_of_paths(a in plain(), b in plain()) {
        let (one, two) = (set(&a), set(&b));
        prop_assert_eq!(back(&one), a.clone());
        prop_assert_eq!(back(&one.union(&two)), a.union(&b).cloned().collect::<Plain>());
        prop_assert_eq!(back(&one.intersection(&two)), a.intersection(&b).cloned().collect::<Plain>());
        prop_assert_eq!(back(&one.difference(&two)), a.difference(&b).cloned().collect::<Plain>());
        prop_assert_eq!(one == two, a == b);
        prop_assert!(a.iter().all(|path| one.contains(&path.0)));
        prop_assert!(b.difference(&a).all(|path| !one.contains(&path.0)));
    }

    #[test]
    fn sets_obey_their_laws(a in plain(), b in plain(), c in plain()) {
        let (a, b, c) = (set(&a), set(&b), set(&c));
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.intersection(&b.union(&c)), a.intersection(&b).union(&a.intersection(&c)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&a).is_empty());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
    }

    #[test]
    fn the_wire_form_keeps_every_path(a in plain(), b in plain()) {
        let (a, b) = (set(&a), set(&b));
        prop_assert_eq!(FieldSet::from_fields_v1(&a.to_fields_v1()).unwrap(), a.clone());
        prop_assert_eq!(a.meets(&b.to_fields_v1()), !a.intersection(&b).is_empty());
        prop_assert_eq!(a.is_within(&b.to_fields_v1()), a.difference(&b).is_empty());
        prop_assert!(a.is_within(&a.union(&b).to_fields_v1()));
    }
}

#[test]
fn ap4_elements_are_written_as_upstream_writes_them() {
    let wire = json!({
        "f:spec": {
            ".": {},
            "f:workloads": {"k:{\"name\":\"web\",\"port\":80}": {".": {}, "f:port": {}}},
            "f:zones": {"v:\"a\"": {}, "v:7": {}},
            "f:rest": {"i:3": {}},
        },
    });
    let Value::Object(wire) = wire else { unreachable!() };
    let set = FieldSet::from_fields_v1(&wire).unwrap();
    let shown: Vec<String> = set.paths().iter().map(ToString::to_string).collect();
    let expected = [
        ".spec",
        ".spec.rest[3]",
        ".spec.workloads[name=\"web\",port=80]",
        ".spec.workloads[name=\"web\",port=80].port",
        ".spec.zones[=\"a\"]",
        ".spec.zones[=7]",
    ];
    assert_eq!(shown, expected);
    assert_eq!(set.to_fields_v1(), wire);
}

#[test]
fn ap4_one_element_has_one_spelling() {
    let unsorted = "k:{\"port\": 80, \"name\":\"\\u0061\"}";
    let Value::Object(wire) = json!({unsorted: {}}) else { unreachable!() };
    let set = FieldSet::from_fields_v1(&wire).unwrap();
    assert_eq!(Value::from(set.to_fields_v1()), json!({"k:{\"name\":\"a\",\"port\":80}": {}}));
}

#[test]
fn what_is_no_set_of_fields_is_refused() {
    for wire in [json!({"x": {}}), json!({"f:a": 1}), json!({"k:[1]": {}}), json!({"i:x": {}}), json!({"é": {}})] {
        let Value::Object(wire) = wire else { unreachable!() };
        assert!(FieldSet::from_fields_v1(&wire).is_err(), "{wire:?}");
    }
}

fn manager(name: &str, operation: Operation) -> Manager {
    Manager { operation, name: name.to_owned(), subresource: String::new() }
}

#[test]
fn what_a_manager_sets_again_is_its_own_without_being_worked_out() {
    let (me, now) = (manager("me", Operation::Update), Time::from_seconds(7));
    let wire = |fields: Value| {
        json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
        "manager": "me", "operation": "Update", "time": "1970-01-01T00:00:05Z"})
    };
    let stored = || ManagedFields::decode(vec![wire(json!({"f:a": {}, "f:b": {".": {}, "f:c": {}}}))], "v1").unwrap();
    let none = FieldSet::default();
    let mut managed = stored();
    assert!(managed.renew(&me, &named(&["a", "b"]), &named(&["x"]), now));
    assert_eq!(managed.find(&me).unwrap().time, Some(now));
    assert!(managed.differs_only_in_times(&stored()));
    for (written, removed) in [(named(&["a", "x"]), none.clone()), (named(&["a"]), named(&["b"]))] {
        let mut managed = stored();
        assert!(!managed.renew(&me, &written, &removed, now));
        assert!(!managed.renew(&manager("you", Operation::Update), &named(&["a"]), &none, now));
        assert_eq!(managed, stored());
    }
}

fn named(names: &[&str]) -> FieldSet {
    let mut set = FieldSet::default();
    names.iter().for_each(|name| set.insert(&[Element::field(name)]));
    set
}

#[test]
fn ap11_appliers_come_first_then_the_oldest() {
    let mut managed = ManagedFields::default();
    let time = Time::from_seconds;
    managed.set(&manager("late", Operation::Update), "g/v1", named(&["a"]), time(9));
    managed.set(&manager("b", Operation::Update), "g/v1", named(&["b"]), time(1));
    managed.set(&manager("a", Operation::Update), "g/v1", named(&["c"]), time(1));
    managed.set(&manager("z", Operation::Apply), "g/v1", named(&["d"]), time(99));
    let list = managed.encode().unwrap();
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|entry| entry["manager"].as_str().unwrap()).collect();
    assert_eq!(names, ["z", "a", "b", "late"]);
    let first = json!({"manager": "z", "operation": "Apply", "apiVersion": "g/v1", "time": "1970-01-01T00:01:39Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:d": {}}});
    assert_eq!(list[0], first);
}

#[test]
fn ap12_the_oldest_of_many_updaters_are_joined() {
    let mut managed = ManagedFields::default();
    for n in 0..15 {
        let fields = named(&[&format!("f{n}")]);
        managed.set(&manager(&format!("m{n:02}"), Operation::Update), "g/v1", fields, Time::from_seconds(n));
    }
    managed.set(&manager("applier", Operation::Apply), "g/v1", named(&["x"]), Time::from_seconds(0));
    let list = managed.encode().unwrap();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 11);
    let ancient = list.iter().find(|entry| entry["manager"] == "ancient-changes").unwrap();
    assert_eq!(ancient["fieldsV1"].as_object().unwrap().len(), 6);
    assert_eq!(ancient["time"], "1970-01-01T00:00:05Z");
}

#[test]
fn ap22_entries_of_other_versions_and_malformed_lists() {
    let entry = |version: &str| {
        json!({"manager": "m", "operation": "Update", "apiVersion": version,
        "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}})
    };
    let managed = ManagedFields::decode(vec![entry("g/v1"), entry("g/v2")], "g/v1").unwrap();
    assert_eq!(managed.iter().count(), 1);
    for (member, value) in [
        ("operation", json!("Delete")),
        ("fieldsType", json!("FieldsV2")),
        ("fieldsV1", json!([])),
        ("time", json!("yesterday")),
        ("manager", json!("m".repeat(129))),
    ] {
        let mut entry = entry("g/v1");
        entry[member] = value;
        assert!(ManagedFields::decode(vec![entry], "g/v1").is_err(), "{member}");
    }
}

#[test]
fn ap7_what_is_taken_is_taken_from_all_others() {
    let (one, two) = (manager("one", Operation::Apply), manager("two", Operation::Update));
    let mut managed = ManagedFields::default();
    managed.set(&one, "g/v1", named(&["a", "b"]), Time::from_seconds(1));
    managed.set(&two, "g/v1", named(&["a"]), Time::from_seconds(1));
    let before = managed.clone();
    managed.take_from_others(&one, &named(&["a"])).unwrap();
    assert!(managed.find(&two).is_none(), "an empty entry goes");
    assert_eq!(managed.find(&one).unwrap().fields().unwrap(), named(&["a", "b"]));
    assert!(!managed.differs_only_in_times(&before));
    let mut later = managed.clone();
    later.set(&one, "g/v1", named(&["a", "b"]), Time::from_seconds(2));
    assert!(managed.differs_only_in_times(&later) && managed != later);
}
