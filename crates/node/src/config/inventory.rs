//! Flags about the inventory of clusters.

use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use ballast_base::clock::Clock;
use ballast_inventory::Inventory;
use ballast_k8s::names::dns_label_faults;

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct InventoryArgs {
    /// Publish clusters and placements to other programs: a ClusterProfile in this namespace for
    /// each cluster, and a PlacementDecision for each binding and each KubeFleet placement. Behind
    /// a host cluster they are copied into its CRDs. Default: none
    #[arg(long, env = "BALLAST_CLUSTER_INVENTORY_NAMESPACE", value_name = "NAMESPACE", value_parser = namespace)]
    pub cluster_inventory_namespace: Option<String>,
}

impl InventoryArgs {
    /// Returns the inventory that publishes clusters and placements, if it is enabled.
    pub fn made(&self, scheduler: &str, clock: &Arc<dyn Clock>) -> Option<Inventory> {
        let namespace = self.cluster_inventory_namespace.as_deref()?;
        Some(Inventory::new(namespace, scheduler, Arc::clone(clock)))
    }
}

fn namespace(text: &str) -> Result<String, String> {
    match dns_label_faults(text).first() {
        None => Ok(text.to_owned()),
        Some(fault) => Err(format!("this is no name of a namespace: {fault}")),
    }
}
