//! What the server knows of a connected client, beyond its bytes: identity, protocol, database, for CLIENT and INFO.

use super::tracking::{Mode, Tracking};
use super::transactions::Transaction;
use crate::acl::User;
use crate::base::indexed::Indexed;
use static_assertions::const_assert;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of [`Client::gate`]: reasons to look twice before running a command. 0 for a client that may do all.
pub mod gate {
    /// AUTH is needed and has not succeeded.
    pub const UNAUTHENTICATED: u16 = 1;
    /// Not every reply is sent (CLIENT REPLY): see [`super::Replies`].
    pub const SILENT: u16 = 2;
    /// Commands do not count as uses of keys (CLIENT NO-TOUCH).
    pub const NO_TOUCH: u16 = 4;
    /// Another client has ended this one; what it has sent is not run any more.
    pub const KILLED: u16 = 8;
    /// Commands are queued until EXEC.
    pub const MULTI: u16 = 16;
    /// It has subscriptions, and speaks RESP2: few commands are allowed.
    pub const LISTENS: u16 = 32;
    /// What it reads it may cache (CLIENT TRACKING).
    pub const TRACKS: u16 = 64;
    /// Its user may not do all.
    pub const RESTRICTED: u16 = 128;
    /// Those that do not keep a command from running in slices.
    pub const HARMLESS: u16 = NO_TOUCH | TRACKS;
}

/// Which replies a client gets (CLIENT REPLY).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Replies {
    #[default]
    All,
    None,
    /// Not that of the command that runs now.
    Skip,
    /// Not that of the next command.
    SkipNext,
}

/// What few clients tell about themselves.
#[derive(Default, Debug)]
pub struct Labels {
    pub name: Vec<u8>,
    pub lib_name: Vec<u8>,
    pub lib_version: Vec<u8>,
    /// How many channels, patterns and shard channels it listens to.
    pub subscriptions: [usize; 3],
    /// What its subscriptions and prefixes take, as counted in `Stats::clients_bytes`.
    listening_bytes: u64,
    /// What was received in place of a value that is not complete yet.
    pub receiving_bytes: u64,
    /// Of a client that tracks.
    pub tracking: Tracking,
    /// Who it is; `None`: the default user.
    user: Option<Arc<User>>,
    /// Of a client in MULTI, or one that watches keys.
    transaction: Option<Box<Transaction>>,
}

/// The two ends of a connection. IPv4, nearly all there is, takes no memory of its own.
#[derive(Debug)]
enum Addresses {
    V4 {
        remote: SocketAddrV4,
        local: SocketAddrV4,
    },
    /// As CLIENT LIST prints them, separated by one space; the local one is a path on a Unix socket.
    Other(Box<str>),
}

impl Addresses {
    fn new(remote: &str, local: &str) -> Addresses {
        match (remote.parse(), local.parse()) {
            (Ok(remote), Ok(local)) => Addresses::V4 { remote, local },
            _ => Addresses::Other(format!("{remote} {local}").into_boxed_str()),
        }
    }

    fn remote(&self) -> String {
        match self {
            Addresses::V4 { remote, .. } => remote.to_string(),
            Addresses::Other(both) => both.split_once(' ').map_or("", |(remote, _)| remote).into(),
        }
    }

    fn local(&self) -> String {
        match self {
            Addresses::V4 { local, .. } => local.to_string(),
            Addresses::Other(both) => both.split_once(' ').map_or("", |(_, local)| local).into(),
        }
    }
}

/// The classes of clients that `TYPE` of CLIENT LIST and CLIENT KILL tells apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    Normal,
    /// With subscriptions.
    Pubsub,
    /// Links of replication, of which there are none.
    Replication,
}

impl Class {
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Class> {
        match &*name.to_ascii_lowercase() {
            b"normal" => Some(Class::Normal),
            b"pubsub" => Some(Class::Pubsub),
            b"master" | b"slave" | b"replica" => Some(Class::Replication),
            _ => None,
        }
    }
}

/// What a client speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Protocol {
    Redis,
    Memcache,
    /// Of figures (`super::metrics`).
    Http,
}

