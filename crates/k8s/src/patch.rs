//! JSON patch (RFC 6902) and JSON merge patch (RFC 7386) on trees (PA1, PA5, PA6, PA8, PA16, TL2).
//! Both are bounded: a small patch must not create a huge or very deep object. Server-side apply is
//! in `registry::apply`.

use std::collections::HashSet;
use std::fmt;

use json_patch::jsonptr::Pointer;
use json_patch::{AddOperation, MoveOperation, PatchOperation, RemoveOperation};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::body::type_of;
use super::field_errors::{TOLD_MAX, and_more, shown_name};
use super::json_fault::json_fault;
use super::patch_path::{End, canonical, located};
use super::repair::read_repaired;
use super::{Body, Status};

const OPERATIONS_MAX: usize = 10_000;
/// Largest number of bytes that `copy` operations may add to an object in total.
const COPIED_BYTES_MAX: usize = 3 << 20;
/// The deepest nesting, which is that of a parsed body.
const DEPTH_MAX: usize = 128;

/// A parsed patch.
#[derive(Clone, Debug)]
pub enum Patch {
    Json {
        operations: json_patch::Patch,
        /// Unknown and duplicate members of operations, which strict validation reports (FV8).
        faulty: Vec<String>,
    },
    Merge(Body),
}

impl Patch {
    /// Parses a JSON patch. The error is a 400, or a 413 if there are too many operations.
    pub fn json(text: &[u8]) -> Result<Patch, Status> {
        let undecodable = |why: String| Status::bad_request(format!("error decoding patch: {why}"));
        let value: Value = read_repaired(text, |text| serde_json::from_slice(text))
            .map_err(|error| undecodable(json_fault(&error)))?;
        let list = match value {
            Value::Array(list) => list,
            Value::Null => Vec::new(),
            other => return Err(undecodable(not_a("[]handlers.jsonPatchOp", &other))),
        };
        if let Some(other) = list.iter().find(|operation| !operation.is_object()) {
            return Err(undecodable(not_a("handlers.jsonPatchOp", other)));
        }
        if list.len() > OPERATIONS_MAX {
            let count = list.len();
            return Err(Status::failure(
                413,
                "RequestEntityTooLarge",
                format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}"),
            ));
        }
        let operations = list.into_iter().map(operation).collect::<Result<Vec<PatchOperation>, Status>>()?;
        Ok(Patch::Json { operations: json_patch::Patch(operations), faulty: faulty_members(text) })
    }

    /// Parses a JSON merge patch, which must be an object. The error is a 400.
    pub fn merge(text: &[u8]) -> Result<Patch, Status> {
        if text.trim_ascii() == b"null" {
            return Err(Status::bad_request("Invalid JSON Patch"));
        }
        let body = Body::from_json(text);
        body.map(Patch::Merge).map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))
    }

    /// Returns a body with this value, and with the duplicate keys of the patch.
    pub fn body(&self, value: Map<String, Value>) -> Body {
        match self {
            Patch::Json { .. } => Body::of(value),
            Patch::Merge(Body { duplicates, more_duplicates, .. }) => {
                Body { value, duplicates: duplicates.clone(), more_duplicates: *more_duplicates }
            }
        }
    }

    /// Returns the other errors of the patch that strict validation reports.
    pub fn faulty_members(&self) -> impl Iterator<Item = String> {
        let faulty = match self {
            Patch::Json { faulty, .. } => faulty.as_slice(),
            Patch::Merge(_) => &[],
        };
        faulty.iter().cloned()
    }

    /// Returns whether the patch may read or change this member of an object, or an ancestor or
    /// descendant of it.
    pub fn touches(&self, member: &[&str]) -> bool {
        match self {
            Patch::Merge(patch) => {
                let Some((first, rest)) = member.split_first() else { return true };
                let mut change = patch.value.get(*first);
                for name in rest {
                    change = match change {
                        Some(Value::Object(below)) => below.get(*name),
                        // Null or another value replaces everything below.
                        other => return other.is_some(),
                    };
                }
                change.is_some()
            }
            Patch::Json { operations, .. } => {
                let member: String = member.iter().map(|name| format!("/{name}")).collect();
                let is_above = |one: &str, other: &str| {
                    other.strip_prefix(one).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                let meets = |path: &Pointer| is_above(path.as_str(), &member) || is_above(&member, path.as_str());
                operations.0.iter().any(|operation| match operation {
                    PatchOperation::Move(shift) => meets(&shift.from) || meets(&shift.path),
                    PatchOperation::Copy(copy) => meets(&copy.from) || meets(&copy.path),
                    other => meets(other.path()),
                })
            }
        }
    }

    /// Applies the patch to a copy of an object. Members that a merge patch replaces are not
    /// copied: for a large object they may be tens of megabytes.
    pub fn applied_to(&self, object: &Map<String, Value>) -> Result<Map<String, Value>, Status> {
        match self {
            Patch::Merge(patch) => Ok(merged(object, &patch.value)),
            Patch::Json { .. } => self.apply(object.clone()),
        }
    }

    /// Applies the patch to an object. On an error the object is dropped.
    pub fn apply(&self, object: Map<String, Value>) -> Result<Map<String, Value>, Status> {
        match self {
            Patch::Merge(patch) => Ok(merged(&object, &patch.value)),
            Patch::Json { operations, .. } => {
                let mut document = Value::Object(object);
                let mut copied = 0;
                for operation in &operations.0 {
                    match operation {
                        // As upstream, the second path is resolved after the first step.
                        PatchOperation::Move(MoveOperation { from, path }) => {
                            let from = located(&document, from, End::Existing).ok_or_else(refused)?;
                            let value = document.pointer(from.as_str()).cloned().ok_or_else(refused)?;
                            let remove = PatchOperation::Remove(RemoveOperation { path: from });
                            perform(&mut document, &remove, &mut copied)?;
                            let add = PatchOperation::Add(AddOperation { path: path.clone(), value });
                            perform(&mut document, &add, &mut copied)?;
                        }
                        other => perform(&mut document, other, &mut copied)?,
                    }
                }
                match document {
                    Value::Object(object) => Ok(object),
                    _ => Err(refused()),
                }
            }
        }
    }
}

