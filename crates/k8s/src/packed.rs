//! Compression of texts against a similar text (a dictionary). The objects of a kind are similar:
//! most of a binding is the names of its members, and the settings of its policy.
//!
//! A text is packed with LZ4 against a dictionary, which is the text of another object of the kind.
//! Unpacking takes about as long as copying, and returns exactly the text that was packed.
//!
//! The first text of a kind becomes the first dictionary, by chance. It may be a bad one: a binding
//! that is not scheduled yet packs scheduled ones badly. So from time to time another text is tried
//! as a dictionary.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lz4_flex::block::{compress_with_dict, decompress_into_with_dict};

/// Shorter texts are not packed: they would save little.
const TEXT_BYTES_MIN: usize = 256;
/// Longer texts are not packed. Unpacking one would take milliseconds at each read.
const TEXT_BYTES_MAX: usize = 32 * 1024;
/// Number of dictionaries per kind that new texts are packed with. An older one lives for as long
/// as packed texts reference it.
const DICTIONARIES_MAX: usize = 4;
/// A text must be packed to less than one part in this many of its length. Otherwise it becomes a
/// dictionary itself.
const FITS_BELOW: usize = 2;

/// Number of texts between two trials of a dictionary.
const TRIED_EVERY: usize = 500;
/// Number of texts that a trial packs with both dictionaries.
const TRIED_ON: usize = 16;
/// The new dictionary is adopted if it saves more than one part in this many of the bytes.
const SAVES: usize = 10;

/// A packed text. Cheap to clone.
#[derive(Clone)]
pub(super) struct Packed {
    bytes: Arc<[u8]>,
    dictionary: Arc<[u8]>,
    /// The length of the unpacked text.
    len: u32,
}

/// The dictionaries for texts of one kind.
#[derive(Default)]
pub struct Dictionaries {
    /// The most recently used dictionary is first.
    known: Vec<Arc<[u8]>>,
    /// The number of texts since the last trial.
    packed: usize,
    trial: Option<Trial>,
}

/// The trial of a text as a dictionary.
struct Trial {
    dictionary: Arc<[u8]>,
    texts: usize,
    /// Total sizes of these texts, packed with the known dictionaries and with the new one.
    bytes: [usize; 2],
}

impl Dictionaries {
    /// Compresses a text. Returns `None` if the text is too short or too long to be packed.
    pub(super) fn pack(&mut self, text: &[u8]) -> Option<Packed> {
        if !(TEXT_BYTES_MIN..=TEXT_BYTES_MAX).contains(&text.len()) {
            return None;
        }
        for place in 0..self.known.len() {
            let packed = Packed::of(text, &self.known[place]);
            if packed.bytes.len() < text.len() / FITS_BELOW {
                self.known[..=place].rotate_right(1);
                self.compare(text, &packed);
                return Some(packed);
            }
        }
        // No dictionary fits this text. Later texts may resemble it.
        let dictionary: Arc<[u8]> = text.into();
        self.learn(Arc::clone(&dictionary));
        Some(Packed::of(text, &dictionary))
    }

    fn learn(&mut self, dictionary: Arc<[u8]>) {
        self.known.insert(0, dictionary);
        self.known.truncate(DICTIONARIES_MAX);
    }

    /// Continues a trial, or begins one when it is due. `packed` is the text, packed with the known
    /// dictionaries.
    fn compare(&mut self, text: &[u8], packed: &Packed) {
        let Some(trial) = &mut self.trial else {
            self.packed += 1;
            if self.packed == TRIED_EVERY {
                self.packed = 0;
                self.trial = Some(Trial { dictionary: text.into(), texts: 0, bytes: [0; 2] });
            }
            return;
        };
        let sizes = [packed, &Packed::of(text, &trial.dictionary)].map(|packed| packed.bytes.len());
        trial.bytes = std::array::from_fn(|which| trial.bytes[which] + sizes[which]);
        trial.texts += 1;
        if trial.texts == TRIED_ON
            && let Some(Trial { dictionary, bytes: [known, tried], .. }) = self.trial.take()
            && tried < known - known / SAVES
        {
            self.learn(dictionary);
        }
    }
}

