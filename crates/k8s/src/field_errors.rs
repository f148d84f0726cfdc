//! Validation errors of an object, field by field, in the wording of Kubernetes (ER6, ER7).
//!
//! The number and total size of the reported errors are bounded for any object (LI11).

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Largest number of errors of one request that are reported individually. Others are only counted.
pub const TOLD_MAX: usize = 100;
/// Largest total size of the reported errors, in bytes. A response contains each text twice.
const TOLD_BYTES_MAX: usize = 128 * 1024;
/// Largest size of the text of one error, in bytes.
const BODY_BYTES_MAX: usize = 4 * 1024;
/// Largest size of a value in such a text, in bytes, so that the reason behind it still fits.
const VALUE_BYTES_MAX: usize = 3 * 1024;
/// Largest size of a name in a path, in bytes. Valid names are shorter.
const NAME_BYTES_MAX: usize = 512;

/// Returns a name as paths display it: one that is too long to be valid is truncated.
pub fn shown_name(name: &str) -> Cow<'_, str> {
    shortened(name, NAME_BYTES_MAX)
}

/// Returns the message that counts the errors that are not reported.
pub fn and_more(count: usize) -> String {
    format!("and {count} more")
}

fn shortened(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let left = text.len() - text.floor_char_boundary(bytes_max);
    Cow::Owned(format!("{}... ({left} bytes more)", &text[..text.floor_char_boundary(bytes_max)]))
}

/// The path of an error: `spec.workloads[0].kind`, `metadata.labels[app]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldPath(String);

impl FieldPath {
    /// Returns the path of the object itself.
    pub const fn root() -> FieldPath {
        FieldPath(String::new())
    }

    /// Creates a path from its text: `FieldPath::new("spec.workloads")`.
    pub fn new(path: &str) -> FieldPath {
        FieldPath(path.to_owned())
    }

    /// Returns the path of a member: `spec.workloads`.
    #[must_use]
    pub fn child(&self, name: &str) -> FieldPath {
        match self.0.as_str() {
            "" => FieldPath(shown_name(name).into_owned()),
            parent => FieldPath(format!("{parent}.{}", shown_name(name))),
        }
    }

    /// Returns the path of an item: `spec.workloads[0]`.
    #[must_use]
    pub fn index(&self, index: usize) -> FieldPath {
        FieldPath(format!("{}[{index}]", self.0))
    }

    /// Returns the path of an entry of a map: `metadata.labels[app]`.
    #[must_use]
    pub fn key(&self, key: &str) -> FieldPath {
        FieldPath(format!("{}[{}]", self.0, shown_name(key)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            // Kubernetes prints this for a nil path.
            "" => f.write_str("<nil>"),
            path => f.write_str(path),
        }
    }
}

/// A validation error. `body` is the text after the path, as upstream's `ErrorBody()` returns it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldError {
    pub path: FieldPath,
    /// `FieldValueInvalid`, `FieldValueRequired`, …: `details.causes[].reason`.
    pub reason: &'static str,
    pub body: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body)
    }
}

/// The validation errors of one object, in the order of its fields. An empty list means that it is
/// valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors {
    told: Vec<FieldError>,
    told_bytes: usize,
    /// Hashes of the errors that are not reported.
    more: Vec<u64>,
}

impl FieldErrors {
    pub fn is_empty(&self) -> bool {
        self.told.is_empty() && self.more.is_empty()
    }

