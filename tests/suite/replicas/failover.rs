//! The database fails over: its server crashes under load, and a synchronous standby replaces it at
//! the same address.

use super::checker::Log;
use super::fleet::Fleet;
use super::load::Load;
use crate::support::postgres::Cluster;
use crate::support::proxy::Proxy;

const REPLICAS: usize = 2;
const WRITERS: usize = 4;
/// Writes that are acknowledged before and after the crash.
const WRITES: usize = 80;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re1_a_standby_that_is_promoted_has_every_acknowledged_write_and_goes_on() {
    let Some(primary) = Cluster::start() else { return };
    let standby = primary.standby().await;
    let proxy = Proxy::before(primary.port).await;
    let fleet = Fleet::over(proxy.url(&primary.url()), REPLICAS, &[]);
    let mut load = Load::start(&fleet.doors, WRITERS).await;
    load.goes_on(WRITES).await;

    // During the load, without notice to the standby.
    primary.crash();
    standby.promote().await;
    proxy.turn_to(standby.port);
    load.goes_on(WRITES).await;
    load.stop_writing().await;

    let log = Log::read(&mut fleet.database().await).await;
    let history = load.history.clone();
    load.check(&log).await;
    eprintln!("the database failed over: {}; the log has {} changes", history.summary(), log.last);
}
