//! The functions that interpreters call.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};

use nnburst_doors_common::{Log, guarded, start_logging};

use crate::abi::{
    ERROR, OK, TfLiteContext, TfLiteDelegate, TfLiteDelegateParams, TfLiteNode, TfLiteRegistration,
    TfLiteStatus,
};
use crate::delegate::DelegateState;
use crate::host::{Host, Subset};
use crate::kernel::{DelegateKernel, KernelError};
use crate::options::DelegateOptions;

/// Writes why there is no delegate.
type ReportError = Option<unsafe extern "C" fn(*const c_char)>;

/// What a kernel's `init` returns: never null, for hosts run what has none. A host makes no two
/// calls of one interpreter at a time.
struct UserData {
    /// Beside the kernel, so that it can be borrowed with it: a count that is taken by each call
    /// would cost a tiny network a part of its time.
    log: Log,
    kernel: Result<DelegateKernel, String>,
}

/// The log of calls without a delegate, and of panics.
fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| Log::stderr("tflite"))
}

/// Makes a delegate of `count` options; null, after a call of `report_error`, where there can be
/// none.
///
/// # Safety
/// `keys` and `values` lead to `count` C strings each, and `report_error` may be called.
#[unsafe(no_mangle)]
unsafe extern "C" fn tflite_plugin_create_delegate(
    keys: *const *const c_char,
    values: *const *const c_char,
    count: usize,
    report_error: ReportError,
) -> *mut TfLiteDelegate {
    let log = log();
    let made = guarded(log, Err("internal error".to_owned()), || {
        start_logging(log);
        // SAFETY: the caller's promise.
        let [keys, values] = [keys, values].map(|texts| unsafe { strings(texts, count) });
        let given: Vec<_> = keys.into_iter().zip(values).collect();
        let settings = DelegateOptions::parse(&given).map_err(|error| error.to_string())?;
        DelegateState::new(settings, log).map_err(|error| error.to_string())
    });
    match made {
        Ok(shared) => Box::into_raw(Box::new(TfLiteDelegate {
            data: Arc::into_raw(Arc::new(shared)).cast_mut().cast(),
            prepare: Some(prepare),
            copy_from_buffer_handle: null_mut(),
            copy_to_buffer_handle: null_mut(),
            free_buffer_handle: null_mut(),
            flags: FLAGS,
            opaque_delegate_builder: null_mut(),
        })),
        Err(error) => {
            let text = CString::new(format!("nnburst: {error}").replace('\0', " "));
            match (report_error, text) {
                // SAFETY: the caller's promise; the text is a C string.
                (Some(report), Ok(text)) => unsafe { report(text.as_ptr()) },
                // C++ programs leave it out.
                _ => log.error(&error),
            }
            null_mut()
        }
    }
}

/// Ends a delegate. Kernels that are there yet go on without it.
///
/// # Safety
/// `delegate` is null, or one of [`tflite_plugin_create_delegate`]'s that wasn't destroyed.
#[unsafe(no_mangle)]
unsafe extern "C" fn tflite_plugin_destroy_delegate(delegate: *mut TfLiteDelegate) {
    if delegate.is_null() {
        return;
    }
    guarded(log(), (), || {
        // SAFETY: the caller's promise, and nobody else has it.
        let delegate = unsafe { Box::from_raw(delegate) };
        // SAFETY: made by `Arc::into_raw`, for this delegate alone.
        drop(unsafe { Arc::from_raw(delegate.data.cast::<DelegateState>().cast_const()) });
    });
}

/// Tensors may be dynamic. Kernels give their outputs shapes themselves: with the flag that has the
/// interpreter propagate them (`RequirePropagatedShapes`) it prepares the operators that kernels
/// replace as well, and refuses a custom operator that it has not, which the driver may have.
const FLAGS: i64 = crate::abi::ALLOW_DYNAMIC_TENSORS;

/// # Safety
/// `delegate` is null, or one of [`tflite_plugin_create_delegate`]'s that is alive.
unsafe fn shared(delegate: *const TfLiteDelegate) -> Option<Arc<DelegateState>> {
    // SAFETY: the caller's promise.
    let data = unsafe { delegate.as_ref() }?.data.cast::<DelegateState>().cast_const();
    // SAFETY: made by `Arc::into_raw`, and the delegate keeps its own.
    unsafe {
        Arc::increment_strong_count(data);
        Some(Arc::from_raw(data))
    }
}