/// Executes one operation other than `move`.
fn perform(document: &mut Value, operation: &PatchOperation, copied: &mut usize) -> Result<(), Status> {
    let mut operation = operation.clone();
    match &mut operation {
        PatchOperation::Add(add) => add.path = located(document, &add.path, End::Inserted).ok_or_else(refused)?,
        PatchOperation::Copy(copy) => {
            copy.from = located(document, &copy.from, End::Existing).ok_or_else(refused)?;
            copy.path = located(document, &copy.path, End::Inserted).ok_or_else(refused)?;
        }
        PatchOperation::Replace(replace) => {
            replace.path = located(document, &replace.path, End::Existing).ok_or_else(refused)?
        }
        PatchOperation::Remove(remove) => {
            remove.path = located(document, &remove.path, End::Existing).ok_or_else(refused)?
        }
        PatchOperation::Test(test) => test.path = located(document, &test.path, End::Existing).ok_or_else(refused)?,
        PatchOperation::Move(_) => return Err(refused()),
    }
    check_bounds(document, &operation, copied)?;
    if meets_absent(document, &operation) {
        return Ok(());
    }
    json_patch::patch_unsafe(document, std::slice::from_ref(&operation)).map_err(|_| refused())
}

/// Executes a `replace`, or a `test` for null, of an absent member of an object, and returns true.
/// Does nothing and returns false for any other operation (PA16). kube-apiserver treats an absent
/// member as null there, unlike RFC 6902: clients replace fields that are omitted when empty.
fn meets_absent(document: &mut Value, operation: &PatchOperation) -> bool {
    let (path, value) = match operation {
        PatchOperation::Replace(replace) => (&replace.path, &replace.value),
        PatchOperation::Test(test) if test.value.is_null() => (&test.path, &test.value),
        _ => return false,
    };
    let Some((parent, member)) = path.split_back() else { return false };
    let Some(Value::Object(parent)) = document.pointer_mut(parent.as_str()) else { return false };
    let member = member.decoded();
    if parent.contains_key(&*member) {
        return false;
    }
    if matches!(operation, PatchOperation::Replace(_)) {
        parent.insert(member.into_owned(), value.clone());
    }
    true
}

/// Returns the unknown and duplicate members of operations (FV8).
fn faulty_members(text: &[u8]) -> Vec<String> {
    const KNOWN: [&str; 4] = ["op", "path", "from", "value"];
    let operations: Vec<Keys> = read_repaired(text, |text| serde_json::from_slice(text)).unwrap_or_default();
    let (mut faults, mut more) = (Vec::new(), 0);
    for (at, Keys(keys)) in operations.iter().enumerate() {
        let mut seen = HashSet::new();
        for key in keys {
            let fault = match KNOWN.contains(&key.as_str()) {
                false => "unknown",
                true if !seen.insert(key.as_str()) => "duplicate",
                true => continue,
            };
            match faults.len() < TOLD_MAX {
                true => faults.push(format!("json patch {fault} field \"[{at}].{}\"", shown_name(key))),
                false => more += 1,
            }
        }
    }
    faults.extend(Some(more).filter(|more| *more > 0).map(and_more));
    faults
}

