//! Properties of apply, on random configurations of random managers, without a registry.

use proptest::collection::{btree_map, btree_set};
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::test_kinds::Garden;

/// A garden and its managers.
#[derive(Clone, Debug, Default, PartialEq)]
struct World {
    live: Option<Tree>,
    managed: ManagedFields,
}

thread_local! {
    static ROW: ResourceKind = ResourceKind::of::<Garden>();
}

impl World {
    fn write<T>(&mut self, manager: &str, write: impl FnOnce(Writing<'_>, &mut World) -> T) -> T {
        ROW.with(|row| {
            let now = Time::from_seconds(0);
            write(Writing { row, part: Part::Main, manager, now }, self)
        })
    }

    /// Applies the configuration. `None` if there is a conflict.
    fn apply(&self, manager: &str, config: &Tree, force: bool) -> Option<World> {
        let mut next = self.clone();
        let applied = next.write(manager, |writing, world| {
            writing.apply(world.live.clone().as_ref(), config, &mut world.managed, force)
        });
        match applied {
            Ok(live) => {
                next.live = Some(live);
                Some(next)
            }
            Err(Refused::Conflicts(_)) => None,
            Err(Refused::Malformed(error)) => panic!("{error}"),
        }
    }

    fn force(&self, manager: &str, config: &Tree) -> World {
        self.apply(manager, config, true).expect("force has no conflicts")
    }

    fn update(&self, manager: &str, new: Tree) -> World {
        let mut next = self.clone();
        next.write(manager, |writing, world| writing.track(world.live.as_ref(), &new, &mut world.managed)).unwrap();
        next.live = Some(new);
        next
    }

    fn owned_by(&self, manager: &str, operation: Operation) -> Vec<String> {
        let manager = Manager { operation, name: manager.to_owned(), subresource: String::new() };
        let fields = self.managed.find(&manager).map(|entry| entry.fields().unwrap()).unwrap_or_default();
        fields.paths().iter().map(ToString::to_string).collect()
    }
}

/// The record of a create equals the one that tracking and encoding produce.
#[test]
fn ap10_the_record_of_a_new_object_is_what_tracking_notes() {
    let identity = json!({"name": "g\"", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 1, "resourceVersion": "7", "selfLink": {"odd": 1}, "labels": {"a\"": "b"}, "finalizers": ["x", "x"],
        "ownerReferences": [{"uid": "o", "name": "p"}], "annotations": {}});
    let mut objects = vec![garden(json!({"plants": [{"name": "rose"}, {"name": "lily"}], "notes": {"é": [1]}}))];
    objects.push(garden(Value::Null));
    let mut whole = garden(json!({"beds": 2}));
    whole.insert("metadata".to_owned(), identity);
    whole.insert("status".to_owned(), json!({"watered": true}));
    whole.insert("other".to_owned(), json!([]));
    objects.push(whole.clone());
    objects.push(Tree::new());
    objects.push(Tree::from_iter([("status".to_owned(), json!({"a": 1})), ("kind".to_owned(), json!("Garden"))]));
    for (object, manager) in objects.iter().flat_map(|object| [(object, "kubectl \"1\""), (object, "")]) {
        ROW.with(|row| {
            let writing = Writing { row, part: Part::Main, manager, now: Time::from_seconds(1_764_000_000) };
            let mut managed = ManagedFields::default();
            writing.track(None, object, &mut managed).unwrap();
            let tracked = managed.encode().map(|list| Managers::of(list.as_array().unwrap()));
            assert_eq!(writing.begin(object), tracked, "{object:?}");
        });
    }
    let owned = ROW.with(|row| {
        let writing = Writing { row, part: Part::Main, manager: "m", now: Time::from_seconds(0) };
        Value::from(writing.begin(&whole).unwrap().values())
    });
    assert_eq!(owned[0]["fieldsV1"]["f:metadata"]["f:labels"], json!({".": {}, "f:a\"": {}}));
    assert!(owned[0]["fieldsV1"].get("f:kind").is_none() && owned[0]["fieldsV1"]["f:metadata"].get("f:uid").is_none());
}

fn garden(spec: Value) -> Tree {
    let Value::Object(tree) = json!({"apiVersion": "garden.example.com/v1", "kind": "Garden",
        "metadata": {"name": "g", "namespace": "n"}, "spec": spec})
    else {
        unreachable!()
    };
    tree
}

fn letter(letters: &'static [&'static str]) -> impl Strategy<Value = String> {
    (0..letters.len()).prop_map(|n| letters[n].to_owned())
}

