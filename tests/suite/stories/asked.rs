//! Admission webhooks review the placements of the scheduler and of rebalances before the write
//! (AD13).

use std::sync::Arc;

use ballast::k8s::{Key, Status};
use serde_json::json;

use super::doorkeeper::{Answer, Doorkeeper, Question};
use super::fleet::{binding, by_room, cluster, deployment, rebalancer};
use super::safe::{flee, mark, move_of, outcome, phase, rebalance, report, summary};
use super::world::{World, condition};

const SAYS: &str = "admission webhook \"guard.example.com\" denied the request: not today";

fn refusal(reason: &str) -> Answer {
    Answer::Refused(Box::new(Status::failure(403, reason, SAYS)))
}

/// Creates two clusters and a fake webhook with this rule.
async fn asking(rule: impl FnMut(&Question) -> Answer + Send + 'static) -> (World, Arc<Doorkeeper>) {
    let doorkeeper = Doorkeeper::new(rule);
    let mut world = World::behind(Arc::clone(&doorkeeper)).await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    world.settle().await;
    (world, doorkeeper)
}

/// Returns status, reason and message of the condition Scheduled.
fn told(world: &World, binding: &Key) -> [String; 3] {
    let binding = world.get(binding).unwrap();
    let condition = condition(&binding, "Scheduled").expect("it was decided").clone();
    ["status", "reason", "message"].map(|name| condition[name].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn ad13_a_placement_that_a_webhook_refuses_is_told_and_placed_once_it_is_allowed() {
    for (theirs, ours) in [("QuotaExceeded", "QuotaExceeded"), ("Forbidden", "SchedulerError"), ("", "SchedulerError")]
    {
        let rule = move |question: &Question| match question.name.starts_with("web") {
            true => refusal(theirs),
            false => Answer::Allowed,
        };
        let (mut world, doorkeeper) = asking(rule).await;
        let keys = ["web", "db", "free"].map(|name| binding(name, 4, by_room()));
        let keys = world.given_all(keys.to_vec()).await;
        world.settle().await;
        let placed = |world: &World| keys.iter().map(|key| world.placed(key)).collect::<Vec<_>>();
        assert_eq!(placed(&world), ["", "member1:2 member2:2", "member1:2 member2:2"]);
        assert_eq!(told(&world, &keys[0]), ["False", ours, SAYS]);
        let asked = doorkeeper.asked();
        assert!(asked.iter().all(|question| question.user == "system:ballast:scheduler"));
        let about = |name: &str| asked.iter().filter(|question| question.name.starts_with(name)).collect::<Vec<_>>();
        assert_eq!(["web", "db", "free"].map(|name| about(name).len()), [1, 1, 0]);
        let Question { object, old, .. } = about("db")[0];
        assert_eq!(object["spec"]["clusters"].as_array().unwrap().len(), 2);
        assert_eq!((&object["metadata"]["generation"], &old["metadata"]["generation"]), (&json!(2), &json!(1)));
        assert!(old["spec"]["clusters"].is_null());
        assert_eq!(object["status"], old["status"], "an update of an object leaves its status alone");

        // The webhook is called again at most once per second; an identical response causes no
        // write.
        let rest = world.revision(&keys[0]);
        world.pass_seconds(30).await;
        let again = doorkeeper.asked().len() - asked.len();
        assert!((2..=8).contains(&again), "{again}");
        assert_eq!(world.revision(&keys[0]), rest);
        doorkeeper.answer(|_| Answer::Allowed);
        world.pass_seconds(12).await;
        assert_eq!(world.placed(&keys[0]), "member1:2 member2:2");
        assert_eq!(told(&world, &keys[0])[..2], ["True", "Success"]);
    }
}

#[tokio::test]
async fn ad13_a_late_answer_holds_up_nobody_else_and_counts_for_what_was_asked() {
    let late = |question: &Question| match question.name.starts_with("late") {
        true => Answer::Late,
        false => Answer::Allowed,
    };
    let (mut world, doorkeeper) = asking(late).await;
    let names = ["late-1", "late-2", "web", "free"];
    let keys = world.given_all(names.map(|name| binding(name, 4, by_room())).to_vec()).await;
    world.settle().await;
    let placed = |world: &World| keys.iter().map(|key| world.placed(key)).collect::<Vec<_>>();
    assert_eq!(placed(&world), ["", "", "member1:2 member2:2", "member1:2 member2:2"]);
    // Later bindings are placed as well.
    let after = world.given(binding("after", 2, by_room())).await;
    world.settle().await;
    assert_eq!(world.placed(&after), "member1:1 member2:1");
    // One binding changes while its review is pending.
    world.edit(&keys[0], |binding| binding["spec"]["replicas"] = json!(6)).await;
    world.settle().await;
    let about = |doorkeeper: &Doorkeeper, name: &str| {
        doorkeeper.asked().iter().filter(|question| question.name.starts_with(name)).count()
    };
    assert_eq!(about(&doorkeeper, "late"), 2);
    doorkeeper.open();
    world.settle().await;
    assert_eq!(placed(&world)[..2], ["", "member1:2 member2:2"]);
    assert_eq!((about(&doorkeeper, "late-1"), about(&doorkeeper, "late-2")), (2, 1));
    doorkeeper.open();
    world.settle().await;
    assert_eq!(world.placed(&keys[0]), "member1:3 member2:3");
}

#[tokio::test]
async fn ad13_more_than_are_asked_at_once_wait_for_their_turn() {
    let (mut world, doorkeeper) = asking(|_| Answer::Late).await;
    let many = ballast::worker::DEFERRED_MAX + 10;
    let all = (0..many).map(|index| binding(&format!("w{index}"), 2, by_room())).collect();
    let keys = world.given_all(all).await;
    world.settle().await;
    assert_eq!(doorkeeper.asked().len(), ballast::worker::DEFERRED_MAX);
    // Mark a waiting binding: it is rescheduled before its review.
    let waiting = keys.iter().find(|key| doorkeeper.asked().iter().all(|question| question.name != *key.name)).unwrap();
    world.edit(waiting, |binding| binding["spec"]["replicas"] = json!(6)).await;
    doorkeeper.answer(|_| Answer::Allowed);
    doorkeeper.open();
    world.settle().await;
    assert!(keys.iter().all(|key| !world.placed(key).is_empty()));
    assert_eq!(world.placed(waiting), "member1:3 member2:3");
    assert_eq!(doorkeeper.asked().len(), many, "each once, and none in vain");
}

#[tokio::test]
async fn a_namespace_whose_questions_are_late_delays_no_other() {
    let (mut world, doorkeeper) = asking(|_| Answer::Late).await;
    let many = ballast::worker::DEFERRED_MAX * 2;
    let all = (0..many).map(|index| binding(&format!("w{index}"), 2, by_room())).collect();
    world.given_all(all).await;
    world.settle().await;
    let mut other = binding("other", 2, by_room());
    other["metadata"]["namespace"] = json!("office");
    other["spec"]["resource"]["namespace"] = json!("office");
    let other = world.given(other).await;
    world.settle().await;
    let before = doorkeeper.asked().len();
    assert_eq!(before, ballast::worker::DEFERRED_MAX);
    doorkeeper.open();
    world.settle().await;
    // The waiting bindings of the first namespace were queued before it.
    let asked = doorkeeper.asked();
    assert_eq!(asked.len(), 2 * before);
    assert!(asked.iter().any(|question| question.name == *other.name));
}

#[tokio::test]
async fn ad13_what_is_allowed_at_the_same_time_is_one_commit_and_a_late_answer_is_not_waited_for() {
    const COUNT: usize = 40;
    let (mut world, doorkeeper) = asking(|_| Answer::Late).await;
    let all = (0..COUNT).map(|index| binding(&format!("web-{index}"), 4, by_room())).collect();
    let keys = world.given_all(all).await;
    world.settle().await;
    assert_eq!(doorkeeper.asked().len(), COUNT);
    // The next review starts once these responses have arrived.
    let late = world.given(binding("late", 4, by_room())).await;
    let before = world.fate().count();
    doorkeeper.open();
    while world.turn_of("scheduler").await {}
    assert!(keys.iter().all(|key| world.placed(key) == "member1:2 member2:2"));
    assert_eq!((world.placed(&late).as_str(), doorkeeper.asked().len()), ("", COUNT + 1));
    assert_eq!(world.fate().count() - before, 1, "commits of {COUNT} placements");
    doorkeeper.open();
    world.settle().await;
    assert_eq!(world.placed(&late), "member1:2 member2:2");
}

#[tokio::test]
async fn ad13_a_trigger_whose_answer_is_refused_waits_and_is_answered_then() {
    let (mut world, doorkeeper) = asking(|_| Answer::Allowed).await;
    let web = world.given(binding("web", 4, by_room())).await;
    world.settle().await;
    world.edit(&web, |binding| binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}])).await;
    world.settle().await;
    world.clock.advance_seconds(60);
    doorkeeper.answer(|_| refusal("Forbidden"));
    world.given(rebalancer("demo", vec![deployment("web")])).await;
    world.settle().await;
    assert_eq!(
        (world.placed(&web).as_str(), told(&world, &web)),
        ("member2:4", ["False", "SchedulerError", SAYS].map(str::to_owned))
    );
    let before = world.get(&web).unwrap();
    assert!(before["spec"]["rescheduleTriggeredAt"].as_str() > before["status"]["lastScheduledTime"].as_str());
    // The pending state survives a crash.
    world.crash().await;
    doorkeeper.answer(|_| Answer::Allowed);
    world.pass_seconds(12).await;
    let after = world.get(&web).unwrap();
    assert_eq!(world.placed(&web), "member1:2 member2:2");
    assert!(after["spec"]["rescheduleTriggeredAt"].as_str() <= after["status"]["lastScheduledTime"].as_str());
}

