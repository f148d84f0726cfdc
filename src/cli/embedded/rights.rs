//! Checks permissions by reading one object of each required kind, before everything is read.
//! Missing permissions are reported at once, by name, and all of them together.
//!
//! Requests about one namespace need only the clusters and the objects in that namespace. Other
//! kinds without permission are left out.

use futures_util::future::join_all;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use serde_json::Value;

use ballast_attach::{ATTACHED_KINDS, ReflectorScope};
use ballast_k8s::GroupResource;
use ballast_node::UsageError;
use ballast_node::kubeconfig::Connected;
use ballast_resource::{Kinds, ResourceKind};

/// The manifest with a role that has exactly the required permissions.
pub const ROLE: &str = "deploy/beside-karmada/reader.yaml";
/// Maximum size of a response in bytes. One object has at most a few megabytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The permission to read one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Says {
    Yes,
    /// These verbs are missing.
    No(Vec<&'static str>),
    /// Karmada does not serve the kind.
    Unknown,
    /// The credentials were not accepted.
    Stranger,
    /// The request failed for another reason.
    Failed(String),
}

/// Returns the readable scope: everything, or less if only `namespace` is requested.
///
/// # Errors
///
/// Returns an error if a permission is missing, the credentials are not accepted, or a kind is not
/// served.
pub async fn check(home: &Connected, kinds: &Kinds, namespace: Option<&str>) -> anyhow::Result<ReflectorScope> {
    let said = ask_all(home, kinds, None).await?;
    let is_refused = said.iter().any(|(_, says)| matches!(says, Says::No(_)));
    let Some(namespace) = namespace.filter(|_| is_refused) else {
        return judged(&home.url, &said, None).map(|()| ReflectorScope::default());
    };
    let (left_out, said): (Vec<_>, Vec<_>) =
        ask_all(home, kinds, Some(namespace)).await?.into_iter().partition(|(kind, says)| kind.may_lack(says));
    judged(&home.url, &said, Some(namespace))?;
    let without = left_out.into_iter().map(|(kind, _)| kind.resource).collect();
    Ok(ReflectorScope { namespace: Some(namespace.to_owned()), without })
}

/// Queries the permission for each kind, in this namespace or in all.
async fn ask_all(home: &Connected, kinds: &Kinds, namespace: Option<&str>) -> anyhow::Result<Vec<(Kind, Says)>> {
    let read = kinds.rows().iter().filter(|row| row.is_stored_version() && ATTACHED_KINDS.contains(&row.resource));
    let asked = read.map(async |row| anyhow::Ok((Kind::of(row), ask(home, &Kind::of(row), namespace).await?)));
    join_all(asked).await.into_iter().collect()
}

/// A kind, as named in messages.
#[derive(Clone, Debug)]
struct Kind {
    resource: GroupResource,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    is_namespaced: bool,
}

impl Kind {
    fn of(row: &ResourceKind) -> Kind {
        let ResourceKind { resource, group, version, plural, .. } = row;
        Kind { resource: *resource, group, version, plural, is_namespaced: row.is_namespaced() }
    }

    /// Returns whether requests about one namespace work without this kind. Decisions need
    /// clusters.
    fn may_lack(&self, says: &Says) -> bool {
        !self.is_namespaced && self.group != "cluster.karmada.io" && matches!(says, Says::No(_))
    }

    fn path(&self, namespace: Option<&str>) -> String {
        let Kind { group, version, plural, .. } = self;
        match namespace.filter(|_| self.is_namespaced) {
            Some(namespace) => format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}"),
            None => format!("/apis/{group}/{version}/{plural}"),
        }
    }
}

async fn ask(home: &Connected, kind: &Kind, namespace: Option<&str>) -> anyhow::Result<Says> {
    let Kind { group, plural, .. } = kind;
    let path = kind.path(namespace);
    let (code, text) = get(home, &format!("{path}?limit=1")).await?;
    match code {
        StatusCode::UNAUTHORIZED => return Ok(Says::Stranger),
        StatusCode::NOT_FOUND => return Ok(Says::Unknown),
        StatusCode::FORBIDDEN => {}
        code if code.is_success() => {}
        code => return Ok(Says::Failed(format!("{code} to list {plural}.{group}"))),
    }
    let list: Value = serde_json::from_slice(&text).unwrap_or_default();
    // A watch from this revision returns no objects, and only the head of its response is read.
    let revision = list["metadata"]["resourceVersion"].as_str().filter(|_| code.is_success()).unwrap_or("0");
    let watch = home.send(request(&format!("{path}?watch=true&timeoutSeconds=1&resourceVersion={revision}"))?).await?;
    let refused = |code| code == StatusCode::FORBIDDEN;
    let verbs = [("list", refused(code)), ("watch", refused(watch.status()))];
    let missing: Vec<&str> = verbs.into_iter().filter(|(_, is_missing)| *is_missing).map(|(verb, _)| verb).collect();
    Ok(if missing.is_empty() { Says::Yes } else { Says::No(missing) })
}