impl Packed {
    fn of(text: &[u8], dictionary: &Arc<[u8]>) -> Packed {
        let bytes = compress_with_dict(text, dictionary).into();
        let len = u32::try_from(text.len()).expect("longer texts are not packed");
        Packed { bytes, dictionary: Arc::clone(dictionary), len }
    }

    pub fn len(&self) -> usize {
        self.len as usize
    }

    pub fn unpack(&self) -> Bytes {
        let mut text = vec![0; self.len()];
        let written = decompress_into_with_dict(&self.bytes, &mut text, &self.dictionary);
        assert_eq!(written.ok(), Some(self.len()), "only `Packed::of` makes packed texts");
        text.into()
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Packed({} of {} bytes)", self.bytes.len(), self.len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn binding(number: usize) -> Vec<u8> {
        let names: Vec<String> = (0..40).map(|place| format!("member-{place}")).collect();
        json!({"metadata": {"name": format!("web-{number}"), "uid": number * 7919}, "spec": {"clusters": names}})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn objects_of_a_kind_take_a_fraction_of_their_text() {
        let mut dictionaries = Dictionaries::default();
        for number in 0..100 {
            let text = binding(number);
            let packed = dictionaries.pack(&text).unwrap();
            assert_eq!((&packed.unpack()[..], packed.len()), (&text[..], text.len()));
            assert!(packed.bytes.len() * 8 < text.len(), "{packed:?}");
        }
        assert_eq!(dictionaries.known.len(), 1, "the first one serves all");
    }

    #[test]
    fn kinds_of_text_that_alternate_have_a_dictionary_each() {
        let mut dictionaries = Dictionaries::default();
        // The content does not repeat, so only a similar text packs it well.
        let other = |number: usize| {
            let words: Vec<String> =
                (1..80_u64).map(|word| (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).to_string()).collect();
            format!("{{\"x{number}\":\"{}\"}}", words.concat()).into_bytes()
        };
        for number in 0..20 {
            for text in [binding(number), other(number)] {
                assert_eq!(&dictionaries.pack(&text).unwrap().unpack()[..], &text[..]);
            }
        }
        assert_eq!(dictionaries.known.len(), 2);
    }

    #[test]
    fn a_better_dictionary_than_the_first_one_is_found() {
        // The first texts lack the fields that are set later.
        let decided = |number: usize| {
            let mut text = binding(number);
            let status: Vec<_> = (0..20).map(|place| format!("\"condition-{place}\":\"Told{}\"", place * 37)).collect();
            text.splice(text.len() - 1.., format!(",\"status\":{{{}}}}}", status.join(",")).into_bytes());
            text
        };
        let mut dictionaries = Dictionaries::default();
        dictionaries.pack(&binding(0)).unwrap();
        let pack = |number: usize| {
            let (text, packed) = (decided(number), dictionaries.pack(&decided(number)).unwrap());
            assert_eq!(&packed.unpack()[..], &text[..]);
            packed.bytes.len()
        };
        let sizes: Vec<usize> = (1..1000).map(pack).collect();
        let (first, last) = (sizes[0], sizes[sizes.len() - 1]);
        assert!(last * 4 < first, "{first} bytes at first, {last} at last");
        assert_eq!(dictionaries.known.len(), 2, "one that is as good is not taken");
    }

    #[test]
    fn short_and_long_texts_stay() {
        let mut dictionaries = Dictionaries::default();
        assert!(dictionaries.pack(&[b'x'; TEXT_BYTES_MIN - 1]).is_none());
        assert!(dictionaries.pack(&vec![b'x'; TEXT_BYTES_MAX + 1]).is_none());
        assert!(dictionaries.pack(&[b'x'; TEXT_BYTES_MIN]).is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_are_unpacked_as_they_were(texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 256..2000), 1..12)) {
            let mut dictionaries = Dictionaries::default();
            for text in texts {
                prop_assert_eq!(&dictionaries.pack(&text).unwrap().unpack()[..], &text[..]);
                prop_assert!(dictionaries.known.len() <= DICTIONARIES_MAX);
            }
        }
    }
}
