//! Parsed requests, and how a command runs those that are alike: of the same command, with as many arguments, one behind the other. In a pipeline
//! that is most of them. A row may have a loop over them into which its function was compiled (`Exec::in_runs`); knows nothing of what is done
//! around it (`exec::pipeline`).

use super::ctx::{AWAITED, Args, Ctx, Exec, FAILED, Outcome};
use super::spec::Command;
use crate::db::Key;
use crate::table::Site;

/// Runs requests that are alike until one has not ended in its reply alone, or must be followed up: how many, and how the last one ended.
pub type RunAlike = for<'c> fn(&mut Ctx<'c>, &[Request], Args<'_>) -> (usize, Outcome);

/// Runs requests that are alike, one after the other. `args`: those of all.
#[inline(always)]
pub fn each(
    ctx: &mut Ctx<'_>,
    alike: &[Request],
    args: Args<'_>,
    run: impl Fn(&mut Ctx<'_>, Args<'_>) -> Outcome,
) -> (usize, Outcome) {
    let argc = alike.first().map_or(1, |first| first.argc.max(1) as usize);
    let mut ran = 0;
    for (request, argv) in alike.iter().zip(args.chunks_exact(argc)) {
        ctx.hash = request.hash;
        ctx.site = request.site;
        let outcome = run(ctx, argv);
        ran += 1;
        if outcome != Outcome::Done || ctx.changed >= AWAITED {
            return (ran, outcome);
        }
    }
    (ran, Outcome::Done)
}

impl Exec {
    /// The same, with a loop of its own over requests that are alike.
    #[must_use]
    pub const fn in_runs(self, run_alike: RunAlike) -> Exec {
        Exec { run_alike: Some(run_alike), ..self }
    }
}

/// A [`RunAlike`] of the name `$run` whose loop has the command `$each` in it.
macro_rules! alike {
    ($run:ident, $each:path) => {
        fn $run(
            ctx: &mut $crate::cmd::ctx::Ctx<'_>,
            alike: &[$crate::cmd::alike::Request],
            args: $crate::cmd::ctx::Args<'_>,
        ) -> (usize, $crate::cmd::ctx::Outcome) {
            $crate::cmd::alike::each(ctx, alike, args, $each)
        }
    };
}
pub(super) use alike;

const _: () = assert!(FAILED > AWAITED && AWAITED.is_power_of_two());

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
    /// Of no command, without arguments.
    pub const NONE: Request = Request { row: None, hash: 0, site: Site::NONE, args: 0, argc: 0, end: 0 };

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

    /// The first of some and those behind it that are like it: of its command, with as many arguments, one behind the other.
    #[inline(always)]
    #[must_use]
    pub fn alike(requests: &[Request]) -> &[Request] {
        let Some((first, rest)) = requests.split_first() else { return &[] };
        let Some(row) = first.row else { return &requests[..1] };
        let mut args = first.args;
        let alike = rest.iter().take_while(|request| {
            args += first.argc;
            request.is(row, args, first.argc)
        });
        &requests[..1 + alike.count()]
    }
}

/// Offsets in a window or a batch; windows are far below 4 GB.
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "bounded by the window's size, or the argument count limit of 2^31 - 1"
)]
pub fn narrow(n: usize) -> u32 {
    debug_assert!(u32::try_from(n).is_ok());
    n as u32
}
