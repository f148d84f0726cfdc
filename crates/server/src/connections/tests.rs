//! Order of eviction.

use super::*;

fn at(slot: &ConnectionSlot, stage: Stage) -> ActiveRequest {
    let request = slot.state.begin().unwrap();
    request.progress().reach(stage).unwrap();
    request
}

#[tokio::test(start_paused = true)]
async fn the_connection_that_was_idle_for_longest_is_evicted() {
    let connections = Connections::new(3);
    let slots: Vec<ConnectionSlot> = (0..3).map(|_| connections.admit().unwrap()).collect();
    let busy = at(&slots[0], Stage::AtWork);
    tokio::time::advance(Duration::from_secs(1)).await;
    drop(at(&slots[1], Stage::AtWork));
    let _newcomer = connections.admit().expect("the third one leaves");
    assert!(slots[2].state.begin().is_none(), "no request begins on an evicted connection");
    slots[2].state.evicted().await;
    assert!(slots[1].state.begin().is_some(), "it was at work later");
    drop(busy);
}

#[tokio::test(start_paused = true)]
async fn no_connection_with_a_request_at_work_is_evicted() {
    let connections = Connections::new(2);
    let slots: Vec<ConnectionSlot> = (0..2).map(|_| connections.admit().unwrap()).collect();
    let busy: Vec<ActiveRequest> = slots.iter().map(|slot| at(slot, Stage::AtWork)).collect();
    // A second request on the same connection that is not active makes no difference.
    let _more = at(&slots[0], Stage::Unknown);
    assert!(connections.admit().is_none());
    drop(busy);
    assert!(connections.admit().is_some());
}

#[tokio::test(start_paused = true)]
async fn strangers_go_before_those_that_wait_and_cannot_look_younger() {
    let connections = Connections::new(4);
    let slots: Vec<ConnectionSlot> = (0..4).map(|_| connections.admit().unwrap()).collect();
    let waiting = at(&slots[0], Stage::Waiting);
    let stranger = at(&slots[1], Stage::Unknown);
    let refused = at(&slots[2], Stage::AtWork);
    tokio::time::advance(Duration::from_secs(1)).await;
    refused.progress().reach(Stage::Unknown).unwrap();
    // Another unauthenticated request, just now.
    drop(at(&slots[1], Stage::Unknown));
    let slot_4 = at(&slots[3], Stage::AtWork);
    let mut newcomers = Vec::new();
    for (gone, name) in [(1, "the stranger"), (2, "the one that was refused later")] {
        newcomers.push(connections.admit().unwrap());
        let newcomer = newcomers.last().unwrap();
        assert!(slots[gone].state.begin().is_none(), "{name}");
        // An active connection is not a candidate.
        std::mem::forget(at(newcomer, Stage::AtWork));
    }
    newcomers.push(connections.admit().unwrap());
    assert_eq!(waiting.progress().reach(Stage::AtWork), Err(Evicted), "only then one that waits");
    assert!(slots[3].state.begin().is_some(), "and never one at work");
    drop((stranger, slot_4));
}

#[tokio::test(start_paused = true)]
async fn li10_a_user_that_watches_on_more_than_its_share_makes_room() {
    let connections = Connections::new(8);
    let slots: Vec<ConnectionSlot> = (0..8).map(|_| connections.admit().unwrap()).collect();
    let user = |name: &str| User { name: name.to_owned(), ..User::default() };
    let watch = |slot: &ConnectionSlot, users: &[User]| {
        let request = slot.state.begin().unwrap();
        let mut parts = http::Request::new(()).into_parts().0;
        parts.extensions.insert(request.progress());
        reach(&parts, Stage::AtWork).unwrap();
        users.iter().for_each(|user| watches(&parts, user).unwrap());
        request
    };
    let (many, few, master) = (user("many"), user("few"), User { groups: vec!["system:masters".into()], ..user("m") });
    let mut held: Vec<ActiveRequest> = Vec::new();
    held.extend([0, 1].map(|i| watch(&slots[i], std::slice::from_ref(&few))));
    held.extend([2, 3].map(|i| watch(&slots[i], std::slice::from_ref(&master))));
    held.push(watch(&slots[4], &[many.clone(), few.clone()]));
    held.extend([5, 6, 7].map(|i| watch(&slots[i], std::slice::from_ref(&many))));
    let newcomer = connections.admit().expect("`many` has three of eight, and its share is two");
    slots[5].state.evicted().await;
    assert!(slots[6].state.begin().is_some(), "one connection is enough");
    held.push(at(&newcomer, Stage::AtWork));
    assert!(connections.admit().is_none(), "no user has more than its share");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn idleness_is_counted_from_the_end_of_the_last_request() {
    let connections = Connections::new(1);
    let slot = connections.admit().unwrap();
    let (begun, busy) = (Instant::now(), slot.state.begin().unwrap());
    let limit = Duration::from_secs(90);
    let idle = slot.state.idle_for(limit);
    let work = async {
        tokio::time::sleep(Duration::from_secs(300)).await;
        drop(busy);
    };
    tokio::join!(idle, work);
    assert!(begun.elapsed() >= Duration::from_secs(390));
}