/// A connected client.
#[derive(Debug)]
pub struct Client {
    pub id: u64,
    pub last_input_unix_ms: u64,
    /// Unix seconds, good until 2106.
    created_unix_s: u32,
    addresses: Addresses,
    labels: Option<Box<Labels>>,
    /// The last command, as `client|list` (a thin pointer: there are many clients).
    pub last_command: &'static &'static str,
    pub fd: i32,
    /// Bytes of input that wait: a cut request, or what follows a suspended command.
    pub query_bytes: u32,
    /// Bytes of output that the client has not taken.
    pub out_bytes: u32,
    pub database: u32,
    pub gate: u16,
    /// RESP3 was negotiated.
    pub resp3: bool,
    protocol: Protocol,
    /// Bits of [`mark`], and `Replies` in bits 6 and 7: there are many clients.
    marks: u16,
}

/// Bits of what is told of a client.
pub mod mark {
    pub const UNIX: u16 = 1;
    /// Its next command waits for the end of CLIENT PAUSE.
    pub const PAUSED: u16 = 2;
    /// Shall not be closed to make room (CLIENT NO-EVICT).
    pub const NO_EVICT: u16 = 4;
    /// It has subscriptions.
    pub const LISTENS: u16 = 8;
    /// Its command goes on in slices.
    pub const SUSPENDED: u16 = 16;
    /// What its present command answers is told whatever CLIENT REPLY says.
    pub const PUSHED: u16 = 32;
    // Bits 6 and 7 are `Replies`.
    /// It is shown every command (MONITOR).
    pub const MONITORS: u16 = 256;
    /// It goes to make room (`super::client_eviction`).
    pub const EVICTED: u16 = 512;
}

const REPLIES: [Replies; 4] = [Replies::All, Replies::None, Replies::Skip, Replies::SkipNext];
const REPLIES_SHIFT: u32 = 6;

impl Client {
    #[must_use]
    pub fn new(id: u64, now_unix_ms: u64, remote: &str, local: &str, fd: i32, unix: bool) -> Client {
        Client {
            id,
            last_input_unix_ms: now_unix_ms,
            created_unix_s: u32::try_from(now_unix_ms / 1000).unwrap_or(u32::MAX),
            addresses: Addresses::new(remote, local),
            labels: None,
            last_command: &"NULL",
            fd,
            query_bytes: 0,
            out_bytes: 0,
            database: 0,
            gate: 0,
            resp3: false,
            protocol: Protocol::Redis,
            marks: if unix { mark::UNIX } else { 0 },
        }
    }

    #[inline]
    #[must_use]
    pub fn is_memcache(&self) -> bool {
        self.protocol == Protocol::Memcache
    }

