//! Queries gates over HTTP (SG16, SG18).
//!
//! Redirects are not followed, and responses are bounded in time and size. Concurrent requests are
//! limited and shared among namespaces (`outgoing`), and requests per second to one address are
//! limited too. Private headers and CAs come from files that an administrator configures. They are
//! read again for each request, so that a mounted Secret may change.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ballast_api::ballast::v1alpha1::{Gate, Holds};
use ballast_rebalance::gates::address::{AllowedAddress, GateUrl, allowed};
use ballast_rebalance::gates::{GateAnswer, GateClient, WaveQuestion, answer};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use tokio::time::Instant;
use url::Url;

use ballast_base::outgoing::{self, Outgoing};

/// Maximum size of a response in bytes. A query result with ten thousand samples has about this
/// size.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Maximum size of a file of headers or CAs. A bundle of all public CAs has a quarter of it.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Minimum interval between two requests to one address: 50 requests per second.
const REQUEST_EVERY: Duration = Duration::from_millis(20);

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Options of the requests to gates.
#[derive(Clone, Debug, Default)]
pub struct HttpGatesOptions {
    /// The addresses that may be queried.
    pub allow: Vec<AllowedAddress>,
    /// Headers by address: see `HeadersOf`.
    pub headers_file: Option<PathBuf>,
    /// CAs (PEM) that replace those of this machine.
    pub ca_file: Option<PathBuf>,
}

/// A client that queries gates over HTTP/1.1, with or without TLS.
pub struct HttpGates {
    options: HttpGatesOptions,
    /// The client, and the CAs (PEM) that it was built with.
    client: Mutex<Option<(Vec<u8>, HttpClient)>>,
    turns: Turns,
}

/// The earliest time of the next request, by address.
#[derive(Default)]
struct Turns {
    next: Mutex<HashMap<String, Instant>>,
}

impl Turns {
    /// Waits until a request to the address of `url` may be sent.
    async fn wait(&self, url: &Url) {
        let due = self.take(url.origin().ascii_serialization(), Instant::now());
        tokio::time::sleep_until(due).await;
    }

    /// Reserves the next turn of an address. Addresses whose last turn is over are removed, so
    /// there are at most as many entries as waiting requests.
    fn take(&self, origin: String, now: Instant) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.retain(|_, next| *next > now);
        let next = next.entry(origin).or_insert(now);
        let due = *next;
        *next += REQUEST_EVERY;
        due
    }
}

/// An entry of the file of headers: headers that are sent only to URLs below this address.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadersOf {
    address: String,
    headers: std::collections::BTreeMap<String, String>,
}

impl HttpGates {
    pub fn new(options: HttpGatesOptions) -> HttpGates {
        HttpGates { options, client: Mutex::default(), turns: Turns::default() }
    }

    /// Checks the files, so that startup fails if they cannot be used.
    ///
    /// # Errors
    ///
    /// Returns a message that describes the fault.
    pub fn check_files(&self) -> Result<(), String> {
        if let Some(path) = &self.options.headers_file {
            let text = read(path)?;
            headers_for(&text, None).map_err(|fault| format!("{}: {fault}", path.display()))?;
        }
        if let Some(path) = &self.options.ca_file {
            connector(&read(path)?).map_err(|fault| format!("{}: {fault}", path.display()))?;
        }
        Ok(())
    }

    async fn asked(&self, gate: &Gate, question: &WaveQuestion) -> Result<GateAnswer, String> {
        // The flag may have changed since the gate was written.
        let mut to = allowed(gate, &self.options.allow).map_err(|fault| format!("its address {fault}"))?;
        self.turns.wait(&to.url).await;
        let (request, holds) = match (&gate.prometheus, &gate.webhook) {
            (Some(prometheus), _) => {
                let holds: Holds = prometheus.holds.parse()?;
                to.url.query_pairs_mut().append_pair("query", &prometheus.query);
                (self.request(Method::GET, &to, Bytes::new()).await?, Some(holds))
            }
            (None, _) => {
                let body = serde_json::to_vec(&*question.body).map_err(|error| error.to_string())?;
                (self.request(Method::POST, &to, body.into()).await?, None)
            }
        };
        let (status, body) = self.answer(request).await?;
        Ok(match holds {
            Some(holds) => answer::of_prometheus(status, &body, holds),
            None => answer::of_webhook(status, &body),
        })
    }

