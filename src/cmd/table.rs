//! The command table: each row's facts (`spec`) joined to what runs it. The one place where a command exists.

use super::bits::{self, field, op};
use super::ctx::{Exec, Sliced};
use super::spec::{self, Command};
use super::{
    connection, control, dump, expire, info, keys, many, moves, object, pubsub, server, settings, strings, tracking,
    transactions,
};
use crate::db::hold::Mode;

macro_rules! many {
    ($run:ident, $steps:ident, $step:expr, $mode:ident, $start:path, $each:path, $finish:path) => {
        static $steps: Sliced = Sliced { step: $step, mode: Mode::$mode, start: $start, each: $each, finish: $finish };
        fn $run(ctx: &mut super::ctx::Ctx<'_>, args: super::ctx::Args<'_>) -> super::ctx::Outcome {
            many::run(ctx, args, &$steps)
        }
    };
}

many!(mset, MSET, 2, Exclusive, strings::mset_start, strings::mset_each, strings::mset_finish);
many!(mget, MGET, 1, Shared, strings::mget_start, strings::mget_each, strings::mget_finish);
many!(del, DEL, 1, Exclusive, keys::none_start, keys::del_each, keys::count_finish);
many!(touch, TOUCH, 1, Shared, keys::none_start, keys::touch_each, keys::count_finish);
many!(exists, EXISTS, 1, Shared, keys::none_start, keys::exists_each, keys::count_finish);
many!(watch, WATCH, 1, Shared, transactions::watch_start, transactions::watch_each, transactions::watch_finish);

static CLIENT: &[Command<Exec>] = &[
    spec::CLIENT_ID.run(Exec::new(connection::client_id)),
    spec::CLIENT_GETNAME.run(Exec::new(connection::client_getname)),
    spec::CLIENT_SETNAME.run(Exec::new(connection::client_setname)),
    spec::CLIENT_SETINFO.run(Exec::new(connection::client_setinfo)),
    spec::CLIENT_INFO.run(Exec::new(connection::client_info)),
    spec::CLIENT_LIST.run(Exec::new(connection::client_list)),
    spec::CLIENT_KILL.run(Exec::new(control::kill)),
    spec::CLIENT_PAUSE.run(Exec::new(control::pause)),
    spec::CLIENT_UNPAUSE.run(Exec::new(control::unpause)),
    spec::CLIENT_REPLY.run(Exec::new(control::reply)),
    spec::CLIENT_NO_EVICT.run(Exec::new(control::no_evict)),
    spec::CLIENT_NO_TOUCH.run(Exec::new(control::no_touch)),
    spec::CLIENT_UNBLOCK.run(Exec::new(control::unblock)),
    spec::CLIENT_TRACKING.run(Exec::new(tracking::tracking)),
    spec::CLIENT_CACHING.run(Exec::new(tracking::caching)),
    spec::CLIENT_TRACKINGINFO.run(Exec::new(tracking::trackinginfo)),
    spec::CLIENT_GETREDIR.run(Exec::new(tracking::getredir)),
    spec::CLIENT_HELP.run(Exec::new(server::help)),
];

static COMMAND: &[Command<Exec>] = &[
    spec::COMMAND_COUNT.run(Exec::new(server::command_count)),
    spec::COMMAND_DOCS.run(Exec::new(server::command_docs)),
    spec::COMMAND_GETKEYS.run(Exec::new(server::command_getkeys)),
    spec::COMMAND_GETKEYSANDFLAGS.run(Exec::new(server::command_getkeysandflags)),
    spec::COMMAND_INFO.run(Exec::new(server::command_info)),
    spec::COMMAND_LIST.run(Exec::new(server::command_list)),
    spec::COMMAND_HELP.run(Exec::new(server::help)),
];

static CONFIG: &[Command<Exec>] = &[
    spec::CONFIG_GET.run(Exec::new(settings::get)),
    spec::CONFIG_SET.run(Exec::new(settings::set)),
    spec::CONFIG_RESETSTAT.run(Exec::new(settings::reset_stat)),
    spec::CONFIG_REWRITE.run(Exec::new(settings::rewrite)),
    spec::CONFIG_HELP.run(Exec::new(server::help)),
];

