//! The story of a safe rebalance: two of twelve clusters are lost and recover, and the displaced
//! workloads are counted, previewed, and returned in waves. The wave of one team fails, is aborted,
//! and is undone. Then a cluster is drained for an afternoon, and its workloads return.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::reports::{Reports, ready_on};
use super::runner::{Example, Part, StoryRunner, replicas_of};
use super::stories::CLUSTERS;
use crate::cli::client::Client;

macro_rules! example {
    ($path:literal) => {
        Example { path: concat!("examples/", $path), text: include_str!(concat!("../../../examples/", $path)) }
    };
}

const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/resourcebindings";
const REVIEWS: &str = "/apis/ballast.dev/v1alpha1/placementreviews";
const REBALANCES: &str = "/apis/ballast.dev/v1alpha1/clusterrebalances";
const MOVES: &str = "/apis/ballast.dev/v1alpha1/moves";

const MEMBERS: usize = 12;
const LOST: [&str; 2] = ["member1", "member4"];
/// The cluster of `examples/safe/drain.yaml`.
const DRAINED: &str = "member7";
/// Number of copies of the twelve workloads of the template.
const COPIES: usize = 25;
/// Number of workloads of a team in the zones of the lost clusters.
const STRUCK: usize = 2 * COPIES;
/// A tenth of the moves of two teams.
const AT_ONCE: i64 = (2 * STRUCK as i64) / 10;

/// Plays the first step: the clusters and the workloads. Returns the placements.
pub async fn fleet<W: Write>(runner: &mut StoryRunner<'_, W>) -> anyhow::Result<Placements> {
    runner.step("1. Twelve clusters in four zones, and three teams with 300 workloads: each is divided over the three\n   clusters of its zone. The clusters' agents report what runs. (Here the server evicts at once, and as fast\n   as it can: --failover-eviction-timeout=0s --resource-eviction-rate=1000.)").await?;
    runner.create(&example!("safe/clusters.yaml")).await?;
    for member in 1..=MEMBERS {
        let ready = example!("safe/cluster-is-ready.yaml");
        runner.report(&format!("member{member}"), &ready).await?;
    }
    runner.create_copies(&example!("safe/workloads.yaml"), COPIES).await?;
    let at_home = settled(runner, |_| true).await?;
    show_clusters(runner, &at_home)?;
    Ok(at_home)
}

/// Reports this cluster as lost from now on.
pub async fn lose<W: Write>(runner: &mut StoryRunner<'_, W>, cluster: &str) -> anyhow::Result<()> {
    runner.report(cluster, &example!("safe/cluster-is-lost.yaml")).await
}

/// Plays the first three steps: the clusters are lost and recover. Returns the placements before.
pub async fn outage<W: Write>(runner: &mut StoryRunner<'_, W>) -> anyhow::Result<Placements> {
    let at_home = fleet(runner).await?;
    runner
        .step("2. member1 and member4 are lost. What ran there is evicted, and flees to the rest of its zone.")
        .await?;
    for cluster in LOST {
        lose(runner, cluster).await?;
    }
    let fled = settled(runner, |targets| !LOST.iter().any(|lost| targets.contains_key(*lost))).await?;
    show_clusters(runner, &fled)?;

    runner.step("3. Both are back. Nothing moves by itself.").await?;
    for cluster in LOST {
        runner.report(cluster, &example!("safe/cluster-is-back.yaml")).await?;
        let is_free = |cluster: &Value| cluster["spec"].get("taints").is_none();
        runner.wait_for("the end of the taints", CLUSTERS, cluster, is_free).await?;
    }
    runner.expect_nothing_to_move().await?;
    Ok(at_home)
}

