//! Tests of the schema, on a made-up kind that uses every feature once.
#![allow(dead_code)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::mark::{Atomic, AtomicList, DateTime, Embedded, IntOrString, Keyed, MapList, Opaque, Quantity, SetList};
use super::*;

/// A garden.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Garden {
    metadata: Value,
    /// The desired state.
    spec: GardenSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<GardenStatus>,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GardenSpec {
    #[schema(min_items = 1, max_items = 3)]
    beds: Vec<Bed>,
    #[schema(minimum = 0, maximum = 10, default = 3)]
    gates: Option<i32>,
    ratio: Option<f64>,
    open: Option<bool>,
    season: Option<Season>,
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Quantity>)]
    water: BTreeMap<String, String>,
    #[schema(value_type = Option<IntOrString>)]
    fence: Option<Value>,
    #[schema(value_type = Option<Atomic<Picker>>)]
    picker: Option<Picker>,
    #[serde(default)]
    #[schema(value_type = SetList<String>)]
    gnomes: Vec<String>,
    #[schema(value_type = Option<Opaque>)]
    notes: Option<Value>,
    #[schema(value_type = Option<Embedded>)]
    template: Option<Value>,
    /// Any value.
    anything: Option<Value>,
    #[serde(flatten)]
    tools: Tools,
}

#[derive(Serialize, Deserialize, ToSchema)]
struct Tools {
    spade: Option<i64>,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Bed {
    #[schema(min_length = 1, max_length = 5, pattern = "^[a-z]*$")]
    name: String,
    #[schema(default = "clay")]
    soil: Option<String>,
    /// The sunny side.
    #[schema(default = json!({}))]
    edge: Option<Edge>,
}

/// An edge.
#[derive(Serialize, Deserialize, ToSchema)]
struct Edge {
    #[schema(default = 1)]
    width: Option<i64>,
}

#[derive(Serialize, Deserialize, ToSchema)]
enum Season {
    Spring,
    Autumn,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Picker {
    #[serde(default)]
    #[schema(value_type = AtomicList<String>)]
    names: Vec<String>,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GardenStatus {
    #[schema(value_type = Option<DateTime>)]
    watered: Option<String>,
    #[serde(default)]
    #[schema(value_type = MapList<Sign>)]
    signs: Vec<Sign>,
}

#[derive(Serialize, Deserialize, ToSchema)]
struct Sign {
    #[serde(rename = "type")]
    sign_type: String,
    text: Option<String>,
}

impl Keyed for Sign {
    const KEYS: &'static [&'static str] = &["type"];
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

fn garden(spec: Value) -> Map<String, Value> {
    map(json!({"apiVersion": "example.com/v1", "kind": "Garden", "metadata": {"name": "g"}, "spec": spec}))
}

fn faults(object: &Map<String, Value>) -> Vec<String> {
    Schema::of::<Garden>().validate(object).iter().map(ToString::to_string).collect()
}

/// Returns the faults of a spec with the given fields and all required ones.
fn spec_faults(fields: Value) -> Vec<String> {
    let mut spec = map(json!({"beds": [{"name": "a"}]}));
    spec.extend(map(fields));
    faults(&garden(Value::Object(spec)))
}

#[test]
fn the_tree_says_what_the_type_says() {
    let schema = Schema::of::<Garden>();
    let spec = schema.node(&["spec"]).unwrap();
    assert_eq!(spec.definition.as_deref(), Some("GardenSpec"));
    let beds = spec.field("beds").unwrap();
    assert!(beds.required && matches!(&beds.node.shape, Shape::Array(array) if array.max_items == Some(3)));
    assert_eq!(schema.node(&["spec", "beds"]).unwrap().behind_lists().definition.as_deref(), Some("Bed"));
    let edge = schema.node(&["spec", "beds"]).unwrap().behind_lists().field("edge").unwrap();
    assert_eq!((&*edge.description, &edge.default), ("The sunny side.", &Some(json!({}))));
    let picker = schema.node(&["spec", "picker"]).unwrap();
    assert_eq!(picker.definition.as_deref(), Some("Picker"));
    assert!(matches!(&picker.shape, Shape::Object(object) if object.atomic));
    let names = schema.node(&["spec", "picker", "names"]).unwrap();
    assert!(matches!(&names.shape, Shape::Array(array) if array.list_type == Some(ListType::Atomic)));
    let signs = schema.node(&["status", "signs"]).unwrap();
    assert!(
        matches!(&signs.shape, Shape::Array(array) if array.list_type == Some(ListType::Map(["type".into()].into())))
    );
    assert!(matches!(schema.node(&["spec", "anything"]).unwrap().shape, Shape::Any));
    assert!(schema.node(&["spec", "spade"]).is_some(), "flattened fields are fields");
    let metadata = schema.node(&["metadata"]).unwrap();
    assert_eq!(metadata.definition.as_deref(), Some("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"));
}

#[test]
fn fv7_unknown_fields_are_removed_and_named() {
    let mut object = garden(json!({
        "beds": [{"name": "a", "y": 1, "edge": {"width": 1, "z": {}}}], "x": 1,
        "notes": {"kept": {"deep": 1}}, "water": {"can": "1"},
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "nope": 1}, "spec": {"kept": 1}},
    }));
    object["metadata"]["unknownMeta"] = json!("gone");
    object.insert("extra".to_owned(), json!(1));
    let unknown = Schema::of::<Garden>().prune(&mut object).paths;
    assert_eq!(
        unknown,
        [
            "extra",
            "metadata.unknownMeta",
            "spec.beds[0].edge.z",
            "spec.beds[0].y",
            "spec.template.metadata.nope",
            "spec.x",
        ]
    );
    assert_eq!(
        object["spec"],
        json!({
            "beds": [{"name": "a", "edge": {"width": 1}}], "notes": {"kept": {"deep": 1}}, "water": {"can": "1"},
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"kept": 1}},
        })
    );
    assert_eq!(object["metadata"], json!({"name": "g"}));
}

