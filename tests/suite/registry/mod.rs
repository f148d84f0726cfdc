//! The verbs, row by row of what a Kubernetes API server does: each test is named after its row.

mod act;
mod batch;
mod create;
mod delete;
mod list;
mod patch;
mod property;
mod update;
mod watch;
mod world;
