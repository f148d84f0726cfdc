//! Objects as rows with cells (`Table`), and as metadata alone (`PartialObjectMetadata`), for
//! lists, single objects and watches (TA1-TA6, PM1, WA20, WA21).
//!
//! Both are built from the stored bytes in parts: a head, one part for each object with commas
//! between, and `TAIL`. So a list of any length can be sent while it is built. Metadata is copied
//! as text; of the rest, only the fields that a column shows are parsed.
//!
//! Not supported: Tables of responses that are not stored objects (TA7). The server responds with
//! 406 or plain JSON.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::computed::Computed;
use ballast_k8s::human_duration::human_duration;
use ballast_k8s::json_path::{JsonPath, PathRef};
use ballast_k8s::{Object, Revision, Time};
use ballast_resource::{ResourceKind, Wording};

/// The end of a list that `head` started.
pub const TAIL: &[u8] = b"]}";

/// The object that each row carries in addition to its cells (TA5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl Include {
    /// Parses the query parameter `includeObject`. `None` for an unknown value.
    pub fn parse(text: &str) -> Option<Include> {
        match text {
            "" | "Metadata" => Some(Include::Metadata),
            "None" => Some(Include::None),
            "Object" => Some(Include::Object),
            _ => None,
        }
    }
}

/// Whether a Table includes its column definitions. All do, except the later events of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    Named,
    Unnamed,
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub revision: Revision,
    pub continue_token: Option<String>,
    pub remaining: Option<u64>,
}

impl Page {
    pub fn at(revision: Revision) -> Page {
        Page { revision, ..Page::default() }
    }

    fn meta(&self) -> Value {
        let mut meta = json!({"resourceVersion": self.revision.to_string()});
        if let Some(token) = &self.continue_token {
            meta["continue"] = token.as_str().into();
        }
        if let Some(remaining) = self.remaining {
            meta["remainingItemCount"] = remaining.into();
        }
        meta
    }
}

/// Builds the rows of one kind.
pub struct Printer {
    wording: Wording,
    columns: Vec<Column>,
    /// `columnDefinitions`, serialized.
    definitions: String,
    computed: Option<Arc<dyn Computed>>,
}

struct Column {
    kind: &'static str,
    /// `None` if no cell has a value.
    cell: Option<Cell>,
}

/// The forms of `resource::Column::path`.
enum Cell {
    Value(JsonPath),
    KindAndName(JsonPath, JsonPath),
    /// `list` is the path of the list; `name` and `number` are relative to an item.
    Numbered {
        list: JsonPath,
        name: JsonPath,
        number: JsonPath,
    },
    Count(JsonPath),
    Computed(String),
}

/// The limit of list items in a cell. Further items are only counted.
const ITEMS_SHOWN_MAX: usize = 100;

impl Cell {
    fn parse(path: &str) -> Option<Cell> {
        let below = |path: &str| JsonPath::parse(&format!(".{path}"));
        if let Some(name) = path.strip_prefix('%') {
            return Some(Cell::Computed(name.to_owned()));
        }
        if let Some(counted) = path.strip_prefix('#') {
            return Some(Cell::Count(JsonPath::parse(counted)?));
        }
        if let Some((kind, name)) = path.split_once("/.") {
            return Some(Cell::KindAndName(JsonPath::parse(kind)?, below(name)?));
        }
        match path.split_once("[*].").and_then(|(list, item)| Some((list, item.split_once(":.")?))) {
            Some((list, (name, number))) => {
                Some(Cell::Numbered { list: JsonPath::parse(list)?, name: below(name)?, number: below(number)? })
            }
            None => Some(Cell::Value(JsonPath::parse(path)?)),
        }
    }

    fn show(&self, kind: &str, fields: &mut Fields<'_>, now: Time) -> Option<Value> {
        let mut find = |path: &JsonPath| fields.find(path, |rest, value| show(kind, rest.find(value)?, now));
        match self {
            Cell::Value(path) => find(path),
            Cell::KindAndName(kind, name) => {
                let (kind, name) = (find(kind)?, find(name)?);
                Some(format!("{}/{}", kind.as_str()?.to_lowercase(), name.as_str()?).into())
            }
            Cell::Numbered { list, name, number } => {
                let cell = |rest: PathRef<'_>, value: &Value| numbered(rest.find(value)?.as_array()?, name, number);
                fields.find(list, cell).map(Value::from)
            }
            // A missing field has no matches.
            Cell::Count(path) => {
                Some(fields.find(path, |rest, value| Some(rest.count(value))).unwrap_or_default().into())
            }
            Cell::Computed(_) => None,
        }
    }
}

