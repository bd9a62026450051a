//! What commands are logged as whose words would not come to the same at another time: made of what is there when they have run.

use super::super::ctx::{Args, Ctx};
use super::Word;
use crate::base::int;
use crate::db::Key;
use crate::db::item::Value;
use crate::types::hash::Hash;
use dolmen_slab::BlobRef;

/// A decimal number as a word.
fn digits(number: u64) -> Vec<u8> {
    int::write_u64(&mut [0; int::MAX_DIGITS], number).to_vec()
}

impl Ctx<'_> {
    fn put_words(&mut self, words: &[&[u8]]) {
        self.put_command(words.iter().map(|word| Word::Bytes(word)));
    }

    /// The deadline of a key, or that it has gone.
    fn put_deadline(&mut self, key: Key<'_>) {
        match self.db.deadline_for_write(key) {
            None => self.put_words(&[b"DEL", key.bytes]),
            Some(None) => self.put_words(&[b"PERSIST", key.bytes]),
            Some(Some(ms)) => self.put_words(&[b"PEXPIREAT", key.bytes, &digits(ms)]),
        }
    }

    /// A string and its deadline as they are now, or that the key has gone.
    fn put_string(&mut self, key: Key<'_>, keeps_deadline: bool) {
        let deadline = self.db.deadline_for_write(key);
        let (mut text, mut blob): (Vec<u8>, Option<BlobRef>) = (Vec::new(), None);
        let there = match self.db.string_for_write(key) {
            Ok(Some(Value::Raw(bytes))) => {
                text.extend_from_slice(bytes);
                true
            }
            Ok(Some(Value::Int(number))) => {
                text.extend_from_slice(int::write_i64(&mut [0; int::MAX_DIGITS], number));
                true
            }
            Ok(Some(Value::Blob(id))) => {
                blob = Some(self.db.blob_ref(id));
                true
            }
            Ok(None) | Err(_) => false,
        };
        if !there {
            return self.put_words(&[b"DEL", key.bytes]);
        }
        let value = blob.as_ref().map_or(Word::Bytes(&text), Word::Value);
        let marks = self.db.look_at_string(key).and_then(|item| item.marks());
        self.put_gone();
        self.recorder.client_flags = marks.map_or(0, |marks| marks.flags);
        self.put_set(key, value, deadline.flatten(), keeps_deadline);
    }

    fn put_set(&mut self, key: Key<'_>, value: Word<'_>, deadline_ms: Option<u64>, keeps_deadline: bool) {
        let ms = deadline_ms.map(digits);
        let mut words = vec![Word::Bytes(b"SET"), Word::Bytes(key.bytes), value];
        match &ms {
            _ if keeps_deadline => words.push(Word::Bytes(b"KEEPTTL")),
            Some(ms) => words.extend([Word::Bytes(b"PXAT"), Word::Bytes(ms)]),
            None => {}
        }
        self.put_command(words.into_iter());
    }

    /// The value that a command was given at a place, written to a key with the deadline that it has now.
    fn put_given(&mut self, key: Key<'_>, args: Args<'_>, at: usize, keeps_deadline: bool) {
        let Some(deadline) = self.db.deadline_for_write(key) else {
            return self.put_words(&[b"DEL", key.bytes]);
        };
        let value = self.recorder.value.take();
        let word = match &value {
            Some((place, value)) if *place == at => Word::Value(value),
            _ => Word::Bytes(args[at]),
        };
        self.put_set(key, word, deadline, keeps_deadline);
        self.recorder.value = value;
    }

    /// A field of a hash as it is now: with its value, or its deadline only.
    fn put_field(&mut self, key: Key<'_>, field: &[u8], with_value: bool) {
        let now_ms = self.db.now_ms();
        let slab_text = |look: &crate::types::Look<'_, Hash>| {
            let found = look.field(field, now_ms)?;
            let mut value = Vec::new();
            if with_value {
                found.value.append(look.slab, &mut value);
            }
            Some((value, found.deadline_ms))
        };
        let found = self.db.look::<Hash>(key).ok().flatten().as_ref().and_then(slab_text);
        match found {
            None => self.put_words(&[b"HDEL", key.bytes, field]),
            Some((value, deadline_ms)) => {
                if with_value {
                    self.put_words(&[b"HSET", key.bytes, field, &value]);
                }
                match deadline_ms {
                    0 if with_value => {}
                    0 => self.put_words(&[b"HPERSIST", key.bytes, b"FIELDS", b"1", field]),
                    ms => self.put_words(&[b"HPEXPIREAT", key.bytes, &digits(ms), b"FIELDS", b"1", field]),
                }
            }
        }
    }

    /// The string at a key as it is now, in place of the words of the task that has written it: of what it was made others may have changed since.
    pub fn log_string_of_task(&mut self, key: Key<'_>) {
        if self.recorder.task.is_some() && self.is_recorded() {
            self.recorder.task = None;
            self.put_string(key, false);
            self.commit_record();
        }
    }
}

fn has_word(args: Args<'_>, word: &[u8]) -> bool {
    args.iter().any(|arg| arg.eq_ignore_ascii_case(word))
}

/// `EXPIRE` and its kin, `GETEX`.
pub fn told_deadline(ctx: &mut Ctx<'_>, args: Args<'_>) {
    let key = ctx.key(args[1]);
    ctx.put_deadline(key);
}

