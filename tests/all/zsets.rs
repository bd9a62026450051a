//! Sorted sets: ZADD ZINCRBY ZREM ZCARD ZSCORE ZMSCORE ZRANK ZREVRANK ZCOUNT ZLEXCOUNT, ranges, removal by range, pops, ZSCAN, ZRANDMEMBER.
//! What concerns several sets is in `zsets_several`, what waits in `zsets_waiting`.

use std::collections::{BTreeMap, BTreeSet};

use crate::control::servers;
use crate::harness::{Client, Reply, Server, script};

/// Adds members of these scores: `m0`, `m1`, ... in pieces.
pub fn fill(client: &mut Client, key: &str, count: usize, score: impl Fn(usize) -> i64) {
    let all: Vec<usize> = (0..count).collect();
    for piece in all.chunks(5_000) {
        let mut arguments = vec!["ZADD".to_string(), key.to_string()];
        for &n in piece {
            arguments.extend([score(n).to_string(), format!("m{n}")]);
        }
        assert_eq!(client.call(&arguments), Reply::Int(i64::try_from(piece.len()).unwrap()));
    }
}

fn texts(reply: &Reply) -> Vec<String> {
    reply.items().iter().map(Reply::text).collect()
}

#[test]
fn members_and_scores() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD z 1 a               => :1
        ZADD z 2 b 3 c           => :2
        ZADD z 2 a 2 b           => :0
        ZADD z CH 2.5 a 2 b 4 d  => :2
        TYPE z                   => +zset
        ZCARD z                  => :4
        ZCARD none               => :0
        ZSCORE z a               => '2.5'
        ZSCORE z none            => nil
        ZSCORE none a            => nil
        ZMSCORE z a none b       => ['2.5', nil, '2']
        ZMSCORE none a b         => [nil, nil]
        ZMSCORE z                => -ERR wrong number of arguments for 'zmscore' command
        ZRANK z b                => :0
        ZRANK z d                => :3
        ZRANK z none             => nil
        ZRANK none a             => nil
        ZREVRANK z b             => :3
        ZREVRANK z d             => :0
        ZREVRANK z none          => nil
        ZINCRBY z 1.5 b          => '3.5'
        ZINCRBY z -1 new         => '-1'
        ZRANGE z 0 -1 WITHSCORES => ['new', '-1', 'a', '2.5', 'c', '3', 'b', '3.5', 'd', '4']
        ZREM z a none c          => :2
        ZREM z a                 => :0
        ZREM none a              => :0
        ZREM z new b d           => :3
        EXISTS z                 => :0
        # One member twice: the last score holds, it was added once.
        ZADD z 1 a 2 a           => :1
        ZSCORE z a               => '2'
        ZADD z CH 1 a 3 a        => :2
        DEL z                    => :1
        # Any bytes, and numbers as members.
        ZADD z 0 '' 0 'a\x00\r\nb' 0 12 0 012 => :4
        ZRANGE z 0 -1            => ['', '012', '12', 'a\x00\r\nb']
        ZSCORE z 12              => '0'
        ZADD z                   => -ERR wrong number of arguments for 'zadd' command
        ZADD z 1                 => -ERR wrong number of arguments for 'zadd' command
        ZADD z 1 a 2             => -ERR syntax error
        ZADD z x a               => -ERR value is not a valid float
        # All scores are looked at first.
        ZADD z 1 fresh x b       => -ERR value is not a valid float
        ZSCORE z fresh           => nil
        ZINCRBY z x a            => -ERR value is not a valid float
        SET string v             => +OK
        ZADD string 1 a          => -WRONGTYPE Operation against a key holding the wrong kind of value
        ZINCRBY string 1 a       => -WRONGTYPE
        ZREM string a            => -WRONGTYPE
        ZCARD string             => -WRONGTYPE
        ZSCORE string a          => -WRONGTYPE
        ZMSCORE string a         => -WRONGTYPE
        ZRANK string a           => -WRONGTYPE
        ZREVRANK string a        => -WRONGTYPE
        GET z                    => -WRONGTYPE
        ",
    );
}

