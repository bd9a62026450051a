//! End-to-end tests: every test starts the real server, talks to it over loopback, and kills it. One binary, so one link.
//!
//! `DOLMEN_TEST_SERVER` names another binary that takes Redis's command line: the expectations of the command families are meant to
//! hold for `redis-server` 7.0 too, which is how they were checked. Lines marked `dolmen>` in a script are where the two differ, on
//! purpose, each with its reason beside it.
//!
//! | variable               | meaning                                                                           |
//! |------------------------|-----------------------------------------------------------------------------------|
//! | `DOLMEN_TEST_SERVER`   | the server under test; default: the binary that cargo has just built              |
//! | `DOLMEN_TEST_NET`      | value of the directive `net` for every server under test                          |
//! | `DOLMEN_REQUIRE_PEERS` | a missing peer (`redis-server`, `redis-cli`, python with redis-py, node with its packages) is a failure   |
//! | `DOLMEN_HEAVY`         | also the tests that move gigabytes                                                |
//! | `DOLMEN_PYTHON`        | a python with the packages `redis` and `pymemcache`; default: `target/peers/venv/bin/python3`, then `python3` |
//! | `DOLMEN_DIFF_SEED`     | seed of the differential test                                                     |
//! | `DOLMEN_DIFF_COMMANDS` | how many commands the differential test sends                                     |

mod harness;

mod acl;
mod aof;
mod aof_memcache;
mod aof_runs;
mod bits;
mod blocking;
mod bug_reports;
mod bypass;
mod client_eviction;
mod clients;
mod collections;
mod connection;
mod control;
mod defrag;
mod differential;
mod dump;
mod eviction;
mod expiry;
mod hashes;
mod hashes_ttl;
mod hostile;
mod keys;
mod lists;
mod many_elements;
mod memcache;
mod memcache_shared;
mod memory;
mod metrics;
mod monitor;
mod moves;
mod notifications;
mod notifications_collections;
mod operator;
mod persistence;
mod protocol;
mod pubsub;
mod rdb;
mod server;
mod sets;
mod settings;
mod slow;
mod sorts;
mod strings;
mod strings_conditions;
mod strings_parts;
mod tracking;
mod transactions;
mod uring;
mod workers;
mod zsets;
mod zsets_several;
mod zsets_waiting;
