//! How many replicas of a workload exist on a cluster, as far as it reports them.

use ballast_api::karmada::work::v1alpha2::AggregatedStatusItem;

/// The replicas that exist on a cluster by these reports. 0 where nothing is reported.
pub fn running(reports: &[AggregatedStatusItem]) -> impl Fn(&str) -> i64 {
    move |cluster| {
        let report = reports.iter().find(|report| report.cluster_name == cluster);
        let status = report.and_then(|report| report.status.as_ref()).map(|status| status.value()).unwrap_or_default();
        let number = |field: &str| status.get(field).and_then(serde_json::Value::as_i64);
        number("replicas").or_else(|| number("readyReplicas")).unwrap_or_default()
    }
}
