//! The functions of expressions: the standard ones, the extensions of cel-go and the libraries of
//! Kubernetes 1.36. The first argument of a method is its target. Errors have the messages of
//! cel-go.
//!
//! Deliberately absent: Kubernetes' image library and the `math` extension. An expression that
//! calls them is rejected.

pub mod cost;
pub mod format;
pub mod ip;
pub mod lists;
pub mod operators;
pub mod optional;
pub mod quantity;
pub mod regex;
pub mod semver;
pub mod sets;
pub mod standard;
pub mod strings;
pub mod template;
pub mod time;
pub mod url;

use super::fault::Fault;
use super::meter::Meter;
use super::value::Value;

/// The result of a function.
pub type Outcome<'a> = Result<Value<'a>, Fault>;
pub type Function = for<'a> fn(&mut Meter, &[Value<'a>]) -> Outcome<'a>;
/// Functions by name.
pub type Table = &'static [(&'static str, Function)];

/// The functions of `authorizer`, which `evaluate` implements.
pub const AUTHORIZER_METHODS: &[&str] = &[
    "path",
    "group",
    "serviceAccount",
    "resource",
    "subresource",
    "namespace",
    "name",
    "fieldSelector",
    "labelSelector",
    "check",
    "allowed",
    "reason",
    "errored",
    "error",
];

const GLOBALS: &[Table] = &[
    standard::GLOBALS,
    time::GLOBALS,
    strings::GLOBALS,
    lists::GLOBALS,
    sets::GLOBALS,
    optional::GLOBALS,
    quantity::GLOBALS,
    url::GLOBALS,
    ip::GLOBALS,
    format::GLOBALS,
    semver::GLOBALS,
];

const METHODS: &[Table] = &[
    standard::METHODS,
    time::METHODS,
    strings::METHODS,
    lists::METHODS,
    regex::METHODS,
    optional::METHODS,
    quantity::METHODS,
    url::METHODS,
    ip::METHODS,
    format::METHODS,
    semver::METHODS,
    SHARED,
];

/// Methods that several types have.
const SHARED: Table = &[
    ("indexOf", |meter, args| match args.first() {
        Some(Value::List(_)) => lists::index_of(meter, args),
        _ => strings::index_of(meter, args),
    }),
    ("lastIndexOf", |meter, args| match args.first() {
        Some(Value::List(_)) => lists::last_index_of(meter, args),
        _ => strings::last_index_of(meter, args),
    }),
    ("isLessThan", |_, args| compared(args).map(|order| Value::Bool(order.is_lt()))),
    ("isGreaterThan", |_, args| compared(args).map(|order| Value::Bool(order.is_gt()))),
    ("compareTo", |_, args| compared(args).map(|order| Value::Int(order as i64))),
];

pub fn global(name: &str) -> Option<Function> {
    find(GLOBALS, name)
}

pub fn method(name: &str) -> Option<Function> {
    find(METHODS, name)
}

fn find(tables: &[Table], name: &str) -> Option<Function> {
    tables.iter().copied().flatten().find(|(own, _)| *own == name).map(|(_, function)| *function)
}

/// Returns the order of two quantities or two versions.
fn compared(args: &[Value<'_>]) -> Result<std::cmp::Ordering, Fault> {
    match args {
        [Value::Quantity(one, _), Value::Quantity(two, _)] => Ok(one.cmp(two)),
        [Value::Semver(one), Value::Semver(two)] => Ok(one.cmp(two)),
        _ => Err(Fault::no_overload()),
    }
}

/// Returns the element of a list, or the value of a key.
pub fn element<'a>(value: &Value<'a>, key: &Value<'a>) -> Outcome<'a> {
    match (value, key) {
        (Value::List(list), key) => {
            let index = match key {
                Value::Int(index) => *index,
                Value::Uint(index) => i64::try_from(*index).unwrap_or(i64::MAX),
                Value::Double(index) if index.fract() == 0.0 => *index as i64,
                other => {
                    return Err(Fault::new(format!("unsupported index type '{}' in list", other.type_name())));
                }
            };
            let found = usize::try_from(index).ok().and_then(|index| list.get(index));
            found.ok_or_else(|| Fault::new(format!("index out of bounds: {index}")))
        }
        (Value::Map(map), key) => map.get(key).ok_or_else(|| no_key(key)),
        (Value::Object(object), Value::String(key)) => {
            object.field(key.as_str()).cloned().ok_or_else(|| Fault::no_key(key.as_str()))
        }
        (_, key) => Err(no_key(key)),
    }
}

fn no_key(key: &Value<'_>) -> Fault {
    Fault::no_key(key.to_text().unwrap_or_default())
}
