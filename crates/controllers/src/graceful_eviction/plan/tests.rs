//! Tests of the end of evictions and of kept copies.

use serde_json::json;

use super::super::last_copy::Reports;
use super::*;
use ballast_api::karmada::work::v1alpha2::AggregatedStatusItem;

const STAYS: LastCopy = LastCopy::Stays { at_most_seconds: None };

fn at(seconds: i64) -> Time {
    Time::from_seconds(seconds)
}

fn task() -> GracefulEvictionTask {
    GracefulEvictionTask {
        from_cluster: "member1".to_owned(),
        creation_timestamp: Some(at(100)),
        replicas: Some(3),
        ..GracefulEvictionTask::by_taint()
    }
}

fn failed() -> GracefulEvictionTask {
    GracefulEvictionTask {
        producer: "resource-binding-application-failover-controller".to_owned(),
        reason: APPLICATION_FAILURE.to_owned(),
        ..task()
    }
}

fn on(cluster: &str, replicas: i32) -> TargetCluster {
    TargetCluster { name: cluster.to_owned(), replicas: Some(replicas), ..TargetCluster::default() }
}

fn report(cluster: &str, health: ResourceHealth) -> AggregatedStatusItem {
    AggregatedStatusItem { cluster_name: cluster.to_owned(), health: Some(health), ..AggregatedStatusItem::default() }
}

fn ready(cluster: &str, ready: i64) -> AggregatedStatusItem {
    AggregatedStatusItem {
        cluster_name: cluster.to_owned(),
        health: Some(if ready > 0 { ResourceHealth::Healthy } else { ResourceHealth::Unhealthy }),
        status: Some((&json!({"replicas": 3, "readyReplicas": ready})).into()),
        ..AggregatedStatusItem::default()
    }
}

struct TestCase {
    tasks: Vec<GracefulEvictionTask>,
    wanted: Wanted,
    targets: Vec<TargetCluster>,
    reports: Vec<AggregatedStatusItem>,
    is_scheduled: bool,
    is_suspended: bool,
    last_copy: LastCopy,
    origin: EvictionOrigin,
    /// Whether the scheduler would keep the workload on the proposed targets.
    admits: bool,
}

impl Default for TestCase {
    /// Three replicas, replaced on member2. No cluster has reported.
    fn default() -> TestCase {
        TestCase {
            tasks: vec![task()],
            wanted: Wanted::Divided(3),
            targets: vec![on("member2", 3)],
            reports: Vec::new(),
            is_scheduled: true,
            is_suspended: false,
            last_copy: STAYS,
            origin: EvictionOrigin::Hostile,
            admits: true,
        }
    }
}

impl TestCase {
    fn plan(&self, now: i64) -> TaskPlan {
        let TestCase { tasks, wanted, targets, reports, is_scheduled, .. } = self;
        let reports = &Reports::new(reports);
        let workload = LeavingWorkload { wanted: *wanted, targets, reports };
        let leaving = EvictionState { tasks, workload, is_scheduled: *is_scheduled, is_suspended: self.is_suspended };
        let rules = EvictionRules { grace_seconds: 600, last_copy: self.last_copy, holds_suspended: true };
        plan(leaving, rules, |_| self.origin, |_| self.admits, at(now))
    }

    fn end(&self, now: i64) -> Option<TaskEnd> {
        self.plan(now).ended.first().map(|(_, end)| *end)
    }
}

const OVER: Option<TaskEnd> = Some(TaskEnd::Over { lost: 0 });
const BACK: Option<TaskEnd> = Some(TaskEnd::CalledOff { replicas: Some(3) });

#[test]
fn a_task_ends_with_its_grace_period() {
    let case = TestCase::default();
    assert_eq!(case.plan(699), TaskPlan { next_check: Some(at(700)), ..TaskPlan::default() });
    assert_eq!(case.end(700), OVER);
    let short = TestCase { tasks: vec![GracefulEvictionTask { grace_period_seconds: Some(30), ..task() }], ..case };
    assert_eq!((short.end(129), short.end(130)), (None, OVER));
}

