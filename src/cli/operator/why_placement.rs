//! `ballast why` for a placement of the KubeFleet family: the clusters that its scheduler picked,
//! and why it did not pick the others. The latest policy snapshot contains both.

use anyhow::bail;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Format;
use super::events::{self, MoveEvent};
use super::names::WorkloadArg;
use super::server::{Server, escaped};
use crate::cli::AnswerIsNo;
use crate::cli::natural;
use crate::cli::output::print;
use crate::cli::screen::{Screen, Tone, data};
use crate::cli::table::{Cell, Side, Table, cell};
use ballast_api::fleet::placement::v1beta1::any::{
    API_VERSION, AnyBinding, AnyPlacement, AnyPolicySnapshot, CLUSTER, NAMESPACED, PlacementKinds,
};
use ballast_api::fleet::placement::v1beta1::names::PARENT_LABEL;
use ballast_api::fleet::placement::v1beta1::{BindingState, ClusterDecision};
use ballast_api::meta::Condition;
use ballast_base::clock::{Clock, SystemClock};
use ballast_k8s::human_duration::human_duration;
use ballast_node::UsageError;

/// The label of the latest snapshot.
const LATEST: &str = "kubernetes-fleet.io/is-latest-snapshot=true";

/// The objects of a placement.
struct Told {
    kinds: &'static PlacementKinds,
    placement: AnyPlacement,
    /// `None`: the scheduler has not decided yet.
    snapshot: Option<AnyPolicySnapshot>,
    bindings: Vec<AnyBinding>,
    last: Option<MoveEvent>,
}

pub async fn run(server: &Server, typed: &WorkloadArg, output: Format) -> anyhow::Result<()> {
    let told = Told::read(server, typed).await?;
    let text = match output {
        Format::Table => told.text(server.screen),
        format => data(&told.value(), format == Format::Yaml)?,
    };
    print(&text)?;
    match told.verdict() {
        Some(verdict) if verdict.status == "False" => {
            Err(AnswerIsNo(format!("{} lacks clusters", typed.shown())).into())
        }
        _ => Ok(()),
    }
}

impl Told {
    async fn read(server: &Server, typed: &WorkloadArg) -> anyhow::Result<Told> {
        let is_namespaced = typed.placement_kind() == Some(NAMESPACED.kind);
        let (kinds, scope) = match (is_namespaced, &server.namespace) {
            (false, _) => (&CLUSTER, String::new()),
            (true, Some(namespace)) => (&NAMESPACED, format!("/namespaces/{}", escaped(namespace))),
            (true, None) => {
                let fault = format!("{} may be in several namespaces: name one with -n", typed.shown());
                bail!(UsageError(fault));
            }
        };
        let collection = |plural: &str| format!("/apis/{API_VERSION}{scope}/{plural}");
        let plural = |resource: ballast_k8s::GroupResource| {
            resource.to_string().split('.').next().unwrap_or_default().to_owned()
        };
        let path = format!("{}/{}", collection(&plural(kinds.placements)), escaped(typed.name()));
        let Some(placement) = server.find::<AnyPlacement>(&path).await? else {
            bail!(UsageError(format!("no {}", typed.shown())));
        };
        let own = format!("{PARENT_LABEL}={}", typed.name());
        let latest = format!("{own},{LATEST}");
        let (snapshots, _) =
            server.list(&collection(&plural(kinds.policy_snapshots)), &[("labelSelector", &latest)]).await?;
        let (bindings, _) = server.list(&collection(&plural(kinds.bindings)), &[("labelSelector", &own)]).await?;
        let namespace = if is_namespaced { server.namespace.as_deref() } else { Some("default") };
        let mut moved = events::moves(server, namespace).await?;
        let uid = placement.metadata.uid.as_deref().unwrap_or_default();
        let last = moved.remove(uid).and_then(|mut all| all.pop());
        Ok(Told {
            kinds,
            placement,
            snapshot: snapshots.iter().find_map(|it| AnyPolicySnapshot::deserialize(it).ok()),
            bindings: bindings.iter().filter_map(|it| AnyBinding::deserialize(it).ok()).collect(),
            last,
        })
    }

    /// Returns the scheduler's condition about the whole policy.
    fn verdict(&self) -> Option<&Condition> {
        let conditions = &self.snapshot.as_ref()?.status.conditions;
        conditions.iter().find(|condition| condition.type_ == "Scheduled")
    }

