//! The embedded server: a log in memory, the registry, the reflector, and the router, called as a
//! function.
//!
//! There is no port, so only this process can send requests, and they need no authentication: a
//! port on the loopback address would need a credential, and other users of the machine could try
//! it. Requests pass the usual layers. Writes are rejected before them, with a hint at a server
//! that stores them.

use std::sync::Arc;

use anyhow::anyhow;
use axum::body::Body;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use kube::Client;
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt;

use super::MANUAL;
use ballast_attach::{Access, Progress, ReflectorScope, Upstream};
use ballast_auth::{Authenticator, Authorizer, OPEN_PATHS, Policy, Trust};
use ballast_base::clock::{Clock, SystemClock};
use ballast_engine::karmada::Profile;
use ballast_k8s::{Query, Status};
use ballast_node::assembly;
use ballast_node::attached::{self, Attachment, RunningReflector};
use ballast_node::kubeconfig::Connected;
use ballast_resource::Kinds;
use ballast_server::{self as server, App, Cors, Documents, InFlight, Shutdown};
use ballast_store::MemoryStore;
use ballast_watch::{self as watch, Cache, Limits, View};
use ballast_worker::events::Recorder;

/// Maximum number of concurrent requests. A command sends one, and the page's proxy limits its own.
const REQUESTS_MAX: usize = 400;
/// The user of dry runs of rebalances. No other user may create them, so the page offers no
/// rebalance.
const PLANNER: &str = "dry-run";
/// All requests come from this process. It may read everything, and request reviews.
const POLICY: &str = "
rules:
- groups: ['system:unauthenticated']
  verbs: [get, list, watch]
  apiGroups: ['*']
  resources: ['*']
- groups: ['system:unauthenticated']
  verbs: [get, head]
  paths: ['*']
- groups: ['system:unauthenticated']
  verbs: [create]
  apiGroups: [ballast.dev]
  resources: [placementreviews, localplacementreviews, fleetreviews, localfleetreviews]
- groups: ['system:unauthenticated']
  verbs: [create]
  apiGroups: [authorization.k8s.io, authentication.k8s.io]
  resources: [selfsubjectaccessreviews, selfsubjectrulesreviews, selfsubjectreviews]
- groups: ['system:unauthenticated']
  verbs: [impersonate]
  apiGroups: ['']
  resources: [users]
  resourceNames: [dry-run]
- users: [dry-run]
  verbs: [create]
  apiGroups: [ballast.dev]
  resources: [rebalances, clusterrebalances]
";
/// Resources that are created but not stored: reviews.
const QUESTIONS: [&str; 7] = [
    "placementreviews",
    "localplacementreviews",
    "fleetreviews",
    "localfleetreviews",
    "selfsubjectaccessreviews",
    "selfsubjectrulesreviews",
    "selfsubjectreviews",
];

pub struct InProcess {
    /// The client of the server.
    pub client: Client,
    cache: Cache,
    writing: watch::Task,
    progress: Progress,
    mirror: AbortOnDropHandle<()>,
}

impl InProcess {
    /// Starts an empty server with this profile, and the reflector that fills it.
    pub async fn start(
        home: &Connected,
        kinds: Arc<Kinds>,
        profile: Profile,
        scope: ReflectorScope,
    ) -> anyhow::Result<InProcess> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let store = Arc::new(MemoryStore::new());
        let (cache, writer, writing) = watch::open(store, Arc::clone(&clock), Limits::default()).await?;
        let policy = Policy::parse(POLICY)?;
        let authorizer = Arc::new(Authorizer::new(policy.into(), OPEN_PATHS.map(str::to_owned).to_vec()));
        let profile = attached::profile(profile);
        let documents = Documents::of(&kinds);
        let recorder = Recorder::new(Arc::clone(&clock));
        let upstream = Upstream { client: home.client.clone(), url: home.url.clone() };
        let reflector = Attachment { upstream, access: Access::ReadOnly, scope }.start(&kinds, &cache, &writer);
        let RunningReflector { attached, progress, task, .. } = reflector;
        let registry = assembly::registry(kinds, cache.clone(), writer, &authorizer, &clock, &recorder, &profile);
        let registry = registry.with_remote_store(attached);
        let app = App {
            documents,
            registry: Arc::new(registry),
            authenticator: Arc::new(Authenticator::new(Trust::default(), Arc::clone(&clock)).with_anonymous()),
            authorizer,
            audit: None,
            clock,
            in_flight: InFlight::new(REQUESTS_MAX, REQUESTS_MAX),
            replicas: None,
            proxy: None,
            checks: Vec::new(),
            shutdown: Shutdown::default(),
            has_page: false,
            surroundings: String::new(),
            cors: Cors::default(),
        };
        let client = client(server::router(app), &home.url);
        Ok(InProcess { client, cache, writing, progress, mirror: AbortOnDropHandle::new(task) })
    }

    pub fn view(&self) -> Arc<View> {
        self.cache.view()
    }

    /// Returns the progress of the reflector.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Waits until a part of the server ends unexpectedly, and returns the reason.
    pub async fn ended(&mut self) -> anyhow::Error {
        let writing = async {
            match (&mut self.writing).await {
                Ok(Ok(())) => anyhow!("the log in memory has ended"),
                Ok(Err(error)) => anyhow::Error::new(error).context("the log in memory failed"),
                Err(error) => anyhow::Error::new(error).context("the log in memory panicked"),
            }
        };
        let reflector = async {
            match (&mut self.mirror).await {
                Ok(()) => anyhow!("the mirror has ended"),
                Err(error) => anyhow::Error::new(error).context("the mirror panicked"),
            }
        };
        tokio::select! {
            why = writing => why,
            why = reflector => why,
        }
    }
}

