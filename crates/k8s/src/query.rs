//! Parses a query string as Go's server does: pairs that cannot be decoded are ignored (TL6), the
//! first value of a name counts, numbers are decimal, and only `false` and `0` are false (VB12).

use std::borrow::Cow;

use super::Status;

/// The decoded pairs of one query string.
pub struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Parses `text`, which follows the `?` and is still percent-encoded. Any text is a valid
    /// query.
    pub fn parse(text: &'a str) -> Query<'a> {
        let pairs = text.split('&').filter(|pair| is_decodable(pair));
        Query(pairs.flat_map(|pair| form_urlencoded::parse(pair.as_bytes())).collect())
    }

    /// Returns all values of `name`, in their order.
    pub fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_ref())
    }

    /// Returns the first value of `name`, which may be empty.
    pub fn first<'q>(&'q self, name: &'q str) -> Option<&'q str> {
        self.all(name).next()
    }

    /// Returns the first value of `name`, or `None` if it is empty.
    pub fn text<'q>(&'q self, name: &'q str) -> Option<&'q str> {
        self.first(name).filter(|value| !value.is_empty())
    }

    /// Returns the value of `name` as a boolean: only `false` and `0` are false. `None` if it is
    /// absent.
    pub fn boolean(&self, name: &str) -> Option<bool> {
        self.first(name).map(|value| !(value.eq_ignore_ascii_case("false") || value == "0"))
    }

    /// Returns the value of `name` as a decimal number. The error is a 400 in the wording of Go.
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

/// Returns whether Go decodes the pair. Go refuses a semicolon, because it was a separator
/// formerly.
fn is_decodable(pair: &str) -> bool {
    let bytes = pair.as_bytes();
    let is_escape = |at: usize| bytes.get(at + 1..at + 3).is_some_and(|it| it.iter().all(u8::is_ascii_hexdigit));
    !pair.contains(';') && pair.match_indices('%').all(|(at, _)| is_escape(at))
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
    fn tl6_pairs_that_cannot_be_decoded_are_left_out() {
        let query = Query::parse("a=%zz&b=1;c=2&%=x&d=%4&e=%41&f=a+b");
        for (name, expected) in
            [("a", None), ("b", None), ("c", None), ("d", None), ("e", Some("A")), ("f", Some("a b"))]
        {
            assert_eq!(query.first(name), expected, "{name}");
        }
    }

    #[test]
    fn se7_values_are_percent_decoded() {
        assert_eq!(Query::parse("labelSelector=a%3Db+%2Cc").text("labelSelector"), Some("a=b ,c"));
    }
}
