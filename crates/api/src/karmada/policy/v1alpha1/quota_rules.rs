//! Validation of quotas beyond the schema, as in upstream's webhook and with its messages (QU7).

use super::federated_resource_quota::{FederatedResourceQuota, FederatedResourceQuotaSpec};
use crate::core::Quantity;
use crate::karmada::cluster::v1alpha1::cluster_name_faults;
use crate::lean::Pairs;
use ballast_k8s::{self as k8s, FieldErrors, FieldPath, names};

/// Maximum length of the name of a quota, because Karmada's controllers write it into a label.
const NAME_LENGTH_MAX: usize = 63;

/// Resources that a ResourceQuota of Kubernetes counts by their plain names.
const STANDARD: &[&str] = &[
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
/// Standard resources with integer amounts.
const COUNTED: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Checks the name, the spec and the status of a quota.
pub fn check(quota: &FederatedResourceQuota) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let name = quota.metadata.name.as_deref().unwrap_or_default();
    if name.len() > NAME_LENGTH_MAX {
        let detail = format!("must be no more than {NAME_LENGTH_MAX} characters");
        errors.invalid(&FieldPath::new("metadata.name"), name, detail);
    }
    check_spec(&quota.spec, &FieldPath::new("spec"), &mut errors);
    let (status, path) = (&quota.status, FieldPath::new("status"));
    check_amounts(&status.overall, &path.child("overall"), &mut errors);
    check_amounts(&status.overall_used, &path.child("overallUsed"), &mut errors);
    for (index, cluster) in status.aggregated_status.iter().enumerate() {
        let path = path.child("aggregatedStatus").index(index);
        check_cluster(&cluster.cluster_name, &path.child("clusterName"), &mut errors);
        check_amounts(&cluster.hard, &path.child("hard"), &mut errors);
        check_amounts(&cluster.used, &path.child("used"), &mut errors);
    }
    errors
}

fn check_spec(spec: &FederatedResourceQuotaSpec, path: &FieldPath, errors: &mut FieldErrors) {
    check_amounts(&spec.overall, &path.child("overall"), errors);
    let assignments = path.child("staticAssignments");
    for (index, assignment) in spec.static_assignments.iter().enumerate() {
        let path = assignments.index(index);
        check_cluster(&assignment.cluster_name, &path.child("clusterName"), errors);
        check_amounts(&assignment.hard, &path.child("hard"), errors);
    }
    for (resource, limit) in &spec.overall {
        let assigned = spec.static_assignments.iter().filter_map(|assignment| assignment.hard.get(resource));
        let assigned = assigned.fold(k8s::Quantity::ZERO, |sum, amount| sum.plus(parsed(amount)));
        if parsed(limit) < assigned {
            errors.invalid(&path.child("overall").key(resource), limit, "overall is less than assignments");
        }
    }
    for (index, assignment) in spec.static_assignments.iter().enumerate() {
        let path = assignments.index(index).child("hard");
        for resource in assignment.hard.keys().filter(|resource| !spec.overall.contains_key(resource)) {
            errors.invalid(&path.key(resource), resource, "assignment resourceName is not exist in overall");
        }
    }
}

fn check_cluster(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let faults = cluster_name_faults(name);
    if !faults.is_empty() {
        errors.invalid(path, name, faults.join(","));
    }
}

/// Checks resource names and amounts, as in a ResourceQuota of Kubernetes.
fn check_amounts(amounts: &Pairs<Quantity>, path: &FieldPath, errors: &mut FieldErrors) {
    for (resource, amount) in amounts {
        let path = path.key(resource);
        check_resource(resource, &path, errors);
        match amount.text().parse::<k8s::Quantity>() {
            Err(fault) => errors.invalid(&path, amount, fault),
            Ok(quantity) if quantity.is_negative() => {
                errors.invalid(&path, amount, "must be greater than or equal to 0");
            }
            Ok(quantity) if is_counted(resource) && quantity != k8s::Quantity::from_units(quantity.units()) => {
                errors.invalid(&path, amount, "must be an integer");
            }
            Ok(_) => {}
        }
    }
}

fn check_resource(resource: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let faults = names::qualified_name_faults(resource);
    let is_malformed = !faults.is_empty();
    for fault in faults {
        errors.invalid(path, resource, fault);
    }
    let is_huge_page = resource.trim_start_matches("requests.").starts_with("hugepages-");
    if is_malformed || resource.contains('/') || is_huge_page || STANDARD.contains(&resource) {
        return;
    }
    if resource != "storage" {
        errors.invalid(path, resource, "must be a standard resource type or fully qualified");
    }
    errors.invalid(path, resource, "must be a standard resource for quota");
}

/// Returns whether amounts of the resource are integers: counts of Kubernetes objects, and the
/// resources of device plugins.
fn is_counted(resource: &str) -> bool {
    let is_extended =
        resource.contains('/') && !resource.contains("kubernetes.io/") && !resource.starts_with("requests.");
    is_extended || COUNTED.contains(&resource)
}

/// Parses the amount. Returns zero for a text that is not a quantity, which `check_amounts`
/// reports.
fn parsed(amount: &Quantity) -> k8s::Quantity {
    amount.text().parse().unwrap_or_default()
}