/// Returns a configuration with labels, finalizers and notes of these letters.
fn config(letters: &'static [&'static str]) -> impl Strategy<Value = Tree> {
    // None of them is empty, nor is the spec: an empty map is a field only until it is emptied
    // again.
    let labels = option::of(btree_map(letter(letters), letter(&["1", "2"]), 1..3));
    let finalizers = option::of(btree_set(letter(letters), 1..3));
    let notes = option::of(btree_map(letter(letters), btree_map(letter(letters), 0..2, 1..3), 1..3));
    (labels, finalizers, notes).prop_map(|(labels, finalizers, notes)| {
        let mut config = garden(json!({"beds": 3, "notes": notes}));
        let metadata = metadata::of_mut(&mut config);
        metadata.extend(labels.map(|labels| ("labels".to_owned(), json!(labels))));
        metadata.extend(finalizers.map(|list| ("finalizers".to_owned(), json!(list.iter().collect::<Vec<_>>()))));
        ROW.with(|row| row.schema.prune(&mut config));
        config
    })
}

fn any_config() -> impl Strategy<Value = Tree> {
    config(&["a", "b", "c"])
}

/// Sorts set items: their order depends on the first manager and is not under test.
fn ordered(mut world: World) -> World {
    if let Some(Value::Array(list)) =
        world.live.as_mut().map(metadata::of_mut).and_then(|metadata| metadata.get_mut("finalizers"))
    {
        list.sort_by_key(ToString::to_string);
    }
    world
}

prop_compose! {
    /// Returns a world after some managers have written to it.
    fn world()(steps in proptest::collection::vec((letter(&["x", "y", "z"]), any_config(), any::<bool>()), 1..5))
    -> World {
        let mut world = World::default();
        for (manager, config, applies) in steps {
            world = match applies {
                true => world.force(&manager, &config),
                false => world.update(&manager, config),
            };
        }
        world
    }
}

