//! The rows of memcached's verbs: what the pipeline has to know of each. They stand in no command table, as no client of Redis can ask for
//! them.

use super::super::alike::alike;
use super::super::ctx::{Exec, Run};
use super::super::record::{told_flush, told_value};
use super::super::spec::{Categories, Command, Doc, Flags, KeyFlags, KeySpec, Row};
use super::{binary, connection, get, meta, stats, text};
use crate::proto::memcache::Verb;

const READ: Flags = Flags::of(&[Flags::READONLY, Flags::FAST, Flags::NO_AUTH]);
const WRITE: Flags = Flags::of(&[Flags::WRITE, Flags::FAST, Flags::NO_AUTH]);
/// May need memory.
const GROW: Flags = Flags::of(&[WRITE, Flags::DENYOOM]);
/// No key.
const PLAIN: Flags = Flags::of(&[Flags::FAST, Flags::NO_AUTH]);
/// Every key.
const ALL: Flags = Flags::of(&[Flags::WRITE, Flags::NO_AUTH, Flags::TOUCHES_ARBITRARY_KEYS]);
/// What follows is to be read in another way.
const LAST: Flags = Flags::of(&[PLAIN, Flags::ENDS_BATCH]);

const KEY: &[KeySpec] = &[KeySpec::one(KeyFlags::RW)];

/// (Who is not logged in has its verbs exchanged for others, see `session::memcache`: hence all have `NO_AUTH`.)
const fn keyed(name: &'static str, flags: Flags, run: Run, value_arg: u8) -> Command<Exec> {
    keyed_by(name, flags, Exec::with_value(run, value_arg))
}

const fn keyed_by(name: &'static str, flags: Flags, exec: Exec) -> Command<Exec> {
    Row { name, arity: -2, flags, categories: Categories::STRING, key_specs: KEY, doc: &Doc::BASE }
        .run(exec.told(told_value))
}

alike!(gets, get::get);
alike!(last_gets, get::get_last);
alike!(sets, text::set);

const fn bare(name: &'static str, flags: Flags, run: Run) -> Command<Exec> {
    Row { name, arity: -1, flags, categories: Categories::CONNECTION, key_specs: &[], doc: &Doc::BASE }
        .run(Exec::new(run).told(told_flush))
}

macro_rules! rows {
    ($($verb:ident: $row:expr,)*) => {
        /// The row of a verb.
        #[inline]
        #[must_use]
        pub fn row(verb: Verb) -> &'static Command<Exec> {
            match verb {
                $(Verb::$verb => {
                    static ROW: Command<Exec> = $row;
                    &ROW
                })*
            }
        }
    };
}

rows! {
    Get: keyed_by("get", READ, Exec::new(get::get).in_runs(gets)),
    GetLast: keyed_by("get", READ, Exec::new(get::get_last).in_runs(last_gets)),
    Gets: keyed("gets", READ, get::gets, 0),
    GetsLast: keyed("gets", READ, get::gets_last, 0),
    Gat: keyed("gat", WRITE, get::gat, 0),
    GatLast: keyed("gat", WRITE, get::gat_last, 0),
    Gats: keyed("gats", WRITE, get::gats, 0),
    GatsLast: keyed("gats", WRITE, get::gats_last, 0),
    Set: keyed_by("set", GROW, Exec::with_value(text::set, 4).in_runs(sets)),
    Add: keyed("add", GROW, text::add, 4),
    Replace: keyed("replace", GROW, text::replace, 4),
    Append: keyed("append", GROW, text::append, 4),
    Prepend: keyed("prepend", GROW, text::prepend, 4),
    Cas: keyed("cas", GROW, text::cas, 4),
    TooLarge: keyed("set", WRITE, text::too_large, 0),
    Incr: keyed("incr", GROW, text::incr, 0),
    Decr: keyed("decr", GROW, text::decr, 0),
    Delete: keyed("delete", WRITE, text::delete, 0),
    Touch: keyed("touch", WRITE, text::touch_key, 0),
    FlushAll: bare("flush_all", ALL, connection::flush_all),
    Stats: bare("stats", PLAIN, stats::stats),
    Version: bare("version", PLAIN, connection::version),
    Verbosity: bare("verbosity", PLAIN, connection::verbosity),
    Quit: bare("quit", LAST, connection::quit),
    Shutdown: bare("shutdown", LAST, connection::shutdown),
    MetaGet: keyed("mg", WRITE, meta::meta_get, 0),
    MetaSet: keyed("ms", GROW, meta::meta_set, 2),
    MetaDelete: keyed("md", WRITE, meta::meta_delete, 0),
    MetaArithmetic: keyed("ma", GROW, meta::meta_arithmetic, 0),
    MetaDebug: keyed("me", READ, meta::meta_debug, 0),
    MetaNoop: bare("mn", PLAIN, meta::meta_noop),
    Fail: bare("error", PLAIN, meta::failed),
    FailKeys: bare("error", PLAIN, meta::failed),
    FailClose: bare("error", LAST, meta::failed_for_good),
    BinaryGet: keyed("get", READ, binary::get, 0),
    BinaryTouch: keyed("touch", WRITE, binary::get_and_touch, 0),
    BinaryStore: keyed("set", GROW, binary::store_value, 3),
    BinaryConcat: keyed("append", GROW, binary::concat, 3),
    BinaryArithmetic: keyed("incr", GROW, binary::arithmetic, 0),
    BinaryDelete: keyed("delete", WRITE, binary::delete, 0),
    BinaryFlush: bare("flush", ALL, binary::flush),
    BinaryStat: bare("stat", PLAIN, binary::stat),
    BinaryOther: bare("noop", PLAIN, binary::other),
    BinarySasl: bare("sasl", LAST, binary::sasl),
    BinaryTooLarge: keyed("set", WRITE, binary::too_large, 0),
    BinaryUnknown: bare("error", PLAIN, binary::unknown),
    BinaryInvalid: bare("error", LAST, binary::invalid),
    BinaryUnframed: bare("error", LAST, binary::unframed),
}

/// In the place of `set` before a client has logged in.
pub static AUTH: Command<Exec> = bare("auth", LAST, connection::auth);
/// In the place of all else; the first one of the text protocol.
pub static UNAUTHENTICATED: [Command<Exec>; 2] =
    [bare("error", PLAIN, connection::unauthenticated), bare("error", LAST, binary::unauthenticated)];
