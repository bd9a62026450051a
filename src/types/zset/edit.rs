//! What can be done to a sorted set, whatever its form; and when the packed form becomes the big one.

use super::big::Zset;
use super::look::{Name, Pair};
use super::packed::{self, Packed};
use crate::base::entry::Entry;
use crate::types::{Body, Container, Edit};
use dolmen_slab::{AllocError, Slab};

/// What became of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// It is as it was: there, or not.
    Nothing,
    Added,
    /// Its score has changed.
    Changed,
}

impl Edit<'_, Zset> {
    /// Gives a member the score that `decide` says, if it says one (no NaN); it is told the present score.
    ///
    /// # Errors
    /// The slab is full; nothing has changed.
    pub fn put(&mut self, member: &[u8], decide: impl FnOnce(Option<f64>) -> Option<f64>) -> Result<Put, AllocError> {
        let bytes = match self.body {
            Body::Big(big) => return big.put(self.memory.slab, &self.memory.limits, member, decide),
            Body::Packed(bytes) => bytes,
        };
        let packed = Packed::new(bytes);
        let (found, len) = (packed.find(member), packed.len());
        let Some(score) = decide(found.map(|found| found.score)) else { return Ok(Put::Nothing) };
        if let Some(found) = found {
            if found.score.to_bits() == score.to_bits() {
                return Ok(Put::Nothing);
            }
            let (at, end) = (found.at, found.end);
            packed::remove(bytes, at..end, 1);
            packed::insert(bytes, score, member, false);
            return Ok(Put::Changed);
        }
        let exceeded = packed::exceeds(&self.memory.limits, len + 1, member.len());
        // The longest heads of member and score.
        const HEADS: usize = 16;
        let is_big = len >= packed::ELEMENTS_MAX
            || member.len() > packed::MEMBER_MAX
            || bytes.len() + member.len() + HEADS > packed::BYTES_MAX;
        if !is_big {
            packed::insert(bytes, score, member, exceeded);
            return Ok(Put::Added);
        }
        let mut big = self.grown()?;
        match big.put(self.memory.slab, &self.memory.limits, member, |_| Some(score)) {
            Ok(put) => {
                *self.body = Body::Big(big);
                Ok(put)
            }
            Err(error) => {
                while big.drain(self.memory.slab, usize::MAX) {}
                Err(error)
            }
        }
    }

    /// The big form of a packed body.
    fn grown(&mut self) -> Result<Box<Zset>, AllocError> {
        let Body::Packed(bytes) = &*self.body else { unreachable!("a packed body grows") };
        let packed = Packed::new(bytes);
        let mut big = Box::new(Zset::new(&self.memory));
        match big.insert_run(self.memory.slab, packed.run(), |_, _| false) {
            Ok(()) => {
                big.exceeded = packed.exceeded();
                Ok(big)
            }
            Err(error) => {
                while big.drain(self.memory.slab, usize::MAX) {}
                Err(error)
            }
        }
    }

    /// Takes a member out; the score that it had.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match self.body {
            Body::Big(big) => big.remove(self.memory.slab, member),
            Body::Packed(bytes) => {
                let found = Packed::new(bytes).find(member)?;
                let (at, end, score) = (found.at, found.end, found.score);
                packed::remove(bytes, at..end, 1);
                Some(score)
            }
        }
    }

    /// Takes out `count` elements from a rank on, as far as there are so many; `visit` is told each before it is gone. How many were taken out.
    pub fn remove_ranks(&mut self, rank: usize, count: usize, mut visit: impl FnMut(&Slab, Pair<'_>)) -> usize {
        let len = self.look().len();
        let count = count.min(len.saturating_sub(rank));
        match self.body {
            Body::Big(big) => {
                big.remove_ranks(self.memory.slab, rank, count, |slab, h| visit(slab, Pair::of(slab, h)));
            }
            Body::Packed(bytes) => {
                let packed = Packed::new(bytes);
                let mut range = None;
                for found in packed.iter().skip(rank).take(count) {
                    let entry: Entry<'_> = found.member;
                    visit(self.memory.slab, Pair { name: Name::Entry(entry), score: found.score });
                    range = Some(range.map_or(found.at, |(at, _)| at)).map(|at| (at, found.end));
                }
                if let Some((at, end)) = range {
                    packed::remove(bytes, at..end, count);
                }
            }
        }
        count
    }
}
