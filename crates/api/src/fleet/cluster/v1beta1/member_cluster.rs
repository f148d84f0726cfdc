//! MemberCluster: a cluster that placements can select.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::member_cluster_status::MemberClusterStatus;
use crate::type_meta::kind;
use ballast_k8s::names::{label_value_faults, qualified_name_faults};
use ballast_k8s::{FieldErrors, FieldPath, JsonColumn};
use ballast_resource::schema::mark::Atomic;
use ballast_resource::{Column, Resource, Scope, SqlColumn};

kind! {
    /// A member cluster, with the account of its agents, its taints and its state.
    pub struct MemberCluster {
        /// Account of the cluster's agents, and its taints.
        pub spec: MemberClusterSpec,
        /// Status that the cluster's agents last reported.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: MemberClusterStatus,
    }
}

impl Resource for MemberCluster {
    const GROUP: &'static str = "cluster.kubernetes-fleet.io";
    const VERSION: &'static str = "v1beta1";
    const KIND: &'static str = "MemberCluster";
    const PLURAL: &'static str = "memberclusters";
    const SINGULAR: &'static str = "membercluster";
    // Upstream's short name, `cluster`, is the singular of Karmada's kind. `kubectl get cluster`
    // would be ambiguous.
    const CATEGORIES: &'static [&'static str] = &["fleet", "fleet-cluster"];
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_SUBRESOURCE: bool = true;
    const COLUMNS: &'static [Column] = &[
        Column {
            name: "Joined",
            kind: "string",
            path: r#".status.conditions[?(@.type=="Joined")].status"#,
            priority: 0,
            description: "",
        },
        Column { name: "Age", kind: "date", path: ".metadata.creationTimestamp", priority: 0, description: "" },
        Column {
            name: "Member-Agent-Last-Seen",
            kind: "date",
            path: r#".status.agentStatus[?(@.type=="MemberAgent")].lastReceivedHeartbeat"#,
            priority: 0,
            description: "",
        },
        Column {
            name: "Node-Count",
            kind: "string",
            path: r".status.properties.kubernetes-fleet\.io/node-count.value",
            priority: 0,
            description: "",
        },
        Column {
            name: "Available-CPU",
            kind: "string",
            path: ".status.resourceUsage.available.cpu",
            priority: 0,
            description: "",
        },
        Column {
            name: "Available-Memory",
            kind: "string",
            path: ".status.resourceUsage.available.memory",
            priority: 0,
            description: "",
        },
        Column {
            name: "Allocatable-CPU",
            kind: "string",
            path: ".status.resourceUsage.allocatable.cpu",
            priority: 1,
            description: "",
        },
        Column {
            name: "Allocatable-Memory",
            kind: "string",
            path: ".status.resourceUsage.allocatable.memory",
            priority: 1,
            description: "",
        },
    ];
    const SQL_COLUMNS: &'static [SqlColumn] = &[
        SqlColumn::condition("joined", "Joined"),
        SqlColumn {
            name: "heard_at",
            value: JsonColumn::OfFirst { list: &["status", "agentStatus"], member: "lastReceivedHeartbeat" },
        },
    ];
    const OPENAPI_PACKAGE: &'static str = "com.github.kubefleet-dev.kubefleet.apis.cluster.v1beta1";

    fn validate(object: &MemberCluster, _old: Option<&MemberCluster>) -> FieldErrors {
        let mut errors = FieldErrors::default();
        if object.metadata.name.as_deref().unwrap_or_default().len() > NAME_MAX {
            // Upstream's schema has this rule on the whole object.
            let rule = format_args!("metadata.name max length is {NAME_MAX}");
            errors.invalid(&FieldPath::root(), "object", rule);
            return errors;
        }
        taints(&object.spec.taints, &FieldPath::new("spec.taints"), &mut errors);
        errors
    }
}

/// Maximum length of the name, because names of namespaces and values of labels are derived from
/// it.
const NAME_MAX: usize = 63;

/// Checks the rules of upstream's webhook: it must be possible to tolerate each taint, and no taint
/// may occur twice.
fn taints(taints: &[Taint], at: &FieldPath, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let at = at.index(index);
        for fault in qualified_name_faults(&taint.key) {
            errors.invalid(&at.child("key"), &taint.key, format_args!("invalid taint key: {fault}"));
        }
        let value = taint.value.as_deref().unwrap_or_default();
        for fault in label_value_faults(value) {
            errors.invalid(&at.child("value"), value, format_args!("invalid taint value: {fault}"));
        }
        if !seen.insert(serde_json::to_string(taint).unwrap_or_default()) {
            errors.invalid(&at, taint, "taint already exists, taints must be unique");
        }
    }
}

/// The account of the cluster's agents, and its taints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterSpec {
    /// Account that the cluster's agents use.
    #[schema(value_type = Atomic<Identity>)]
    pub identity: Identity,
    /// Seconds between two heartbeats of the agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 600, default = 60)]
    pub heartbeat_period_seconds: Option<i32>,
    /// Taints of the cluster. They repel placements that do not tolerate them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub taints: Vec<Taint>,
    /// Conditions under which the cluster may be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_options: Option<DeleteOptions>,
}

/// An account: a user, a group or a service account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// API group of the account's kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// `User`, `Group` or `ServiceAccount`.
    pub kind: String,
    /// Name of the account.
    pub name: String,
    /// Namespace of a service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A taint, which repels every placement that does not tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Taint {
    /// Key of the taint.
    pub key: String,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect of the taint. `NoSchedule`: new placements cannot use the cluster, and existing ones
    /// stay.
    #[schema(value_type = TaintEffect)]
    pub effect: String,
}

/// Effects that the schema allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum TaintEffect {
    NoSchedule,
}

/// The conditions under which a cluster may be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    /// Whether a cluster with workloads may be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Strict")]
    pub validation_mode: Option<DeleteValidationMode>,
}

/// Whether a cluster with workloads may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum DeleteValidationMode {
    /// The cluster may be deleted.
    Skip,
    /// The cluster must not be deleted.
    Strict,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(taints: Value, expected: &[&str]) {
        let spec = json!({"identity": {"kind": "User", "name": "a"}, "taints": taints});
        let cluster = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
        let found: Vec<String> = MemberCluster::validate(&cluster, None).iter().map(ToString::to_string).collect();
        let fits = found.len() == expected.len() && found.iter().zip(expected).all(|(f, e)| f.contains(e));
        assert!(fits, "{found:?}");
    }

    #[test]
    fn taints_that_nothing_could_tolerate_are_refused() {
        let taint = |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
        check(json!([taint("a", "b"), taint("a", "c"), {"key": "a", "effect": "NoSchedule"}]), &[]);
        check(json!([taint("a", "b"), taint("a", "b")]), &["spec.taints[1]"]);
        check(json!([taint("a", "val&123:98_")]), &["a valid label must be an empty string or consist of"]);
        check(json!([taint("key&", "b")]), &["spec.taints[0].key"]);
        check(json!([taint("", "b")]), &["name part must be non-empty", "name part must consist of"]);
    }
}
