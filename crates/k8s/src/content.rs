//! The content of an object's text: plain at first, compressed once the object is idle.
//!
//! *Invariant:* readers get the same bytes before and after compression.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;

use super::packed::{Dictionaries, Packed};

#[derive(Debug)]
pub(super) struct Content(RwLock<Form>);

#[derive(Clone, Debug)]
enum Form {
    Plain(Bytes),
    Packed(Packed),
}

impl Content {
    pub fn new(bytes: Bytes) -> Content {
        Content(RwLock::new(Form::Plain(bytes)))
    }

    /// Returns the bytes. Until the content is packed they are shared with it, afterwards they are
    /// a copy.
    pub fn bytes(&self) -> Bytes {
        // The lock is released first: unpacking must not delay other readers.
        let packed = match &*self.read() {
            Form::Plain(bytes) => return bytes.clone(),
            Form::Packed(packed) => packed.clone(),
        };
        packed.unpack()
    }

    /// Calls `look` with the bytes without cloning them. For callers that read very many objects: a
    /// clone would also access the reference counter of each.
    pub fn with<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        let packed = match &*self.read() {
            Form::Plain(bytes) => return look(bytes),
            Form::Packed(packed) => packed.clone(),
        };
        look(&packed.unpack())
    }

    /// Returns the length of the unpacked bytes.
    pub fn len(&self) -> usize {
        match &*self.read() {
            Form::Plain(bytes) => bytes.len(),
            Form::Packed(packed) => packed.len(),
        }
    }

    pub fn is_packed(&self) -> bool {
        matches!(&*self.read(), Form::Packed(_))
    }

    /// Replaces packed content by the plain bytes.
    pub fn unpack(&self) {
        let packed = match &*self.read() {
            Form::Plain(_) => return,
            Form::Packed(packed) => packed.clone(),
        };
        let plain = Form::Plain(packed.unpack());
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = plain;
    }

    /// Packs the bytes if that saves memory. Does nothing if they are already packed.
    pub fn pack(&self, dictionaries: &mut Dictionaries) {
        let plain = match &*self.read() {
            Form::Plain(bytes) => bytes.clone(),
            Form::Packed(_) => return,
        };
        if let Some(packed) = dictionaries.pack(&plain) {
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = Form::Packed(packed);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Form> {
        // The content is replaced as a whole, so a panic cannot leave it half-written.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for Content {
    fn clone(&self) -> Content {
        Content(RwLock::new(self.read().clone()))
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Content) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Content {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_reads_as_before() {
        let text = Bytes::from("{\"a\":1234567890}".repeat(50));
        let content = Content::new(text.clone());
        let copy = content.clone();
        let mut dictionaries = Dictionaries::default();
        for _ in 0..2 {
            content.pack(&mut dictionaries);
            assert!(content.is_packed());
            assert_eq!((content.bytes(), content.len()), (text.clone(), text.len()));
            assert!(content.with(|bytes| bytes == &text[..]));
            content.unpack();
            assert!(!content.is_packed());
            assert_eq!(content.bytes(), text);
        }
        content.pack(&mut dictionaries);
        assert_eq!(content, copy);
    }
}
