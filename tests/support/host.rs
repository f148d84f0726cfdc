//! A fake API server of the host cluster. It reviews tokens and accesses as configured, stores
//! objects for lists and watches, records the requests, and fails on demand.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

pub const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
pub const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// The maximum lag of a slow watcher in events.
const EVENTS_MAX: usize = 1024;

/// The faults of the host cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Responds with this code and a body that is not a Status.
    Code(u16),
    /// Responds 200 with malformed JSON.
    Garbage,
    /// Never responds.
    Hang,
}

type Reviewer = Box<dyn Fn(&Value) -> bool + Send + Sync>;
type Webhook = Box<dyn Fn(&Value) -> Value + Send + Sync>;

pub struct Host {
    pub address: SocketAddr,
    state: Arc<Shared>,
    serving: Arc<Serving>,
}

/// The server's task. It ends with the last `Host` that shares it.
struct Serving(JoinHandle<()>);

struct Shared {
    inner: Mutex<Inner>,
    events: broadcast::Sender<(String, Value)>,
}

struct Inner {
    tokens: BTreeMap<String, Value>,
    may: Reviewer,
    webhooks: BTreeMap<String, Webhook>,
    /// Objects by path, each with its `metadata.resourceVersion`.
    objects: BTreeMap<String, Value>,
    revision: u64,
    asked: Vec<(Method, String, Value)>,
    /// Faults by path prefix.
    faults: BTreeMap<String, Fault>,
}

impl Host {
    /// Starts a host cluster that knows no token and allows nothing.
    pub async fn start() -> Host {
        let inner = Inner {
            tokens: BTreeMap::new(),
            may: Box::new(|_| false),
            webhooks: BTreeMap::new(),
            objects: BTreeMap::new(),
            revision: 1,
            asked: vec![],
            faults: BTreeMap::new(),
        };
        let state = Arc::new(Shared { inner: Mutex::new(inner), events: broadcast::channel(EVENTS_MAX).0 });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = axum::Router::new().fallback(answer).with_state(Arc::clone(&state));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Host { address, state, serving: Arc::new(Serving(serving)) }
    }

    /// The same cluster, for a second server.
    pub fn twin(&self) -> Host {
        Host { address: self.address, state: Arc::clone(&self.state), serving: Arc::clone(&self.serving) }
    }

    pub fn write_kubeconfig(&self, path: &Path) {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: host\n\
             contexts: [{{name: host, context: {{cluster: host, user: ballast}}}}]\n\
             clusters: [{{name: host, cluster: {{server: 'http://{}'}}}}]\n\
             users: [{{name: ballast, user: {{token: ballast-token}}}}]\n",
            self.address
        );
        std::fs::write(path, text).unwrap();
    }

    pub fn know_token(&self, token: &str, user: Value) {
        self.state.inner.lock().unwrap().tokens.insert(token.to_owned(), user);
    }

    pub fn forget_token(&self, token: &str) {
        self.state.inner.lock().unwrap().tokens.remove(token);
    }

    /// Decides SubjectAccessReviews from now on by calling `may` with their spec.
    pub fn allow(&self, may: impl Fn(&Value) -> bool + Send + Sync + 'static) {
        self.state.inner.lock().unwrap().may = Box::new(may);
    }

    /// Sets the webhook at this path. `answer` receives an AdmissionReview and returns the response
    /// without its uid.
    pub fn answer_webhook(&self, path: &str, answer: impl Fn(&Value) -> Value + Send + Sync + 'static) {
        self.state.inner.lock().unwrap().webhooks.insert(path.to_owned(), Box::new(answer));
    }

    pub fn break_below(&self, path: &str, fault: Fault) {
        self.state.inner.lock().unwrap().faults.insert(path.to_owned(), fault);
    }

    /// Fails at exactly this path.
    pub fn break_at(&self, path: &str, fault: Fault) {
        self.break_below(&format!("{path}$"), fault);
    }

    pub fn mend(&self) {
        self.state.inner.lock().unwrap().faults.clear();
    }

    /// Creates or replaces an object, and sends the event to watchers.
    pub fn put(&self, path: &str, object: Value) {
        self.state.put(path, object);
    }

    pub fn remove(&self, path: &str) {
        self.state.remove(path);
    }

    pub fn object(&self, path: &str) -> Option<Value> {
        self.state.inner.lock().unwrap().objects.get(path).cloned()
    }

    /// Returns the objects below the path prefix `path`.
    pub fn objects_below(&self, path: &str) -> Vec<Value> {
        let inner = self.state.inner.lock().unwrap();
        inner.objects.iter().filter(|(at, _)| at.starts_with(path)).map(|(_, object)| object.clone()).collect()
    }

    /// Returns the bodies of all requests to exactly this path.
    pub fn asked(&self, path: &str) -> Vec<Value> {
        let inner = self.state.inner.lock().unwrap();
        inner.asked.iter().filter(|(_, at, _)| at == path).map(|(_, _, body)| body.clone()).collect()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Shared {
    fn put(&self, path: &str, mut object: Value) -> Value {
        let mut inner = self.inner.lock().unwrap();
        inner.revision += 1;
        object["metadata"]["resourceVersion"] = Value::from(inner.revision.to_string());
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = Value::from(path.rsplit('/').next().unwrap());
        }
        let before = inner.objects.insert(path.to_owned(), object.clone());
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        let _nobody_watches = self.events.send((path.to_owned(), json!({"type": kind, "object": object})));
        object
    }

    fn remove(&self, path: &str) -> Option<Value> {
        let mut inner = self.inner.lock().unwrap();
        inner.revision += 1;
        let mut object = inner.objects.remove(path)?;
        object["metadata"]["resourceVersion"] = Value::from(inner.revision.to_string());
        let _nobody_watches = self.events.send((path.to_owned(), json!({"type": "DELETED", "object": object})));
        Some(object)
    }
}

