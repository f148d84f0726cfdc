//! Discovery: the documents that list the served API. The legacy ones, the aggregated one, and
//! `/version` (VE1).
//!
//! *Invariants.* Everything is derived from the rows. The documents are built once and need no
//! store (DI17). An action has no verb but `create`, so that garbage collection and quota ignore it
//! (DI6).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::published::Published;
use ballast_resource::{Kinds, Lifetime, ResourceKind};

const STATUS_VERBS: &[&str] = &["get", "patch", "update"];
/// One verb for each method that has one (CP1). HEAD is a get, and OPTIONS has no verb.
const PROXY_VERBS: &[&str] = &["create", "delete", "get", "patch", "update"];

/// The paths that `/` lists in addition to those of the rows.
const PATHS: &[&str] = &[
    "/api",
    "/apis",
    "/healthz",
    "/healthz/log",
    "/healthz/ping",
    "/livez",
    "/livez/log",
    "/livez/ping",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/readyz/log",
    "/readyz/ping",
    "/version",
];

/// All discovery documents.
pub struct Discovery {
    groups: Published,
    aggregated: Published,
    by_group: BTreeMap<&'static str, Published>,
    /// Documents by `group/version`; `v1` in the core group.
    by_version: BTreeMap<String, Published>,
    core: Published,
    core_aggregated: Published,
    paths: Published,
    version: Published,
    /// `/version` for kubectl, by the reported minor version.
    versions_for_kubectl: BTreeMap<u32, Published>,
}

impl Discovery {
    pub fn new(kinds: &Kinds) -> Discovery {
        let all = Group::all(kinds);
        let (core, groups): (Vec<Group<'_>>, Vec<Group<'_>>) = all.into_iter().partition(|group| group.name.is_empty());
        let core_versions: Vec<&str> =
            core.iter().flat_map(|group| &group.versions).map(|version| version.name).collect();
        let documents = groups.iter().map(|group| (group.name, Published::of(&with_type("APIGroup", group.summary()))));
        let versions = core.iter().chain(&groups).flat_map(|group| {
            group.versions.iter().map(|version| {
                (group.version_name(version), Published::of(&version.resource_list(&group.version_name(version))))
            })
        });
        Discovery {
            groups: Published::of(&json!({
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": groups.iter().map(Group::summary).collect::<Vec<_>>(),
            })),
            aggregated: Published::of(&aggregated(groups.iter().map(Group::aggregated).collect())),
            by_group: documents.collect(),
            by_version: versions.collect(),
            core: Published::of(&json!({
                "kind": "APIVersions", "versions": core_versions, "serverAddressByClientCIDRs": [],
            })),
            core_aggregated: Published::of(&aggregated(core.iter().map(Group::aggregated).collect())),
            paths: Published::of(&json!({"paths": paths(&core, &groups)})),
            version: Published::of(&version(MINOR)),
            versions_for_kubectl: KUBECTL_MINORS
                .map(near)
                .map(|minor| (minor, Published::of(&version(minor))))
                .collect(),
        }
    }

    /// Returns `/apis`, legacy: an APIGroupList.
    pub fn groups(&self) -> &Published {
        &self.groups
    }

    /// Returns `/apis` as `apidiscovery.k8s.io/v2`.
    pub fn aggregated(&self) -> &Published {
        &self.aggregated
    }

    /// Returns `/apis/{group}`: an APIGroup.
    pub fn group(&self, group: &str) -> Option<&Published> {
        self.by_group.get(group)
    }

    /// Returns `/apis/{group}/{version}`, or `/api/{version}` of the core group: an
    /// APIResourceList.
    pub fn resources(&self, group: &str, version: &str) -> Option<&Published> {
        match group {
            "" => self.by_version.get(version),
            group => self.by_version.get(&format!("{group}/{version}")),
        }
    }

    /// Returns `/api`, legacy: the versions of the core group, if it has any (DI13).
    pub fn core(&self) -> &Published {
        &self.core
    }

    /// Returns `/api` as `apidiscovery.k8s.io/v2`.
    pub fn core_aggregated(&self) -> &Published {
        &self.core_aggregated
    }

    /// Returns `/`.
    pub fn paths(&self) -> &Published {
        &self.paths
    }

