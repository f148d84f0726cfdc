//! Parsing of JSON that is known, or very likely, to be UTF-8.

use serde::Deserialize;

/// Parses a JSON text. The encoding is checked once for the whole text, which is several times
/// faster than `serde_json::from_slice`, which checks each string separately.
pub fn read_json<'a, T: Deserialize<'a>>(text: &'a [u8]) -> serde_json::Result<T> {
    match std::str::from_utf8(text) {
        Ok(text) => serde_json::from_str(text),
        // This fails too, with the position of the invalid byte in the error.
        Err(_) => serde_json::from_slice(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn text_is_read_and_refused_as_serde_json_does() {
        for text in [&b"{\"a\":\"\xc3\xa9\",\"b\":[1,2]}"[..], b"{\"a\":\"\xff\"}", b"{\"a\":", b"", b"[]x"] {
            let (ours, theirs) = (read_json::<Value>(text), serde_json::from_slice::<Value>(text));
            assert_eq!(ours.as_ref().ok(), theirs.as_ref().ok());
            assert_eq!(ours.err().map(|error| error.to_string()), theirs.err().map(|error| error.to_string()));
        }
    }
}
