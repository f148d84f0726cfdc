//! Synthesises the events between two views, for subscribers that fell behind.
//!
//! *Invariant:* applying the events to the first view gives the second. An object that was changed
//! several times has one event, and one that was created and deleted in between has none.
//!
//! A difference is computed in steps, because there may be a million changes. `OrdMap::diff`
//! borrows both maps, so it could not pause between two steps, and it compares whole objects where
//! a pointer is enough. So `next` walks both views in parallel, from the end of the last step. An
//! object that both views share costs some nanoseconds, and a shared kind costs nothing.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use super::View;
use super::window::{Event, EventKind};
use ballast_k8s::{Key, Object};

/// The maximum number of objects that one step compares, changed or not: about a millisecond.
const LOOKED_AT_MAX: usize = 1 << 15;

/// The changes from one view to another. Holds both views, and so every object that was replaced in
/// between, until it is dropped.
pub struct Difference {
    base: View,
    newest: View,
    /// For each remaining kind, the key after which the comparison continues. The first kind is the
    /// current one.
    places: VecDeque<Key>,
    /// The number of changed objects found so far.
    changed: usize,
}

impl Difference {
    pub fn new(base: View, newest: View) -> Difference {
        let mut kinds = [base.kinds(), newest.kinds()].concat();
        kinds.sort_unstable();
        kinds.dedup();
        kinds.retain(|kind| !base.shares(&newest, *kind));
        let places = kinds.into_iter().map(|kind| Key::cluster(kind, "")).collect();
        Difference { base, newest, places, changed: 0 }
    }

    /// Returns the second view.
    pub fn newest(&self) -> &View {
        &self.newest
    }

    /// Returns the number of changed objects found so far.
    pub fn changed(&self) -> usize {
        self.changed
    }

    /// Returns the events of at most `most` further objects, by kind and in key order. A step may
    /// return none. `None` after the last step.
    ///
    /// An event has the revision of its object. For `Deleted` the object is its last state in the
    /// base, and the revision is the latest possible one of the deletion. An object that was
    /// deleted and created again has an event for each.
    pub fn next(&mut self, most: usize) -> Option<Vec<Arc<Event>>> {
        let place = self.places.pop_front()?;
        let mut events = Vec::new();
        if let Some(last) = self.walk(&place, most.max(1), &mut events) {
            self.places.push_front(last);
        }
        Some(events)
    }

    /// Compares the objects of a kind after a key. Returns the key after which the next step
    /// continues.
    fn walk(&mut self, after: &Key, most: usize, events: &mut Vec<Arc<Event>>) -> Option<Key> {
        let place = (&*after.namespace, &*after.name);
        let mut old = self.base.list_after(after.resource, None, place).peekable();
        let mut new = self.newest.list_after(after.resource, None, place).peekable();
        let mut changed = 0;
        for looked_at in 1_usize.. {
            let (before, after) = match (old.peek(), new.peek()) {
                (Some(before), Some(after)) => match compare(before, after) {
                    Ordering::Less => (old.next(), None),
                    Ordering::Equal => (old.next(), new.next()),
                    Ordering::Greater => (None, new.next()),
                },
                _ => (old.next(), new.next()),
            };
            let Some(last) = after.or(before) else { break };
            let is_same = |(before, after): (&Arc<Object>, &Arc<Object>)| {
                // A state that was loaded again shares no pointers.
                Arc::ptr_eq(before, after) || before.revision == after.revision
            };
            if !before.zip(after).is_some_and(is_same) {
                changed += 1;
                events.extend(self.between(before, after).into_iter().flatten().map(Arc::new));
            }
            if changed == most || looked_at == LOOKED_AT_MAX {
                self.changed += changed;
                return Some(last.key.clone());
            }
        }
        self.changed += changed;
        None
    }

