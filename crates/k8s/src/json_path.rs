//! The part of kubectl's JSONPath that printer columns use:
//! `.status.conditions[?(@.type=="Ready")].status`, `.spec.names[0]`, `.spec.names[*]`,
//! `.metadata.labels.app\.kubernetes\.io/name`, `['a b']`.
//!
//! Not RFC 9535: there is no leading `$`, and a column shows the first match only. Ranges, unions,
//! recursive descent and functions are absent.

use serde_json::Value;

/// A parsed path. Finding a value allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath {
    steps: Box<[Step]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(Box<str>),
    /// A negative index counts from the end.
    Index(i64),
    All,
    /// `[?(@.key=="text")]`, or `!=`.
    Filter {
        key: Box<[Box<str>]>,
        equal: bool,
        value: Value,
    },
}

impl JsonPath {
    /// Parses a path. Returns `None` if it is outside the subset.
    pub fn parse(text: &str) -> Option<JsonPath> {
        let text = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = match rest.as_bytes()[0] {
                b'.' => key(&rest[1..])?,
                b'[' => bracket(&rest[1..])?,
                _ => return None,
            };
            steps.push(step);
            rest = after;
        }
        (!steps.is_empty()).then(|| JsonPath { steps: steps.into() })
    }

    /// Returns the first key, and the path below it. `None` for a path that starts with an index.
    pub fn split_first(&self) -> Option<(&str, PathRef<'_>)> {
        PathRef(&self.steps).split_first()
    }

    /// Returns the first match in document order.
    pub fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        find(&self.steps, value)
    }
}

/// The rest of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathRef<'a>(&'a [Step]);

impl<'a> PathRef<'a> {
    /// Returns the first key and the rest, as `JsonPath::split_first`.
    pub fn split_first(self) -> Option<(&'a str, PathRef<'a>)> {
        match self.0.split_first()? {
            (Step::Key(key), rest) => Some((key, PathRef(rest))),
            _ => None,
        }
    }

    /// Returns the first match in document order.
    pub fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        find(self.0, value)
    }

    /// Returns the number of matches.
    pub fn count(&self, value: &Value) -> usize {
        count(self.0, value)
    }
}

fn count(steps: &[Step], value: &Value) -> usize {
    let Some((step, rest)) = steps.split_first() else { return 1 };
    match step {
        Step::Key(_) | Step::Index(_) => find(std::slice::from_ref(step), value).map_or(0, |found| count(rest, found)),
        Step::All | Step::Filter { .. } => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            items.iter().filter(|item| step.lets_pass(item)).map(|item| count(rest, item)).sum()
        }
    }
}

impl Step {
    /// Returns whether a filter selects the item. Other steps select every item.
    fn lets_pass(&self, item: &Value) -> bool {
        let Step::Filter { key, equal, value: wanted } = self else { return true };
        let found = key.iter().try_fold(item, |item, key| item.get(&**key));
        found.is_some_and(|found| (found == wanted) == *equal)
    }
}

fn find<'v>(steps: &[Step], value: &'v Value) -> Option<&'v Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match step {
        Step::Key(key) => find(rest, value.get(&**key)?),
        Step::Index(index) => {
            let list = value.as_array()?;
            let place =
                if *index < 0 { list.len().checked_sub(index.unsigned_abs() as usize)? } else { *index as usize };
            find(rest, list.get(place)?)
        }
        Step::All | Step::Filter { .. } => {
            value.as_array()?.iter().filter(|item| step.lets_pass(item)).find_map(|item| find(rest, item))
        }
    }
}

/// Parses a key after a dot, up to the next dot or bracket; `\.` is a dot in the key.
fn key(text: &str) -> Option<(Step, &str)> {
    let mut key = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => key.push(chars.next()?.1),
            '.' | '[' => {
                end = at;
                break;
            }
            _ => key.push(char),
        }
    }
    let rest = &text[end..];
    match key.as_str() {
        "" => None,
        "*" => Some((Step::All, rest)),
        _ => Some((Step::Key(key.into()), rest)),
    }
}