    async fn request(&self, method: Method, to: &GateUrl, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
        let own = match self.options.headers_file.clone() {
            Some(path) => headers_for(&off_thread(path).await?, Some(to))?,
            None => HeaderMap::new(),
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = to.url.as_str().parse().map_err(|error| format!("its address is no URI: {error}"))?;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static("ballast"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(own);
        Ok(request)
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
        let client = self.client().await?;
        let answer = client.request(request).await.map_err(|error| told(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| match error.downcast_ref::<http_body_util::LengthLimitError>() {
            Some(_) => format!("its answer is larger than {ANSWER_BYTES_MAX} bytes"),
            None => told(&*error),
        })?;
        Ok((status, body.to_bytes()))
    }

    /// Returns the client with the current CAs.
    async fn client(&self) -> Result<HttpClient, String> {
        let pem = match self.options.ca_file.clone() {
            Some(path) => off_thread(path).await?,
            None => Vec::new(),
        };
        let mut known = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = known.as_ref().filter(|(used, _)| *used == pem) {
            return Ok(client.clone());
        }
        // A gate is queried at most once a second, so no connection is kept open.
        let mut builder = Client::builder(TokioExecutor::new());
        let client: HttpClient = builder.pool_max_idle_per_host(0).build(connector(&pem)?);
        *known = Some((pem, client.clone()));
        Ok(client)
    }
}

#[async_trait]
impl GateClient for HttpGates {
    async fn ask(&self, gate: &Gate, question: &WaveQuestion) -> GateAnswer {
        let Ok(_slot) = outgoing::connect(Outgoing::Gate, &question.namespace).await else {
            return GateAnswer::no("it was not asked: too many gates wait for their answers");
        };
        match tokio::time::timeout(question.within, self.asked(gate, question)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(fault)) => GateAnswer::no(fault),
            Err(_) => GateAnswer::no(format!("no answer came within {} s", question.within.as_secs_f32())),
        }
    }
}

/// Returns the headers for an address. Without an address, the file is only checked.
fn headers_for(file: &[u8], to: Option<&GateUrl>) -> Result<HeaderMap, String> {
    let text = std::str::from_utf8(file).map_err(|_| "the file of headers is not UTF-8")?;
    let entries: Vec<HeadersOf> = serde_saphyr::from_str(text)
        .map_err(|_| "the file of headers must be a list of {address, headers: {name: value}} in YAML")?;
    let mut headers = HeaderMap::new();
    for HeadersOf { address, headers: own } in entries {
        let below = address.parse::<AllowedAddress>().map_err(|fault| format!("the address {address} {fault}"))?;
        for (name, value) in own {
            let fault = || format!("the header {name} of {address} cannot be sent");
            let (name, mut value) =
                (name.parse::<HeaderName>().map_err(|_| fault())?, value.parse::<HeaderValue>().map_err(|_| fault())?);
            value.set_sensitive(true);
            if to.is_some_and(|to| below.lends_headers_to(to)) {
                headers.insert(name, value);
            }
        }
    }
    Ok(headers)
}

fn connector(pem: &[u8]) -> Result<HttpsConnector<HttpConnector>, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let config = match pem.is_empty() {
        true => config.with_native_roots().map_err(|error| format!("this machine trusts no CA: {error}"))?,
        false => {
            let mut store = RootCertStore::empty();
            let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
            if store.add_parsable_certificates(read.unwrap_or_default()).0 == 0 {
                return Err("holds no certificate of a CA (PEM)".to_owned());
            }
            config.with_root_certificates(store)
        }
    };
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let https = HttpsConnectorBuilder::new().with_tls_config(config.with_no_client_auth());
    Ok(https.https_or_http().enable_http1().wrap_connector(tcp))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read;

    let mut bytes = Vec::new();
    let file = std::fs::File::open(path);
    let read = file.and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
        Ok(_) if bytes.len() as u64 > FILE_BYTES_MAX => {
            Err(format!("{} is larger than {FILE_BYTES_MAX} bytes", path.display()))
        }
        Ok(_) => Ok(bytes),
    }
}

async fn off_thread(path: PathBuf) -> Result<Vec<u8>, String> {
    tokio::task::spawn_blocking(move || read(&path)).await.map_err(|_| "a file cannot be read".to_owned())?
}

/// Returns the message of the innermost cause of a failed request.
fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    format!("it cannot be asked: {cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_to_one_address_have_a_rate() {
        let (turns, now) = (Turns::default(), Instant::now());
        let take = |origin: &str| turns.take(origin.to_owned(), now).duration_since(now);
        assert_eq!(
            [take("http://a"), take("http://a"), take("http://b")],
            [0, 1, 0].map(|count| REQUEST_EVERY * count)
        );
        let due: Vec<Duration> = (2..100).map(|_| take("http://a")).collect();
        assert_eq!(due.last(), Some(&(REQUEST_EVERY * 99)));
        let later = now + REQUEST_EVERY * 200;
        assert_eq!(turns.take("http://a".to_owned(), later), later, "a turn that nobody took is no credit");
        assert_eq!(turns.next.lock().unwrap().len(), 1);
    }
}
