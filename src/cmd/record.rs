//! What is written to the append-only file: the commands that changed something, so that running them again, at whatever time, comes to the same.
//!
//! ```text
//!  a command has run and changed something ─▶ Ctx::record ─▶ its words; or what its row's `Exec::told` makes of them and of what is there now:
//!                                                           deadlines absolute, results instead of floats and of what chance has chosen
//!  a command says it itself ─▶ Ctx::log_as (what was popped)
//!  a task ─▶ at its first change (Ctx::report): what it names is held until its end, so nobody comes between
//!  ─▶ pending ─▶ Ctx::commit_record, under the locks of the change: a position ─▶ batch ─▶ once a turn: store::log
//! ```
//! An entry is one command, or several in MULTI and EXEC: those of a transaction, or of a command that needs more than one. What has gone by itself
//! (`db::journal`) comes in front of what is written next.
//!
//! Invariant: the entries of a batch are in the order of their positions; so what has gone is taken before a position is.

mod told;

use super::ctx::{Args, Ctx, Exec};
use super::spec::{Command, Flags};
use crate::db::journal::Gone;
use crate::persist::aof::command;
use crate::store::log::{Batch, Entry};
use dolmen_slab::BlobRef;
pub use told::*;

/// A batch is handed over before the end of the turn when it has become so long.
const BATCH_BYTES: usize = 256 << 10;
/// Words in front of commands that belong together, and behind them.
const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

impl Exec {
    /// The same, for which `told` writes what it has done.
    #[must_use]
    pub const fn told(self, told: fn(&mut Ctx<'_>, Args<'_>)) -> Exec {
        Exec { told: Some(told), ..self }
    }

    /// The same, which is logged as it came if it has so many arguments.
    #[must_use]
    pub const fn as_came(self, argc: u8) -> Exec {
        Exec { plain: argc, ..self }
    }
}

/// A word of a command: its bytes, or a large value.
#[derive(Clone, Copy)]
pub enum Word<'a> {
    Bytes(&'a [u8]),
    Value(&'a BlobRef),
}

/// A command that goes on in slices, to be logged at its first change.
pub struct Told {
    row: &'static Command<Exec>,
    args: Vec<Vec<u8>>,
    value: Option<(usize, BlobRef)>,
}

impl Told {
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.args.iter().map(|arg| arg.capacity() + size_of::<Vec<u8>>()).sum()
    }
}

/// What a worker has to log.
#[derive(Default)]
pub struct Recorder {
    batch: Batch,
    /// Where the entry begins that is not complete, its commands so far, and the databases that the first is for and that is selected now.
    start: usize,
    commands: usize,
    from: u32,
    to: u32,
    /// The command that runs now has said itself what it did.
    said: bool,
    /// The command whose first slice was logged goes on in slices.
    said_by_task: bool,
    /// Flags of memcached that the key of the next command has: they go in front of it.
    client_flags: u32,
    /// A task takes a step.
    pub stepping: bool,
    /// The command that it is of.
    pub task: Option<Box<Told>>,
    /// The value that the command that runs now has been given in place of one of its arguments.
    pub value: Option<(usize, BlobRef)>,
}

impl Recorder {
    /// Begins a command of so many words in the entry that is pending.
    fn begin(&mut self, database: u32, words: usize) {
        match self.commands {
            0 => (self.from, self.to) = (database, database),
            1 => {
                self.batch.bytes.splice(self.start..self.start, MULTI.iter().copied());
                for (at, _) in self.batch.values.iter_mut().rev().take_while(|(at, _)| *at > self.start) {
                    *at += MULTI.len();
                }
            }
            _ => {}
        }
        if self.to != database {
            self.to = database;
            command::put(&mut self.batch.bytes, &[b"SELECT", database.to_string().as_bytes()]);
        }
        self.commands += 1;
        match std::mem::take(&mut self.client_flags) {
            0 => {}
            flags => command::put_client_flags(&mut self.batch.bytes, flags),
        }
        command::put_head(&mut self.batch.bytes, words);
    }

