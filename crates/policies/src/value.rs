//! The values of expressions. Objects are borrowed: reading a field of a large object copies
//! nothing.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map as JsonMap, Number, Value as Json};

use super::authorizer::AccessCheck;
use super::fault::Fault;
use super::types::format::Format;
use super::types::ip::Cidr;
use super::types::semver::Semver;
use super::types::text::{double_text, duration_text};
use super::types::url::Url;
use ballast_k8s::quantity::{Notation, Quantity};

/// A value in an expression.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    List(List<'a>),
    Map(Map<'a>),
    Duration(SignedDuration),
    Timestamp(Timestamp),
    /// The type of a value, by its name.
    Type(Text<'a>),
    Optional(Option<Arc<Value<'a>>>),
    Quantity(Quantity, Notation),
    Url(Arc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Semver(Arc<Semver>),
    Format(&'static Format),
    /// A query about the access of a user, as far as the expression has built it.
    Authorizer(Arc<AccessCheck>),
    /// The decision about such a query.
    Decision {
        allowed: bool,
        reason: Text<'a>,
        error: Text<'a>,
    },
    /// `Object{…}` or `JSONPatch{…}`.
    Object(Arc<Object<'a>>),
}

/// Borrowed or shared text.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

#[derive(Clone, Debug)]
pub enum List<'a> {
    Json(&'a [Json]),
    Made(Arc<Vec<Value<'a>>>),
}

#[derive(Clone, Debug)]
pub enum Map<'a> {
    Json(&'a JsonMap<String, Json>),
    /// In the order of insertion. Maps that expressions create are small.
    Made(Arc<Vec<(Value<'a>, Value<'a>)>>),
}

/// An object that an expression creates.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    pub type_name: String,
    pub fields: Vec<(String, Value<'a>)>,
}

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match self {
            List::Json(items) => items.len(),
            List::Made(items) => items.len(),
        }
    }

    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            List::Json(items) => items.get(index).map(Value::of),
            List::Made(items) => items.get(index).cloned(),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        match self {
            Map::Json(members) => members.len(),
            Map::Made(members) => members.len(),
        }
    }

    pub fn get(&self, key: &Value<'a>) -> Option<Value<'a>> {
        match (self, key) {
            (Map::Json(members), Value::String(key)) => members.get(key.as_str()).map(Value::of),
            (Map::Json(_), _) => None,
            (Map::Made(members), key) => {
                members.iter().find(|(own, _)| own.equals(key)).map(|(_, value)| value.clone())
            }
        }
    }

    /// Returns the member with this name.
    pub fn member(&self, name: &str) -> Option<Value<'a>> {
        match self {
            Map::Json(members) => members.get(name).map(Value::of),
            Map::Made(members) => {
                let is_it = |key: &Value<'_>| matches!(key, Value::String(key) if key.as_str() == name);
                members.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value.clone())
            }
        }
    }

    pub fn entries(&self) -> Vec<(Value<'a>, Value<'a>)> {
        match self {
            Map::Json(members) => members.iter().map(|(key, value)| (Value::borrowed(key), Value::of(value))).collect(),
            Map::Made(members) => members.to_vec(),
        }
    }
}

impl<'a> Value<'a> {
    /// Converts JSON as kube-apiserver presents it to CEL: a number without a fraction is an `int`.
    pub fn of(json: &'a Json) -> Value<'a> {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => number_of(number),
            Json::String(text) => Value::borrowed(text),
            Json::Array(items) => Value::List(List::Json(items)),
            Json::Object(members) => Value::Map(Map::Json(members)),
        }
    }

    pub fn of_object(members: &'a JsonMap<String, Json>) -> Value<'a> {
        Value::Map(Map::Json(members))
    }

    pub fn borrowed(text: &'a str) -> Value<'a> {
        Value::String(Text::Borrowed(text))
    }

    pub fn text(text: impl AsRef<str>) -> Value<'a> {
        Value::String(Text::Shared(Arc::from(text.as_ref())))
    }

    pub fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(List::Made(Arc::new(items)))
    }

    pub fn map(members: Vec<(Value<'a>, Value<'a>)>) -> Value<'a> {
        Value::Map(Map::Made(Arc::new(members)))
    }

    pub fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Arc::new(value)))
    }

    pub fn optional(value: Option<Value<'a>>) -> Value<'a> {
        Value::Optional(value.map(Arc::new))
    }

    pub fn type_name(&self) -> &str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Type(_) => "type",
            Value::Optional(_) => "optional_type",
            Value::Quantity(..) => "kubernetes.Quantity",
            Value::Url(_) => "kubernetes.URL",
            Value::Ip(_) => "net.IP",
            Value::Cidr(_) => "net.CIDR",
            Value::Semver(_) => "kubernetes.Semver",
            Value::Format(_) => "kubernetes.NamedFormat",
            Value::Authorizer(check) => check.type_name(),
            Value::Decision { .. } => "kubernetes.authorization.Decision",
            Value::Object(object) => &object.type_name,
        }
    }

    /// Returns whether two values are equal in CEL: numbers of different types are compared by
    /// their amount, and other values of different types differ.
    pub fn equals(&self, other: &Value<'a>) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(one), Value::Bool(two)) => one == two,
            (Value::String(one), Value::String(two)) | (Value::Type(one), Value::Type(two)) => {
                one.as_str() == two.as_str()
            }
            (Value::Bytes(one), Value::Bytes(two)) => one == two,
            (Value::List(List::Json(one)), Value::List(List::Json(two))) => {
                one.len() == two.len() && one.iter().zip(*two).all(|(one, two)| Value::of(one).equals(&Value::of(two)))
            }
            (Value::List(one), Value::List(two)) => {
                one.len() == two.len() && one.iter().zip(two.iter()).all(|(one, two)| one.equals(&two))
            }
            (Value::Map(one), Value::Map(two)) => {
                let is_same = |(key, value): (Value<'a>, Value<'a>)| two.get(&key).is_some_and(|it| it.equals(&value));
                one.len() == two.len() && one.entries().into_iter().all(is_same)
            }
            (Value::Duration(one), Value::Duration(two)) => one == two,
            (Value::Timestamp(one), Value::Timestamp(two)) => one == two,
            (Value::Optional(one), Value::Optional(two)) => match (one, two) {
                (None, None) => true,
                (Some(one), Some(two)) => one.equals(two),
                _ => false,
            },
            (Value::Quantity(one, _), Value::Quantity(two, _)) => one == two,
            (Value::Url(one), Value::Url(two)) => one.text == two.text,
            (Value::Ip(one), Value::Ip(two)) => one == two,
            (Value::Cidr(one), Value::Cidr(two)) => one == two,
            (Value::Semver(one), Value::Semver(two)) => one.cmp(two) == Ordering::Equal,
            (Value::Format(one), Value::Format(two)) => one.name == two.name,
            (Value::Object(one), Value::Object(two)) => one.equals(two),
            _ => numbers(self, other) == Some(Some(Ordering::Equal)),
        }
    }

    /// Returns the order of two values, or an error for values that have none.
    pub fn order(&self, other: &Value<'a>) -> Result<Option<Ordering>, Fault> {
        Ok(match (self, other) {
            (Value::Bool(one), Value::Bool(two)) => Some(one.cmp(two)),
            (Value::String(one), Value::String(two)) => Some(one.as_str().cmp(two.as_str())),
            (Value::Bytes(one), Value::Bytes(two)) => Some(one.cmp(two)),
            (Value::Duration(one), Value::Duration(two)) => Some(one.cmp(two)),
            (Value::Timestamp(one), Value::Timestamp(two)) => Some(one.cmp(two)),
            _ => return numbers(self, other).ok_or_else(Fault::no_overload),
        })
    }

    /// Returns whether this is the zero value of its type, the value of an unset field.
    pub fn is_zero(&self) -> bool {
        match self {
            Value::Null | Value::Optional(None) => true,
            Value::Bool(value) => !value,
            Value::Int(value) => *value == 0,
            Value::Uint(value) => *value == 0,
            Value::Double(value) => *value == 0.0,
            Value::String(text) => text.as_str().is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::List(list) => list.len() == 0,
            Value::Map(map) => map.len() == 0,
            Value::Duration(duration) => duration.is_zero(),
            _ => false,
        }
    }

    /// Formats a value as `string()` does.
    pub fn to_text(&self) -> Result<String, Fault> {
        Ok(match self {
            Value::String(text) | Value::Type(text) => text.as_str().to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Uint(value) => value.to_string(),
            Value::Double(value) => double_text(*value),
            Value::Bytes(bytes) => String::from_utf8(bytes.to_vec())
                .map_err(|_| Fault::new("invalid UTF-8 in bytes, cannot convert to string"))?,
            // As in Go's RFC3339Nano: no trailing zeros in the fraction.
            Value::Timestamp(time) => time.to_string(),
            Value::Duration(span) => duration_text(*span),
            Value::Ip(address) => address.to_string(),
            Value::Cidr(cidr) => cidr.to_string(),
            Value::Quantity(amount, notation) => notation.write(*amount),
            _ => return Err(Fault::no_overload()),
        })
    }

    /// Converts the value to JSON, for patches.
    pub fn to_json(&self) -> Result<Json, Fault> {
        Ok(match self {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::Uint(value) => Json::from(*value),
            Value::Double(value) => Number::from_f64(*value).map_or(Json::Null, Json::Number),
            Value::String(text) => Json::from(text.as_str()),
            Value::Bytes(bytes) => {
                use base64::Engine;
                Json::from(base64::engine::general_purpose::STANDARD.encode(bytes))
            }
            Value::List(List::Json(items)) => Json::Array(items.to_vec()),
            Value::List(list) => Json::Array(list.iter().map(|item| item.to_json()).collect::<Result<_, _>>()?),
            Value::Map(Map::Json(members)) => Json::Object((*members).clone()),
            Value::Map(map) => {
                let mut members = JsonMap::new();
                for (key, value) in map.entries() {
                    let Value::String(key) = key else {
                        return Err(Fault::new(format!("a key of type {} is not JSON", key.type_name())));
                    };
                    members.insert(key.as_str().to_owned(), value.to_json()?);
                }
                Json::Object(members)
            }
            Value::Object(object) => Json::Object(object.to_json()?),
            Value::Quantity(amount, notation) => Json::from(notation.write(*amount)),
            Value::Timestamp(_) | Value::Duration(_) | Value::Ip(_) | Value::Cidr(_) => Json::from(self.to_text()?),
            other => return Err(Fault::new(format!("a value of type {} is not JSON", other.type_name()))),
        })
    }
}

