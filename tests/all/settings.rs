//! CONFIG SET, RESETSTAT and REWRITE, and other commands about the server as a whole. With one worker and with several: all of them follow before the answer comes.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::control::servers;
use crate::harness::{Client, Reply, Server, eventually, request, script};

/// As many clients as reach every worker.
fn crowd(server: &Server) -> Vec<Client> {
    (0..7).map(|_| server.client()).collect()
}

#[test]
fn forms_and_errors() {
    for server in servers(&[]) {
        let mut c = server.client();
        script(
            &server,
            &mut c,
            r"
            CONFIG SET                         => -ERR wrong number of arguments for 'config|set' command
            CONFIG SET timeout                 => -ERR wrong number of arguments for 'config|set' command
            CONFIG SET timeout 1 hz            => -ERR syntax error
            CONFIG SET nosuch 1                => -ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'
            CONFIG SET timeout x nosuch 1      => -ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'
            CONFIG SET databases 3             => -ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config
            CONFIG SET timeout 7 timeout 8     => -ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter
            CONFIG SET timeout 7 TIMEOUT 8     => -ERR CONFIG SET failed (possibly related to argument 'TIMEOUT') - duplicate parameter
            CONFIG SET timeout x               => -ERR CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't be parsed into an integer
            CONFIG SET maxclients 0            => -ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument must be between 1 and 4294967295 inclusive
            # (redis-server takes a minute for it.)
            dolmen> CONFIG SET maxclients 4000000000   => -ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to handle the specified number of clients, try with
            # All or none.
            CONFIG SET timeout 7 hz 20 proto-max-bulk-len 1 => -ERR CONFIG SET failed (possibly related to argument 'proto-max-bulk-len') - 
            CONFIG GET timeout                 => ['timeout', '0']
            CONFIG GET hz                      => ['hz', '10']
            CONFIG SET timeout 7 HZ 20         => +OK
            CONFIG GET timeout                 => ['timeout', '7']
            CONFIG GET hz                      => ['hz', '20']
            CONFIG SET client-output-buffer-limit 'normal 10mb 1mb 5' => +OK
            CONFIG GET client-output-buffer-limit => ['client-output-buffer-limit', 'normal 10485760 1048576 5 slave 268435456 67108864 60 pubsub 33554432 8388608 60']
            CONFIG RESETSTAT x                 => -ERR wrong number of arguments for 'config|resetstat' command
            CONFIG REWRITE                     => -ERR The server is running without a config file
            ",
        );
    }
}

#[test]
fn every_worker_follows_at_once() {
    for server in servers(&[]) {
        let mut clients = crowd(&server);
        for n in 0..20 {
            let setter = n % clients.len();
            clients[setter].expect(&format!("CONFIG SET timeout {} tcp-keepalive {}", 1000 + n, 5 + n), "+OK");
            for client in &mut clients {
                client.expect("CONFIG GET timeout", &format!("['timeout', '{}']", 1000 + n));
            }
        }
        // Those that are made at once on several workers end in the same settings everywhere.
        for round in 0..50 {
            for (n, client) in clients.iter_mut().enumerate() {
                client.send(&request(&["CONFIG", "SET", "timeout", &(1000 + round * 10 + n).to_string()]));
            }
            for client in &mut clients {
                assert_eq!(client.read(), Reply::Simple("OK".into()));
            }
            let seen: Vec<String> =
                clients.iter_mut().map(|client| client.run("CONFIG GET timeout").to_string()).collect();
            assert!(seen.iter().all(|settings| *settings == seen[0]), "{seen:?}");
        }
    }
}

#[test]
fn a_password_for_those_who_come() {
    for server in servers(&[]) {
        let mut clients = crowd(&server);
        // A connection is there when its worker has opened it, which may be later than the kernel has.
        clients.iter_mut().for_each(|client| client.expect("PING", "+PONG"));
        clients[0].expect("CONFIG SET requirepass secret", "+OK");
        let mut late = crowd(&server);
        for client in &mut late {
            client.expect("PING", "-NOAUTH");
        }
        late[0].expect("AUTH wrong", "-WRONGPASS");
        late[0].expect("AUTH secret", "+OK");
        // Who was there before stays.
        for client in &mut clients {
            client.expect("PING", "+PONG");
        }
        clients[1].expect("CONFIG SET requirepass ''", "+OK");
        for client in &mut late {
            client.expect("PING", "+PONG");
        }
    }
}

#[test]
fn limits_of_clients_and_requests() {
    for server in servers(&[]) {
        let mut clients = crowd(&server);
        clients.iter_mut().for_each(|client| client.expect("PING", "+PONG"));
        clients[0].expect("CONFIG SET maxclients 7", "+OK");
        let mut one_more = server.client();
        assert_eq!(one_more.read(), Reply::Error("ERR max number of clients reached".into()));
        one_more.expect_closed();
        clients[3].expect("CONFIG SET maxclients 8 proto-max-bulk-len 1mb", "+OK");
        let mut another = server.client();
        another.expect("PING", "+PONG");
        let (mut victim, value) = (clients.pop().expect("one"), vec![b'x'; (1 << 20) + 1]);
        victim.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n");
        assert_eq!(victim.read(), Reply::Error("ERR Protocol error: invalid bulk length".into()));
        another.expect("CONFIG SET proto-max-bulk-len 2mb", "+OK");
        assert_eq!(clients[0].call(&[&b"SET"[..], b"k", &value]), Reply::Simple("OK".into()));
    }
}

#[test]
fn idle_clients_go_once_there_is_a_timeout() {
    for server in servers(&[]) {
        let mut idle = crowd(&server);
        idle.iter_mut().for_each(|client| client.expect("PING", "+PONG"));
        let mut operator = server.client();
        operator.expect("CONFIG SET timeout 1 hz 100", "+OK");
        eventually("the idle ones are closed", || operator.info("connected_clients") == "1");
        idle.iter_mut().for_each(Client::expect_closed);
    }
}

