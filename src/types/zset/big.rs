//! The big form: tree and table together, and what `types::Container` asks of it.

use super::change;
use super::edit::Put;
use super::look::Pair;
use super::memory::{self, Member, element};
use super::packed::Packed;
use super::tree::{Cursor, Path, Probe, Tree};
use super::versions::Versions;
use super::{packed, score};
use crate::base::entry::Entries;
use crate::base::hash::hash_key;
use crate::base::int::MAX_DIGITS;
use crate::base::limits::Limits;
use crate::table::{Slot, Table};
use crate::types::packed::shrunk_max;
use crate::types::{Body, Container, Edit, Form, Look, Memory, Span, Type, ViewLost};
use dolmen_slab::{AllocError, Handle, Slab, Slice};

/// Elements of a view that are looked at before its budget is.
const BUDGET_STEP: usize = 16;
/// Elements that rewriting a segment of the table counts for.
const SEGMENT_ELEMENTS: usize = 300;

/// A sorted set of more than a few elements.
pub struct Zset {
    pub(super) tree: Tree,
    pub(super) table: Table,
    pub(super) versions: Versions,
    /// Of the hashes of members.
    pub(super) seed: u64,
    /// Redis would not keep it as a listpack: it was once too long for one, or had too long a member.
    pub(super) exceeded: bool,
}

/// An open view of a [`Zset`].
pub struct View {
    id: u64,
    cursor: Cursor,
}

/// The hash that the table finds an element by.
pub(super) struct Members {
    pub(super) seed: u64,
}

impl crate::table::Entries for Members {
    fn hash(&self, slab: &Slab, h: Handle) -> u64 {
        element(slab, h).hash(self.seed)
    }
}

impl Zset {
    pub(super) fn new(memory: &Memory<'_>) -> Zset {
        Zset {
            tree: Tree::EMPTY,
            table: Table::new(memory.seed ^ memory.slab.used_bytes()),
            versions: Versions::new(),
            seed: memory.seed,
            exceeded: false,
        }
    }

    fn slot(&self, slab: &Slab, member: &[u8], hash: u64) -> Option<Slot> {
        self.table.find(slab, hash, |h| element(slab, h).is(slab, member, hash))
    }

    /// The element of a member.
    pub(super) fn find(&self, slab: &Slab, member: &[u8]) -> Option<Handle> {
        self.slot(slab, member, hash_key(self.seed, member)).map(|slot| self.table.handle(slot))
    }

    /// Number of elements before this one.
    pub(super) fn rank(&self, slab: &Slab, h: Handle) -> usize {
        let element = element(slab, h);
        self.tree.rank(slab, Probe::At(element.key(), element.member()))
    }

    /// A uniformly random element.
    pub(super) fn random(&self, slab: &Slab, next_u64: impl FnMut() -> u64) -> Option<Handle> {
        self.table.random(slab, next_u64)
    }

    /// Visits the elements at a position of the table; the next position, 0 at the end.
    pub(super) fn scan(&self, slab: &Slab, cursor: u64, visit: impl FnMut(Handle)) -> u64 {
        self.table.scan(slab, &Members { seed: self.seed }, cursor, visit)
    }

