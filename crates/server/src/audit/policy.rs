//! Decides which requests are recorded, and how much of them, by an `audit.k8s.io/v1` Policy. The
//! first rule that matches wins.

use serde::Deserialize;

use ballast_auth::{Attributes, ResourceAttributes};
use ballast_k8s::User;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Level {
    #[default]
    None,
    Metadata,
    Request,
    RequestResponse,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Level::None => "None",
            Level::Metadata => "Metadata",
            Level::Request => "Request",
            Level::RequestResponse => "RequestResponse",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Stage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

impl Stage {
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
            Stage::Panic => "Panic",
        }
    }
}

/// The recorded parts of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    pub level: Level,
    pub omit_managed_fields: bool,
    /// One bit for each `Stage`.
    omitted_stages: u8,
}

impl Scope {
    pub fn takes(self, stage: Stage) -> bool {
        self.omitted_stages & (1 << stage as u8) == 0
    }

    pub fn wants_question(self) -> bool {
        self.level >= Level::Request
    }

    pub fn wants_answer(self) -> bool {
        self.level >= Level::RequestResponse
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Policy {
    api_version: String,
    kind: String,
    #[serde(rename = "metadata")]
    _metadata: serde_json::Value,
    rules: Vec<Rule>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Rule {
    level: Level,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<Resources>,
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Resources {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("not an audit policy: {0}")]
    Unreadable(String),
    #[error("wanted is kind Policy of audit.k8s.io/v1, not {kind:?} of {api_version:?}")]
    Kind { api_version: String, kind: String },
    #[error("rule {0} is about resources and about URLs; make two of it")]
    Mixed(usize),
}

impl Policy {
    /// Returns the default policy: the metadata of every request, once it is complete.
    pub fn metadata() -> Policy {
        let rule = Rule { level: Level::Metadata, ..Rule::default() };
        Policy { rules: vec![rule], omit_stages: vec![Stage::RequestReceived], ..Policy::default() }
    }

    pub fn parse(text: &str) -> Result<Policy, PolicyError> {
        let policy: Policy =
            serde_saphyr::from_str(text).map_err(|error| PolicyError::Unreadable(error.to_string()))?;
        if policy.api_version != "audit.k8s.io/v1" || policy.kind != "Policy" {
            return Err(PolicyError::Kind { api_version: policy.api_version, kind: policy.kind });
        }
        let is_mixed = |rule: &Rule| {
            let is_about_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
            is_about_resources && !rule.non_resource_urls.is_empty()
        };
        match policy.rules.iter().position(is_mixed) {
            Some(at) => Err(PolicyError::Mixed(at + 1)),
            None => Ok(policy),
        }
    }

    pub(super) fn wants_answers(&self) -> bool {
        self.rules.iter().any(|rule| rule.level == Level::RequestResponse)
    }

    pub(super) fn scope(&self, user: &User, attributes: &Attributes<'_>) -> Option<Scope> {
        let rule = self.rules.iter().find(|rule| rule.fits(user, attributes))?;
        if rule.level == Level::None {
            return None;
        }
        let omitted = self.omit_stages.iter().chain(&rule.omit_stages);
        Some(Scope {
            level: rule.level,
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
            omitted_stages: omitted.fold(0, |bits, stage| bits | (1 << *stage as u8)),
        })
    }
}

impl Rule {
    fn fits(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        let (verb, asked) = match attributes {
            Attributes::Path { verb, .. } => (*verb, None),
            Attributes::Resource(asked) => (asked.verb, Some(asked)),
        };
        let is_meant = is_any(&self.users, |it| it == &user.name)
            && is_any(&self.user_groups, |it| user.groups.contains(it))
            && is_any(&self.verbs, |it| it == verb);
        if !is_meant {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return asked.is_some_and(|asked| self.fits_resource(asked));
        }
        match attributes {
            _ if self.non_resource_urls.is_empty() => true,
            Attributes::Path { path, .. } => {
                self.non_resource_urls.iter().any(|pattern| match pattern.strip_suffix('*') {
                    Some(start) => path.starts_with(start),
                    None => pattern == path,
                })
            }
            Attributes::Resource(_) => false,
        }
    }

    fn fits_resource(&self, asked: &ResourceAttributes<'_>) -> bool {
        is_any(&self.namespaces, |it| it == asked.namespace) && is_any(&self.resources, |it| it.fit(asked))
    }
}

impl Resources {
    fn fit(&self, asked: &ResourceAttributes<'_>) -> bool {
        self.group == asked.group
            && is_any(&self.resource_names, |it| it == asked.name)
            && is_any(&self.resources, |pattern| match pattern.split_once('/') {
                None if pattern == "*" => true,
                None => pattern == asked.resource && asked.subresource.is_empty(),
                Some((of, sub)) => {
                    (of == "*" || of == asked.resource)
                        && (sub == "*" && !asked.subresource.is_empty() || sub == asked.subresource)
                }
            })
    }
}

/// Returns whether any entry fits. An empty list means all.
fn is_any<T>(list: &[T], fits: impl Fn(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: [system:kube-aggregator]
- level: None
  nonResourceURLs: [/healthz*, /readyz*]
- level: RequestResponse
  verbs: [create]
  resources:
  - group: apps.karmada.io
    resources: [workloadrebalancers]
  omitManagedFields: true
- level: Request
  namespaces: [shop]
  omitStages: [ResponseStarted]
- level: Metadata
";

    fn scope(name: &str, attributes: Attributes<'_>) -> Option<Scope> {
        let user = User { name: name.to_owned(), ..User::default() };
        Policy::parse(POLICY).unwrap().scope(&user, &attributes)
    }

    fn asked(verb: &'static str, resource: &'static str, namespace: &'static str) -> Attributes<'static> {
        let asked = ResourceAttributes { verb, group: "apps.karmada.io", resource, namespace, ..Default::default() };
        Attributes::Resource(asked)
    }

    #[test]
    fn au2_the_first_rule_that_fits_decides() {
        let path = |path| Attributes::Path { verb: "get", path };
        let level = |found: Option<Scope>| found.map_or(Level::None, |scope| scope.level);
        assert_eq!(scope("system:kube-aggregator", path("/apis")), None);
        assert_eq!(scope("jane", path("/readyz?verbose")), None);
        assert_eq!(level(scope("jane", path("/apis"))), Level::Metadata);
        assert_eq!(level(scope("jane", asked("create", "workloadrebalancers", ""))), Level::RequestResponse);
        assert_eq!(level(scope("jane", asked("create", "workloadrebalancers", "shop"))), Level::RequestResponse);
        assert_eq!(level(scope("jane", asked("update", "workloadrebalancers", "shop"))), Level::Request);
        assert_eq!(level(scope("jane", asked("update", "workloadrebalancers", ""))), Level::Metadata);
    }

    #[test]
    fn au3_stages_are_omitted_by_the_policy_and_by_the_rule() {
        let scope = scope("jane", asked("watch", "things", "shop")).unwrap();
        let taken = [Stage::RequestReceived, Stage::ResponseStarted, Stage::ResponseComplete, Stage::Panic];
        assert_eq!(taken.map(|stage| scope.takes(stage)), [false, false, true, true]);
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        assert!(Policy::parse("rules: []").is_err());
        let unknown = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, user: [a]}]";
        assert!(Policy::parse(unknown).is_err());
        let mixed = "apiVersion: audit.k8s.io/v1\nkind: Policy\n\
                     rules: [{level: Metadata, namespaces: [a], nonResourceURLs: [/x]}]";
        assert!(matches!(Policy::parse(mixed), Err(PolicyError::Mixed(1))));
    }
}
