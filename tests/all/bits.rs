//! SETBIT GETBIT BITCOUNT BITPOS BITOP BITFIELD BITFIELD_RO.

use crate::harness::{Client, Reply, Server, heavy, script};

#[test]
fn setbit_and_getbit() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        GETBIT none 0            => :0
        GETBIT none 4294967295   => :0
        EXISTS none              => :0
        SETBIT k 7 1             => :0
        GET k                    => '\x01'
        SETBIT k 7 1             => :1
        SETBIT k 0 1             => :0
        GET k                    => '\x81'
        SETBIT k 7 0             => :1
        GET k                    => '\x80'
        GETBIT k 0               => :1
        GETBIT k 1               => :0
        GETBIT k 8               => :0
        STRLEN k                 => :1
        # Grows by zeros.
        SETBIT k 25 1            => :0
        GET k                    => '\x80\x00\x00@'
        SETBIT k 39 0            => :0
        STRLEN k                 => :5
        # Also a bit that is 0 makes a key.
        SETBIT zero 9 0          => :0
        GET zero                 => '\x00\x00'

        # Numbers are text.
        SET n 12                 => +OK
        INCR n                   => :13
        GETBIT n 3               => :1
        GETBIT n 4               => :0
        GETBIT n 16              => :0
        SETBIT n 6 0             => :0
        SETBIT n 7 0             => :1
        GET n                    => '03'
        INCR m                   => :1
        SETBIT m 15 1            => :0
        GET m                    => '1\x01'

        # The deadline stays.
        SET t a EX 100           => +OK
        SETBIT t 5000 1          => :0
        TTL t                    => :99..100
        SETBIT t 200000 1        => :0
        TTL t                    => :99..100
        SETBIT t 200000 1        => :1
        GETBIT t 5000            => :1
        STRLEN t                 => :25001

        SETBIT k -1 1            => -ERR bit offset is not an integer or out of range
        SETBIT k x 1             => -ERR bit offset is not an integer or out of range
        SETBIT k '' 1            => -ERR bit offset is not an integer or out of range
        SETBIT k #1 1            => -ERR bit offset is not an integer or out of range
        SETBIT k 4294967296 1    => -ERR bit offset is not an integer or out of range
        SETBIT k x 7             => -ERR bit offset is not an integer or out of range
        SETBIT k 0 2             => -ERR bit is not an integer or out of range
        SETBIT k 0 -1            => -ERR bit is not an integer or out of range
        SETBIT k 0 x             => -ERR bit is not an integer or out of range
        SETBIT k 0 01            => -ERR bit is not an integer or out of range
        GETBIT k -1              => -ERR bit offset is not an integer or out of range
        GETBIT k 4294967296      => -ERR bit offset is not an integer or out of range
        SETBIT k 0               => -ERR wrong number of arguments for 'setbit' command
        GETBIT k                 => -ERR wrong number of arguments for 'getbit' command
        ",
    );
}

/// Only what changed something counts as a change.
#[test]
fn changes_are_counted() {
    let server = Server::start();
    let mut c = server.client();
    let field = if server.is_redis() { "rdb_changes_since_last_save" } else { "keyspace_changes" };
    let mut changed = |line: &str, by: u64| {
        let before = c.info_number(field);
        assert!(!c.run(line).is_error(), "{line}");
        assert_eq!(c.info_number(field) - before, by, "{line}");
    };
    changed("SETBIT k 0 0", 1);
    changed("SETBIT k 0 0", 0);
    changed("SETBIT k 0 1", 1);
    changed("SETBIT k 0 1", 0);
    changed("SETBIT k 9 0", 1);
    changed("BITFIELD k GET u8 0", 0);
    changed("BITFIELD k SET u8 0 128", 0);
    changed("BITFIELD k SET u8 0 1 SET u8 0 1 SET u8 8 2", 2);
    changed("BITFIELD k OVERFLOW FAIL INCRBY u8 0 300", 0);
    changed("BITOP NOT d k", 1);
    changed("BITOP AND d none", 1);
    changed("BITOP AND d none", 0);
    changed("BITCOUNT k", 0);
}

