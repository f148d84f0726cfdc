//! Selection of the workloads of a command: names, labels, policies and clusters.

use super::names::{WorkloadArg, find};
use super::server::Server;
use ballast_api::ballast::v1alpha1::{PolicyRef, SelectEntry};
use ballast_api::meta::{LabelSelector, LabelSelectorRequirement};
use ballast_k8s::label_query;
use ballast_node::UsageError;

#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which workloads")]
pub struct SelectArgs {
    /// Workloads as kubectl names them: `deployment/web`, or `deployment web api`
    #[arg(value_name = "TYPE/NAME")]
    pub workloads: Vec<String>,

    /// Only bindings with these labels: `app=web,tier!=test`
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,

    /// Only workloads of this kind, such as Deployment
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,

    /// Only workloads that this policy manages: `NAMESPACE/NAME`, or the name of a
    /// ClusterPropagationPolicy
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,

    /// Only workloads with replicas on all of these clusters
    #[arg(long, value_name = "CLUSTERS", value_delimiter = ',')]
    pub placed_on: Vec<String>,

    /// Only workloads with replicas on none of these clusters
    #[arg(long, value_name = "CLUSTERS", value_delimiter = ',')]
    pub not_placed_on: Vec<String>,
}

impl SelectArgs {
    /// Returns whether nothing is specified, which selects everything in the scope.
    pub fn is_empty(&self) -> bool {
        let SelectArgs { workloads, selector, kind, policy, placed_on, not_placed_on } = self;
        workloads.is_empty()
            && selector.is_none()
            && kind.is_none()
            && policy.is_none()
            && placed_on.is_empty()
            && not_placed_on.is_empty()
    }

    /// Returns the entries of a selection. Empty if nothing is specified.
    pub async fn entries(&self, server: &Server) -> anyhow::Result<Vec<SelectEntry>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let common = SelectEntry {
            kind: self.kind.clone(),
            label_selector: self.selector.as_deref().map(label_selector).transpose()?,
            policy_ref: self.policy.as_deref().map(policy_ref).transpose()?,
            placed_on: self.placed_on.clone(),
            not_placed_on: self.not_placed_on.clone(),
            ..SelectEntry::default()
        };
        let named = named(server, &self.workloads).await?;
        if named.is_empty() {
            return Ok(vec![common]);
        }
        let with_common = |it: SelectEntry| SelectEntry {
            api_version: it.api_version,
            kind: it.kind,
            namespace: it.namespace,
            name: it.name,
            ..common.clone()
        };
        Ok(named.into_iter().map(with_common).collect())
    }
}

/// Returns an entry for each named workload. An unknown name is a usage error.
pub async fn named(server: &Server, words: &[String]) -> anyhow::Result<Vec<SelectEntry>> {
    let mut entries = Vec::new();
    for typed in WorkloadArg::all(words)? {
        if let Some(kind) = typed.placement_kind() {
            let (kind, name) = (Some(kind.to_owned()), Some(typed.name().to_owned()));
            entries.push(SelectEntry { kind, name, ..SelectEntry::default() });
            continue;
        }
        for found in find(server, &typed).await? {
            let workload = found.workload();
            // In all namespaces, the entry names the namespace of the object.
            let namespace = workload.namespace.filter(|_| server.namespace.is_none() && found.is_namespaced);
            if server.namespace.is_some() && !found.is_namespaced {
                let fault = format!("{} has no namespace: select it with --all-namespaces", typed.shown());
                return Err(UsageError(fault).into());
            }
            entries.push(SelectEntry {
                api_version: Some(workload.api_version).filter(|it| !it.is_empty()),
                kind: Some(workload.kind),
                namespace,
                name: Some(workload.name),
                ..SelectEntry::default()
            });
        }
    }
    Ok(entries)
}

fn label_selector(text: &str) -> Result<LabelSelector, UsageError> {
    let selector = label_query::parse(text).map_err(|fault| UsageError(format!("--selector {text:?}: {fault}")))?;
    let mut wanted = LabelSelector::default();
    for requirement in selector.requirements() {
        let values: Vec<String> = requirement.values().iter().map(ToString::to_string).collect();
        let operator = requirement.operator();
        wanted.match_expressions.push(LabelSelectorRequirement {
            key: requirement.key().to_owned(),
            operator: operator.as_str().to_owned(),
            values,
        });
    }
    Ok(wanted)
}

fn policy_ref(text: &str) -> Result<PolicyRef, UsageError> {
    let (namespace, name) = match text.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, text),
    };
    if name.is_empty() || name.contains('/') || namespace == Some("") {
        return Err(UsageError(format!("--policy {text:?}: write NAMESPACE/NAME, or the NAME of a cluster's policy")));
    }
    let kind = if namespace.is_some() { "PropagationPolicy" } else { "ClusterPropagationPolicy" };
    Ok(PolicyRef { kind: kind.to_owned(), namespace: namespace.map(str::to_owned), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_written_as_for_kubectl() {
        let wanted = label_selector("app=web,tier notin (test, dev),!old").unwrap();
        let told: Vec<String> = wanted
            .match_expressions
            .iter()
            .map(|it| format!("{} {} {}", it.key, it.operator, it.values.join("|")))
            .collect();
        assert_eq!(told, ["app In web", "old DoesNotExist ", "tier NotIn dev|test"]);
        assert!(label_selector("a=b=c").unwrap_err().0.contains("--selector"));
    }

    #[test]
    fn a_policy_with_a_namespace_is_a_namespaces_policy() {
        assert_eq!(policy_ref("shop/web").unwrap().kind, "PropagationPolicy");
        assert_eq!(policy_ref("web").unwrap().kind, "ClusterPropagationPolicy");
        assert!(policy_ref("/web").is_err() && policy_ref("a/b/c").is_err() && policy_ref("").is_err());
    }
}
