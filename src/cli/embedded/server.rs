//! The embedded server, from its start to its end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::in_process::InProcess;
use super::progress::{self, ProgressLine};
use super::{ProfileArgs, rights};
use ballast_api as api;
use ballast_attach::ReflectorScope;
use ballast_node::attached;
use ballast_node::kubeconfig::Connected;

/// Interval at which the progress is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A server inside this process that reads a Karmada. It ends when this is dropped.
pub struct Embedded {
    home: Connected,
    inside: InProcess,
}

impl Embedded {
    /// Starts the server and returns once it has read Karmada. Progress is reported on standard
    /// error. If `namespace` is given, only permissions in that namespace are required.
    ///
    /// # Errors
    ///
    /// Returns an error if a permission is missing, if Karmada does not serve a kind, or if it
    /// sends nothing for as long as a request may take.
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

    /// Returns the connection to the server. Messages name it by a description instead of a URL.
    pub fn connected(&self) -> Connected {
        let client = self.inside.client.clone();
        let url = "the server inside this command".to_owned();
        let Connected { context, namespace, within, .. } = self.home.clone();
        Connected { client, url, context, namespace, within }
    }

    /// Waits until the server ends unexpectedly, and returns the reason.
    #[cfg(feature = "page")]
    pub async fn ended(&mut self) -> anyhow::Error {
        self.inside.ended().await
    }
}
