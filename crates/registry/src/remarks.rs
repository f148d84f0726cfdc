//! Remarks of others on a write: warnings for the caller, and annotations for the audit log. They
//! are kept apart from the answer, because they count also when the write is refused.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// Per request. Further remarks are dropped.
const WARNINGS_MAX: usize = 100;
const ANNOTATIONS_MAX: usize = 100;

#[derive(Debug, Default)]
pub struct Remarks {
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    warnings: Vec<String>,
    annotations: BTreeMap<String, String>,
}

impl Remarks {
    /// Adds a warning, unless it is there already: a write that is retried warns once.
    pub fn warn(&self, warning: &str) {
        let mut made = self.lock();
        if made.warnings.len() < WARNINGS_MAX && !made.warnings.iter().any(|known| known == warning) {
            made.warnings.push(warning.to_owned());
        }
    }

    pub fn annotate(&self, key: String, value: String) {
        let mut made = self.lock();
        if made.annotations.len() < ANNOTATIONS_MAX || made.annotations.contains_key(&key) {
            made.annotations.insert(key, value);
        }
    }

    /// Takes over the remarks that were made on another thread about the same request.
    pub fn add(&self, others: &Remarks) {
        let Made { warnings, annotations } = std::mem::take(&mut *others.lock());
        warnings.iter().for_each(|warning| self.warn(warning));
        annotations.into_iter().for_each(|(key, value)| self.annotate(key, value));
    }

    pub fn warnings(&self) -> Vec<String> {
        self.lock().warnings.clone()
    }

    pub fn annotations(&self) -> BTreeMap<String, String> {
        self.lock().annotations.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Made> {
        self.made.lock().expect("no panic while it is held")
    }
}
