//! Translates API objects into the form that the engines compute with. Pure. A malformed object
//! does not affect others.

pub mod fleet;
pub mod karmada;
