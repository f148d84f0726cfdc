//! Flags of objects: whether a word is in the content of an object. Many loops need this at each
//! change of an object, so the result is cached in the object, in bits that take no additional
//! memory.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use memchr::memmem::Finder;

use super::Text;

/// Largest number of flags per kind: each takes two bits of an object.
const FLAGS_MAX: u32 = u16::BITS / 2;

/// A word for which each object caches whether its content contains it.
///
/// If the word is absent, the object lacks the field that the word is the name of. If it is
/// present, it may also occur in another field, so the caller parses the object.
#[derive(Debug)]
pub struct Flag {
    number: u32,
    word: &'static str,
    finder: OnceLock<Finder<'static>>,
}

impl Flag {
    /// Creates a flag. The flags of one kind must have different numbers.
    pub const fn new(number: u32, word: &'static str) -> Flag {
        assert!(number < FLAGS_MAX, "there is no room for the flag");
        Flag { number, word, finder: OnceLock::new() }
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    fn is_in(&self, content: &[u8]) -> bool {
        self.finder.get_or_init(|| Finder::new(self.word)).find(content).is_some()
    }
}

/// The flags of an object: for each flag, whether it was computed, and whether it is set.
#[derive(Debug, Default)]
pub(super) struct Flags(AtomicU16);

impl Flags {
    /// Returns whether the flag is set. Searches the content only if the flag was not computed
    /// before.
    pub fn has(&self, flag: &Flag, text: &Text) -> bool {
        let (asked, set) = (1 << (2 * flag.number), 2 << (2 * flag.number));
        // Two threads that compute a flag at the same time get the same result, and nothing else
        // depends on the order.
        let known = self.0.load(Ordering::Relaxed);
        if known & asked != 0 {
            return known & set != 0;
        }
        let is_set = text.with_content(|content| flag.is_in(content));
        self.0.fetch_or(if is_set { asked | set } else { asked }, Ordering::Relaxed);
        is_set
    }
}
