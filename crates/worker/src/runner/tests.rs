use std::sync::Mutex;

use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use super::*;
use crate::{DEBOUNCE, KeyOutcome};
use ballast_base::clock::SystemClock;
use ballast_k8s::{Document, GroupResource, Revision};
use ballast_store::MemoryStore;
use ballast_watch::{self as watch, Atomicity, Draft, EventKind, Expect, Limits, Write, Writer};

const BINDINGS: GroupResource = GroupResource::new("resourcebindings.work.karmada.io");
/// A deadline, not an expected duration.
const PATIENCE: Duration = Duration::from_secs(60);

/// The calls that a worker has received.
#[derive(Default)]
struct Diary {
    lists: usize,
    /// The event kind, the name, and the values before and after.
    heard: Vec<(EventKind, String, Option<i64>, i64)>,
    worked: Vec<String>,
    batches: usize,
    doubted: Vec<String>,
}

/// A worker that marks changed keys, and waits for a permit in each of its batches.
struct Diarist {
    diary: Arc<Mutex<Diary>>,
    permits: Arc<Semaphore>,
}

impl Work for Diarist {
    fn name(&self) -> &'static str {
        "diarist"
    }

    fn interest(&self) -> Vec<GroupResource> {
        vec![BINDINGS]
    }

    fn list(&mut self, _view: &View, _queue: &mut Queue) {
        self.diary.lock().unwrap().lists += 1;
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        let (name, before) = (event.object.key.name.to_string(), event.previous.as_ref());
        let heard = (event.kind, name, before.map(|before| value(before)), value(&event.object));
        self.diary.lock().unwrap().heard.push(heard);
        queue.mark_changed(event.object.key.clone(), 0, event.revision);
    }

    /// Releases a batch that waits for a permit.
    fn end(&mut self) {
        self.permits.add_permits(1);
    }

    fn invalidate(&mut self, key: &Key) {
        self.diary.lock().unwrap().doubted.push(key.name.to_string());
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (diary, permits) = (Arc::clone(&self.diary), Arc::clone(&self.permits));
        async move {
            permits.acquire().await.unwrap().forget();
            let mut diary = diary.lock().unwrap();
            diary.batches += 1;
            diary.worked.extend(keys.iter().map(|key| key.name.to_string()));
            let outcomes = keys.into_iter().map(|key| KeyOutcome::new(key, Next::Done)).collect();
            BatchOutcome { outcomes, ..BatchOutcome::default() }
        }
        .boxed()
    }

    fn batch(&self) -> usize {
        100
    }
}

struct Scene {
    cache: Cache,
    writer: Writer,
    _task: watch::Task,
    diary: Arc<Mutex<Diary>>,
    permits: Arc<Semaphore>,
}

impl Scene {
    /// Opens a scene with a window of four events, which are delivered two at a time.
    async fn open(permits: usize) -> (Scene, Runner) {
        let limits = Limits { window_events_max: 4, events_per_turn_max: 2, ..Limits::default() };
        Scene::with(limits, permits).await
    }

    async fn with(limits: Limits, permits: usize) -> (Scene, Runner) {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (cache, writer, task) =
            watch::open(Arc::new(MemoryStore::new()), Arc::clone(&clock), limits).await.unwrap();
        let (diary, permits) = (Arc::<Mutex<Diary>>::default(), Arc::new(Semaphore::new(permits)));
        let work = Diarist { diary: Arc::clone(&diary), permits: Arc::clone(&permits) };
        let runner = Runner::new(Box::new(work), cache.clone(), clock);
        (Scene { cache, writer, _task: task, diary, permits }, runner)
    }

    fn at(&self, name: &str) -> Option<Revision> {
        self.cache.view().get(&key(name)).map(|object| object.revision)
    }

    /// Writes these values, one after the other.
    async fn put(&self, name: &str, values: std::ops::RangeInclusive<i64>) {
        for value in values {
            let expect = self.at(name).map_or(Expect::Absent, Expect::At);
            self.write(vec![Write { key: key(name), expect, draft: Draft::Put(Document::new(object(name, value))) }])
                .await;
        }
    }

