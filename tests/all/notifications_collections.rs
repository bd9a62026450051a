//! Which events commands on collections emit, in which order; what fields tell when their deadlines come.

use crate::control::servers;
use crate::harness::{Reply, eventually};
use crate::notifications::{check, listener, told};

#[test]
fn what_commands_on_lists_tell() {
    for server in servers(&["--notify-keyspace-events", "KAmn"]) {
        check(
            &server,
            "
            RPUSH l a b c => 0:l=new 0:l=rpush
            LPUSH l x y => 0:l=lpush
            LPUSHX none x =>
            RPUSHX l z => 0:l=rpush
            LPOP l => 0:l=lpop
            RPOP l 2 => 0:l=rpop
            LPOP none =>
            LINSERT l BEFORE nosuch v =>
            LINSERT l BEFORE a v => 0:l=linsert
            LSET l 0 w => 0:l=lset
            LREM l 0 nosuch =>
            LREM l 0 w => 0:l=lrem
            LTRIM l 0 1 => 0:l=ltrim
            LMOVE l m LEFT RIGHT => 0:m=new 0:m=rpush 0:l=lpop
            RPOPLPUSH l m => 0:m=lpush 0:l=rpop 0:l=del
            LMOVE m m LEFT RIGHT => 0:m=rpush 0:m=lpop
            LMPOP 2 none m RIGHT COUNT 9 => 0:m=rpop 0:m=del
            RPUSH l 3 1 2 => 0:l=new 0:l=rpush
            SORT l STORE d => 0:d=new 0:d=sortstore
            SORT l STORE l => 0:l=sortstore
            SORT none STORE d => 0:none=keymiss 0:d=del
            BLPOP l 0 => 0:l=lpop
            BLMOVE l l LEFT LEFT 0 => 0:l=lpush 0:l=lpop
            LTRIM l 5 9 => 0:l=ltrim 0:l=del
            ",
        );
    }
}

#[test]
fn what_commands_on_sets_tell() {
    for server in servers(&["--notify-keyspace-events", "KAmn"]) {
        check(
            &server,
            "
            SADD s a b c => 0:s=new 0:s=sadd
            SADD s a =>
            SREM s nosuch =>
            SREM s a => 0:s=srem
            SMOVE s t b => 0:s=srem 0:t=new 0:t=sadd
            SMOVE s t nosuch =>
            SADD t c => 0:t=sadd
            SMOVE s t c => 0:s=srem 0:s=del
            SADD u 1 2 3 4 => 0:u=new 0:u=sadd
            SPOP u => 0:u=spop
            SPOP u 2 => 0:u=spop
            SPOP u 9 => 0:u=spop 0:u=del
            SINTERSTORE d t t => 0:d=new 0:d=sinterstore
            SUNIONSTORE d t => 0:d=sunionstore
            SDIFFSTORE d t t => 0:d=del
            SDIFFSTORE e t t =>
            SREM t b c => 0:t=srem 0:t=del
            ",
        );
    }
}

#[test]
fn what_commands_on_hashes_tell() {
    for server in servers(&["--notify-keyspace-events", "KAmn"]) {
        check(
            &server,
            "
            HSET h a 1 b 2 => 0:h=new 0:h=hset
            HMSET h c 3 => 0:h=hset
            HSETNX h a 1 =>
            HSETNX h d 1 => 0:h=hset
            HINCRBY h n 1 => 0:h=hincrby
            HINCRBYFLOAT h n 1.5 => 0:h=hincrbyfloat
            HDEL h nosuch =>
            HDEL h a b => 0:h=hdel
            HDEL h c d n => 0:h=hdel 0:h=del
            HGET none f => 0:none=keymiss
            dolmen> HSET h a 1 b 2 => 0:h=new 0:h=hset
            dolmen> HEXPIRE h 1000 FIELDS 1 a => 0:h=hexpire
            dolmen> HPERSIST h FIELDS 1 a => 0:h=hpersist
            dolmen> HGETDEL h FIELDS 1 a => 0:h=hdel
            dolmen> HEXPIRE h 0 FIELDS 1 b => 0:h=hdel 0:h=del
            ",
        );
    }
}

