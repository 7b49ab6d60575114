//! The structs of TFLite's C API (`tensorflow/lite/core/c/common.h`) that hosts and delegates
//! share, as they are laid out on 64-bit machines: the same in tflite-runtime 2.14 and
//! ai-edge-litert 2.3.
//!
//! Neither host exports the functions of the newer opaque API, so no symbol of theirs is used:
//! whatever is called is a pointer in [`Context`].

use std::ffi::{c_char, c_int, c_void};

/// `TfLiteStatus`.
pub(crate) type TfLiteStatus = c_int;
pub(crate) const OK: TfLiteStatus = 0;
pub(crate) const ERROR: TfLiteStatus = 1;

/// `TfLiteAllocationType`: a constant of the model.
pub(crate) const MMAP_RO: c_int = 1;
/// A tensor whose memory is allocated when an operator runs.
pub(crate) const DYNAMIC: c_int = 4;

/// `kTfLiteDelegateFlagsAllowDynamicTensors`.
pub(crate) const ALLOW_DYNAMIC_TENSORS: i64 = 1;

/// `TfLiteIntArray`: `size` numbers follow.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct TfLiteIntArray {
    pub(crate) size: c_int,
    pub(crate) data: [c_int; 0],
}

/// `TfLiteQuantizationParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TfLiteQuantizationParams {
    pub(crate) scale: f32,
    pub(crate) zero_point: i32,
}

/// `TfLiteQuantization`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TfLiteQuantization {
    pub(crate) kind: c_int,
    pub(crate) params: *mut c_void,
}

/// `TfLiteTensor`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct TfLiteTensor {
    pub(crate) kind: c_int,
    pub(crate) data: *mut u8,
    pub(crate) dims: *mut TfLiteIntArray,
    pub(crate) params: TfLiteQuantizationParams,
    pub(crate) allocation_type: c_int,
    pub(crate) bytes: usize,
    pub(crate) allocation: *const c_void,
    pub(crate) name: *const c_char,
    pub(crate) delegate: *mut TfLiteDelegate,
    pub(crate) buffer_handle: c_int,
    pub(crate) data_is_stale: u8,
    pub(crate) is_variable: u8,
    pub(crate) quantization: TfLiteQuantization,
    pub(crate) sparsity: *mut c_void,
    pub(crate) dims_signature: *const TfLiteIntArray,
}

/// `TfLiteNode`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct TfLiteNode {
    pub(crate) inputs: *mut TfLiteIntArray,
    pub(crate) outputs: *mut TfLiteIntArray,
    pub(crate) intermediates: *mut TfLiteIntArray,
    pub(crate) temporaries: *mut TfLiteIntArray,
    pub(crate) user_data: *mut c_void,
    pub(crate) builtin_data: *mut c_void,
    pub(crate) custom_initial_data: *const c_void,
    pub(crate) custom_initial_data_size: c_int,
    pub(crate) delegate: *mut TfLiteDelegate,
    pub(crate) might_have_side_effect: u8,
}

/// `TfLiteRegistration`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TfLiteRegistration {
    pub(crate) init:
        Option<unsafe extern "C" fn(*mut TfLiteContext, *const c_char, usize) -> *mut c_void>,
    pub(crate) free: Option<unsafe extern "C" fn(*mut TfLiteContext, *mut c_void)>,
    pub(crate) prepare:
        Option<unsafe extern "C" fn(*mut TfLiteContext, *mut TfLiteNode) -> TfLiteStatus>,
    pub(crate) invoke:
        Option<unsafe extern "C" fn(*mut TfLiteContext, *mut TfLiteNode) -> TfLiteStatus>,
    pub(crate) profiling_string:
        Option<unsafe extern "C" fn(*const TfLiteContext, *const TfLiteNode) -> *const c_char>,
    pub(crate) builtin_code: i32,
    pub(crate) custom_name: *const c_char,
    pub(crate) version: c_int,
    pub(crate) registration_external: *mut c_void,
    pub(crate) async_kernel: *mut c_void,
    pub(crate) inplace_operator: u64,
    /// The struct is passed by value and has grown with every version: a host that reads more of
    /// it than is known here finds zeros.
    pub(crate) reserved: [u64; 8],
}

