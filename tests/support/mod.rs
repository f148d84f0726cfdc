//! What integration tests share: a server in this process, and clients.

pub mod objects;
pub mod raw;
pub mod registry;
pub mod server;
