//! Moves of bindings stored upstream end in the same state, whatever is lost between two writes
//! (BD13).

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fake_upstream::{self, FakeUpstream};
use super::fleet::{binding, by_room, cluster};
use super::safe::{move_of, phase, rebalance, summary};
use super::world::{World, placed};

const COUNT: usize = 2;
/// An upper bound on the rounds of reports of one run.
const ROUNDS_MAX: usize = 60;

/// The fault at a write, in the log or upstream.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    /// The process is killed just before the n-th write, and optionally again after m more.
    Deaths(i64, Option<i64>),
    /// One write fails.
    Fault(i64),
}

struct Life {
    world: World,
    upstream: Arc<FakeUpstream>,
    keys: Vec<Key>,
    /// Replicas that each cluster last reported, per binding.
    reported: BTreeMap<Key, BTreeMap<String, i64>>,
    /// Whether new replicas become ready.
    is_well: bool,
}

impl Life {
    /// Creates workloads of four replicas, all of them on member2.
    async fn begin(is_well: bool) -> Life {
        let (world, upstream) = World::attached().await;
        upstream.create(cluster("member1"));
        upstream.create(cluster("member2"));
        let keys = (0..COUNT).map(|index| upstream.create(binding(&format!("web-{index}"), 4, by_room()))).collect();
        let mut life = Life { world, upstream, keys, reported: BTreeMap::new(), is_well };
        life.go_on().await;
        for key in &life.keys {
            life.upstream.edit(key, |binding| {
                binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}]);
            });
        }
        life.go_on().await;
        life.world.clock.advance_seconds(300);
        life.go_on().await;
        (0..2).for_each(|_| life.report());
        life.go_on().await;
        life
    }

    async fn go_on(&mut self) {
        self.upstream.sync().await;
        self.world.settle().await;
    }

    /// Reports the replicas of each cluster. A cluster that has just lost replicas is unhealthy
    /// until the next report; added replicas exist from the next report on.
    fn report(&mut self) {
        for key in &self.keys {
            let binding = self.upstream.get(key);
            let clusters = binding["spec"]["clusters"].as_array().unwrap();
            let before = self.reported.get(key).cloned().unwrap_or_default();
            let mut items = Vec::new();
            let mut now = BTreeMap::new();
            for target in clusters {
                let (name, wanted) = (target["name"].as_str().unwrap(), target["replicas"].as_i64().unwrap());
                let had = before.get(name).copied().unwrap_or_default();
                let ready = if self.is_well || name == "member2" { wanted } else { 0 };
                items.push(fake_upstream::report(name, had.min(ready), had == ready));
                now.insert(name.to_owned(), ready);
            }
            self.reported.insert(key.clone(), now);
            self.upstream.edit(key, |binding| binding["status"]["aggregatedStatus"] = items.into());
        }
    }

    /// Runs a rebalance with this fault. Returns the rebalance and the number of writes it took.
    async fn rebalance(&mut self, rollout: &Value, trouble: Trouble) -> (Key, i64) {
        let key = self.world.given(rebalance("home", json!({"rollout": rollout}))).await;
        let fate = Arc::clone(self.world.fate());
        let (begun, mut deaths) = (fate.count(), Vec::new());
        match trouble {
            Trouble::None => {}
            Trouble::Fault(at) => fate.fail_once_after(at),
            Trouble::Deaths(first, second) => {
                fate.fail_after(first);
                deaths.extend(second);
            }
        }
        for _ in 0..ROUNDS_MAX {
            self.world.settle().await;
            if matches!(trouble, Trouble::Deaths(..)) && fate.has_failed() {
                // The clusters continue while the server is down.
                self.report();
                self.world.crash().await;
                if let Some(next) = deaths.pop() {
                    fate.fail_after(next);
                }
                continue;
            }
            if ["Completed", "Aborted"].contains(&&*phase(&self.world, &key)) {
                return (key, fate.count() - begun);
            }
            self.report();
            self.world.clock.advance_seconds(2);
            self.upstream.sync().await;
        }
        panic!("{trouble:?}: not over: {}", summary(&self.world, &key));
    }

    /// Returns the outcome: the Moves, the targets upstream, and the replicas that the rebalance
    /// counts on the clusters.
    async fn outcome(&mut self, rebalance: &Key) -> String {
        self.world.mend();
        self.go_on().await;
        let mut told = vec![summary(&self.world, rebalance)];
        for (index, key) in self.keys.iter().enumerate() {
            let (status, binding) = (move_of(&self.world, "home", index), self.upstream.get(key));
            assert!(status["metadata"]["annotations"]["ballast.dev/intent"].is_null(), "{status}");
            assert!(binding["metadata"]["annotations"]["ballast.dev/move"].is_null(), "{binding}");
            let text = |name: &str| status["status"][name].as_str().unwrap_or("-").to_owned();
            told.push(format!("{} {} {}", text("phase"), text("reason"), placed(&binding)));
        }
        let counts = self.world.get(rebalance).unwrap()["status"]["clusters"].clone();
        told.extend(counts.as_array().unwrap().iter().map(|count| format!("{} {}", count["name"], count["now"])));
        told.dedup();
        told.join(", ")
    }
}

