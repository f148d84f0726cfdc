//! Rebalances of bindings stored upstream: bounds hold for every state there, whatever happens
//! between two writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::trouble::{Dice, trouble};
use super::*;
use crate::process::ServerProcess;

const REBALANCES: &str = "/apis/ballast.dev/v1alpha1/clusterrebalances";
const ALL_MOVES: &str = "/apis/ballast.dev/v1alpha1/moves";
const MARK: &str = "ballast.dev/move";
const REPLICAS: i64 = 4;

/// A binding for this scheduler, in equal parts on all clusters.
fn spread(name: &str) -> Value {
    let mut object = placed(name, "m1");
    let weights = ["m1", "m2"].map(|name| json!({"targetCluster": {"clusterNames": [name]}, "weight": 1}));
    object["spec"]["replicas"] = REPLICAS.into();
    object["spec"]["placement"] = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": weights},
    }});
    object
}

fn named(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("b{number}")).collect()
}

fn shares(binding: &Value) -> BTreeMap<String, i64> {
    let clusters = binding["spec"]["clusters"].as_array().map(Vec::as_slice).unwrap_or_default();
    let share = |cluster: &Value| (cluster["name"].as_str().unwrap().to_owned(), cluster["replicas"].as_i64().unwrap());
    clusters.iter().map(share).collect()
}

fn at(shares: &[(&str, i64)]) -> BTreeMap<String, i64> {
    shares.iter().map(|(name, replicas)| ((*name).to_owned(), *replicas)).collect()
}

/// The replicas that are assigned and reported ready.
fn ready(binding: &Value) -> i64 {
    let reports = binding["status"]["aggregatedStatus"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |name: &str| reports.iter().find(|item| item["clusterName"] == name);
    let ready = |name: &str| of(name).and_then(|item| item["status"]["readyReplicas"].as_i64()).unwrap_or_default();
    shares(binding).iter().map(|(name, replicas)| ready(name).min(*replicas)).sum()
}

/// Simulates Karmada's controllers: each cluster reports its assigned replicas.
async fn report(home: &Raw) {
    for binding in get(home, BINDINGS).await["items"].as_array().unwrap() {
        let item = |(name, replicas): (&String, &i64)| {
            json!({
                "clusterName": name, "applied": true, "health": "Healthy",
                "status": {"replicas": replicas, "readyReplicas": replicas},
            })
        };
        let items: Vec<Value> = shares(binding).iter().map(item).collect();
        let known = binding["status"]["aggregatedStatus"].as_array().map(Vec::as_slice).unwrap_or_default();
        if items != known {
            let path = format!("{BINDINGS}/{}/status", binding["metadata"]["name"].as_str().unwrap());
            patch(home, &path, json!({"status": {"aggregatedStatus": items}})).await;
        }
    }
}

/// Places bindings on one cluster, then adds another one. Returns the upstream version from which
/// to check.
async fn skewed(home: &Raw, here: &Raw, names: &[String]) -> String {
    give_clusters(home, &["m1"]).await;
    for name in names {
        post(home, BINDINGS, spread(name)).await;
    }
    for name in names {
        scheduled(home, &format!("{BINDINGS}/{name}"), "m1").await;
    }
    report(home).await;
    give_clusters(home, &["m2"]).await;
    for path in [format!("{CLUSTERS}/m2"), format!("{BINDINGS}/{}", names.last().unwrap())] {
        same(here, home, &path).await;
    }
    get(home, BINDINGS).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

async fn begin(here: &Raw, name: &str, spec: Value) {
    let object = json!({
        "apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": name}, "spec": spec,
    });
    post(here, REBALANCES, object).await;
}

fn is_over(rebalance: &Value) -> bool {
    ["Completed", "Aborted"].iter().any(|phase| rebalance["status"]["phase"] == *phase)
}

async fn over(here: &Raw, home: &Raw, name: &str) -> Value {
    wait_for(&format!("the end of {name}"), async || {
        report(home).await;
        let rebalance = get(here, &format!("{REBALANCES}/{name}")).await;
        is_over(&rebalance).then_some(rebalance)
    })
    .await
}

/// Checks every state upstream since this version: the bindings in progress are within the bound,
/// and with a floor, no ready replicas are missing. Returns how often a binding was in progress.
async fn judge(home: &Raw, since: &str, most: usize, floor: i64) -> usize {
    let events = home.get(&format!("{BINDINGS}?watch=true&resourceVersion={since}&timeoutSeconds=1")).await;
    let (mut marked, mut begun) = (BTreeMap::<String, bool>::new(), 0);
    for line in events.text().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let object = &event["object"];
        let name = object["metadata"]["name"].as_str().unwrap_or_else(|| panic!("{event}"));
        let is_marked = !object["metadata"]["annotations"][MARK].is_null();
        let was_marked = marked.insert(name.to_owned(), is_marked).unwrap_or_default();
        begun += usize::from(is_marked && !was_marked);
        let under_way = marked.values().filter(|is_marked| **is_marked).count();
        assert!(under_way <= most, "{under_way} of at most {most} under way: {marked:?} at {object}");
        assert!(ready(object) >= floor, "{} of {floor} ready: {object}", ready(object));
    }
    begun
}