/// Formats the items as `member1:2,member2:2`. `None` if there is nothing to show.
fn numbered(items: &[Value], name: &JsonPath, number: &JsonPath) -> Option<String> {
    let one = |item: &Value| {
        let name = name.find(item)?.as_str()?;
        match number.find(item).and_then(Value::as_i64) {
            None | Some(0) => Some(name.to_owned()),
            Some(number) => Some(format!("{name}:{number}")),
        }
    };
    let mut shown: Vec<String> = items.iter().take(ITEMS_SHOWN_MAX).filter_map(one).collect();
    if items.len() > ITEMS_SHOWN_MAX {
        shown.push(format!("+{} more", items.len() - ITEMS_SHOWN_MAX));
    }
    (!shown.is_empty()).then(|| shown.join(","))
}

/// The form of a Table that the client requested.
#[derive(Clone, Copy, Debug)]
pub struct TableForm {
    /// `meta.k8s.io/v1` or `meta.k8s.io/v1beta1`.
    pub api_version: &'static str,
    pub include: Include,
    /// The current time, for ages.
    pub now: Time,
}

impl Printer {
    /// Returns the printer of a kind. A kind without columns shows its age (TA2).
    pub fn of(row: &ResourceKind) -> Printer {
        const NAME: &str = "Unique within a namespace for namespaced resources, else within the server.";
        const AGE: ballast_resource::Column = ballast_resource::Column {
            name: "Age",
            kind: "date",
            path: ".metadata.creationTimestamp",
            priority: 0,
            description: "How long ago the object was created.",
        };
        let columns: &[ballast_resource::Column] = if row.columns.is_empty() { &[AGE] } else { row.columns };
        let priority = i32::from(!row.name_is_shown);
        let name =
            json!({"name": "Name", "type": "string", "format": "name", "description": NAME, "priority": priority});
        let definitions: Vec<Value> = std::iter::once(name)
            .chain(columns.iter().map(|column| {
                let described = match column.description {
                    "" => format!("Custom resource definition column (in JSONPath format): {}", column.path),
                    described => described.to_owned(),
                };
                json!({
                    "name": column.name,
                    "type": column.kind,
                    "format": "",
                    "description": described,
                    "priority": column.priority,
                })
            }))
            .collect();
        let columns = columns.iter().map(|column| Column { kind: column.kind, cell: Cell::parse(column.path) });
        Printer {
            wording: row.wording(),
            columns: columns.collect(),
            definitions: Value::from(definitions).to_string(),
            computed: None,
        }
    }

    /// Sets the source of computed columns, which are empty otherwise.
    #[must_use]
    pub fn with_computed(self, computed: Option<Arc<dyn Computed>>) -> Printer {
        let has_any = self.columns.iter().any(|column| matches!(column.cell, Some(Cell::Computed(_))));
        let computed = computed.filter(|_| has_any).inspect(|computed| computed.refresh());
        Printer { computed, ..self }
    }

    /// Returns a Table up to its first row.
    pub fn head(&self, form: &TableForm, page: &Page, columns: Columns) -> Bytes {
        let definitions = match columns {
            Columns::Named => &self.definitions,
            Columns::Unnamed => "null",
        };
        let (api_version, meta) = (form.api_version, page.meta());
        let head = format!(
            r#"{{"kind":"Table","apiVersion":"{api_version}","metadata":{meta},"columnDefinitions":{definitions},"rows":["#
        );
        head.into()
    }

