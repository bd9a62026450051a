//! (to come)
pub mod introspect;
pub mod spec;
