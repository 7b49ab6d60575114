//! The ports of both plugins, as hosts see them.

use std::ffi::{CStr, c_char, c_int, c_ulong};
use std::ptr::null_mut;

use crate::abi::*;
use crate::plugin;
use crate::stream::NO_LIMIT_DB;

/// A port, for the tables.
#[derive(Clone, Copy)]
struct Port {
    name: &'static CStr,
    kind: c_int,
    hint: PortRangeHint,
}

const NO_HINT: PortRangeHint = PortRangeHint { descriptor: 0, lower: 0.0, upper: 0.0 };

const fn audio(name: &'static CStr, direction: c_int) -> Port {
    Port { name, kind: PORT_AUDIO | direction, hint: NO_HINT }
}

const fn control(name: &'static CStr, upper: f32) -> Port {
    let descriptor = HINT_BOUNDED_BELOW | HINT_BOUNDED_ABOVE | HINT_DEFAULT_MAXIMUM;
    let hint = PortRangeHint { descriptor, lower: 0.0, upper };
    Port { name, kind: PORT_CONTROL | PORT_INPUT, hint }
}

const fn report(name: &'static CStr) -> Port {
    let descriptor = HINT_BOUNDED_BELOW | HINT_INTEGER;
    let hint = PortRangeHint { descriptor, lower: 0.0, upper: 0.0 };
    Port { name, kind: PORT_CONTROL | PORT_OUTPUT, hint }
}

/// The control ports, in this order after those of the sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlPort {
    /// The share of the clean sound.
    Wet,
    /// The most that is taken of the noise, in decibels.
    Limit,
    /// The delay in samples; hosts look for this name.
    Latency,
    /// Blocks that passed as they were heard.
    Misses,
}

const CONTROLS: [Port; 4] = [
    control(c"Wet (0-1)", 1.0),
    control(c"Attenuation limit (dB)", NO_LIMIT_DB),
    report(c"latency"),
    report(c"misses"),
];

/// As many ports as a plugin of so many channels has.
pub(crate) const fn port_count(channels: usize) -> usize {
    2 * channels + CONTROLS.len()
}

impl ControlPort {
    /// The port's index in a plugin of so many channels.
    pub(crate) const fn index(self, channels: usize) -> usize {
        2 * channels + self as usize
    }
}

/// The columns of a plugin's ports, as LADSPA wants them.
struct Table<const PORTS: usize> {
    kinds: [c_int; PORTS],
    names: [*const c_char; PORTS],
    hints: [PortRangeHint; PORTS],
}

// SAFETY: never written, as are the names that it points to.
unsafe impl<const PORTS: usize> Sync for Table<PORTS> {}

const fn table<const PORTS: usize>(sound: &[Port]) -> Table<PORTS> {
    let mut table =
        Table { kinds: [0; PORTS], names: [c"".as_ptr(); PORTS], hints: [NO_HINT; PORTS] };
    let mut at = 0;
    while at < PORTS {
        let port = if at < sound.len() { sound[at] } else { CONTROLS[at - sound.len()] };
        table.kinds[at] = port.kind;
        table.names[at] = port.name.as_ptr();
        table.hints[at] = port.hint;
        at += 1;
    }
    table
}

static MONO_PORTS: Table<{ port_count(1) }> =
    table(&[audio(c"Input", PORT_INPUT), audio(c"Output", PORT_OUTPUT)]);

static STEREO_PORTS: Table<{ port_count(2) }> = table(&[
    audio(c"Input L", PORT_INPUT),
    audio(c"Input R", PORT_INPUT),
    audio(c"Output L", PORT_OUTPUT),
    audio(c"Output R", PORT_OUTPUT),
]);

const fn descriptor<const CHANNELS: usize, const PORTS: usize>(
    unique_id: c_ulong,
    label: &'static CStr,
    name: &'static CStr,
    ports: &'static Table<PORTS>,
) -> Descriptor {
    assert!(PORTS == port_count(CHANNELS));
    Descriptor {
        unique_id,
        label: label.as_ptr(),
        // Not HARD_RT_CAPABLE: `run` makes no system call, but in a host that renders a file it
        // waits for the worker.
        properties: 0,
        name: name.as_ptr(),
        maker: c"nnburst".as_ptr(),
        copyright: c"Apache-2.0 OR MIT".as_ptr(),
        port_count: PORTS as c_ulong,
        port_descriptors: ports.kinds.as_ptr(),
        port_names: ports.names.as_ptr(),
        port_range_hints: ports.hints.as_ptr(),
        implementation_data: null_mut(),
        instantiate: Some(plugin::instantiate::<CHANNELS>),
        connect_port: Some(plugin::connect_port::<CHANNELS>),
        activate: Some(plugin::activate::<CHANNELS>),
        run: Some(plugin::run::<CHANNELS>),
        run_adding: None,
        set_run_adding_gain: None,
        deactivate: None,
        cleanup: Some(plugin::cleanup::<CHANNELS>),
    }
}

/// The plugins, by index.
pub(crate) static PLUGINS: [Descriptor; 2] = [
    descriptor::<1, { port_count(1) }>(
        0x4e_4e_41,
        c"denoise_mono",
        c"Noise suppression for speech (DTLN, mono)",
        &MONO_PORTS,
    ),
    descriptor::<2, { port_count(2) }>(
        0x4e_4e_42,
        c"denoise_stereo",
        c"Noise suppression for speech (DTLN, stereo)",
        &STEREO_PORTS,
    ),
];
