//! Decides on the permissions of a user. Members of `system:masters` may do everything; for all
//! other users, the server's mode decides (AZ3).
//!
//! The decision precedes reading the body and looking up the object, so a denial does not reveal
//! which objects exist (AZ8).

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::{Value, json};

use super::access_review::{AccessReviews, Answer};
use super::attributes::Attributes;
use super::policy::{self, Policy};
use super::well_known::OPEN_PATHS;
use ballast_base::metrics;
use ballast_k8s::User;

/// Whether a user may do something, with the reason that was given. The reason may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    Allow(String),
    Deny(String),
    /// No decision could be made, for this reason. The request fails, and the caller may try again
    /// (AZ6).
    Failed(String),
}

/// The authority for users outside of `system:masters`, like kube-apiserver's authorization mode.
pub enum Mode {
    /// The rules of a standalone server.
    Policy(ArcSwap<Policy>),
    /// SubjectAccessReviews of the host cluster.
    Reviews(AccessReviews),
}

pub struct Authorizer {
    mode: Mode,
    open_paths: Vec<String>,
}

impl From<Policy> for Mode {
    fn from(policy: Policy) -> Mode {
        Mode::Policy(ArcSwap::from_pointee(policy))
    }
}

impl Default for Authorizer {
    /// Allows members of `system:masters` everything, and others only what every user may do.
    fn default() -> Authorizer {
        Authorizer::new(Policy::default().into(), OPEN_PATHS.map(str::to_owned).to_vec())
    }
}

impl Authorizer {
    /// Every client may read `open_paths`, also without a credential. A `*` at the end of a path
    /// opens every path below it.
    pub fn new(mode: Mode, open_paths: Vec<String>) -> Authorizer {
        Authorizer { mode, open_paths }
    }

    /// Replaces the rules. Changes nothing where the host cluster decides.
    pub fn replace(&self, policy: Policy) {
        if let Mode::Policy(current) = &self.mode {
            current.store(Arc::new(policy));
        }
    }

    pub fn is_open(&self, attributes: &Attributes<'_>) -> bool {
        match attributes {
            Attributes::Path { path, .. } => self.open_paths.iter().any(|pattern| policy::fits(pattern, path)),
            Attributes::Resource(_) => false,
        }
    }

    pub async fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Permission {
        let permission = self.evaluate(user, attributes).await;
        metrics::authorization(match &permission {
            Permission::Allow(_) => "allowed",
            Permission::Deny(_) => "denied",
            Permission::Failed(_) => "error",
        });
        permission
    }

    /// Returns the rules for a user in a namespace, as the status of a SelfSubjectRulesReview.
    pub fn rules(&self, user: &User, namespace: &str) -> Value {
        if user.is_master() {
            let all = ["*"];
            return json!({
                "resourceRules": [{"verbs": all, "apiGroups": all, "resources": all}],
                "nonResourceRules": [{"verbs": all, "nonResourceURLs": all}],
                "incomplete": false,
            });
        }
        match &self.mode {
            Mode::Policy(policy) => policy.load().rules(user, namespace, &self.open_paths),
            Mode::Reviews(_) => json!({
                "resourceRules": [], "nonResourceRules": [], "incomplete": true,
                "evaluationError": "the host cluster decides, and does not tell its rules",
            }),
        }
    }

    async fn evaluate(&self, user: &User, attributes: &Attributes<'_>) -> Permission {
        if user.is_master() || self.is_open(attributes) {
            return Permission::Allow(String::new());
        }
        match &self.mode {
            Mode::Policy(policy) => match policy.load().allows(user, attributes) {
                true => Permission::Allow("allowed by the policy".to_owned()),
                false => Permission::Deny(String::new()),
            },
            Mode::Reviews(reviews) => match reviews.answer(user, attributes).await {
                Ok(Answer { allowed: true, reason }) => Permission::Allow(reason),
                Ok(Answer { allowed: false, reason }) => Permission::Deny(reason),
                Err(unavailable) => Permission::Failed(unavailable.0),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(groups: &[&str]) -> User {
        User {
            name: "jane".to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..User::default()
        }
    }

    #[tokio::test]
    async fn az3_he5_masters_may_everything_and_everybody_the_open_paths() {
        let authorizer = Authorizer::default();
        let path = |path| Attributes::Path { verb: "get", path };
        let allowed = Permission::Allow(String::new());
        assert_eq!(authorizer.decide(&user(&["system:masters"]), &path("/apis")).await, allowed);
        assert_eq!(authorizer.decide(&user(&[]), &path("/apis")).await, Permission::Deny(String::new()));
        assert_eq!(authorizer.decide(&user(&[]), &path("/readyz")).await, allowed);
        assert_eq!(authorizer.decide(&user(&[]), &path("/readyz/writer")).await, Permission::Deny(String::new()));
    }
}