    fn decisions(&self) -> &[ClusterDecision] {
        self.snapshot.as_ref().map_or(&[], |snapshot| &snapshot.status.target_clusters)
    }

    /// Returns the state of the placement on a cluster. A binding that is being deleted counts
    /// last.
    fn state(&self, cluster: &str) -> Option<&'static str> {
        let states = self.bindings.iter().filter(|it| it.spec.target_cluster == cluster).map(|it| {
            match (it.metadata.deletion_timestamp.is_some(), &it.spec.state) {
                (true, _) | (_, BindingState::Unscheduled) => "leaving",
                (_, BindingState::Bound) => "bound",
                _ => "scheduled",
            }
        });
        states.min_by_key(|state| *state == "leaving")
    }

    fn name(&self) -> &str {
        self.placement.metadata.name.as_deref().unwrap_or_default()
    }

    fn value(&self) -> Value {
        json!({
            "placement": {"apiVersion": API_VERSION, "kind": self.kinds.kind, "name": self.name(),
                          "namespace": self.placement.metadata.namespace},
            "scheduled": self.verdict(),
            "clusters": self.decisions(),
            "bindings": self.bindings.iter().map(|it| json!({
                "name": it.metadata.name, "cluster": it.spec.target_cluster, "state": it.spec.state,
            })).collect::<Vec<_>>(),
        })
    }

    fn text(&self, screen: Screen) -> String {
        let mut on: Vec<&str> = self
            .bindings
            .iter()
            .map(|it| &*it.spec.target_cluster)
            .filter(|cluster| self.state(cluster).is_some_and(|state| state != "leaving"))
            .collect();
        natural::by_name(&mut on, |name| name);
        on.dedup();
        let short = format!("{}/{}", self.kinds.kind.to_lowercase(), self.name());
        let head = screen.paint(Tone::Strong, short);
        let place = self
            .placement
            .metadata
            .namespace
            .as_deref()
            .map_or_else(String::new, |namespace| format!(" in {namespace}"));
        let on = if on.is_empty() { "nowhere".to_owned() } else { format!("on {}", on.join(", ")) };
        let mut text = format!("{}\n", screen.wrapped(&format!("{head}{place} is {on}."), 2));
        let mut sentence = |tone: Tone, words: &str| {
            text = format!("{text}{}\n", screen.paint(tone, screen.wrapped(&format!("  {words}"), 2)));
        };
        match self.verdict() {
            None => sentence(Tone::Careful, "The scheduler has not decided it yet."),
            Some(verdict) => {
                let tone = if verdict.status == "True" { Tone::Plain } else { Tone::Bad };
                sentence(tone, &format!("The scheduler says: {}.", verdict.message));
            }
        }
        if let Some(last) = &self.last {
            let age = last.last.map_or_else(String::new, |time| {
                format!(" ({} ago)", human_duration(SystemClock.now().seconds() - time.seconds()))
            });
            sentence(Tone::Plain, &format!("Last change{age}: {}", last.message));
        }
        if self.decisions().is_empty() { text } else { format!("{text}\n{}", self.clusters(screen)) }
    }

    fn clusters(&self, screen: Screen) -> String {
        use Side::{Left, Right};
        let mut table =
            Table::new(&[("CLUSTER", Left), ("NOW", Left), ("AFFINITY", Right), ("SPREAD", Right), ("WHY NOT", Left)]);
        let mut decisions: Vec<&ClusterDecision> = self.decisions().iter().collect();
        natural::by_name(&mut decisions, |decision| &decision.cluster_name);
        for decision in decisions {
            let number = |number: Option<i32>| cell(number.map_or_else(String::new, |it| it.to_string()));
            let score = decision.cluster_score.unwrap_or_default();
            let (tone, why) = match decision.selected {
                true => (Tone::Good, Cell::default()),
                false => (Tone::Faint, cell(&decision.reason)),
            };
            table.row(vec![
                cell(&decision.cluster_name).tone(tone),
                cell(self.state(&decision.cluster_name).unwrap_or_default()),
                number(score.affinity_score),
                number(score.topology_spread_score),
                why.tone(Tone::Faint),
            ]);
        }
        table.without_empty_columns().on(screen)
    }
}
