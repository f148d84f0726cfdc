//! Impersonation (IM1, IM2): the user in the `Impersonate-*` headers, and the permissions that the
//! caller needs. Each permission is checked separately, and a missing one rejects the request.

use http::HeaderMap;

use super::attributes::{Attributes, ResourceAttributes};
use super::front_proxy::{text, unescape};
use super::well_known::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED};
use ballast_k8s::{Status, User};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The user to act as, and what the caller must be allowed to impersonate.
#[derive(Debug, PartialEq, Eq)]
pub struct Impersonation {
    pub user: User,
    parts: Vec<Part>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Part {
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    subresource: String,
    namespace: String,
    name: String,
}

impl Impersonation {
    /// Parses the headers. Returns `None` if they request no impersonation.
    pub fn read(headers: &HeaderMap) -> Result<Option<Impersonation>, Status> {
        if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Ok(None);
        }
        let all = |name: &str| headers.get_all(name).iter().map(|value| text(value.as_bytes())).collect::<Vec<_>>();
        let first = |name: &str| all(name).into_iter().next().unwrap_or_default();
        let (name, uid, groups) = (first(USER), first(UID), all(GROUP));
        let mut user = User { name, uid, groups, ..User::default() };
        for header in headers.keys() {
            if let Some(key) = header.as_str().strip_prefix(EXTRA_PREFIX) {
                user.extra.entry(unescape(key)).or_default().extend(all(header.as_str()));
            }
        }
        if user.name.is_empty() {
            let message = "requested groups, a uid or extra fields without impersonating a user";
            return Err(Status::bad_request(message));
        }
        let parts = parts(&user);
        Ok(Some(Impersonation { user: with_groups_of_its_kind(user), parts }))
    }

    /// Returns the permissions that the caller needs, one after the other.
    pub fn attributes(&self) -> impl Iterator<Item = Attributes<'_>> {
        self.parts.iter().map(|part| {
            Attributes::Resource(ResourceAttributes {
                verb: "impersonate",
                group: part.group,
                version: part.version,
                resource: part.resource,
                subresource: &part.subresource,
                namespace: &part.namespace,
                name: &part.name,
                ..ResourceAttributes::default()
            })
        })
    }
}

fn parts(user: &User) -> Vec<Part> {
    let who = match service_account(&user.name) {
        Some((namespace, name)) => {
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            Part { version: "v1", resource: "serviceaccounts", namespace, name, ..Part::default() }
        }
        None => Part { version: "v1", resource: "users", name: user.name.clone(), ..Part::default() },
    };
    let mut parts = vec![who];
    parts.extend(user.groups.iter().map(|group| Part {
        version: "v1",
        resource: "groups",
        name: group.clone(),
        ..Part::default()
    }));
    let identity = |resource, subresource: &str, name: &str| Part {
        group: "authentication.k8s.io",
        version: "v1",
        resource,
        subresource: subresource.to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
    };
    if !user.uid.is_empty() {
        parts.push(identity("uids", "", &user.uid));
    }
    for (key, values) in &user.extra {
        parts.extend(values.iter().map(|value| identity("userextras", key, value)));
    }
    parts
}

/// Returns the groups that a user of this name has when it authenticates itself.
fn with_groups_of_its_kind(mut user: User) -> User {
    if user.name == ANONYMOUS {
        if user.groups.is_empty() {
            user.groups.push(UNAUTHENTICATED.to_owned());
        }
        return user;
    }
    if user.groups.is_empty()
        && let Some((namespace, _)) = service_account(&user.name)
    {
        user.groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    }
    if !user.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

fn service_account(name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = name.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&'static str, &'static str)]) -> Result<Option<Impersonation>, Status> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, http::HeaderValue::from_static(value));
        }
        Impersonation::read(&map)
    }

    fn asked(impersonation: &Impersonation) -> Vec<String> {
        let parts = impersonation.attributes().map(|attributes| match attributes {
            Attributes::Resource(it) => {
                [it.verb, it.group, it.resource, it.subresource, it.namespace, it.name].join("|")
            }
            Attributes::Path { .. } => panic!("impersonation is about resources"),
        });
        parts.collect()
    }

    #[test]
    fn im1_each_part_of_the_wish_is_a_permission_of_its_own() {
        let wish = read(&[
            ("impersonate-user", "jane"),
            ("impersonate-group", "ops"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-example.com%2fscopes", "read"),
        ]);
        let wish = wish.unwrap().unwrap();
        assert_eq!(
            asked(&wish),
            [
                "impersonate||users|||jane",
                "impersonate||groups|||ops",
                "impersonate|authentication.k8s.io|uids|||7",
                "impersonate|authentication.k8s.io|userextras|example.com/scopes||read"
            ]
        );
        assert_eq!((&*wish.user.name, &*wish.user.uid), ("jane", "7"));
        assert_eq!(wish.user.groups, ["ops", "system:authenticated"]);
        assert_eq!(wish.user.extra["example.com/scopes"], ["read"]);
    }

    #[test]
    fn im1_service_accounts_and_nobody_have_the_groups_of_their_kind() {
        let account = read(&[("impersonate-user", "system:serviceaccount:shop:bot")]).unwrap().unwrap();
        assert_eq!(asked(&account), ["impersonate||serviceaccounts||shop|bot"]);
        let expected = ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"];
        assert_eq!(account.user.groups, expected);
        let nobody = read(&[("impersonate-user", "system:anonymous")]).unwrap().unwrap();
        assert_eq!(nobody.user.groups, ["system:unauthenticated"]);
        for group in ["system:authenticated", "system:unauthenticated"] {
            let has_it = read(&[("impersonate-user", "jane"), ("impersonate-group", group)]).unwrap().unwrap();
            assert_eq!(has_it.user.groups, [group]);
        }
    }

    #[test]
    fn im2_a_wish_without_a_user_is_refused() {
        assert_eq!(read(&[("impersonate-group", "system:masters")]).unwrap_err().code, 400);
        assert_eq!(read(&[("impersonate-anything", "x")]).unwrap_err().code, 400);
        assert_eq!(read(&[("accept", "x")]), Ok(None));
    }
}
