//! The authorization policy of a standalone server, from a YAML file.
//!
//!     rules:
//!     - groups: [ops]
//!       verbs: [get, list, watch, create]
//!       apiGroups: [apps.karmada.io]
//!       resources: [workloadrebalancers, workloadrebalancers/status]
//!     - users: [prometheus]
//!       verbs: [get]
//!       paths: [/metrics]
//!
//! A rule contains users and groups, and either resources or paths. Rules only allow; nothing
//! denies. Every authenticated user may also read discovery and OpenAPI and review its own
//! permissions, like the roles system:discovery and system:basic-user of a Kubernetes cluster.
//! Without a file there are no other rules.

use serde::Deserialize;
use serde_json::{Value, json};

use super::attributes::{Attributes, ResourceAttributes};
use super::well_known::AUTHENTICATED;
use ballast_k8s::User;
use ballast_k8s::suggestion::Hints;

/// The verbs of requests.
const VERBS: [&str; 13] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "head",
    "impersonate",
    "list",
    "options",
    "patch",
    "post",
    "put",
    "update",
    "watch",
];

/// Groups of resources that are not objects of this server: impersonation and reviews.
const OTHER_GROUPS: [&str; 3] = ["", "authentication.k8s.io", "authorization.k8s.io"];

/// Paths that kubectl needs for discovery. They reveal nothing about objects.
const DISCOVERY: [&str; 7] = ["/", "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];

/// The reviews of a user's own identity and permissions, by group and resource.
const OWN_REVIEWS: [(&str, &str); 3] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    rules: Vec<PolicyRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PolicyRule {
    users: Vec<String>,
    groups: Vec<String>,
    verbs: Vec<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
    resource_names: Vec<String>,
    /// An empty list means all namespaces, and resources without a namespace too.
    namespaces: Vec<String>,
    paths: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("not a policy: {0}")]
    Unreadable(String),
    #[error("rule {number}: {why}")]
    Rule { number: usize, why: &'static str },
}

impl Policy {
    pub fn parse(text: &str) -> Result<Policy, PolicyError> {
        let policy: Policy =
            serde_saphyr::from_str(text).map_err(|error| PolicyError::Unreadable(error.to_string()))?;
        for (at, rule) in policy.rules.iter().enumerate() {
            if let Some(why) = rule.fault() {
                return Err(PolicyError::Rule { number: at + 1, why });
            }
        }
        Ok(policy)
    }

    /// Returns an error for each verb, group and resource in the rules that no request can have.
    /// `served` contains the resources of the server, as group and plural.
    pub fn unknown_names(&self, served: &[(&str, &str)]) -> Vec<String> {
        let mut hints = Hints::default();
        let mut faults = Vec::new();
        for (at, rule) in self.rules.iter().enumerate() {
            let mut fault = |what: &str, name: &str, known: &mut dyn Iterator<Item = &str>| {
                let text = format!("rule {}: no {what} is named {name:?}", at + 1);
                faults.push(hints.with_suggestion(text, name, known));
            };
            for verb in rule.verbs.iter().filter(|it| *it != "*" && !VERBS.contains(&it.as_str())) {
                fault("verb", verb, &mut VERBS.into_iter());
            }
            let groups = || served.iter().map(|(group, _)| *group);
            let is_other = |group: &String| OTHER_GROUPS.contains(&group.as_str());
            for group in rule.api_groups.iter().filter(|it| *it != "*" && !is_other(it)) {
                if !groups().any(|it| it == group) {
                    fault("API group", group, &mut groups());
                }
            }
            if rule.api_groups.iter().any(is_other) {
                continue;
            }
            let is_named = |group: &str| has(&rule.api_groups, group);
            let plurals = || served.iter().filter(|(group, _)| is_named(group)).map(|(_, plural)| *plural);
            for resource in &rule.resources {
                let plural = resource.split('/').next().unwrap_or_default();
                if plural != "*" && plurals().next().is_some() && !plurals().any(|it| it == plural) {
                    fault("resource of these groups", plural, &mut plurals());
                }
            }
        }
        faults
    }

    pub(super) fn allows(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        is_for_everybody(user, attributes) || self.rules.iter().any(|rule| rule.allows(user, attributes))
    }

    /// Returns the rules for a user in a namespace, as the status of a SelfSubjectRulesReview.
    /// Every client may read `open_paths`.
    pub(super) fn rules(&self, user: &User, namespace: &str, open_paths: &[String]) -> Value {
        let (mut on_objects, mut on_paths) = (Vec::new(), Vec::new());
        if !open_paths.is_empty() {
            on_paths.push(json!({"verbs": ["get"], "nonResourceURLs": open_paths}));
        }
        if user.groups.iter().any(|group| group == AUTHENTICATED) {
            on_paths.push(json!({"verbs": ["get"], "nonResourceURLs": DISCOVERY}));
            let reviews =
                |(group, resource)| json!({"verbs": ["create"], "apiGroups": [group], "resources": [resource]});
            on_objects.extend(OWN_REVIEWS.map(reviews));
        }
        for rule in self.rules.iter().filter(|rule| rule.is_about(user)) {
            let PolicyRule { verbs, api_groups, resources, resource_names, namespaces, paths, .. } = rule;
            if !paths.is_empty() {
                on_paths.push(json!({"verbs": verbs, "nonResourceURLs": paths}));
            } else if namespaces.is_empty() || has(namespaces, namespace) {
                let mut told = json!({"verbs": verbs, "apiGroups": api_groups, "resources": resources});
                if !resource_names.is_empty() {
                    told["resourceNames"] = json!(resource_names);
                }
                on_objects.push(told);
            }
        }
        json!({"resourceRules": on_objects, "nonResourceRules": on_paths, "incomplete": false})
    }
}

fn is_for_everybody(user: &User, attributes: &Attributes<'_>) -> bool {
    let is_open = match attributes {
        Attributes::Path { verb: "get" | "head", path } => DISCOVERY.iter().any(|pattern| fits(pattern, path)),
        Attributes::Path { .. } => false,
        Attributes::Resource(asked) => asked.verb == "create" && OWN_REVIEWS.contains(&(asked.group, asked.resource)),
    };
    is_open && user.groups.iter().any(|group| group == AUTHENTICATED)
}

impl PolicyRule {
    fn fault(&self) -> Option<&'static str> {
        let is_about_objects = !self.api_groups.is_empty() || !self.resources.is_empty();
        if self.users.is_empty() && self.groups.is_empty() {
            return Some("names neither users nor groups");
        }
        if self.verbs.is_empty() {
            return Some("names no verbs");
        }
        match (is_about_objects, self.paths.is_empty()) {
            (true, false) => Some("is about objects and paths; make two of it"),
            (false, true) => Some("names neither apiGroups and resources nor paths"),
            (true, true) if self.api_groups.is_empty() || self.resources.is_empty() => {
                Some("needs both apiGroups and resources")
            }
            _ => None,
        }
    }

    fn allows(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        self.is_about(user)
            && match attributes {
                Attributes::Path { verb, path } => {
                    has(&self.verbs, verb) && self.paths.iter().any(|pattern| fits(pattern, path))
                }
                Attributes::Resource(asked) => self.allows_resource(asked),
            }
    }

    fn is_about(&self, user: &User) -> bool {
        has(&self.users, &user.name) || user.groups.iter().any(|group| has(&self.groups, group))
    }

    fn allows_resource(&self, asked: &ResourceAttributes<'_>) -> bool {
        has(&self.verbs, asked.verb)
            && has(&self.api_groups, asked.group)
            && self.names_resource(asked.resource, asked.subresource)
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == asked.name))
            && (self.namespaces.is_empty() || (!asked.namespace.is_empty() && has(&self.namespaces, asked.namespace)))
    }

    /// Returns whether the rule matches, as in RBAC. A rule covers a subresource by its name, as
    /// `*/status`, or as `*`.
    fn names_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|pattern| match pattern.split_once('/') {
            None => pattern == "*" || (pattern == resource && subresource.is_empty()),
            Some((of, sub)) => (of == "*" || of == resource) && sub == subresource,
        })
    }
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|it| it == "*" || it == name)
}