    /// Returns `/version`.
    pub fn version(&self) -> &Published {
        &self.version
    }

    /// Returns `/version` for a client with this `User-Agent`. kubectl warns about a server with a
    /// minor version that is not adjacent to its own, and each kubectl from 1.31 to 1.37 works
    /// here. So the response contains the nearest version without a warning (NG8).
    pub fn version_for(&self, user_agent: &str) -> &Published {
        let digits = user_agent.strip_prefix("kubectl/v1.").and_then(|rest| rest.split('.').next());
        let minor = digits.and_then(|digits| digits.parse().ok()).filter(|minor| KUBECTL_MINORS.contains(minor));
        minor.and_then(|minor| self.versions_for_kubectl.get(&near(minor))).unwrap_or(&self.version)
    }
}

/// A group with its versions, the preferred one first.
struct Group<'a> {
    name: &'static str,
    versions: Vec<Version<'a>>,
}

/// A version with its rows, sorted by plural name.
struct Version<'a> {
    name: &'static str,
    rows: Vec<&'a ResourceKind>,
}

impl<'a> Group<'a> {
    /// Returns all groups in the order of the rows.
    fn all(kinds: &'a Kinds) -> Vec<Group<'a>> {
        let mut groups: Vec<Group<'a>> = Vec::new();
        for row in kinds.rows() {
            let at = groups.iter().position(|group| group.name == row.group).unwrap_or_else(|| {
                groups.push(Group { name: row.group, versions: Vec::new() });
                groups.len() - 1
            });
            let versions = &mut groups[at].versions;
            match versions.iter_mut().find(|version| version.name == row.version) {
                Some(version) => version.rows.push(row),
                None => versions.push(Version { name: row.version, rows: vec![row] }),
            }
        }
        for group in &mut groups {
            group.versions.sort_by_key(|version| std::cmp::Reverse(priority(version.name)));
            for version in &mut group.versions {
                version.rows.sort_by_key(|row| row.plural);
            }
        }
        groups
    }

    fn summary(&self) -> Value {
        let versions: Vec<Value> = self
            .versions
            .iter()
            .map(|version| json!({"groupVersion": format!("{}/{}", self.name, version.name), "version": version.name}))
            .collect();
        json!({"name": self.name, "preferredVersion": versions[0], "versions": versions})
    }

    fn aggregated(&self) -> Value {
        let versions: Vec<Value> = self
            .versions
            .iter()
            .map(|version| {
                let resources: Vec<Value> = version.rows.iter().map(|row| aggregated_resource(row)).collect();
                json!({"version": version.name, "resources": resources, "freshness": "Current"})
            })
            .collect();
        match self.name {
            "" => json!({"metadata": {}, "versions": versions}),
            name => json!({"metadata": {"name": name}, "versions": versions}),
        }
    }

    fn version_name(&self, version: &Version<'_>) -> String {
        format!("{}/{}", self.name, version.name).trim_start_matches('/').to_owned()
    }
}

impl Version<'_> {
    fn resource_list(&self, group_version: &str) -> Value {
        let resources: Vec<Value> = self.rows.iter().flat_map(|row| resources(row)).collect();
        json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version,
            "resources": resources,
        })
    }
}

/// Returns a row and its subresources, in the legacy form.
fn resources(row: &ResourceKind) -> Vec<Value> {
    let mut main = json!({
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.is_namespaced(),
        "kind": row.kind,
        "verbs": row.verbs(),
    });
    name_lists(row, &mut main);
    if row.lifetime == Lifetime::Stored {
        main["storageVersionHash"] = storage_version_hash(row).into();
    }
    let below = subresources(row).into_iter().map(|(name, kind, verbs)| {
        json!({
            "name": format!("{}/{name}", row.plural),
            "singularName": "",
            "namespaced": row.is_namespaced(),
            "kind": kind,
            "verbs": verbs,
        })
    });
    std::iter::once(main).chain(below).collect()
}

/// Returns the subresources of a row, sorted: name, kind, verbs.
fn subresources(row: &ResourceKind) -> Vec<(&'static str, &'static str, &'static [&'static str])> {
    let proxy = row.proxy.map(|kind| ("proxy", kind, PROXY_VERBS));
    let status = row.status_subresource.then_some(("status", row.kind, STATUS_VERBS));
    proxy.into_iter().chain(status).collect()
}

