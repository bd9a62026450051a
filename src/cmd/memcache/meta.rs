//! The meta commands: `mg`, `ms`, `md`, `ma`, `me`, `mn`. Their flags are read into `Terms` first; what they ask to be told comes back in
//! their order.

use super::super::ctx::{Args, Ctx, Outcome};
use super::super::event::Event;
use super::arithmetic::{self, Sum};
use super::concat::Finish;
use super::get::{flags_of, with_body};
use super::store::{Mode, Order, Stored, store};
use super::{Due, NOT_NUMERIC, fail, remove, seconds_left, text_of, touch};
use crate::base::int::{self, MAX_DIGITS};
use crate::db::item::{flag, state};
use crate::db::marks::Marking;
use crate::db::view::Deadline;
use crate::db::{DbError, Key, NewValue, access};
use crate::proto::memcache::number;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const OPAQUE_MAX_BYTES: usize = 32;
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";

/// What the flags of a meta command say.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Terms {
    /// The value is to be told.
    value: bool,
    /// This is no use of the key.
    unused: bool,
    /// What is as usual is not answered.
    quiet: bool,
    base64: bool,
    mode: u8,
    ttl: Option<i64>,
    vivify: Option<i64>,
    recache: Option<i64>,
    flags: u32,
    cas: Option<u64>,
    chosen: Option<u64>,
    /// `I`: mark as out of date, or store what may be.
    stale: bool,
    /// `x`: the value goes, the item stays.
    empties: bool,
    delta: Option<u64>,
    initial: u64,
    /// The number is to be told.
    wants_cas: bool,
}

impl Terms {
    fn parse(flags: Args<'_>) -> Result<Terms, &'static str> {
        let mut terms = Terms::default();
        let mut seen = [false; 127];
        let mut error = None;
        for word in flags {
            let (letter, token) = (word[0], &word[1..]);
            match seen.get_mut(usize::from(letter)) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err("CLIENT_ERROR duplicate flag"),
            }
            let mut seconds = |to: &mut Option<i64>| match number::signed(token) {
                Some(seconds) => *to = Some(seconds),
                None => error = Some(BAD_TOKEN),
            };
            match letter {
                b'b' => terms.base64 = true,
                b'N' => seconds(&mut terms.vivify),
                b'T' => seconds(&mut terms.ttl),
                b'R' => seconds(&mut terms.recache),
                b'v' => terms.value = true,
                b'u' => terms.unused = true,
                b'q' => terms.quiet = true,
                b'I' => terms.stale = true,
                b'x' => terms.empties = true,
                b'c' => terms.wants_cas = true,
                b'k' | b's' | b't' | b'f' | b'l' | b'h' | b'P' | b'L' => {}
                b'O' if word.len() > OPAQUE_MAX_BYTES => error = Some(LONG_OPAQUE),
                b'O' => {}
                b'F' => match number::flags(token) {
                    Some(flags) => terms.flags = flags,
                    None => error = Some(BAD_FORMAT),
                },
                b'C' | b'E' => match number::unsigned(token) {
                    Some(cas) if letter == b'C' => terms.cas = Some(cas),
                    Some(cas) => terms.chosen = Some(cas),
                    None => error = Some(BAD_TOKEN),
                },
                b'M' if word.len() != 2 => error = Some("CLIENT_ERROR incorrect length for M token"),
                b'M' => terms.mode = word[1],
                b'J' => match number::unsigned(token) {
                    Some(initial) => terms.initial = initial,
                    None => error = Some("CLIENT_ERROR invalid numeric initial value"),
                },
                b'D' => match number::unsigned(token) {
                    Some(delta) => terms.delta = Some(delta),
                    None => error = Some("CLIENT_ERROR invalid numeric delta value"),
                },
                _ => return Err("CLIENT_ERROR invalid flag"),
            }
        }
        error.map_or(Ok(terms), Err)
    }

    fn due(&self, seconds: Option<i64>, now_ms: u64) -> Due {
        seconds.map_or(Due::Never, |seconds| Due::of(seconds, now_ms))
    }
}

