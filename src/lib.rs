//! Dolmen: an in-memory key-value server that speaks the Redis protocol. `ARCHITECTURE.md` tells how the layers fit.
pub mod acl;
pub mod base;
pub mod cmd;
pub mod config;
pub mod db;
pub mod exec;
pub mod net;
pub mod persist;
pub mod proto;
pub mod pubsub;
pub mod session;
pub mod store;
pub mod table;
pub mod types;
pub mod worker;
