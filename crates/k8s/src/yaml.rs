//! A YAML parser that is compatible with Kubernetes: YAML 1.1 scalars, as Go's yaml package
//! resolves them (TL4). Keys become text, and whole floats become integers, because the body
//! becomes JSON.
//!
//! *Guarantees.* A small text cannot create a large tree, because depth, nodes and repetitions by
//! aliases are bounded. The parser does not recurse.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

use super::field_errors::{TOLD_MAX, shown_name};

/// The deepest nesting, which is that of JSON bodies: serde_json stops there. It is far beyond any
/// object of the API, and the code that traverses an object is recursive. Differs from Kubernetes
/// (D70).
pub(super) const DEPTH_MAX: usize = 127;
/// Largest number of values. A 3 MiB body of short items stays below it.
const NODES_MAX: usize = 1_000_000;
/// Largest number of values that aliases repeat, and of values below an anchor.
const REPEATED_MAX: usize = 100_000;
/// Largest sum of all texts, with repeated ones, in bytes.
const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Larger integers are not exact in a float.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

const CORE: &str = "tag:yaml.org,2002:";
const ALIASING: &str = "document contains excessive aliasing";

/// A duplicate key of a mapping. Its value replaces the earlier one.
pub(super) struct Repeated {
    pub line: u64,
    pub key: String,
}

/// Parses the only document of a text. Returns its value, its repeated keys in the order of the
/// text, and the number of further repeated keys beyond the reported ones (LI11). An empty text is
/// null.
pub(super) fn read(text: &str) -> Result<(Value, Vec<Repeated>, usize), String> {
    let mut reader = Reader::default();
    for next in Parser::new_from_str(text) {
        let (event, span) = next.map_err(|error| at_line(error.marker().line(), &error.info()))?;
        let line = span.start.line();
        reader.take(event, line).map_err(|why| at_line(line, &why))?;
    }
    Ok((reader.root.unwrap_or(Value::Null), reader.repeated_keys, reader.more_repeated))
}

fn at_line(line: usize, why: &str) -> String {
    // Some messages have several lines.
    let why = why.lines().next().unwrap_or_default();
    format!("line {line}: {why}")
}

#[derive(Default)]
struct Reader {
    documents: usize,
    root: Option<Value>,
    /// The lists and mappings that are not complete, from the outermost to the innermost.
    open: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    repeated_keys: Vec<Repeated>,
    more_repeated: usize,
    nodes: usize,
    repeated: usize,
    anchored: usize,
    text_bytes: usize,
}

/// A list or a mapping that is not complete.
struct Open {
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Value>),
    Mapping {
        members: Map<String, Value>,
        /// Mappings that are merged into this one. Its own members take precedence.
        merged: Vec<Map<String, Value>>,
        key: Option<Key>,
    },
}

enum Key {
    Name(String),
    /// `<<`
    Merge,
}

/// A value with an anchor, and its size.
struct Anchored {
    value: Value,
    size: Size,
}

#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    text_bytes: usize,
    depth: usize,
}

