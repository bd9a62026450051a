//! What a thread makes of replies: which request each answers, how long it took, whether it says what it should.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use super::connection::Connection;
use super::{Shared, Told};
use crate::record::Slice;
use crate::verify::Role;
use crate::wire::reply::{NotTheProtocol, Outcome, whole};
use crate::wire::template::STAMP_DIGITS;

/// Different texts of errors that are kept.
const ERROR_TEXTS_MAX: usize = 20;

/// What is counted, and where it goes at the end of an interval.
pub struct Counts<'a> {
    slice: Box<Slice>,
    spare: &'a Receiver<Box<Slice>>,
    tell: &'a Sender<Told>,
    thread: usize,
    /// The measurement begins, and the interval under way ends.
    begin_ns: u64,
    interval_ns: u64,
    until_ns: u64,
    pub errors: BTreeMap<String, u64>,
    /// Replies of one read, by kind.
    chunk: Vec<u32>,
    /// When the last reply came.
    pub last_ns: u64,
}

impl<'a> Counts<'a> {
    pub fn new(
        thread: usize,
        kinds: usize,
        interval: Duration,
        tell: &'a Sender<Told>,
        spare: &'a Receiver<Box<Slice>>,
    ) -> Counts<'a> {
        Counts {
            slice: Box::new(Slice::new(thread, kinds)),
            spare,
            tell,
            thread,
            begin_ns: 0,
            interval_ns: interval.as_nanos().max(1) as u64,
            until_ns: 0,
            errors: BTreeMap::new(),
            chunk: vec![0; kinds],
            last_ns: 0,
        }
    }

    /// The load starts, and the measurement begins.
    pub fn begin(&mut self, start_ns: u64, begin_ns: u64) {
        (self.begin_ns, self.until_ns, self.last_ns) = (begin_ns, start_ns, begin_ns);
    }

    /// Closes the interval that `now_ns` is past.
    pub fn turn(&mut self, now_ns: u64) {
        if now_ns >= self.until_ns {
            self.close();
            let interval = now_ns.saturating_sub(self.begin_ns) / self.interval_ns;
            if now_ns >= self.begin_ns {
                self.slice.interval = Some(interval);
                self.until_ns = self.begin_ns + (interval + 1) * self.interval_ns;
            } else {
                self.slice.interval = None;
                self.until_ns = self.begin_ns.min(now_ns + self.interval_ns);
            }
        }
    }

    pub fn close(&mut self) {
        let ops = self.slice.ops.len();
        let next = self.spare.try_recv().unwrap_or_else(|_| Box::new(Slice::new(self.thread, ops)));
        // Nobody listens only when the run was given up.
        let _ = self.tell.send(Told::Slice(std::mem::replace(&mut self.slice, next)));
    }

    #[cold]
    fn error(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(&line[..line.len().min(200)]).trim_start_matches('-').to_string();
        if self.errors.len() < ERROR_TEXTS_MAX || self.errors.contains_key(&text) {
            *self.errors.entry(text).or_default() += 1;
        } else {
            *self.errors.entry("others".into()).or_default() += 1;
        }
    }

    /// The replies that came at `now_ns` to requests sent at `sent_ns`.
    fn flush_chunk(&mut self, now_ns: u64, sent_ns: u64) {
        for (tally, count) in self.slice.ops.iter_mut().zip(&mut self.chunk) {
            if *count > 0 {
                tally.record(now_ns.saturating_sub(sent_ns), u64::from(*count));
                *count = 0;
            }
        }
    }
}

/// Counts the replies in what was received; returns how many bytes are done with.
pub fn understand(
    shared: &Shared,
    counts: &mut Counts<'_>,
    connection: &mut Connection,
    bytes: &[u8],
    now_ns: u64,
) -> Result<usize, NotTheProtocol> {
    if connection.subscriber || shared.subscribers > 0 || shared.ledger.is_some() {
        return understand_whole(shared, counts, connection, bytes, now_ns);
    }
    let Connection { flights, outstanding, reader, sent_ns, .. } = connection;
    let mut unasked = false;
    let done = reader.skim(bytes, |outcome, mut count, line| {
        if outcome == Outcome::Push {
            return;
        }
        while count > 0 {
            let Some(flight) = flights.front_mut() else {
                unasked = true;
                return;
            };
            let (kind, part) = (usize::from(flight.kind), count.min(flight.count));
            match outcome {
                Outcome::Done | Outcome::Push => {}
                Outcome::Miss => counts.slice.ops[kind].misses += u64::from(part),
                Outcome::Error => {
                    counts.slice.ops[kind].errors += u64::from(part);
                    counts.error(line);
                }
            }
            if flight.due_ns == 0 {
                counts.chunk[kind] += part;
            } else {
                counts.slice.ops[kind].record(now_ns.saturating_sub(flight.due_ns), u64::from(part));
            }
            *outstanding -= part;
            flight.count -= part;
            count -= part;
            if flight.count == 0 {
                flights.pop_front();
            }
        }
    })?;
    counts.flush_chunk(now_ns, *sent_ns);
    if unasked { Err(NotTheProtocol("replies that nobody asked for".into())) } else { Ok(done) }
}

/// The same where the contents of replies matter: of values that are verified, of messages and how many were sent.
fn understand_whole(
    shared: &Shared,
    counts: &mut Counts<'_>,
    connection: &mut Connection,
    bytes: &[u8],
    now_ns: u64,
) -> Result<usize, NotTheProtocol> {
    let (mut at, mut scratch) = (0, Vec::new());
    while let Some(reply) = whole(shared.settings.access.protocol, &bytes[at..])? {
        at += reply.length;
        if connection.subscriber {
            let stamp = reply.last.get(..STAMP_DIGITS).and_then(|digits| std::str::from_utf8(digits).ok());
            if let Some(sent_ns) = stamp.and_then(|digits| digits.parse::<u64>().ok()) {
                let deliver = shared.kinds.len();
                counts.slice.ops[deliver].record(now_ns.saturating_sub(sent_ns), 1);
                shared.deliveries.fetch_add(1, Ordering::Relaxed);
            }
            continue;
        }
        if reply.outcome == Outcome::Push {
            continue;
        }
        let Some(flight) = connection.flights.front_mut() else {
            return Err(NotTheProtocol("replies that nobody asked for".into()));
        };
        let kind = usize::from(flight.kind);
        let sent_ns = if flight.due_ns == 0 { connection.sent_ns } else { flight.due_ns };
        let tally = &mut counts.slice.ops[kind];
        tally.record(now_ns.saturating_sub(sent_ns), 1);
        tally.misses += u64::from(reply.outcome == Outcome::Miss);
        connection.outstanding -= 1;
        flight.count -= 1;
        if flight.count == 0 {
            connection.flights.pop_front();
        }
        let expectation =
            if shared.kinds[kind].role == Role::Other { None } else { connection.expectations.pop_front() };
        if reply.outcome == Outcome::Error {
            tally.errors += 1;
            counts.error(reply.last);
        } else if let (Some(expectation), Some(ledger)) = (expectation, &shared.ledger) {
            ledger.answered(expectation, (reply.outcome == Outcome::Done).then_some(reply.last), &mut scratch);
        } else if shared.subscribers > 0
            && let Some(receivers) = std::str::from_utf8(reply.last).ok().and_then(|digits| digits.parse::<u64>().ok())
        {
            shared.deliveries_expected.fetch_add(receivers, Ordering::Relaxed);
        }
    }
    Ok(at)
}
