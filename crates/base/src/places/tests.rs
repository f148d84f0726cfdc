//! Tests of slots under virtual time: shares, turns, bounds, and cleanup after requests.

use std::collections::BTreeMap;
use std::sync::Mutex;

use proptest::prelude::*;

use super::*;

const WAIT_MAX: Duration = Duration::from_secs(15);

fn places(units: usize) -> Arc<Places> {
    Places::new(Bounds::in_quarters("test", units, 40, WAIT_MAX))
}

/// Acquires a slot if that is possible without waiting.
async fn try_enter(places: &Arc<Places>, user: &str) -> Option<Place> {
    tokio::time::timeout(Duration::ZERO, places.enter(user, 1)).await.ok()?.ok()
}

async fn held(places: &Arc<Places>, user: &str, count: usize) -> Vec<Place> {
    let mut held = Vec::new();
    for _ in 0..count {
        held.push(try_enter(places, user).await.expect("there is room"));
    }
    held
}

/// Requests that wait in tasks, and the order in which they were served.
#[derive(Clone, Default)]
struct Served(Arc<Mutex<Vec<&'static str>>>);

impl Served {
    /// Waits in a task, and holds the slot until the task's result is dropped.
    async fn wait(&self, places: &Arc<Places>, user: &'static str) -> tokio::task::JoinHandle<Result<Place, Busy>> {
        let (places, served) = (Arc::clone(places), self.0.clone());
        let task = tokio::spawn(async move {
            let place = places.enter(user, 1).await;
            served.lock().unwrap().push(user);
            place
        });
        tokio::task::yield_now().await;
        task
    }

    fn order(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_alone_leaves_a_quarter_for_newcomers() {
    let places = places(8);
    let all = held(&places, "a", 6).await;
    assert!(try_enter(&places, "a").await.is_none(), "the rest is reserved");
    let newcomer = held(&places, "b", 2).await;
    assert!(try_enter(&places, "c").await.is_none(), "nothing is left");
    drop((all, newcomer));
    assert_eq!(places.load(), (0, 0));
    assert!(places.state().users.is_empty(), "nobody is remembered");
}

#[tokio::test(start_paused = true)]
async fn users_that_wait_are_served_in_turns_and_each_in_its_order() {
    let places = places(4);
    let mut running = held(&places, "a", 3).await;
    running.push(try_enter(&places, "b").await.unwrap());
    let served = Served::default();
    let mut tasks = Vec::new();
    for user in ["a", "a", "a", "c", "c", "d"] {
        tasks.push(served.wait(&places, user).await);
    }
    assert_eq!(served.order(), [""; 0]);
    // Each slot is released at once, so the share does not matter.
    for place in running {
        drop(place);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // a holds more than its quarter at first, so c and d are served before it.
    for task in tasks {
        drop(task.await.unwrap().unwrap());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let order = served.order();
    assert_eq!(order.len(), 6);
    assert_eq!(order[..2], ["c", "d"], "{order:?}");
    assert_eq!(places.load(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn while_others_wait_nobody_is_given_more_than_a_quarter() {
    let places = places(8);
    let served = Served::default();
    let mut hog = held(&places, "a", 6).await;
    let _others = (held(&places, "b", 2).await, served.wait(&places, "b").await, served.wait(&places, "a").await);
    // a still holds three, and b its quarter, so free slots stay unused until they are below it.
    hog.truncate(3);
    tokio::task::yield_now().await;
    assert_eq!(served.order(), [""; 0]);
    assert!(try_enter(&places, "c").await.is_some(), "a newcomer has its share");
    hog.truncate(1);
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    assert_eq!(served.order(), ["a", "b"], "then b waits alone");
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_bounded_time_and_few_wait() {
    let places = places(4);
    let _running = (held(&places, "a", 3).await, held(&places, "b", 1).await);
    let served = Served::default();
    let mut waiting = Vec::new();
    for _ in 0..10 {
        waiting.push(served.wait(&places, "a").await);
    }
    let began = Instant::now();
    assert!(places.enter("a", 1).await.is_err(), "the eleventh of one user");
    assert_eq!(began.elapsed(), Duration::ZERO);
    for task in waiting {
        assert!(task.await.unwrap().is_err());
    }
    assert_eq!(began.elapsed(), WAIT_MAX);
    assert_eq!(places.load(), (4, 0));
    // In total, 40 requests wait.
    let users = ["c", "d", "e", "f", "g"];
    let mut waiting = Vec::new();
    for user in users.iter().take(4) {
        for _ in 0..10 {
            waiting.push(served.wait(&places, user).await);
        }
    }
    let began = Instant::now();
    assert!(places.enter("g", 1).await.is_err());
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// Each slot is held for 2 s, and a refused client retries after the given time.
#[tokio::test(start_paused = true)]
async fn who_comes_again_when_it_was_told_to_finds_those_served_that_waited() {
    let places = places(4);
    let mut work = Vec::new();
    for turn in 0..40 {
        let (places, user) = (Arc::clone(&places), format!("user {}", turn % 20));
        work.push(tokio::spawn(async move {
            let place = places.enter(&user, 1).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            drop(place);
        }));
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let waiting = places.load().1;
    assert_eq!(waiting, 36);
    // The means are not known yet, so the first forecasts are short.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let busy = places.busy(&places.state(), "newcomer", 1);
    assert!((4..=20).contains(&busy.retry_after_seconds), "{busy:?}");
    tokio::time::sleep(Duration::from_secs(busy.retry_after_seconds.into())).await;
    let began = Instant::now();
    assert!(places.enter("newcomer", 1).await.is_ok());
    assert!(began.elapsed() <= WAIT_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_large_request_is_not_overtaken_for_ever() {
    let places = places(16);
    let running = (places.enter("a", 4).await.unwrap(), places.enter("b", 4).await.unwrap());
    let more = places.enter("c", 4).await.unwrap();
    let large = tokio::spawn({
        let places = Arc::clone(&places);
        async move { places.enter("d", 12).await }
    });
    tokio::task::yield_now().await;
    assert!(try_enter(&places, "e").await.is_none(), "a small one would fit, and it is not its turn");
    drop(running);
    assert!(large.await.unwrap().is_ok());
    drop(more);
    let mut all = places.enter("f", 100).await.expect("more than there is means all");
    assert_eq!(places.load().0, 16);
    all.shrink(1);
    assert_eq!(places.load().0, 1);
    assert!(try_enter(&places, "g").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn one_for_each_user_whether_others_wait_or_not() {
    let places = Places::new(Bounds::one_for_each("test", 3, 8, WAIT_MAX));
    let first = try_enter(&places, "a").await.unwrap();
    assert!(try_enter(&places, "a").await.is_none());
    let second = try_enter(&places, "b").await;
    drop(first);
    assert!(second.is_some() && try_enter(&places, "a").await.is_some());
}

/// An action of a client.
#[derive(Clone, Copy, Debug)]
enum Step {
    Enter {
        user: usize,
        units: usize,
    },
    /// The oldest request of the user ends: it releases its slot, or gives up if it waits.
    Leave {
        user: usize,
    },
    Wait {
        seconds: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..6_usize, prop_oneof![4 => Just(1_usize), 1 => 1..6_usize])
            .prop_map(|(user, units)| Step::Enter { user, units }),
        4 => (0..6_usize).prop_map(|user| Step::Leave { user }),
        1 => (0..20_u64).prop_map(|seconds| Step::Wait { seconds }),
    ];
    proptest::collection::vec(step, 1..120)
}

const USERS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

impl State {
    /// Checks the invariants that hold after every call.
    fn check(&self, bounds: &Bounds) {
        let held: usize = self.users.values().map(|own| own.held).sum();
        assert_eq!(held, self.held);
        assert!(held <= bounds.units, "more is held than there is");
        let waiting: usize = self.users.values().map(|own| own.waiting.len()).sum();
        assert_eq!(waiting, self.waiting);
        let turns: BTreeMap<&str, usize> =
            self.users.iter().map(|(name, own)| (&**name, own.waiting.len())).filter(|(_, count)| *count > 0).collect();
        let mut named: Vec<&str> = self.turns.iter().map(|name| &**name).collect();
        named.sort_unstable();
        assert_eq!(named, turns.into_keys().collect::<Vec<_>>(), "each user that waits has one turn");
        assert!(self.users.values().all(|own| own.held > 0 || !own.waiting.is_empty()), "nobody absent is kept");
        // No wake-up is lost: every request that can be served was served.
        let free = bounds.units - self.held;
        let front = |name: &str| self.users[name].waiting.front().map_or(0, |front| front.units);
        match self.turns.iter().find(|name| self.is_within_share(bounds, name, front(name))) {
            Some(next) => assert!(front(next) > free, "{next} could be served"),
            None if self.turns.len() == 1 => assert!(!self.fits(bounds, &self.turns[0], front(&self.turns[0]))),
            None => {}
        }
    }
}

proptest! {
    /// For any sequence of steps: at most all units are held, no grant makes a user exceed its
    /// share while others wait, servable requests are served, and finally nothing is left.
    #[test]
    fn places_are_shared_and_none_is_lost(steps in steps()) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(live(steps));
    }
}

/// A counter of the slots of a user, which decrements when dropped.
struct Counted(Arc<Mutex<[usize; USERS.len()]>>, usize);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.lock().unwrap()[self.1] -= 1;
    }
}

async fn live(steps: Vec<Step>) {
    let places = places(8);
    let counts: Arc<Mutex<[usize; USERS.len()]>> = Arc::default();
    let mut requests: Vec<VecDeque<tokio::task::JoinHandle<()>>> = USERS.iter().map(|_| VecDeque::new()).collect();
    for step in steps {
        let before: Vec<usize> = USERS.iter().map(|user| held_by(&places, user)).collect();
        let waited: Vec<&str> = USERS.into_iter().filter(|user| waits(&places, user)).collect();
        match step {
            Step::Enter { user, units } => {
                let (places, counts) = (Arc::clone(&places), Arc::clone(&counts));
                requests[user].push_back(tokio::spawn(async move {
                    let place = places.enter(USERS[user], units).await;
                    if place.is_ok() {
                        counts.lock().unwrap()[user] += 1;
                        let _counted = Counted(counts, user);
                        std::future::pending::<()>().await;
                    }
                }));
            }
            Step::Leave { user } => {
                if let Some(request) = requests[user].pop_front() {
                    request.abort();
                    let _ = request.await;
                }
            }
            Step::Wait { seconds } => tokio::time::sleep(Duration::from_secs(seconds)).await,
        }
        for _ in 0..USERS.len() {
            tokio::task::yield_now().await;
        }
        let state = places.state();
        state.check(&places.bounds);
        drop(state);
        let counts = *counts.lock().unwrap();
        for ((user, before), count) in USERS.into_iter().zip(before).zip(counts) {
            let now = held_by(&places, user);
            let others_wait = waited.iter().any(|other| *other != user && waits(&places, other));
            assert!(
                now <= before || !others_wait || count == 1 || now <= places.bounds.share,
                "{user} was given {now} while others waited"
            );
        }
    }
    for request in requests.into_iter().flatten() {
        request.abort();
        let _ = request.await;
    }
    assert_eq!(places.load(), (0, 0));
    assert!(places.state().users.is_empty());
    assert!(tokio::time::timeout(Duration::ZERO, places.enter("a", 6)).await.unwrap().is_ok());
}

fn held_by(places: &Places, user: &str) -> usize {
    places.state().users.get(user).map_or(0, |own| own.held)
}

fn waits(places: &Places, user: &str) -> bool {
    places.state().users.get(user).is_some_and(|own| !own.waiting.is_empty())
}

/// On several threads, with requests that give up at any moment, no request is forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_forgotten_where_others_give_up() {
    let places = Places::new(Bounds::in_quarters("test", 3, 10_000, Duration::from_secs(60)));
    let mut tasks = Vec::new();
    for number in 0..2_000_u64 {
        let places = Arc::clone(&places);
        tasks.push(tokio::spawn(async move {
            let user = USERS[usize::try_from(number % 6).unwrap()];
            let patience = if number % 3 == 0 { Duration::from_micros(number) } else { Duration::from_secs(50) };
            let place = tokio::time::timeout(patience, places.enter(user, 1)).await;
            tokio::task::yield_now().await;
            place.is_ok_and(|place| place.is_ok()) || number % 3 == 0
        }));
    }
    for task in tasks {
        assert!(task.await.unwrap());
    }
    assert_eq!(places.load(), (0, 0));
}
