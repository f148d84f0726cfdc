//! Snapshot in, decision out: scheduling without I/O, time, chance or log. Pure.

pub mod fleet;
