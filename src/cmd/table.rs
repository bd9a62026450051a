//! The command table: each row's facts (`spec`) joined to what runs it. The one place where a command exists.

use super::alike::alike;
use super::bits::{self, field, op};
use super::ctx::{Exec, Sliced};
use super::record::{
    told_blmpop, told_bzmpop, told_deadline, told_del, told_field, told_fields, told_getset, told_hgetdel, told_hsetex,
    told_msetex, told_number, told_restore, told_set, told_setex,
};
use super::spec::{self, Command};
use super::{
    acl, aof, connection, control, debug, dump, expire, hashes, info, keys, latency, lists, many, memory, monitor,
    moves, object, persistence, pubsub, scan, server, sets, settings, slowlog, sort, strings, tracking, transactions,
    zsets,
};
use crate::acl::Channels;
use crate::db::hold::Mode;
use std::sync::LazyLock;

macro_rules! many {
    ($run:ident, $steps:ident, $step:expr, $mode:ident, $start:path, $each:path, $finish:path) => {
        static $steps: Sliced = Sliced { step: $step, mode: Mode::$mode, start: $start, each: $each, finish: $finish };
        fn $run(ctx: &mut super::ctx::Ctx<'_>, args: super::ctx::Args<'_>) -> super::ctx::Outcome {
            many::run::<{ $step }>(ctx, args, &$steps, $each)
        }
    };
}

alike!(gets, strings::get);
alike!(sets_in_a_row, strings::set);
alike!(incrs, strings::incr);

many!(mset, MSET, 2, Exclusive, strings::mset_start, strings::mset_each, strings::mset_finish);
many!(mget, MGET, 1, Shared, strings::mget_start, strings::mget_each, strings::mget_finish);
many!(del, DEL, 1, Exclusive, keys::none_start, keys::del_each, keys::count_finish);
many!(touch, TOUCH, 1, Shared, keys::none_start, keys::touch_each, keys::count_finish);
many!(exists, EXISTS, 1, Shared, keys::none_start, keys::exists_each, keys::count_finish);
many!(watch, WATCH, 1, Shared, transactions::watch_start, transactions::watch_each, transactions::watch_finish);

static ACL: &[Command<Exec>] = &[
    spec::ACL_CAT.run(Exec::new(acl::cat)),
    spec::ACL_DELUSER.run(Exec::new(acl::deluser).with_secrets(slowlog::rest_secret)),
    spec::ACL_DRYRUN.run(Exec::new(acl::dryrun)),
    spec::ACL_GENPASS.run(Exec::new(acl::genpass)),
    spec::ACL_GETUSER.run(Exec::new(acl::getuser).with_secrets(slowlog::rest_secret)),
    spec::ACL_LIST.run(Exec::new(acl::list)),
    spec::ACL_LOAD.run(Exec::new(acl::load)),
    spec::ACL_LOG.run(Exec::new(acl::log)),
    spec::ACL_SAVE.run(Exec::new(acl::save)),
    spec::ACL_SETUSER.run(Exec::new(acl::setuser).with_secrets(slowlog::rest_secret)),
    spec::ACL_USERS.run(Exec::new(acl::users)),
    spec::ACL_WHOAMI.run(Exec::new(acl::whoami)),
    spec::ACL_HELP.run(Exec::new(server::help)),
];

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

static MEMORY: &[Command<Exec>] = &[
    spec::MEMORY_USAGE.run(Exec::new(memory::usage)),
    spec::MEMORY_STATS.run(Exec::new(memory::stats)),
    spec::MEMORY_DOCTOR.run(Exec::new(memory::doctor)),
    spec::MEMORY_MALLOC_STATS.run(Exec::new(memory::malloc_stats)),
    spec::MEMORY_PURGE.run(Exec::new(memory::purge)),
    spec::MEMORY_HELP.run(Exec::new(server::help)),
];

static CONFIG: &[Command<Exec>] = &[
    spec::CONFIG_GET.run(Exec::new(settings::get)),
    spec::CONFIG_SET.run(Exec::new(settings::set).with_secrets(slowlog::setting_secret)),
    spec::CONFIG_RESETSTAT.run(Exec::new(settings::reset_stat)),
    spec::CONFIG_REWRITE.run(Exec::new(settings::rewrite)),
    spec::CONFIG_HELP.run(Exec::new(server::help)),
];

