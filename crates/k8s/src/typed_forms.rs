//! A bounded cache of the typed forms of large objects.
//!
//! A typed form may take many times the bytes of its text: each small map takes half a kilobyte. An
//! object stores the form of a small text itself. The form of a large text is available only while
//! it is among the most recently used ones of the process.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Largest size of a text, in bytes, for which the form is stored in the object.
pub(super) const SMALL_BYTES_MAX: usize = 64 * 1024;
/// Total size of the texts of the cached large forms, in bytes.
const LARGE_BYTES_MAX: usize = 32 * 1024 * 1024;

pub(super) type Form = Arc<dyn Any + Send + Sync>;

static RECENT: Mutex<RecentForms> = Mutex::new(RecentForms::new(LARGE_BYTES_MAX));

/// A weak reference to the form of a large object.
#[derive(Default)]
pub(super) struct LargeForm(Mutex<Option<Weak<dyn Any + Send + Sync>>>);

impl LargeForm {
    pub fn get(&self) -> Option<Form> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.upgrade()
    }

    /// Caches the form of a text with this many bytes. Older forms may be evicted.
    pub fn set(&self, form: &Form, bytes: usize) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::downgrade(form));
        let older = RECENT.lock().unwrap_or_else(PoisonError::into_inner).push(form, bytes);
        // Freeing a large form takes long, so it happens after the lock is released.
        drop(older);
    }
}

struct RecentForms {
    forms: VecDeque<(usize, Form)>,
    bytes: usize,
    bytes_max: usize,
}

impl RecentForms {
    const fn new(bytes_max: usize) -> RecentForms {
        RecentForms { forms: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Adds a form, and returns the evicted ones. The newest form is never evicted.
    fn push(&mut self, form: &Form, bytes: usize) -> Vec<Form> {
        self.bytes += bytes;
        self.forms.push_back((bytes, Arc::clone(form)));
        let mut older = Vec::new();
        while self.bytes > self.bytes_max
            && self.forms.len() > 1
            && let Some((bytes, form)) = self.forms.pop_front()
        {
            self.bytes -= bytes;
            older.push(form);
        }
        older
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_forms_are_kept_within_a_bound() {
        let mut recent = RecentForms::new(100);
        let forms: Vec<Form> = (0..5).map(|number: i32| Arc::new(number) as Form).collect();
        let older: Vec<usize> = forms.iter().map(|form| recent.push(form, 40).len()).collect();
        assert_eq!(older, [0, 0, 1, 1, 1]);
        assert_eq!(recent.push(&forms[0], 1_000).len(), 2, "the newest one stays, whatever its size");
        assert_eq!((recent.forms.len(), recent.bytes), (1, 1_000));
    }
}
