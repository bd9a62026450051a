//! What can happen to a key: the events of Redis's keyspace notifications, each with its class. A command reports them (`Ctx::report`,
//! `Ctx::also`), what happens without one is told here in `db`; who listens is decided by `listeners`, so that commands are the same whoever
//! does.
//!
//! Names and classes are those of the documentation of keyspace notifications.

use crate::base::notify::class;

macro_rules! events {
    ($($(#[$doc:meta])* $event:ident $name:literal $class:ident;)*) => {
        /// A change of a key.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Event {
            $($(#[$doc])* $event,)*
        }

        impl Event {
            /// All of them.
            pub const ALL: &[Event] = &[$(Event::$event),*];

            /// As subscribers read it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Event::$event => $name,)*
                }
            }

            /// A bit of [`class`](crate::base::notify::class).
            #[must_use]
            pub const fn class(self) -> u16 {
                match self {
                    $(Event::$event => class::$class,)*
                }
            }
        }
    };
}

events! {
    Del "del" GENERIC;
    Expire "expire" GENERIC;
    Persist "persist" GENERIC;
    RenameFrom "rename_from" GENERIC;
    RenameTo "rename_to" GENERIC;
    MoveFrom "move_from" GENERIC;
    MoveTo "move_to" GENERIC;
    CopyTo "copy_to" GENERIC;
    Restore "restore" GENERIC;
    Expired "expired" EXPIRED;
    Evicted "evicted" EVICTED;
    New "new" NEW;
    /// A reading command found nothing.
    KeyMiss "keymiss" MISSED;
    Set "set" STRING;
    SetRange "setrange" STRING;
    SetBit "setbit" STRING;
    IncrBy "incrby" STRING;
    IncrByFloat "incrbyfloat" STRING;
    Append "append" STRING;
    LPush "lpush" LIST;
    RPush "rpush" LIST;
    LPop "lpop" LIST;
    RPop "rpop" LIST;
    LInsert "linsert" LIST;
    LSet "lset" LIST;
    LRem "lrem" LIST;
    LTrim "ltrim" LIST;
    SortStore "sortstore" LIST;
    HSet "hset" HASH;
    HIncrBy "hincrby" HASH;
    HIncrByFloat "hincrbyfloat" HASH;
    HDel "hdel" HASH;
    HExpire "hexpire" HASH;
    HExpired "hexpired" HASH;
    HPersist "hpersist" HASH;
    SAdd "sadd" SET;
    SRem "srem" SET;
    SPop "spop" SET;
    SInterStore "sinterstore" SET;
    SUnionStore "sunionstore" SET;
    SDiffStore "sdiffstore" SET;
    ZAdd "zadd" ZSET;
    ZIncr "zincr" ZSET;
    ZRem "zrem" ZSET;
    ZRemRangeByScore "zremrangebyscore" ZSET;
    ZRemRangeByRank "zremrangebyrank" ZSET;
    ZRemRangeByLex "zremrangebylex" ZSET;
    ZPopMin "zpopmin" ZSET;
    ZPopMax "zpopmax" ZSET;
    ZInterStore "zinterstore" ZSET;
    ZUnionStore "zunionstore" ZSET;
    ZDiffStore "zdiffstore" ZSET;
    ZRangeStore "zrangestore" ZSET;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinct_and_classes_single_bits() {
        let names: BTreeSet<_> = Event::ALL.iter().map(|event| event.name()).collect();
        assert_eq!(names.len(), Event::ALL.len());
        assert!(Event::ALL.iter().all(|event| event.class().is_power_of_two()));
    }
}
