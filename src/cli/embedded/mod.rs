//! An embedded server inside a command, for a Karmada without Ballast.
//!
//! The read-only commands (`top`, `displaced`, `why`, `preview`) and the page start it in their own
//! process. Its log is in memory, and the reflector (`attach`) fills it from Karmada. It has no
//! scheduler and no controllers. It ends with the command.
//!
//! *Invariants.* Karmada is read and never written: get, list and watch. Only this process reaches
//! the server: it has no port, so it needs no credential either (`in_process`). It responds after
//! it has read every kind that it needs.

#[cfg(feature = "attach")]
mod in_process;
#[cfg(feature = "attach")]
mod progress;
#[cfg(feature = "attach")]
mod rights;
#[cfg_attr(not(feature = "attach"), path = "no_server.rs")]
mod server;

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;

pub use self::server::Embedded;
use ballast_node::UsageError;
use ballast_node::config::SchedulingProfile;
use ballast_node::kubeconfig::Connected;

/// The documentation about attaching.
const MANUAL: &str = "docs/karmada.md";
/// Maximum number of bytes read of a discovery document, so that its connection can be reused.
const DISCOVERY_BYTES_MAX: usize = 1 << 20;

/// The kind of a server, according to its discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// `ballast.dev` is served: the server is Ballast, or a kube-apiserver in front of it.
    Ballast,
    /// Bindings are served, and `ballast.dev` is not.
    Karmada,
}

/// Queries the APIs of the server. Unless it lacks Ballast's API, it is assumed to be Ballast, and
/// its next response reports any problem.
///
/// # Errors
///
/// Returns an error if the server cannot be reached, or if it serves neither API.
pub async fn kind_of_server(server: &Connected) -> anyhow::Result<ServerKind> {
    if !lacks(server, "/apis/ballast.dev/v1alpha1").await? {
        return Ok(ServerKind::Ballast);
    }
    if !lacks(server, "/apis/work.karmada.io/v1alpha2").await? {
        return Ok(ServerKind::Karmada);
    }
    let fault = format!(
        "{} serves neither ballast.dev nor work.karmada.io/v1alpha2, so it is no Ballast and no Karmada: name the \
         kubeconfig of one with --kubeconfig, or its context with --context (Karmada's is often karmada-apiserver)",
        server.url
    );
    Err(UsageError(fault).into())
}

async fn lacks(server: &Connected, path: &str) -> anyhow::Result<bool> {
    let request = Request::get(path).header("accept", "application/json").body(Body::empty())?;
    let (head, body) = server.send(request).await?.into_parts();
    // The content is irrelevant, and a broken connection is detected by the next request.
    let _read = tokio::time::timeout(server.within, Limited::new(body, DISCOVERY_BYTES_MAX).collect()).await;
    Ok(head.status == StatusCode::NOT_FOUND)
}

/// The scheduling profile for a Karmada without Ballast.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct ProfileArgs {
    /// For a Karmada without Ballast: decide like its own scheduler (`karmada`, the default) or
    /// like Ballast (`default`)
    #[arg(long, value_enum, value_name = "PROFILE", help_heading = "Server", hide_short_help = true)]
    scheduling_profile: Option<SchedulingProfile>,
}

impl ProfileArgs {
    #[cfg(feature = "attach")]
    fn profile(self) -> SchedulingProfile {
        // Karmada's scheduler executes the moves there, so its decisions are accurate.
        self.scheduling_profile.unwrap_or(SchedulingProfile::Karmada)
    }

    /// Checks that no profile is given for a server that is a Ballast.
    ///
    /// # Errors
    ///
    /// Returns an error if a profile is given, because a Ballast decides by its own.
    pub fn refuse_at(self, url: &str) -> Result<(), UsageError> {
        match self.scheduling_profile {
            None => Ok(()),
            Some(_) => Err(UsageError(format!(
                "--scheduling-profile is for a Karmada without Ballast, and {url} is a Ballast, which decides by the \
                 profile that it was started with: leave the flag out"
            ))),
        }
    }
}

/// Returns the error of a command that requires executed rebalances.
pub fn needs_rebalances(url: &str, command: &str) -> UsageError {
    UsageError(format!(
        "{command} needs a Ballast that carries out rebalances, and {url} is a Karmada without Ballast: it does so where \
         it keeps the bindings, and beside Karmada with `ballast serve --attach` ({MANUAL}); top, displaced, why and \
         preview work as it is"
    ))
}

/// Returns the error of a flag about the past.
pub fn needs_past(url: &str, flag: &str) -> UsageError {
    UsageError(format!(
        "{flag} needs a log of the past, and {url} is a Karmada without Ballast, which keeps none: `ballast serve \
         --attach` beside it remembers everything from its start ({MANUAL})"
    ))
}
