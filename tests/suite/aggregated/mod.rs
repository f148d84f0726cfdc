//! Behind a kube-apiserver: who is let in, what they may do, and what happens when the host cluster
//! fails.

mod admission;
mod authentication;
mod authorization;
mod faults;
mod host;
mod operation;
mod reload;
mod replayed;
mod webhooks;
mod serving_cert;
