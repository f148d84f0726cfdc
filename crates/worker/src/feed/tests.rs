use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use ballast_base::clock::{Clock, SystemClock};
use ballast_k8s::{Document, Key, Object};
use ballast_store::MemoryStore;
use ballast_watch::{self as watch, Atomicity, Draft, EventKind, Expect, Limits, Write, Writer};

const BINDINGS: GroupResource = GroupResource::new("resourcebindings.work.karmada.io");
const CLUSTERS: GroupResource = GroupResource::new("clusters.cluster.karmada.io");
const WORKS: GroupResource = GroupResource::new("works.work.karmada.io");
const INTEREST: [GroupResource; 2] = [BINDINGS, CLUSTERS];

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(usize, u8),
    Delete(usize, u8),
    /// The loop takes the next item.
    Take,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_usize..3, 0_u8..6).prop_map(|(kind, name)| Step::Put(kind, name)),
        1 => (0_usize..3, 0_u8..6).prop_map(|(kind, name)| Step::Delete(kind, name)),
        3 => Just(Step::Take),
    ];
    prop::collection::vec(step, 0..120)
}

fn key(kind: usize, name: u8) -> Key {
    Key::namespaced([BINDINGS, CLUSTERS, WORKS][kind], "shop", format!("web-{name}"))
}

fn object(key: &Key) -> Map<String, Value> {
    let object = json!({"metadata": {"namespace": *key.namespace, "name": *key.name}});
    let Value::Object(object) = object else { unreachable!("written as an object above") };
    object
}

/// Creates an object, or its next version.
async fn put(writer: &Writer, view: &View, key: &Key) {
    let expect = view.get(key).map_or(Expect::Absent, |object| Expect::At(object.revision));
    let write = Write { key: key.clone(), expect, draft: Draft::Put(Document::new(object(key))) };
    writer.commit(vec![write], Atomicity::All).await.unwrap().remove(0).unwrap();
}

async fn delete(writer: &Writer, there: &Object) {
    let draft = Draft::Delete(Document::new(object(&there.key)));
    let write = Write { key: there.key.clone(), expect: Expect::At(there.revision), draft };
    writer.commit(vec![write], Atomicity::All).await.unwrap().remove(0).unwrap();
}

async fn open(limits: Limits) -> (Cache, Writer, watch::Task) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    watch::open(Arc::new(MemoryStore::new()), clock, limits).await.unwrap()
}

/// The knowledge of a loop from its input: the revision of each object.
#[derive(Default)]
struct Known {
    objects: BTreeMap<Key, Revision>,
    /// The revision up to which everything was delivered.
    noticed: Revision,
    missed: usize,
}

impl Known {
    fn of(view: &View) -> BTreeMap<Key, Revision> {
        let all = [BINDINGS, CLUSTERS, WORKS].into_iter().flat_map(|kind| view.list(kind, None));
        all.map(|object| (object.key.clone(), object.revision)).collect()
    }

    /// Takes the next item, and checks the guarantees of the feed. Returns whether there was one.
    fn take(&mut self, feed: &mut Feed) -> bool {
        let given = feed.next_ready();
        let is_any = given.is_some();
        match given {
            None => {}
            Some(FeedItem::Missed) => self.missed += 1,
            Some(FeedItem::Changes(events)) => events.iter().for_each(|event| self.notice(event)),
            Some(FeedItem::Events(events, through)) => {
                events.iter().for_each(|event| self.notice(event));
                self.reach(through);
                feed.delivered(&events);
            }
            Some(FeedItem::CaughtUp { revision, .. }) => {
                assert_eq!(Known::of(&feed.known()), self.objects);
                self.reach(revision);
            }
        }
        if !feed.is_behind() {
            assert_eq!(Known::of(&feed.known()), self.objects, "the base is what was noticed");
        }
        is_any
    }

