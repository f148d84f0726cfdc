//! A webhook over HTTPS, with a certificate of its own CA.

use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::pki::Ca;

type Rule = Box<dyn Fn(&Value) -> Option<Value> + Send + Sync>;

/// The webhook stops when it is dropped.
pub struct Webhook {
    port: u16,
    ca: Ca,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

struct Shared {
    rule: Mutex<Rule>,
    asked: Mutex<Vec<Value>>,
    changed: watch::Sender<()>,
}

impl Webhook {
    /// Starts a webhook. `rule` receives a request and returns the response without its uid. On
    /// `None` the response is delayed until another rule returns one.
    pub async fn start(folder: &Path, rule: impl Fn(&Value) -> Option<Value> + Send + Sync + 'static) -> Webhook {
        let ca = Ca::new("webhook-ca");
        let (cert, key) = ca.server(folder, &["127.0.0.1"]);
        let chain = CertificateDer::pem_file_iter(cert).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth();
        let config = config.with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap());
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (rule, asked, changed) = (Mutex::new(Box::new(rule) as Rule), Mutex::default(), watch::Sender::new(()));
        let shared = Arc::new(Shared { rule, asked, changed });
        let mut serving = JoinSet::new();
        let known = Arc::clone(&shared);
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, shared) = (acceptor.clone(), Arc::clone(&known));
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
                        let shared = Arc::clone(&shared);
                        async move {
                            let body = request.into_body().collect().await?.to_bytes();
                            let review: Value = serde_json::from_slice(&body).unwrap_or_default();
                            let body = Full::new(Bytes::from(shared.answer(&review["request"]).await.to_string()));
                            Ok::<_, hyper::Error>(http::Response::new(body))
                        }
                    });
                    let http1 = hyper::server::conn::http1::Builder::new();
                    let _gone = http1.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Webhook { port, ca, shared, _serving: serving }
    }

    /// Replaces the rule, also for waiting requests.
    pub fn answer(&self, rule: impl Fn(&Value) -> Option<Value> + Send + Sync + 'static) {
        *self.shared.rule.lock().unwrap() = Box::new(rule);
        self.shared.changed.send_replace(());
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Value> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// The client configuration of the webhook.
    pub fn client_config(&self) -> Value {
        json!({"url": format!("https://127.0.0.1:{}/", self.port), "caBundle": STANDARD.encode(&self.ca.pem)})
    }
}

impl Shared {
    async fn answer(&self, request: &Value) -> Value {
        let mut changed = self.changed.subscribe();
        self.asked.lock().unwrap().push(request.clone());
        loop {
            let answer = (self.rule.lock().unwrap())(request);
            if let Some(mut response) = answer {
                response["uid"] = request["uid"].clone();
                return json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            }
            changed.changed().await.expect("the webhook lives");
        }
    }
}