fn rollouts() -> [Value; 2] {
    let settle = json!({"when": "Healthy", "timeoutSeconds": 40});
    [json!({"settle": settle}), json!({"settle": settle, "strategy": "SurgeFirst", "minAvailable": "100%"})]
}

/// Runs the rebalance once per write with each of the faults, and returns their common outcome.
async fn in_all_trouble(is_well: bool, rollout: &Value, troubles: impl Fn(i64) -> Vec<Trouble>) -> String {
    let mut life = Life::begin(is_well).await;
    let (key, writes) = life.rebalance(rollout, Trouble::None).await;
    let expected = life.outcome(&key).await;
    assert!(life.upstream.written() > COUNT, "{expected}");
    let mut wrong = Vec::new();
    for trouble in (0..writes).flat_map(troubles) {
        let mut life = Life::begin(is_well).await;
        let (key, _) = life.rebalance(rollout, trouble).await;
        let came = life.outcome(&key).await;
        if came != expected {
            wrong.push(format!("{trouble:?}: {came}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {writes} writes end otherwise than {expected}: {wrong:#?}", wrong.len());
    expected
}

const WELL: &str = "settled 2, Settled - member1:2 member2:2, \"member1\" 4, \"member2\" 4";

fn one_death(at: i64) -> Vec<Trouble> {
    vec![Trouble::Deaths(at, None)]
}

#[tokio::test]
async fn s4_13_a_move_ends_as_settled_whichever_write_a_kill_comes_before() {
    for rollout in rollouts() {
        assert_eq!(in_all_trouble(true, &rollout, one_death).await, WELL);
    }
}

#[tokio::test]
async fn s4_13_a_move_ends_as_settled_whichever_write_fails() {
    for rollout in rollouts() {
        assert_eq!(in_all_trouble(true, &rollout, |at| vec![Trouble::Fault(at)]).await, WELL);
    }
}

#[tokio::test]
async fn s4_13_a_move_ends_as_settled_and_is_counted_once_whatever_two_kills_cut_off() {
    let [_, surging] = rollouts();
    let second = |at| [2, 4].map(|next| Trouble::Deaths(at, Some(next))).to_vec();
    assert_eq!(in_all_trouble(true, &surging, second).await, WELL);
}

#[tokio::test]
async fn s4_13_a_move_that_fails_says_why_whichever_write_a_kill_comes_before() {
    let late = |placed: &str, now: [i64; 2]| {
        let [one, other] = now;
        format!("failed 2, Failed SettleTimeout {placed}, \"member1\" {one}, \"member2\" {other}")
    };
    let [plain, surging] = rollouts();
    for (rollout, expected) in [(plain, late("member1:2 member2:2", [4, 4])), (surging, late("member2:4", [0, 8]))] {
        assert_eq!(in_all_trouble(false, &rollout, one_death).await, expected);
    }
}
