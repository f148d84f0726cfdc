//! Which part of an object a write is about.

/// The part of an object that a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status.
    Main,
    Status,
    /// Everything in one write: what no request can do.
    Whole,
}
