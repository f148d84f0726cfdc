//! The paths of a JSON patch as upstream reads them (TL2), in the terms of RFC 6901.

use json_patch::jsonptr::{Pointer, PointerBuf};
use serde_json::Value;

/// The path as RFC 6901 spells it (TL2). kube-apiserver ignores what stands before the first
/// slash, and takes a tilde that begins no escape as it is.
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

/// What the last index of a path counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// An item that is there.
    Existing,
    /// An item that will be inserted.
    Inserted,
}

/// The path with each index of a list as RFC 6901 spells it (TL2). kube-apiserver reads indexes as
/// Go reads integers, and counts negative ones from the end. It has no operation on the whole
/// object. `None`: there is no such place.
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
