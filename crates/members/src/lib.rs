//! The API servers of member clusters, for requests that go through `clusters/{name}/proxy`.
//!
//! A request is sent to `spec.apiEndpoint` of the Cluster, with the token of its impersonator and
//! headers that name the user who asked, so the member decides what that user may do there (CP2).
//!
//! *Invariants.* No credential of a client leaves this server, and no client chooses the user that
//! the member sees. A member that is down, slow or sends nonsense is a 503 or 504 that names it.
//! Every wait for one has a bound.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `secrets`: where the credentials for members are
//! - `connector`: opens connections to members, through proxies and TLS
//! - `request`: a client's request as the member gets it
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

/// The number of members whose prepared clients are kept.
const CLIENTS_MAX: u64 = 1024;
/// How long a client is used before its secrets are read again.
const CLIENT_AGE_MAX: Duration = Duration::from_secs(60);
/// After a failure the secrets are read again at once, unless the client is younger than this.
const CLIENT_AGE_MIN: Duration = Duration::from_secs(2);
/// The longest time to the head of an answer. A Kubernetes API server ends a request that is
/// neither a watch nor a stream after half of this time.
const HEAD_MAX: Duration = Duration::from_secs(120);

/// The members of one deployment.
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

    /// Makes the next request read the secrets again, because they may have changed.
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

/// Decodes only the spec. A status may be large, and is not needed to reach the member.
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

/// 400: the Cluster does not say how it is reached.
fn unusable(name: &str, field: &str, message: &str) -> Status {
    let causes =
        vec![Cause { reason: "FieldValueInvalid".to_owned(), message: message.to_owned(), field: field.to_owned() }];
    Status::bad_request(format!("cluster {name:?} cannot be reached: {field}: {message}"))
        .with(Details { causes, ..details(name) })
}

/// 503: the member, or something that is needed to reach it, is not available at the moment.
fn unreachable(name: &str, why: &str) -> Status {
    let causes = vec![Cause { message: why.to_owned(), ..Cause::default() }];
    tracing::debug!(cluster = name, why, "a member cluster is out of reach");
    Status::unavailable(format!("cluster {name:?} is out of reach: {why}"))
        .with(Details { causes, ..details(name) })
        .already_logged()
}
