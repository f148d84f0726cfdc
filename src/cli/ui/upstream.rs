//! The API that the page looks at, reached as a kubeconfig says.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, Request, Response, header};
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

/// The longest time to the head of an answer. The server ends what takes longer than a minute.
const HEAD_WITHIN: Duration = Duration::from_secs(65);
/// What of the page's headers means something to the API. The rest stays here: above all cookies,
/// and whatever names a user.
const PASSED_ON: [HeaderName; 4] =
    [header::ACCEPT, header::ACCEPT_ENCODING, header::CONTENT_TYPE, header::IF_NONE_MATCH];

#[derive(Clone)]
pub struct Upstream {
    /// The address of the server, to be shown.
    pub url: String,
    client: Client,
}

impl Upstream {
    pub async fn read(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Upstream> {
        // kube asks for a provider of the whole process; whoever comes first installs it.
        let _already_there = rustls::crypto::ring::default_provider().install_default();
        let read = match kubeconfig {
            Some(path) => Kubeconfig::read_from(path)
                .with_context(|| format!("failed to use {} as kubeconfig", path.display()))?,
            None => Kubeconfig::read().context(
                "no kubeconfig: name one with --kubeconfig or $KUBECONFIG \
                 (`ballast serve` writes certs/admin.kubeconfig)",
            )?,
        };
        let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
        let mut config =
            Config::from_custom_kubeconfig(read, &options).await.context("failed to use the kubeconfig")?;
        // Watches stay open for long without a byte, and the page asks again by itself.
        config.read_timeout = None;
        config.default_retry = false;
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        Ok(Upstream { url, client: Client::try_from(config).context("failed to prepare the connection")? })
    }

    /// Passes a request on. The answer's body is still to come.
    pub async fn ask(&self, parts: &Parts, body: Bytes) -> anyhow::Result<Response<Body>> {
        let target = parts.uri.path_and_query().map_or("/", |it| it.as_str());
        let mut request = Request::builder()
            .method(&parts.method)
            .uri(target)
            .header(header::USER_AGENT, concat!("ballast-ui/", env!("CARGO_PKG_VERSION")));
        for name in PASSED_ON {
            for value in parts.headers.get_all(&name) {
                request = request.header(&name, value);
            }
        }
        let request = request.body(kube::client::Body::from(body))?;
        let answer = tokio::time::timeout(HEAD_WITHIN, self.client.send(request));
        let answer = answer.await.with_context(|| format!("{} did not answer", self.url))?;
        Ok(answer.with_context(|| format!("{} is not reachable", self.url))?.map(Body::new))
    }
}
