//! Forwards writes to the leader, and recognizes writes that another replica forwarded.
//!
//! ```text
//! client ──► follower: authenticate, authorize, audit ──TLS, user in headers──► leader: admit,
//!        ◄── the whole response ◄────────────────────────────────────────────── commit
//! ```
//!
//! The user is sent in headers, as by a front proxy, over TLS with the deployment's certificates on
//! both sides (`Peers`).
//!
//! *Invariants.* A write is forwarded once: a replica that receives a forwarded write and is not
//! the leader rejects it. A write that may have reached a leader is not sent again. A request with
//! the header `FORWARDED` and without a certificate of the deployment is unauthenticated.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use axum::body::Body;
use bytes::Bytes;
use http::header::{self, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::ServerName;
use tokio::sync::watch;
use tokio::time::Instant;

use super::entrance::Entrance;
use super::hop_by_hop;
use super::peer::Peer;
use super::respond::Response;
use super::shutdown::Shutdown;
use super::tls::PEER_NAME;
use ballast_auth::{Authenticator, FrontProxy, HeaderNames, Trust};
use ballast_base::clock::Clock;
use ballast_base::metrics;
use ballast_k8s::{Details, Status, User};

/// Marks a write that another replica has forwarded.
const FORWARDED: HeaderName = HeaderName::from_static("x-ballast-forwarded");
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";
/// The status code of a replica that receives a forwarded write and is not the leader.
const MISDIRECTED: u16 = 421;

/// The timeout for connecting to the leader.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// The limit of idle connections in the pool.
const IDLE_CONNECTIONS_MAX: usize = 32;
const IDLE_MAX: Duration = Duration::from_secs(30);
/// The pause before the leader is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The time that a former leader may take to respond once another replica leads. A running former
/// leader responds at once; a stopped or partitioned one never does.
const FORMER_LEADER_MAX: Duration = Duration::from_secs(1);
/// The part of a request's deadline that is reserved for the response that no replica leads.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// The leader, as far as this process knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownLeader {
    /// This process, at least until `until`.
    Local {
        until: Instant,
    },
    /// Another replica, at this address.
    Remote {
        address: String,
    },
    Unknown,
}

impl KnownLeader {
    fn is_local(&self) -> bool {
        matches!(self, KnownLeader::Local { until } if Instant::now() < *until)
    }
}

/// The other replicas of this deployment.
pub struct Replicas {
    lead: watch::Receiver<KnownLeader>,
    /// `None` until the certificates of the deployment are loaded.
    peers: ArcSwapOption<Peers>,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
    /// The address of the last unreachable leader, so that it is logged once.
    unreached: Mutex<Option<String>>,
    is_cut_off: Box<dyn Fn() -> bool + Send + Sync>,
}

struct Peers {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    authenticator: Authenticator,
}

/// The replica that handled a write.
pub(super) enum ForwardOutcome {
    /// This replica leads: the caller handles the write.
    Local,
    Answered(Response),
}

