//! Warnings for the caller of a request, and annotations for the audit log. Admission adds them.
//!
//! They are collected apart from the result of the request, because they also apply to a rejected
//! request.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// The maximum number of warnings per request. Further ones are dropped.
const WARNINGS_MAX: usize = 100;
const ANNOTATIONS_MAX: usize = 100;

#[derive(Debug, Default)]
pub struct Warnings {
    collected: Mutex<Collected>,
}

#[derive(Debug, Default)]
struct Collected {
    texts: Vec<String>,
    annotations: BTreeMap<String, String>,
}

impl Warnings {
    /// Adds a warning, unless it is there already: a write that is retried warns once.
    pub fn warn(&self, warning: &str) {
        let mut collected = self.lock();
        if collected.texts.len() < WARNINGS_MAX && !collected.texts.iter().any(|known| known == warning) {
            collected.texts.push(warning.to_owned());
        }
    }

    /// Adds an annotation for the audit log. A later value of the same key replaces the earlier
    /// one.
    pub fn annotate(&self, key: String, value: String) {
        let mut collected = self.lock();
        if collected.annotations.len() < ANNOTATIONS_MAX || collected.annotations.contains_key(&key) {
            collected.annotations.insert(key, value);
        }
    }

    /// Adds the content of `others`, which another thread collected for the same request.
    pub fn merge(&self, others: &Warnings) {
        let Collected { texts, annotations } = std::mem::take(&mut *others.lock());
        texts.iter().for_each(|warning| self.warn(warning));
        annotations.into_iter().for_each(|(key, value)| self.annotate(key, value));
    }

    pub fn texts(&self) -> Vec<String> {
        self.lock().texts.clone()
    }

    pub fn annotations(&self) -> BTreeMap<String, String> {
        self.lock().annotations.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.collected.lock().expect("no panic while it is held")
    }
}
