//! Rows of the list group.

use super::doc::{ArgDoc, Doc, DocFlags, Group, KEY, double, integer, key, one_of, string, word};
use super::{Begin, Categories, Find, Flags, KeyFlags, KeySpec, Row};

const LIST: Doc = Doc { group: Group::List, ..Doc::BASE };
/// Of commands that may need memory.
const GROW: Flags = Flags::of(&[Flags::WRITE, Flags::DENYOOM]);
const FAST_GROW: Flags = Flags::of(&[GROW, Flags::FAST]);
const WAIT: Flags = Flags::of(&[Flags::WRITE, Flags::BLOCKING]);

const READ: KeyFlags = KeyFlags::of(&[KeyFlags::RO, KeyFlags::ACCESS]);
const INSERT: KeyFlags = KeyFlags::of(&[KeyFlags::RW, KeyFlags::INSERT]);
const DELETE: KeyFlags = KeyFlags::of(&[KeyFlags::RW, KeyFlags::DELETE]);
/// Removes elements and returns them.
const TAKE: KeyFlags = KeyFlags::of(&[KeyFlags::RW, KeyFlags::ACCESS, KeyFlags::DELETE]);

/// Source and destination of a move.
const BETWEEN: &[KeySpec] =
    &[KeySpec::one(TAKE), KeySpec::new(INSERT, Begin::Index(2), Find::Range { last: 0, step: 1, limit: 0 })];
/// All but the last argument.
const UP_TO_TIMEOUT: &[KeySpec] = &[KeySpec::new(TAKE, Begin::Index(1), Find::Range { last: -2, step: 1, limit: 0 })];

const ELEMENT: ArgDoc = string("element");
const ENDS: &[ArgDoc] = &[word("left", "LEFT"), word("right", "RIGHT")];
const SOURCE: ArgDoc = key("source", 0);
const DESTINATION: ArgDoc = key("destination", 1);
const FROM: ArgDoc = one_of("wherefrom", ENDS);
const TO: ArgDoc = one_of("whereto", ENDS);
const PUSH_ARGS: &[ArgDoc] = &[KEY, ELEMENT.multiple()];
const POP_ARGS: &[ArgDoc] = &[KEY, integer("count").since("6.2.0").optional()];
const RANGE_ARGS: &[ArgDoc] = &[KEY, integer("start"), integer("stop")];
const POP_HISTORY: &[(&str, &str)] = &[("6.2.0", "New argument `count`")];
const TIMEOUT_HISTORY: &[(&str, &str)] = &[("6.0.0", "The timeout may have fractions")];
const EACH: &str = "O(1) for each element";
const SEARCH: &str = "O(N) in the elements looked at; very many in slices";

pub const LPUSH: Row = Row {
    name: "lpush",
    arity: -3,
    flags: FAST_GROW,
    categories: Categories::LIST,
    key_specs: &[KeySpec::one(INSERT)],
    doc: &Doc {
        summary: "Puts elements in front of a list, one after the other",
        complexity: EACH,
        history: &[("2.4.0", "Takes several elements")],
        args: PUSH_ARGS,
        ..LIST
    },
};

pub const RPUSH: Row = Row {
    name: "rpush",
    arity: -3,
    flags: FAST_GROW,
    categories: Categories::LIST,
    key_specs: &[KeySpec::one(INSERT)],
    doc: &Doc {
        summary: "Puts elements behind a list",
        complexity: EACH,
        history: &[("2.4.0", "Takes several elements")],
        args: PUSH_ARGS,
        ..LIST
    },
};

pub const LPUSHX: Row = Row {
    name: "lpushx",
    arity: -3,
    flags: FAST_GROW,
    categories: Categories::LIST,
    key_specs: &[KeySpec::one(INSERT)],
    doc: &Doc {
        summary: "As LPUSH, if there is a list",
        since: "2.2.0",
        complexity: EACH,
        history: &[("4.0.0", "Takes several elements")],
        args: PUSH_ARGS,
        ..LIST
    },
};

pub const RPUSHX: Row = Row {
    name: "rpushx",
    arity: -3,
    flags: FAST_GROW,
    categories: Categories::LIST,
    key_specs: &[KeySpec::one(INSERT)],
    doc: &Doc {
        summary: "As RPUSH, if there is a list",
        since: "2.2.0",
        complexity: EACH,
        history: &[("4.0.0", "Takes several elements")],
        args: PUSH_ARGS,
        ..LIST
    },
};

