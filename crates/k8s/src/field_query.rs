//! The field selector of a query string, `metadata.name=a,metadata.namespace!=b` (SE3, SE8).
//!
//! Every kind supports selection by name and namespace. The other selectable fields depend on the
//! kind: callers check them with `unsupported` before they select.

use serde_json::Value;

use super::{Key, Object};

/// A field selector. All requirements must hold; an empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldQuery(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    field: Field,
    equals: bool,
    value: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    /// A path into the object: `involvedObject.kind`.
    Other(String),
}

impl FieldQuery {
    /// Parses a selector. The error is the message for the client.
    pub fn parse(text: &str) -> Result<FieldQuery, String> {
        let mut requirements = Vec::new();
        // Upstream sorts the requirements, and reports the first one that it cannot parse.
        let mut terms = terms(text);
        terms.sort_unstable();
        for term in terms {
            if term.is_empty() {
                continue;
            }
            let Some((label, equals, value)) = split(term) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
            };
            let value = unescape(value)?;
            let field = match label {
                "metadata.name" => Field::Name,
                "metadata.namespace" => Field::Namespace,
                other => Field::Other(other.to_owned()),
            };
            requirements.push(Requirement { field, equals, value });
        }
        Ok(FieldQuery(requirements))
    }

    /// Returns a selector for the object of this name.
    pub fn named(name: &str) -> FieldQuery {
        FieldQuery(vec![Requirement { field: Field::Name, equals: true, value: name.to_owned() }])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the error message if the selector uses a field that the kind does not support.
    pub fn unsupported(&self, selectable: &[&str]) -> Option<String> {
        let mut fields = self.0.iter().map(|requirement| &requirement.field);
        fields.find_map(|field| match field {
            Field::Other(path) if !selectable.contains(&path.as_str()) => {
                Some(format!("field label not supported: {path}"))
            }
            _ => None,
        })
    }

    /// Returns whether the name and the namespace match.
    pub fn matches_key(&self, key: &Key) -> bool {
        self.0.iter().all(|requirement| match requirement.field {
            Field::Name => requirement.holds(&key.name),
            Field::Namespace => requirement.holds(&key.namespace),
            Field::Other(_) => true,
        })
    }

    /// Returns whether the object matches. It is parsed only if the selector uses more than its
    /// key.
    pub fn matches(&self, object: &Object) -> bool {
        if !self.matches_key(&object.key) {
            return false;
        }
        if !self.0.iter().any(|requirement| matches!(requirement.field, Field::Other(_))) {
            return true;
        }
        let Ok(tree) = serde_json::from_slice::<Value>(&object.text.content()) else { return false };
        self.0.iter().all(|requirement| match &requirement.field {
            Field::Name | Field::Namespace => true,
            Field::Other(path) => {
                let found = path.split('.').try_fold(&tree, |value, name| value.get(name));
                requirement.holds(found.and_then(Value::as_str).unwrap_or_default())
            }
        })
    }

    /// Returns the only name that can match, if the selector fixes it. Authorization checks it
    /// (SE5).
    pub fn name(&self) -> Option<&str> {
        self.only(Field::Name)
    }

    /// Returns the only namespace that can match, if the selector fixes it.
    pub fn namespace(&self) -> Option<&str> {
        self.only(Field::Namespace)
    }

    /// Returns whether a requirement refers to the namespace.
    pub fn mentions_namespace(&self) -> bool {
        self.0.iter().any(|requirement| requirement.field == Field::Namespace)
    }

    fn only(&self, field: Field) -> Option<&str> {
        let found = self.0.iter().find(|requirement| requirement.field == field && requirement.equals)?;
        Some(&found.value)
    }
}

impl Requirement {
    fn holds(&self, actual: &str) -> bool {
        (actual == self.value) == self.equals
    }
}

/// Splits the text at commas that are not escaped by a backslash.
fn terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Returns the field, whether it must be equal, and the value with its escapes.
fn split(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.find(['=', '!'])?;
    let (label, rest) = term.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((label, false, value));
    }
    rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')).map(|value| (label, true, value))
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                Some(other) => return Err(format!("invalid field selector: invalid escape sequence: \\{other}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            '=' | ',' => return Err(format!("invalid field selector: unescaped character in value: {}", u32::from(c))),
            plain_char => plain.push(plain_char),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::super::GroupResource;
    use super::*;

    #[test]
    fn se3_name_and_namespace_can_be_selected_by() {
        let key = Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", "web");
        for yes in ["", "metadata.name=web", "metadata.name==web,metadata.namespace=shop", "metadata.name!=db,,"] {
            assert!(FieldQuery::parse(yes).unwrap().matches_key(&key), "{yes}");
        }
        for no in ["metadata.name=db", "metadata.name!=web", "metadata.namespace="] {
            assert!(!FieldQuery::parse(no).unwrap().matches_key(&key), "{no}");
        }
        assert_eq!(FieldQuery::parse("metadata.name=web").unwrap().name(), Some("web"));
        assert_eq!(FieldQuery::parse("metadata.name!=web").unwrap().name(), None);
    }

    #[test]
    fn se3_other_fields_are_refused() {
        let refused = |text: &str| FieldQuery::parse(text).unwrap().unsupported(&["spec.y"]);
        assert_eq!(refused("spec.x=1").unwrap(), "field label not supported: spec.x");
        assert_eq!(refused("spec.z=1,spec.x=1").unwrap(), "field label not supported: spec.x");
        assert_eq!(refused("spec.y=1,metadata.name=a"), None);
        assert_eq!(FieldQuery::parse("foo").unwrap_err(), "invalid selector: 'foo'; can't understand 'foo'");
    }

    #[test]
    fn se3_fields_of_the_object_are_compared_as_text_and_an_absent_one_is_empty() {
        let key = Key::namespaced(GroupResource::new("events"), "shop", "web.1");
        let json = br#"{"metadata":{},"reason":"Done","involvedObject":{"kind":"Deployment"}}"#;
        let object = Object::decode(key, crate::Revision(1), bytes::Bytes::from_static(json)).unwrap();
        for yes in ["reason=Done", "involvedObject.kind=Deployment,metadata.namespace=shop", "type=,reason!=Failed"] {
            assert!(FieldQuery::parse(yes).unwrap().matches(&object), "{yes}");
        }
        for no in ["reason=Failed", "involvedObject.kind!=Deployment", "reason=Done,metadata.name=web"] {
            assert!(!FieldQuery::parse(no).unwrap().matches(&object), "{no}");
        }
    }

    #[test]
    fn se8_escapes_in_values_are_undone() {
        let query = FieldQuery::parse(r"metadata.name=a\,b\=c\\").unwrap();
        assert_eq!(query.name(), Some(r"a,b=c\"));
        for bad in [r"metadata.name=a\x", r"metadata.name=a\", "metadata.name=a=b"] {
            assert!(FieldQuery::parse(bad).unwrap_err().starts_with("invalid field selector"), "{bad}");
        }
    }
}
