//! Values of a made-up kind with one field of every sort, and the laws that relate the five
//! operations.
#![allow(dead_code)]

use std::collections::BTreeMap;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::super::schema::Schema;
use super::super::schema::mark::{Atomic, AtomicList, Keyed, MapList, Opaque, SetList};
use super::*;
use ballast_k8s::fields::FieldSet;
use ballast_k8s::{Edit, Parts as PartsOfText};

#[derive(Serialize, Deserialize, ToSchema)]
struct Orchard {
    spec: Option<OrchardSpec>,
}

#[derive(Serialize, Deserialize, ToSchema)]
struct OrchardSpec {
    size: Option<i64>,
    #[serde(default)]
    #[schema(value_type = MapList<Tree_>)]
    trees: Vec<Tree_>,
    #[serde(default)]
    #[schema(value_type = SetList<String>)]
    paths: Vec<String>,
    #[serde(default)]
    #[schema(value_type = AtomicList<String>)]
    order: Vec<String>,
    #[serde(default)]
    signs: BTreeMap<String, String>,
    #[schema(value_type = Option<Atomic<Gate>>)]
    gate: Option<Gate>,
    pond: Option<Gate>,
    #[schema(value_type = Option<Opaque>)]
    notes: Option<Value>,
}

/// A tree.
#[derive(Serialize, Deserialize, ToSchema)]
struct Tree_ {
    kind: String,
    #[schema(default = 1)]
    row: Option<i64>,
    fruit: Option<String>,
}

impl Keyed for Tree_ {
    const KEYS: &'static [&'static str] = &["kind", "row"];
}

#[derive(Serialize, Deserialize, ToSchema)]
struct Gate {
    wide: Option<bool>,
    colour: Option<String>,
}

fn schema() -> Schema {
    Schema::of::<Orchard>()
}

fn tree(value: Value) -> Tree {
    let Value::Object(tree) = value else { panic!("not an object") };
    tree
}

fn shown(set: &FieldSet) -> Vec<String> {
    set.paths().iter().map(ToString::to_string).collect()
}

fn letter() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("c")].prop_map(str::to_owned)
}

fn gate() -> impl Strategy<Value = Value> {
    (option::of(any::<bool>()), option::of(letter())).prop_map(|(wide, colour)| {
        present(json!({
            "wide": wide, "colour": colour,
        }))
    })
}

/// Returns the value without null members.
fn present(value: Value) -> Value {
    match value {
        Value::Object(members) => members.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        other => other,
    }
}

prop_compose! {
    fn orchard()(
        size in option::of(0..3i64),
        trees in option::of(btree_map((letter(), 1..3i64), option::of(letter()), 0..4)),
        paths in option::of(btree_set(letter(), 0..3)),
        order in option::of(vec(letter(), 0..3)),
        signs in option::of(btree_map(letter(), letter(), 0..3)),
        gate in option::of(gate()),
        pond in option::of(gate()),
        notes in option::of(btree_map(letter(), prop_oneof![
            letter().prop_map(Value::from),
            vec(0..3i32, 0..2).prop_map(|list| json!(list)),
            btree_map(letter(), 0..3i32, 0..2).prop_map(|map| json!(map)),
        ], 0..3)),
    ) -> Tree {
        let trees = trees.map(|trees| trees.into_iter().map(|((kind, row), fruit)| {
            present(json!({"kind": kind, "row": row, "fruit": fruit}))
        }).collect::<Vec<Value>>());
        tree(json!({"spec": present(json!({
            "size": size, "trees": trees, "paths": paths, "order": order, "signs": signs, "gate": gate,
            "pond": pond, "notes": notes,
        }))}))
    }
}

/// Values of any shape: nulls, empty ones, duplicates, items without keys, names to be escaped.
fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        letter().prop_map(Value::from),
        (0..2i64).prop_map(Value::from),
        vec(letter(), 0..3).prop_map(|list| json!(list)),
        btree_map(letter(), 0..2i64, 0..3).prop_map(|map| json!(map)),
        letter().prop_map(|kind| json!({"kind": kind, "fruit": {"\"\\": [1], "\u{1}": null, "e": {}}})),
        (letter(), 1..3i64).prop_map(|(kind, row)| json!({"kind": kind, "row": row, "fruit": "f"})),
    ]
}

