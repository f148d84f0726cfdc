//! From API objects to what the engine reads, and back. Pure. A malformed object is reported, not fatal.

pub mod fleet;
