//! Extracts single values from a JSON text, and skips the rest without parsing it (`scan`). For
//! callers that read a few values of very many objects.
//!
//! Accepts only the format that Ballast writes: sorted members, each name once, no blanks. Every
//! step returns `None` for another format; the caller then uses a general parser.

use serde::Deserialize;

use super::{read_json, scan};

/// A position in a JSON text.
pub struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walk<'a> {
    /// Reads the whole text with `read`. Returns `None` if `read` does, or if it did not reach the
    /// end.
    pub fn over<T>(text: &'a [u8], read: impl FnOnce(&mut Walk<'a>) -> Option<T>) -> Option<T> {
        let mut walk = Walk::begin(text)?;
        let read = read(&mut walk)?;
        (walk.at == text.len()).then_some(read)
    }

    /// Reads the text like `over`. If that returns `None`, the text is parsed, and a parse error is
    /// returned.
    pub fn or_parse<T: Deserialize<'a>>(
        text: &'a [u8],
        read: impl FnOnce(&mut Walk<'a>) -> Option<T>,
    ) -> serde_json::Result<T> {
        Walk::over(text, read).map_or_else(|| read_json(text), Ok)
    }

    /// Returns the text of the value at this path, or `None` if it does not exist. The text behind
    /// it is not read.
    pub fn find(text: &'a [u8], path: &[&str]) -> Option<&'a str> {
        let mut walk = Walk::begin(text)?;
        path.iter().try_for_each(|name| walk.enter(name))?;
        walk.value()
    }

    fn begin(text: &'a [u8]) -> Option<Walk<'a>> {
        Some(Walk { text: std::str::from_utf8(text).ok()?, at: 0 })
    }

    /// Enters the next object, and moves to the value of this member.
    fn enter(&mut self, wanted: &str) -> Option<()> {
        self.pass(b'{')?;
        loop {
            let name = self.name()?;
            if name >= wanted {
                return (name == wanted).then_some(());
            }
            self.value()?;
            self.pass(b',')?;
        }
    }

    /// Returns whether the next value is an object.
    pub fn is_at_object(&self) -> bool {
        self.next_byte() == Some(b'{')
    }

    /// Iterates over the members of the next object. `each` is called with the name of a member,
    /// and must take its value.
    pub fn members(&mut self, mut each: impl FnMut(&mut Walk<'a>, &'a str) -> Option<()>) -> Option<()> {
        self.pass(b'{')?;
        if self.pass(b'}').is_some() {
            return Some(());
        }
        let mut last = None;
        loop {
            let name = self.name()?;
            if last.is_some_and(|last| last >= name) {
                return None;
            }
            last = Some(name);
            each(self, name)?;
            if self.pass(b',').is_none() {
                return self.pass(b'}');
            }
        }
    }

    /// Takes the name of a member, and the colon behind it.
    fn name(&mut self) -> Option<&'a str> {
        let quoted = self.up_to(scan::string_end(self.text.as_bytes(), self.at)?)?;
        let name = &quoted[1..quoted.len() - 1];
        self.pass(b':')?;
        (!name.contains('\\')).then_some(name)
    }

    /// Takes the next value as text.
    pub fn value(&mut self) -> Option<&'a str> {
        self.up_to(scan::value_end(self.text.as_bytes(), self.at)?)
    }

    /// Takes and parses the next value. Returns `None` also if it is not a `T`.
    pub fn parse<T: Deserialize<'a>>(&mut self) -> Option<T> {
        serde_json::from_str(self.value()?).ok()
    }

    fn next_byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn pass(&mut self, byte: u8) -> Option<()> {
        let is_next = self.next_byte() == Some(byte);
        self.at += usize::from(is_next);
        is_next.then_some(())
    }

    fn up_to(&mut self, end: usize) -> Option<&'a str> {
        let passed = self.text.get(self.at..end)?;
        self.at = end;
        Some(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(text: &str) -> Option<Vec<(&str, &str)>> {
        let mut found = Vec::new();
        Walk::over(text.as_bytes(), |walk| {
            walk.members(|walk, name| {
                found.push((name, walk.value()?));
                Some(())
            })
        })?;
        Some(found)
    }

    #[test]
    fn members_are_taken_as_they_are_written() {
        let text = r#"{"a":{"x":[1,2]},"b":"q\"","c":null}"#;
        assert_eq!(members(text).unwrap(), [("a", r#"{"x":[1,2]}"#), ("b", r#""q\"""#), ("c", "null")]);
        assert_eq!(members("{}").unwrap(), []);
        let inner = Walk::over(text.as_bytes(), |walk| {
            let mut inner = None;
            walk.members(|walk, _| {
                if !walk.is_at_object() {
                    return walk.value().map(drop);
                }
                walk.members(|walk, name| {
                    inner = Some((name, walk.value()?));
                    Some(())
                })
            })?;
            inner
        });
        assert_eq!(inner, Some(("x", "[1,2]")));
    }

    #[test]
    fn a_member_is_found_by_its_path_and_nothing_behind_it_is_read() {
        let text = br#"{"a":{"b":"x"},"c":{"b":{"y":[1]},"d":2}, broken"#;
        assert_eq!(Walk::find(text, &["a", "b"]), Some(r#""x""#));
        assert_eq!(Walk::find(text, &["c", "b"]), Some(r#"{"y":[1]}"#));
        assert_eq!(Walk::find(text, &["c", "d"]), Some("2"));
        for path in [&["b"][..], &["a", "c"], &["a", "b", "c"], &["d"]] {
            assert_eq!(Walk::find(text, path), None, "{path:?}");
        }
        assert_eq!(Walk::find(br#"{"z":1,"b":2}"#, &["b"]), None, "they are not sorted");
    }

    #[test]
    fn other_forms_are_left_to_a_parser() {
        for text in [
            "",
            "[]",
            "1",
            "{",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":1"#,
            r#"{"a":1} "#,
            r#"{ "a":1}"#,
            r#"{"b":1,"a":1}"#,
            r#"{"a":1,"a":1}"#,
            r#"{"a\u0062":1}"#,
            r#"{"a":1.5}"#,
        ] {
            assert_eq!(members(text), None, "{text}");
        }
        assert!(Walk::over(b"{\"a\":\"\xff\"}", |walk| walk.members(|walk, _| walk.value().map(drop))).is_none());
    }
}