/// Sorts the items of lists by name, so that the order does not matter in comparisons.
fn ordered(mut object: Tree) -> Tree {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        for name in ["trees", "paths"] {
            if let Some(Value::Array(list)) = spec.get_mut(name) {
                list.sort_by_key(ToString::to_string);
            }
        }
    }
    object
}

proptest! {
    #[test]
    fn a_value_laid_over_itself_is_itself(a in orchard()) {
        prop_assert_eq!(schema().merge(a.clone(), &a), a.clone());
        prop_assert!(schema().compare(&a, &a).is_empty());
        prop_assert!(schema().check_config(&a).is_empty());
    }

    #[test]
    fn laying_over_twice_is_laying_over_once(live in orchard(), config in orchard()) {
        let once = schema().merge(live, &config);
        prop_assert_eq!(schema().merge(once.clone(), &config), once);
    }

    #[test]
    fn what_is_laid_over_is_there_afterwards(live in orchard(), config in orchard()) {
        let merged = schema().merge(live, &config);
        let wanted = schema().fields_of(&config);
        // An empty container does not change a full one.
        let lost: Vec<String> = shown(&wanted.difference(&schema().fields_of(&merged)));
        let is_empty =
            |path: &String| path == ".spec" || ["pond", "notes", "signs"].iter().any(|name| path.contains(name));
        prop_assert!(lost.iter().all(is_empty), "{:?}", lost);
        let changed = schema().compare(&merged, &config).modified;
        prop_assert!(changed.intersection(&wanted).is_empty(), "{:?}", changed);
    }

    #[test]
    fn the_fields_of_a_value_are_what_nothing_lacks(a in orchard()) {
        let comparison = schema().compare(&Tree::new(), &a);
        let fields = schema().fields_of(&a);
        prop_assert!(fields.difference(&comparison.added).is_empty());
        // All others are the structs, maps and lists that contain the fields.
        let rest = shown(&comparison.added.difference(&fields));
        let is_container = |path: &String| [".spec", ".spec.trees", ".spec.paths", ".spec.signs", ".spec.pond",
            ".spec.notes"].contains(&path.as_str());
        prop_assert!(rest.iter().all(is_container), "{:?}", rest);
        prop_assert!(comparison.modified.is_empty() && comparison.removed.is_empty());
    }

    #[test]
    fn the_text_of_a_new_value_is_the_wire_form_of_what_it_adds(a in orchard(), apart in orchard()) {
        let added = schema().compare(&Tree::new(), &a).added;
        let text = |set: FieldSet| (!set.is_empty()).then(|| Value::Object(set.to_fields_v1()).to_string());
        prop_assert_eq!(schema().added_text(&a, &FieldSet::default(), |_| true), text(added.clone()));
        // Fields without the ones below them, as in the identity of an object.
        let apart = schema().compare(&Tree::new(), &apart).added.filtered(|element| element.is_field("spec"));
        let names = ["size", "signs", "gate", "pond"].map(|name| [Element::field("spec"), Element::field(name)]);
        let mut met = FieldSet::default();
        names.iter().filter(|path| apart.contains(&path[..])).for_each(|path| met.insert(path));
        prop_assert_eq!(schema().added_text(&a, &met, |_| true), text(added.difference(&met)));
        prop_assert_eq!(schema().added_text(&a, &met, |name| name != "spec"), None);
    }

    #[test]
    fn odd_values_are_written_as_they_are_compared(
        trees in vec(odd(), 0..4), paths in vec(odd(), 0..4), gate in odd(), pond in odd(), notes in odd(), odd in odd(),
    ) {
        let spec = json!({"trees": trees, "paths": paths, "gate": gate, "pond": pond, "notes": notes, "unknown": odd});
        let a = tree(json!({"kind": "Orchard", "spec": spec}));
        let added = Value::Object(schema().compare(&Tree::new(), &a).added.to_fields_v1()).to_string();
        prop_assert_eq!(schema().added_text(&a, &FieldSet::default(), |_| true), Some(added));
    }

    #[test]
    fn comparisons_look_both_ways(a in orchard(), b in orchard()) {
        let (there, back) = (schema().compare(&a, &b), schema().compare(&b, &a));
        prop_assert_eq!(&there.added, &back.removed);
        prop_assert_eq!(&there.modified, &back.modified);
        prop_assert_eq!(there.is_empty(), ordered(a) == ordered(b));
    }

    #[test]
    fn comparable_values_differ_as_the_values_do(a in orchard(), b in orchard()) {
        let schema = schema();
        let glimpsed = |member: &[&str], value: &Value| schema.comparable(member, &value.to_string());
        let whole = |of: &Tree| tree(json!({"spec": glimpsed(&["spec"], &of["spec"])}));
        let parts = |of: &Tree| -> Tree {
            let members = of["spec"].as_object().unwrap().iter();
            let members = members.map(|(name, value)| (name.clone(), glimpsed(&["spec", name], value)));
            tree(json!({"spec": members.collect::<Tree>()}))
        };
        let expected = schema.compare(&a, &b);
        prop_assert_eq!(&schema.compare(&whole(&a), &whole(&b)), &expected);
        prop_assert_eq!(&schema.compare(&parts(&a), &parts(&b)), &expected);
    }

    #[test]
    fn what_was_removed_is_gone_and_the_rest_is_there(a in orchard(), b in orchard()) {
        let gone = schema().fields_of(&a).intersection(&schema().fields_of(&b));
        let left = schema().without(a.clone(), &gone);
        prop_assert!(schema().fields_of(&left).intersection(&gone).is_empty());
        // Everything below a removed item or entry is removed with it.
        let lost = schema().fields_of(&a).difference(&gone).difference(&schema().fields_of(&left));
        for path in lost.paths() {
            prop_assert!((1..path.0.len()).any(|end| gone.contains(&path.0[..end])), "{}", path);
        }
    }
}

