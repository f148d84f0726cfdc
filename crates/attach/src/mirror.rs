//! The mirror: lists and watches each kind at home, and hands what comes to the ledger.
//!
//! kube's watcher lists, resumes a watch where it broke off, and lists anew where the home has
//! forgotten that place (410). What is gone is known when a list is complete. A home that is away
//! is asked again for ever, after pauses with a bound, and what was mirrored stays.
//!
//! A home that can do it streams the list as the first events of a watch, out of its cache. For
//! pages it reads etcd, which takes several times as long.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::task::JoinSet;

use super::arrival::{Arrival, api_resource, metadata};
use super::ledger::{News, OBJECTS_PER_COMMIT_MAX, Source};
use super::{Attached, REST_MAX};
use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_host::Pauses;
use ballast_k8s::Key;
use ballast_resource::ResourceKind;
use ballast_watch::WriteError;

/// Objects in a page of a list.
const PAGE_OBJECTS: u32 = 500;
/// How long one watch lasts, in seconds. It bounds how long a connection that died silently goes
/// unnoticed.
const WATCH_SECONDS: u32 = 60;
/// The pause before a kind is listed anew: nothing could be written here, the home has forgotten
/// where the watch was, or it does not stream lists.
const RELIST_PAUSE: Duration = Duration::from_secs(1);
/// The first Kubernetes 1.x that knows streamed lists. Older ones would overlook that one is
/// wanted, and never say that it is complete.
const STREAMS_SINCE: u32 = 27;

/// How the home is asked for all objects of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listing {
    Streamed,
    Paged,
}

impl Attached {
    /// Mirrors all kinds for as long as it is polled. It ends only by a fault of ours.
    pub async fn follow(self: Arc<Self>) {
        let listing = self.listing().await;
        let mut kinds = JoinSet::new();
        for row in self.rows.values().filter(|row| !self.reach.without.contains(&row.resource)) {
            kinds.spawn(Arc::clone(&self).follow_kind(Arc::clone(row), listing));
        }
        if let Some(Err(error)) = kinds.join_next().await {
            tracing::error!(%error, "the mirror of a kind ended");
        }
    }

    /// By the version of the home. One that does not tell it gets what every home understands.
    async fn listing(&self) -> Listing {
        let Ok(version) = self.place.client.apiserver_version().await else { return Listing::Paged };
        // Some vendors write `27+`.
        let minor = version.minor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse();
        match (&*version.major, minor) {
            ("1", Ok(STREAMS_SINCE..)) => Listing::Streamed,
            _ => Listing::Paged,
        }
    }

    async fn follow_kind(self: Arc<Self>, row: Arc<ResourceKind>, mut listing: Listing) {
        loop {
            if let Err(error) = self.follow_lists(&row, &mut listing).await {
                tracing::warn!(kind = %row.resource, %error, "the mirror could not be written; listing anew");
                self.reports.failed(row.resource, error.to_string());
            }
            tokio::time::sleep(RELIST_PAUSE).await;
        }
    }