/// Checks that all bindings exist upstream, and none is in progress.
async fn all_at(home: &Raw, wanted: &BTreeMap<String, i64>) {
    for binding in get(home, BINDINGS).await["items"].as_array().unwrap() {
        assert_eq!(shares(binding), *wanted, "{binding}");
        assert!(binding["metadata"]["annotations"][MARK].is_null(), "{binding}");
    }
}

fn settled(rebalance: &Value) -> (String, i64, i64, i64) {
    let number = |field: &str| rebalance["status"]["summary"][field].as_i64().unwrap_or_default();
    let phase = rebalance["status"]["phase"].as_str().unwrap_or_default().to_owned();
    (phase, number("toMove"), number("settled"), number("replicasMoved"))
}

#[tokio::test]
async fn s4_13_bindings_move_at_home_in_waves_and_a_refused_one_fails_with_the_homes_words() {
    let pair = Pair::start().await.synced().await;
    let (home, here) = (pair.karmada.admin(), pair.admin());
    let since = skewed(&home, &here, &named(6)).await;
    pair.line.refuse(
        |method, path| *method == Method::PATCH && path.starts_with(&format!("{BINDINGS}/b3")),
        status(403, "Forbidden"),
    );
    begin(&here, "there", json!({"select": [{"drifted": true}], "rollout": {"maxConcurrent": 2}})).await;
    let rebalance = over(&here, &home, "there").await;
    assert_eq!(settled(&rebalance), ("Completed".to_owned(), 6, 5, 10), "{rebalance}");
    let refused = get(&here, &format!("{}/there.b3", ALL_MOVES.replace("moves", "namespaces/shop/moves"))).await;
    assert_eq!(refused["status"]["phase"], "Failed", "{refused}");
    assert!(refused["status"]["message"].as_str().unwrap().contains("the test says Forbidden"), "{refused}");
    assert!(refused["metadata"]["annotations"]["ballast.dev/intent"].is_null(), "{refused}");
    let told = get(&home, &format!("{BINDINGS}/b3")).await;
    assert_eq!(shares(&told), at(&[("m1", REPLICAS)]), "{told}");
    assert_eq!(judge(&home, &since, 2, 0).await, 5);
    // The counts of the clusters are those of the targets.
    let now = |name: &str| {
        let counts = rebalance["status"]["clusters"].as_array().unwrap();
        counts.iter().find(|count| count["name"] == name).map(|count| count["now"].as_i64().unwrap())
    };
    assert_eq!((now("m1"), now("m2")), (Some(14), Some(10)), "{rebalance}");
    pair.stop().await;
}

#[tokio::test]
async fn s4_13_a_move_that_a_webhook_refuses_for_quota_fails_at_once_for_want_of_room() {
    let pair = Pair::start().await.synced().await;
    let (home, here) = (pair.karmada.admin(), pair.admin());
    skewed(&home, &here, &named(2)).await;
    let path = format!("{BINDINGS}/b0");
    let meant = path.clone();
    pair.line.refuse(
        move |method, asked| *method == Method::PATCH && asked.starts_with(&meant),
        status(403, "QuotaExceeded"),
    );
    let asked = pair.line.asked(&format!("PATCH {path}?"));
    begin(&here, "there", json!({"select": [{"drifted": true}]})).await;
    let rebalance = over(&here, &home, "there").await;
    assert_eq!(settled(&rebalance), ("Completed".to_owned(), 2, 1, 2), "{rebalance}");
    let refused = get(&here, &format!("{}/there.b0", ALL_MOVES.replace("moves", "namespaces/shop/moves"))).await;
    let told = &refused["status"];
    assert_eq!((&told["phase"], &told["reason"]), (&json!("Failed"), &json!("NoRoom")), "{refused}");
    assert!(told["message"].as_str().unwrap().contains("the test says QuotaExceeded"), "{refused}");
    let more = pair.line.asked(&format!("PATCH {path}?")) - asked;
    assert_eq!(more, 1, "nobody here knows more of the quota the second time");
    let binding = get(&home, &path).await;
    assert_eq!(shares(&binding), at(&[("m1", REPLICAS)]), "{binding}");
    assert!(binding["metadata"]["annotations"][MARK].is_null(), "{binding}");
    pair.stop().await;
}

