//! The verbs of the binary protocol. Each reply tells a value's number, so a value that is written or read by it gets one.

use super::super::acl::log_in;
use super::super::ctx::{Args, Ctx, Outcome};
use super::arithmetic::{self, Sum};
use super::concat::Finish;
use super::get::{flags_of, with_body};
use super::store::{Mode, Order, Stored, store};
use super::{COMPATIBLE_VERSION, Due, connection, remove, stats, touch};
use crate::db::marks::Marking;
use crate::db::{DbError, Key};
use crate::proto::memcache::binary::{Header, Status, number, opcode};

/// A deadline of 4 bytes that says that a number is not to be made.
const NO_INITIAL: u64 = 0xffff_ffff;

/// The frame of an error.
#[cold]
fn fail(ctx: &mut Ctx<'_>, header: &Header, status: Status) -> Outcome {
    ctx.stats.error_replies += 1;
    let text = status.text().as_bytes();
    ctx.out().extend(&header.reply(status, 0, 0, text.len(), 0));
    ctx.out().extend(text);
    Outcome::Done
}

/// Answers a request with an error.
pub(super) fn refuse(ctx: &mut Ctx<'_>, head: &[u8], error: DbError) {
    fail(ctx, &Header::read(head), status_of(error));
}

/// A frame without a body.
fn done(ctx: &mut Ctx<'_>, header: &Header, cas: u64) {
    if !header.is_quiet() {
        ctx.out().extend(&header.reply(Status::Ok, 0, 0, 0, cas));
    }
}

fn frame(ctx: &mut Ctx<'_>, header: &Header, body: &[u8], cas: u64) {
    ctx.out().extend(&header.reply(Status::Ok, 0, 0, body.len(), cas));
    ctx.out().extend(body);
}

fn status_of(error: DbError) -> Status {
    match error {
        DbError::OutOfMemory => Status::OutOfMemory,
        DbError::TooLong => Status::TooLarge,
        DbError::WrongType | DbError::NotAnInteger | DbError::Overflow => Status::NotANumber,
    }
}

// ---- reading ----

/// GET, GETK and their quiet forms: header, key.
pub fn get(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (header, key) = (Header::read(args[0]), ctx.first_key(args[1]));
    ctx.stats.memcache.get_commands += 1;
    let with_key = matches!(header.opcode, opcode::GETK | opcode::GETKQ);
    if ctx.db.fetch(key).is_none() {
        ctx.stats.memcache.get_misses += 1;
        return miss(ctx, &header, key, with_key);
    }
    hit(ctx, &header, key, with_key, true)
}

/// TOUCH, GAT, GATK and their quiet forms: header, key, deadline.
pub fn get_and_touch(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (header, key) = (Header::read(args[0]), ctx.first_key(args[1]));
    let due = due(ctx, args[2], 0);
    ctx.stats.memcache.touch_commands += 1;
    let with_key = matches!(header.opcode, opcode::GATK | opcode::GATKQ);
    if ctx.db.fetch(key).is_none() {
        ctx.stats.memcache.touch_misses += 1;
        return miss(ctx, &header, key, with_key);
    }
    let outcome = hit(ctx, &header, key, with_key, header.opcode != opcode::TOUCH);
    // The reply comes first, as the value may be gone then.
    let _ = touch(ctx, key, due);
    outcome
}

fn due(ctx: &Ctx<'_>, extras: &[u8], at: usize) -> Due {
    Due::of(number::<4>(extras, at).cast_signed(), ctx.db.now_ms())
}

fn miss(ctx: &mut Ctx<'_>, header: &Header, key: Key<'_>, with_key: bool) -> Outcome {
    if header.is_quiet() {
        return Outcome::Done;
    }
    if !with_key {
        return fail(ctx, header, Status::NotFound);
    }
    let bytes = key.bytes.len();
    ctx.out().extend(&header.reply(Status::NotFound, bytes, 0, bytes, 0));
    ctx.out().extend(key.bytes);
    Outcome::Done
}