/// Returns whether a path matches. A pattern is a path, or a prefix of paths followed by `*`.
pub(super) fn fits(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => pattern == path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "
rules:
- groups: [ops]
  verbs: [get, list]
  apiGroups: [work.karmada.io]
  resources: [resourcebindings, '*/status']
  namespaces: [shop]
- users: [jane]
  verbs: ['*']
  apiGroups: ['*']
  resources: [clusters]
  resourceNames: [m1]
- users: [prometheus]
  verbs: [get]
  paths: [/metrics, /debug/*]
";

    fn user(name: &str, groups: &[&str]) -> User {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        User { name: name.to_owned(), groups, ..User::default() }
    }

    fn may(user: &User, verb: &str, resource: &str, namespace: &str, name: &str) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let group = "work.karmada.io";
        let asked = ResourceAttributes {
            verb,
            group,
            version: "v1",
            resource,
            subresource,
            namespace,
            name,
            ..Default::default()
        };
        Policy::parse(POLICY).unwrap().allows(user, &Attributes::Resource(asked))
    }

    #[test]
    fn a_rule_allows_what_all_of_its_parts_name() {
        let ops = user("joe", &["ops"]);
        assert!(may(&ops, "get", "resourcebindings", "shop", "web"));
        assert!(may(&ops, "get", "resourcebindings/status", "shop", "web"));
        assert!(!may(&ops, "delete", "resourcebindings", "shop", "web"), "verb");
        assert!(!may(&ops, "get", "resourcebindings/scale", "shop", "web"), "subresource");
        assert!(!may(&ops, "get", "resourcebindings", "other", "web"), "namespace");
        assert!(!may(&ops, "list", "resourcebindings", "", ""), "all namespaces are more than one");
        assert!(!may(&user("ops", &[]), "get", "resourcebindings", "shop", "web"), "a user is no group");
        let jane = user("jane", &[]);
        assert!(may(&jane, "delete", "clusters", "", "m1") && !may(&jane, "delete", "clusters", "", "m2"));
    }

    #[test]
    fn paths_are_whole_or_a_start() {
        let policy = Policy::parse(POLICY).unwrap();
        let may = |name: &str, groups: &[&str], verb: &str, path: &str| {
            policy.allows(&user(name, groups), &Attributes::Path { verb, path })
        };
        assert!(may("prometheus", &[], "get", "/metrics") && may("prometheus", &[], "get", "/debug/x"));
        assert!(!may("prometheus", &[], "post", "/metrics") && !may("jane", &[], "get", "/metrics"));
        assert!(may("any", &["system:authenticated"], "get", "/apis/apps.karmada.io/v1alpha1"));
        assert!(!may("system:anonymous", &["system:unauthenticated"], "get", "/apis"));
    }

    #[test]
    fn users_may_review_what_they_may_and_nothing_of_others() {
        let ops = user("joe", &["ops", "system:authenticated"]);
        let policy = Policy::parse(POLICY).unwrap();
        let may = |group, resource, verb| {
            let asked = ResourceAttributes { verb, group, version: "v1", resource, ..ResourceAttributes::default() };
            policy.allows(&ops, &Attributes::Resource(asked))
        };
        assert!(may("authorization.k8s.io", "selfsubjectaccessreviews", "create"));
        assert!(!may("authorization.k8s.io", "subjectaccessreviews", "create"));
        assert!(!may("authorization.k8s.io", "selfsubjectaccessreviews", "get"));
        let rules = policy.rules(&ops, "shop", &["/readyz".to_owned()]);
        assert_eq!(rules["nonResourceRules"][0]["nonResourceURLs"], json!(["/readyz"]));
        assert_eq!(rules["resourceRules"][3]["resources"], json!(["resourcebindings", "*/status"]));
        assert_eq!(policy.rules(&ops, "other", &[])["resourceRules"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn names_that_no_request_has_are_found() {
        let served = [("apps.karmada.io", "workloadrebalancers"), ("work.karmada.io", "resourcebindings")];
        let faults = |text: &str| Policy::parse(text).unwrap().unknown_names(&served);
        let rule = |verb: &str, group: &str, resource: &str| {
            faults(&format!(
                "rules: [{{groups: [ops], verbs: ['{verb}'], apiGroups: ['{group}'], resources: ['{resource}']}}]"
            ))
        };
        let nearest = |what: &str, given: &str, known: &str| {
            [format!("rule 1: no {what} is named \"{given}\"; the nearest known name is \"{known}\"")]
        };
        assert_eq!(rule("gett", "apps.karmada.io", "workloadrebalancers"), nearest("verb", "gett", "get"));
        assert_eq!(rule("get", "app.karmada.io", "x"), nearest("API group", "app.karmada.io", "apps.karmada.io"));
        let expected = nearest("resource of these groups", "workloadrebalancer", "workloadrebalancers");
        assert_eq!(rule("get", "apps.karmada.io", "workloadrebalancer/status"), expected);
        for (group, resource) in
            [("*", "*"), ("work.karmada.io", "resourcebindings/status"), ("*", "resourcebindings"), ("", "users")]
        {
            assert_eq!(rule("*", group, resource), Vec::<String>::new(), "{group}/{resource}");
        }
    }

    #[test]
    fn a_rule_that_means_nothing_is_refused() {
        for (text, expected) in [
            ("rules: [{verbs: [get], paths: [/x]}]", "rule 1: names neither users nor groups"),
            ("rules: [{users: [a], paths: [/x]}]", "rule 1: names no verbs"),
            ("rules: [{users: [a], verbs: [get]}]", "rule 1: names neither apiGroups and resources nor paths"),
            ("rules: [{users: [a], verbs: [get], resources: [x]}]", "rule 1: needs both apiGroups and resources"),
        ] {
            assert_eq!(Policy::parse(text).unwrap_err().to_string(), expected);
        }
        assert!(Policy::parse("rules: [{user: [a]}]").is_err(), "a misspelt field would allow less or more than meant");
    }
}