impl<'a> Object<'a> {
    pub fn field(&self, name: &str) -> Option<&Value<'a>> {
        self.fields.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    fn equals(&self, other: &Object<'a>) -> bool {
        let is_same = |(name, value): &(String, Value<'a>)| other.field(name).is_some_and(|it| it.equals(value));
        self.type_name == other.type_name && self.fields.len() == other.fields.len() && self.fields.iter().all(is_same)
    }

    pub fn to_json(&self) -> Result<JsonMap<String, Json>, Fault> {
        self.fields.iter().map(|(name, value)| Ok((name.clone(), value.to_json()?))).collect()
    }

    /// Checks that the type of each nested object matches the path of its field, as upstream does:
    /// `Object.spec` below `spec`.
    pub fn check_type_names(&self) -> Result<(), String> {
        self.fields.iter().try_for_each(|(name, value)| check_names(&self.type_name, name, value))
    }
}

fn check_names(parent: &str, field: &str, value: &Value<'_>) -> Result<(), String> {
    let expected = format!("{parent}.{field}");
    match value {
        Value::Object(object) if object.type_name != expected => Err(format!(
            "unexpected type name {:?}, expected {expected:?}, which matches field name path from root Object type",
            object.type_name
        )),
        Value::Object(object) => object.check_type_names(),
        Value::List(list @ List::Made(_)) => list.iter().try_for_each(|item| check_names(parent, field, &item)),
        Value::Map(map @ Map::Made(_)) => map.entries().into_iter().try_for_each(|(_, value)| match value {
            Value::Object(object) => object.check_type_names(),
            _ => Ok(()),
        }),
        _ => Ok(()),
    }
}

fn number_of<'a>(number: &Number) -> Value<'a> {
    match (number.as_i64(), number.as_u64()) {
        (Some(integer), _) => Value::Int(integer),
        (None, Some(large)) => Value::Uint(large),
        (None, None) => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
    }
}

/// Compares two numbers. The outer `None` means that one of them is no number, the inner one that
/// one is NaN.
fn numbers(one: &Value<'_>, two: &Value<'_>) -> Option<Option<Ordering>> {
    let integer = |value: &Value<'_>| match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Uint(value) => Some(i128::from(*value)),
        _ => None,
    };
    match (integer(one), integer(two), one, two) {
        (Some(one), Some(two), ..) => Some(Some(one.cmp(&two))),
        (None, None, Value::Double(one), Value::Double(two)) => Some(one.partial_cmp(two)),
        (Some(one), None, _, Value::Double(two)) => Some(with_double(one, *two)),
        (None, Some(two), Value::Double(one), _) => Some(with_double(two, *one).map(Ordering::reverse)),
        _ => None,
    }
}

fn with_double(integer: i128, double: f64) -> Option<Ordering> {
    // The conversion of an i64 or u64 to a double rounds; the second comparison decides then.
    match (integer as f64).partial_cmp(&double)? {
        Ordering::Equal => Some(integer.cmp(&(double as i128))),
        order => Some(order),
    }
}
