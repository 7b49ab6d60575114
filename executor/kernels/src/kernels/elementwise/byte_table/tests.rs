//! Every variant against the table itself.

use super::*;

#[test]
fn every_variant_finds_what_the_table_has() {
    let table: [u8; 256] =
        std::array::from_fn(|byte| ((byte.wrapping_mul(2_654_435_761)) >> 5).to_le_bytes()[0]);
    let bytes: Vec<u8> = (0..=255).chain((0..300).map(|at: usize| table[at * 7 % 256])).collect();
    for variant in VARIANTS.all() {
        let kernel = ByteTable::new(variant.isa, table);
        assert_eq!(kernel.isa(), variant.isa);
        // Every tail of every vector width, and every byte.
        for len in (0..=130).chain([bytes.len()]) {
            let want: Vec<u8> = bytes[..len].iter().map(|&x| table[usize::from(x)]).collect();
            let mut got = vec![99; len + 1];
            kernel.compute(In::of(&bytes[..len]), Out::of(&mut got[..len])).unwrap();
            assert_eq!(got[..len], want, "{:?}, {len} bytes", variant.isa);
            assert_eq!(got[len], 99, "{:?} wrote behind the end", variant.isa);
            let mut in_place = bytes[..len].to_vec();
            let output = Out::of(&mut in_place);
            kernel.compute(output.as_in(), output).unwrap();
            assert_eq!(in_place, want, "{:?}, {len} bytes in place", variant.isa);
        }
        let short = kernel.compute(In::of(&bytes[..2]), Out::of(&mut [0; 3]));
        assert!(short.is_err());
    }
}
