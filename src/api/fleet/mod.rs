//! Kinds of the Fleet family. Names that Karmada has too (`ResourceBinding`, `ClusterResourceBinding`) are told apart
//! by this module's.

pub mod cluster;
pub mod placement;

use crate::api::meta::Condition;
use crate::resource::schema::mark::Keyed;

/// Fleet's kinds keep one condition of each type; Karmada's lists of conditions are plain.
impl Keyed for Condition {
    const KEYS: &'static [&'static str] = &["type"];
}
