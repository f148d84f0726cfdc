//! A fake Karmada without Ballast: another Ballast without running workers, behind a front that
//! hides `ballast.dev`, records each request and can reject some.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use super::server::TestServer;

pub struct Karmada {
    pub home: TestServer,
    front: Front,
}

/// The front of a server, which hides that the server is a Ballast.
pub struct Front {
    shared: Arc<Shared>,
    folder: TempDir,
    _serving: AbortOnDropHandle<()>,
}

struct Shared {
    client: kube::Client,
    seen: Mutex<Vec<(Method, String)>>,
    refuses: Mutex<Vec<Refusal>>,
}

/// The response codes of requests with these parts in method and target.
struct Refusal {
    part: &'static str,
    code: StatusCode,
}

impl Karmada {
    pub async fn start() -> Karmada {
        let home = TestServer::start().await;
        let front = Front::before(home.kube().await).await;
        Karmada { home, front }
    }

    pub fn folder(&self) -> &Path {
        self.front.folder.path()
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.front.kubeconfig()
    }

    /// Rejects requests with this part in `METHOD target` from now on.
    pub fn refuse(&self, part: &'static str, code: StatusCode) {
        self.front.refuse(part, code);
    }

    /// Returns and clears the recorded requests.
    pub fn seen(&self) -> Vec<(Method, String)> {
        std::mem::take(&mut self.front.shared.seen.lock().unwrap())
    }

    /// The revision of the log upstream.
    pub fn revision(&self) -> i64 {
        self.home.registry.cache().view().revision.0
    }

    /// Creates an object upstream, and writes its status if it has one.
    pub async fn keep(&self, collection: &str, object: &Value) {
        let (client, name) = (&self.front.shared.client, object["metadata"]["name"].as_str().unwrap());
        let send = async |method: Method, path: &str, kind: &str, body: &Value| {
            let request = Request::builder().method(method).uri(path).header("content-type", kind);
            let request = request.body(serde_json::to_vec(body).unwrap()).unwrap();
            let _done: Value = client.request(request).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        };
        send(Method::POST, collection, "application/json", object).await;
        if let Some(status) = object.get("status") {
            let (path, patch) = (format!("{collection}/{name}/status"), json!({"status": status}));
            send(Method::PATCH, &path, "application/merge-patch+json", &patch).await;
        }
    }
}

impl Front {
    pub async fn before(client: kube::Client) -> Front {
        let shared = Arc::new(Shared { client, seen: Mutex::default(), refuses: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "karmada",
            "clusters": [{"name": "karmada", "cluster": {"server": url}}],
            "users": [{"name": "me", "user": {}}],
            "contexts": [{"name": "karmada", "context": {"cluster": "karmada", "user": "me"}}],
        });
        std::fs::write(folder.path().join("karmada.kubeconfig"), kubeconfig.to_string()).unwrap();
        let asked = Arc::clone(&shared);
        let router = axum::Router::new().fallback(move |request| answer(Arc::clone(&asked), request));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Front { shared, folder, _serving: AbortOnDropHandle::new(serving) }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("karmada.kubeconfig")
    }

    /// Rejects requests with this part in `METHOD target` from now on.
    pub fn refuse(&self, part: &'static str, code: StatusCode) {
        self.shared.refuses.lock().unwrap().push(Refusal { part, code });
    }
}

async fn answer(front: Arc<Shared>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().unwrap().to_string();
    front.seen.lock().unwrap().push((parts.method.clone(), target.clone()));
    let line = format!("{} {target}", parts.method);
    let refused = front.refuses.lock().unwrap().iter().find(|it| line.contains(it.part)).map(|it| it.code);
    if let Some(code) = refused {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "reason": "Refused", "message": format!("{line} is refused"), "code": code.as_u16()});
        return Response::builder().status(code).body(Body::from(status.to_string())).unwrap();
    }
    if target.starts_with("/apis/ballast.dev") {
        // The response of kube-apiserver for an unknown group.
        let unknown = Response::builder().status(StatusCode::NOT_FOUND);
        return unknown.body(Body::from("404 page not found\n")).unwrap();
    }
    let mut onward = Request::builder().method(&parts.method).uri(&target);
    for name in ["accept", "content-type"] {
        if let Some(value) = parts.headers.get(name) {
            onward = onward.header(name, value);
        }
    }
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    match front.client.send(onward.body(kube::client::Body::from(body)).unwrap()).await {
        Ok(answer) => answer.map(Body::new),
        Err(error) => {
            let broken = Response::builder().status(StatusCode::BAD_GATEWAY);
            broken.body(Body::from(error.to_string())).unwrap()
        }
    }
}