fn aggregated_resource(row: &ResourceKind) -> Value {
    let kind = |kind: &str| json!({"group": row.group, "version": row.version, "kind": kind});
    let mut resource = json!({
        "resource": row.plural,
        "responseKind": kind(row.kind),
        "scope": if row.is_namespaced() { "Namespaced" } else { "Cluster" },
        "singularResource": row.singular,
        "verbs": row.verbs(),
    });
    name_lists(row, &mut resource);
    let below: Vec<Value> = subresources(row)
        .into_iter()
        .map(|(name, of, verbs)| json!({"subresource": name, "responseKind": kind(of), "verbs": verbs}))
        .collect();
    if !below.is_empty() {
        resource["subresources"] = below.into();
    }
    resource
}

fn name_lists(row: &ResourceKind, resource: &mut Value) {
    if !row.short_names.is_empty() {
        resource["shortNames"] = json!(row.short_names);
    }
    if !row.categories.is_empty() {
        resource["categories"] = json!(row.categories);
    }
}

/// Returns the first eight bytes of the hash of the stored version (DI4).
fn storage_version_hash(row: &ResourceKind) -> String {
    let hash = Sha256::digest(format!("{}/{}/{}", row.group, row.stored_version, row.kind));
    STANDARD.encode(&hash[..8])
}

fn aggregated(items: Vec<Value>) -> Value {
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn with_type(kind: &str, mut document: Value) -> Value {
    document["kind"] = kind.into();
    document["apiVersion"] = "v1".into();
    document
}

fn paths(core: &[Group<'_>], groups: &[Group<'_>]) -> Vec<String> {
    let mut paths: Vec<String> = PATHS.iter().map(|path| (*path).to_owned()).collect();
    for version in core.iter().flat_map(|group| &group.versions) {
        paths.push(format!("/api/{}", version.name));
        paths.push(format!("/openapi/v3/api/{}", version.name));
    }
    for group in groups {
        paths.push(format!("/apis/{}", group.name));
        for version in &group.versions {
            paths.push(format!("/apis/{}/{}", group.name, version.name));
            paths.push(format!("/openapi/v3/apis/{}/{}", group.name, version.name));
        }
    }
    paths.sort_unstable();
    paths
}

/// Returns the sort key of a version (DI14): stability, then major and minor number. Names of
/// another form come last, in alphabetical order.
fn priority(version: &str) -> (u8, u64, u64, std::cmp::Reverse<&str>) {
    let parsed = || -> Option<(u8, u64, u64)> {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
        let (major, stage) = rest.split_at(digits);
        let number = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with('0'));
        let (stability, minor) = match stage {
            "" => (3, 0),
            _ if stage.starts_with("beta") => (2, number(&stage[4..])?),
            _ if stage.starts_with("alpha") => (1, number(&stage[5..])?),
            _ => return None,
        };
        Some((stability, number(major)?, minor))
    };
    let (stability, major, minor) = parsed().unwrap_or_default();
    (stability, major, minor, std::cmp::Reverse(version))
}

/// The minor version of the API server that this one imitates.
const MINOR: u32 = 36;
/// The minor versions of kubectl that work with this server.
const KUBECTL_MINORS: std::ops::RangeInclusive<u32> = 31..=37;

/// Returns the version nearest to `MINOR` that is adjacent to kubectl's.
fn near(kubectl: u32) -> u32 {
    MINOR.clamp(kubectl - 1, kubectl + 1)
}