/// `TfLiteContext`. What is not used here has the type of an address.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct TfLiteContext {
    pub(crate) tensors_size: usize,
    pub(crate) get_execution_plan:
        Option<unsafe extern "C" fn(*mut Self, *mut *mut TfLiteIntArray) -> TfLiteStatus>,
    pub(crate) tensors: *mut TfLiteTensor,
    pub(crate) implementation: *mut c_void,
    /// The array is the host's from then on, which frees it by `free`.
    pub(crate) resize_tensor: Option<
        unsafe extern "C" fn(*mut Self, *mut TfLiteTensor, *mut TfLiteIntArray) -> TfLiteStatus,
    >,
    pub(crate) report_error: Option<unsafe extern "C" fn(*mut Self, *const c_char, ...)>,
    pub(crate) add_tensors: *mut c_void,
    pub(crate) get_node_and_registration: Option<
        unsafe extern "C" fn(
            *mut Self,
            c_int,
            *mut *mut TfLiteNode,
            *mut *mut TfLiteRegistration,
        ) -> TfLiteStatus,
    >,
    pub(crate) replace_node_subsets: Option<
        unsafe extern "C" fn(
            *mut Self,
            TfLiteRegistration,
            *const TfLiteIntArray,
            *mut TfLiteDelegate,
        ) -> TfLiteStatus,
    >,
    pub(crate) recommended_num_threads: c_int,
    pub(crate) get_external_context: *mut c_void,
    pub(crate) set_external_context: *mut c_void,
    pub(crate) allow_fp32_relax_to_fp16: u8,
    pub(crate) profiler: *mut c_void,
    pub(crate) allocate_persistent_buffer: *mut c_void,
    pub(crate) allocate_buffer_for_eval: *mut c_void,
    pub(crate) request_scratch_buffer: *mut c_void,
    pub(crate) get_scratch_buffer: *mut c_void,
    pub(crate) resize_tensor_explicit: *mut c_void,
    /// The array is the host's, and holds until the next call.
    pub(crate) preview_partitioning: Option<
        unsafe extern "C" fn(
            *mut Self,
            *const TfLiteIntArray,
            *mut *mut TfLiteDelegateParams,
            *mut c_int,
        ) -> TfLiteStatus,
    >,
    pub(crate) get_tensor: *mut c_void,
    pub(crate) get_eval_tensor: *mut c_void,
    pub(crate) get_model_metadata: *mut c_void,
    pub(crate) acquire_subgraph_context: *mut c_void,
    pub(crate) release_subgraph_context: *mut c_void,
}

/// `TfLiteDelegate`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct TfLiteDelegate {
    pub(crate) data: *mut c_void,
    pub(crate) prepare: Option<unsafe extern "C" fn(*mut TfLiteContext, *mut Self) -> TfLiteStatus>,
    pub(crate) copy_from_buffer_handle: *mut c_void,
    pub(crate) copy_to_buffer_handle: *mut c_void,
    pub(crate) free_buffer_handle: *mut c_void,
    pub(crate) flags: i64,
    pub(crate) opaque_delegate_builder: *mut c_void,
}

/// `TfLiteDelegateParams`: a set of nodes that one kernel of the delegate replaces.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct TfLiteDelegateParams {
    pub(crate) delegate: *mut TfLiteDelegate,
    pub(crate) nodes_to_replace: *mut TfLiteIntArray,
    pub(crate) input_tensors: *mut TfLiteIntArray,
    pub(crate) output_tensors: *mut TfLiteIntArray,
}

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the layouts of TFLite's structs are known for 64-bit machines alone");

macro_rules! layout {
    ($($name:ident: $size:literal { $($field:ident $(. $part:ident)? @ $offset:literal),* $(,)? })*) => {
        $(const _: () = {
            assert!(size_of::<$name>() == $size, "a size differs");
            $(assert!(
                std::mem::offset_of!($name, $field $(. $part)?) == $offset,
                concat!("another offset: ", stringify!($field))
            );)*
        };)*
    };
}

layout! {
    TfLiteIntArray: 4 { size @ 0, data @ 4 }
    TfLiteTensor: 112 {
        kind @ 0, data @ 8, dims @ 16, params.scale @ 24, params.zero_point @ 28,
        allocation_type @ 32, bytes @ 40, allocation @ 48, name @ 56, delegate @ 64,
        buffer_handle @ 72, data_is_stale @ 76, is_variable @ 77, quantization.kind @ 80,
        quantization.params @ 88, sparsity @ 96, dims_signature @ 104,
    }
    TfLiteNode: 80 {
        inputs @ 0, outputs @ 8, intermediates @ 16, temporaries @ 24, user_data @ 32,
        builtin_data @ 40, custom_initial_data @ 48, custom_initial_data_size @ 56, delegate @ 64,
        might_have_side_effect @ 72,
    }
    TfLiteRegistration: 152 {
        init @ 0, free @ 8, prepare @ 16, invoke @ 24, profiling_string @ 32, builtin_code @ 40,
        custom_name @ 48, version @ 56, registration_external @ 64, async_kernel @ 72,
        inplace_operator @ 80, reserved @ 88,
    }
    TfLiteContext: 200 {
        tensors_size @ 0, get_execution_plan @ 8, tensors @ 16, implementation @ 24,
        resize_tensor @ 32, report_error @ 40, add_tensors @ 48, get_node_and_registration @ 56,
        replace_node_subsets @ 64, recommended_num_threads @ 72, get_external_context @ 80,
        set_external_context @ 88, allow_fp32_relax_to_fp16 @ 96, profiler @ 104,
        allocate_persistent_buffer @ 112, allocate_buffer_for_eval @ 120,
        request_scratch_buffer @ 128, get_scratch_buffer @ 136, resize_tensor_explicit @ 144,
        preview_partitioning @ 152, get_tensor @ 160, get_eval_tensor @ 168,
        get_model_metadata @ 176, acquire_subgraph_context @ 184, release_subgraph_context @ 192,
    }
    TfLiteDelegate: 56 {
        data @ 0, prepare @ 8, copy_from_buffer_handle @ 16, copy_to_buffer_handle @ 24,
        free_buffer_handle @ 32, flags @ 40, opaque_delegate_builder @ 48,
    }
    TfLiteDelegateParams: 32 {
        delegate @ 0, nodes_to_replace @ 8, input_tensors @ 16, output_tensors @ 24,
    }
}