#[test]
fn ap5_the_schema_says_what_a_field_is() {
    let object = tree(json!({"spec": {
        "size": 1,
        "trees": [{"kind": "apple", "row": 2, "fruit": "red"}, {"kind": "pear"}],
        "paths": ["north", "south"],
        "order": ["x", "y"],
        "signs": {"exit": "there"},
        "gate": {"wide": true},
        "pond": {"wide": false},
        "notes": {"deep": {"deeper": [1, 2]}, "empty": {}},
    }}));
    let expected = [
        ".spec.gate",
        ".spec.notes.deep",
        ".spec.notes.deep.deeper",
        ".spec.notes.empty",
        ".spec.order",
        ".spec.paths[=\"north\"]",
        ".spec.paths[=\"south\"]",
        ".spec.pond.wide",
        ".spec.signs.exit",
        ".spec.size",
        ".spec.trees[kind=\"apple\",row=2]",
        ".spec.trees[kind=\"apple\",row=2].fruit",
        ".spec.trees[kind=\"apple\",row=2].kind",
        ".spec.trees[kind=\"apple\",row=2].row",
        ".spec.trees[kind=\"pear\",row=1]",
        ".spec.trees[kind=\"pear\",row=1].kind",
    ];
    assert_eq!(shown(&schema().fields_of(&object)), expected);
}

#[test]
fn ap17_and_ap18_what_cannot_be_applied_is_named() {
    let config = tree(json!({"zzz": 1, "spec": {
        "x": 1,
        "trees": [{"kind": "apple"}, {"kind": "apple", "row": 1}, {"row": 2}, "tree", {"kind": "b", "y": 1}],
        "paths": ["n", "n", {}],
        "gate": {"high": true},
        "pond": 7,
        "signs": {"exit": "there"},
    }}));
    let mut faults = schema().check_config(&config);
    faults.sort();
    let expected = [
        ".spec.gate.high: field not declared in schema",
        ".spec.paths: duplicate entries for key [=\"n\"]",
        ".spec.paths: element 2: associative list without keys has an element that's a map type",
        ".spec.pond: expected map, got 7",
        ".spec.trees: duplicate entries for key [kind=\"apple\",row=1]",
        ".spec.trees: element 2: associative list with keys has an element that omits key field \"kind\" (and doesn't \
         have default value)",
        ".spec.trees: element 3: associative list with keys may not have non-map elements",
        ".spec.trees[kind=\"b\",row=1].y: field not declared in schema",
        ".spec.x: field not declared in schema",
        ".zzz: field not declared in schema",
    ];
    assert_eq!(faults, expected);
}

