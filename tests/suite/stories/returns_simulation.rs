//! Former placements during random failures, recoveries, evictions, scaling, drains and undos
//! (RM36).
//!
//! *Invariant*: after each step, `ballast.dev/home` of each workload is the placement before its
//! first failure without a return, according to a model of the events alone. In the end all
//! clusters recover, and one rebalance returns every workload.

use std::collections::BTreeMap;

use ballast::api::ballast::v1alpha1::Share;
use ballast::k8s::{Key, Time};
use ballast::scheduler::home;
use ballast::scheduler::planning::ParsedBinding;
use serde_json::{Value, json};

use super::fleet::binding;
use super::returns::{REGIONS, divided, evictions_end, home_of, lose, recover, spread, two_regions};
use super::safe::{rebalance, summary};
use super::safe_reviews::post;
use super::simulation::Dice;
use super::world::World;
use crate::support::size::sized;

/// Targets by cluster.
type Placed = BTreeMap<String, i64>;

/// The name of a drain, its cluster, and the current and former placement of each workload when it
/// began.
type Drain = (String, &'static str, Vec<(Placed, Option<Placed>)>);

/// A model of the former placements by the definition in `Home`, updated along a world with random
/// events.
struct Life {
    world: World,
    dice: Dice,
    keys: Vec<Key>,
    former: Vec<Option<Placed>>,
    /// Fresh passes that were requested and have not succeeded.
    pending: Vec<Option<Time>>,
    lost: Vec<&'static str>,
    /// The active drain.
    drain: Option<Drain>,
    made: usize,
    taken: Vec<String>,
}

impl Life {
    async fn begin(seed: u64) -> Life {
        let mut world = two_regions().await;
        let groups = json!({"clusterAffinities": [
            {"affinityName": "north", "clusterNames": ["member1", "member2"]},
            {"affinityName": "south", "clusterNames": ["member3", "member4"]},
        ]});
        let aggregated = json!({"replicaScheduling":
            {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
        let placements = [
            divided(json!({})),
            divided(json!({"spreadConstraints": [spread("region", 2, 2), spread("cluster", 2, 3)]})),
            divided(groups),
            aggregated,
            json!({"spreadConstraints": [spread("cluster", 2, 2)]}),
        ];
        let mut keys = Vec::new();
        for (index, placement) in placements.into_iter().enumerate() {
            keys.push(world.given(binding(&format!("web-{index}"), 8, placement)).await);
            world.settle().await;
        }
        let former = vec![None; keys.len()];
        let pending = vec![None; keys.len()];
        Life { world, dice: Dice(seed), keys, former, pending, lost: vec![], drain: None, made: 0, taken: vec![] }
    }

    fn placed(&self, at: usize) -> Placed {
        targets(&self.world.placed(&self.keys[at]))
    }

    /// Returns whether the workload has this placement, for its present number of replicas.
    fn is_at(&self, at: usize, former: &Placed) -> bool {
        let placed = self.placed(at);
        if at == COPIED {
            return former.keys().all(|name| placed.contains_key(name));
        }
        let share = |(name, replicas): (&String, &i64)| Share { name: name.clone(), replicas: *replicas as i32 };
        let former: Vec<Share> = former.iter().map(share).collect();
        let parsed = ParsedBinding::find(&self.world.client().view(), &self.keys[at]).unwrap();
        let now = home::share_out(&former, &parsed.request).into_iter();
        placed == now.map(|share| (share.name, i64::from(share.replicas))).collect::<Placed>()
    }

    async fn step(&mut self) -> Result<(), String> {
        let before: Vec<Placed> = (0..self.keys.len()).map(|at| self.placed(at)).collect();
        let member = self.dice.pick(&REGIONS).0;
        let at = self.dice.below(self.keys.len());
        let what = match self.dice.roll(11) {
            0..=2 if !self.lost.contains(&member) && self.lost.len() < 3 => {
                lose(&mut self.world, member).await;
                self.lost.push(member);
                format!("{member} is lost")
            }
            3..=4 if self.lost.contains(&member) => {
                recover(&mut self.world, member).await;
                self.lost.retain(|lost| *lost != member);
                format!("{member} is back")
            }
            5 => {
                let seconds = [1, 30, 700][self.dice.below(3)];
                self.world.pass_seconds(seconds).await;
                self.world.settle().await;
                format!("{seconds} seconds pass")
            }
            6 => {
                let replicas = [3, 5, 8, 12, 16][self.dice.below(5)];
                self.world.edit(&self.keys[at], |binding| binding["spec"]["replicas"] = json!(replicas)).await;
                self.world.settle().await;
                format!("web-{at} is scaled to {replicas}")
            }
            7 => self.rebalance(json!({"select": [{"displaced": true}], "mode": "AsBefore"})).await,
            8 => {
                let key = self.keys[at].clone();
                // A trigger counts if it is later than the last pass.
                self.world.clock.advance_seconds(1);
                let trigger = self.world.now().to_string();
                self.world.edit(&key, |binding| binding["spec"]["rescheduleTriggeredAt"] = json!(trigger)).await;
                self.world.settle().await;
                self.pending[at] = Some(trigger.parse().unwrap());
                format!("web-{at} is placed anew at {}", self.world.placed(&key))
            }
            9 if self.drain.is_none() && !self.lost.contains(&member) => {
                let name = format!("drain-{}", self.made);
                self.made += 1;
                let spec = json!({"drain": {"clusters": [member]}, "rollout": {"strategy": "Direct"}});
                let mut drain = rebalance(&name, spec);
                drain["spec"].as_object_mut().unwrap().remove("select");
                let made = post(&self.world, drain, false).await.0;
                self.world.settle().await;
                if made.is_ok() {
                    self.drain = Some((name, member, before.iter().cloned().zip(self.former.clone()).collect()));
                }
                format!("{member} is drained: {}", made.is_ok())
            }
            10 if self.drain.as_ref().is_some_and(|(_, closed, _)| !self.lost.contains(closed)) => {
                let (name, member, had) = self.drain.take().unwrap();
                recover(&mut self.world, member).await;
                match self.dice.roll(2) {
                    0 => format!("{member} is opened"),
                    _ => self.undo(&name, &before, had).await?,
                }
            }
            _ => "nothing".to_owned(),
        };
        self.taken.push(what);
        self.learn(&before);
        self.check()
    }

    /// Updates the former placements after a step. `before`: the placements before it.
    fn learn(&mut self, before: &[Placed]) {
        for (at, before) in before.iter().enumerate() {
            let now = self.placed(at);
            if self.is_served(at) {
                self.former[at] = None;
                continue;
            }
            let is_lost = |name: &String| self.lost.iter().any(|lost| name == lost) && !now.contains_key(name);
            if before.keys().any(is_lost) {
                self.former[at].get_or_insert_with(|| before.clone());
            }
        }
    }

    /// Returns whether a requested Fresh pass has succeeded since the last step.
    fn is_served(&mut self, at: usize) -> bool {
        let Some(trigger) = self.pending[at] else { return false };
        let binding = self.world.get(&self.keys[at]).unwrap();
        let decided = binding["status"]["lastScheduledTime"].as_str().map(|it| it.parse::<Time>().unwrap());
        let is_owed = binding["metadata"]["annotations"].get("ballast.dev/owed").is_some();
        let is_served = !is_owed && decided.is_some_and(|decided| decided >= trigger);
        if is_served {
            self.pending[at] = None;
        }
        is_served
    }

    /// Undoes a drain. The former placement of a workload that it restores is that of the time of
    /// the drain.
    async fn undo(
        &mut self,
        name: &str,
        before: &[Placed],
        had: Vec<(Placed, Option<Placed>)>,
    ) -> Result<String, String> {
        let undo = rebalance(&format!("undo-{name}"), json!({"undo": {"name": name}}));
        post(&self.world, undo, false).await.0.map_err(|status| status.message)?;
        self.world.settle().await;
        for (at, (placed, former)) in had.into_iter().enumerate() {
            if self.placed(at) != before[at] && self.former[at].is_some() {
                self.former[at] = former.or(Some(placed));
            } else if self.placed(at) != before[at] {
                self.former[at] = former;
            }
        }
        Ok(format!("{name} is taken back"))
    }

    async fn rebalance(&mut self, spec: Value) -> String {
        let name = format!("reb-{}", self.made);
        self.made += 1;
        let key = self.world.given(rebalance(&name, spec)).await;
        self.world.settle().await;
        format!("{name}: {}", summary(&self.world, &key))
    }

    /// Checks that the annotations equal the former placements.
    fn check(&mut self) -> Result<(), String> {
        for at in 0..self.keys.len() {
            let is_back = self.former[at].as_ref().is_some_and(|former| self.is_at(at, former));
            if is_back {
                self.former[at] = None;
            }
            let noted = home_of(&self.world, &self.keys[at]).map(|home| targets(&home));
            if noted != self.former[at] {
                let (placed, former) = (self.placed(at), &self.former[at]);
                return Err(format!("web-{at} at {placed:?}: {noted:?} is noted, and {former:?} was chosen"));
            }
        }
        Ok(())
    }

    /// Recovers all clusters, and returns all workloads with one rebalance.
    async fn end(&mut self) -> Result<(), String> {
        let before: Vec<Placed> = (0..self.keys.len()).map(|at| self.placed(at)).collect();
        for (name, _) in REGIONS {
            recover(&mut self.world, name).await;
        }
        evictions_end(&mut self.world).await;
        self.lost.clear();
        self.learn(&before);
        self.check()?;
        let former = self.former.clone();
        let done = self.rebalance(json!({"select": [{"displaced": true}], "mode": "AsBefore"})).await;
        for (at, former) in former.iter().enumerate() {
            if let Some(former) = former
                && !self.is_at(at, former)
            {
                return Err(format!("web-{at} is at {:?}, not at {former:?}, after {done}", self.placed(at)));
            }
            if home_of(&self.world, &self.keys[at]).is_some() {
                return Err(format!("web-{at} is back and has a former placement"));
            }
        }
        Ok(())
    }
}

/// The index of the duplicated workload.
const COPIED: usize = 4;

fn targets(placed: &str) -> Placed {
    let target = |it: &str| {
        let (name, replicas) = it.split_once(':').unwrap_or((it, "0"));
        (name.to_owned(), replicas.parse().unwrap())
    };
    placed.split_whitespace().map(target).collect()
}

#[tokio::test]
async fn the_former_placement_is_the_one_before_the_first_loss() {
    for seed in 0..sized(3, 12) {
        let mut life = Life::begin(seed).await;
        let mut done = Ok(());
        for _ in 0..30 {
            done = life.step().await;
            if done.is_err() {
                break;
            }
        }
        if done.is_ok() {
            done = life.end().await;
        }
        done.unwrap_or_else(|fault| panic!("seed {seed}: {fault}\nafter {:#?}", life.taken));
    }
}