static SLOWLOG: &[Command<Exec>] = &[
    spec::SLOWLOG_GET.run(Exec::new(slowlog::get)),
    spec::SLOWLOG_LEN.run(Exec::new(slowlog::len)),
    spec::SLOWLOG_RESET.run(Exec::new(slowlog::reset)),
    spec::SLOWLOG_HELP.run(Exec::new(server::help)),
];

static LATENCY: &[Command<Exec>] = &[
    spec::LATENCY_DOCTOR.run(Exec::new(latency::doctor)),
    spec::LATENCY_GRAPH.run(Exec::new(latency::graph)),
    spec::LATENCY_HISTOGRAM.run(Exec::new(latency::histogram)),
    spec::LATENCY_HISTORY.run(Exec::new(latency::history)),
    spec::LATENCY_LATEST.run(Exec::new(latency::latest)),
    spec::LATENCY_RESET.run(Exec::new(latency::reset)),
    spec::LATENCY_HELP.run(Exec::new(server::help)),
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

/// Is there a command of this name?
#[must_use]
pub fn is_known(name: &[u8]) -> bool {
    ROWS.iter().any(|row| name.eq_ignore_ascii_case(row.name.as_bytes()))
}

/// All commands, with their numbers.
pub static COMMANDS: LazyLock<&'static [Command<Exec>]> = LazyLock::new(|| spec::numbered(ROWS));

static ROWS: &[Command<Exec>] = &[
    // The connection
    spec::PING.run(Exec::new(connection::ping)),
    spec::ECHO.run(Exec::new(connection::echo)),
    spec::QUIT.run(Exec::new(connection::quit)),
    spec::HELLO.run(Exec::new(connection::hello).with_secrets(slowlog::login_secret)),
    spec::AUTH.run(Exec::new(acl::auth).with_secrets(slowlog::all_secret)),
    spec::SELECT.run(Exec::new(connection::select)),
    spec::RESET.run(Exec::new(control::reset)),
    spec::CLIENT.container(Exec::new(server::unknown_subcommand), CLIENT),
    // Strings
    spec::GET.run(Exec::new(strings::get).in_runs(gets)),
    spec::SET.run(Exec::with_value(strings::set, 2).told(told_set).as_came(3).in_runs(sets_in_a_row)),
    spec::SETNX.run(Exec::with_value(strings::setnx, 2)),
    spec::SETEX.run(Exec::with_value(strings::setex, 3).told(told_setex)),
    spec::PSETEX.run(Exec::with_value(strings::psetex, 3).told(told_setex)),
    spec::GETSET.run(Exec::with_value(strings::getset, 2).told(told_getset)),
    spec::GETDEL.run(Exec::new(strings::getdel).told(told_del)),
    spec::MSET.run(Exec::sliced(mset, &MSET)),
    spec::MGET.run(Exec::sliced(mget, &MGET)),
    spec::STRLEN.run(Exec::new(strings::strlen)),
    spec::APPEND.run(Exec::with_value(strings::append, 2).as_came(3)),
    spec::INCR.run(Exec::new(strings::incr).as_came(2).in_runs(incrs)),
    spec::DECR.run(Exec::new(strings::decr).as_came(2)),
    spec::INCRBY.run(Exec::new(strings::incrby).as_came(3)),
    spec::DECRBY.run(Exec::new(strings::decrby).as_came(3)),
    spec::INCRBYFLOAT.run(Exec::new(strings::incrbyfloat).told(told_number)),
    spec::GETEX.run(Exec::new(strings::getex).told(told_deadline)),
    spec::GETRANGE.run(Exec::new(strings::getrange)),
    spec::SUBSTR.run(Exec::new(strings::getrange)),
    spec::SETRANGE.run(Exec::with_value(strings::setrange, 3)),
    spec::MSETNX.run(strings::PAIRS_MSETNX),
    spec::MSETEX.run(strings::PAIRS_MSETEX.told(told_msetex)),
    spec::LCS.run(Exec::new(strings::lcs)),
    spec::DIGEST.run(Exec::new(strings::digest)),
    spec::DELEX.run(Exec::with_value(strings::delex, 3).told(told_del)),
    spec::DELIFEQ.run(Exec::with_value(strings::delifeq, 2).told(told_del)),
    // Bits
    spec::SETBIT.run(Exec::new(bits::setbit)),
    spec::GETBIT.run(Exec::new(bits::getbit)),
    spec::BITCOUNT.run(Exec::new(bits::bitcount)),
    spec::BITPOS.run(Exec::new(bits::bitpos)),
    spec::BITOP.run(Exec::new(op::bitop)),
    spec::BITFIELD.run(Exec::new(field::bitfield)),
    spec::BITFIELD_RO.run(Exec::new(field::bitfield_ro)),
    // Hashes
    spec::HSET.run(hashes::MANY_HSET.as_came(4)),
    spec::HMSET.run(hashes::MANY_HMSET),
    spec::HSETNX.run(Exec::new(hashes::hsetnx).told(told_field)),
    spec::HGET.run(Exec::new(hashes::hget)),
    spec::HMGET.run(hashes::MANY_HMGET),
    spec::HGETALL.run(Exec::new(hashes::hgetall)),
    spec::HKEYS.run(Exec::new(hashes::hkeys)),
    spec::HVALS.run(Exec::new(hashes::hvals)),
    spec::HDEL.run(hashes::MANY_HDEL),
    spec::HEXISTS.run(Exec::new(hashes::hexists)),
    spec::HLEN.run(Exec::new(hashes::hlen)),
    spec::HSTRLEN.run(Exec::new(hashes::hstrlen)),
    spec::HINCRBY.run(Exec::new(hashes::hincrby).told(told_field)),
    spec::HINCRBYFLOAT.run(Exec::new(hashes::hincrbyfloat).told(told_field)),
    spec::HRANDFIELD.run(Exec::new(hashes::hrandfield)),
    spec::HSCAN.run(Exec::new(scan::hscan)),
    spec::HEXPIRE.run(hashes::MANY_HEXPIRE.told(told_fields)),
    spec::HPEXPIRE.run(hashes::MANY_HPEXPIRE.told(told_fields)),
    spec::HEXPIREAT.run(hashes::MANY_HEXPIREAT.told(told_fields)),
    spec::HPEXPIREAT.run(hashes::MANY_HPEXPIREAT.told(told_fields)),
    spec::HTTL.run(hashes::MANY_HTTL),
    spec::HPTTL.run(hashes::MANY_HPTTL),
    spec::HEXPIRETIME.run(hashes::MANY_HEXPIRETIME),
    spec::HPEXPIRETIME.run(hashes::MANY_HPEXPIRETIME),
    spec::HPERSIST.run(hashes::MANY_HPERSIST.told(told_fields)),
    spec::HGETEX.run(hashes::MANY_HGETEX.told(told_fields)),
    spec::HSETEX.run(hashes::MANY_HSETEX.told(told_hsetex)),
    spec::HGETDEL.run(hashes::MANY_HGETDEL.told(told_hgetdel)),
    // Lists
    spec::LPUSH.run(lists::MANY_LPUSH.as_came(3)),
    spec::RPUSH.run(lists::MANY_RPUSH.as_came(3)),
    spec::LPUSHX.run(lists::MANY_LPUSHX),
    spec::RPUSHX.run(lists::MANY_RPUSHX),
    spec::LPOP.run(Exec::new(lists::lpop).as_came(2)),
    spec::RPOP.run(Exec::new(lists::rpop).as_came(2)),
    spec::LLEN.run(Exec::new(lists::llen)),
    spec::LRANGE.run(Exec::new(lists::lrange)),
    spec::LINDEX.run(Exec::new(lists::lindex)),
    spec::LSET.run(Exec::new(lists::lset)),
    spec::LINSERT.run(Exec::new(lists::linsert)),
    spec::LREM.run(Exec::new(lists::lrem)),
    spec::LTRIM.run(Exec::new(lists::ltrim)),
    spec::LPOS.run(Exec::new(lists::lpos)),
    spec::LMOVE.run(Exec::new(lists::lmove)),
    spec::RPOPLPUSH.run(Exec::new(lists::rpoplpush)),
    spec::LMPOP.run(Exec::new(lists::lmpop)),
    spec::BLPOP.run(Exec::new(lists::blpop)),
    spec::BRPOP.run(Exec::new(lists::brpop)),
    spec::BLMOVE.run(Exec::new(lists::blmove)),
    spec::BRPOPLPUSH.run(Exec::new(lists::brpoplpush)),
    spec::BLMPOP.run(Exec::new(lists::blmpop).told(told_blmpop)),
    // Sets
    spec::SADD.run(sets::MANY_SADD.as_came(3)),
    spec::SREM.run(sets::MANY_SREM.as_came(3)),
    spec::SCARD.run(Exec::new(sets::scard)),
    spec::SISMEMBER.run(Exec::new(sets::sismember)),
    spec::SMISMEMBER.run(sets::MANY_SMISMEMBER),
    spec::SMEMBERS.run(Exec::new(sets::smembers)),
    spec::SMOVE.run(Exec::new(sets::smove)),
    spec::SPOP.run(Exec::new(sets::random::spop)),
    spec::SRANDMEMBER.run(Exec::new(sets::random::srandmember)),
    spec::SINTER.run(Exec::new(sets::combine::sinter)),
    spec::SINTERSTORE.run(Exec::new(sets::combine::sinterstore)),
    spec::SINTERCARD.run(Exec::new(sets::combine::sintercard)),
    spec::SUNION.run(Exec::new(sets::combine::sunion)),
    spec::SUNIONSTORE.run(Exec::new(sets::combine::sunionstore)),
    spec::SDIFF.run(Exec::new(sets::combine::sdiff)),
    spec::SDIFFSTORE.run(Exec::new(sets::combine::sdiffstore)),
    spec::SSCAN.run(Exec::new(scan::sscan)),
    // Sorted sets
    spec::ZADD.run(zsets::MANY_ZADD.as_came(4)),
    spec::ZINCRBY.run(Exec::new(zsets::zincrby)),
    spec::ZREM.run(zsets::MANY_ZREM.as_came(3)),
    spec::ZCARD.run(Exec::new(zsets::zcard)),
    spec::ZSCORE.run(Exec::new(zsets::zscore)),
    spec::ZMSCORE.run(zsets::MANY_ZMSCORE),
    spec::ZRANK.run(Exec::new(zsets::zrank)),
    spec::ZREVRANK.run(Exec::new(zsets::zrevrank)),
    spec::ZCOUNT.run(Exec::new(zsets::zcount)),
    spec::ZLEXCOUNT.run(Exec::new(zsets::zlexcount)),
    spec::ZRANGE.run(Exec::new(zsets::zrange)),
    spec::ZREVRANGE.run(Exec::new(zsets::zrevrange)),
    spec::ZRANGEBYSCORE.run(Exec::new(zsets::zrangebyscore)),
    spec::ZREVRANGEBYSCORE.run(Exec::new(zsets::zrevrangebyscore)),
    spec::ZRANGEBYLEX.run(Exec::new(zsets::zrangebylex)),
    spec::ZREVRANGEBYLEX.run(Exec::new(zsets::zrevrangebylex)),
    spec::ZRANGESTORE.run(Exec::new(zsets::zrangestore)),
    spec::ZREMRANGEBYRANK.run(Exec::new(zsets::zremrangebyrank)),
    spec::ZREMRANGEBYSCORE.run(Exec::new(zsets::zremrangebyscore)),
    spec::ZREMRANGEBYLEX.run(Exec::new(zsets::zremrangebylex)),
    spec::ZPOPMIN.run(Exec::new(zsets::zpopmin)),
    spec::ZPOPMAX.run(Exec::new(zsets::zpopmax)),
    spec::ZMPOP.run(Exec::new(zsets::zmpop)),
    spec::BZPOPMIN.run(Exec::new(zsets::bzpopmin)),
    spec::BZPOPMAX.run(Exec::new(zsets::bzpopmax)),
    spec::BZMPOP.run(Exec::new(zsets::bzmpop).told(told_bzmpop)),
    spec::ZUNION.run(Exec::new(zsets::zunion)),
    spec::ZINTER.run(Exec::new(zsets::zinter)),
    spec::ZDIFF.run(Exec::new(zsets::zdiff)),
    spec::ZUNIONSTORE.run(Exec::new(zsets::zunionstore)),
    spec::ZINTERSTORE.run(Exec::new(zsets::zinterstore)),
    spec::ZDIFFSTORE.run(Exec::new(zsets::zdiffstore)),
    spec::ZINTERCARD.run(Exec::new(zsets::zintercard)),
    spec::ZRANDMEMBER.run(Exec::new(zsets::zrandmember)),
    spec::ZSCAN.run(Exec::new(scan::zscan)),
    // Keys of any type
    spec::DEL.run(Exec::sliced(del, &DEL).as_came(2)),
    spec::UNLINK.run(Exec::sliced(del, &DEL).as_came(2)),
    spec::EXISTS.run(Exec::sliced(exists, &EXISTS)),
    spec::TYPE.run(Exec::new(keys::type_)),
    spec::TOUCH.run(Exec::sliced(touch, &TOUCH)),
    spec::RENAME.run(Exec::new(moves::rename)),
    spec::RENAMENX.run(Exec::new(moves::renamenx)),
    spec::MOVE.run(Exec::new(moves::move_)),
    spec::COPY.run(Exec::new(moves::copy)),
    spec::SWAPDB.run(Exec::new(moves::swapdb)),
    spec::DUMP.run(Exec::new(dump::dump)),
    spec::RESTORE.run(Exec::with_value(dump::restore, 3).told(told_restore)),
    spec::OBJECT.container(Exec::new(server::unknown_subcommand), OBJECT),
    spec::SORT.run(Exec::new(sort::sort)),
    spec::SORT_RO.run(Exec::new(sort::sort_ro)),
    spec::EXPIRE.run(Exec::new(expire::expire).told(told_deadline)),
    spec::PEXPIRE.run(Exec::new(expire::pexpire).told(told_deadline)),
    spec::EXPIREAT.run(Exec::new(expire::expireat).told(told_deadline)),
    spec::PEXPIREAT.run(Exec::new(expire::pexpireat).told(told_deadline)),
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
    spec::SUBSCRIBE.run(Exec::on(pubsub::subscribe, Channels::All)),
    spec::UNSUBSCRIBE.run(Exec::new(pubsub::unsubscribe)),
    spec::PSUBSCRIBE.run(Exec::on(pubsub::psubscribe, Channels::Patterns)),
    spec::PUNSUBSCRIBE.run(Exec::new(pubsub::punsubscribe)),
    spec::SSUBSCRIBE.run(Exec::on(pubsub::ssubscribe, Channels::All)),
    spec::SUNSUBSCRIBE.run(Exec::new(pubsub::sunsubscribe)),
    spec::PUBLISH.run(Exec::on(pubsub::publish, Channels::One)),
    spec::SPUBLISH.run(Exec::on(pubsub::spublish, Channels::One)),
    spec::PUBSUB.container(Exec::new(server::unknown_subcommand), PUBSUB),
    // The server
    spec::INFO.run(Exec::new(info::info)),
    spec::COMMAND.container(Exec::new(server::command), COMMAND),
    spec::CONFIG.container(Exec::new(server::unknown_subcommand), CONFIG),
    spec::ACL.container(Exec::new(server::unknown_subcommand), ACL),
    spec::SLOWLOG.container(Exec::new(server::unknown_subcommand), SLOWLOG),
    spec::LATENCY.container(Exec::new(server::unknown_subcommand), LATENCY),
    spec::MONITOR.run(Exec::new(monitor::monitor)),
    spec::LOLWUT.run(Exec::new(monitor::lolwut)),
    spec::TIME.run(Exec::new(server::time)),
    spec::DEBUG.run(Exec::new(debug::debug)),
    spec::MEMORY.container(Exec::new(server::unknown_subcommand), MEMORY),
    spec::SAVE.run(Exec::new(persistence::save)),
    spec::BGSAVE.run(Exec::new(persistence::bgsave)),
    spec::BGREWRITEAOF.run(Exec::new(aof::bgrewriteaof)),
    spec::WAIT.run(Exec::new(aof::wait)),
    spec::WAITAOF.run(Exec::new(aof::waitaof)),
    spec::LASTSAVE.run(Exec::new(persistence::lastsave)),
    spec::SHUTDOWN.run(Exec::new(persistence::shutdown)),
];
