//! A database that an older Ballast wrote.

use ballast::node::certs::Files;
use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use crate::process::ServerProcess;
use crate::support::objects::{BINDINGS, binding};
use crate::support::raw::Raw;

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
    let forget = "UPDATE changes SET object = json_remove(object, '$.spec.conflictResolution') WHERE name = 'web'";
    assert_eq!(sqlx::query(forget).execute(&mut database).await.unwrap().rows_affected(), 1);
    let marked = async |database: &mut SqliteConnection| -> i32 {
        sqlx::query_scalar("PRAGMA user_version").fetch_one(database).await.unwrap()
    };
    let mark = marked(&mut database).await;
    assert!(mark != 0 && mark != 1, "the defaults of this program were filled in");
    // Which is what an older one writes.
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