    /// Returns one row.
    pub fn row(&self, form: &TableForm, object: &Object) -> Bytes {
        let text = match form.include {
            Include::Metadata => object.text.whole(),
            Include::None | Include::Object => object.text.content(),
        };
        let parts = parts(&text);
        let mut row = Vec::with_capacity(256);
        row.extend_from_slice(br#"{"cells":["#);
        write_json(&mut row, &object.key.name);
        for cell in self.cells(object, &parts, form.now) {
            row.push(b',');
            write_json(&mut row, &cell);
        }
        row.extend_from_slice(br#"],"object":"#);
        match form.include {
            Include::None => row.extend_from_slice(b"null"),
            Include::Metadata => write_metadata(&mut row, form.api_version, &parts),
            Include::Object => row.extend_from_slice(&self.wording.of(object)),
        }
        row.push(b'}');
        row.into()
    }

    /// Returns a Table of one object: a single GET (TA6), or the object of a watch event (WA20).
    pub fn single(&self, form: &TableForm, object: &Object, columns: Columns) -> Bytes {
        let head = self.head(form, &Page::at(object.revision), columns);
        [&head, &self.row(form, object), TAIL].concat().into()
    }

    /// Returns the object of a BOOKMARK event (WA20): one row that carries only the revision.
    pub fn bookmark(&self, form: &TableForm, revision: Revision, annotations: &Value, columns: Columns) -> Bytes {
        let head = self.head(form, &Page::at(revision), columns);
        let nulls = ",null".repeat(self.columns.len());
        let object = match form.include {
            Include::None => Bytes::from_static(b"null"),
            Include::Metadata | Include::Object => metadata_bookmark(form.api_version, revision, annotations),
        };
        [&head, format!(r#"{{"cells":[""{nulls}],"object":"#).as_bytes(), &object, b"}", TAIL].concat().into()
    }

    fn cells(&self, object: &Object, parts: &Parts<'_>, now: Time) -> Vec<Value> {
        let mut fields = Fields { parts, members: BTreeMap::new(), parsed: BTreeMap::new() };
        let cell = |column: &Column| match column.cell.as_ref()? {
            Cell::Computed(name) => Some(self.computed.as_ref()?.cell(object, name)),
            cell => cell.show(column.kind, &mut fields, now),
        };
        self.columns.iter().map(cell).map(Option::unwrap_or_default).collect()
    }
}

/// The fields of one object, parsed lazily: of `spec` and `status`, only the members that are
/// shown.
struct Fields<'a> {
    parts: &'a Parts<'a>,
    /// The members of the parts, unparsed.
    members: BTreeMap<&'a str, Parts<'a>>,
    /// Parsed values by part and member. The member is empty if a part is shown as a whole.
    parsed: BTreeMap<(&'a str, &'a str), Value>,
}

impl Fields<'_> {
    /// Applies `look` to the parsed field that `path` starts with and to the rest of the path.
    fn find<T>(&mut self, path: &JsonPath, look: impl FnOnce(PathRef<'_>, &Value) -> Option<T>) -> Option<T> {
        let (part, rest) = path.split_first()?;
        let (&part, &whole) = self.parts.get_key_value(part)?;
        let (member, raw, rest) = match rest.split_first() {
            None => ("", whole, rest),
            Some((member, rest)) => {
                let members = self.members.entry(part).or_insert_with(|| parts(whole.get().as_bytes()));
                let (&member, &raw) = members.get_key_value(member)?;
                (member, raw, rest)
            }
        };
        let value =
            self.parsed.entry((part, member)).or_insert_with(|| serde_json::from_str(raw.get()).unwrap_or_default());
        look(rest, value)
    }
}

/// Returns a list of `PartialObjectMetadata` up to its first item (PM1).
pub fn metadata_head(api_version: &str, page: &Page) -> Bytes {
    let meta = page.meta();
    format!(r#"{{"kind":"PartialObjectMetadataList","apiVersion":"{api_version}","metadata":{meta},"items":["#).into()
}

/// Returns an object as `PartialObjectMetadata`: an item of a list, a whole response, or the object
/// of a watch event (WA21).
pub fn metadata(api_version: &str, object: &Object) -> Bytes {
    let text = object.text.whole();
    let mut out = Vec::with_capacity(text.len() / 2);
    write_metadata(&mut out, api_version, &parts(&text));
    out.into()
}

/// Returns the object of a BOOKMARK event for a client that requested metadata.
pub fn metadata_bookmark(api_version: &str, revision: Revision, annotations: &Value) -> Bytes {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if annotations.as_object().is_some_and(|annotations| !annotations.is_empty()) {
        metadata["annotations"] = annotations.clone();
    }
    format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"{api_version}","metadata":{metadata}}}"#).into()
}

/// The members of an object, unparsed.
type Parts<'a> = BTreeMap<&'a str, &'a RawValue>;

/// Parses the members of a stored object, or of one of its parts. The object was decoded when it
/// was stored; text that cannot be decoded is shown without members.
fn parts(text: &[u8]) -> Parts<'_> {
    serde_json::from_slice(text).unwrap_or_default()
}

fn write_metadata(out: &mut Vec<u8>, api_version: &str, parts: &Parts<'_>) {
    let metadata = parts.get("metadata").map_or("{}", |raw| raw.get());
    out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":""#);
    out.extend_from_slice(api_version.as_bytes());
    out.extend_from_slice(br#"","metadata":"#);
    out.extend_from_slice(metadata.as_bytes());
    out.push(b'}');
}

fn write_json(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    let written = serde_json::to_writer(out.by_ref(), value);
    written.expect("writing JSON to memory cannot fail");
}

/// Converts a value to a cell of a column of this type. `None` if the value has another type (TA4).
fn show(kind: &str, value: &Value, now: Time) -> Option<Value> {
    match (kind, value) {
        (_, Value::Null) => None,
        ("string", Value::String(text)) => Some(Value::from(text.as_str())),
        ("string", other) => Some(Value::from(other.to_string())),
        ("integer", Value::Number(number)) => {
            number.as_i64().or_else(|| number.as_f64().map(|float| float as i64)).map(Value::from)
        }
        ("number", Value::Number(number)) => number.as_f64().map(Value::from),
        ("boolean", Value::Bool(_)) => Some(value.clone()),
        ("date", Value::String(text)) => match text.parse::<Time>() {
            Ok(time) => Some(human_duration(now.seconds().saturating_sub(time.seconds())).into()),
            Err(_) => Some("<invalid>".into()),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_kinds::kinds;
    use ballast_k8s::{GroupResource, Key};

    const GARDENS: GroupResource = GroupResource::new("gardens.garden.example.com");

    fn printer() -> Printer {
        Printer::of(&kinds().rows()[0])
    }

    fn form(include: Include) -> TableForm {
        TableForm { api_version: "meta.k8s.io/v1", include, now: "2024-05-01T10:05:00Z".parse().unwrap() }
    }

    fn object(revision: u64, spec: Value, status: Value) -> Object {
        let json = json!({
            "apiVersion": "garden.example.com/v1", "kind": "Garden",
            "metadata": {"name": "g", "creationTimestamp": "2024-05-01T10:00:00Z", "labels": {"a": "b"}},
            "spec": spec, "status": status,
        });
        let key = Key::namespaced(GARDENS, "home", "g");
        Object::decode(key, Revision(revision.try_into().unwrap()), json.to_string().into()).unwrap()
    }

    fn read(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    fn cells(spec: Value, status: Value) -> Value {
        read(&printer().row(&form(Include::None), &object(1, spec, status)))["cells"].clone()
    }

    #[test]
    fn ta1_a_table_has_columns_and_rows() {
        let (printer, form) = (printer(), form(Include::Metadata));
        let page = Page { revision: Revision(7), continue_token: Some("t".to_owned()), remaining: Some(3) };
        let row = printer.row(&form, &object(5, json!({"beds": 2}), json!({})));
        let table = read(&[&printer.head(&form, &page, Columns::Named), &row, b",".as_slice(), &row, TAIL].concat());
        assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
        assert_eq!(table["metadata"], json!({"resourceVersion": "7", "continue": "t", "remainingItemCount": 3}));
        let names: Vec<&Value> =
            table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
        assert_eq!(names, ["Name", "Ready", "Beds", "Plants", "Open", "Age"]);
        assert_eq!(table["columnDefinitions"][0]["format"], "name");
        assert_eq!(table["columnDefinitions"][3]["priority"], 1);
        assert_eq!(table["rows"].as_array().unwrap().len(), 2);
        assert_eq!(
            table["rows"][0]["object"],
            json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"name": "g", "creationTimestamp": "2024-05-01T10:00:00Z", "labels": {"a": "b"}},
            })
        );
    }

    #[test]
    fn ta4_missing_and_mistyped_values_are_null() {
        let ready = json!({"conditions": [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]});
        assert_eq!(
            cells(json!({"beds": 3, "plants": [{"name": "rose"}], "notes": {"open": true}}), ready),
            json!(["g", "True", 3, "[{\"name\":\"rose\"}]", true, "5m"])
        );
        assert_eq!(
            cells(json!({"beds": "three", "notes": {"open": "yes"}}), json!({"conditions": null})),
            json!(["g", null, null, null, null, "5m"])
        );
    }

    #[test]
    fn ta2_a_list_of_shares_is_one_word_and_matches_are_counted() {
        let cell = |path: &str, parts_of: &Value| {
            let text = parts_of.to_string();
            let parts = parts(text.as_bytes());
            let mut fields = Fields { parts: &parts, members: BTreeMap::new(), parsed: BTreeMap::new() };
            let now = form(Include::None).now;
            Cell::parse(path).unwrap().show("string", &mut fields, now).unwrap_or_default()
        };
        let clusters = |list: Value| cell(".spec.clusters[*].name:.replicas", &json!({"spec": {"clusters": list}}));
        assert_eq!(
            clusters(json!([{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 3}])),
            "member1:2,member2:3"
        );
        assert_eq!(clusters(json!([{"name": "member1"}, {"name": "member2", "replicas": 0}])), "member1,member2");
        for nothing in [json!([]), json!(null), json!("x"), json!([7, {"replicas": 1}])] {
            assert_eq!(clusters(nothing), Value::Null);
        }
        let many: Vec<Value> = (0..ITEMS_SHOWN_MAX + 3).map(|_| json!({"name": "m", "replicas": 1})).collect();
        assert!(clusters(many.into()).as_str().unwrap().ends_with("m:1,m:1,+3 more"));
        let object = json!({"status": {"list": [{"result": "Failed"}, {"result": "Successful"}, {}]}});
        let failed = r##"#.status.list[?(@.result=="Failed")]"##;
        assert_eq!(cell(failed, &object), json!(1));
        assert_eq!(cell(failed, &json!({"status": {}})), json!(0), "nothing is there to count");
        assert_eq!(cell(failed, &json!({})), json!(0));
    }

    #[test]
    fn ta5_rows_carry_what_was_asked_for() {
        let object = object(5, json!({"beds": 2}), json!({}));
        let row = |include| read(&printer().row(&form(include), &object))["object"].clone();
        assert_eq!(row(Include::None), Value::Null);
        assert_eq!(row(Include::Object), read(&object.text.content()));
        assert_eq!(Include::parse(""), Some(Include::Metadata));
        assert_eq!(Include::parse("object"), None);
    }

    #[test]
    fn ta6_a_single_object_is_one_row_at_its_revision() {
        let table = read(&printer().single(&form(Include::Metadata), &object(5, json!({}), json!({})), Columns::Named));
        assert_eq!(table["metadata"], json!({"resourceVersion": "5"}));
        assert_eq!(table["rows"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn wa20_later_events_name_no_columns_and_a_bookmark_is_an_empty_row() {
        let (printer, form) = (printer(), form(Include::Metadata));
        let event = read(&printer.single(&form, &object(5, json!({}), json!({})), Columns::Unnamed));
        assert_eq!(event["columnDefinitions"], Value::Null);
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        let bookmark = read(&printer.bookmark(&form, Revision(9), &annotations, Columns::Unnamed));
        assert_eq!(bookmark["metadata"], json!({"resourceVersion": "9"}));
        assert_eq!(
            bookmark["rows"],
            json!([{
                "cells": ["", null, null, null, null, null],
                "object": {
                    "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"resourceVersion": "9", "annotations": annotations},
                },
            }])
        );
    }

    #[test]
    fn pm1_lists_of_metadata_keep_all_of_it_and_nothing_else() {
        let object = object(5, json!({"beds": 2}), json!({}));
        let (head, item) =
            (metadata_head("meta.k8s.io/v1", &Page::at(Revision(7))), metadata("meta.k8s.io/v1", &object));
        let list = read(&[&head, &item, TAIL].concat());
        assert_eq!(list["kind"], "PartialObjectMetadataList");
        assert_eq!(list["metadata"]["resourceVersion"], "7");
        assert_eq!(list["items"][0]["metadata"]["labels"], json!({"a": "b"}));
        assert!(list["items"][0].get("spec").is_none());
        let empty = read(&[&head[..], TAIL].concat());
        assert_eq!(empty["items"], json!([]));
    }

    #[test]
    fn ta2_a_kind_without_columns_shows_its_age() {
        let printer = Printer::of(&kinds().rows()[1]);
        let head = printer.head(&form(Include::None), &Page::default(), Columns::Named);
        let table = read(&[&head[..], TAIL].concat());
        assert_eq!(table["columnDefinitions"][1]["name"], "Age");
        assert_eq!(table["columnDefinitions"].as_array().unwrap().len(), 2);
    }
}
