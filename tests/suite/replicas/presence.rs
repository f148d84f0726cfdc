//! Every replica reports the present replicas, the leader, and the silent ones.

use std::collections::BTreeMap;

use ballast::cli::client::Client;
use http::Method;
use http_body_util::BodyExt;

use super::fleet::Fleet;
use crate::support::{metric, wait_for};

const REPLICAS: usize = 2;

pub(super) async fn metrics(client: &Client) -> String {
    let (_, body) = client.send(Method::GET, "/metrics", None, Default::default()).await.unwrap();
    String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Returns the names of the reported replicas, by their addresses.
fn names(metrics: &str) -> BTreeMap<String, String> {
    let label = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!("{name}=\"")).expect("the label is there");
        rest.split('"').next().unwrap().to_owned()
    };
    let lines = metrics.lines().filter(|line| line.starts_with("ballast_replica_info{"));
    lines.map(|line| (label(line, "address"), label(line, ",name"))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re9_each_replica_tells_who_is_there_who_leads_and_who_is_silent() {
    let Some(mut fleet) = Fleet::start(REPLICAS).await else { return };
    let (leader, _) = fleet.leader().await;
    let address = |fleet: &Fleet, seat: usize| fleet.doors.address(seat).unwrap().to_string();
    let addresses: Vec<String> = (0..REPLICAS).map(|seat| address(&fleet, seat)).collect();
    for seat in 0..REPLICAS {
        let client = fleet.doors.enter(seat).await.unwrap();
        wait_for("both, and who leads", async || {
            let metrics = metrics(&client).await;
            let names = names(&metrics);
            let leads = |at: usize| {
                let name = names.get(&addresses[at])?;
                Some(metric(&metrics, &format!("ballast_replica_leads{{name=\"{name}\"}}")) == 1.0)
            };
            let here = format!("address=\"{}\",here=\"true\"", addresses[seat]);
            let is_right = (0..REPLICAS).all(|at| leads(at) == Some(at == leader));
            (names.len() == REPLICAS && is_right && metrics.contains(&here)).then_some(())
        })
        .await;
    }

    // A killed replica is reported as silent. Its lease goes to the other one.
    let other = (leader + 1) % REPLICAS;
    fleet.kill(leader);
    let client = fleet.doors.enter(other).await.unwrap();
    wait_for("silence, and another leader", async || {
        let metrics = metrics(&client).await;
        let names = names(&metrics);
        let of = |family: &str, at: usize| {
            let name = names.get(&addresses[at]).expect("nobody is forgotten so soon");
            metric(&metrics, &format!("ballast_replica_{family}{{name=\"{name}\"}}"))
        };
        let is_silent = of("silence_seconds", leader) > 4.0;
        (is_silent && of("leads", leader) == 0.0 && of("leads", other) == 1.0).then_some(())
    })
    .await;

    // A replica that shuts down signs off, and is not reported.
    fleet.restart(leader);
    let back = address(&fleet, leader);
    let told = async |address: &str| names(&metrics(&client).await).contains_key(address);
    wait_for("its return", async || told(&back).await.then_some(())).await;
    fleet.terminate(leader);
    wait_for("its goodbye", async || (!told(&back).await).then_some(())).await;
}