/// `md` and `ma` do not tell errors of flags apart, but for one.
fn vaguely(error: &'static str) -> &'static [u8] {
    if error == LONG_OPAQUE { error.as_bytes() } else { b"CLIENT_ERROR invalid or duplicate flag" }
}

const LONG_OPAQUE: &str = "CLIENT_ERROR opaque token too long";
const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";

fn put_number(ctx: &mut Ctx<'_>, name: u8, number: u64) {
    ctx.out().extend(&[b' ', name]);
    ctx.out().extend(int::write_u64(&mut [0; MAX_DIGITS], number));
}

/// ` t` and the seconds that are left, or -1.
fn put_left(ctx: &mut Ctx<'_>, left: Option<u64>) {
    match left {
        Some(left) => put_number(ctx, b't', left),
        None => ctx.out().extend(b" t-1"),
    }
}

/// What any meta command can be asked to send back: the key, an opaque word.
fn put_echo(ctx: &mut Ctx<'_>, word: &[u8], key: &[u8], terms: &Terms) {
    match word[0] {
        b'O' => {
            ctx.out().extend(b" ");
            ctx.out().extend(word);
        }
        b'k' if terms.base64 => {
            ctx.out().extend(b" k");
            ctx.out().extend(STANDARD.encode(key).as_bytes());
            ctx.out().extend(b" b");
        }
        b'k' => {
            ctx.out().extend(b" k");
            ctx.out().extend(key);
        }
        _ => {}
    }
}

/// A line of a code and what is echoed.
fn put_code(ctx: &mut Ctx<'_>, code: &[u8], key: &[u8], flags: Args<'_>, terms: &Terms) -> Outcome {
    ctx.out().extend(code);
    for word in flags {
        put_echo(ctx, word, key, terms);
    }
    ctx.out().extend(b"\r\n");
    Outcome::Done
}

// ---- mg ----

/// What there is to tell of an item.
#[derive(Clone, Copy)]
struct Facts {
    bytes: usize,
    flags: u32,
    cas: u64,
    state: u32,
    deadline_ms: Option<u64>,
    idle_s: u64,
    was_hit: bool,
}

fn facts(ctx: &mut Ctx<'_>, key: Key<'_>, terms: &Terms) -> Option<Facts> {
    let now_ms = ctx.db.now_ms();
    let seen = if terms.unused { ctx.db.fetch_as::<false>(key) } else { ctx.db.fetch_as::<true>(key) }?;
    let marks = seen.item.marks();
    let value = seen.item.value();
    let facts = Facts {
        bytes: 0,
        flags: flags_of(&seen.item),
        cas: marks.map_or(0, |marks| marks.cas),
        state: marks.map_or(0, |marks| marks.state),
        deadline_ms: seen.item.expiry().map(|expiry| expiry.deadline_ms),
        idle_s: access::idle_seconds_at(seen.before.clock, now_ms),
        was_hit: seen.before.flags & flag::HIT != 0,
    };
    let bytes = match value {
        crate::db::Value::Raw(bytes) => bytes.len(),
        crate::db::Value::Int(i) => int::write_i64(&mut [0; MAX_DIGITS], i).len(),
        crate::db::Value::Blob(id) => ctx.db.slab().blob_len(id),
    };
    Some(Facts { bytes, ..facts })
}

/// `mg <key> <flags>*`
pub fn meta_get(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (key, flags) = (ctx.first_key(args[1]), &args[2..]);
    let terms = match Terms::parse(flags) {
        Ok(terms) => terms,
        Err(text) => return fail(ctx, text.as_bytes()),
    };
    let touches = terms.ttl.is_some();
    let counters = &mut ctx.stats.memcache;
    *(if touches { &mut counters.touch_commands } else { &mut counters.get_commands }) += 1;
    let mut facts = facts(ctx, key, &terms);
    let mut won = false;
    if facts.is_none() {
        let counters = &mut ctx.stats.memcache;
        if terms.vivify.is_none() || ctx.db.is_there(key) {
            *(if touches { &mut counters.touch_misses } else { &mut counters.get_misses }) += 1;
            return if terms.quiet { Outcome::Done } else { put_code(ctx, b"EN", key.bytes, flags, &terms) };
        }
        match vivify(ctx, key, &terms) {
            Ok(made) => facts = Some(made),
            Err(error) => return fail(ctx, text_of(error)),
        }
        won = true;
    }
    let Some(mut facts) = facts else { return Outcome::Done };
    if terms.wants_cas && facts.cas == 0 {
        match ctx.db.cas_of(key) {
            Ok(cas) => facts.cas = cas.unwrap_or(0),
            Err(error) => return fail(ctx, text_of(error)),
        }
    }
    tell(ctx, key, flags, &terms, facts, won)
}

/// An empty value, for the client that is to make it.
fn vivify(ctx: &mut Ctx<'_>, key: Key<'_>, terms: &Terms) -> Result<Facts, DbError> {
    let due = terms.due(terms.vivify, ctx.db.now_ms());
    let deadline_ms = if let Due::At(at) = due { Some(at) } else { None };
    if due != Due::Past {
        let marking = Marking::Chosen { flags: 0, state: state::WON, cas: terms.chosen.unwrap_or(0) };
        ctx.db.set_marked(key, NewValue::Raw(b""), due.deadline(), marking)?;
        ctx.report(key, Event::Set);
        if deadline_ms.is_some() {
            ctx.also(key, Event::Expire);
        }
    }
    let cas = ctx.db.cas_of_stored(key)?;
    Ok(Facts { bytes: 0, flags: 0, cas, state: 0, deadline_ms, idle_s: 0, was_hit: false })
}

/// Answers with what there is, and does to it what the flags say.
fn tell(ctx: &mut Ctx<'_>, key: Key<'_>, flags: Args<'_>, terms: &Terms, facts: Facts, created: bool) -> Outcome {
    let now_ms = ctx.db.now_ms();
    // As memcached tells it, what was just made has no deadline in front of its `N`.
    let (mut won, mut deadline_ms, mut due) = (created, facts.deadline_ms.filter(|_| !created), None);
    let sent = facts.state & state::WON != 0;
    if terms.value {
        ctx.out().extend(b"VA ");
        ctx.out().extend(int::write_u64(&mut [0; MAX_DIGITS], facts.bytes as u64));
    } else {
        ctx.out().extend(b"HD");
    }
    for word in flags {
        match word[0] {
            b'T' => {
                let new = terms.due(terms.ttl, now_ms);
                due = Some(new);
                deadline_ms = match new {
                    Due::At(at) => Some(at),
                    Due::Never => None,
                    Due::Past => Some(now_ms),
                };
            }
            // In their order: the last one counts.
            b'N' if created => (due, deadline_ms) = (None, facts.deadline_ms),
            b'R' => {
                let below = terms.due(terms.recache, now_ms);
                let is_below = match (below, deadline_ms) {
                    // By the second, as `t` tells it: else what has just got 30 s would be below 30.
                    (Due::At(at), Some(_)) => seconds_left(deadline_ms, now_ms) < seconds_left(Some(at), now_ms),
                    _ => false,
                };
                won |= is_below && !sent && !created;
            }
            b's' => put_number(ctx, b's', facts.bytes as u64),
            b't' => put_left(ctx, seconds_left(deadline_ms, now_ms)),
            b'c' => put_number(ctx, b'c', facts.cas),
            b'f' => put_number(ctx, b'f', facts.flags.into()),
            b'l' => put_number(ctx, b'l', facts.idle_s),
            b'h' => put_number(ctx, b'h', facts.was_hit.into()),
            _ => put_echo(ctx, word, key.bytes, terms),
        }
    }
    if sent {
        ctx.out().extend(b" Z");
    }
    if facts.state & state::STALE != 0 {
        ctx.out().extend(b" X");
        won |= !sent;
    }
    if won {
        ctx.out().extend(b" W");
    }
    ctx.out().extend(b"\r\n");
    if terms.value {
        if !with_body(ctx, key, |out, body| body.write(out)) {
            debug_assert_eq!(facts.bytes, 0, "only what was made to be gone at once is gone");
        }
        ctx.out().extend(b"\r\n");
    }
    // Behind the reply: what cannot be kept for want of memory is as if it had been forgotten.
    if won && !created {
        let _ = ctx.db.mark(key, |marks| marks.state |= state::WON);
    }
    if let Some(due) = due {
        let _ = touch(ctx, key, due);
    }
    Outcome::Done
}

// ---- ms ----

/// `ms <key> <length> <flags>*`: name, key, value, flags.
pub fn meta_set(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (key, flags) = (ctx.first_key(args[1]), &args[3..]);
    let terms = match Terms::parse(flags) {
        Ok(terms) => terms,
        Err(text) => return fail(ctx, text.as_bytes()),
    };
    let mode = match terms.mode {
        0 | b'S' | b's' => Mode::Set,
        b'E' | b'e' => Mode::Add,
        b'A' | b'a' => Mode::Append,
        b'P' | b'p' => Mode::Prepend,
        b'R' | b'r' => Mode::Replace,
        _ => return fail(ctx, b"CLIENT_ERROR invalid mode for ms M token"),
    };
    let now_ms = ctx.db.now_ms();
    let order = Order {
        mode,
        value: args[2],
        flags: terms.flags,
        due: terms.due(terms.ttl, now_ms),
        cas: terms.cas,
        may_be_stale: terms.stale,
        chosen: terms.chosen,
        vivify: terms.vivify.map(|seconds| Due::of(seconds, now_ms)),
    };
    // What is to be told, as `finish` reads it: the flags, each behind its length (at most 255, as a line is).
    let mut about = Vec::new();
    for word in flags.iter().filter(|word| matches!(word[0], b'O' | b'k' | b'c' | b's' | b'b' | b'q')) {
        about.push(u8::try_from(word.len()).unwrap_or(u8::MAX));
        about.extend_from_slice(&word[..word.len().min(255)]);
    }
    store(ctx, key, order, Finish::new(finish, &about))
}

fn finish(ctx: &mut Ctx<'_>, key: Key<'_>, stored: Result<Stored, DbError>, about: &[u8]) {
    let mut flags = Vec::new();
    let mut rest = about;
    while let [length, tail @ ..] = rest {
        let (word, tail) = tail.split_at(usize::from(*length));
        flags.push(word);
        rest = tail;
    }
    let terms = Terms::parse(&flags).unwrap_or_default();
    let code: &[u8] = match stored {
        Ok(Stored::Done) if terms.quiet => return,
        Ok(Stored::Done) => b"HD",
        Ok(Stored::Refused) => b"NS",
        Ok(Stored::Exists) => b"EX",
        Ok(Stored::NotFound) => b"NF",
        Err(error) => {
            ctx.stats.memcache.store_no_memory += 1;
            fail(ctx, text_of(error));
            return;
        }
    };
    let cas = if terms.wants_cas && stored == Ok(Stored::Done) { ctx.db.cas_of_stored(key) } else { Ok(0) };
    ctx.out().extend(code);
    for word in flags {
        match word[0] {
            b'c' => put_number(ctx, b'c', cas.unwrap_or(0)),
            b's' => {
                let bytes = ctx.db.len_for_write(key).ok().flatten().unwrap_or(0);
                put_number(ctx, b's', bytes as u64);
            }
            _ => put_echo(ctx, word, key.bytes, &terms),
        }
    }
    ctx.out().extend(b"\r\n");
}

// ---- md ----

/// `md <key> <flags>*`
pub fn meta_delete(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (key, flags) = (ctx.first_key(args[1]), &args[2..]);
    let terms = match Terms::parse(flags) {
        Ok(terms) => terms,
        Err(error) => return fail(ctx, vaguely(error)),
    };
    let string = ctx.db.look_at_string(key).map(|item| item.marks());
    let only_if = terms.cas.is_some() || terms.stale || terms.empties;
    let code: &[u8] = match string {
        None if only_if || !ctx.db.is_there(key) => {
            ctx.stats.memcache.delete_misses += 1;
            b"NF"
        }
        Some(marks) if terms.cas.is_some_and(|cas| marks.is_none_or(|marks| marks.cas != cas)) => {
            ctx.stats.memcache.delete_misses += 1;
            b"EX"
        }
        _ => {
            let done = if terms.stale || terms.empties { mark_stale(ctx, key, &terms) } else { Ok(()) };
            if let Err(error) = done {
                return fail(ctx, text_of(error));
            }
            if !terms.stale && !terms.empties {
                ctx.stats.memcache.delete_hits += 1;
                remove(ctx, key);
            }
            if terms.quiet {
                return Outcome::Done;
            }
            b"HD"
        }
    };
    put_code(ctx, code, key.bytes, flags, &terms)
}

/// Marks a value as out of date, or takes it away and leaves the item.
fn mark_stale(ctx: &mut Ctx<'_>, key: Key<'_>, terms: &Terms) -> Result<(), DbError> {
    let chosen = terms.chosen.unwrap_or(0);
    let state = if terms.stale { state::STALE } else { 0 };
    if terms.empties {
        let marking = Marking::Chosen { flags: 0, state, cas: chosen };
        ctx.db.set_marked(key, NewValue::Raw(b""), Deadline::Keep, marking)?;
        ctx.report(key, Event::Set);
    } else {
        // 0: it gets another one.
        ctx.db.mark(key, |marks| (marks.state, marks.cas) = (state, chosen))?;
    }
    match terms.ttl {
        Some(seconds) if terms.stale => {
            let due = Due::of(seconds, ctx.db.now_ms());
            touch(ctx, key, due)
        }
        _ => Ok(()),
    }
}

// ---- ma ----

/// `ma <key> <flags>*`
pub fn meta_arithmetic(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (key, flags) = (ctx.first_key(args[1]), &args[2..]);
    let terms = match Terms::parse(flags) {
        Ok(terms) => terms,
        Err(error) => return fail(ctx, vaguely(error)),
    };
    let grows = match terms.mode {
        0 | b'I' | b'i' | b'+' => true,
        b'D' | b'd' | b'-' => false,
        _ => return fail(ctx, b"CLIENT_ERROR invalid mode for ma M token"),
    };
    let now_ms = ctx.db.now_ms();
    let (sum, created) = match arithmetic::add(ctx, key, terms.delta.unwrap_or(1), grows, terms.cas) {
        Ok(Sum::Is(sum)) => (sum, false),
        Ok(Sum::NotFound) if terms.vivify.is_some() => (terms.initial, true),
        Ok(Sum::NotFound) => return put_code(ctx, b"NF", key.bytes, flags, &terms),
        Ok(Sum::Exists) => return put_code(ctx, b"EX", key.bytes, flags, &terms),
        Ok(Sum::NotANumber) => return fail(ctx, NOT_NUMERIC),
        Err(_) => return fail(ctx, b"SERVER_ERROR out of memory"),
    };
    match change(ctx, key, &terms, created, now_ms) {
        // What was made is always told.
        Ok(()) if terms.quiet && !created => Outcome::Done,
        Ok(()) => tell_sum(ctx, key, flags, &terms, sum),
        Err(_) => fail(ctx, b"SERVER_ERROR out of memory"),
    }
}

/// Makes a number that was not there, and gives it (or the one that was) its time to live and the client's number.
fn change(ctx: &mut Ctx<'_>, key: Key<'_>, terms: &Terms, created: bool, now_ms: u64) -> Result<(), DbError> {
    if created {
        let due = terms.due(terms.vivify, now_ms);
        if due != Due::Past {
            arithmetic::write(ctx, key, terms.initial, due.deadline(), Marking::None)?;
            ctx.report(key, Event::IncrBy);
            if matches!(due, Due::At(_)) {
                ctx.also(key, Event::Expire);
            }
        }
    }
    if let Some(seconds) = terms.ttl {
        touch(ctx, key, Due::of(seconds, now_ms))?;
    }
    if let Some(chosen) = terms.chosen {
        ctx.db.mark(key, |marks| marks.cas = chosen)?;
    }
    Ok(())
}

fn tell_sum(ctx: &mut Ctx<'_>, key: Key<'_>, flags: Args<'_>, terms: &Terms, sum: u64) -> Outcome {
    let mut digits = [0; MAX_DIGITS];
    let text = int::write_u64(&mut digits, sum);
    let cas = if terms.wants_cas { ctx.db.cas_of_stored(key).ok() } else { None };
    if terms.value {
        ctx.out().extend(b"VA ");
        ctx.out().extend(int::write_u64(&mut [0; MAX_DIGITS], text.len() as u64));
    } else {
        ctx.out().extend(b"HD");
    }
    for word in flags {
        match word[0] {
            b'c' => put_number(ctx, b'c', cas.unwrap_or(0)),
            b't' => {
                let (now_ms, deadline_ms) = (ctx.db.now_ms(), ctx.db.deadline_for_write(key).flatten());
                put_left(ctx, seconds_left(deadline_ms, now_ms));
            }
            _ => put_echo(ctx, word, key.bytes, terms),
        }
    }
    ctx.out().extend(b"\r\n");
    if terms.value {
        ctx.out().extend(text);
        ctx.out().extend(b"\r\n");
    }
    Outcome::Done
}

// ---- me, mn ----

/// `me <key> [b]`: what is known of an item, for people.
pub fn meta_debug(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (key, now_ms) = (ctx.first_key(args[1]), ctx.db.now_ms());
    ctx.stats.memcache.meta_commands += 1;
    let terms = Terms { unused: true, base64: args.get(2).is_some_and(|word| *word == b"b"), ..Terms::default() };
    let Some(facts) = facts(ctx, key, &terms) else {
        ctx.out().extend(b"EN\r\n");
        return Outcome::Done;
    };
    let held_bytes = ctx.db.memory_of(key);
    ctx.out().extend(b"ME ");
    if terms.base64 {
        ctx.out().extend(STANDARD.encode(key.bytes).as_bytes());
    } else {
        ctx.out().extend(key.bytes);
    }
    let exp = seconds_left(facts.deadline_ms, now_ms).map_or("-1".into(), |left| left.to_string());
    let fetched = if facts.was_hit { "yes" } else { "no" };
    let line = format!(" exp={exp} la={} cas={} fetch={fetched} cls=1 size={held_bytes}\r\n", facts.idle_s, facts.cas);
    ctx.out().extend(line.as_bytes());
    Outcome::Done
}

pub fn meta_noop(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    ctx.out().extend(b"MN\r\n");
    Outcome::Done
}

/// An error of a line: name, text.
pub fn failed(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    fail(ctx, args[1])
}

pub fn failed_for_good(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    fail(ctx, args[1]);
    Outcome::Close
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms() {
        let parse = |line: &str| Terms::parse(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        let base = Terms::default();
        assert_eq!(parse("v t T-1 C5 MA"), Ok(Terms { value: true, ttl: Some(-1), cas: Some(5), mode: b'A', ..base }));
        assert_eq!(parse("v v"), Err("CLIENT_ERROR duplicate flag"));
        assert_eq!(parse("!"), Err("CLIENT_ERROR invalid flag"));
        assert_eq!(parse("Tx v"), Err(BAD_TOKEN));
        assert_eq!(parse("M"), Err("CLIENT_ERROR incorrect length for M token"));
        assert_eq!(parse(&format!("O{}", "x".repeat(32))), Err("CLIENT_ERROR opaque token too long"));
        assert_eq!(parse("\u{e9}"), Err("CLIENT_ERROR duplicate flag"), "as memcached calls it");
    }
}
