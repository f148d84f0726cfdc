//! Repairs JSON strings that are not valid Unicode, as Go's decoder does (TL3): each byte that is
//! not UTF-8, and each unpaired surrogate, becomes U+FFFD.
//!
//! serde_json refuses such a text, so the repair is attempted only after a failure.

use std::borrow::Cow;

const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;
/// Length of an escape such as `\ud800`.
const ESCAPE_BYTES: usize = 6;

/// Calls `read` with a text. If that fails, calls it again with the repaired text.
pub fn read_repaired<T, E>(text: &[u8], read: impl Fn(&[u8]) -> Result<T, E>) -> Result<T, E> {
    read(text).or_else(|refused| match repaired(text) {
        Some(repaired) => read(repaired.as_bytes()),
        None => Err(refused),
    })
}

/// Returns the repaired text, or `None` if there is nothing to repair.
fn repaired(text: &[u8]) -> Option<String> {
    let decoded = decoded(text);
    let halves = halves(decoded.as_bytes());
    if halves.is_empty() && matches!(decoded, Cow::Borrowed(_)) {
        return None;
    }
    let mut decoded = decoded.into_owned();
    for at in halves {
        decoded.replace_range(at..at + ESCAPE_BYTES, "\\ufffd");
    }
    Some(decoded)
}

fn decoded(text: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(text) {
        return Cow::Borrowed(text);
    }
    let mut decoded = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        decoded.push_str(chunk.valid());
        decoded.extend(chunk.invalid().iter().map(|_| REPLACEMENT));
    }
    Cow::Owned(decoded)
}

/// Returns the offsets of escapes of unpaired surrogates.
fn halves(text: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(step) = text[at..].iter().position(|&byte| byte == b'\\') {
        at += step;
        at += match unit(text, at) {
            None => 2,
            Some(0xD800..0xDC00) if matches!(unit(text, at + ESCAPE_BYTES), Some(0xDC00..0xE000)) => 2 * ESCAPE_BYTES,
            Some(unit) => {
                if (0xD800..0xE000).contains(&unit) {
                    found.push(at);
                }
                ESCAPE_BYTES
            }
        };
        if at >= text.len() {
            break;
        }
    }
    found
}

/// Returns the UTF-16 unit of the escape that begins at `at`.
fn unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at + ESCAPE_BYTES)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok().filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tl3_what_is_no_unicode_becomes_the_replacement_character() {
        for (text, expected) in [
            (&b"\"a\xff\xfeb\""[..], "a\u{fffd}\u{fffd}b"),
            (b"\"\xed\xa0\x80\"", "\u{fffd}\u{fffd}\u{fffd}"),
            (br#""\ud800""#, "\u{fffd}"),
            (br#""\uD800x\uDFFF""#, "\u{fffd}x\u{fffd}"),
            (br#""\ud800\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (br#""\\ud800\ud800""#, "\\ud800\u{fffd}"),
        ] {
            let read = read_repaired(text, |text| serde_json::from_slice::<String>(text));
            assert_eq!(read.unwrap(), expected, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn what_is_wrong_otherwise_is_refused_as_before() {
        for text in [&b"\"\\ud8\""[..], b"\"\\", b"\"\xff", b"\xff", b"\"a\\x\\ud800\"", b"{\"a\":"] {
            assert!(read_repaired(text, |text| serde_json::from_slice::<String>(text)).is_err());
        }
    }
}
