//! Consecutive plans of a schedule: the status of one plan is the input of the next.

use proptest::prelude::*;

use super::*;
use ballast_api::ballast::v1alpha1::ClusterRecovered;

const NOON: i64 = 1_713_355_200; // 2024-04-17T12:00:00Z

struct Story {
    spec: RebalanceScheduleSpec,
    status: RebalanceScheduleStatus,
    made: Vec<OwnedRebalance>,
    /// Name, readiness, and time of its last change.
    clusters: Vec<(&'static str, Option<bool>, i64)>,
}

impl Story {
    fn by_clock(line: &str) -> Story {
        Story::of(RebalanceScheduleSpec { schedule: Some(line.to_owned()), ..RebalanceScheduleSpec::default() })
    }

    fn by_recovery(stable_for_seconds: i64) -> Story {
        let recovered = ClusterRecovered { stable_for_seconds, ..ClusterRecovered::default() };
        let on = Some(ScheduleOn { cluster_recovered: Some(recovered) });
        Story::of(RebalanceScheduleSpec { on, ..RebalanceScheduleSpec::default() })
    }

    fn of(spec: RebalanceScheduleSpec) -> Story {
        let spec = RebalanceScheduleSpec { successful_history_limit: 3, failed_history_limit: 1, ..spec };
        Story { spec, status: RebalanceScheduleStatus::default(), made: Vec::new(), clusters: Vec::new() }
    }

    /// Plans at this many seconds after noon, and executes the plan.
    fn look(&mut self, at: i64) -> ScheduleActions {
        let now = Time::from_seconds(NOON + at);
        let clusters: Vec<ObservedCluster<'_>> =
            self.clusters.iter().map(|&(name, ready, since)| seen(name, ready, since)).collect();
        let plan = plan(&Observed {
            name: "nightly",
            generation: 1,
            created: Time::from_seconds(NOON),
            spec: &self.spec,
            status: &self.status,
            made: &self.made,
            clusters: &clusters,
            is_taken: &|name| name == "nightly-taken",
            now,
        });
        self.status = plan.status.clone();
        self.made.retain(|made| !plan.delete.contains(&made.name));
        for made in self.made.iter_mut().filter(|made| plan.abort.contains(&made.name)) {
            made.is_aborting = true;
        }
        if let Some(make) = &plan.make {
            let (name, created) = (make.name.clone(), now);
            self.made.push(OwnedRebalance {
                name,
                created,
                state: OwnedState::Active,
                is_aborting: false,
                is_idle: false,
            });
        }
        plan
    }

    /// Returns the time that one is created for now, in seconds after noon.
    fn made_for(&mut self, at: i64) -> Option<i64> {
        self.look(at).make.map(|make| make.due.seconds() - NOON)
    }

    fn end(&mut self, state: OwnedState) {
        self.made.iter_mut().filter(|made| made.state == OwnedState::Active).for_each(|made| made.state = state);
    }
}

fn seen(name: &str, ready: Option<bool>, since: i64) -> ObservedCluster<'_> {
    ObservedCluster { name, labels: &[], ready, since: Time::from_seconds(NOON + since) }
}

fn reasons(plan: &ScheduleActions) -> Vec<&'static str> {
    plan.events.iter().map(|event| event.reason).collect()
}

#[test]
fn each_time_is_served_once_and_named_by_its_minute() {
    let mut story = Story::by_clock("*/10 * * * *");
    let first = story.look(0);
    assert_eq!((first.make, first.look_again), (None, Some(Time::from_seconds(NOON + 600))));
    let due = story.look(601);
    assert_eq!(due.make.unwrap().name, format!("nightly-{}", (NOON + 600) / 60));
    assert_eq!(due.status.last_schedule_time, Some(Time::from_seconds(NOON + 600)));
    assert_eq!(due.status.next_schedule_time, Some(Time::from_seconds(NOON + 1_200)));
    assert_eq!(story.made_for(601), None);
    assert_eq!(story.made_for(1_199), None);
    assert_eq!(story.made_for(1_200), Some(1_200));
}

