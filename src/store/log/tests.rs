//! Crashes: a file system that forgets what was not made to last, stopped at any time. What it has kept is loaded to a state that was promised.

use super::disk::{Appended, Disk};
use super::files::Files;
use super::{Batch, Entry, Fsync, Log, Settings};
use crate::base::rng::Rng;
use crate::persist::aof::command::{self, Scanner};
use crate::persist::aof::manifest::Manifest;
use crate::store::{Store, flag};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A file: its bytes, and how many of them last.
#[derive(Clone, Default)]
struct Inode {
    bytes: Vec<u8>,
    synced: usize,
}

#[derive(Default)]
struct Contents {
    inodes: Vec<Inode>,
    /// Names as programs see them, and as they last.
    names: BTreeMap<PathBuf, usize>,
    lasting: BTreeMap<PathBuf, usize>,
    /// Bytes that are written at most in one call, and until there is no room.
    piece: usize,
    room: usize,
    /// Is fsync to fail?
    fails_sync: bool,
}

/// See the module.
#[derive(Clone, Default)]
struct Simulated(Arc<Mutex<Contents>>);

struct Handle(Simulated, usize);

impl Appended for Handle {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let contents = &mut *self.0.0.lock().unwrap();
        let taken = bytes.len().min(contents.piece.max(1)).min(contents.room);
        if taken == 0 {
            return Err(io::Error::from_raw_os_error(28));
        }
        contents.room -= taken;
        contents.inodes[self.1].bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn sync(&mut self) -> io::Result<()> {
        let contents = &mut *self.0.0.lock().unwrap();
        if contents.fails_sync {
            return Err(io::Error::from_raw_os_error(5));
        }
        let inode = &mut contents.inodes[self.1];
        inode.synced = inode.bytes.len();
        Ok(())
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for Simulated {
    fn open(&self, path: &Path) -> io::Result<(Box<dyn Appended>, u64)> {
        let contents = &mut *self.0.lock().unwrap();
        let next = contents.inodes.len();
        let inode = *contents.names.entry(path.to_owned()).or_insert(next);
        if inode == next {
            contents.inodes.push(Inode::default());
        }
        Ok((Box::new(Handle(self.clone(), inode)), contents.inodes[inode].bytes.len() as u64))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let contents = self.0.lock().unwrap();
        let inode = contents.names.get(path).ok_or_else(missing)?;
        Ok(contents.inodes[*inode].bytes.clone())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let contents = &mut *self.0.lock().unwrap();
        let inode = contents.names.remove(from).ok_or_else(missing)?;
        contents.names.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.lock().unwrap().names.remove(path).map(|_| ()).ok_or_else(missing)
    }

    fn sync_folder(&self, _path: &Path) -> io::Result<()> {
        let contents = &mut *self.0.lock().unwrap();
        contents.lasting = contents.names.clone();
        Ok(())
    }
}

impl Simulated {
    fn new(piece: usize) -> Simulated {
        let disk = Simulated::default();
        let contents = &mut *disk.0.lock().unwrap();
        (contents.piece, contents.room) = (piece, usize::MAX);
        disk.clone()
    }

    /// What a crash leaves: names that last, or those that programs saw; of each file what lasts, and some of what came behind it.
    fn crash(&self, rng: &mut Rng) -> BTreeMap<PathBuf, Vec<u8>> {
        let contents = self.0.lock().unwrap();
        let names = if rng.below(2) == 0 { &contents.lasting } else { &contents.names };
        let kept = |inode: &Inode, rng: &mut Rng| {
            let more = (inode.bytes.len() - inode.synced) as u64;
            let more = match rng.below(3) {
                0 => 0,
                1 => more,
                _ => rng.below(more + 1),
            };
            inode.bytes[..inode.synced + usize::try_from(more).unwrap()].to_vec()
        };
        names.iter().map(|(name, inode)| (name.clone(), kept(&contents.inodes[*inode], rng))).collect()
    }
}

fn folder() -> PathBuf {
    PathBuf::from("/log")
}

fn name_of(entry: &crate::persist::aof::manifest::Entry) -> String {
    String::from_utf8(entry.name.clone()).unwrap()
}

/// The numbers that the files have, in order. A base file has "SET base <n>" for all below n.
fn load(image: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<u64> {
    let text = image.get(&folder().join("x.manifest")).expect("there is a manifest, whatever happened");
    let manifest = Manifest::parse(text).expect("and it is whole");
    let files: Vec<_> = manifest.base.iter().chain(&manifest.increments).collect();
    let mut numbers = Vec::new();
    for (index, entry) in files.iter().enumerate() {
        let name = name_of(entry);
        let bytes = image.get(&folder().join(&name)).unwrap_or_else(|| panic!("{name} is named, and not there"));
        if name.contains(".base.") {
            let count: u64 = String::from_utf8(bytes.clone()).unwrap().parse().expect("a base file is whole");
            numbers = (0..count).collect();
            continue;
        }
        let (mut scanner, mut out) = (Scanner::new(1 << 20), Vec::new());
        scanner.feed(bytes);
        scanner.take(&mut out, |_| true).expect("no rubbish");
        let is_empty = |entry: &crate::persist::aof::manifest::Entry| image[&folder().join(name_of(entry))].is_empty();
        let behind = &files[index + 1..];
        assert!(!scanner.is_cut() || behind.iter().all(|entry| is_empty(entry)), "only the last file may be cut");
        let words: Vec<&[u8]> = out.split(|byte| *byte == b'\n').collect();
        for pair in words.windows(3) {
            if pair[0] == b"NUMBER\r" {
                numbers.push(String::from_utf8_lossy(&pair[2][..pair[2].len() - 1]).parse().unwrap());
            }
        }
    }
    numbers
}

/// A log on a simulated disk, and what is handed to it.
struct World {
    log: Arc<Log>,
    store: Arc<Store>,
    disk: Simulated,
    next: u64,
    rng: Rng,
}

impl World {
    fn new(workers: usize, fsync: Fsync, piece: usize, seed: u64) -> World {
        let disk = Simulated::new(piece);
        let store = Arc::new(Store::new(workers, 0));
        let log = Arc::clone(&store.log);
        let mut files = Files::find(Arc::new(disk.clone()), folder(), "x").unwrap();
        files.begin_base(b"0", true).unwrap();
        let (file, _) = files.reopen().unwrap();
        log.set_files(files);
        log.set(Settings { fsync, ..Settings::default() });
        log.begin(&store, file, 0).unwrap();
        World { log, store, disk, next: 0, rng: Rng::seeded(seed) }
    }

    /// Some entries, given to some workers in any order.
    fn write(&mut self, workers: usize) {
        let mut batches: Vec<Batch> = (0..workers).map(|_| Batch::default()).collect();
        for _ in 0..=self.rng.below(20) {
            let batch = &mut batches[usize::try_from(self.rng.below(workers as u64)).unwrap()];
            let (from, position) = (u32::try_from(self.rng.below(3)).unwrap(), self.next);
            self.next += 1;
            command::put(&mut batch.bytes, &[b"NUMBER", position.to_string().as_bytes()]);
            batch.entries.push(Entry { position, from, to: from, end: batch.bytes.len() });
        }
        // In any order of the workers.
        let first = usize::try_from(self.rng.below(workers as u64)).unwrap();
        for worker in (first..workers).chain(0..first) {
            let _ = self.log.push(&self.store, worker, std::mem::take(&mut batches[worker]));
        }
    }

    fn eventually(&self, what: &str, done: impl Fn(&Log) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !done(&self.log) {
            assert!(Instant::now() < until, "{what}: {} of {}, {:?}", self.log.durable(), self.next, self.log.status());
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// All that a crash now leaves is a beginning of what was written, and has all that was said to last.
    fn crash(&mut self) {
        // First what was said, then the crash.
        let durable = self.log.durable();
        let numbers = load(&self.disk.crash(&mut self.rng));
        let count = numbers.len() as u64;
        assert!(numbers.iter().copied().eq(0..count), "a beginning: {numbers:?}");
        assert!(count >= durable, "{count} are there, and {durable} were said to last");
        assert!(count <= self.next);
    }
}

fn crashes(workers: usize, fsync: Fsync, seed: u64) {
    let piece = [1, 7, 100, usize::MAX][usize::try_from(seed % 4).unwrap()];
    let mut world = World::new(workers, fsync, piece, seed);
    for round in 0..60 {
        world.write(workers);
        world.crash();
        if round % 20 == 10 {
            // A rewrite.
            world.log.prepare(true);
            world.eventually("the next file is made", Log::is_prepared);
            world.write(workers);
            let position = world.next;
            let path = world.log.cut(position, true).unwrap();
            world.crash();
            world.write(workers);
            let draft = path.with_file_name("temp");
            world.crash();
            let (mut file, _) = world.disk.open(&draft).unwrap();
            let text = position.to_string();
            let mut rest = text.as_bytes();
            while !rest.is_empty() {
                let written = file.append(rest).unwrap();
                rest = &rest[written..];
                world.crash();
            }
            file.sync().unwrap();
            world.disk.rename(&draft, &path).unwrap();
            world.crash();
            world.disk.sync_folder(&folder()).unwrap();
            world.crash();
            world.log.rewritten(&Ok(()), 0, false);
            world.crash();
        }
        if fsync == Fsync::Always && round % 5 == 0 {
            let next = world.next;
            world.eventually("all lasts", |log| log.durable() == next);
            world.crash();
        }
    }
    assert!(world.log.finish(PATIENCE));
    let numbers = load(&world.disk.crash(&mut world.rng));
    assert_eq!(numbers.len() as u64, world.next, "behind an end all is there");
}

#[test]
fn what_was_said_to_last_does() {
    for seed in 0..12 {
        crashes(1 + usize::try_from(seed % 3).unwrap(), Fsync::Always, seed);
        crashes(1 + usize::try_from(seed % 2).unwrap(), Fsync::EverySecond, seed);
        crashes(2, Fsync::Never, seed);
    }
}

#[test]
fn a_full_disk_is_waited_for() {
    let mut world = World::new(1, Fsync::EverySecond, usize::MAX, 1);
    world.disk.0.lock().unwrap().room = 100;
    world.write(1);
    world.write(1);
    let store = Arc::clone(&world.store);
    world.eventually("it is told", |log| log.status().last_write_failed && store.flags() & flag::UNLOGGED != 0);
    assert!(store.fatal().is_none());
    world.crash();
    world.disk.0.lock().unwrap().room = usize::MAX;
    let next = world.next;
    world.eventually("it goes on", |log| log.durable() == next && store.flags() & flag::UNLOGGED == 0);
    assert!(!world.log.status().last_write_failed);
    world.crash();
    world.disk.0.lock().unwrap().fails_sync = true;
    world.write(1);
    world.eventually("it is told", |log| log.status().fsync_failed);
    world.disk.0.lock().unwrap().fails_sync = false;
    let next = world.next;
    world.eventually("it goes on", |log| log.durable() == next && !log.status().fsync_failed);
    assert!(world.log.finish(PATIENCE));
}

#[test]
fn with_always_a_full_disk_is_the_end() {
    let mut world = World::new(1, Fsync::Always, usize::MAX, 1);
    world.disk.0.lock().unwrap().room = 100;
    world.write(1);
    world.write(1);
    let store = Arc::clone(&world.store);
    world.eventually("the server cannot go on", |_| store.fatal().is_some());
    assert!(world.log.durable() < world.next && store.flags() & flag::UNLOGGED != 0);
    world.crash();
}

/// Who writes more than the disk takes has to wait, until half of it is there.
#[test]
fn more_than_the_disk_takes() {
    let mut world = World::new(1, Fsync::Never, usize::MAX, 1);
    world.disk.0.lock().unwrap().room = 0;
    let large = vec![b'x'; 1 << 20];
    let push = |world: &mut World| {
        let mut batch = Batch::default();
        command::put(&mut batch.bytes, &[b"LARGE", &large]);
        batch.entries.push(Entry { position: world.next, from: 0, to: 0, end: batch.bytes.len() });
        world.next += 1;
        let _ = world.log.push(&world.store, 0, batch);
    };
    for _ in 0..63 {
        push(&mut world);
    }
    assert_eq!(world.store.flags() & flag::LAGGING, 0);
    push(&mut world);
    assert_ne!(world.store.flags() & flag::LAGGING, 0);
    world.disk.0.lock().unwrap().room = usize::MAX;
    let store = Arc::clone(&world.store);
    world.eventually("it goes on", |log| log.pending_bytes() == 0 && store.flags() & flag::LAGGING == 0);
    assert!(world.log.finish(PATIENCE));
}
