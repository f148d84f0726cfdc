//! Admission: turns a body into an object that may be stored. It parses the body, reports unknown
//! and duplicate fields, and then defaults, prepares and validates the object (AD1, AD4, AD5, AD8).
//!
//! The current time is an argument, so all functions are pure.

use serde_json::Value;

use super::metadata::{self, Tree};
use super::metadata_types;
use super::ownership::Record;
use ballast_k8s::{Body, FieldErrors, FieldPath, FieldValidation, Status, Time, and_more};
use ballast_resource::{Given, Inspection, Lifetime, ResourceKind};

/// The author of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    /// A client of the API. Known mistakes in its objects are corrected.
    Client,
    /// A Ballast worker; its objects are not corrected.
    Worker,
}

/// The rules by which one object is admitted.
#[derive(Clone, Copy)]
pub(super) struct Admission<'a> {
    pub row: &'a ResourceKind,
    pub author: Author,
    pub field_validation: FieldValidation,
    pub now: Time,
}

/// A parsed body.
pub(super) struct Read {
    pub object: Tree,
    /// The `managedFields` of the body.
    pub record: Record,
    pub warnings: Vec<String>,
    /// The errors for which strict field validation rejects the object. Empty without strict
    /// validation.
    pub strict_faults: Vec<String>,
    /// The findings of the kind's inspection. `check_inspection` reports them.
    pub inspection: Inspection,
}

