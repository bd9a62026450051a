//! RENAME RENAMENX MOVE COPY SWAPDB TOUCH OBJECT.

use crate::harness::{Reply, Server, eventually, request, script};

#[test]
fn rename_and_renamenx() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        RENAME a b              => -ERR no such key
        RENAME a a              => -ERR no such key
        RENAMENX a b            => -ERR no such key
        RENAMENX a a            => -ERR no such key
        RENAME a                => -ERR wrong number of arguments for 'rename' command
        RENAMENX a b c          => -ERR wrong number of arguments for 'renamenx' command
        SET a 1                 => +OK
        RENAME a a              => +OK
        RENAMENX a a            => :0
        RENAME a b              => +OK
        EXISTS a                => :0
        GET b                   => '1'
        INCR b                  => :2
        SET c other EX 1000     => +OK
        RENAMENX b c            => :0
        MGET b c                => ['2', 'other']
        # A deadline goes along; that of what is overwritten does not stay.
        RENAME b c              => +OK
        TTL c                   => :-1
        GET c                   => '2'
        EXPIRE c 500            => :1
        SET d v                 => +OK
        RENAME c d              => +OK
        TTL d                   => :499..500
        RENAMENX d '\x00\r\n'   => :1
        TTL '\x00\r\n'          => :499..500
        RENAME '\x00\r\n' ''    => +OK
        GET ''                  => '2'
        DBSIZE                  => :1
        PERSIST ''              => :1
        ",
    );
    assert!(c.info("db0").starts_with("keys=1,expires=0"));
}

#[test]
fn rename_of_large_keys_and_values() {
    let server = Server::start();
    let mut c = server.client();
    let ok = Reply::Simple("OK".into());
    let long = |byte: u8| vec![byte; 100_000];
    for size in [0, 1, 16_000, 16_500, 300_000, 3_000_000] {
        let value: Vec<u8> = (0..size).map(|i: u32| i.to_le_bytes()[i as usize % 3]).collect();
        assert_eq!(c.call(&[&b"SET"[..], b"k", &value, b"PX", b"500000"]), ok);
        for (from, to) in
            [(&b"k"[..], &long(b'a')[..]), (&long(b'a'), &long(b'b')), (&long(b'b'), b"short"), (b"short", b"k")]
        {
            assert_eq!(c.call(&[&b"RENAME"[..], from, to]), ok);
            assert_eq!(c.call(&[&b"GET"[..], to]), Reply::Bulk(value.clone()));
            assert_eq!(c.call(&[&b"EXISTS"[..], from]), Reply::Int(0));
        }
        assert!((490_000..=500_000).contains(&c.run("PTTL k").int()));
        assert_eq!(c.call(&[&b"COPY"[..], b"k", &long(b'c'), b"REPLACE"]), Reply::Int(1));
        assert_eq!(c.call(&[&b"GET"[..], &long(b'c')]), Reply::Bulk(value.clone()));
        c.expect("APPEND k tail", &format!(":{}", size + 4));
        assert_eq!(c.call(&[&b"GET"[..], &long(b'c')]), Reply::Bulk(value), "the copy is another value");
    }
    c.expect("FLUSHALL SYNC", "+OK");
}

#[test]
fn move_between_databases() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        MOVE k 1           => :0
        MOVE k             => -ERR wrong number of arguments for 'move' command
        MOVE k 0           => -ERR source and destination objects are the same
        MOVE k 16          => -ERR DB index is out of range
        MOVE k -1          => -ERR DB index is out of range
        MOVE k x           => -ERR value is not an integer or out of range
        MOVE k 3000000000  => -ERR value is out of range
        SET k v EX 700     => +OK
        MOVE k 1           => :1
        EXISTS k           => :0
        MOVE k 1           => :0
        SET k w            => +OK
        MOVE k 1           => :0
        GET k              => 'w'
        SELECT 1           => +OK
        GET k              => 'v'
        TTL k              => :699..700
        MOVE k 0           => :0
        SELECT 0           => +OK
        DEL k              => :1
        SELECT 1           => +OK
        MOVE k 0           => :1
        DBSIZE             => :0
        SELECT 0           => +OK
        TTL k              => :699..700
        # What has expired over there is not in the way.
        PEXPIRE k 1        => :1
        SELECT 1           => +OK
        SET k new          => +OK
        ",
    );
    eventually("the key in the other database expires", || c.run("MOVE k 0").int() == 1);
    c.expect("SELECT 0", "+OK");
    c.expect("GET k", "'new'");
    c.expect("TTL k", ":-1");
    // A deadline that was moved fires where the key is now.
    let replies = c.pipeline(&["PEXPIRE k 300", "MOVE k 1"]);
    assert_eq!(replies, [Reply::Int(1), Reply::Int(1)]);
    eventually("it expires", || c.run("INFO keyspace").text().lines().all(|line| !line.starts_with("db")));
}

