//! Tests the applier against an upstream whose changes arrive in any possible order: watches and
//! lists in sequence, and responses to own writes before or after their watch events.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use ballast_api::karmada::work::v1alpha2::ResourceBinding;
use ballast_base::clock::SystemClock;
use ballast_store::MemoryStore;
use ballast_watch::Limits;

/// One step of the test. Objects are numbers.
#[derive(Clone, Debug)]
enum Act {
    /// Another client writes or creates the object upstream.
    Write(u8),
    Delete(u8),
    /// Ballast writes the object upstream; the response is delayed.
    Own(u8),
    /// The oldest response arrives.
    Answer,
    /// The watch delivers the next change.
    Watch,
    /// The watch is lost, and everything is listed in its current state, in pages with responses
    /// between them.
    List {
        answers_between: bool,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let object = 0..3u8;
    prop_oneof![
        3 => object.clone().prop_map(Act::Write),
        1 => object.clone().prop_map(Act::Delete),
        4 => object.prop_map(Act::Own),
        4 => Just(Act::Answer),
        5 => Just(Act::Watch),
        1 => any::<bool>().prop_map(|answers_between| Act::List { answers_between }),
    ]
}

#[derive(Default)]
struct Home {
    version: u64,
    objects: BTreeMap<u8, Tree>,
    /// Undelivered watch events: the objects, and whether they were deleted.
    untold: std::collections::VecDeque<(bool, Tree)>,
    answers: std::collections::VecDeque<Tree>,
}

impl Home {
    fn write(&mut self, object: u8) -> Tree {
        self.version += 1;
        let version = self.version;
        let fresh = || {
            let uid = format!("u{version}");
            json!({"metadata": {"name": format!("b{object}"), "namespace": "shop", "uid": uid}, "spec": {}})
        };
        let tree = self.objects.remove(&object).map_or_else(fresh, Value::Object);
        let Value::Object(mut tree) = tree else { unreachable!() };
        tree["metadata"]["resourceVersion"] = version.to_string().into();
        // Every second version has the same content as the previous one.
        tree["spec"]["unknown"] = (version / 2).into();
        self.objects.insert(object, tree.clone());
        self.untold.push_back((false, tree.clone()));
        tree
    }

    fn delete(&mut self, object: u8) {
        let Some(mut last) = self.objects.remove(&object) else { return };
        self.version += 1;
        last["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.untold.push_back((true, last));
    }
}

struct Run {
    row: Arc<ResourceKind>,
    applier: Applier,
    home: Home,
}

impl Run {
    async fn take(&self, change: Change, source: Source) {
        self.applier.take(&self.row, vec![change], source).await.unwrap();
    }

    async fn act(&mut self, act: Act) {
        match act {
            Act::Write(object) => drop(self.home.write(object)),
            Act::Delete(object) => self.home.delete(object),
            Act::Own(object) if self.home.objects.contains_key(&object) => {
                let answer = self.home.write(object);
                self.home.answers.push_back(answer);
            }
            Act::Own(_) => {}
            Act::Answer => {
                if let Some(answer) = self.home.answers.pop_front() {
                    self.take(Change::Put(answer), Source::Response).await;
                }
            }
            Act::Watch => {
                if let Some((is_gone, object)) = self.home.untold.pop_front() {
                    let change = if is_gone { Change::Deleted(object) } else { Change::Put(object) };
                    self.take(change, Source::Reflector).await;
                }
            }
            Act::List { answers_between } => self.list(answers_between).await,
        }
    }

    async fn list(&mut self, answers_between: bool) {
        self.home.untold.clear();
        let snapshot: Vec<Tree> = self.home.objects.values().cloned().collect();
        if answers_between {
            let objects: Vec<u8> = self.home.objects.keys().copied().collect();
            for object in objects {
                let answer = self.home.write(object);
                self.take(Change::Put(answer), Source::Response).await;
            }
        }
        let mut listed = HashSet::new();
        for object in snapshot {
            listed.insert(Key::namespaced(self.row.resource, "shop", metadata(&object, "name")));
            self.take(Change::Put(object), Source::Reflector).await;
        }
        self.applier.prune(self.row.resource, &listed).await.unwrap();
    }

    /// Returns the contents of the local log in the form of `there`.
    fn here(&self) -> Vec<(String, String, Value)> {
        let view = self.applier.view();
        let told = |object: &Arc<Object>| {
            let tree = object.value().unwrap();
            (object.key.name.to_string(), object.uid.to_string(), tree["spec"].clone())
        };
        view.list(self.row.resource, None).map(told).collect()
    }

    fn there(&self) -> Vec<(String, String, Value)> {
        let told = |object: &Tree| {
            let [name, uid] = ["name", "uid"].map(|member| metadata(object, member).to_owned());
            (name, uid, object["spec"].clone())
        };
        self.home.objects.values().map(told).collect()
    }
}

async fn begin() -> Run {
    let limits = Limits::default();
    let (cache, writer, _task) =
        ballast_watch::open(Arc::new(MemoryStore::new()), Arc::new(SystemClock), limits).await.unwrap();
    let row = Arc::new(ResourceKind::of::<ResourceBinding>());
    Run { row, applier: Applier::new(cache, writer), home: Home::default() }
}

proptest! {
    #[test]
    fn bs1_whatever_the_order_the_log_comes_to_what_is_at_home(acts in prop::collection::vec(act(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut run = begin().await;
            run.list(false).await;
            for act in acts {
                run.act(act).await;
            }
            // The watch delivers the rest, and the delayed responses arrive last.
            while !run.home.untold.is_empty() {
                run.act(Act::Watch).await;
            }
            prop_assert_eq!(run.here(), run.there());
            while !run.home.answers.is_empty() {
                run.act(Act::Answer).await;
            }
            prop_assert_eq!(run.here(), run.there());
            let before = run.applier.view().revision;
            run.list(false).await;
            prop_assert_eq!(run.applier.view().revision, before, "what is the same is not written");
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn bs4_a_version_is_known_only_for_the_newest_state_here() {
    let mut run = begin().await;
    run.act(Act::Write(0)).await;
    run.act(Act::Watch).await;
    let key = Key::namespaced(run.row.resource, "shop", "b0");
    let first = run.applier.view().get(&key).unwrap().revision;
    assert_eq!(run.applier.version(&key, first).await.as_deref(), Some("1"));
    run.act(Act::Write(0)).await;
    run.act(Act::Watch).await;
    assert_eq!(run.applier.version(&key, first).await, None);
    let second = run.applier.view().get(&key).unwrap().revision;
    assert_eq!(run.applier.version(&key, second).await.as_deref(), Some("2"));
}
