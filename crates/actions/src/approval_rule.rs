//! The rule of approvals (BD8, NG5), from an object before and after a write. Pure.
//!
//! An approval covers the moves of a rebalance and their method, and for a schedule everything that
//! determines the rebalances it creates and their times. Any change of this content withdraws the
//! approval. So an approval always refers to the current content of the object.
//!
//! Every user that has changed the content since the last approval is one of its writers
//! (`ballast.dev/changed-by`), and with four eyes no writer may approve it. So each part has been
//! written by one user, and approved by another.

use serde_json::{Map, Value};

use ballast_api::ballast::v1alpha1::{APPROVED_BY, CHANGED_BY, CREATED_BY, RESERVED_PREFIX, writers};

type Tree = Map<String, Value>;

/// The largest number of users in a list of writers. A further user cannot change the object before
/// it is approved.
pub const WRITERS_MAX: usize = 64;

/// Members of a rebalance's spec that no approval covers: they stop, resume or clean up.
const CONTROLS: [&str; 4] = ["approved", "paused", "abort", "ttlSecondsAfterFinished"];
/// Members of a schedule's spec that no approval covers. Its template is compared separately.
const SCHEDULE_CONTROLS: [&str; 4] = ["template", "suspend", "successfulHistoryLimit", "failedHistoryLimit"];

/// The object that is approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approvable {
    /// A Rebalance or a ClusterRebalance.
    Rebalance,
    /// A RebalanceSchedule: the approval is in its template.
    Schedule,
}

/// The effect of a write on the approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The object is not approved.
    Unapproved,
    /// The object is approved as before.
    Kept,
    /// The object was approved, and the write changes what the approval covers.
    Withdrawn,
    /// The user approves the object by this write.
    Given,
}

/// The decision about a write and its approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub effect: Effect,
    /// Whether the write changes what an approval covers.
    pub is_changed: bool,
    /// The writers after the write, the latest last.
    pub writers: Vec<String>,
}

/// Decides about a write of `user`. `old` is the stored object, on an update.
pub fn decide(kind: Approvable, user: &str, old: Option<&Tree>, new: &Tree) -> Decision {
    let was_approved = old.is_some_and(|old| kind.is_approved(old));
    let is_changed = old.is_none_or(|old| !kind.has_same_content(old, new));
    let effect = match (kind.is_approved(new), was_approved) {
        (false, _) => Effect::Unapproved,
        (true, false) => Effect::Given,
        (true, true) if is_changed => Effect::Withdrawn,
        (true, true) => Effect::Kept,
    };
    let mut writers = old.map_or_else(Vec::new, writers_of);
    if is_changed {
        if was_approved {
            writers.clear();
        }
        writers.retain(|writer| writer != user);
        writers.push(user.to_owned());
    }
    Decision { effect, is_changed, writers }
}

impl Approvable {
    /// Returns the path of the rebalance's spec in the object.
    pub const fn path(self) -> &'static [&'static str] {
        match self {
            Approvable::Rebalance => &["spec"],
            Approvable::Schedule => &["spec", "template", "spec"],
        }
    }

    /// Returns a member of the rebalance, or of the rebalance in the template.
    pub fn field<'o>(self, object: &'o Tree, name: &str) -> Option<&'o Value> {
        member(object, self.path())?.get(name)
    }

    pub fn is_approved(self, object: &Tree) -> bool {
        self.field(object, "approved") == Some(&Value::Bool(true))
    }

    /// Removes the approval from an object.
    pub fn withdraw(self, object: &mut Tree) {
        if let Some(spec) = member_mut(object, self.path()).and_then(Value::as_object_mut) {
            spec.insert("approved".to_owned(), false.into());
        }
    }

    /// Returns whether two versions are equal in everything that an approval covers.
    fn has_same_content(self, one: &Tree, other: &Tree) -> bool {
        let agree_at = |path: &[&str], except: &[&str]| agree(member(one, path), member(other, path), except);
        match self {
            Approvable::Rebalance => agree_at(&["spec"], &CONTROLS),
            Approvable::Schedule => {
                agree_at(&["spec"], &SCHEDULE_CONTROLS)
                    && agree_at(&["spec", "template"], &["spec"])
                    && agree_at(&["spec", "template", "spec"], &["approved"])
            }
        }
    }
}

