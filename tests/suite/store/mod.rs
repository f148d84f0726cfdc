//! The store and the log above it.

mod answers;
mod behind;
mod conformance;
mod damaged;
mod faults;
pub mod faulty;
mod fixtures;
mod full_disk;
mod histories;
mod histories_simulation;
mod history_cost;
mod kill;
mod lost_marks;
mod past;
mod postgres;
mod postgres_failover;
mod postgres_full_disk;
mod replaced;
pub mod replicas;
mod replicas_simulation;
mod sqlite_file;
mod watching;
mod writer;