impl Replicas {
    /// Creates the set of replicas. `is_cut_off` returns whether this replica has lost the
    /// database.
    pub fn new(
        lead: watch::Receiver<KnownLeader>,
        clock: Arc<dyn Clock>,
        shutdown: Shutdown,
        is_cut_off: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Replicas {
        let is_cut_off = Box::new(is_cut_off);
        Replicas { lead, peers: ArcSwapOption::empty(), clock, shutdown, unreached: Mutex::default(), is_cut_off }
    }

    /// Trusts replicas with certificates of `ca`. Connections to them use the certificate of
    /// `client`.
    pub fn trust(&self, ca: ballast_auth::ClientCa, client: rustls::ClientConfig) {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_MAX));
        let name = ServerName::try_from(PEER_NAME).expect("it is a DNS name");
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(client)
            .https_only()
            .with_server_name_resolver(FixedServerNameResolver::new(name))
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(https);
        let headers = HeaderNames {
            username: vec![USER],
            uid: vec![UID],
            group: vec![GROUP],
            extra_prefixes: vec![EXTRA.to_owned()],
        };
        let proxy = FrontProxy { ca, allowed_names: Vec::new(), headers };
        let trust = Trust { front_proxy: Some(proxy), ..Trust::default() };
        let authenticator = Authenticator::new(trust, Arc::clone(&self.clock));
        self.peers.store(Some(Arc::new(Peers { client, authenticator })));
    }

    /// Returns the user of a write that another replica has forwarded; `None` for a request of a
    /// client.
    pub(super) async fn user(&self, parts: &Parts) -> Option<Result<Arc<User>, Status>> {
        if !parts.headers.contains_key(FORWARDED) {
            return None;
        }
        let certificate = parts.extensions.get::<Arc<Peer>>().and_then(|peer| peer.certificate.as_ref());
        let known = match (&*self.peers.load(), certificate) {
            (Some(peers), Some(certificate)) => {
                peers.authenticator.authenticate(Some(certificate), &parts.headers, None).await.ok().flatten()
            }
            _ => None,
        };
        Some(match known {
            Some(_) if !self.lead.borrow().is_local() => {
                Err(Status::failure(MISDIRECTED, "Misdirected", "this replica does not lead").already_logged())
            }
            Some(user) => Ok(user),
            None => Err(Status::unauthorized()),
        })
    }

    /// Forwards a write to the leader, waiting for a leader until `deadline`.
    pub(super) async fn forward(
        &self,
        parts: &Parts,
        audit_id: &HeaderValue,
        user: &User,
        entrance: &Entrance<'_>,
        deadline: Instant,
    ) -> Result<ForwardOutcome, Status> {
        let mut lead = self.lead.clone();
        if lead.borrow().is_local() {
            return Ok(ForwardOutcome::Local);
        }
        let end = deadline.checked_sub(ANSWER_TIME).unwrap_or(deadline);
        let text = entrance.text(0).await?;
        loop {
            let now = lead.borrow_and_update().clone();
            match &now {
                now if now.is_local() => return Ok(ForwardOutcome::Local),
                KnownLeader::Remote { address } => {
                    let response = tokio::select! {
                        response = self.send(address, request(address, parts, audit_id, user, text.clone())?) => response?,
                        () = superseded(self.lead.clone(), address) => {
                            tracing::warn!(address, "the leader of the past does not answer a write");
                            metrics::forwarded_write(503);
                            return Err(in_doubt());
                        }
                    };
                    if let Some(response) = response {
                        metrics::forwarded_write(response.status().as_u16());
                        return Ok(ForwardOutcome::Answered(response));
                    }
                }
                KnownLeader::Local { .. } | KnownLeader::Unknown => {}
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(end) => break,
                // The last replica to shut down would wait for a leader in vain.
                () = self.shutdown.closing() => break,
                changed = lead.changed() => if changed.is_err() { break },
                () = tokio::time::sleep(RETRY_PAUSE) => {}
            }
        }
        metrics::forwarded_write(503);
        let details = Details { retry_after_seconds: 1, ..Details::default() };
        let why = match &*lead.borrow() {
            _ if (self.is_cut_off)() => "this replica cannot reach the database, and no leader answers".to_owned(),
            KnownLeader::Remote { address } => format!("the leader at {address} cannot be reached"),
            KnownLeader::Local { .. } | KnownLeader::Unknown => "no replica leads at the moment".to_owned(),
        };
        Err(Status::unavailable(why).with(details).already_logged())
    }

    /// Returns whether the reachability of the leader at `address` has changed.
    fn is_change(&self, address: &str, is_reached: bool) -> bool {
        let mut unreached = self.unreached.lock().expect("no panic while it is held");
        let was_reached = unreached.as_deref() != Some(address);
        *unreached = (!is_reached).then(|| address.to_owned());
        was_reached != is_reached
    }

    /// Sends the request. `None` if the replica at `address` does not lead or cannot be reached: in
    /// both cases nothing was written.
    async fn send(&self, address: &str, request: Request<Full<Bytes>>) -> Result<Option<Response>, Status> {
        let Some(peers) = self.peers.load_full() else { return Ok(None) };
        match peers.client.request(request).await {
            Ok(answer) if answer.status().as_u16() == MISDIRECTED => Ok(None),
            Ok(answer) => {
                if self.is_change(address, true) {
                    tracing::info!(address, "the leader can be reached again");
                }
                whole(address, answer).await.map(Some)
            }
            Err(error) if error.is_connect() => {
                if self.is_change(address, false) {
                    let why = ballast_base::telemetry::with_causes(&error);
                    tracing::warn!(address, why, "the leader is out of reach from here: writes wait");
                }
                Ok(None)
            }
            Err(error) => Err(lost(address, &error)),
        }
    }
}

/// Returns the leader's response once it is complete. If it breaks off, the client gets the 503 of
/// `in_doubt`, and never a truncated response that looks complete.
async fn whole<B>(address: &str, answer: http::Response<B>) -> Result<Response, Status>
where
    B: http_body::Body<Error: std::error::Error + 'static>,
{
    let (mut head, body) = answer.into_parts();
    let text = body.collect().await.map_err(|error| lost(address, &error))?.to_bytes();
    hop_by_hop::remove(&mut head.headers);
    Ok(Response::from_parts(head, Body::from(text)))
}