    /// Does it speak something else than Redis's protocol?
    #[inline]
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.protocol != Protocol::Redis
    }

    pub fn speak_http(&mut self) {
        self.protocol = Protocol::Http;
    }

    /// From now on it speaks memcached's protocol, and sees that database.
    pub fn speak_memcache(&mut self, database: u32) {
        self.protocol = Protocol::Memcache;
        self.database = database;
    }

    #[must_use]
    pub fn replies(&self) -> Replies {
        REPLIES[usize::from(self.marks >> REPLIES_SHIFT & 3)]
    }

    #[must_use]
    pub fn class(&self) -> Class {
        if self.is(mark::LISTENS) { Class::Pubsub } else { Class::Normal }
    }

    #[must_use]
    pub fn is(&self, mark: u16) -> bool {
        self.marks & mark != 0
    }

    pub fn set_mark(&mut self, mark: u16, on: bool) {
        self.marks = if on { self.marks | mark } else { self.marks & !mark };
    }

    pub fn set_replies(&mut self, replies: Replies) {
        self.marks = self.marks & !(3 << REPLIES_SHIFT) | u16::from(replies as u8) << REPLIES_SHIFT;
        self.set_gate(gate::SILENT, replies != Replies::All);
    }

    /// Sets or clears a bit of `gate`.
    pub fn set_gate(&mut self, bit: u16, on: bool) {
        self.gate = if on { self.gate | bit } else { self.gate & !bit };
    }

    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.gate & gate::KILLED != 0
    }

    /// The address of the peer, as CLIENT LIST tells it.
    #[must_use]
    pub fn remote(&self) -> String {
        self.addresses.remote()
    }

    /// Its own address on this side.
    #[must_use]
    pub fn local(&self) -> String {
        self.addresses.local()
    }

    /// Seconds since it connected.
    #[must_use]
    pub fn age_s(&self, now_unix_ms: u64) -> u64 {
        (now_unix_ms / 1000).saturating_sub(u64::from(self.created_unix_s))
    }

    /// What RESET takes back, but for the need to authenticate.
    pub fn reset(&mut self) {
        self.database = 0;
        self.resp3 = false;
        self.set_mark(mark::NO_EVICT, false);
        self.set_replies(Replies::All);
        self.set_gate(gate::NO_TOUCH, false);
        if let Some(labels) = &mut self.labels {
            labels.name = Vec::new();
        }
    }

    /// What a client in MULTI has queued, and what it watches.
    #[must_use]
    pub fn transaction(&self) -> Option<&Transaction> {
        self.labels.as_ref()?.transaction.as_deref()
    }

    pub fn transaction_mut(&mut self) -> Option<&mut Transaction> {
        self.labels.as_mut()?.transaction.as_deref_mut()
    }

    pub fn take_transaction(&mut self) -> Option<Box<Transaction>> {
        self.labels.as_mut()?.transaction.take()
    }

    /// The same, made if it is not there.
    pub fn transaction_slot(&mut self) -> &mut Option<Box<Transaction>> {
        &mut self.labels_mut().transaction
    }

    /// Who it is, if not the default user.
    #[must_use]
    pub fn user(&self) -> Option<&Arc<User>> {
        self.labels.as_ref()?.user.as_ref()
    }

    /// It is this user from now on; the default one, if it is that.
    pub fn become_user(&mut self, user: &Arc<User>) {
        self.set_gate(gate::RESTRICTED, !user.may_do_all());
        if *user.name != *crate::acl::DEFAULT {
            self.labels_mut().user = Some(Arc::clone(user));
        } else if let Some(labels) = &mut self.labels {
            labels.user = None;
        }
    }

    /// The name of its user.
    #[must_use]
    pub fn user_name(&self) -> &[u8] {
        self.user().map_or(crate::acl::DEFAULT, |user| &user.name)
    }

    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.labels.as_ref().map_or(b"", |l| &l.name)
    }

    /// What it tracks, if it does.
    #[must_use]
    pub fn tracking(&mut self) -> Option<&mut Tracking> {
        if self.gate & gate::TRACKS == 0 { None } else { self.labels.as_mut().map(|labels| &mut labels.tracking) }
    }

    pub fn labels_mut(&mut self) -> &mut Labels {
        self.labels.get_or_insert_default()
    }

    /// What it holds, in bytes, all of the connection included.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let labels = self.labels.as_ref().map_or(0, |labels| {
            let transaction = labels.transaction.as_ref().map_or(0, |transaction| transaction.bytes());
            labels.listening_bytes + labels.receiving_bytes + (size_of::<Labels>() + transaction) as u64
        });
        IDLE_BYTES + u64::from(self.query_bytes) + u64::from(self.out_bytes) + labels
    }

    /// What its subscriptions and prefixes take.
    #[must_use]
    pub fn listening_bytes(&self) -> u64 {
        self.labels.as_ref().map_or(0, |labels| labels.listening_bytes)
    }

    /// They take so much now; returns what they took.
    pub fn set_listening_bytes(&mut self, bytes: u64) -> u64 {
        if bytes == 0 && self.labels.is_none() {
            return 0;
        }
        std::mem::replace(&mut self.labels_mut().listening_bytes, bytes)
    }

    /// What was received in place of a value that is not complete yet.
    #[must_use]
    pub fn receiving_bytes(&self) -> u64 {
        self.labels.as_ref().map_or(0, |labels| labels.receiving_bytes)
    }

    /// One line of CLIENT LIST, without the line's end.
    pub fn describe(&self, now_unix_ms: u64, into: &mut Vec<u8>) {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let empty = Labels::default();
        let labels = self.labels.as_deref().unwrap_or(&empty);
        let idle_s = now_unix_ms.saturating_sub(self.last_input_unix_ms) / 1000;
        let age_s = self.age_s(now_unix_ms);
        let mut flags = String::new();
        let (queued, queue_bytes, watches) = self.transaction().map_or((None, 0, 0), |transaction| {
            (transaction.queued(), transaction.queue_bytes(), transaction.watches())
        });
        if self.is(mark::MONITORS) {
            flags.push('O');
        }
        if queued.is_some() {
            flags.push('x');
        }
        if self.is(mark::SUSPENDED) || self.is(mark::PAUSED) {
            flags.push('b');
        }
        let tracking = Some(&labels.tracking).filter(|_| self.gate & gate::TRACKS != 0);
        for (letter, on) in [
            ('t', tracking.is_some()),
            ('R', tracking.is_some_and(|tracking| tracking.is_broken)),
            ('B', tracking.is_some_and(|tracking| tracking.mode == Mode::Broadcast)),
        ] {
            flags.extend(on.then_some(letter));
        }
        let redirect = tracking.map_or("-1".into(), |tracking| tracking.redirect.map_or(0, |to| to.client).to_string());
        if self.transaction().is_some_and(|transaction| transaction.is_touched()) {
            flags.push('d');
        }
        if self.is(mark::LISTENS) {
            flags.push('P');
        }
        if self.is(mark::UNIX) {
            flags.push('U');
        }
        if self.is(mark::NO_EVICT) {
            flags.push('e');
        }
        if self.gate & gate::NO_TOUCH != 0 {
            flags.push('T');
        }
        if flags.is_empty() {
            flags.push('N');
        }
        let [sub, psub, ssub] = labels.subscriptions;
        // As Redis has it: a first buffer, and a list of further ones.
        let first_bytes = self.out_bytes.min(BUFFER_BYTES);
        let list_bytes = self.out_bytes - first_bytes;
        let mut line = String::new();
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub={sub} psub={psub} ssub={ssub} multi={} watch={watches} qbuf={} \
             qbuf-free=0 argv-mem=0 multi-mem={queue_bytes} rbs=0 rbp=0 obl={first_bytes} oll={} omem={list_bytes} tot-mem={} events={} cmd={} user={} redir={redirect} resp={} \
             lib-name={} lib-ver={}",
            self.id,
            self.addresses.remote(),
            self.addresses.local(),
            self.fd,
            text(&labels.name),
            age_s,
            idle_s,
            self.database,
            queued.map_or(-1, i64::from),
            self.query_bytes,
            list_bytes.div_ceil(BUFFER_BYTES),
            self.memory_bytes(),
            if self.out_bytes > 0 { "rw" } else { "r" },
            self.last_command,
            text(self.user_name()),
            if self.resp3 { 3 } else { 2 },
            text(&labels.lib_name),
            text(&labels.lib_version),
        );
        into.extend_from_slice(line.as_bytes());
    }
}

