//! DEBUG: for tests of servers and of clients. What of Redis's is about structures that there are not here is accepted and does nothing, where tests
//! set it; what would crash the server is not there.

use super::client::mark;
use super::ctx::{Args, Ctx, Outcome};
use super::options::parse_int;
use crate::base::glob::glob_matches;
use crate::db::access::idle_seconds;
use crate::proto::errors;

const HELP: [&str; 29] = [
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ERROR <string>",
    "    Answer with this error.",
    "LISTPACK <key>",
    "    Log how a small collection is kept.",
    "LOG <message>",
    "    Write a message to the log.",
    "OBJECT <key>",
    "    Show low level information about the value at <key>.",
    "PAUSE-CRON <0|1>",
    "    Accepted without effect: what tests want to see without the cron does not need it.",
    "PROTOCOL <type>",
    "    Answer with a reply of this type: string, integer, double, null, array, set, map, attrib, push, verbatim, true, false, bignum.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Accepted without effect: there are no quicklists.",
    "RELOAD [option ...]",
    "    Save the RDB on disk (unless NOSAVE) and load it. Options: MERGE, NOFLUSH, NOSAVE.",
    "REPLYBUFFER (PEAK-RESET-TIME <NEVER|RESET|time> | RESIZING <0|1>)",
    "    Accepted without effect: buffers of replies are pooled.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Whether expired keys go that nobody asks for.",
    "SLEEP <seconds>",
    "    Stop the server for <seconds>. Decimals allowed.",
    "STRINGMATCH-LEN <pattern> <string>",
    "    Whether a string matches a pattern, as KEYS would have it.",
    "JMAP",
    "    Answer how memory is mapped: bytes of each kind.",
    "HELP",
    "    Print this help.",
];

/// Is the client of this machine?
fn is_local(ctx: &mut Ctx<'_>) -> bool {
    let client = ctx.client();
    let address = client.remote().parse::<std::net::SocketAddr>();
    client.is(mark::UNIX) || address.is_ok_and(|address| address.ip().to_canonical().is_loopback())
}

/// May the client change what is protected (`enable-protected-configs`)?
pub fn may_change_protected(ctx: &mut Ctx<'_>) -> bool {
    let allowed = ctx.config.protected_configs;
    allowed.to(is_local(ctx))
}

/// `DEBUG subcommand ...`
pub fn debug(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let allowed = ctx.config.debug_command;
    if !allowed.to(is_local(ctx)) {
        return ctx.fail(errors::DEBUG_NOT_ALLOWED);
    }
    match (&*args[1].to_ascii_lowercase(), &args[2..]) {
        (b"sleep", [seconds]) => super::server::sleep(ctx, seconds),
        (b"reload", _) => super::persistence::reload(ctx, &args[2..]),
        (b"help", []) => {
            ctx.reply.array(HELP.len());
            HELP.iter().for_each(|line| ctx.reply.simple(line));
            Outcome::Done
        }
        (b"set-active-expire", [on]) => {
            let on = on.first() != Some(&b'0');
            ctx.db.each_shard(|shard| shard.active_expire = on);
            ok(ctx)
        }
        (b"object", [name]) => object(ctx, name),
        (b"listpack", [name]) => listpack(ctx, name),
        (b"protocol", [kind]) => protocol(ctx, kind),
        (b"stringmatch-len", [pattern, text]) => {
            ctx.reply.int(i64::from(glob_matches(pattern, text, false)));
            Outcome::Done
        }
        (b"quicklist-packed-threshold", [size]) => match crate::config::memory_bytes(size) {
            Some(_) => ok(ctx),
            None => ctx.fail(errors::DEBUG_MEMORY_VALUE),
        },
        (b"replybuffer", [what, value]) if what.eq_ignore_ascii_case(b"peak-reset-time") => {
            let known = value.eq_ignore_ascii_case(b"never") || value.eq_ignore_ascii_case(b"reset");
            match parse_int(value) {
                Err(failure) if !known => ctx.fail(failure),
                _ => ok(ctx),
            }
        }
        (b"pause-cron", [value]) => match parse_int(value) {
            Ok(_) => ok(ctx),
            Err(failure) => ctx.fail(failure),
        },
        (b"replybuffer", [what, value]) if what.eq_ignore_ascii_case(b"resizing") => match parse_int(value) {
            Ok(_) => ok(ctx),
            Err(failure) => ctx.fail(failure),
        },
        (b"error", [text]) => ctx.fail(text.to_vec()),
        (b"log", [text]) => {
            log::warn!("DEBUG LOG: {}", String::from_utf8_lossy(text));
            ok(ctx)
        }
        (b"jmap", []) => {
            let mut text = String::new();
            let (mut used, mut resident, mut heap) = (0, 0, 0);
            ctx.db.each_shard(|shard| {
                used += shard.used_bytes();
                resident += shard.slab().resident_estimate_bytes();
                heap += shard.heap_bytes();
            });
            for (name, bytes) in [
                ("slab_used", used),
                ("slab_resident", resident),
                ("heap", heap),
                ("resident", crate::base::cpu::resident_bytes()),
            ] {
                text.push_str(&format!("{name}:{bytes}\r\n"));
            }
            ctx.reply.verbatim(b"txt", text.as_bytes());
            Outcome::Done
        }
        _ => ctx.fail(errors::subcommand_syntax("debug", args[1])),
    }
}

