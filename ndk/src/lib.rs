//! `libneuralnetworks.so` for Linux: the C interface of the Android Neural Networks API, level 30.
//!
//! ```text
//!   C program ── ANeuralNetworks*() ──► exports ──► model, compilation, ...    the states C sees
//!                handles (numbers)                     │
//!                                                      ▼
//!                                                 nnburst (runtime)          everything else
//! ```
//!
//! What each function does is in `include/NeuralNetworks.h`. The crate is a thin shell: it keeps
//! the objects that C holds by [`handle`], each in the phase of its life that decides what may be
//! done with it, turns arguments into those of `nnburst`, and its errors into result codes.
//!
//! `unsafe` lives in `c`, where pointers of C's are believed, in `handle`, and in `stack`, where
//! calls are moved to threads with room for them.

mod burst;
mod c;
mod compilation;
mod compiled;
mod device;
mod diagnostic;
mod error;
mod event;
mod execution;
mod exports;
mod extension;
mod handle;
mod hardware_buffer;
mod memory;
mod memory_desc;
mod model;
mod stack;
mod unload;
