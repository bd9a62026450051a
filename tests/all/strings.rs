//! SET GET SETNX SETEX PSETEX GETSET GETDEL MSET MGET STRLEN APPEND, INCR DECR INCRBY DECRBY.

use crate::harness::{Reply, Server, eventually, script};

#[test]
fn set_and_get() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        GET none                 => nil
        SET k v                  => +OK
        GET k                    => 'v'
        set k V                  => +OK
        get k                    => 'V'
        SET k ''                 => +OK
        GET k                    => ''
        SET '' empty             => +OK
        GET ''                   => 'empty'
        SET 'a\x00\r\nb' '\xff\x00\r\n$1'  => +OK
        GET 'a\x00\r\nb'         => '\xff\x00\r\n$1'
        GET                      => -ERR wrong number of arguments for 'get' command
        GET a b                  => -ERR wrong number of arguments for 'get' command
        SET                      => -ERR wrong number of arguments for 'set' command
        SET k                    => -ERR wrong number of arguments for 'set' command
        SET k v NOSUCH           => -ERR syntax error
        SET k v ''               => -ERR syntax error
        GET k                    => ''
        ",
    );
}

#[test]
fn set_nx_xx_get() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SET k 1 XX               => nil
        EXISTS k                 => :0
        SET k 1 NX               => +OK
        SET k 2 NX               => nil
        GET k                    => '1'
        SET k 2 xx               => +OK
        GET k                    => '2'
        SET k 3 NX XX            => -ERR syntax error
        SET k 3 XX NX            => -ERR syntax error
        # A repeated option is no error.
        SET k 3 XX XX            => +OK

        SET k 4 GET              => '3'
        SET new 1 GET            => nil
        GET new                  => '1'
        # Since 7.0 NX and GET go together: the old value, and nothing stored when there was one.
        SET k 5 NX GET           => '4'
        GET k                    => '4'
        SET fresh 1 NX GET       => nil
        GET fresh                => '1'
        SET k 5 XX GET           => '4'
        SET none 1 XX GET        => nil
        EXISTS none              => :0
        SET k 6 GET NX XX        => -ERR syntax error
        GET k                    => '5'
        ",
    );
    let mut c3 = server.client3();
    script(
        &server,
        &mut c3,
        r"
        SET k 6 NX               => null
        SET k 6 GET              => '5'
        SET none 1 XX GET        => null
        ",
    );
}

#[test]
fn set_with_a_deadline() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SET k v EX 100           => +OK
        TTL k                    => :99..100
        SET k v px 100000        => +OK
        PTTL k                   => :90000..100000
        SET k v EXAT 33177117420 => +OK
        EXPIRETIME k             => :33177117420
        SET k v PXAT 33177117420123 => +OK
        PEXPIRETIME k            => :33177117420123

        # KEEPTTL keeps, a plain SET clears.
        SET k w KEEPTTL          => +OK
        PEXPIRETIME k            => :33177117420123
        GET k                    => 'w'
        SET k w KEEPTTL XX GET   => 'w'
        PEXPIRETIME k            => :33177117420123
        SET k w                  => +OK
        TTL k                    => :-1
        SET k w KEEPTTL          => +OK
        TTL k                    => :-1

        # Options in any order.
        SET k x GET EX 100 XX    => 'w'
        TTL k                    => :99..100

        # A failed condition leaves the deadline alone.
        SET k y NX EX 5          => nil
        TTL k                    => :99..100

        SET k v EX               => -ERR syntax error
        SET k v PX               => -ERR syntax error
        SET k v EX 1 PX 1        => -ERR syntax error
        SET k v EX 1 KEEPTTL     => -ERR syntax error
        SET k v KEEPTTL PXAT 1   => -ERR syntax error
        SET k v EXAT 1 PXAT 1    => -ERR syntax error
        SET k v EX abc           => -ERR value is not an integer or out of range
        SET k v EX ''            => -ERR value is not an integer or out of range
        SET k v EX 1.5           => -ERR value is not an integer or out of range
        SET k v EX ' 1'          => -ERR value is not an integer or out of range
        SET k v PX 9223372036854775808   => -ERR value is not an integer or out of range
        SET k v EX 0             => -ERR invalid expire time in 'set' command
        SET k v EX -1            => -ERR invalid expire time in 'set' command
        SET k v PX 0             => -ERR invalid expire time in 'set' command
        SET k v EXAT 0           => -ERR invalid expire time in 'set' command
        SET k v PXAT -5          => -ERR invalid expire time in 'set' command
        SET k v EX 9223372036854775807   => -ERR invalid expire time in 'set' command
        SET k v EX 9223372036854776      => -ERR invalid expire time in 'set' command
        SET k v PX 9223372036854775807   => -ERR invalid expire time in 'set' command
        SET k v EXAT 9223372036854775807 => -ERR invalid expire time in 'set' command
        # None of them has stored anything.
        GET k                    => 'x'
        TTL k                    => :99..100

        # The same option again is allowed: the last one counts.
        SET k v EX 1 EX 100      => +OK
        TTL k                    => :99..100

        # A deadline in the past: the key is gone at once.
        SET k v EXAT 1           => +OK
        EXISTS k                 => :0
        SET k v PXAT 1           => +OK
        GET k                    => nil
        ",
    );
    c.expect("SET short v PX 20", "+OK");
    eventually("the deadline passes", || c.run("GET short") == Reply::NilBulk);
    c.expect("EXISTS short", ":0");
}

