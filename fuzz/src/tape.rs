//! Reads choices from the input, so that a fuzzer that changes a byte changes one choice.
//!
//! After the end of the input all choices are zero. So every input is long enough, and short inputs
//! make simple objects.

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

    /// The bytes that have not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// A number below `bound`, which is at most 256.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    /// True for one byte in `many`. Never true after the end of the input.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == many - 1
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Up to `most` values of `make`.
    pub fn some<T>(&mut self, most: usize, mut make: impl FnMut(&mut Tape<'a>) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }
}