static PUBSUB: &[Command<Exec>] = &[
    spec::PUBSUB_CHANNELS.run(Exec::new(pubsub::channels)),
    spec::PUBSUB_NUMPAT.run(Exec::new(pubsub::numpat)),
    spec::PUBSUB_NUMSUB.run(Exec::new(pubsub::numsub)),
    spec::PUBSUB_SHARDCHANNELS.run(Exec::new(pubsub::shard_channels)),
    spec::PUBSUB_SHARDNUMSUB.run(Exec::new(pubsub::shard_numsub)),
    spec::PUBSUB_HELP.run(Exec::new(server::help)),
];

static OBJECT: &[Command<Exec>] = &[
    spec::OBJECT_ENCODING.run(Exec::new(object::encoding)),
    spec::OBJECT_FREQ.run(Exec::new(object::freq)),
    spec::OBJECT_IDLETIME.run(Exec::new(object::idletime)),
    spec::OBJECT_REFCOUNT.run(Exec::new(object::refcount)),
    spec::OBJECT_HELP.run(Exec::new(server::help)),
];

/// All commands.
pub static COMMANDS: &[Command<Exec>] = &[
    // The connection
    spec::PING.run(Exec::new(connection::ping)),
    spec::ECHO.run(Exec::new(connection::echo)),
    spec::QUIT.run(Exec::new(connection::quit)),
    spec::HELLO.run(Exec::new(connection::hello)),
    spec::AUTH.run(Exec::new(connection::auth)),
    spec::SELECT.run(Exec::new(connection::select)),
    spec::RESET.run(Exec::new(control::reset)),
    spec::CLIENT.container(Exec::new(server::unknown_subcommand), CLIENT),
    // Strings
    spec::GET.run(Exec::new(strings::get)),
    spec::SET.run(Exec::with_value(strings::set, 2)),
    spec::SETNX.run(Exec::with_value(strings::setnx, 2)),
    spec::SETEX.run(Exec::with_value(strings::setex, 3)),
    spec::PSETEX.run(Exec::with_value(strings::psetex, 3)),
    spec::GETSET.run(Exec::with_value(strings::getset, 2)),
    spec::GETDEL.run(Exec::new(strings::getdel)),
    spec::MSET.run(Exec::sliced(mset, &MSET)),
    spec::MGET.run(Exec::sliced(mget, &MGET)),
    spec::STRLEN.run(Exec::new(strings::strlen)),
    spec::APPEND.run(Exec::with_value(strings::append, 2)),
    spec::INCR.run(Exec::new(strings::incr)),
    spec::DECR.run(Exec::new(strings::decr)),
    spec::INCRBY.run(Exec::new(strings::incrby)),
    spec::DECRBY.run(Exec::new(strings::decrby)),
    spec::INCRBYFLOAT.run(Exec::new(strings::incrbyfloat)),
    spec::GETEX.run(Exec::new(strings::getex)),
    spec::GETRANGE.run(Exec::new(strings::getrange)),
    spec::SUBSTR.run(Exec::new(strings::getrange)),
    spec::SETRANGE.run(Exec::with_value(strings::setrange, 3)),
    spec::MSETNX.run(strings::PAIRS_MSETNX),
    spec::MSETEX.run(strings::PAIRS_MSETEX),
    spec::LCS.run(Exec::new(strings::lcs)),
    spec::DIGEST.run(Exec::new(strings::digest)),
    spec::DELEX.run(Exec::with_value(strings::delex, 3)),
    spec::DELIFEQ.run(Exec::with_value(strings::delifeq, 2)),
    // Bits
    spec::SETBIT.run(Exec::new(bits::setbit)),
    spec::GETBIT.run(Exec::new(bits::getbit)),
    spec::BITCOUNT.run(Exec::new(bits::bitcount)),
    spec::BITPOS.run(Exec::new(bits::bitpos)),
    spec::BITOP.run(Exec::new(op::bitop)),
    spec::BITFIELD.run(Exec::new(field::bitfield)),
    spec::BITFIELD_RO.run(Exec::new(field::bitfield_ro)),
    // Keys of any type
    spec::DEL.run(Exec::sliced(del, &DEL)),
    spec::UNLINK.run(Exec::sliced(del, &DEL)),
    spec::EXISTS.run(Exec::sliced(exists, &EXISTS)),
    spec::TYPE.run(Exec::new(keys::type_)),
    spec::TOUCH.run(Exec::sliced(touch, &TOUCH)),
    spec::RENAME.run(Exec::new(moves::rename)),
    spec::RENAMENX.run(Exec::new(moves::renamenx)),
    spec::MOVE.run(Exec::new(moves::move_)),
    spec::COPY.run(Exec::new(moves::copy)),
    spec::SWAPDB.run(Exec::new(moves::swapdb)),
    spec::DUMP.run(Exec::new(dump::dump)),
    spec::RESTORE.run(Exec::with_value(dump::restore, 3)),
    spec::OBJECT.container(Exec::new(server::unknown_subcommand), OBJECT),
    spec::EXPIRE.run(Exec::new(expire::expire)),
    spec::PEXPIRE.run(Exec::new(expire::pexpire)),
    spec::EXPIREAT.run(Exec::new(expire::expireat)),
    spec::PEXPIREAT.run(Exec::new(expire::pexpireat)),
    spec::TTL.run(Exec::new(expire::ttl)),
    spec::PTTL.run(Exec::new(expire::pttl)),
    spec::EXPIRETIME.run(Exec::new(expire::expiretime)),
    spec::PEXPIRETIME.run(Exec::new(expire::pexpiretime)),
    spec::PERSIST.run(Exec::new(expire::persist)),
    spec::KEYS.run(Exec::new(keys::keys)),
    spec::SCAN.run(Exec::new(keys::scan)),
    spec::RANDOMKEY.run(Exec::new(keys::randomkey)),
    spec::DBSIZE.run(Exec::new(keys::dbsize)),
    spec::FLUSHDB.run(Exec::new(keys::flushdb)),
    spec::FLUSHALL.run(Exec::new(keys::flushall)),
    spec::FLUSH.run(Exec::new(keys::flushall)),
    // Transactions
    spec::MULTI.run(Exec::new(transactions::multi)),
    spec::EXEC.run(Exec::new(transactions::exec)),
    spec::DISCARD.run(Exec::new(transactions::discard)),
    spec::WATCH.run(Exec::sliced(watch, &WATCH)),
    spec::UNWATCH.run(Exec::new(transactions::unwatch)),
    // Messages
    spec::SUBSCRIBE.run(Exec::new(pubsub::subscribe)),
    spec::UNSUBSCRIBE.run(Exec::new(pubsub::unsubscribe)),
    spec::PSUBSCRIBE.run(Exec::new(pubsub::psubscribe)),
    spec::PUNSUBSCRIBE.run(Exec::new(pubsub::punsubscribe)),
    spec::SSUBSCRIBE.run(Exec::new(pubsub::ssubscribe)),
    spec::SUNSUBSCRIBE.run(Exec::new(pubsub::sunsubscribe)),
    spec::PUBLISH.run(Exec::new(pubsub::publish)),
    spec::SPUBLISH.run(Exec::new(pubsub::spublish)),
    spec::PUBSUB.container(Exec::new(server::unknown_subcommand), PUBSUB),
    // The server
    spec::INFO.run(Exec::new(info::info)),
    spec::COMMAND.container(Exec::new(server::command), COMMAND),
    spec::CONFIG.container(Exec::new(server::unknown_subcommand), CONFIG),
    spec::TIME.run(Exec::new(server::time)),
    spec::DEBUG.run(Exec::new(server::debug)),
    spec::SHUTDOWN.run(Exec::new(server::shutdown)),
];