#[test]
fn conditions_of_zadd() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD z XX 1 a            => :0
        EXISTS z                 => :0
        ZADD z nx 1 a 2 b        => :2
        ZADD z NX 9 a 3 c        => :1
        ZSCORE z a               => '1'
        ZADD z XX 5 a 5 none     => :0
        ZADD z XX CH 6 a 5 none  => :1
        ZADD z GT 5 a            => :0
        ZSCORE z a               => '6'
        ZADD z GT CH 7 a 1 new   => :2
        ZADD z LT CH 8 a 0 new   => :1
        ZADD z XX GT CH 9 a 1 x  => :1
        ZRANGE z 0 -1 WITHSCORES => ['new', '0', 'b', '2', 'c', '3', 'a', '9']
        ZADD z INCR 1 a          => '10'
        ZADD z INCR 1 fresh      => '1'
        ZADD z NX INCR 1 a       => nil
        ZADD z XX INCR 1 none    => nil
        ZADD z GT INCR -1 a      => nil
        ZADD z LT INCR -1 a      => '9'
        ZADD z GT XX INCR 2 a    => '11'
        ZADD z INCR CH 1 a       => '12'
        ZADD z NX XX 1 a         => -ERR XX and NX options at the same time are not compatible
        ZADD z GT LT 1 a         => -ERR GT, LT, and/or NX options at the same time are not compatible
        ZADD z NX GT 1 a         => -ERR GT, LT, and/or NX options at the same time are not compatible
        ZADD z LT NX 1 a         => -ERR GT, LT, and/or NX options at the same time are not compatible
        ZADD z INCR 1 a 2 b      => -ERR INCR option supports a single increment-element pair
        ZADD z NX                => -ERR wrong number of arguments for 'zadd' command
        ZADD z NX XX             => -ERR syntax error
        ZADD z NX 1              => -ERR syntax error
        # What is no option is a score.
        ZADD z NOSUCH a          => -ERR value is not a valid float
        ",
    );
}

#[test]
fn special_scores() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD z inf top -inf bottom +inf top2 => :3
        ZRANGE z 0 -1 WITHSCORES => ['bottom', '-inf', 'top', 'inf', 'top2', 'inf']
        ZINCRBY z inf bottom     => -ERR resulting score is not a number (NaN)
        ZINCRBY z -inf top       => -ERR resulting score is not a number (NaN)
        ZADD z INCR -inf top     => -ERR resulting score is not a number (NaN)
        ZSCORE z top             => 'inf'
        ZADD z nan a             => -ERR value is not a valid float
        ZADD z '' a              => -ERR value is not a valid float
        ZADD z ' 1' a            => -ERR value is not a valid float
        ZADD z '1 ' a            => -ERR value is not a valid float
        ZADD z 1e400 a           => -ERR value is not a valid float
        ZADD z 0x10 hex          => :1
        ZSCORE z hex             => '16'
        ZADD e 1e3 a             => :1
        ZSCORE e a               => '1000'
        # 2^53 and beyond.
        ZADD e 9007199254740993 b => :1
        ZSCORE e b               => '9007199254740992'
        ZADD e 1e22 c 1.7976931348623157e308 d => :2
        ZRANGE e 0 -1            => ['a', 'b', 'c', 'd']
        ZSCORE e d               => '1.7976931348623157e+308'
        # The shortest text of the number, as Redis since 7.2.
        ZADD e 0.1 f             => :1
        dolmen> ZSCORE e f       => '0.1'
        redis>  ZSCORE e f       => '0.10000000000000001'
        # The two zeros are one score.
        ZADD n -0 a 0 b          => :2
        ZADD n CH 0 a            => :0
        ZRANGEBYSCORE n 0 0      => ['a', 'b']
        ZRANGEBYSCORE n -0 -0    => ['a', 'b']
        ZINCRBY n 1 a            => '1'
        ",
    );
}

