//! The function `format` of strings: `%s %d %f %e %b %x %X %o`, with a precision for the two float
//! verbs. The version of cel-go in kube-apiserver 1.36 formats floats in the locale `en_US`.

use super::super::fault::Fault;
use super::super::meter::Meter;
use super::super::types::text::{duration_text, go_quoted};
use super::super::value::Value;
use super::Outcome;

/// The largest precision. Upstream has no limit, but uses the precision modulo 256.
const PRECISION_MAX: usize = 255;
const PRECISION: usize = 6;

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
        let Some(value) = values.get(next) else { return Err(Fault::new(format!("index {next} out of range"))) };
        next += 1;
        if rest.is_empty() {
            return Err(Fault::new("unexpected end of string"));
        }
        let unparsable = |why: String| Fault::new(format!("could not parse formatting clause: {why}"));
        let (precision, after) =
            precision(rest).map_err(|why| unparsable(format!("error while parsing precision: {why}")))?;
        let verb = after.chars().next().unwrap_or_default();
        if !"sdfebxXo".contains(verb) {
            return Err(unparsable(format!("unrecognized formatting clause \"{verb}\"")));
        }
        rest = &after[1..];
        let text =
            clause(verb, precision, &value).map_err(|why| Fault::new(format!("error during formatting: {why}")))?;
        meter.work(text.len())?;
        made.push_str(&text);
    }
    made.push_str(rest);
    Ok(Value::text(made))
}

/// Splits the precision from a clause. The rest is not empty.
fn precision(text: &str) -> Result<(usize, &str), String> {
    let Some(after) = text.strip_prefix('.') else { return Ok((PRECISION, text)) };
    let Some(end) = after.bytes().position(|byte| !byte.is_ascii_digit()) else {
        return Err("could not find end of precision specifier".to_owned());
    };
    let (digits, rest) = after.split_at(end);
    let why = match digits.parse::<usize>() {
        Ok(digits) if digits <= PRECISION_MAX => return Ok((digits, rest)),
        Ok(digits) => return Err(format!("precision {digits} exceeds maximum allowed precision {PRECISION_MAX}")),
        Err(_) if digits.is_empty() => "invalid syntax",
        Err(_) => "value out of range",
    };
    Err(format!("error while converting precision to integer: strconv.Atoi: parsing {digits:?}: {why}"))
}

fn clause(verb: char, precision: usize, value: &Value<'_>) -> Result<String, String> {
    let wrong = |what: &str| Err(format!("{what}, was given {}", value.type_name()));
    match (verb, value) {
        ('s', _) => string(value),
        ('d', Value::Int(number)) => Ok(number.to_string()),
        ('d', Value::Uint(number)) => Ok(number.to_string()),
        ('d', _) => wrong("decimal clause can only be used on integers"),
        ('f' | 'e', _) => match as_double(value) {
            Some(number) if number.is_nan() => Ok("NaN".to_owned()),
            Some(number) if number.is_infinite() => Ok(if number > 0.0 { "∞" } else { "-∞" }.to_owned()),
            Some(number) if verb == 'f' => Ok(fixed(number, precision)),
            Some(number) => Ok(scientific(number, precision)),
            None if verb == 'f' => wrong("fixed-point clause can only be used on doubles"),
            None => wrong("scientific clause can only be used on doubles"),
        },
        ('b', Value::Int(number)) => Ok(signed(*number, |number| format!("{number:b}"))),
        ('b', Value::Uint(number)) => Ok(format!("{number:b}")),
        ('b', Value::Bool(value)) => Ok(u8::from(*value).to_string()),
        ('b', _) => wrong("only integers and bools can be formatted as binary"),
        ('o', Value::Int(number)) => Ok(signed(*number, |number| format!("{number:o}"))),
        ('o', Value::Uint(number)) => Ok(format!("{number:o}")),
        ('o', _) => wrong("octal clause can only be used on integers"),
        _ => {
            let text = match value {
                Value::Int(number) => signed(*number, |number| format!("{number:x}")),
                Value::Uint(number) => format!("{number:x}"),
                Value::String(text) => hex(text.as_str().as_bytes()),
                Value::Bytes(bytes) => hex(bytes),
                _ => return wrong("only integers, byte buffers, and strings can be formatted as hex"),
            };
            Ok(if verb == 'X' { text.to_uppercase() } else { text })
        }
    }
}

/// Returns the number of a float clause. Three texts represent numbers that no literal can express.
fn as_double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Formats a number with a comma before each three digits of the integer part.
fn fixed(number: f64, precision: usize) -> String {
    let text = format!("{:.precision$}", number.abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::with_capacity(text.len() + whole.len() / 3 + 1);
    if number < 0.0 {
        grouped.push('-');
    }
    for (index, digit) in whole.char_indices() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

/// Formats a number as a multiple of a power of ten. The exponent has two digits or more.
fn scientific(number: f64, precision: usize) -> String {
    const SUPERSCRIPTS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |exponent| ("⁻", exponent));
    let raised = format!("{exponent:0>2}");
    let raised = raised.bytes().map(|digit| SUPERSCRIPTS[usize::from(digit - b'0')]);
    format!("{digits}\u{202f}×\u{202f}10{sign}{}", raised.collect::<String>())
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

/// Formats a value for the clause `%s`.
fn string(value: &Value<'_>) -> Result<String, String> {
    match value {
        Value::Null => Ok("null".to_owned()),
        Value::List(list) => {
            let items = list.iter().map(|item| literal(&item)).collect::<Result<Vec<_>, String>>()?;
            Ok(format!("[{}]", items.join(", ")))
        }
        Value::Map(map) => {
            let mut entries = Vec::with_capacity(map.len());
            for (key, value) in map.entries() {
                if !matches!(key, Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_)) {
                    return Err(format!("no formatting function for map key of type {}", key.type_name()));
                }
                entries.push((literal(&key)?, literal(&value)?));
            }
            entries.sort_by(|(one, _), (two, _)| one.cmp(two));
            let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            Ok(format!("{{{}}}", entries.join(", ")))
        }
        Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Bool(_)
        | Value::String(_)
        | Value::Timestamp(_)
        | Value::Bytes(_)
        | Value::Duration(_)
        | Value::Type(_) => value.to_text().map_err(|fault| fault.to_string()),
        other => Err(format!(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, \
             and timestamps, was given {}",
            other.type_name()
        )),
    }
}

/// Formats a value within a list or a map, as a CEL literal.
fn literal(value: &Value<'_>) -> Result<String, String> {
    Ok(match value {
        Value::String(text) => go_quoted(text.as_str()),
        Value::Bytes(_) => format!("b{}", go_quoted(&string(value)?)),
        Value::Double(number) if number.is_nan() => "\"NaN\"".to_owned(),
        Value::Double(number) if number.is_infinite() => format!("\"{}Inf\"", if *number > 0.0 { '+' } else { '-' }),
        Value::Double(number) => format!("{number:.PRECISION$}"),
        Value::Timestamp(_) => format!("timestamp({})", go_quoted(&string(value)?)),
        Value::Duration(span) => format!("duration({})", go_quoted(&duration_text(*span))),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Type(_)
        | Value::List(_)
        | Value::Map(_) => string(value)?,
        other => return Err(format!("no formatting function for {}", other.type_name())),
    })
}
