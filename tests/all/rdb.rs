//! The codecs of collections against `redis-server`: what it dumps is read, what is written it restores.

use crate::harness::{Client, Reply, Server, skip};
use dolmen::base::entry::Entries;
use dolmen::base::score;
use dolmen::persist::rdb::{Decoder, Encoder, Form, Kind, Progress, payload};
use std::collections::BTreeMap;

fn read(value: &[u8]) -> (Kind, Vec<u8>) {
    let mut decoder = Decoder::new(value[0], value.len() as u64, u64::MAX, 42).expect("a collection");
    let (mut run, mut pieces) = (Vec::new(), value.chunks(777));
    loop {
        match decoder.next(&mut run, 5000).expect("as it should be") {
            Progress::Hungry => decoder.feed(pieces.next().expect("it knows its end")),
            Progress::Full => {}
            Progress::Done => return (decoder.kind(), run),
        }
    }
}

/// Names and what they have, in an order of their own but for lists.
fn told(kind: Kind, run: &[u8]) -> BTreeMap<Vec<u8>, String> {
    let mut entries = Entries::new(run);
    let mut all = BTreeMap::new();
    while let Some(first) = entries.next() {
        let place = if kind == Kind::List { all.len().to_string() } else { String::new() };
        let rest = match kind {
            Kind::List | Kind::Set => String::new(),
            Kind::Zset => score::from_entry(entries.next().unwrap()).to_string(),
            Kind::Hash => format!("{:?} {:?}", entries.next().unwrap(), entries.next().unwrap()),
        };
        let name = [&first.to_vec(), place.as_bytes()].concat();
        assert_eq!(all.insert(name, rest), None);
    }
    all
}

fn call(client: &mut Client, words: &[&[u8]]) -> Reply {
    let reply = client.call(words);
    assert!(!reply.is_error(), "{reply}");
    reply
}

#[test]
fn collections_to_redis_and_back() {
    let Some(oracle) = Server::oracle() else {
        return skip("collections_to_redis_and_back", "there is no redis-server");
    };
    let mut c = oracle.client();
    let texts: Vec<Vec<u8>> = (0..700u32)
        .map(|i| match i % 7 {
            0 => i.to_string().into_bytes(),
            1 => format!("-{}", u64::from(i) << (i % 53)).into_bytes(),
            2 => vec![b'a' + i.to_le_bytes()[0] % 26; (i / 2) as usize],
            3 => format!("{i}.{i}").into_bytes(),
            4 => [i.to_le_bytes(), [0xff; 4]].concat(),
            5 => format!("{i:0>70}").into_bytes(),
            _ => format!("name:{i}").into_bytes(),
        })
        .collect();
    for (count, limit) in [(1, "128"), (5, "128"), (120, "128"), (700, "128"), (700, "1000"), (30, "0")] {
        for setting in ["hash-max-listpack-entries", "zset-max-listpack-entries", "set-max-intset-entries"] {
            c.expect(&format!("CONFIG SET {setting} {limit}"), "+OK");
        }
        c.expect("CONFIG SET list-max-listpack-size 20", "+OK");
        for (what, name, form) in [
            ("list", "RPUSH", Form::List),
            ("set", "SADD", Form::Set),
            ("integers", "SADD", Form::Set),
            ("hash", "HSET", Form::Hash),
            ("zset", "ZADD", Form::Zset),
        ] {
            let mut words = vec![name.as_bytes().to_vec(), b"k".to_vec()];
            for (i, text) in texts[..count].iter().enumerate() {
                match what {
                    "integers" => words.push((i * i * 77).to_string().into_bytes()),
                    "hash" => words.extend([text.clone(), texts[texts.len() - 1 - i].clone()]),
                    "zset" => words.extend([format!("{}", (i as f64 - 20.0) / 8.0).into_bytes(), text.clone()]),
                    _ => words.push(text.clone()),
                }
            }
            c.run("DEL k");
            call(&mut c, &words.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let dumped = c.run("DUMP k").bytes().to_vec();
            let (kind, run) = read(payload::open(&dumped).expect("a payload"));
            let all = told(kind, &run);
            assert_eq!((kind, all.len()), (form.kind(), count), "{what}");

            let mut value = Vec::new();
            let mut encoder = Encoder::new(form, count as u64, &mut value);
            encoder.put(&run, &mut value);
            payload::seal(&mut value);
            call(&mut c, &[b"RESTORE", b"l", b"0", &value, b"REPLACE"]);
            let again = c.run("DUMP l").bytes().to_vec();
            let (kind, run) = read(payload::open(&again).expect("a payload"));
            assert_eq!(told(kind, &run), all, "{what}");
            // The same by the commands of the type.
            let (first, second) = match form {
                Form::List => ("LRANGE k 0 -1", "LRANGE l 0 -1"),
                Form::Set => ("SUNION k", "SDIFF l k"),
                Form::Zset => ("ZRANGE k 0 -1 WITHSCORES", "ZRANGE l 0 -1 WITHSCORES"),
                Form::Hash | Form::HashWithDeadlines { .. } => ("HLEN k", "HLEN l"),
            };
            let (first, second) = (c.run(first), c.run(second));
            if form == Form::Set {
                assert_eq!((first.items().len(), second.items().len()), (count, 0), "{what}");
            } else {
                assert_eq!(first, second, "{what}");
            }
        }
    }
}
