//! The built binary, as a user starts it.

mod commands;
mod kill;
mod rows;
mod specified;
mod vectors;
