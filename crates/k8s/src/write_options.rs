//! The options of a write: `CreateOptions`, `UpdateOptions`, `PatchOptions` and `DeleteOptions` of
//! metav1, parsed and validated (DR2, FV1, PA12, PA13, DE7).

use serde_json::{Map, Value};

use super::body::{type_meta_fault, type_of};
use super::query::Query;
use super::{FieldErrors, FieldPath, Status};

const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// The handling of unknown and duplicate fields. They are dropped in any case (FV5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Strict,
    #[default]
    Warn,
    Ignore,
}

/// The options of a create, update or patch.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_validation: FieldValidation,
    pub field_manager: Option<String>,
    /// For server-side apply only.
    pub force: bool,
    /// The specified options, as admission receives them.
    pub given: Map<String, Value>,
}

impl WriteOptions {
    /// Parses the options. `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`, for
    /// errors.
    pub fn from_query(kind: &str, query: &Query<'_>) -> Result<WriteOptions, Status> {
        let mut errors = FieldErrors::default();
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let field_validation = match query.text("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.not_supported(&FieldPath::new("fieldValidation"), other, &supported);
                FieldValidation::Warn
            }
        };
        let field_manager = query.text("fieldManager");
        let mut given = given(query, &["fieldManager", "fieldValidation"]);
        put_dry_run(&mut given, dry_run);
        if let Some(manager) = field_manager {
            let path = FieldPath::new("fieldManager");
            if manager.len() > FIELD_MANAGER_BYTES_MAX {
                errors.too_long(&path, FIELD_MANAGER_BYTES_MAX);
            }
            let unprintable = |c: &char| c.is_control() || (c.is_whitespace() && *c != ' ');
            for (at, c) in manager.char_indices().filter(|(_, c)| unprintable(c)) {
                errors.invalid(&path, manager, format!("invalid character U+{:04X} (at position {at})", u32::from(c)));
            }
        }
        let options = WriteOptions {
            dry_run,
            field_validation,
            field_manager: field_manager.map(str::to_owned),
            force: query.boolean("force").unwrap_or(false),
            given,
        };
        checked(options, kind, &errors)
    }

    /// Sets the manager to the name of the client program if the query does not specify one (AP10).
    #[must_use]
    pub fn or_user_agent(mut self, user_agent: &str) -> WriteOptions {
        self.field_manager.get_or_insert_with(|| {
            let program = user_agent.split('/').next().unwrap_or_default();
            let printable: String = program.chars().filter(|c| !c.is_control()).collect();
            printable[..printable.floor_char_boundary(FIELD_MANAGER_BYTES_MAX)].to_owned()
        });
        self
    }

    /// Returns the manager of the fields that this write sets.
    pub fn manager(&self) -> &str {
        self.field_manager.as_deref().filter(|name| !name.is_empty()).unwrap_or("unknown")
    }

    /// Returns an error if an option is missing that server-side apply requires (AP2).
    pub fn require_manager(&self) -> Result<(), Status> {
        let mut errors = FieldErrors::default();
        if self.field_manager.as_deref().is_none_or(str::is_empty) {
            errors.required(&FieldPath::new("fieldManager"), "is required for apply patch");
        }
        checked((), "PatchOptions", &errors)
    }

    /// Returns an error if an option is set that only server-side apply supports (PA12).
    pub fn refuse_force(query: &Query<'_>) -> Result<(), Status> {
        let mut errors = FieldErrors::default();
        if query.first("force").is_some() {
            errors.forbidden(&FieldPath::new("force"), "may not be specified for non-apply patch");
        }
        checked((), "PatchOptions", &errors)
    }
}

/// The handling of objects that the deleted one owns (DE6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Foreground,
    Background,
    Orphan,
}

impl Propagation {
    pub fn as_str(self) -> &'static str {
        match self {
            Propagation::Foreground => "Foreground",
            Propagation::Background => "Background",
            Propagation::Orphan => "Orphan",
        }
    }
}

/// The options of a delete.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub dry_run: bool,
    /// `None` leaves the decision to the object's finalizers.
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    /// The text as the client sent it. It is compared as text.
    pub resource_version: Option<String>,
    /// Whether the client sent `orphanDependents: false`: a delete that is not finished then
    /// returns 202 (VB5).
    pub accepted_when_pending: bool,
    /// The specified options, as admission receives them.
    pub given: Map<String, Value>,
}

/// The options in a body.
#[derive(Default)]
struct Body {
    dry_run: Vec<String>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    uid: Option<String>,
    resource_version: Option<String>,
    given: Map<String, Value>,
}