#[test]
fn replies_of_resp3() {
    let server = Server::start();
    let mut c = server.client3();
    script(
        &server,
        &mut c,
        r"
        ZADD z 1 a 2.5 b inf c   => :3
        ZADD z INCR 1 a          => ,2
        ZADD z NX INCR 1 a       => null
        ZINCRBY z -1 a           => ,1
        ZSCORE z b               => ,2.5
        ZSCORE z c               => ,inf
        ZSCORE z none            => null
        ZMSCORE z a none         => [,1, null]
        ZRANK z a                => :0
        ZRANK z none             => null
        dolmen> ZRANK z b WITHSCORE => [:1, ,2.5]
        dolmen> ZRANK z none WITHSCORE => null
        ZRANGE z 0 -1            => ['a', 'b', 'c']
        ZRANGE z 0 -1 WITHSCORES => [['a', ,1], ['b', ,2.5], ['c', ,inf]]
        ZREVRANGEBYSCORE z +inf -inf WITHSCORES LIMIT 1 1 => [['b', ,2.5]]
        ZRANGE none 0 -1 WITHSCORES => []
        ZUNION 1 z WITHSCORES    => [['a', ,1], ['b', ,2.5], ['c', ,inf]]
        ZDIFF 1 z                => ['a', 'b', 'c']
        ZRANDMEMBER z 3 WITHSCORES => ...
        ZRANDMEMBER none         => null
        ZRANDMEMBER none 1       => []
        # Scores of ZSCAN are text.
        ZSCAN z 0                => ['0', ['a', '1', 'b', '2.5', 'c', 'inf']]
        # Nested with a count only.
        ZPOPMIN z                => ['a', ,1]
        ZPOPMAX z 1              => [['c', ,inf]]
        ZMPOP 1 z MIN            => ['z', [['b', ,2.5]]]
        ZMPOP 1 z MIN            => null
        ZPOPMIN z                => []
        ZPOPMIN z 1              => []
        BZPOPMIN z 0.01          => null
        BZMPOP 0.01 1 z MIN      => null
        ZADD z 1 a 2 b 3 c       => :3
        BZPOPMAX z 0             => ['z', 'c', ,3]
        BZMPOP 0 1 z MIN COUNT 9 => ['z', [['a', ,1], ['b', ,2]]]
        ",
    );
}

#[test]
fn ranks_with_scores() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD z 1 a 2.5 b         => :2
        # Of 7.2.
        dolmen> ZRANK z b WITHSCORE => [:1, '2.5']
        dolmen> ZREVRANK z b withscore => [:0, '2.5']
        dolmen> ZRANK z none WITHSCORE => nil*
        dolmen> ZRANK none a WITHSCORE => nil*
        dolmen> ZRANK z b NOSUCH => -ERR syntax error
        ZRANK z b WITHSCORE x    => -ERR wrong number of arguments for 'zrank' command
        ZREVRANK z b WITHSCORE x => -ERR wrong number of arguments for 'zrevrank' command
        ",
    );
}