fn lost(address: &str, error: &(dyn std::error::Error + 'static)) -> Status {
    let why = ballast_base::telemetry::with_causes(error);
    tracing::warn!(address, why, "the leader was lost in the middle of a write");
    in_doubt()
}

/// Resolves when a replica other than the one at `address` has led for `FORMER_LEADER_MAX`.
async fn superseded(mut lead: watch::Receiver<KnownLeader>, address: &str) {
    let is_other = |now: &KnownLeader| match now {
        KnownLeader::Remote { address: now } => now != address,
        KnownLeader::Local { .. } => true,
        KnownLeader::Unknown => false,
    };
    if lead.wait_for(is_other).await.is_err() {
        // The election has ended, and the server is shutting down.
        return std::future::pending().await;
    }
    tokio::time::sleep(FORMER_LEADER_MAX).await;
}

fn in_doubt() -> Status {
    Status::unavailable("the leader was lost in the middle of the request, which may have been done")
}

fn request(
    address: &str,
    parts: &Parts,
    audit_id: &HeaderValue,
    user: &User,
    text: Bytes,
) -> Result<Request<Full<Bytes>>, Status> {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let uri: Uri = format!("https://{address}{path}").parse().map_err(Status::internal)?;
    let mut request = Request::new(Full::new(text));
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    *headers = parts.headers.clone();
    hop_by_hop::remove(headers);
    for name in [header::CONTENT_LENGTH, header::EXPECT, header::HOST] {
        headers.remove(name);
    }
    let stays_here = |name: &HeaderName| {
        // Browser headers about the page were checked here.
        *name == header::AUTHORIZATION
            || *name == header::ORIGIN
            || ["x-remote-", "impersonate-", "sec-fetch-"].iter().any(|it| name.as_str().starts_with(it))
    };
    let left: Vec<HeaderName> = headers.keys().filter(|name| stays_here(name)).cloned().collect();
    for name in left {
        headers.remove(name);
    }
    // The audit log of the leader lists the client first, and then this replica.
    if let Some(peer) = parts.extensions.get::<Arc<Peer>>()
        && let Ok(client) = HeaderValue::from_str(&peer.address.ip().to_string())
    {
        headers.append(FORWARDED_FOR, client);
    }
    // One id follows the request through both audit logs (AU1).
    headers.insert(AUDIT_ID, audit_id.clone());
    set_user_headers(headers, user)?;
    headers.insert(FORWARDED, HeaderValue::from_static("1"));
    Ok(request)
}

fn set_user_headers(headers: &mut HeaderMap, user: &User) -> Result<(), Status> {
    let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).map_err(Status::internal);
    headers.insert(USER, value(&user.name)?);
    if !user.uid.is_empty() {
        headers.insert(UID, value(&user.uid)?);
    }
    for group in &user.groups {
        headers.append(GROUP, value(group)?);
    }
    for (key, values) in &user.extra {
        let name = format!("{EXTRA}{}", utf8_percent_encode(key, NON_ALPHANUMERIC)).to_ascii_lowercase();
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(Status::internal)?;
        for text in values {
            headers.append(name.clone(), value(text)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_that_breaks_off_is_none() {
        let answer = |end: Option<std::io::Error>| {
            let parts = [Ok("{\"kind\":"), Ok("\"Status\"}")].into_iter().chain(end.map(Err));
            let answer = http::Response::builder().status(201).header(header::CONNECTION, "close");
            answer.body(Body::from_stream(futures_util::stream::iter(parts))).unwrap()
        };
        let response = whole("a:1", answer(None)).await.unwrap();
        assert_eq!((response.status().as_u16(), response.headers().len()), (201, 0));
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), r#"{"kind":"Status"}"#);
        let lost = whole("a:1", answer(Some(std::io::ErrorKind::ConnectionReset.into()))).await.unwrap_err();
        assert_eq!((lost.code, lost), (503, in_doubt()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_waited_for_until_another_replica_has_led_for_a_second() {
        let there = |address: &str| KnownLeader::Remote { address: address.to_owned() };
        let (tell, lead) = watch::channel(there("a:1"));
        let mut over = std::pin::pin!(superseded(lead, "a:1"));
        let began = Instant::now();
        // An expired lease, and the same leader again.
        for told in [KnownLeader::Unknown, there("a:1"), KnownLeader::Unknown] {
            tell.send_replace(told);
            assert!(tokio::time::timeout(Duration::from_secs(10), &mut over).await.is_err());
        }
        tell.send_replace(there("b:1"));
        over.await;
        assert_eq!(began.elapsed(), Duration::from_secs(30) + FORMER_LEADER_MAX);
    }
}