#[test]
fn a_task_ends_when_the_scheduled_result_is_healthy_everywhere() {
    let healthy = || vec![report("member2", ResourceHealth::Healthy)];
    assert_eq!(TestCase { reports: healthy(), ..TestCase::default() }.end(101), OVER);
    assert_eq!(TestCase { reports: healthy(), is_scheduled: false, ..TestCase::default() }.end(101), None);
    let targets = vec![on("member2", 2), on("member3", 1)];
    assert_eq!(TestCase { reports: healthy(), targets, ..TestCase::default() }.end(101), None);
    let unwell = vec![report("member2", ResourceHealth::Unhealthy)];
    assert_eq!(TestCase { reports: unwell, ..TestCase::default() }.end(101), None);
    // A report from before the replacement was placed.
    let stale = || vec![ready("member2", 2)];
    assert_eq!(TestCase { reports: stale(), ..TestCase::default() }.end(101), None);
    let upstream = TestCase { reports: stale(), last_copy: LastCopy::Leaves, ..TestCase::default() };
    assert_eq!(upstream.end(101), Some(TaskEnd::Over { lost: 1 }));
}

#[test]
fn a_task_waits_while_scheduling_is_suspended_and_nothing_replaces_the_replicas() {
    let waiting = || TestCase { is_suspended: true, targets: vec![on("member2", 1)], ..TestCase::default() };
    assert_eq!(waiting().plan(9_999), TaskPlan::default(), "also when its grace period is over");
    assert_eq!(TestCase { targets: vec![on("member2", 3)], ..waiting() }.end(700), OVER);
    assert_eq!(TestCase { origin: EvictionOrigin::Gone, ..waiting() }.end(101), OVER);
}

#[test]
fn a_suppressed_task_waits_for_a_person() {
    let suppressed = |suppress| vec![GracefulEvictionTask { suppress_deletion: Some(suppress), ..task() }];
    let reports = vec![report("member2", ResourceHealth::Healthy)];
    let case = TestCase { tasks: suppressed(true), reports, ..TestCase::default() };
    assert_eq!(case.plan(9_999), TaskPlan::default());
    assert_eq!(TestCase { tasks: suppressed(false), ..TestCase::default() }.end(101), OVER);
}

#[test]
fn rm20_what_has_no_other_place_stays_beyond_its_grace_period() {
    let nowhere = || TestCase { targets: Vec::new(), is_scheduled: false, ..TestCase::default() };
    assert_eq!(nowhere().plan(699), TaskPlan { next_check: Some(at(700)), ..TaskPlan::default() });
    let kept = |message: &str, reason| {
        let kept = KeptCopies { reason, message: message.to_owned() };
        TaskPlan { kept: Some(kept), ..TaskPlan::default() }
    };
    assert_eq!(
        nowhere().plan(99_999),
        kept("3 replicas have no other place; kept on member1", "NoOtherPlace"),
        "it looks again when something changes"
    );
    let partly = TestCase { targets: vec![on("member2", 2)], is_scheduled: false, ..TestCase::default() };
    let told = partly.plan(700).kept.unwrap().message;
    assert_eq!(told, "1 replica has no other place; kept on member1");
    let unready = TestCase { reports: vec![ready("member2", 1)], ..TestCase::default() };
    let told = "2 replicas are not ready elsewhere; kept on member1";
    assert_eq!(unready.plan(700), kept(told, "ReplacementNotReady"));
    let copy = TestCase { wanted: Wanted::Copies(None), targets: Vec::new(), ..TestCase::default() };
    assert_eq!(copy.plan(700).kept.unwrap().message, "the object has no other place; kept on member1");
    let twice = GracefulEvictionTask { from_cluster: "member3".to_owned(), ..task() };
    let both = TestCase { tasks: vec![task(), twice], ..nowhere() };
    let told = both.plan(700).kept.unwrap().message;
    assert_eq!(told, "3 replicas have no other place; kept on member1 and member3");
}

