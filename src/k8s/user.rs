//! Who asks: the identity that a request carries from authentication to the log.

use std::collections::BTreeMap;

/// `user.Info` of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The members of this group may do everything (AZ3).
    pub const MASTERS: &'static str = "system:masters";

    /// The identity of a part of Ballast itself, for example `system:ballast:scheduler`.
    pub fn component(name: &str) -> User {
        User { name: format!("system:ballast:{name}"), groups: vec![User::MASTERS.to_owned()], ..User::default() }
    }

    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == User::MASTERS)
    }
}