pub const LPOP: Row = Row {
    name: "lpop",
    arity: -2,
    flags: Flags::of(&[Flags::WRITE, Flags::FAST]),
    categories: Categories::LIST,
    key_specs: &[KeySpec::one(TAKE)],
    doc: &Doc {
        summary: "Removes the first elements of a list and returns them",
        complexity: EACH,
        history: POP_HISTORY,
        args: POP_ARGS,
        ..LIST
    },
};

pub const RPOP: Row = Row {
    name: "rpop",
    arity: -2,
    flags: Flags::of(&[Flags::WRITE, Flags::FAST]),
    categories: Categories::LIST,
    key_specs: &[KeySpec::one(TAKE)],
    doc: &Doc {
        summary: "Removes the last elements of a list and returns them, the last one first",
        complexity: EACH,
        history: POP_HISTORY,
        args: POP_ARGS,
        ..LIST
    },
};

pub const LLEN: Row = Row {
    name: "llen",
    arity: 2,
    flags: Flags::of(&[Flags::READONLY, Flags::FAST]),
    categories: Categories::LIST,
    key_specs: &[KeySpec::one(KeyFlags::RO)],
    doc: &Doc { summary: "Returns the number of elements of a list", args: &[KEY], ..LIST },
};

pub const LRANGE: Row = Row {
    name: "lrange",
    arity: 4,
    flags: Flags::READONLY,
    categories: Categories::LIST,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns the elements from one index to another, as they are when the command runs",
        complexity: "O(log N + M) in the elements M returned; very many in slices",
        args: RANGE_ARGS,
        ..LIST
    },
};

pub const LINDEX: Row = Row {
    name: "lindex",
    arity: 3,
    flags: Flags::READONLY,
    categories: Categories::LIST,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns the element at an index",
        complexity: "O(log N)",
        args: &[KEY, integer("index")],
        ..LIST
    },
};

pub const LSET: Row = Row {
    name: "lset",
    arity: 4,
    flags: GROW,
    categories: Categories::LIST,
    key_specs: &[KeySpec::one(KeyFlags::of(&[KeyFlags::RW, KeyFlags::UPDATE]))],
    doc: &Doc {
        summary: "Replaces the element at an index",
        complexity: "O(log N)",
        args: &[KEY, integer("index"), ELEMENT],
        ..LIST
    },
};

pub const LINSERT: Row = Row {
    name: "linsert",
    arity: 5,
    flags: GROW,
    categories: Categories::LIST,
    key_specs: &[KeySpec::one(INSERT)],
    doc: &Doc {
        summary: "Puts an element before or behind the first that equals a pivot",
        since: "2.2.0",
        complexity: SEARCH,
        args: &[KEY, one_of("where", &[word("before", "BEFORE"), word("after", "AFTER")]), string("pivot"), ELEMENT],
        ..LIST
    },
};

pub const LREM: Row = Row {
    name: "lrem",
    arity: 4,
    flags: Flags::WRITE,
    categories: Categories::LIST,
    key_specs: &[KeySpec::one(DELETE)],
    doc: &Doc {
        summary: "Removes elements that equal a value: so many from the front, from the back, or all",
        complexity: SEARCH,
        args: &[KEY, integer("count"), ELEMENT],
        ..LIST
    },
};

pub const LTRIM: Row = Row {
    name: "ltrim",
    arity: 4,
    flags: Flags::WRITE,
    categories: Categories::LIST,
    key_specs: &[KeySpec::one(DELETE)],
    doc: &Doc {
        summary: "Removes all elements but those from one index to another",
        complexity: "O(log N); memory is freed in slices",
        args: RANGE_ARGS,
        ..LIST
    },
};

pub const LPOS: Row = Row {
    name: "lpos",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::LIST,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns the indexes of elements that equal a value",
        since: "6.0.6",
        complexity: SEARCH,
        args: &[
            KEY,
            ELEMENT,
            integer("rank").token("RANK").optional(),
            integer("num-matches").token("COUNT").optional(),
            integer("len").token("MAXLEN").optional(),
        ],
        ..LIST
    },
};

pub const LMOVE: Row = Row {
    name: "lmove",
    arity: 5,
    flags: GROW,
    categories: Categories::LIST,
    key_specs: BETWEEN,
    doc: &Doc {
        summary: "Moves the element at an end of a list to an end of another, and returns it",
        since: "6.2.0",
        args: &[SOURCE, DESTINATION, FROM, TO],
        ..LIST
    },
};

