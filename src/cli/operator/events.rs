//! Events about moved placements of the KubeFleet family, as long as the server keeps them. A
//! binding records its last change itself.

use std::collections::BTreeMap;

use serde::Serializer;
use serde_json::Value;

use super::server::{Refused, Server, escaped};
use ballast_k8s::Time;
use ballast_scheduler::cause::REPLICAS_MOVED;

/// The reason of the events about a move of a rebalance.
const REBALANCED: &str = "Rebalanced";

/// Suffixes of the kinds that move: bindings, and placements of the KubeFleet family.
const PLACED: [&str; 2] = ["ResourceBinding", "ResourcePlacement"];

/// One event about moved replicas. The server aggregates events with the same message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveEvent {
    pub message: String,
    pub first: Option<Time>,
    pub last: Option<Time>,
}

/// Returns the text for a column CAUSE: `because of a lost cluster` becomes `a lost cluster`.
pub fn bare_cause(cause: &str) -> &str {
    let cause = cause.strip_prefix("because ").unwrap_or(cause);
    cause.strip_prefix("of ").unwrap_or(cause)
}

/// Serializes a cause for scripts: `evicted from member1`, `ClusterRebalance home`.
pub fn plain_cause<S: Serializer>(cause: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let cause = bare_cause(cause);
    serializer.serialize_str(cause.strip_prefix("it was ").unwrap_or(cause))
}

/// Serializes a cause that may be unknown.
pub fn plain_optional_cause<S: Serializer>(cause: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    match cause {
        Some(cause) => plain_cause(cause, serializer),
        None => serializer.serialize_none(),
    }
}

/// Returns the events about moved replicas, by the UID of the binding or placement. Empty without
/// permission to read events, or if the server stores none.
pub async fn moves(server: &Server, namespace: Option<&str>) -> anyhow::Result<BTreeMap<String, Vec<MoveEvent>>> {
    let path = match namespace {
        Some(namespace) => format!("/api/v1/namespaces/{}/events", escaped(namespace)),
        None => "/api/v1/events".to_owned(),
    };
    let mut items = Vec::new();
    for reason in [REPLICAS_MOVED, REBALANCED] {
        let listed = server.list(&path, &[("fieldSelector", &format!("reason={reason}"))]).await;
        match listed {
            Ok((found, _)) => items.extend(found),
            Err(error) if error.downcast_ref::<Refused>().is_some_and(|it| it.is(403) || it.is(404)) => {}
            Err(error) => return Err(error),
        }
    }
    let mut by_binding: BTreeMap<String, Vec<MoveEvent>> = BTreeMap::new();
    for item in items {
        let about = &item["involvedObject"];
        if !about["kind"].as_str().is_some_and(|kind| PLACED.iter().any(|end| kind.ends_with(end))) {
            continue;
        }
        let uid = about["uid"].as_str().unwrap_or_default().to_owned();
        by_binding.entry(uid).or_default().push(told(&item));
    }
    for told in by_binding.values_mut() {
        told.sort_by_key(|it| it.last);
    }
    Ok(by_binding)
}

fn told(item: &Value) -> MoveEvent {
    let time = |field: &str| item[field].as_str().and_then(|text| text.parse().ok());
    let last = time("lastTimestamp").or_else(|| time("eventTime"));
    MoveEvent {
        message: item["message"].as_str().unwrap_or_default().to_owned(),
        first: time("firstTimestamp").or(last),
        last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_cause_shows_the_cause_without_its_conjunction() {
        assert_eq!(bare_cause("because of ClusterRebalance home"), "ClusterRebalance home");
        assert_eq!(bare_cause("because it was evicted from a"), "it was evicted from a");
        assert_eq!(bare_cause("cause not recorded"), "cause not recorded");
    }
}