/// Restores the reserved annotations of the stored object, and removes reserved ones from a
/// template. Returns the field paths of the client's values that are left out.
pub fn restore_reserved(kind: Approvable, old: Option<&Tree>, object: &mut Tree) -> Vec<String> {
    const ANNOTATIONS: &[&str] = &["metadata", "annotations"];
    const OF_TEMPLATE: [&[&str]; 2] =
        [&["spec", "template", "metadata", "annotations"], &["spec", "template", "metadata", "labels"]];
    let stored = old.and_then(|old| member(old, ANNOTATIONS)).and_then(Value::as_object);
    let stored: Tree = stored.into_iter().flatten().filter(|(name, _)| is_reserved(name)).map(owned).collect();
    let mut left_out = take_reserved(object, ANNOTATIONS, &stored);
    for (name, value) in stored {
        set_annotation(object, &name, value);
    }
    if kind == Approvable::Schedule {
        left_out.extend(OF_TEMPLATE.iter().flat_map(|path| take_reserved(object, path, &Tree::new())));
    }
    left_out
}

/// Removes the reserved members. Returns the field paths of the ones that differ from `known`.
fn take_reserved(object: &mut Tree, path: &[&str], known: &Tree) -> Vec<String> {
    let mut taken = Vec::new();
    if let Some(members) = member_mut(object, path).and_then(Value::as_object_mut) {
        members.retain(|name, value| {
            if is_reserved(name) && known.get(name) != Some(value) {
                taken.push(format!("{}[{name}]", path.join(".")));
            }
            !is_reserved(name)
        });
    }
    taken
}

fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED_PREFIX)
}

fn owned((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

/// Records the decision in the annotations.
pub fn record(decision: &Decision, user: &str, old: Option<&Tree>, object: &mut Tree) {
    match decision.effect {
        Effect::Kept => {}
        Effect::Given => set_annotation(object, APPROVED_BY, user.to_owned()),
        Effect::Unapproved | Effect::Withdrawn => {
            if let Some(known) = member_mut(object, &["metadata", "annotations"]).and_then(Value::as_object_mut) {
                known.remove(APPROVED_BY);
            }
        }
    }
    match old {
        None => set_annotation(object, CREATED_BY, user.to_owned()),
        Some(_) if decision.is_changed => {
            set_annotation(object, CHANGED_BY, Value::from(decision.writers.clone()).to_string());
        }
        Some(_) => {}
    }
}

/// Returns the writers that the annotations of an object list.
pub fn writers_of(object: &Tree) -> Vec<String> {
    let annotations = member(object, &["metadata", "annotations"]);
    writers(|name| annotations?.get(name)?.as_str())
}

/// Returns whether two objects have equal members, except for some.
fn agree(one: Option<&Value>, other: Option<&Value>, except: &[&str]) -> bool {
    let tree = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    let (mut one, mut other) = (tree(one), tree(other));
    for name in except {
        one.remove(*name);
        other.remove(*name);
    }
    one == other
}

fn member<'o>(object: &'o Tree, path: &[&str]) -> Option<&'o Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, name| value.get(name))
}

fn member_mut<'o>(object: &'o mut Tree, path: &[&str]) -> Option<&'o mut Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get_mut(*first)?, |value, name| value.get_mut(name))
}

