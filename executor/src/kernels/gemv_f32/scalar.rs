//! Plain Rust.

use super::{NARROW, Panel, Run};

pub(super) const PANELS: [Run; 4] = [panel::<1>, panel::<2>, panel::<3>, panel::<4>];

unsafe fn panel<const WIDTH: usize>(panel: &Panel) {
    for column in 0..panel.columns {
        // SAFETY: a start per column.
        let mut sum = unsafe { panel.start.add(column).read_unaligned() };
        for k in 0..panel.depth {
            // SAFETY: `depth` elements, and as many lines as wide as the panel.
            unsafe {
                let weight = *panel.weights.add(k * WIDTH * NARROW + column);
                sum += panel.x.add(k).read_unaligned() * weight;
            }
        }
        let y = crate::quant::clamp_real(sum, panel.low, panel.high);
        // SAFETY: a column that is there.
        unsafe { panel.output.add(column).write_unaligned(y) };
    }
}
