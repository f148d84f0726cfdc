//! The store and the room above it.

mod conformance;
mod fixtures;
mod sqlite_file;
mod writer;
