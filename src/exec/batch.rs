//! Parsed requests on their way to be run, of one client or of several.

use crate::cmd::alike::Request;
use crate::cmd::ctx::Args;
use crate::db::Fetch;
use std::ops::Range;

/// Parsed requests in the order in which they run. Those of one client stand together.
pub struct Batch<'b> {
    requests: &'b [Request],
    pub(super) args: &'b [&'b [u8]],
    /// Runs of requests that are known to be alike, in order, from the first one that is not over.
    runs: &'b [Range<usize>],
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
    pub fn new(requests: &'b [Request], args: &'b [&'b [u8]], runs: &'b [Range<usize>]) -> Batch<'b> {
        // A request by itself has nothing to do meanwhile.
        Batch { requests, args, runs, fetched: usize::from(requests.len() == 1), window: &[] }
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

    /// Request `at` and those behind it that are alike, before `until`: of its command, with as many arguments, one behind the other.
    #[inline(always)]
    pub(super) fn alike(&mut self, at: usize, until: usize) -> &'b [Request] {
        while let Some((run, rest)) = self.runs.split_first()
            && run.end <= at
        {
            self.runs = rest;
        }
        let requests = &self.requests[at..until];
        match self.runs.first() {
            Some(run) if run.start <= at => &requests[..requests.len().min(run.end - at)],
            _ => Request::alike(requests),
        }
    }

    /// The arguments of some requests that are alike.
    #[inline(always)]
    pub(super) fn args_of_all(&self, alike: &[Request]) -> &'b [&'b [u8]] {
        let (from, argc) = alike.first().map_or((0, 1), |first| (first.args as usize, first.argc as usize));
        &self.args[from..][..alike.len() * argc]
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
