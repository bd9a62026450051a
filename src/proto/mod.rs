//! Wire protocols, sans I/O: bytes in, argument slices out; values in, bytes out.
