//! What workers have saved and the writer has not yet written: a queue for each worker, each bounded, so that the writer can stay with one of
//! them while it has half a value, and the others go on until their own is full.

use dolmen_slab::BlobRef;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes that wait in one queue; what comes on top is the last message.
const QUEUE_BYTES: usize = 2 << 20;

/// Something to write.
pub enum Message {
    /// Whole records (`store::records`).
    Records(Vec<u8>),
    /// A record without its value, a string, and that.
    Blob(Vec<u8>, BlobRef),
    /// A record of a collection without its elements, which follow. Nothing of another worker may come before their end.
    Begin(Vec<u8>),
    Run(Vec<u8>, bool),
}

impl Message {
    /// Memory that is held by waiting (of a blob only what it will take to write it).
    fn bytes(&self) -> usize {
        match self {
            Message::Records(bytes) | Message::Begin(bytes) | Message::Run(bytes, _) => bytes.len() + 64,
            Message::Blob(record, blob) => record.len() + blob.len().min(QUEUE_BYTES / 4),
        }
    }
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<Message>,
    bytes: usize,
    /// Its worker has saved all, or given up.
    ended: bool,
}

#[derive(Default)]
struct Queues {
    of: Vec<Queue>,
    /// Which one was taken from last.
    at: usize,
    given_up: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct Outbox {
    queues: Mutex<Queues>,
    changed: Condvar,
}

/// What the writer finds.
pub(super) enum Next {
    Message(usize, Message),
    /// All workers have saved all.
    End,
    /// The save was given up, and no worker goes on with it.
    GivenUp,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new save by so many workers begins.
    pub(super) fn open(&self, workers: usize) {
        *self.lock() = Queues { of: (0..workers).map(|_| Queue::default()).collect(), at: 0, given_up: false };
    }

    pub(super) fn has_room(&self, worker: usize) -> bool {
        self.lock().of[worker].bytes < QUEUE_BYTES
    }

    pub(super) fn push(&self, worker: usize, message: Message) {
        let queue = &mut self.lock().of[worker];
        queue.bytes += message.bytes();
        queue.messages.push_back(message);
        self.changed.notify_one();
    }

    /// A worker has nothing more.
    pub(super) fn end(&self, worker: usize) {
        self.lock().of[worker].ended = true;
        self.changed.notify_one();
    }

    /// What was saved is not to be written.
    pub(super) fn give_up(&self) {
        let mut queues = self.lock();
        queues.given_up = true;
        queues.of.iter_mut().for_each(|queue| {
            queue.messages.clear();
            queue.bytes = 0;
        });
        self.changed.notify_one();
    }

    /// Waits for something to do. `only`: from this worker, whose value is half written.
    pub(super) fn next(&self, only: Option<usize>) -> Next {
        let mut queues = self.lock();
        loop {
            let Queues { of, at, given_up } = &mut *queues;
            let workers = of.len();
            let mut look = only.map_or(*at + 1..*at + 1 + workers, |only| only..only + 1).map(|index| index % workers);
            if let Some(index) = look.find(|index| !of[*index].messages.is_empty())
                && !*given_up
            {
                *at = index;
                let message = of[index].messages.pop_front().expect("found above");
                of[index].bytes -= message.bytes();
                return Next::Message(index, message);
            }
            if of.iter().all(|queue| queue.ended) {
                return if *given_up { Next::GivenUp } else { Next::End };
            }
            queues = self.changed.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
