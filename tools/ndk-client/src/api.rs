//! The functions of the library, by name.
#![expect(non_snake_case, reason = "the names are the library's")]

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

use libloading::Library;

/// An object of the library's.
pub(crate) type Object = *mut c_void;

/// `ANeuralNetworksOperandType`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct OperandType {
    pub(crate) kind: i32,
    pub(crate) dimension_count: u32,
    pub(crate) dimensions: *const u32,
    pub(crate) scale: f32,
    pub(crate) zero_point: i32,
}

/// `ANeuralNetworksSymmPerChannelQuantParams`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct ChannelQuant {
    pub(crate) channel_dim: u32,
    pub(crate) scale_count: u32,
    pub(crate) scales: *const f32,
}

macro_rules! api {
    ($($name:ident($($kind:ty),*) $(-> $result:ty)?;)*) => {
        /// The library's functions; it stays loaded as long as they are here.
        #[derive(Debug)]
        pub(crate) struct Api {
            $(pub(crate) $name: unsafe extern "C" fn($($kind),*) $(-> $result)?,)*
            /// The reason behind this thread's last failure, where the library has the function:
            /// it is no part of NNAPI.
            pub(crate) last_error: Option<unsafe extern "C" fn() -> *const c_char>,
            _library: Library,
        }

        impl Api {
            /// Loads a library and finds its functions.
            pub(crate) fn load(path: &Path) -> Result<Self, libloading::Error> {
                // SAFETY: loading runs the library's initialisers, which is what we want.
                let library = unsafe { Library::new(path) }?;
                Ok(Self {
                    // SAFETY: the names are NNAPI's, and these are their types.
                    $($name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }?,)*
                    // SAFETY: as above.
                    last_error: unsafe { library.get(b"nnburst_lastError\0") }.ok().map(|found| *found),
                    _library: library,
                })
            }
        }
    };
}

api! {
    ANeuralNetworks_getDeviceCount(*mut u32) -> c_int;
    ANeuralNetworks_getDevice(u32, *mut Object) -> c_int;
    ANeuralNetworksDevice_getName(*const c_void, *mut *const c_char) -> c_int;
    ANeuralNetworksMemory_createFromFd(usize, c_int, c_int, usize, *mut Object) -> c_int;
    ANeuralNetworksMemory_createFromDesc(Object, *mut Object) -> c_int;
    ANeuralNetworksMemory_copy(Object, Object) -> c_int;
    ANeuralNetworksMemory_free(Object);
    ANeuralNetworksMemoryDesc_create(*mut Object) -> c_int;
    ANeuralNetworksMemoryDesc_addInputRole(Object, Object, u32, f32) -> c_int;
    ANeuralNetworksMemoryDesc_addOutputRole(Object, Object, u32, f32) -> c_int;
    ANeuralNetworksMemoryDesc_finish(Object) -> c_int;
    ANeuralNetworksMemoryDesc_free(Object);
    ANeuralNetworksModel_create(*mut Object) -> c_int;
    ANeuralNetworksModel_free(Object);
    ANeuralNetworksModel_finish(Object) -> c_int;
    ANeuralNetworksModel_addOperand(Object, *const OperandType) -> c_int;
    ANeuralNetworksModel_setOperandValue(Object, i32, *const c_void, usize) -> c_int;
    ANeuralNetworksModel_setOperandValueFromMemory(Object, i32, Object, usize, usize) -> c_int;
    ANeuralNetworksModel_setOperandValueFromModel(Object, i32, Object) -> c_int;
    ANeuralNetworksModel_setOperandSymmPerChannelQuantParams(Object, i32, *const ChannelQuant) -> c_int;
    ANeuralNetworksModel_addOperation(Object, i32, u32, *const u32, u32, *const u32) -> c_int;
    ANeuralNetworksModel_identifyInputsAndOutputs(Object, u32, *const u32, u32, *const u32) -> c_int;
    ANeuralNetworksModel_relaxComputationFloat32toFloat16(Object, bool) -> c_int;
    ANeuralNetworksModel_getSupportedOperationsForDevices(Object, *const *const c_void, u32, *mut bool) -> c_int;
    ANeuralNetworksCompilation_createForDevices(Object, *const *const c_void, u32, *mut Object) -> c_int;
    ANeuralNetworksCompilation_finish(Object) -> c_int;
    ANeuralNetworksCompilation_free(Object);
    ANeuralNetworksBurst_create(Object, *mut Object) -> c_int;
    ANeuralNetworksBurst_free(Object);
    ANeuralNetworksExecution_create(Object, *mut Object) -> c_int;
    ANeuralNetworksExecution_free(Object);
    ANeuralNetworksExecution_setInput(Object, i32, *const OperandType, *const c_void, usize) -> c_int;
    ANeuralNetworksExecution_setInputFromMemory(Object, i32, *const OperandType, Object, usize, usize) -> c_int;
    ANeuralNetworksExecution_setOutput(Object, i32, *const OperandType, *mut c_void, usize) -> c_int;
    ANeuralNetworksExecution_setOutputFromMemory(Object, i32, *const OperandType, Object, usize, usize) -> c_int;
    ANeuralNetworksExecution_setLoopTimeout(Object, u64) -> c_int;
    ANeuralNetworksExecution_compute(Object) -> c_int;
    ANeuralNetworksExecution_burstCompute(Object, Object) -> c_int;
    ANeuralNetworksExecution_startCompute(Object, *mut Object) -> c_int;
    ANeuralNetworksExecution_startComputeWithDependencies(Object, *const Object, u32, u64, *mut Object) -> c_int;
    ANeuralNetworksExecution_getOutputOperandRank(Object, i32, *mut u32) -> c_int;
    ANeuralNetworksExecution_getOutputOperandDimensions(Object, i32, *mut u32) -> c_int;
    ANeuralNetworksEvent_wait(Object) -> c_int;
    ANeuralNetworksEvent_free(Object);
}
