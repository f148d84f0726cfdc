//! Choices read off the input, so that a fuzzer that changes a byte changes one choice.
//!
//! An input that is used up goes on with zeros: every input is long enough, and short ones are
//! simple.

pub struct Tape<'a> {
    rest: &'a [u8],
}

impl<'a> Tape<'a> {
    pub fn new(input: &'a [u8]) -> Tape<'a> {
        Tape { rest: input }
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// A number below `bound`, which is at most 256.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    /// True for one byte in `many`. Never true at the end of the input.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == many - 1
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Up to `most` of what `make` makes.
    pub fn some<T>(&mut self, most: usize, mut make: impl FnMut(&mut Tape<'a>) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }
}
