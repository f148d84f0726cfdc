//! The size of the history (NG6): agents report every ten seconds, and each report is a change of
//! the whole object. It is measured in bytes of the file.

use ballast::k8s::{Key, Revision};
use ballast::store::{self, Change, HistoryOf, Operation, Span, Store, Term};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use super::conformance::Rows;
use super::fixtures::*;
use super::sqlite_file::sql;

const FIRST: Term = Term(0);
const CLUSTERS_COUNT: i64 = 12;
const WORKLOADS: i64 = 515;
const ROUNDS_A_MINUTE: i64 = 6;
/// A part of an hour that is long enough to be typical.
const MINUTES: i64 = 10;
/// The limit of an hour of the outage's fleet: 7 MB were measured.
const HOUR_BYTES_MAX: u64 = 10 << 20;
/// The minimum without packing, to check the load: 32 MB.
const UNPACKED_HOUR_BYTES_MIN: u64 = 30_000_000;

/// Returns a cluster that serves 120 kinds, as its agent reports it.
fn cluster_report(number: i64) -> Value {
    let kinds = |group: i64| {
        let kind = |kind: i64| json!({"kind": format!("Kind{group}x{kind}"), "name": format!("kind{group}x{kind}s")});
        json!({"groupVersion": format!("group{group}.example.io/v1"), "resources": (0..10).map(kind).collect::<Vec<_>>()})
    };
    let used = 100_000 + number * 7_919 % 200_000;
    json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "status": {
        "apiEnablements": (0..12).map(kinds).collect::<Vec<_>>(),
        "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "message": "cluster is healthy and ready to accept workloads"}],
        "resourceSummary": {
            "allocatable": {"cpu": "480", "memory": "1900Gi", "pods": "3300"},
            "allocated": {"cpu": format!("{used}m"), "memory": format!("{used}Mi"), "pods": (used / 400).to_string()}}}})
}

/// A binding on twelve clusters, as their agents report on it.
fn binding_report(number: i64) -> Value {
    let report = |cluster: i64| {
        json!({"clusterName": format!("member{cluster}"), "applied": true, "health": "Healthy", "status": {
            "replicas": 3, "readyReplicas": (number + cluster) % 4, "updatedReplicas": 3, "generation": 1}})
    };
    json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "status": {"aggregatedStatus": (1..=12).map(report).collect::<Vec<_>>()}})
}

/// Writes a log with continuous revisions per key.
struct Fleet {
    store: std::sync::Arc<dyn Store>,
    newest: std::collections::HashMap<Key, Revision>,
    last: Revision,
}

impl Fleet {
    async fn report(&mut self, reports: Vec<(Key, Value)>) {
        let mut changes = Vec::new();
        for (key, mut object) in reports {
            self.last = self.last.next();
            let revision = self.last;
            object["metadata"] =
                json!({"name": *key.name, "namespace": *key.namespace, "resourceVersion": revision.0.to_string()});
            let previous = self.newest.insert(key.clone(), revision).unwrap_or(Revision::ZERO);
            let operation = if previous == Revision::ZERO { Operation::Create } else { Operation::Update };
            // The creation is not considered here.
            let created = if previous == Revision::ZERO { revision } else { Revision(1) };
            let object = object.to_string().into();
            changes.push(Change { revision, key, operation, created, previous, time_ms: revision.0, object });
        }
        self.store.commit(FIRST, &changes).await.unwrap();
    }

    async fn pack(&self, after: Revision) -> u64 {
        let saved = self.store.pack(Span { after, through: self.last }).await.unwrap();
        saved.iter().map(|saved| saved.bytes).sum()
    }

    /// Returns the used bytes of the file.
    async fn bytes(&self) -> u64 {
        let size = self.store.size().await.unwrap().unwrap();
        size.bytes - size.wal.unwrap() - size.free.unwrap()
    }
}

