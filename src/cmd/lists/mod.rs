//! Lists: what blocking commands take from them; the commands are not here yet.
use crate::cmd::ctx::Ctx;
use crate::db::{DbError, item::Key, waiters::End};
pub fn take(_: &mut Ctx<'_>, _: Key<'_>, _: End, _: usize) -> Result<Option<Vec<u8>>, DbError> {
    Ok(None)
}
pub fn transfer(_: &mut Ctx<'_>, _: Key<'_>, _: Key<'_>, _: End, _: End) -> Result<Option<Vec<u8>>, DbError> {
    Ok(None)
}
