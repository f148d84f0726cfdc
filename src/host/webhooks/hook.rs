//! One webhook: what it means, and the way to it.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, RuleWithOperations, ValidatingWebhook, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use kube::{Client, Config};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Map, Value};

use super::call::Review;
use super::condition;
use crate::host::namespaces::Namespaces;
use crate::k8s::Status;
use crate::registry::Asked;

/// Upstream's, and the longest that a webhook may ask for.
const TIMEOUT_DEFAULT_SECONDS: i32 = 10;
const TIMEOUT_SECONDS_MAX: i32 = 30;

pub struct Hook {
    pub name: String,
    pub timeout: Duration,
    /// Whether a failure refuses the request.
    pub fails_closed: bool,
    /// Whether a dry run may reach it.
    pub is_free_of_side_effects: bool,
    /// Where it is called, or why it cannot be.
    pub way: Result<Way, String>,
    rules: Vec<RuleWithOperations>,
    namespaces: Result<Selector, String>,
    objects: Result<Selector, String>,
    conditions: Vec<MatchCondition>,
}

pub struct Way {
    pub client: Client,
    /// With the query.
    pub path: String,
}

impl Hook {
    pub fn of_mutating(hook: MutatingWebhook) -> Hook {
        // What it has more, its reinvocation policy, is not heeded.
        Hook::of_validating(ValidatingWebhook {
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
        })
    }

    pub fn of_validating(hook: ValidatingWebhook) -> Hook {
        let seconds = hook.timeout_seconds.unwrap_or(TIMEOUT_DEFAULT_SECONDS).clamp(1, TIMEOUT_SECONDS_MAX);
        let way = match hook.admission_review_versions.iter().any(|version| version == "v1") {
            true => way(hook.client_config),
            false => Err("it does not take AdmissionReview v1".to_owned()),
        };
        Hook {
            name: hook.name,
            timeout: Duration::from_secs(seconds.unsigned_abs().into()),
            fails_closed: hook.failure_policy.as_deref() != Some("Ignore"),
            is_free_of_side_effects: matches!(&*hook.side_effects, "None" | "NoneOnDryRun"),
            way,
            rules: hook.rules.unwrap_or_default(),
            namespaces: selector(hook.namespace_selector),
            objects: selector(hook.object_selector),
            conditions: hook.match_conditions.unwrap_or_default(),
        }
    }

    /// Whether its rules mean this write.
    pub fn rules_fit(&self, asked: &Asked<'_>) -> bool {
        self.rules.iter().any(|rule| {
            let resources = rule.resources.as_deref().unwrap_or_default();
            let scope = match rule.scope.as_deref() {
                None | Some("*") => true,
                Some("Namespaced") => asked.row.is_namespaced(),
                Some(_) => !asked.row.is_namespaced(),
            };
            scope
                && has(&rule.operations, asked.operation.as_str())
                && has(&rule.api_groups, asked.row.group)
                && has(&rule.api_versions, asked.row.version)
                && resources.iter().any(|pattern| names(pattern, asked.row.plural, asked.subresource))
        })
    }

    /// Whether selectors and conditions mean it too. An error where that cannot be told and the webhook
    /// fails closed.
    pub fn is_meant(&self, review: &Review<'_>, namespaces: &Namespaces) -> Result<bool, Status> {
        match self.selected(review, namespaces) {
            Ok(is_meant) => Ok(is_meant),
            Err(_) if !self.fails_closed => Ok(false),
            Err(why) => Err(self.failure(&why)),
        }
    }

    fn selected(&self, review: &Review<'_>, namespaces: &Namespaces) -> Result<bool, String> {
        let (asked, objects) = (review.asked, self.objects.as_ref().map_err(String::clone)?);
        let in_namespaces = self.namespaces.as_ref().map_err(String::clone)?;
        // What is in no namespace is meant whatever namespaces are selected.
        if !asked.namespace.is_empty() && !in_namespaces.matches(&namespaces.labels(asked.namespace)) {
            return Ok(false);
        }
        let is_labelled = |object: Option<&Map<String, Value>>| object.is_some_and(|it| objects.matches(&labels(it)));
        if !objects.selects_all() && !is_labelled(review.object) && !is_labelled(review.old) {
            return Ok(false);
        }
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let variables = review.variables();
        for MatchCondition { name, expression } in &self.conditions {
            let is_met = condition::evaluate(expression, &variables)
                .ok_or_else(|| format!("its match condition {name:?} is more than this server can evaluate"))?;
            if !is_met {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Refuses in kube-apiserver's words.
    pub fn failure(&self, why: &str) -> Status {
        let name = &self.name;
        let message = format!("Internal error occurred: failed calling webhook {name:?}: {why}");
        Status::failure(500, "InternalError", message)
    }
}

fn has(list: &Option<Vec<String>>, name: &str) -> bool {
    list.iter().flatten().any(|it| it == "*" || it == name)
}

/// `*` means all resources but no subresource, `*/*` all of both.
fn names(pattern: &str, resource: &str, subresource: &str) -> bool {
    let (of, sub) = pattern.split_once('/').unwrap_or((pattern, ""));
    (of == "*" || of == resource) && (sub == subresource || (sub == "*" && pattern.contains('/')))
}

fn selector(selector: Option<LabelSelector>) -> Result<Selector, String> {
    Selector::try_from(selector.unwrap_or_default()).map_err(|error| format!("its selector is malformed: {error}"))
}

fn labels(object: &Map<String, Value>) -> std::collections::BTreeMap<String, String> {
    let labels = object.get("metadata").and_then(|metadata| metadata["labels"].as_object());
    let texts = labels.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    texts.collect()
}

fn way(config: WebhookClientConfig) -> Result<Way, String> {
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
    Ok(Way { client, path })
}
