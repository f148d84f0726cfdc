//! Faults of an object, field by field, in the wording of Kubernetes (ER6, ER7).

use std::fmt;

/// The path of a fault: `spec.workloads[0].kind`, `metadata.labels[app]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(String);

impl FieldPath {
    /// The object itself.
    pub const fn root() -> FieldPath {
        FieldPath(String::new())
    }

    /// A path, as it is written: `FieldPath::new("spec.workloads")`.
    pub fn new(path: &str) -> FieldPath {
        FieldPath(path.to_owned())
    }

    /// The path of a member: `spec.workloads`.
    #[must_use]
    pub fn child(&self, name: &str) -> FieldPath {
        match self.0.as_str() {
            "" => FieldPath(name.to_owned()),
            parent => FieldPath(format!("{parent}.{name}")),
        }
    }

    /// The path of an item: `spec.workloads[0]`.
    #[must_use]
    pub fn index(&self, index: usize) -> FieldPath {
        FieldPath(format!("{}[{index}]", self.0))
    }

    /// The path of an entry of a map: `metadata.labels[app]`.
    #[must_use]
    pub fn key(&self, key: &str) -> FieldPath {
        FieldPath(format!("{}[{key}]", self.0))
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

/// One fault. `body` is the text after the path, as upstream's `ErrorBody()` returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// The faults of one object, in the order of its fields. An empty list means that it is valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &FieldError> {
        self.0.iter()
    }

    /// Adds a fault. `body` is the text after the path.
    pub fn push(&mut self, path: &FieldPath, reason: &'static str, body: String) {
        self.0.push(FieldError { path: path.clone(), reason, body });
    }

    pub fn append(&mut self, other: FieldErrors) {
        self.0.extend(other.0);
    }

    /// The message shows `value` as JSON.
    pub fn invalid(&mut self, path: &FieldPath, value: impl serde::Serialize, detail: impl fmt::Display) {
        self.push(path, "FieldValueInvalid", format!("Invalid value: {}: {detail}", shown(value)));
    }

    /// `detail` may be empty.
    pub fn required(&mut self, path: &FieldPath, detail: &str) {
        let colon = if detail.is_empty() { "" } else { ": " };
        self.push(path, "FieldValueRequired", format!("Required value{colon}{detail}"));
    }

    /// The field must not be set, or not like this.
    pub fn forbidden(&mut self, path: &FieldPath, detail: impl fmt::Display) {
        self.push(path, "FieldValueForbidden", format!("Forbidden: {detail}"));
    }

    /// The value occurs twice. The message shows it as JSON.
    pub fn duplicate(&mut self, path: &FieldPath, value: impl serde::Serialize) {
        self.push(path, "FieldValueDuplicate", format!("Duplicate value: {}", shown(value)));
    }

    /// The value names something that does not exist. The message shows it as JSON.
    pub fn not_found(&mut self, path: &FieldPath, value: impl serde::Serialize) {
        self.push(path, "FieldValueNotFound", format!("Not found: {}", shown(value)));
    }

    /// The message lists `supported` in the given order.
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

    /// The fault of an object that its schema accepts and its Rust type cannot hold.
    pub fn undecodable(error: &serde_json::Error) -> FieldErrors {
        let mut errors = FieldErrors::default();
        errors.push(&FieldPath::root(), "FieldValueInvalid", format!("Invalid value: \"object\": {error}"));
        errors
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
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
