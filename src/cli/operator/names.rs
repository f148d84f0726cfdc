//! Workload names on the command line: `deployment/web`, `deploy web`, `rb/web-deployment`. They
//! are looked up in the bindings, because the server does not store the workloads themselves.

use anyhow::bail;
use serde::Deserialize;
use serde_json::Value;

use super::server::{Refused, Server, escaped};
use ballast_api::ballast::v1alpha1::{Share, WorkloadRef};
use ballast_api::karmada::work::v1alpha2::AnyBinding;
use ballast_node::UsageError;
use ballast_rebalance::suggestion::closest_name;

/// The API of Karmada's bindings.
const WORK: &str = "/apis/work.karmada.io/v1alpha2";

/// Maximum number of other namespaces that a message names.
const PLACES_MAX: usize = 5;

/// kubectl's short names of kinds that are usually propagated.
const SHORT: &[(&str, &str)] = &[
    ("cj", "cronjob"),
    ("cm", "configmap"),
    ("deploy", "deployment"),
    ("ds", "daemonset"),
    ("ing", "ingress"),
    ("po", "pod"),
    ("pvc", "persistentvolumeclaim"),
    ("rs", "replicaset"),
    ("sa", "serviceaccount"),
    ("sts", "statefulset"),
    ("svc", "service"),
];

/// A workload as typed on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadArg {
    /// In lower case.
    kind: String,
    name: String,
}

/// A binding with the path of its collection.
#[derive(Clone, Debug)]
pub struct WorkloadBinding {
    pub collection: String,
    pub binding: AnyBinding,
    pub is_namespaced: bool,
}

impl WorkloadArg {
    /// Parses arguments of the form `TYPE/NAME`, or `TYPE NAME...`.
    pub fn all(words: &[String]) -> Result<Vec<WorkloadArg>, UsageError> {
        let Some(first) = words.first() else { return Ok(Vec::new()) };
        if words.iter().all(|word| word.contains('/')) {
            let split = |word: &String| match word.split_once('/') {
                Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                    Ok(WorkloadArg::new(kind, name))
                }
                _ => Err(UsageError(format!("{word:?} names no workload: write TYPE/NAME, such as deployment/web"))),
            };
            return words.iter().map(split).collect();
        }
        if words.len() == 1 || words.iter().any(|word| word.contains('/')) {
            let fault = format!("{:?} names no workload", words.join(" "));
            return Err(UsageError(format!("{fault}: write TYPE/NAME, such as deployment/web")));
        }
        Ok(words[1..].iter().map(|name| WorkloadArg::new(first, name)).collect())
    }

    fn new(kind: &str, name: &str) -> WorkloadArg {
        // `deployment.apps` is kubectl's form with the group.
        let kind = kind.split('.').next().unwrap_or_default().to_lowercase();
        let long = SHORT.iter().find(|(short, _)| *short == kind).map_or(&*kind, |(_, long)| long);
        WorkloadArg { kind: long.to_owned(), name: name.to_owned() }
    }

    pub fn shown(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    /// Returns the kind of a KubeFleet placement. Placements have no binding to look up.
    pub fn placement_kind(&self) -> Option<&'static str> {
        match &*self.kind {
            "clusterresourceplacement" | "clusterresourceplacements" | "crp" => Some("ClusterResourcePlacement"),
            "resourceplacement" | "resourceplacements" | "rp" => Some("ResourcePlacement"),
            _ => None,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name that Karmada gives to the binding of such a workload.
    fn usual_binding(&self) -> String {
        format!("{}-{}", self.name, self.kind)
    }

    /// Returns the collection of bindings, if the argument names a binding directly.
    fn binding_collection(&self) -> Option<&'static str> {
        match &*self.kind {
            "rb" | "resourcebinding" | "resourcebindings" => Some("resourcebindings"),
            "crb" | "clusterresourcebinding" | "clusterresourcebindings" => Some("clusterresourcebindings"),
            _ => None,
        }
    }

    /// Returns whether this kind is meant, in singular or plural (`deployments`, `ingresses`).
    fn is_kind(&self, kind: &str) -> bool {
        let kind = kind.to_lowercase();
        let plural = match kind.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{kind}{}", if kind.ends_with('s') { "es" } else { "s" }),
        };
        self.kind == kind || self.kind == plural
    }

    fn is_of(&self, binding: &AnyBinding) -> bool {
        let resource = &binding.spec.resource;
        resource.name == self.name && self.is_kind(&resource.kind)
    }
}

/// Returns whether a typed word denotes this kind: `deploy`, `deployments` or `deployment.apps`.
pub fn means_kind(word: &str, kind: &str) -> bool {
    WorkloadArg::new(word, "").is_kind(kind)
}

