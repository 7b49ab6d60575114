//! RANDOM_MULTINOMIAL: class indexes drawn by unnormalised log-probabilities.
//!
//! Source: NNAPI, since HAL 1.2. The numbers are Android's: Philox 4x32-10 (Salmon et al.,
//! "Parallel random numbers: as easy as 1, 2, 3", 2011), two words for each sample.

use std::hash::{BuildHasher, Hasher};

use nnburst_kernels::tensor::{OpError, Real, Shape, poll};

use super::Op;
use super::support::{by_real, plain};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static RANDOM_MULTINOMIAL: Op = Op { lower };

fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (logits, seeds) = (op.input(0)?, op.input(2)?);
    let &[batches, classes] = &logits.shape[..] else {
        return Err(OpError::input(0, format!("is of {:?}, not of rank 2", logits.shape)).into());
    };
    let samples = op.extent(1, 1)?;
    if classes == 0 || i32::try_from(classes).is_err() || seeds.shape[..] != [2] {
        let what = format!("{classes} classes, seeds of {:?}", seeds.shape);
        return Err(OpError::rule(what).into());
    }
    op.set_output(0, Shape::new([batches, samples])?)?;
    by_real!(logits.kind, emit(op, batches, classes, samples))
}

fn emit<T: Real>(
    op: &mut OpBuilder<'_>,
    batches: usize,
    classes: usize,
    samples: usize,
) -> Lowered {
    let shape = op.output(0)?.shape;
    op.emit_with_scratch(
        plain("random_multinomial", &shape, 0),
        classes * 8,
        move |mut io: Io<'_>| {
            let (logits, seeds) = (io.input::<T>(0), io.input::<i32>(2));
            let output = io.output::<i32>(0);
            let mut random = Philox::new(seeds.get(0), seeds.get(1));
            let sums = bytemuck::cast_slice_mut::<u32, f64>(io.scratch_slice::<u32>());
            for batch in poll::each(0..batches, 16) {
                let logits = logits.slice(batch * classes..(batch + 1) * classes);
                accumulate(logits.iter().map(T::to_f32), &mut sums[..classes]);
                let total = sums[classes - 1];
                for sample in poll::each(0..samples, 200) {
                    let drawn = random.unit() * total;
                    let class =
                        sums[..classes].partition_point(|&sum| sum <= drawn).min(classes - 1);
                    output.set(batch * samples + sample, i32::try_from(class).unwrap_or(i32::MAX));
                }
            }
            Ok(())
        },
    );
    Ok(())
}

/// Running sums of `exp(x - max)`; what isn't finite adds nothing.
fn accumulate(logits: impl Iterator<Item = f32>, sums: &mut [f64]) {
    let values = poll::each(sums.iter_mut(), 2).zip(logits);
    values.for_each(|(sum, x)| *sum = f64::from(x));
    let max = poll::each(sums.iter().copied(), 2)
        .filter(|x| x.is_finite())
        .fold(f64::NEG_INFINITY, f64::max);
    let mut running = 0.0;
    for sum in poll::each(sums.iter_mut(), 16) {
        if sum.is_finite() {
            running += (*sum - max).exp();
        }
        *sum = running;
    }
}

/// A counter, encrypted.
#[derive(Debug)]
struct Philox {
    key: [u32; 2],
    counter: [u32; 4],
    words: [u32; 4],
    /// Words of the block already given out.
    used: usize,
}

impl Philox {
    /// Of two seeds of 0, seeds that differ each time are made.
    fn new(seed: i32, stream: i32) -> Self {
        let (seed, stream) = if seed == 0 && stream == 0 {
            // The standard library's hash keys are random; that is entropy enough here.
            let entropy = std::hash::RandomState::new().build_hasher().finish();
            (entropy.cast_signed(), entropy.rotate_left(32).cast_signed())
        } else {
            (i64::from(seed), i64::from(stream))
        };
        let [low, high] = halves(stream.cast_unsigned());
        Self {
            key: halves(seed.cast_unsigned()),
            counter: [0, 0, low, high],
            words: [0; 4],
            used: 4,
        }
    }

    /// Uniform in `[0, 1)`, of 52 bits.
    #[expect(clippy::cast_precision_loss, reason = "52 bits are exact")]
    fn unit(&mut self) -> f64 {
        let (a, b) = (self.next(), self.next());
        (u64::from(a & 0xF_FFFF) << 32 | u64::from(b)) as f64 / (1u64 << 52) as f64
    }

    fn next(&mut self) -> u32 {
        if self.used == 4 {
            self.words = self.block();
            self.used = 0;
            let block = u64::from(self.counter[1]) << 32 | u64::from(self.counter[0]);
            [self.counter[0], self.counter[1]] = halves(block.wrapping_add(1));
        }
        self.used += 1;
        self.words[self.used - 1]
    }

    fn block(&self) -> [u32; 4] {
        let ([mut k0, mut k1], mut c) = (self.key, self.counter);
        for _ in 0..10 {
            let [p_low, p_high] = halves(u64::from(c[0]) * 0xD251_1F53);
            let [q_low, q_high] = halves(u64::from(c[2]) * 0xCD9E_8D57);
            c = [q_high ^ c[1] ^ k0, q_low, p_high ^ c[3] ^ k1, p_low];
            k0 = k0.wrapping_add(0x9E37_79B9);
            k1 = k1.wrapping_add(0xBB67_AE85);
        }
        c
    }
}

/// Low half first.
#[expect(clippy::cast_possible_truncation, reason = "takes the two halves apart")]
fn halves(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_block() {
        // Known answer of the paper's reference for an all-zero key and counter.
        let philox = Philox { key: [0; 2], counter: [0; 4], words: [0; 4], used: 4 };
        assert_eq!(philox.block(), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    }

    #[test]
    fn the_same_seeds_draw_the_same() {
        let draw = |seed| {
            let mut random = Philox::new(seed, 7);
            (0..9).map(|_| random.unit()).collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
        assert!(draw(3).iter().all(|unit| (0.0..1.0).contains(unit)));
    }

    #[test]
    fn what_is_not_finite_has_no_share() {
        let mut sums = [0.0; 4];
        accumulate([0.0, f32::NEG_INFINITY, f32::NAN, 0.0].into_iter(), &mut sums);
        assert_eq!(sums, [1.0, 1.0, 1.0, 2.0]);
    }
}
