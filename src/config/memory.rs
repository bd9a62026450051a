//! Directives about memory: how much of it, which keys go when it is used up, and when it is moved.

use super::table::{Directive, Group, INT_MAX, Kind, Mutability, narrow};
use super::value;
use crate::base::cpu;
use crate::base::eviction::Policy;

pub(super) static MEMORY: &[Directive] = &[
    Directive {
        name: "maxmemory",
        aliases: &[],
        group: Group::Memory,
        default: "0",
        mutability: Mutability::Mutable,
        summary: "Most memory to use, also as a part of what there is (50%), 0 = any",
        kind: Kind::Text {
            what: "<bytes>",
            get: |c| c.maxmemory_bytes.to_string().into_bytes(),
            set: |c, v| {
                c.maxmemory_bytes = value::memory_or_part(v, cpu::usable_bytes())?;
                Ok(())
            },
        },
    },
    Directive {
        name: "maxmemory-policy",
        aliases: &[],
        group: Group::Memory,
        default: "noeviction",
        mutability: Mutability::Mutable,
        summary: "Which keys go when memory is over maxmemory",
        kind: Kind::Enum {
            names: Policy::NAMES,
            get: |c| c.eviction.policy.name_at(),
            set: |c, v| c.eviction.policy = Policy::of_name(v),
        },
    },
    Directive {
        name: "maxmemory-samples",
        aliases: &[],
        group: Group::Memory,
        default: "5",
        mutability: Mutability::Mutable,
        summary: "Accepted: some ten keys are compared for each that goes",
        kind: Kind::Integer {
            min: 1,
            max: 64,
            get: |c| c.maxmemory_samples.into(),
            set: |c, v| c.maxmemory_samples = narrow(v),
        },
    },
    Directive {
        name: "activedefrag",
        aliases: &[],
        group: Group::Memory,
        default: "yes",
        mutability: Mutability::Mutable,
        summary: "Move what is in use together, between requests, so that memory goes back to the system",
        kind: Kind::Bool {
            get: |c| c.defrag.is_on,
            set: |c, on| {
                c.defrag.is_on = on;
                Ok(())
            },
        },
    },
    Directive {
        name: "active-defrag-ignore-bytes",
        aliases: &[],
        group: Group::Memory,
        default: "0",
        mutability: Mutability::Mutable,
        summary: "Free room between what is in use that is left alone",
        kind: Kind::Memory { min: 0, get: |c| c.defrag.ignore_bytes, set: |c, v| c.defrag.ignore_bytes = v },
    },
    Directive {
        name: "active-defrag-threshold-lower",
        aliases: &[],
        group: Group::Memory,
        default: "0",
        mutability: Mutability::Mutable,
        summary: "The same as a part of what is in use, in percent",
        kind: Kind::Integer {
            min: 0,
            max: 1000,
            get: |c| c.defrag.threshold_percent.cast_signed(),
            set: |c, v| c.defrag.threshold_percent = v.cast_unsigned(),
        },
    },
    Directive {
        name: "maxmemory-eviction-tenacity",
        aliases: &[],
        group: Group::Memory,
        default: "10",
        mutability: Mutability::Mutable,
        summary: "Accepted: a command makes room for 0.1 ms at most, then others have their turn",
        kind: Kind::Integer {
            min: 0,
            max: 100,
            get: |c| c.maxmemory_eviction_tenacity.into(),
            set: |c, v| c.maxmemory_eviction_tenacity = narrow(v),
        },
    },
    Directive {
        name: "lfu-log-factor",
        aliases: &[],
        group: Group::Memory,
        default: "10",
        mutability: Mutability::Mutable,
        summary: "How slowly the counters of uses grow under an LFU policy",
        kind: Kind::Integer {
            min: 0,
            max: INT_MAX,
            get: |c| c.eviction.lfu_log_factor.into(),
            set: |c, v| c.eviction.lfu_log_factor = narrow(v),
        },
    },
    Directive {
        name: "lfu-decay-time",
        aliases: &[],
        group: Group::Memory,
        default: "1",
        mutability: Mutability::Mutable,
        summary: "Minutes without a use that take one from such a counter, 0 = none",
        kind: Kind::Integer {
            min: 0,
            max: INT_MAX,
            get: |c| c.eviction.lfu_decay_minutes.into(),
            set: |c, v| c.eviction.lfu_decay_minutes = narrow(v),
        },
    },
];