pub const RPOPLPUSH: Row = Row {
    name: "rpoplpush",
    arity: 3,
    flags: GROW,
    categories: Categories::LIST,
    key_specs: BETWEEN,
    doc: &Doc {
        summary: "Moves the last element of a list to the front of another, and returns it",
        since: "1.2.0",
        flags: DocFlags::DEPRECATED,
        deprecated_since: Some("6.2.0"),
        replaced_by: Some("`LMOVE` with the `RIGHT` and `LEFT` arguments"),
        args: &[SOURCE, DESTINATION],
        ..LIST
    },
};

pub const LMPOP: Row = Row {
    name: "lmpop",
    arity: -4,
    flags: Flags::of(&[Flags::WRITE, Flags::MOVABLEKEYS]),
    categories: Categories::LIST,
    key_specs: &[KeySpec::new(TAKE, Begin::Index(1), Find::KeyNum { count: 0, first: 1, step: 1 })],
    doc: &Doc {
        summary: "Removes elements from the first of several lists that is there, and returns them",
        since: "7.0.0",
        complexity: "O(K + M) in the keys K and the elements M removed",
        args: &[integer("numkeys"), KEY.multiple(), one_of("where", ENDS), integer("count").token("COUNT").optional()],
        ..LIST
    },
};

pub const BLPOP: Row = Row {
    name: "blpop",
    arity: -3,
    flags: Flags::of(&[WAIT, Flags::NOSCRIPT]),
    categories: Categories::LIST,
    key_specs: UP_TO_TIMEOUT,
    doc: &Doc {
        summary: "As LPOP of the first key that is there; waits until one is",
        since: "2.0.0",
        complexity: "O(K) in the keys",
        history: TIMEOUT_HISTORY,
        args: &[KEY.multiple(), double("timeout")],
        ..LIST
    },
};

pub const BRPOP: Row = Row {
    name: "brpop",
    arity: -3,
    flags: Flags::of(&[WAIT, Flags::NOSCRIPT]),
    categories: Categories::LIST,
    key_specs: UP_TO_TIMEOUT,
    doc: &Doc {
        summary: "As RPOP of the first key that is there; waits until one is",
        since: "2.0.0",
        complexity: "O(K) in the keys",
        history: TIMEOUT_HISTORY,
        args: &[KEY.multiple(), double("timeout")],
        ..LIST
    },
};

pub const BLMOVE: Row = Row {
    name: "blmove",
    arity: 6,
    flags: Flags::of(&[GROW, WAIT, Flags::NOSCRIPT]),
    categories: Categories::LIST,
    key_specs: BETWEEN,
    doc: &Doc {
        summary: "As LMOVE; waits until the source is there",
        since: "6.2.0",
        args: &[SOURCE, DESTINATION, FROM, TO, double("timeout")],
        ..LIST
    },
};

pub const BRPOPLPUSH: Row = Row {
    name: "brpoplpush",
    arity: 4,
    flags: Flags::of(&[GROW, WAIT, Flags::NOSCRIPT]),
    categories: Categories::LIST,
    key_specs: BETWEEN,
    doc: &Doc {
        summary: "As RPOPLPUSH; waits until the source is there",
        since: "2.2.0",
        flags: DocFlags::DEPRECATED,
        deprecated_since: Some("6.2.0"),
        replaced_by: Some("`BLMOVE` with the `RIGHT` and `LEFT` arguments"),
        history: TIMEOUT_HISTORY,
        args: &[SOURCE, DESTINATION, double("timeout")],
        ..LIST
    },
};

pub const BLMPOP: Row = Row {
    name: "blmpop",
    arity: -5,
    flags: Flags::of(&[WAIT, Flags::MOVABLEKEYS]),
    categories: Categories::LIST,
    key_specs: &[KeySpec::new(TAKE, Begin::Index(2), Find::KeyNum { count: 0, first: 1, step: 1 })],
    doc: &Doc {
        summary: "As LMPOP; waits until a key is there",
        since: "7.0.0",
        complexity: "O(K + M) in the keys K and the elements M removed",
        args: &[
            double("timeout"),
            integer("numkeys"),
            KEY.multiple(),
            one_of("where", ENDS),
            integer("count").token("COUNT").optional(),
        ],
        ..LIST
    },
};