/// What CLIENT LIST calls a buffer of output.
const BUFFER_BYTES: u32 = 16 * 1024;
/// An idle connection is promised so much in all: this, the session, and the backend's share.
const IDLE_BYTES: u64 = 256;
const_assert!(size_of::<Option<Client>>() <= 88);

/// All connected clients, by the index of their connection, and in the order of their ids.
#[derive(Default)]
pub struct Clients {
    by_index: Indexed<Client>,
    /// Ids with the index of their connection, ascending; `GONE` for those that have left, until they are half of it.
    order: VecDeque<(u64, u32)>,
    /// The last id given out; the workers of a server share it.
    last_id: Arc<AtomicU64>,
    /// Those that were killed and have not left yet.
    killed: usize,
}

/// The index of a client that has left.
const GONE: u32 = u32::MAX;

impl Clients {
    /// No clients yet; ids are counted on in `last_id`.
    #[must_use]
    pub fn counted_by(last_id: Arc<AtomicU64>) -> Clients {
        Clients { last_id, ..Clients::default() }
    }

    /// Registers the client of connection `index`; ids count from 1 and are never used again.
    ///
    /// # Panics
    /// If the index is taken: the backend reports the end of a connection before its index comes again.
    pub fn insert(&mut self, index: u32, make: impl FnOnce(u64) -> Client) {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        self.by_index.insert(index, make(id));
        if self.order.len() == self.order.capacity() {
            // By an eighth rather than by as much again: there may be very many, and each counts to its client.
            self.order.reserve_exact(self.order.len() / 8 + 64);
        }
        self.order.push_back((id, index));
    }

