//! The server as its clients see it: over real TLS, by raw HTTP, kube-rs and kubectl.

mod apply;
mod auth;
mod connections;
mod documents;
mod hostile;
mod identity;
mod kube_client;
mod kubectl;
mod letter;
mod limits;
mod other_site;
mod own_fields;
mod page;
mod places;
mod policy_kinds;
mod policy_rules;
mod proxy;
mod quotas;
mod rebalances;
mod replicas;
mod reviews;
mod verbs;
mod rows;
mod unread;
mod versions;
mod watch;
