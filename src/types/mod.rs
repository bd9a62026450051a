//! Containers of values: pure, without keys, replies or a clock. There is none yet: a string is bytes in its item or a blob (`db::item`),
//! for which the slab suffices.
