//! Tests of the source tree.

mod tidy;
