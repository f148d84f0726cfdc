//! The annotation of a binding that says what its last change was, and why:
//! `ballast.dev/last-change`.
//!
//! Events live for an hour, and not everybody may read them. The annotation is in the version that
//! has the new targets, so it lives as long as that version does (NG4). Karmada has no such
//! annotation (D123).

use crate::lean::Pairs;

/// The name of the annotation.
pub const LAST_CHANGE: &str = "ballast.dev/last-change";

/// The most bytes of the annotation: a sentence that names five clusters with long names.
const BYTES_MAX: usize = 2_048;

/// The sentence as it is stored. One that is too long is cut at a character.
pub fn stored(sentence: &str) -> &str {
    let end = (0..=sentence.len().min(BYTES_MAX)).rev().find(|end| sentence.is_char_boundary(*end));
    &sentence[..end.unwrap_or_default()]
}

/// What the last change that a scheduler made was. A change by others leaves it as it is, so it
/// belongs to a version only if it names what changed there.
pub fn last_change(annotations: &Pairs<String>) -> Option<&str> {
    annotations.get(LAST_CHANGE).map(String::as_str)
}
