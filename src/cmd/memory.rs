//! MEMORY: what keys take. All of it is counted as it changes, so the answer is exact, and SAMPLES has no effect.

use super::ctx::{Args, Ctx, Failure, Outcome};
use super::options::parse_int;
use crate::proto::errors;

/// `MEMORY USAGE key [SAMPLES count]`
pub fn usage(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[2]);
    ctx.attempt(|ctx| {
        check_samples(&args[3..])?;
        match ctx.db.memory_bytes(key) {
            Some(bytes) => ctx.reply.int(bytes.cast_signed()),
            None => ctx.reply.null(),
        }
        Ok(())
    })
}

fn check_samples(mut options: Args<'_>) -> Result<(), Failure> {
    while let [option, rest @ ..] = options {
        let [count, rest @ ..] = rest else { return Err(errors::SYNTAX.into()) };
        if !option.eq_ignore_ascii_case(b"samples") || parse_int(count)? < 0 {
            return Err(errors::SYNTAX.into());
        }
        options = rest;
    }
    Ok(())
}