proptest! {
    #[test]
    fn ap19_applying_twice_is_applying_once(world in world(), config in any_config()) {
        let once = world.force("me", &config);
        let twice = once.apply("me", &config, false).expect("what is mine does not conflict");
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn managers_of_different_fields_do_not_see_each_other(one in config(&["a", "b"]), two in config(&["c", "d"])) {
        let first = World::default().force("base", &garden(json!({})));
        let both = |first: &World, order: [(&str, &Tree); 2]| {
            let next = first.apply(order[0].0, order[0].1, false).unwrap();
            next.apply(order[1].0, order[1].1, false).expect("disjoint fields do not conflict")
        };
        let (there, back) = (both(&first, [("one", &one), ("two", &two)]), both(&first, [("two", &two), ("one", &one)]));
        prop_assert_eq!(ordered(there.clone()).live, ordered(back.clone()).live);
        prop_assert!(there.managed.differs_only_in_times(&back.managed));
    }

    #[test]
    fn ap8_what_is_forced_is_there_and_mine(world in world(), config in any_config()) {
        let next = world.force("me", &config);
        prop_assert!(next.apply("me", &config, false).is_some());
        ROW.with(|row| {
            let wanted = row.schema.fields_of(&config);
            let missing = row.schema.compare(next.live.as_ref().unwrap(), &config).modified.intersection(&wanted);
            prop_assert!(missing.is_empty(), "{:?}", missing);
            Ok(())
        })?;
    }

    #[test]
    fn ap6_only_what_differs_from_what_others_own_conflicts(world in world(), config in any_config()) {
        let live = world.live.clone().unwrap();
        // The live configuration can always be applied.
        prop_assert!(world.apply("me", &live, false).is_some());
        if world.apply("me", &config, false).is_none() {
            prop_assert!(world.force("me", &config).live != world.live);
        }
    }

    #[test]
    fn ap9_giving_everything_up_leaves_what_others_own(config in any_config(), other in any_config()) {
        let first = World::default().force("other", &other);
        let Some(both) = first.apply("me", &config, false) else { return Ok(()) };
        let mut nothing = garden(json!({}));
        nothing.remove("spec");
        let back = both.apply("me", &nothing, false).expect("giving up does not conflict");
        prop_assert!(back.owned_by("me", Operation::Apply).is_empty());
        ROW.with(|row| {
            let changed = row.schema.compare(first.live.as_ref().unwrap(), back.live.as_ref().unwrap());
            prop_assert!(changed.is_empty(), "{:?}", changed);
            Ok(())
        })?;
    }

    #[test]
    fn ap7_every_field_of_an_applied_object_has_an_owner(config in any_config(), update in any_config()) {
        let world = World::default().force("me", &config).update("you", update);
        ROW.with(|row| {
            let mut owned = ballast_k8s::fields::FieldSet::default();
            world.managed.iter().for_each(|entry| owned.add(entry.fields().unwrap()));
            let live = row.schema.fields_of(world.live.as_ref().unwrap());
            let nobodys = live.difference(&owned).paths();
            let is_identity = |path: &ballast_k8s::fields::Path| {
                [".apiVersion", ".kind", ".metadata.name", ".metadata.namespace"].contains(&path.to_string().as_str())
            };
            prop_assert!(nobodys.iter().all(is_identity), "{:?}", nobodys);
            Ok(())
        })?;
    }
}

#[test]
fn ap10_an_update_takes_what_it_changes() {
    let applied = World::default().force("me", &garden(json!({"beds": 3, "notes": {"a": 1}})));
    let updated = applied.update("you", garden(json!({"beds": 4, "notes": {"a": 1}})));
    assert_eq!(updated.owned_by("me", Operation::Apply), [".spec.notes.a"]);
    assert_eq!(updated.owned_by("you", Operation::Update), [".spec.beds"]);
    // A manager does not own the fields that it removes, and neither does any other manager.
    let removed = updated.update("they", garden(json!({"beds": 4})));
    assert!(removed.owned_by("me", Operation::Apply).is_empty());
    assert!(removed.owned_by("they", Operation::Update).is_empty());
}

#[test]
fn ap13_the_first_apply_credits_what_was_there() {
    let untracked = World { live: Some(garden(json!({"beds": 3}))), managed: ManagedFields::default() };
    assert!(untracked.update("you", garden(json!({"beds": 4}))).managed.is_empty());
    assert!(untracked.apply("me", &garden(json!({"beds": 5})), false).is_none());
    let applied = untracked.apply("me", &garden(json!({"beds": 3})), false).unwrap();
    assert_eq!(applied.owned_by("before-first-apply", Operation::Update), [".spec", ".spec.beds"]);
    assert_eq!(applied.owned_by("me", Operation::Apply), [".spec.beds"]);
}

#[test]
fn ap21_each_part_has_its_own_fields() {
    let mut world = World::default();
    let mut object = garden(json!({"beds": 3}));
    object.insert("status".to_owned(), json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    world.write("worker", |writing, world| {
        Writing { part: Part::Whole, ..writing }.track(None, &object, &mut world.managed).unwrap();
    });
    let subresources: Vec<String> = world.managed.iter().map(|entry| entry.manager.subresource.clone()).collect();
    assert_eq!(subresources, ["status", ""]);
    assert_eq!(world.owned_by("worker", Operation::Update), [".spec", ".spec.beds"]);
    world.live = Some(object.clone());
    let applied = world.force("me", &object);
    assert_eq!(applied.owned_by("me", Operation::Apply), [".spec.beds"]);
}

#[test]
fn ap6_a_refusal_names_each_manager_once_before_its_fields() {
    let of = |manager: &str| Conflict { manager: manager.to_owned(), path: Path(Vec::new()) };
    let told = |conflicts: &[Conflict]| refusal(conflicts).message;
    assert_eq!(told(&[of("a")]), "Apply failed with 1 conflict: conflict with a: ");
    let three = "Apply failed with 3 conflicts: conflicts with a:\n- \n- \nconflicts with b:\n- ";
    assert_eq!(told(&[of("a"), of("a"), of("b")]), three);
}