    /// Follows one kind from a complete list on. Ends where it has to be listed anew, perhaps in
    /// another way.
    async fn follow_lists(&self, row: &Arc<ResourceKind>, listing: &mut Listing) -> Result<(), WriteError> {
        let (client, kind) = (self.place.client.clone(), api_resource(row));
        let api: Api<Arrival> = match self.reach.namespace.as_deref().filter(|_| row.is_namespaced()) {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind),
            None => Api::all_with(client, &kind),
        };
        let config = watcher::Config::default().timeout(WATCH_SECONDS);
        let config = match listing {
            Listing::Streamed => config.streaming_lists(),
            Listing::Paged => config.page_size(PAGE_OBJECTS),
        };
        let events = watcher(api, config).backoff(Pauses::default());
        let mut chunks = pin!(events.ready_chunks(OBJECTS_PER_COMMIT_MAX));
        let mut listed: HashSet<Key> = HashSet::new();
        let (mut is_within_list, mut is_listed) = (false, false);
        while let Some(chunk) = chunks.next().await {
            let mut news = Vec::with_capacity(chunk.len());
            for event in chunk {
                if event.is_ok() {
                    self.reports.heard(row.resource);
                }
                match event {
                    Ok(Event::Init) => {
                        self.take(row, &mut news).await?;
                        if is_within_list && *listing == Listing::Streamed {
                            // A stream ends like any watch. This one was too short for the list.
                            *listing = Listing::Paged;
                            return Ok(());
                        }
                        is_within_list = true;
                        metrics::home_listed(row.resource.as_str());
                        listed.clear();
                    }
                    Ok(Event::InitApply(arrival)) => {
                        listed.insert(key(row, &arrival));
                        news.push(News::Is(arrival.object));
                    }
                    Ok(Event::InitDone) => {
                        self.take(row, &mut news).await?;
                        self.complete(row, std::mem::take(&mut listed)).await?;
                        (is_within_list, is_listed) = (false, true);
                    }
                    Ok(Event::Apply(arrival)) => news.push(News::Is(arrival.object)),
                    Ok(Event::Delete(arrival)) => news.push(News::Gone(arrival.object)),
                    Err(error) if *listing == Listing::Streamed && !is_listed && refuses_streams(&error) => {
                        *listing = Listing::Paged;
                        return Ok(());
                    }
                    Err(error) => {
                        self.take(row, &mut news).await?;
                        self.bear(row, &error).await;
                        if is_forgotten(&error) {
                            return Ok(());
                        }
                    }
                }
            }
            self.take(row, &mut news).await?;
        }
        Ok(())
    }

    async fn take(&self, row: &Arc<ResourceKind>, news: &mut Vec<News>) -> Result<(), WriteError> {
        if !news.is_empty() {
            self.ledger.take(row, std::mem::take(news), Source::Mirror).await?;
        }
        Ok(())
    }

    async fn complete(&self, row: &ResourceKind, listed: HashSet<Key>) -> Result<(), WriteError> {
        let gone = self.ledger.keep_only(row.resource, &listed).await?;
        tracing::debug!(kind = %row.resource, objects = listed.len(), gone, "listed at home");
        if self.reports.listed(row.resource) {
            tracing::info!(home = self.place.url, "the mirror is in step");
        }
        Ok(())
    }

    /// Says what went wrong, and leaves the home alone for as long as it asks. The watcher's own
    /// pause follows.
    async fn bear(&self, row: &ResourceKind, error: &watcher::Error) {
        let why = telemetry::with_causes(error);
        tracing::warn!(kind = %row.resource, home = self.place.url, error = why, "failed to follow a kind at home");
        metrics::home_failed(row.resource.as_str());
        self.reports.failed(row.resource, why);
        if let Some(seconds) = rest_seconds(error) {
            tokio::time::sleep(Duration::from_secs(seconds.into()).min(REST_MAX)).await;
        }
    }
}

fn key(row: &ResourceKind, arrival: &Arrival) -> Key {
    let [namespace, name] = ["namespace", "name"].map(|member| metadata(&arrival.object, member));
    match row.is_namespaced() {
        true => Key::namespaced(row.resource, namespace, name),
        false => Key::cluster(row.resource, name),
    }
}

/// Whether the home refuses a watch because its beginning is too long ago. kube's watcher lists
/// anew by itself only where a watch says so that has begun.
fn is_forgotten(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

/// Whether the home refuses to stream a list: it has the feature turned off, or cannot begin now.
fn refuses_streams(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if matches!(status.code, 400 | 410 | 422))
}

/// How long the home asks to be left alone (`Retry-After`).
fn rest_seconds(error: &watcher::Error) -> Option<u32> {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status,
        _ => return None,
    };
    status.details.as_ref().map(|details| details.retry_after_seconds).filter(|&seconds| seconds > 0)
}
