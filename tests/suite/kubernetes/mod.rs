//! Ballast behind a real kube-apiserver, through kubectl. The tests run if `KUBEBUILDER_ASSETS`
//! names a folder with one (tests/host/build creates it). Otherwise they are reported as skipped.

mod attached;
mod policies;
mod registration;
mod users;
mod webhooks;
