//! STABLEHLO_RNG_BIT_GENERATOR: random bits of a state that the caller keeps.

use nnburst_kernels::tensor::{OpError, Out, poll};

use super::arg::{ElementKind, OperatorCall, refused, sizes};
use crate::lowering::Lowered;
use crate::ops::philox;

/// The state, `[key, counter]` or `[key, counter, more of the counter]`, becomes the next one and
/// bits; option 0 is the algorithm.
pub(super) fn generator(call: &mut OperatorCall<'_, '_>) -> Lowered {
    const THREEFRY: i32 = 2;
    let state = call.arg(0)?;
    let algorithm = call.int(0)?;
    let long = match (&state.shape[..], algorithm) {
        (&[2], 0..=THREEFRY) => false,
        (&[3], 0..THREEFRY) => true,
        _ => {
            let what = format!("a state of {:?} for algorithm {algorithm}", state.shape);
            return Err(OpError::rule(what).into());
        }
    };
    if state.kind != ElementKind::U64 {
        return Err(refused(0, state.kind).into());
    }
    let (extents, numbers) = (&call.output_operand(1)?.dimensions, call.result(1)?.kind);
    // The only place that tells how many are wanted.
    let extents = sizes(&extents.iter().copied().map(i64::from).collect::<Vec<_>>())?;
    call.result_is(0, &[ElementKind::U64])?;
    let bits = [ElementKind::I32, ElementKind::U32, ElementKind::I64, ElementKind::U64];
    call.result_is(1, &bits)?;
    if extents.is_empty() || extents.contains(&0) {
        return Err(OpError::output(1, "has no shape").into());
    }
    call.set(0, &state.shape)?;
    let shape = call.set(1, &extents)?;
    let words = shape.elements() * numbers.bytes() / 4;
    call.step(&shape, move |io| {
        let state = io.input::<u64>(0);
        let [key, mut counter] = [state.get(0), state.get(1)].map(philox::halves);
        let rest = philox::halves(state.get(if long { 2 } else { 0 }));
        let to = io.output::<u32>(1);
        if algorithm == THREEFRY {
            fill(to, words, &mut counter, |counter| threefry(key, counter))?;
        } else {
            let block = |[a, b]: [u32; 2]| philox::block(key, [a, b, rest[0], rest[1]]);
            fill(to, words, &mut counter, block)?;
        }
        let next = io.output::<u64>(0);
        next.fill(state.iter());
        next.set(1, u64::from(counter[1]) << 32 | u64::from(counter[0]));
        Ok(())
    });
    Ok(())
}

/// Fills words with blocks of a counter that goes on by one for each.
fn fill<const N: usize>(
    to: Out<'_, u32>,
    words: usize,
    counter: &mut [u32; 2],
    block: impl Fn([u32; 2]) -> [u32; N],
) -> Result<(), String> {
    for at in poll::each((0..words).step_by(N), 40) {
        let end = words.min(at + N);
        (at..end).zip(block(*counter)).for_each(|(at, word)| to.set(at, word));
        let all = u64::from(counter[1]) << 32 | u64::from(counter[0]);
        *counter = philox::halves(all.wrapping_add(1));
    }
    Ok(())
}

/// Threefry 2x32-20 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const PARITY: u32 = 0x1BD1_1BDA;
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key[0], key[1], key[0] ^ key[1] ^ PARITY];
    let mut x = [counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1])];
    for round in 0..5u32 {
        let at = round as usize;
        for turn in ROTATIONS[at % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(turn) ^ x[0];
        }
        x[0] = x[0].wrapping_add(keys[(at + 1) % 3]);
        x[1] = x[1].wrapping_add(keys[(at + 2) % 3]).wrapping_add(round + 1);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threefry_is_that_of_the_paper() {
        // The known answers of the authors' own tests.
        assert_eq!(threefry([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry([u32::MAX; 2], [u32::MAX; 2]), [0x1cb9_96fc, 0xbb00_2be7]);
    }
}
