//! Names have one meaning: the words of the glossaries, and the public types of the crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::page::root;

/// Words that a developer must learn. Others are common terms.
const ENTRIES_MAX: usize = 50;

/// Names that public types of several crates share, each with the reason.
const SHARED: &[(&[&str], &str)] = &[
    (
        &[
            "Affinity",
            "Cluster",
            "ClusterDecision",
            "Component",
            "Goal",
            "Placement",
            "Share",
            "SpreadConstraint",
            "TargetComponent",
        ],
        "the engine uses no other crate, and names its input as the API does",
    ),
    (
        &[
            "ComponentReplicaRequirements",
            "NodeClaim",
            "NodeSelector",
            "NodeSelectorRequirement",
            "NodeSelectorTerm",
            "ObjectReference",
            "ReplicaRequirements",
        ],
        "the messages of the estimators' wire have upstream's names, which the API has too",
    ),
    (&["DeleteOptions", "Taint", "Toleration"], "the kind's field, and what it means to every kind"),
    (&["Object", "Quantity", "Text", "Field"], "the schema of a value has the value's name"),
    (&["Event"], "a Kubernetes event, and an event of a watch"),
    (&["Policy", "PolicyError"], "of authorization, and of audit; Kubernetes has both words"),
    (&["ResourceAttributes"], "the field of a SubjectAccessReview, and what is asked"),
];

/// Still to be renamed.
const TO_BE_RENAMED: &[&str] = &[
    "Answer",
    "Bounds",
    "Cause",
    "Change",
    "Comparison",
    "Difference",
    "Entry",
    "Fault",
    "Fence",
    "Limits",
    "LogFormat",
    "Mode",
    "Namespaces",
    "Next",
    "Operation",
    "Request",
    "Resource",
    "Scope",
    "Summary",
];

static TYPE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^pub (?:struct|enum|trait|type|union) (\w+)").unwrap());
static MODULE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)^pub mod (\w+);").unwrap());
static EXPORT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)^pub use ([^;]+);").unwrap());
static RENAMED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+\s+as\s+").unwrap());
static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[A-Z]\w*[a-z]\w*\b").unwrap());

#[test]
fn the_glossary_is_short_and_has_each_word_once() {
    for page in ["docs/ARCHITECTURE.md", "docs/glossary.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let glossary = text.split_once("\n## Glossary\n").map_or(&*text, |(_, glossary)| glossary);
        let mut words = BTreeSet::new();
        let entries: Vec<&str> = glossary.split("\n- **").skip(1).collect();
        for entry in &entries {
            let entry = entry.split("\n\n").next().unwrap_or_default();
            for word in format!("**{entry}").split("**").skip(1).step_by(2) {
                assert!(words.insert(word.to_lowercase()), "{page} explains {word} twice");
            }
        }
        assert!((10..=ENTRIES_MAX).contains(&entries.len()), "{page}: {} entries", entries.len());
    }
}

#[test]
fn public_types_of_different_crates_have_different_names() {
    let mut crates_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        let mut found = BTreeSet::new();
        public_types(&root().join("crates").join(&name).join("src/lib.rs"), &mut found);
        for found in found {
            crates_of.entry(found).or_default().insert(name.clone());
        }
    }
    assert!(crates_of.len() > 500, "types are found");
    crates_of.retain(|_, crates| crates.len() > 1);
    let is_allowed =
        |name: &str| TO_BE_RENAMED.contains(&name) || SHARED.iter().any(|(names, _)| names.contains(&name));
    let shared: Vec<_> = crates_of.iter().filter(|(name, _)| !is_allowed(name)).collect();
    assert!(shared.is_empty(), "rename one of each, or give the reason in `SHARED`: {shared:#?}");
    let listed = SHARED.iter().flat_map(|(names, _)| *names).chain(TO_BE_RENAMED);
    let unique: Vec<_> = listed.filter(|name| !crates_of.contains_key(**name)).collect();
    assert!(unique.is_empty(), "only one crate has these names now, so drop them from the lists: {unique:?}");
}

/// Returns the exported names of a crate: of the types in public modules, and of exports.
fn public_types(file: &Path, found: &mut BTreeSet<String>) {
    let text = fs::read_to_string(file).unwrap();
    found.extend(TYPE.captures_iter(&text).map(|name| name[1].to_owned()));
    for export in EXPORT.captures_iter(&text).map(|export| RENAMED.replace_all(&export[1], "").into_owned()) {
        if !export.starts_with("ballast_") {
            found.extend(NAME.find_iter(&export).map(|name| name.as_str().to_owned()));
        }
    }
    let is_folder = file.ends_with("lib.rs") || file.ends_with("mod.rs");
    let folder = if is_folder { file.parent().expect("it is in a folder").to_owned() } else { file.with_extension("") };
    for module in MODULE.captures_iter(&text).map(|name| name[1].to_owned()) {
        let places = [folder.join(format!("{module}.rs")), folder.join(&module).join("mod.rs")];
        places.iter().filter(|place| place.exists()).for_each(|place| public_types(place, found));
    }
}
