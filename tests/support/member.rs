//! A fake API server of a member cluster over real TLS. It echoes requests.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use ballast::clock::{Clock, SystemClock};
use ballast::node::certs::{self, Files};
use ballast::server::{self, ConnectionLimits, ServeOptions, Shutdown, Tls};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(30);

/// Responds by path:
///
/// - `/exec` switches to the requested protocol, and echoes bytes in capitals;
/// - `/stream` echoes its body, `/refused` is a 401 and `/gone` a 410;
/// - every other path responds with method, URI, headers and body in JSON.
pub struct Member {
    pub address: SocketAddr,
    pub files: Files,
    shutdown: Shutdown,
    running: JoinHandle<()>,
    _folder: TempDir,
}

impl Member {
    pub async fn start() -> Member {
        let folder = tempfile::tempdir().unwrap();
        let files = certs::ensure(folder.path(), &[], SystemClock.now()).unwrap();
        let (certificate, key) = (fs::read(&files.server_cert).unwrap(), fs::read(&files.server_key).unwrap());
        let tls = Tls::new(&certificate, &key, &[]).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = Shutdown::default();
        let options = ServeOptions {
            limits: ConnectionLimits::default(),
            shutdown: shutdown.clone(),
            delay: Duration::ZERO,
            resets_max: Arc::new(|_| None),
            clock: Arc::new(SystemClock),
        };
        let router = axum::Router::new().fallback(tell);
        let running = tokio::spawn(server::run(listener, tls, router, options));
        Member { address, files, shutdown, running, _folder: folder }
    }

    pub async fn stop(self) {
        self.shutdown.begin();
        tokio::time::timeout(PATIENCE, self.running).await.expect("the member ends").unwrap();
    }
}

async fn tell(mut request: Request<Body>) -> Response<Body> {
    match request.uri().path() {
        "/exec" => {
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut stream = TokioIo::new(upgrade.await.unwrap());
                let mut piece = [0; 1024];
                while let Ok(read @ 1..) = stream.read(&mut piece).await {
                    piece[..read].make_ascii_uppercase();
                    if stream.write_all(&piece[..read]).await.is_err() || stream.flush().await.is_err() {
                        break;
                    }
                }
                let _ = stream.shutdown().await;
            });
            let protocol = request.headers()["upgrade"].clone();
            let switching = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
            switching.header("connection", "upgrade").header("upgrade", protocol).body(Body::empty()).unwrap()
        }
        "/refused" => Response::builder()
            .status(401)
            .header("www-authenticate", "Basic realm=\"Ballast\"")
            .body(Body::from("who are you?"))
            .unwrap(),
        "/stream" => Response::new(request.into_body()),
        "/gone" => Response::builder().status(410).header("retry-after", "7").body(Body::from("compacted")).unwrap(),
        _ => {
            let (method, uri) = (request.method().to_string(), request.uri().to_string());
            let mut answer = json!({"method": method, "uri": uri, "headers": named(request.headers())});
            let body = request.into_body().collect().await.unwrap().to_bytes();
            answer["body"] = String::from_utf8_lossy(&body).into();
            Response::builder()
                .header("content-type", "text/html")
                .header("set-cookie", "session=1")
                .header("access-control-allow-origin", "*")
                .header("clear-site-data", "\"*\"")
                .header("strict-transport-security", "max-age=9")
                .header("alt-svc", "h3=\":1\"")
                .header("nel", "{}")
                .header("report-to", "{}")
                .header("refresh", "0;url=http://evil.example")
                .header("service-worker-allowed", "/")
                .header("x-own", "1")
                .header("connection", "x-hop")
                .header("x-hop", "1")
                .body(Body::from(answer.to_string()))
                .unwrap()
        }
    }
}

fn named(headers: &HeaderMap) -> Value {
    let mut all = serde_json::Map::new();
    for name in headers.keys() {
        let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        all.insert(name.to_string(), values.collect());
    }
    all.into()
}

/// Returns the Cluster `m1` at this address. Both its secrets are `karmada-cluster/m1`.
pub fn cluster(address: SocketAddr) -> Value {
    let secret = json!({"namespace": "karmada-cluster", "name": "m1"});
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {
            "syncMode": "Push", "apiEndpoint": format!("https://{address}"),
            "secretRef": secret, "impersonatorSecretRef": secret,
        },
    })
}
