//! Keys that hold containers: typed access for reading and changing, views that are read in slices, bodies made in slices. The only place that
//! knows in which form a container lies under its key; what is in it is the type's.

use super::containers::{ContainerId, Stored};
use super::item::{Content, Item, Key, NewValue};
use super::marks::Marking;
use super::view::{Db, Deadline, Found};
use super::{DbError, Shard, item_at};
use crate::base::entry::Entries;
use crate::types::list::{Element, List};
use crate::types::{Body, Edit, Form, Look, Memory, Span, ViewLost};
use dolmen_slab::Slab;

/// Longest packed container: with the longest key that lies in its item it still fits a chunk.
pub const PACKED_BYTES_MAX: usize = 8000;

/// A container that loses elements is looked at once in so many whether it should be packed.
const SHRUNK_STEP: usize = 8;

/// What [`Db::edit`] does when there is no such key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// The change is made to an empty container, which becomes the key's.
    Create,
    /// Nothing happens.
    Skip,
}

/// The elements of a container as they were at one instant, read in slices. To be closed ([`Db::close_view`]): until then it keeps memory.
#[must_use]
pub struct Viewed<B: Stored> {
    /// By which its shard is found.
    hash: u64,
    len: usize,
    source: Source<B>,
}

enum Source<B: Stored> {
    Big(ContainerId, B::View),
    /// All elements of a packed one, as a run, until they are given out.
    Run(Vec<u8>),
}

impl<B: Stored> Viewed<B> {
    /// Elements of the container, whatever the view passes over.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory of its own in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match &self.source {
            Source::Big(..) => 0,
            Source::Run(run) => run.capacity(),
        }
    }
}

impl Shard {
    fn memory(&mut self) -> Memory<'_> {
        Memory { slab: &mut self.slab, seed: self.seed, limits: self.limits }
    }

    fn drop_body<B: Stored>(&mut self, body: Body<B>) {
        match body {
            Body::Packed(bytes) => self.keep_scratch(bytes),
            Body::Big(big) => self.containers.drop_new(&mut self.slab, big),
        }
    }

    /// Memory to be used again for the next packed container.
    fn keep_scratch(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        if bytes.capacity() <= 2 * PACKED_BYTES_MAX {
            self.scratch = bytes;
        }
    }
}

