//! The attributes of a request that authorization decides on, and the 403 for them.

use ballast_k8s::{Details, Status, User};

/// The action of a request, with the fields of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes<'a> {
    Resource(ResourceAttributes<'a>),
    /// A path that names no resource. `verb` is the HTTP method in lower case.
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

impl Attributes<'_> {
    /// Returns the 403 for a request with these attributes, in kube-apiserver's words (ER11).
    /// `reason` may be empty.
    pub fn forbidden(&self, user: &User, reason: &str) -> Status {
        let user = &user.name;
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        match self {
            Attributes::Path { verb, path } => {
                let message = escape(&format!("forbidden: User {user:?} cannot {verb} path {path:?}{reason}"));
                Status::failure(403, "Forbidden", message).with(Details::default())
            }
            Attributes::Resource(resource_attributes) => {
                let ResourceAttributes { verb, group, resource, subresource, namespace, name, .. } =
                    resource_attributes;
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

    /// Returns the resource that the request is for, unless it is for a path.
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

    fn user() -> User {
        User { name: "jane".to_owned(), ..User::default() }
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
            Attributes::Resource(asked).forbidden(&user(), "").message,
            "resourcebindings.work.karmada.io \"web\" is forbidden: User \"jane\" cannot update resource \
             \"resourcebindings/status\" in API group \"work.karmada.io\" in the namespace \"shop\""
        );
        (asked.verb, asked.subresource, asked.namespace, asked.name) = ("list", "", "", "");
        assert_eq!(
            Attributes::Resource(asked).forbidden(&user(), "").message,
            "resourcebindings.work.karmada.io is forbidden: User \"jane\" cannot list resource \
             \"resourcebindings\" in API group \"work.karmada.io\" at the cluster scope"
        );
        let path = Attributes::Path { verb: "get", path: "/<b>" };
        assert_eq!(path.forbidden(&user(), "").message, "forbidden: User \"jane\" cannot get path \"/&lt;b&gt;\"");
    }
}