fn set_annotation(object: &mut Tree, name: &str, value: impl Into<Value>) {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).expect("every object has metadata");
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Tree::new()));
    let annotations = annotations.as_object_mut().expect("admission has checked the types of metadata");
    annotations.insert(name.to_owned(), value.into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree(value: Value) -> Tree {
        let Value::Object(tree) = value else { panic!("not an object") };
        tree
    }

    /// Returns the object after a write of `user` with the rule applied, and the effect.
    fn written(kind: Approvable, user: &str, old: Option<&Tree>, new: Tree) -> (Tree, Effect) {
        let mut new = new;
        let _left_out = restore_reserved(kind, old, &mut new);
        let decision = decide(kind, user, old, &new);
        if decision.effect == Effect::Withdrawn {
            kind.withdraw(&mut new);
        }
        record(&decision, user, old, &mut new);
        (new, decision.effect)
    }

    /// Merges a patch into the spec.
    fn patched(object: &Tree, patch: &Value) -> Tree {
        fn merge(into: &mut Value, patch: &Value) {
            match (into.as_object_mut(), patch.as_object()) {
                (Some(into), Some(patch)) => {
                    patch.iter().for_each(|(name, value)| merge(into.entry(name).or_insert(Value::Null), value));
                }
                _ => *into = patch.clone(),
            }
        }
        let mut object = Value::Object(object.clone());
        merge(&mut object["spec"], patch);
        tree(object)
    }

    fn schedule() -> Tree {
        tree(json!({"metadata": {"name": "nightly"}, "spec": {"schedule": "0 3 * * *", "suspend": false,
            "concurrencyPolicy": "Allow", "successfulHistoryLimit": 3, "failedHistoryLimit": 1,
            "template": {"metadata": {"labels": {"team": "shop"}},
                "spec": {"select": [{"name": "w1"}], "approval": "Required", "approved": false, "paused": false}}}}))
    }

    fn rebalance() -> Tree {
        tree(json!({"metadata": {"name": "r"},
            "spec": {"select": [{}], "approval": "Required", "approved": false, "paused": false, "abort": false}}))
    }

    /// Each change of an object that bob has approved, and whether the approval stays.
    #[test]
    fn a_change_takes_the_approval_away() {
        let of_template = |spec: Value| json!({"template": {"spec": spec}});
        let cases = [
            (Approvable::Schedule, json!({"schedule": "* * * * *"}), false),
            (Approvable::Schedule, json!({"timeZone": "Europe/Berlin"}), false),
            (Approvable::Schedule, json!({"on": {"clusterRecovered": {"stableForSeconds": 1}}}), false),
            (Approvable::Schedule, json!({"concurrencyPolicy": "Replace"}), false),
            (Approvable::Schedule, json!({"startingDeadlineSeconds": 1}), false),
            (Approvable::Schedule, json!({"template": {"metadata": {"labels": {"team": "bank"}}}}), false),
            (Approvable::Schedule, of_template(json!({"select": [{}]})), false),
            (Approvable::Schedule, of_template(json!({"rollout": {"maxConcurrent": "100%"}})), false),
            (Approvable::Schedule, of_template(json!({"mode": "Fresh", "approved": true})), false),
            (Approvable::Schedule, of_template(json!({"approval": "NotRequired"})), false),
            (Approvable::Schedule, of_template(json!({"paused": true})), false),
            (Approvable::Schedule, json!({"suspend": true}), true),
            (Approvable::Schedule, json!({"successfulHistoryLimit": 9, "failedHistoryLimit": 9}), true),
            (Approvable::Schedule, of_template(json!({"approved": true})), true),
            (Approvable::Rebalance, json!({"select": [{"name": "other"}]}), false),
            (Approvable::Rebalance, json!({"expectPlan": "0-1-1"}), false),
            (Approvable::Rebalance, json!({"rollout": {"strategy": "Direct"}}), false),
            (Approvable::Rebalance, json!({"paused": true}), true),
            (Approvable::Rebalance, json!({"abort": true, "ttlSecondsAfterFinished": 1}), true),
        ];
        for (kind, change, stays) in cases {
            let object = if kind == Approvable::Schedule { schedule() } else { rebalance() };
            let approve =
                kind.path()[1..].iter().rev().fold(json!({"approved": true}), |inner, name| json!({*name: inner}));
            let (object, _) = written(kind, "alice", None, object);
            let (approved, effect) = written(kind, "bob", Some(&object), patched(&object, &approve));
            assert_eq!((effect, &approved["metadata"]["annotations"][APPROVED_BY]), (Effect::Given, &json!("bob")));
            for user in ["alice", "bob", "carol"] {
                let (after, effect) = written(kind, user, Some(&approved), patched(&approved, &change));
                let by = member(&after, &["metadata", "annotations", APPROVED_BY]);
                let expected = if stays { Effect::Kept } else { Effect::Withdrawn };
                assert_eq!(effect, expected, "{change}");
                assert_eq!((kind.is_approved(&after), by.is_some()), (stays, stays), "{change}");
                let writers = if stays { "alice" } else { user };
                assert_eq!(writers_of(&after), [writers], "{change}");
            }
        }
    }

    /// Writes of several users, and the list of writers after each.
    #[test]
    fn writers_are_all_since_the_last_approval() {
        let time = |minute: u8| json!({"schedule": format!("{minute} 3 * * *")});
        let approved = |approved: bool| json!({"template": {"spec": {"approved": approved}}});
        let steps: [(&str, Value, Effect, &[&str]); 9] = [
            ("bob", time(1), Effect::Unapproved, &["alice", "bob"]),
            ("alice", time(2), Effect::Unapproved, &["bob", "alice"]),
            ("dave", json!({"suspend": true}), Effect::Unapproved, &["bob", "alice"]),
            ("carol", approved(true), Effect::Given, &["bob", "alice"]),
            ("bob", time(3), Effect::Withdrawn, &["bob"]),
            ("alice", approved(true), Effect::Given, &["bob"]),
            ("alice", approved(false), Effect::Unapproved, &["bob"]),
            // A user that approves together with a change approves their own work.
            (
                "carol",
                json!({"schedule": "4 3 * * *", "template": {"spec": {"approved": true}}}),
                Effect::Given,
                &["bob", "carol"],
            ),
            ("dave", time(5), Effect::Withdrawn, &["dave"]),
        ];
        let kind = Approvable::Schedule;
        let (mut object, effect) = written(kind, "alice", None, schedule());
        assert_eq!((effect, writers_of(&object)), (Effect::Unapproved, vec!["alice".to_owned()]));
        for (user, change, expected, writers) in steps {
            let (after, effect) = written(kind, user, Some(&object), patched(&object, &change));
            assert_eq!(
                (effect, writers_of(&after)),
                (expected, writers.iter().map(|it| (*it).to_owned()).collect()),
                "{change}"
            );
            assert_eq!(after["metadata"]["annotations"][CREATED_BY], "alice");
            object = after;
        }
    }

    #[test]
    fn an_object_without_a_creator_has_no_writers() {
        // Stored by an older version.
        let old = rebalance();
        let (after, effect) =
            written(Approvable::Rebalance, "anna", Some(&old), patched(&old, &json!({"approved": true})));
        assert_eq!((effect, writers_of(&after)), (Effect::Given, Vec::new()));
        assert_eq!(after["metadata"]["annotations"], json!({APPROVED_BY: "anna"}));
    }

    #[test]
    fn clients_set_no_reserved_annotation() {
        let forged =
            json!({CREATED_BY: "otto", APPROVED_BY: "otto", CHANGED_BY: "[]", "ballast.dev/recovered": "m", "a": "b"});
        let mut object = schedule();
        object["metadata"]["annotations"] = forged.clone();
        object["spec"]["template"]["metadata"] =
            json!({"annotations": forged, "labels": {"ballast.dev/undoes": "x", "c": "d"}});
        let (created, _) = written(Approvable::Schedule, "alice", None, object.clone());
        assert_eq!(created["metadata"]["annotations"], json!({CREATED_BY: "alice", "a": "b"}));
        let template = json!({"annotations": {"a": "b"}, "labels": {"c": "d"}});
        assert_eq!(created["spec"]["template"]["metadata"], template);
        // An update can neither change nor remove one.
        let (updated, _) = written(Approvable::Schedule, "bob", Some(&created), object.clone());
        assert_eq!(updated, created);
        object.get_mut("metadata").unwrap().as_object_mut().unwrap().remove("annotations");
        let (updated, _) = written(Approvable::Schedule, "bob", Some(&created), object.clone());
        assert_eq!(updated["metadata"]["annotations"], json!({CREATED_BY: "alice"}));
        let left_out = restore_reserved(Approvable::Schedule, Some(&created), &mut object);
        assert_eq!(left_out.len(), 5, "{left_out:?}");
    }
}