fn hit(ctx: &mut Ctx<'_>, header: &Header, key: Key<'_>, with_key: bool, with_value: bool) -> Outcome {
    let cas = match ctx.db.cas_of(key) {
        Ok(cas) => cas.unwrap_or(0),
        Err(error) => return fail(ctx, header, status_of(error)),
    };
    let flags = ctx.db.look_at_string(key).map_or(0, |item| flags_of(&item));
    let name = if with_key { key.bytes } else { b"" };
    with_body(ctx, key, |out, body| {
        let value_bytes = if with_value { body.len() } else { 0 };
        let body_bytes = size_of::<u32>() + name.len() + value_bytes;
        out.extend(&header.reply(Status::Ok, name.len(), size_of::<u32>(), body_bytes, cas));
        out.extend(&flags.to_be_bytes());
        out.extend(name);
        if with_value {
            body.write(out);
        }
    });
    Outcome::Done
}

// ---- writing ----

/// SET, ADD, REPLACE: header, key, flags and deadline, value.
pub fn store_value(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (header, key) = (Header::read(args[0]), ctx.first_key(args[1]));
    let mode = match header.opcode {
        opcode::ADD | opcode::ADDQ => Mode::Add,
        opcode::REPLACE | opcode::REPLACEQ => Mode::Replace,
        _ => Mode::Set,
    };
    let flags = u32::try_from(number::<4>(args[2], 0)).unwrap_or(0);
    let cas = Some(header.cas).filter(|cas| *cas != 0);
    // With a number to compare it is all the same which of them it was.
    let mode = if cas.is_some() { Mode::Set } else { mode };
    let order = Order { flags, due: due(ctx, args[2], 4), cas, ..Order::new(mode, args[3]) };
    store(ctx, key, order, Finish::new(finish, args[0]))
}

/// APPEND, PREPEND: header, key, nothing, value.
pub fn concat(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (header, key) = (Header::read(args[0]), ctx.first_key(args[1]));
    let front = matches!(header.opcode, opcode::PREPEND | opcode::PREPENDQ);
    let mode = if front { Mode::Prepend } else { Mode::Append };
    let order = Order { cas: Some(header.cas).filter(|cas| *cas != 0), ..Order::new(mode, args[3]) };
    store(ctx, key, order, Finish::new(finish, args[0]))
}

fn finish(ctx: &mut Ctx<'_>, key: Key<'_>, stored: Result<Stored, DbError>, header: &[u8]) {
    let header = Header::read(header);
    let status = match stored {
        Ok(Stored::Done) => {
            // Nobody reads it, so it need not be given yet.
            let cas = if header.is_quiet() { Ok(0) } else { ctx.db.cas_of_stored(key) };
            return done(ctx, &header, cas.unwrap_or(0));
        }
        Ok(Stored::NotFound) => Status::NotFound,
        Ok(Stored::Exists) => Status::Exists,
        Ok(Stored::Refused) => match header.opcode {
            opcode::ADD | opcode::ADDQ => Status::Exists,
            opcode::REPLACE | opcode::REPLACEQ => Status::NotFound,
            _ => Status::NotStored,
        },
        Err(error) => {
            ctx.stats.memcache.store_no_memory += 1;
            status_of(error)
        }
    };
    fail(ctx, &header, status);
}

/// A value that was passed over: header, key. What SET would have replaced is out of date.
pub fn too_large(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (header, key) = (Header::read(args[0]), ctx.first_key(args[1]));
    ctx.stats.memcache.store_too_large += 1;
    if matches!(header.opcode, opcode::SET | opcode::SETQ) {
        remove(ctx, key);
    }
    fail(ctx, &header, Status::TooLarge)
}

/// INCREMENT, DECREMENT: header, key, delta, initial value and deadline.
pub fn arithmetic(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (header, key) = (Header::read(args[0]), ctx.first_key(args[1]));
    let grows = matches!(header.opcode, opcode::INCREMENT | opcode::INCREMENTQ);
    let (delta, initial) = (number::<8>(args[2], 0), number::<8>(args[2], 8));
    let sum = match arithmetic::add(ctx, key, delta, grows, Some(header.cas)) {
        Ok(Sum::Is(sum)) => sum,
        Ok(Sum::NotFound) if number::<4>(args[2], 16) != NO_INITIAL => {
            let due = due(ctx, args[2], 16);
            if due != Due::Past {
                if let Err(error) = arithmetic::write(ctx, key, initial, due.deadline(), Marking::None) {
                    return fail(ctx, &header, status_of(error));
                }
                ctx.report(key, super::Event::IncrBy);
                if matches!(due, Due::At(_)) {
                    ctx.also(key, super::Event::Expire);
                }
            }
            initial
        }
        Ok(Sum::NotFound) => return fail(ctx, &header, Status::NotFound),
        Ok(Sum::Exists) => return fail(ctx, &header, Status::Exists),
        Ok(Sum::NotANumber) => return fail(ctx, &header, Status::NotANumber),
        Err(error) => return fail(ctx, &header, status_of(error)),
    };
    if !header.is_quiet() {
        let cas = ctx.db.cas_of_stored(key).unwrap_or(0);
        frame(ctx, &header, &sum.to_be_bytes(), cas);
    }
    Outcome::Done
}

