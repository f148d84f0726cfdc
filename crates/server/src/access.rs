//! Access control: the site, authentication, impersonation and authorization of a request, with
//! their errors.

use std::sync::Arc;

use http::header;
use http::request::Parts;

use super::app::App;
use super::other_site;
use super::peer::Peer;
use super::request_info::RequestInfo;
use ballast_auth::{Attributes, Impersonation, Permission, Refused};
use ballast_base::log_limit::LogLimit;
use ballast_k8s::{Status, User};

/// Limits the log of rejected credentials, which each client can cause.
static REFUSALS: LogLimit = LogLimit::new();
/// Limits the log of failed reviews, which each request can cause.
static UNREVIEWED_TOKENS: LogLimit = LogLimit::new();
static UNREVIEWED_ACCESSES: LogLimit = LogLimit::new();

/// Rejects a request that a page of another site makes a browser send with an automatically added
/// credential (WH1). Pages of `--cors-allowed-origins` pass, and so do links to the page. A bearer
/// token and a front proxy's headers prove another sender, whatever the Origin is.
pub fn check_site(app: &App, parts: &Parts, info: &RequestInfo<'_>) -> Result<(), Status> {
    let certificate = || parts.extensions.get::<Arc<Peer>>().and_then(|peer| peer.certificate.as_ref());
    if !other_site::sends(&parts.headers, |origin| is_own(parts, origin))
        || app.cors.origin(parts).is_some()
        || is_link_to_page(app, parts, info)
        || !app.authenticator.is_added_by_browser(certificate(), &parts.headers)
    {
        return Ok(());
    }
    let why = "a browser sends this request for a page of another site (Sec-Fetch-Site, Origin); \
               --cors-allowed-origins names the sites whose pages may send requests";
    Err(Status::failure(403, "Forbidden", why))
}

#[cfg(feature = "page")]
fn is_link_to_page(app: &App, parts: &Parts, info: &RequestInfo<'_>) -> bool {
    app.has_page && super::page::is_for(info.path) && other_site::is_navigation(&parts.method, &parts.headers)
}

#[cfg(not(feature = "page"))]
fn is_link_to_page(_: &App, _: &Parts, _: &RequestInfo<'_>) -> bool {
    false
}

/// Returns whether the origin is the Host of the request.
fn is_own(parts: &Parts, origin: &str) -> bool {
    // HTTP/2 has the host in the URI.
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| parts.uri.authority().map(|authority| authority.as_str()));
    host.is_some_and(|host| other_site::is_at(origin, host))
}

/// Returns the error for a request that is not permitted.
pub fn check(
    permission: &Permission,
    user: &User,
    info: &RequestInfo<'_>,
    attributes: &Attributes<'_>,
) -> Result<(), Status> {
    match permission {
        Permission::Allow(_) => Ok(()),
        Permission::Deny(reason) => Err(attributes.forbidden(user, reason)),
        Permission::Failed(why) => Err(undecided(info, why)),
    }
}

/// Returns the user of a request. `None` if it has no credential, and anonymous users are not
/// accepted.
pub async fn authenticate(app: &App, parts: &Parts) -> Result<Option<Arc<User>>, Status> {
    let peer = parts.extensions.get::<Arc<Peer>>();
    let certificate = peer.and_then(|peer| peer.certificate.as_ref());
    let address = peer.map(|peer| peer.address.ip());
    app.authenticator.authenticate(certificate, &parts.headers, address).await.map_err(|refused| {
        match refused {
            Refused::Busy(busy) => return busy.into(),
            // An error of the server. The others are the client's.
            Refused::Unreviewed(why) => {
                if let Some(left_out) = UNREVIEWED_TOKENS.pass() {
                    tracing::warn!(why, left_out, "a token could not be reviewed");
                }
            }
            refused => {
                let address = peer.map(|peer| tracing::field::display(peer.address));
                match REFUSALS.pass() {
                    Some(left_out) => tracing::warn!(address, left_out, "answered 401 Unauthorized: {refused}"),
                    None => tracing::debug!(address, "answered 401 Unauthorized: {refused}"),
                }
            }
        }
        unauthorized(parts)
    })
}

/// Returns a 401. Over HTTP/2 the connection is closed as well; otherwise a client could guess
/// credentials on thousands of streams cheaply (AN11).
pub fn unauthorized(parts: &Parts) -> Status {
    if parts.version == http::Version::HTTP_2
        && let Some(peer) = parts.extensions.get::<Arc<Peer>>()
    {
        peer.leave.cancel();
    }
    Status::unauthorized()
}

/// Returns the user to act as. The caller must be authorized for every part of the impersonation
/// (IM1).
pub async fn impersonate(
    app: &App,
    info: &RequestInfo<'_>,
    user: &User,
    impersonation: Impersonation,
) -> Result<Arc<User>, Status> {
    for attributes in impersonation.attributes() {
        check(&app.authorizer.decide(user, &attributes).await, user, info, &attributes)?;
    }
    Ok(Arc::new(impersonation.user))
}

/// Returns the error if authorization could not decide (AZ6).
fn undecided(info: &RequestInfo<'_>, why: &str) -> Status {
    let path = info.path;
    if let Some(left_out) = UNREVIEWED_ACCESSES.pass() {
        tracing::error!(path, why, left_out, "an access could not be reviewed");
    }
    Status::failure(500, "InternalError", format!("Internal Server Error: {path:?}: the access could not be reviewed"))
}
