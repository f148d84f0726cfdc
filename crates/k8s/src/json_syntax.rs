//! Finds out what is wrong with a text that is not JSON, in the words of Go's scanner, because
//! people know them and search for them (VB18). Only for texts that a parser has refused; nothing
//! of the content is kept.
//!
//! One pass without recursion, bounded by the length of the text. A text that ends too early is the
//! caller's to report, as `unexpected end of JSON input`.

/// The fault of a text. `None` if it ends too early, or if its syntax is right.
pub fn fault(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { rest: text, open: Vec::new() };
    match scanner.document() {
        Err(Some((byte, place))) => Some(format!("invalid character {} {place}", quoted(byte))),
        Ok(()) | Err(None) => None,
    }
}

/// The unexpected byte and its place. `None` at the end of the text.
type Fault = Option<(u8, String)>;

struct Scanner<'a> {
    rest: &'a [u8],
    /// The braces and brackets that are still open.
    open: Vec<u8>,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), Fault> {
        self.begin_value()?;
        while let Some(&open) = self.open.last() {
            let (close, place) = match open {
                b'{' => (b'}', "after object key:value pair"),
                _ => (b']', "after array element"),
            };
            match self.token()? {
                b',' if open == b'{' => self.member()?,
                b',' => self.begin_value()?,
                byte if byte == close => drop(self.open.pop()),
                byte => return wrong(byte, place),
            }
        }
        match self.token() {
            Ok(byte) => wrong(byte, "after top-level value"),
            Err(_) => Ok(()),
        }
    }

    /// Reads a value. Of an object or array it reads up to the first value inside.
    fn begin_value(&mut self) -> Result<(), Fault> {
        loop {
            let byte = self.token()?;
            match byte {
                b'{' => match self.token()? {
                    b'}' => return Ok(()),
                    byte => {
                        self.open.push(b'{');
                        self.key(byte)?;
                    }
                },
                b'[' => {
                    self.skip_blanks();
                    if self.rest.first() == Some(&b']') {
                        self.rest = &self.rest[1..];
                        return Ok(());
                    }
                    self.open.push(b'[');
                }
                b'"' => return self.string(),
                b'-' | b'0'..=b'9' => return self.number(byte),
                b't' => return self.literal("true"),
                b'f' => return self.literal("false"),
                b'n' => return self.literal("null"),
                byte => return wrong(byte, "looking for beginning of value"),
            }
        }
    }

    /// Reads a member after a comma, up to the first value inside its value.
    fn member(&mut self) -> Result<(), Fault> {
        let byte = self.token()?;
        self.key(byte)?;
        self.begin_value()
    }

    fn key(&mut self, first: u8) -> Result<(), Fault> {
        if first != b'"' {
            return wrong(first, "looking for beginning of object key string");
        }
        self.string()?;
        match self.token()? {
            b':' => Ok(()),
            byte => wrong(byte, "after object key"),
        }
    }

    fn string(&mut self) -> Result<(), Fault> {
        loop {
            match self.byte()? {
                b'"' => return Ok(()),
                b'\\' => match self.byte()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let byte = self.byte()?;
                            if !byte.is_ascii_hexdigit() {
                                return wrong(byte, "in \\u hexadecimal character escape");
                            }
                        }
                    }
                    byte => return wrong(byte, "in string escape code"),
                },
                byte @ ..0x20 => return wrong(byte, "in string literal"),
                _ => {}
            }
        }
    }

    fn number(&mut self, first: u8) -> Result<(), Fault> {
        let first = if first == b'-' { self.digit("in numeric literal")? } else { first };
        if first != b'0' {
            self.skip(u8::is_ascii_digit);
        }
        if self.rest.first() == Some(&b'.') {
            self.byte()?;
            self.digit("after decimal point in numeric literal")?;
            self.skip(u8::is_ascii_digit);
        }
        if matches!(self.rest.first(), Some(b'e' | b'E')) {
            self.byte()?;
            if matches!(self.rest.first(), Some(b'+' | b'-')) {
                self.byte()?;
            }
            self.digit("in exponent of numeric literal")?;
            self.skip(u8::is_ascii_digit);
        }
        Ok(())
    }

    fn digit(&mut self, place: &str) -> Result<u8, Fault> {
        let byte = self.byte()?;
        if byte.is_ascii_digit() { Ok(byte) } else { Err(Some((byte, place.to_owned()))) }
    }

    fn literal(&mut self, word: &str) -> Result<(), Fault> {
        for expected in word.bytes().skip(1) {
            let byte = self.byte()?;
            if byte != expected {
                return wrong(byte, &format!("in literal {word} (expecting {})", quoted(expected)));
            }
        }
        Ok(())
    }

    fn token(&mut self) -> Result<u8, Fault> {
        self.skip_blanks();
        self.byte()
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let (&first, rest) = self.rest.split_first().ok_or(None)?;
        self.rest = rest;
        Ok(first)
    }

    fn skip_blanks(&mut self) {
        self.skip(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    }

    fn skip(&mut self, passes: impl Fn(&u8) -> bool) {
        let length = self.rest.iter().position(|byte| !passes(byte)).unwrap_or(self.rest.len());
        self.rest = &self.rest[length..];
    }
}

fn wrong<T>(byte: u8, place: &str) -> Result<T, Fault> {
    Err(Some((byte, place.to_owned())))
}

fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        0x20..0x7f => format!("'{}'", char::from(byte)),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        ..0x80 => format!(r"'\x{byte:02x}'"),
        // Go shows the byte as a character.
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vb18_faults_are_named_as_go_names_them() {
        for (text, expected) in [
            ("nonsense", "invalid character 'o' in literal null (expecting 'u')"),
            (r#"{"a":1}{"b":2}"#, "invalid character '{' after top-level value"),
            (r#"{"a":1],"b":2}"#, "invalid character ']' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":tru}"#, "invalid character '}' in literal true (expecting 'e')"),
            (r#"["\q"]"#, "invalid character 'q' in string escape code"),
            (r#"["\u00g0"]"#, "invalid character 'g' in \\u hexadecimal character escape"),
            ("[\"a\nb\"]", r"invalid character '\n' in string literal"),
            ("[-x]", "invalid character 'x' in numeric literal"),
            ("[1.x]", "invalid character 'x' after decimal point in numeric literal"),
            ("[1ex]", "invalid character 'x' in exponent of numeric literal"),
            ("[01]", "invalid character '1' after array element"),
            ("'a'", r"invalid character '\'' looking for beginning of value"),
        ] {
            assert_eq!(fault(text.as_bytes()).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_right_or_ends_too_early_has_no_fault() {
        for text in ["{}", "[]", " [ { } , [ ] , -1.5e+3 ] ", r#"{"a":{"b":[{"c":null}]},"d":"\u00e9"}"#, "true"] {
            assert_eq!(fault(text.as_bytes()), None, "{text}");
            for end in 0..text.len() {
                assert_eq!(fault(&text.as_bytes()[..end]), None, "{text} up to {end}");
            }
        }
    }
}
