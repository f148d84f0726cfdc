use super::*;
use ballast_k8s::GroupResource;

fn key(name: &str) -> Key {
    Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", name)
}

fn names(keys: &[Key]) -> Vec<&str> {
    keys.iter().map(|key| &*key.name).collect()
}

fn queue() -> Queue {
    let mut queue = Queue::new();
    queue.tick(1_000_000);
    queue
}

#[test]
fn room_that_was_needed_once_is_given_back() {
    let mut queue = Queue::new();
    let count = 8 * SPARE_MIN;
    (0..count).for_each(|number| queue.mark(key(&format!("web-{number}")), 0));
    let most = queue.entries.capacity();
    for key in queue.take(count) {
        queue.finish(&key, Next::Done, Some(Revision(1)));
    }
    assert!(queue.is_empty() && most >= count);
    queue.set_delivered(Revision(1));
    let left = [queue.entries.capacity(), queue.seen.capacity(), queue.seen_order.capacity()];
    assert!(left.iter().all(|left| *left < most / 4), "{left:?} of {most}");
}

#[test]
fn a_key_marked_twice_is_handed_out_once() {
    let mut queue = queue();
    queue.mark(key("a"), 0);
    queue.mark(key("a"), 0);
    assert_eq!(names(&queue.take(10)), ["a"]);
    queue.finish(&key("a"), Next::Done, None);
    assert!(queue.is_empty());
}

#[test]
fn what_waits_is_no_part_of_the_depth() {
    let mut queue = queue();
    for name in ["timer", "parked", "failed", "working", "ready"] {
        queue.mark(key(name), 0);
    }
    assert_eq!((queue.depth(), queue.waiting()), (5, 0));
    queue.take(4);
    queue.finish(&key("timer"), Next::After(3_600_000), None);
    queue.finish(&key("parked"), Next::Unschedulable, None);
    queue.finish(&key("failed"), Next::Retry, None);
    assert_eq!((queue.depth(), queue.waiting()), (2, 3));
    queue.tick(1_000_000 + 3_600_000);
    assert_eq!((queue.depth(), queue.waiting()), (5, 0));
}

#[test]
fn what_work_has_not_seen_is_marked_and_what_it_has_is_known() {
    let mut queue = queue();
    assert!(!queue.mark_overtaken(&key("a"), Revision(1)), "nobody works on it");
    queue.mark(key("a"), 0);
    assert!(!queue.mark_overtaken(&key("a"), Revision(1)), "nobody has begun");
    queue.take(1);
    assert!(queue.mark_overtaken(&key("a"), Revision(5)) && queue.mark_overtaken(&key("a"), Revision(4)));
    queue.finish(&key("a"), Next::Done, Some(Revision(4)));
    assert_eq!(names(&queue.take(1)), ["a"], "it was decided on an older version");
    queue.finish(&key("a"), Next::Done, Some(Revision(6)));
    assert!(queue.is_empty() && queue.mark_overtaken(&key("a"), Revision(6)));
    assert!(!queue.mark_overtaken(&key("a"), Revision(7)) && queue.is_empty());
}

#[test]
fn priority_goes_first_then_whoever_came_first() {
    let mut queue = queue();
    queue.mark(key("early"), 0);
    queue.mark(key("late"), 0);
    queue.mark(key("urgent"), 5);
    queue.mark(key("late"), 0);
    assert_eq!(names(&queue.take(2)), ["urgent", "early"]);
    assert_eq!(names(&queue.take(2)), ["late"]);
}

fn of(namespace: &str, name: &str) -> Key {
    Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), namespace, name)
}

