//! Decides where workloads go. Pure: a view of clusters and bindings in, decisions out.
//!
//! No I/O, no clock, no chance, no log, and no API version: `scheduler::lower` turns API objects
//! into the types here. A decision does not depend on the order of the inputs.

pub mod bits;
pub mod fleet;
pub mod karmada;
pub mod webster;
