//! A fake estimator that speaks the protocol of karmada-scheduler-estimator: HTTP/2 with gRPC
//! messages, encoded by hand, so that the client is tested against the protocol and not its own
//! code. It can hang, lie, respond late, reject, and stop.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// The behavior of the estimator.
#[derive(Clone, Debug)]
pub enum Manner {
    /// Responds with this number.
    Say(i32),
    /// Responds with the number for the CPU that one replica requests, as written.
    ByCpu(BTreeMap<String, i32>),
    /// Responds with this number, minus the assumed replicas in its cluster.
    SayBeside(i32),
    /// Responds with this number after this time.
    Late(i32, Duration),
    /// Never responds.
    Hang,
    /// Responds with this gRPC code.
    Refuse(u32),
}

/// The serving certificate and its key, and the CA of clients.
#[derive(Clone)]
pub struct Tls {
    pub pair: (PathBuf, PathBuf),
    pub client_ca: Option<String>,
}

/// A received request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    pub cluster: String,
    /// The CPU that one replica requests, in the field of present estimators and in the reserved
    /// one.
    pub cpu: (Option<String>, Option<String>),
    /// The assumed workloads in its cluster: namespace, name of a component, replicas, and the CPU
    /// that one of them requests.
    pub assumed: Vec<(String, String, i32, String)>,
}

pub struct Estimator {
    pub address: SocketAddr,
    state: Arc<State>,
    serving: JoinHandle<()>,
}

struct State {
    manner: Mutex<Manner>,
    unschedulable: Mutex<i32>,
    asked: Mutex<Vec<Asked>>,
}

impl Estimator {
    pub async fn start(manner: Manner) -> Estimator {
        Estimator::start_at("127.0.0.1:0".parse().unwrap(), manner, None).await
    }

    pub async fn start_with(manner: Manner, tls: Tls) -> Estimator {
        Estimator::start_at("127.0.0.1:0".parse().unwrap(), manner, Some(tls)).await
    }

    /// Starts at an address, which may be that of a stopped estimator.
    pub async fn start_at(address: SocketAddr, manner: Manner, tls: Option<Tls>) -> Estimator {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        let listener = socket.listen(64).unwrap();
        let address = listener.local_addr().unwrap();
        let state =
            Arc::new(State { manner: Mutex::new(manner), unschedulable: Mutex::new(0), asked: Mutex::default() });
        let serving = tokio::spawn(serve(listener, Arc::clone(&state), tls.map(|tls| acceptor(&tls))));
        Estimator { address, state, serving }
    }

    pub fn behave(&self, manner: Manner) {
        *self.state.manner.lock().unwrap() = manner;
    }

    /// Sets the unschedulable replicas of every workload.
    pub fn set_unschedulable(&self, replicas: i32) {
        *self.state.unschedulable.lock().unwrap() = replicas;
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().unwrap().clone()
    }

    /// Stops, and closes all connections.
    pub async fn stop(self) -> SocketAddr {
        self.serving.abort();
        let _cut_off = self.serving.await;
        self.address
    }
}

fn acceptor(tls: &Tls) -> TlsAcceptor {
    let (certificate, key) = &tls.pair;
    let chain = CertificateDer::pem_file_iter(certificate).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            CertificateDer::pem_slice_iter(pem.as_bytes()).for_each(|ca| roots.add(ca.unwrap()).unwrap());
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    }
    .with_single_cert(chain, key)
    .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(listener: TcpListener, state: Arc<State>, tls: Option<TlsAcceptor>) {
    // Connections end with the estimator.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (state, tls) = (Arc::clone(&state), tls.clone());
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&state)));
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _closed = match tls {
                None => http.serve_connection(TokioIo::new(stream), service).await,
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => http.serve_connection(TokioIo::new(stream), service).await,
                    Err(_refused) => Ok(()),
                },
            };
        });
    }
}

type Answer =
    StreamBody<futures_util::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, std::convert::Infallible>>>>;

