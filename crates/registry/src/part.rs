//! The part of an object that a write changes.

/// The part of an object that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything except the status.
    Main,
    Status,
    /// All parts in one write. Only workers of Ballast can write this; no request can.
    Whole,
}