#[tokio::test]
async fn ad13_nobody_is_asked_where_no_placement_changes() {
    let (mut world, doorkeeper) = asking(|_| Answer::Allowed).await;
    let mut nowhere = binding("web", 4, by_room());
    nowhere["spec"]["placement"]["clusterAffinity"] = json!({"clusterNames": ["member9"]});
    let nowhere = world.given(nowhere).await;
    world.settle().await;
    assert_eq!(told(&world, &nowhere)[0], "False");
    assert_eq!(doorkeeper.asked().len(), 0);
}

/// Like `safe::fled`, with a webhook that allows everything.
async fn fled(count: usize) -> (World, Arc<Doorkeeper>, Vec<Key>) {
    let (mut world, doorkeeper) = asking(|_| Answer::Allowed).await;
    let keys = flee(&mut world, count).await;
    (world, doorkeeper, keys)
}

#[tokio::test]
async fn ad13_a_move_that_a_webhook_refuses_fails_and_the_others_go_on() {
    for (theirs, ours) in [("QuotaExceeded", "Failed NoRoom"), ("Forbidden", "Failed -")] {
        let (mut world, doorkeeper, keys) = fled(3).await;
        doorkeeper.answer(move |question| match question.name.starts_with("web-1") {
            true => refusal(theirs),
            false => Answer::Allowed,
        });
        let home = world.given(rebalance("home", json!({}))).await;
        world.settle().await;
        assert_eq!((phase(&world, &home), summary(&world, &home)), ("Completed".into(), "settled 2, failed 1".into()));
        assert_eq!(outcome(&world, "home", 1), ours);
        let message = move_of(&world, "home", 1)["status"]["message"].as_str().unwrap().to_owned();
        assert!(message.ends_with(SAYS), "{message}");
        let placed: Vec<_> = keys.iter().map(|key| world.placed(key)).collect();
        assert_eq!(placed, ["member1:2 member2:2", "member2:4", "member1:2 member2:2"]);
        assert!(keys.iter().all(|key| mark(&world, key).is_none()));
        let users: Vec<_> = doorkeeper.asked().into_iter().map(|question| question.user).collect();
        assert!(users.iter().any(|user| user == "system:ballast:rebalance"), "{users:?}");
    }
}

#[tokio::test]
async fn ad13_a_move_that_is_refused_on_its_way_ends_and_its_surplus_goes() {
    let (mut world, doorkeeper, keys) = fled(1).await;
    let web = &keys[0];
    report(&world, web, &[("member2", 4)]).await;
    world.settle().await;
    let surging = json!({"rollout": {"strategy": "SurgeFirst", "settle": {"when": "Healthy"}}});
    let home = world.given(rebalance("home", surging)).await;
    world.settle().await;
    assert_eq!(world.placed(web), "member1:2 member2:4");
    doorkeeper.answer(|question| match &*question.user {
        "system:ballast:rebalance" => refusal("Forbidden"),
        _ => Answer::Allowed,
    });
    report(&world, web, &[("member1", 2), ("member2", 4)]).await;
    world.settle().await;
    assert_eq!((phase(&world, &home), outcome(&world, "home", 0)), ("Completed".into(), "Failed -".into()));
    assert_eq!(mark(&world, web), None);
    let placed: i64 = world.get(web).unwrap()["spec"]["clusters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| target["replicas"].as_i64().unwrap())
        .sum();
    assert_eq!(placed, 4, "{}", world.placed(web));
}