    async fn delete(&self, name: &str) {
        let expect = Expect::At(self.at(name).unwrap());
        let draft = Draft::Delete(Document::new(object(name, -1)));
        self.write(vec![Write { key: key(name), expect, draft }]).await;
    }

    /// Writes more events than the window holds, in one transaction, so that every subscriber
    /// misses some.
    async fn flood(&self) {
        self.flood_of(9).await;
    }

    async fn flood_of(&self, events: usize) {
        let create = |name: String| {
            let draft = Draft::Put(Document::new(object(&name, 0)));
            Write { key: key(&name), expect: Expect::Absent, draft }
        };
        self.write((0..events).map(|number| create(format!("flood-{number}"))).collect()).await;
    }

    async fn write(&self, writes: Vec<Write>) {
        for outcome in self.writer.commit(writes, Atomicity::All).await.unwrap() {
            outcome.unwrap();
        }
    }

    /// Takes the events since the last call.
    fn heard(&self) -> Vec<(EventKind, String, Option<i64>, i64)> {
        std::mem::take(&mut self.diary.lock().unwrap().heard)
    }

    fn count_worked(&self, name: &str) -> usize {
        self.diary.lock().unwrap().worked.iter().filter(|worked| *worked == name).count()
    }

    async fn wait_for(&self, what: &str, is_so: impl Fn() -> bool) {
        let waiting = async {
            while !is_so() {
                yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what}"));
    }
}

fn key(name: &str) -> Key {
    Key::namespaced(BINDINGS, "shop", name)
}

fn object(name: &str, value: i64) -> Map<String, Value> {
    let object = json!({"metadata": {"namespace": "shop", "name": name}, "spec": {"value": value}});
    let Value::Object(object) = object else { unreachable!("written as an object above") };
    object
}

fn value(object: &ballast_k8s::Object) -> i64 {
    object.value().unwrap()["spec"]["value"].as_i64().unwrap()
}

async fn settle(runner: &mut Runner) {
    for _ in 0..1_000 {
        if !runner.turn().await {
            return;
        }
    }
    panic!("it does not settle");
}

#[tokio::test]
async fn requests_have_their_turn_between_few_events() {
    let (scene, mut runner) = Scene::with(Limits::default(), 0).await;
    scene.flood_of(5 * EVENTS_PER_TURN / 2).await;
    let diary = Arc::clone(&scene.diary);
    // Simulates a request on the same thread: it records the number of delivered events whenever it
    // runs.
    let request = tokio::spawn(async move {
        let mut seen = vec![0];
        while *seen.last().unwrap() < 5 * EVENTS_PER_TURN / 2 {
            yield_now().await;
            seen.push(diary.lock().unwrap().heard.len());
        }
        seen
    });
    // The request has started.
    yield_now().await;
    runner.drain_feed().await;
    let seen = tokio::time::timeout(PATIENCE, request).await.unwrap().unwrap();
    let steps: Vec<usize> = seen.windows(2).map(|pair| pair[1] - pair[0]).filter(|&step| step > 0).collect();
    assert_eq!(steps, [EVENTS_PER_TURN, EVENTS_PER_TURN, EVENTS_PER_TURN / 2]);
}

#[tokio::test]
async fn a_worker_that_missed_events_is_told_what_has_changed_and_does_not_list_again() {
    use EventKind::{Created, Deleted, Updated};
    let (scene, mut runner) = Scene::open(Semaphore::MAX_PERMITS).await;
    for name in ["a", "b", "c", "same"] {
        scene.put(name, 1..=1).await;
    }
    settle(&mut runner).await;
    assert_eq!(scene.heard().len(), 4);
    for _ in 0..2 {
        scene.put("a", 2..=9).await;
        for name in ["b", "c"] {
            scene.delete(name).await;
        }
        scene.put("b", 5..=6).await;
        scene.put("d", 1..=3).await;
        scene.put("between", 1..=1).await;
        scene.delete("between").await;
        settle(&mut runner).await;
        let told = [
            (Updated, "a", Some(1), 9),
            (Deleted, "b", Some(1), 1),
            (Created, "b", None, 6),
            (Deleted, "c", Some(1), 1),
            (Created, "d", None, 3),
        ];
        assert_eq!(scene.heard(), told.map(|(kind, name, before, after)| (kind, name.to_owned(), before, after)));
        // Events are delivered one by one again.
        scene.put("a", 10..=10).await;
        scene.put("a", 1..=1).await;
        scene.put("c", 1..=1).await;
        scene.delete("d").await;
        settle(&mut runner).await;
        assert_eq!(scene.heard().len(), 4);
        scene.delete("b").await;
        scene.put("b", 1..=1).await;
        settle(&mut runner).await;
        assert_eq!(scene.heard().len(), 2);
    }
    let diary = scene.diary.lock().unwrap();
    assert_eq!(diary.lists, 1);
    assert!(diary.doubted.is_empty(), "no work ran while it was late");
    assert!(!diary.worked.contains(&"between".to_owned()));
    assert_eq!(diary.worked.iter().filter(|name| *name == "same").count(), 1);
}

#[tokio::test]
async fn a_worker_notices_changes_in_turns_and_begins_nothing_in_between() {
    let (scene, mut runner) = Scene::open(Semaphore::MAX_PERMITS).await;
    scene.flood().await;
    let mut heard = Vec::new();
    while scene.diary.lock().unwrap().worked.is_empty() {
        assert!(runner.turn().await);
        heard.push(scene.heard().len());
    }
    assert_eq!(heard.iter().sum::<usize>(), 9);
    assert!(heard.iter().all(|count| *count <= 2), "{heard:?}");
    assert_eq!(scene.diary.lock().unwrap().worked.len(), 9, "one batch, when all was noticed");
}

#[tokio::test]
async fn work_that_ended_while_events_were_missed_is_repeated_once() {
    let (scene, mut runner) = Scene::open(0).await;
    scene.put("a", 1..=1).await;
    let meanwhile = async {
        // The work on `a` has started, and reads states for which there will be no event.
        scene.flood().await;
        scene.permits.add_permits(1);
    };
    tokio::join!(runner.turn(), meanwhile);
    assert_eq!(scene.count_worked("a"), 1);
    scene.permits.add_permits(10);
    settle(&mut runner).await;
    assert_eq!((scene.count_worked("a"), scene.count_worked("flood-0")), (2, 1));
    assert_eq!(scene.diary.lock().unwrap().doubted, ["a"]);
    // Earlier work is not in doubt when the loop falls behind again.
    scene.put("a", 2..=9).await;
    settle(&mut runner).await;
    assert_eq!((scene.count_worked("a"), scene.count_worked("flood-0")), (3, 1));
    assert_eq!(scene.diary.lock().unwrap().lists, 1);
}

#[tokio::test]
async fn work_that_goes_on_while_events_are_missed_is_repeated_when_it_ends() {
    let (scene, runner) = Scene::open(0).await;
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(runner.run(shutdown.clone()));
    scene.put("a", 1..=1).await;
    scene.wait_for("the event", || !scene.diary.lock().unwrap().heard.is_empty()).await;
    yield_now().await;
    scene.flood().await;
    scene.wait_for("the doubt", || scene.diary.lock().unwrap().doubted == ["a"]).await;
    assert_eq!(scene.count_worked("a"), 0);
    scene.permits.add_permits(10);
    scene.wait_for("the repetition", || scene.count_worked("a") == 2 && scene.count_worked("flood-8") == 1).await;
    shutdown.cancel();
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
    assert_eq!(scene.diary.lock().unwrap().lists, 1);
}

#[tokio::test]
async fn a_long_batch_learns_that_the_loop_ends() {
    let (scene, runner) = Scene::open(0).await;
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(runner.run(shutdown.clone()));
    scene.put("a", 1..=1).await;
    scene.wait_for("the event", || !scene.diary.lock().unwrap().heard.is_empty()).await;
    yield_now().await;
    assert_eq!(scene.count_worked("a"), 0);
    shutdown.cancel();
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
    assert_eq!(scene.count_worked("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_wakes_at_once_after_a_pause_and_then_once_for_all_that_comes_while_it_rests() {
    async fn until(what: &str, is_so: impl Fn() -> bool) {
        let waiting = async {
            while !is_so() {
                tokio::time::sleep(DEBOUNCE / 100).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what}"));
    }
    let (scene, runner) = Scene::open(Semaphore::MAX_PERMITS).await;
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(runner.run(shutdown.clone()));
    tokio::time::sleep(2 * DEBOUNCE).await;
    let began = tokio::time::Instant::now();
    scene.put("a", 1..=1).await;
    until("the first event", || scene.count_worked("a") == 1).await;
    assert!(began.elapsed() < DEBOUNCE / 2, "{:?}", began.elapsed());
    for value in 2..=4 {
        tokio::time::sleep(DEBOUNCE / 10).await;
        scene.put("a", value..=value).await;
    }
    until("the others", || scene.count_worked("a") == 2).await;
    assert!((DEBOUNCE..2 * DEBOUNCE).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!((scene.heard().len(), scene.diary.lock().unwrap().batches), (4, 2));
    // A loop that fell behind does not debounce.
    tokio::time::sleep(2 * DEBOUNCE).await;
    let began = tokio::time::Instant::now();
    scene.flood().await;
    until("the difference", || scene.count_worked("flood-8") == 1).await;
    assert!(began.elapsed() < DEBOUNCE / 2, "{:?}", began.elapsed());
    shutdown.cancel();
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
}

/// A worker that reports each call, and then blocks its thread until it is released.
struct Blocker {
    works: std::sync::mpsc::Sender<&'static str>,
    goes_on: Arc<Mutex<std::sync::mpsc::Receiver<()>>>,
}

impl Blocker {
    fn block(
        works: &std::sync::mpsc::Sender<&'static str>,
        goes_on: &Mutex<std::sync::mpsc::Receiver<()>>,
        at: &'static str,
    ) {
        works.send(at).unwrap();
        goes_on.lock().unwrap().recv_timeout(PATIENCE).expect("a request is served meanwhile");
    }
}

impl Work for Blocker {
    fn name(&self) -> &'static str {
        "blocker"
    }

    fn interest(&self) -> Vec<GroupResource> {
        vec![BINDINGS]
    }

    fn list(&mut self, _view: &View, _queue: &mut Queue) {}

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        Blocker::block(&self.works, &self.goes_on, "event");
        queue.mark_changed(event.object.key.clone(), 0, event.revision);
    }

    fn invalidate(&mut self, _key: &Key) {}

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (works, goes_on) = (self.works.clone(), Arc::clone(&self.goes_on));
        async move {
            Blocker::block(&works, &goes_on, "batch");
            let outcomes = keys.into_iter().map(|key| KeyOutcome::new(key, Next::Done)).collect();
            BatchOutcome { outcomes, ..BatchOutcome::default() }
        }
        .boxed()
    }

    fn batch(&self) -> usize {
        100
    }
}

/// One thread serves requests and runs the worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn requests_are_served_while_a_worker_reads_a_large_object() {
    let (scene, _) = Scene::with(Limits::default(), 0).await;
    let (works, working) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel();
    let work = Blocker { works, goes_on: Arc::new(Mutex::new(goes_on)) };
    let runner = Runner::new(Box::new(work), scene.cache.clone(), Arc::new(SystemClock));
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(runner.run(shutdown.clone()));
    let mut large = object("large", 0);
    large["spec"]["text"] = Value::from("x".repeat(INLINE_BYTES_MAX));
    let draft = Draft::Put(Document::new(large));
    scene.write(vec![Write { key: key("large"), expect: Expect::Absent, draft }]).await;
    for expected in ["event", "batch"] {
        assert_eq!(working.recv_timeout(PATIENCE).unwrap(), expected);
        let go_on = go_on.clone();
        tokio::spawn(async move { go_on.send(()).unwrap() }).await.unwrap();
    }
    shutdown.cancel();
    tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
}