#[test]
fn ad4_defaults_are_filled_in_where_the_parent_exists() {
    let schema = Schema::of::<Garden>();
    let mut object =
        garden(json!({"beds": [{"name": "a", "soil": "sand", "edge": null}, {"name": "b", "soil": null}]}));
    assert!(schema.prune(&mut object).paths.is_empty());
    let lacks = |object: &Map<String, Value>| schema.lacks_defaults(&serde_json::to_vec(object).unwrap()).unwrap();
    assert!(lacks(&object));
    schema.default(&mut object);
    assert!(!lacks(&object));
    assert_eq!(
        object["spec"],
        json!({
            "gates": 3,
            "beds": [
                {"name": "a", "soil": "sand", "edge": {"width": 1}},
                {"name": "b", "soil": "clay", "edge": {"width": 1}},
            ],
        })
    );
    assert!(object.get("status").is_none());
}

#[test]
fn nulls_that_mean_nothing_are_dropped_and_whole_floats_are_integers() {
    let schema = Schema::of::<Garden>();
    let mut object = garden(json!({"beds": null, "gates": 4.0, "ratio": 2.0, "anything": null, "water": {"a": null}}));
    object["metadata"]["creationTimestamp"] = Value::Null;
    assert!(schema.prune(&mut object).paths.is_empty());
    assert_eq!(object["spec"].to_string(), r#"{"anything":null,"gates":4,"ratio":2.0,"water":{}}"#);
    assert_eq!(object["metadata"], json!({"name": "g"}));
    assert_eq!(faults(&object), ["spec.beds: Required value"]);
}

#[test]
fn er7_wrong_types_read_as_kubernetes_writes_them() {
    let object = garden(json!({"beds": "none", "gates": "x", "open": 1, "ratio": [], "fence": true, "gnomes": {}}));
    let errors = Schema::of::<Garden>().validate(&object);
    assert!(errors.iter().all(|error| error.reason == "FieldValueTypeInvalid"));
    let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        [
            r#"spec.beds: Invalid value: "string": spec.beds in body must be of type array: "string""#,
            r#"spec.gates: Invalid value: "string": spec.gates in body must be of type integer: "string""#,
            r#"spec.ratio: Invalid value: "array": spec.ratio in body must be of type number: "array""#,
            r#"spec.open: Invalid value: "integer": spec.open in body must be of type boolean: "integer""#,
            r#"spec.fence: Invalid value: "boolean": spec.fence in body must be of type integer,string: "boolean""#,
            r#"spec.gnomes: Invalid value: "object": spec.gnomes in body must be of type array: "object""#,
        ]
    );
}