#[test]
fn setnx_setex_psetex() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SETNX k 1            => :1
        SETNX k 2            => :0
        GET k                => '1'
        SETNX k              => -ERR wrong number of arguments for 'setnx' command
        SETNX k 1 2          => -ERR wrong number of arguments for 'setnx' command

        SETEX k 100 v        => +OK
        GET k                => 'v'
        TTL k                => :99..100
        SETEX k 0 w          => -ERR invalid expire time in 'setex' command
        SETEX k -1 w         => -ERR invalid expire time in 'setex' command
        SETEX k abc w        => -ERR value is not an integer or out of range
        SETEX k 9223372036854775807 w => -ERR invalid expire time in 'setex' command
        SETEX k 100          => -ERR wrong number of arguments for 'setex' command
        SETEX k 100 v NX     => -ERR wrong number of arguments for 'setex' command
        GET k                => 'v'

        PSETEX k 100000 v    => +OK
        PTTL k               => :90000..100000
        PSETEX k 0 w         => -ERR invalid expire time in 'psetex' command
        PSETEX k -1 w        => -ERR invalid expire time in 'psetex' command
        PSETEX k abc w       => -ERR value is not an integer or out of range
        PSETEX k 9223372036854775807 w => -ERR invalid expire time in 'psetex' command
        PSETEX k 100         => -ERR wrong number of arguments for 'psetex' command
        GET k                => 'v'
        ",
    );
}

#[test]
fn getset_getdel() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        GETSET k 1           => nil
        GETSET k 2           => '1'
        GET k                => '2'
        EXPIRE k 100         => :1
        GETSET k 3           => '2'
        TTL k                => :-1
        GETSET k             => -ERR wrong number of arguments for 'getset' command
        GETSET k 1 2         => -ERR wrong number of arguments for 'getset' command

        GETDEL none          => nil
        GETDEL k             => '3'
        EXISTS k             => :0
        GETDEL k             => nil
        GETDEL               => -ERR wrong number of arguments for 'getdel' command
        GETDEL a b           => -ERR wrong number of arguments for 'getdel' command
        SET n 12345          => +OK
        GETDEL n             => '12345'
        DBSIZE               => :0
        ",
    );
}

#[test]
fn mset_mget() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        MSET a 1 b two 'c c' ''  => +OK
        MGET a b 'c c' none a    => ['1', 'two', '', nil, '1']
        MGET none                => [nil]
        # The last one wins.
        MSET a 1 a 2 a 3         => +OK
        GET a                    => '3'
        EXPIRE a 100             => :1
        MSET a 4                 => +OK
        TTL a                    => :-1
        MSET                     => -ERR wrong number of arguments for 'mset' command
        MSET a                   => -ERR wrong number of arguments for 'mset' command
        MSET a 1 b               => -ERR wrong number of arguments for 'mset' command
        MGET                     => -ERR wrong number of arguments for 'mget' command
        GET a                    => '4'
        ",
    );
    server.client3().expect("MGET a none", "['4', null]");

    // Many keys of very different sizes, through one request and one reply.
    let value = |i: usize| vec![b'a' + u8::try_from(i % 26).expect("a letter"); (i * i) % 5000];
    let mut set = vec![b"MSET".to_vec()];
    let mut get = vec![b"MGET".to_vec()];
    for i in 0..2000 {
        let key = format!("many:{i}").into_bytes();
        set.extend([key.clone(), value(i)]);
        get.push(key);
    }
    assert_eq!(c.call(&set), Reply::Simple("OK".into()));
    let reply = c.call(&get);
    for (i, got) in reply.items().iter().enumerate() {
        assert_eq!(got.bytes(), value(i), "many:{i}");
    }
}

