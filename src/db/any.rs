//! Containers of whatever type: for what treats all types alike (COPY, RENAME to another shard, DUMP, RESTORE).

use super::collections::{Viewed, look_at};
use super::item::{Key, Type};
use super::view::{Db, Deadline};
use super::{DbError, Shard, item_at};
use crate::types::hash::Hash;
use crate::types::list::List;
use crate::types::set::Set;
use crate::types::zset::Zset;
use crate::types::{Body, Container, Form, Span, ViewLost};

/// A place in the table: a bucket's share.
const PLACE_BYTES: u64 = 64_u64.div_ceil(12);

macro_rules! of_types {
    ($($name:ident),*) => {
        /// A view of a container; see [`Viewed`].
        #[must_use]
        pub enum AnyViewed {
            $($name(Viewed<$name>),)*
        }

        /// A container that is made in slices, in the shard of its key; see [`Db::extend_body`].
        #[must_use]
        pub enum AnyBody {
            $($name(Body<$name>),)*
        }

        impl AnyViewed {
            #[must_use]
            pub fn kind(&self) -> Type {
                match self {
                    $(AnyViewed::$name(_) => Type::$name,)*
                }
            }

            /// Elements.
            #[must_use]
            #[expect(clippy::len_without_is_empty, reason = "a container has elements")]
            pub fn len(&self) -> usize {
                match self {
                    $(AnyViewed::$name(view) => view.len(),)*
                }
            }

            /// Memory of its own in bytes.
            #[must_use]
            pub fn held_bytes(&self) -> usize {
                match self {
                    $(AnyViewed::$name(view) => view.held_bytes(),)*
                }
            }

            /// Appends the next elements to `run`. False: those were the last.
            ///
            /// # Errors
            /// [`ViewLost`]: there was no memory to keep the rest as it was.
            pub fn next(&mut self, db: &mut Db<'_>, run: &mut Vec<u8>, budget_bytes: usize) -> Result<bool, ViewLost> {
                match self {
                    $(AnyViewed::$name(view) => db.view_next(view, run, budget_bytes),)*
                }
            }

            pub fn close(self, db: &mut Db<'_>) {
                match self {
                    $(AnyViewed::$name(view) => db.close_view(view),)*
                }
            }
        }

        impl AnyBody {
            /// An empty container.
            ///
            /// # Panics
            /// If it is to be a string.
            pub fn new(kind: Type) -> AnyBody {
                match kind {
                    Type::String => panic!("a string is no container"),
                    $(Type::$name => AnyBody::$name(Body::default()),)*
                }
            }

            /// Adds the elements of a run, none of which is there yet.
            ///
            /// # Errors
            /// [`DbError::OutOfMemory`]; some may have been added.
            pub fn extend(&mut self, db: &mut Db<'_>, key: Key<'_>, run: &[u8]) -> Result<(), DbError> {
                match self {
                    $(AnyBody::$name(body) => db.extend_body(key, body, run),)*
                }
            }

            /// Becomes the value of a key, whatever that holds.
            ///
            /// # Errors
            /// [`DbError::OutOfMemory`]; nothing has changed then, and the container was freed.
            pub fn store(self, db: &mut Db<'_>, key: Key<'_>, deadline: Deadline) -> Result<bool, DbError> {
                match self {
                    $(AnyBody::$name(body) => db.store(key, body, deadline),)*
                }
            }

            /// Gives it up.
            pub fn discard(self, db: &mut Db<'_>, key: Key<'_>) {
                match self {
                    $(AnyBody::$name(body) => db.drop_body(key, body),)*
                }
            }
        }

        /// Appends all elements of a packed container to `run`; their number.
        pub fn unpack(kind: Type, packed: &[u8], run: &mut Vec<u8>) -> usize {
            match kind {
                Type::String => {}
                $(Type::$name => <$name as Container>::unpack(packed, Span::default(), run),)*
            }
            crate::types::packed::count(packed)
        }

        impl Db<'_> {
            /// A view of the container of that type at a key, which was read before: it is not counted again. `None`: there is none.
            pub fn open_any_view(&mut self, key: Key<'_>, kind: Type, span: Span) -> Option<AnyViewed> {
                match kind {
                    Type::String => None,
                    $(Type::$name => self.open_view_again(key, span).ok().flatten().map(AnyViewed::$name),)*
                }
            }

            /// Appends all elements of a packed container to `run`; their number.
            pub fn unpack(&self, kind: Type, packed: &[u8], run: &mut Vec<u8>) -> usize {
                match kind {
                    Type::String => {}
                    $(Type::$name => <$name as Container>::unpack(packed, Span::default(), run),)*
                }
                crate::types::packed::count(packed)
            }

            /// All memory that a key takes, with its name, its value and its place in the table, in bytes: of each piece what the slab gives for it.
            /// Constant time; no read, no use.
            pub fn memory_bytes(&mut self, key: Key<'_>) -> Option<u64> {
                let found = self.find(key)?;
                let Shard { slab, containers, .. } = &*self.shard;
                let item = item_at(slab, found.handle);
                let container = match item.kind() {
                    Type::String => 0,
                    $(Type::$name => match look_at::<$name>(slab, containers, item).ok()?.form {
                        Form::Packed(_) => 0,
                        Form::Big(big) => big.bytes() + size_of::<$name>() as u64,
                    })*
                };
                Some(item.held_bytes(slab) + container + PLACE_BYTES)
            }

            /// The name of the encoding that Redis would have given the container at a key. `None`: there is none.
            pub fn container_encoding(&mut self, key: Key<'_>) -> Option<&'static str> {
                let found = self.find(key)?;
                let Shard { slab, containers, limits, .. } = &*self.shard;
                let item = item_at(slab, found.handle);
                match item.kind() {
                    Type::String => None,
                    $(Type::$name => {
                        let look = look_at::<$name>(slab, containers, item).ok()?;
                        Some(<$name as Container>::encoding(look, limits))
                    })*
                }
            }
        }
    };
}

of_types!(List, Set, Hash, Zset);