#[tokio::test]
async fn s4_13_a_move_that_others_overtook_is_counted_once_as_it_came_out_in_the_end() {
    let pair = Pair::start().await.synced().await;
    let (home, here) = (pair.karmada.admin(), pair.admin());
    give_clusters(&home, &["m1"]).await;
    for name in ["b0", "b1"] {
        // In equal parts on all existing clusters.
        let mut object = spread(name);
        object["spec"]["replicas"] = 6.into();
        object["spec"]["placement"]["replicaScheduling"].as_object_mut().unwrap().remove("weightPreference");
        post(&home, BINDINGS, object).await;
        scheduled(&home, &format!("{BINDINGS}/{name}"), "m1").await;
    }
    report(&home).await;
    give_clusters(&home, &["m2"]).await;
    for path in [format!("{CLUSTERS}/m2"), format!("{BINDINGS}/b1")] {
        same(&here, &home, &path).await;
    }
    // Before the first patch of the second one arrives, another client writes it.
    let (other, happened) = (Arc::new(pair.karmada.admin()), Arc::new(AtomicBool::new(false)));
    pair.line.answer(move |method, path| {
        let (other, happened) = (Arc::clone(&other), Arc::clone(&happened));
        Box::pin(async move {
            let object = format!("{BINDINGS}/b1");
            let is_meant = method == Method::PATCH && path.starts_with(&format!("{object}?"));
            if is_meant && !happened.swap(true, Ordering::SeqCst) {
                patch(&other, &object, json!({"metadata": {"labels": {"touched": "yes"}}})).await;
            }
            None
        })
    });
    begin(&here, "there", json!({"select": [{}], "rollout": {"maxConcurrent": 1, "order": "Name"}})).await;
    // While the first one is in progress, a third cluster joins.
    wait_for("the first move", async || {
        let binding = get(&home, &format!("{BINDINGS}/b0")).await;
        (!binding["metadata"]["annotations"][MARK].is_null()).then_some(())
    })
    .await;
    give_clusters(&home, &["m3"]).await;
    same(&here, &home, &format!("{CLUSTERS}/m3")).await;
    let rebalance = over(&here, &home, "there").await;
    assert!(pair.line.asked(&format!("PATCH {BINDINGS}/b1?")) >= 2, "the first one was refused");
    let replicas = async |name: &str| {
        let path = format!("{}/there.{name}", ALL_MOVES.replace("moves", "namespaces/shop/moves"));
        get(&here, &path).await["spec"]["replicas"].clone()
    };
    // Three were planned of each. With the third cluster, four of the second one move.
    assert_eq!((replicas("b0").await, replicas("b1").await), (json!(3), json!(4)));
    assert_eq!(settled(&rebalance), ("Completed".to_owned(), 2, 2, 7), "{rebalance}");
    assert_eq!(rebalance["status"]["summary"]["replicasToMove"], 7, "{rebalance}");
    pair.stop().await;
}

#[tokio::test]
async fn s4_13_a_mark_of_a_move_that_nobody_carries_on_says_nothing() {
    let pair = Pair::start().await.synced().await;
    let (home, here) = (pair.karmada.admin(), pair.admin());
    skewed(&home, &here, &named(1)).await;
    // The state of a surging move, of a rebalance in another log.
    let mark = json!({
        "by": "clusterrebalances/lost", "move": "lost.b0", "replicas": REPLICAS, "at": [["m1", 4], ["m2", 2]],
    });
    let clusters = json!([{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}]);
    let change = json!({"metadata": {"annotations": {MARK: mark.to_string()}}, "spec": {"clusters": clusters}});
    patch(&home, &format!("{BINDINGS}/b0"), change).await;
    wait_for("a pass that takes the surplus back", async || {
        let binding = get(&home, &format!("{BINDINGS}/b0")).await;
        let is_marked = !binding["metadata"]["annotations"][MARK].is_null();
        (shares(&binding).values().sum::<i64>() == REPLICAS && !is_marked).then_some(())
    })
    .await;
    pair.stop().await;
}

