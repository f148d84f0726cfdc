//! Formats values as text.

use std::fmt::Write as _;

use jiff::SignedDuration;

/// Returns the duration in seconds, as cel-go writes it: with the digits of a double.
pub fn duration_text(span: SignedDuration) -> String {
    let seconds = span.as_secs() as f64 + f64::from(span.subsec_nanos()) / 1e9;
    format!("{seconds}s")
}

/// Returns the number as Go's `%g` writes it: with an exponent below 1e-4 and from 1e6 on.
pub fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.parse::<i32>() {
        Ok(-4..=5) => value.to_string(),
        Ok(exponent) => format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs()),
        Err(_) => text,
    }
}

/// Returns the text in quotes, as Go's `%q` writes it.
pub fn go_quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' | '"' => quoted.extend(['\\', character]),
            '\'' => quoted.push('\''),
            plain if plain.escape_debug().len() == 1 => quoted.push(plain),
            other => {
                let _infallible = match u32::from(other) {
                    code @ ..0x80 => write!(quoted, "\\x{code:02x}"),
                    code @ ..0x1_0000 => write!(quoted, "\\u{code:04x}"),
                    code => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}
