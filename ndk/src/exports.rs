//! The functions by the names that C links.
//!
//! The names are defined in assembly, each a jump to its function: rustc knows nothing of them, so
//! that its own list of exported symbols, which carries no versions, doesn't have them, and
//! `libneuralnetworks.map` gives them Android's.

use std::arch::global_asm;

use crate::{
    burst, compilation, device, diagnostic, error, event, execution, hardware_buffer, memory,
    memory_desc, model,
};

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "jmp {function}"
    };
}
#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
macro_rules! jump {
    () => {
        "b {function}"
    };
}
#[cfg(target_arch = "riscv64")]
macro_rules! jump {
    () => {
        "tail {function}"
    };
}

macro_rules! export {
    ($($name:ident = $function:path;)*) => {$(
        global_asm!(
            concat!(".pushsection .text.", stringify!($name), ",\"ax\",%progbits"),
            concat!(".globl ", stringify!($name)),
            concat!(".type ", stringify!($name), ",%function"),
            concat!(stringify!($name), ":"),
            jump!(),
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            ".popsection",
            function = sym $function,
        );
    )*};
}

export! {
    ANeuralNetworks_getDevice = device::get_device;
    ANeuralNetworks_getDeviceCount = device::get_device_count;
    ANeuralNetworks_getDefaultLoopTimeout = device::default_loop_timeout;
    ANeuralNetworks_getMaximumLoopTimeout = device::maximum_loop_timeout;
    ANeuralNetworksBurst_create = burst::create;
    ANeuralNetworksBurst_free = burst::free;
    ANeuralNetworksCompilation_create = compilation::create;
    ANeuralNetworksCompilation_createForDevices = compilation::create_for_devices;
    ANeuralNetworksCompilation_finish = compilation::finish;
    ANeuralNetworksCompilation_free = compilation::free;
    ANeuralNetworksCompilation_setCaching = compilation::set_caching;
    ANeuralNetworksCompilation_setPreference = compilation::set_preference;
    ANeuralNetworksCompilation_setPriority = compilation::set_priority;
    ANeuralNetworksCompilation_setTimeout = compilation::set_timeout;
    ANeuralNetworksDevice_getExtensionSupport = device::get_extension_support;
    ANeuralNetworksDevice_getFeatureLevel = device::get_feature_level;
    ANeuralNetworksDevice_getName = device::get_name;
    ANeuralNetworksDevice_getType = device::get_type;
    ANeuralNetworksDevice_getVersion = device::get_version;
    ANeuralNetworksDevice_wait = device::wait;
    ANeuralNetworksEvent_createFromSyncFenceFd = event::create_from_sync_fence_fd;
    ANeuralNetworksEvent_free = event::free;
    ANeuralNetworksEvent_getSyncFenceFd = event::get_sync_fence_fd;
    ANeuralNetworksEvent_wait = event::wait;
    ANeuralNetworksExecution_burstCompute = execution::burst_compute;
    ANeuralNetworksExecution_compute = execution::compute;
    ANeuralNetworksExecution_create = execution::create;
    ANeuralNetworksExecution_free = execution::free;
    ANeuralNetworksExecution_getDuration = execution::get_duration;
    ANeuralNetworksExecution_getOutputOperandDimensions = execution::get_output_operand_dimensions;
    ANeuralNetworksExecution_getOutputOperandRank = execution::get_output_operand_rank;
    ANeuralNetworksExecution_setInput = execution::set_input;
    ANeuralNetworksExecution_setInputFromMemory = execution::set_input_from_memory;
    ANeuralNetworksExecution_setLoopTimeout = execution::set_loop_timeout;
    ANeuralNetworksExecution_setMeasureTiming = execution::set_measure_timing;
    ANeuralNetworksExecution_setOutput = execution::set_output;
    ANeuralNetworksExecution_setOutputFromMemory = execution::set_output_from_memory;
    ANeuralNetworksExecution_setTimeout = execution::set_timeout;
    ANeuralNetworksExecution_startCompute = execution::start_compute;
    ANeuralNetworksExecution_startComputeWithDependencies =
        execution::start_compute_with_dependencies;
    ANeuralNetworksMemory_copy = memory::copy;
    ANeuralNetworksMemory_createFromAHardwareBuffer = memory::create_from_hardware_buffer;
    ANeuralNetworksMemory_createFromDesc = memory_desc::create_memory;
    ANeuralNetworksMemory_createFromFd = memory::create_from_fd;
    ANeuralNetworksMemory_free = memory::free;
    ANeuralNetworksMemoryDesc_addInputRole = memory_desc::add_input_role;
    ANeuralNetworksMemoryDesc_addOutputRole = memory_desc::add_output_role;
    ANeuralNetworksMemoryDesc_create = memory_desc::create;
    ANeuralNetworksMemoryDesc_finish = memory_desc::finish;
    ANeuralNetworksMemoryDesc_free = memory_desc::free;
    ANeuralNetworksMemoryDesc_setDimensions = memory_desc::set_dimensions;
    ANeuralNetworksModel_addOperand = model::add_operand;
    ANeuralNetworksModel_addOperation = model::add_operation;
    ANeuralNetworksModel_create = model::create;
    ANeuralNetworksModel_finish = model::finish;
    ANeuralNetworksModel_free = model::free;
    ANeuralNetworksModel_getExtensionOperandType = model::get_extension_operand_type;
    ANeuralNetworksModel_getExtensionOperationType = model::get_extension_operation_type;
    ANeuralNetworksModel_getSupportedOperationsForDevices =
        model::get_supported_operations_for_devices;
    ANeuralNetworksModel_identifyInputsAndOutputs = model::identify_inputs_and_outputs;
    ANeuralNetworksModel_relaxComputationFloat32toFloat16 =
        model::relax_computation_float32_to_float16;
    ANeuralNetworksModel_setOperandExtensionData = model::set_operand_extension_data;
    ANeuralNetworksModel_setOperandSymmPerChannelQuantParams =
        model::set_operand_symm_per_channel_quant_params;
    ANeuralNetworksModel_setOperandValue = model::set_operand_value;
    ANeuralNetworksModel_setOperandValueFromMemory = model::set_operand_value_from_memory;
    ANeuralNetworksModel_setOperandValueFromModel = model::set_operand_value_from_model;

    AHardwareBuffer_acquire = hardware_buffer::acquire;
    AHardwareBuffer_allocate = hardware_buffer::allocate;
    AHardwareBuffer_describe = hardware_buffer::describe;
    AHardwareBuffer_isSupported = hardware_buffer::is_supported;
    AHardwareBuffer_lock = hardware_buffer::lock;
    AHardwareBuffer_release = hardware_buffer::release;
    AHardwareBuffer_unlock = hardware_buffer::unlock;

    SL_ANeuralNetworksDiagnostic_registerCallbacks = diagnostic::register_callbacks;
    SL_ANeuralNetworksDiagnosticCompilationInfo_getSessionId = diagnostic::compilation_session;
    SL_ANeuralNetworksDiagnosticCompilationInfo_getNnApiVersion = diagnostic::compilation_version;
    SL_ANeuralNetworksDiagnosticCompilationInfo_getModelArchHash = diagnostic::compilation_architecture;
    SL_ANeuralNetworksDiagnosticCompilationInfo_getDeviceIds = diagnostic::compilation_devices;
    SL_ANeuralNetworksDiagnosticCompilationInfo_getErrorCode = diagnostic::compilation_error;
    SL_ANeuralNetworksDiagnosticCompilationInfo_getInputDataClass = diagnostic::compilation_inputs;
    SL_ANeuralNetworksDiagnosticCompilationInfo_getOutputDataClass = diagnostic::compilation_outputs;
    SL_ANeuralNetworksDiagnosticCompilationInfo_getCompilationTimeNanos = diagnostic::compilation_time;
    SL_ANeuralNetworksDiagnosticCompilationInfo_isCachingEnabled = diagnostic::compilation_is_cached;
    SL_ANeuralNetworksDiagnosticCompilationInfo_isControlFlowUsed = diagnostic::compilation_has_control_flow;
    SL_ANeuralNetworksDiagnosticCompilationInfo_areDynamicTensorsUsed = diagnostic::compilation_has_dynamic_tensors;
    SL_ANeuralNetworksDiagnosticExecutionInfo_getSessionId = diagnostic::execution_session;
    SL_ANeuralNetworksDiagnosticExecutionInfo_getNnApiVersion = diagnostic::execution_version;
    SL_ANeuralNetworksDiagnosticExecutionInfo_getModelArchHash = diagnostic::execution_architecture;
    SL_ANeuralNetworksDiagnosticExecutionInfo_getDeviceIds = diagnostic::execution_devices;
    SL_ANeuralNetworksDiagnosticExecutionInfo_getExecutionMode = diagnostic::execution_mode;
    SL_ANeuralNetworksDiagnosticExecutionInfo_getInputDataClass = diagnostic::execution_inputs;
    SL_ANeuralNetworksDiagnosticExecutionInfo_getOutputDataClass = diagnostic::execution_outputs;
    SL_ANeuralNetworksDiagnosticExecutionInfo_getErrorCode = diagnostic::execution_error;
    SL_ANeuralNetworksDiagnosticExecutionInfo_getRuntimeExecutionTimeNanos = diagnostic::execution_runtime_time;
    SL_ANeuralNetworksDiagnosticExecutionInfo_getDriverExecutionTimeNanos = diagnostic::execution_driver_time;
    SL_ANeuralNetworksDiagnosticExecutionInfo_getHardwareExecutionTimeNanos = diagnostic::execution_hardware_time;
    SL_ANeuralNetworksDiagnosticExecutionInfo_isCachingEnabled = diagnostic::execution_is_cached;
    SL_ANeuralNetworksDiagnosticExecutionInfo_isControlFlowUsed = diagnostic::execution_has_control_flow;
    SL_ANeuralNetworksDiagnosticExecutionInfo_areDynamicTensorsUsed = diagnostic::execution_has_dynamic_tensors;

    nnburst_AHardwareBuffer_fromFd = hardware_buffer::from_fd;
    nnburst_AHardwareBuffer_getFd = hardware_buffer::get_fd;
    nnburst_Burst_create = burst::create_waiting;
    nnburst_Compilation_setBurstWait = compilation::set_burst_wait;
    nnburst_lastError = error::last_error;
    nnburst_setCallTimeout = error::set_call_timeout;
}
