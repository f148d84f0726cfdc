//! api-09: a damaged row is named wherever it is read, and set aside only on demand. One suite for
//! the back ends that keep rows.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ballast::k8s::{Key, Revision};
use ballast::store::{self, Change, DamagedRow, Error, HistoryOf, Settings, Span, Store, Term};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};

use super::conformance::{Rows, anna};
use super::fixtures::*;
use crate::process::ServerProcess;
use crate::support::objects::{REBALANCERS, rebalancer};
use crate::support::postgres::Cluster;
use crate::support::wait_for;

const FIRST: Term = Term(0);

macro_rules! over_every_back_end {
    ($($rule:ident)*) => {
        mod sqlite {
            $(#[tokio::test] async fn $rule() {
                let home = tempfile::tempdir().unwrap();
                super::$rule(&super::url(&home)).await;
            })*
        }
        mod postgres {
            $(#[tokio::test] async fn $rule() {
                let Some(cluster) = super::Cluster::shared() else { return };
                super::$rule(&cluster.schema().await).await;
            })*
        }
    };
}

over_every_back_end! {
    a_damaged_row_is_named_wherever_it_is_read a_row_of_before_has_no_checksum_and_is_read
    only_what_is_damaged_and_named_is_set_aside a_history_that_is_damaged_goes_without_its_object
    a_copy_has_checksums_and_takes_no_damaged_row check_names_what_a_start_refuses
}

/// A log of three objects, the first of which was updated.
async fn filled(url: &str) -> Vec<Change> {
    let (web, api, shop) = (binding("web"), binding("api"), binding("shop"));
    let rows = Rows::default().create(&web).create(&api).create(&shop).update(&web, 1, 1).rows;
    let store = store::open(url, &[]).await.unwrap();
    store.commit(FIRST, &rows).await.unwrap();
    closed(store).await;
    rows
}

/// Closes a store. Its first checkpoint may still be in progress.
async fn closed(store: Arc<dyn Store>) {
    wait_for("the store to close", async || store.close().await.ok()).await;
}

/// Runs a statement outside of the store, and returns the number of changed rows.
async fn run(url: &str, statement: &str) -> u64 {
    let statement = AssertSqlSafe(statement.to_owned());
    match url.strip_prefix("sqlite://") {
        Some(path) => {
            let mut connection = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
            let changed = sqlx::query(statement).execute(&mut connection).await.unwrap().rows_affected();
            connection.close().await.unwrap();
            changed
        }
        None => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            let changed = sqlx::query(statement).execute(&mut connection).await.unwrap().rows_affected();
            connection.close().await.unwrap();
            changed
        }
    }
}

