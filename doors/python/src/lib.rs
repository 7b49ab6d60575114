//! The module `nnburst._nnburst`: devices, models, frames and bursts as Python objects.
//!
//! ```text
//!   Model (a .tflite file) ─► compile(model, Device) ─► Compilation ─► Frame: numpy arrays over
//!                                                          │             │    shared memory
//!                                                          └─► Burst ◄───┘
//! ```
//!
//! | rule | by |
//! |---|---|
//! | no call holds the interpreter's lock while it waits, and Ctrl-C ends it | [`wait`] |
//! | errors are the classes of `nnburst.errors` | [`error`] |
//! | a view keeps the memory that it shows | [`tensor`] |
//!
//! What is written in Python (`python/nnburst`) stands on this module: the interpreter with the
//! methods of TFLite's, the bursts of asyncio.

mod asynchronous;
mod burst;
mod compilation;
mod device;
mod dlpack;
mod dtype;
mod error;
mod frame;
mod model;
mod profile;
mod stats;
mod tensor;
mod wait;

use pyo3::prelude::*;

/// The compiled part of the package nnburst.
#[pymodule]
mod _nnburst {
    #[pymodule_export]
    use crate::asynchronous::AsyncCore;
    #[pymodule_export]
    use crate::burst::PyBurst;
    #[pymodule_export]
    use crate::compilation::{PyCompilation, compile};
    #[pymodule_export]
    use crate::device::{PyDevice, devices};
    #[pymodule_export]
    use crate::frame::PyFrame;
    #[pymodule_export]
    use crate::model::{PyModel, TensorInfo};
    #[pymodule_export]
    use crate::profile::profile;
    #[pymodule_export]
    use crate::tensor::PyTensor;

    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        nnburst_doors_common::start_logging(&nnburst_doors_common::Log::stderr("python"));
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