#[test]
fn bitcount() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        BITCOUNT none            => :0
        SET k foobar             => +OK
        BITCOUNT k               => :26
        BITCOUNT k 0 0           => :4
        BITCOUNT k 1 1           => :6
        BITCOUNT k 0 -1          => :26
        BITCOUNT k -3 -1         => :10
        BITCOUNT k 1 1 BYTE      => :6
        BITCOUNT k 5 30 BIT      => :17
        BITCOUNT k 5 30 bit      => :17
        BITCOUNT k 5 5 bit       => :1
        BITCOUNT k 0 -1 BIT      => :26
        BITCOUNT k -1 -1 BIT     => :0
        BITCOUNT k 3 2           => :0
        BITCOUNT k 6 9           => :0
        BITCOUNT k -2 -5         => :0
        BITCOUNT k -100 -200     => :0
        BITCOUNT k -200 -100     => :4
        BITCOUNT k -9223372036854775808 9223372036854775807      => :26
        BITCOUNT k -9223372036854775808 9223372036854775807 BIT  => :26
        SET e ''                 => +OK
        BITCOUNT e               => :0
        BITCOUNT e 0 -1          => :0
        BITCOUNT e 0 -1 BIT      => :0
        INCRBY n 13              => :13
        BITCOUNT n               => :7

        BITCOUNT k 0             => -ERR syntax error
        BITCOUNT k 0 1 FOO       => -ERR syntax error
        BITCOUNT k 0 1 BIT x     => -ERR syntax error
        BITCOUNT k a 1           => -ERR value is not an integer or out of range
        BITCOUNT k 0 b FOO       => -ERR value is not an integer or out of range
        BITCOUNT k 0 ''          => -ERR value is not an integer or out of range
        BITCOUNT                 => -ERR wrong number of arguments for 'bitcount' command
        # As in Redis 7.0 (7.2 looks at the range first).
        BITCOUNT none a b c d    => :0
        ",
    );
}

#[test]
fn bitpos() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        BITPOS none 0            => :0
        BITPOS none 1            => :-1
        SET e ''                 => +OK
        BITPOS e 0               => :-1
        BITPOS e 1               => :-1
        SET k '\xff\xf0\x00'     => +OK
        BITPOS k 0               => :12
        BITPOS k 1               => :0
        BITPOS k 1 1             => :8
        BITPOS k 1 2             => :-1
        BITPOS k 0 2             => :16
        BITPOS k 1 -2            => :8
        BITPOS k 0 0 0           => :-1
        BITPOS k 0 0 -1 BYTE     => :12
        BITPOS k 0 0 -1 bit      => :12
        BITPOS k 0 3 11 BIT      => :-1
        BITPOS k 0 3 12 BIT      => :12
        BITPOS k 1 11 23 BIT     => :11
        BITPOS k 1 12 23 BIT     => :-1
        BITPOS k 1 3 2 BIT       => :-1
        BITPOS k 1 -100 -200     => :0
        BITPOS k 0 5             => :-1
        # Behind the end there are zeros, unless the end is given.
        SET ff '\xff\xff'        => +OK
        BITPOS ff 0              => :16
        BITPOS ff 0 1            => :16
        BITPOS ff 0 2            => :-1
        BITPOS ff 0 0 -1         => :-1
        BITPOS ff 0 0 999 BIT    => :-1
        SET zz '\x00\x00'        => +OK
        BITPOS zz 1              => :-1
        INCRBY n 13              => :13
        BITPOS n 1               => :2

        BITPOS k 2               => -ERR The bit argument must be 1 or 0.
        BITPOS none -1           => -ERR The bit argument must be 1 or 0.
        BITPOS none x            => -ERR value is not an integer or out of range
        BITPOS k 01              => -ERR value is not an integer or out of range
        BITPOS k 0 a             => -ERR value is not an integer or out of range
        BITPOS k 0 0 b FOO       => -ERR syntax error
        BITPOS k 0 a b FOO       => -ERR value is not an integer or out of range
        BITPOS k 0 0 1 BIT x     => -ERR syntax error
        BITPOS k                 => -ERR wrong number of arguments for 'bitpos' command
        ",
    );
}

