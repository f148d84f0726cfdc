//! Clusters on the command line: by name, or by a common property such as `region=eu-west`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::server::Server;
use crate::cli::natural;
use ballast_node::UsageError;
use ballast_rebalance::suggestion::closest_name_with_same_digits;

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";

/// Returns the names of clusters. `KEY=VALUE` selects all clusters of a region, zone or provider,
/// or with such a label; a value that no cluster has is a usage error.
pub async fn named(server: &Server, given: &[String]) -> anyhow::Result<Vec<String>> {
    if given.iter().all(|name| !name.contains('=')) {
        return Ok(given.to_vec());
    }
    let (clusters, _) = server.list(CLUSTERS, &[]).await?;
    let mut names = Vec::new();
    for text in given {
        let found = match text.split_once('=') {
            None => vec![text.clone()],
            Some((key, value)) => with(&clusters, key, value)?,
        };
        names.extend(found.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
    }
    Ok(names)
}

fn with(clusters: &[Value], key: &str, value: &str) -> Result<Vec<String>, UsageError> {
    let mut names: Vec<String> = clusters
        .iter()
        .filter(|cluster| values(cluster, key).any(|known| known == value))
        .filter_map(|cluster| cluster["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    if names.is_empty() {
        let known: BTreeSet<&str> = clusters.iter().flat_map(|cluster| values(cluster, key)).collect();
        let near = closest_name_with_same_digits(value, known.into_iter());
        let hint = near.map_or_else(String::new, |near| format!("; did you mean {key}={near}?"));
        return Err(UsageError(format!("no cluster has {key}={value}{hint}")));
    }
    natural::by_name(&mut names, |name| name);
    Ok(names)
}

/// Returns the values of a key. `region`, `zone` and `provider` are fields, all other keys are
/// labels.
fn values<'a>(cluster: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    let spec = &cluster["spec"];
    let fields: Vec<&str> = match key {
        "region" | "provider" => spec[key].as_str().into_iter().collect(),
        "zone" => {
            let zones = spec["zones"].as_array().into_iter().flatten().filter_map(Value::as_str);
            spec["zone"].as_str().into_iter().chain(zones).collect()
        }
        _ => Vec::new(),
    };
    fields.into_iter().chain(cluster["metadata"]["labels"][key].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ng4_a_region_stands_for_its_clusters_and_one_that_is_not_there_is_told_with_the_nearest() {
        let cluster = |name: &str, region: &str, tier: &str| json!({"metadata": {"name": name, "labels": {"tier": tier}}, "spec": {"region": region, "zones": ["z1"]}});
        let clusters =
            [cluster("m10", "eu-west", "gold"), cluster("m2", "eu-west", "test"), cluster("m3", "us", "gold")];
        assert_eq!(with(&clusters, "region", "eu-west").unwrap(), ["m2", "m10"]);
        assert_eq!(with(&clusters, "tier", "gold").unwrap(), ["m3", "m10"]);
        assert_eq!(with(&clusters, "zone", "z1").unwrap().len(), 3);
        let fault = with(&clusters, "region", "eu-wst").unwrap_err().0;
        assert_eq!(fault, "no cluster has region=eu-wst; did you mean region=eu-west?");
    }
}