/// Parses the content of brackets.
fn bracket(text: &str) -> Option<(Step, &str)> {
    if let Some(filter) = text.strip_prefix("?(") {
        let (inside, rest) = filter.split_once(")]")?;
        return Some((condition(inside.trim())?, rest));
    }
    if let Some(quoted) = text.strip_prefix('\'') {
        let (key, rest) = quoted.split_once("']")?;
        return Some((Step::Key(key.into()), rest));
    }
    let (inside, rest) = text.split_once(']')?;
    let step = match inside.trim() {
        "*" => Step::All,
        number => Step::Index(number.parse().ok()?),
    };
    Some((step, rest))
}

/// Parses the condition of a filter: `@.type=="Ready"`.
fn condition(text: &str) -> Option<Step> {
    let (left, right, equal) = match text.split_once("==") {
        Some((left, right)) => (left, right, true),
        None => text.split_once("!=").map(|(left, right)| (left, right, false))?,
    };
    let mut rest = left.trim().strip_prefix('@')?;
    let mut path = Vec::new();
    while let Some(text) = rest.strip_prefix('.') {
        let (Step::Key(name), after) = key(text)? else { return None };
        path.push(name);
        rest = after;
    }
    let right = right.trim();
    let value = match right.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        Some(text) => Value::from(text),
        None => serde_json::from_str(right).ok()?,
    };
    rest.is_empty().then(|| Step::Filter { key: path.into(), equal, value })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_find_what_kubectl_finds() {
        let object = json!({
            "metadata": {"labels": {"app.io/name": "web"}},
            "spec": {"names": ["a", "b"], "deep": {"x y": 1}},
            "status": {"conditions": [
                {"type": "Ready", "status": "False", "n": 1},
                {"type": "Scheduled", "status": "True", "n": 2},
            ]},
        });
        for (path, expected) in [
            (r#".status.conditions[?(@.type=="Scheduled")].status"#, json!("True")),
            (".status.conditions[?(@.type=='Ready')].status", json!("False")),
            (r#".status.conditions[?(@.type!="Ready")].n"#, json!(2)),
            (".status.conditions[?(@.n==1)].type", json!("Ready")),
            (".spec.names", json!(["a", "b"])),
            (".spec.names[1]", json!("b")),
            (".spec.names[-1]", json!("b")),
            (".spec.names[*]", json!("a")),
            ("{.spec.names[0]}", json!("a")),
            (r".metadata.labels.app\.io/name", json!("web")),
            (".spec.deep['x y']", json!(1)),
        ] {
            assert_eq!(JsonPath::parse(path).and_then(|path| path.find(&object).cloned()), Some(expected), "{path}");
        }
        for path in [".spec.none", ".spec.names[7]", ".spec.names[-7]", ".spec.names.x", ".spec[0]"] {
            assert_eq!(JsonPath::parse(path).unwrap().find(&object), None, "{path}");
        }
    }

    #[test]
    fn what_matches_is_counted() {
        let object = json!({"list": [{"is": "a"}, {"is": "b", "of": [1, 2]}, {"is": "a"}, 7], "one": 1});
        for (path, expected) in [
            (".list[?(@.is=='a')]", 2),
            (".list[?(@.is!='a')]", 1),
            (".list[*]", 4),
            (".list[*].is", 3),
            (".list[*].of[*]", 2),
            (".list[0].is", 1),
            (".one", 1),
            (".none[*]", 0),
            (".one[*]", 0),
        ] {
            let path = JsonPath::parse(path).unwrap();
            assert_eq!(PathRef(&path.steps).count(&object), expected, "{path:?}");
        }
    }

    #[test]
    fn what_is_outside_the_subset_does_not_parse() {
        for path in ["", "spec", "..spec", ".", ".a[", ".a[x]", ".a[?(@.b)]", ".a[?(b==1)]", ".a[0:2]", ".a\\"] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }
}
