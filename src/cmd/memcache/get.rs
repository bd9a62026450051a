//! Reading: `get`, `gets`, `gat`, `gats`, one key at a time; the last of a line ends the reply.

use super::super::ctx::{Args, Ctx, Outcome};
use super::{Due, touch};
use crate::base::int::{self, DIGIT_PAIRS, MAX_DIGITS};
use crate::base::out::Out;
use crate::db::item::{Item, Value};
use crate::db::{Key, Plain};
use dolmen_slab::BlobRef;

const END: &[u8] = b"END\r\n";

#[inline(always)]
pub fn get(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    read::<false, false>(ctx, args)
}

#[inline(always)]
pub fn get_last(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    read::<false, true>(ctx, args)
}

pub fn gets(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    read::<true, false>(ctx, args)
}

pub fn gets_last(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    read::<true, true>(ctx, args)
}

pub fn gat(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    get_and_touch::<false, false>(ctx, args)
}

pub fn gat_last(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    get_and_touch::<false, true>(ctx, args)
}

pub fn gats(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    get_and_touch::<true, false>(ctx, args)
}

pub fn gats_last(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    get_and_touch::<true, true>(ctx, args)
}

/// A value to be written: copied from where it lies, or by reference.
pub(super) enum Body<'v> {
    Bytes(&'v [u8]),
    Int(i64),
    Shared(BlobRef),
}

impl Body<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Body::Bytes(bytes) => bytes.len(),
            Body::Int(i) => int::write_i64(&mut [0; MAX_DIGITS], *i).len(),
            Body::Shared(blob) => blob.len(),
        }
    }

    pub(super) fn write(self, out: &mut Out) {
        match self {
            Body::Bytes(bytes) => out.extend(bytes),
            Body::Int(i) => out.extend(int::write_i64(&mut [0; MAX_DIGITS], i)),
            Body::Shared(blob) => out.shared(blob),
        }
    }
}

/// What most keys are followed by: no flags, and the length of a short value.
static SHORT: [[u8; SHORT_BYTES]; 100] = {
    let mut lines = [[0; SHORT_BYTES]; 100];
    let mut length = 0;
    while length < 100 {
        let [tens, ones] = DIGIT_PAIRS[length];
        lines[length] = if length < 10 {
            [b' ', b'0', b' ', ones, b'\r', b'\n', 0]
        } else {
            [b' ', b'0', b' ', tens, ones, b'\r', b'\n']
        };
        length += 1;
    }
    lines
};
const SHORT_BYTES: usize = 7;

/// What `VALUE` is followed by.
#[derive(Clone, Copy)]
struct Line<'k> {
    key: &'k [u8],
    flags: u32,
    cas: Option<u64>,
    last: bool,
}

impl Line<'_> {
    #[inline(always)]
    fn write(&self, out: &mut Out, body: Body<'_>) {
        let end: &[u8] = if self.last { b"\r\nEND\r\n" } else { b"\r\n" };
        if let Body::Bytes(bytes) = body
            && let Some(middle) = SHORT.get(bytes.len())
            && self.flags == 0
            && self.cas.is_none()
        {
            let middle = &middle[..SHORT_BYTES - usize::from(bytes.len() < 10)];
            return out.extend_all([b"VALUE ", self.key, middle, bytes, end]);
        }
        self.write_seldom(out, body, end);
    }

    #[inline(never)]
    fn write_seldom(&self, out: &mut Out, body: Body<'_>, end: &[u8]) {
        let mut digits = [0; MAX_DIGITS];
        out.extend(b"VALUE ");
        out.extend(self.key);
        // Mostly there are none.
        if self.flags == 0 {
            out.extend(b" 0 ");
        } else {
            out.extend(b" ");
            out.extend(int::write_u64(&mut digits, self.flags.into()));
            out.extend(b" ");
        }
        out.extend(int::write_u64(&mut digits, body.len() as u64));
        if let Some(cas) = self.cas {
            out.extend(b" ");
            out.extend(int::write_u64(&mut digits, cas));
        }
        out.extend(b"\r\n");
        body.write(out);
        out.extend(end);
    }
}