/// Changes a letter of an object, which is still valid JSON.
async fn damage(url: &str, revision: i64) {
    let statement =
        format!(r#"UPDATE changes SET object = replace(object, '"name"', '"nane"') WHERE revision = {revision}"#);
    assert_eq!(run(url, &statement).await, 1);
}

async fn quarantine(url: &str, named: &[&Key]) -> Result<Vec<DamagedRow>, Error> {
    let named: Vec<String> = named.iter().map(ToString::to_string).collect();
    store::quarantine(url, &[], &Settings::default(), "somebody".into(), &named).await
}

fn named(key: &Key, revision: i64) -> String {
    format!("{key} at revision {revision} is damaged (its checksum does not fit)")
}

async fn a_damaged_row_is_named_wherever_it_is_read(url: &str) {
    filled(url).await;
    damage(url, 2).await;
    let store = store::open(url, &[]).await.unwrap();
    let (zero, all) = (Revision::ZERO, Span { after: Revision::ZERO, through: Revision(4) });
    for read in [
        store.page(Revision(4), zero, 10).await.map(drop),
        store.changes(zero, 10).await.map(drop),
        store.rows(&[Revision(2)]).await.map(drop),
        store.history(&HistoryOf::Kind(BINDINGS), all, 10).await.map(drop),
    ] {
        let error = read.expect_err("a damaged object was read");
        let said = error.to_string();
        assert!(matches!(error, Error::Corrupt { .. }) && said.contains(&named(&binding("api"), 2)), "{said}");
        assert!(said.contains(&format!("--quarantine {}", binding("api"))), "{said}");
    }
    assert_eq!(store.rows(&[Revision(3)]).await.unwrap().len(), 1, "others are read");
}

async fn a_row_of_before_has_no_checksum_and_is_read(url: &str) {
    let rows = filled(url).await;
    assert_eq!(run(url, "UPDATE changes SET checksum = NULL WHERE revision < 4").await, 3);
    let store = store::open(url, &[]).await.unwrap();
    assert_eq!(store.changes(Revision::ZERO, 10).await.unwrap(), rows);
    closed(store).await;
    assert_eq!(run(url, "UPDATE changes SET object = substr(object, 2) WHERE revision = 2").await, 1);
    let set_aside = quarantine(url, &[&binding("api")]).await.unwrap();
    assert!(set_aside.len() == 1 && set_aside[0].fault.starts_with("it is no object: "), "{set_aside:?}");
}

async fn only_what_is_damaged_and_named_is_set_aside(url: &str) {
    let (web, api, shop) = (binding("web"), binding("api"), binding("shop"));
    let rows = filled(url).await;
    assert_eq!(quarantine(url, &[&web, &api, &shop]).await.unwrap(), [], "nothing is damaged");
    for revision in [3, 4] {
        damage(url, revision).await;
    }
    assert_eq!(quarantine(url, &[&api]).await.unwrap(), [], "and this is whole");
    let set_aside = quarantine(url, &[&web, &api]).await.unwrap();
    assert_eq!(set_aside.iter().map(|row| (&row.key, row.revision.0)).collect::<Vec<_>>(), [(&web, 4)]);
    let store = store::open(url, &[]).await.unwrap();
    let refused = store.page(Revision(5), Revision::ZERO, 10).await.expect_err("another is damaged, too");
    assert!(refused.to_string().contains(&named(&shop, 3)), "{refused}");
    closed(store).await;
    quarantine(url, &[&shop]).await.unwrap();

    let store = store::open(url, &[]).await.unwrap();
    assert_eq!(states(&store).await, [rows[1].clone()], "no earlier state comes back");
    assert_eq!(store.set_aside().await.unwrap(), [shop, web.clone()]);
    let bounds = store.bounds().await.unwrap();
    assert_eq!((bounds.last.0, bounds.compacted.0), (6, 6), "each client lists again");
    let term = store.lead(&anna(), Duration::from_secs(30)).await.unwrap().term;
    store.commit(term, &Rows::after(6).create(&web).rows).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(state(&store, &web).await.unwrap().revision, Revision(7));
}

async fn a_history_that_is_damaged_goes_without_its_object(url: &str) {
    let rows = filled(url).await;
    damage(url, 1).await;
    assert_eq!(quarantine(url, &[&binding("web")]).await.unwrap().len(), 1);
    let store = store::open(url, &[]).await.unwrap();
    assert_eq!(states(&store).await, rows[1..]);
}

async fn a_copy_has_checksums_and_takes_no_damaged_row(url: &str) {
    let rows = filled(url).await;
    let home = tempfile::tempdir().unwrap();
    let copy = async |name: &str| {
        let to = format!("sqlite://{}", home.path().join(name).display());
        let copied = store::copy(url, &to, &[], &Settings::default(), "copier".into(), &[]).await;
        copied.map(|_| to)
    };
    let to = copy("whole.db").await.unwrap();
    assert_eq!(store::open(&to, &[]).await.unwrap().changes(Revision::ZERO, 10).await.unwrap(), rows);
    assert_eq!(run(&to, "DELETE FROM changes WHERE checksum IS NULL").await, 0);
    damage(url, 2).await;
    let refused = copy("damaged.db").await.expect_err("a damaged row was copied");
    assert!(refused.to_string().contains(&named(&binding("api"), 2)), "{refused}");
}

async fn check_names_what_a_start_refuses(url: &str) {
    let check = || {
        let done = Command::new(env!("CARGO_BIN_EXE_ballast")).args(["check", "--database-url", url]).output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
    };
    filled(url).await;
    let (code, said) = check();
    assert!(code == Some(0) && said.contains("is whole"), "{said}");
    damage(url, 2).await;
    damage(url, 3).await;
    let (code, said) = check();
    let both = [named(&binding("api"), 2), named(&binding("shop"), 3)].join("; ");
    assert!(code == Some(3) && said.contains(&both), "{said}");
    for statement in ["ALTER TABLE changes DROP COLUMN checksum", "DROP TABLE quarantine"] {
        run(url, statement).await;
    }
    let (code, said) = check();
    assert!(code == Some(0) && said.contains("is whole"), "a database of an earlier version has no checksums: {said}");
}

#[tokio::test]
async fn a_server_goes_on_without_a_damaged_object_when_it_is_told() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &[]);
    let client = server.client().await;
    for name in ["one", "two"] {
        client.post(REBALANCERS, &rebalancer(name)).await.unwrap();
    }
    assert!(server.terminate().success());
    let damage = "UPDATE changes SET object = replace(object, '\"name\"', '\"nane\"') WHERE name = 'one'";
    run(&url(&home), damage).await;
    let object = "workloadrebalancers.apps.karmada.io/one";
    let refused = Command::new(env!("CARGO_BIN_EXE_ballast"))
        .args(["serve", "--secure-port", "0", "--database-url", &url(&home)])
        .current_dir(home.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains(&format!("--quarantine {object}")), "{said}");

    let log = || std::fs::read_to_string(home.path().join("log")).unwrap();
    let server = ServerProcess::start(home.path(), &["--quarantine", object]);
    let client = server.client().await;
    assert!(
        client.get(&format!("{REBALANCERS}/one")).await.is_err()
            && client.get(&format!("{REBALANCERS}/two")).await.is_ok()
    );
    let is_told = || log().contains("an object is lost") && log().contains(object);
    wait_for("the loss in the log", async || is_told().then_some(())).await;
    assert!(server.terminate().success());
    let server = ServerProcess::start(home.path(), &[]);
    let client = server.client().await;
    client.post(REBALANCERS, &rebalancer("one")).await.unwrap();
    let line = "the database holds damaged rows that were set aside";
    wait_for(line, async || log().contains(line).then_some(())).await;
    assert!(server.terminate().success());
}
