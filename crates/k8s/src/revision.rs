//! The revision: the one counter of the store. On the wire it is the opaque `resourceVersion`.

use std::fmt;

/// The position of a change in the log. Revisions count the changes of all kinds, without gaps,
/// from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub i64);

impl Revision {
    /// The revision before all changes. `resourceVersion=0` requests it.
    pub const ZERO: Revision = Revision(0);

    /// Returns the revision of the change after this one.
    pub const fn next(self) -> Revision {
        Revision(self.0 + 1)
    }

    /// Parses the wire format, a decimal number without a sign. Returns `None` for anything else.
    pub fn parse(text: &str) -> Option<Revision> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        text.parse().ok().map(Revision)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_decimal_numbers_are_revisions() {
        assert_eq!(Revision::parse("42"), Some(Revision(42)));
        for text in ["", "-1", "+1", "1a", " 1", "9223372036854775808"] {
            assert_eq!(Revision::parse(text), None, "{text:?}");
        }
    }
}
