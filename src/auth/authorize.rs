//! What a user may do. Members of `system:masters` everything, all others nothing (AZ3).
//!
//! Decides before the body is read and before the object is looked up, so that a refusal says nothing
//! about what exists (AZ8).

use crate::k8s::{Details, Status, User};

/// What is asked for, in the words of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes<'a> {
    Resource(ResourceAttributes<'a>),
    /// `verb` is the HTTP method in lower case.
    Path {
        verb: &'a str,
        path: &'a str,
    },
}

/// Empty strings stand for what the request does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    Deny,
}

/// The standing rule of a server on its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Authorizer;

impl Authorizer {
    pub fn decide(&self, user: &User, _attributes: &Attributes<'_>) -> Decision {
        match user.is_master() {
            true => Decision::Allow,
            false => Decision::Deny,
        }
    }
}

impl Attributes<'_> {
    /// The refusal of this, worded as kube-apiserver words it (ER11).
    pub fn forbidden(&self, user: &User) -> Status {
        let user = &user.name;
        match self {
            Attributes::Path { verb, path } => {
                let message = escape(&format!("forbidden: User {user:?} cannot {verb} path {path:?}"));
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
                Status::failure(403, "Forbidden", escape(&format!("{named} is forbidden: {what}"))).with(details)
            }
        }
    }

    /// The kind that is asked for, when it is one.
    pub fn resource(&self) -> Option<&ResourceAttributes<'_>> {
        match self {
            Attributes::Resource(resource) => Some(resource),
            Attributes::Path { .. } => None,
        }
    }
}

/// User names and paths come from the caller and end up in browsers.
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

    #[test]
    fn only_masters_are_allowed() {
        let path = Attributes::Path { verb: "get", path: "/apis" };
        assert_eq!(Authorizer.decide(&user(&["system:masters"]), &path), Decision::Allow);
        assert_eq!(Authorizer.decide(&user(&["system:authenticated"]), &path), Decision::Deny);
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
        };
        assert_eq!(
            Attributes::Resource(asked).forbidden(&user(&[])).message,
            "resourcebindings.work.karmada.io \"web\" is forbidden: User \"jane\" cannot update resource \
             \"resourcebindings/status\" in API group \"work.karmada.io\" in the namespace \"shop\""
        );
        (asked.verb, asked.subresource, asked.namespace, asked.name) = ("list", "", "", "");
        assert_eq!(
            Attributes::Resource(asked).forbidden(&user(&[])).message,
            "resourcebindings.work.karmada.io is forbidden: User \"jane\" cannot list resource \
             \"resourcebindings\" in API group \"work.karmada.io\" at the cluster scope"
        );
        let path = Attributes::Path { verb: "get", path: "/<b>" };
        assert_eq!(path.forbidden(&user(&[])).message, "forbidden: User \"jane\" cannot get path \"/&lt;b&gt;\"");
    }
}