/// Plays the story. `witness` are connections for its own watches.
pub async fn story<W: Write>(
    runner: &mut StoryRunner<'_, W>,
    witness: (Client, Client),
    agents: &Reports,
) -> anyhow::Result<()> {
    let at_home = outage(runner).await?;
    runner.step(
        "4. How many workloads are displaced, and what would a rebalance do? A review answers, and changes nothing.",
    ).await?;
    let before = placements(runner).await?;
    let review = review(runner).await?;
    ensure!(review["summary"]["selected"] == 3 * STRUCK, "not as many are displaced as have fled: {review}");
    ensure!(review["summary"]["toMove"] == 3 * STRUCK, "not all that are displaced would move: {review}");
    ensure!(placements(runner).await? == before, "the review moved something");

    runner.step("5. Two teams go home: a tenth of the workloads at a time, and new replicas are ready before old ones go.\n   First as a dry run, which answers with the plan and stores nothing.").await?;
    let planned = runner.dry_run(&example!("safe/home.yaml")).await?;
    show(runner, &json!({"summary": planned["status"]["summary"]}))?;
    ensure!(planned["status"]["summary"]["toMove"] == 2 * STRUCK, "the dry run plans something else: {planned}");
    let seen = Witness::start(witness.0, &["shop", "pay"]).await?;
    runner.create(&example!("safe/home.yaml")).await?;
    let done = finished(runner, "home").await?;
    show_phase(runner, "home", &done)?;
    let (most_at_once, fewest_ready) = seen.end().await?;
    writeln!(
        runner.out,
        "At most {most_at_once} were on their way at once, and no workload had fewer than {fewest_ready} % ready."
    )?;
    ensure!(done["status"]["phase"] == "Completed", "the rebalance did not complete: {}", done["status"]);
    ensure!(done["status"]["summary"]["settled"] == 2 * STRUCK, "not all settled: {}", done["status"]);
    ensure!(most_at_once <= AT_ONCE, "{most_at_once} moved at once, of {AT_ONCE} that may");
    ensure!(fewest_ready >= 100, "a workload had only {fewest_ready} % of its replicas ready");
    let now = placements(runner).await?;
    ensure!(of_team(&now, "shop/") == of_team(&at_home, "shop/"), "the shop's replicas are not home");
    ensure!(of_team(&now, "pay/") == of_team(&at_home, "pay/"), "the replicas of pay are not home");
    ensure!(of_team(&now, "search/") == of_team(&before, "search/"), "a workload that was not selected moved");
    show_clusters(runner, &now)?;
    show_moves(runner, "shop", "home").await?;

    runner.step("6. The third team goes home. But member4 cannot pull its new image: no new replica becomes ready there.\n   With the third failure the rebalance is aborted: what is under way may still fail, and nothing else begins.\n   Nothing is torn down: the old replicas still run.").await?;
    agents.break_new_replicas("member4", "search");
    runner.create(&example!("safe/search-home.yaml")).await?;
    let aborted = finished(runner, "search-home").await?;
    show_phase(runner, "search-home", &aborted)?;
    show_moves(runner, "search", "search-home").await?;
    let failed = aborted["status"]["summary"]["failed"].as_i64().unwrap_or_default();
    ensure!(aborted["status"]["phase"] == "Aborted", "the rebalance was not aborted: {}", aborted["status"]);
    ensure!(failed >= 3, "it was aborted after {failed} failures, and three are the bound");
    show_clusters(runner, &placements(runner).await?)?;

    runner.step("7. Take it back: each workload that was moved returns to where it was.").await?;
    runner.create(&example!("safe/search-undo.yaml")).await?;
    let undone = finished(runner, "search-undo").await?;
    show_phase(runner, "search-undo", &undone)?;
    ensure!(undone["status"]["phase"] == "Completed", "the undo did not complete: {}", undone["status"]);
    let now = placements(runner).await?;
    ensure!(of_team(&now, "search/") == of_team(&before, "search/"), "the undo left something where it had moved to");
    ensure!(of_team(&now, "shop/") == of_team(&at_home, "shop/"), "the undo moved another team's workload");
    show_clusters(runner, &now)?;

    runner.step("8. What is displaced now is what the third team has: it can go home when member4 is mended.").await?;
    let review = self::review(runner).await?;
    ensure!(review["summary"]["selected"] == STRUCK, "other workloads are displaced than expected: {review}");
    afternoon(runner, witness.1, &now).await
}

/// Drains a cluster and opens it again, and its workloads return.
async fn afternoon<W: Write>(
    runner: &mut StoryRunner<'_, W>,
    witness: Client,
    before: &Placements,
) -> anyhow::Result<()> {
    runner
        .step("9. member7 needs maintenance for an afternoon. A drain closes it, and takes off what runs there.")
        .await?;
    let seen = Witness::start(witness, &["shop", "pay", "search"]).await?;
    runner.create(&example!("safe/drain.yaml")).await?;
    let drained = finished(runner, "afternoon").await?;
    show_phase(runner, "afternoon", &drained)?;
    ensure!(drained["status"]["phase"] == "Completed", "the drain did not complete: {}", drained["status"]);
    let now = placements(runner).await?;
    ensure!(now.values().all(|targets| !targets.contains_key(DRAINED)), "something stays on {DRAINED}");
    let is_elsewhere = |(key, _): &(&String, &Targets)| !before[*key].contains_key(DRAINED);
    let others = |placements: &Placements| -> Placements {
        placements.iter().filter(is_elsewhere).map(|(key, targets)| (key.clone(), targets.clone())).collect()
    };
    ensure!(others(&now) == others(before), "a workload moved that was not on {DRAINED}");
    show_clusters(runner, &now)?;

    runner.step("10. The work is done: member7 is opened, and what was there comes back.").await?;
    runner.patch("cluster", DRAINED, Part::Main, &example!("safe/cluster-is-open.yaml")).await?;
    runner.create(&example!("safe/drain-undo.yaml")).await?;
    let back = finished(runner, "afternoon-undo").await?;
    show_phase(runner, "afternoon-undo", &back)?;
    let (_, fewest_ready) = seen.end().await?;
    writeln!(runner.out, "All afternoon, no workload had fewer than {fewest_ready} % ready.")?;
    ensure!(fewest_ready >= 100, "a workload had only {fewest_ready} % of its replicas ready");
    let now = placements(runner).await?;
    ensure!(now == *before, "not everything is where it was before the drain");
    show_clusters(runner, &now)
}

