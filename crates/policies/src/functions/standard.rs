//! The standard functions of CEL: sizes, texts, types and conversions.

use std::sync::Arc;

use super::super::fault::Fault;
use super::super::macros::INSERT;
use super::super::meter::Meter;
use super::super::value::{Map, Text, Value};
use super::{Outcome, Table, regex};

pub const GLOBALS: Table = &[
    ("size", |_, args| size(args)),
    ("type", |_, args| match args {
        [value] => Ok(Value::Type(Text::Shared(Arc::from(value.type_name())))),
        _ => Err(Fault::no_overload()),
    }),
    ("dyn", |_, args| one(args).cloned()),
    ("bool", |_, args| to_bool(one(args)?)),
    ("int", |_, args| to_int(one(args)?)),
    ("uint", |_, args| to_uint(one(args)?)),
    ("double", |_, args| to_double(one(args)?)),
    ("string", |meter, args| {
        let text = one(args)?.to_text()?;
        meter.work(text.len())?;
        Ok(Value::text(text))
    }),
    ("bytes", |_, args| match one(args)? {
        Value::Bytes(bytes) => Ok(Value::Bytes(Arc::clone(bytes))),
        Value::String(text) => Ok(Value::Bytes(Arc::from(text.as_str().as_bytes()))),
        _ => Err(Fault::no_overload()),
    }),
    ("matches", regex::matches),
    (INSERT, insert),
];

pub const METHODS: Table = &[
    ("size", |_, args| size(args)),
    ("matches", regex::matches),
    ("startsWith", |meter, args| texts(meter, args, |text, part| text.starts_with(part))),
    ("endsWith", |meter, args| texts(meter, args, |text, part| text.ends_with(part))),
    ("contains", |meter, args| {
        let [Value::String(text), Value::String(part)] = args else { return Err(Fault::no_overload()) };
        let [text, part] = [text.as_str(), part.as_str()];
        meter.work(text.len())?;
        Ok(Value::Bool(text.contains(part)))
    }),
];

/// Returns the only argument.
pub fn one<'a, 'b>(args: &'b [Value<'a>]) -> Result<&'b Value<'a>, Fault> {
    match args {
        [value] => Ok(value),
        _ => Err(Fault::no_overload()),
    }
}

fn texts<'a>(meter: &mut Meter, args: &[Value<'a>], holds: impl Fn(&str, &str) -> bool) -> Outcome<'a> {
    match args {
        [Value::String(text), Value::String(part)] => {
            meter.work(part.as_str().len())?;
            Ok(Value::Bool(holds(text.as_str(), part.as_str())))
        }
        _ => Err(Fault::no_overload()),
    }
}

fn size<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let size = match one(args)? {
        Value::String(text) => text.as_str().chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => return Err(Fault::no_overload()),
    };
    Ok(Value::Int(size as i64))
}

/// Adds an entry to the map that a macro builds.
fn insert<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let (map, added) = match args {
        [Value::Map(map), key, value] => (map, vec![(key.clone(), value.clone())]),
        [Value::Map(map), Value::Map(entries)] => (map, entries.entries()),
        _ => return Err(Fault::no_overload()),
    };
    // The map is copied.
    meter.charge((map.len() + added.len()).div_ceil(10) as u64)?;
    let mut members = match map {
        Map::Made(members) => members.to_vec(),
        Map::Json(_) => map.entries(),
    };
    for (key, value) in added {
        if members.iter().any(|(known, _)| known.equals(&key)) {
            return Err(Fault::new(format!("insert failed: key {} already exists", key.to_text().unwrap_or_default())));
        }
        members.push((key, value));
    }
    Ok(Value::map(members))
}

fn to_bool<'a>(value: &Value<'a>) -> Outcome<'a> {
    match value {
        Value::Bool(value) => Ok(Value::Bool(*value)),
        Value::String(text) => match text.as_str() {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(Fault::no_conversion("bool")),
        },
        _ => Err(Fault::no_overload()),
    }
}

fn to_int<'a>(value: &Value<'a>) -> Outcome<'a> {
    Ok(Value::Int(match value {
        Value::Int(value) => *value,
        Value::Uint(value) => i64::try_from(*value).map_err(|_| Fault::new("integer overflow"))?,
        Value::Double(value) if value.is_finite() && value.abs() < 9_223_372_036_854_775_807.0 => *value as i64,
        Value::Double(_) => return Err(Fault::new("integer overflow")),
        Value::String(text) => text.as_str().parse().map_err(|_| Fault::no_conversion("int"))?,
        Value::Timestamp(time) => time.as_second(),
        Value::Duration(span) => i64::try_from(span.as_nanos()).map_err(|_| Fault::new("integer overflow"))?,
        _ => return Err(Fault::no_overload()),
    }))
}

fn to_uint<'a>(value: &Value<'a>) -> Outcome<'a> {
    let overflow = || Fault::new("unsigned integer overflow");
    Ok(Value::Uint(match value {
        Value::Uint(value) => *value,
        Value::Int(value) => u64::try_from(*value).map_err(|_| overflow())?,
        Value::Double(value) if *value >= 0.0 && *value < 18_446_744_073_709_551_615.0 => *value as u64,
        Value::Double(_) => return Err(overflow()),
        // Go accepts no sign here.
        Value::String(text) if text.as_str().starts_with('+') => return Err(Fault::no_conversion("uint")),
        Value::String(text) => text.as_str().parse().map_err(|_| Fault::no_conversion("uint"))?,
        _ => return Err(Fault::no_overload()),
    }))
}

fn to_double<'a>(value: &Value<'a>) -> Outcome<'a> {
    Ok(Value::Double(match value {
        Value::Double(value) => *value,
        Value::Int(value) => *value as f64,
        Value::Uint(value) => *value as f64,
        Value::String(text) => text.as_str().parse().map_err(|_| Fault::no_conversion("double"))?,
        _ => return Err(Fault::no_overload()),
    }))
}
