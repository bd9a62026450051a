//! Parsed requests on their way to be run, of one client or of several.

use crate::cmd::ctx::{Args, Exec};
use crate::cmd::spec::Command;
use crate::db::{Fetch, Key};
use crate::table::Site;
use std::ops::Range;

/// A parsed request.
#[derive(Clone, Copy)]
pub struct Request {
    /// `None`: there is no such command.
    pub row: Option<&'static Command<Exec>>,
    /// Hash of the first key; 0 without keys.
    pub hash: u64,
    /// Where the search for it begins.
    pub site: Site,
    /// Where its arguments begin in the batch's, and how many they are.
    pub args: u32,
    pub argc: u32,
    /// The byte of the window behind it.
    pub end: u32,
}

impl Request {
    /// A request whose command has a key, which was located.
    #[inline(always)]
    #[must_use]
    pub fn of_key(row: &'static Command<Exec>, key: Key<'_>, args: usize, argc: usize, end: usize) -> Request {
        Request {
            row: Some(row),
            hash: key.hash,
            site: key.site,
            args: narrow(args),
            argc: narrow(argc),
            end: narrow(end),
        }
    }

    /// Is it of this command, with as many arguments, which begin there?
    #[inline(always)]
    fn is(&self, row: &'static Command<Exec>, args: u32, argc: u32) -> bool {
        self.row.is_some_and(|own| std::ptr::eq(own, row)) && self.args == args && self.argc == argc
    }

    /// Those at the beginning of `rest`, which follow it, that are like it: of its command, with as many arguments, one behind the other.
    #[inline(always)]
    pub(super) fn alike<'r>(&self, rest: &'r [Request]) -> &'r [Request] {
        let Some(row) = self.row else { return &[] };
        let mut args = self.args;
        let alike = rest.iter().take_while(|request| {
            args += self.argc;
            request.is(row, args, self.argc)
        });
        &rest[..alike.count()]
    }
}

/// Parsed requests in the order in which they run. Those of one client stand together.
pub struct Batch<'b> {
    requests: &'b [Request],
    pub(super) args: &'b [&'b [u8]],
    /// The items of so many requests were fetched.
    fetched: usize,
    /// The bytes of the client whose requests run, if they are known.
    pub window: &'b [u8],
}

/// The requests of one client in a batch.
pub struct Share {
    pub requests: Range<usize>,
    /// The epoch of the client's table when the requests were parsed ([`Locator::epoch`]).
    pub epoch: u64,
}

impl<'b> Batch<'b> {
    #[inline]
    #[must_use]
    pub fn new(requests: &'b [Request], args: &'b [&'b [u8]]) -> Batch<'b> {
        // A request by itself has nothing to do meanwhile.
        Batch { requests, args, fetched: usize::from(requests.len() == 1), window: &[] }
    }

    /// The requests of a share.
    #[inline]
    #[must_use]
    pub fn share(&self, share: &Share) -> &'b [Request] {
        &self.requests[share.requests.clone()]
    }

    /// The arguments of a request.
    #[inline]
    #[must_use]
    pub fn args_of(&self, request: &Request) -> Args<'b> {
        &self.args[request.args as usize..][..request.argc as usize]
    }

    /// The arguments of each of some requests that are alike.
    #[inline(always)]
    pub(super) fn args_of_each(&self, alike: &[Request]) -> impl Iterator<Item = Args<'b>> {
        let (from, argc) = alike.first().map_or((0, 1), |first| (first.args as usize, first.argc as usize));
        self.args[from..][..alike.len() * argc].chunks_exact(argc)
    }

    /// Has the items of all requests before `until` fetched.
    #[inline(always)]
    pub(super) fn fetch(&mut self, until: usize, memory: impl Fetch) {
        let until = until.min(self.requests.len());
        if self.fetched < until {
            for request in &self.requests[self.fetched..until] {
                memory.prefetch_items_at(request.site, request.hash);
            }
            self.fetched = until;
        }
    }
}

/// Offsets in a window or a batch; windows are far below 4 GB.
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "bounded by the window's size, or the argument count limit of 2^31 - 1"
)]
pub(super) fn narrow(n: usize) -> u32 {
    debug_assert!(u32::try_from(n).is_ok());
    n as u32
}
