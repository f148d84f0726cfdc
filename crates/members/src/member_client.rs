//! A prepared HTTP client for one member: trust, proxy, connections and token (CP3).

use std::time::Duration;

use axum::body::Body;
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;

use super::connector::{self, Connector, ProxyRoute, Trust};
use super::request::Endpoint;
use super::secrets::Secrets;
use ballast_api::karmada::cluster::v1alpha1::{ClusterSpec, LocalSecretReference};
use ballast_server::HEADER_LIST_BYTES_MAX;

/// Keys of Karmada's secrets.
const CA: &str = "caBundle";
const TOKEN: &str = "token";
/// Maximum number of idle connections to one member. Each is closed after `IDLE_MAX`.
const IDLE_CONNECTIONS_MAX: usize = 8;
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of header lines of a response.
const HEADERS_MAX: usize = 512;

/// The parameters for reaching a member, from its Cluster. Requests with the same route share a
/// client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    pub endpoint: Endpoint,
    /// Whether certificates are accepted without verification.
    is_trusting: bool,
    /// Namespace and name of the secret with the CA. Absent: the CAs of the system are trusted.
    ca: Option<(String, String)>,
    /// Namespace and name of the impersonator's secret.
    impersonator: (String, String),
    proxy: Option<Uri>,
    /// Headers for the proxy, sorted.
    proxy_headers: Vec<(String, String)>,
}

