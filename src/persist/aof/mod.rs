//! Redis's append-only files: the manifest that names them, and how commands are written and found in them. Sans I/O.
//!
//! ```text
//!  appendonlydir/
//!    appendonly.aof.manifest       file appendonly.aof.1.base.rdb seq 1 type b
//!                                  file appendonly.aof.1.incr.aof seq 1 type i
//!    appendonly.aof.1.base.rdb     a snapshot
//!    appendonly.aof.1.incr.aof     | [#TS:<unix seconds>\r\n] *2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n | *3\r\n$3\r\nSET\r\n... | ...
//! ```
//! Formats are those of Redis 7.

pub mod command;
pub mod manifest;
pub mod whole;