async fn answer(State(state): State<Arc<Shared>>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|it| it.to_bytes()).unwrap_or_default();
    let sent: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let path = parts.uri.path().trim_end_matches('/').to_owned();
    let query: BTreeMap<String, String> =
        form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    let fault = {
        let mut inner = state.inner.lock().unwrap();
        inner.asked.push((parts.method.clone(), path.clone(), sent.clone()));
        let is_broken = |start: &str| path.starts_with(start) || start.strip_suffix('$') == Some(&path);
        inner.faults.iter().find(|(start, _)| is_broken(start)).map(|(_, fault)| *fault)
    };
    match fault {
        Some(Fault::Code(code)) => return (StatusCode::from_u16(code).unwrap(), "broken").into_response(),
        Some(Fault::Garbage) => return (StatusCode::OK, "{\"a\": [").into_response(),
        Some(Fault::Hang) => std::future::pending().await,
        None => {}
    }
    if parts.method == Method::POST && path == TOKEN_REVIEWS {
        return json_answer(StatusCode::CREATED, &review_token(&state, sent));
    }
    if parts.method == Method::POST && path == ACCESS_REVIEWS {
        return json_answer(StatusCode::CREATED, &review_access(&state, sent));
    }
    if let Some(mut response) = state.inner.lock().unwrap().webhooks.get(&path).map(|webhook| webhook(&sent)) {
        response["uid"] = sent["request"]["uid"].clone();
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        return json_answer(StatusCode::OK, &review);
    }
    match parts.method {
        Method::GET if query.contains_key("watch") => watch(&state, path, &query),
        Method::GET => get(&state, &path, &query),
        Method::POST => {
            let generated = || format!("{}x", sent["metadata"]["generateName"].as_str().unwrap_or_default());
            let name = sent["metadata"]["name"].as_str().map_or_else(generated, str::to_owned);
            let at = format!("{path}/{name}");
            if state.inner.lock().unwrap().objects.contains_key(&at) {
                return failure(409, "AlreadyExists");
            }
            json_answer(StatusCode::CREATED, &state.put(&at, sent))
        }
        Method::PUT => {
            let there = state.inner.lock().unwrap().objects.get(&path).cloned();
            let Some(there) = there else { return failure(404, "NotFound") };
            let (sent_at, stored_at) = (&sent["metadata"]["resourceVersion"], &there["metadata"]["resourceVersion"]);
            match sent_at.is_null() || sent_at == stored_at {
                true => json_answer(StatusCode::OK, &state.put(&path, sent)),
                false => failure(409, "Conflict"),
            }
        }
        // Server-side apply, also of a status.
        Method::PATCH if query.contains_key("fieldManager") => {
            let at = path.strip_suffix("/status").unwrap_or(&path);
            let mut there = state.inner.lock().unwrap().objects.get(at).cloned().unwrap_or_else(|| json!({}));
            json_patch::merge(&mut there, &sent);
            json_answer(StatusCode::OK, &state.put(at, there))
        }
        Method::PATCH => {
            let there = state.inner.lock().unwrap().objects.get(&path).cloned();
            let Some(mut there) = there else { return failure(404, "NotFound") };
            json_patch::merge(&mut there, &sent);
            json_answer(StatusCode::OK, &state.put(&path, there))
        }
        Method::DELETE => match state.remove(&path) {
            Some(object) => json_answer(StatusCode::OK, &object),
            None => failure(404, "NotFound"),
        },
        _ => failure(405, "MethodNotAllowed"),
    }
}

