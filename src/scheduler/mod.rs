//! The shell around the engine: what has to be decided, and what becomes of a decision.

pub mod lower;
