//! Behind a real kube-apiserver, through kubectl. The tests run if `KUBEBUILDER_ASSETS` names a
//! folder with one (tests/host/build makes it). Otherwise they say that they were skipped.

mod attached;
mod policies;
mod registration;
mod users;
mod webhooks;
