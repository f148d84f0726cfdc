//! API objects in the form the engines compute with. Pure; one malformed object never stops the
//! others.

pub mod fleet;
pub mod karmada;
