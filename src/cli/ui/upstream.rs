//! The API behind the page.

use std::time::Duration;

use anyhow::Context;
use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, Request, Response, header};
use http_body_util::{BodyExt, Limited};
use kube::Client;
use serde_json::Value;

use ballast_node::config::banner;

/// Timeout for the head of a response. The server ends requests that take longer than a minute.
const HEAD_WITHIN: Duration = Duration::from_secs(65);
/// Timeout for the server's banner, and its maximum size: without a banner, the page opens anyway.
const BANNER_WITHIN: Duration = Duration::from_secs(3);
const BANNER_BYTES_MAX: usize = 64 << 10;
/// The page's headers that are forwarded to the API. Others are dropped: above all cookies, and
/// headers that name a user.
const PASSED_ON: [HeaderName; 4] =
    [header::ACCEPT, header::ACCEPT_ENCODING, header::CONTENT_TYPE, header::IF_NONE_MATCH];

#[derive(Clone)]
pub struct Upstream {
    /// The displayed address of the server.
    pub url: String,
    pub client: Client,
}

impl Upstream {
    /// Returns the banner of the server's own page (`serve --ui-banner`). `None`: the server has
    /// none, has no page, or does not respond in time.
    pub async fn banner(&self) -> Option<String> {
        let request = Request::get("/ui/surroundings.json").body(kube::client::Body::empty()).ok()?;
        let answer = tokio::time::timeout(BANNER_WITHIN, self.client.send(request)).await.ok()?.ok()?;
        if !answer.status().is_success() {
            return None;
        }
        let content = Limited::new(answer.into_body(), BANNER_BYTES_MAX).collect();
        let content = tokio::time::timeout(BANNER_WITHIN, content).await.ok()?.ok()?.to_bytes();
        let surroundings: Value = serde_json::from_slice(&content).ok()?;
        banner(surroundings["banner"].as_str()?).ok()
    }

    /// Forwards a request. The body of the response is unread.
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
