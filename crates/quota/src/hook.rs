//! The hook that applies quotas to each commit of the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::tracked_quota::{self, TrackedQuota};
use super::usage::Usage;
use ballast_api::karmada::policy::v1alpha1::FEDERATED_RESOURCE_QUOTAS;
use ballast_api::karmada::work::v1alpha2::RESOURCE_BINDINGS;
use ballast_k8s::{Details, GroupResource, MemberPath, Object, Status};
use ballast_watch::{CommitHook, CommitHookFactory, Draft, Expect, View, Write};

/// The reason of a rejected write, and of the condition `Scheduled` of a rejected binding.
pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";

/// Applies quotas to the commits of the log.
pub struct Quotas;

impl CommitHookFactory for Quotas {
    fn begin(&self) -> Box<dyn CommitHook> {
        Box::new(QuotaHook::default())
    }

    fn owned_members(&self, resource: GroupResource) -> &'static [MemberPath] {
        match resource {
            FEDERATED_RESOURCE_QUOTAS => tracked_quota::KEPT,
            _ => &[],
        }
    }
}

/// The quotas that the writes of one transaction change.
#[derive(Clone, Default)]
pub(super) struct QuotaHook {
    /// By namespace, ordered by the quotas' names.
    quotas: BTreeMap<Arc<str>, Vec<TrackedQuota>>,
}

impl QuotaHook {
    /// Returns the quotas of a namespace. The first use reads them.
    pub fn of(&mut self, view: &View, namespace: &Arc<str>) -> &mut Vec<TrackedQuota> {
        self.quotas.entry(Arc::clone(namespace)).or_insert_with(|| {
            let quotas = view.list(FEDERATED_RESOURCE_QUOTAS, Some(namespace));
            quotas.filter_map(|quota| TrackedQuota::of(view, quota)).collect()
        })
    }

    fn charge(&mut self, view: &View, before: Option<&Arc<Object>>, after: Option<&Arc<Object>>) -> Result<(), Status> {
        let Some(Object { key, .. }) = after.or(before).map(|object| &**object) else { return Ok(()) };
        if self.quotas.is_empty() && view.count(FEDERATED_RESOURCE_QUOTAS, None) == 0 {
            return Ok(());
        }
        let quotas = self.of(view, &key.namespace);
        if quotas.is_empty() {
            return Ok(());
        }
        let usage = |object: Option<&Arc<Object>>| object.map(|object| Usage::of(object)).unwrap_or_default();
        let difference = usage(after).minus(usage(before));
        if difference.is_empty() {
            return Ok(());
        }
        // All quotas are checked before any is changed.
        for tracked in quotas.iter() {
            tracked.check(&difference).map_err(|message| {
                Status::failure(403, QUOTA_EXCEEDED, message).with(Details::of(key.resource, &key.name))
            })?;
        }
        quotas.iter_mut().for_each(|tracked| tracked.take(&difference));
        Ok(())
    }

    /// Replaces a quota that another writer has written. Its status may be wrong, so the usage is
    /// counted again.
    fn replace(&mut self, view: &View, before: Option<&Arc<Object>>, after: Option<&Arc<Object>>) {
        let Some(Object { key, .. }) = after.or(before).map(|object| &**object) else { return };
        let quotas = self.of(view, &key.namespace);
        quotas.retain(|tracked| tracked.name() != &key.name);
        if let Some(tracked) = after.and_then(|quota| TrackedQuota::counted(view, quota)) {
            let index = quotas.partition_point(|known| known.name() < tracked.name());
            quotas.insert(index, tracked);
        }
    }
}

impl CommitHook for QuotaHook {
    fn on_write(
        &mut self,
        view: &View,
        before: Option<&Arc<Object>>,
        after: Option<&Arc<Object>>,
    ) -> Result<(), Status> {
        match after.or(before).map(|object| object.key.resource) {
            Some(RESOURCE_BINDINGS) => self.charge(view, before, after)?,
            Some(FEDERATED_RESOURCE_QUOTAS) => self.replace(view, before, after),
            _ => {}
        }
        Ok(())
    }

    fn savepoint(&self) -> Box<dyn CommitHook> {
        Box::new(self.clone())
    }

    fn finish(&mut self, view: &View) -> Vec<Write> {
        let quotas = std::mem::take(&mut self.quotas);
        let written = quotas.into_values().flatten().filter_map(|tracked| tracked.written(view));
        let write = |(object, document): (Arc<Object>, _)| Write {
            key: object.key.clone(),
            expect: Expect::At(object.revision),
            draft: Draft::Put(document),
        };
        written.map(write).collect()
    }
}
