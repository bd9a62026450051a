//! Containers of values: pure, without keys, replies or a clock. A string needs none: it is bytes in its item or a blob (`db::item`), for
//! which the slab suffices. What strings are used for beyond that (bitmaps) has its algorithms here.
//!
//! A container has one of two forms. **Packed**: a run of bytes in the item of its key ([`packed`]), for small ones. **Big**: a structure of its
//! own, whose elements and nodes are chunks of the slab ([`Container`]). The operations of a type take either form, and turn one into the
//! other as it grows; callers cannot tell but by speed.
//!
//! ```text
//!  reading   Look  { form: Form::Packed(bytes) | Form::Big(&B), slab }          Copy
//!  changing  Edit  { body: Body::Packed(bytes) | Body::Big(box), memory }       what the body is afterwards is what the key holds
//!  moving    runs of entries (`base::entry`): `view_next` writes them, `extend` reads them
//! ```

pub mod bitmap;
pub mod hash;
pub mod list;
pub mod packed;
pub mod set;
#[cfg(test)]
mod sweeps;
pub mod zset;

use dolmen_slab::{AllocError, Slab, Slice};

pub use crate::base::limits::Limits;
pub use crate::table::ViewLost;

/// The type of a value, as TYPE names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Type {
    String = 1,
    List = 2,
    Set = 3,
    Hash = 4,
    Zset = 5,
}

impl Type {
    pub const ALL: &[Type] = &[Type::String, Type::List, Type::Set, Type::Hash, Type::Zset];

    /// The word that TYPE answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::List => "list",
            Type::Set => "set",
            Type::Hash => "hash",
            Type::Zset => "zset",
        }
    }
}

/// What a container needs from its shard to change.
pub struct Memory<'a> {
    pub slab: &'a mut Slab,
    /// Of the hashes of elements.
    pub seed: u64,
    pub limits: Limits,
}

/// Which elements a view shows, of those that have an order; of others all, whatever is said here.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Span {
    /// Elements that are passed over, from the end where the view begins.
    pub skip: usize,
    /// From the last to the first.
    pub reverse: bool,
}

/// The big form of a type.
pub trait Container: Sized {
    const TYPE: Type;
    /// An open view: the elements as they were, in slices. To be closed.
    type View;

    /// Number of elements (of a hash: fields).
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory in bytes, in the slab and on the heap, what views keep included. Constant time.
    fn bytes(&self) -> u64;

    /// The part of `bytes` that is on the heap. Constant time, and cheap: asked before and after each change.
    fn heap_bytes(&self) -> usize;

    /// The part of `bytes` that only views keep, or that closed ones have left to be freed. Constant time.
    fn kept_bytes(&self) -> u64;

    /// A view of the container as it is now. Its cost does not depend on the size (but for finding where `span` begins: logarithmic).
    fn open_view(&mut self, slab: &Slab, span: Span) -> Self::View;

    /// Appends the next elements of a view to `run`, each as its entries, until `run` has grown by `budget_bytes` or a little more. List: the
    /// element. Set: the member. Hash: field, value, deadline in Unix milliseconds (0: none). Zset: member, score (`base::score::to_entry`).
    /// False: those were the last.
    ///
    /// # Errors
    /// [`ViewLost`]: there was no memory to keep the rest.
    fn view_next(
        &mut self,
        slab: &Slab,
        view: &mut Self::View,
        run: &mut Vec<u8>,
        budget_bytes: usize,
    ) -> Result<bool, ViewLost>;

    /// Ends a view. What it kept is freed by `maintain`.
    fn close_view(&mut self, view: Self::View);

    fn is_viewed(&self) -> bool;

    /// The packed form, if it is small enough to be one, with some room left, so that it does not become big again at once. `None`: it is too large, or
    /// seen by a view. Asked now and then while it loses elements.
    fn to_packed(&self, slab: &Slab) -> Option<Vec<u8>>;

    /// Has `maintain` something to do? Asked after each change.
    fn has_work(&self) -> bool;

    /// Growth, shrinking, what closed views kept: about `budget` elements of work. True: there is more.
    fn maintain(&mut self, slab: &mut Slab, budget: usize) -> bool;

    /// Goes on with a sweep over all its memory in the slab, as far as `slice` goes: offers each chunk to be moved (`Slab::offer`), and gives what is half
    /// empty the size that it needs. `None`: that is done, or it has views, under which it stays as it is. Else where to go on (0 is the beginning);
    /// what changes meanwhile may be passed over.
    fn relocate(&mut self, slab: &mut Slab, cursor: u64, slice: &mut Slice) -> Option<u64>;

    /// Frees about `budget` elements with their memory; true: there is more. Nothing else is called from the first call on. Not with open views.
    fn drain(&mut self, slab: &mut Slab, budget: usize) -> bool;

    /// Appends all elements of a packed container to `run`, as `view_next` does, in the order of `span` and without those it skips.
    fn unpack(packed: &[u8], span: Span, run: &mut Vec<u8>);

    /// Adds elements to a container, from a run as `view_next` writes it. None of them is there yet (of a list: they go to the end).
    ///
    /// # Errors
    /// The slab is full; some of the elements may have been added.
    fn extend(body: &mut Body<Self>, memory: &mut Memory<'_>, run: &[u8]) -> Result<(), AllocError>;

    /// The first deadline that one of its elements has, in Unix milliseconds; `u64::MAX`: none has one. Cheap: asked after each change.
    #[inline]
    fn earliest_ms(_: Look<'_, Self>) -> u64 {
        u64::MAX
    }

    /// The name of the encoding that Redis would have given it.
    fn encoding(look: Look<'_, Self>, limits: &Limits) -> &'static str;
}

/// A container to be read.
pub enum Form<'a, B> {
    Packed(&'a [u8]),
    Big(&'a B),
}

impl<B> Clone for Form<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Form<'_, B> {}

/// A container to be read, with the memory that its elements lie in.
pub struct Look<'a, B> {
    pub form: Form<'a, B>,
    pub slab: &'a Slab,
}

impl<B> Clone for Look<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Look<'_, B> {}

impl<B: Container> Look<'_, B> {
    /// Number of elements.
    #[inline]
    #[must_use]
    pub fn len(self) -> usize {
        match self.form {
            Form::Packed(bytes) => packed::count(bytes),
            Form::Big(big) => big.len(),
        }
    }

    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// A container of its own, outside of the keyspace for as long as it is changed.
#[derive(Debug)]
pub enum Body<B> {
    /// See [`packed`]; nothing at all is an empty container.
    Packed(Vec<u8>),
    Big(Box<B>),
}

impl<B> Default for Body<B> {
    fn default() -> Body<B> {
        Body::Packed(Vec::new())
    }
}

impl<B: Container> Body<B> {
    #[must_use]
    pub fn look<'a>(&'a self, slab: &'a Slab) -> Look<'a, B> {
        let form: Form<'a, B> = match self {
            Body::Packed(bytes) => Form::Packed(bytes),
            Body::Big(big) => Form::Big(big),
        };
        Look { form, slab }
    }
}

/// A container to be changed.
pub struct Edit<'a, B> {
    pub body: &'a mut Body<B>,
    pub memory: Memory<'a>,
}

impl<B: Container> Edit<'_, B> {
    #[must_use]
    pub fn look(&self) -> Look<'_, B> {
        self.body.look(self.memory.slab)
    }
}