    /// Gives a member the score that `decide` says, if it says one; it is told the present one.
    pub(super) fn put(
        &mut self,
        slab: &mut Slab,
        limits: &Limits,
        member: &[u8],
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> Result<Put, AllocError> {
        let hash = hash_key(self.seed, member);
        let Some(slot) = self.slot(slab, member, hash) else {
            let Some(score) = decide(None) else { return Ok(Put::Nothing) };
            self.exceeded |= packed::exceeds(limits, self.tree.len + 1, member.len());
            return self.insert(slab, score, member, hash).map(|()| Put::Added);
        };
        let h = self.table.handle(slot);
        let old = element(slab, h).score();
        let Some(score) = decide(Some(old)) else { return Ok(Put::Nothing) };
        if score.to_bits() == old.to_bits() {
            return Ok(Put::Nothing);
        }
        if self.versions.is_viewed()
            || !memory::fits_score(slab, h, score)
            || !self.move_in_place(slab, h, score, member)
        {
            self.exchange(slab, slot, h, score, member)?;
        }
        Ok(Put::Changed)
    }

    /// Adds a member that is not there.
    pub(super) fn insert(&mut self, slab: &mut Slab, score: f64, member: &[u8], hash: u64) -> Result<(), AllocError> {
        let h = self.versions.new_element(slab, score, member, hash)?;
        let inserted = self.table.insert(slab, &Members { seed: self.seed }, hash, h).map(|_| ()).and_then(|()| {
            let key = score::key(score);
            let path = self.tree.find(slab, Probe::At(key, Member::Bytes(member)));
            let inserted = self.tree.insert(slab, &mut self.versions, path, key, h);
            if inserted.is_err() {
                self.leave_table(slab, h, hash);
            }
            inserted
        });
        if inserted.is_err() {
            self.versions.free(slab, h);
        }
        inserted
    }

    /// Adds the elements of a run, none of which is there. `exceeds` is asked about the number of elements and the length of each.
    pub(super) fn insert_run(
        &mut self,
        slab: &mut Slab,
        run: &[u8],
        exceeds: impl Fn(usize, usize) -> bool,
    ) -> Result<(), AllocError> {
        let mut entries = Entries::new(run);
        let mut digits = [0; MAX_DIGITS];
        while let (Some(member), Some(score)) = (entries.next(), entries.next()) {
            let text = member.text(&mut digits);
            self.exceeded |= exceeds(self.tree.len + 1, text.len());
            self.insert(slab, score::from_entry(score), text, hash_key(self.seed, text))?;
        }
        Ok(())
    }

    /// The element is found by its member no more.
    fn leave_table(&mut self, slab: &mut Slab, h: Handle, hash: u64) {
        let slot = self.table.find_handle(slab, hash, h).expect("an element of the tree is in the table");
        self.table.remove(slab, hash, slot);
    }

    fn locate(&self, slab: &Slab, h: Handle) -> Path {
        let element = element(slab, h);
        self.tree.locate(slab, h, element.key(), element.member()).expect("an element of the table is in the tree")
    }

    /// Writes the new score into the element and moves it in the tree, if that takes no memory. No views are open.
    fn move_in_place(&mut self, slab: &mut Slab, h: Handle, score: f64, member: &[u8]) -> bool {
        let key = score::key(score);
        let to = self.tree.find(slab, Probe::At(key, Member::Bytes(member)));
        let from = self.locate(slab, h);
        if from.leaf == to.leaf {
            memory::set_score(slab, h, score);
            let place = to.index - usize::from(to.index > from.index);
            self.tree.shift(slab, from, place, key);
            return true;
        }
        let leaf = memory::head(slab, to.leaf);
        if leaf.count() == leaf.capacity() {
            return false;
        }
        // The path to the present place stays good: no node is added, and the leaf is another one.
        let inserted = self.tree.insert(slab, &mut self.versions, to, key, h);
        debug_assert!(inserted.is_ok(), "there is room in the leaf");
        memory::set_score(slab, h, score);
        self.tree.remove(slab, &mut self.versions, from, 1);
        true
    }

    /// Puts an element of another score in the place of one.
    fn exchange(
        &mut self,
        slab: &mut Slab,
        slot: Slot,
        old: Handle,
        score: f64,
        member: &[u8],
    ) -> Result<(), AllocError> {
        let new = self.versions.with_score(slab, old, score, member)?;
        let key = score::key(score);
        let path = self.tree.find(slab, Probe::At(key, Member::Bytes(member)));
        if let Err(error) = self.tree.insert(slab, &mut self.versions, path, key, new) {
            self.versions.free(slab, new);
            return Err(error);
        }
        self.table.replace(slot, new);
        let path = self.locate(slab, old);
        self.tree.remove(slab, &mut self.versions, path, 1);
        self.versions.drop_element(slab, old);
        Ok(())
    }

    /// Takes a member out; its score.
    pub(super) fn remove(&mut self, slab: &mut Slab, member: &[u8]) -> Option<f64> {
        let hash = hash_key(self.seed, member);
        let slot = self.slot(slab, member, hash)?;
        let h = self.table.remove(slab, hash, slot);
        let path = self.locate(slab, h);
        let score = element(slab, h).score();
        self.tree.remove(slab, &mut self.versions, path, 1);
        self.versions.drop_element(slab, h);
        Some(score)
    }

    /// Takes out the `count` elements from a rank on, of which so many there are; `visit` is told each before it is gone.
    pub(super) fn remove_ranks(
        &mut self,
        slab: &mut Slab,
        rank: usize,
        count: usize,
        mut visit: impl FnMut(&Slab, Handle),
    ) {
        let mut left = count;
        while left > 0 {
            let path = self.tree.at_rank(slab, rank);
            let mut leaving = [Handle::NULL; memory::LEAF_MAX];
            let elements = &memory::leaf(slab, path.leaf).elements[path.index..];
            let n = elements.len().min(left);
            leaving[..n].copy_from_slice(&elements[..n]);
            leaving[..n].iter().for_each(|&h| slab.prefetch(h));
            self.tree.remove(slab, &mut self.versions, path, n);
            for &h in &leaving[..n] {
                visit(slab, h);
                self.leave_table(slab, h, element(slab, h).hash(self.seed));
                self.versions.drop_element(slab, h);
            }
            left -= n;
        }
    }
}

impl Container for Zset {
    const TYPE: Type = Type::Zset;
    type View = View;

    fn len(&self) -> usize {
        self.tree.len
    }