    fn notice(&mut self, event: &Event) {
        let object = &event.object;
        assert!(INTEREST.contains(&object.key.resource) && event.revision > self.noticed);
        let known = match event.kind {
            EventKind::Deleted => self.objects.remove(&object.key),
            _ => self.objects.insert(object.key.clone(), object.revision),
        };
        let said = event.previous.as_ref().map(|before| before.revision);
        assert_eq!(known, said, "an event begins where the last one ended");
    }

    fn reach(&mut self, revision: Revision) {
        assert!(self.objects.values().all(|known| *known <= revision) && revision >= self.noticed);
        self.noticed = revision;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Holds regardless of how late the loop is, and how often it misses events.
    #[test]
    fn a_loop_learns_each_change_once_and_from_where_it_stood(steps in steps(), window in 1_usize..6, turn in 1_usize..4) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let limits = Limits { window_events_max: window, events_per_turn_max: turn, ..Limits::default() };
            let (cache, writer, _task) = open(limits).await;
            let (_, mut feed) = Feed::new(cache.clone(), INTEREST.to_vec());
            let mut known = Known::default();
            for step in steps {
                let view = cache.view();
                match step {
                    Step::Put(kind, name) => put(&writer, &view, &key(kind, name)).await,
                    Step::Delete(kind, name) => if let Some(there) = view.get(&key(kind, name)) {
                        delete(&writer, there).await;
                    },
                    Step::Take => drop(known.take(&mut feed)),
                }
            }
            while known.take(&mut feed) {}
            assert_eq!(known.objects, Known::of(&cache.view().only(&INTEREST)));
        });
    }
}

#[tokio::test]
async fn who_takes_events_in_time_is_given_the_events_and_no_difference() {
    let (cache, writer, _task) = open(Limits { window_events_max: 4, ..Limits::default() }).await;
    let (_, mut feed) = Feed::new(cache.clone(), INTEREST.to_vec());
    let mut known = Known::default();
    for number in 0..40 {
        put(&writer, &cache.view(), &key(0, number % 3)).await;
        assert!(number % 4 != 3 || known.take(&mut feed));
    }
    assert_eq!(known.missed, 0);
    (0..5).for_each(|_| assert!(!known.take(&mut feed)));
    for number in 0..5 {
        put(&writer, &cache.view(), &key(0, number)).await;
    }
    while known.take(&mut feed) {}
    assert_eq!(known.missed, 1);
}

#[tokio::test]
async fn a_loop_that_has_caught_up_keeps_no_old_version_whatever_happens_to_other_kinds() {
    let (cache, writer, _task) = open(Limits { window_events_max: 1, ..Limits::default() }).await;
    let (of_interest, of_another) = (key(0, 1), key(2, 1));
    for key in [&of_interest, &of_another] {
        put(&writer, &cache.view(), key).await;
    }
    let (view, mut feed) = Feed::new(cache.clone(), INTEREST.to_vec());
    let old = |key: &Key| Arc::downgrade(view.get(key).unwrap());
    let (first, other) = (old(&of_interest), old(&of_another));
    drop(view);
    // The window holds the newest event, including the version before it.
    for key in [&of_interest, &of_another].repeat(2) {
        put(&writer, &cache.view(), key).await;
    }
    assert!(other.upgrade().is_none());
    assert!(first.upgrade().is_some(), "it was not noticed that it was replaced");
    let mut known = Known::default();
    known.objects.insert(of_interest.clone(), first.upgrade().unwrap().revision);
    while known.take(&mut feed) {}
    // The difference is dropped on a blocking thread.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while first.upgrade().is_some() {
        assert!(std::time::Instant::now() < deadline, "somebody holds the first version");
        yield_now().await;
    }
    let second = Arc::downgrade(cache.view().get(&of_interest).unwrap());
    for _ in 0..2 {
        put(&writer, &cache.view(), &of_interest).await;
        while known.take(&mut feed) {}
    }
    assert!(second.upgrade().is_none(), "where events came in time it is gone at once");
}