/// Returns a client with requests that call the router directly.
fn client(router: axum::Router, home: &str) -> Client {
    let home: Arc<str> = home.into();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (router, home) = (router.clone(), Arc::clone(&home));
        async move {
            match admitted(request.map(Body::new)) {
                Ok(request) => router.oneshot(request).await,
                Err(what) => Ok(refused(&what, &home)),
            }
        }
    });
    Client::new(service, "default")
}

/// Admits reviews. A dry run acts as the user with permission to create one.
///
/// # Errors
///
/// Returns an error that names the resource if the request would write.
fn admitted(mut request: Request<Body>) -> Result<Request<Body>, String> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(request);
    }
    let resource = collection(request.uri().path()).to_owned();
    if request.method() == Method::POST && QUESTIONS.contains(&&*resource) {
        return Ok(request);
    }
    let is_dry = Query::parse(request.uri().query().unwrap_or_default()).first("dryRun") == Some("All");
    if request.method() == Method::POST && is_dry && ["rebalances", "clusterrebalances"].contains(&&*resource) {
        request.headers_mut().insert("impersonate-user", HeaderValue::from_static(PLANNER));
        return Ok(request);
    }
    Err(resource)
}

/// Returns the plural of a resource's path:
/// `/apis/GROUP/VERSION[/namespaces/NAMESPACE]/PLURAL[/NAME]`, or the same below `/api/VERSION`.
fn collection(path: &str) -> &str {
    let is_core = path.starts_with("/api/");
    let mut segments = path.trim_start_matches('/').split('/').skip(if is_core { 2 } else { 3 });
    match segments.next() {
        Some("namespaces") => segments.nth(1).unwrap_or("namespaces"),
        plural => plural.unwrap_or_default(),
    }
}

fn refused(what: &str, home: &str) -> Response<Body> {
    let message = format!(
        "{what} cannot be written here: this only looks at {home}, a Karmada without Ballast ({MANUAL} says how Ballast \
         moves workloads there)"
    );
    let status = Status::failure(405, "MethodNotAllowed", message);
    let mut answer = Response::new(Body::from(serde_json::to_vec(&status).unwrap_or_default()));
    *answer.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, target: &str) -> Request<Body> {
        Request::builder().method(method).uri(target).body(Body::empty()).unwrap()
    }

    #[test]
    fn questions_pass_and_writes_do_not() {
        let passes = |method: Method, target: &str| admitted(request(method, target)).is_ok();
        let own = "/apis/ballast.dev/v1alpha1";
        assert!(passes(Method::GET, "/apis/work.karmada.io/v1alpha2/resourcebindings"));
        assert!(passes(Method::POST, &format!("{own}/placementreviews")));
        assert!(passes(Method::POST, &format!("{own}/namespaces/shop/localplacementreviews")));
        assert!(passes(Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"));
        assert!(passes(Method::POST, &format!("{own}/clusterrebalances?dryRun=All")));
        assert!(!passes(Method::POST, &format!("{own}/clusterrebalances")));
        assert!(!passes(Method::POST, &format!("{own}/clusterrebalances?dryRun=None&dryRun=All")));
        assert!(!passes(Method::PATCH, &format!("{own}/placementreviews/x?dryRun=All")));
        for method in [Method::PUT, Method::PATCH, Method::DELETE, Method::POST] {
            let wrong = admitted(request(method, "/apis/work.karmada.io/v1alpha2/namespaces/a/resourcebindings/b"));
            assert_eq!(wrong.unwrap_err(), "resourcebindings");
        }
        assert_eq!(collection("/api/v1/namespaces/shop/events"), "events");
    }

    #[test]
    fn the_policy_names_the_planner() {
        assert!(Policy::parse(POLICY).is_ok());
        assert_eq!(POLICY.matches(PLANNER).count(), 2);
    }
}
