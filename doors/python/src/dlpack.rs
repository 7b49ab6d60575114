//! DLPack: arrays in place for whoever reads its capsules, in version 1 or in that without a
//! number, whose arrays numpy doesn't write.

use std::ffi::{CStr, c_char, c_void};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::error::wrong;
use crate::tensor::TensorView;

/// The processor's memory: type 1, number 0.
pub(crate) const CPU: (i32, i32) = (1, 0);

/// The names of capsules that nobody has taken. Who takes one changes the name, and calls the
/// deleter.
const NAME: &CStr = c"dltensor";
const VERSIONED_NAME: &CStr = c"dltensor_versioned";

/// `DLPACK_MAJOR_VERSION` of the capsules with a version.
pub(crate) const MAJOR: u32 = 1;

/// `DLTensor`.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Plain {
    tensor: DlTensor,
    manager_context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    manager_context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// None: the memory may be written, and is no copy.
    flags: u64,
    tensor: DlTensor,
}

/// What a capsule leads to, followed by what it lends.
#[repr(C)]
struct Managed<H> {
    head: H,
    shape: Vec<i64>,
    /// Keeps the memory mapped.
    _view: TensorView,
}

/// The struct of a version.
trait Head: Sized {
    const NAME: &CStr;

    /// The struct of a tensor whose deleter frees its [`Managed`].
    fn of(tensor: DlTensor) -> Self;

    fn tensor(&mut self) -> &mut DlTensor;
}

impl Head for Plain {
    const NAME: &CStr = NAME;

    fn of(tensor: DlTensor) -> Self {
        Self { tensor, manager_context: std::ptr::null_mut(), deleter: Some(delete::<Self>) }
    }

    fn tensor(&mut self) -> &mut DlTensor {
        &mut self.tensor
    }
}

impl Head for Versioned {
    const NAME: &CStr = VERSIONED_NAME;

    fn of(tensor: DlTensor) -> Self {
        let (manager_context, deleter) = (std::ptr::null_mut(), Some(delete::<Self> as _));
        Self { major: MAJOR, minor: 0, manager_context, deleter, flags: 0, tensor }
    }

    fn tensor(&mut self) -> &mut DlTensor {
        &mut self.tensor
    }
}

/// A capsule that lends a view, with a version where `is_versioned`.
///
/// # Errors
/// An extent beyond 64 bits; no memory.
pub(crate) fn capsule(
    py: Python<'_>,
    view: TensorView,
    is_versioned: bool,
) -> PyResult<Bound<'_, PyAny>> {
    if is_versioned { lend::<Versioned>(py, view) } else { lend::<Plain>(py, view) }
}

fn lend<H: Head>(py: Python<'_>, view: TensorView) -> PyResult<Bound<'_, PyAny>> {
    let too_large = || wrong(py, format!("shape {:?} is too large for DLPack", view.shape));
    let extents = view.shape.iter().map(|&extent| i64::try_from(extent));
    let shape = extents.collect::<Result<Vec<_>, _>>().map_err(|_| too_large())?;
    let element = view.element;
    let tensor = DlTensor {
        data: view.as_ptr().cast(),
        device_type: CPU.0,
        device_id: CPU.1,
        ndim: i32::try_from(shape.len()).map_err(|_| too_large())?,
        code: element.dlpack_code,
        bits: u8::try_from(8 * element.bytes).map_err(|_| too_large())?,
        lanes: 1,
        shape: std::ptr::null_mut(),
        // None: row by row.
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let mut managed = Box::new(Managed { head: H::of(tensor), shape, _view: view });
    managed.head.tensor().shape = managed.shape.as_mut_ptr();
    let managed = Box::into_raw(managed);
    // SAFETY: the interpreter's lock is held, the name is static; the capsule's destructor frees
    // `managed` unless it was taken.
    let made =
        unsafe { ffi::PyCapsule_New(managed.cast(), H::NAME.as_ptr(), Some(drop_capsule::<H>)) };
    // SAFETY: a new reference, or null with the exception set.
    let capsule = unsafe { Bound::from_owned_ptr_or_err(py, made) };
    if capsule.is_err() {
        // SAFETY: there is no capsule that would free it.
        drop(unsafe { Box::from_raw(managed) });
    }
    capsule
}

/// Frees what a capsule lends: its deleter.
///
/// # Safety
/// `head` is that of a [`Managed`] of [`lend`], and not freed yet.
unsafe extern "C" fn delete<H: Head>(head: *mut H) {
    // SAFETY: the caller's duty; the head comes first. Dropping it unmaps memory at most, and needs
    // no interpreter.
    drop(unsafe { Box::from_raw(head.cast::<Managed<H>>()) });
}

/// Frees what a capsule lends that nobody took.
///
/// # Safety
/// A capsule of [`lend`], at its end.
unsafe extern "C" fn drop_capsule<H: Head>(capsule: *mut ffi::PyObject) {
    let name: *const c_char = H::NAME.as_ptr();
    // SAFETY: a capsule, as the caller vouches; a wrong name is an answer, not an error.
    if unsafe { ffi::PyCapsule_IsValid(capsule, name) } == 1 {
        // SAFETY: it is valid under that name, so this is the pointer it was made with.
        let managed = unsafe { ffi::PyCapsule_GetPointer(capsule, name) };
        // SAFETY: nobody took it, so it is not freed yet.
        unsafe { delete::<H>(managed.cast()) };
    }
}
