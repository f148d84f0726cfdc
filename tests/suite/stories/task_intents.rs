//! RescheduleTasks that select more than can be marked within their request: the rest is marked
//! from an intent in the log, once each, regardless of crashes.

use std::sync::Arc;
use std::time::Duration;

use ballast::actions::{MarkingLimits, RescheduleTasks};
use ballast::api;
use ballast::clock::{Clock, SystemClock};
use ballast::engine::karmada::Profile;
use ballast::events::Recorder;
use ballast::k8s::{GroupResource, Key, Object, Status, User};
use ballast::node::assembly;
use ballast::registry::{Action, Atomicity, Change, due_at};
use ballast::store::MemoryStore;
use ballast::watch::{self, Interest, Limits};
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::events::events_about;
use super::fleet::{binding, by_room, cluster};
use super::world::{RB, World};

const INTENTS: GroupResource = GroupResource::new("rescheduleintents.internal.ballast.dev");
const APPS: usize = 7;

fn app(number: usize) -> Value {
    binding(&format!("app{number}"), 1, by_room())
}

fn everything() -> Value {
    json!({"targetRefPolicy": [{}]})
}

/// Creates seven scheduled bindings, and requests with time for `per_commit_max` of them.
async fn slow(per_commit_max: usize) -> (World, Vec<Key>) {
    let mut world = World::new().await;
    world.marking = MarkingLimits { per_commit_max, in_request_max: Duration::ZERO, ..MarkingLimits::default() };
    world.crash().await;
    for name in ["member1", "member2"] {
        world.given(cluster(name)).await;
    }
    let keys = world.given_all((0..APPS).map(app).collect()).await;
    world.settle().await;
    (world, keys)
}

fn intents(world: &World) -> usize {
    world.client().view().count(INTENTS, None)
}

/// Returns how often each binding was marked in its whole history.
async fn marks(world: &World, keys: &[Key]) -> Vec<usize> {
    let mut counts = Vec::new();
    for key in keys {
        let pending_pass = |state: &Value| state["metadata"]["annotations"]["ballast.dev/owed"].clone();
        let history = world.history(key).await;
        let is_marked =
            |pair: &&[Value]| !pending_pass(&pair[1]).is_null() && pending_pass(&pair[0]) != pending_pass(&pair[1]);
        counts.push(history.windows(2).filter(is_marked).count());
    }
    counts
}

#[tokio::test]
async fn a_task_that_runs_out_of_time_says_so_and_goes_on_from_its_intent() {
    let (mut world, keys) = slow(3).await;
    let warnings = world.task_with(everything(), false).await.unwrap();
    let warning = "3 of 7 were marked within the 0 s of a request; the rest is being marked, \
                   and an event about the task says when it is done";
    assert_eq!(warnings, [warning]);
    assert_eq!(marks(&world, &keys).await, [1, 1, 1, 0, 0, 0, 0]);
    assert_eq!(intents(&world), 1);

    world.pass_seconds(2).await;
    assert_eq!(marks(&world, &keys).await, [1; APPS]);
    assert_eq!(intents(&world), 0);
    let told = events_about(&world, "RescheduleTask");
    let answered = "7 answered: 0 moved with 0 replicas, 7 stayed, 0 fit nowhere.";
    for expected in [
        "Normal RescheduleGoesOn demo-task x1: Asked for fresh placements of 3 so far; 7 were selected.".to_owned(),
        "Normal RescheduleAsked demo-task x1: Asked for fresh placements of 7.".to_owned(),
        format!("Normal RescheduleAnswered demo-task x1: {answered}"),
    ] {
        assert!(told.contains(&expected), "{expected} {told:#?}");
    }
}

#[tokio::test]
async fn a_task_leaves_the_rest_to_its_intent_before_its_answer_is_due() {
    let (mut world, keys) = slow(3).await;
    world.marking.in_request_max = Duration::from_secs(30);
    let due = Instant::now() + Duration::from_millis(100);
    let warnings = due_at(Some(due), world.task_with(everything(), false)).await.unwrap();
    assert!(warnings[0].starts_with("3 of 7 were marked within the 0 s of a request"), "{warnings:?}");
    assert_eq!((marks(&world, &keys).await, intents(&world)), (vec![1, 1, 1, 0, 0, 0, 0], 1));
    world.pass_seconds(2).await;
    assert_eq!((marks(&world, &keys).await, intents(&world)), (vec![1; APPS], 0));
    let due = Instant::now() + Duration::from_secs(60);
    let warnings = due_at(Some(due), world.task_with(everything(), false)).await.unwrap();
    assert_eq!(warnings, [""; 0], "there was time for all");
}