    /// Iterates over the reported errors.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &FieldError> {
        self.told.iter()
    }

    /// Returns the number of errors that are not reported.
    pub fn more(&self) -> usize {
        self.more.len()
    }

    /// Adds an error. `body` is the text after the path.
    pub fn push(&mut self, path: &FieldPath, reason: &'static str, body: String) {
        let body = match shortened(&body, BODY_BYTES_MAX) {
            Cow::Borrowed(_) => body,
            Cow::Owned(shortened) => shortened,
        };
        self.add(FieldError { path: path.clone(), reason, body });
    }

    pub fn append(&mut self, other: FieldErrors) {
        other.told.into_iter().for_each(|error| self.add(error));
        self.more.extend(other.more);
    }

    /// Returns the errors that `known` does not contain.
    #[must_use]
    pub fn without(self, known: &FieldErrors) -> FieldErrors {
        let known: HashSet<u64> = known.told.iter().map(hash).chain(known.more.iter().copied()).collect();
        let mut left = FieldErrors::default();
        self.told.into_iter().filter(|error| !known.contains(&hash(error))).for_each(|error| left.add(error));
        left.more.extend(self.more.into_iter().filter(|error| !known.contains(error)));
        left
    }

    fn add(&mut self, error: FieldError) {
        let bytes = error.path.as_str().len() + error.body.len();
        if self.told.len() >= TOLD_MAX || self.told_bytes + bytes > TOLD_BYTES_MAX {
            return self.more.push(hash(&error));
        }
        self.told_bytes += bytes;
        self.told.push(error);
    }

    /// Adds an error for an invalid value. The message contains `value` as JSON.
    pub fn invalid(&mut self, path: &FieldPath, value: impl serde::Serialize, detail: impl fmt::Display) {
        let value = shown(value);
        let value = shortened(&value, VALUE_BYTES_MAX);
        self.push(path, "FieldValueInvalid", format!("Invalid value: {value}: {detail}"));
    }

    /// Adds an error for a missing value. `detail` may be empty.
    pub fn required(&mut self, path: &FieldPath, detail: &str) {
        let colon = if detail.is_empty() { "" } else { ": " };
        self.push(path, "FieldValueRequired", format!("Required value{colon}{detail}"));
    }

    /// Adds an error for a field that must not be set, or not to this value.
    pub fn forbidden(&mut self, path: &FieldPath, detail: impl fmt::Display) {
        self.push(path, "FieldValueForbidden", format!("Forbidden: {detail}"));
    }

    /// Adds an error for a value that occurs twice. The message contains `value` as JSON.
    pub fn duplicate(&mut self, path: &FieldPath, value: impl serde::Serialize) {
        self.push(path, "FieldValueDuplicate", format!("Duplicate value: {}", shown(value)));
    }

    /// Adds an error for a reference to something that does not exist. The message contains `value`
    /// as JSON.
    pub fn not_found(&mut self, path: &FieldPath, value: impl serde::Serialize) {
        self.push(path, "FieldValueNotFound", format!("Not found: {}", shown(value)));
    }

    /// Adds an error for a value outside of `supported`. The message lists `supported` in the given
    /// order.
    pub fn not_supported(&mut self, path: &FieldPath, value: impl serde::Serialize, supported: &[&str]) {
        let list = supported.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ");
        let body = format!("Unsupported value: {}: supported values: {list}", shown(value));
        self.push(path, "FieldValueNotSupported", body);
    }

    pub fn too_long(&mut self, path: &FieldPath, limit_bytes: usize) {
        self.push(path, "FieldValueTooLong", format!("Too long: may not be more than {limit_bytes} bytes"));
    }

    pub fn too_many(&mut self, path: &FieldPath, actual: usize, limit: usize) {
        self.push(path, "FieldValueTooMany", format!("Too many: {actual}: must have at most {limit} items"));
    }

    /// Returns the error of an object that its schema accepts and that its Rust type cannot
    /// represent.
    pub fn undecodable(error: &serde_json::Error) -> FieldErrors {
        let mut errors = FieldErrors::default();
        errors.push(&FieldPath::root(), "FieldValueInvalid", format!("Invalid value: \"object\": {error}"));
        errors
    }
}

/// Returns a hash of the error that is stable within this process.
fn hash(error: &FieldError) -> u64 {
    let mut state = DefaultHasher::new();
    error.hash(&mut state);
    state.finish()
}

fn shown(value: impl serde::Serialize) -> String {
    serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_kubernetes_writes_them() {
        let path = FieldPath::new("spec").child("workloads").index(2).child("kind");
        assert_eq!(path.to_string(), "spec.workloads[2].kind");
        assert_eq!(FieldPath::new("metadata.labels").key("app").to_string(), "metadata.labels[app]");
    }

    #[test]
    fn li11_a_hundred_faults_are_told_and_the_others_are_counted() {
        let path = FieldPath::new("spec.x");
        let mut errors = FieldErrors::default();
        (0..250).for_each(|number| errors.invalid(&path.index(number), "a", "no good"));
        assert_eq!((errors.iter().len(), errors.more()), (TOLD_MAX, 150));
        let mut known = FieldErrors::default();
        (0..249).for_each(|number| known.invalid(&path.index(number), "a", "no good"));
        let left = errors.without(&known);
        assert_eq!((left.iter().len(), left.more(), left.is_empty()), (0, 1, false), "the last one is new");
        let mut large = FieldErrors::default();
        (0..250).for_each(|_| large.invalid(&path.key(&"k".repeat(5_000)), "v".repeat(50_000), "no good"));
        let bytes: usize = large.iter().map(|error| error.to_string().len()).sum();
        assert!(bytes < TOLD_BYTES_MAX + TOLD_MAX * 4 && large.iter().len() + large.more() == 250, "{bytes}");
        assert!(large.iter().all(|error| error.to_string().contains("... (")));
    }

    #[test]
    fn er7_bodies_have_kubernetes_wording() {
        let path = FieldPath::new("spec.x");
        let mut errors = FieldErrors::default();
        errors.invalid(&path, "a", "no good");
        errors.required(&path, "");
        errors.not_supported(&path, "x", &["a", "b"]);
        errors.too_many(&path, 3, 2);
        let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            [
                "spec.x: Invalid value: \"a\": no good",
                "spec.x: Required value",
                "spec.x: Unsupported value: \"x\": supported values: \"a\", \"b\"",
                "spec.x: Too many: 3: must have at most 2 items",
            ]
        );
    }
}