/// `SET key value [options]`
pub fn told_set(ctx: &mut Ctx<'_>, args: Args<'_>) {
    if args.len() == 3 {
        return ctx.put_args(args);
    }
    let key = ctx.key(args[1]);
    ctx.put_given(key, args, 2, has_word(&args[3..], b"keepttl"));
}

/// `SETEX`, `PSETEX`.
pub fn told_setex(ctx: &mut Ctx<'_>, args: Args<'_>) {
    let key = ctx.key(args[1]);
    ctx.put_given(key, args, 3, false);
}

/// `GETSET`
pub fn told_getset(ctx: &mut Ctx<'_>, args: Args<'_>) {
    let key = ctx.key(args[1]);
    ctx.put_given(key, args, 2, false);
}

/// `GETDEL`, `DELEX`, `DELIFEQ`: the key has gone.
pub fn told_del(ctx: &mut Ctx<'_>, args: Args<'_>) {
    ctx.put_words(&[b"DEL", args[1]]);
}

/// `INCRBYFLOAT`
pub fn told_number(ctx: &mut Ctx<'_>, args: Args<'_>) {
    let key = ctx.key(args[1]);
    ctx.put_string(key, true);
}

/// Verbs of memcached: the value as it is now.
pub fn told_value(ctx: &mut Ctx<'_>, args: Args<'_>) {
    let key = ctx.key(args[1]);
    ctx.put_string(key, false);
}

/// `flush_all` of memcached.
pub fn told_flush(ctx: &mut Ctx<'_>, _args: Args<'_>) {
    ctx.put_words(&[b"FLUSHDB"]);
}

/// `MSETEX numkeys key value [key value ...] [options]`
pub fn told_msetex(ctx: &mut Ctx<'_>, args: Args<'_>) {
    let count = int::parse_u64(args[1]).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let (pairs, options) = args[2..].split_at((2 * count).min(args.len() - 2));
    let keeps = has_word(options, b"keepttl");
    // All have the same; of a task only the first was written yet.
    let first = ctx.key(args[2]);
    let deadline_ms = ctx.db.deadline_for_write(first).flatten();
    for [name, value] in pairs.as_chunks::<2>().0 {
        let key = ctx.key(name);
        ctx.put_set(key, Word::Bytes(value), deadline_ms, keeps);
    }
}

/// `RESTORE key ttl payload [options]`
pub fn told_restore(ctx: &mut Ctx<'_>, args: Args<'_>) {
    let key = ctx.key(args[1]);
    let Some(deadline) = ctx.db.deadline_for_write(key) else {
        return ctx.put_words(&[b"DEL", key.bytes]);
    };
    let value = ctx.recorder.value.take();
    let payload = value.as_ref().map_or(Word::Bytes(args[3]), |(_, value)| Word::Value(value));
    let ms = digits(deadline.unwrap_or(0));
    let words = [&b"RESTORE"[..], key.bytes, &ms].map(Word::Bytes).into_iter().chain([payload]);
    let words: Vec<Word<'_>> = words.chain([&b"ABSTTL"[..], b"REPLACE"].map(Word::Bytes)).collect();
    ctx.put_command(words.into_iter());
    ctx.recorder.value = value;
}

/// Without the time-out, the command that does not wait.
fn told_without_waiting(ctx: &mut Ctx<'_>, name: &[u8], words: Args<'_>) {
    let words: Vec<&[u8]> = std::iter::once(name).chain(words.iter().copied()).collect();
    ctx.put_words(&words);
}

pub fn told_blmpop(ctx: &mut Ctx<'_>, args: Args<'_>) {
    told_without_waiting(ctx, b"LMPOP", &args[2..]);
}

pub fn told_bzmpop(ctx: &mut Ctx<'_>, args: Args<'_>) {
    told_without_waiting(ctx, b"ZMPOP", &args[2..]);
}

// ---- hashes ----

/// `HINCRBY`, `HINCRBYFLOAT`, `HSETNX`: the field as it is now.
pub fn told_field(ctx: &mut Ctx<'_>, args: Args<'_>) {
    let key = ctx.key(args[1]);
    ctx.put_field(key, args[2], true);
}

/// `HEXPIRE` and its kin, `HPERSIST`, `HGETEX`: the deadlines of the fields behind FIELDS as they are now.
pub fn told_fields(ctx: &mut Ctx<'_>, args: Args<'_>) {
    let Some(at) = args.iter().skip(2).position(|arg| arg.eq_ignore_ascii_case(b"fields")) else { return };
    let key = ctx.key(args[1]);
    for field in &args[at + 4..] {
        ctx.put_field(key, field, false);
    }
}

/// `HSETEX key [options] FIELDS numfields field value [field value ...]`
pub fn told_hsetex(ctx: &mut Ctx<'_>, args: Args<'_>) {
    let Some(at) = args.iter().skip(2).position(|arg| arg.eq_ignore_ascii_case(b"fields")) else { return };
    let key = ctx.key(args[1]);
    for [field, _] in args[at + 4..].as_chunks::<2>().0 {
        ctx.put_field(key, field, true);
    }
}

/// `HGETDEL key FIELDS numfields field [field ...]`
pub fn told_hgetdel(ctx: &mut Ctx<'_>, args: Args<'_>) {
    let words: Vec<&[u8]> = [&b"HDEL"[..], args[1]].into_iter().chain(args[4..].iter().copied()).collect();
    ctx.put_words(&words);
}
