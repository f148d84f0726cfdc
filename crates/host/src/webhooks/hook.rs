//! One webhook: its match rules, and its endpoint.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, RuleWithOperations, ValidatingWebhook, WebhookClientConfig,
};
use kube::core::{Selector, SelectorExt};
use kube::{Client, Config};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Map, Value};

use super::call::Review;
use crate::namespaces::Known;
use crate::questions::authorizer;
use crate::rules::{Rule, Written, labels, selector};
use ballast_base::log_limit::LogLimit;
use ballast_k8s::{Details, Status};
use ballast_policies::{AccessAnswers, Inputs, Judged, MatchConditions, Value as Evaluated};
use ballast_registry::AdmissionAttributes;
use ballast_resource::ResourceKind;

/// kube-apiserver's default.
const TIMEOUT_DEFAULT_SECONDS: i32 = 10;
const TIMEOUT_SECONDS_MAX: i32 = 30;

/// One webhook of a configuration, ready to be called.
pub struct Hook {
    pub name: String,
    /// The name of the configuration that contains it.
    pub configuration: String,
    pub timeout: Duration,
    /// Whether a failed call denies the request (failure policy `Fail`).
    pub fails_closed: bool,
    /// Whether it may be called for a dry run.
    pub supports_dry_run: bool,
    /// The endpoint, or why the webhook cannot be called.
    pub endpoint: Result<Endpoint, String>,
    /// Whether it is called again if another webhook changed the object after it.
    pub is_reinvocable: bool,
    /// Whether a rule for one version matches the other versions of a kind too.
    matches_equivalents: bool,
    rules: Vec<RuleWithOperations>,
    namespaces: Result<Selector, String>,
    objects: Result<Selector, String>,
    conditions: MatchConditions,
    /// Limits the log lines about its failures.
    pub told: LogLimit,
}

/// The endpoint of a webhook.
pub struct Endpoint {
    pub client: Client,
    /// The path with the query.
    pub path: String,
}

impl Hook {
    /// Parses a mutating webhook of this configuration.
    pub fn of_mutating(configuration: &str, hook: MutatingWebhook) -> Hook {
        let is_reinvocable = hook.reinvocation_policy.as_deref() == Some("IfNeeded");
        let read = ValidatingWebhook {
            name: hook.name,
            timeout_seconds: hook.timeout_seconds,
            failure_policy: hook.failure_policy,
            side_effects: hook.side_effects,
            client_config: hook.client_config,
            rules: hook.rules,
            namespace_selector: hook.namespace_selector,
            object_selector: hook.object_selector,
            match_conditions: hook.match_conditions,
            match_policy: hook.match_policy,
            admission_review_versions: hook.admission_review_versions,
        };
        Hook { is_reinvocable, ..Hook::of_validating(configuration, read) }
    }

    /// Parses a validating webhook of this configuration. If a part is invalid, calls of the
    /// webhook fail.
    pub fn of_validating(configuration: &str, hook: ValidatingWebhook) -> Hook {
        let seconds = hook.timeout_seconds.unwrap_or(TIMEOUT_DEFAULT_SECONDS).clamp(1, TIMEOUT_SECONDS_MAX);
        let endpoint = match hook.admission_review_versions.iter().any(|version| version == "v1") {
            true => endpoint(hook.client_config),
            false => Err("it does not take AdmissionReview v1".to_owned()),
        };
        let fails_closed = hook.failure_policy.as_deref() != Some("Ignore");
        let conditions = hook.match_conditions.into_iter().flatten().map(|it| (it.name, it.expression));
        let conditions = MatchConditions::read(conditions, fails_closed);
        warn_of_unreadable(&hook.name, &conditions);
        Hook {
            conditions,
            told: LogLimit::new(),
            name: hook.name,
            configuration: configuration.to_owned(),
            timeout: Duration::from_secs(seconds.unsigned_abs().into()),
            fails_closed,
            supports_dry_run: matches!(&*hook.side_effects, "None" | "NoneOnDryRun"),
            endpoint,
            is_reinvocable: false,
            matches_equivalents: hook.match_policy.as_deref() != Some("Exact"),
            rules: hook.rules.unwrap_or_default(),
            namespaces: selector(hook.namespace_selector),
            objects: selector(hook.object_selector),
        }
    }