#[test]
fn bitop() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SET a '\xff\x0f\x55'     => +OK
        SET b '\x0f\xff'         => +OK
        SET c '\x01\x02\x04\x08' => +OK
        BITOP AND d a b          => :3
        GET d                    => '\x0f\x0f\x00'
        BITOP or d a b c         => :4
        GET d                    => '\xff\xffU\x08'
        BITOP Xor d a b          => :3
        GET d                    => '\xf0\xf0U'
        BITOP NOT d a            => :3
        GET d                    => '\x00\xf0\xaa'
        BITOP AND d a none       => :3
        GET d                    => '\x00\x00\x00'
        BITOP OR d none a        => :3
        GET d                    => '\xff\x0fU'
        BITOP AND d a            => :3
        GET d                    => '\xff\x0fU'
        BITOP XOR d a a a        => :3
        GET d                    => '\xff\x0fU'
        # The destination may be a source.
        BITOP NOT a a            => :3
        GET a                    => '\x00\xf0\xaa'
        # It loses its deadline, and is deleted when there is nothing.
        SET d x EX 100           => +OK
        BITOP OR d b             => :2
        TTL d                    => :-1
        BITOP OR d none nothing  => :0
        EXISTS d                 => :0
        BITOP NOT d none         => :0
        SET e ''                 => +OK
        BITOP NOT d e            => :0
        EXISTS d                 => :0
        INCRBY n 12              => :12
        BITOP NOT d n            => :2
        BITOP NOT d d            => :2
        GET d                    => '12'

        BITOP NOT d a b          => -ERR BITOP NOT must be called with a single source key.
        BITOP FOO d a            => -ERR syntax error
        BITOP AND d              => -ERR wrong number of arguments for 'bitop' command
        ",
    );
    // Of Redis 8.2.
    script(
        &server,
        &mut c,
        r"
        SET x '\xf0\xff\x0f'     => +OK
        SET y '\x3c\x0f'         => +OK
        SET z '\x18\xf0\x00\x81' => +OK
        dolmen> BITOP DIFF d x y z      => :4
        dolmen> GET d                   => '\xc0\x00\x0f\x00'
        dolmen> BITOP diff1 d x y z     => :4
        dolmen> GET d                   => '\x0c\x00\x00\x81'
        dolmen> BITOP ANDOR d x y z     => :4
        dolmen> GET d                   => '0\xff\x00\x00'
        dolmen> BITOP ONE d x y z       => :4
        dolmen> GET d                   => '\xc4\x00\x0f\x81'
        dolmen> BITOP ONE d x           => :3
        dolmen> GET d                   => '\xf0\xff\x0f'
        dolmen> BITOP ONE d x x x       => :3
        dolmen> GET d                   => '\x00\x00\x00'
        dolmen> BITOP DIFF d none y     => :2
        dolmen> GET d                   => '\x00\x00'
        dolmen> BITOP DIFF d y none     => :2
        dolmen> GET d                   => '<\x0f'
        dolmen> BITOP DIFF1 d none y    => :2
        dolmen> GET d                   => '<\x0f'
        dolmen> BITOP ANDOR d none y    => :2
        dolmen> GET d                   => '\x00\x00'
        dolmen> BITOP ONE d none none   => :0
        dolmen> EXISTS d                => :0
        dolmen> BITOP DIFF d x          => -ERR BITOP DIFF must be called with at least two source keys.
        dolmen> BITOP diff1 d x         => -ERR BITOP DIFF1 must be called with at least two source keys.
        dolmen> BITOP ANDOR d x         => -ERR BITOP ANDOR must be called with at least two source keys.
        GET x                    => '\xf0\xff\x0f'
        ",
    );
}

