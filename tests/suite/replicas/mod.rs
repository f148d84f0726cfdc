//! Three processes over one PostgreSQL, with clients that write while leaders end. `checker` holds
//! what the clients were told to what the log has.

mod checker;
mod fleet;
mod hand_over;
