//! The verbs once, for every kind, without HTTP; and what follows from the rows: discovery, Tables.

pub mod discovery;
mod published;
pub mod table;

#[cfg(test)]
mod test_kinds;

pub use discovery::Discovery;
pub use published::Published;
