//! Batches of the in-process client: one transaction, and the same rules as for users.

use ballast::k8s::{GroupResource, Key, Revision};
use ballast::registry::{Atomicity, Change, Part};
use serde_json::json;

use super::world::*;

fn update(part: Part, object: Tree) -> (GroupResource, Change) {
    (REBALANCERS, Change::Update { part, object })
}

#[tokio::test]
async fn a_batch_creates_updates_and_deletes_in_one_go() {
    let world = World::new().await;
    let (a, b) = (tree(world.create(rebalancer("a")).await), tree(world.create(rebalancer("b")).await));
    let mut watch = world.watch(&world.all(REBALANCERS), "resourceVersion=2").await;
    let changes = vec![
        (REBALANCERS, Change::Create(rebalancer("c"))),
        update(Part::Main, with(a, json!({"metadata": {"labels": {"x": "y"}}}))),
        (REBALANCERS, Change::Delete { key: Key::cluster(REBALANCERS, "b"), revision: Some(Revision(2)) }),
    ];
    let outcomes = world.client().batch(changes, Atomicity::All).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(ready(&mut watch), ["ADDED c 3", "MODIFIED a 4", "DELETED b 5"]);
    assert!(world.try_get(&b).await.is_err());
}

#[tokio::test]
async fn each_part_writes_what_it_is_about_and_the_generation_follows() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let both = |object: Tree, n: i64| {
        with(object, json!({"spec": {"ttlSecondsAfterFinished": n}, "status": {"observedGeneration": n}}))
    };
    let one = async |part, object| {
        let outcomes = world.client().batch(vec![update(part, object)], Atomicity::Each).await.unwrap();
        tree(value(outcomes[0].as_ref().unwrap()))
    };
    let main = one(Part::Main, both(stored, 1)).await;
    assert_eq!((&main["spec"]["ttlSecondsAfterFinished"], main.get("status")), (&json!(1), None));
    let status = one(Part::Status, both(main, 2)).await;
    assert_eq!(status["spec"]["ttlSecondsAfterFinished"], 1);
    assert_eq!((&status["status"]["observedGeneration"], &status["metadata"]["generation"]), (&json!(2), &json!(2)));
    let whole = one(Part::Whole, both(status, 3)).await;
    assert_eq!(whole["spec"]["ttlSecondsAfterFinished"], 3);
    assert_eq!((&whole["status"]["observedGeneration"], &whole["metadata"]["generation"]), (&json!(3), &json!(3)));
}

/// The managers of the object's spec and status: `manager/subresource: fields`.
fn managers(object: &Tree) -> Vec<String> {
    let entries = object["metadata"].get("managedFields").and_then(serde_json::Value::as_array);
    let of = |entry: &serde_json::Value| {
        let fields = entry["fieldsV1"].as_object().unwrap().values().map(ToString::to_string).collect::<String>();
        let subresource = entry["subresource"].as_str().unwrap_or_default();
        format!("{}/{subresource}: {fields}", entry["manager"].as_str().unwrap())
    };
    entries.into_iter().flatten().map(of).collect()
}

#[tokio::test]
async fn ap10_a_worker_takes_what_it_changes_from_whoever_had_it() {
    let world = World::new().await;
    let stored = tree(world.create(with(rebalancer("a"), json!({"spec": {"ttlSecondsAfterFinished": 1}}))).await);
    let change = json!({"spec": {"ttlSecondsAfterFinished": 2}, "status": {"observedGeneration": 1}});
    let changes = vec![update(Part::Whole, with(stored, change))];
    let outcomes = world.client().batch(changes, Atomicity::All).await.unwrap();
    let object = tree(value(outcomes[0].as_ref().unwrap()));
    let expected = [
        "ballast-test/: {\"f:ttlSecondsAfterFinished\":{}}",
        "ballast-test/status: {\".\":{},\"f:observedGeneration\":{}}",
        "unknown/: {\".\":{},\"f:workloads\":{}}",
    ];
    assert_eq!(managers(&object), expected);
}

