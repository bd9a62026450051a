//! What workers have handed over, put in the order of the positions.

use super::{Batch, Entry};
use crate::persist::aof::command;
use dolmen_slab::BlobRef;
use std::collections::VecDeque;

/// Of one worker.
#[derive(Default)]
struct Source {
    batches: VecDeque<Batch>,
    /// The next entry of the first batch, and where it begins.
    entry: usize,
    at: usize,
}

impl Source {
    fn next(&self) -> Option<Entry> {
        self.batches.front().map(|batch| batch.entries[self.entry])
    }
}

/// See the module.
pub(super) struct Merge {
    sources: Vec<Source>,
    /// The position that comes next.
    pub next: u64,
    /// Which database is selected in the file.
    database: Option<u32>,
    /// Batches that were used up.
    pub used_up: Vec<Batch>,
}

/// Bytes to be written, and a large value behind them.
#[derive(Default)]
pub(super) struct Piece {
    pub bytes: Vec<u8>,
    pub value: Option<BlobRef>,
    /// Bytes of batches that are used up.
    pub used: u64,
}

impl Merge {
    pub fn new(workers: usize, next: u64) -> Merge {
        Merge { sources: (0..workers).map(|_| Source::default()).collect(), next, database: None, used_up: Vec::new() }
    }

    pub fn add(&mut self, worker: usize, batches: &mut VecDeque<Batch>) {
        self.sources[worker].batches.append(batches);
    }

    /// Is there what comes next?
    pub fn is_ready(&self) -> bool {
        self.sources.iter().any(|source| source.next().is_some_and(|entry| entry.position == self.next))
    }

    /// A new file begins, in which no database is selected.
    pub fn new_file(&mut self) {
        self.database = None;
    }

    /// Appends what comes next to a piece: up to the position `until`, about `most` bytes, or a large value. False: nothing comes next.
    pub fn piece(&mut self, piece: &mut Piece, until: u64, most: usize) -> bool {
        let before = self.next;
        while self.next < until && piece.bytes.len() < most && piece.value.is_none() {
            let next = self.next;
            let found = self.sources.iter_mut().find(|source| source.next().is_some_and(|e| e.position == next));
            let Some(source) = found else { break };
            let Some(batch) = source.batches.front_mut() else { break };
            if let Some((at, value)) = batch.values.pop_front_if(|(at, _)| *at >= source.at) {
                // Values are in entries, so the one at hand has it, or it comes later.
                let entry = batch.entries[source.entry];
                if at <= entry.end {
                    select(&mut self.database, entry.from, &mut piece.bytes);
                    piece.bytes.extend_from_slice(&batch.bytes[source.at..at]);
                    source.at = at;
                    piece.used += value.len() as u64;
                    piece.value = Some(value);
                    // What is selected now is known behind the entry; a second value finds it as it is.
                    continue;
                }
                batch.values.push_front((at, value));
            }
            // As many as follow each other in the same database go at once.
            let (start, mut end) = (source.at, source.at);
            while let Some(entry) = batch.entries.get(source.entry)
                && entry.position == self.next
                && self.next < until
                && batch.values.front().is_none_or(|(at, _)| *at > entry.end)
                && end - start + piece.bytes.len() < most
            {
                if entry.from != Entry::NOTHING {
                    if self.database != Some(entry.from) {
                        piece.bytes.extend_from_slice(&batch.bytes[source.at..end]);
                        source.at = end;
                        select(&mut self.database, entry.from, &mut piece.bytes);
                    }
                    self.database = Some(entry.to);
                }
                end = entry.end;
                source.entry += 1;
                self.next += 1;
            }
            let (len, is_whole) = (batch.bytes.len(), source.entry == batch.entries.len());
            if is_whole && source.at == 0 && end == len && piece.bytes.is_empty() {
                std::mem::swap(&mut piece.bytes, &mut batch.bytes);
            } else {
                piece.bytes.extend_from_slice(&batch.bytes[source.at..end]);
            }
            source.at = end;
            if is_whole {
                piece.used += len as u64;
                self.used_up.extend(source.batches.pop_front());
                (source.entry, source.at) = (0, 0);
            }
        }
        self.next > before || piece.value.is_some()
    }
}

fn select(selected: &mut Option<u32>, database: u32, into: &mut Vec<u8>) {
    if *selected != Some(database) {
        *selected = Some(database);
        command::put(into, &[b"SELECT", database.to_string().as_bytes()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(entries: &[(u64, u32, &str)]) -> Batch {
        let mut batch = Batch::default();
        for (position, database, text) in entries {
            batch.bytes.extend_from_slice(text.as_bytes());
            let entry = Entry { position: *position, from: *database, to: *database, end: batch.bytes.len() };
            batch.entries.push(entry);
        }
        batch
    }

    fn all(merge: &mut Merge, until: u64) -> String {
        let mut piece = Piece::default();
        while merge.piece(&mut piece, until, 10) {
            if piece.bytes.len() >= 10 {
                let rest = Piece { bytes: Vec::new(), value: None, used: 0 };
                let done = std::mem::replace(&mut piece, rest);
                let mut text = String::from_utf8(done.bytes).unwrap();
                text.push_str(&all(merge, until));
                return text;
            }
        }
        String::from_utf8(piece.bytes).unwrap()
    }

    #[test]
    fn by_position_with_the_database() {
        let mut merge = Merge::new(2, 5);
        let select = |n: u32| format!("*2\r\n$6\r\nSELECT\r\n$1\r\n{n}\r\n");
        merge.add(0, &mut VecDeque::from([batch(&[(6, 0, "b"), (9, 1, "e")])]));
        assert_eq!(all(&mut merge, u64::MAX), "");
        merge.add(1, &mut VecDeque::from([batch(&[(5, 0, "a"), (7, 0, "c")]), batch(&[(8, 1, "d"), (11, 0, "g")])]));
        assert_eq!(all(&mut merge, 8), format!("{}abc", select(0)));
        assert_eq!(merge.next, 8);
        assert_eq!(all(&mut merge, u64::MAX), format!("{}de", select(1)));
        merge.new_file();
        let mut nothing = batch(&[(10, Entry::NOTHING, "")]);
        nothing.entries.push(Entry { position: 12, from: 0, to: 3, end: 0 });
        merge.add(0, &mut VecDeque::from([nothing]));
        assert_eq!(all(&mut merge, u64::MAX), format!("{}g", select(0)));
        assert_eq!(merge.next, 13);
        merge.add(0, &mut VecDeque::from([batch(&[(13, 3, "h")])]));
        assert_eq!(all(&mut merge, u64::MAX), "h");
    }
}
