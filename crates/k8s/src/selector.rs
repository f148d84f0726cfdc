//! Selection by labels: requirements on pairs of key and value, all of which must hold.
//!
//! Every [`Requirement`] is well formed: the constructor returns an error for an invalid one.
//! Selectors are evaluated here. `label_query` parses them from query strings, and the kinds create
//! them from the fields of objects.

use std::collections::BTreeMap;
use std::fmt;

/// A map from label keys to values.
pub trait Labels {
    fn find(&self, key: &str) -> Option<&str>;
}

/// Pairs that are sorted by key, as in [`super::Object`].
impl<K: AsRef<str>, V: AsRef<str>> Labels for [(K, V)] {
    fn find(&self, key: &str) -> Option<&str> {
        let found = self.binary_search_by(|(known, _)| known.as_ref().cmp(key)).ok()?;
        Some(self[found].1.as_ref())
    }
}

impl Labels for BTreeMap<String, String> {
    fn find(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// The comparison of a label's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    /// The label's value is an integer greater than the given one.
    Gt,
    Lt,
}

impl Operator {
    /// Parses the operator of a selector in an object. `Gt` and `Lt` are for node selectors only; a
    /// `LabelSelector` does not have them.
    pub fn parse(text: &str) -> Option<Operator> {
        Some(match text {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::Gt,
            "Lt" => Operator::Lt,
            _ => return None,
        })
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Operator::In => "In",
            Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::Gt => "Gt",
            Operator::Lt => "Lt",
        }
    }
}

/// The error for an invalid requirement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("{0:?} is not a valid label selector operator")]
    Operator(Box<str>),
    #[error("{0:?} is not a valid label key")]
    Key(Box<str>),
    #[error("{value:?} is not a valid label value for key {key:?}")]
    Value { key: Box<str>, value: Box<str> },
    #[error("for 'in', 'notin' operators, values set can't be empty")]
    NoValues,
    #[error("values set must be empty for exists and does not exist")]
    Values,
    #[error("for 'Gt', 'Lt' operators, exactly one integer value is required")]
    NotOneInteger,
}

/// A requirement on the value of one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    key: Box<str>,
    operator: Operator,
    /// Sorted, without repetitions.
    values: Box<[Box<str>]>,
}

impl Requirement {
    /// Creates a requirement. Returns an error if it is not well formed.
    pub fn new<V: AsRef<str>>(key: &str, operator: Operator, values: &[V]) -> Result<Requirement, Malformed> {
        if !is_label_key(key) {
            return Err(Malformed::Key(key.into()));
        }
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => return Err(Malformed::NoValues),
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => return Err(Malformed::Values),
            Operator::Gt | Operator::Lt => {
                let [value] = values else { return Err(Malformed::NotOneInteger) };
                value.as_ref().parse::<i64>().map_err(|_| Malformed::NotOneInteger)?;
            }
            _ => {}
        }
        if let Some(value) = values.iter().find(|value| !is_label_value(value.as_ref())) {
            return Err(Malformed::Value { key: key.into(), value: value.as_ref().into() });
        }
        let mut values: Vec<Box<str>> = values.iter().map(|value| value.as_ref().into()).collect();
        values.sort_unstable();
        values.dedup();
        Ok(Requirement { key: key.into(), operator, values: values.into() })
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn operator(&self) -> Operator {
        self.operator
    }

    pub fn values(&self) -> &[Box<str>] {
        &self.values
    }

    /// Returns whether the requirement holds for a label with `value`, or for an object without the
    /// label if it is `None`.
    pub fn accepts(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.binary_search_by(|known| known.as_ref().cmp(value)).is_ok();
        match (self.operator, value) {
            (Operator::In, Some(value)) => listed(value),
            (Operator::NotIn, Some(value)) => !listed(value),
            (Operator::Exists, value) => value.is_some(),
            (Operator::DoesNotExist, value) => value.is_none(),
            (Operator::Gt, Some(value)) => value.parse().is_ok_and(|value: i64| value > self.bound()),
            (Operator::Lt, Some(value)) => value.parse().is_ok_and(|value: i64| value < self.bound()),
            (Operator::NotIn, None) => true,
            (Operator::In | Operator::Gt | Operator::Lt, None) => false,
        }
    }

    fn bound(&self) -> i64 {
        self.values[0].parse().expect("`new` accepts only an integer")
    }
}

/// Requirements that must all hold. An empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

impl Selector {
    /// Creates a selector. Selectors with the same requirements are equal, independent of the
    /// order.
    pub fn new(mut requirements: Vec<Requirement>) -> Selector {
        requirements.sort_unstable();
        requirements.dedup();
        // Selectors stay in memory, and most have one requirement.
        requirements.shrink_to_fit();
        Selector { requirements }
    }

