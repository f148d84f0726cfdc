//! A writer of the wire format of a set, for callers that produce the paths in order and need no
//! set.

use super::Element;

/// Marks a path that is in the set in addition to longer ones, as in `set`.
const ITSELF: &str = r#"".":{}"#;

/// A set that is being written. Elements that are written between `field` or `item` and `close` are
/// below that element. They must be written in order, each once.
pub struct FieldsText {
    text: String,
}

/// An element that is not closed yet.
#[must_use]
pub struct Open {
    /// Offset of the key, including the comma before it.
    begin: usize,
    /// Offset of the content.
    inside: usize,
    is_member: bool,
}

impl FieldsText {
    /// Creates an empty set with capacity for this many bytes of text.
    pub fn with_capacity(bytes: usize) -> FieldsText {
        let mut text = String::with_capacity(bytes);
        text.push('{');
        FieldsText { text }
    }

    /// Begins a member of an object. `is_member`: its own path is in the set.
    pub fn field(&mut self, name: &str, is_member: bool) -> Open {
        let begin = self.begin();
        self.text.push_str("f:");
        self.escaped(name);
        self.inside(begin, is_member)
    }

    /// Begins an item of a list. `is_member`: its own path is in the set.
    pub fn item(&mut self, element: &Element, is_member: bool) -> Open {
        let begin = self.begin();
        self.escaped(element.as_str());
        self.inside(begin, is_member)
    }

    /// Ends an element. It is removed from the text if neither it nor a path below it is in the
    /// set.
    pub fn close(&mut self, open: Open) {
        if self.text.len() > open.inside {
            self.text.push('}');
        } else if open.is_member {
            self.text.truncate(open.inside - ITSELF.len());
            self.text.push('}');
        } else {
            self.text.truncate(open.begin);
        }
    }

    /// Returns the text, or `None` if the set is empty.
    pub fn finish(mut self) -> Option<String> {
        self.text.push('}');
        (self.text != "{}").then_some(self.text)
    }

    fn begin(&mut self) -> usize {
        let begin = self.text.len();
        self.text.push_str(if self.text.ends_with('{') { "\"" } else { ",\"" });
        begin
    }

    fn inside(&mut self, begin: usize, is_member: bool) -> Open {
        self.text.push_str("\":{");
        if is_member {
            self.text.push_str(ITSELF);
        }
        Open { begin, inside: self.text.len(), is_member }
    }

    /// Appends the text as in a JSON string, without the quotes.
    fn escaped(&mut self, text: &str) {
        if text.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\')) {
            return self.text.push_str(text);
        }
        let quoted = serde_json::to_string(text).expect("a string always serializes");
        self.text.push_str(&quoted[1..quoted.len() - 1]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_element_through_which_no_path_leads_leaves_nothing() {
        let mut text = FieldsText::with_capacity(16);
        let metadata = text.field("metadata", false);
        let name = text.field("name", false);
        text.close(name);
        text.close(metadata);
        assert_eq!(text.finish(), None);
    }

    #[test]
    fn members_are_marked_where_longer_paths_follow_and_names_are_escaped() {
        let mut text = FieldsText::with_capacity(16);
        let nothing = text.field("kind", false);
        text.close(nothing);
        let spec = text.field("spec", true);
        let list = text.field("a\"\\\u{1}é", false);
        let item = text.item(&Element::value(&json!("tcp")), true);
        text.close(item);
        text.close(list);
        text.close(spec);
        let expected = json!({"f:spec": {".": {}, "f:a\"\\\u{1}é": {"v:\"tcp\"": {}}}});
        let written = text.finish().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), expected);
        assert_eq!(written, expected.to_string());
    }
}
