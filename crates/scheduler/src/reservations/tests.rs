//! The accounts are a function of the bindings and of the time.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::followed::Followed;
use super::ledger::Ledger;
use crate::cluster_cache::{CLUSTERS, Summary};
use ballast_api::karmada::work::v1alpha2::RESOURCE_BINDINGS;
use ballast_k8s::{Key, Object, Revision, Time};
use ballast_watch::{Event, EventKind, View};

const NOW: i64 = 1_704_067_200;
const TTL: i64 = 300;

fn key(name: u8) -> Key {
    Key::namespaced(RESOURCE_BINDINGS, "shop", format!("b{name}").as_str())
}

/// The state of a binding on one cluster.
#[derive(Clone, Debug)]
struct On {
    cluster: u8,
    assigned: Option<i32>,
    /// `None`: no report. The inner value is the reported number.
    report: Option<(Value, bool)>,
}

fn on() -> impl Strategy<Value = On> {
    let number = prop_oneof![
        (0_i64..12).prop_map(|number| json!(number)),
        Just(json!(-3)),
        Just(json!(1.5)),
        Just(json!(i64::MAX)),
        Just(json!("many")),
        Just(Value::Null),
    ];
    let report = prop::option::of((number, any::<bool>()));
    (0_u8..3, prop::option::of(0_i32..9), report).prop_map(|(cluster, assigned, report)| On {
        cluster,
        assigned,
        report,
    })
}

fn object(name: u8, revision: i64, (cpu, age, on): &(u8, i64, Vec<On>), arrivals: Option<i64>) -> Arc<Object> {
    let cluster = |on: &On| format!("m{}", on.cluster);
    let targets = on.iter().filter_map(|on| Some(json!({"name": cluster(on), "replicas": on.assigned?})));
    let reports = on.iter().filter_map(|on| {
        let (number, applied) = on.report.as_ref()?;
        Some(json!({"clusterName": cluster(on), "applied": applied, "status": {"replicas": number}}))
    });
    let at = Time::from_seconds(NOW - arrivals.unwrap_or_default());
    let arrivals = arrivals.map(|ago| json!({"m0": {"at": at, "foreign": ago % 7}, "m1": {"foreign": 2}}).to_string());
    let tree = json!({
        "metadata": {
            "name": format!("b{name}"), "namespace": "shop", "creationTimestamp": "2023-01-01T00:00:00Z",
            "annotations": arrivals.map(|text| json!({"ballast.dev/arrivals": text})),
        },
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": format!("{cpu}")}},
            "clusters": targets.collect::<Vec<_>>(),
        },
        "status": {
            "lastScheduledTime": Time::from_seconds(NOW - age).to_string(),
            "aggregatedStatus": reports.collect::<Vec<_>>(),
        },
    });
    Arc::new(Object::decode(key(name), Revision(revision), tree.to_string().into_bytes().into()).unwrap())
}

type Told = BTreeMap<String, (Vec<(String, i128)>, Vec<(String, i128)>, i64, Vec<(String, i64)>, Vec<i64>)>;

fn told(ledger: &Ledger) -> Told {
    let amounts = |amounts: &ballast_engine::karmada::Amounts| {
        amounts.iter().map(|(name, amount)| (name.to_owned(), amount)).collect::<Vec<_>>()
    };
    let accounts = ledger.accounts();
    let of = |cluster: &Arc<str>| {
        accounts.holders(cluster).map(|(holder, copies)| (holder.name.to_string(), copies)).collect()
    };
    let account = |(cluster, account): (&Arc<str>, &Arc<super::Account>)| {
        let unseen = account.unseen(&Summary::default(), accounts.now()).iter().map(|(_, copies)| *copies).collect();
        let told = (amounts(&account.reported), amounts(&account.promised), account.copies, of(cluster), unseen);
        (cluster.to_string(), told)
    };
    accounts.iter().map(account).collect()
}

#[test]
fn rm9_a_report_changes_the_accounts_of_its_cluster_alone() {
    let on = |report: Option<i64>| {
        let on = |cluster, report: Option<i64>| On {
            cluster,
            assigned: Some(2),
            report: report.map(|number| (json!(number), true)),
        };
        (1, 0, vec![on(0, report), on(1, None)])
    };
    let mut ledger = Ledger::new(TTL, Followed::default());
    ledger.set_time(Time::from_seconds(NOW));
    let (before, after) = (object(1, 1, &on(None), None), object(1, 2, &on(Some(2)), None));
    ledger.follow(&Event::new(Revision(1), EventKind::Created, Arc::clone(&before), None, 0));
    assert_eq!(ledger.take_touched().len(), 2);
    ledger.follow(&Event::new(Revision(2), EventKind::Updated, after, Some(before), 0));
    let told = told(&ledger);
    assert_eq!((told["m0"].2, told["m1"].2), (0, 2));
    assert_eq!(told["m0"].0, [("cpu".to_owned(), 2_000), ("pods".to_owned(), 2)]);
}