/// Every agent reports each ten seconds, and each binding changes each minute.
#[tokio::test]
async fn ng6_an_hour_of_the_nights_fleet_costs_a_fifth_of_its_reports() {
    let home = tempfile::tempdir().unwrap();
    let store = store::open(&url(&home), &[]).await.unwrap();
    let mut fleet = Fleet { store, newest: std::collections::HashMap::new(), last: Revision::ZERO };
    let cluster = |number: i64| Key::cluster(CLUSTERS, format!("member{number}"));
    let workload = |number: i64| binding(&format!("w{number}"));
    fleet.report((0..CLUSTERS_COUNT).map(|it| (cluster(it), cluster_report(it))).collect()).await;
    fleet.report((0..WORKLOADS).map(|it| (workload(it), binding_report(it))).collect()).await;
    let (before, mut saved) = (fleet.bytes().await, 0);
    for minute in 1..=MINUTES {
        let packed = fleet.last;
        for round in 0..ROUNDS_A_MINUTE {
            let number = minute * ROUNDS_A_MINUTE + round;
            let report = |it: i64| (cluster(it), cluster_report(number * 31 + it));
            fleet.report((0..CLUSTERS_COUNT).map(report).collect()).await;
        }
        let some = (0..WORKLOADS).filter(|it| it % 10 == minute % 10);
        fleet.report(some.map(|it| (workload(it), binding_report(it + minute))).collect()).await;
        saved += fleet.pack(packed).await;
    }
    let hour = (fleet.bytes().await - before) * 60 / u64::try_from(MINUTES).unwrap();
    assert!(hour < HOUR_BYTES_MAX, "{hour} bytes an hour");
    let without = hour + saved * 60 / u64::try_from(MINUTES).unwrap();
    assert!(without > UNPACKED_HOUR_BYTES_MIN, "without packing {without} bytes an hour");
}

/// The states of a moment, the log and the replaced states are read as they were written.
#[tokio::test]
async fn ng6_what_is_packed_reads_as_before_and_states_stay_plain() {
    let home = tempfile::tempdir().unwrap();
    let (web, api) = (binding("web"), binding("api"));
    let mut rows = Rows::default().create(&web).create(&api).update(&web, 1, 1).update(&web, 1, 3).rows;
    for row in &mut rows {
        let text = String::from_utf8(row.object.to_vec()).unwrap();
        let padding = format!(r#""padding":"{}","#, "müller ".repeat(60));
        row.object = text.replacen('{', &format!("{{{padding}"), 1).into();
    }
    let store = store::open(&url(&home), &[]).await.unwrap();
    store.commit(FIRST, &rows).await.unwrap();
    let last = rows.last().unwrap().revision;
    let everything = Span { after: Revision::ZERO, through: last };
    let before = store.replaced_bytes(Revision::ZERO, 10).await.unwrap();
    let saved = store.pack(everything).await.unwrap();
    let replaced: Vec<i64> = saved.iter().map(|saved| saved.replaced_at.0).collect();
    assert_eq!(replaced, [3, 4], "the two states that were replaced");
    assert_eq!(store.pack(everything).await.unwrap(), [], "once");
    let after = store.replaced_bytes(Revision::ZERO, 10).await.unwrap();
    let bytes = |counted: &[(Revision, u64)]| counted.iter().map(|(_, bytes)| bytes).sum::<u64>();
    assert_eq!(bytes(&before) - bytes(&after), saved.iter().map(|saved| saved.bytes).sum::<u64>());

    assert_eq!(store.changes(Revision::ZERO, 10).await.unwrap(), rows);
    let history = store.history(&HistoryOf::Kind(BINDINGS), everything, 10).await.unwrap();
    assert_eq!(history[3].before.as_ref(), Some(&rows[2].object));
    assert_eq!(store.page(Revision(2), Revision::ZERO, 10).await.unwrap(), rows[..2]);
    let mut beside = sql(&home).await;
    let plain: Vec<i64> = sqlx::query_scalar("SELECT revision FROM changes WHERE packed IS NULL ORDER BY revision")
        .fetch_all(&mut beside)
        .await
        .unwrap();
    assert_eq!(plain, [2, 4], "people's queries read states as they are");

    // A damaged packed row is detected like any other.
    let damage = "UPDATE changes SET packed = x'00ff' WHERE revision = 1";
    sqlx::raw_sql(AssertSqlSafe(damage)).execute(&mut beside).await.unwrap();
    let error = store.changes(Revision::ZERO, 10).await.unwrap_err().to_string();
    assert!(error.contains("revision 1"), "{error}");
}