#[test]
fn copy() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        COPY a b                    => :0
        COPY a a                    => -ERR source and destination objects are the same
        COPY a a DB 0               => -ERR source and destination objects are the same
        COPY a                      => -ERR wrong number of arguments for 'copy' command
        COPY a b NOSUCH             => -ERR syntax error
        COPY a b DB                 => -ERR syntax error
        COPY a b DB x               => -ERR value is not an integer or out of range
        COPY a b DB 16              => -ERR DB index is out of range
        COPY a b DB 1 DB 99         => -ERR DB index is out of range
        COPY a b replace db 3000000000 => -ERR value is out of range
        SET a 1 EX 300              => +OK
        COPY a b                    => :1
        INCR b                      => :2
        MGET a b                    => ['1', '2']
        TTL b                       => :299..300
        COPY a b                    => :0
        GET b                       => '2'
        SET a new                   => +OK
        COPY a b REPLACE            => :1
        GET b                       => 'new'
        TTL b                       => :-1
        COPY nosuch b REPLACE       => :0
        GET b                       => 'new'
        COPY a a DB 2               => :1
        COPY a a db 2 Replace       => :1
        COPY a a DB 2               => :0
        COPY a x DB 2 DB 3          => :1
        SELECT 2                    => +OK
        KEYS *                      => ['a']
        GET a                       => 'new'
        SELECT 3                    => +OK
        GET x                       => 'new'
        ",
    );
}

#[test]
fn swapdb() {
    let server = Server::start();
    let (mut c, mut other) = (server.client(), server.client());
    script(
        &server,
        &mut c,
        r"
        SWAPDB 0              => -ERR wrong number of arguments for 'swapdb' command
        SWAPDB x 1            => -ERR invalid first DB index
        SWAPDB 1 x            => -ERR invalid second DB index
        SWAPDB 0 16           => -ERR DB index is out of range
        SWAPDB -1 0           => -ERR DB index is out of range
        SWAPDB 3000000000 0   => -ERR invalid first DB index
        SWAPDB 16 3000000000  => -ERR invalid second DB index
        SET k zero EX 900     => +OK
        SELECT 9              => +OK
        SET k nine            => +OK
        SET only nine         => +OK
        SWAPDB 0 9            => +OK
        GET k                 => 'zero'
        TTL k                 => :899..900
        DBSIZE                => :1
        SWAPDB 9 9            => +OK
        GET k                 => 'zero'
        ",
    );
    other.expect("MGET k only", "['nine', 'nine']");
    // Within one pipeline, whose keys are found out ahead.
    let replies = other.pipeline(&[
        "GET k",
        "SWAPDB 9 0",
        "GET k",
        "SET k 1",
        "SWAPDB 0 9",
        "GET k",
        "SWAPDB 0 5",
        "EXISTS k only",
        "SET k 5",
    ]);
    let shown: Vec<String> = replies.iter().map(Reply::to_string).collect();
    assert_eq!(shown, ["'nine'", "+OK", "'zero'", "+OK", "+OK", "'nine'", "+OK", ":0", "+OK"]);
    // Deadlines fire in the database where the keys are now.
    c.expect("FLUSHALL", "+OK");
    c.expect("SELECT 0", "+OK");
    let ok = || Reply::Simple("OK".into());
    assert_eq!(c.pipeline(&["SET k v PX 300", "SWAPDB 0 12"]), [ok(), ok()]);
    eventually("it expires", || c.run("INFO keyspace").text().lines().all(|line| !line.starts_with("db")));
}

#[test]
fn touch() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        TOUCH            => -ERR wrong number of arguments for 'touch' command
        TOUCH a          => :0
        MSET a 1 b 2     => +OK
        TOUCH a b c a    => :3
        ",
    );
}