#[test]
fn bounds_lengths_patterns_and_choices_are_held() {
    assert_eq!(
        spec_faults(json!({"gates": -1})),
        ["spec.gates: Invalid value: -1: spec.gates in body should be greater than or equal to 0"]
    );
    assert_eq!(
        spec_faults(json!({"gates": 11})),
        ["spec.gates: Invalid value: 11: spec.gates in body should be less than or equal to 10"]
    );
    assert_eq!(
        spec_faults(json!({"beds": []})),
        ["spec.beds: Invalid value: 0: spec.beds in body should have at least 1 items"]
    );
    let beds: Vec<Value> = (0..4).map(|_| json!({"name": "a"})).collect();
    assert_eq!(spec_faults(json!({"beds": beds})), ["spec.beds: Too many: 4: must have at most 3 items"]);
    assert_eq!(
        spec_faults(json!({"beds": [{"name": ""}, {"name": "abcdef"}, {"name": "A"}]})),
        [
            r#"spec.beds[0].name: Invalid value: "": spec.beds[0].name in body should be at least 1 chars long"#,
            "spec.beds[1].name: Too long: may not be more than 5 bytes",
            r#"spec.beds[2].name: Invalid value: "A": spec.beds[2].name in body should match '^[a-z]*$'"#,
        ]
    );
    assert_eq!(
        spec_faults(json!({"season": "Winter"})),
        [r#"spec.season: Unsupported value: "Winter": supported values: "Spring", "Autumn""#]
    );
    assert!(spec_faults(json!({"water": {"a": "1Gi", "b": 4}})).is_empty());
    assert!(spec_faults(json!({"water": {"a": "much"}}))[0].starts_with("spec.water.a: Invalid value: \"much\""));
    let many = spec_faults(json!({"spade": 3_000_000_000_i64, "gates": 3_000_000_000_i64}));
    assert_eq!(many.len(), 2, "too wide for int32, and too large; int64 takes it");
}

#[test]
fn ad7_sets_and_maps_refuse_duplicates() {
    assert_eq!(spec_faults(json!({"gnomes": ["a", "b", "a"]})), [r#"spec.gnomes[2]: Duplicate value: "a""#]);
    let mut object = garden(json!({"beds": [{"name": "a"}]}));
    let signs = json!([{"type": "A", "text": "x"}, {"type": "A", "text": "y"}]);
    object.insert("status".to_owned(), json!({"signs": signs}));
    assert_eq!(faults(&object), [r#"status.signs[1]: Duplicate value: {"type":"A"}"#]);
}

#[test]
fn a_date_time_must_be_rfc_3339() {
    let mut object = garden(json!({"beds": [{"name": "a"}]}));
    for good in ["2024-04-17T15:04:05Z", "2024-04-17T15:04:05.123+02:00"] {
        object.insert("status".to_owned(), json!({"watered": good}));
        assert!(faults(&object).is_empty(), "{good}");
    }
    for bad in ["yesterday", "2024-04-17", "2024-04-17 15:04:05Z", "2024-04-17T15:04:05Z[UTC]", "2024-13-17T15:04:05Z"]
    {
        object.insert("status".to_owned(), json!({"watered": bad}));
        let fault = format!(
            "status.watered: Invalid value: {bad:?}: status.watered in body must be of type date-time: {bad:?}"
        );
        assert_eq!(faults(&object), [fault]);
    }
}

#[test]
fn metadata_and_embedded_objects_are_checked_by_type() {
    let mut object = garden(json!({"beds": [{"name": "a"}], "template": {"metadata": {"labels": []}}}));
    object["metadata"]["labels"] = json!({"a": 1});
    assert_eq!(
        faults(&object),
        [
            r#"metadata.labels.a: Invalid value: "integer": metadata.labels.a in body must be of type string: "integer""#,
            "spec.template.apiVersion: Required value",
            "spec.template.kind: Required value",
            r#"spec.template.metadata.labels: Invalid value: "array": spec.template.metadata.labels in body must be of type object: "array""#,
        ]
    );
}

#[test]
#[should_panic(expected = "Loop.next: a structural schema cannot hold a recursive reference to Loop")]
fn a_recursive_type_is_refused_by_name() {
    #[derive(Serialize, Deserialize, ToSchema)]
    struct Kind {
        a: Box<Loop>,
    }
    #[derive(Serialize, Deserialize, ToSchema)]
    struct Loop {
        #[schema(no_recursion)]
        next: Option<Box<Loop>>,
    }
    Schema::of::<Kind>();
}

/// Objects made of the garden's field names, both valid and invalid.
fn any_garden() -> impl Strategy<Value = Value> {
    const NAMES: &[&str] = &[
        "metadata", "spec", "status", "beds", "name", "edge", "width", "gates", "signs", "type", "template", "labels",
        "x",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-4_i64..14).prop_map(Value::from),
        Just(json!(3.0)),
        "[a-zA-Z]{0,7}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        let fields = proptest::collection::btree_map(proptest::sample::select(NAMES), inner.clone(), 0..7);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn what_was_pruned_and_defaulted_once_stays_as_it_is(value in any_garden()) {
        let schema = Schema::of::<Garden>();
        let mut object = map(json!({"spec": value}));
        schema.prune(&mut object);
        schema.default(&mut object);
        let before = object.clone();
        prop_assert_eq!(schema.prune(&mut object).paths, Vec::<String>::new());
        schema.default(&mut object);
        prop_assert_eq!(&object, &before);
        // The type can decode every valid object.
        object.insert("metadata".to_owned(), json!({}));
        if schema.validate(&object).is_empty() {
            let typed = serde_json::from_value::<Garden>(Value::Object(object.clone()));
            prop_assert!(typed.is_ok(), "{object:?}: {:?}", typed.err());
        }
    }
}