/// The keys of an object, in the order of the text and with repetitions.
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Keys, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, _)) = members.next_entry::<String, IgnoredAny>()? {
                    keys.push(key);
                }
                Ok(Keys(keys))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

fn merge(object: &mut Map<String, Value>, patch: &Map<String, Value>) {
    patch.iter().for_each(|(key, change)| merge_member(object, key, change));
}

fn merge_member(object: &mut Map<String, Value>, key: &str, change: &Value) {
    match change {
        Value::Null => drop(object.remove(key)),
        Value::Object(change) => match object.get_mut(key) {
            Some(Value::Object(member)) => merge(member, change),
            _ => {
                let mut member = Map::new();
                merge(&mut member, change);
                object.insert(key.to_owned(), Value::Object(member));
            }
        },
        other => drop(object.insert(key.to_owned(), other.clone())),
    }
}

/// Merges like `merge`, into a copy.
fn merged(object: &Map<String, Value>, patch: &Map<String, Value>) -> Map<String, Value> {
    let kept = object.iter().filter_map(|(key, member)| match (patch.get(key), member) {
        (None, member) => Some((key.clone(), member.clone())),
        (Some(Value::Object(change)), Value::Object(member)) => Some((key.clone(), merged(member, change).into())),
        (Some(_), _) => None,
    });
    let mut copy: Map<String, Value> = kept.collect();
    for (key, change) in patch {
        if !copy.contains_key(key) {
            merge_member(&mut copy, key, change);
        }
    }
    copy
}

/// Refuses an operation that would nest too deep or copy too much. A missing source is reported by
/// the operation itself.
fn check_bounds(document: &Value, operation: &PatchOperation, copied: &mut usize) -> Result<(), Status> {
    let moved = |from: &Pointer| document.pointer(from.as_str());
    let (path, value) = match operation {
        PatchOperation::Add(add) => (&add.path, Some(&add.value)),
        PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value)),
        PatchOperation::Move(shift) => (&shift.path, moved(&shift.from)),
        PatchOperation::Copy(copy) => {
            let source = moved(&copy.from);
            *copied += source.map_or(0, size);
            if *copied > COPIED_BYTES_MAX {
                let message = format!("the copy operations of a JSON patch may add at most {COPIED_BYTES_MAX} bytes");
                return Err(Status::failure(413, "RequestEntityTooLarge", message));
            }
            (&copy.path, source)
        }
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    match value {
        Some(value) if path.count() + depth(value) > DEPTH_MAX => Err(refused()),
        _ => Ok(()),
    }
}

/// Returns the approximate size of `value` as text, in bytes. The recursion is bounded by the
/// nesting.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::Object(members) => 2 + members.iter().map(|(key, member)| key.len() + 4 + size(member)).sum::<usize>(),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Parses one operation. The error contains the operation and the reason.
fn operation(mut value: Value) -> Result<PatchOperation, Status> {
    let member = |name: &str| value.get(name).filter(|member| !member.is_null());
    if let Some((name, other)) = ["op", "path", "from"]
        .into_iter()
        .find_map(|name| member(name).filter(|it| !it.is_string()).map(|it| (name, it)))
    {
        let found = type_of(other);
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {found} into Go struct field jsonPatchOp.{name} of type string"
        )));
    }
    let lacks = match member("op").and_then(Value::as_str) {
        Some("add" | "replace") if value.get("value").is_none() => {
            "failed to decode 'value': operation, missing value field: missing value"
        }
        Some("move" | "copy") if member("from").is_none() => {
            "failed to decode 'from': operation, missing from field: missing value"
        }
        Some("add" | "replace" | "test" | "move" | "copy" | "remove") => {
            "failed to decode 'path': operation missing path field: missing value"
        }
        _ => "unsupported operation",
    };
    let refused = Status::bad_request(format!("invalid operation {value}: {lacks}"));
    if let Value::Object(members) = &mut value {
        for name in ["path", "from"] {
            if let Some(Value::String(path)) = members.get_mut(name) {
                *path = canonical(path);
            }
        }
        // A test without a value tests for null (PA16).
        members.entry("value").or_insert(Value::Null);
    }
    if lacks.ends_with("missing value field: missing value") {
        return Err(refused);
    }
    PatchOperation::deserialize(&value).map_err(|_| refused)
}

fn not_a(expected: &str, value: &Value) -> String {
    format!("json: cannot unmarshal {} into Go value of type {expected}", type_of(value))
}

