//! The tool as users call it: against `redis-server` and memcached where they are installed, against its own null server, and against servers
//! that lie, stall, die or refuse. Nothing here depends on a time being short.

mod facts;
mod faults;
mod servers;
mod sides;
mod support;