type Targets = BTreeMap<String, i64>;
pub type Placements = BTreeMap<String, Targets>;

async fn placements<W: Write>(runner: &StoryRunner<'_, W>) -> anyhow::Result<Placements> {
    let list = runner.client.get(BINDINGS).await?;
    let items = list["items"].as_array().into_iter().flatten();
    Ok(items.map(|binding| (key_of(binding), replicas_of(binding))).collect())
}

/// Waits until every binding satisfies `wanted`, has no eviction task, and is reported as healthy
/// in all its targets. Returns the placements.
async fn settled<W: Write>(
    runner: &StoryRunner<'_, W>,
    wanted: impl Fn(&Targets) -> bool,
) -> anyhow::Result<Placements> {
    let mut open: BTreeMap<String, bool> = BTreeMap::new();
    let every = COPIES * MEMBERS;
    let all_settled = |event: &Value| {
        let binding = &event["object"];
        let targets = replicas_of(binding);
        let is_settled = !targets.is_empty()
            && wanted(&targets)
            && binding["spec"].get("gracefulEvictionTasks").is_none()
            && targets.iter().all(|(cluster, assigned)| ready_on(binding, cluster) == *assigned);
        open.insert(key_of(binding), !is_settled);
        open.len() == every && open.values().all(|is_open| !is_open)
    };
    runner.wait_until("all workloads run", BINDINGS, all_settled).await?;
    placements(runner).await
}