/// DELETE: header, key.
pub fn delete(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (header, key) = (Header::read(args[0]), ctx.first_key(args[1]));
    let differs = header.cas != 0
        && ctx.db.is_there(key)
        && ctx.db.look_at_string(key).and_then(|item| item.marks()).is_none_or(|marks| marks.cas != header.cas);
    if differs {
        return fail(ctx, &header, Status::Exists);
    }
    if !remove(ctx, key) {
        ctx.stats.memcache.delete_misses += 1;
        return fail(ctx, &header, Status::NotFound);
    }
    ctx.stats.memcache.delete_hits += 1;
    done(ctx, &header, 0);
    Outcome::Done
}

// ---- the server ----

/// FLUSH: header, no key, perhaps a delay.
pub fn flush(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let header = Header::read(args[0]);
    if !ctx.config.memcached_flush_all {
        return fail(ctx, &header, Status::AuthError);
    }
    let delay_s = if args[2].is_empty() { 0 } else { number::<4>(args[2], 0).cast_signed() };
    connection::flush(ctx, delay_s, move |ctx| done(ctx, &header, 0))
}

/// STAT: header, name.
pub fn stat(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let header = Header::read(args[0]);
    stats::tell(ctx, args[1], move |ctx, pairs| {
        let Some(pairs) = pairs else {
            fail(ctx, &header, Status::NotFound);
            return;
        };
        for (name, value) in pairs {
            let body = name.len() + value.len();
            ctx.out().extend(&header.reply(Status::Ok, name.len(), 0, body, 0));
            ctx.out().extend(name.as_bytes());
            ctx.out().extend(value.as_bytes());
        }
        ctx.out().extend(&header.reply(Status::Ok, 0, 0, 0, 0));
    })
}

/// NOOP, VERSION, VERBOSITY, QUIT.
pub fn other(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let header = Header::read(args[0]);
    match header.opcode {
        opcode::VERSION => frame(ctx, &header, COMPATIBLE_VERSION.as_bytes(), 0),
        _ => done(ctx, &header, 0),
    }
    if matches!(header.opcode, opcode::QUIT | opcode::QUITQ) { Outcome::Close } else { Outcome::Done }
}

/// SASL: the mechanisms (there is PLAIN), and logging in with it: header, mechanism, nothing, `\0user\0password`.
pub fn sasl(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let header = Header::read(args[0]);
    if ctx.config.requirepass.is_empty() {
        return fail(ctx, &header, Status::Unknown);
    }
    if header.opcode == opcode::SASL_LIST {
        frame(ctx, &header, b"PLAIN", 0);
        return Outcome::Done;
    }
    ctx.stats.memcache.auth_commands += 1;
    let mut parts = args[3].split(|byte| *byte == 0).skip(1);
    let is_in = match (parts.next(), parts.next(), parts.next()) {
        (Some(user), Some(password), None) if args[1] == b"PLAIN" => log_in(ctx, b"auth", user, password).is_ok(),
        _ => false,
    };
    if is_in {
        frame(ctx, &header, b"Authenticated", 0);
        return Outcome::Done;
    }
    ctx.stats.memcache.auth_errors += 1;
    fail(ctx, &header, Status::AuthError)
}

pub fn unauthenticated(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.stats.commands = ctx.stats.commands.saturating_sub(1);
    ctx.stats.rejected_commands += 1;
    fail(ctx, &Header::read(args[0]), Status::AuthError);
    Outcome::Close
}

pub fn unknown(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    fail(ctx, &Header::read(args[0]), Status::Unknown)
}

pub fn invalid(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    fail(ctx, &Header::read(args[0]), Status::Invalid);
    Outcome::Close
}

pub fn unframed(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    fail(ctx, &Header::read(args[0]), Status::Unknown);
    Outcome::Close
}