fn ok(ctx: &mut Ctx<'_>) -> Outcome {
    ctx.out().ok();
    Outcome::Done
}

/// What Redis would call the encoding of a key.
fn encoding(ctx: &mut Ctx<'_>, name: &[u8]) -> Option<&'static str> {
    let key = ctx.key(name);
    match ctx.db.container_encoding(key) {
        Some(encoding) => Some(encoding),
        None => ctx.db.look_at(key).map(|item| super::object::encoding_name(&item)),
    }
}

fn object(ctx: &mut Ctx<'_>, name: &[u8]) -> Outcome {
    let Some(encoding) = encoding(ctx, name) else { return ctx.fail(errors::NO_SUCH_KEY) };
    let (key, now_ms) = (ctx.key(name), ctx.db.now_ms());
    let idle_s = ctx.db.look_at(key).map_or(0, |item| idle_seconds(&item, now_ms));
    let text = format!("Value at:0x{:x} refcount:1 encoding:{encoding} lru_seconds_idle:{idle_s}", key.hash);
    ctx.reply.simple(&text);
    Outcome::Done
}

fn listpack(ctx: &mut Ctx<'_>, name: &[u8]) -> Outcome {
    match encoding(ctx, name) {
        None => ctx.fail(errors::NO_SUCH_KEY),
        Some("listpack") => {
            log::info!("DEBUG LISTPACK: the elements of {} lie in its item", String::from_utf8_lossy(name));
            ctx.reply.simple("Listpack structure printed on stdout");
            Outcome::Done
        }
        Some(_) => ctx.fail(errors::DEBUG_NOT_A_LISTPACK),
    }
}

/// A reply of each type there is, for tests of clients.
fn protocol(ctx: &mut Ctx<'_>, kind: &[u8]) -> Outcome {
    let reply = &mut ctx.reply;
    match &*kind.to_ascii_lowercase() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.int(12_345),
        b"double" => {
            #[expect(clippy::approx_constant, reason = "Redis answers this one")]
            let value = 3.141;
            reply.double(value);
        }
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|n| reply.int(n));
        }
        b"map" => {
            reply.map(3);
            for n in 0..3 {
                reply.int(n);
                reply.boolean(n == 1);
            }
        }
        b"attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.int(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.int(42);
        }
        b"verbatim" => reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        _ => return ctx.fail(errors::DEBUG_PROTOCOL),
    }
    Outcome::Done
}
