//! The reflector: lists and watches each kind upstream, and passes the changes to the applier.
//!
//! kube's watcher lists, resumes an interrupted watch, and lists again if the upstream has
//! compacted that revision (410). Deletions are detected when a list is complete. An unreachable
//! upstream is retried forever, with bounded pauses, and reflected objects stay.
//!
//! If the upstream supports it, the list is streamed as the first events of a watch, out of the
//! watch cache. Paged lists read etcd, which takes several times as long.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::task::JoinSet;

use super::applier::{Change, OBJECTS_PER_COMMIT_MAX, Source};
use super::attached::Attached;
use super::upstream_object::{UpstreamObject, api_resource, metadata};
use super::write_limits::PAUSE_MAX;
use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_host::Pauses;
use ballast_k8s::Key;
use ballast_resource::ResourceKind;
use ballast_watch::WriteError;

/// Objects in a page of a list.
const PAGE_OBJECTS: u32 = 500;
/// The duration of one watch, in seconds. It limits how long a silently lost connection goes
/// unnoticed.
const WATCH_SECONDS: u32 = 60;
/// The pause before a kind is listed again: the local write failed, the revision of the watch was
/// compacted, or the upstream does not stream lists.
const RELIST_PAUSE: Duration = Duration::from_secs(1);
/// The first Kubernetes 1.x with streamed lists. Older versions ignore the option and never report
/// that the list is complete.
const STREAMS_SINCE: u32 = 27;

/// The method of listing all objects of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listing {
    Streamed,
    Paged,
}

impl Attached {
    /// Reflects all kinds while it is polled. Ends only by a defect of this program.
    pub async fn run(self: Arc<Self>) {
        let listing = self.listing().await;
        let mut kinds = JoinSet::new();
        for row in self.rows.values().filter(|row| !self.scope.without.contains(&row.resource)) {
            kinds.spawn(Arc::clone(&self).reflect_kind(Arc::clone(row), listing));
        }
        if let Some(Err(error)) = kinds.join_next().await {
            tracing::error!(%error, "the mirror of a kind ended");
        }
    }

    /// Chooses the method by the version of the upstream. Paged lists work with every version, so
    /// they are used if it is unknown.
    async fn listing(&self) -> Listing {
        let Ok(version) = self.upstream.client.apiserver_version().await else { return Listing::Paged };
        // Some vendors report `27+`.
        let minor = version.minor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse();
        match (&*version.major, minor) {
            ("1", Ok(STREAMS_SINCE..)) => Listing::Streamed,
            _ => Listing::Paged,
        }
    }

    async fn reflect_kind(self: Arc<Self>, row: Arc<ResourceKind>, mut listing: Listing) {
        loop {
            if let Err(error) = self.list_and_watch(&row, &mut listing).await {
                tracing::warn!(kind = %row.resource, %error, "the mirror could not be written; listing anew");
                self.reporter.failed(row.resource, error.to_string());
            }
            tokio::time::sleep(RELIST_PAUSE).await;
        }
    }

    /// Follows one kind from a complete list on. Returns if it must be listed again, possibly by
    /// the other method.
    async fn list_and_watch(&self, row: &Arc<ResourceKind>, listing: &mut Listing) -> Result<(), WriteError> {
        let (client, kind) = (self.upstream.client.clone(), api_resource(row));
        let api: Api<UpstreamObject> = match self.scope.namespace.as_deref().filter(|_| row.is_namespaced()) {
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
            let mut changes = Vec::with_capacity(chunk.len());
            for event in chunk {
                if event.is_ok() {
                    self.reporter.clear_fault(row.resource);
                }
                match event {
                    Ok(Event::Init) => {
                        self.take(row, &mut changes).await?;
                        if is_within_list && *listing == Listing::Streamed {
                            // A stream ends like any watch. This one was too short for the list.
                            *listing = Listing::Paged;
                            return Ok(());
                        }
                        is_within_list = true;
                        metrics::upstream_listed(row.resource.as_str());
                        listed.clear();
                    }
                    Ok(Event::InitApply(received)) => {
                        listed.insert(key(row, &received));
                        changes.push(Change::Put(received.object));
                    }
                    Ok(Event::InitDone) => {
                        self.take(row, &mut changes).await?;
                        self.complete(row, std::mem::take(&mut listed)).await?;
                        (is_within_list, is_listed) = (false, true);
                    }
                    Ok(Event::Apply(received)) => changes.push(Change::Put(received.object)),
                    Ok(Event::Delete(received)) => changes.push(Change::Deleted(received.object)),
                    Err(error) if *listing == Listing::Streamed && !is_listed && refuses_streams(&error) => {
                        *listing = Listing::Paged;
                        return Ok(());
                    }
                    Err(error) => {
                        self.take(row, &mut changes).await?;
                        self.handle_error(row, &error).await;
                        if is_expired(&error) {
                            return Ok(());
                        }
                    }
                }
            }
            self.take(row, &mut changes).await?;
        }
        Ok(())
    }

    async fn take(&self, row: &Arc<ResourceKind>, changes: &mut Vec<Change>) -> Result<(), WriteError> {
        if !changes.is_empty() {
            self.applier.take(row, std::mem::take(changes), Source::Reflector).await?;
        }
        Ok(())
    }

    async fn complete(&self, row: &ResourceKind, listed: HashSet<Key>) -> Result<(), WriteError> {
        let gone = self.applier.prune(row.resource, &listed).await?;
        tracing::debug!(kind = %row.resource, objects = listed.len(), gone, "listed the objects of a kind in Karmada");
        if self.reporter.listed(row.resource) {
            tracing::info!(karmada = self.upstream.url, "the mirror is in step");
        }
        Ok(())
    }

    /// Logs the error, and pauses for as long as the upstream requests. The watcher's own pause
    /// follows.
    async fn handle_error(&self, row: &ResourceKind, error: &watcher::Error) {
        let why = telemetry::with_causes(error);
        let limit = match refusal(error) {
            Some(_) => self.refused_log.get(&row.resource).unwrap_or(&self.unreachable_log),
            None => &self.unreachable_log,
        };
        if let Some(left_out) = limit.pass() {
            let karmada = &self.upstream.url;
            tracing::warn!(kind = %row.resource, karmada, error = why, left_out, "failed to follow a kind in Karmada");
        }
        metrics::upstream_failed(row.resource.as_str());
        self.reporter.failed(row.resource, why);
        if let Some(seconds) = retry_after_seconds(error) {
            tokio::time::sleep(Duration::from_secs(seconds.into()).min(PAUSE_MAX)).await;
        }
    }
}

fn key(row: &ResourceKind, received: &UpstreamObject) -> Key {
    let [namespace, name] = ["namespace", "name"].map(|member| metadata(&received.object, member));
    match row.is_namespaced() {
        true => Key::namespaced(row.resource, namespace, name),
        false => Key::cluster(row.resource, name),
    }
}

/// Returns whether the upstream rejects a watch because its start was compacted. kube's watcher
/// lists again by itself only if a running watch reports this.
fn is_expired(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

/// Returns whether the upstream rejects to stream a list: the feature is disabled, or cannot start
/// now.
fn refuses_streams(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if matches!(status.code, 400 | 410 | 422))
}

/// Returns the status with which the upstream rejected a list or a watch.
fn refusal(error: &watcher::Error) -> Option<&kube::core::Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status),
        watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

/// Returns the pause that the upstream requests (`Retry-After`).
fn retry_after_seconds(error: &watcher::Error) -> Option<u32> {
    refusal(error)?.details.as_ref().map(|details| details.retry_after_seconds).filter(|&seconds| seconds > 0)
}