#[test]
fn a_status_that_was_taken_back_makes_nothing_twice() {
    let mut story = Story::by_clock("*/10 * * * *");
    assert_eq!(story.made_for(600), Some(600));
    story.status = RebalanceScheduleStatus::default();
    let again = story.look(610);
    assert_eq!(again.make, None);
    assert_eq!(again.status.last_schedule_time, Some(Time::from_seconds(NOON + 600)));
}

#[test]
fn a_clock_that_steps_back_makes_nothing_twice_and_one_that_steps_forward_makes_the_latest() {
    let mut story = Story::by_clock("@hourly");
    assert_eq!(story.made_for(3_600), Some(3_600));
    assert_eq!(story.made_for(3_590), None);
    assert_eq!(story.made_for(3_600), None);
    let forward = story.look(200 * 3_600 + 5);
    assert_eq!(forward.make.as_ref().map(|make| make.due.seconds() - NOON), Some(200 * 3_600));
    assert_eq!(reasons(&forward), ["TooManyMissedTimes", "SuccessfulCreate"]);
    // A day back: the times until then have been served.
    assert_eq!(story.made_for(176 * 3_600), None);
    assert_eq!(story.look(176 * 3_600).look_again, Some(Time::from_seconds(NOON + 201 * 3_600)));
}

#[test]
fn what_is_late_beyond_its_deadline_is_skipped_with_one_warning() {
    let mut story = Story::by_clock("@hourly");
    story.spec.starting_deadline_seconds = Some(300);
    story.look(0);
    assert_eq!(story.made_for(3_900), Some(3_600));
    let late = story.look(7_501);
    assert_eq!((late.make.clone(), reasons(&late)), (None, vec!["MissSchedule"]));
    assert_eq!(reasons(&story.look(7_502)), [""; 0]);
    assert_eq!(story.made_for(10_800), Some(10_800));
}

#[test]
fn forbid_waits_for_the_one_before_and_then_makes_the_latest() {
    let mut story = Story::by_clock("@hourly");
    story.spec.concurrency_policy = ConcurrencyPolicy::Forbid;
    assert_eq!(story.made_for(3_600), Some(3_600));
    let held = story.look(7_200);
    assert_eq!((held.make.clone(), reasons(&held)), (None, vec!["AlreadyActive"]));
    assert_eq!(reasons(&story.look(7_201)), [""; 0]);
    assert_eq!(story.made_for(10_800), None);
    story.end(OwnedState::Successful);
    let freed = story.look(10_900);
    assert_eq!(freed.make.as_ref().map(|make| make.due.seconds() - NOON), Some(10_800));
    assert_eq!(reasons(&freed), ["SawCompletedRebalance", "SuccessfulCreate"]);
}

#[test]
fn replace_aborts_the_one_before_and_allow_lets_it_be() {
    let mut story = Story::by_clock("@hourly");
    story.spec.concurrency_policy = ConcurrencyPolicy::Replace;
    let first = story.look(3_600).make.unwrap().name;
    let second = story.look(7_200);
    assert_eq!((second.abort, second.make.is_some()), (vec![first], true));
    // The first one still settles its moves, and is not aborted again.
    assert_eq!(story.look(10_800).abort.len(), 1);
    story.spec.concurrency_policy = ConcurrencyPolicy::Allow;
    let fourth = story.look(14_400);
    assert_eq!((fourth.abort.len(), fourth.status.active.len()), (0, 4));
}

#[test]
fn a_suspended_schedule_makes_up_for_the_latest_when_it_goes_on() {
    let mut story = Story::by_clock("@hourly");
    story.spec.suspend = true;
    let suspended = story.look(3_600);
    assert_eq!((suspended.make, suspended.look_again, suspended.status.next_schedule_time), (None, None, None));
    assert_eq!(suspended.status.conditions[0].reason, "Suspended");
    story.spec.suspend = false;
    assert_eq!(story.made_for(7_300), Some(7_200));
}

#[test]
fn the_oldest_finished_ones_beyond_the_limits_go() {
    let mut story = Story::by_clock("@yearly");
    let made = |name: &str, created, state| {
        let created = Time::from_seconds(NOON + created);
        OwnedRebalance { name: name.to_owned(), created, state, is_aborting: false, is_idle: false }
    };
    story.made = vec![
        made("a", 1, OwnedState::Successful),
        made("b", 2, OwnedState::Failed),
        made("c", 3, OwnedState::Successful),
        made("d", 4, OwnedState::Active),
        made("e", 5, OwnedState::Failed),
        made("f", 6, OwnedState::Successful),
    ];
    story.spec.successful_history_limit = 2;
    assert_eq!(story.look(60).delete, ["a", "b"]);
    story.spec.successful_history_limit = 0;
    story.spec.failed_history_limit = 0;
    assert_eq!(story.look(60).delete, ["f", "c", "e"]);
    assert_eq!(story.status.active, ["d"]);
}