impl DeleteOptions {
    /// Parses the options from the query and the body. The body takes precedence, but a dry run
    /// stays a dry run. (In Kubernetes a body replaces the whole query, so `?dryRun=All` with a
    /// body deletes the object.)
    pub fn from_query_and_body(query: &Query<'_>, body: Option<Map<String, Value>>) -> Result<DeleteOptions, Status> {
        let body = body.map(decode).transpose()?.unwrap_or_default();
        // The grace period has no effect (DE8), but it must be a number.
        let grace = query.integer("gracePeriodSeconds")?;
        let mut errors = FieldErrors::default();
        let dry_runs = query.all("dryRun").chain(body.dry_run.iter().map(String::as_str));
        let dry_run = dry_run(dry_runs, &mut errors);
        let policy = body.propagation_policy.as_deref().or_else(|| query.text("propagationPolicy"));
        let orphan = body.orphan_dependents.or_else(|| query.boolean("orphanDependents"));
        let mut given = given(query, &["propagationPolicy"]);
        put_dry_run(&mut given, dry_run);
        given.extend(grace.map(|seconds| ("gracePeriodSeconds".to_owned(), seconds.into())));
        given.extend(query.boolean("orphanDependents").map(|orphan| ("orphanDependents".to_owned(), orphan.into())));
        given.extend(body.given);
        let path = FieldPath::new("propagationPolicy");
        if let (Some(policy), Some(_)) = (policy, orphan) {
            errors.invalid(&path, policy, "orphanDependents and deletionPropagation cannot be both set");
        }
        let propagation = match (policy, orphan) {
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Background"), _) => Some(Propagation::Background),
            (Some("Orphan"), _) => Some(Propagation::Orphan),
            (Some(other), _) => {
                errors.not_supported(&path, other, &["Foreground", "Background", "Orphan", "nil"]);
                None
            }
            (None, Some(true)) => Some(Propagation::Orphan),
            (None, Some(false)) => Some(Propagation::Background),
            (None, None) => None,
        };
        let options = DeleteOptions {
            dry_run,
            propagation,
            uid: body.uid,
            resource_version: body.resource_version,
            accepted_when_pending: orphan == Some(false),
            given,
        };
        checked(options, "DeleteOptions", &errors)
    }
}

/// Returns the specified options of a query as text. Empty ones are omitted.
fn given(query: &Query<'_>, names: &[&str]) -> Map<String, Value> {
    names.iter().filter_map(|name| Some(((*name).to_owned(), query.text(name)?.into()))).collect()
}

fn put_dry_run(given: &mut Map<String, Value>, dry_run: bool) {
    given.extend(dry_run.then(|| ("dryRun".to_owned(), Value::from(vec!["All"]))));
}

/// Parses the options, each with its type (DE7). If the options cannot be parsed, nothing is
/// deleted.
fn decode(body: Map<String, Value>) -> Result<Body, Status> {
    if let Some(fault) = type_meta_fault(&body) {
        return Err(Status::bad_request(format!("couldn't get version/kind; json parse error: {fault}")));
    }
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    if !matches!(text("kind"), "" | "DeleteOptions") {
        let (kind, version) = (text("kind"), text("apiVersion"));
        return Err(Status::bad_request(format!("no kind {kind:?} is registered for version {version:?}")));
    }
    let mut given = Map::new();
    for (name, expected, holds) in [
        ("gracePeriodSeconds", "int64", Value::is_i64 as fn(&Value) -> bool),
        ("dryRun", "[]string", Value::is_array),
        ("propagationPolicy", "string", Value::is_string),
        ("orphanDependents", "bool", Value::is_boolean),
        ("ignoreStoreReadErrorWithClusterBreakingPotential", "bool", Value::is_boolean),
        ("preconditions", "v1.Preconditions", Value::is_object),
    ] {
        check(body.get(name), holds, &format!("DeleteOptions.{name}"), expected)?;
        let value = body.get(name).filter(|value| !value.is_null() && name != "dryRun");
        given.extend(value.map(|value| (name.to_owned(), value.clone())));
    }
    let dry_run = body.get("dryRun").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for item in dry_run {
        check(Some(item), Value::is_string, "DeleteOptions.dryRun", "string")?;
    }
    let precondition = |name: &str, type_: &str| {
        let value = body.get("preconditions").and_then(|preconditions| preconditions.get(name));
        check(value, Value::is_string, &format!("Preconditions.preconditions.{name}"), type_)?;
        Ok(value.and_then(Value::as_str).map(str::to_owned))
    };
    Ok(Body {
        // As in Go, null is the empty text.
        dry_run: dry_run.iter().map(|item| item.as_str().unwrap_or_default().to_owned()).collect(),
        propagation_policy: body.get("propagationPolicy").and_then(Value::as_str).map(str::to_owned),
        orphan_dependents: body.get("orphanDependents").and_then(Value::as_bool),
        uid: precondition("uid", "types.UID")?,
        resource_version: precondition("resourceVersion", "string")?,
        given,
    })
}