fn key_of(binding: &Value) -> String {
    let text = |name: &str| binding["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

fn of_team<'a>(placements: &'a Placements, prefix: &str) -> Vec<(&'a String, &'a Targets)> {
    placements.iter().filter(|(key, _)| key.starts_with(prefix)).collect()
}

async fn review<W: Write>(runner: &mut StoryRunner<'_, W>) -> anyhow::Result<Value> {
    let example = example!("safe/review.yaml");
    writeln!(runner.out, "$ kubectl create -f {} -o yaml   # its status:", example.path)?;
    let question = super::runner::documents(&example)?.pop().context("the file holds one document")?;
    let status = runner.client.post(REVIEWS, &question).await?["status"].take();
    show(runner, &status)?;
    Ok(status)
}

async fn finished<W: Write>(runner: &StoryRunner<'_, W>, name: &str) -> anyhow::Result<Value> {
    let is_over = |rebalance: &Value| rebalance["status"]["finishTime"].is_string();
    runner.wait_for("the end of the rebalance", REBALANCES, name, is_over).await
}

fn show<W: Write>(runner: &mut StoryRunner<'_, W>, value: &Value) -> anyhow::Result<()> {
    Ok(write!(runner.out, "{}", serde_saphyr::to_string(value)?)?)
}

fn show_phase<W: Write>(runner: &mut StoryRunner<'_, W>, name: &str, rebalance: &Value) -> anyhow::Result<()> {
    writeln!(runner.out, "$ kubectl get clusterrebalance {name} -o yaml   # of its status:")?;
    let status = &rebalance["status"];
    show(runner, &json!({"phase": status["phase"], "summary": status["summary"]}))
}

/// Prints the first moves of a team, with the relevant columns of `kubectl get moves`.
async fn show_moves<W: Write>(runner: &mut StoryRunner<'_, W>, namespace: &str, rebalance: &str) -> anyhow::Result<()> {
    const SHOWN: usize = 8;
    writeln!(
        runner.out,
        "\n$ kubectl get moves -n {namespace} -l ballast.dev/rebalance={rebalance} | head -{}   # some columns:",
        SHOWN + 1
    )?;
    let path = format!(
        "{}?labelSelector=ballast.dev%2Frebalance%3D{rebalance}&limit={SHOWN}",
        MOVES.replace("/moves", &format!("/namespaces/{namespace}/moves"))
    );
    let list = runner.client.get(&path).await?;
    let items: Vec<&Value> = list["items"].as_array().into_iter().flatten().collect();
    ensure!(!items.is_empty(), "the rebalance {rebalance} has no Moves in {namespace}");
    let shares = |value: &Value| -> String {
        let shares = value.as_array().into_iter().flatten();
        let texts: Vec<String> = shares
            .map(|share| format!("{}:{}", share["name"].as_str().unwrap_or_default(), share["replicas"]))
            .collect();
        texts.join(",")
    };
    writeln!(runner.out, "{:<22}  {:<20}  {:<30}  {:<9}  REASON", "WORKLOAD", "FROM", "TO", "PHASE")?;
    for item in items {
        let (spec, status) = (&item["spec"], &item["status"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let workload =
            format!("{}/{}", text(&spec["workload"]["kind"]).to_lowercase(), text(&spec["workload"]["name"]));
        let line = format!(
            "{workload:<22}  {:<20}  {:<30}  {:<9}  {}",
            shares(&spec["from"]),
            shares(&spec["to"]),
            text(&status["phase"]),
            text(&status["reason"])
        );
        writeln!(runner.out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Prints the number of replicas of each cluster.
fn show_clusters<W: Write>(runner: &mut StoryRunner<'_, W>, placements: &Placements) -> anyhow::Result<()> {
    let mut sums: Vec<i64> = vec![0; MEMBERS];
    for (cluster, replicas) in placements.values().flatten() {
        let number: usize = cluster.trim_start_matches("member").parse().context("a cluster of the story")?;
        sums[number - 1] += replicas;
    }
    write!(runner.out, "\n  CLUSTER ")?;
    for member in 1..=MEMBERS {
        write!(runner.out, "{:>9}", format!("member{member}"))?;
    }
    write!(runner.out, "\n  REPLICAS")?;
    for sum in sums {
        write!(runner.out, "{sum:>9}")?;
    }
    Ok(writeln!(runner.out)?)
}

/// Watches the bindings while a rebalance runs, and records the worst values.
struct Witness {
    watching: JoinHandle<anyhow::Result<()>>,
    worst: Arc<Mutex<Worst>>,
}

struct Worst {
    on_their_way: BTreeSet<String>,
    most_at_once: i64,
    /// In percent of a workload's replicas.
    fewest_ready: i64,
    events: usize,
}

impl Witness {
    async fn start(client: Client, teams: &'static [&'static str]) -> anyhow::Result<Witness> {
        let worst = Worst { on_their_way: BTreeSet::new(), most_at_once: 0, fewest_ready: i64::MAX, events: 0 };
        let worst = Arc::new(Mutex::new(worst));
        let shared = worst.clone();
        let note = move |binding: &Value| {
            if teams.iter().any(|team| binding["metadata"]["namespace"] == *team) {
                shared.lock().unwrap_or_else(PoisonError::into_inner).note(binding);
            }
        };
        // Lists first, so that the watch misses nothing when it resumes.
        let list = client.get(BINDINGS).await?;
        list["items"].as_array().into_iter().flatten().for_each(&note);
        let from = list["metadata"]["resourceVersion"].as_str().context("a list has a resourceVersion")?.to_owned();
        let watching = tokio::spawn(async move {
            let seen = |event: &Value| {
                note(&event["object"]);
                false
            };
            client.follow(BINDINGS, Some(from), seen).await
        });
        Ok(Witness { watching, worst })
    }

    async fn end(self) -> anyhow::Result<(i64, i64)> {
        if self.watching.is_finished() {
            self.watching.await?.context("the watch of the bindings ended too early")?;
        } else {
            self.watching.abort();
        }
        let worst = self.worst.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(worst.events > 2 * STRUCK, "only {} events of bindings were seen", worst.events);
        Ok((worst.most_at_once, worst.fewest_ready))
    }
}

impl Worst {
    fn note(&mut self, binding: &Value) {
        self.events += 1;
        let key = key_of(binding);
        if binding["metadata"]["annotations"].get("ballast.dev/move").is_some() {
            self.on_their_way.insert(key);
        } else {
            self.on_their_way.remove(&key);
        }
        self.most_at_once = self.most_at_once.max(self.on_their_way.len() as i64);
        let replicas = binding["spec"]["replicas"].as_i64().unwrap_or(1).max(1);
        let ready: i64 =
            replicas_of(binding).iter().map(|(cluster, assigned)| ready_on(binding, cluster).min(*assigned)).sum();
        self.fewest_ready = self.fewest_ready.min(ready * 100 / replicas);
    }
}
