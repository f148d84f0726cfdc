//! Services of type ExternalName, which name the address of a member cluster's estimator (RM14).

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Api, Client};

use super::connect::Host;
use super::reviews::sentence;
use ballast_estimator::Services;

const CALL_MAX: Duration = Duration::from_secs(5);

/// The Services of one API server.
pub struct ExternalNames {
    client: Client,
}

impl Host {
    /// Returns the external names of the host cluster's Services.
    pub fn external_names(&self) -> ExternalNames {
        ExternalNames::new(self.client.clone())
    }
}

impl ExternalNames {
    pub fn new(client: Client) -> ExternalNames {
        ExternalNames { client }
    }
}

#[async_trait]
impl Services for ExternalNames {
    async fn target(&self, namespace: &str, name: &str, port: u16) -> Result<Option<String>, String> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        match tokio::time::timeout(CALL_MAX, services.get_opt(name)).await {
            Ok(Ok(Some(service))) => target(&service, port).map_err(|why| format!("Service {namespace}/{name}: {why}")),
            Ok(Ok(None)) => Ok(None),
            // Without permission to read Services, DNS may still resolve them.
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => Ok(None),
            Ok(Err(error)) => {
                Err(format!("the API server did not give Service {namespace}/{name}: {}", sentence(&error)))
            }
            Err(_) => Err(format!("the API server did not give Service {namespace}/{name} in time")),
        }
    }
}

/// Returns the target of the Service. `None` if it is not an ExternalName, so DNS resolves it.
fn target(service: &Service, port: u16) -> Result<Option<String>, String> {
    let Some(spec) = service.spec.as_ref().filter(|spec| spec.type_.as_deref() == Some("ExternalName")) else {
        return Ok(None);
    };
    let host = spec.external_name.as_deref().unwrap_or_default();
    if host.is_empty() {
        return Err("its spec.externalName is empty".to_owned());
    }
    let ports = spec.ports.as_deref().unwrap_or_default();
    let found = ports.iter().find(|known| known.port == i32::from(port));
    match found.map(|found| &found.target_port) {
        None => Err(format!("it has no port {port}")),
        Some(None) => Ok(Some(format!("{host}:{port}"))),
        Some(Some(IntOrString::Int(target))) => Ok(Some(format!("{host}:{target}"))),
        Some(Some(IntOrString::String(name))) => Err(format!("its targetPort must be a number, and is {name:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(spec: serde_json::Value) -> Result<Option<String>, String> {
        target(&serde_json::from_value(serde_json::json!({"spec": spec})).unwrap(), 10352)
    }

    #[test]
    fn rm14_a_service_of_type_external_name_says_where() {
        use serde_json::json;
        let named = |port: serde_json::Value| {
            of(json!({"type": "ExternalName", "externalName": "est.example.com", "ports": [port]}))
        };
        assert_eq!(named(json!({"port": 10352, "targetPort": 443})), Ok(Some("est.example.com:443".to_owned())));
        assert_eq!(named(json!({"port": 10352})), Ok(Some("est.example.com:10352".to_owned())));
        assert_eq!(named(json!({"port": 80})), Err("it has no port 10352".to_owned()));
        assert!(named(json!({"port": 10352, "targetPort": "grpc"})).unwrap_err().contains("must be a number"));
        assert_eq!(of(json!({"type": "ClusterIP", "ports": [{"port": 10352}]})), Ok(None));
    }
}
