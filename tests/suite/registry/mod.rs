//! The verbs behave as those of a Kubernetes API server.

mod act;
mod batch;
mod validator;
mod create;
mod delete;
mod list;
mod patch;
mod property;
mod update;
mod watch;
mod world;