impl Admission<'_> {
    /// Checks the kind and version of the object, and removes fields that the schema does not know
    /// (FV2-FV5).
    pub fn read(&self, body: Body) -> Result<Read, Status> {
        let duplicates = match self.field_validation {
            FieldValidation::Strict => body.strict_faults(),
            FieldValidation::Warn => body.duplicate_warnings(),
            FieldValidation::Ignore => Vec::new(),
        };
        let mut object = body.value;
        self.check_type(&object)?;
        if !self.row.is_stored_version() {
            object.insert("apiVersion".to_owned(), self.row.stored_api_version().into());
        }
        let managed_fields = self.check_metadata(&mut object)?;
        let record = Record::of(managed_fields);
        let mended = match self.author {
            Author::Client => (self.row.mend)(&mut object),
            Author::Worker => Vec::new(),
        };
        let inspection = match self.author {
            Author::Client => (self.row.inspect)(&self.row.schema, &object),
            Author::Worker => Inspection::default(),
        };
        let unknown = self.row.schema.prune(&mut object);
        if self.field_validation == FieldValidation::Ignore {
            return Ok(Read { object, record, warnings: mended, strict_faults: Vec::new(), inspection });
        }
        let more = Some(unknown.more).filter(|more| *more > 0).map(and_more);
        let unknown = unknown.paths.into_iter().map(|path| format!("unknown field {path:?}"));
        let faults: Vec<String> = duplicates.into_iter().chain(unknown).chain(more).chain(mended).collect();
        Ok(match self.field_validation {
            FieldValidation::Strict => Read { object, record, warnings: Vec::new(), strict_faults: faults, inspection },
            _ => Read { object, record, warnings: faults, strict_faults: Vec::new(), inspection },
        })
    }

    /// Like `read`, but faults of a new object are an error at once (FV2).
    pub fn read_strictly(&self, body: Body) -> Result<Read, Status> {
        let mut read = self.read(body)?;
        self.check_inspection(&mut read, None)?;
        self.check_strict_faults(read)
    }

    /// Rejects the object if it has strict errors.
    pub fn check_strict_faults(&self, read: Read) -> Result<Read, Status> {
        match read.strict_faults.is_empty() {
            true => Ok(read),
            false => Err(self.undecodable(&strict_sentence(&read.strict_faults))),
        }
    }

    /// Rejects the object for the errors of its inspection, and appends the warnings. Findings that
    /// the stored object has as well are ignored.
    pub fn check_inspection(&self, read: &mut Read, stored: Option<&Tree>) -> Result<(), Status> {
        if read.inspection.is_empty() {
            return Ok(());
        }
        let found = std::mem::take(&mut read.inspection);
        let found = match stored {
            Some(stored) => found.without(&(self.row.inspect)(&self.row.schema, stored)),
            None => found,
        };
        read.warnings.extend(found.warnings);
        if found.errors.is_empty() { Ok(()) } else { Err(self.invalid(&read.object, &found.errors)) }
    }

    /// Checks the types of the metadata, and removes the managed fields from it. Admission ignores
    /// them, and a write that changes only them changes no object.
    pub fn check_metadata(&self, object: &mut Tree) -> Result<Option<Value>, Status> {
        if object.get("metadata").is_some_and(Value::is_null) {
            object.remove("metadata");
        }
        let Some(metadata) = object.get_mut("metadata") else { return Ok(None) };
        let metadata = metadata_types::expect_object(metadata).map_err(|why| self.undecodable(&why))?;
        let managed_fields = metadata.remove("managedFields");
        metadata_types::check_types(metadata).map_err(|why| self.undecodable(&why))?;
        if let Some(list) = &managed_fields {
            metadata_types::check_managed_fields_types(list).map_err(|why| self.undecodable(&why))?;
        }
        Ok(managed_fields)
    }

    pub fn undecodable(&self, why: &str) -> Status {
        let ResourceKind { kind, version, .. } = self.row;
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    }

    /// Checks `kind` and `apiVersion` (VB15, VB16).
    fn check_type(&self, object: &Tree) -> Result<(), Status> {
        let kind = metadata::text(object, "kind");
        let api_version = metadata::text(object, "apiVersion");
        if kind.is_empty() {
            let shown = shortened(object);
            return Err(Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{shown}'",
                self.row.kind
            )));
        }
        let expected = self.row.api_version();
        if api_version != expected {
            return Err(Status::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({expected})"
            )));
        }
        if kind != self.row.kind {
            let mut errors = FieldErrors::default();
            errors.invalid(&FieldPath::new("kind"), kind, format!("must be {}", self.row.kind));
            // The error names the kind in the body.
            let name = metadata::text(metadata::of(object), "name");
            return Err(Status::invalid(self.row.group, kind, name, &errors));
        }
        Ok(())
    }

    /// Defaults, prepares and validates an object with complete metadata. On an update, a fault is
    /// allowed if the stored object has it, too (AD6, ST7). Otherwise such an object could never be
    /// changed again.
    pub fn finish(&self, object: &mut Tree, old: Option<&Tree>, mut errors: FieldErrors) -> Result<(), Status> {
        let row = self.row;
        row.schema.default(object);
        if has_more_values(object, EARLY_VALUES_MIN) {
            // `prepare` adds fields to the items of lists, which takes hundreds of bytes for each.
            // It cannot correct an object with more faults than are reported.
            let faults = row.schema.validate(object);
            if faults.more() > 0 && old.is_none_or(|old| row.schema.validate(old).more() == 0) {
                return Err(self.invalid(object, &faults));
            }
        }
        (row.prepare)(object, &Given { old, now: self.now, is_by_client: self.author == Author::Client });
        if row.lifetime == Lifetime::Stored {
            metadata::validate(metadata::of(object), row.is_namespaced(), &mut errors);
        }
        let faults = self.faults(object, old);
        if !faults.is_empty() {
            // Faults are rare, so the stored object is validated only if there is one.
            let known = old.map(|old| self.faults(old, Some(old))).unwrap_or_default();
            errors.append(faults.without(&known));
        }
        if errors.is_empty() { Ok(()) } else { Err(self.invalid(object, &errors)) }
    }

    /// Returns the faults that the schema finds, or else those of the kind's own rules, which need
    /// an object of the right shape.
    pub(super) fn faults(&self, object: &Tree, old: Option<&Tree>) -> FieldErrors {
        let faults = self.row.schema.validate(object);
        if faults.is_empty() { (self.row.validate)(object, old) } else { faults }
    }

    pub fn invalid(&self, object: &Tree, errors: &FieldErrors) -> Status {
        let name = metadata::text(metadata::of(object), "name");
        Status::invalid(self.row.group, self.row.kind, name, errors)
    }
}

