//! Strings: the extension of cel-go, version 2. Positions count code points.

use super::super::fault::Fault;
use super::super::meter::Meter;
use super::super::value::Value;
use super::template;
use super::{Outcome, Table};

/// The longest text that `replace` returns. The cost bounds all others.
const TEXT_BYTES_MAX: usize = 4 << 20;

pub const GLOBALS: Table = &[
    ("strings.quote", |meter, args| {
        let [Value::String(text)] = args else { return Err(Fault::no_overload()) };
        meter.work(text.as_str().len())?;
        Ok(Value::text(quoted(text.as_str())))
    }),
    ("jsonpatch.escapeKey", |meter, args| {
        let [Value::String(text)] = args else { return Err(Fault::no_overload()) };
        meter.work(text.as_str().len())?;
        Ok(Value::text(escape_key(text.as_str())))
    }),
];

pub const METHODS: Table = &[
    ("charAt", char_at),
    ("join", join),
    ("lowerAscii", |meter, args| changed(meter, args, str::to_ascii_lowercase)),
    ("upperAscii", |meter, args| changed(meter, args, str::to_ascii_uppercase)),
    ("trim", |meter, args| changed(meter, args, |text| text.trim().to_owned())),
    ("replace", replace),
    ("split", split),
    ("substring", substring),
    ("format", template::format),
];

/// Escapes a part of a JSON pointer, in which `~` and `/` are special.
fn escape_key(text: &str) -> String {
    text.replace('~', "~0").replace('/', "~1")
}

fn changed<'a>(meter: &mut Meter, args: &[Value<'a>], change: impl Fn(&str) -> String) -> Outcome<'a> {
    let [Value::String(text)] = args else { return Err(Fault::no_overload()) };
    meter.work(text.as_str().len())?;
    Ok(Value::text(change(text.as_str())))
}

fn out_of_range(index: i64) -> Fault {
    Fault::new(format!("index out of range: {index}"))
}

fn char_at<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::Int(index)] = args else { return Err(Fault::no_overload()) };
    meter.work(text.as_str().len())?;
    let at = usize::try_from(*index).map_err(|_| out_of_range(*index))?;
    match text.as_str().chars().nth(at) {
        Some(found) => Ok(Value::text(found.to_string())),
        None if at == text.as_str().chars().count() => Ok(Value::text("")),
        None => Err(out_of_range(*index)),
    }
}

pub fn index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, part, offset) = match args {
        [Value::String(text), Value::String(part)] => (text.as_str(), part.as_str(), 0),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text.as_str(), part.as_str(), *offset),
        _ => return Err(Fault::no_overload()),
    };
    meter.work(text.len())?;
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    let length = text.chars().count();
    let from = usize::try_from(offset).ok().filter(|from| *from <= length).ok_or_else(|| out_of_range(offset))?;
    let start = byte_of(text, from);
    let found = text[start..].find(part).map(|at| text[..start + at].chars().count() as i64);
    Ok(Value::Int(found.unwrap_or(-1)))
}

pub fn last_index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, part, offset) = match args {
        [Value::String(text), Value::String(part)] => (text.as_str(), part.as_str(), None),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text.as_str(), part.as_str(), Some(*offset)),
        _ => return Err(Fault::no_overload()),
    };
    meter.work(text.len())?;
    let length = text.chars().count();
    if part.is_empty() {
        return Ok(Value::Int(offset.unwrap_or(length as i64)));
    }
    let end = match offset {
        None => text.len(),
        Some(offset) => {
            let last = usize::try_from(offset).ok().filter(|last| *last < length.max(1));
            let last = last.ok_or_else(|| out_of_range(offset))?;
            byte_of(text, (last + part.chars().count()).min(length))
        }
    };
    let found = text[..end].rfind(part).map(|at| text[..at].chars().count() as i64);
    Ok(Value::Int(found.unwrap_or(-1)))
}

/// Returns the byte offset of a code point.
fn byte_of(text: &str, place: usize) -> usize {
    text.char_indices().nth(place).map_or(text.len(), |(at, _)| at)
}

fn join<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, separator.as_str()),
        _ => return Err(Fault::no_overload()),
    };
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        let Value::String(text) = item else { return Err(Fault::no_overload()) };
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text.as_str());
        meter.work(separator.len() + text.as_str().len())?;
    }
    Ok(Value::text(joined))
}

fn replace<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, from, to, limit) = match args {
        [Value::String(text), Value::String(from), Value::String(to)] => (text, from, to, -1),
        [Value::String(text), Value::String(from), Value::String(to), Value::Int(limit)] => (text, from, to, *limit),
        _ => return Err(Fault::no_overload()),
    };
    let [text, from, to] = [text, from, to].map(|text| text.as_str());
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let count = text.matches(from).take(most).count();
    let length = text.len() + count.saturating_mul(to.len());
    if length > TEXT_BYTES_MAX {
        return Err(Fault::new("the result of replace is too long"));
    }
    meter.work(text.len() + length)?;
    Ok(Value::text(text.replacen(from, to, most)))
}

fn split<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text.as_str(), separator.as_str(), -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => {
            (text.as_str(), separator.as_str(), *limit)
        }
        _ => return Err(Fault::no_overload()),
    };
    meter.work(text.len())?;
    let most = match limit {
        0 => return Ok(Value::list(Vec::new())),
        limit => usize::try_from(limit).unwrap_or(usize::MAX),
    };
    if separator.is_empty() {
        // Each code point is a part, and the last part contains the rest.
        let count = text.chars().count().min(most);
        let mut parts: Vec<&str> = Vec::with_capacity(count);
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if parts.len() + 1 >= most {
                parts.push(rest);
                break;
            }
            let (part, after) = rest.split_at(first.len_utf8());
            parts.push(part);
            rest = after;
        }
        return Ok(Value::list(parts.into_iter().map(Value::text).collect()));
    }
    Ok(Value::list(text.splitn(most, separator).map(Value::text).collect()))
}

fn substring<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text.as_str(), *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text.as_str(), *start, Some(*end)),
        _ => return Err(Fault::no_overload()),
    };
    meter.work(text.len())?;
    let length = text.chars().count();
    if let Some(end) = end
        && start > end
    {
        return Err(Fault::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let checked =
        |index: i64| usize::try_from(index).ok().filter(|index| *index <= length).ok_or_else(|| out_of_range(index));
    let from = byte_of(text, checked(start)?);
    let to = match end {
        Some(end) => byte_of(text, checked(end)?),
        None => text.len(),
    };
    Ok(Value::text(&text[from..to]))
}

/// Returns the text in quotes, as CEL writes it.
pub fn quoted(text: &str) -> String {
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
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