fn review_token(state: &Shared, mut review: Value) -> Value {
    let token = review["spec"]["token"].as_str().unwrap_or_default().to_owned();
    review["status"] = match state.inner.lock().unwrap().tokens.get(&token) {
        Some(user) => json!({"authenticated": true, "user": user}),
        None => json!({"authenticated": false, "error": "invalid bearer token"}),
    };
    review
}

fn review_access(state: &Shared, mut review: Value) -> Value {
    let allowed = (state.inner.lock().unwrap().may)(&review["spec"]);
    review["status"] = json!({"allowed": allowed, "reason": if allowed { "said the host" } else { "" }});
    review
}

fn get(state: &Shared, path: &str, query: &BTreeMap<String, String>) -> Response {
    let inner = state.inner.lock().unwrap();
    if let Some(object) = inner.objects.get(path) {
        return json_answer(StatusCode::OK, object);
    }
    let (root, plural) = path.rsplit_once('/').unwrap_or_default();
    let is_item = |at: &str| {
        let is_below = at.strip_prefix(path).and_then(|rest| rest.strip_prefix('/'));
        let of_all = at.strip_prefix(root).and_then(|rest| rest.strip_prefix("/namespaces/"));
        let is_of_plural = |rest: &str| matches!(*rest.split('/').collect::<Vec<_>>(), [_, it, _] if it == plural);
        is_below.is_some_and(|it| !it.contains('/')) || of_all.is_some_and(is_of_plural)
    };
    let items: Vec<&Value> = inner
        .objects
        .iter()
        .filter(|(at, object)| is_item(at) && is_selected(object, query))
        .map(|(_, it)| it)
        .collect();
    // The path ends with a name that does not exist. The last word of a collection has no capital,
    // digit or dash.
    let is_collection = !items.is_empty() || COLLECTIONS.iter().any(|name| path.ends_with(name));
    if !is_collection {
        return failure(404, "NotFound");
    }
    let metadata = json!({"resourceVersion": inner.revision.to_string()});
    json_answer(StatusCode::OK, &json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}))
}

const COLLECTIONS: [&str; 12] = [
    "/clusterprofiles",
    "/placementdecisions",
    "/apiservices",
    "/configmaps",
    "/namespaces",
    "/leases",
    "/events",
    "webhookconfigurations",
    "/secrets",
    "admissionpolicies",
    "admissionpolicybindings",
    "/limits",
];

fn is_selected(object: &Value, query: &BTreeMap<String, String>) -> bool {
    let wanted = query.get("fieldSelector").and_then(|text| text.strip_prefix("metadata.name="));
    wanted.is_none_or(|name| object["metadata"]["name"] == name)
}

fn watch(state: &Shared, path: String, query: &BTreeMap<String, String>) -> Response {
    let after: u64 = query.get("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
    let feed = {
        // Under the lock, so that no event is lost between the list and the subscription.
        let inner = state.inner.lock().unwrap();
        let feed = state.events.subscribe();
        let revision = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
        let missed: Vec<(String, Value)> = inner
            .objects
            .iter()
            .filter(|(_, object)| revision(object) > after)
            .map(|(at, object)| (at.clone(), json!({"type": "MODIFIED", "object": object})))
            .collect();
        (missed.into_iter(), feed)
    };
    let query = query.clone();
    let is_wanted = move |at: &str, event: &Value| {
        let is_item =
            at.strip_prefix(&path).and_then(|rest| rest.strip_prefix('/')).is_some_and(|it| !it.contains('/'));
        is_item && is_selected(&event["object"], &query)
    };
    let lines = stream::unfold((feed, is_wanted), async |((mut missed, mut feed), is_wanted)| {
        loop {
            let (at, event) = match missed.next() {
                Some(event) => event,
                None => feed.recv().await.ok()?,
            };
            if is_wanted(&at, &event) {
                return Some((Ok::<_, Infallible>(format!("{event}\n")), ((missed, feed), is_wanted)));
            }
        }
    });
    Response::builder().header("content-type", "application/json").body(Body::from_stream(lines)).unwrap()
}

fn json_answer(code: StatusCode, value: &Value) -> Response {
    (code, [("content-type", "application/json")], value.to_string()).into_response()
}

fn failure(code: u16, reason: &str) -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": reason, "code": code});
    json_answer(StatusCode::from_u16(code).unwrap(), &status)
}
