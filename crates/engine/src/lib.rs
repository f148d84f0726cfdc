//! Decides where workloads go. The engine is pure: clusters and bindings go in, decisions come out.
//!
//! It has no I/O, clock, randomness, logs or API versions: `scheduler::convert` turns API objects
//! into the engine's types. A decision does not depend on the order of the inputs.

pub mod bits;
pub mod fleet;
pub mod karmada;
pub mod webster;