impl Reader {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), String> {
        match event {
            Event::DocumentStart(..) => self.documents += 1,
            Event::Scalar(text, style, anchor, tag) => {
                self.count(text.len())?;
                let is_merge = style == ScalarStyle::Plain && tag.is_none() && text == "<<";
                if is_merge
                    && let Some(Open { content: Content::Mapping { key: key @ None, .. }, .. }) = self.open.last_mut()
                {
                    *key = Some(Key::Merge);
                    return Ok(());
                }
                let value = scalar(&text, style, tag.as_deref())?;
                self.place(value, anchor, line)?;
            }
            Event::SequenceStart(_, anchor, _) => self.begin(anchor, Content::List(Vec::new()))?,
            Event::MappingStart(_, anchor, _) => {
                self.begin(anchor, Content::Mapping { members: Map::new(), merged: Vec::new(), key: None })?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Open { anchor, content }) = self.open.pop() else { return Ok(()) };
                self.place(content.complete(), anchor, line)?;
            }
            Event::Alias(anchor) => {
                let value = self.repeat(anchor)?;
                self.place(value, 0, line)?;
            }
            // Comments, and the begin and the end of the stream.
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, anchor: usize, content: Content) -> Result<(), String> {
        self.count(0)?;
        if let Some(Open { content: Content::Mapping { key: None, .. }, .. }) = self.open.last() {
            return Err("a key must be a scalar".to_owned());
        }
        if self.open.len() == DEPTH_MAX {
            return Err(too_deep());
        }
        self.open.push(Open { anchor, content });
        Ok(())
    }

    fn count(&mut self, text_bytes: usize) -> Result<(), String> {
        self.nodes += 1;
        self.text_bytes += text_bytes;
        match self.nodes <= NODES_MAX && self.text_bytes <= TEXT_BYTES_MAX {
            true => Ok(()),
            false => Err(format!("document has more than {NODES_MAX} values or {TEXT_BYTES_MAX} bytes of text")),
        }
    }

    /// Returns a copy of the value of an anchor.
    fn repeat(&mut self, anchor: usize) -> Result<Value, String> {
        let known = self.anchors.get(&anchor).ok_or("the value of an anchor contains itself")?;
        self.repeated += known.size.nodes;
        self.text_bytes += known.size.text_bytes;
        if self.repeated > REPEATED_MAX || self.text_bytes > TEXT_BYTES_MAX {
            return Err(ALIASING.to_owned());
        }
        match self.open.len() + known.size.depth <= DEPTH_MAX {
            true => Ok(known.value.clone()),
            false => Err(too_deep()),
        }
    }

    /// Inserts a complete value into its list or mapping, or as the root.
    fn place(&mut self, value: Value, anchor: usize, line: usize) -> Result<(), String> {
        if anchor != 0 {
            let size = Size::of(&value);
            self.anchored += size.nodes;
            if self.anchored > REPEATED_MAX {
                return Err(ALIASING.to_owned());
            }
            self.anchors.insert(anchor, Anchored { value: value.clone(), size });
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None if self.documents > 1 && value.is_null() => {}
            None if self.documents > 1 => return Err("the text has multiple documents".to_owned()),
            None => self.root = Some(value),
            Some(Content::List(items)) => items.push(value),
            Some(Content::Mapping { members, merged, key }) => match key.take() {
                None => {
                    let name = name(&value)?;
                    if members.contains_key(&name) {
                        match self.repeated_keys.len() < TOLD_MAX {
                            true => {
                                let key = shown_name(&name).into_owned();
                                self.repeated_keys.push(Repeated { line: line as u64, key });
                            }
                            false => self.more_repeated += 1,
                        }
                    }
                    *key = Some(Key::Name(name));
                }
                Some(Key::Name(name)) => {
                    members.insert(name, value);
                }
                Some(Key::Merge) => merge_sources(value, merged)?,
            },
        }
        Ok(())
    }
}

impl Content {
    fn complete(self) -> Value {
        match self {
            Content::List(items) => Value::Array(items),
            Content::Mapping { mut members, merged, .. } => {
                for (name, value) in merged.into_iter().flatten() {
                    members.entry(name).or_insert(value);
                }
                Value::Object(members)
            }
        }
    }
}

impl Size {
    fn of(value: &Value) -> Size {
        let mut size = Size { nodes: 1, ..Size::default() };
        let mut depth = 0;
        match value {
            Value::Array(items) => items.iter().for_each(|item| size.contain(Size::of(item), &mut depth)),
            Value::Object(members) => {
                for (name, member) in members {
                    size.text_bytes += name.len();
                    size.contain(Size::of(member), &mut depth);
                }
            }
            Value::String(text) => size.text_bytes += text.len(),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        size.depth = depth + usize::from(value.is_array() || value.is_object());
        size
    }

    fn contain(&mut self, part: Size, depth: &mut usize) {
        self.nodes += part.nodes;
        self.text_bytes += part.text_bytes;
        *depth = part.depth.max(*depth);
    }
}

fn too_deep() -> String {
    format!("exceeded max depth of {DEPTH_MAX}")
}

fn merge_sources(value: Value, merged: &mut Vec<Map<String, Value>>) -> Result<(), String> {
    let all = match value {
        Value::Array(items) => items,
        one => vec![one],
    };
    for source in all {
        let Value::Object(source) = source else {
            return Err("map merge requires map or sequence of maps as the value".to_owned());
        };
        merged.push(source);
    }
    Ok(())
}

/// Returns the text of a key. `1` and `true` are valid keys.
fn name(key: &Value) -> Result<String, String> {
    match key {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(key.to_string()),
        Value::Null => Err("a key must not be null".to_owned()),
        Value::Array(_) | Value::Object(_) => Err("a key must be a scalar".to_owned()),
    }
}

/// The type of a plain scalar, or of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Null,
    Bool,
    Int,
    Float,
    Text,
    Timestamp,
}

impl Type {
    fn tag(self) -> &'static str {
        match self {
            Type::Null => "!!null",
            Type::Bool => "!!bool",
            Type::Int => "!!int",
            Type::Float => "!!float",
            Type::Text => "!!str",
            Type::Timestamp => "!!timestamp",
        }
    }
}