#[test]
fn a_recovery_makes_one_when_it_has_lasted() {
    let mut story = Story::by_recovery(600);
    story.clusters = vec![("member1", Some(true), -99), ("member2", None, 0), ("member3", Some(false), -10)];
    assert_eq!(story.look(0).status.recoveries.len(), 1);
    story.clusters[0] = ("member1", Some(false), 100);
    story.look(100);
    story.clusters[0] = ("member1", Some(true), 200);
    let back = story.look(200);
    assert_eq!((back.make, back.look_again), (None, Some(Time::from_seconds(NOON + 800))));
    assert_eq!(story.made_for(799), None);
    let due = story.look(800);
    let make = due.make.unwrap();
    assert_eq!((make.due.seconds() - NOON, make.recovered()), (800, "member1".to_owned()));
    assert_eq!(due.status.recoveries, [Recovery { cluster: "member3".to_owned(), ready_since: None }]);
    assert_eq!(story.made_for(9_000), None);
}

#[test]
fn a_recovery_that_is_lost_again_makes_nothing() {
    let mut story = Story::by_recovery(600);
    for (at, ready) in [(0, false), (100, true), (650, false), (660, true), (1_200, true)] {
        let since = if at == 1_200 { 660 } else { at };
        story.clusters = vec![("member1", Some(ready), since)];
        assert_eq!(story.made_for(at), None, "{at}");
    }
    // Between two checks: only the time of the condition shows it.
    story.clusters = vec![("member1", Some(true), 1_250)];
    assert_eq!(story.made_for(1_260), None);
    assert_eq!(story.made_for(1_849), None);
    assert_eq!(story.made_for(1_850), Some(1_850));
    // A cluster that is deleted, or loses the condition, has not recovered.
    story.clusters = vec![("member1", Some(false), 2_000)];
    story.look(2_000);
    story.clusters.clear();
    assert_eq!(story.look(2_100).status.recoveries, []);
}

#[test]
fn recoveries_at_one_time_share_one_and_wait_for_the_one_before() {
    let mut story = Story::by_recovery(60);
    story.spec.concurrency_policy = ConcurrencyPolicy::Forbid;
    story.clusters = vec![("member1", Some(false), 0), ("member2", Some(false), 0), ("member3", Some(false), 0)];
    story.look(0);
    story.clusters = vec![("member1", Some(true), 10), ("member2", Some(true), 10), ("member3", Some(true), 5)];
    story.look(10);
    let both = story.look(70);
    assert_eq!(both.make.unwrap().recovered(), "member1, member2, member3");
    story.clusters[0] = ("member1", Some(false), 80);
    story.look(80);
    story.clusters[0] = ("member1", Some(true), 90);
    story.look(90);
    let held = story.look(150);
    assert_eq!((held.make.clone(), reasons(&held)), (None, vec!["AlreadyActive"]));
    assert_eq!(reasons(&story.look(151)), [""; 0]);
    story.end(OwnedState::Failed);
    assert_eq!(story.made_for(200), Some(150));
}

#[test]
fn clocks_that_disagree_neither_hasten_a_recovery_for_long_nor_put_it_off_for_ever() {
    let mut story = Story::by_recovery(60);
    story.clusters = vec![("member1", Some(false), 0)];
    story.look(0);
    // The reporter's clock is a day ahead, then the local clock steps back.
    story.clusters = vec![("member1", Some(true), 86_400)];
    assert_eq!(story.made_for(1_000), None);
    assert_eq!(story.made_for(100), None);
    assert_eq!(story.made_for(159), None);
    assert_eq!(story.made_for(160), Some(160));
}