#[test]
fn object_encoding_and_refcount() {
    let server = Server::start();
    for mut c in [server.client(), server.client3()] {
        c.expect("FLUSHALL", "+OK");
        let missing = if c.run("GET nosuch") == Reply::Null { "null" } else { "nil" };
        for sub in ["ENCODING", "refcount", "IdleTime", "FREQ"] {
            c.expect(&format!("OBJECT {sub} nosuch"), missing);
        }
        script(
            &server,
            &mut c,
            r"
            OBJECT                   => -ERR wrong number of arguments for 'object' command
            OBJECT NOSUCH k          => -ERR unknown subcommand 'NOSUCH'. Try OBJECT HELP.
            OBJECT ENCODING          => -ERR wrong number of arguments for 'object|encoding' command
            OBJECT ENCODING k k      => -ERR wrong number of arguments for 'object|encoding' command
            SET k v                  => +OK
            OBJECT FREQ k            => -ERR An LFU maxmemory policy is not selected, access frequency not tracked.
            OBJECT REFCOUNT k        => :1
            OBJECT ENCODING k        => 'embstr'
            SET k ''                 => +OK
            OBJECT ENCODING k        => 'embstr'
            SET k 12345              => +OK
            OBJECT ENCODING k        => 'int'
            INCR k                   => :12346
            OBJECT ENCODING k        => 'int'
            SET k 9223372036854775807 => +OK
            OBJECT ENCODING k        => 'int'
            SET k 9223372036854775808 => +OK
            OBJECT ENCODING k        => 'embstr'
            SET k 007                => +OK
            OBJECT ENCODING k        => 'embstr'
            SET k 01234567890123456789012345678901234567890123 => +OK
            OBJECT ENCODING k        => 'embstr'
            SET k 012345678901234567890123456789012345678901234 => +OK
            OBJECT ENCODING k        => 'raw'
            SET k 1                  => +OK
            APPEND k 2               => :2
            OBJECT ENCODING k        => 'raw'
            RENAME k l               => +OK
            OBJECT ENCODING l        => 'raw'
            COPY l m                 => :1
            OBJECT ENCODING m        => 'raw'
            MOVE m 3                 => :1
            EXPIRE l 100             => :1
            OBJECT ENCODING l        => 'raw'
            INCR l                   => :13
            OBJECT ENCODING l        => 'int'
            APPEND l 4               => :3
            SET l 56 KEEPTTL         => +OK
            OBJECT ENCODING l        => 'int'
            APPEND l 4               => :3
            SET l 567                => +OK
            OBJECT ENCODING l        => 'int'
            APPEND fresh 5           => :1
            OBJECT ENCODING fresh    => 'int'
            ",
        );
        let help = c.run("OBJECT HELP");
        assert!(help.items().iter().any(|line| line.text().starts_with("IDLETIME")));
    }
}

/// The clock counts seconds; commands that only ask about a key do not move it.
#[test]
fn object_idletime() {
    let server = Server::start();
    let mut c = server.client();
    c.expect("SET k v", "+OK");
    c.expect("OBJECT IDLETIME k", ":0..1");
    eventually("it is idle for two seconds", || {
        for line in ["TTL k", "TYPE k", "EXISTS k", "OBJECT ENCODING k", "SCAN 0", "KEYS *"] {
            assert!(!c.run(line).is_error());
        }
        c.run("OBJECT IDLETIME k").int() >= 2
    });
    c.expect("GET k", "'v'");
    c.expect("OBJECT IDLETIME k", ":0..1");
    eventually("it is idle again", || c.run("OBJECT IDLETIME k").int() >= 2);
    c.expect("TOUCH k", ":1");
    c.expect("OBJECT IDLETIME k", ":0..1");
    eventually("it is idle again", || c.run("OBJECT IDLETIME k").int() >= 2);
    c.expect("SET k w", "+OK");
    c.expect("OBJECT IDLETIME k", ":0..1");
}

/// While megabytes are copied others are served, and see either all or nothing.
#[test]
fn copies_of_large_values_while_others_work() {
    let server = Server::start();
    let (mut c, mut other) = (server.client(), server.client());
    let value = vec![b'x'; 40 << 20];
    assert_eq!(c.call(&[b"SET", &b"big"[..], &value]), Reply::Simple("OK".into()));
    for round in 0..3 {
        let copy = format!("copy{round}");
        c.send(&[request(&["COPY", "big", &copy]), request(&["STRLEN", &copy])].concat());
        loop {
            let len = other.run(&format!("STRLEN {copy}")).int();
            assert!(len == 0 || len == 40 << 20, "{len} bytes of a copy");
            if len > 0 {
                break;
            }
        }
        // A write to the source waits for the copy, or comes behind it.
        c.send(&[request(&["COPY", "big", "again", "DB", "1", "REPLACE"])].concat());
        other.expect("APPEND big y", &format!(":{}", (40 << 20) + 1));
        other.expect(&format!("SETEX big2:{round} 100 v"), "+OK");
        assert_eq!([c.read(), c.read(), c.read()], [Reply::Int(1), Reply::Int(40 << 20), Reply::Int(1)]);
        assert_eq!(c.call(&[b"SET", &b"big"[..], &value]), Reply::Simple("OK".into()));
    }
}
