//! What the server knows of a connected client, beyond its bytes: identity, protocol, database, for CLIENT and INFO.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bits of [`Client::gate`]: reasons to look twice before running a command. 0 for a client that may do all.
pub mod gate {
    /// AUTH is needed and has not succeeded.
    pub const UNAUTHENTICATED: u8 = 1;
}

/// What few clients tell about themselves.
#[derive(Default, Debug)]
pub struct Labels {
    pub name: Vec<u8>,
    pub lib_name: Vec<u8>,
    pub lib_version: Vec<u8>,
}

/// A connected client.
#[derive(Debug)]
pub struct Client {
    pub id: u64,
    pub created_unix_ms: u64,
    pub last_input_unix_ms: u64,
    /// Remote and local address as CLIENT LIST prints them, separated by one space.
    addresses: Box<str>,
    labels: Option<Box<Labels>>,
    /// The last command, as `client|list`.
    pub last_command: &'static str,
    pub fd: i32,
    /// Bytes of input that wait: a cut request, or what follows a suspended command.
    pub query_bytes: u32,
    /// Bytes of output that the client has not taken.
    pub out_bytes: u32,
    pub database: u32,
    pub gate: u8,
    /// RESP3 was negotiated.
    pub resp3: bool,
    pub unix: bool,
    pub suspended: bool,
}

impl Client {
    #[must_use]
    pub fn new(id: u64, now_unix_ms: u64, remote: &str, local: &str, fd: i32, unix: bool) -> Client {
        Client {
            id,
            created_unix_ms: now_unix_ms,
            last_input_unix_ms: now_unix_ms,
            addresses: format!("{remote} {local}").into_boxed_str(),
            labels: None,
            last_command: "NULL",
            fd,
            query_bytes: 0,
            out_bytes: 0,
            database: 0,
            gate: 0,
            resp3: false,
            unix,
            suspended: false,
        }
    }

    #[must_use]
    pub fn remote(&self) -> &str {
        self.addresses.split_once(' ').map_or(&*self.addresses, |(remote, _)| remote)
    }

    #[must_use]
    pub fn local(&self) -> &str {
        self.addresses.split_once(' ').map_or("", |(_, local)| local)
    }

    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.labels.as_ref().map_or(b"", |l| &l.name)
    }

    pub fn labels_mut(&mut self) -> &mut Labels {
        self.labels.get_or_insert_default()
    }

    /// One line of CLIENT LIST, without the line's end.
    pub fn describe(&self, now_unix_ms: u64, into: &mut Vec<u8>) {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let empty = Labels::default();
        let labels = self.labels.as_deref().unwrap_or(&empty);
        let seconds = |since: u64| now_unix_ms.saturating_sub(since) / 1000;
        let mut flags = String::new();
        if self.suspended {
            flags.push('b');
        }
        if self.unix {
            flags.push('U');
        }
        if flags.is_empty() {
            flags.push('N');
        }
        let memory = size_of::<Client>() + self.query_bytes as usize + self.out_bytes as usize;
        let mut line = String::new();
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub=0 psub=0 ssub=0 multi=-1 qbuf={} qbuf-free=0 \
             argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl={} oll=0 omem=0 tot-mem={memory} events={} cmd={} user=default redir=-1 resp={} \
             lib-name={} lib-ver={}",
            self.id,
            self.remote(),
            self.local(),
            self.fd,
            text(&labels.name),
            seconds(self.created_unix_ms),
            seconds(self.last_input_unix_ms),
            self.database,
            self.query_bytes,
            self.out_bytes,
            if self.out_bytes > 0 { "rw" } else { "r" },
            self.last_command,
            if self.resp3 { 3 } else { 2 },
            text(&labels.lib_name),
            text(&labels.lib_version),
        );
        into.extend_from_slice(line.as_bytes());
    }
}

/// All connected clients, by the index of their connection.
#[derive(Default)]
pub struct Clients {
    slots: Vec<Option<Box<Client>>>,
    by_id: BTreeMap<u64, u32>,
    next_id: u64,
}

impl Clients {
    /// Registers the client of connection `index`; ids count from 1 and are never used again.
    ///
    /// # Panics
    /// If the index is taken: the backend reports the end of a connection before its index comes again.
    pub fn insert(&mut self, index: u32, make: impl FnOnce(u64) -> Client) {
        let at = index as usize;
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, || None);
        }
        assert!(self.slots[at].is_none(), "index {index} is in use");
        self.next_id += 1;
        self.slots[at] = Some(Box::new(make(self.next_id)));
        self.by_id.insert(self.next_id, index);
    }

    pub fn remove(&mut self, index: u32) {
        if let Some(client) = self.slots.get_mut(index as usize).and_then(Option::take) {
            self.by_id.remove(&client.id);
        }
    }

    /// # Panics
    /// If there is no such client.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> &mut Client {
        self.slots[index as usize].as_deref_mut().expect("a client lives as long as its connection")
    }

    /// # Panics
    /// If there is no such client.
    #[inline]
    #[must_use]
    pub fn get(&self, index: u32) -> &Client {
        self.slots[index as usize].as_deref().expect("a client lives as long as its connection")
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// In the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Client> {
        self.by_id.values().map(|&index| self.get(index))
    }

    /// The client with the smallest id above `id`.
    #[must_use]
    pub fn after(&self, id: u64) -> Option<&Client> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.by_id.range((Excluded(id), Unbounded)).next().map(|(_, &index)| self.get(index))
    }

    /// The client with this id.
    #[must_use]
    pub fn by_id(&self, id: u64) -> Option<&Client> {
        self.by_id.get(&id).map(|&index| self.get(index))
    }
}
