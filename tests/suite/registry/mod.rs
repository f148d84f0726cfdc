//! The verbs, held to what a Kubernetes API server does. Each test is named after the id of its
//! rule.

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