#[test]
fn rm21_it_ends_when_the_replacement_is_ready_or_a_user_says_so_or_the_cluster_goes_or_after_the_flag_s_time() {
    let unready = || vec![ready("member2", 1)];
    let ready = vec![ready("member2", 3)];
    assert_eq!(TestCase { reports: ready, is_scheduled: false, ..TestCase::default() }.end(700), OVER);
    let allowed = vec![GracefulEvictionTask { suppress_deletion: Some(false), ..task() }];
    let lost = Some(TaskEnd::Over { lost: 2 });
    assert_eq!(TestCase { tasks: allowed, reports: unready(), ..TestCase::default() }.end(101), lost);
    let gone = TestCase { origin: EvictionOrigin::Gone, reports: unready(), ..TestCase::default() };
    assert_eq!(gone.end(101), OVER);
    let deleting = TestCase { origin: EvictionOrigin::Deleting, reports: unready(), ..TestCase::default() };
    assert_eq!((deleting.end(699), deleting.end(700)), (None, lost));
    let last_copy = LastCopy::Stays { at_most_seconds: Some(60) };
    let bounded = TestCase { last_copy, reports: unready(), ..TestCase::default() };
    assert_eq!((bounded.end(759), bounded.end(760)), (None, lost));
    assert_eq!(bounded.plan(700).next_check, Some(at(760)));
    let upstream = TestCase { last_copy: LastCopy::Leaves, reports: unready(), ..TestCase::default() };
    assert_eq!(upstream.end(700), lost);
}

#[test]
fn a_task_is_called_off_when_its_reason_ends_before_the_replicas_found_a_place() {
    let waiting = || TestCase { targets: Vec::new(), is_scheduled: false, ..TestCase::default() };
    assert_eq!(waiting().end(101), None);
    let friendly = TestCase { origin: EvictionOrigin::Friendly, ..waiting() };
    assert_eq!(friendly.end(101), BACK);
    let plan = friendly.plan(101);
    assert_eq!((plan.targets, plan.tasks), (Some(vec![on("member1", 3)]), Some(vec![])), "in one write (RM23)");
    assert_eq!(friendly.plan(99_999).targets, Some(vec![on("member1", 3)]), "also what was kept (RM22)");
    let placed = TestCase { origin: EvictionOrigin::Well, ..TestCase::default() };
    assert_eq!(placed.end(101), None, "they have a place");
    let refused = TestCase { origin: EvictionOrigin::Friendly, admits: false, ..waiting() };
    assert_eq!((refused.end(101), refused.end(700)), (None, None), "the scheduler would take it away at once");
    let grown = TestCase { origin: EvictionOrigin::Friendly, targets: vec![on("member2", 1)], ..TestCase::default() };
    assert_eq!(grown.plan(101).targets, Some(vec![on("member1", 2), on("member2", 1)]), "no more than are wanted");
    let shrunk = TestCase { origin: EvictionOrigin::Friendly, wanted: Wanted::Divided(0), ..waiting() };
    assert_eq!((shrunk.end(101), shrunk.end(700)), (None, OVER));
}

#[test]
fn an_application_that_is_well_again_stays_and_taints_say_nothing_about_it() {
    let failed = |health| TestCase {
        tasks: vec![failed()],
        targets: Vec::new(),
        reports: vec![report("member1", health)],
        is_scheduled: false,
        origin: EvictionOrigin::Well,
        ..TestCase::default()
    };
    assert_eq!(failed(ResourceHealth::Unhealthy).end(101), None);
    assert_eq!(failed(ResourceHealth::Healthy).end(101), BACK);
    let upstream = TestCase { last_copy: LastCopy::Leaves, ..failed(ResourceHealth::Healthy) };
    assert_eq!(upstream.end(101), None);
    let by_user = GracefulEvictionTask { reason: "Maintenance".to_owned(), producer: "me".to_owned(), ..task() };
    assert_eq!(TestCase { tasks: vec![by_user], ..failed(ResourceHealth::Healthy) }.end(101), None);
}

