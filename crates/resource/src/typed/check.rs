//! Checks whether a configuration can be applied: every member must be known, containers must have
//! the type that the schema declares, and items must have distinct names (AP17, AP18). Validation
//! checks scalars, with better messages.

use std::fmt::Write;

use serde_json::Value;

use super::super::schema::{Schema, Shape};
use super::{Members, Parts, Tree, Type};

/// The largest number of faults in one response. A body can have a million.
const FAULTS_MAX: usize = 100;

impl Schema {
    /// Returns the faults, with upstream's messages: `.spec.x: field not declared in schema`.
    pub fn check_config(&self, config: &Tree) -> Vec<String> {
        let mut checking = Checking { path: String::new(), faults: Vec::new() };
        checking.members(self.members(), config);
        checking.faults
    }
}

struct Checking {
    path: String,
    faults: Vec<String>,
}

impl Checking {
    fn say(&mut self, what: &str) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(format!("{}: {what}", self.path));
        }
    }

    fn at(&mut self, step: impl std::fmt::Display, look: impl FnOnce(&mut Checking)) {
        let parent = self.path.len();
        write!(self.path, "{step}").expect("writing to memory cannot fail");
        look(self);
        self.path.truncate(parent);
    }

    fn members(&mut self, types: Members<'_>, object: &Tree) {
        for (name, value) in object {
            self.at(format_args!(".{name}"), |checking| match types.find(name) {
                None => checking.say("field not declared in schema"),
                Some(of) => checking.value(of, value),
            });
        }
    }

    fn value(&mut self, of: Type<'_>, value: &Value) {
        if let Type::Known(node) = of {
            let expected = match (&node.shape, value) {
                (_, Value::Null) | (Shape::Object(_), Value::Object(_)) | (Shape::Array(_), Value::Array(_)) => None,
                (Shape::Object(_), _) => Some("map"),
                (Shape::Array(_), _) => Some("list"),
                _ => None,
            };
            if let Some(expected) = expected {
                return self.say(&format!("expected {expected}, got {value}"));
            }
        }
        match (of.parts(value), value) {
            (Parts::Members(types), Value::Object(object)) => self.members(types, object),
            (Parts::Items(types), Value::Array(list)) => {
                let index = types.index(list);
                for (place, item) in list.iter().enumerate() {
                    if let Err(why) = types.element(item) {
                        self.say(&format!("element {place}: {why}"));
                    }
                }
                for element in &index.order {
                    match index.get(element) {
                        [only] if types.element(only).is_err() => {}
                        [only] => self.at(element, |checking| checking.value(types.node(), only)),
                        _ => self.say(&format!("duplicate entries for key {element}")),
                    }
                }
            }
            (Parts::One, Value::Object(_) | Value::Array(_)) => self.inside(of, value),
            _ => {}
        }
    }

    /// Checks the members of an atomic value. It is one field, but its members must be known as
    /// well.
    fn inside(&mut self, of: Type<'_>, value: &Value) {
        let Type::Known(node) = of else { return };
        match (&node.shape, value) {
            (Shape::Object(object), Value::Object(members)) => self.members(Members::Known(object), members),
            (Shape::Array(array), Value::Array(list)) => {
                for (place, item) in list.iter().enumerate() {
                    self.at(format_args!("[{place}]"), |checking| checking.value(Type::Known(&array.items), item));
                }
            }
            _ => {}
        }
    }
}
