//! Hypothetical changes of a preview: clusters that are lost, new or changed, and workloads of
//! another size.

use super::clusters::named;
use super::names::{WorkloadArg, find};
use super::server::Server;
use ballast_api::Pairs;
use ballast_api::ballast::v1alpha1::{Suppose, SupposedCluster, SupposedWorkload};
use ballast_api::core::Quantity;
use ballast_k8s as k8s;
use ballast_node::UsageError;

#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Suppose that")]
pub struct WhatIfArgs {
    /// Assume that these clusters are lost: names, or all with `region=eu-west` or another label
    #[arg(long, value_name = "CLUSTERS", value_delimiter = ',')]
    pub suppose_lost: Vec<String>,

    /// Assume a new cluster that equals an existing one: `NEW=LIKE`
    #[arg(long, value_name = "NEW=LIKE", value_delimiter = ',')]
    pub suppose_new: Vec<String>,

    /// Assume that these clusters have no taints: names, or `region=eu-west`
    #[arg(long, value_name = "CLUSTERS", value_delimiter = ',')]
    pub suppose_untainted: Vec<String>,

    /// Assume this total capacity of a cluster: `member1:cpu=400,memory=1Ti`
    #[arg(long, value_name = "CLUSTER:AMOUNTS")]
    pub suppose_room: Vec<String>,

    /// Assume this number of replicas of a workload: `deployment/web=20`
    #[arg(long, value_name = "TYPE/NAME=REPLICAS")]
    pub suppose_replicas: Vec<String>,
}

impl WhatIfArgs {
    pub async fn suppose(&self, server: &Server) -> anyhow::Result<Option<Suppose>> {
        let mut clusters: Vec<SupposedCluster> = Vec::new();
        for name in &named(server, &self.suppose_lost).await? {
            cluster(&mut clusters, name).absent = Some(true);
        }
        for text in &self.suppose_new {
            let (name, like) = parted("--suppose-new", text, '=', "NEW=LIKE, such as member9=member1")?;
            cluster(&mut clusters, name).like = Some(like.to_owned());
        }
        for name in &named(server, &self.suppose_untainted).await? {
            cluster(&mut clusters, name).taints = Some(Vec::new());
        }
        for text in &self.suppose_room {
            let (name, amounts) = parted("--suppose-room", text, ':', "CLUSTER:AMOUNTS, such as member1:cpu=400")?;
            cluster(&mut clusters, name).allocatable = Some(room(text, amounts)?);
        }
        let mut workloads = Vec::new();
        for text in &self.suppose_replicas {
            workloads.extend(resized(server, text).await?);
        }
        let supposed = Suppose { clusters, workloads };
        Ok((supposed != Suppose::default()).then_some(supposed))
    }
}

/// Returns the entry of a cluster, which several flags may share.
fn cluster<'a>(clusters: &'a mut Vec<SupposedCluster>, name: &str) -> &'a mut SupposedCluster {
    let at = clusters.iter().position(|it| it.name == name).unwrap_or_else(|| {
        clusters.push(SupposedCluster { name: name.to_owned(), ..SupposedCluster::default() });
        clusters.len() - 1
    });
    &mut clusters[at]
}

fn parted<'a>(flag: &str, text: &'a str, at: char, right: &str) -> Result<(&'a str, &'a str), UsageError> {
    let parts = text.split_once(at).filter(|(one, other)| !one.is_empty() && !other.is_empty());
    parts.ok_or_else(|| UsageError(format!("{flag} {text:?}: write {right}")))
}

fn room(text: &str, amounts: &str) -> Result<Pairs<Quantity>, UsageError> {
    let mut read = Pairs::default();
    for amount in amounts.split(',') {
        let (resource, amount) = parted("--suppose-room", amount, '=', "RESOURCE=AMOUNT, such as cpu=400")?;
        if amount.parse::<k8s::Quantity>().is_err() {
            let fault = format!("--suppose-room {text:?}: {amount:?} is no amount such as 400, 500m or 16Gi");
            return Err(UsageError(fault));
        }
        read.insert(resource.to_owned(), Quantity::from(amount));
    }
    Ok(read)
}

async fn resized(server: &Server, text: &str) -> anyhow::Result<Vec<SupposedWorkload>> {
    let right = "TYPE/NAME=REPLICAS, such as deployment/web=20";
    let (name, replicas) = parted("--suppose-replicas", text, '=', right)?;
    let replicas = replicas.parse::<i32>().ok().filter(|number| *number >= 0);
    let replicas = replicas.ok_or_else(|| UsageError(format!("--suppose-replicas {text:?}: write {right}")))?;
    let mut supposed = Vec::new();
    for typed in WorkloadArg::all(&[name.to_owned()])? {
        for found in find(server, &typed).await? {
            let workload = found.workload();
            let namespace = workload.namespace.filter(|_| server.namespace.is_none());
            let (api_version, kind, name) = (Some(workload.api_version), workload.kind, workload.name);
            supposed.push(SupposedWorkload { api_version, kind, namespace, name, replicas });
        }
    }
    Ok(supposed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_kubernetes_quantities() {
        let read = room("", "cpu=400,memory=1Ti").unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::json!({"cpu": "400", "memory": "1Ti"}));
        for wrong in ["cpu", "cpu=", "cpu=much"] {
            assert!(room("m:x", wrong).unwrap_err().0.contains("--suppose-room"), "{wrong}");
        }
    }
}