#[test]
fn bitfield() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        BITFIELD k                                   => []
        BITFIELD_RO k                                => []
        BITFIELD k GET u8 0 GET i64 100              => [:0, :0]
        EXISTS k                                     => :0
        BITFIELD k SET i8 0 -1 SET u4 8 5            => [:0, :0]
        GET k                                        => '\xffP'
        BITFIELD k GET i8 0 GET u8 0 GET u3 7 get U4 8 => -ERR Invalid bitfield type
        BITFIELD k GET i8 0 GET u8 0 GET u3 7 get u4 8 => [:-1, :255, :5, :5]
        BITFIELD k INCRBY i5 100 1 GET u4 0          => [:1, :15]
        STRLEN k                                     => :14
        BITFIELD k SET u63 3 9223372036854775807 GET u63 3 GET i64 3 GET i64 2 => [:9025213653250473984, :9223372036854775807, :-2, :-1]
        # n-th fields.
        BITFIELD f SET u8 #0 1 SET u8 #3 4 SET i12 #1 -7 => [:0, :0, :0]
        GET f                                        => '\x01\x0f\xf9\x04'
        BITFIELD f GET i12 #1 GET u8 #3              => [:-7, :4]
        # Beyond the end there are zeros; GET does not grow.
        BITFIELD f GET u16 24 GET u16 28 GET u16 1000 => [:1024, :16384, :0]
        STRLEN f                                     => :4

        # Numbers are text; the deadline stays.
        SET n 12 EX 100                              => +OK
        INCR n                                       => :13
        BITFIELD n GET u8 8                          => [:51]
        BITFIELD n INCRBY u8 8 2 GET u8 0            => [:53, :49]
        GET n                                        => '15'
        TTL n                                        => :99..100
        ",
    );
    // What a field cannot hold.
    script(
        &server,
        &mut c,
        r"
        BITFIELD w INCRBY u8 0 255 INCRBY u8 0 1     => [:255, :0]
        BITFIELD w INCRBY u8 0 -1 INCRBY i8 8 127 INCRBY i8 8 1 INCRBY i8 8 -1 => [:255, :127, :-128, :127]
        BITFIELD w SET u8 0 256 SET u8 0 -1 GET u8 0 SET i8 0 200 GET i8 0 => [:255, :0, :255, :-1, :-56]
        BITFIELD s OVERFLOW SAT INCRBY u8 0 300 INCRBY u8 0 -400 SET u8 0 -1 GET u8 0 SET u8 0 999 GET u8 0 => [:255, :0, :0, :255, :255, :255]
        BITFIELD s OVERFLOW SAT INCRBY i8 8 300 INCRBY i8 8 -400 SET i8 8 500 GET i8 8 SET i8 8 -500 GET i8 8 => [:127, :-128, :-128, :127, :127, :-128]
        BITFIELD x OVERFLOW FAIL INCRBY u8 0 300 SET u8 0 256 INCRBY u8 0 -1 GET u8 0 SET u8 0 255 INCRBY u8 0 1 => [nil, nil, nil, :0, :0, nil]
        # It holds for what follows.
        BITFIELD y SET u2 0 5 OVERFLOW FAIL SET u2 2 5 OVERFLOW SAT SET u2 4 5 OVERFLOW WRAP SET u2 6 6 => [:0, nil, :0, :0]
        GET y                                        => 'N'
        # A string grows even if nothing is written to it then.
        BITFIELD z OVERFLOW FAIL INCRBY u8 16 300    => [nil]
        GET z                                        => '\x00\x00\x00'
        # Redis 7 gives 127 here, as its arithmetic overflows; the documentation says the least number.
        dolmen> BITFIELD q OVERFLOW SAT SET i8 0 -9223372036854775808 GET i8 0 => [:0, :-128]
        # Redis 7 wraps around at 2^64, and means the first field.
        dolmen> BITFIELD q GET u4 #4611686018427387904 => -ERR bit offset is not an integer or out of range
        ",
    );
    script(
        &server,
        &mut c,
        r"
        BITFIELD k GET u64 0         => -ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        BITFIELD k GET i65 0         => -ERR Invalid bitfield type.
        BITFIELD k GET u0 0          => -ERR Invalid bitfield type.
        BITFIELD k GET u08 0         => -ERR Invalid bitfield type.
        BITFIELD k GET 8 0           => -ERR Invalid bitfield type.
        BITFIELD k GET '' 0          => -ERR Invalid bitfield type.
        BITFIELD k GET u8 -1         => -ERR bit offset is not an integer or out of range
        BITFIELD k GET u8 x          => -ERR bit offset is not an integer or out of range
        BITFIELD k GET u8 #          => -ERR bit offset is not an integer or out of range
        BITFIELD k GET u8 #-1        => -ERR bit offset is not an integer or out of range
        BITFIELD k GET u8 4294967296 => -ERR bit offset is not an integer or out of range
        BITFIELD k GET u8 #536870912 => -ERR bit offset is not an integer or out of range
        BITFIELD k SET u8 0          => -ERR syntax error
        BITFIELD k SET u8 0 x        => -ERR value is not an integer or out of range
        BITFIELD k INCRBY u8 0 ''    => -ERR value is not an integer or out of range
        BITFIELD k GET u8            => -ERR syntax error
        BITFIELD k FOO u8 0          => -ERR syntax error
        BITFIELD k OVERFLOW          => -ERR syntax error
        BITFIELD k OVERFLOW FOO      => -ERR Invalid OVERFLOW type specified
        BITFIELD nope SET u8 0 1 GET u8 => -ERR syntax error
        EXISTS nope                  => :0
        BITFIELD_RO k SET u8 0 1     => -ERR BITFIELD_RO only supports the GET subcommand
        BITFIELD_RO k GET u8 0 INCRBY u8 0 1 => -ERR BITFIELD_RO only supports the GET subcommand
        BITFIELD_RO k SET u8 0       => -ERR syntax error
        BITFIELD_RO k OVERFLOW SAT GET u8 0 => [:255]
        BITFIELD                     => -ERR wrong number of arguments for 'bitfield' command
        ",
    );
    let mut c3 = server.client3();
    script(
        &server,
        &mut c3,
        r"
        BITFIELD x OVERFLOW FAIL INCRBY u8 0 300 GET u8 0 => [null, :255]
        BITCOUNT x                                        => :8
    ",
    );
}

