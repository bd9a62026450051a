//! Situations of their own, one a test.
