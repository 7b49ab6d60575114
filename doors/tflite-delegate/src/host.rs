//! The interpreter of the host behind safe calls: its graph's nodes and tensors.

use std::ffi::{CString, c_int};
use std::ptr::{NonNull, null_mut};

use nnburst::hal::{View, ViewMut};

use crate::abi::{
    DYNAMIC, MMAP_RO, OK, TfLiteContext, TfLiteDelegate, TfLiteDelegateParams, TfLiteIntArray,
    TfLiteNode, TfLiteRegistration, TfLiteTensor,
};

/// Why the interpreter can't be worked with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the interpreter has no {0}")]
pub(crate) struct HostError(&'static str);

/// A graph of an interpreter, for as long as one of its calls lasts.
#[derive(Debug)]
pub(crate) struct Host(NonNull<TfLiteContext>);

/// An operator as the interpreter has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostNode {
    /// Its number in `BuiltinOperator`.
    pub(crate) code: i32,
    /// The input tensors; `None` where an optional one is left out.
    pub(crate) inputs: Vec<Option<usize>>,
    pub(crate) outputs: Vec<Option<usize>>,
}

/// A tensor as the interpreter has it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostTensor {
    /// `TfLiteType`.
    pub(crate) kind: i32,
    pub(crate) dims: Vec<u32>,
    /// The address of its value; 0 where it has none yet.
    pub(crate) data: usize,
    pub(crate) bytes: usize,
    /// The address of its name.
    pub(crate) name: usize,
    pub(crate) is_constant: bool,
    pub(crate) is_dynamic: bool,
    pub(crate) is_variable: bool,
}

/// Nodes that one kernel would replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subset {
    /// In the order of execution.
    pub(crate) nodes: Vec<usize>,
    /// The tensors that come in, constants and variables among them.
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
}

impl Subset {
    /// # Safety
    /// `params` is null, or what a host gives to a delegate: its arrays are whole.
    pub(crate) unsafe fn of(params: *const TfLiteDelegateParams) -> Option<Self> {
        // SAFETY: the caller's promise.
        let params = unsafe { params.as_ref() }?;
        let arrays = [params.nodes_to_replace, params.input_tensors, params.output_tensors];
        // SAFETY: likewise.
        let [nodes, inputs, outputs] = arrays.map(|array| present(&unsafe { numbers(array) }));
        Some(Self { nodes, inputs, outputs })
    }
}

impl Host {
    /// # Safety
    /// `context` is null, or a host's graph that is alive until the result is dropped, and nobody
    /// else works with meanwhile.
    pub(crate) unsafe fn new(context: *mut TfLiteContext) -> Option<Self> {
        NonNull::new(context).map(Self)
    }

    fn context(&self) -> &TfLiteContext {
        // SAFETY: the promise of `new`; the host writes to it within calls alone, and no reference
        // is kept over one.
        unsafe { self.0.as_ref() }
    }

    /// The threads that the host's user asked for; `None` where it said nothing.
    pub(crate) fn threads(&self) -> Option<usize> {
        usize::try_from(self.context().recommended_num_threads).ok().filter(|&threads| threads > 0)
    }

    /// The number of tensors.
    pub(crate) fn tensor_count(&self) -> usize {
        self.context().tensors_size
    }

    /// Every tensor.
    pub(crate) fn tensors(&self) -> Vec<HostTensor> {
        (0..self.tensor_count()).filter_map(|index| self.tensor(index)).collect()
    }

    pub(crate) fn tensor(&self, index: usize) -> Option<HostTensor> {
        let tensor = self.raw_tensor(index)?;
        // SAFETY: within the host's tensors, which change within calls alone.
        let tensor = unsafe { tensor.as_ref() };
        // SAFETY: a tensor's array is whole.
        let dims = unsafe { numbers(tensor.dims) };
        Some(HostTensor {
            kind: tensor.kind,
            dims: dims.iter().map(|&extent| u32::try_from(extent).unwrap_or(0)).collect(),
            data: tensor.data.addr(),
            bytes: tensor.bytes,
            name: tensor.name.addr(),
            is_constant: tensor.allocation_type == MMAP_RO,
            is_dynamic: tensor.allocation_type == DYNAMIC,
            is_variable: tensor.is_variable != 0,
        })
    }

