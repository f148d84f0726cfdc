//! Which part of an object a write is about.

/// The part of an object that a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything except the status.
    Main,
    Status,
    /// All parts in one write. Only workers of Ballast can write this; no request can.
    Whole,
}
