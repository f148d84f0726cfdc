//! The hostile clients, the other user, and the probes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_rustls::client::TlsStream;

use super::super::raw::{Connection, Protocol, Raw};
use super::super::setup::CLUSTERS;
use super::from_environment;
use super::times::{Seen, Times};

/// The maximum number of connections of the server.
pub const STRANGERS: usize = 4_096;
const DRIP_EVERY: Duration = Duration::from_secs(3);
const BODIES: usize = 200;
const REVIEWERS: usize = 12;
const WRITERS: usize = 4;
const PAGES: usize = 6;
/// Number of targets of a binding of 2.7 MB.
const TARGETS: usize = 48_000;
const SUPPOSED: usize = 200;
/// Timeout after which a request of Bob or of a probe is retried.
const PATIENCE: Duration = Duration::from_secs(10);

pub const SHOP: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
pub const OTHER: &str = "/apis/work.karmada.io/v1alpha2/namespaces/other/resourcebindings";
const REVIEWS: &str = "/apis/ballast.dev/v1alpha1/namespaces/shop/localplacementreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
pub const JSON: (&str, &str) = ("content-type", "application/json");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

pub fn own_binding(namespace: &str, name: &str) -> Value {
    let spec = json!({"resource": {"apiVersion": "v1", "kind": "X", "name": name, "namespace": namespace}});
    json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": name}, "spec": spec})
}

pub fn targets(turn: usize) -> Value {
    (0..TARGETS).map(|number| json!({"name": format!("{turn}-{number:030}"), "replicas": 1})).collect()
}

pub fn bearer(user: &str) -> (&'static str, String) {
    ("authorization", format!("Bearer {user}-token"))
}

pub struct Scene {
    /// A client without a certificate. Tokens identify the user.
    pub anybody: Raw,
    admin: Raw,
    /// The number of open connections of strangers.
    pub strangers: AtomicUsize,
    pub counts: Counts,
}

/// Counts of the responses to hostile clients.
#[derive(Default)]
pub struct Counts {
    pages: AtomicUsize,
    opened: AtomicUsize,
    bodies: AtomicUsize,
    reviews: AtomicUsize,
    patches: AtomicUsize,
    refused: AtomicUsize,
}

impl Counts {
    pub fn line(&self) -> String {
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        format!(
            "since they came: {} requests of the page, {} strangers, {} bodies, {} reviews, {} large patches, {} of \
             these refused with 429",
            of(&self.pages),
            of(&self.opened),
            of(&self.bodies),
            of(&self.reviews),
            of(&self.patches),
            of(&self.refused)
        )
    }
}

impl Scene {
    pub fn of(anybody: Raw, admin: Raw) -> Scene {
        Scene { anybody, admin, strangers: AtomicUsize::new(0), counts: Counts::default() }
    }