    fn raw_tensor(&self, index: usize) -> Option<NonNull<TfLiteTensor>> {
        let context = self.context();
        if index >= context.tensors_size {
            return None;
        }
        // SAFETY: the host has `tensors_size` of them.
        NonNull::new(unsafe { context.tensors.add(index) })
    }

    /// The value of a tensor, if it has one of so many bytes.
    pub(crate) fn value(&self, index: usize, bytes: usize) -> Option<View<'_>> {
        // SAFETY: as in `tensor`.
        let tensor = unsafe { self.raw_tensor(index)?.as_ref() };
        if tensor.data.is_null() || tensor.bytes != bytes {
            return None;
        }
        // SAFETY: the host has allocated `bytes` there; nobody frees them while a kernel runs.
        Some(unsafe { View::from_raw(tensor.data, bytes) })
    }

    /// The place of a tensor's value, if it has one of so many bytes that may be written.
    pub(crate) fn place(&self, index: usize, bytes: usize) -> Option<ViewMut<'_>> {
        // SAFETY: as in `tensor`.
        let tensor = unsafe { self.raw_tensor(index)?.as_ref() };
        if tensor.data.is_null() || tensor.bytes != bytes || tensor.allocation_type == MMAP_RO {
            return None;
        }
        // SAFETY: the host has allocated `bytes` there, which a kernel writes alone.
        Some(unsafe { ViewMut::from_raw(tensor.data, bytes) })
    }

    /// Has a tensor's value be allocated when it is computed.
    pub(crate) fn make_dynamic(&mut self, index: usize) {
        let Some(mut tensor) = self.raw_tensor(index) else { return };
        // SAFETY: as in `tensor`; a kernel that is being prepared may say so of its outputs.
        let tensor = unsafe { tensor.as_mut() };
        if tensor.allocation_type != DYNAMIC {
            // The value lies in the host's arena, from which nothing is freed one by one.
            (tensor.allocation_type, tensor.data) = (DYNAMIC, null_mut());
        }
    }

    /// Gives a tensor another shape; its value is allocated once all kernels are prepared.
    ///
    /// # Errors
    /// The host refuses, or has no memory.
    pub(crate) fn resize(&mut self, index: usize, dims: &[u32]) -> Result<(), HostError> {
        const WHAT: HostError = HostError("way to resize a tensor");
        let resize = self.context().resize_tensor.ok_or(WHAT)?;
        let tensor = self.raw_tensor(index).ok_or(WHAT)?;
        let numbers = int_array(dims);
        // SAFETY: any size may be asked for.
        let array = unsafe { libc::malloc(size_of_val(numbers.as_slice())) }.cast::<c_int>();
        if array.is_null() {
            return Err(HostError("memory for a shape"));
        }
        // SAFETY: there is room for all of them, and the host takes the array.
        let status = unsafe {
            array.copy_from_nonoverlapping(numbers.as_ptr(), numbers.len());
            resize(self.0.as_ptr(), tensor.as_ptr(), array.cast())
        };
        if status == OK { Ok(()) } else { Err(WHAT) }
    }

    /// The nodes in the order of execution.
    ///
    /// # Errors
    /// The host refuses.
    pub(crate) fn execution_plan(&self) -> Result<Vec<usize>, HostError> {
        const WHAT: HostError = HostError("execution plan");
        let ask = self.context().get_execution_plan.ok_or(WHAT)?;
        let mut plan = null_mut();
        // SAFETY: `plan` is writable.
        if unsafe { ask(self.0.as_ptr(), &raw mut plan) } != OK {
            return Err(WHAT);
        }
        // SAFETY: the host's array, which is whole until the next call.
        Ok(present(&unsafe { numbers(plan) }))
    }

    /// A node.
    ///
    /// # Errors
    /// The host refuses.
    pub(crate) fn node(&self, index: usize) -> Result<HostNode, HostError> {
        const WHAT: HostError = HostError("such node");
        let ask = self.context().get_node_and_registration.ok_or(WHAT)?;
        let index = c_int::try_from(index).map_err(|_| WHAT)?;
        let (mut node, mut registration) = (null_mut(), null_mut());
        // SAFETY: both are writable.
        let status = unsafe { ask(self.0.as_ptr(), index, &raw mut node, &raw mut registration) };
        let (node, registration): (*const TfLiteNode, *const TfLiteRegistration) =
            (node, registration);
        // SAFETY: the host's own, or null.
        let (Some(node), Some(registration)) = (unsafe { (node.as_ref(), registration.as_ref()) })
        else {
            return Err(WHAT);
        };
        if status != OK {
            return Err(WHAT);
        }
        // SAFETY: a node's arrays are whole.
        let [inputs, outputs] =
            [node.inputs, node.outputs].map(|array| indices(&unsafe { numbers(array) }));
        Ok(HostNode { code: registration.builtin_code, inputs, outputs })
    }

    /// The subsets that kernels would replace if these nodes were.
    ///
    /// # Errors
    /// The host refuses, or is older than this call.
    pub(crate) fn subsets(&mut self, nodes: &[usize]) -> Result<Vec<Subset>, HostError> {
        const WHAT: HostError = HostError("preview of a partitioning");
        let ask = self.context().preview_partitioning.ok_or(WHAT)?;
        let nodes = int_array(nodes);
        let (mut first, mut count) = (null_mut(), 0);
        // SAFETY: an array of `nodes`, and places that are writable.
        let status =
            unsafe { ask(self.0.as_ptr(), nodes.as_ptr().cast(), &raw mut first, &raw mut count) };
        if status != OK {
            return Err(WHAT);
        }
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the host's `count` subsets, which are whole until the next call.
        Ok((0..count).filter_map(|at| unsafe { Subset::of(first.add(at)) }).collect())
    }

    /// Has kernels of the delegate replace these nodes.
    ///
    /// # Errors
    /// The host refuses, or a kernel can't be prepared.
    pub(crate) fn replace(
        &mut self,
        nodes: &[usize],
        registration: TfLiteRegistration,
        delegate: *mut TfLiteDelegate,
    ) -> Result<(), HostError> {
        const WHAT: HostError = HostError("way to replace nodes by a delegate's");
        let replace = self.context().replace_node_subsets.ok_or(WHAT)?;
        let nodes = int_array(nodes);
        // SAFETY: an array of `nodes`, which stays this function's; the registration's pointers
        // are to functions and static text.
        let status =
            unsafe { replace(self.0.as_ptr(), registration, nodes.as_ptr().cast(), delegate) };
        if status == OK { Ok(()) } else { Err(WHAT) }
    }

    /// Tells the host why a call fails; Python's `RuntimeError` begins with it.
    pub(crate) fn report(&self, text: &str) {
        let Some(report) = self.context().report_error else { return };
        let Ok(text) = CString::new(text.replace('\0', " ")) else { return };
        // SAFETY: a format with its one argument, a C string.
        unsafe { report(self.0.as_ptr(), c"nnburst: %s\n".as_ptr(), text.as_ptr()) };
    }
}

/// The numbers of an array; none of a null pointer.
///
/// # Safety
/// `array` is null, or followed by as many numbers as it says.
unsafe fn numbers(array: *const TfLiteIntArray) -> Vec<c_int> {
    if array.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise, for both.
    unsafe {
        let size = usize::try_from((*array).size).unwrap_or(0);
        std::slice::from_raw_parts((&raw const (*array).data).cast(), size).to_vec()
    }
}

fn indices(numbers: &[c_int]) -> Vec<Option<usize>> {
    numbers.iter().map(|&number| usize::try_from(number).ok()).collect()
}

fn present(numbers: &[c_int]) -> Vec<usize> {
    indices(numbers).into_iter().flatten().collect()
}

/// The memory of a `TfLiteIntArray`: the count, then the numbers.
fn int_array<T: Copy + TryInto<c_int>>(numbers: &[T]) -> Vec<c_int> {
    let count = c_int::try_from(numbers.len()).unwrap_or(0);
    let numbers = numbers.iter().map(|&number| number.try_into().unwrap_or(-1));
    std::iter::once(count).chain(numbers).collect()
}