/// The path of the invalid field, and the reason.
type Fault = (&'static str, String);

impl Route {
    /// Returns the route to the member. The error contains the field of the Cluster that is missing
    /// or malformed.
    pub fn of(spec: &ClusterSpec) -> Result<Route, Fault> {
        let endpoint = spec.api_endpoint.as_deref().filter(|text| !text.is_empty());
        let endpoint = endpoint.ok_or_else(|| ("spec.apiEndpoint", "it must name the API server".to_owned()))?;
        let impersonator = spec.impersonator_secret_ref.as_ref();
        let impersonator = impersonator.filter(|it| !it.name.is_empty()).ok_or_else(|| {
            ("spec.impersonatorSecretRef", "it must name the secret with the impersonator's token".to_owned())
        })?;
        let pair = |it: &LocalSecretReference| (it.namespace.clone(), it.name.clone());
        let is_trusting = spec.insecure_skip_tls_verification.unwrap_or_default();
        let proxy = spec.proxy_url.as_deref().filter(|text| !text.is_empty()).map(proxy).transpose()?;
        let mut proxy_headers: Vec<(String, String)> =
            spec.proxy_header.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        proxy_headers.sort();
        Ok(Route {
            endpoint: self::endpoint(endpoint)?,
            is_trusting,
            ca: spec.secret_ref.as_ref().filter(|_| !is_trusting).map(pair),
            impersonator: pair(impersonator),
            proxy,
            proxy_headers,
        })
    }

    fn trust(&self, ca: Option<Vec<u8>>) -> Trust {
        match (self.is_trusting, ca) {
            (true, _) => Trust::Any,
            (false, Some(pem)) => Trust::Cas(pem),
            (false, None) => Trust::System,
        }
    }

    fn via(&self) -> Result<ProxyRoute, String> {
        let Some(proxy) = &self.proxy else { return Ok(ProxyRoute::Direct) };
        let mut headers = HeaderMap::new();
        for (name, values) in &self.proxy_headers {
            let bad = || format!("spec.proxyHeader: {name:?} is not a valid header");
            let name: HeaderName = name.parse().map_err(|_| bad())?;
            for value in values.split(',') {
                headers.append(name.clone(), HeaderValue::from_str(value.trim()).map_err(|_| bad())?);
            }
        }
        Ok(ProxyRoute::Proxy { address: proxy.clone(), headers })
    }
}

fn endpoint(text: &str) -> Result<Endpoint, Fault> {
    let fault = || ("spec.apiEndpoint", format!("{text:?} is not a URL such as https://10.0.0.7:6443"));
    let parts = text.parse::<Uri>().map_err(|_| fault())?.into_parts();
    let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else { return Err(fault()) };
    let is_known = scheme == Scheme::HTTPS || scheme == Scheme::HTTP;
    if !is_known || authority.host().is_empty() || authority.as_str().contains('@') {
        return Err(fault());
    }
    let prefix = parts.path_and_query.map(|it| it.path().trim_end_matches('/').to_owned());
    Ok(Endpoint { scheme, authority, prefix: prefix.unwrap_or_default() })
}

fn proxy(text: &str) -> Result<Uri, Fault> {
    let known = text.parse::<Uri>().ok().filter(|uri| uri.host().is_some_and(|host| !host.is_empty()));
    known
        .filter(|uri| matches!(uri.scheme_str(), Some("http" | "https" | "socks5" | "socks5h")))
        .ok_or_else(|| ("spec.proxyURL", "it must be a URL that begins with http://, https:// or socks5://".to_owned()))
}

/// A client for one member, with the impersonator's token.
pub struct MemberClient {
    pub client: Client<Connector, Body>,
    /// `Bearer …`
    pub token: HeaderValue,
    opened: Instant,
}

impl MemberClient {
    /// Reads the secrets of a route. Does not open a connection. The error is a sentence for the
    /// client.
    pub async fn open(route: &Route, secrets: &Secrets) -> Result<MemberClient, String> {
        let ca = match &route.ca {
            None => None,
            Some((namespace, name)) => {
                Some(secrets.value(namespace, name, CA).await.map_err(|why| format!("spec.secretRef: {why}"))?)
            }
        };
        let (namespace, name) = &route.impersonator;
        let token = secrets.value(namespace, name, TOKEN).await.and_then(|token| {
            let mut value = HeaderValue::from_bytes(&[b"Bearer ", token.trim_ascii()].concat())
                .map_err(|_| format!("secret {namespace}/{name}: its {TOKEN:?} is not a bearer token"))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let token = token.map_err(|why| format!("spec.impersonatorSecretRef: {why}"))?;
        let connector = connector::connector(&route.trust(ca), &route.via()?)?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .http1_max_buf_size(HEADER_LIST_BYTES_MAX as usize)
            .http1_max_headers(HEADERS_MAX)
            .build(connector);
        Ok(MemberClient { client, token, opened: Instant::now() })
    }

    /// Returns the time since the secrets were read.
    pub fn age(&self) -> Duration {
        self.opened.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Shape = fn(&mut ClusterSpec);

    fn spec(shape: impl FnOnce(&mut ClusterSpec)) -> ClusterSpec {
        let reference = LocalSecretReference { namespace: "karmada-cluster".to_owned(), name: "m1".to_owned() };
        let mut spec = ClusterSpec {
            api_endpoint: Some("https://m1:6443/prefix/".to_owned()),
            secret_ref: Some(reference.clone()),
            impersonator_secret_ref: Some(reference),
            ..ClusterSpec::default()
        };
        shape(&mut spec);
        spec
    }

    #[test]
    fn cp4_a_fault_names_its_field() {
        let cases: [(Shape, &str); 7] = [
            (|spec| spec.api_endpoint = None, "spec.apiEndpoint"),
            (|spec| spec.api_endpoint = Some(String::new()), "spec.apiEndpoint"),
            (|spec| spec.api_endpoint = Some("m1:6443".to_owned()), "spec.apiEndpoint"),
            (|spec| spec.api_endpoint = Some("ftp://m1".to_owned()), "spec.apiEndpoint"),
            (|spec| spec.impersonator_secret_ref = None, "spec.impersonatorSecretRef"),
            (|spec| spec.proxy_url = Some("ftp://p".to_owned()), "spec.proxyURL"),
            (|spec| spec.proxy_url = Some("nowhere".to_owned()), "spec.proxyURL"),
        ];
        for (shape, field) in cases {
            assert_eq!(Route::of(&spec(shape)).unwrap_err().0, field);
        }
        let route = Route::of(&spec(|_| {})).unwrap();
        assert_eq!(route.endpoint.prefix, "/prefix");
        assert_eq!(route.endpoint.authority.as_str(), "m1:6443");
    }

    #[test]
    fn cp3_who_trusts_anybody_needs_no_ca_and_without_a_secret_the_systems_count() {
        let trust = |spec: &ClusterSpec, ca: Option<&[u8]>| Route::of(spec).unwrap().trust(ca.map(<[u8]>::to_vec));
        let trusting = spec(|spec| spec.insecure_skip_tls_verification = Some(true));
        assert_eq!(Route::of(&trusting).unwrap().ca, None);
        assert!(matches!(trust(&trusting, None), Trust::Any));
        assert!(matches!(trust(&spec(|spec| spec.secret_ref = None), None), Trust::System));
        assert!(matches!(trust(&spec(|_| {}), Some(b"pem")), Trust::Cas(pem) if pem == b"pem"));
    }

    #[test]
    fn cp3_headers_for_the_proxy_may_have_several_values() {
        let spec = spec(|spec| {
            spec.proxy_url = Some("http://user:pass@proxy:3128".to_owned());
            spec.proxy_header = [("X-Way".to_owned(), "a,b".to_owned())].into_iter().collect();
        });
        let Ok(ProxyRoute::Proxy { address, headers }) = Route::of(&spec).unwrap().via() else {
            panic!("there is a proxy")
        };
        assert_eq!(address.host(), Some("proxy"));
        let values: Vec<&HeaderValue> = headers.get_all("x-way").iter().collect();
        assert_eq!(values, ["a", "b"]);
    }

    #[tokio::test]
    async fn cp3_a_ca_that_is_none_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("karmada-cluster/m1");
        std::fs::create_dir_all(&secret).unwrap();
        std::fs::write(secret.join(TOKEN), "abc\n").unwrap();
        std::fs::write(secret.join(CA), "no PEM").unwrap();
        let secrets = Secrets::Folder(folder.path().to_owned());
        let Err(why) = MemberClient::open(&Route::of(&spec(|_| {})).unwrap(), &secrets).await else {
            panic!("it is no CA")
        };
        assert!(why.contains("caBundle"), "{why}");
        let trusting = Route::of(&spec(|spec| spec.insecure_skip_tls_verification = Some(true))).unwrap();
        assert_eq!(
            MemberClient::open(&trusting, &secrets).await.map(|member_client| member_client.token).unwrap(),
            "Bearer abc"
        );
    }
}