/// The server drops the future of a request after a disconnect or a timeout.
#[tokio::test]
async fn a_task_whose_request_is_dropped_marks_all_and_tells_the_end() {
    let answered = "7 answered: 0 moved with 0 replicas, 7 stayed, 0 fit nowhere.";
    for (polls, in_request_max) in [1, 2, 5, 20].into_iter().flat_map(|polls| [(polls, 0), (polls, 30)]) {
        let (mut world, keys) = slow(2).await;
        world.marking.in_request_max = Duration::from_secs(in_request_max);
        drop_after(polls, world.task(everything())).await;
        let told = format!("Normal RescheduleAnswered demo-task x1: {answered}");
        wait_for(&mut world, &told).await;
        let case = format!("after {polls} polls, within {in_request_max} s");
        assert_eq!((marks(&world, &keys).await, intents(&world)), (vec![1; APPS], 0), "{case}");
        let asked = "Normal RescheduleAsked demo-task x1: Asked for fresh placements of 7.";
        assert!(events_about(&world, "RescheduleTask").iter().any(|line| line == asked), "{case}");

        // The next task of this name is counted separately.
        world.task(everything()).await.unwrap();
        let told = format!("Normal RescheduleAnswered demo-task x2: {answered}");
        wait_for(&mut world, &told).await;
    }
}

