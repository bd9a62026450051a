//! Rows of the bitmap group.

use super::doc::{ArgDoc, Doc, Group, KEY, block, integer, one_of, string, word};
use super::{Begin, Categories, Find, Flags, KeyFlags, KeySpec, Row};

const BITMAP: Doc = Doc { group: Group::Bitmap, since: "2.2.0", ..Doc::BASE };
const FAST_READ: Flags = Flags::of(&[Flags::READONLY, Flags::FAST]);
/// Of commands that may need memory.
const GROW: Flags = Flags::of(&[Flags::WRITE, Flags::DENYOOM]);

const READ: KeyFlags = KeyFlags::of(&[KeyFlags::RO, KeyFlags::ACCESS]);
/// Changes the value and returns what it was or became.
const EXCHANGE: KeyFlags = KeyFlags::of(&[KeyFlags::RW, KeyFlags::ACCESS, KeyFlags::UPDATE]);

const UNIT: ArgDoc = one_of("index_unit", &[word("byte", "BYTE"), word("bit", "BIT")]).since("7.0.0").optional();
const ENCODING: ArgDoc = string("encoding");
const OFFSET: ArgDoc = integer("offset");

pub const SETBIT: Row = Row {
    name: "setbit",
    arity: 4,
    flags: GROW,
    categories: Categories::BITMAP,
    key_specs: &[KeySpec::one(EXCHANGE)],
    doc: &Doc {
        summary: "Sets or clears one bit of a string, which grows to have it, and returns what it was",
        args: &[KEY, OFFSET, integer("value")],
        ..BITMAP
    },
};

pub const GETBIT: Row = Row {
    name: "getbit",
    arity: 3,
    flags: FAST_READ,
    categories: Categories::BITMAP,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc { summary: "Returns one bit of a string, 0 beyond its end", args: &[KEY, OFFSET], ..BITMAP },
};

pub const BITCOUNT: Row = Row {
    name: "bitcount",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::BITMAP,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Counts the bits of a string, or a part of it, that are 1",
        since: "2.6.0",
        complexity: "O(N) in the bytes looked at",
        history: &[("7.0.0", "New option `BYTE` or `BIT`")],
        args: &[KEY, block("index", &[integer("start"), integer("end"), UNIT]).optional()],
        ..BITMAP
    },
};

pub const BITPOS: Row = Row {
    name: "bitpos",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::BITMAP,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns where the first bit of a string, or a part of it, is that is 1 (or 0)",
        since: "2.8.7",
        complexity: "O(N) in the bytes looked at",
        history: &[("7.0.0", "New option `BYTE` or `BIT`")],
        args: &[
            KEY,
            integer("bit"),
            block("index", &[integer("start"), block("end_index", &[integer("end"), UNIT]).optional()]).optional(),
        ],
        ..BITMAP
    },
};

pub const BITOP: Row = Row {
    name: "bitop",
    arity: -4,
    flags: GROW,
    categories: Categories::BITMAP,
    key_specs: &[
        KeySpec::new(
            KeyFlags::of(&[KeyFlags::OW, KeyFlags::UPDATE]),
            Begin::Index(2),
            Find::Range { last: 0, step: 1, limit: 0 },
        ),
        KeySpec::new(READ, Begin::Index(3), Find::Range { last: -1, step: 1, limit: 0 }),
    ],
    doc: &Doc {
        summary: "Combines strings bit by bit and stores the result",
        since: "2.6.0",
        complexity: "O(N) in the bytes of all sources",
        args: &[
            one_of(
                "operation",
                &[
                    word("and", "AND"),
                    word("or", "OR"),
                    word("xor", "XOR"),
                    word("not", "NOT"),
                    word("diff", "DIFF"),
                    word("diff1", "DIFF1"),
                    word("andor", "ANDOR"),
                    word("one", "ONE"),
                ],
            ),
            ArgDoc { name: "destkey", ..KEY },
            ArgDoc { key_spec_index: Some(1), ..KEY }.multiple(),
        ],
        ..BITMAP
    },
};

const GET_BLOCK: ArgDoc = block("encoding_offset", &[ENCODING, OFFSET]).token("GET");

pub const BITFIELD: Row = Row {
    name: "bitfield",
    arity: -2,
    flags: GROW,
    categories: Categories::BITMAP,
    key_specs: &[KeySpec {
        notes: Some("Subcommands other than GET write to the key"),
        refine: Some(bitfield_key_flags),
        ..KeySpec::one(KeyFlags::of(&[EXCHANGE, KeyFlags::VARIABLE_FLAGS]))
    }],
    doc: &Doc {
        summary: "Reads, writes and increments integers of any width anywhere in a string",
        since: "3.2.0",
        complexity: "O(1) for each subcommand",
        args: &[
            KEY,
            one_of(
                "operation",
                &[
                    GET_BLOCK,
                    block(
                        "write",
                        &[
                            one_of("wrap_sat_fail", &[word("wrap", "WRAP"), word("sat", "SAT"), word("fail", "FAIL")])
                                .token("OVERFLOW")
                                .optional(),
                            one_of(
                                "write_operation",
                                &[
                                    block("encoding_offset_value", &[ENCODING, OFFSET, integer("value")]).token("SET"),
                                    block("encoding_offset_increment", &[ENCODING, OFFSET, integer("increment")])
                                        .token("INCRBY"),
                                ],
                            ),
                        ],
                    ),
                ],
            )
            .optional()
            .multiple(),
        ],
        ..BITMAP
    },
};

/// BITFIELD with nothing but GET only reads; what is no subcommand counts as a write.
fn bitfield_key_flags(argv: &[&[u8]]) -> KeyFlags {
    let mut rest = argv.get(2..).unwrap_or_default();
    loop {
        rest = match rest {
            [] => return READ,
            [name, _, _, behind @ ..] if name.eq_ignore_ascii_case(b"get") => behind,
            [name, _, behind @ ..] if name.eq_ignore_ascii_case(b"overflow") => behind,
            _ => return EXCHANGE,
        };
    }
}

pub const BITFIELD_RO: Row = Row {
    name: "bitfield_ro",
    arity: -2,
    flags: FAST_READ,
    categories: Categories::BITMAP,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Reads integers of any width anywhere in a string",
        since: "6.0.0",
        complexity: "O(1) for each subcommand",
        args: &[KEY, GET_BLOCK.optional().multiple_token()],
        ..BITMAP
    },
};