#[test]
fn what_commands_on_sorted_sets_tell() {
    for server in servers(&["--notify-keyspace-events", "KAmn"]) {
        check(
            &server,
            "
            ZADD z 1 a 2 b 3 c => 0:z=new 0:z=zadd
            ZADD z 1 a =>
            ZADD z INCR 1 a => 0:z=zincr
            ZINCRBY z 1 a => 0:z=zincr
            ZREM z nosuch =>
            ZREM z a => 0:z=zrem
            ZPOPMIN z => 0:z=zpopmin
            ZPOPMAX z 5 => 0:z=zpopmax 0:z=del
            ZADD z 1 a 2 b 3 c 4 d 5 e 6 f => 0:z=new 0:z=zadd
            ZREMRANGEBYSCORE z 9 9 =>
            ZREMRANGEBYSCORE z 1 1 => 0:z=zremrangebyscore
            ZREMRANGEBYRANK z 0 0 => 0:z=zremrangebyrank
            ZUNIONSTORE d 1 z => 0:d=new 0:d=zunionstore
            ZINTERSTORE d 2 z none => 0:none=keymiss 0:d=del
            ZDIFFSTORE d 1 z => 0:d=new 0:d=zdiffstore
            ZRANGESTORE d z 0 0 => 0:d=zrangestore
            ZRANGESTORE d z 9 9 => 0:d=del
            ZMPOP 1 z MIN => 0:z=zpopmin
            BZPOPMAX z 0 => 0:z=zpopmax
            ZREMRANGEBYLEX z - + => 0:z=zremrangebylex 0:z=del
            ",
        );
    }
}

/// Fields tell of their end whether somebody looks for them or not, as do the hashes that lose the last of them.
#[test]
fn expired_fields() {
    for server in servers(&["--notify-keyspace-events", "KA"]) {
        if server.is_redis() {
            continue;
        }
        let (mut client, mut listener) = (server.client(), listener(&server));
        for round in 0..20 {
            let (hash, asks) = (format!("h:{round}"), round % 2 == 1);
            client.run(&format!("HSET {hash} a 1 b 2 stays 3"));
            client.run(&format!("HPEXPIRE {hash} 2 FIELDS 2 a b"));
            let gone = |client: &mut crate::harness::Client| client.run(&format!("HLEN {hash}")) == Reply::Int(1);
            if asks {
                eventually("the fields are gone", || gone(&mut client));
            }
            let mut seen = Vec::new();
            while seen.last().is_none_or(|event| event != "hexpired") {
                let message = listener.read();
                assert_eq!(message.items()[2].text(), format!("__keyspace@0__:{hash}"));
                seen.push(message.items()[3].text());
            }
            assert_eq!(seen, ["hset", "hexpire", "hexpired"]);
            assert!(gone(&mut client));
            client.run(&format!("HPEXPIRE {hash} 2 FIELDS 1 stays"));
            if asks {
                eventually("the hash is gone", || client.run(&format!("EXISTS {hash}")) == Reply::Int(0));
            }
            let rest: Vec<String> = (0..3).map(|_| listener.read().items()[3].text()).collect();
            assert_eq!(rest, ["hexpire", "hexpired", "del"]);
        }
        assert!(told(&mut client, &mut listener).is_empty());
        // Who watches the hash, and who has cached it: the deadline is far enough if it is still there when both do.
        for deadline_ms in (4..).map(|power| 1 << power) {
            client.run("HSET h a 1 b 2");
            client.run(&format!("HPEXPIRE h {deadline_ms} FIELDS 1 a"));
            client.run("WATCH h");
            let mut caches = server.client3();
            caches.expect("CLIENT TRACKING ON", "+OK");
            let replies = caches.pipeline(&["HGET h b", "HPTTL h FIELDS 1 a"]);
            if replies[1].items()[0].int() > 0 {
                assert_eq!(caches.read().to_string(), ">['invalidate', ['h']]");
                client.run("MULTI");
                client.expect("EXEC", "nil*");
                break;
            }
            client.run("UNWATCH");
        }
    }
}