/// Returns an error for a value of another type. Null counts as absent.
fn check(value: Option<&Value>, holds: fn(&Value) -> bool, field: &str, expected: &str) -> Result<(), Status> {
    match value.filter(|value| !value.is_null() && !holds(value)) {
        None => Ok(()),
        Some(other) => {
            let found = type_of(other);
            let why = format!("json: cannot unmarshal {found} into Go struct field {field} of type {expected}");
            Err(Status::bad_request(why))
        }
    }
}

fn dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut FieldErrors) -> bool {
    let values: Vec<&str> = values.collect();
    if values.iter().any(|&value| value != "All") {
        errors.not_supported(&FieldPath::new("dryRun"), &values, &["All"]);
    }
    !values.is_empty()
}

fn checked<T>(options: T, kind: &str, errors: &FieldErrors) -> Result<T, Status> {
    match errors.is_empty() {
        true => Ok(options),
        false => Err(Status::invalid("meta.k8s.io", kind, "", errors)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write(query: &str) -> Result<WriteOptions, Status> {
        WriteOptions::from_query("PatchOptions", &Query::parse(query))
    }

    fn delete(query: &str, body: Value) -> Result<DeleteOptions, Status> {
        let Value::Object(body) = body else { panic!("not an object") };
        DeleteOptions::from_query_and_body(&Query::parse(query), Some(body))
    }

    #[test]
    fn dr2_only_all_is_a_dry_run() {
        assert!(write("dryRun=All").unwrap().dry_run);
        let status = write("dryRun=x").unwrap_err();
        assert_eq!(
            (status.code, &*status.message),
            (
                422,
                "PatchOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"x\"]: supported values: \"All\""
            )
        );
        assert_eq!(delete("", json!({"dryRun": ["x"]})).unwrap_err().code, 422);
    }

    #[test]
    fn fv1_there_are_three_ways_to_validate_fields() {
        assert_eq!(write("").unwrap().field_validation, FieldValidation::Warn);
        assert_eq!(write("fieldValidation=Strict").unwrap().field_validation, FieldValidation::Strict);
        let status = write("fieldValidation=x").unwrap_err();
        assert!(status.message.ends_with("supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""));
    }

    #[test]
    fn pa12_and_pa13_force_and_field_manager_are_checked() {
        let status = WriteOptions::refuse_force(&Query::parse("force=true")).unwrap_err();
        assert!(status.message.ends_with("force: Forbidden: may not be specified for non-apply patch"));
        assert_eq!(write(&format!("fieldManager={}", "m".repeat(129))).unwrap_err().code, 422);
        assert_eq!(write("fieldManager=a%0Ab").unwrap_err().code, 422);
    }

    #[test]
    fn de7_a_body_does_not_hide_a_dry_run_in_the_query() {
        assert!(delete("dryRun=All", json!({})).unwrap().dry_run);
        let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan",
            "preconditions": {"uid": "u"}});
        let options = delete("propagationPolicy=Background", body).unwrap();
        assert_eq!((options.propagation, options.uid.as_deref()), (Some(Propagation::Orphan), Some("u")));
    }

    #[test]
    fn de7_what_makes_no_sense_is_refused() {
        let both = delete("", json!({"propagationPolicy": "Orphan", "orphanDependents": true})).unwrap_err();
        assert!(both.message.ends_with("orphanDependents and deletionPropagation cannot be both set"));
        let unknown = delete("propagationPolicy=x", json!({})).unwrap_err();
        assert!(unknown.message.contains("\"Foreground\", \"Background\", \"Orphan\", \"nil\""));
        assert_eq!(delete("", json!({"kind": "Foo", "apiVersion": "v1"})).unwrap_err().code, 400);
        for (body, why) in [
            (json!({"apiVersion": ["v1"], "kind": 5}), "array into Go struct field .apiVersion of type string"),
            (json!({"kind": 5}), "number into Go struct field .kind of type string"),
            (
                json!({"preconditions": 1}),
                "number into Go struct field DeleteOptions.preconditions of type v1.Preconditions",
            ),
            (
                json!({"preconditions": {"uid": 1}}),
                "number into Go struct field Preconditions.preconditions.uid of type types.UID",
            ),
            (json!({"dryRun": [1]}), "number into Go struct field DeleteOptions.dryRun of type string"),
            (
                json!({"orphanDependents": "no"}),
                "string into Go struct field DeleteOptions.orphanDependents of type bool",
            ),
        ] {
            let status = delete("", body).unwrap_err();
            assert_eq!(status.code, 400);
            assert!(status.message.ends_with(&format!("json: cannot unmarshal {why}")), "{}", status.message);
        }
        let nulls = json!({"dryRun": null, "kind": null, "orphanDependents": null, "preconditions": {"uid": null}});
        assert!(delete("", nulls).is_ok_and(|options| !options.dry_run && options.uid.is_none()));
    }
}