/// An object with fewer values is validated only once, after it was prepared.
const EARLY_VALUES_MIN: usize = 2_000;

/// Returns whether an object has more than `most` values. Stops counting there.
pub(super) fn has_more_values(object: &Tree, most: usize) -> bool {
    let mut left = most;
    let mut open: Vec<&Value> = object.values().collect();
    while let Some(value) = open.pop() {
        if left == 0 {
            return true;
        }
        left -= 1;
        match value {
            Value::Array(items) => open.extend(items.iter().take(left + 1)),
            Value::Object(members) => open.extend(members.values().take(left + 1)),
            _ => {}
        }
    }
    false
}

pub(super) fn strict_sentence(faults: &[String]) -> String {
    format!("strict decoding error: {}", faults.join(", "))
}

/// Returns the beginning of an object's text, for a message.
fn shortened(object: &Tree) -> String {
    const SHOWN_BYTES_MAX: usize = 256;
    let text = serde_json::to_string(object).unwrap_or_default();
    let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
    if end == text.len() { text } else { format!("{}...", &text[..end]) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_kinds::Garden;
    use super::*;

    fn tree(value: Value) -> Tree {
        let Value::Object(tree) = value else { panic!("not an object") };
        tree
    }

    fn garden(spec: Value) -> Tree {
        let metadata = json!({"name": "g", "namespace": "n"});
        tree(json!({"apiVersion": "garden.example.com/v1", "kind": "Garden", "metadata": metadata, "spec": spec}))
    }

    fn finish(object: Tree, old: Option<&Tree>) -> Result<Tree, Status> {
        let row = ResourceKind::of::<Garden>();
        let admission = Admission {
            row: &row,
            author: Author::Client,
            field_validation: FieldValidation::Strict,
            now: Time::from_seconds(0),
        };
        let mut object = object;
        admission.finish(&mut object, old, FieldErrors::default()).map(|()| object)
    }

    #[test]
    fn ad4_defaults_come_before_the_judgement() {
        let object = finish(garden(json!({"plants": [{"name": "rose"}]})), None).unwrap();
        assert_eq!(object["spec"]["beds"], 2);
    }

    #[test]
    fn ad6_an_old_fault_does_not_stop_an_update_and_a_new_one_does() {
        let old = garden(json!({"plants": [{"name": "rose"}], "beds": 77}));
        let renamed = garden(json!({"plants": [{"name": "lily"}], "beds": 77}));
        assert!(finish(renamed.clone(), Some(&old)).is_ok());
        assert_eq!(finish(renamed, None).unwrap_err().code, 422);
        let worse = finish(garden(json!({"plants": [], "beds": 77})), Some(&old)).unwrap_err();
        let causes = worse.details.unwrap().causes;
        assert_eq!(causes.iter().map(|cause| cause.field.as_str()).collect::<Vec<_>>(), ["spec.plants"]);
        assert_eq!(
            finish(garden(json!({"plants": [{"name": "rose"}], "beds": 78})), Some(&old)).unwrap_err().code,
            422
        );
    }

    #[test]
    fn a_long_object_is_cut_in_a_message() {
        let shown = shortened(&garden(json!({"notes": "é".repeat(500)})));
        assert!(shown.ends_with("...") && shown.len() < 270);
    }

    #[test]
    fn values_are_counted_at_all_levels() {
        let Value::Object(tree) = json!({"a": [1, {"b": 2}], "c": {"d": []}}) else { unreachable!("an object") };
        // The list, 1, the object, 2, the other object, and its empty list.
        assert_eq!((has_more_values(&tree, 5), has_more_values(&tree, 6)), (true, false));
    }

    #[test]
    fn an_object_of_many_faults_is_refused_before_it_grows() {
        let plants: Vec<Value> = (0..3_000).map(|_| json!({})).collect();
        let refused = finish(garden(json!({"plants": plants})), None).unwrap_err();
        assert_eq!(refused.code, 422);
        assert_eq!(refused.details.unwrap().causes.len(), 101, "100 faults, and the number of the others");
    }
}