/// Returns the error of a `test` that fails, or of a path that does not exist (PA5).
fn refused() -> Status {
    Status::failure(422, "Invalid", "the server rejected our request due to an error in our request")
        .with(super::Details::default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        let Value::Object(object) = value else { panic!("not an object") };
        object
    }

    #[test]
    fn pa8_null_removes_and_lists_are_replaced() {
        let patch = Patch::merge(br#"{"a":null,"l":[3],"m":{"x":null,"y":{"z":null,"k":1}},"s":{"t":2}}"#).unwrap();
        let patched = patch.apply(object(json!({"a": 1, "l": [1, 2], "m": {"x": 1, "w": 0}, "s": "text"}))).unwrap();
        assert_eq!(Value::from(patched), json!({"l": [3], "m": {"w": 0, "y": {"k": 1}}, "s": {"t": 2}}));
    }

    #[test]
    fn pa1_a_json_patch_adds_tests_and_moves() {
        let text = br#"[{"op":"test","path":"/a","value":1},{"op":"add","path":"/l/-","value":9},
            {"op":"move","from":"/a","path":"/b"},{"op":"remove","path":"/l/0"}]"#;
        let patched = Patch::json(text).unwrap().apply(object(json!({"a": 1, "l": [1]}))).unwrap();
        assert_eq!(Value::from(patched), json!({"b": 1, "l": [9]}));
    }

    #[test]
    fn pa16_a_member_that_is_absent_counts_as_null() {
        let patched = |operation: Value| {
            let text = Value::from(vec![operation]).to_string();
            Patch::json(text.as_bytes()).unwrap().apply(object(json!({"s": {"a/b": 1}, "l": [1]}))).map(Value::from)
        };
        let replace = |path: &str| patched(json!({"op": "replace", "path": path, "value": 2}));
        assert_eq!(replace("/s/new").unwrap(), json!({"s": {"a/b": 1, "new": 2}, "l": [1]}));
        assert_eq!(replace("/s/a~1b").unwrap(), json!({"s": {"a/b": 2}, "l": [1]}));
        assert_eq!(replace("/s/c~1d").unwrap(), json!({"s": {"a/b": 1, "c/d": 2}, "l": [1]}));
        for path in ["/x/new", "/l/1", "/l/-", "/s/a~1b/c"] {
            assert_eq!(replace(path).unwrap_err().code, 422, "{path}");
        }
        let test = |path: &str| patched(json!({"op": "test", "path": path, "value": null}));
        assert!(test("/s/new").is_ok());
        for path in ["/s/a~1b", "/x/new", "/l/1"] {
            assert_eq!(test(path).unwrap_err().code, 422, "{path}");
        }
    }

    #[test]
    fn tl2_paths_are_read_as_upstream_reads_them() {
        let patched = |operation: Value| {
            let text = Value::from(vec![operation]).to_string();
            Patch::json(text.as_bytes())?.apply(object(json!({"l": [1, 2], "m": {"a~": 1}}))).map(Value::from)
        };
        for (operation, expected) in [
            (json!({"op": "replace", "path": "/l/-1", "value": 9}), json!({"l": [1, 9], "m": {"a~": 1}})),
            (json!({"op": "replace", "path": "/l/00", "value": 9}), json!({"l": [9, 2], "m": {"a~": 1}})),
            (json!({"op": "replace", "path": "/l/+1", "value": 9}), json!({"l": [1, 9], "m": {"a~": 1}})),
            (json!({"op": "add", "path": "/l/-1", "value": 9}), json!({"l": [1, 2, 9], "m": {"a~": 1}})),
            (json!({"op": "add", "path": "/l/-3", "value": 9}), json!({"l": [9, 1, 2], "m": {"a~": 1}})),
            (json!({"op": "remove", "path": "/l/-2"}), json!({"l": [2], "m": {"a~": 1}})),
            (json!({"op": "move", "from": "/l/-1", "path": "/l/0"}), json!({"l": [2, 1], "m": {"a~": 1}})),
            (json!({"op": "copy", "from": "/l/-1", "path": "/l/-"}), json!({"l": [1, 2, 2], "m": {"a~": 1}})),
            (json!({"op": "add", "path": "/m/a~", "value": 2}), json!({"l": [1, 2], "m": {"a~": 2}})),
            (json!({"op": "add", "path": "x/m/a~0", "value": 2}), json!({"l": [1, 2], "m": {"a~": 2}})),
            (json!({"op": "test", "path": "/nope"}), json!({"l": [1, 2], "m": {"a~": 1}})),
        ] {
            assert_eq!(patched(operation.clone()).unwrap(), expected, "{operation}");
        }
        for operation in [
            json!({"op": "replace", "path": "/l/-3", "value": 9}),
            json!({"op": "add", "path": "/l/-4", "value": 9}),
            json!({"op": "add", "path": "/l/x", "value": 9}),
            json!({"op": "add", "path": "m", "value": 9}),
            json!({"op": "test", "path": "", "value": {"l": [1, 2], "m": {"a~": 1}}}),
            json!({"op": "test", "path": "/l/0"}),
            json!({"op": "move", "from": "/m", "path": "/m/x"}),
        ] {
            assert_eq!(patched(operation.clone()).unwrap_err().code, 422, "{operation}");
        }
        assert_eq!(patched(json!({"op": "add", "path": "/x"})).unwrap_err().code, 400);
        assert_eq!(patched(json!({"op": "test"})).unwrap_err().code, 400);
    }

    #[test]
    fn pa5_a_failed_test_and_a_bad_path_are_422() {
        for text in [
            r#"[{"op":"test","path":"/a","value":2}]"#,
            r#"[{"op":"remove","path":"/x/y"}]"#,
            r#"[{"op":"replace","path":"","value":[]}]"#,
        ] {
            let status = Patch::json(text.as_bytes()).unwrap().apply(object(json!({"a": 1}))).unwrap_err();
            assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{text}");
            assert_eq!(status.message, "the server rejected our request due to an error in our request");
        }
    }

    #[test]
    fn pa5_what_is_no_patch_is_400() {
        for status in [Patch::merge(b"{").unwrap_err(), Patch::json(b"[{").unwrap_err()] {
            assert_eq!((status.code, &*status.message), (400, "error decoding patch: unexpected end of JSON input"));
        }
        for status in [Patch::merge(b"[]").unwrap_err(), Patch::json(br#"[{"op":"x","path":""}]"#).unwrap_err()] {
            assert_eq!(status.code, 400);
        }
    }

    #[test]
    fn pa6_operations_and_copies_are_bounded() {
        let many = vec![json!({"op": "test", "path": "", "value": 1}); OPERATIONS_MAX + 1];
        let status = Patch::json(Value::from(many).to_string().as_bytes()).unwrap_err();
        assert_eq!(status.code, 413);
        assert_eq!(status.message, "The allowed maximum operations in a JSON patch is 10000, got 10001");

        let doubling = vec![json!({"op": "copy", "from": "/l", "path": "/l/-"}); 40];
        let doubling = Patch::json(Value::from(doubling).to_string().as_bytes()).unwrap();
        let status = doubling.apply(object(json!({"l": ["x".repeat(1000)]}))).unwrap_err();
        assert_eq!(status.code, 413);
    }

    #[test]
    fn a_patch_touches_what_is_above_and_below_its_paths() {
        let touches = |patch: Result<Patch, Status>| patch.unwrap().touches(&["metadata", "managedFields"]);
        for text in [
            &br#"{"metadata":{"labels":{"managedFields":"x"}},"spec":{}}"#[..],
            b"{}",
            br#"{"metadata":{}}"#,
            br#"{"managedFields":[]}"#,
        ] {
            assert!(!touches(Patch::merge(text)), "{}", String::from_utf8_lossy(text));
        }
        for text in [
            &br#"{"metadata":{"managedFields":[{}]}}"#[..],
            br#"{"metadata":{"managedFields":null}}"#,
            br#"{"metadata":null}"#,
        ] {
            assert!(touches(Patch::merge(text)), "{}", String::from_utf8_lossy(text));
        }
        let json = |path: &str| Patch::json(format!(r#"[{{"op":"test","path":"{path}","value":1}}]"#).as_bytes());
        for path in ["/metadata/labels/a", "/spec", "/metadata/managedFields2", "/meta"] {
            assert!(!touches(json(path)), "{path}");
        }
        for path in ["", "/metadata", "/metadata/managedFields", "/metadata/managedFields/0/time"] {
            assert!(touches(json(path)), "{path}");
        }
        for operation in ["copy", "move"] {
            let text = format!(r#"[{{"op":"{operation}","from":"/metadata/managedFields","path":"/spec/x"}}]"#);
            assert!(touches(Patch::json(text.as_bytes())), "{operation}");
        }
    }

    #[test]
    fn a_patch_cannot_nest_without_end() {
        let nest = vec![json!({"op": "copy", "from": "/a", "path": "/a/a"}); 500];
        let nest = Patch::json(Value::from(nest).to_string().as_bytes()).unwrap();
        assert_eq!(nest.apply(object(json!({"a": {}}))).unwrap_err().code, 422);
    }
}
