//! The identity of a request, from authentication to the log.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// `user.Info` of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Members of this group have all permissions (AZ3).
    pub const MASTERS: &'static str = "system:masters";

    /// Creates the identity of a component of Ballast, for example `system:ballast:scheduler`.
    pub fn component(name: &str) -> User {
        User { name: format!("system:ballast:{name}"), groups: vec![User::MASTERS.to_owned()], ..User::default() }
    }

    /// Returns the form in reviews and audit events: `UserInfo` of authentication.k8s.io/v1.
    pub fn info(&self) -> Value {
        let User { name, uid, groups, extra } = self;
        let mut info = json!({"username": name, "groups": groups});
        if !uid.is_empty() {
            info["uid"] = Value::from(uid.as_str());
        }
        if !extra.is_empty() {
            info["extra"] = json!(extra);
        }
        info
    }

    /// Returns whether the user is in the group `system:masters`.
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == User::MASTERS)
    }
}
