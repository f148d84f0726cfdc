//! A server inside a command, for a Karmada that has nothing of Ballast installed.
//!
//! The commands that only read (`top`, `displaced`, `why`, `preview`) and the page start it in
//! their own process. Its log is in memory, and the reflector (`attach`) fills it from Karmada. It
//! has no scheduler and no controllers. It ends with the command.
//!
//! *Invariants.* Karmada is read and never written: get, list and watch. Only this process reaches
//! the server: it has no port, so it needs no credential either (`in_process`). It answers after it
//! has read every kind that it needs.

mod in_process;
mod progress;
mod rights;

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::in_process::InProcess;
use self::progress::ProgressLine;
use ballast_api as api;
use ballast_attach::ReflectorScope;
use ballast_node::UsageError;
use ballast_node::attached;
use ballast_node::config::SchedulingProfile;
use ballast_node::kubeconfig::Connected;

/// Where the documents say how to begin.
const MANUAL: &str = "docs/karmada.md";
/// The largest discovery document that is read to its end. Then its connection can be used again.
const DISCOVERY_BYTES_MAX: usize = 1 << 20;
/// How often the progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a server has to offer, as its discovery says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// `ballast.dev` is served: the server is Ballast, or a kube-apiserver in front of it.
    Ballast,
    /// Bindings are served, and `ballast.dev` is not.
    Karmada,
}

/// Asks the server what it serves. Where it does not say no, it is taken for Ballast, and its next
/// answer tells what is wrong.
///
/// # Errors
///
/// The server cannot be reached, or it serves neither.
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
    // What it says is of no interest, and a connection that breaks shows in the next request.
    let _read = tokio::time::timeout(server.within, Limited::new(body, DISCOVERY_BYTES_MAX).collect()).await;
    Ok(head.status == StatusCode::NOT_FOUND)
}

/// How to decide about a Karmada without Ballast.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct ProfileArgs {
    /// Beside a Karmada without Ballast: decide as its own scheduler does (`karmada`, the default)
    /// or as Ballast would (`default`)
    #[arg(long, value_enum, value_name = "PROFILE", help_heading = "Server", hide_short_help = true)]
    scheduling_profile: Option<SchedulingProfile>,
}

impl ProfileArgs {
    fn profile(self) -> SchedulingProfile {
        // What moves there is moved by Karmada's scheduler, so its decisions are the true ones.
        self.scheduling_profile.unwrap_or(SchedulingProfile::Karmada)
    }

    /// # Errors
    ///
    /// A profile is named, and this server is a Ballast, which decides by its own.
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

/// The refusal of a command that needs rebalances which are carried out.
pub fn needs_rebalances(url: &str, command: &str) -> UsageError {
    UsageError(format!(
        "{command} needs a Ballast that carries out rebalances, and {url} is a Karmada without Ballast: it does so where \
         it keeps the bindings, and beside Karmada with `ballast serve --attach` ({MANUAL}); top, displaced, why and \
         preview work as it is"
    ))
}

/// The refusal of a flag about the past.
pub fn needs_past(url: &str, flag: &str) -> UsageError {
    UsageError(format!(
        "{flag} needs a log of the past, and {url} is a Karmada without Ballast, which keeps none: `ballast serve \
         --attach` beside it remembers everything from its start ({MANUAL})"
    ))
}

/// A server inside this process that looks at a Karmada. It ends when this is dropped.
pub struct Embedded {
    home: Connected,
    inside: InProcess,
}

impl Embedded {
    /// Starts the server and returns once it has read Karmada. What is being done is told on
    /// standard error. `namespace` is the only one that is asked about, if there is one: it is
    /// enough to have the rights there.
    ///
    /// # Errors
    ///
    /// A right is missing, Karmada does not serve a kind, or nothing was heard from it for as long
    /// as an answer may take.
    pub async fn start(home: Connected, rules: ProfileArgs, namespace: Option<&str>) -> anyhow::Result<Embedded> {
        let mut line = ProgressLine::begin(&home.url);
        let kinds = Arc::new(attached::kinds(&api::standalone_kinds()));
        let scope = rights::check(&home, &kinds, namespace).await?;
        if scope != ReflectorScope::default() {
            progress::tell_bounds(&scope);
        }
        let inside = InProcess::start(&home, kinds, rules.profile().rules(), scope).await?;
        let mut embedded = Embedded { inside, home };
        embedded.read(&mut line).await?;
        line.end(&embedded.inside.view());
        Ok(embedded)
    }

    /// Waits until the reflector has read every kind once.
    async fn read(&mut self, line: &mut ProgressLine) -> anyhow::Result<()> {
        let Embedded { home, inside } = self;
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut read, mut news) = (0, Instant::now());
        let reflector = inside.progress();
        loop {
            tokio::select! {
                () = reflector.synced() => return Ok(()),
                fault = inside.ended() => return Err(fault),
                _ = looks.tick() => {}
            }
            let view = inside.view();
            line.show(&view);
            let now_read = progress::objects(&view);
            if now_read != read {
                (read, news) = (now_read, Instant::now());
            }
            if news.elapsed() > home.within {
                let why = reflector.fault().unwrap_or_else(|| "it says nothing".to_owned());
                let (url, seconds) = (&home.url, home.within.as_secs_f32());
                return Err(anyhow!("nothing was heard from {url} for {seconds} s: {why}"));
            }
        }
    }

    /// How the server is asked. Messages call it by what it is.
    pub fn connected(&self) -> Connected {
        let client = self.inside.client.clone();
        let url = "the server inside this command".to_owned();
        let Connected { context, namespace, within, .. } = self.home.clone();
        Connected { client, url, context, namespace, within }
    }

    /// Waits until the server ends by itself, and says why. It should not.
    pub async fn ended(&mut self) -> anyhow::Error {
        self.inside.ended().await
    }
}
