//! What a worker counts of its clients and of what it has done. Counters of data are of their shards (`db::ShardStats`).

use crate::base::recent::RecentMax;

/// Counters of the server, beside those of the shards.
#[derive(Clone, Default, Debug)]
pub struct Stats {
    /// Commands that ran.
    pub commands: u64,
    /// Requests that did not: unknown, with a wrong number of arguments, or before AUTH.
    pub rejected_commands: u64,
    pub connections: u64,
    pub rejected_connections: u64,
    /// Disconnected to make room (`maxmemory-clients`).
    pub evicted_clients: u64,
    /// Connected now.
    pub clients: u64,
    pub input_bytes: u64,
    pub output_bytes: u64,
    /// What of it was sent before CONFIG RESETSTAT.
    pub output_bytes_before: u64,
    pub error_replies: u64,
    /// What was denied: logins, then by `acl::Reason`.
    pub denials: [u64; 4],
    /// Commands that had to run in slices.
    pub suspended: u64,
    /// Event-loop turns, the time they took, and the longest of them.
    pub turns: u64,
    pub turn_ns_total: u64,
    pub turn_ns_max: u64,
    pub used_bytes_peak: u64,
    /// Changes of the keyspace since the server started.
    pub dirty: u64,
    /// Bytes held by clients: requests in progress, output, suspended commands.
    pub clients_bytes: u64,
    /// What of it is output: the memory of that is the backend's, or, of values by reference, the data's.
    pub waiting_bytes: u64,
    /// What of the output tells clients of keys that they had cached.
    pub invalidation_bytes: u64,
    /// What was received in place of values that are not complete yet: data already, of clients still.
    pub receiving_bytes: u64,
    /// Clients whose command goes on in slices.
    pub suspended_clients: u64,
    /// Clients whose command waits for what other clients do (BLPOP).
    pub blocked_clients: u64,
    /// Clients whose command waits for the end of CLIENT PAUSE.
    pub paused_clients: u64,
    /// The most that one client had waiting lately, in bytes: input and output.
    pub query_bytes_max: RecentMax,
    pub out_bytes_max: RecentMax,
    /// Commands, bytes of input and bytes of output a second, of late.
    pub per_second: [u64; 3],
    /// Bytes that the backend holds for connections and their output, with the tables of sessions and clients.
    pub backend_bytes: u64,
    /// What the verbs of memcached count.
    pub memcache: super::memcache::Counters,
}

impl Stats {
    /// Memory held for clients, in bytes: what they hold, and what is held for each connection.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.clients_bytes.saturating_sub(self.waiting_bytes) + self.backend_bytes
    }

    /// What of it takes no room from data, or each key that is evicted would be told of, and for that others would have to go. Buffers grow by doubling, so
    /// they are twice as large as what is in them.
    #[must_use]
    pub fn uncounted_bytes(&self) -> u64 {
        (2 * self.invalidation_bytes).min(self.backend_bytes)
    }

    /// What waits for a client changes: bytes in all, and what of them tells of keys that it had cached.
    pub fn output_changes(&mut self, before: (u32, u32), now: (u32, u32)) {
        self.waiting_bytes = self.waiting_bytes + u64::from(now.0) - u64::from(before.0);
        self.invalidation_bytes = self.invalidation_bytes + u64::from(now.1) - u64::from(before.1);
    }

    /// CONFIG RESETSTAT: what counts begins anew, what tells how things are stays.
    pub fn reset(&mut self) {
        let old = std::mem::take(self);
        *self = Stats {
            clients: old.clients,
            output_bytes_before: old.output_bytes_before + old.output_bytes,
            used_bytes_peak: old.used_bytes_peak,
            dirty: old.dirty,
            clients_bytes: old.clients_bytes,
            waiting_bytes: old.waiting_bytes,
            invalidation_bytes: old.invalidation_bytes,
            receiving_bytes: old.receiving_bytes,
            suspended_clients: old.suspended_clients,
            blocked_clients: old.blocked_clients,
            paused_clients: old.paused_clients,
            query_bytes_max: old.query_bytes_max,
            out_bytes_max: old.out_bytes_max,
            per_second: old.per_second,
            backend_bytes: old.backend_bytes,
            ..Stats::default()
        };
    }

    /// Adds another worker's: what counts is added, of what is a maximum the larger stays.
    pub fn absorb(&mut self, other: &Stats) {
        self.commands += other.commands;
        self.rejected_commands += other.rejected_commands;
        self.connections += other.connections;
        self.rejected_connections += other.rejected_connections;
        self.evicted_clients += other.evicted_clients;
        self.clients += other.clients;
        self.input_bytes += other.input_bytes;
        self.output_bytes += other.output_bytes;
        self.error_replies += other.error_replies;
        for (sum, denials) in self.denials.iter_mut().zip(other.denials) {
            *sum += denials;
        }
        self.suspended += other.suspended;
        self.turns += other.turns;
        self.turn_ns_total += other.turn_ns_total;
        self.turn_ns_max = self.turn_ns_max.max(other.turn_ns_max);
        self.used_bytes_peak = self.used_bytes_peak.max(other.used_bytes_peak);
        self.dirty += other.dirty;
        self.clients_bytes += other.clients_bytes;
        self.waiting_bytes += other.waiting_bytes;
        self.invalidation_bytes += other.invalidation_bytes;
        self.receiving_bytes += other.receiving_bytes;
        self.suspended_clients += other.suspended_clients;
        self.blocked_clients += other.blocked_clients;
        self.paused_clients += other.paused_clients;
        self.query_bytes_max.absorb(&other.query_bytes_max);
        self.out_bytes_max.absorb(&other.out_bytes_max);
        for (sum, rate) in self.per_second.iter_mut().zip(other.per_second) {
            *sum += rate;
        }
        self.backend_bytes += other.backend_bytes;
        self.memcache.absorb(&other.memcache);
    }
}
