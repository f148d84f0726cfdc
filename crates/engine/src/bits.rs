//! A set of small numbers with one bit each, such as the indexes of clusters.
//!
//! Sets of different lengths can be combined. A number beyond the end of a set is not in it.

/// A set of indexes.
#[derive(Clone, Debug, Default)]
pub struct Bits {
    words: Vec<u64>,
}

const WORD: usize = u64::BITS as usize;

impl Bits {
    pub fn contains(&self, index: usize) -> bool {
        self.words.get(index / WORD).is_some_and(|word| word >> (index % WORD) & 1 == 1)
    }

    pub fn insert(&mut self, index: usize) {
        if index / WORD >= self.words.len() {
            self.words.resize(index / WORD + 1, 0);
        }
        self.words[index / WORD] |= 1 << (index % WORD);
    }

    pub fn remove(&mut self, index: usize) {
        if let Some(word) = self.words.get_mut(index / WORD) {
            *word &= !(1 << (index % WORD));
        }
    }

    pub fn put(&mut self, index: usize, present: bool) {
        if present { self.insert(index) } else { self.remove(index) }
    }

    pub fn clear(&mut self) {
        self.words.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn copy_from(&mut self, other: &Bits) {
        self.words.clone_from(&other.words);
    }

    pub fn union_with(&mut self, other: &Bits) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, others) in self.words.iter_mut().zip(&other.words) {
            *word |= others;
        }
    }

    pub fn intersect_with(&mut self, other: &Bits) {
        self.words.truncate(other.words.len());
        for (word, others) in self.words.iter_mut().zip(&other.words) {
            *word &= others;
        }
    }

    pub fn subtract(&mut self, other: &Bits) {
        for (word, others) in self.words.iter_mut().zip(&other.words) {
            *word &= !others;
        }
    }

    /// Iterates over the numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| Ones { rest: *word, base: index * WORD })
    }
}

impl PartialEq for Bits {
    fn eq(&self, other: &Bits) -> bool {
        let (short, long) = if self.words.len() <= other.words.len() {
            (&self.words, &other.words)
        } else {
            (&other.words, &self.words)
        };
        long.starts_with(short) && long[short.len()..].iter().all(|word| *word == 0)
    }
}

impl Eq for Bits {}

impl FromIterator<usize> for Bits {
    fn from_iter<I: IntoIterator<Item = usize>>(indexes: I) -> Bits {
        let mut bits = Bits::default();
        indexes.into_iter().for_each(|index| bits.insert(index));
        bits
    }
}

struct Ones {
    rest: u64,
    base: usize,
}

impl Iterator for Ones {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.rest == 0 {
            return None;
        }
        let bit = self.rest.trailing_zeros() as usize;
        self.rest &= self.rest - 1;
        Some(self.base + bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(indexes: &[usize]) -> Bits {
        indexes.iter().copied().collect()
    }

    #[test]
    fn sets_of_different_lengths_go_together() {
        let mut union = bits(&[1]);
        union.union_with(&bits(&[70, 200]));
        assert_eq!(union.iter().collect::<Vec<_>>(), [1, 70, 200]);
        let mut common = union.clone();
        common.intersect_with(&bits(&[1, 2, 70]));
        assert_eq!(common, bits(&[1, 70]));
        union.subtract(&bits(&[70]));
        assert_eq!((union.len(), union.contains(70), union.contains(9999)), (2, false, false));
    }

    #[test]
    fn trailing_empty_words_do_not_count() {
        let mut long = bits(&[3, 300]);
        long.remove(300);
        assert_eq!(long, bits(&[3]));
        assert!(!long.is_empty() && Bits::default().is_empty());
    }
}
