//! The API servers of member clusters, for requests through `clusters/{name}/proxy`.
//!
//! A request is sent to `spec.apiEndpoint` of the Cluster, with the token of its impersonator and
//! headers that name the requesting user, so the member authorizes that user (CP2).
//!
//! *Invariants.* Credentials of a client never leave this server, and a client cannot choose the
//! user that the member sees. A member that is down, slow or sends invalid data results in a 503 or
//! 504 that names it. Every wait for a member has a timeout.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `secrets`: the credentials for members
//! - `connector`: opens connections to members, through proxies and TLS
//! - `request`: converts a client's request to the request for the member
//! - `member_client`: a prepared HTTP client for one member

mod connector;
mod member_client;
mod request;
mod secrets;

pub use secrets::Secrets;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use http::{Request, Response, StatusCode};
use moka::future::Cache;
use serde::Deserialize;

use self::member_client::{MemberClient, Route};
use ballast_api::karmada::cluster::v1alpha1::{Cluster, ClusterSpec};
use ballast_base::telemetry;
use ballast_k8s::{Cause, Details, Object, Status, User};
use ballast_resource::Resource;
use ballast_server::{ProxyBackend, hop_by_hop};

/// Maximum number of cached clients, one per member.
const CLIENTS_MAX: u64 = 1024;
/// Maximum age of a client. After that its secrets are read again.
const CLIENT_AGE_MAX: Duration = Duration::from_secs(60);
/// Minimum age at which a failure makes the client obsolete, so that its secrets are read again at
/// once.
const CLIENT_AGE_MIN: Duration = Duration::from_secs(2);
/// Maximum time until the head of the response. Kubernetes API servers end requests that are
/// neither watches nor streams after half of this time.
const HEAD_MAX: Duration = Duration::from_secs(120);

/// The member clusters that this server connects to.
pub struct Members {
    secrets: Secrets,
    clients: Cache<Route, Arc<MemberClient>>,
}

impl Members {
    pub fn new(secrets: Secrets) -> Members {
        let clients = Cache::builder().max_capacity(CLIENTS_MAX).time_to_live(CLIENT_AGE_MAX).build();
        Members { secrets, clients }
    }

    async fn member_client(&self, route: &Route) -> Result<Arc<MemberClient>, String> {
        let open = async { MemberClient::open(route, &self.secrets).await.map(Arc::new) };
        self.clients.try_get_with_by_ref(route, open).await.map_err(|why| String::clone(&why))
    }

    /// Evicts the client from the cache, so that the next request reads the secrets again.
    async fn doubt(&self, route: &Route, member_client: &MemberClient) {
        if member_client.age() >= CLIENT_AGE_MIN {
            self.clients.invalidate(route).await;
        }
    }
}

#[async_trait]
impl ProxyBackend for Members {
    async fn answer(
        &self,
        object: &Object,
        path: &str,
        user: &User,
        request: Request<Body>,
    ) -> Result<Response<Body>, Status> {
        let name = &*object.key.name;
        let route = Route::of(&spec(object)?).map_err(|(field, message)| unusable(name, field, &message))?;
        let target = request::target(&route.endpoint, path, request.uri().query())?;
        let member_client = self.member_client(&route).await.map_err(|why| unreachable(name, &why))?;
        let asked = request::to_member(request, target, user, &member_client.token)?;
        match tokio::time::timeout(HEAD_MAX, member_client.client.request(asked)).await {
            Ok(Ok(mut answer)) => {
                if answer.status() == StatusCode::UNAUTHORIZED {
                    self.doubt(&route, &member_client).await;
                }
                let protocol = hop_by_hop::upgrade(answer.headers());
                hop_by_hop::remove(answer.headers_mut());
                if answer.status() == StatusCode::SWITCHING_PROTOCOLS
                    && let Some(protocol) = protocol
                {
                    hop_by_hop::request_upgrade(answer.headers_mut(), protocol);
                }
                Ok(answer.map(Body::new))
            }
            Ok(Err(error)) => {
                if error.is_connect() {
                    self.doubt(&route, &member_client).await;
                }
                Err(unreachable(name, &telemetry::with_causes(&error)))
            }
            Err(_) => {
                let message = format!("cluster {name:?} did not answer within {} seconds", HEAD_MAX.as_secs());
                Err(Status::failure(504, "Timeout", message).with(details(name)).already_logged())
            }
        }
    }
}

/// Decodes only the spec. The status may be large and is not needed here.
fn spec(object: &Object) -> Result<ClusterSpec, Status> {
    #[derive(Deserialize)]
    struct Part {
        spec: ClusterSpec,
    }
    serde_json::from_slice::<Part>(&object.text.whole()).map(|part| part.spec).map_err(Status::internal)
}

fn details(name: &str) -> Details {
    Details::of(Cluster::resource(), name)
}

/// Returns a 400: the Cluster does not specify how to reach the member.
fn unusable(name: &str, field: &str, message: &str) -> Status {
    let causes =
        vec![Cause { reason: "FieldValueInvalid".to_owned(), message: message.to_owned(), field: field.to_owned() }];
    Status::bad_request(format!("cluster {name:?} cannot be reached: {field}: {message}"))
        .with(Details { causes, ..details(name) })
}

/// Returns a 503: the member, or a prerequisite for reaching it, is currently unavailable.
fn unreachable(name: &str, why: &str) -> Status {
    let causes = vec![Cause { message: why.to_owned(), ..Cause::default() }];
    tracing::debug!(cluster = name, why, "a member cluster is out of reach");
    Status::unavailable(format!("cluster {name:?} is out of reach: {why}"))
        .with(Details { causes, ..details(name) })
        .already_logged()
}
