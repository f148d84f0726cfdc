//! Decides what a user may do. Members of `system:masters` may do everything; the server's mode
//! decides about everybody else (AZ3).
//!
//! The decision comes before the body is read and before the object is looked up. A refusal
//! therefore does not reveal what exists (AZ8).

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::{Value, json};

use super::OPEN_PATHS;
use super::access_review::{AccessReviews, Answer};
use super::policy::{self, Policy};
use ballast_base::metrics;
use ballast_k8s::{Details, Status, User};

/// What a request wants to do, with the fields of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes<'a> {
    Resource(ResourceAttributes<'a>),
    /// A path that is not a resource's. `verb` is the HTTP method in lower case.
    Path {
        verb: &'a str,
        path: &'a str,
    },
}

/// A request for a resource. A field that the request does not name is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// The selectors of a list, a watch or a delete of a collection, as the client wrote them
    /// (AZ2). A permission may be limited to what they select.
    pub field_selector: &'a str,
    pub label_selector: &'a str,
}

/// Whether a user may do something, with the reason that was given. The reason may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    Allow(String),
    Deny(String),
    /// No decision could be made, for this reason. The request fails, and the caller may try again
    /// (AZ6).
    Failed(String),
}

/// What decides about users outside of `system:masters`, like kube-apiserver's authorization mode.
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
    /// Anybody may read `open_paths`. A `*` at the end of a path opens every path below it.
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
        let permission = self.judge(user, attributes).await;
        metrics::authorization(match &permission {
            Permission::Allow(_) => "allowed",
            Permission::Deny(_) => "denied",
            Permission::Failed(_) => "error",
        });
        permission
    }

    /// The rules for a user in a namespace, as the status of a SelfSubjectRulesReview.
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

    async fn judge(&self, user: &User, attributes: &Attributes<'_>) -> Permission {
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

impl Attributes<'_> {
    /// The 403 for a request with these attributes, in kube-apiserver's words (ER11). `reason` may
    /// be empty.
    pub fn forbidden(&self, user: &User, reason: &str) -> Status {
        let user = &user.name;
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        match self {
            Attributes::Path { verb, path } => {
                let message = escape(&format!("forbidden: User {user:?} cannot {verb} path {path:?}{reason}"));
                Status::failure(403, "Forbidden", message).with(Details::default())
            }
            Attributes::Resource(asked) => {
                let ResourceAttributes { verb, group, resource, subresource, namespace, name, .. } = asked;
                let slash = if subresource.is_empty() { "" } else { "/" };
                let place = match *namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                let what = format!(
                    "User {user:?} cannot {verb} resource \"{resource}{slash}{subresource}\" in API group {group:?} {place}"
                );
                let qualified = if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") };
                let named = if name.is_empty() { qualified } else { format!("{qualified} {name:?}") };
                let details = Details {
                    name: (*name).to_owned(),
                    group: (*group).to_owned(),
                    kind: (*resource).to_owned(),
                    ..Details::default()
                };
                Status::failure(403, "Forbidden", escape(&format!("{named} is forbidden: {what}{reason}")))
                    .with(details)
            }
        }
    }

    /// The resource that the request is for, unless it is for a path.
    pub fn resource(&self) -> Option<&ResourceAttributes<'_>> {
        match self {
            Attributes::Resource(resource) => Some(resource),
            Attributes::Path { .. } => None,
        }
    }
}

/// Escapes HTML. User names and paths come from the caller, and a browser may show the message.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
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

    #[test]
    fn er11_a_refusal_names_user_verb_resource_and_place() {
        let mut asked = ResourceAttributes {
            verb: "update",
            group: "work.karmada.io",
            version: "v1alpha2",
            resource: "resourcebindings",
            subresource: "status",
            namespace: "shop",
            name: "web",
            ..ResourceAttributes::default()
        };
        assert_eq!(
            Attributes::Resource(asked).forbidden(&user(&[]), "").message,
            "resourcebindings.work.karmada.io \"web\" is forbidden: User \"jane\" cannot update resource \
             \"resourcebindings/status\" in API group \"work.karmada.io\" in the namespace \"shop\""
        );
        (asked.verb, asked.subresource, asked.namespace, asked.name) = ("list", "", "", "");
        assert_eq!(
            Attributes::Resource(asked).forbidden(&user(&[]), "").message,
            "resourcebindings.work.karmada.io is forbidden: User \"jane\" cannot list resource \
             \"resourcebindings\" in API group \"work.karmada.io\" at the cluster scope"
        );
        let path = Attributes::Path { verb: "get", path: "/<b>" };
        assert_eq!(path.forbidden(&user(&[]), "").message, "forbidden: User \"jane\" cannot get path \"/&lt;b&gt;\"");
    }
}