    /// Returns the version of the kind in which the rules match this write. The caller's own
    /// version has precedence.
    pub fn matching_version<'a>(&self, attributes: &AdmissionAttributes<'a>) -> Option<&'a ResourceKind> {
        if self.rules_name(attributes, attributes.row) {
            return Some(attributes.row);
        }
        let mut others = attributes.other_versions();
        others.find(|row| self.matches_equivalents && self.rules_name(attributes, row))
    }

    fn rules_name(&self, attributes: &AdmissionAttributes<'_>, row: &ResourceKind) -> bool {
        self.rules_match(&Written::of(attributes, row))
    }

    /// Returns whether the rules match such a write.
    pub fn rules_match(&self, written: &Written<'_>) -> bool {
        self.rules.iter().any(|rule| {
            let rule = Rule {
                operations: &rule.operations,
                groups: &rule.api_groups,
                versions: &rule.api_versions,
                resources: &rule.resources,
                scope: rule.scope.as_deref(),
            };
            rule.matches(written)
        })
    }

    /// Returns whether the webhook has a namespace selector that must be evaluated for the write. A
    /// namespace selector does not exclude objects without a namespace.
    pub fn reads_namespace(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        !attributes.namespace.is_empty() && self.namespaces.as_ref().is_ok_and(|selector| !selector.selects_all())
    }

    /// Returns whether the object selector matches. Returns an error if a selector is invalid and
    /// the failure policy is `Fail`.
    pub fn selects_object(&self, review: &Review<'_>) -> Result<bool, Status> {
        let objects = match self.namespaces.as_ref().and(self.objects.as_ref()) {
            Ok(objects) => objects,
            Err(_) if !self.fails_closed => return Ok(false),
            Err(why) => return Err(self.failure(why)),
        };
        let is_labelled = |object: Option<&Map<String, Value>>| object.is_some_and(|it| objects.matches(&labels(it)));
        Ok(objects.selects_all() || is_labelled(review.object) || is_labelled(review.old))
    }

    /// Returns whether the namespace selector matches.
    pub fn selects_namespace(&self, namespace: &Known) -> bool {
        self.namespaces.as_ref().is_ok_and(|selector| selector.matches(&namespace.labels))
    }

    /// Returns whether all match conditions hold, evaluated as for policies.
    pub fn is_wanted(&self, review: &Review<'_>, answers: &AccessAnswers) -> Judged<Result<bool, Status>> {
        if self.conditions.conditions.is_empty() {
            return Ok(Ok(true));
        }
        let variables = review.variables();
        let inputs = Inputs {
            object: Evaluated::of(&variables["object"]),
            old_object: Evaluated::of(&variables["oldObject"]),
            request: Evaluated::of(&variables["request"]),
            params: Evaluated::Null,
            namespace: Evaluated::Null,
            authorizer: Some(authorizer(review.attributes)),
            answers,
        };
        let held = self.conditions.holds(&inputs)?;
        Ok(held.map_err(|failure| forbidden(review, &failure.message)))
    }

    /// Returns the error after a failed call, with kube-apiserver's text.
    pub fn failure(&self, why: &str) -> Status {
        let name = &self.name;
        let message = format!("Internal error occurred: failed calling webhook {name:?}: {why}");
        Status::failure(500, "InternalError", message)
    }
}

/// Logs invalid match conditions once, and not again with every request that the webhook denies.
fn warn_of_unreadable(webhook: &str, conditions: &MatchConditions) {
    for condition in &conditions.conditions {
        if let Err(why) = &condition.expression {
            let condition = &condition.name;
            tracing::warn!(webhook, condition, why, "a match condition cannot be read; its webhook counts as failed");
        }
    }
}

fn forbidden(review: &Review<'_>, why: &str) -> Status {
    let (resource, name) = (review.attributes.row.resource, review.attributes.name);
    let message = format!("{resource} {name:?} is forbidden: {why}");
    Status::failure(403, "Forbidden", message).with(Details::of(resource, name))
}

fn endpoint(config: WebhookClientConfig) -> Result<Endpoint, String> {
    let (url, name) = match (config.url, config.service) {
        (Some(url), _) => (url, None),
        (None, Some(service)) => {
            let host = format!("{}.{}.svc", service.name, service.namespace);
            let path = service.path.unwrap_or_default();
            let path = path.trim_start_matches('/');
            (format!("https://{host}:{}/{path}", service.port.unwrap_or(443)), Some(host))
        }
        (None, None) => return Err("it names neither a URL nor a service".to_owned()),
    };
    let uri: http::Uri = url.parse().map_err(|error| format!("its URL makes no sense: {error}"))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let authority = uri.authority().ok_or("its URL names no host")?;
    let scheme = uri.scheme_str().unwrap_or("https");
    let base = format!("{scheme}://{authority}").parse().map_err(|error| format!("its URL makes no sense: {error}"))?;
    let mut client = Config::new(base);
    client.default_retry = false;
    client.tls_server_name = name;
    if let Some(bundle) = config.ca_bundle.filter(|bundle| !bundle.0.is_empty()) {
        let certificates = CertificateDer::pem_slice_iter(&bundle.0)
            .map(|certificate| certificate.map(|it| it.to_vec()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("its caBundle cannot be read: {error}"))?;
        client.root_cert = Some(certificates);
    }
    let client = Client::try_from(client).map_err(|error| format!("no connection can be prepared: {error}"))?;
    Ok(Endpoint { client, path })
}
