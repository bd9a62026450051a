//! Tests of the crate through its public face: programs of operations against models. One binary, so one link.
#![allow(unsafe_code)]

mod ahead;
mod blobs;
mod chunks;
mod evacuation;
mod model;
mod release;