#[test]
fn append_strlen() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        STRLEN none          => :0
        APPEND k ''          => :0
        # Appending nothing to nothing makes an empty string.
        EXISTS k             => :1
        APPEND k hello       => :5
        APPEND k ' world'    => :11
        GET k                => 'hello world'
        STRLEN k             => :11
        SET n 123            => +OK
        STRLEN n             => :3
        SET n -1             => +OK
        STRLEN n             => :2
        SET n 9223372036854775807  => +OK
        STRLEN n             => :19
        APPEND n 0           => :20
        GET n                => '92233720368547758070'
        EXPIRE k 100         => :1
        APPEND k !           => :12
        TTL k                => :99..100
        APPEND k             => -ERR wrong number of arguments for 'append' command
        APPEND k a b         => -ERR wrong number of arguments for 'append' command
        STRLEN               => -ERR wrong number of arguments for 'strlen' command
        STRLEN a b           => -ERR wrong number of arguments for 'strlen' command
        ",
    );
    // Through every size at which a representation may change.
    let mut model = Vec::new();
    for i in 0..400_usize {
        let piece = vec![b'a' + u8::try_from(i % 26).expect("a letter"); i % 300];
        model.extend(&piece);
        let length = i64::try_from(model.len()).expect("a length");
        assert_eq!(c.call(&[b"APPEND", b"grow".as_slice(), &piece]), Reply::Int(length));
        assert_eq!(c.run("STRLEN grow"), Reply::Int(length));
        if i % 37 == 0 {
            assert_eq!(c.run("GET grow").bytes(), model);
        }
    }
    assert_eq!(c.run("GET grow").bytes(), model);
}

#[test]
fn proto_max_bulk_len() {
    let server = Server::with(&["--proto-max-bulk-len", "1mb"]);
    let mut c = server.client();
    let (half, rest) = (vec![b'x'; 600 * 1024], vec![b'y'; 424 * 1024]);
    assert_eq!(c.call(&[b"APPEND", b"k".as_slice(), &half]), Reply::Int(614_400));
    let Reply::Error(text) = c.call(&[b"APPEND", b"k".as_slice(), &half]) else { panic!("an error") };
    assert!(text.starts_with("ERR string exceeds maximum allowed size"), "{text}");
    c.expect("STRLEN k", ":614400");
    // Exactly the limit is allowed.
    assert_eq!(c.call(&[b"APPEND", b"k".as_slice(), &rest]), Reply::Int(1 << 20));
    let Reply::Error(_) = c.run("APPEND k z") else { panic!("an error") };

    let mut c = server.client();
    c.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n");
    assert_eq!(c.read(), Reply::Error("ERR Protocol error: invalid bulk length".into()));
    c.expect_closed();
    server.assert_alive();
}

