//! Behind a real kube-apiserver, through kubectl. Runs where `KUBEBUILDER_ASSETS` names one
//! (tests/host/build), and says that it was skipped elsewhere.

mod cluster;
mod registration;
mod users;
mod webhooks;
