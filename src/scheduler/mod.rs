//! The shell around the engine: what is dirty, what it reads, what a decision writes.

pub mod lower;