async fn answer(request: Request<Incoming>, state: Arc<State>) -> Result<Response<Answer>, std::convert::Infallible> {
    assert_eq!(request.headers()["content-type"], "application/grpc");
    let path = request.uri().path().to_owned();
    let (service, method) = path.strip_prefix('/').and_then(|path| path.rsplit_once('/')).unwrap();
    assert_eq!(service, "github.com.karmada_io.karmada.pkg.estimator.service.Estimator");
    let mut body = request.into_body().collect().await.unwrap().to_bytes();
    // One byte marks it as uncompressed, four contain the length.
    assert_eq!(body.get_u8(), 0);
    assert_eq!(body.get_u32() as usize, body.len());
    let asked = Asked { method: method.to_owned(), ..read(method, &body) };
    state.asked.lock().unwrap().push(asked.clone());
    let manner = state.manner.lock().unwrap().clone();
    let number = match manner {
        _ if method == "GetUnschedulableReplicas" => *state.unschedulable.lock().unwrap(),
        Manner::Say(number) => number,
        Manner::SayBeside(number) => number - asked.assumed.iter().map(|(_, _, replicas, _)| replicas).sum::<i32>(),
        Manner::ByCpu(numbers) => numbers.get(&asked.cpu.0.unwrap_or_default()).copied().unwrap_or(-1),
        Manner::Late(number, after) => {
            tokio::time::sleep(after).await;
            number
        }
        Manner::Hang => std::future::pending().await,
        Manner::Refuse(code) => return Ok(respond(None, code)),
    };
    Ok(respond(Some(number), 0))
}

fn respond(number: Option<i32>, code: u32) -> Response<Answer> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code));
    let message = number.map(|number| {
        let mut message = vec![0_u8; 5];
        prost::encoding::int32::encode(1, &number, &mut message);
        let length = (message.len() - 5) as u32;
        message[1..5].copy_from_slice(&length.to_be_bytes());
        Frame::data(Bytes::from(message))
    });
    let frames: Vec<_> = message.into_iter().chain([Frame::trailers(trailers)]).map(Ok).collect();
    let body = StreamBody::new(futures_util::stream::iter(frames));
    Response::builder().header("content-type", "application/grpc").body(body).unwrap()
}

/// Parses a request as an estimator does.
fn read(method: &str, body: &[u8]) -> Asked {
    #[derive(Clone, PartialEq, Message)]
    struct Named {
        #[prost(string, tag = "1")]
        cluster: String,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Replicas {
        #[prost(message, optional, tag = "2")]
        requirements: Option<Requirements>,
        #[prost(message, repeated, tag = "3")]
        assumed: Vec<Assumed>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Sets {
        #[prost(message, repeated, tag = "4")]
        assumed: Vec<Assumed>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Assumed {
        #[prost(string, tag = "1")]
        namespace: String,
        #[prost(message, repeated, tag = "2")]
        components: Vec<Component>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Component {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(message, optional, tag = "2")]
        requirements: Option<ComponentRequirements>,
        #[prost(int32, tag = "3")]
        replicas: i32,
    }
    #[derive(Clone, PartialEq, Message)]
    struct ComponentRequirements {
        #[prost(map = "string, bytes", tag = "4")]
        bytes: std::collections::HashMap<String, Vec<u8>>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Requirements {
        #[prost(map = "string, message", tag = "2")]
        inline: std::collections::HashMap<String, Quantity>,
        #[prost(map = "string, bytes", tag = "5")]
        bytes: std::collections::HashMap<String, Vec<u8>>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Quantity {
        #[prost(string, tag = "1")]
        text: String,
    }
    let cluster = Named::decode(body).unwrap().cluster;
    let (requirements, assumed) = match method {
        "MaxAvailableReplicas" => {
            let Replicas { requirements, assumed } = Replicas::decode(body).unwrap();
            (requirements.unwrap_or_default(), assumed)
        }
        "MaxAvailableComponentSets" => (Requirements::default(), Sets::decode(body).unwrap().assumed),
        _ => (Requirements::default(), Vec::new()),
    };
    let cpu_of = |component: &Component| {
        let bytes = component.requirements.as_ref().and_then(|requirements| requirements.bytes.get("cpu").cloned());
        bytes.map(|bytes| Quantity::decode(&*bytes).unwrap().text).unwrap_or_default()
    };
    let assumed = assumed.iter().flat_map(|assumed| {
        let told = |it: &Component| (assumed.namespace.clone(), it.name.clone(), it.replicas, cpu_of(it));
        assumed.components.iter().map(told).collect::<Vec<_>>()
    });
    let assumed = assumed.collect();
    let bytes = requirements.bytes.get("cpu").map(|bytes| Quantity::decode(&**bytes).unwrap().text);
    let inline = requirements.inline.get("cpu").map(|cpu| cpu.text.clone());
    Asked { method: String::new(), cluster, cpu: (bytes, inline), assumed }
}

/// Writes a file of addresses.
pub fn addresses(folder: &Path, estimators: &[(&str, &Estimator)]) -> PathBuf {
    let path = folder.join("estimators.yaml");
    let lines = estimators.iter().map(|(cluster, estimator)| format!("{cluster}: {}\n", estimator.address));
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    path
}
