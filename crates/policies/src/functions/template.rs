//! `format` of strings: `%s %d %f %e %b %x %X %o`, with a precision for the two of floats.

use super::super::fault::Fault;
use super::super::meter::Meter;
use super::super::types::text::{double_text, duration_text};
use super::super::value::Value;
use super::Outcome;
use super::strings::quoted;

/// The longest precision.
const PRECISION_MAX: usize = 100;

pub fn format<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(template), Value::List(values)] = args else { return Err(Fault::no_overload()) };
    let mut made = String::new();
    let mut rest = template.as_str();
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        made.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            made.push('%');
            rest = after;
            continue;
        }
        let (precision, after) = precision(rest)?;
        let Some(verb) = after.chars().next() else { return Err(Fault::new("unexpected end of format string")) };
        rest = &after[verb.len_utf8()..];
        let Some(value) = values.get(next) else { return Err(Fault::new(format!("index {next} out of range"))) };
        next += 1;
        let text = clause(verb, precision, &value)?;
        meter.charge_walk(text.len())?;
        made.push_str(&text);
    }
    made.push_str(rest);
    meter.charge_walk(made.len())?;
    Ok(Value::text(made))
}

fn precision(text: &str) -> Result<(Option<usize>, &str), Fault> {
    let Some(after) = text.strip_prefix('.') else { return Ok((None, text)) };
    let end = after.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(after.len());
    let digits = after[..end].parse().ok().filter(|digits| *digits <= PRECISION_MAX);
    digits
        .map(|digits| (Some(digits), &after[end..]))
        .ok_or_else(|| Fault::new("error while converting precision to integer"))
}

fn clause(verb: char, precision: Option<usize>, value: &Value<'_>) -> Result<String, Fault> {
    let wrong = |what: &str| {
        Err(Fault::new(format!(
            "error during formatting: {what} can only be used on numbers, was given {}",
            value.type_name()
        )))
    };
    match verb {
        's' => shown(value, false),
        'd' => match value {
            Value::Int(_) | Value::Uint(_) => value.to_text(),
            Value::Double(number) if !number.is_finite() => Ok(not_finite(*number)),
            _ => Err(Fault::new(format!(
                "error during formatting: decimal clause can only be used on integers, was given {}",
                value.type_name()
            ))),
        },
        'f' => match as_double(value) {
            Some(number) if !number.is_finite() => Ok(not_finite(number)),
            Some(number) => Ok(format!("{number:.*}", precision.unwrap_or(6))),
            None => wrong("fixed-point clause"),
        },
        'e' => match as_double(value) {
            Some(number) if !number.is_finite() => Ok(not_finite(number)),
            Some(number) => {
                let text = format!("{number:.*e}", precision.unwrap_or(6));
                let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let (sign, exponent) = match exponent.strip_prefix('-') {
                    Some(exponent) => ('-', exponent),
                    None => ('+', exponent),
                };
                Ok(format!("{digits}e{sign}{exponent:0>2}"))
            }
            None => wrong("scientific clause"),
        },
        'b' => match value {
            Value::Int(number) => Ok(signed(*number, |number| format!("{number:b}"))),
            Value::Uint(number) => Ok(format!("{number:b}")),
            Value::Bool(value) => Ok(u8::from(*value).to_string()),
            _ => wrong("binary clause"),
        },
        'o' => match value {
            Value::Int(number) => Ok(signed(*number, |number| format!("{number:o}"))),
            Value::Uint(number) => Ok(format!("{number:o}")),
            _ => wrong("octal clause"),
        },
        'x' | 'X' => {
            let text = match value {
                Value::Int(number) => signed(*number, |number| format!("{number:x}")),
                Value::Uint(number) => format!("{number:x}"),
                Value::String(text) => hex(text.as_str().as_bytes()),
                Value::Bytes(bytes) => hex(bytes),
                _ => return wrong("hexadecimal clause"),
            };
            Ok(if verb == 'X' { text.to_uppercase() } else { text })
        }
        other => {
            Err(Fault::new(format!("could not parse formatting clause: unrecognized formatting clause \"{other}\"")))
        }
    }
}

fn as_double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::Int(number) => Some(*number as f64),
        Value::Uint(number) => Some(*number as f64),
        _ => None,
    }
}

fn not_finite(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number > 0.0 {
        "∞".to_owned()
    } else {
        "-∞".to_owned()
    }
}

fn signed(number: i64, write: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", write(number.unsigned_abs()))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// The text of a value. Texts within lists and maps are in quotes.
fn shown(value: &Value<'_>, is_nested: bool) -> Result<String, Fault> {
    Ok(match value {
        Value::Null => "null".to_owned(),
        Value::String(text) if is_nested => quoted(text.as_str()),
        Value::Double(number) if !number.is_finite() => not_finite(*number),
        Value::Double(number) => double_text(*number),
        Value::Timestamp(moment) if is_nested => format!("timestamp({})", quoted(&moment.to_string())),
        Value::Duration(span) if is_nested => format!("duration({})", quoted(&duration_text(*span))),
        Value::List(list) => {
            let items = list.iter().map(|item| shown(&item, true)).collect::<Result<Vec<_>, Fault>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entry =
                |(key, value): (Value<'_>, Value<'_>)| Ok(format!("{}: {}", shown(&key, true)?, shown(&value, true)?));
            let mut entries = map.entries().into_iter().map(entry).collect::<Result<Vec<_>, Fault>>()?;
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_text().map_err(|_| {
            Fault::new(format!(
                "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, \
                 maps, lists, types, durations, and timestamps, was given {}",
                other.type_name()
            ))
        })?,
    })
}
