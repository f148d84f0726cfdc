//! Behind a kube-apiserver: who is let in, what they may do, and what happens when the host cluster fails.

mod admission;
mod authentication;
mod authorization;
mod host;
mod operation;
mod reload;