    fn word(&mut self, word: Word<'_>) {
        match word {
            Word::Bytes(bytes) => command::put_arg(&mut self.batch.bytes, bytes),
            Word::Value(value) => {
                command::put_arg_head(&mut self.batch.bytes, value.len());
                self.batch.values.push_back((self.batch.bytes.len(), value.clone()));
                self.batch.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    /// What has gone comes before what is to be written: as an entry of its own, or in the one that is pending.
    fn take_gone(&mut self, gone: Vec<Gone>) {
        for Gone { position, database, key, fields } in gone {
            let database = u32::try_from(database).unwrap_or(0);
            let alone = self.commands == 0;
            if !alone {
                // Its position has an entry without commands, in front.
                let (from, to) = (Entry::NOTHING, Entry::NOTHING);
                self.batch.entries.push(Entry { position, from, to, end: self.start });
            }
            if fields.is_empty() {
                self.begin(database, 2);
                self.word(Word::Bytes(b"DEL"));
                self.word(Word::Bytes(&key));
            } else {
                self.begin(database, 2 + fields.len());
                self.word(Word::Bytes(b"HDEL"));
                self.word(Word::Bytes(&key));
                fields.iter().for_each(|field| self.word(Word::Bytes(field)));
            }
            if alone {
                self.end(position);
            }
        }
    }

    /// The entry is complete.
    fn end(&mut self, position: u64) {
        if self.commands > 1 {
            self.batch.bytes.extend_from_slice(EXEC);
        }
        let end = self.batch.bytes.len();
        self.batch.entries.push(Entry { position, from: self.from, to: self.to, end });
        (self.start, self.commands) = (end, 0);
    }

    /// Is nothing there to be taken?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batch.entries.is_empty()
    }

    /// An empty batch for what comes next.
    pub fn go_on_with(&mut self, batch: Batch) {
        debug_assert!(batch.entries.is_empty() && self.is_empty());
        self.batch = batch;
    }

    /// Takes what is complete, with what has gone meanwhile.
    pub fn take(&mut self, gone: Vec<Gone>) -> Batch {
        debug_assert!(self.commands == 0, "no command is under way");
        self.take_gone(gone);
        self.start = 0;
        std::mem::take(&mut self.batch)
    }
}

impl Ctx<'_> {
    /// Are changes logged?
    #[inline]
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.blocking.logs() && self.store.log.is_on()
    }

    /// With so many arguments, is the command logged as it came?
    #[inline]
    #[must_use]
    pub fn logs_as_it_came(&self, row: &'static Command<Exec>, argc: usize) -> bool {
        self.blocking.logs() && usize::from(row.run.plain) == argc
    }

    /// Has the command that has run left it to others to say what it did?
    #[must_use]
    pub fn has_said_nothing(&self) -> bool {
        !self.recorder.said && self.recorder.commands == 0
    }

    /// What commands have changed, whose locks are still held, is logged by their bytes.
    pub fn record_as_came(&mut self, bytes: &[u8]) {
        if !self.is_recorded() {
            return;
        }
        self.put_gone();
        let database = u32::try_from(self.db.index()).unwrap_or(0);
        (self.recorder.from, self.recorder.to) = (database, database);
        self.recorder.batch.bytes.extend_from_slice(bytes);
        self.end_entry();
    }

    /// What was written since the last entry is one, at the position that comes next.
    fn end_entry(&mut self) {
        let position = self.db.next_position();
        self.recorder.end(position);
        if self.recorder.batch.bytes.len() >= BATCH_BYTES {
            let batch = self.recorder.take(Vec::new());
            let spare = self.store.log.push(self.store, self.fleet.me(), batch);
            self.recorder.go_on_with(spare);
        }
    }

    /// Writes what has gone so far.
    fn put_gone(&mut self) {
        let gone = self.db.take_gone();
        if !gone.is_empty() {
            self.recorder.take_gone(gone);
        }
    }

