//! Configuration: one declarative table.
