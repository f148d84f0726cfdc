//! The rules of `metadata` that apply to every kind: the fields that the server sets, the immutable
//! fields, and the form of names, labels, annotations, finalizers and owners (MD1-MD9, GN1-GN4).
//!
//! All functions here expect the types of `ObjectMeta`. `metadata_types` checks them first.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use ballast_k8s::names::{dns_label_faults, label_value_faults, qualified_name_faults, subdomain_faults};
use ballast_k8s::{FieldErrors, FieldPath, TOLD_MAX, Time, and_more};

pub(super) type Tree = Map<String, Value>;

const ANNOTATIONS_BYTES_MAX: usize = 262_144;
/// Finalizers of Kubernetes itself, which need no domain.
const WELL_KNOWN_FINALIZERS: [&str; 3] = ["foregroundDeletion", "orphan", "kubernetes"];
/// Fields that only the server sets, and obsolete fields.
const SERVER_FIELDS: [&str; 7] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
];
/// Fields that an update keeps if it omits them (MD7).
const KEPT_FIELDS: [&str; 5] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"];
/// Fields that no update may change (MD6). The name and the namespace of the client's object were
/// compared with the URL before; a mutation may have changed them since.
const IMMUTABLE_FIELDS: [&str; 6] =
    ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];

/// Returns the text of a member. Empty if it is absent or not a string.
pub(super) fn text<'a>(metadata: &'a Tree, name: &str) -> &'a str {
    metadata.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn of(object: &Tree) -> &Tree {
    static NONE: LazyLock<Tree> = LazyLock::new(Tree::new);
    object.get("metadata").and_then(Value::as_object).unwrap_or(&NONE)
}

/// Returns the metadata of an object, adding an empty one if it is missing.
pub(super) fn of_mut(object: &mut Tree) -> &mut Tree {
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Tree::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Tree::new());
    }
    metadata.as_object_mut().expect("just made sure of it")
}

/// Removes the fields that only the server sets.
pub(super) fn wipe(metadata: &mut Tree) {
    for field in SERVER_FIELDS {
        metadata.remove(field);
    }
}

/// Sets the fields of a new object (MD1).
pub(super) fn begin(metadata: &mut Tree, uid: String, now: Time) {
    wipe(metadata);
    metadata.insert("uid".to_owned(), Value::from(uid));
    metadata.insert("creationTimestamp".to_owned(), Value::from(now.to_string()));
    metadata.insert("generation".to_owned(), Value::from(1));
}

/// Returns a generated name that starts with `base` (GN1).
pub(super) fn generate_name(base: &str, random: u64) -> String {
    const NAME_LENGTH_MAX: usize = 63;
    const SUFFIX_LENGTH: usize = 5;
    /// Without vowels, to avoid words, and without letters that look alike.
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let end = base.floor_char_boundary(NAME_LENGTH_MAX - SUFFIX_LENGTH);
    let mut name = base[..end].to_owned();
    let mut bits = random;
    for _ in 0..SUFFIX_LENGTH {
        let letters = ALPHABET.len() as u64;
        name.push(char::from(ALPHABET[(bits % letters) as usize]));
        bits /= letters;
    }
    name
}

