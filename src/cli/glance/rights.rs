//! Asks Karmada for one object of each kind that is read, before everything is read. So a missing
//! right is told at once and by name, and all of them together.

use futures_util::future::join_all;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use serde_json::Value;

use crate::attach::HOMED;
use crate::cli::UsageError;
use crate::cli::kubeconfig::Connected;
use crate::resource::{Kinds, ResourceKind};

/// The manifest with the role that has these rights and no others.
const ROLE: &str = "deploy/beside-karmada/reader.yaml";
/// One object has at most a few megabytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What Karmada says about one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Says {
    Yes,
    /// These verbs are missing.
    No(Vec<&'static str>),
    /// It has no such kind.
    Unknown,
    /// The credentials are nobody's.
    Stranger,
    /// It failed otherwise.
    Failed(String),
}

/// # Errors A right is missing, the credentials are not accepted, or a kind is not served.
pub async fn check(home: &Connected, kinds: &Kinds) -> anyhow::Result<()> {
    let read = kinds.rows().iter().filter(|row| row.is_stored_version() && HOMED.contains(&row.resource));
    let asked = read.map(async |row| anyhow::Ok((Kind::of(row), ask(home, &Kind::of(row)).await?)));
    let said = join_all(asked).await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    judged(&home.url, &said)
}

/// What the messages say of a kind.
#[derive(Clone, Debug)]
struct Kind {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    is_namespaced: bool,
}

impl Kind {
    fn of(row: &ResourceKind) -> Kind {
        let ResourceKind { group, version, plural, .. } = row;
        Kind { group, version, plural, is_namespaced: row.is_namespaced() }
    }
}

async fn ask(home: &Connected, Kind { group, version, plural, .. }: &Kind) -> anyhow::Result<Says> {
    let path = format!("/apis/{group}/{version}/{plural}");
    let (code, text) = get(home, &format!("{path}?limit=1")).await?;
    match code {
        StatusCode::UNAUTHORIZED => return Ok(Says::Stranger),
        StatusCode::NOT_FOUND => return Ok(Says::Unknown),
        StatusCode::FORBIDDEN => {}
        code if code.is_success() => {}
        code => return Ok(Says::Failed(format!("{code} to list {plural}.{group}"))),
    }
    let list: Value = serde_json::from_slice(&text).unwrap_or_default();
    // A watch from now on brings no objects, and only the head of its answer is read.
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

fn judged(url: &str, said: &[(Kind, Says)]) -> anyhow::Result<()> {
    if said.iter().any(|(_, said)| *said == Says::Stranger) {
        anyhow::bail!("{url} does not accept the credentials of the kubeconfig (401 Unauthorized)");
    }
    let missing: Vec<String> = said.iter().filter_map(|(kind, said)| lacking(kind, said)).collect();
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

/// `list and watch resourcebindings.work.karmada.io in all namespaces`
fn lacking(Kind { group, plural, is_namespaced, .. }: &Kind, said: &Says) -> Option<String> {
    let Says::No(verbs) = said else { return None };
    let place = if *is_namespaced { " in all namespaces" } else { "" };
    Some(format!("{} {plural}.{group}{place}", verbs.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rights_are_named_with_verb_resource_and_reach() {
        let no = |verbs: &[&'static str]| Says::No(verbs.to_vec());
        let kind = |group, plural, is_namespaced| Kind { group, version: "v1", plural, is_namespaced };
        let bindings = kind("work.karmada.io", "resourcebindings", true);
        let clusters = kind("cluster.karmada.io", "clusters", false);
        assert_eq!(
            lacking(&bindings, &no(&["list", "watch"])).unwrap(),
            "list and watch resourcebindings.work.karmada.io in all namespaces"
        );
        assert_eq!(lacking(&clusters, &no(&["watch"])).unwrap(), "watch clusters.cluster.karmada.io");
        assert_eq!(lacking(&clusters, &Says::Yes), None);
        let faults = [(clusters.clone(), no(&["watch"])), (bindings.clone(), no(&["list"]))];
        let told = judged("https://k", &faults).unwrap_err().to_string();
        assert!(told.contains("watch clusters.cluster.karmada.io, nor list resourcebindings.work"), "{told}");
        let told = judged("https://k", &[(clusters, Says::Yes), (bindings, Says::Unknown)]).unwrap_err();
        assert!(told.is::<UsageError>() && told.to_string().contains("does not serve resourcebindings"), "{told}");
    }
}
