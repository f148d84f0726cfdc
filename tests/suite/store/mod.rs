//! The store and the room above it, over every back end.

mod fixtures;
mod writer;