    pub fn release(self: &Arc<Scene>, hostile: &mut JoinSet<()>) {
        for _ in 0..PAGES {
            hostile.spawn(self.clone().be_a_page_of_another_site());
        }
        let wanted = from_environment("HOSTILE_STRANGERS", STRANGERS);
        for _ in 0..8 {
            hostile.spawn(self.clone().be_strangers(wanted / 8));
        }
        hostile.spawn(self.clone().send_no_bodies());
        for _ in 0..REVIEWERS {
            let question = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "LocalPlacementReview", "spec": {
                "select": [{"name": "web-*"}], "explain": "Full", "limit": 10_000, "suppose": {"clusters":
                    (0..SUPPOSED).map(|number| json!({"name": format!("n{number}"), "like": "member0"})).collect::<Vec<_>>()}}});
            hostile.spawn(self.clone().be_jane(Method::POST, REVIEWS.to_owned(), JSON, question.to_string()));
        }
        for turn in 0..WRITERS {
            let patch = json!({"spec": {"clusters": targets(turn + 1)}}).to_string();
            hostile.spawn(self.clone().be_jane(Method::PATCH, format!("{SHOP}/grow"), MERGE, patch));
        }
    }

    /// Sends six concurrent requests of a page, each 10 ms after the previous one was rejected.
    async fn be_a_page_of_another_site(self: Arc<Scene>) {
        let headers = [JSON, ("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")];
        loop {
            let connection = self.admin.connect().await;
            while let Ok(answer) = connection.open(Method::POST, CLUSTERS, &headers, "{}").await {
                assert_eq!(answer.status(), 403);
                self.counts.pages.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(10)).await;
            }
        }
    }

    /// Opens connections with a rejected request and a body that is sent one byte at a time. If the
    /// server closes them, they are opened again.
    async fn be_strangers(self: Arc<Scene>, count: usize) {
        let client = self.anybody.clone().over(Protocol::Http1);
        let mut open: Vec<TlsStream<TcpStream>> = Vec::new();
        let mut dripped = Instant::now();
        loop {
            if open.len() < count {
                match stranger(&client).await {
                    Ok(stream) => {
                        open.push(stream);
                        self.strangers.fetch_add(1, Ordering::Relaxed);
                        self.counts.opened.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => sleep(Duration::from_millis(20)).await,
                }
            } else {
                sleep(Duration::from_millis(100)).await;
            }
            if dripped.elapsed() > DRIP_EVERY {
                let mut alive = Vec::with_capacity(open.len());
                for mut stream in open {
                    if stream.write_all(b" ").await.is_ok() && stream.flush().await.is_ok() {
                        alive.push(stream);
                    } else {
                        self.strangers.fetch_sub(1, Ordering::Relaxed);
                    }
                }
                (open, dripped) = (alive, Instant::now());
            }
        }
    }

    /// Opens one connection with 200 requests of a user without permissions, and never sends the
    /// bodies.
    async fn send_no_bodies(self: Arc<Scene>) {
        let (name, value) = bearer("nobody");
        loop {
            let Ok(stream) = self.anybody.try_connect().await else { continue };
            let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
            let Ok((sender, connection)) = handshake.await else { continue };
            let connection = tokio::spawn(connection);
            let mut waiting = JoinSet::new();
            for _ in 0..BODIES {
                let never = futures_util::stream::pending::<Result<Frame<Bytes>, std::convert::Infallible>>();
                let request = Request::post(format!("https://localhost{ACCESS_REVIEWS}"));
                let request = request.header(JSON.0, JSON.1).header(name, &value);
                let request = request.body(StreamBody::new(never)).expect("a request");
                let mut sender = sender.clone();
                waiting.spawn(async move {
                    sender.ready().await.ok()?;
                    sender.send_request(request).await.ok().map(|answer| answer.status())
                });
            }
            waiting.join_all().await;
            self.counts.bodies.fetch_add(BODIES, Ordering::Relaxed);
            connection.abort();
        }
    }

    /// Sends the same request repeatedly.
    async fn be_jane(
        self: Arc<Scene>,
        method: Method,
        path: String,
        media: (&'static str, &'static str),
        body: String,
    ) {
        let ((name, value), body) = (bearer("jane"), Bytes::from(body));
        let count = if method == Method::POST { &self.counts.reviews } else { &self.counts.patches };
        loop {
            let connection = self.anybody.connect().await;
            while let Ok(answer) = connection.open(method.clone(), &path, &[media, (name, &value)], body.clone()).await
            {
                let status = answer.status().as_u16();
                assert!(matches!(status, 200 | 201 | 409 | 429 | 504), "{status}");
                count.fetch_add(1, Ordering::Relaxed);
                if status == 429 {
                    self.counts.refused.fetch_add(1, Ordering::Relaxed);
                }
                // The body is read and discarded.
                let mut body = answer.into_body();
                while let Some(Ok(_)) = body.frame().await {}
            }
        }
    }

    /// Measures the requests of Bob and the probes for this time.
    pub async fn be_bob_and_probe(self: Arc<Scene>, seconds: Duration) -> Seen {
        let end = Instant::now() + seconds;
        let probing = tokio::spawn(self.clone().probe(end));
        let getting = tokio::spawn(self.clone().be_bob(end, Method::GET));
        let patches = self.be_bob(end, Method::PATCH).await;
        Seen { gets: getting.await.expect("no panic"), patches, probes: probing.await.expect("no panic") }
    }

    async fn be_bob(self: Arc<Scene>, end: Instant, method: Method) -> Times {
        let (name, value) = bearer("bob");
        let path = format!("{OTHER}/small");
        let (mut connection, mut times, mut turn) = (self.anybody.connect().await, Times::default(), 0);
        while Instant::now() < end {
            turn += 1;
            let body = match method == Method::PATCH {
                true => json!({"metadata": {"annotations": {"turn": turn.to_string()}}}).to_string(),
                false => String::new(),
            };
            let began = Instant::now();
            loop {
                match tokio::time::timeout(PATIENCE, ask(&connection, &method, &path, &[MERGE, (name, &value)], &body))
                    .await
                {
                    Ok(Some(200)) => break,
                    Ok(Some(_)) => times.refused += 1,
                    Ok(None) | Err(_) => {
                        times.lost += 1;
                        connection = self.anybody.connect().await;
                    }
                }
            }
            times.took(began);
            sleep(Duration::from_millis(20)).await;
        }
        times
    }

    /// Probes the server. Each probe opens a new connection, like a kubelet's.
    async fn probe(self: Arc<Scene>, end: Instant) -> Times {
        let client = self.anybody.clone().over(Protocol::Http1);
        let (mut times, mut turn) = (Times::default(), 0);
        while Instant::now() < end {
            turn += 1;
            let path = ["/livez", "/readyz", "/healthz"][turn % 3];
            let began = Instant::now();
            match tokio::time::timeout(PATIENCE, probe(&client, path)).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => times.refused += 1,
                Ok(Err(_)) | Err(_) => times.lost += 1,
            }
            times.took(began);
            sleep(Duration::from_millis(50)).await;
        }
        times
    }
}

async fn stranger(client: &Raw) -> std::io::Result<TlsStream<TcpStream>> {
    let mut stream = client.try_connect().await?;
    stream.write_all(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n ").await?;
    stream.flush().await?;
    Ok(stream)
}

async fn ask(
    connection: &Connection,
    method: &Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<u16> {
    let answer = connection.open(method.clone(), path, headers, body.to_owned()).await.ok()?;
    let status = answer.status().as_u16();
    answer.into_body().collect().await.ok()?;
    Some(status)
}

async fn probe(client: &Raw, path: &str) -> std::io::Result<bool> {
    let mut stream = client.try_connect().await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await?;
    Ok(&answer == b"HTTP/1.1 200")
}
