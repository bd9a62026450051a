//! Containers of whatever type: for what treats all types alike (COPY, RENAME to another shard, DUMP, RESTORE).

use super::collections::{Viewed, look_at};
use super::item::{Key, Type};
use super::view::{Db, Deadline};
use super::{DbError, Shard, item_at};
use crate::types::hash::Hash;
use crate::types::list::List;
use crate::types::set::Set;
use crate::types::zset::Zset;
use crate::types::{Body, Container, Span, ViewLost};

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
            /// A view of the container at a key, which is there and no string.
            pub(super) fn open_any_view(&mut self, key: Key<'_>, kind: Type) -> Option<AnyViewed> {
                match kind {
                    Type::String => None,
                    $(Type::$name => self.open_view(key, Span::default()).ok().flatten().map(AnyViewed::$name),)*
                }
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
