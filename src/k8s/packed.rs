//! Texts written as what distinguishes them from a text that is much like them. The objects of a
//! kind are: most of a binding is the names of its members and what its policy says.
//!
//! A text is packed with LZ4 against a dictionary, which is the text of another object of the kind.
//! Unpacking takes about as long as copying, and gives exactly the text that was packed.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lz4_flex::block::{compress_with_dict, decompress_into_with_dict};

/// Shorter texts are not packed: there is little to gain.
const TEXT_BYTES_MIN: usize = 256;
/// Longer texts are not packed. Unpacking one would take milliseconds at each look.
const TEXT_BYTES_MAX: usize = 32 * 1024;
/// Dictionaries of a kind that are tried. An older one lives for as long as texts need it.
const DICTIONARIES_MAX: usize = 4;
/// A text that is not packed to a part this small makes a better dictionary than a member.
const FITS_BELOW: usize = 2;

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Packed {
    bytes: Arc<[u8]>,
    dictionary: Arc<[u8]>,
    /// The length of the text.
    len: u32,
}

/// What texts of one kind are packed against: the most useful one of late comes first.
#[derive(Default)]
pub struct Dictionaries(Vec<Arc<[u8]>>);

impl Dictionaries {
    /// `None` where the text stays as it is.
    pub(super) fn pack(&mut self, text: &[u8]) -> Option<Packed> {
        if !(TEXT_BYTES_MIN..=TEXT_BYTES_MAX).contains(&text.len()) {
            return None;
        }
        for place in 0..self.0.len() {
            let packed = Packed::of(text, &self.0[place]);
            if packed.bytes.len() < text.len() / FITS_BELOW {
                self.0[..=place].rotate_right(1);
                return Some(packed);
            }
        }
        // Unlike everything before: perhaps others are like this one.
        let dictionary: Arc<[u8]> = text.into();
        self.0.insert(0, Arc::clone(&dictionary));
        self.0.truncate(DICTIONARIES_MAX);
        Some(Packed::of(text, &dictionary))
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
        assert_eq!(written.ok(), Some(self.len()), "nobody else writes what is unpacked");
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
        assert_eq!(dictionaries.0.len(), 1, "the first one serves all");
    }

    #[test]
    fn kinds_of_text_that_alternate_have_a_dictionary_each() {
        let mut dictionaries = Dictionaries::default();
        // Nothing in it repeats, so it is packed against its like alone.
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
        assert_eq!(dictionaries.0.len(), 2);
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
                prop_assert!(dictionaries.0.len() <= DICTIONARIES_MAX);
            }
        }
    }
}
