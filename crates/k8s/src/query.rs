//! Parses a query string as Go's server does: the first value of a name counts, numbers are
//! decimal, and only `false` and `0` are false (VB12).

use std::borrow::Cow;

use super::Status;

/// The decoded pairs of one query string.
pub struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Parses `text`, which follows the `?` and is still percent-encoded. Any text is a query.
    pub fn parse(text: &'a str) -> Query<'a> {
        Query(form_urlencoded::parse(text.as_bytes()).collect())
    }

    /// All values of `name`, in their order.
    pub fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_ref())
    }

    /// The first value of `name`, which may be empty.
    pub fn first<'q>(&'q self, name: &'q str) -> Option<&'q str> {
        self.all(name).next()
    }

    /// Like `first`, but an empty value counts as none.
    pub fn text<'q>(&'q self, name: &'q str) -> Option<&'q str> {
        self.first(name).filter(|value| !value.is_empty())
    }

    /// The value of `name` as a boolean: only `false` and `0` are false. `None`: it is absent.
    pub fn boolean(&self, name: &str) -> Option<bool> {
        self.first(name).map(|value| !(value.eq_ignore_ascii_case("false") || value == "0"))
    }

    /// The value of `name` as a decimal number. The error is a 400 in Go's words.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(value) = self.first(name) else { return Ok(None) };
        let refused = |error: std::num::ParseIntError| {
            use std::num::IntErrorKind::{NegOverflow, PosOverflow};
            let why = match error.kind() {
                PosOverflow | NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            Status::bad_request(format!("strconv.ParseInt: parsing {value:?}: {why}"))
        };
        value.parse().map(Some).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vb12_only_false_and_zero_are_false() {
        for (text, expected) in [
            ("watch=", Some(true)),
            ("watch", Some(true)),
            ("watch=1", Some(true)),
            ("watch=no", Some(true)),
            ("watch=false&watch=true", Some(false)),
            ("watch=FALSE", Some(false)),
            ("watch=0", Some(false)),
            ("", None),
        ] {
            assert_eq!(Query::parse(text).boolean("watch"), expected, "{text}");
        }
    }

    #[test]
    fn ch8_numbers_are_refused_in_gos_words() {
        assert_eq!(Query::parse("limit=-1").integer("limit").unwrap(), Some(-1));
        for (text, why) in
            [("x", "invalid syntax"), ("", "invalid syntax"), ("99999999999999999999", "value out of range")]
        {
            let query = format!("limit={text}");
            let status = Query::parse(&query).integer("limit").unwrap_err();
            let message = format!("strconv.ParseInt: parsing {text:?}: {why}");
            assert_eq!((status.code, status.message), (400, message));
        }
    }

    #[test]
    fn se7_values_are_percent_decoded() {
        assert_eq!(Query::parse("labelSelector=a%3Db+%2Cc").text("labelSelector"), Some("a=b ,c"));
    }
}
