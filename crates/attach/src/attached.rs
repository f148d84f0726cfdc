//! The API server that Ballast is attached to, and the state of the attachment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::Client;

use super::applier::Applier;
use super::kinds::ATTACHED_KINDS;
use super::progress::{Progress, ProgressReporter};
use super::write_limits::WriteLimits;
use ballast_base::log_limit::LogLimit;
use ballast_base::metrics;
use ballast_k8s::GroupResource;
use ballast_resource::{Kinds, ResourceKind};
use ballast_watch::{Cache, Writer};

/// An API server to attach to.
#[derive(Clone)]
pub struct Upstream {
    pub client: Client,
    /// For messages.
    pub url: String,
}

/// The access of Ballast to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadWrite,
    /// Every write to a kind that is stored upstream is rejected.
    ReadOnly,
}

/// The reflected part of the upstream. By default all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReflectorScope {
    /// The only namespace to reflect, for namespaced kinds. `None` for all.
    pub namespace: Option<String>,
    /// Kinds that are not reflected and appear empty.
    pub without: BTreeSet<GroupResource>,
}

/// The API server that Ballast is attached to: the reflector and the writes upstream.
pub struct Attached {
    pub(crate) upstream: Upstream,
    pub(crate) access: Access,
    pub(crate) scope: ReflectorScope,
    pub(crate) rows: BTreeMap<GroupResource, Arc<ResourceKind>>,
    pub(crate) applier: Applier,
    pub(crate) limits: WriteLimits,
    pub(crate) reporter: ProgressReporter,
    /// Lines about an upstream that cannot be reached: all kinds share one limit.
    pub(crate) unreachable_log: LogLimit,
    /// Lines about the refusals of a kind.
    pub(crate) refused_log: BTreeMap<GroupResource, LogLimit>,
}

impl Attached {
    /// Does nothing until `run` is called. `cache` and `writer` belong to the local log, which no
    /// other process may write to.
    pub fn new(
        upstream: Upstream,
        access: Access,
        scope: ReflectorScope,
        kinds: &Kinds,
        cache: Cache,
        writer: Writer,
    ) -> Attached {
        let attached =
            kinds.rows().iter().filter(|row| row.is_stored_version() && ATTACHED_KINDS.contains(&row.resource));
        let rows: BTreeMap<_, _> = attached.map(|row| (row.resource, Arc::clone(row))).collect();
        let reflected = rows.keys().filter(|kind| !scope.without.contains(*kind)).copied().collect();
        let refused_log = rows.keys().map(|kind| (*kind, LogLimit::new())).collect();
        metrics::upstream_synced(false);
        Attached {
            upstream,
            access,
            scope,
            rows,
            applier: Applier::new(cache, writer),
            limits: WriteLimits::default(),
            reporter: ProgressReporter::of(reflected),
            unreachable_log: LogLimit::new(),
            refused_log,
        }
    }

    /// Returns whether the upstream has requested a pause.
    pub(crate) fn is_paused(&self) -> bool {
        self.limits.is_paused()
    }

    /// Returns the URL of the upstream, for messages.
    pub(crate) fn url(&self) -> &str {
        &self.upstream.url
    }

    /// Returns the progress of the reflector.
    pub fn progress(&self) -> Progress {
        self.reporter.progress()
    }
}