#[test]
fn rm3_promises_end_and_hold_again_as_the_clock_goes() {
    let on = vec![On { cluster: 0, assigned: Some(2), report: None }];
    let mut ledger = Ledger::new(TTL, Followed::default());
    ledger.follow(&Event::new(Revision(1), EventKind::Created, object(1, 1, &(1, 0, on), None), None, 0));
    let mut promised = |seconds: i64| {
        ledger.set_time(Time::from_seconds(NOW + seconds));
        assert_eq!(ledger.accounts().now(), NOW + seconds);
        ledger.accounts().of("m0").map_or(0, |account| account.copies)
    };
    assert_eq!([0, TTL - 1, TTL, 2 * TTL, TTL - 1].map(&mut promised), [2, 2, 0, 0, 2]);
}

fn cluster(number: u8) -> Arc<Object> {
    let name = format!("m{number}");
    let text = json!({"metadata": {"name": name}}).to_string();
    Arc::new(Object::decode(Key::cluster(CLUSTERS, name.as_str()), Revision(1), text.into_bytes().into()).unwrap())
}

#[test]
fn li11_names_of_clusters_that_do_not_exist_have_no_accounts() {
    let on = |cluster| On { cluster, assigned: Some(2), report: Some((json!(1), true)) };
    let binding = object(1, 1, &(1, 0, vec![on(0), on(1), on(2)]), None);
    let ledger = |clusters: &[u8]| {
        let clusters = clusters.iter().map(|number| cluster(*number));
        Ledger::of(&View::of(clusters.chain([Arc::clone(&binding)])), TTL, Time::from_seconds(NOW))
    };
    let mut kept = ledger(&[1]);
    assert_eq!(told(&kept).keys().collect::<Vec<_>>(), ["m1"]);
    let complete = |kept: &Ledger| [0, 1, 2, 3].map(|number| kept.accounts().is_complete_for(&format!("m{number}")));
    assert_eq!(complete(&kept), [false, true, false, true], "nothing names the last one");
    assert_eq!(told(&ledger(&[0, 1, 3])).keys().collect::<Vec<_>>(), ["m0", "m1"]);
    kept.follow(&Event::new(Revision(2), EventKind::Deleted, Arc::clone(&binding), Some(binding.clone()), 0));
    assert_eq!((told(&kept).len(), complete(&kept)), (0, [true; 4]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// RM2: the incrementally maintained ledger equals one rebuilt from scratch: after any changes,
    /// with clusters that appear, and with the clock moving in both directions past the time to
    /// live.
    #[test]
    fn rm2_history_leaves_no_trace(
        steps in prop::collection::vec(
            (
                0_u8..4,
                prop::option::of((1_u8..4, 0_i64..700, prop::collection::vec(on(), 0..4))),
                prop::option::of(-400_i64..400),
                -400_i64..400,
                0_u8..12,
            ),
            1..30,
        ),
    ) {
        let mut now: BTreeMap<u8, Arc<Object>> = BTreeMap::new();
        let mut clusters = BTreeMap::from([(0, cluster(0))]);
        let followed = clusters.values().map(|cluster| Arc::clone(&cluster.key.name));
        let mut kept = Ledger::new(TTL, Followed::of(followed));
        let mut time = NOW;
        for (revision, (name, binding, arrivals, passes, appears)) in steps.into_iter().enumerate() {
            let revision = revision as i64 + 1;
            time += passes;
            kept.set_time(Time::from_seconds(time));
            if appears < 3 {
                let appeared = cluster(appears);
                let name = Arc::clone(&appeared.key.name);
                clusters.insert(appears, appeared);
                if kept.accounts().is_complete_for(&name) {
                    kept.follow_cluster(&name);
                } else {
                    let view = View::of(clusters.values().chain(now.values()).cloned());
                    kept = Ledger::of(&view, TTL, Time::from_seconds(time));
                }
            }
            let previous = now.remove(&name);
            let event = match &binding {
                Some(binding) => {
                    let object = object(name, revision, binding, arrivals);
                    now.insert(name, Arc::clone(&object));
                    let kind = if previous.is_some() { EventKind::Updated } else { EventKind::Created };
                    Event::new(Revision(revision), kind, object, previous, 0)
                }
                None => {
                    let Some(gone) = previous else { continue };
                    Event::new(Revision(revision), EventKind::Deleted, Arc::clone(&gone), Some(gone), 0)
                }
            };
            kept.follow(&event);
            let anew = Ledger::of(&View::of(clusters.values().chain(now.values()).cloned()), TTL, Time::from_seconds(time));
            let (kept, mut anew) = (told(&kept), told(&anew));
            // The holders of expired reservations are not restored if the clock steps back.
            for (cluster, known) in &mut anew {
                let Some(of_kept) = kept.get(cluster) else { continue };
                known.3.retain(|holder| of_kept.3.contains(holder));
            }
            prop_assert_eq!(kept, anew);
        }
    }
}
