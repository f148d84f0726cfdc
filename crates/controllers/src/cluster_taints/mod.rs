//! Taints clusters by their condition `Ready` (see `plan`). These taints repel new workloads and,
//! later, evict existing ones. This controller also sets the time of NoExecute taints that have
//! none.
//!
//! Deliberately absent: the detection of clusters that stopped reporting. Karmada watches a Lease
//! for that, or queries the cluster. `Ready` has no renewal time, so the component that watches the
//! clusters must set it to Unknown.

mod plan;

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::Value;

pub use self::plan::Unready;
use super::clusters::{CLUSTERS, reference_to_cluster};
use ballast_api::core::Taint;
use ballast_api::karmada::cluster::v1alpha1::{Cluster, NOT_READY, UNREACHABLE};
use ballast_base::clock::Clock;
use ballast_k8s::{GroupResource, Key, Object, Time};
use ballast_registry::{Change, Client, Part};
use ballast_watch::{Event, EventKind, View};
use ballast_worker::events::{Note, Recorder, Severity};
use ballast_worker::{BatchOutcome, Failure, KeyOutcome, Next, Queue, Work, commit_one};

const BATCH_MAX: usize = 100;

pub struct ClusterTaints {
    client: Client,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    unready: Unready,
}

impl ClusterTaints {
    pub fn new(client: Client, clock: Arc<dyn Clock>, recorder: &Recorder, unready: Unready) -> ClusterTaints {
        ClusterTaints { client, clock, recorder: recorder.named("cluster-controller"), unready }
    }
}

impl Work for ClusterTaints {
    fn name(&self) -> &'static str {
        "cluster-taints"
    }

    fn interest(&self) -> Vec<GroupResource> {
        vec![CLUSTERS]
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        for object in view.list(CLUSTERS, None) {
            queue.mark(object.key.clone(), 0);
        }
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        if event.kind != EventKind::Deleted {
            queue.mark_changed(event.object.key.clone(), 0, event.revision);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (client, recorder, unready, now) =
            (self.client.clone(), self.recorder.clone(), self.unready, self.clock.now());
        async move {
            let mut worked = BatchOutcome::default();
            for key in keys {
                let next = judge(&client, &recorder, &key, unready, now).await;
                worked.outcomes.push(KeyOutcome::new(key, next));
            }
            worked
        }
        .boxed()
    }

    fn batch(&self) -> usize {
        BATCH_MAX
    }
}

async fn judge(client: &Client, recorder: &Recorder, key: &Key, unready: Unready, now: Time) -> Next {
    let view = client.view();
    let Some(object) = view.get(key).filter(|object| !object.deleting) else { return Next::Done };
    let Ok(cluster) = object.typed::<Cluster>() else { return Next::Unschedulable };
    let plan = plan::plan(&cluster, unready, now);
    let next = match plan.next_check {
        Some(due) => Next::After((due.seconds() - now.seconds()).saturating_mul(1_000)),
        None => Next::Done,
    };
    let Some(taints) = plan.taints else { return next };
    let Some(change) = with_taints(object, &taints) else { return Next::Unschedulable };
    match commit_one(client, (CLUSTERS, change)).await {
        Ok(_) => {
            tracing::info!(%key, taints = %shown(&taints), "tainted");
            recorder.record(told(recorder, object, &taints));
            next
        }
        Err(status) => {
            tracing::debug!(%key, %status, "not tainted, looking again");
            Failure::of(&status).into()
        }
    }
}

fn with_taints(cluster: &Object, taints: &[Taint]) -> Option<Change> {
    let mut object = cluster.value().ok()?;
    let spec = object.get_mut("spec")?.as_object_mut()?;
    match taints {
        [] => spec.remove("taints"),
        taints => spec.insert("taints".to_owned(), serde_json::to_value(taints).ok()?),
    };
    Some(Change::Update { part: Part::Main, object })
}

fn told(recorder: &Recorder, cluster: &Object, taints: &[Taint]) -> Note {
    let about = reference_to_cluster(cluster);
    let message = match taints {
        [] => "Taint cluster succeed: cluster now does not have taints.".to_owned(),
        taints => format!("Taint cluster succeed: cluster now has taints([{}]).", shown(taints)),
    };
    // A lost cluster is a Warning. Upstream emits Normal in this case (D124).
    let is_loss = |taint: &Taint| [NOT_READY, UNREACHABLE].contains(&&*taint.key);
    let severity = if taints.iter().any(is_loss) { Severity::Warning } else { Severity::Normal };
    Note::new(recorder, about, severity, "TaintClusterSucceed", message)
}

/// Formats the taints as `key=value:Effect`, joined by commas.
fn shown(taints: &[Taint]) -> String {
    let shown = taints.iter().map(|taint| {
        let effect = serde_json::to_value(taint.effect).unwrap_or(Value::Null);
        let value = taint.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
        format!("{}{value}:{}", taint.key, effect.as_str().unwrap_or_default())
    });
    shown.collect::<Vec<_>>().join(",")
}
