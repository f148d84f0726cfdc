//! The serving certificate in the host cluster: a Secret that the pods mount, and the `caBundle` of
//! the APIServices that the aggregator trusts.
//!
//! The aggregator must trust a new CA before any pod serves a certificate that the CA signed.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::connect::Host;

const CALL_MAX: Duration = Duration::from_secs(30);
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const CAS: &str = "ca.crt";

/// A certificate with its key and the CAs, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub certificate: String,
    pub key: String,
    /// The CA of the certificate, and the CA of the previous certificate.
    pub cas: String,
}

/// The certificate of a Service, stored in a Secret in the same namespace.
pub struct ServingCert {
    host: Host,
    namespace: String,
    service: String,
    secrets: Api<Secret>,
    secret: String,
}

#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error("failed to {action}: no answer in time")]
    Slow { action: &'static str },
    #[error("failed to {action}")]
    Call {
        action: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
}

impl ServingCert {
    /// Returns the certificate of this service, stored in this secret. Both are in `namespace`.
    pub fn new(host: Host, namespace: &str, service: &str, secret: &str) -> ServingCert {
        let secrets = Api::namespaced(host.client.clone(), namespace);
        ServingCert {
            host,
            namespace: namespace.to_owned(),
            service: service.to_owned(),
            secrets,
            secret: secret.to_owned(),
        }
    }

    /// Reads the Secret. Returns `None` if it or a part of it is missing.
    pub async fn load(&self) -> Result<Option<Pair>, PublishError> {
        let found = call("read the Secret", self.secrets.get_opt(&self.secret)).await?;
        let data = found.and_then(|secret| secret.data).unwrap_or_default();
        let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
        let pair = || Some(Pair { certificate: text(CERTIFICATE)?, key: text(KEY)?, cas: text(CAS)? });
        Ok(pair())
    }

    /// Writes these CAs into every APIService of the service. Returns the names of the APIServices
    /// that changed.
    pub async fn trust(&self, cas: &str) -> Result<Vec<String>, PublishError> {
        let services: Api<APIService> = Api::all(self.host.client.clone());
        let all = call("list the APIServices", services.list(&ListParams::default())).await?;
        let bundle = ByteString(cas.as_bytes().to_vec());
        let mut changed = Vec::new();
        for registered in all {
            let Some(spec) = &registered.spec else { continue };
            let is_ours = spec.service.as_ref().is_some_and(|service| {
                service.namespace.as_ref() == Some(&self.namespace) && service.name.as_ref() == Some(&self.service)
            });
            if !is_ours || spec.ca_bundle.as_ref() == Some(&bundle) {
                continue;
            }
            let name = registered.name_any();
            let patch = Patch::Merge(json!({"spec": {"caBundle": bundle}}));
            call("change an APIService", services.patch(&name, &PatchParams::default(), &patch)).await?;
            changed.push(name);
        }
        Ok(changed)
    }

    /// Writes the pair into the Secret.
    pub async fn store(&self, pair: &Pair) -> Result<(), PublishError> {
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let data = BTreeMap::from([
            (CERTIFICATE.to_owned(), bytes(&pair.certificate)),
            (KEY.to_owned(), bytes(&pair.key)),
            (CAS.to_owned(), bytes(&pair.cas)),
        ]);
        let found = call("read the Secret", self.secrets.get_opt(&self.secret)).await?;
        let params = PostParams::default();
        match found {
            Some(mut secret) => {
                secret.data = Some(data);
                call("write the Secret", self.secrets.replace(&self.secret, &params, &secret)).await?;
            }
            None => {
                let metadata = ObjectMeta { name: Some(self.secret.clone()), ..ObjectMeta::default() };
                let kind = Some("kubernetes.io/tls".to_owned());
                let secret = Secret { metadata, type_: kind, data: Some(data), ..Secret::default() };
                call("write the Secret", self.secrets.create(&params, &secret)).await?;
            }
        }
        Ok(())
    }
}

async fn call<T>(action: &'static str, asked: impl Future<Output = Result<T, kube::Error>>) -> Result<T, PublishError> {
    match tokio::time::timeout(CALL_MAX, asked).await {
        Ok(answer) => answer.map_err(|source| PublishError::Call { action, source: Box::new(source) }),
        Err(_) => Err(PublishError::Slow { action }),
    }
}
