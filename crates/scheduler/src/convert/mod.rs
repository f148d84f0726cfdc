//! Translates API objects into the form that the engines compute with. Pure. One malformed object
//! never stops the others.

pub mod fleet;
pub mod karmada;
