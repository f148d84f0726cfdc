//! The known name that is closest to an unknown one, for messages about mistyped names. Pure.

use std::fmt::Write;

/// A name that differs by more edits is not considered a typing error.
const EDITS_MAX: usize = 3;
/// Largest number of unknown names per request that are compared with the known ones.
const HINTS_MAX: usize = 20;

/// Returns the known name with the fewest edits, and the first by name among equals. `None` if no
/// name is close enough.
pub fn closest_name<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // In a short name, as many edits would change all letters.
    let edits_max = EDITS_MAX.min(unknown.chars().count().div_ceil(2));
    let is_like = |name: &&str| name.len().abs_diff(unknown.len()) <= 4 * edits_max;
    let rated = known.filter(is_like).map(|name| (strsim::damerau_levenshtein(unknown, name), name));
    rated.filter(|(edits, _)| *edits <= edits_max).min().map(|(_, name)| name)
}

/// Returns the closest known name with the same digits. For commands that move workloads off
/// clusters or stop something: `prod-9` is a different cluster than `prod-99`, not a typing error.
pub fn closest_name_with_same_digits<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let digits = |name: &str| -> Vec<u8> { name.bytes().filter(u8::is_ascii_digit).collect() };
    let wanted = digits(unknown);
    closest_name(unknown, known.filter(|name| digits(name) == wanted))
}

/// The remaining suggestions for one request. Each compares a name with all known ones, so their
/// number is bounded.
#[derive(Debug)]
pub struct Hints {
    left: usize,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints { left: HINTS_MAX }
    }
}

impl Hints {
    /// Returns the result of the function `with_suggestion`, or `what` alone beyond the bound.
    pub fn with_suggestion<'a>(&mut self, what: String, unknown: &str, known: impl Iterator<Item = &'a str>) -> String {
        match self.take() {
            true => with_suggestion(what, unknown, known),
            false => what,
        }
    }

    /// Takes one suggestion from the budget. Returns false if none is left.
    pub fn take(&mut self) -> bool {
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

/// Returns the message `what`, with the closest known name if there is one.
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
    fn a_name_with_other_digits_is_no_hint_where_it_would_hurt() {
        let known = ["prod-1", "prod-9", "member"];
        for (unknown, wanted) in [("prod-99", None), ("prd-9", Some("prod-9")), ("prdo-99", None), ("member1", None)] {
            assert_eq!(closest_name_with_same_digits(unknown, known.into_iter()), wanted, "{unknown}");
        }
    }

    #[test]
    fn the_number_of_hints_is_bounded() {
        let mut hints = Hints::default();
        let texts =
            Vec::from_iter((0..30).map(|_| hints.with_suggestion(String::new(), "stor", ["store"].into_iter())));
        assert_eq!(texts.iter().filter(|text| !text.is_empty()).count(), HINTS_MAX);
    }

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