/// Polls at most `polls` times, then drops the request.
async fn drop_after(polls: usize, request: impl Future<Output = Result<(), Status>>) {
    let mut request = Box::pin(request);
    for _ in 0..polls {
        if request.as_mut().now_or_never().is_some() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Runs the workers until this event about a task exists. Work begun by a request takes real time.
async fn wait_for(world: &mut World, event: &str) {
    for _ in 0..1_000 {
        tokio::time::sleep(Duration::from_millis(2)).await;
        world.pass_seconds(1).await;
        if events_about(world, "RescheduleTask").iter().any(|line| line == event) {
            return;
        }
    }
    panic!("{event} is missing: {:#?}", events_about(world, "RescheduleTask"));
}

/// A standby of attached servers has a separate log, without a worker for it.
#[tokio::test]
async fn a_task_too_large_for_a_replica_without_the_lease_is_refused_and_leaves_no_intent() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (cache, writer, task) =
        watch::open(Arc::new(MemoryStore::new()), Arc::clone(&clock), Limits::default()).await.unwrap();
    let (recorder, kinds) = (Recorder::new(Arc::clone(&clock)), Arc::new(api::kinds()));
    let (authorizer, profile) = (Arc::default(), Profile::ours());
    let registry = assembly::registry(kinds, cache.clone(), writer, &authorizer, &clock, &recorder, &profile);
    let marks = assembly::marks(&registry);
    let changes = (0..APPS).map(|number| (RB, Change::Create(app(number).as_object().unwrap().clone()))).collect();
    marks.batch(changes, Atomicity::All).await.unwrap().into_iter().for_each(|made| drop(made.unwrap()));
    let standby = registry.with_fence(Arc::new(|| false)).client(User::component("story"));
    let marking = MarkingLimits { per_commit_max: 3, in_request_max: Duration::ZERO, ..MarkingLimits::default() };
    let action = RescheduleTasks::new(marks, clock, &recorder, marking).with_intents(standby);
    let asked = json!({
        "apiVersion": "task.karmada.io/v1alpha1", "kind": "RescheduleTask", "metadata": {"name": "t"},
        "spec": everything(),
    });
    let mut asked = asked.as_object().unwrap().clone();
    let refused = action.create(&User::component("story"), &mut asked, false).await.unwrap_err();
    assert_eq!(refused.code, 503, "{refused}");
    let why = "3 of 7 were marked within the 0 s of a request, and nobody here can mark the rest later: \
               this replica does not hold the lease";
    assert_eq!(refused.message, why);
    assert_eq!(cache.view().count(INTENTS, None), 0);
    let pending_pass =
        |object: &&Arc<Object>| object.value().unwrap()["metadata"]["annotations"]["ballast.dev/owed"] != Value::Null;
    assert_eq!(cache.view().list(RB, None).filter(pending_pass).count(), 3);
    drop((action, cache));
    drop(task);
}

#[tokio::test]
async fn a_task_that_its_request_can_finish_leaves_no_intent() {
    let (mut world, keys) = slow(APPS).await;
    assert_eq!(world.task_with(everything(), false).await.unwrap(), [""; 0]);
    assert_eq!((marks(&world, &keys).await, intents(&world)), (vec![1; APPS], 0));
    world.marking.per_commit_max = 1;
    assert_eq!(world.task_with(everything(), true).await.unwrap(), [""; 0], "a dry run marks nothing");
    assert_eq!((marks(&world, &keys).await, intents(&world)), (vec![1; APPS], 0));
}

#[tokio::test]
async fn all_marks_of_a_task_have_its_time() {
    let (mut world, keys) = slow(2).await;
    let asked = world.now();
    world.task(everything()).await.unwrap();
    world.clock.advance_seconds(100);
    world.settle().await;
    for key in &keys {
        assert_eq!(world.get(key).unwrap()["spec"]["rescheduleTriggeredAt"], json!(asked), "{key}");
    }
}

#[tokio::test]
async fn a_crash_after_any_number_of_steps_neither_loses_nor_doubles_a_mark() {
    // Stops at each commit of the intent's worker or of the scheduler.
    for commits in 0..8 {
        let (mut world, keys) = slow(1).await;
        world.task(everything()).await.unwrap();
        world.fail_after(commits);
        for _ in 0..10 {
            world.turn().await;
        }
        world.crash().await;
        world.compact().await;
        world.crash().await;
        world.pass_seconds(15).await;
        assert_eq!(marks(&world, &keys).await, [1; APPS], "after {commits} commits");
        assert_eq!(intents(&world), 0);
        let told = events_about(&world, "RescheduleTask");
        let end = "Normal RescheduleAsked demo-task x1: Asked for fresh placements of 7.";
        assert!(told.iter().any(|line| line == end), "{told:#?}");
    }
}

#[tokio::test]
async fn without_its_intent_in_the_log_a_task_is_not_answered() {
    let (mut world, keys) = slow(2).await;
    world.fail_after(1);
    let refused = world.task_with(everything(), false).await.unwrap_err();
    assert_eq!(refused.code, 503);
    world.mend();
    world.pass_seconds(2).await;
    assert_eq!((marks(&world, &keys).await, intents(&world)), (vec![1, 1, 0, 0, 0, 0, 0], 0));
}

#[tokio::test]
async fn what_is_younger_than_the_task_is_not_marked() {
    let (mut world, keys) = slow(2).await;
    world.task(everything()).await.unwrap();
    world.delete(&keys[5]).await;
    let anew = world.given(app(5)).await;
    let new = world.given(app(9)).await;
    world.settle().await;
    assert_eq!(intents(&world), 0);
    for young in [anew, new] {
        assert_eq!(world.get(&young).unwrap()["spec"]["rescheduleTriggeredAt"], Value::Null, "{young}");
    }
    let others: Vec<Key> =
        keys.iter().enumerate().filter(|(number, _)| *number != 5).map(|(_, key)| key.clone()).collect();
    assert_eq!(marks(&world, &others).await, [1; APPS - 1]);
}

#[tokio::test]
async fn tasks_that_overlap_mark_once_each() {
    let (mut world, keys) = slow(2).await;
    world.task(everything()).await.unwrap();
    world.task(everything()).await.unwrap();
    assert_eq!(intents(&world), 2);
    world.pass_seconds(2).await;
    assert_eq!(marks(&world, &keys).await, [2; APPS]);
}

#[tokio::test]
async fn a_binding_that_changes_meanwhile_is_marked_from_its_new_state() {
    let (mut world, keys) = slow(2).await;
    world.task(everything()).await.unwrap();
    let scale = |binding: &mut Value| binding["spec"]["replicas"] = json!(2);
    world.race(&keys[3], scale, &keys[0], "reschedule-task").await;
    world.pass_seconds(2).await;
    assert_eq!(marks(&world, &keys).await, [1; APPS]);
    assert_eq!(world.get(&keys[3]).unwrap()["spec"]["replicas"], json!(2));
}

#[tokio::test]
async fn nobody_who_reads_the_api_sees_an_intent() {
    let (world, _) = slow(2).await;
    let before = world.client().view().revision;
    world.task(everything()).await.unwrap();
    assert!(ballast::api::kinds().rows().iter().all(|row| row.resource != INTENTS));
    let mut bindings = world.client().cache().subscribe(Interest::Kinds(vec![RB]), before).unwrap();
    let events = bindings.next().await.unwrap();
    assert!(events.iter().all(|event| event.object.key.resource == RB));
    let write = world.client().view().list(INTENTS, None).next().unwrap().clone();
    let refused = world.try_edit(&write.key, |_| {}).await.unwrap_err();
    assert_eq!(refused.code, 405, "an intent is not written as an object of a kind");
}