    fn bytes(&self) -> u64 {
        self.versions.slab_bytes() + (self.table.table_bytes() + self.versions.heap_bytes()) as u64
    }

    fn heap_bytes(&self) -> usize {
        self.table.heap_bytes() + self.versions.heap_bytes()
    }

    fn kept_bytes(&self) -> u64 {
        self.versions.kept_bytes()
    }

    fn open_view(&mut self, slab: &Slab, span: Span) -> View {
        let id = self.versions.open(self.tree);
        View { id, cursor: Cursor::new(slab, self.tree, span.skip, usize::MAX, span.reverse) }
    }

    fn view_next(
        &mut self,
        slab: &Slab,
        view: &mut View,
        run: &mut Vec<u8>,
        budget_bytes: usize,
    ) -> Result<bool, ViewLost> {
        if self.versions.is_lost(view.id) {
            return Err(ViewLost);
        }
        let until = run.len().saturating_add(budget_bytes);
        while run.len() < until && view.cursor.left > 0 {
            for _ in 0..BUDGET_STEP {
                let Some(h) = view.cursor.next(slab) else { break };
                Pair::of(slab, h).put(slab, run);
                // One long member may be all of it.
                if run.len() >= until {
                    break;
                }
            }
        }
        Ok(view.cursor.left > 0)
    }

    fn close_view(&mut self, view: View) {
        self.versions.close(view.id);
    }

    fn is_viewed(&self) -> bool {
        self.versions.has_opened()
    }

    fn to_packed(&self, slab: &Slab) -> Option<Vec<u8>> {
        let bytes_max = shrunk_max(packed::BYTES_MAX);
        if self.len() > shrunk_max(packed::ELEMENTS_MAX) || self.versions.has_opened() {
            return None;
        }
        let mut bytes = packed::begin(self.len(), self.exceeded);
        let mut cursor = Cursor::new(slab, self.tree, 0, usize::MAX, false);
        while let Some(h) = cursor.next(slab) {
            match element(slab, h).member() {
                Member::Bytes(member) if member.len() <= packed::MEMBER_MAX => Pair::of(slab, h).put(slab, &mut bytes),
                _ => return None,
            }
            if bytes.len() > bytes_max {
                return None;
            }
        }
        Some(bytes)
    }

    fn has_work(&self) -> bool {
        self.table.has_work() || self.versions.has_work()
    }

    fn maintain(&mut self, slab: &mut Slab, budget: usize) -> bool {
        let mut left = budget;
        let more = self.versions.release(slab, &mut left);
        let segments = left.div_ceil(SEGMENT_ELEMENTS);
        (segments > 0 && self.table.maintain(slab, &Members { seed: self.seed }, segments)) | more
    }

    fn relocate(&mut self, slab: &mut Slab, cursor: u64, slice: &mut Slice) -> Option<u64> {
        self.relocate_from(slab, cursor, slice)
    }

    fn drain(&mut self, slab: &mut Slab, budget: usize) -> bool {
        let mut left = budget;
        if self.versions.release(slab, &mut left) {
            return true;
        }
        let versions = &mut self.versions;
        if self.table.drain(slab, left, |slab, h| versions.free(slab, h)) {
            return true;
        }
        change::drain_nodes(&mut self.tree, slab, &mut self.versions, budget)
    }

    fn unpack(bytes: &[u8], span: Span, run: &mut Vec<u8>) {
        let packed = Packed::new(bytes);
        if span.reverse {
            for at in packed.starts().into_iter().rev().skip(span.skip) {
                run.extend_from_slice(packed.pair_bytes(at));
            }
        } else {
            run.extend_from_slice(packed.from(span.skip));
        }
    }

    fn extend(body: &mut Body<Zset>, memory: &mut Memory<'_>, run: &[u8]) -> Result<(), AllocError> {
        let mut rest = run;
        while let Body::Packed(_) = body {
            let mut entries = Entries::new(rest);
            let (Some(member), Some(score)) = (entries.next(), entries.next()) else { return Ok(()) };
            let score = score::from_entry(score);
            let Memory { ref mut slab, seed, limits } = *memory;
            Edit { body, memory: Memory { slab, seed, limits } }
                .put(member.text(&mut [0; MAX_DIGITS]), |_| Some(score))?;
            rest = entries.rest();
        }
        let Body::Big(big) = body else { return Ok(()) };
        let limits = memory.limits;
        big.insert_run(memory.slab, rest, |elements, bytes| packed::exceeds(&limits, elements, bytes))
    }

    fn encoding(look: Look<'_, Zset>, _: &Limits) -> &'static str {
        let exceeded = match look.form {
            Form::Packed(bytes) => Packed::new(bytes).exceeded(),
            Form::Big(big) => big.exceeded,
        };
        if exceeded { "skiplist" } else { "listpack" }
    }
}
