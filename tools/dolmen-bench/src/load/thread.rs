//! One thread of a load: its connections, from requests that are due to replies that are counted.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::socket::{MsgFlags, recv};
use nix::sys::time::TimeSpec;
use nix::sys::time::TimeValLike;

use super::connection::{Connection, Follow};
use super::replies::{Counts, understand};
use super::schedule::Schedule;
use super::{Ended, Kind, Shared, Told, draws};
use crate::client::{Client, Failure};
use crate::keys::Pick;
use crate::record::Slice;
use crate::verify::Role;
use crate::wire::reply::NotTheProtocol;
use crate::wire::template::Draws;
use crate::workload::Then;

/// Bytes received at a time.
const WINDOW_BYTES: usize = 64 << 10;
/// Longest sleep: intervals are closed on time, and an interrupt is seen.
const SLEEP_MAX: Duration = Duration::from_millis(20);
/// What is due sooner is waited for awake.
const SPIN_NS: u64 = 15_000;
/// How long replies may take after the end.
const DRAIN_NS: u64 = 2_000_000_000;
/// How long no message means that none will come.
const DELIVERY_DRAIN_NS: u64 = 500_000_000;

pub struct Load<'a> {
    thread: usize,
    shared: &'a Shared,
    connections: Vec<Connection>,
    /// The number of the first one of this thread, among all that send.
    first: usize,
    /// Those that send; subscribers are behind them.
    senders: usize,
    epoll: Epoll,
    draws: Draws,
    counts: Counts<'a>,
    /// Closed loop: connections whose replies have all come. Open loop: those that may send more.
    ready: VecDeque<usize>,
    schedule: Option<Schedule>,
    /// Open loop: the last of the requests asked for was due.
    all_due: bool,
    /// Open loop: what is due and has no connection to go by.
    backlog: VecDeque<u64>,
    /// This thread's share of the requests, where each has its own keys.
    own_budget: Option<u64>,
    window: Vec<u8>,
    issuing: bool,
    /// When the last reply came, or the first request went.
    heard_ns: u64,
    end: Ended,
    alive: usize,
}

impl<'a> Load<'a> {
    /// The life of a thread.
    pub fn run(thread: usize, shared: &'a Shared, tell: &'a Sender<Told>, spare: &'a Receiver<Box<Slice>>) {
        let opened = Load::open(thread, shared, tell, spare);
        let told = opened.as_ref().map(|_| ()).map_err(Clone::clone);
        if tell.send(Told::Connected(told)).is_err() {
            return;
        }
        shared.go.wait();
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(load) = opened {
            let end = load.work();
            // The collector is there until all threads have ended.
            let _ = tell.send(Told::Ended(end));
        }
    }