/// Chooses operators of a graph.
///
/// # Safety
/// Both are the host's: a graph that is being prepared, and the delegate, alive.
unsafe extern "C" fn prepare(
    context: *mut TfLiteContext,
    delegate: *mut TfLiteDelegate,
) -> TfLiteStatus {
    let registration = TfLiteRegistration {
        init: Some(kernel_init),
        free: Some(kernel_free),
        prepare: Some(kernel_prepare),
        invoke: Some(kernel_invoke),
        profiling_string: None,
        builtin_code: 0,
        custom_name: c"nnburst".as_ptr(),
        version: 1,
        registration_external: null_mut(),
        async_kernel: null_mut(),
        inplace_operator: 0,
        reserved: [0; 8],
    };
    // SAFETY: the caller's promise.
    let (Some(mut host), Some(shared)) = (unsafe { (Host::new(context), shared(delegate)) }) else {
        return ERROR;
    };
    status(&shared.log, || match shared.prepare(&mut host, registration, delegate) {
        Ok(()) => OK,
        Err(error) => {
            host.report(&error.to_string());
            ERROR
        }
    })
}

fn status(log: &Log, body: impl FnOnce() -> TfLiteStatus) -> TfLiteStatus {
    guarded(log, ERROR, body)
}

/// Makes the kernel of a partition. It always succeeds: hosts go on with what failed, and `prepare`
/// is asked for the error.
///
/// # Safety
/// `params` is a partition of a delegate of ours that is alive.
unsafe extern "C" fn kernel_init(
    _: *mut TfLiteContext,
    params: *const c_char,
    _: usize,
) -> *mut c_void {
    let params: *const TfLiteDelegateParams = params.cast();
    let mut log_of_kernel = log().clone();
    let kernel = guarded(log(), Err("internal error".to_owned()), || {
        // SAFETY: the caller's promise.
        let subset = unsafe { Subset::of(params) }.ok_or("no partition")?;
        // SAFETY: as above; not null, as the subset was read.
        let shared = unsafe { shared((*params).delegate) }.ok_or("no delegate")?;
        match shared.chosen(&subset) {
            Some(part) => {
                log_of_kernel = shared.log.clone();
                Ok(DelegateKernel::new(shared, part))
            }
            None => Err(KernelError::Unknown(subset).to_string()),
        }
    });
    Box::into_raw(Box::new(UserData { log: log_of_kernel, kernel })).cast()
}

/// # Safety
/// `data` is null, or of [`kernel_init`] and not used any more.
unsafe extern "C" fn kernel_free(_: *mut TfLiteContext, data: *mut c_void) {
    if !data.is_null() {
        // SAFETY: the caller's promise.
        guarded(log(), (), || drop(unsafe { Box::from_raw(data.cast::<UserData>()) }));
    }
}

/// # Safety
/// As for [`with_kernel`].
unsafe extern "C" fn kernel_prepare(
    context: *mut TfLiteContext,
    node: *mut TfLiteNode,
) -> TfLiteStatus {
    // SAFETY: the caller's promise.
    unsafe { with_kernel(context, node, DelegateKernel::prepare) }
}

/// # Safety
/// As for [`with_kernel`].
unsafe extern "C" fn kernel_invoke(
    context: *mut TfLiteContext,
    node: *mut TfLiteNode,
) -> TfLiteStatus {
    // SAFETY: the caller's promise.
    unsafe { with_kernel(context, node, DelegateKernel::invoke) }
}

/// # Safety
/// `context` is a graph of the host's, and `node` one of it that has a kernel of ours, which is in
/// no other call.
unsafe fn with_kernel(
    context: *mut TfLiteContext,
    node: *mut TfLiteNode,
    call: impl FnOnce(&mut DelegateKernel, &mut Host) -> Result<(), KernelError>,
) -> TfLiteStatus {
    // SAFETY: the caller's promise.
    let (Some(mut host), Some(node)) = (unsafe { (Host::new(context), node.as_ref()) }) else {
        return ERROR;
    };
    // SAFETY: as above: what `kernel_init` returned.
    let Some(data) = (unsafe { node.user_data.cast::<UserData>().as_mut() }) else {
        return ERROR;
    };
    let UserData { log, kernel } = data;
    let error = match kernel {
        Ok(kernel) => {
            let called = guarded(log, None, || {
                Some(call(kernel, &mut host).map_err(|error| error.to_string()))
            });
            called.unwrap_or_else(|| Err("internal error, see the log".to_owned()))
        }
        Err(error) => Err(error.clone()),
    };
    match error {
        Ok(()) => OK,
        Err(error) => {
            host.report(&error);
            ERROR
        }
    }
}

/// Texts of the host; what is not UTF-8 is replaced.
///
/// # Safety
/// `texts` leads to `count` C strings, or `count` is 0.
unsafe fn strings(texts: *const *const c_char, count: usize) -> Vec<String> {
    if texts.is_null() {
        return Vec::new();
    }
    let text = |at| {
        // SAFETY: the caller's promise.
        let text = unsafe { texts.add(at).read() };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: likewise.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    (0..count).map(text).collect()
}
