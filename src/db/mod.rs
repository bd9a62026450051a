//! (to come)
pub mod wheel;