#[test]
fn namespaces_take_turns_whatever_the_number_and_priority_of_their_keys() {
    let mut queue = Queue::taking_turns();
    for number in 0..4 {
        queue.mark(of("shop", &format!("s{number}")), i32::MAX);
    }
    queue.mark(of("shop", "less-urgent"), 0);
    queue.mark(of("bank", "b0"), 0);
    queue.mark(of("bank", "b1"), 7);
    assert_eq!(names(&queue.take(4)), ["s0", "b1", "s1", "b0"]);
    // A namespace that arrives later waits for one turn, and does not make up for idle time.
    queue.mark(of("late", "l0"), 0);
    queue.mark(of("late", "l1"), 0);
    assert_eq!(names(&queue.take(5)), ["l0", "s2", "l1", "s3", "less-urgent"]);
    assert!(!queue.is_ready() && queue.shares.is_empty());
}

#[test]
fn expensive_keys_count_for_their_namespace() {
    let mut queue = Queue::taking_turns();
    let weight = |key: &Key| if *key.namespace == *"shop" { 10 } else { 1 };
    for number in 0..3 {
        queue.mark(of("shop", &format!("s{number}")), 0);
    }
    (0..25).for_each(|number| queue.mark(of("bank", &format!("b{number:02}")), 0));
    let taken = queue.take_weighed(22, weight);
    assert_eq!(taken.iter().filter(|key| *key.namespace == *"shop").count(), 2);
    assert_eq!(taken.len(), 12, "the keys of a batch weigh no more than the limit: {taken:?}");
    queue.mark(of("shop", "s2"), 5);
    assert_eq!(queue.take_weighed(100, weight).len(), 16);
}

#[test]
fn a_key_marked_while_in_work_is_worked_on_again() {
    let mut queue = queue();
    queue.mark(key("a"), 0);
    queue.take(1);
    queue.mark(key("a"), 0);
    assert_eq!(queue.take(1), []);
    queue.finish(&key("a"), Next::Done, None);
    assert_eq!(names(&queue.take(1)), ["a"]);
}

#[test]
fn the_echo_of_its_own_write_does_not_wake_a_key() {
    let mut queue = queue();
    queue.mark_changed(key("a"), 0, Revision(7));
    queue.take(1);
    queue.mark_changed(key("a"), 0, Revision(9));
    queue.finish(&key("a"), Next::Done, Some(Revision(9)));
    queue.mark_changed(key("a"), 0, Revision(9));
    assert!(!queue.is_ready());
    queue.mark_changed(key("a"), 0, Revision(10));
    assert!(queue.is_ready());
}

#[test]
fn a_change_that_the_work_had_not_seen_wakes_the_key() {
    let mut queue = queue();
    queue.mark_changed(key("a"), 0, Revision(7));
    queue.take(1);
    queue.mark_changed(key("a"), 0, Revision(9));
    queue.finish(&key("a"), Next::Done, Some(Revision(8)));
    assert!(queue.is_ready());
}

#[test]
fn a_mark_for_another_reason_is_not_an_echo() {
    let mut queue = queue();
    queue.mark_changed(key("a"), 0, Revision(7));
    queue.take(1);
    queue.mark(key("a"), 0);
    queue.finish(&key("a"), Next::Done, Some(Revision(9)));
    assert!(queue.is_ready());
}

#[test]
fn what_was_seen_is_forgotten_once_its_events_were_noticed() {
    let mut queue = queue();
    queue.mark(key("a"), 0);
    queue.take(1);
    queue.finish(&key("a"), Next::Done, Some(Revision(9)));
    queue.set_delivered(Revision(8));
    assert_eq!(queue.seen.len(), 1);
    queue.set_delivered(Revision(9));
    assert!(queue.seen.is_empty() && queue.seen_order.is_empty());
    // The seen revision is not kept either if the events arrived first.
    queue.mark(key("a"), 0);
    queue.take(1);
    queue.finish(&key("a"), Next::Done, Some(Revision(9)));
    assert!(queue.seen.is_empty() && queue.seen_order.is_empty());
}

