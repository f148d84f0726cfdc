//! Finds the ends of values in a JSON text without parsing them. Accepts only the format that
//! Ballast writes: no blanks, and whole numbers. A parser for any format takes three times as long.
//!
//! *Invariant:* every accepted text is valid JSON. Text in another format is not an error: the
//! caller then parses it with a general parser.

/// Deeper values are left to the parser, which has its own bound.
const DEPTH_MAX: usize = 100;
const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Returns the position behind the value that begins at `at`. `None` if it is not JSON in Ballast's
/// format.
pub(super) fn value_end(text: &[u8], at: usize) -> Option<usize> {
    value(text, at, 0)
}

/// Returns the position behind the string that begins at `at`.
pub(super) fn string_end(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = plain_end(text, at + 1);
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at = plain_end(text, escape_end(text, at + 1)?),
            _ => return None,
        }
    }
}

fn value(text: &[u8], at: usize, depth: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => string_end(text, at),
        b'{' | b'[' if depth == DEPTH_MAX => None,
        b'{' => members(text, at + 1, depth + 1),
        b'[' => items(text, at + 1, depth + 1),
        b't' => word_end(text, at, b"true"),
        b'f' => word_end(text, at, b"false"),
        b'n' => word_end(text, at, b"null"),
        _ => number_end(text, at),
    }
}

fn members(text: &[u8], mut at: usize, depth: usize) -> Option<usize> {
    if text.get(at) == Some(&b'}') {
        return Some(at + 1);
    }
    loop {
        at = string_end(text, at)?;
        if text.get(at) != Some(&b':') {
            return None;
        }
        at = value(text, at + 1, depth)?;
        match text.get(at)? {
            b',' => at += 1,
            b'}' => return Some(at + 1),
            _ => return None,
        }
    }
}

fn items(text: &[u8], mut at: usize, depth: usize) -> Option<usize> {
    if text.get(at) == Some(&b']') {
        return Some(at + 1);
    }
    loop {
        at = value(text, at, depth)?;
        match text.get(at)? {
            b',' => at += 1,
            b']' => return Some(at + 1),
            _ => return None,
        }
    }
}

fn word_end(text: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    text[at..].starts_with(word).then_some(at + word.len())
}

/// Returns the position behind a whole number. The caller checks the following byte.
fn number_end(text: &[u8], at: usize) -> Option<usize> {
    let digits = at + usize::from(text[at] == b'-');
    let count = text.get(digits..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_usual = count == 1 || (count > 1 && text[digits] != b'0');
    is_usual.then_some(digits + count)
}

/// Returns the position behind an escape sequence. `at` is the character after the backslash.
fn escape_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 1),
        b'u' => text.get(at + 1..at + 5)?.iter().all(u8::is_ascii_hexdigit).then_some(at + 5),
        _ => None,
    }
}

/// Returns the position of the first byte that ends the plain part of a string: a quote, a
/// backslash, or a control character.
fn plain_end(text: &[u8], mut at: usize) -> usize {
    // Tests eight bytes at once. Each test sets the high bit of the matching bytes. It may also set
    // the high bits of bytes behind the first match, so only the first set bit counts.
    while let Some(eight) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let bytes = u64::from_le_bytes(*eight);
        let is_zero = |bytes: u64| bytes.wrapping_sub(LOW) & !bytes;
        let quotes = is_zero(bytes ^ (LOW * u64::from(b'"')));
        let backslashes = is_zero(bytes ^ (LOW * u64::from(b'\\')));
        let controls = bytes.wrapping_sub(LOW * 0x20) & !bytes;
        let found = (quotes | backslashes | controls) & HIGH;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let is_plain = |byte: &&u8| **byte >= 0x20 && !matches!(byte, b'"' | b'\\');
    at + text.get(at..).unwrap_or_default().iter().take_while(is_plain).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_ballast_writes_is_passed_over_and_other_forms_are_left() {
        for text in [
            r#"{}"#,
            r#"[]"#,
            r#""""#,
            r#"-7"#,
            r#"0"#,
            r#"{"a":[1,true,null,{"b":"é\"\\\u00e9\n"}],"c":false}"#,
            r#""long enough for eight bytes, and \"more\" of them""#,
        ] {
            assert_eq!(value_end(text.as_bytes(), 0), Some(text.len()), "{text}");
            serde_json::from_str::<Value>(text).unwrap();
        }
        let left = [
            "",
            "{",
            "[1",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "[1,]",
            "{ }",
            "[1 ]",
            "1.5",
            "1e3",
            "01",
            "-",
            "tru",
            "\"",
            "\"\\",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\n\"",
            "{1:2}",
            "}",
            ",",
        ];
        for text in left {
            let end = value_end(text.as_bytes(), 0);
            assert!(end != Some(text.len()), "{text}");
        }
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(value_end(deep(DEPTH_MAX).as_bytes(), 0).is_some());
        assert!(value_end(deep(DEPTH_MAX + 1).as_bytes(), 0).is_none());
    }

    proptest! {
        /// Checks with bytes that are often almost JSON that only JSON is accepted.
        #[test]
        fn what_it_accepts_is_json(pieces in prop::collection::vec(0_usize..22, 0..14)) {
            const PIECES: [&str; 22] = [
                "{", "}", "[", "]", "\"", "\"a\"", "\"a\":", ":", ",", "1", "-", "0", ".5", "true", "null", "\\", "\\n",
                "\\u00e9", "\u{1}", "é", " ", "\"a long name of a member\":",
            ];
            let text: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
            if value_end(text.as_bytes(), 0) == Some(text.len()) {
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{}", text);
            }
        }

        #[test]
        fn the_end_of_a_plain_text_is_found(text in prop::collection::vec(any::<u8>(), 0..40), at in 0_usize..44) {
            let is_plain = |byte: &u8| *byte >= 0x20 && !matches!(byte, b'"' | b'\\');
            let rest = text.get(at..).unwrap_or_default();
            let expected = at + rest.iter().take_while(|byte| is_plain(byte)).count();
            prop_assert_eq!(plain_end(&text, at), expected);
        }
    }
}
