//! Databases written by older versions of Ballast.

use ballast::node::certs::Files;
use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use crate::process::ServerProcess;
use crate::support::objects::{BINDINGS, binding};
use crate::support::raw::Raw;
use crate::support::wait_for;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ad4_objects_stored_before_there_was_a_default_show_it_to_readers_and_watchers() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let server = ServerProcess::start(folder.path(), &[]);
        let admin = Raw::admin(server.address, &Files::in_dir(&folder.path().join("certs")));
        (server, admin)
    };
    let path = format!("{BINDINGS}/web");
    let (server, admin) = start();
    let mut object = binding("web");
    object["spec"]["schedulerName"] = Value::from("nobody");
    let json = [("content-type", "application/json")];
    let created = admin.send(Method::POST, BINDINGS, &json, object.to_string()).await.json();
    assert_eq!(created["spec"]["conflictResolution"], "Abort");
    assert!(server.terminate().success());

    let options = SqliteConnectOptions::new().filename(folder.path().join("ballast.db"));
    let mut database = options.connect().await.unwrap();
    let forget = "UPDATE changes SET checksum = NULL, object = json_remove(object, '$.spec.conflictResolution') \
                  WHERE name = 'web'";
    assert_eq!(sqlx::query(forget).execute(&mut database).await.unwrap().rows_affected(), 1);
    let marked = async |database: &mut SqliteConnection| -> i32 {
        sqlx::query_scalar("PRAGMA user_version").fetch_one(database).await.unwrap()
    };
    let mark = marked(&mut database).await;
    assert!(mark != 0 && mark != 1, "the defaults of this program were filled in");
    // An older version writes this.
    sqlx::raw_sql("PRAGMA user_version = 1").execute(&mut database).await.unwrap();
    database.close().await.unwrap();

    let (server, admin) = start();
    let read = admin.get(&path).await.json();
    assert_eq!(read["spec"], created["spec"]);
    assert_eq!(read["metadata"]["generation"], created["metadata"]["generation"], "nobody changed it");
    let since = created["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = format!("{BINDINGS}?watch=1&resourceVersion={since}");
    let watch = admin.connect().await.open(Method::GET, &watch, &[], "").await.unwrap();
    let event = watch.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    let event: Value = serde_json::from_slice(&event).unwrap();
    assert_eq!((&event["type"], &event["object"]), (&Value::from("MODIFIED"), &read));
    assert!(server.terminate().success());

    let mut database = options.connect().await.unwrap();
    assert_eq!(marked(&mut database).await, mark);
    assert_eq!(sqlx::query(forget).execute(&mut database).await.unwrap().rows_affected(), 2);
    database.close().await.unwrap();
    let (server, admin) = start();
    let unlooked = admin.get(&path).await.json();
    assert_eq!(unlooked["spec"]["conflictResolution"], Value::Null, "a database with the mark is not looked through");
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wh10_a_start_tells_of_bindings_that_name_a_workload_of_another_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let server = ServerProcess::start(folder.path(), &[]);
        let admin = Raw::admin(server.address, &Files::in_dir(&folder.path().join("certs")));
        (server, admin)
    };
    let json = [("content-type", "application/json")];
    let (server, admin) = start();
    for name in ["web", "api", "own"] {
        let mut object = binding(name);
        object["spec"]["schedulerName"] = Value::from("nobody");
        assert_eq!(admin.send(Method::POST, BINDINGS, &json, object.to_string()).await.code, 201);
    }
    assert!(server.terminate().success());
    let log = || std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(!log().contains("have no effect"), "{}", log());

    let mut database = SqliteConnectOptions::new().filename(folder.path().join("ballast.db")).connect().await.unwrap();
    let stray = "UPDATE changes SET checksum = NULL, object = json_set(object, '$.spec.resource.namespace', 'other') \
                 WHERE name IN ('web', 'api')";
    assert_eq!(sqlx::query(stray).execute(&mut database).await.unwrap().rows_affected(), 2);
    database.close().await.unwrap();

    let (server, admin) = start();
    let told =
        wait_for("the line", async || log().lines().find(|line| line.contains("have no effect")).map(str::to_owned))
            .await;
    assert!(told.contains("bindings=2") && told.contains("/shop/api"), "{told}");
    // The object is unchanged, and remains writable unless a write makes it worse.
    let path = format!("{BINDINGS}/web");
    let mut read = admin.get(&path).await.json();
    assert_eq!(read["spec"]["resource"]["namespace"], "other");
    read["spec"]["replicas"] = Value::from(7);
    assert_eq!(admin.send(Method::PUT, &path, &json, read.to_string()).await.code, 200);
    read["spec"]["resource"]["namespace"] = Value::from("third");
    read["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(admin.send(Method::PUT, &path, &json, read.to_string()).await.code, 422);
    assert!(server.terminate().success());
}
