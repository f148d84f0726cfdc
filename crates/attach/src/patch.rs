//! The changes of a write, as JSON merge patches: one of the object, and one of its status. Pure
//! functions.

use serde_json::{Map, Value};

type Tree = Map<String, Value>;

/// Members of the metadata that only a server sets.
const SERVERS: [&str; 6] = ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"];

/// The changes of one object, apart as they have to be written.
#[derive(Debug, Default, PartialEq)]
pub struct Changes {
    /// Everything but the status. Empty: nothing changes.
    pub main: Tree,
    /// Below `status`. Empty: nothing changes.
    pub status: Tree,
}

impl Changes {
    pub fn between(base: &Tree, object: &Tree) -> Changes {
        let (mut base, mut object) = (base.clone(), object.clone());
        for tree in [&mut base, &mut object] {
            if let Some(Value::Object(metadata)) = tree.get_mut("metadata") {
                metadata.retain(|name, _| !SERVERS.contains(&name.as_str()));
            }
        }
        let mut main = merge(&base, &object);
        let status = match main.remove("status") {
            Some(Value::Object(status)) => status,
            // The whole status goes: each of its members does.
            Some(_) => match base.get("status") {
                Some(Value::Object(status)) => status.keys().map(|name| (name.clone(), Value::Null)).collect(),
                _ => Tree::new(),
            },
            None => Tree::new(),
        };
        Changes { main, status }
    }
}

/// Returns the merge patch from `from` to `to` (RFC 7396). Lists are replaced as a whole.
fn merge(from: &Tree, to: &Tree) -> Tree {
    let mut patch = Tree::new();
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in to {
        match (from.get(name), value) {
            (Some(before), _) if before == value => {}
            (Some(Value::Object(before)), Value::Object(after)) => {
                patch.insert(name.clone(), Value::Object(merge(before, after)));
            }
            _ => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    patch
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree(value: Value) -> Tree {
        let Value::Object(tree) = value else { panic!("not an object") };
        tree
    }

    #[test]
    fn spec_and_status_are_told_apart_and_what_servers_set_is_left_out() {
        let base = tree(json!({
            "metadata": {"name": "a", "uid": "u", "generation": 3, "annotations": {"x": "1", "y": "2"}},
            "spec": {"clusters": [{"name": "m1"}], "forceRescheduling": true, "new": {"of": "newer Karmada"}},
            "status": {"lastScheduledTime": "t0", "aggregatedStatus": []},
        }));
        let object = tree(json!({
            "metadata": {"name": "a", "annotations": {"x": "1", "z": "3"}},
            "spec": {"clusters": [{"name": "m2"}], "new": {"of": "newer Karmada"}},
            "status": {"lastScheduledTime": "t1", "aggregatedStatus": []},
        }));
        let changes = Changes::between(&base, &object);
        let main = json!({
            "metadata": {"annotations": {"y": null, "z": "3"}},
            "spec": {"clusters": [{"name": "m2"}], "forceRescheduling": null},
        });
        assert_eq!(changes, Changes { main: tree(main), status: tree(json!({"lastScheduledTime": "t1"})) });
        assert_eq!(Changes::between(&base, &base), Changes::default());
    }

    #[test]
    fn a_patch_of_a_changed_object_makes_the_object_that_was_meant() {
        let base = tree(json!({"spec": {"a": {"b": 1, "c": 2}, "l": [1, 2]}, "status": {"x": 1}}));
        let wanted = tree(json!({"spec": {"a": {"c": 3}, "l": []}, "status": {}}));
        let Changes { main, status } = Changes::between(&base, &wanted);
        let mut made = Value::Object(base.clone());
        json_patch::merge(&mut made, &Value::Object(main));
        json_patch::merge(&mut made, &json!({"status": status}));
        assert_eq!(made, Value::Object(wanted));
        let gone = Changes::between(&base, &tree(json!({"spec": base["spec"]})));
        assert_eq!(gone, Changes { main: Tree::new(), status: tree(json!({"x": null})) });
    }
}