#[test]
fn failures_wait_one_second_doubling_to_ten() {
    let mut queue = queue();
    let mut wall = 1_000_000;
    queue.mark(key("a"), 0);
    let mut waits = Vec::new();
    for _ in 0..6 {
        assert_eq!(queue.take(1).len(), 1);
        queue.finish(&key("a"), Next::Retry, None);
        let wait = queue.next_due_ms().unwrap();
        waits.push(wait);
        wall += wait;
        queue.tick(wall);
    }
    assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
}

#[test]
fn a_mark_ends_every_wait() {
    for next in [Next::After(60_000), Next::Retry, Next::Unschedulable] {
        let mut queue = queue();
        queue.mark(key("a"), 0);
        queue.take(1);
        queue.finish(&key("a"), next, None);
        assert!(!queue.is_ready(), "{next:?}");
        queue.mark(key("a"), 0);
        assert!(queue.is_ready(), "{next:?}");
        assert_eq!(queue.next_due_ms(), None, "{next:?}");
    }
}

#[test]
fn what_is_parked_returns_when_woken_or_after_five_minutes() {
    let mut queue = queue();
    queue.mark(key("a"), 0);
    queue.take(1);
    queue.finish(&key("a"), Next::Unschedulable, None);
    queue.tick(1_000_000 + UNSCHEDULABLE_MAX_MS - 1);
    assert!(!queue.is_ready());
    queue.wake_unschedulable(|_| true);
    assert!(queue.is_ready());

    queue.take(1);
    queue.finish(&key("a"), Next::Unschedulable, None);
    queue.tick(1_000_000 + 2 * UNSCHEDULABLE_MAX_MS - 1);
    assert!(queue.is_ready());
}

#[test]
fn waking_respects_the_backoff() {
    let mut queue = queue();
    queue.mark(key("a"), 0);
    queue.take(1);
    queue.finish(&key("a"), Next::Unschedulable, None);
    queue.wake_unschedulable(|_| true);
    assert!(!queue.is_ready());
    assert_eq!(queue.next_due_ms(), Some(BACKOFF_FIRST_MS));
}

#[test]
fn a_wake_that_comes_while_the_key_is_in_work_is_not_lost() {
    let mut queue = queue();
    queue.mark(key("a"), 0);
    queue.take(1);
    queue.wake_unschedulable(|_| true);
    queue.finish(&key("a"), Next::Unschedulable, None);
    assert_eq!(queue.next_due_ms(), Some(BACKOFF_FIRST_MS));
}

#[test]
fn only_whom_it_concerns_is_woken() {
    let mut queue = queue();
    for name in ["a", "b", "c", "d"] {
        queue.mark(key(name), 0);
    }
    queue.take(4);
    for name in ["a", "b"] {
        queue.finish(&key(name), Next::Unschedulable, None);
    }
    let concerned = |key: &Key| ["a", "c"].contains(&&*key.name);
    queue.wake_unschedulable(concerned);
    for name in ["c", "d"] {
        queue.finish(&key(name), Next::Unschedulable, None);
    }
    queue.tick(1_000_000 + BACKOFF_FIRST_MS);
    assert_eq!(names(&queue.take(4)), ["a", "c"]);
}

#[test]
fn work_on_what_is_no_longer_so_is_repeated() {
    let mut queue = queue();
    queue.mark(key("a"), 0);
    queue.mark(key("b"), 0);
    queue.take(2);
    queue.mark_working(|key| &*key.name == "a");
    queue.finish(&key("a"), Next::Done, Some(Revision(9)));
    queue.finish(&key("b"), Next::Done, Some(Revision(9)));
    assert_eq!(names(&queue.take(2)), ["a"]);
}

#[test]
fn a_clock_that_steps_back_does_not_lengthen_a_wait() {
    let mut queue = queue();
    queue.mark(key("a"), 0);
    queue.take(1);
    queue.finish(&key("a"), Next::After(5_000), None);
    queue.tick(1_000_000 - 3_600_000);
    assert_eq!(queue.next_due_ms(), Some(5_000));
    queue.tick(1_000_000 - 3_600_000 + 5_000);
    assert!(queue.is_ready());
}