#[inline(always)]
fn read<const CAS: bool, const LAST: bool>(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.stats.memcache.get_commands += 1;
    if CAS {
        // Without memory for a number the key is not shown: the client would go by a wrong one.
        let (cas, found) = match ctx.db.fetch(key).map(|item| item.marks()) {
            None => (None, false),
            Some(Some(marks)) => (Some(marks.cas), true),
            Some(None) => (ctx.db.cas_of(key).ok().flatten(), true),
        };
        ctx.stats.memcache.get_misses += u64::from(!found);
        match ctx.db.look_at_string(key).filter(|_| cas.is_some()) {
            Some(item) => {
                let line = Line { key: args[1], flags: flags_of(&item), cas, last: LAST };
                write_item(ctx, key, line);
            }
            None if LAST => ctx.out().extend(END),
            None => {}
        }
        return Outcome::Done;
    }
    // `db` and `reply` are separate fields, so the value is copied straight from the item into the output.
    match ctx.db.fetch_plain(key) {
        Plain::Value(bytes) => {
            let line = Line { key: args[1], flags: 0, cas: None, last: LAST };
            line.write(ctx.reply.out(), Body::Bytes(bytes));
            Outcome::Done
        }
        Plain::Absent => missed::<LAST>(ctx),
        Plain::Seldom => read_seldom::<LAST>(ctx, args[1]),
    }
}

#[inline(always)]
fn missed<const LAST: bool>(ctx: &mut Ctx<'_>) -> Outcome {
    ctx.stats.memcache.get_misses += 1;
    if LAST {
        ctx.out().extend(END);
    }
    Outcome::Done
}

#[inline(never)]
fn read_seldom<const LAST: bool>(ctx: &mut Ctx<'_>, name: &[u8]) -> Outcome {
    match ctx.db.fetch(ctx.first_key(name)) {
        Some(item) => {
            let line = Line { key: name, flags: flags_of(&item), cas: None, last: LAST };
            match item.value() {
                Value::Raw(bytes) => line.write(ctx.reply.out(), Body::Bytes(bytes)),
                Value::Int(i) => line.write(ctx.reply.out(), Body::Int(i)),
                Value::Blob(id) => {
                    let blob = ctx.db.blob_ref(id);
                    line.write(ctx.reply.out(), Body::Shared(blob));
                }
            }
            Outcome::Done
        }
        None => missed::<LAST>(ctx),
    }
}

#[inline(always)]
pub(super) fn flags_of(item: &Item<'_>) -> u32 {
    item.marks().map_or(0, |marks| marks.flags)
}

/// Writes the value of the string at a key, which is there, behind its line.
fn write_item(ctx: &mut Ctx<'_>, key: Key<'_>, line: Line<'_>) {
    with_body(ctx, key, |out, body| line.write(out, body));
}

/// Writes something of the value of the string at a key. False: there is none.
pub(super) fn with_body(ctx: &mut Ctx<'_>, key: Key<'_>, write: impl FnOnce(&mut Out, Body<'_>)) -> bool {
    let value = ctx.db.look_at_string(key).map(|item| item.value());
    match value {
        None => return false,
        Some(Value::Raw(bytes)) => write(ctx.reply.out(), Body::Bytes(bytes)),
        Some(Value::Int(i)) => write(ctx.reply.out(), Body::Int(i)),
        Some(Value::Blob(id)) => {
            let blob = ctx.db.blob_ref(id);
            write(ctx.reply.out(), Body::Shared(blob));
        }
    }
    true
}

fn get_and_touch<const CAS: bool, const LAST: bool>(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    let seconds = args[2].first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes));
    let due = Due::of(seconds, ctx.db.now_ms());
    let counters = &mut ctx.stats.memcache;
    counters.touch_commands += 1;
    let Some(flags) = ctx.db.fetch(key).map(|item| flags_of(&item)) else {
        counters.touch_misses += 1;
        if LAST {
            ctx.out().extend(END);
        }
        return Outcome::Done;
    };
    let cas = if CAS { ctx.db.cas_of(key).ok().flatten() } else { None };
    if !CAS || cas.is_some() {
        write_item(ctx, key, Line { key: args[1], flags, cas, last: LAST });
    } else if LAST {
        ctx.out().extend(END);
    }
    // The value is what was asked for. Without memory for a deadline it stays as long as it would have.
    let _ = touch(ctx, key, due);
    Outcome::Done
}
