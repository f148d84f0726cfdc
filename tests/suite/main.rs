//! All integration tests in one binary: one link, one start.
mod tidy;
