//! (to come)
pub mod spec;