#[test]
fn counts() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD z 1 a 2 b 2 c 3 d   => :4
        ZCOUNT z -inf +inf       => :4
        ZCOUNT z 2 2             => :2
        ZCOUNT z (1 3            => :3
        ZCOUNT z (1 (3           => :2
        ZCOUNT z 3 1             => :0
        ZCOUNT z (2 (2           => :0
        ZCOUNT none 0 1          => :0
        ZCOUNT z '' ''           => :0
        ZCOUNT z x 1             => -ERR min or max is not a float
        ZCOUNT z 1 (             => :0
        ZCOUNT z 1 nan           => -ERR min or max is not a float
        ZCOUNT z 1               => -ERR wrong number of arguments for 'zcount' command
        ZADD l 0 a 0 aa 0 b 0 c  => :4
        ZLEXCOUNT l - +          => :4
        ZLEXCOUNT l [a [b        => :3
        ZLEXCOUNT l (a (b        => :1
        ZLEXCOUNT l + -          => :0
        ZLEXCOUNT l [b [a        => :0
        ZLEXCOUNT none - +       => :0
        ZLEXCOUNT l a +          => -ERR min or max not valid string range item
        ZLEXCOUNT l - ''         => -ERR min or max not valid string range item
        SET string v             => +OK
        ZCOUNT string 0 1        => -WRONGTYPE
        ZLEXCOUNT string - +     => -WRONGTYPE
        ",
    );
}

#[test]
fn ranges() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD z 1 a 2 b 3 c 4 d 5 e => :5
        ZRANGE z 0 -1            => ['a', 'b', 'c', 'd', 'e']
        ZRANGE z 1 2             => ['b', 'c']
        ZRANGE z -2 100          => ['d', 'e']
        ZRANGE z -100 0          => ['a']
        ZRANGE z 3 1             => []
        ZRANGE z 5 9             => []
        ZRANGE z 0 1 withscores  => ['a', '1', 'b', '2']
        ZRANGE z 0 1 REV         => ['e', 'd']
        ZRANGE z 0 1 REV WITHSCORES => ['e', '5', 'd', '4']
        ZREVRANGE z 0 1          => ['e', 'd']
        ZREVRANGE z -1 -1 WITHSCORES => ['a', '1']
        ZRANGE z 2 4 BYSCORE     => ['b', 'c', 'd']
        ZRANGE z (2 +inf BYSCORE LIMIT 1 1 => ['d']
        ZRANGE z 4 2 BYSCORE REV => ['d', 'c', 'b']
        ZRANGE z +inf -inf REV BYSCORE LIMIT 0 2 WITHSCORES => ['e', '5', 'd', '4']
        ZRANGEBYSCORE z 2 (4     => ['b', 'c']
        ZRANGEBYSCORE z -inf inf LIMIT 1 2 WITHSCORES => ['b', '2', 'c', '3']
        ZRANGEBYSCORE z 1 5 LIMIT 3 -1 => ['d', 'e']
        ZRANGEBYSCORE z 1 5 LIMIT -1 2 => []
        ZRANGEBYSCORE z 1 5 LIMIT 9 2 => []
        ZRANGEBYSCORE z 1 5 LIMIT 0 0 => []
        ZREVRANGEBYSCORE z 4 (1  => ['d', 'c', 'b']
        ZREVRANGEBYSCORE z 4 1 LIMIT 1 2 => ['c', 'b']
        ZREVRANGEBYSCORE z 1 4   => []
        ZRANGE none 0 -1         => []
        ZRANGE none 0 -1 WITHSCORES => []
        ZADD l 0 a 0 b 0 c 0 d 0 '' => :5
        ZRANGE l [b [c BYLEX     => ['b', 'c']
        ZRANGE l [c [b BYLEX REV => ['c', 'b']
        ZRANGEBYLEX l - +        => ['', 'a', 'b', 'c', 'd']
        ZRANGEBYLEX l ( [b       => ['a', 'b']
        ZRANGEBYLEX l [ (a       => ['']
        ZRANGEBYLEX l - (c LIMIT 1 5 => ['a', 'b']
        ZREVRANGEBYLEX l + (b    => ['d', 'c']
        ZREVRANGEBYLEX l [c [a LIMIT 1 1 => ['b']
        ZRANGEBYLEX l + -        => []
        # Errors, in the order of Redis.
        ZRANGE z 0 -1 LIMIT 0 1  => -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        ZRANGE z 0 1 LIMIT 0 -1  => ['a', 'b']
        ZREVRANGE z 0 -1 LIMIT 0 1 => -ERR syntax error, LIMIT is only
        ZRANGE z - + BYLEX WITHSCORES => -ERR syntax error, WITHSCORES not supported in combination with BYLEX
        ZRANGEBYLEX z - + WITHSCORES => -ERR syntax error, WITHSCORES not supported
        ZREVRANGE z 0 -1 REV     => -ERR syntax error
        ZRANGEBYSCORE z 0 1 BYLEX => -ERR syntax error
        ZRANGE z 0 -1 BYLEX BYSCORE => -ERR syntax error
        ZRANGE z 0 -1 REV REV    => -ERR syntax error
        ZRANGE z 0 1 BYSCORE LIMIT 0 => -ERR syntax error
        ZRANGE z 0 1 BYSCORE LIMIT x 1 => -ERR value is not an integer or out of range
        ZRANGE z 0 1 NOSUCH      => -ERR syntax error
        ZRANGE z x 1             => -ERR value is not an integer or out of range
        ZRANGE z x 1 BYSCORE     => -ERR min or max is not a float
        ZRANGE z x 1 BYLEX       => -ERR min or max not valid string range item
        ZRANGE z 0               => -ERR wrong number of arguments for 'zrange' command
        SET string v             => +OK
        ZRANGE string 0 -1       => -WRONGTYPE
        ZREVRANGE string 0 -1    => -WRONGTYPE
        ZRANGEBYSCORE string 0 1 => -WRONGTYPE
        ZRANGEBYLEX string - +   => -WRONGTYPE
        ",
    );
}

#[test]
fn ranges_that_are_stored() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD z 1 a 2 b 3 c 4 d   => :4
        ZRANGESTORE d z 1 2      => :2
        ZRANGE d 0 -1 WITHSCORES => ['b', '2', 'c', '3']
        ZRANGESTORE d z 0 0 REV  => :1
        ZRANGE d 0 -1            => ['d']
        ZRANGESTORE d z (1 +inf BYSCORE LIMIT 1 5 => :2
        ZRANGE d 0 -1            => ['c', 'd']
        ZRANGESTORE d z - (c BYLEX => :2
        # Onto itself.
        ZRANGESTORE z z 1 2      => :2
        ZRANGE z 0 -1            => ['b', 'c']
        # Over another type, whose deadline goes with it.
        SET s v EX 100           => +OK
        ZRANGESTORE s z 0 -1     => :2
        TYPE s                   => +zset
        TTL s                    => :-1
        # Nothing removes what was there.
        ZRANGESTORE s z 5 9      => :0
        EXISTS s                 => :0
        ZRANGESTORE d none 0 -1  => :0
        EXISTS d                 => :0
        ZRANGESTORE d z 0 -1 WITHSCORES => -ERR syntax error
        ZRANGESTORE d z 0 -1 LIMIT 0 1 => -ERR syntax error, LIMIT is only supported
        SET s v                  => +OK
        ZRANGESTORE d s 0 -1     => -WRONGTYPE
        ZRANGESTORE d z 0        => -ERR wrong number of arguments for 'zrangestore' command
        ",
    );
}

#[test]
fn removal_by_range() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD z 1 a 2 b 3 c 4 d 5 e 6 f => :6
        ZREMRANGEBYRANK z 0 0    => :1
        ZREMRANGEBYRANK z -1 -1  => :1
        ZREMRANGEBYRANK z 9 12   => :0
        ZRANGE z 0 -1            => ['b', 'c', 'd', 'e']
        ZREMRANGEBYSCORE z (2 3  => :1
        ZREMRANGEBYSCORE z 7 9   => :0
        ZRANGE z 0 -1            => ['b', 'd', 'e']
        ZREMRANGEBYSCORE z -inf +inf => :3
        EXISTS z                 => :0
        ZADD l 0 a 0 b 0 c       => :3
        ZREMRANGEBYLEX l [b (c   => :1
        ZREMRANGEBYLEX l - +     => :2
        EXISTS l                 => :0
        ZREMRANGEBYRANK none 0 -1 => :0
        ZREMRANGEBYSCORE none 0 1 => :0
        ZREMRANGEBYLEX none - +  => :0
        ZREMRANGEBYRANK z x 1    => -ERR value is not an integer or out of range
        ZREMRANGEBYSCORE z x 1   => -ERR min or max is not a float
        ZREMRANGEBYLEX z x +     => -ERR min or max not valid string range item
        SET string v             => +OK
        ZREMRANGEBYRANK string 0 -1 => -WRONGTYPE
        ZREMRANGEBYSCORE string 0 1 => -WRONGTYPE
        ZREMRANGEBYLEX string - + => -WRONGTYPE
        ",
    );
}

#[test]
fn pops() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD z 1 a 2 b 3 c 4 d 5 e => :5
        ZPOPMIN z                => ['a', '1']
        ZPOPMAX z                => ['e', '5']
        ZPOPMIN z 0              => []
        ZPOPMIN z 2              => ['b', '2', 'c', '3']
        ZPOPMAX z 9              => ['d', '4']
        EXISTS z                 => :0
        ZPOPMIN z                => []
        ZPOPMAX z 3              => []
        ZPOPMIN z -1             => -ERR value is out of range, must be positive
        ZPOPMIN z x              => -ERR value is out of range, must be positive
        ZPOPMIN z 1 2            => -ERR syntax error
        ZADD z 1 a 2 b 3 c       => :3
        ZPOPMAX z 2              => ['c', '3', 'b', '2']
        ZADD z 2 b 3 c           => :2
        ZMPOP 2 none z MIN       => ['z', [['a', '1']]]
        ZMPOP 1 z max count 5    => ['z', [['c', '3'], ['b', '2']]]
        ZMPOP 2 z none MAX       => nil*
        ZMPOP 0 z MIN            => -ERR numkeys should be greater than 0
        ZMPOP x z MIN            => -ERR numkeys should be greater than 0
        ZMPOP 2 z MIN            => -ERR syntax error
        ZMPOP 1 z NOSUCH         => -ERR syntax error
        ZMPOP 1 z MIN COUNT      => -ERR syntax error
        ZMPOP 1 z MIN COUNT 0    => -ERR count should be greater than 0
        ZMPOP 1 z MIN COUNT x    => -ERR count should be greater than 0
        ZMPOP 1 z MIN COUNT 1 COUNT 2 => -ERR syntax error
        ZMPOP 1 z                => -ERR wrong number of arguments for 'zmpop' command
        SET string v             => +OK
        ZPOPMIN string           => -WRONGTYPE
        ZMPOP 2 none string MIN  => -WRONGTYPE
        ",
    );
}

/// A sorted set of every size, in both forms, against one of the standard library.
#[test]
fn every_size_like_a_model() {
    let server = Server::start();
    let mut c = server.client();
    for size in [1_usize, 100, 127, 128, 129, 130, 1_000, 3_000] {
        let score = |n: usize| i64::try_from(n * 7919 % 501).unwrap() - 250;
        c.run("DEL z");
        fill(&mut c, "z", size, score);
        let model: BTreeSet<(i64, String)> = (0..size).map(|n| (score(n), format!("m{n}"))).collect();
        let names: Vec<String> = model.iter().map(|(_, name)| name.clone()).collect();
        assert_eq!(texts(&c.run("ZRANGE z 0 -1")), names);
        let backward: Vec<String> = names.iter().rev().cloned().collect();
        assert_eq!(texts(&c.run("ZREVRANGE z 0 -1")), backward);
        let pairs: Vec<String> = model.iter().flat_map(|(score, name)| [name.clone(), score.to_string()]).collect();
        assert_eq!(texts(&c.run("ZRANGE z 0 -1 WITHSCORES")), pairs);
        let between: Vec<String> =
            model.iter().filter(|(score, _)| (-100..100).contains(score)).map(|(_, name)| name.clone()).collect();
        assert_eq!(texts(&c.run("ZRANGEBYSCORE z -100 (100")), between);
        for (rank, name) in names.iter().enumerate().step_by(97) {
            assert_eq!(c.run(&format!("ZRANK z {name}")), Reply::Int(i64::try_from(rank).unwrap()));
        }
        // Scanned in steps: everything, and nothing that is not there.
        let mut found = BTreeMap::new();
        let mut cursor = "0".to_string();
        loop {
            let reply = c.run(&format!("ZSCAN z {cursor} COUNT 50"));
            for pair in reply.items()[1].items().chunks(2) {
                found.insert(pair[0].text(), pair[1].text());
            }
            cursor = reply.items()[0].text();
            if cursor == "0" {
                break;
            }
        }
        let all: BTreeMap<String, String> =
            model.iter().map(|(score, name)| (name.clone(), score.to_string())).collect();
        assert_eq!(found, all);
    }
}

#[test]
fn scans() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD z 1 a 2.5 bb 3 b    => :3
        ZSCAN z 0                => ['0', ['a', '1', 'bb', '2.5', 'b', '3']]
        ZSCAN z 0 MATCH b*       => ['0', ['bb', '2.5', 'b', '3']]
        ZSCAN z 0 COUNT 1 MATCH nothing => ['0', []]
        ZSCAN none 0             => ['0', []]
        ZSCAN none 0 COUNT 0     => ['0', []]
        ZSCAN z x                => -ERR invalid cursor
        ZSCAN z 0 COUNT 0        => -ERR syntax error
        ZSCAN z 0 COUNT x        => -ERR value is not an integer or out of range
        ZSCAN z 0 MATCH          => -ERR syntax error
        ZSCAN z 0 NOSUCH x       => -ERR syntax error
        SET string v             => +OK
        ZSCAN string 0           => -WRONGTYPE
        ",
    );
}

#[test]
fn random_members() {
    for server in servers(&[]) {
        let mut c = server.client();
        script(
            &server,
            &mut c,
            r"
            ZADD one 1.5 only        => :1
            ZRANDMEMBER one          => 'only'
            ZRANDMEMBER one 5        => ['only']
            ZRANDMEMBER one -3       => ['only', 'only', 'only']
            ZRANDMEMBER one -2 WITHSCORES => ['only', '1.5', 'only', '1.5']
            ZRANDMEMBER one 0        => []
            ZRANDMEMBER none         => nil
            ZRANDMEMBER none 3       => []
            ZRANDMEMBER one x        => -ERR value is not an integer or out of range
            ZRANDMEMBER one 1 NOSUCH => -ERR syntax error
            ZRANDMEMBER one 1 WITHSCORES x => -ERR syntax error
            ZRANDMEMBER one -9223372036854775808 => -ERR value is out of range, value must between
            ZRANDMEMBER one 4611686018427387904 WITHSCORES => -ERR value is out of range
            SET string v             => +OK
            ZRANDMEMBER string       => -WRONGTYPE
            ZRANDMEMBER string 1     => -WRONGTYPE
            ",
        );
        for size in [100_usize, 2_000, 5_000] {
            c.run("DEL z");
            fill(&mut c, "z", size, |n| i64::try_from(n).unwrap());
            for wanted in [1, size / 3, size - 1, size, 2 * size] {
                let members = texts(&c.run(&format!("ZRANDMEMBER z {wanted}")));
                let different: BTreeSet<&String> = members.iter().collect();
                assert_eq!((members.len(), different.len()), (wanted.min(size), wanted.min(size)));
                assert!(members.iter().all(|name| name.starts_with('m')));
            }
            let scored = texts(&c.run(&format!("ZRANDMEMBER z {} WITHSCORES", size - 1)));
            assert!(scored.chunks(2).all(|pair| pair[0] == format!("m{}", pair[1])));
            let repeated = texts(&c.run("ZRANDMEMBER z -5000"));
            assert_eq!(repeated.len(), 5_000);
            // Of 5,000 draws from 5,000 five of eight are different; of those from 100 each is missed with a chance of 10^-22.
            let different: BTreeSet<&String> = repeated.iter().collect();
            assert!(different.len() > size.min(1_000) * 9 / 10, "{} of {size}", different.len());
        }
    }
}

/// A set of more than one slice's work: what changes it and what reads it goes on in slices, and is one step to everybody else.
#[test]
fn large_sets() {
    const SIZE: usize = 20_000;
    for server in servers(&[]) {
        let mut c = server.client();
        fill(&mut c, "z", SIZE, |n| i64::try_from(n).unwrap());
        let all = texts(&c.run("ZRANGE z 0 -1"));
        assert_eq!(all.len(), SIZE);
        assert!(all.iter().enumerate().all(|(n, name)| *name == format!("m{n}")));
        let backward = texts(&c.run("ZREVRANGEBYSCORE z 15000 (5000 LIMIT 100 9000"));
        assert!(backward.iter().enumerate().all(|(n, name)| *name == format!("m{}", 14_900 - n)));
        assert_eq!(backward.len(), 9_000);
        c.expect("ZRANGESTORE copy z 1000 18999", ":18000");
        c.expect("ZRANGE copy 0 0", "['m1000']");
        c.expect("ZRANGE copy -1 -1", "['m18999']");
        c.expect("ZREMRANGEBYRANK copy 1 17998", ":17998");
        c.expect("ZRANGE copy 0 -1", "['m1000', 'm18999']");
        let popped = texts(&c.run("ZPOPMIN z 5000"));
        assert_eq!((popped.len(), &*popped[0], &*popped[9_999]), (10_000, "m0", "4999"));
        let popped = texts(&c.run("ZPOPMAX z 5000"));
        assert_eq!((popped.len(), &*popped[0], &*popped[9_998]), (10_000, "m19999", "m15000"));
        c.expect("ZCARD z", ":10000");
        c.expect("ZREMRANGEBYSCORE z 6000 (14000", ":8000");
        c.expect("ZCARD z", ":2000");
        c.expect("ZREMRANGEBYSCORE z -inf +inf", ":2000");
        c.expect("EXISTS z", ":0");
        // Within a transaction too, whole.
        fill(&mut c, "z", SIZE, |n| i64::try_from(n).unwrap());
        c.expect("MULTI", "+OK");
        for line in ["ZREMRANGEBYRANK z 10 19989", "ZCARD z", "ZRANGE z 9 10", "ZPOPMAX z 1000"] {
            c.expect(line, "+QUEUED");
        }
        let replies = c.run("EXEC");
        assert_eq!(
            replies.items()[..3].iter().map(Reply::to_string).collect::<Vec<_>>(),
            [":19980", ":20", "['m9', 'm19990']"]
        );
        assert_eq!(replies.items()[3].items().len(), 40);
        c.expect("EXISTS z", ":0");
    }
}

/// What others send while a long command holds a set waits for it.
#[test]
fn long_commands_are_one_step() {
    const SIZE: usize = 30_000;
    for server in servers(&[]) {
        let (mut c, mut other) = (server.client(), server.client());
        for round in 0..5 {
            c.run("DEL z");
            fill(&mut c, "z", SIZE, |n| i64::try_from(n).unwrap());
            c.send(&crate::harness::request(&["ZREMRANGEBYRANK", "z", "1", "-2"]));
            // It has begun, or has not.
            let seen = other.run("ZCARD z").int();
            assert!(seen == 2 || seen == i64::try_from(SIZE).unwrap(), "{seen} in round {round}");
            assert_eq!(c.read(), Reply::Int(i64::try_from(SIZE - 2).unwrap()));
            other.expect("ZRANGE z 0 -1", "['m0', 'm29999']");
        }
    }
}

/// A reply that is not read yet shows the set as it was.
#[test]
fn a_long_reply_is_of_one_instant() {
    const SIZE: usize = 100_000;
    let server = Server::start();
    let (mut reader, mut writer) = (server.client(), server.client());
    fill(&mut writer, "z", SIZE, |n| i64::try_from(n).unwrap());
    reader.send(&crate::harness::request(&["ZRANGE", "z", "0", "-1", "WITHSCORES"]));
    // The first bytes of the reply: it has begun.
    let mut first = [0];
    std::io::Read::read_exact(&mut reader.stream(), &mut first).unwrap();
    assert_eq!(&first, b"*");
    writer.expect("ZINCRBY z 1000000 m0", "'1000000'");
    writer.expect("ZREM z m1 m99999", ":2");
    writer.expect("ZREMRANGEBYRANK z 10 -1", ":99988");
    writer.expect("DEL z", ":1");
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        std::io::Read::read_exact(&mut reader.stream(), &mut byte).unwrap();
        line.push(byte[0]);
    }
    assert_eq!(line, format!("{}\r\n", 2 * SIZE).as_bytes());
    for n in 0..SIZE {
        assert_eq!((reader.read().text(), reader.read().text()), (format!("m{n}"), n.to_string()));
    }
}