/// A string of so many bytes, and its copy here.
fn fill(c: &mut Client, key: &str, len: usize, seed: u64) -> Vec<u8> {
    let mut word = seed | 1;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()
    })
    .take(len.div_ceil(8))
    .flatten()
    .take(len)
    .collect();
    assert_eq!(c.call(&[b"SET", key.as_bytes(), &bytes]), Reply::Simple("OK".into()));
    bytes
}

/// Strings of all sizes at which they are kept or worked on in another way.
#[test]
fn large_strings_are_combined_like_small_ones() {
    let server = Server::start();
    let mut c = server.client();
    let lens = [1, 100, 16_000, 16_400, 65_536, 65_537, 262_144, 262_145, 1_500_000];
    let sources: Vec<Vec<u8>> =
        lens.iter().zip(1..).map(|(&len, seed)| fill(&mut c, &format!("s{len}"), len, seed)).collect();
    let byte = |source: &Vec<u8>, at: usize| source.get(at).copied().unwrap_or(0);
    for (i, a) in sources.iter().enumerate() {
        for (j, b) in sources.iter().enumerate().filter(|(j, _)| (i + j).is_multiple_of(3)) {
            let len = a.len().max(b.len());
            let combine = |f: fn(u8, u8) -> u8| (0..len).map(|at| f(byte(a, at), byte(b, at))).collect::<Vec<u8>>();
            let (x, y) = (format!("s{}", lens[i]), format!("s{}", lens[j]));
            for (name, want) in [("AND", combine(|a, b| a & b)), ("XOR", combine(|a, b| a ^ b))] {
                assert_eq!(c.call(&["BITOP", name, "d", &x, &y]), Reply::Int(i64::try_from(len).unwrap()));
                assert!(c.run("GET d").bytes() == want, "{name} {x} {y}");
            }
        }
        let count: u32 = a.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(c.call(&["BITCOUNT", &format!("s{}", a.len())]), Reply::Int(count.into()));
        assert_eq!(c.call(&["BITOP", "NOT", "d", &format!("s{}", a.len())]).int(), i64::try_from(a.len()).unwrap());
        assert!(c.run("GET d").bytes().iter().zip(a).all(|(not, byte)| *not == !byte));
    }
    // A part from the middle of the largest, over the ends of its segments.
    let largest = &sources[8];
    let count: u32 = largest[200_000..600_000].iter().map(|byte| byte.count_ones()).sum();
    assert_eq!(c.run("BITCOUNT s1500000 200000 599999"), Reply::Int(count.into()));
    assert_eq!(c.run("BITCOUNT s1500000 1600000 4799999 BIT"), Reply::Int(count.into()));
    server.assert_alive();
}