/// Finds the single binding that the arguments name.
pub async fn find_one(server: &Server, words: &[String]) -> anyhow::Result<WorkloadBinding> {
    let typed = match <[WorkloadArg; 1]>::try_from(WorkloadArg::all(words)?) {
        Ok([typed]) => typed,
        Err(_) => bail!(UsageError("name one workload: TYPE/NAME, such as deployment/web".to_owned())),
    };
    let mut found = find(server, &typed).await?;
    if found.len() > 1 {
        let places: Vec<&str> = found.iter().filter_map(|it| it.binding.metadata.namespace.as_deref()).collect();
        let places = places.join(", ");
        bail!(UsageError(format!("{} is in several namespaces: {places}; name one with -n", typed.shown())));
    }
    found.pop().ok_or_else(|| UsageError(format!("no {}", typed.shown())).into())
}

/// Finds the bindings of a workload: several if all namespaces are searched. Never empty.
pub async fn find(server: &Server, typed: &WorkloadArg) -> anyhow::Result<Vec<WorkloadBinding>> {
    if typed.placement_kind().is_some() {
        bail!(UsageError(format!(
            "{} is a Fleet placement, which has no binding of its own: look at it with kubectl describe",
            typed.shown()
        )));
    }
    if let Some(found) = find_by_usual_name(server, typed).await? {
        return Ok(vec![found]);
    }
    let namespaced = Collection::namespaced(server);
    let bindings = namespaced.bindings(server).await?;
    let found: Vec<WorkloadBinding> =
        bindings.iter().filter(|it| typed.is_of(it)).map(|it| namespaced.found(it)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let wide = Collection::cluster_scoped();
    // Without permission to list them, the result covers only the namespace.
    let others = match wide.bindings(server).await {
        Err(error) if error.downcast_ref::<Refused>().is_some_and(|refused| refused.is(403)) => Vec::new(),
        others => others?,
    };
    let found: Vec<WorkloadBinding> = others.iter().filter(|it| typed.is_of(it)).map(|it| wide.found(it)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let places = elsewhere(server, typed).await;
    Err(UsageError(unknown(server, typed, &places, bindings.iter().chain(&others))).into())
}

/// Returns the other namespaces in which a workload of this name has a binding with the usual name.
/// Empty without permission to list them.
async fn elsewhere(server: &Server, typed: &WorkloadArg) -> Vec<String> {
    if server.namespace.is_none() || typed.binding_collection().is_some() {
        return Vec::new();
    }
    let usual = format!("metadata.name={}", typed.usual_binding());
    let found = server.list(&format!("{WORK}/resourcebindings"), &[("fieldSelector", &usual)]).await;
    let (items, _) = found.unwrap_or_default();
    let places = read(&items).into_iter().filter(|it| typed.is_of(it)).filter_map(|it| it.metadata.namespace);
    places.collect()
}

/// Finds a binding by its usual name with one request, because Karmada names a binding after its
/// workload.
async fn find_by_usual_name(server: &Server, typed: &WorkloadArg) -> anyhow::Result<Option<WorkloadBinding>> {
    let collections = match (typed.binding_collection(), &server.namespace) {
        (Some("clusterresourcebindings"), _) => vec![Collection::cluster_scoped()],
        (_, Some(_)) => vec![Collection::namespaced(server)],
        (_, None) => return Ok(None),
    };
    let name = match typed.binding_collection() {
        Some(_) => typed.name.clone(),
        None => typed.usual_binding(),
    };
    for collection in collections {
        let path = format!("{}/{}", collection.path, escaped(&name));
        let Some(binding) = server.find::<AnyBinding>(&path).await? else { continue };
        if typed.binding_collection().is_some() || typed.is_of(&binding) {
            return Ok(Some(collection.found(&binding)));
        }
    }
    Ok(None)
}

/// A collection of bindings.
struct Collection {
    path: String,
    is_namespaced: bool,
}

impl Collection {
    fn namespaced(server: &Server) -> Collection {
        Collection { path: server.collection(WORK, "resourcebindings"), is_namespaced: true }
    }

    fn cluster_scoped() -> Collection {
        Collection { path: format!("{WORK}/clusterresourcebindings"), is_namespaced: false }
    }

    async fn bindings(&self, server: &Server) -> anyhow::Result<Vec<AnyBinding>> {
        let (items, _) = server.list(&self.path, &[]).await?;
        Ok(read(&items))
    }

    fn found(&self, binding: &AnyBinding) -> WorkloadBinding {
        let collection = match (self.is_namespaced, &binding.metadata.namespace) {
            (true, Some(namespace)) => format!("{WORK}/namespaces/{}/resourcebindings", escaped(namespace)),
            _ => self.path.clone(),
        };
        WorkloadBinding { collection, binding: binding.clone(), is_namespaced: self.is_namespaced }
    }
}

/// Returns the bindings that can be parsed. Invalid ones are skipped, so that they hide no others.
fn read(items: &[Value]) -> Vec<AnyBinding> {
    items.iter().filter_map(|item| AnyBinding::deserialize(item).ok()).collect()
}

/// Returns whether the scope contains no bindings, by reading at most one.
pub async fn is_empty_scope(server: &Server) -> anyhow::Result<bool> {
    let page: Value = server.get(&format!("{}?limit=1", Collection::namespaced(server).path)).await?;
    Ok(page["items"].as_array().is_none_or(Vec::is_empty))
}

/// Returns all bindings in the scope: namespaced ones, and cluster-scoped ones if it is all
/// namespaces.
pub async fn bindings_in_scope(server: &Server) -> anyhow::Result<Vec<AnyBinding>> {
    let mut all = Collection::namespaced(server).bindings(server).await?;
    if server.namespace.is_none() {
        all.extend(Collection::cluster_scoped().bindings(server).await?);
    }
    Ok(all)
}

/// Returns the error for a workload without a binding in the scope. It names the namespaces in
/// `places`, or else the most similar name in `bindings`.
fn unknown<'a>(
    server: &Server,
    typed: &WorkloadArg,
    places: &[String],
    bindings: impl Iterator<Item = &'a AnyBinding>,
) -> String {
    let place = match &server.namespace {
        Some(namespace) => format!(" in namespace {namespace}"),
        None => String::new(),
    };
    let fault = format!("no {} has a binding{place}", typed.shown());
    match places {
        [] => {}
        [only] => return format!("{fault}; there is one in {only}: name it with -n"),
        all => {
            let shown = all[..all.len().min(PLACES_MAX)].join(", ");
            let more = all.len().saturating_sub(PLACES_MAX);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            return format!("{fault}; there are some in {shown}{more}: name one with -n");
        }
    }
    let known: Vec<String> = bindings.map(|it| named(&it.spec.resource.kind, it)).collect();
    let hint = closest_name(&typed.shown(), known.iter().map(String::as_str));
    let hint = hint.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    format!("{fault}{hint}")
}

fn named(kind: &str, binding: &AnyBinding) -> String {
    format!("{}/{}", kind.to_lowercase(), binding.spec.resource.name)
}

impl WorkloadBinding {
    pub fn workload(&self) -> WorkloadRef {
        let resource = &self.binding.spec.resource;
        WorkloadRef {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            namespace: resource.namespace.clone(),
            name: resource.name.clone(),
        }
    }

    pub fn targets(&self) -> Vec<Share> {
        targets(&self.binding)
    }
}

/// Returns the clusters of a binding, by name.
pub fn targets(binding: &AnyBinding) -> Vec<Share> {
    let share = |target: &ballast_api::karmada::work::v1alpha2::TargetCluster| Share {
        name: target.name.clone(),
        replicas: target.replicas.unwrap_or_default(),
    };
    let mut shares: Vec<Share> = binding.spec.clusters.iter().map(share).collect();
    shares.sort_unstable();
    shares
}

/// Returns `deployment/web`, or `shop/deployment/web` with the namespace.
pub fn shown(workload: &WorkloadRef, with_namespace: bool) -> String {
    let short = format!("{}/{}", workload.kind.to_lowercase(), workload.name);
    match workload.namespace.as_deref().filter(|namespace| with_namespace && !namespace.is_empty()) {
        Some(namespace) => format!("{namespace}/{short}"),
        None => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn workloads_are_named_as_in_kubectl() {
        let names =
            |line: &str| WorkloadArg::all(&words(line)).unwrap().iter().map(WorkloadArg::shown).collect::<Vec<_>>();
        assert_eq!(names("deployment/web deploy/api"), ["deployment/web", "deployment/api"]);
        assert_eq!(names("deploy web api"), ["deployment/web", "deployment/api"]);
        assert_eq!(names("Deployment.apps/web"), ["deployment/web"]);
        for wrong in ["web", "deployment/", "/web", "a/b/c", "deployment/web api"] {
            let fault = WorkloadArg::all(&words(wrong)).unwrap_err().0;
            assert!(fault.contains("TYPE/NAME"), "{wrong}: {fault}");
        }
    }

    #[test]
    fn a_kind_may_be_given_in_the_plural() {
        let is = |typed: &str, kind: &str| WorkloadArg::new(typed, "x").is_kind(kind);
        assert!(is("deployments", "Deployment") && is("ingresses", "Ingress") && is("policies", "Policy"));
        assert!(is("flinkdeployment", "FlinkDeployment") && !is("deployment", "FlinkDeployment"));
    }
}
