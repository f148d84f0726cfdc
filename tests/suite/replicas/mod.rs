//! Three processes over one PostgreSQL, with clients that use all of them in turn, while leaders
//! are killed and stopped. `checker` verifies the guarantees over the clients' observations.

mod audited;
mod checker;
mod clients;
mod failover;
mod fence;
mod fleet;
mod host_lease;
mod intents;
mod kills;
mod load;
mod lost_history;
mod pauses;
mod presence;
mod questions;
mod shown;