async fn get(home: &Connected, path: &str) -> anyhow::Result<(StatusCode, bytes::Bytes)> {
    let (head, body) = home.send(request(path)?).await?.into_parts();
    let body = tokio::time::timeout(home.within, Limited::new(body, ANSWER_BYTES_MAX).collect()).await;
    let body = body.map_err(|_| anyhow::anyhow!("the answer of {} did not end in time", home.url))?;
    Ok((head.status, body.map_err(|error| anyhow::anyhow!("failed to read the answer: {error}"))?.to_bytes()))
}

fn request(path: &str) -> anyhow::Result<Request<Body>> {
    let agent = concat!("ballast/", env!("CARGO_PKG_VERSION"));
    Ok(Request::get(path).header("accept", "application/json").header("user-agent", agent).body(Body::empty())?)
}

/// Checks the permissions. `namespace` is the only requested one, if any.
fn judged(url: &str, said: &[(Kind, Says)], namespace: Option<&str>) -> anyhow::Result<()> {
    if said.iter().any(|(_, said)| *said == Says::Stranger) {
        anyhow::bail!("{url} does not accept the credentials of the kubeconfig (401 Unauthorized)");
    }
    let missing: Vec<String> = said.iter().filter_map(|(kind, said)| lacking(kind, said, namespace)).collect();
    if !missing.is_empty() {
        anyhow::bail!(
            "{url} does not let you {}; the ClusterRole in {ROLE} has these rights and no others",
            missing.join(", nor ")
        );
    }
    for (Kind { group, version, plural, .. }, said) in said {
        match said {
            Says::Unknown => {
                let fault = format!("{url} does not serve {plural} of {group}/{version}, which decisions need");
                return Err(UsageError(fault).into());
            }
            Says::Failed(why) => anyhow::bail!("{url} answered {why}"),
            Says::Yes | Says::No(_) | Says::Stranger => {}
        }
    }
    Ok(())
}

/// Returns a text such as `list and watch resourcebindings.work.karmada.io in all namespaces`.
fn lacking(Kind { group, plural, is_namespaced, .. }: &Kind, said: &Says, namespace: Option<&str>) -> Option<String> {
    let Says::No(verbs) = said else { return None };
    let place = match namespace.filter(|_| *is_namespaced) {
        Some(namespace) => format!(" in namespace {namespace}"),
        None if *is_namespaced => " in all namespaces".to_owned(),
        None => String::new(),
    };
    Some(format!("{} {plural}.{group}{place}", verbs.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rights_are_named_with_verb_resource_and_reach() {
        let no = |verbs: &[&'static str]| Says::No(verbs.to_vec());
        let resource = ATTACHED_KINDS[0];
        let kind = |group, plural, is_namespaced| Kind { resource, group, version: "v1", plural, is_namespaced };
        let bindings = kind("work.karmada.io", "resourcebindings", true);
        let clusters = kind("cluster.karmada.io", "clusters", false);
        assert_eq!(
            lacking(&bindings, &no(&["list", "watch"]), None).unwrap(),
            "list and watch resourcebindings.work.karmada.io in all namespaces"
        );
        let here = lacking(&bindings, &no(&["watch"]), Some("shop")).unwrap();
        assert_eq!(here, "watch resourcebindings.work.karmada.io in namespace shop");
        assert_eq!(bindings.path(Some("shop")), "/apis/work.karmada.io/v1/namespaces/shop/resourcebindings");
        assert_eq!(clusters.path(Some("shop")), "/apis/cluster.karmada.io/v1/clusters");
        assert_eq!(lacking(&clusters, &no(&["watch"]), Some("shop")).unwrap(), "watch clusters.cluster.karmada.io");
        assert_eq!(lacking(&clusters, &Says::Yes, None), None);
        let faults = [(clusters.clone(), no(&["watch"])), (bindings.clone(), no(&["list"]))];
        let told = judged("https://k", &faults, None).unwrap_err().to_string();
        assert!(told.contains("watch clusters.cluster.karmada.io, nor list resourcebindings.work"), "{told}");
        let told = judged("https://k", &[(clusters, Says::Yes), (bindings, Says::Unknown)], None).unwrap_err();
        assert!(told.is::<UsageError>() && told.to_string().contains("does not serve resourcebindings"), "{told}");
    }
}
