//! Views of a frame's arguments, for numpy and whatever else reads arrays in place.

use std::ops::Range;
use std::sync::Arc;

use nnburst::hal::Mapping;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::dlpack;
use crate::dtype::ElementType;
use crate::error::wrong;

/// An input or output of a frame in place. The memory is shared with the driver: an output holds
/// its value from the end of one execution to the begin of the frame's next.
///
/// `numpy.asarray(tensor)` and `torch.from_dlpack(tensor)` copy nothing and keep the memory.
#[pyclass(name = "Tensor", frozen, module = "nnburst")]
pub(crate) struct PyTensor {
    view: TensorView,
}

/// Elements of a shape in mapped memory, row by row.
#[derive(Clone, Debug)]
pub(crate) struct TensorView {
    mapping: Arc<Mapping>,
    range: Range<usize>,
    pub(crate) element: ElementType,
    pub(crate) shape: Vec<usize>,
}

impl TensorView {
    /// The elements that begin at `offset`; `None` where the mapping has no room for them.
    pub(crate) fn new(
        mapping: Arc<Mapping>,
        offset: usize,
        element: ElementType,
        shape: Vec<usize>,
    ) -> Option<Self> {
        let bytes = shape.iter().try_fold(element.bytes, |all, &extent| all.checked_mul(extent))?;
        let range = offset..offset.checked_add(bytes)?;
        mapping.view_mut(range.clone())?;
        Some(Self { mapping, range, element, shape })
    }

    /// The first element. Driver and application both may write there at any time.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        let view = self.mapping.view_mut(self.range.clone());
        view.map_or(std::ptr::null_mut(), |view| view.as_mut_ptr())
    }
}

impl From<TensorView> for PyTensor {
    fn from(view: TensorView) -> Self {
        Self { view }
    }
}

#[pymethods]
impl PyTensor {
    /// The extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.view.shape)
    }

    /// The element type as numpy has it.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("numpy")?.call_method1("dtype", (self.view.element.typestr,))
    }

    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.view.range.len()
    }

    /// Numpy's array interface, version 3.
    #[getter(__array_interface__)]
    fn array_interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", self.view.element.typestr)?;
        interface.set_item("data", (self.view.as_ptr() as usize, false))?;
        Ok(interface)
    }

    /// A capsule of DLPack, without a copy.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if stream.is_some() {
            return Err(PyValueError::new_err("memory of the processor has no streams"));
        }
        if copy == Some(true) || dl_device.is_some_and(|device| device != dlpack::CPU) {
            return Err(PyBufferError::new_err("the memory is lent in place, on the processor"));
        }
        // Whoever names no version takes capsules without one.
        let is_versioned = max_version.is_some_and(|(major, _)| major >= dlpack::MAJOR);
        dlpack::capsule(py, self.view.clone(), is_versioned)
    }

    /// The processor, as DLPack counts devices.
    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::CPU
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let first = self.view.shape.first().copied();
        first.ok_or_else(|| wrong(py, "a tensor without dimensions has no length"))
    }

    fn __repr__(&self) -> String {
        format!("<nnburst.Tensor {:?} {}>", self.view.shape, self.view.element.typestr)
    }
}