/// The proxy is cut at one of the next patches, before or after it is applied. Until then the usual
/// faults occur.
fn doom(line: &Line, dice: &Dice, other: Raw) -> Arc<AtomicBool> {
    trouble(line, dice, other);
    let usual = line.fault.lock().unwrap().clone().unwrap();
    let (dead, left, is_before) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(dice.roll(7)), dice.roll(2) == 0);
    let (dies, died) = (Arc::clone(&dead), Arc::clone(&dead));
    line.answer(move |method, path| {
        let is_last = method == Method::PATCH && left.fetch_sub(1, Ordering::SeqCst) == 0;
        if dies.load(Ordering::SeqCst) || (is_last && is_before) {
            dies.store(true, Ordering::SeqCst);
            return Box::pin(async { Some(Err(std::io::Error::other("the line is dead"))) });
        }
        if is_last {
            dies.store(true, Ordering::SeqCst);
            return Box::pin(async { None });
        }
        usual(method, path)
    });
    let usual = line.loses.lock().unwrap().clone().unwrap();
    *line.loses.lock().unwrap() = Some(Arc::new(move |asked| died.load(Ordering::SeqCst) || usual(asked)));
    dead
}

#[tokio::test]
async fn s4_13_in_any_trouble_bounds_hold_at_home_counts_are_exact_and_an_undo_restores() {
    const BINDINGS_OF_ONE_LIFE: usize = 6;
    const DEATHS_MAX: usize = 4;
    // A seed of each kind: a run takes half a minute, most of it waiting for cut connections.
    for seed in 1..3 {
        let dice = Dice::of(seed);
        let karmada = TestServer::start().await;
        let (home, line, folder) = (karmada.admin(), Line::default(), tempfile::tempdir().unwrap());
        let database = format!("sqlite://{}", folder.path().join("ballast.db").display());
        let here = attach(&karmada, &line, &folder, &database, Access::ReadWrite).await;
        let mut pair = Pair { karmada, line, here, folder }.synced().await;
        let since = skewed(&home, &pair.admin(), &named(BINDINGS_OF_ONE_LIFE)).await;
        let is_surging = seed % 2 == 0;
        let mut rollout = json!({"maxConcurrent": 2});
        if is_surging {
            rollout["strategy"] = "SurgeFirst".into();
            rollout["minAvailable"] = "100%".into();
        }
        for (name, what) in [("there", json!([{}])), ("back", json!({"name": "there"}))] {
            let kind = if name == "there" { "select" } else { "undo" };
            begin(&pair.admin(), name, json!({kind: what, "rollout": rollout})).await;
            for _ in 0..DEATHS_MAX {
                let dead = doom(&pair.line, &dice, pair.karmada.admin());
                let here = pair.admin();
                wait_for(&format!("the death of the line, seed {seed}"), async || {
                    report(&home).await;
                    let is_over = is_over(&get(&here, &format!("{REBALANCES}/{name}")).await);
                    (dead.load(Ordering::SeqCst) || is_over).then_some(())
                })
                .await;
                let Pair { karmada, line, here, folder } = pair;
                here.stop().await.unwrap();
                line.mend();
                let here = attach(&karmada, &line, &folder, &database, Access::ReadWrite).await;
                pair = Pair { karmada, line, here, folder };
            }
            trouble(&pair.line, &dice, pair.karmada.admin());
            let rebalance = over(&pair.admin(), &home, name).await;
            let count = BINDINGS_OF_ONE_LIFE as i64;
            assert_eq!(settled(&rebalance), ("Completed".to_owned(), count, count, 2 * count), "{seed}: {rebalance}");
            pair.line.mend();
            all_at(&home, &if name == "there" { at(&[("m1", 2), ("m2", 2)]) } else { at(&[("m1", REPLICAS)]) }).await;
        }
        let begun = judge(&home, &since, 2, if is_surging { REPLICAS } else { 0 }).await;
        assert!(begun >= 2 * BINDINGS_OF_ONE_LIFE, "seed {seed}: {begun}");
        pair.stop().await;
    }
}