#[test]
fn a_slow_reader_goes_after_the_soft_limit() {
    for server in servers(&["--client-output-buffer-limit", "normal 0 1mb 1"]) {
        let (mut operator, mut slow, mut fast) = (server.client(), server.client(), server.client());
        // Each read of it waits by reference; more than any socket buffer takes.
        let value = vec![b'x'; 16 << 20];
        assert_eq!(operator.call(&[&b"SET"[..], b"k", &value]), Reply::Simple("OK".into()));
        slow.send(&request(&["GET", "k"]));
        eventually("it is closed", || operator.info("connected_clients") == "2");
        fast.expect("GET k", &Reply::Bulk(value).to_string());
    }
}

#[test]
fn counters_begin_anew() {
    for server in servers(&[]) {
        let mut clients = crowd(&server);
        for client in &mut clients {
            client.expect("SET k v", "+OK");
            client.expect("GET k", "'v'");
            client.expect("GET none", "nil");
            client.expect("NOSUCH", "-ERR");
        }
        let mut c = clients.pop().expect("one");
        assert!(c.info_number("total_commands_processed") >= 21 && c.info_number("keyspace_hits") == 7);
        c.expect("CONFIG RESETSTAT", "+OK");
        assert_eq!(clients[0].info_number("keyspace_hits"), 0);
        // The command that reset them may or may not count itself.
        assert!(clients[1].info_number("total_commands_processed") <= 3);
        assert_eq!(clients[2].info_number("total_error_replies"), 0);
        assert_eq!(clients[3].info_number("total_connections_received"), 0);
        assert!(clients[4].info_number("total_net_output_bytes") < 1 << 20);
        assert_eq!(clients[5].info("connected_clients"), "7");
    }
}

#[test]
fn the_file_is_rewritten() {
    for workers in ["1", "3"] {
        let file = "# my server\nmaxclients 100\n\n# idle clients\ntimeout 0\nsave ''\n";
        let server = Server::configured(file, &[]);
        if server.is_redis() {
            return;
        }
        drop(server);
        let server = Server::configured(file, &["--workers", workers]);
        let mut c = server.client();
        c.expect("CONFIG SET timeout 300 requirepass 'top secret'", "+OK");
        c.expect("CONFIG REWRITE", "+OK");
        let path = server.folder().join("server.conf");
        let text = fs::read_to_string(&path).expect("the file");
        assert!(
            text.starts_with(
                "# my server\nmaxclients 100\n\n# idle clients\ntimeout 300\nsave ''\n# Generated by CONFIG REWRITE\n"
            ),
            "{text}"
        );
        assert!(
            text.contains("\nrequirepass \"top secret\"\n") && text.contains(&format!("\nport {}\n", server.port)),
            "{text}"
        );
        // Once more: nothing to change.
        c.expect("CONFIG REWRITE", "+OK");
        assert_eq!(fs::read_to_string(&path).expect("the file"), text);
        assert_eq!(fs::read_dir(server.folder()).expect("a folder").count(), 2, "the file, and the output");
        // It starts from it again.
        let again = Server::configured(&text, &[]);
        let mut c = again.client();
        c.expect("AUTH 'top secret'", "+OK");
        c.expect("CONFIG GET timeout", "['timeout', '300']");
        // Where it cannot be written, the error says so.
        fs::remove_dir_all(again.folder()).expect("the folder goes");
        c.expect("CONFIG REWRITE", "-ERR Rewriting config file: ");
    }
}

/// DEBUG SLEEP stops every worker.
#[test]
fn the_whole_server_sleeps() {
    for server in servers(&[]) {
        let mut operator = server.client();
        operator.expect("PING", "+PONG");
        let (over, port) = (AtomicBool::new(false), server.port);
        std::thread::scope(|scope| {
            let waits: Vec<_> = (0..7)
                .map(|_| {
                    let over = &over;
                    let mut client = Client::connect(port);
                    client.expect("PING", "+PONG");
                    scope.spawn(move || {
                        let mut longest = Duration::ZERO;
                        while !over.load(Ordering::Relaxed) {
                            let begun = Instant::now();
                            client.expect("PING", "+PONG");
                            longest = longest.max(begun.elapsed());
                        }
                        longest
                    })
                })
                .collect();
            operator.expect("DEBUG SLEEP 0.3", "+OK");
            over.store(true, Ordering::Relaxed);
            for wait in waits {
                let longest = wait.join().expect("a client");
                assert!(longest >= Duration::from_millis(200), "a client was served meanwhile: {longest:?}");
            }
        });
    }
}

/// Whoever has its reply finds it counted, whichever worker is asked.
#[test]
fn workers_agree_on_the_server() {
    for server in servers(&[]) {
        let mut clients = crowd(&server);
        // Each of them has been accepted.
        clients.iter_mut().for_each(|client| client.expect("PING", "+PONG"));
        for n in 0..clients.len() {
            clients[n].expect(&format!("SET key:{n} v"), "+OK");
            let connected = clients.len().to_string();
            for client in &mut clients {
                client.expect("DBSIZE", &format!(":{}", n + 1));
                assert_eq!(client.info("connected_clients"), connected);
                assert_eq!(client.info("db0"), format!("keys={},expires=0,avg_ttl=0", n + 1));
                assert_eq!(client.run("CLIENT LIST").text().lines().count(), 7);
            }
        }
        let mut server = server;
        clients[6].send(&request(&["SHUTDOWN", "NOSAVE"]));
        clients.iter_mut().for_each(Client::expect_closed);
        assert!(server.wait_exit().success());
    }
}