#[test]
fn incr_decr() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        INCR n                        => :1
        INCR n                        => :2
        DECR n                        => :1
        DECR m                        => :-1
        INCRBY n 41                   => :42
        DECRBY n 40                   => :2
        INCRBY n -3                   => :-1
        DECRBY n -3                   => :2
        INCRBY n 0                    => :2
        GET n                         => '2'
        INCRBY new 5                  => :5
        DECRBY other 5                => :-5

        SET n 9223372036854775806     => +OK
        INCR n                        => :9223372036854775807
        INCR n                        => -ERR increment or decrement would overflow
        INCRBY n 1                    => -ERR increment or decrement would overflow
        DECRBY n -1                   => -ERR increment or decrement would overflow
        GET n                         => '9223372036854775807'
        DECRBY n 9223372036854775807  => :0
        INCRBY n -9223372036854775808 => :-9223372036854775808
        DECR n                        => -ERR increment or decrement would overflow
        INCRBY n -1                   => -ERR increment or decrement would overflow
        DECRBY n 1                    => -ERR increment or decrement would overflow
        DECRBY n -9223372036854775808 => -ERR decrement would overflow
        GET n                         => '-9223372036854775808'

        INCRBY n abc                  => -ERR value is not an integer or out of range
        INCRBY n ''                   => -ERR value is not an integer or out of range
        INCRBY n 1.0                  => -ERR value is not an integer or out of range
        INCRBY n +1                   => -ERR value is not an integer or out of range
        INCRBY n 01                   => -ERR value is not an integer or out of range
        INCRBY n ' 1'                 => -ERR value is not an integer or out of range
        INCRBY n '1 '                 => -ERR value is not an integer or out of range
        INCRBY n -0                   => -ERR value is not an integer or out of range
        INCRBY n 9223372036854775808  => -ERR value is not an integer or out of range
        DECRBY n abc                  => -ERR value is not an integer or out of range
        INCR                          => -ERR wrong number of arguments for 'incr' command
        INCR a b                      => -ERR wrong number of arguments for 'incr' command
        DECR                          => -ERR wrong number of arguments for 'decr' command
        INCRBY n                      => -ERR wrong number of arguments for 'incrby' command
        INCRBY n 1 2                  => -ERR wrong number of arguments for 'incrby' command
        DECRBY n                      => -ERR wrong number of arguments for 'decrby' command

        SET s abc                     => +OK
        INCR s                        => -ERR value is not an integer or out of range
        SET s ''                      => +OK
        DECR s                        => -ERR value is not an integer or out of range
        SET s '1\n'                   => +OK
        INCR s                        => -ERR value is not an integer or out of range
        SET s '1\x00'                 => +OK
        INCR s                        => -ERR value is not an integer or out of range
        SET s -                       => +OK
        INCR s                        => -ERR value is not an integer or out of range
        SET s 9223372036854775808     => +OK
        INCR s                        => -ERR value is not an integer or out of range
        GET s                         => '9223372036854775808'

        # The deadline stays.
        SET t 1 EX 100                => +OK
        INCR t                        => :2
        TTL t                         => :99..100
        ",
    );
}

#[test]
fn a_number_keeps_its_text() {
    let server = Server::start();
    let mut c = server.client();
    // Whatever the representation, what was stored comes back, byte by byte.
    for text in
        ["0", "-0", "00", "+1", "-1", "1.0", "1e3", "0x1", " 1", "1 ", "9223372036854775807", "-9223372036854775808"]
    {
        assert_eq!(c.call(&["SET", "k", text]), Reply::Simple("OK".into()));
        assert_eq!(c.run("GET k"), Reply::bulk(text));
        assert_eq!(c.run("STRLEN k"), Reply::Int(i64::try_from(text.len()).expect("a length")));
        assert_eq!(c.run("GETSET k x"), Reply::bulk(text));
    }
}

#[test]
fn values_of_every_size() {
    let server = Server::start();
    let mut c = server.client();
    // Around every power of two up to 4 MB, so on both sides of every limit of a class, of inline values, blobs and extents.
    let sizes = (0..=22).flat_map(|bits| [(1_usize << bits) - 1, 1 << bits, (1 << bits) + 1]).chain(200..330);
    for size in sizes {
        let value: Vec<u8> = (0..size).map(|i| u8::try_from((i * 7 + size) % 251).expect("a byte")).collect();
        assert_eq!(c.call(&[b"SET", b"k".as_slice(), &value]), Reply::Simple("OK".into()), "{size}");
        assert_eq!(c.run("STRLEN k"), Reply::Int(i64::try_from(size).expect("a length")));
        assert!(c.run("GET k").bytes() == value, "the value of {size} bytes comes back");
        // The same as a key.
        if size <= 100_000 {
            assert_eq!(c.call(&[b"SET", value.as_slice(), b"v"]), Reply::Simple("OK".into()), "{size}");
            assert_eq!(c.call(&[b"GETDEL", value.as_slice()]), Reply::bulk("v"), "{size}");
        }
    }
    c.expect("DBSIZE", ":1");
}
