//! Sorted sets: members with scores, in the order of (score, member). Owns both forms of them, and what can be asked of and done to either.
//!
//! **Packed**: member and score of one element after the other, in order, in the item of the key ([`packed`]). **Big**: each element is
//! a chunk; a table finds it by its member, a counted tree by its place.
//!
//! ```text
//!  member ── hash ──▶ table::Table ──┐                                      element: score, member
//!                                    ├──▶ handle of an element ──▶ ┌───────┬────────┐
//!  (score, member), rank ──▶ tree ───┘                             └───────┴────────┘
//! ```
//! A million members of 8 bytes with scores that are integers of 32 bits take 16 bytes each for the element, 7.2 in the table, and 8.2
//! (ascending) to 9 (random) in the tree; with any other scores 24 for the element.
//!
//! # Files
//! `memory` is the unsafe core; `tree` reads, `change` changes the tree; `versions` are views and what they keep; `big` joins tree and table;
//! `packed` is the small form; `look` and `edit` are for callers, whatever the form; the numbers are `base::score`.

mod big;
mod change;
mod edit;
mod look;
mod memory;
mod packed;
mod relocate;
#[cfg(test)]
mod tests;
mod tree;
mod versions;

pub use crate::base::score;
pub use big::{View, Zset};
pub use edit::Put;
pub use look::{Bound, Name, Pair, Pairs};