    pub fn remove(&mut self, index: u32) {
        let Some(client) = self.by_index.remove(index) else { return };
        self.killed -= usize::from(client.is_killed());
        if let Ok(at) = self.order.binary_search_by_key(&client.id, |entry| entry.0) {
            self.order[at].1 = GONE;
        }
        while self.order.front().is_some_and(|entry| entry.1 == GONE) {
            self.order.pop_front();
        }
        if self.order.len() > 2 * self.by_index.len() + 64 {
            self.order.retain(|entry| entry.1 != GONE);
            self.order.shrink_to_fit();
        }
    }

    /// # Panics
    /// If there is no such client.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> &mut Client {
        self.by_index.get_mut(index).expect("a client lives as long as its connection")
    }

    /// # Panics
    /// If there is no such client.
    #[inline]
    #[must_use]
    pub fn get(&self, index: u32) -> &Client {
        self.by_index.get(index).expect("a client lives as long as its connection")
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.by_index.len()
    }

    /// Those that are not on their way out.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.by_index.len() - self.killed
    }

    /// The client of connection `index` shall run nothing more, and be seen by nobody.
    pub fn kill(&mut self, index: u32) {
        let client = self.get_mut(index);
        if !client.is_killed() {
            client.gate |= gate::KILLED;
            self.killed += 1;
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_index.is_empty()
    }

    /// The client with the smallest id above `id`, and the index of its connection.
    #[must_use]
    pub fn after(&self, id: u64) -> Option<(u32, &Client)> {
        let from = self.order.partition_point(|entry| entry.0 <= id);
        let alive = self.order.range(from..).filter(|entry| entry.1 != GONE).map(|entry| (entry.1, self.get(entry.1)));
        alive.into_iter().find(|(_, client)| !client.is_killed())
    }

    /// The index of the connection whose client has this id.
    #[must_use]
    pub fn index_of(&self, id: u64) -> Option<u32> {
        let at = self.order.binary_search_by_key(&id, |entry| entry.0).ok()?;
        Some(self.order[at].1).filter(|index| *index != GONE)
    }

    /// The client with this id.
    #[must_use]
    pub fn by_id(&self, id: u64) -> Option<&Client> {
        self.index_of(id).map(|index| self.get(index)).filter(|client| !client.is_killed())
    }

    /// Memory held for clients, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.by_index.bytes() + self.order.capacity() * size_of::<(u64, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(id: u64) -> Client {
        Client::new(id, 5_000, "127.0.0.1:4711", "127.0.0.1:6379", 7, false)
    }

    #[test]
    fn ids_ascend_and_survive_churn() {
        let mut clients = Clients::default();
        for index in 0..300 {
            clients.insert(index, client);
        }
        for index in 0..299 {
            clients.remove(index);
            assert_eq!(clients.after(0).map(|(_, c)| c.id), Some(u64::from(index) + 2));
        }
        assert_eq!((clients.len(), clients.order.len()), (1, 1));
        clients.insert(3, client);
        clients.insert(1, client);
        clients.remove(3);
        assert_eq!(clients.after(300).map(|(_, c)| c.id), Some(302), "301 has left");
        assert!(clients.by_id(301).is_none() && clients.after(302).is_none());
        assert_eq!(clients.by_id(302).map(|c| c.id), Some(302));
    }

    #[test]
    fn a_line_of_the_list() {
        let line = |client: &Client| {
            let mut line = Vec::new();
            client.describe(9_000, &mut line);
            String::from_utf8(line).unwrap()
        };
        let tcp = line(&client(3));
        assert!(
            tcp.starts_with("id=3 addr=127.0.0.1:4711 laddr=127.0.0.1:6379 fd=7 name= age=4 idle=4 flags=N db=0"),
            "{tcp}"
        );
        let unix = Client::new(4, 0, "/run/x y.sock:0", "/run/x", 8, true);
        assert!(line(&unix).contains(" flags=U "));
        let v6 = line(&Client::new(5, 0, "[::1]:5", "[::1]:6", 9, false));
        assert!(v6.contains("addr=[::1]:5 laddr=[::1]:6 "), "{v6}");
    }
}