fn serve_attached(folder: &Path, karmada: &TestServer) -> ServerProcess {
    let kubeconfig = karmada.files.admin_kubeconfig.display().to_string();
    ServerProcess::start(folder, &["--attach", &kubeconfig, "--scheduler-name", "ballast"])
}

#[tokio::test]
async fn s4_13_a_rebalance_of_20_bindings_at_home_goes_on_after_each_kill_9_and_is_undone() {
    const COUNT: usize = 20;
    const AT_ONCE: usize = 3;
    let karmada = TestServer::start().await;
    let (home, folder) = (karmada.admin(), tempfile::tempdir().unwrap());
    let mut process = serve_attached(folder.path(), &karmada);
    let files = Files::in_dir(&folder.path().join("certs"));
    let since = skewed(&home, &Raw::admin(process.address, &files), &named(COUNT)).await;
    let rollout = json!({"maxConcurrent": AT_ONCE});
    for (name, spec, kills) in [
        ("there", json!({"select": [{"drifted": true}], "rollout": rollout}), &[2, 9, 15][..]),
        ("back", json!({"undo": {"name": "there"}, "rollout": rollout}), &[5][..]),
    ] {
        begin(&Raw::admin(process.address, &files), name, spec).await;
        for after in kills {
            let here = Raw::admin(process.address, &files);
            wait_for(&format!("{after} moves of {name}"), async || {
                report(&home).await;
                let (_, _, settled, _) = settled(&get(&here, &format!("{REBALANCES}/{name}")).await);
                (settled >= *after).then_some(())
            })
            .await;
            process.kill();
            process = serve_attached(folder.path(), &karmada);
        }
        let rebalance = over(&Raw::admin(process.address, &files), &home, name).await;
        let count = COUNT as i64;
        assert_eq!(settled(&rebalance), ("Completed".to_owned(), count, count, 2 * count), "{rebalance}");
        all_at(&home, &if name == "there" { at(&[("m1", 2), ("m2", 2)]) } else { at(&[("m1", REPLICAS)]) }).await;
    }
    assert_eq!(judge(&home, &since, AT_ONCE, 0).await, 2 * COUNT, "each binding moved once there and once back");
    assert!(process.terminate().success());
    karmada.stop().await;
}

#[tokio::test]
async fn rm34_a_drain_closes_its_cluster_at_home_and_says_when_it_may_not() {
    let pair = Pair::start().await.synced().await;
    let (home, here) = (pair.karmada.admin(), pair.admin());
    give_clusters(&home, &["m1", "m2"]).await;
    post(&home, BINDINGS, spread("web")).await;
    wait_for("the placement", async || (shares(&get(&home, WEB).await).len() == 2).then_some(())).await;
    report(&home).await;
    same(&here, &home, WEB).await;
    let is_of_clusters = |method: &Method, path: &str| *method == Method::PATCH && path.starts_with(CLUSTERS);
    pair.line.refuse(is_of_clusters, status(403, "Forbidden"));
    let drain = json!({
        "apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": "afternoon"},
        "spec": {"drain": {"clusters": ["m1"]}},
    });
    post(&here, REBALANCES, drain).await;
    let told = "nothing moves, because m1 cannot be closed: the test says Forbidden";
    wait_for("the event", async || get(&here, "/api/v1/events").await.to_string().contains(told).then_some(())).await;
    assert_eq!(shares(&get(&home, WEB).await), at(&[("m1", 2), ("m2", 2)]));
    pair.line.mend();
    wait_for("the end of the drain", async || {
        report(&home).await;
        let drain = get(&here, &format!("{REBALANCES}/afternoon")).await;
        (drain["status"]["phase"] == "Completed").then_some(())
    })
    .await;
    assert_eq!(shares(&get(&home, WEB).await), at(&[("m2", 4)]));
    let taints = get(&home, &format!("{CLUSTERS}/m1")).await["spec"]["taints"].clone();
    assert_eq!(
        (&taints[0]["key"], &taints[0]["effect"]),
        (&json!("cluster.karmada.io/unschedulable"), &json!("NoSchedule"))
    );
    pair.stop().await;
}