    fn open(
        thread: usize,
        shared: &'a Shared,
        tell: &'a Sender<Told>,
        spare: &'a Receiver<Box<Slice>>,
    ) -> Result<Load<'a>, Failure> {
        let settings = &shared.settings;
        if !settings.cpus.is_empty() {
            crate::machine::pin_to(&[settings.cpus[thread % settings.cpus.len()]]);
        }
        // Sleeps of the open loop end on time, not 50 us later.
        let _ = nix::sys::prctl::set_timerslack(1);
        let refused = |what: &str, error: Errno| Failure::Refused { request: what.into(), said: error.desc().into() };
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|error| refused("epoll", error))?;
        let share = |count: usize| (count * thread / settings.threads, count * (thread + 1) / settings.threads);
        let (first, last) = share(settings.connections);
        let (first_subscriber, last_subscriber) = share(shared.subscribers);
        let mut connections = Vec::new();
        for number in 0..(last - first) + (last_subscriber - first_subscriber) {
            let mut client = Client::open(&settings.access)?;
            let subscriber = number >= last - first;
            if subscriber {
                let channel = (first_subscriber + number - (last - first)) as u64 % settings.channels.max(1);
                client.call(&["SUBSCRIBE", &format!("channel:{channel}")])?;
            }
            let (fd, kept) = client.into_parts();
            fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|error| refused("a socket", error))?;
            let events = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
            epoll.add(&fd, EpollEvent::new(events, number as u64)).map_err(|error| refused("epoll", error))?;
            connections.push(Connection::new(fd, settings.access.protocol, subscriber, kept));
        }
        let kinds = shared.kinds.len() + usize::from(shared.subscribers > 0);
        let own_budget = match (settings.requests, &settings.pick) {
            (Some(requests), Pick::Sequential | Pick::File(_)) => Some(own_requests(shared, thread, requests)),
            _ => None,
        };
        Ok(Load {
            thread,
            shared,
            alive: last - first,
            senders: last - first,
            first,
            connections,
            epoll,
            draws: draws(shared, thread),
            counts: Counts::new(thread, kinds, settings.interval, tell, spare),
            ready: VecDeque::new(),
            schedule: None,
            all_due: false,
            backlog: VecDeque::new(),
            own_budget,
            window: vec![0; WINDOW_BYTES],
            issuing: true,
            heard_ns: 0,
            end: Ended { thread, ..Ended::default() },
        })
    }

    fn work(mut self) -> Ended {
        let settings = &self.shared.settings;
        let start_ns = self.shared.start_ns.load(Ordering::Relaxed);
        let begin_ns = start_ns + settings.warmup.as_nanos() as u64;
        self.counts.begin(start_ns, begin_ns);
        let deadline_ns = settings.duration.map_or(u64::MAX, |duration| begin_ns + duration.as_nanos() as u64);
        let timeout_ns = settings.access.timeout.as_nanos() as u64;
        self.schedule = settings.rate.map(|rate| {
            Schedule::new(rate, settings.poisson, (self.thread, settings.threads), start_ns, settings.seed)
        });
        self.heard_ns = start_ns;
        self.ready.extend(0..self.senders);
        self.connections.iter_mut().take(self.senders).for_each(|connection| connection.queued = true);
        let cpu_before = thread_cpu_ns();
        let mut events = [EpollEvent::empty(); 512];
        let (mut drain_ns, mut answered) = (None, false);
        loop {
            let now_ns = self.shared.now_ns();
            self.counts.turn(now_ns);
            let over = now_ns >= deadline_ns || self.shared.stop.load(Ordering::Relaxed);
            if self.issuing && (!over || self.schedule.is_some()) {
                // What was due before the end is due, even if this thread slept over it.
                self.issue(now_ns.min(deadline_ns), begin_ns);
            }
            self.issuing &= !over;
            if !self.issuing {
                let drain_ns = *drain_ns.get_or_insert(now_ns + DRAIN_NS);
                if !answered && self.outstanding() == 0 {
                    answered = true;
                    self.shared.publishing.fetch_sub(1, Ordering::Relaxed);
                }
                if self.drained(now_ns) || now_ns >= drain_ns {
                    break;
                }
            } else if self.alive == 0 {
                break;
            }
            if now_ns.saturating_sub(self.heard_ns) > timeout_ns && self.outstanding() > 0 {
                self.end.why = Some(Failure::Silent(settings.access.timeout).to_string());
                break;
            }
            let ready = self.wait(&mut events, now_ns);
            for event in &events[..ready] {
                let (at, flags) = (event.data() as usize, event.events());
                if flags.contains(EpollFlags::EPOLLOUT)
                    && self.connections[at].out_sent < self.connections[at].out.len()
                {
                    self.flush(at);
                }
                if flags.intersects(
                    EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR,
                ) {
                    self.receive(at);
                }
            }
        }
        self.counts.close();
        self.end.cpu_ns = thread_cpu_ns().saturating_sub(cpu_before);
        self.end.last_ns = self.counts.last_ns.saturating_sub(begin_ns);
        self.end.unanswered += self.outstanding();
        self.end.unsent = self.backlog.len() as u64;
        self.end.errors = std::mem::take(&mut self.counts.errors);
        self.end
    }

    /// Sleeps until something happens or is due.
    fn wait(&mut self, events: &mut [EpollEvent], now_ns: u64) -> usize {
        let timeout_ms = match &self.schedule {
            Some(schedule) if self.issuing && !self.all_due => {
                let left_ns = schedule.next_ns().saturating_sub(now_ns).min(SLEEP_MAX.as_nanos() as u64);
                if left_ns > SPIN_NS {
                    let mut one = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
                    // Whatever comes of it, what is there is looked at next.
                    let _ = ppoll(&mut one, Some(TimeSpec::nanoseconds((left_ns - SPIN_NS / 3) as i64)), None);
                }
                0u8
            }
            _ => SLEEP_MAX.as_millis() as u8,
        };
        self.epoll.wait(events, timeout_ms).unwrap_or(0)
    }

    /// Requests that are in flight.
    fn outstanding(&self) -> u64 {
        self.connections.iter().map(|connection| u64::from(connection.outstanding)).sum()
    }

    fn drained(&self, now_ns: u64) -> bool {
        if self.outstanding() > 0 {
            return false;
        }
        // Messages are on their way until all threads have published, and been told to how many.
        let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        self.connections.len() == self.senders
            || self.shared.publishing.load(Ordering::Relaxed) == 0
                && (of(&self.shared.deliveries) >= of(&self.shared.deliveries_expected)
                    || now_ns.saturating_sub(self.heard_ns) > DELIVERY_DRAIN_NS)
    }

    /// Gives requests to the connections that may have some.
    fn issue(&mut self, now_ns: u64, begin_ns: u64) {
        if self.schedule.is_some() {
            return self.issue_due(now_ns, begin_ns);
        }
        let pipeline = self.shared.settings.pipeline as u64;
        while let Some(at) = self.ready.pop_front() {
            self.connections[at].queued = false;
            if self.connections[at].fd.is_none() {
                continue;
            }
            let count = if now_ns < begin_ns { pipeline } else { self.claim(pipeline) };
            if count == 0 {
                self.issuing = false;
                return;
            }
            self.draws.now_ns = self.shared.now_ns();
            self.append(at, count as u32, 0);
            self.connections[at].sent_ns = self.shared.now_ns();
            self.flush(at);
        }
    }

    fn issue_due(&mut self, now_ns: u64, begin_ns: u64) {
        while !self.all_due {
            let Some(due_ns) = self.schedule.as_mut().and_then(|schedule| schedule.due(now_ns)) else { break };
            if due_ns >= begin_ns && self.claim(1) == 0 {
                self.all_due = true;
            } else {
                self.backlog.push_back(due_ns);
            }
        }
        self.draws.now_ns = now_ns;
        let mut touched = Vec::new();
        while !self.backlog.is_empty() {
            let Some(at) = self.ready.pop_front() else { break };
            self.connections[at].queued = false;
            if self.connections[at].fd.is_none() {
                continue;
            }
            let due_ns = self.backlog.pop_front().unwrap_or(now_ns);
            self.append(at, 1, due_ns);
            touched.push(at);
            if (self.connections[at].outstanding as usize) < self.shared.settings.pipeline {
                self.connections[at].queued = true;
                self.ready.push_back(at);
            }
        }
        touched.into_iter().for_each(|at| self.flush(at));
        if self.all_due && self.backlog.is_empty() {
            self.issuing = false;
        }
    }

    /// Takes up to `wanted` of the requests that are left.
    fn claim(&mut self, wanted: u64) -> u64 {
        if let Some(left) = &mut self.own_budget {
            let taken = wanted.min(*left);
            *left -= taken;
            return taken;
        }
        let left = self.shared.budget.fetch_sub(wanted as i64, Ordering::Relaxed);
        (left.max(0) as u64).min(wanted)
    }

    /// Appends requests to the output of a connection.
    fn append(&mut self, at: usize, count: u32, due_ns: u64) {
        let shared = self.shared;
        let connection = &mut self.connections[at];
        if let ([kind @ Kind { role: Role::Other, then: None, .. }], None) = (&shared.kinds[..], connection.follow) {
            let all_sent = connection.out_sent == connection.out.len();
            if all_sent && connection.framed == count && kind.template.rewrite(&mut connection.out, &mut self.draws) {
                connection.out_sent = 0;
                return connection.issued(0, count, due_ns);
            }
            connection.reuse();
            for _ in 0..count {
                if kind.template.keyed && !kind.template.inserts {
                    self.draws.draw_key();
                }
                kind.template.write(&mut connection.out, &mut self.draws);
            }
            connection.framed += count;
            return connection.issued(0, count, due_ns);
        }
        connection.reuse();
        for _ in 0..count {
            let number = match &mut connection.follow {
                Some(follow) => {
                    self.draws.key = follow.key;
                    follow.key += 1;
                    follow.left -= 1;
                    let kind = follow.kind;
                    if follow.left == 0 {
                        connection.follow = None;
                    }
                    kind
                }
                None => {
                    let number = choose(&shared.shares, &mut self.draws);
                    if shared.kinds[number].template.keyed && !shared.kinds[number].template.inserts {
                        self.draws.draw_key();
                    }
                    number
                }
            };
            let kind = &shared.kinds[number];
            if kind.role != Role::Other
                && let Some(ledger) = &shared.ledger
            {
                if kind.role != Role::Read && !shared.settings.filling {
                    let own = (self.first + at) as u64;
                    self.draws.key = ledger.owned(self.draws.key, own, shared.settings.connections as u64);
                }
                let expectation = ledger.issue(self.draws.key, kind.role);
                self.draws.verified = (kind.role == Role::Write).then(|| (ledger.clone(), expectation.version));
                connection.expectations.push_back(expectation);
            }
            kind.template.write(&mut connection.out, &mut self.draws);
            connection.issued(number, 1, due_ns);
            if connection.follow.is_none() {
                // A range begins at the key of the request and stays below the number of keys.
                let key = self.draws.key;
                connection.follow = match kind.then {
                    None => None,
                    Some(Then::Once(kind)) => Some(Follow { kind, key, left: 1 }),
                    Some(Then::Range(kind)) => {
                        let behind = shared.space.count.load(Ordering::Relaxed).saturating_sub(key);
                        Some(Follow { kind, key, left: self.draws.length.min(behind.max(1) as u32) })
                    }
                };
            }
        }
    }

    fn flush(&mut self, at: usize) {
        if let Err(error) = self.connections[at].flush() {
            self.lost(at, format!("the server has closed the connection: {}", error.desc()));
        }
    }

    /// A connection is gone, with what was in flight.
    #[cold]
    fn lost(&mut self, at: usize, why: String) {
        let connection = &mut self.connections[at];
        if connection.fd.take().is_none() {
            return;
        }
        self.end.unanswered += u64::from(std::mem::take(&mut connection.outstanding));
        self.end.lost += 1;
        self.end.why.get_or_insert(why);
        if !connection.subscriber {
            self.alive -= 1;
        }
    }

    fn receive(&mut self, at: usize) {
        loop {
            let connection = &mut self.connections[at];
            let Some(fd) = &connection.fd else { return };
            let received = match recv(fd.as_raw_fd(), &mut self.window, MsgFlags::empty()) {
                Ok(0) => return self.lost(at, "the server has closed the connection".into()),
                Ok(received) => received,
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => continue,
                Err(error) => return self.lost(at, format!("the server has closed the connection: {}", error.desc())),
            };
            let now_ns = self.shared.now_ns();
            (self.heard_ns, self.counts.last_ns) = (now_ns, now_ns);
            self.counts.turn(now_ns);
            let understood = if connection.carry.is_empty() {
                let understood =
                    understand(self.shared, &mut self.counts, connection, &self.window[..received], now_ns);
                if let Ok(done) = understood {
                    connection.carry.extend_from_slice(&self.window[done..received]);
                }
                understood
            } else {
                let mut carry = std::mem::take(&mut connection.carry);
                carry.extend_from_slice(&self.window[..received]);
                let understood = understand(self.shared, &mut self.counts, connection, &carry, now_ns);
                if let Ok(done) = understood {
                    carry.drain(..done);
                    connection.carry = carry;
                }
                understood
            };
            if let Err(NotTheProtocol(said)) = understood {
                let protocol = self.shared.settings.access.protocol;
                return self.lost(at, Failure::OtherProtocol { protocol, said }.to_string());
            }
            let room = match self.schedule {
                None => connection.outstanding == 0,
                Some(_) => (connection.outstanding as usize) < self.shared.settings.pipeline,
            };
            if room && !connection.queued && !connection.subscriber {
                connection.queued = true;
                self.ready.push_back(at);
            }
            if received < WINDOW_BYTES {
                return;
            }
        }
    }
}

/// A kind by its share.
fn choose(shares: &[u64], draws: &mut Draws) -> usize {
    let drawn = draws.below(1 << 32);
    shares.iter().position(|&bound| drawn < bound).unwrap_or(0)
}

/// The requests of a thread whose keys are a part of all: as its part is to all keys.
fn own_requests(shared: &Shared, thread: usize, requests: u64) -> u64 {
    let threads = shared.settings.threads as u64;
    let keys = shared.space.trace.as_ref().map_or(shared.settings.keys, |trace| trace.len() as u64).max(1);
    let part = |thread: u64| {
        let keys_before = keys * thread / threads;
        (u128::from(requests) * u128::from(keys_before) / u128::from(keys)) as u64
    };
    part(thread as u64 + 1) - part(thread as u64)
}

fn thread_cpu_ns() -> u64 {
    getrusage(UsageWho::RUSAGE_THREAD)
        .map_or(0, |usage| (usage.user_time().num_nanoseconds() + usage.system_time().num_nanoseconds()) as u64)
}