/// Copies fields from the stored object that the update omits or may not change (MD7), and reports
/// forbidden changes (MD6, MD8). The caller computes the generation.
pub(super) fn inherit(metadata: &mut Tree, old: &Tree, errors: &mut FieldErrors) {
    metadata.remove("selfLink");
    for field in KEPT_FIELDS {
        if !metadata.contains_key(field)
            && let Some(value) = old.get(field)
        {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(generation) = old.get("generation") {
        metadata.insert("generation".to_owned(), generation.clone());
    }
    keep_spelling(metadata, old, "creationTimestamp");
    for field in IMMUTABLE_FIELDS {
        if metadata.get(field) != old.get(field) {
            let value = metadata.get(field).unwrap_or(&Value::Null);
            errors.invalid(&FieldPath::new("metadata").child(field), value, "field is immutable");
        }
    }
    if old.contains_key("deletionTimestamp") {
        let known: HashSet<&str> = finalizers(old).collect();
        let added: Vec<&str> = finalizers(metadata).filter(|finalizer| !known.contains(finalizer)).collect();
        if !added.is_empty() {
            let list = added.iter().map(|finalizer| format!("{finalizer:?}")).collect::<Vec<_>>().join(", ");
            let why = "no new finalizers can be added if the object is being deleted, found new finalizers";
            errors.forbidden(&FieldPath::new("metadata.finalizers"), format!("{why} []string{{{list}}}"));
        }
    }
}

/// Keeps the stored spelling of an equal time. Clients that parse and format times change it.
fn keep_spelling(metadata: &mut Tree, old: &Tree, field: &str) {
    let time = |tree: &Tree| text(tree, field).parse::<Time>().ok();
    if let (Some(given), Some(kept)) = (time(metadata), time(old))
        && given == kept
    {
        metadata.insert(field.to_owned(), old[field].clone());
    }
}

pub(super) fn finalizers(metadata: &Tree) -> impl Iterator<Item = &str> {
    metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Checks the form of names, labels, annotations, finalizers and owners.
pub(super) fn validate(metadata: &Tree, namespaced: bool, errors: &mut FieldErrors) {
    let path = |field: &str| FieldPath::new("metadata").child(field);
    let mut refuse = |field: &str, value: &str, faults: Vec<String>| {
        for fault in faults {
            errors.invalid(&path(field), value, fault);
        }
    };
    let base = text(metadata, "generateName");
    if !base.is_empty() {
        // A suffix follows the base, so a trailing dash or dot is inside the name.
        refuse("generateName", base, subdomain_faults(&format!("{base}a")));
    }
    let name = text(metadata, "name");
    if !name.is_empty() {
        refuse("name", name, subdomain_faults(name));
    }
    if namespaced {
        let namespace = text(metadata, "namespace");
        refuse("namespace", namespace, dns_label_faults(namespace));
    }
    for (key, value) in entries(metadata, "labels") {
        refuse("labels", key, qualified_name_faults(key));
        refuse("labels", value, label_value_faults(value));
    }
    let mut annotation_bytes = 0;
    for (key, value) in entries(metadata, "annotations") {
        annotation_bytes += key.len() + value.len();
        // Unlike a label, an annotation may have upper case in its prefix.
        let faults = match key.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => qualified_name_faults(&key.to_lowercase()),
            false => qualified_name_faults(key),
        };
        refuse("annotations", key, faults);
    }
    if annotation_bytes > ANNOTATIONS_BYTES_MAX {
        errors.too_long(&path("annotations"), ANNOTATIONS_BYTES_MAX);
    }
    for finalizer in finalizers(metadata) {
        for fault in qualified_name_faults(finalizer) {
            errors.invalid(&path("finalizers"), finalizer, fault);
        }
    }
    let names = |wanted: &str| finalizers(metadata).any(|finalizer| finalizer == wanted);
    if names("orphan") && names("foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(&path("finalizers"), &metadata["finalizers"], why);
    }
    validate_owners(metadata, errors);
}

fn validate_owners(metadata: &Tree, errors: &mut FieldErrors) {
    let path = || FieldPath::new("metadata.ownerReferences");
    let mut controllers: Vec<String> = Vec::new();
    // Upstream includes no index in these paths.
    for owner in owners(metadata) {
        let api_version = text(owner, "apiVersion");
        if api_version.is_empty() || api_version.matches('/').count() > 1 {
            errors.invalid(&path().child("apiVersion"), api_version, "version must not be empty");
        }
        for field in ["kind", "name", "uid"].into_iter().filter(|field| text(owner, field).is_empty()) {
            errors.invalid(&path().child(field), "", "must not be empty");
        }
        if api_version == "v1" && text(owner, "kind") == "Event" {
            errors.invalid(&path(), owner, "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            controllers.push(format!("{}/{}", text(owner, "kind"), text(owner, "name")));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let why = "Only one reference can have Controller set to true. Found \"true\" in references for";
        let list: Vec<&Tree> = owners(metadata).collect();
        errors.invalid(&path(), list, format!("{why} {first} and {second}"));
    }
}

/// Removes repeated owners (MD9), and adds a warning if there were any.
pub(super) fn merge_owners(metadata: &mut Tree, warnings: &mut Vec<String>) {
    let Some(Value::Array(list)) = metadata.get_mut("ownerReferences") else { return };
    let mut repeated: Vec<String> = Vec::new();
    // JSON texts with sorted keys are equal exactly when the values are.
    let mut seen: HashSet<String> = HashSet::with_capacity(list.len());
    list.retain(|owner| {
        let is_new = seen.insert(owner.to_string());
        if !is_new {
            repeated.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        }
        is_new
    });
    if !repeated.is_empty() {
        repeated.dedup();
        if let Some(more @ 1..) = repeated.len().checked_sub(TOLD_MAX) {
            repeated.truncate(TOLD_MAX);
            repeated.push(and_more(more));
        }
        warnings.push(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and \
             may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        ));
    }
}

/// Warns about new finalizers with names that may collide with those of others (MD8).
pub(super) fn warn_of_finalizers(metadata: &Tree, old: Option<&Tree>, warnings: &mut Vec<String>) {
    let mut known: HashSet<&str> = old.into_iter().flat_map(finalizers).collect();
    let mut left = TOLD_MAX;
    for finalizer in finalizers(metadata) {
        let is_new = left > 0 && known.insert(finalizer);
        if is_new && !finalizer.contains('/') && !WELL_KNOWN_FINALIZERS.contains(&finalizer) {
            // The name has a domain, so only the path is missing.
            let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
            let warning = format!(
                "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name{path} to avoid \
                 accidental conflicts with other finalizer writers"
            );
            warnings.push(warning);
            left -= 1;
        }
    }
}

fn entries<'a>(metadata: &'a Tree, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = metadata.get(name).and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn owners(metadata: &Tree) -> impl Iterator<Item = &Tree> {
    metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::metadata_types::check_types;
    use super::*;

    fn tree(value: Value) -> Tree {
        let Value::Object(tree) = value else { panic!("not an object") };
        tree
    }

    fn faults(metadata: Value) -> Vec<String> {
        let mut errors = FieldErrors::default();
        validate(&tree(metadata), true, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn md12_members_of_a_wrong_type_are_named() {
        let cases = [
            (
                json!({"labels": {"a": 1}}),
                "cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
            ),
            (
                json!({"labels": []}),
                "cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string",
            ),
            (json!({"name": {}}), "cannot unmarshal object into Go struct field ObjectMeta.name of type string"),
            (
                json!({"finalizers": [1]}),
                "cannot unmarshal number into Go struct field ObjectMeta.finalizers of type string",
            ),
            (
                json!({"generation": 1.5}),
                "cannot unmarshal number into Go struct field ObjectMeta.generation of type int64",
            ),
            (
                json!({"ownerReferences": [{"controller": "yes"}]}),
                "cannot unmarshal string into Go struct field OwnerReference.ownerReferences.controller of type bool",
            ),
        ];
        for (metadata, sentence) in cases {
            assert_eq!(check_types(&mut tree(metadata)).unwrap_err(), format!("json: {sentence}"));
        }
        let unreadable = check_types(&mut tree(json!({"creationTimestamp": "x"}))).unwrap_err();
        assert_eq!(unreadable, r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#);
        let mut nulls = tree(json!({"name": null, "labels": {"a": null}}));
        check_types(&mut nulls).unwrap();
        assert_eq!(Value::from(nulls), json!({}));
    }

    #[test]
    fn gn1_generated_names_have_a_short_base_and_a_readable_suffix() {
        let name = generate_name("web-", 123_456_789);
        assert_eq!(name.len(), "web-".len() + 5);
        assert_eq!(generate_name(&"a".repeat(80), 1).len(), 63);
        assert_ne!(generate_name("web-", 1), generate_name("web-", 2));
        // Cutting in the middle of a letter must not end in a panic; validation rejects the name.
        assert_eq!(generate_name(&"é".repeat(40), 1).len(), 63);
    }

    #[test]
    fn md5_labels_annotations_and_names_are_checked() {
        let good =
            json!({"name": "a", "namespace": "n", "labels": {"a/b": "c"}, "annotations": {"Example.com/X": "y"}});
        assert!(faults(good).is_empty());
        let found = faults(json!({"name": "A", "namespace": "N", "generateName": "-", "labels": {"a b": "c d"},
            "annotations": {"a": "x".repeat(ANNOTATIONS_BYTES_MAX)}}));
        let begins = [
            "metadata.generateName: Invalid value: \"-\": a lowercase RFC 1123 subdomain",
            "metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain",
            "metadata.namespace: Invalid value: \"N\": a lowercase RFC 1123 label",
            "metadata.labels: Invalid value: \"a b\": name part must consist",
            "metadata.labels: Invalid value: \"c d\": a valid label must be",
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ];
        assert_eq!(found.len(), begins.len(), "{found:#?}");
        for (sentence, begin) in found.iter().zip(begins) {
            assert!(sentence.starts_with(begin), "{sentence}");
        }
    }

    #[test]
    fn md9_owners_need_all_their_names_and_one_controller() {
        let owner = |name: &str| json!({"apiVersion": "v1", "kind": "A", "name": name, "uid": "u", "controller": true});
        let found = faults(json!({"namespace": "n", "ownerReferences": [owner("a"), owner("b"), {"kind": "A"}]}));
        assert_eq!(
            found[..3],
            [
                "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
                "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
            ]
        );
        assert!(found[3].ends_with("Found \"true\" in references for A/a and A/b"), "{found:?}");
    }

    #[test]
    fn de6_the_finalizers_of_two_propagation_policies_exclude_each_other() {
        let found = faults(json!({"namespace": "n", "finalizers": ["orphan", "foregroundDeletion"]}));
        assert!(found[0].ends_with("finalizer orphan and foregroundDeletion cannot be both set"), "{found:?}");
        assert!(faults(json!({"namespace": "n", "finalizers": ["a/b", "a/b"]})).is_empty());
    }

    #[test]
    fn md9_repeated_owners_are_merged_with_a_warning() {
        let owner = json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u1"});
        let mut metadata = tree(json!({"ownerReferences": [owner, owner]}));
        let mut warnings = Vec::new();
        merge_owners(&mut metadata, &mut warnings);
        assert_eq!(owners(&metadata).count(), 1);
        assert!(warnings[0].ends_with("duplicate UID(s) observed: u1"), "{warnings:?}");
    }

    #[test]
    fn md6_and_md7_an_update_keeps_what_it_leaves_out_and_changes_no_identity() {
        let old = tree(json!({"uid": "u", "creationTimestamp": "t", "generation": 4, "name": "a"}));
        let mut errors = FieldErrors::default();
        let mut metadata = tree(json!({"name": "a", "generation": 99, "selfLink": "x"}));
        inherit(&mut metadata, &old, &mut errors);
        assert!(errors.is_empty());
        assert_eq!(metadata, old);

        let mut metadata = tree(json!({"name": "b", "uid": "q", "deletionTimestamp": "t"}));
        inherit(&mut metadata, &old, &mut errors);
        let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            [
                "metadata.name: Invalid value: \"b\": field is immutable",
                "metadata.uid: Invalid value: \"q\": field is immutable",
                "metadata.deletionTimestamp: Invalid value: \"t\": field is immutable",
            ]
        );
    }

    #[test]
    fn md8_a_deleting_object_takes_no_new_finalizers() {
        let old = tree(json!({"deletionTimestamp": "t", "finalizers": ["a/b"]}));
        let mut errors = FieldErrors::default();
        inherit(&mut tree(json!({"finalizers": ["a/b", "x"]})), &old, &mut errors);
        assert_eq!(
            errors.iter().next().unwrap().to_string(),
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new \
             finalizers []string{\"x\"}"
        );
    }

    #[test]
    fn md8_only_new_finalizers_without_a_domain_are_warned_of() {
        let mut warnings = Vec::new();
        let metadata = tree(json!({"finalizers": ["a/b", "orphan", "x", "y"]}));
        warn_of_finalizers(&metadata, Some(&tree(json!({"finalizers": ["y"]}))), &mut warnings);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("metadata.finalizers: \"x\": prefer a domain-qualified finalizer name"));
    }
}
