//! The known name that is closest to an unknown one, for messages about typing errors. Pure.

use std::fmt::Write;

/// A name that differs by more edits is another name, and no typing error.
const EDITS_MAX: usize = 3;

/// The known name that takes the fewest edits. The first by name among equals. None if no name is
/// near.
pub fn closest_name<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // In a short name, as many edits would change all letters.
    let edits_max = EDITS_MAX.min(unknown.chars().count().div_ceil(2));
    let is_like = |name: &&str| name.len().abs_diff(unknown.len()) <= 4 * edits_max;
    let rated = known.filter(is_like).map(|name| (strsim::damerau_levenshtein(unknown, name), name));
    rated.filter(|(edits, _)| *edits <= edits_max).min().map(|(_, name)| name)
}

/// What is wrong, with the nearest known name if there is one.
pub fn with_suggestion<'a>(what: String, unknown: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut text = what;
    if let Some(name) = closest_name(unknown, known) {
        write!(text, "; the nearest known name is {name:?}").expect("a string takes all text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_edits_win_and_what_is_too_far_is_not_named() {
        let known = ["member1", "member10", "member2", "store"];
        for (unknown, wanted) in [
            ("membr1", Some("member1")),
            ("memebr2", Some("member2")),
            ("member3", Some("member1")),
            ("Store", Some("store")),
            ("gateway", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest_name(unknown, known.into_iter()), wanted, "{unknown}");
        }
        let text = with_suggestion("no cluster has this name".to_owned(), "stor", known.into_iter());
        assert_eq!(text, "no cluster has this name; the nearest known name is \"store\"");
        assert_eq!(with_suggestion("none".to_owned(), "gateway", known.into_iter()), "none");
    }
}
