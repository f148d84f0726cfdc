//! Gates between the waves of a rollout (SG13, SG14, SG19, SG20). The gate servers are fakes;
//! `cli::gates` uses real ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ballast::api::ballast::v1alpha1::Gate;
use ballast::k8s::Key;
use ballast::rebalance::gates::{GateAnswer, GateClient, WaveQuestion};
use serde_json::{Value, json};

use super::safe::{fled, move_of, phase, rebalance, report, summary};
use super::safe_reviews::{post, reviewed};
use super::world::{CREB, World, condition};

/// Fake gate servers with configurable responses, which record their requests.
#[derive(Default)]
struct Played {
    /// Gates that allow; all others deny.
    yes: Mutex<Vec<&'static str>>,
    asked: Mutex<Vec<(String, Value)>>,
}

#[async_trait]
impl GateClient for Played {
    async fn ask(&self, gate: &Gate, question: &WaveQuestion) -> GateAnswer {
        self.asked.lock().unwrap().push((gate.name.clone(), (*question.body).clone()));
        match self.yes.lock().unwrap().iter().any(|name| *name == gate.name) {
            true => GateAnswer::yes("well"),
            false => GateAnswer::no("not yet"),
        }
    }
}

impl Played {
    fn say_yes(&self, names: &[&'static str]) {
        *self.yes.lock().unwrap() = names.to_vec();
    }

    /// Returns the number of requests per gate since the last call.
    fn asked(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for (name, _) in std::mem::take(&mut *self.asked.lock().unwrap()) {
            *counts.entry(name).or_default() += 1;
        }
        counts
    }
}

fn gate(name: &str, more: Value) -> Value {
    let mut gate = json!({"name": name, "webhook": {"url": format!("https://gates.example/hooks/{name}")}});
    gate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    gate
}

/// Creates `count` Deployments of four ready replicas on member2, gate servers, and a rebalance
/// with these gates that moves two at a time.
async fn gated(count: usize, gates: Value) -> (World, Vec<Key>, Arc<Played>, Key) {
    let (mut world, keys) = fled(count).await;
    let played = Arc::new(Played::default());
    world.be_gated(played.clone()).await;
    for key in &keys {
        report(&world, key, &[("member2", 4)]).await;
    }
    let rollout = json!({"maxConcurrent": 2, "order": "Name", "gates": gates});
    let home = world.given(rebalance("home", json!({"rollout": rollout}))).await;
    world.settle().await;
    (world, keys, played, home)
}

/// Reports the replicas of these workloads as arrived.
async fn arrive(world: &mut World, keys: &[Key]) {
    for key in keys {
        report(world, key, &[("member1", 2), ("member2", 2)]).await;
    }
    world.settle().await;
}

fn gate_condition(world: &World, key: &Key) -> (String, String, String) {
    let object = world.get(key).unwrap();
    let text = |name: &str| condition(&object, "Gate").expect("a condition Gate")[name].as_str().unwrap().to_owned();
    (text("status"), text("reason"), text("message"))
}

fn state(world: &World, key: &Key) -> (String, String) {
    (phase(world, key), summary(world, key))
}

fn is(phase: &str, summary: &str) -> (String, String) {
    (phase.to_owned(), summary.to_owned())
}

#[tokio::test]
async fn sg13_a_wave_settles_as_a_whole_then_all_gates_are_asked_and_the_next_wave_begins() {
    let (mut world, keys, played, home) = gated(3, json!([gate("smoke", json!({})), gate("rate", json!({}))])).await;
    assert_eq!(state(&world, &home), is("Running", "pending 1, moving 2"));
    let waves = [0, 1, 2].map(|index| move_of(&world, "home", index)["status"]["wave"].clone());
    assert_eq!(waves, [json!(1), json!(1), json!(null)]);
    assert_eq!(gate_condition(&world, &home).0, "Unknown");
    arrive(&mut world, &keys[..1]).await;
    assert_eq!(state(&world, &home), is("Running", "pending 1, moving 1, settled 1"), "a wave is not filled up");
    assert_eq!(played.asked(), BTreeMap::new(), "nobody is asked before all of it has settled");
    played.say_yes(&["smoke"]);
    arrive(&mut world, &keys[1..2]).await;
    assert_eq!(state(&world, &home), is("Running", "pending 1, settled 2"), "one of two gates is not enough");
    assert_eq!(played.asked(), [("rate".to_owned(), 1), ("smoke".to_owned(), 1)].into());
    let (status, reason, message) = gate_condition(&world, &home);
    assert_eq!((&*status, &*reason), ("False", "Waiting"));
    let (words, next) = message.split_once("; ").unwrap();
    assert_eq!(words, "wave 1 waits for rate: not yet");
    assert!(next.starts_with("without a yes of rate before 2024-04-17T15:"), "{next}");
    assert!(next.ends_with(", the rebalance ends"), "{next}");
    // The gate that has allowed is not called again, the other at most once per second.
    world.clock.advance_ms(999);
    world.settle().await;
    assert_eq!(played.asked(), BTreeMap::new());
    world.clock.advance_ms(1);
    world.settle().await;
    assert_eq!(played.asked(), [("rate".to_owned(), 1)].into());
    played.say_yes(&["smoke", "rate"]);
    world.pass_seconds(1).await;
    assert_eq!(state(&world, &home), is("Running", "moving 1, settled 2"));
    // The gates also follow the last wave.
    played.say_yes(&[]);
    played.asked();
    arrive(&mut world, &keys[2..]).await;
    assert_eq!(state(&world, &home), is("Running", "settled 3"));
    played.say_yes(&["smoke", "rate"]);
    world.pass_seconds(1).await;
    assert_eq!(state(&world, &home), is("Completed", "settled 3"));
    assert_eq!(gate_condition(&world, &home).0, "True");
}

#[tokio::test]
async fn sg13_a_webhook_learns_the_wave_and_its_moves() {
    let (mut world, keys, played, _) = gated(3, json!([gate("smoke", json!({}))])).await;
    arrive(&mut world, &keys[..2]).await;
    let (_, body) = played.asked.lock().unwrap().pop().unwrap();
    assert_eq!((&body["rebalance"]["name"], &body["wave"], &body["remaining"]), (&json!("home"), &json!(1), &json!(0)));
    let moves = body["moves"].as_array().unwrap();
    let names: Vec<_> = moves.iter().map(|it| (it["workload"]["name"].clone(), it["phase"].clone())).collect();
    assert_eq!(names, [(json!("web-0"), json!("Settled")), (json!("web-1"), json!("Settled"))]);
    assert_eq!(moves[0]["to"], json!([{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 2}]));
}

#[tokio::test]
async fn sg13_moves_that_settle_as_they_begin_are_a_wave_all_the_same() {
    // Without reports, each move settles as soon as it is written.
    let (mut world, _) = fled(5).await;
    let played = Arc::new(Played::default());
    world.be_gated(played.clone()).await;
    let rollout = json!({"maxConcurrent": 2, "gates": [gate("smoke", json!({}))]});
    let home = world.given(rebalance("home", json!({"rollout": rollout}))).await;
    world.settle().await;
    assert_eq!(state(&world, &home), is("Running", "pending 3, settled 2"));
    played.say_yes(&["smoke"]);
    world.pass_seconds(1).await;
    assert_eq!(state(&world, &home), is("Completed", "settled 5"));
    assert_eq!(world.get(&home).unwrap()["status"]["wave"]["number"], 3);
}

#[tokio::test]
async fn sg14_a_gate_must_hold_as_long_as_it_says_without_a_break() {
    let (mut world, keys, played, home) = gated(2, json!([gate("rate", json!({"for": "3s"}))])).await;
    played.say_yes(&["rate"]);
    arrive(&mut world, &keys).await;
    world.pass_seconds(2).await;
    assert_eq!(phase(&world, &home), "Running");
    assert!(gate_condition(&world, &home).2.contains("rate says yes (well), and must for 3s"));
    played.say_yes(&[]);
    world.pass_seconds(1).await;
    played.say_yes(&["rate"]);
    world.pass_seconds(3).await;
    assert_eq!(phase(&world, &home), "Running", "it begins anew after a no");
    world.pass_seconds(1).await;
    assert_eq!(phase(&world, &home), "Completed");
}

#[tokio::test]
async fn sg19_a_gate_that_does_not_say_yes_in_time_aborts() {
    let (mut world, keys, _, home) = gated(3, json!([gate("smoke", json!({"timeoutSeconds": 5}))])).await;
    arrive(&mut world, &keys[..2]).await;
    world.pass_seconds(5).await;
    assert_eq!(phase(&world, &home), "Running");
    world.pass_seconds(1).await;
    assert_eq!(state(&world, &home), is("Aborted", "settled 2, unchanged 1"));
    assert_eq!(gate_condition(&world, &home).1, "Failed");
    let object = world.get(&home).unwrap();
    let told = condition(&object, "Completed").unwrap()["message"].as_str().unwrap();
    assert!(told.contains("aborted because the gate smoke has not said yes (not yet)"), "{told}");
    assert_eq!(world.placed(&keys[2]), "member2:4");
}

#[tokio::test]
async fn sg19_after_the_last_wave_a_gate_aborts_as_well() {
    let (mut world, keys, _, home) = gated(2, json!([gate("smoke", json!({"timeoutSeconds": 5}))])).await;
    arrive(&mut world, &keys).await;
    world.pass_seconds(6).await;
    assert_eq!(state(&world, &home), is("Aborted", "settled 2"));
}

#[tokio::test]
async fn sg19_a_gate_that_pauses_is_asked_anew_after_pause_and_resume() {
    let gates = json!([gate("smoke", json!({"timeoutSeconds": 5, "onFailure": "Pause"}))]);
    let (mut world, keys, played, home) = gated(3, gates).await;
    arrive(&mut world, &keys[..2]).await;
    world.pass_seconds(6).await;
    assert_eq!(state(&world, &home), is("Paused", "pending 1, settled 2"));
    played.asked();
    world.pass_seconds(60).await;
    assert_eq!((phase(&world, &home), played.asked()), ("Paused".to_owned(), BTreeMap::new()));
    // Also if the worker observes both changes at once.
    for settles_between in [true, false] {
        world.edit(&home, |object| object["spec"]["paused"] = true.into()).await;
        if settles_between {
            world.settle().await;
            assert_eq!(phase(&world, &home), "Paused");
            let (_, reason, message) = gate_condition(&world, &home);
            assert_eq!(reason, "Paused");
            assert!(message.contains("the rebalance is paused") && !message.contains("under way"), "{message}");
        }
        world.edit(&home, |object| object["spec"]["paused"] = false.into()).await;
        world.settle().await;
        assert_eq!((phase(&world, &home), played.asked().len()), ("Running".to_owned(), 1), "{settles_between}");
        world.pass_seconds(6).await;
        assert_eq!(phase(&world, &home), "Paused", "it has as much time as before");
        played.asked();
    }
    played.say_yes(&["smoke"]);
    world.edit(&home, |object| object["spec"]["paused"] = true.into()).await;
    world.edit(&home, |object| object["spec"]["paused"] = false.into()).await;
    world.settle().await;
    assert_eq!(state(&world, &home), is("Running", "moving 1, settled 2"));
}

#[tokio::test]
async fn sg19_a_gate_that_undoes_takes_back_what_was_moved_and_then_it_is_aborted() {
    let gates = json!([gate("smoke", json!({"timeoutSeconds": 5, "onFailure": "Undo"}))]);
    let (mut world, keys, _, home) = gated(3, gates).await;
    arrive(&mut world, &keys[..2]).await;
    world.pass_seconds(6).await;
    assert_eq!(state(&world, &home), is("Running", "settled 2, unchanged 1"), "it waits for its undo");
    assert!(gate_condition(&world, &home).2.ends_with("; what was moved goes back"));
    let undo = Key::cluster(CREB, "home-undo");
    let made = world.get(&undo).expect("the undo");
    assert_eq!(made["spec"]["rollout"]["maxConcurrent"], 2, "under its own rollout");
    assert_eq!(made["spec"]["rollout"].get("gates"), None, "without gates");
    assert_eq!(summary(&world, &undo), "moving 2");
    // A crash in the middle has no effect.
    world.crash().await;
    for key in &keys[..2] {
        report(&world, key, &[("member1", 0), ("member2", 4)]).await;
    }
    world.settle().await;
    assert_eq!(state(&world, &undo), is("Completed", "settled 2"));
    assert_eq!(phase(&world, &home), "Aborted");
    let undone = world.get(&home).unwrap();
    assert_eq!(condition(&undone, "Undone").unwrap()["reason"], "Undone");
    for key in &keys {
        assert_eq!(world.placed(key), "member2:4");
    }
}

#[tokio::test]
async fn sg20_what_is_asked_is_asked_again_after_a_crash_and_gets_no_more_time() {
    let gates = json!([gate("smoke", json!({"timeoutSeconds": 10})), gate("rate", json!({"for": "4s"}))]);
    let (mut world, keys, played, home) = gated(2, gates).await;
    played.say_yes(&["smoke", "rate"]);
    arrive(&mut world, &keys).await;
    world.pass_seconds(3).await;
    played.asked();
    world.crash().await;
    world.settle().await;
    assert_eq!(
        played.asked(),
        [("rate".to_owned(), 1), ("smoke".to_owned(), 1)].into(),
        "also the one that had passed"
    );
    played.say_yes(&["rate"]);
    world.crash().await;
    world.pass_seconds(8).await;
    assert_eq!(phase(&world, &home), "Aborted", "the time of smoke began before the crash");
}

#[tokio::test]
async fn sg19_an_abort_ends_the_waiting() {
    let (mut world, keys, _, home) = gated(3, json!([gate("smoke", json!({}))])).await;
    arrive(&mut world, &keys[..2]).await;
    world.edit(&home, |object| object["spec"]["abort"] = true.into()).await;
    world.settle().await;
    assert_eq!(state(&world, &home), is("Aborted", "settled 2, unchanged 1"));
}

#[tokio::test]
async fn sg13_reviews_dry_runs_and_undos_ask_nobody() {
    let (mut world, keys, played, home) = gated(2, json!([gate("smoke", json!({}))])).await;
    played.say_yes(&["smoke"]);
    arrive(&mut world, &keys).await;
    assert_eq!(phase(&world, &home), "Completed");
    played.asked();
    reviewed(&world, json!({"select": [{}]})).await;
    let rollout = json!({"gates": [gate("smoke", json!({}))]});
    post(&world, rebalance("dry", json!({"rollout": rollout})), true).await.0.unwrap();
    post(&world, rebalance("back", json!({"undo": {"name": "home"}})), false).await.0.unwrap();
    world.settle().await;
    let back = Key::cluster(CREB, "back");
    assert_eq!(world.get(&back).unwrap()["spec"]["rollout"].get("gates"), None);
    assert_eq!(world.get(&back).unwrap()["spec"]["rollout"]["maxConcurrent"], 2);
    assert_eq!(played.asked(), BTreeMap::new());
}

#[tokio::test]
async fn sg17_other_addresses_are_refused_where_they_are_written() {
    let (world, _) = fled(1).await;
    let refused = async |gate: Value| {
        let object = rebalance("r", json!({"rollout": {"gates": [gate]}}));
        let status = post(&world, object, false).await.0.unwrap_err();
        assert_eq!(status.code, 422, "{status}");
        status.details.unwrap().causes.into_iter().map(|cause| cause.field).collect::<Vec<_>>()
    };
    let webhook = |url: &str| json!({"name": "smoke", "webhook": {"url": url}});
    assert_eq!(refused(webhook("https://evil.example/smoke")).await, ["spec.rollout.gates[0].webhook.url"]);
    let of = |address: &str| json!({"name": "rate", "prometheus": {"address": address, "query": "up", "holds": "> 0"}});
    assert_eq!(refused(of("http://gates.example")).await, ["spec.rollout.gates[0].prometheus.address"]);
    let template = json!({"spec": {"select": [{}], "rollout": {"gates": [webhook("https://evil.example/")]}}});
    let schedule = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "RebalanceSchedule",
        "metadata": {"name": "nightly"}, "spec": {"schedule": "0 3 * * 6", "template": template}});
    let status = post(&world, schedule, false).await.0.unwrap_err();
    let fields: Vec<String> = status.details.unwrap().causes.into_iter().map(|cause| cause.field).collect();
    assert_eq!(fields, ["spec.template.spec.rollout.gates[0].webhook.url"]);
}
