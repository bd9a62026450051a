//! Bounds that are set in the configuration and kept by the data.

/// Where Redis changes from one encoding to another: the directives of these names. OBJECT ENCODING tells what Redis would have; how a
/// container really lies has bounds of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub list_max_listpack_size: i64,
    pub hash_max_listpack_entries: usize,
    pub hash_max_listpack_value: usize,
    pub set_max_intset_entries: usize,
    pub set_max_listpack_entries: usize,
    pub set_max_listpack_value: usize,
    pub zset_max_listpack_entries: usize,
    pub zset_max_listpack_value: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            list_max_listpack_size: -2,
            hash_max_listpack_entries: 128,
            hash_max_listpack_value: 64,
            set_max_intset_entries: 512,
            set_max_listpack_entries: 128,
            set_max_listpack_value: 64,
            zset_max_listpack_entries: 128,
            zset_max_listpack_value: 64,
        }
    }
}