    /// Writes a command for the database at hand into the entry that is pending.
    fn put_command<'w>(&mut self, words: impl ExactSizeIterator<Item = Word<'w>>) {
        self.put_gone();
        let database = u32::try_from(self.db.index()).unwrap_or(0);
        self.recorder.begin(database, words.len());
        words.for_each(|word| self.recorder.word(word));
    }

    /// In place of its words the command that runs now is to be logged as this.
    pub fn log_as(&mut self, words: &[&[u8]]) {
        self.log_as_words(words.iter().map(|word| Word::Bytes(word)));
    }

    pub fn log_as_words<'w>(&mut self, words: impl ExactSizeIterator<Item = Word<'w>>) {
        if !self.is_recorded() {
            return;
        }
        self.put_command(words);
        self.recorder.task = None;
        if self.recorder.stepping {
            self.commit_record();
        } else {
            self.recorder.said = true;
        }
    }

    /// Something was done for another client.
    pub fn log_for_other(&mut self, words: &[&[u8]]) {
        if self.is_recorded() {
            self.put_command(words.iter().map(|word| Word::Bytes(word)));
            self.commit_record();
        }
    }

    /// The command has run and changed something: writes what it did, unless it has said it itself.
    pub fn record(&mut self, row: &'static Command<Exec>, args: Args<'_>) {
        if !self.is_recorded() {
            return;
        }
        self.recorder.said_by_task = self.task.is_some();
        if !std::mem::take(&mut self.recorder.said) {
            self.write(row, args);
        }
    }

    fn write(&mut self, row: &'static Command<Exec>, args: Args<'_>) {
        if !row.flags.contains(Flags::WRITE) {
            return;
        }
        match row.run.told {
            Some(told) => told(self, args),
            None => self.put_args(args),
        }
    }

    /// The words of the command, as they came; but its own name, whatever clients call it.
    pub(super) fn put_args(&mut self, args: Args<'_>) {
        let value = self.recorder.value.take();
        let own_name = self.commands.own_name(args[0]);
        let words = args.iter().enumerate().map(|(i, arg)| match (&value, own_name) {
            (Some((at, value)), _) if *at == i => Word::Value(value),
            (_, Some(name)) if i == 0 => Word::Bytes(name.as_bytes()),
            _ => Word::Bytes(arg),
        });
        self.put_command(words);
        self.recorder.value = value;
    }

    /// What was written since the last call is an entry, if the locks under which it was changed are still held, and nothing else belongs to it.
    pub fn commit_record(&mut self) {
        if self.recorder.commands == 0 || self.in_multi() {
            return;
        }
        self.put_gone();
        self.end_entry();
    }

    /// Behind the follow-up of a change.
    pub fn settle_follow_up(&mut self) {
        let logs = self.blocking.logs();
        self.blocking.settle(logs);
    }

    /// Keeps the value that the command is given in place of an argument, for the log.
    pub fn keep_value(&mut self, row: &'static Command<Exec>) {
        self.recorder.said = false;
        self.recorder.value = None;
        if let Some(blob) = self.blob
            && self.is_recorded()
        {
            self.db.prefetch(self.hash);
            self.recorder.value = Some((usize::from(row.run.value_arg), self.db.blob_ref(blob)));
        }
    }

    /// Keeps a command that goes on in slices, if it is to be logged then.
    pub fn keep_command(&mut self, row: &'static Command<Exec>, args: Args<'_>) -> Option<Box<Told>> {
        let said = std::mem::take(&mut self.recorder.said_by_task);
        if said
            || !self.is_recorded()
            || !row.flags.contains(Flags::WRITE)
            || row.flags.intersects(Flags::of(&[Flags::BLOCKING, Flags::NO_MULTI]))
        {
            return None;
        }
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        Some(Box::new(Told { row, args, value: self.recorder.value.take() }))
    }

    /// The task that takes a step has changed something for the first time.
    #[inline]
    pub fn record_task(&mut self) {
        if let Some(told) = self.recorder.task.take() {
            self.record_told(*told);
        }
    }

    #[cold]
    fn record_told(&mut self, told: Told) {
        if !self.is_recorded() {
            return;
        }
        let Told { row, args, value } = told;
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        self.recorder.value = value;
        self.write(row, &args);
        self.recorder.value = None;
        self.commit_record();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(recorder: &mut Recorder, database: u32, words: &[&[u8]]) {
        recorder.begin(database, words.len());
        words.iter().for_each(|word| recorder.word(Word::Bytes(word)));
    }

    fn gone(position: u64, key: &str, fields: &[&str]) -> Gone {
        let fields = fields.iter().map(|field| field.as_bytes().into()).collect();
        Gone { position, database: 0, key: key.as_bytes().into(), fields }
    }

    #[test]
    fn entries() {
        let mut recorder = Recorder::default();
        recorder.take_gone(vec![gone(3, "a", &[])]);
        put(&mut recorder, 0, &[b"SET", b"k", b"v"]);
        recorder.end(4);
        put(&mut recorder, 1, &[b"INCR", b"n"]);
        recorder.take_gone(vec![gone(5, "h", &["f", "g"])]);
        put(&mut recorder, 1, &[b"INCR", b"n"]);
        recorder.end(6);
        let batch = recorder.take(vec![gone(9, "b", &[])]);
        let entries: Vec<_> = batch.entries.iter().map(|e| (e.position, e.from, e.to)).collect();
        assert_eq!(entries, [(3, 0, 0), (4, 0, 0), (5, u32::MAX, u32::MAX), (6, 1, 1), (9, 0, 0)]);
        let mut start = 0;
        let texts = batch.entries.iter().map(|entry| {
            let bytes = &batch.bytes[std::mem::replace(&mut start, entry.end)..entry.end];
            let words = bytes.split(|b| *b == b'\n').filter_map(|line| std::str::from_utf8(line.trim_ascii_end()).ok());
            words.filter(|w| !w.is_empty() && !w.starts_with(['*', '$'])).collect::<Vec<_>>().join(" ")
        });
        let want = ["DEL a", "SET k v", "", "MULTI INCR n SELECT 0 HDEL h f g SELECT 1 INCR n EXEC", "DEL b"];
        assert_eq!(texts.collect::<Vec<_>>(), want);
        assert!(recorder.take(Vec::new()).entries.is_empty());
    }
}
