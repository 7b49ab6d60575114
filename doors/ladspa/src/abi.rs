//! The types and numbers of LADSPA 1.1 (`ladspa.h`), on machines whose `unsigned long` is a
//! `usize`.

use std::ffi::{c_char, c_int, c_ulong, c_void};

pub(crate) type Handle = *mut c_void;

pub(crate) const PORT_INPUT: c_int = 0x1;
pub(crate) const PORT_OUTPUT: c_int = 0x2;
pub(crate) const PORT_CONTROL: c_int = 0x4;
pub(crate) const PORT_AUDIO: c_int = 0x8;

pub(crate) const HINT_BOUNDED_BELOW: c_int = 0x1;
pub(crate) const HINT_BOUNDED_ABOVE: c_int = 0x2;
pub(crate) const HINT_INTEGER: c_int = 0x20;
pub(crate) const HINT_DEFAULT_MAXIMUM: c_int = 0x140;

/// The range of a port's values.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortRangeHint {
    pub(crate) descriptor: c_int,
    pub(crate) lower: f32,
    pub(crate) upper: f32,
}

/// A type of plugin. Every pointer is to a static.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(crate) unique_id: c_ulong,
    pub(crate) label: *const c_char,
    pub(crate) properties: c_int,
    pub(crate) name: *const c_char,
    pub(crate) maker: *const c_char,
    pub(crate) copyright: *const c_char,
    pub(crate) port_count: c_ulong,
    pub(crate) port_descriptors: *const c_int,
    pub(crate) port_names: *const *const c_char,
    pub(crate) port_range_hints: *const PortRangeHint,
    pub(crate) implementation_data: *mut c_void,
    pub(crate) instantiate: Option<unsafe extern "C" fn(*const Self, c_ulong) -> Handle>,
    pub(crate) connect_port: Option<unsafe extern "C" fn(Handle, c_ulong, *mut f32)>,
    pub(crate) activate: Option<unsafe extern "C" fn(Handle)>,
    pub(crate) run: Option<unsafe extern "C" fn(Handle, c_ulong)>,
    pub(crate) run_adding: Option<unsafe extern "C" fn(Handle, c_ulong)>,
    pub(crate) set_run_adding_gain: Option<unsafe extern "C" fn(Handle, f32)>,
    pub(crate) deactivate: Option<unsafe extern "C" fn(Handle)>,
    pub(crate) cleanup: Option<unsafe extern "C" fn(Handle)>,
}

// SAFETY: nothing in it is ever written, and neither is what it points to.
unsafe impl Sync for Descriptor {}

const _: () = assert!(size_of::<c_ulong>() == size_of::<usize>());
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<PortRangeHint>() == 12);
    assert!(offset_of!(Descriptor, properties) == 16);
    assert!(offset_of!(Descriptor, port_count) == 48);
    assert!(offset_of!(Descriptor, instantiate) == 88);
    assert!(offset_of!(Descriptor, cleanup) == 144);
    assert!(size_of::<Descriptor>() == 152);
};