#[test]
fn ap9_items_come_in_the_order_of_the_configuration() {
    let list = |names: &[&str]| tree(json!({"spec": {"paths": names}}));
    for (live, config, expected) in [
        (["a", "b", "x"].as_slice(), ["b", "a"].as_slice(), ["b", "x", "a"].as_slice()),
        (&["a", "b"], &["c", "a"], &["c", "a", "b"]),
        (&["x", "a"], &["a", "b"], &["x", "a", "b"]),
        (&["a"], &[], &["a"]),
        (&[], &["b", "a"], &["b", "a"]),
    ] {
        assert_eq!(schema().merge(list(live), &list(config)), list(expected), "{live:?} {config:?}");
    }
}

#[test]
fn comparable_values_of_values_of_another_shape_differ_as_the_values_do() {
    let shapes = [json!(null), json!({}), json!([]), json!(1), json!("1"), json!({"a": 1}), json!([{"kind": "a"}])];
    let schema = schema();
    for member in ["size", "trees", "paths", "order", "signs", "gate", "pond", "notes", "unknown"] {
        for (old, new) in shapes.iter().flat_map(|old| shapes.iter().map(move |new| (old, new))) {
            let values = |value: &Value| tree(json!({"spec": {member: value}}));
            let comparable_values = |value: &Value| values(&schema.comparable(&["spec", member], &value.to_string()));
            let found = schema.compare(&comparable_values(old), &comparable_values(new));
            assert_eq!(found, schema.compare(&values(old), &values(new)), "{member}: {old} {new}");
        }
    }
}

#[test]
fn changes_with_the_same_outlines_differ_in_the_same_fields() {
    const MEMBERS: [&[&str]; 7] = [
        &["spec", "size"],
        &["spec", "trees"],
        &["spec", "paths"],
        &["spec", "order"],
        &["spec", "gate"],
        &["spec", "notes", "a"],
        &["spec", "unknown"],
    ];
    let values = [json!({}), json!([]), json!(1), json!("1"), json!({"a": 1}), json!({"a": 2}), json!([{"kind": "a"}])];
    let values: Vec<Option<Value>> =
        values.into_iter().chain([json!(null), json!([1, 2])]).map(Some).chain([None]).collect();
    let schema = schema();
    let is_one = |member: &[&str], text: &str| schema.is_one_field(member, text);
    let read = |member: &[&str], text: &str| schema.comparable(member, text);
    for member in MEMBERS {
        let mut known: Vec<(_, Comparison)> = Vec::new();
        let mut met = 0;
        for before in [json!({}), json!({"spec": {}}), json!({"spec": {"zone": 1}}), json!({"spec": 1})] {
            for (old, new) in values.iter().flat_map(|old| values.iter().map(move |new| (old, new))) {
                let mut before = tree(before.clone());
                Edit::to(member, old.clone()).apply(&mut before);
                let before = Value::Object(before).to_string();
                let mut parts = PartsOfText::read(before.as_bytes()).unwrap();
                let old_outline = parts.outline(&[member], &is_one);
                let is_change = parts.edit(&Edit::to(member, new.clone()));
                let shape = (old_outline, is_change, parts.outline(&[member], &is_one));
                let old_sketch = PartsOfText::read(before.as_bytes()).unwrap().sketch(&[member], &read);
                let found = schema.compare(&old_sketch, &parts.sketch(&[member], &read));
                match known.iter().find(|(same, _)| *same == shape) {
                    Some((_, expected)) => assert_eq!(&found, expected, "{member:?}: {before} to {new:?}"),
                    None => known.push((shape, found)),
                }
                met += 1;
            }
        }
        assert!(known.len() < met, "no two changes of {member:?} have one shape");
    }
}

#[test]
fn ap18_live_duplicates_are_one_field() {
    let live = tree(json!({"spec": {"paths": ["a", "a", "b"]}}));
    assert_eq!(shown(&schema().fields_of(&live)), [".spec.paths[=\"a\"]", ".spec.paths[=\"b\"]"]);
    let config = tree(json!({"spec": {"paths": ["c"]}}));
    assert_eq!(schema().merge(live.clone(), &config)["spec"]["paths"], json!(["a", "a", "b", "c"]));
    let config = tree(json!({"spec": {"paths": ["a"]}}));
    let mended = schema().merge(live.clone(), &config);
    assert_eq!(mended["spec"]["paths"], json!(["a", "b"]));
    assert_eq!(shown(&schema().compare(&live, &mended).modified), [".spec.paths[=\"a\"]"]);
}