impl Db<'_> {
    /// The container of a type at a key, for a command that reads: counts hits and misses.
    ///
    /// # Errors
    /// [`DbError::WrongType`].
    #[inline]
    pub fn read<B: Stored>(&mut self, key: Key<'_>) -> Result<Option<Look<'_, B>>, DbError> {
        match self.find_read(key) {
            Some(found) => self.look_found(found).map(Some),
            None => Ok(None),
        }
    }

    /// The same for a command that goes on to write.
    ///
    /// # Errors
    /// [`DbError::WrongType`].
    pub fn look<B: Stored>(&mut self, key: Key<'_>) -> Result<Option<Look<'_, B>>, DbError> {
        match self.find(key) {
            Some(found) => self.look_found(found).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn look_found<B: Stored>(&mut self, found: Found) -> Result<Look<'_, B>, DbError> {
        self.touch(found);
        let Shard { slab, containers, .. } = &*self.shard;
        look_at(slab, containers, item_at(slab, found.handle))
    }

    /// Changes the container of a type at a key. `None`: there is no such key, and `missing` says to leave it at that. Afterwards the key
    /// holds what the body is then; a key whose container is empty is deleted. Deadlines stay.
    ///
    /// # Errors
    /// [`DbError::WrongType`], [`DbError::OutOfMemory`], what `change` fails with. What `change` has done to a packed body before it failed is undone.
    pub fn edit<B: Stored, T>(
        &mut self,
        key: Key<'_>,
        missing: Missing,
        change: impl FnOnce(&mut Edit<'_, B>) -> Result<T, DbError>,
    ) -> Result<Option<T>, DbError> {
        let Some(mut found) = self.find(key) else {
            return match missing {
                Missing::Skip => Ok(None),
                Missing::Create => self.edit_new(key, change).map(Some),
            };
        };
        if self.item(found.handle).kind() != B::TYPE {
            return Err(DbError::WrongType);
        }
        if self.is_viewed() {
            found.handle = self.own(key.hash, found)?;
        }
        self.touch(found);
        let Shard { slab, containers, scratch, .. } = &mut *self.shard;
        match item_at(slab, found.handle).content() {
            Content::Packed(packed) => {
                let mut bytes = std::mem::take(scratch);
                bytes.clear();
                bytes.extend_from_slice(packed);
                self.edit_packed(key, found, bytes, change).map(Some)
            }
            Content::Big(id) => {
                let (big, taken) = containers.take::<B>(id);
                let len = big.len();
                let mut body = Body::Big(big);
                let done = change(&mut Edit { body: &mut body, memory: self.shard.memory() });
                match body {
                    Body::Big(big) => {
                        let (is_empty, has_shrunk) = (big.is_empty(), big.len() / SHRUNK_STEP < len / SHRUNK_STEP);
                        let due_ms = B::earliest_ms(Look { form: Form::Big(&*big), slab: &self.shard.slab });
                        self.shard.containers.put_back(taken, big);
                        if is_empty {
                            self.remove_found(key.hash, found);
                        } else if has_shrunk {
                            self.pack::<B>(key, found, id);
                        }
                        self.arm_fields_at(key.hash, due_ms);
                    }
                    Body::Packed(bytes) => {
                        self.shard.containers.gone::<B>(&taken);
                        self.put_body::<B>(key, Some(found), Body::Packed(bytes), Deadline::Keep)?;
                    }
                }
                done.map(Some)
            }
        }
    }

    /// A big container that has become small takes less memory as a packed one, if there is any for that.
    fn pack<B: Stored>(&mut self, key: Key<'_>, found: Found, id: ContainerId) {
        let Shard { slab, containers, .. } = &*self.shard;
        if let Some(packed) = containers.get::<B>(id).to_packed(slab) {
            // It stays big where that fails.
            let _ = self.replace_value(key, found, NewValue::Packed(B::TYPE, &packed), Deadline::Keep, Marking::None);
        }
    }

    fn edit_new<B: Stored, T>(
        &mut self,
        key: Key<'_>,
        change: impl FnOnce(&mut Edit<'_, B>) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let mut body = Body::Packed(std::mem::take(&mut self.shard.scratch));
        match change(&mut Edit { body: &mut body, memory: self.shard.memory() }) {
            Ok(done) => {
                self.put_body(key, None, body, Deadline::None)?;
                Ok(done)
            }
            Err(error) => {
                self.shard.drop_body(body);
                Err(error)
            }
        }
    }

    fn edit_packed<B: Stored, T>(
        &mut self,
        key: Key<'_>,
        found: Found,
        bytes: Vec<u8>,
        change: impl FnOnce(&mut Edit<'_, B>) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let mut body = Body::Packed(bytes);
        let done = match change(&mut Edit { body: &mut body, memory: self.shard.memory() }) {
            Ok(done) => done,
            Err(error) => {
                self.shard.drop_body(body);
                return Err(error);
            }
        };
        let unchanged = match (&body, self.item(found.handle).content()) {
            (Body::Packed(new), Content::Packed(old)) => new == old,
            _ => false,
        };
        if unchanged {
            self.shard.drop_body(body);
        } else {
            self.put_body(key, Some(found), body, Deadline::Keep)?;
        }
        Ok(done)
    }

    /// Puts a body in the place of whatever the key holds; an empty one removes it. The body is freed on error.
    fn put_body<B: Stored>(
        &mut self,
        key: Key<'_>,
        found: Option<Found>,
        body: Body<B>,
        deadline: Deadline,
    ) -> Result<(), DbError> {
        if body.look(&self.shard.slab).is_empty() {
            self.shard.drop_body(body);
            if let Some(found) = found {
                self.remove_found(key.hash, found);
            }
            return Ok(());
        }
        let due_ms = B::earliest_ms(body.look(&self.shard.slab));
        let put = |db: &mut Self, value| {
            match found {
                None => {
                    let deadline_ms = if let Deadline::At(at) = deadline { Some(at) } else { None };
                    db.insert_new(key, value, deadline_ms, None)?;
                }
                Some(found) => db.replace_value(key, found, value, deadline, Marking::None)?,
            }
            db.arm_fields_at(key.hash, due_ms);
            Ok(())
        };
        match body {
            Body::Packed(bytes) => {
                assert!(bytes.len() <= PACKED_BYTES_MAX, "a packed container has become too long for an item");
                let done = put(self, NewValue::Packed(B::TYPE, &bytes));
                self.shard.keep_scratch(bytes);
                done
            }
            Body::Big(big) => {
                let id = self.shard.containers.add(big);
                let done = put(self, NewValue::Container(B::TYPE, id));
                if done.is_err() {
                    self.shard.containers.release(&mut self.shard.slab, id);
                }
                done
            }
        }
    }

    /// Writes a container over whatever a key holds; an empty one deletes the key. True: the key was there before.
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`]; nothing has changed then, and the body was freed.
    pub fn store<B: Stored>(&mut self, key: Key<'_>, body: Body<B>, deadline: Deadline) -> Result<bool, DbError> {
        let mut found = self.find(key);
        if let Some(found) = &mut found
            && self.is_viewed()
        {
            match self.own(key.hash, *found) {
                Ok(handle) => found.handle = handle,
                Err(error) => {
                    self.shard.drop_body(body);
                    return Err(error);
                }
            }
        }
        self.put_body(key, found, body, deadline).map(|()| found.is_some())
    }

    // ---- bodies that are made in slices: they belong to the shard of their key ----

    /// Changes a body that is not yet a key's.
    pub fn with_body<B: Stored, T>(
        &mut self,
        key: Key<'_>,
        body: &mut Body<B>,
        change: impl FnOnce(&mut Edit<'_, B>) -> T,
    ) -> T {
        self.enter(key.hash);
        change(&mut Edit { body, memory: self.shard.memory() })
    }

    /// Adds the elements of a run; none of them is there yet (of a list: they go to the end).
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`]; some may have been added.
    pub fn extend_body<B: Stored>(&mut self, key: Key<'_>, body: &mut Body<B>, run: &[u8]) -> Result<(), DbError> {
        self.enter(key.hash);
        Ok(B::extend(body, &mut self.shard.memory(), run)?)
    }

    /// Gives up a body; what is large is freed later, in slices.
    pub fn drop_body<B: Stored>(&mut self, key: Key<'_>, body: Body<B>) {
        self.enter(key.hash);
        self.shard.drop_body(body);
    }

    // ---- views ----

    /// A view of the container at a key, for a command that reads. It shows the same whatever happens to the key.
    ///
    /// # Errors
    /// [`DbError::WrongType`].
    pub fn open_view<B: Stored>(&mut self, key: Key<'_>, span: Span) -> Result<Option<Viewed<B>>, DbError> {
        match self.find_read(key) {
            Some(found) => self.view_found(key, found, span).map(Some),
            None => Ok(None),
        }
    }

    /// The same for a command that has read the key before: it is not counted again.
    ///
    /// # Errors
    /// [`DbError::WrongType`].
    pub fn open_view_again<B: Stored>(&mut self, key: Key<'_>, span: Span) -> Result<Option<Viewed<B>>, DbError> {
        match self.find(key) {
            Some(found) => self.view_found(key, found, span).map(Some),
            None => Ok(None),
        }
    }

    fn view_found<B: Stored>(&mut self, key: Key<'_>, found: Found, span: Span) -> Result<Viewed<B>, DbError> {
        if self.item(found.handle).kind() != B::TYPE {
            return Err(DbError::WrongType);
        }
        self.touch(found);
        let Shard { slab, containers, .. } = &mut *self.shard;
        let (len, source) = match item_at(slab, found.handle).content() {
            Content::Packed(packed) => {
                let mut run = Vec::new();
                B::unpack(packed, span, &mut run);
                (Look::<B> { form: Form::Packed(packed), slab }.len(), Source::Run(run))
            }
            Content::Big(id) => {
                let big = containers.get_mut::<B>(id);
                (big.len(), Source::Big(id, big.open_view(slab, span)))
            }
        };
        Ok(Viewed { hash: key.hash, len, source })
    }

    /// Appends the next elements of a view to `run` (see [`crate::types::Container::view_next`]). False: those were the last.
    ///
    /// # Errors
    /// [`ViewLost`]: there was no memory to keep the rest as it was.
    pub fn view_next<B: Stored>(
        &mut self,
        viewed: &mut Viewed<B>,
        run: &mut Vec<u8>,
        budget_bytes: usize,
    ) -> Result<bool, ViewLost> {
        self.enter(viewed.hash);
        match &mut viewed.source {
            Source::Big(id, view) => {
                let Shard { slab, containers, .. } = &mut *self.shard;
                containers.get_mut::<B>(*id).view_next(slab, view, run, budget_bytes)
            }
            Source::Run(all) => {
                run.append(all);
                Ok(false)
            }
        }
    }

    /// Shows the next elements of a view of a list where they lie, while `see` says so.
    pub fn view_walk(&mut self, viewed: &mut Viewed<List>, mut see: impl FnMut(&Slab, Element<'_>) -> bool) {
        self.enter(viewed.hash);
        let Shard { slab, containers, .. } = &mut *self.shard;
        match &mut viewed.source {
            Source::Big(id, view) => {
                containers.get_mut::<List>(*id).view_walk(slab, view, |element| see(slab, element))
            }
            Source::Run(all) => {
                let mut entries = Entries::new(all);
                while let Some(entry) = entries.next()
                    && see(slab, Element::Entry(entry))
                {}
                let seen = all.len() - entries.rest().len();
                all.drain(..seen);
            }
        }
    }

    /// The container that a view is of, as it is now, whatever became of its key; `None` if it was a packed one. As long as the name of its key is
    /// held against writers it is what the view shows.
    pub fn viewed<B: Stored>(&mut self, viewed: &Viewed<B>) -> Option<Look<'_, B>> {
        self.enter(viewed.hash);
        let Source::Big(id, _) = viewed.source else { return None };
        let Shard { slab, containers, .. } = &*self.shard;
        Some(Look { form: Form::Big(containers.get(id)), slab })
    }

    /// Ends a view. What it kept is freed in the background.
    pub fn close_view<B: Stored>(&mut self, viewed: Viewed<B>) {
        self.enter(viewed.hash);
        if let Source::Big(id, view) = viewed.source {
            let Shard { slab, containers, .. } = &mut *self.shard;
            containers.get_mut::<B>(id).close_view(view);
            containers.after_close(slab, id);
        }
    }
}

/// The container of an item.
///
/// # Errors
/// [`DbError::WrongType`].
pub(super) fn look_at<'a, B: Stored>(
    slab: &'a dolmen_slab::Slab,
    containers: &'a super::containers::Containers,
    item: Item<'a>,
) -> Result<Look<'a, B>, DbError> {
    if item.kind() != B::TYPE {
        return Err(DbError::WrongType);
    }
    let form = match item.content() {
        Content::Packed(packed) => Form::Packed(packed),
        Content::Big(id) => Form::Big(containers.get(id)),
    };
    Ok(Look { form, slab })
}
