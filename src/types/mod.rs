//! Containers of values: pure, without keys, replies or a clock. A string needs none: it is bytes in its item or a blob (`db::item`), for
//! which the slab suffices. What strings are used for beyond that (bitmaps) has its algorithms here.
pub mod bitmap;
