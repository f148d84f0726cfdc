//! Natural sort order of names: `member2` comes before `member10`.
//!
//! The API lists names byte by byte. The tables of the commands are sorted with `by_name`.

use std::cmp::Ordering;

/// Compares two names. Runs of digits are compared as numbers, all else byte by byte.
pub fn compare(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one.as_bytes(), other.as_bytes());
    while let (Some(a), Some(b)) = (left.first(), right.first()) {
        let order = match a.is_ascii_digit() && b.is_ascii_digit() {
            true => number(&mut left).cmp(&number(&mut right)),
            false => {
                (left, right) = (&left[1..], &right[1..]);
                a.cmp(b)
            }
        };
        if order.is_ne() {
            return order;
        }
    }
    // `a01` and `a1` have the same numbers but are different names.
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

/// Splits the run of digits off the front. The result orders as a number does: without leading
/// zeros, a longer run is a larger number.
fn number<'a>(text: &mut &'a [u8]) -> (usize, &'a [u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    (digits.len() - zeros, &digits[zeros..])
}

/// Sorts items by the name that `name` returns.
pub fn by_name<T>(items: &mut [T], name: impl Fn(&T) -> &str) {
    items.sort_by(|one, other| compare(name(one), name(other)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        let mut names =
            ["member10", "a1b10", "member2", "member", "a1b9", "a01b9", "member02", "x99999999999999999999"];
        by_name(&mut names, |name| name);
        let sorted = ["a01b9", "a1b9", "a1b10", "member", "member02", "member2", "member10", "x99999999999999999999"];
        assert_eq!(names, sorted);
    }

    proptest! {
        #[test]
        fn it_is_an_order(names in prop::collection::vec("[a01]{0,4}", 3)) {
            let [a, b, c] = [&names[0], &names[1], &names[2]];
            prop_assert_eq!(compare(a, b), compare(b, a).reverse());
            prop_assert_eq!(compare(a, b).is_eq(), a == b);
            if compare(a, b).is_le() && compare(b, c).is_le() {
                prop_assert!(compare(a, c).is_le());
            }
        }
    }
}