/// Returns the value of a scalar. A quoted one is text unless it has a tag.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let tag = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix())).filter(|tag| tag != "!");
    let wanted = match tag.as_deref().map(|tag| tag.strip_prefix(CORE)) {
        None if style == ScalarStyle::Plain => None,
        Some(Some("null")) => Some(Type::Null),
        Some(Some("bool")) => Some(Type::Bool),
        Some(Some("int")) => Some(Type::Int),
        Some(Some("float")) => Some(Type::Float),
        Some(Some("timestamp")) => Some(Type::Timestamp),
        Some(Some("binary")) => return binary(text),
        // As upstream, any other tag leaves the text unchanged.
        _ => return Ok(Value::from(text)),
    };
    let (found, value) = resolved(text);
    match wanted {
        Some(Type::Timestamp) if is_timestamp(text) => Ok(Value::from(text)),
        Some(Type::Float) if found == Type::Int => Ok(value),
        Some(wanted) if wanted != found => Err(format!("cannot decode {} `{text}` as a {}", found.tag(), wanted.tag())),
        _ if value == Value::Null && found != Type::Null => Err(format!("`{text}` is no number of JSON")),
        _ => Ok(value),
    }
}

/// Returns the type and value of a plain scalar. A float that JSON cannot represent becomes null.
fn resolved(text: &str) -> (Type, Value) {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return (Type::Null, Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return (Type::Bool, Value::Bool(true));
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return (Type::Bool, Value::Bool(false));
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf"
        | "-.INF" => return (Type::Float, Value::Null),
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return (Type::Text, Value::from(text));
    }
    let digits = text.replace('_', "");
    if !text.starts_with('.')
        && let Some(number) = integer(&digits)
    {
        return (Type::Int, Value::Number(number));
    }
    if is_float(&digits)
        && let Ok(float) = digits.parse::<f64>()
        && float.is_finite()
    {
        let value = match float.fract() == 0.0 && float.abs() < EXACT_MAX {
            true => Value::from(float as i64),
            false => Value::from(float),
        };
        return (Type::Float, value);
    }
    (Type::Text, Value::from(text))
}

/// Parses an integer of 64 bits with an optional sign, in the base of its prefix. A leading zero
/// means octal.
fn integer(digits: &str) -> Option<Number> {
    let (sign, amount) = match digits.as_bytes().first()? {
        b'-' => ("-", &digits[1..]),
        b'+' => ("", &digits[1..]),
        _ => ("", digits),
    };
    let lower = amount.to_ascii_lowercase();
    let (base, amount) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &*lower),
    };
    if !amount.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    match i64::from_str_radix(&format!("{sign}{amount}"), base) {
        Ok(number) => Some(number.into()),
        // Go accepts a larger one only without a sign.
        Err(_) if digits.starts_with(['-', '+']) => None,
        Err(_) => u64::from_str_radix(amount, base).ok().map(Number::from),
    }
}

/// Returns whether a text matches `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = |text: &'_ str| text.strip_prefix(['-', '+']).unwrap_or(text).len();
    let mantissa = &mantissa[mantissa.len() - unsigned(mantissa)..];
    let is_mantissa = match mantissa.split_once('.') {
        Some(("", decimals)) => !decimals.is_empty() && are_digits(decimals),
        Some((whole, decimals)) => are_digits(whole) && are_digits(decimals),
        None => !mantissa.is_empty() && are_digits(mantissa),
    };
    let is_exponent = exponent.is_none_or(|exponent| {
        let digits = &exponent[exponent.len() - unsigned(exponent)..];
        !digits.is_empty() && are_digits(digits)
    });
    is_mantissa && is_exponent
}

/// Returns whether a text is a date, optionally followed by a time.
fn is_timestamp(text: &str) -> bool {
    let (date, time) = text.split_at(text.find(['T', 't', ' ']).unwrap_or(text.len()));
    let mut parts = date.split('-').map(|part| (part.len(), part.parse::<u16>().ok()));
    let is_date = matches!(parts.next(), Some((4, Some(_))))
        && matches!(parts.next(), Some((1..=2, Some(1..=12))))
        && matches!(parts.next(), Some((1..=2, Some(1..=31))))
        && parts.next().is_none();
    is_date && (time.is_empty() || time[1..].trim_start().starts_with(|c: char| c.is_ascii_digit()))
}

fn binary(text: &str) -> Result<Value, String> {
    use base64::Engine as _;
    let joined: String = text.split_ascii_whitespace().collect();
    let invalid = "!!binary value contains invalid base64 data";
    let bytes = base64::engine::general_purpose::STANDARD.decode(joined).map_err(|_| invalid)?;
    Ok(Value::from(String::from_utf8_lossy(&bytes).into_owned()))
}
