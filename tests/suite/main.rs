//! All integration tests in one binary: one link, one start.

mod store;
mod tidy;