#[test]
fn what_somebody_else_made_under_the_name_is_left_alone() {
    let mut story = Story::by_clock("@hourly");
    let taken = format!("nightly-{}", (NOON + 3_600) / 60);
    let now = Time::from_seconds(NOON + 3_600);
    let plan = plan(&Observed {
        name: "nightly",
        generation: 1,
        created: Time::from_seconds(NOON),
        spec: &story.spec,
        status: &story.status,
        made: &[],
        clusters: &[],
        is_taken: &|name| name == taken,
        now,
    });
    assert_eq!((plan.make.clone(), reasons(&plan)), (None, vec!["FailedCreate"]));
    story.status = plan.status;
    assert_eq!(story.made_for(3_700), None);
}

#[test]
fn a_line_that_cannot_be_read_any_more_is_said() {
    let mut story = Story::by_clock("nonsense");
    let plan = story.look(0);
    assert_eq!((plan.make, plan.look_again), (None, None));
    assert_eq!(plan.status.conditions[0].reason, "Unreadable");
}

proptest! {
    /// Plans at arbitrary times, with a clock that also steps back, while ClusterRebalances end.
    #[test]
    fn no_time_is_served_twice_or_forgotten_and_every_bound_holds(
        policy in prop::sample::select(vec![
            ConcurrencyPolicy::Allow,
            ConcurrencyPolicy::Forbid,
            ConcurrencyPolicy::Replace,
        ]),
        deadline in prop::option::of(0i64..2_000),
        steps in prop::collection::vec((-3_000i64..9_000, 0u8..4), 1..20),
    ) {
        let mut story = Story::by_clock("*/7 * * * *");
        story.spec.concurrency_policy = policy;
        story.spec.starting_deadline_seconds = deadline;
        let cron = Cron::parse("*/7 * * * *").unwrap();
        let (mut now, mut last) = (0, 0);
        for (step, ending) in steps {
            now = (now + step).max(0);
            match ending {
                0 => story.end(OwnedState::Successful),
                1 => story.end(OwnedState::Failed),
                _ => {}
            }
            let plan = story.look(now);
            let latest = cron.latest(Time::from_seconds(NOON + now), &Zone::utc()).unwrap().seconds() - NOON;
            if let Some(due) = plan.make.as_ref().map(|make| make.due.seconds() - NOON) {
                prop_assert!(due > last && due == latest, "{due} after {last}, at {now}");
                prop_assert!(deadline.is_none_or(|deadline| now <= due + deadline));
                last = due;
            } else if policy == ConcurrencyPolicy::Allow && deadline.is_none() {
                prop_assert!(latest <= last, "{latest} is forgotten at {now}");
            }
            let active = story.made.iter().filter(|made| made.state == OwnedState::Active);
            let (aborting, going): (Vec<&OwnedRebalance>, Vec<&OwnedRebalance>) = active.partition(|made| made.is_aborting);
            prop_assert!(policy == ConcurrencyPolicy::Allow || going.len() <= 1);
            prop_assert!(policy == ConcurrencyPolicy::Replace || aborting.is_empty());
            for (state, limit) in [(OwnedState::Successful, 3), (OwnedState::Failed, 1)] {
                prop_assert!(story.made.iter().filter(|made| made.state == state).count() <= limit);
            }
            prop_assert!(plan.look_again > Some(Time::from_seconds(NOON + now)));
            prop_assert_eq!(story.look(now).make, None);
        }
    }

    /// A cluster that recovers repeatedly causes one for each recovery that lasts for long enough.
    #[test]
    fn each_recovery_that_lasts_makes_one_and_no_other_makes_any(
        spans in prop::collection::vec((1i64..150, 1i64..150), 1..8),
        stable in 0i64..120,
        pace in 3i64..40,
    ) {
        let mut story = Story::by_recovery(stable);
        let (mut now, mut made, mut lasting) = (0, 0, 0);
        for (lost, back) in spans {
            for (span, ready) in [(lost, false), (back, true)] {
                story.clusters = vec![("member1", Some(ready), now)];
                let end = now + span;
                while now < end {
                    made += usize::from(story.look(now).make.is_some());
                    now = (now + pace).min(end);
                }
            }
            // The checks are before the end of the span.
            let last_look = (back - 1) / pace * pace;
            lasting += usize::from(last_look >= stable);
            prop_assert_eq!(made, lasting);
        }
    }
}