/// Builds the document of `/version` (VE1). Clients compare major and minor with their own and warn
/// about a large difference, so these are the numbers of the API server that this one imitates; the
/// rest describes Ballast.
fn version(minor: u32) -> Value {
    let os = std::env::consts::OS;
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "major": "1",
        "minor": minor.to_string(),
        "emulationMajor": "1",
        "emulationMinor": minor.to_string(),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": (minor - 1).to_string(),
        "gitVersion": format!("v1.{minor}.0+ballast-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{os}/{arch}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_kinds::kinds;

    const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

    fn read(published: &Published) -> Value {
        serde_json::from_slice(&published.body).unwrap()
    }

    #[test]
    fn di3_resources_have_every_member() {
        let discovery = Discovery::new(&kinds());
        let list = read(discovery.resources("garden.example.com", "v1").unwrap());
        assert_eq!(list["groupVersion"], "garden.example.com/v1");
        assert_eq!(
            list["resources"],
            json!([
                {
                    "name": "gardens", "singularName": "garden", "namespaced": true, "kind": "Garden", "verbs": VERBS,
                    "shortNames": ["gd"], "categories": ["all"], "storageVersionHash": "M0i34F3qY2o=",
                },
                {
                    "name": "gardens/status", "singularName": "", "namespaced": true, "kind": "Garden",
                    "verbs": ["get", "patch", "update"],
                },
                {
                    "name": "waterings", "singularName": "watering", "namespaced": false, "kind": "Watering",
                    "verbs": ["create"],
                },
            ])
        );
        assert!(discovery.resources("garden.example.com", "v2").is_none());
    }

    #[test]
    fn di1_groups_prefer_their_first_version() {
        let discovery = Discovery::new(&kinds());
        let groups = read(discovery.groups());
        assert_eq!(groups["kind"], "APIGroupList");
        let version = json!({"groupVersion": "garden.example.com/v1", "version": "v1"});
        let group = json!({"name": "garden.example.com", "preferredVersion": version, "versions": [version]});
        assert_eq!(groups["groups"], json!([group]));
        let one = read(discovery.group("garden.example.com").unwrap());
        assert_eq!((&one["kind"], &one["name"]), (&json!("APIGroup"), &json!("garden.example.com")));
        assert!(discovery.group("example.com").is_none());
    }

    #[test]
    fn di8_the_aggregated_document_says_the_same() {
        let document = read(Discovery::new(&kinds()).aggregated());
        assert_eq!(document["apiVersion"], "apidiscovery.k8s.io/v2");
        let version = &document["items"][0]["versions"][0];
        assert_eq!((&version["version"], &version["freshness"]), (&json!("v1"), &json!("Current")));
        let kind = json!({"group": "garden.example.com", "version": "v1", "kind": "Garden"});
        assert_eq!(
            version["resources"][0],
            json!({
                "resource": "gardens", "responseKind": kind, "scope": "Namespaced", "singularResource": "garden",
                "verbs": VERBS, "shortNames": ["gd"], "categories": ["all"],
                "subresources": [{"subresource": "status", "responseKind": kind, "verbs": ["get", "patch", "update"]}],
            })
        );
        assert_eq!(version["resources"][1]["verbs"], json!(["create"]));
    }

    #[test]
    fn di14_versions_are_ordered_by_stability() {
        let mut versions = ["v1alpha1", "foo", "v2", "v1beta2", "v1", "v10", "v1beta1", "bar", "v0", "v2beta1"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v1alpha1", "bar", "foo", "v0"]);
    }

    #[test]
    fn ve1_the_version_is_semantic_and_names_ballast() {
        let version = read(Discovery::new(&kinds()).version());
        let text = version["gitVersion"].as_str().unwrap();
        assert!(text.starts_with("v1.36.0+ballast-"), "{text}");
        assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    }

    #[test]
    fn ng8_kubectl_is_told_a_version_that_it_does_not_warn_of() {
        let discovery = Discovery::new(&kinds());
        let minor = |user_agent: &str| {
            let told = read(discovery.version_for(user_agent));
            told["minor"].as_str().unwrap().parse::<i64>().unwrap()
        };
        for kubectl in 31..=37_i64 {
            let told = minor(&format!("kubectl/v1.{kubectl}.4 (linux/amd64) kubernetes/59526cd"));
            assert!((told - kubectl).abs() <= 1 && told <= 36, "kubectl 1.{kubectl} is told {told}");
        }
        for other in
            ["", "kubectl/v1.30.1", "kubectl/v1.38.0", "kubectl/v2.32.0", "kubectl/vx", "Helm/3.17", "ballast/0.2.0"]
        {
            assert_eq!(minor(other), 36, "{other}");
        }
    }

    #[test]
    fn di19_the_root_lists_paths_in_order() {
        let paths = read(Discovery::new(&kinds()).paths());
        let paths: Vec<&str> = paths["paths"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(paths.contains(&"/apis/garden.example.com/v1") && paths.is_sorted());
    }
}
