//! Plain Rust.

use half::f16;

use super::{GemvKernel, Panel, Weight};

pub(super) const KERNEL: GemvKernel = GemvKernel {
    floats: &[panel::<f32, 16>, panel::<f32, 32>, panel::<f32, 48>, panel::<f32, 64>],
    halves: &[panel::<f16, 16>, panel::<f16, 32>, panel::<f16, 48>, panel::<f16, 64>],
    steps: &[panel::<u16, 32>, panel::<u16, 64>],
};

trait Whole: Weight {
    fn whole(self) -> f32;
}

impl Whole for f32 {
    fn whole(self) -> f32 {
        self
    }
}

impl Whole for f16 {
    fn whole(self) -> f32 {
        self.to_f32()
    }
}

impl Whole for u16 {
    fn whole(self) -> f32 {
        f32::from_bits(u32::from(self) << 16)
    }
}

/// Adds up as plain code does where nothing is packed, to the bit.
unsafe fn panel<W: Whole, const WIDTH: usize>(panel: &Panel<W>) {
    for column in 0..panel.columns {
        let place = W::place(column);
        let scale = match W::ARE_STEPS {
            // SAFETY: a scale for every column of the panel.
            true => unsafe { *panel.scales.add(column) },
            false => 1.0,
        };
        // SAFETY: a start per column.
        let mut sum = unsafe { panel.start.add(column).read_unaligned() };
        for k in 0..panel.depth {
            // SAFETY: `depth` elements, and as many lines as wide as the panel.
            unsafe {
                // Of steps this is the very weight that was packed.
                let weight = (*panel.weights.add(k * WIDTH + place)).whole() * scale;
                sum += panel.x.add(k).read_unaligned() * weight;
            }
        }
        let y = crate::tensor::quant::clamp_real(sum, panel.low, panel.high);
        // SAFETY: a column that is there.
        unsafe { panel.output.add(column).write_unaligned(y) };
    }
}