/// A bit at the end of half a gigabyte: at once, for little memory, and everything else knows of the zeros.
#[test]
fn half_a_gigabyte_of_zeros() {
    let server = Server::start();
    let mut c = server.client();
    let used = c.info_number("used_memory");
    script(
        &server,
        &mut c,
        r"
        SET k head                   => +OK
        SETBIT k 4294967295 1        => :0
        STRLEN k                     => :536870912
        GETBIT k 4294967295          => :1
        GETBIT k 2000000000          => :0
        SETBIT k 2000000000 1        => :0
        BITFIELD k GET u8 2000000000 INCRBY u16 3000000000 1 GET i32 2999999990 => [:128, :1, :64]
        BITCOUNT k 0 2000000         => :13
        BITCOUNT k 249000000 251000000 => :1
        BITCOUNT k -2000000 -1       => :1
        BITPOS k 1 249000000         => :2000000000
        BITPOS k 1 374000000         => :3000000015
        BITPOS k 0 -1                => :4294967288
        BITPOS k 1 4290000000 -2 BIT => :-1
        BITFIELD k SET i64 4294967295 -1 => [:-9223372036854775808]
        STRLEN k                     => :536870920
        ",
    );
    if heavy() {
        // Hundreds of megabytes are not for a server without optimisation.
        c.expect("BITCOUNT k", ":79");
        c.expect("BITPOS k 1 250000001", ":3000000015");
    }
    if !server.is_redis() {
        let grown = c.info_number("used_memory") - used;
        assert!(grown < 4 << 20, "{grown} bytes for what is mostly zeros");
        assert!(server.resident_bytes() < 64 << 20);
    }
    c.expect("DEL k", ":1");
}

/// Changes of BITFIELD, as Redis counts them: each number that is written to a string that grows, else each that differs.
#[test]
fn changes_of_fields_are_counted() {
    let server = Server::start();
    let mut c = server.client();
    for (command, changes) in [
        ("BITFIELD f SET i5 0 0", 1),
        ("BITFIELD f SET i5 0 0", 0),
        ("BITFIELD f SET i5 0 1 SET i5 0 1", 1),
        ("BITFIELD g INCRBY i5 0 1", 1),
        ("BITFIELD g INCRBY i5 0 1 INCRBY i5 0 1", 2),
        ("BITFIELD h SET u8 0 0 SET u8 8 0 GET u8 0", 2),
        ("BITFIELD f SET i5 90 0", 1),
    ] {
        let before = c.info_number("rdb_changes_since_last_save");
        assert!(!c.run(command).is_error());
        assert_eq!(c.info_number("rdb_changes_since_last_save") - before, changes, "{command}");
    }
}
