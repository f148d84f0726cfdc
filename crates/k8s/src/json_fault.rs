//! Messages for text that is not valid JSON, or not a value of the expected type, with line and
//! column. Differs from Kubernetes (D71): only the most frequent error, an unexpected end of the
//! text, has its message.

/// Syntax errors in the wording of the parser, and their messages.
const FAULTS: [(&str, &str); 16] = [
    ("expected `:`", "a colon is missing after the name of a member"),
    ("expected `,` or `}`", "a comma or a closing brace is missing"),
    ("expected `,` or `]`", "a comma or a closing bracket is missing"),
    ("expected ident", "a word is none of true, false and null"),
    ("expected value", "a value is missing"),
    ("key must be a string", "the name of a member is not in double quotes"),
    ("trailing comma", "no member or item follows a comma"),
    ("trailing characters", "the text goes on after the end of the JSON"),
    ("recursion limit exceeded", "the JSON nests deeper than 127 levels"),
    ("control character", "a text has a control character, which must be escaped"),
    ("invalid escape", "a text has an unknown escape"),
    ("invalid number", "a number is not well-formed"),
    ("number out of range", "a number is too large"),
    ("invalid unicode code point", "a text is not Unicode"),
    ("lone leading surrogate", "a text has half of a surrogate pair"),
    ("unexpected end of hex escape", "an escape of a text is too short"),
];

/// Types in the wording of serde, and their names in messages.
const TYPES: [(&str, &str); 6] = [
    ("i8 i16 i32 i64 u8 u16 u32 u64 usize", "a whole number"),
    ("f32 f64", "a number"),
    ("boolean", "true or false"),
    ("sequence seq", "a list"),
    ("map struct", "an object"),
    ("string str", "a text"),
];

/// Returns the message for a JSON error.
pub fn json_fault(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let (said, line, column) = (error.to_string(), error.line(), error.column());
    let position = format!(" at line {line} column {column}");
    let said = said.strip_suffix(&position).unwrap_or(&said);
    let known = FAULTS.iter().find(|(theirs, _)| said.starts_with(theirs)).map(|(_, ours)| (*ours).to_owned());
    let message = known.or_else(|| type_fault(said)).unwrap_or_else(|| said.to_owned());
    match line {
        0 => message,
        _ => format!("{message} (line {line}, column {column})"),
    }
}

/// Returns the message for a value that does not have the expected type.
fn type_fault(said: &str) -> Option<String> {
    let (found, expected) = said.strip_prefix("invalid type: ")?.split_once(", expected ")?;
    let name = |text: &str| {
        let word = text.trim_start_matches("a ").trim_start_matches("an ");
        let word = word.split_whitespace().next().unwrap_or_default();
        TYPES.iter().find(|(words, _)| words.split(' ').any(|it| it == word)).map(|(_, name)| *name)
    };
    let value = ["string ", "integer ", "floating point ", "boolean "].iter().find_map(|it| found.strip_prefix(it));
    let found = value.or_else(|| name(found)).unwrap_or(found);
    Some(format!("{found} where {} is expected", name(expected).unwrap_or(expected)))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    #[derive(Deserialize, Debug)]
    #[expect(dead_code, reason = "only the errors are looked at")]
    struct Counted {
        replicas: i32,
        names: Vec<String>,
    }

    #[test]
    fn no_message_has_the_words_of_the_parser() {
        for (text, message) in [
            ("{\"a\" 1}", "a colon is missing after the name of a member (line 1, column 6)"),
            ("{a: 1}", "the name of a member is not in double quotes (line 1, column 2)"),
            ("{\"a\":1 \"b\":2}", "a comma or a closing brace is missing (line 1, column 8)"),
            ("[1 2]", "a comma or a closing bracket is missing (line 1, column 4)"),
            ("[1,]", "no member or item follows a comma (line 1, column 4)"),
            ("{\"kind\": tru}", "a word is none of true, false and null (line 1, column 13)"),
            ("{} {}", "the text goes on after the end of the JSON (line 1, column 4)"),
            ("[01]", "a number is not well-formed (line 1, column 3)"),
            ("[1e999]", "a number is too large (line 1, column 6)"),
            ("[\"\n\"]", "a text has a control character, which must be escaped (line 2, column 0)"),
            ("[\"\\q\"]", "a text has an unknown escape (line 1, column 4)"),
            ("[", "unexpected end of JSON input"),
        ] {
            let error = serde_json::from_str::<Value>(text).unwrap_err();
            assert_eq!(json_fault(&error), message, "{text}");
        }
        let deep = serde_json::from_str::<Value>(&"[".repeat(3000)).unwrap_err();
        assert_eq!(json_fault(&deep), "the JSON nests deeper than 127 levels (line 1, column 128)");
    }

    #[test]
    fn a_value_of_another_type_is_named_with_the_expected_type() {
        for (text, message) in [
            (r#"{"replicas":"four"}"#, "\"four\" where a whole number is expected (line 1, column 18)"),
            (r#"{"replicas":1,"names":{}}"#, "an object where a list is expected (line 1, column 22)"),
            (r#"{"replicas":1,"names":[1]}"#, "`1` where a text is expected (line 1, column 24)"),
        ] {
            let error = serde_json::from_str::<Counted>(text).unwrap_err();
            assert_eq!(json_fault(&error), message, "{text}");
        }
    }
}
