//! Error messages for JSON patches that cannot be applied, with kube-apiserver's text.

use serde_json::Value as Json;

const MISSING: &str = "missing value";

/// Returns why this operation cannot be applied to the document.
pub fn why_refused(operation: &Json, document: &Json) -> String {
    let text = |member: &str| operation[member].as_str().unwrap_or_default();
    let (op, path, from) = (text("op"), text("path"), text("from"));
    let is_missing = |words: &str, path: &str| format!("{op} operation does not apply: {words}: {path}: {MISSING}");
    if matches!(op, "move" | "copy") {
        let Some((source, key)) = container(document, from) else {
            return is_missing("doc is missing from path", from);
        };
        if let Some(fault) = fault_of_key(source, &key, op == "move", false) {
            return match op {
                "move" => format!("error in move for path: '{key}': {fault}"),
                _ => format!("error in copy for from: '{from}': {fault}"),
            };
        }
        let Some((into, key)) = container(document, path) else {
            return is_missing("doc is missing destination path", path);
        };
        let fault = fault_of_key(into, &key, false, true).unwrap_or_else(|| MISSING.to_owned());
        return match op {
            "move" => format!("error in move for path: '{path}': {fault}"),
            _ => format!("error while adding value during copy: {fault}"),
        };
    }
    let Some((target, key)) = container(document, path) else {
        return match op {
            "test" => is_missing("is missing path", path),
            "replace" => is_missing("doc is missing path", path),
            _ => is_missing("doc is missing path", &format!("{path:?}")),
        };
    };
    let fault = || fault_of_key(target, &key, op == "remove", op == "add").unwrap_or_else(|| MISSING.to_owned());
    match op {
        "replace" => is_missing("doc is missing key", path),
        "test" => format!("error in test for path: '{path}': {}", fault()),
        _ => format!("error in {op} for path: '{path}': {}", fault()),
    }
}

/// Returns the object or list that contains the target of a path, and the target's key in it.
fn container<'a>(document: &'a Json, path: &str) -> Option<(&'a Json, String)> {
    let (parent, key) = path.rsplit_once('/')?;
    let found = document.pointer(parent).filter(|it| it.is_object() || it.is_array())?;
    Some((found, key.replace("~1", "/").replace("~0", "~")))
}

/// Returns the fault of a key in an object or list. A key of an object may be absent unless it is
/// removed; an index that is added may be the end of the list.
fn fault_of_key(container: &Json, key: &str, is_removed: bool, is_added: bool) -> Option<String> {
    let Some(list) = container.as_array() else {
        let is_absent = is_removed && container.get(key).is_none();
        return is_absent.then(|| format!("Unable to remove nonexistent key: {key}: {MISSING}"));
    };
    if is_added && key == "-" {
        return None;
    }
    let Ok(index) = key.parse::<i64>() else {
        let why = format!("strconv.Atoi: parsing {key:?}: invalid syntax");
        return Some(match is_added {
            true => format!("value was not a proper array index: '{key}': {why}"),
            false => why,
        });
    };
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let end = length + i64::from(is_added);
    (index >= end || index < -end).then(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ad24_a_json_patch_that_cannot_be_applied_is_told_in_kube_apiservers_words() {
        let document = json!({"spec": {"list": [1]}});
        for (op, path, why) in [
            (
                "remove",
                "/spec/x",
                "error in remove for path: '/spec/x': Unable to remove nonexistent key: x: missing value",
            ),
            ("remove", "/no/x", "remove operation does not apply: doc is missing path: \"/no/x\": missing value"),
            ("add", "/no/x", "add operation does not apply: doc is missing path: \"/no/x\": missing value"),
            (
                "add",
                "/spec/list/3",
                "error in add for path: '/spec/list/3': Unable to access invalid index: 3: invalid index referenced",
            ),
            ("replace", "/no/x", "replace operation does not apply: doc is missing path: /no/x: missing value"),
            (
                "replace",
                "/spec/list/1",
                "replace operation does not apply: doc is missing key: /spec/list/1: missing value",
            ),
            ("test", "/no/x", "test operation does not apply: is missing path: /no/x: missing value"),
        ] {
            assert_eq!(why_refused(&json!({"op": op, "path": path}), &document), why);
        }
        let copy = json!({"op": "copy", "from": "/no/x", "path": "/spec/y"});
        assert_eq!(
            why_refused(&copy, &document),
            "copy operation does not apply: doc is missing from path: /no/x: missing value"
        );
    }
}