    /// Creates a selector from the fields of an object. Each of `match_expressions` is a key, an
    /// operator and values.
    pub fn from_parts<'a>(
        match_labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        match_expressions: impl IntoIterator<Item = (&'a str, &'a str, &'a [String])>,
    ) -> Result<Selector, Malformed> {
        let mut requirements = Vec::new();
        for (key, value) in match_labels {
            requirements.push(Requirement::new(key, Operator::In, &[value])?);
        }
        for (key, operator, values) in match_expressions {
            let known = match Operator::parse(operator) {
                Some(Operator::Gt | Operator::Lt) | None => return Err(Malformed::Operator(operator.into())),
                Some(known) => known,
            };
            requirements.push(Requirement::new(key, known, values)?);
        }
        Ok(Selector::new(requirements))
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns whether all requirements hold for these labels.
    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        self.requirements.iter().all(|requirement| requirement.accepts(labels.find(requirement.key())))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match self.operator {
            Operator::In if self.values.len() == 1 => write!(f, "{key}={}", self.values[0]),
            Operator::In => write!(f, "{key} in ({})", self.values.join(",")),
            Operator::NotIn => write!(f, "{key} notin ({})", self.values.join(",")),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Gt => write!(f, "{key}>{}", self.values[0]),
            Operator::Lt => write!(f, "{key}<{}", self.values[0]),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

/// Returns whether the text is a qualified name: an optional DNS subdomain and a slash, then 1 to
/// 63 letters, digits, `-`, `_` and `.`, of which the first and last are letters or digits.
pub fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_label_name(name),
        None => is_label_name(key),
    }
}

/// Returns whether the text is empty, or has the syntax of the name part of a key.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_label_name(value)
}

fn is_label_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let [first, .., last] = bytes else {
        return bytes.len() == 1 && bytes[0].is_ascii_alphanumeric();
    };
    bytes.len() <= 63
        && first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Returns whether the text is lower-case labels joined by dots, of at most 253 characters.
pub fn is_dns_subdomain(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.len() <= 253
        && name.split('.').map(str::as_bytes).all(|label| {
            edge(label.first())
                && edge(label.last())
                && label.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(expressions: &[(&str, &str, &[&str])]) -> Result<Selector, Malformed> {
        let owned: Vec<(&str, &str, Vec<String>)> = expressions
            .iter()
            .map(|(key, operator, values)| (*key, *operator, values.iter().map(|v| (*v).to_owned()).collect()))
            .collect();
        Selector::from_parts([], owned.iter().map(|(key, operator, values)| (*key, *operator, values.as_slice())))
    }

    #[test]
    fn each_operator_on_present_and_absent_labels() {
        let labels: &[(Box<str>, Box<str>)] = &[("env".into(), "prod".into()), ("zone".into(), "".into())];
        for (key, operator, values, expected) in [
            ("env", "In", &["prod", "dev"][..], true),
            ("env", "In", &["dev"], false),
            ("tier", "In", &["dev"], false),
            ("env", "NotIn", &["dev"], true),
            ("env", "NotIn", &["prod"], false),
            ("tier", "NotIn", &["prod"], true),
            ("zone", "Exists", &[], true),
            ("tier", "Exists", &[], false),
            ("tier", "DoesNotExist", &[], true),
            ("zone", "DoesNotExist", &[], false),
        ] {
            let selector = selector(&[(key, operator, values)]).unwrap();
            assert_eq!(selector.matches(labels), expected, "{selector}");
        }
    }

    #[test]
    fn integers_compare_and_other_values_do_not() {
        let above = Requirement::new("cores", Operator::Gt, &["8"]).unwrap();
        assert!(above.accepts(Some("16")));
        assert!(!above.accepts(Some("8")) && !above.accepts(Some("many")) && !above.accepts(None));
        assert_eq!(Requirement::new("cores", Operator::Lt, &["x"]), Err(Malformed::NotOneInteger));
    }

    #[test]
    fn no_requirement_holds_for_everything() {
        assert!(Selector::default().matches(&BTreeMap::new()));
    }

    #[test]
    fn malformed_requirements_are_refused_with_a_reason() {
        assert_eq!(selector(&[("a", "In", &[])]), Err(Malformed::NoValues));
        assert_eq!(selector(&[("a", "Exists", &["b"])]), Err(Malformed::Values));
        assert_eq!(selector(&[("a", "Gt", &["1"])]), Err(Malformed::Operator("Gt".into())));
        assert_eq!(selector(&[("-a", "Exists", &[])]), Err(Malformed::Key("-a".into())));
        assert!(matches!(selector(&[("a", "In", &["b!"])]), Err(Malformed::Value { .. })));
    }

    #[test]
    fn keys_are_qualified_names() {
        for key in ["a", "A-b_c.1", "example.com/x", &"k".repeat(63)] {
            assert!(is_label_key(key), "{key}");
        }
        for key in ["", "/", "a/", "/a", "Example.com/x", "a/b/c", "a b", "é", &"k".repeat(64)] {
            assert!(!is_label_key(key), "{key}");
        }
    }

    #[test]
    fn equal_selectors_in_another_order_are_equal() {
        let one = selector(&[("a", "In", &["2", "1"]), ("b", "Exists", &[])]);
        let other = selector(&[("b", "Exists", &[]), ("a", "In", &["1", "2", "2"])]);
        assert_eq!(one, other);
        assert_eq!(one.unwrap().to_string(), "a in (1,2),b");
    }
}
