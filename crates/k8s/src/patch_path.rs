//! The paths of a JSON patch as upstream parses them (TL2), converted to RFC 6901.

use json_patch::jsonptr::{Pointer, PointerBuf};
use serde_json::Value;

/// Returns the path in the syntax of RFC 6901 (TL2). kube-apiserver ignores any text before the
/// first slash, and accepts a tilde that does not begin an escape.
pub(super) fn canonical(path: &str) -> String {
    let path = path.find('/').map_or("", |at| &path[at..]);
    let mut canonical = String::with_capacity(path.len());
    for (at, c) in path.char_indices() {
        canonical.push(c);
        if c == '~' && !path[at + 1..].starts_with(['0', '1']) {
            canonical.push('0');
        }
    }
    canonical
}

/// The items that the last index of a path may refer to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// An existing item.
    Existing,
    /// The position of an item to be inserted.
    Inserted,
}

/// Returns the path with list indexes in the syntax of RFC 6901 (TL2). kube-apiserver parses
/// indexes as Go parses integers, and counts negative ones from the end. It has no operation on the
/// whole object. Returns `None` if the path does not exist.
pub(super) fn located(document: &Value, path: &Pointer, end: End) -> Option<PointerBuf> {
    let last = path.count().checked_sub(1)?;
    let mut found = PointerBuf::new();
    let mut here = Some(document);
    for (place, token) in path.tokens().enumerate() {
        let name = token.decoded();
        match here {
            Some(Value::Array(items)) if let Ok(index) = name.parse::<i64>() => {
                let length = items.len() + usize::from(end == End::Inserted && place == last);
                let index = if index < 0 { index + length as i64 } else { index };
                let index = usize::try_from(index).ok()?;
                found.push_back(index);
                here = items.get(index);
            }
            _ => {
                here = here.and_then(Value::as_object).and_then(|members| members.get(&*name));
                found.push_back(token);
            }
        }
    }
    Some(found)
}
