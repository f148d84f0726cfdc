//! Kinds that act when they are created, and are not stored. Also validators for rules outside the
//! registry: permission to approve a rebalance, and the taints that a policy may set.
//! `node::assembly` passes them to the registry.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `approval_rule`: the content that an approval covers, and the authors of this content
//! - `reschedule_task`: RescheduleTask
//! - `reviews`: reviews of the user's own access
//! - `approval`: the permission to approve a rebalance
//! - `fleet_review`: FleetReview, and the columns of clusters with the same numbers
//! - `carried_fields`: fields of a policy that are copied to its bindings
//! - `eviction_author`: the user that set the rate of evictions
//! - `four_eyes`: a rebalance that another user has to approve
//! - `no_execute_taints`: taints that a policy may not set

mod approval;
mod approval_rule;
mod carried_fields;
mod client_changes;
mod eviction_author;
mod fleet_review;
mod four_eyes;
mod no_execute_taints;
mod reschedule_task;
mod reviews;

pub use approval::approvals;
pub use carried_fields::CarriedFields;
pub use client_changes::ClientChanges;
pub use eviction_author::eviction_author;
pub use fleet_review::FleetReviews;
pub use four_eyes::{MarkedNamespaces, four_eyes};
pub use no_execute_taints::NoExecuteTaints;
pub use reschedule_task::{MarkingLimits, RescheduleIntents, RescheduleTasks, selected, selects_any};
pub use reviews::reviews;
