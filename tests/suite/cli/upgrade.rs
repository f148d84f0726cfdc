//! Databases written by earlier releases: this version serves all their content.
//!
//! `tests/upgrade/make` has created them with the program of each release.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use http::Method;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use crate::process::ServerProcess;
use crate::support::objects::REBALANCERS;
use crate::support::postgres::Cluster;
use crate::support::raw::Raw;
use crate::support::wait_for;

const JSON: (&str, &str) = ("content-type", "application/json");
const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";

/// Returns the folder of each release, oldest first.
fn releases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/upgrade");
    let mut releases: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    releases.sort();
    assert!(!releases.is_empty());
    releases
}

fn unpacked(file: &Path) -> Vec<u8> {
    let (mut content, packed) = (Vec::new(), std::fs::File::open(file).unwrap());
    flate2::read::GzDecoder::new(packed).read_to_end(&mut content).unwrap();
    content
}

/// Returns whether `now` contains all of `before`. A newer version may have added fields with
/// defaults.
fn keeps(now: &Value, before: &Value) -> bool {
    match (now, before) {
        (Value::Object(now), Value::Object(before)) => {
            before.iter().all(|(name, before)| now.get(name).is_some_and(|now| keeps(now, before)))
        }
        (Value::Array(now), Value::Array(before)) => {
            now.len() == before.len() && now.iter().zip(before).all(|(now, before)| keeps(now, before))
        }
        (now, before) => now == before,
    }
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Returns the objects that the release served at its end, without the events, which have expired
/// since.
fn served_before(release: &Path) -> Vec<Value> {
    let all: Vec<Value> = serde_json::from_slice(&unpacked(&release.join("objects.json.gz"))).unwrap();
    all.into_iter().filter(|object| object["kind"] != "Event").collect()
}

async fn holds_what_it_held(admin: &Raw, before: &[Value]) {
    for object in before {
        let (version, metadata) = (object["apiVersion"].as_str().unwrap(), &object["metadata"]);
        let resources = admin.get(&format!("/apis/{version}")).await.json();
        let resources = resources["resources"].as_array().unwrap();
        let named = |it: &&Value| it["kind"] == object["kind"] && !it["name"].as_str().unwrap().contains('/');
        let plural = resources.iter().find(named).unwrap()["name"].as_str().unwrap();
        let place = metadata["namespace"].as_str().map(|name| format!("namespaces/{name}/")).unwrap_or_default();
        let path = format!("/apis/{version}/{place}{plural}/{}", metadata["name"].as_str().unwrap());
        let now = admin.get(&path).await.json();
        assert!(keeps(&now["spec"], &object["spec"]), "{path}: {object:#} became {now:#}");
        for field in ["uid", "creationTimestamp", "deletionTimestamp", "finalizers", "labels", "annotations"] {
            assert!(metadata[field].is_null() || keeps(&now["metadata"][field], &metadata[field]), "{path}: {field}");
        }
        assert!(revision(&now) >= revision(object), "{path}: revisions never go back");
    }
}

/// Checks that an object being deleted is removed, and a trigger is followed by a decision.
async fn goes_on(admin: &Raw) {
    let merge = ("content-type", "application/merge-patch+json");
    let released = json!({"metadata": {"finalizers": null}}).to_string();
    let leaving = format!("{BINDINGS}/leaving");
    assert_eq!(admin.send(Method::PATCH, &leaving, &[merge], released).await.code, 200);
    assert_eq!(admin.get(&leaving).await.code, 404);
    let workload =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "demo-deploy-1"});
    let object = json!({
        "apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": {"name": "after-the-upgrade"}, "spec": {"workloads": [workload]},
    });
    assert_eq!(admin.send(Method::POST, REBALANCERS, &[JSON], object.to_string()).await.code, 201);
    let path = format!("{REBALANCERS}/after-the-upgrade");
    wait_for("the rebalance after the upgrade", async || {
        let status = admin.get(&path).await.json()["status"].take();
        (status["observedWorkloads"][0]["result"] == "Successful" && !status["finishTime"].is_null()).then_some(())
    })
    .await;
}

/// Starts this version over the database, reads and changes its objects, and checks the database
/// after the server has stopped.
async fn is_carried_over(release: &Path, folder: &Path, database: &str, flags: &[&str]) {
    let before = served_before(release);
    // The second start uses the result of the first migration.
    for start in 0..2 {
        // The migration is announced, once.
        let server = ServerProcess::start_on(folder, database, if start == 0 { flags } else { &[] });
        let log = std::fs::read_to_string(folder.join("log")).unwrap();
        assert_eq!(log.matches("migrating the database, which cannot be undone").count(), 1, "{log}");
        let files = ballast::node::certs::Files::in_dir(&folder.join("certs"));
        let admin = Raw::admin(server.address, &files);
        if start == 0 {
            holds_what_it_held(&admin, &before).await;
            goes_on(&admin).await;
        } else {
            // Only these two have worked with it since.
            let changed = ["leaving", "demo-deploy-1-deployment"].map(Value::from);
            let is_kept = |object: &&Value| !changed.contains(&object["metadata"]["name"]);
            let kept: Vec<Value> = before.iter().filter(is_kept).cloned().collect();
            holds_what_it_held(&admin, &kept).await;
        }
        drop(admin);
        assert!(server.terminate().success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_of_each_release_is_carried_over() {
    for release in releases() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ballast.db");
        std::fs::write(&file, unpacked(&release.join("ballast.db.gz"))).unwrap();
        let database = format!("sqlite://{}", file.display());
        is_carried_over(&release, folder.path(), &database, &[]).await;
        let mut check = Command::new(env!("CARGO_BIN_EXE_ballast"));
        let output = check.args(["check", "--database-url", &database]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_postgresql_database_of_each_release_is_carried_over() {
    let Some(cluster) = Cluster::shared() else { return };
    for release in releases() {
        let (folder, database) = (tempfile::tempdir().unwrap(), cluster.schema().await);
        // The connection has a separate schema, so the tables are moved to its search path.
        let dump = String::from_utf8(unpacked(&release.join("postgres.sql.gz"))).unwrap().replace("public.", "");
        let lines = dump.lines().filter(|line| !line.contains("'search_path'"));
        let script = lines.collect::<Vec<_>>().join("\n");
        let mut connection = PgConnection::connect(&database).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(script)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        // Replicas of the release may run, so the operator triggers the migration.
        let mut serve = Command::new(env!("CARGO_BIN_EXE_ballast"));
        serve.args(["serve", "--secure-port", "0", "--database-url", &database]).current_dir(folder.path());
        let refused = serve.output().unwrap();
        let told = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{told}");
        assert!(told.contains("the migration cannot be undone") && told.contains("--migrate"), "{told}");
        is_carried_over(&release, folder.path(), &database, &["--migrate"]).await;
    }
}