    /// Returns the events that lead from one state of an object to another.
    fn between(&self, before: Option<&Arc<Object>>, after: Option<&Arc<Object>>) -> [Option<Event>; 2] {
        let (mut gone, mut there) = (None, None);
        let is_another = |(before, after): (&Arc<Object>, &Arc<Object>)| before.created != after.created;
        let is_created_again = before.zip(after).is_some_and(is_another);
        if let Some(object) = before.filter(|_| after.is_none() || is_created_again) {
            let revision = after.map_or(self.newest.revision, |after| after.revision);
            let (kind, previous) = (EventKind::Deleted, Some(Arc::clone(object)));
            gone = Some(Event::new(revision, kind, Arc::clone(object), previous, 0));
        }
        if let Some(object) = after {
            let previous = before.filter(|_| !is_created_again).cloned();
            let kind = if previous.is_some() { EventKind::Updated } else { EventKind::Created };
            there = Some(Event::new(object.revision, kind, Arc::clone(object), previous, 0));
        }
        [gone, there]
    }
}

/// Compares in key order. Shared objects are equal without comparing their keys.
fn compare(one: &Arc<Object>, other: &Arc<Object>) -> Ordering {
    if Arc::ptr_eq(one, other) {
        return Ordering::Equal;
    }
    let (one, other) = (&one.key, &other.key);
    one.namespace.cmp(&other.namespace).then_with(|| one.name.cmp(&other.name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use ballast_k8s::{GroupResource, Revision};

    const KINDS: [GroupResource; 3] = [
        GroupResource::new("clusters.cluster.karmada.io"),
        GroupResource::new("resourcebindings.work.karmada.io"),
        GroupResource::new("works.work.karmada.io"),
    ];

    /// The knowledge of a subscriber from events: the revision of each object, and of its creation.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Known(BTreeMap<Key, (Revision, Revision)>);

    impl Known {
        fn of(view: &View) -> Known {
            let all = KINDS.into_iter().flat_map(|kind| view.list(kind, None));
            Known(all.map(|object| (object.key.clone(), (object.revision, object.created))).collect())
        }

        /// Applies an event and checks its invariants.
        fn notice(&mut self, event: &Event) {
            let (object, before) = (&event.object, event.previous.as_deref());
            let said = before.map(|before| (before.revision, before.created));
            let known = match event.kind {
                EventKind::Deleted => self.0.remove(&object.key),
                _ => self.0.insert(object.key.clone(), (object.revision, object.created)),
            };
            assert_eq!(known, said, "an event begins where the last one ended: {event:?}");
            match event.kind {
                EventKind::Created => assert!(before.is_none() && event.revision == object.revision),
                EventKind::Updated => {
                    assert!(before.is_some_and(|before| before.created == object.created));
                    assert_eq!(event.revision, object.revision);
                }
                EventKind::Deleted => assert!(before.is_some_and(|before| event.revision > before.revision)),
            }
        }
    }

    fn object(key: Key, revision: Revision, created: Revision) -> Arc<Object> {
        let text = json!({"metadata": {"name": &*key.name, "namespace": &*key.namespace}}).to_string();
        let mut object = Object::decode(key, revision, text.into()).unwrap();
        object.created = created;
        Arc::new(object)
    }

    /// Returns the next change of an object: a creation, update or deletion.
    fn change(view: &View, key: Key, goes: bool) -> Option<Event> {
        let (revision, previous) = (view.revision.next(), view.get(&key).cloned());
        let created = previous.as_ref().map_or(revision, |previous| previous.created);
        let kind = match (&previous, goes) {
            (None, true) => return None,
            (None, false) => EventKind::Created,
            (Some(_), false) => EventKind::Updated,
            (Some(_), true) => EventKind::Deleted,
        };
        Some(Event::new(revision, kind, object(key, revision, created), previous, 0))
    }

    fn all(mut difference: Difference, most: usize) -> Vec<Arc<Event>> {
        let mut events = Vec::new();
        while let Some(turn) = difference.next(most) {
            assert!(turn.len() <= 2 * most);
            events.extend(turn);
        }
        events
    }

    fn key(kind: usize, namespace: u8, name: u8) -> Key {
        match kind {
            0 => Key::cluster(KINDS[0], format!("m{name}")),
            _ => Key::namespaced(KINDS[kind], format!("n{namespace}"), format!("web-{name}")),
        }
    }

    /// Generates steps: kind, namespace, name, and whether the object is deleted.
    fn steps(most: usize) -> impl Strategy<Value = Vec<(usize, u8, u8, bool)>> {
        prop::collection::vec((0_usize..3, 0_u8..2, 0_u8..12, prop::bool::weighted(0.3)), 0..most)
    }

    proptest! {
        /// Applying a difference and applying all events lead to the same state.
        #[test]
        fn the_difference_leads_where_the_events_lead(before in steps(80), since in steps(80), most in 1_usize..9, anew in any::<bool>()) {
            let mut view = View::empty_at(Revision::ZERO);
            let apply = |steps: &[(usize, u8, u8, bool)], view: &mut View, known: &mut Known| {
                for &(kind, namespace, name, goes) in steps {
                    if let Some(event) = change(view, key(kind, namespace, name), goes) {
                        known.notice(&event);
                        view.apply(&event);
                    }
                }
            };
            let mut by_events = Known::default();
            apply(&before, &mut view, &mut by_events);
            let base = view.clone();
            let mut by_difference = by_events.clone();
            apply(&since, &mut view, &mut by_events);
            if anew {
                // Simulates a follower that fell behind and reloads the state.
                let mut loaded = View::empty_at(view.revision);
                for known in KINDS.into_iter().flat_map(|kind| view.list(kind, None)) {
                    loaded.insert(object(known.key.clone(), known.revision, known.created));
                }
                view = loaded;
            }
            let events = all(Difference::new(base, view.clone()), most);
            let mut touched: Vec<&Key> = events.iter().map(|event| &event.object.key).collect();
            let count = touched.len();
            touched.dedup();
            let again = events.iter().filter(|event| event.kind == EventKind::Deleted && view.get(&event.object.key).is_some());
            prop_assert_eq!(touched.len() + again.count(), count, "one event for each object");
            events.iter().for_each(|event| by_difference.notice(event));
            prop_assert_eq!(&by_difference, &by_events);
            prop_assert_eq!(by_difference, Known::of(&view));
        }
    }

    #[test]
    fn a_turn_looks_at_so_many_and_what_is_shared_is_no_change() {
        const COUNT: usize = LOOKED_AT_MAX + 10;
        let name = |number: usize| Key::namespaced(KINDS[1], "shop", format!("web-{number:06}"));
        let mut base = View::empty_at(Revision(1));
        (0..COUNT).for_each(|number| base.insert(object(name(number), Revision(1), Revision(1))));
        base.insert(object(key(0, 0, 1), Revision(1), Revision(1)));
        let mut newest = base.clone();
        for (number, goes) in [(1, false), (COUNT - 1, true), (COUNT, false)] {
            newest.apply(&change(&newest, name(number), goes).unwrap());
        }
        let mut difference = Difference::new(base, newest);
        let seen = |events: Option<Vec<Arc<Event>>>| {
            events.map(|events| events.iter().map(|event| (event.kind, event.object.key.clone())).collect::<Vec<_>>())
        };
        assert_eq!(seen(difference.next(5)).unwrap(), [(EventKind::Updated, name(1))], "then others have their turn");
        let rest = [(EventKind::Deleted, name(COUNT - 1)), (EventKind::Created, name(COUNT))];
        assert_eq!(seen(difference.next(5)).unwrap(), rest);
        assert_eq!((seen(difference.next(5)), difference.changed()), (None, 3), "no look at the kind that is shared");
        assert_eq!(difference.newest().revision, Revision(4));
    }
}
