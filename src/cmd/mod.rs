//! Commands: what each takes, does and answers, a file a family. Knows nothing of layouts, connections or the wire; what a command has
//! changed it reports, and the pipeline acts on it.
pub mod bits;
pub mod blocking;
pub mod client;
pub mod connection;
pub mod control;
pub mod ctx;
pub mod dump;
pub mod expire;
pub mod fleet;
pub mod hashes;
pub mod info;
pub mod introspect;
pub mod keys;
pub mod lists;
pub mod many;
pub mod moves;
pub mod notify;
pub mod object;
pub mod options;
pub mod persistence;
pub mod pieces;
pub mod pubsub;
pub mod server;
pub mod sets;
pub mod settings;
pub mod sort;
pub mod spec;
pub mod stream;
pub mod strings;
pub mod table;
pub mod tracking;
pub mod transactions;
pub mod zsets;

pub use crate::db::event;