#[tokio::test]
async fn ap13_what_a_worker_creates_has_no_managers_until_it_is_applied() {
    let world = World::new().await;
    let changes = vec![(REBALANCERS, Change::Create(rebalancer("a")))];
    let outcomes = world.client().batch(changes, Atomicity::All).await.unwrap();
    let created = tree(value(outcomes[0].as_ref().unwrap()));
    assert!(managers(&created).is_empty());
    let changes = vec![update(Part::Main, with(created, json!({"metadata": {"labels": {"x": "y"}}})))];
    let outcomes = world.client().batch(changes, Atomicity::All).await.unwrap();
    assert!(managers(&tree(value(outcomes[0].as_ref().unwrap()))).is_empty());
}

#[tokio::test]
async fn oc3_what_changes_nothing_succeeds_and_writes_nothing() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let changes = vec![update(Part::Whole, stored.clone()), update(Part::Status, stored)];
    let outcomes = world.client().batch(changes, Atomicity::All).await.unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().unwrap().revision == Revision(1)));
    assert_eq!(world.revision(), Revision(1));
}

#[tokio::test]
async fn with_all_one_refusal_stops_every_change() {
    let world = World::new().await;
    let stored = tree(world.create(rebalancer("a")).await);
    let good = with(stored.clone(), json!({"metadata": {"labels": {"x": "y"}}}));
    let invalid = with(rebalancer("b"), json!({"spec": {"workloads": []}}));
    let stale = with(stored, json!({"metadata": {"resourceVersion": "9"}}));
    for bad in [Change::Create(invalid), Change::Update { part: Part::Main, object: stale }] {
        let changes = vec![update(Part::Main, good.clone()), (REBALANCERS, bad)];
        let outcomes = world.client().batch(changes.clone(), Atomicity::All).await.unwrap();
        let first = outcomes[0].as_ref().unwrap_err();
        assert_eq!(first.code, 409);
        assert!(first.message.ends_with("another change of the same batch was refused"), "{}", first.message);
        assert!(outcomes[1].is_err());
        assert_eq!(world.revision(), Revision(1));
        let outcomes = world.client().batch(changes, Atomicity::Each).await.unwrap();
        assert!(outcomes[1].is_err());
        if outcomes[0].is_ok() {
            // The change is undone for the next round, because the version is another one now.
            break;
        }
    }
    assert_eq!(world.revision(), Revision(2), "each for itself, the good one is written");
}

#[tokio::test]
async fn changes_are_admitted_like_those_of_users() {
    let world = World::new().await;
    let unknown = with(rebalancer("a"), json!({"spec": {"x": 1}}));
    let bare = with(rebalancer("a"), json!({"metadata": {"labels": {"a b": "c"}}}));
    let changes = vec![
        (REBALANCERS, Change::Create(unknown)),
        (REBALANCERS, Change::Create(bare)),
        (REBALANCERS, Change::Update { part: Part::Main, object: rebalancer("nobody") }),
        (TASKS, Change::Create(task("t"))),
        (REBALANCERS, Change::Delete { key: Key::cluster(REBALANCERS, "nobody"), revision: None }),
    ];
    let outcomes = world.client().batch(changes, Atomicity::Each).await.unwrap();
    let codes: Vec<u16> = outcomes.iter().map(|outcome| outcome.as_ref().unwrap_err().code).collect();
    assert_eq!(codes, [400, 422, 404, 405, 404]);
}

#[tokio::test]
async fn de2_a_delete_in_a_batch_respects_finalizers() {
    let world = World::new().await;
    world.create(with(rebalancer("a"), json!({"metadata": {"finalizers": ["a/b"]}}))).await;
    let delete = |revision| vec![(REBALANCERS, Change::Delete { key: Key::cluster(REBALANCERS, "a"), revision })];
    let stale = world.client().batch(delete(Some(Revision(7))), Atomicity::Each).await.unwrap();
    assert_eq!(stale[0].as_ref().unwrap_err().code, 409);
    for _ in 0..2 {
        let outcomes = world.client().batch(delete(None), Atomicity::Each).await.unwrap();
        let object = outcomes[0].as_ref().unwrap();
        assert!(object.deleting);
        assert_eq!(object.revision, Revision(2));
    }
}

#[tokio::test]
async fn thousands_of_changes_are_one_transaction() {
    const COUNT: i64 = 3000;
    let world = World::new().await;
    let creates = (0..COUNT).map(|i| (BINDINGS, Change::Create(binding("shop", &format!("b{i}"))))).collect::<Vec<_>>();
    let outcomes = world.client().batch(creates, Atomicity::All).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(world.revision(), Revision(COUNT));
}
