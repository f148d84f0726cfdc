//! Waits until bindings are placed. Also used by the benches (`benches/load`).

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::cli::client::Client;
use ballast_api::karmada::work::v1alpha2::PENDING_PASS;

/// The fields of an event with the progress of a binding. A client that decoded more would measure
/// itself.
#[derive(Deserialize)]
struct Event {
    object: Binding,
}

#[derive(Deserialize)]
pub struct Binding {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    reschedule_triggered_at: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    last_scheduled_time: Option<String>,
}

impl Binding {
    /// Returns whether the binding was scheduled at all.
    pub fn is_placed(&self) -> bool {
        self.status.last_scheduled_time.is_some()
    }

    /// Returns whether a trigger was accepted, and a pass has handled it.
    pub fn is_decided_again(&self) -> bool {
        let triggered = &self.spec.reschedule_triggered_at;
        triggered.is_some()
            && !self.metadata.annotations.contains_key(PENDING_PASS)
            && *triggered <= self.status.last_scheduled_time
    }
}

/// Follows the watch at this path, which may have a query, until `count` different bindings satisfy
/// `is_wanted`.
///
/// # Errors
///
/// Returns an error if the watch fails or ends before.
pub async fn wait(
    client: &Client,
    path: &str,
    count: usize,
    is_wanted: impl Fn(&Binding) -> bool,
) -> anyhow::Result<()> {
    let mut done = BTreeSet::new();
    let seen = |line: &[u8]| {
        let Event { object } = serde_json::from_slice(line).context("an event is not as expected")?;
        if is_wanted(&object) {
            done.insert(object.metadata.name);
        }
        Ok(done.len() == count)
    };
    let all = client.watch_lines(path, seen).await?;
    ensure!(all, "the watch ended before all bindings were placed");
    Ok(())
}