#[test]
fn rm24_a_cluster_that_is_back_and_well_keeps_what_is_ready_there_while_the_replacement_is_not() {
    let back = |here, there| TestCase {
        reports: vec![ready("member1", here), ready("member2", there)],
        origin: EvictionOrigin::Well,
        ..TestCase::default()
    };
    assert_eq!(back(3, 0).plan(101).targets, Some(vec![on("member1", 3)]), "the surplus goes");
    assert_eq!(back(3, 2).plan(101).targets, Some(vec![on("member1", 1), on("member2", 2)]));
    assert_eq!(back(1, 0).plan(101).targets, Some(vec![on("member1", 1), on("member2", 2)]));
    assert_eq!(back(3, 3).end(101), OVER, "the replacement is ready");
    assert_eq!(back(0, 0).plan(101).targets, None, "nothing runs there");
    let unwell = TestCase { origin: EvictionOrigin::Friendly, ..back(3, 0) };
    assert_eq!(unwell.plan(101).targets, None, "the cluster is not Ready");
    let upstream = TestCase { last_copy: LastCopy::Leaves, ..back(3, 0) };
    assert_eq!(upstream.plan(101).targets, None);
    // The scheduler would not keep the workload on both, but on this one.
    let copies = TestCase { wanted: Wanted::Copies(Some(3)), ..back(3, 0) };
    let reports = &Reports::new(&copies.reports);
    let workload = LeavingWorkload { wanted: copies.wanted, targets: &copies.targets, reports };
    let proposals = returns(&workload, &copies.tasks, &task(), EvictionOrigin::Well, STAYS);
    assert_eq!(proposals, [vec![on("member1", 3), on("member2", 3)], vec![on("member1", 3)]]);
}

#[test]
fn a_task_ends_when_the_binding_is_placed_there_again_and_when_the_cluster_is_gone() {
    let back = TestCase { targets: vec![on("member1", 3)], ..TestCase::default() };
    assert_eq!(back.end(101), Some(TaskEnd::Placed));
    assert_eq!(TestCase { origin: EvictionOrigin::Gone, ..TestCase::default() }.end(101), OVER);
}

#[test]
fn a_task_without_a_date_is_dated() {
    let undated = vec![GracefulEvictionTask { creation_timestamp: None, ..task() }];
    let plan = TestCase { tasks: undated, ..TestCase::default() }.plan(150);
    assert_eq!(plan.tasks.unwrap()[0].creation_timestamp, Some(at(150)));
    let stepped_back = TestCase::default().plan(50);
    assert_eq!(stepped_back.tasks.unwrap()[0].creation_timestamp, Some(at(50)), "the clock stepped back");
    assert_eq!(plan.next_check, Some(at(750)));
}

#[test]
fn rm23_a_cluster_that_keeps_its_replicas_gives_none_to_another_one() {
    let second = GracefulEvictionTask { from_cluster: "member3".to_owned(), ..task() };
    let both = |wanted| TestCase {
        tasks: vec![task(), second.clone()],
        wanted: Wanted::Divided(wanted),
        targets: Vec::new(),
        reports: vec![ready("member3", 3)],
        origin: EvictionOrigin::Well,
        ..TestCase::default()
    };
    assert_eq!(both(6).plan(101).targets, Some(vec![on("member1", 3), on("member3", 3)]));
    let plan = both(3).plan(101);
    assert_eq!(plan.targets, Some(vec![on("member1", 3)]));
    assert_eq!(plan.tasks.unwrap().len(), 1, "member3 has its task until member1 says that it is ready");
}
