//! A server behind a stand-in for kube-apiserver: authentication, authorization, admission, and
//! faults of the host cluster.

mod admission;
mod authentication;
mod authorization;
mod faults;
mod host;
mod inventory;
mod members;
mod operation;
mod placements;
mod policies;
mod policy_answers;
mod reload;
mod replayed;
mod under_load;
mod webhooks;
mod serving_cert;
