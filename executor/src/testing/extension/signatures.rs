//! The tensors that each operation of `dev.nnburst.tflite` takes and gives.

/// Tensors that an operation takes and gives: a letter each, see
/// [`Draft::input`](super::draft::Draft::input) and [`Draft::output`](super::draft::Draft::output).
pub(super) struct Signature {
    pub(super) numbers: &'static [u16],
    pub(super) ranks: (u32, u32),
    pub(super) inputs: &'static str,
    pub(super) outputs: &'static str,
}

const fn of(
    numbers: &'static [u16],
    low: u32,
    high: u32,
    inputs: &'static str,
    outputs: &'static str,
) -> Signature {
    Signature { numbers, ranks: (low, high), inputs, outputs }
}

pub(super) const SIGNATURES: &[Signature] = &[
    of(&[0, 41, 18, 42, 55, 57, 78, 90, 95, 99, 156, 160, 161, 54], 1, 5, "de", "k"),
    of(&[58, 61, 62, 63, 71, 72], 1, 5, "de", "b"),
    of(&[84, 86], 1, 4, "cc", "b"),
    of(&[1, 17], 4, 4, "d", "k"),
    of(&[5, 26], 4, 4, "d", "k"),
    of(&[2, 83, 106], 1, 4, "ddd", "k"),
    of(&[3], 4, 4, "dwz", "k"),
    of(&[4], 4, 4, "dWz", "k"),
    of(&[67], 4, 4, "oTdz", "k"),
    of(&[6, 133, 134, 135], 1, 4, "d", "f"),
    of(&[7], 1, 4, "xd", "k"),
    of(&[8, 14, 19, 20, 21, 28, 47, 59, 66, 73, 75, 76, 92, 93, 98, 101], 1, 5, "d", "k"),
    of(&[104, 108, 111, 116, 150, 152, 158, 25, 113, 11], 1, 5, "d", "k"),
    of(&[80], 1, 5, "A", "f"),
    of(&[163, 165, 166, 176, 181, 207], 1, 5, "dd", "k"),
    of(&[87], 1, 4, "c", "b"),
    of(&[9], 1, 4, "dmz", "k"),
    // With scales of blocks.
    of(&[9], 1, 4, "&0Z9", "f"),
    of(&[22, 130], 1, 5, "dv", "k"),
    of(&[23, 97], 4, 4, "dh", "k"),
    of(&[34, 100], 1, 5, "dp", "k"),
    of(&[60], 1, 5, "dps", "k"),
    of(&[36], 1, 5, "dx", "k"),
    of(&[37, 38], 4, 4, "dhP", "k"),
    of(&[39], 1, 5, "dO", "k"),
    of(&[40, 74, 81, 82, 89, 43, 105], 1, 5, "dl", "k"),
    of(&[91, 140], 1, 5, "cl", "b"),
    of(&[45], 1, 4, "drrr", "k"),
    of(&[48], 1, 4, "dk", "ki"),
    of(&[49], 1, 4, "ad", "kk"),
    of(&[53, 159, 114], 1, 4, "d", "?"),
    of(&[56, 79], 1, 4, "da", "i"),
    of(&[64], 1, 4, "cdd", "k"),
    of(&[123], 1, 4, "cde", "k"),
    of(&[65], 1, 5, "drr", "k"),
    of(&[68], 1, 3, "yvVs", "k"),
    of(&[69], 1, 5, "dr", "k"),
    of(&[70, 128], 1, 5, "da", "k"),
    of(&[77, 110], 1, 5, "d", "i"),
    of(&[85], 1, 3, "xkss", "k"),
    of(&[88], 1, 4, "d", "kk"),
    of(&[94], 1, 4, "rs", "k"),
    of(&[96], 1, 1, "sss", "k"),
    of(&[102], 1, 4, "dra", "kk"),
    of(&[103], 1, 1, "d", "ki"),
    of(&[107], 1, 4, "dy", "k"),
    of(&[109], 1, 4, "d", "I"),
    of(&[112], 2, 4, "dg", "k"),
    of(&[115], 2, 4, "dG", "k"),
    of(&[120], 1, 1, "BSktt", "ii"),
    of(&[121], 1, 1, "BSkttt", "ifi"),
    of(&[122], 1, 3, "yVv", "k"),
    of(&[125], 1, 4, "dg", "k"),
    of(&[153, 154, 155, 157], 1, 4, "dgk", "k"),
    of(&[126], 2, 4, "dM", "k"),
    of(&[145], 1, 4, "vv", "i"),
    of(&[147], 1, 4, "dt", "i"),
    of(&[151], 1, 4, "dUr", "k"),
    of(&[10], 1, 4, "nnd", "ku"),
    of(&[15], 1, 4, "HdN", "i"),
    of(&[24], 2, 2, "AmRZ1", "ff"),
    of(&[35], 3, 3, "AmRZ2", "ff"),
    of(&[16], 2, 2, "A33334444555ZZZZ4Z11ZZZZ", "fff"),
    // With the BASIC kernel.
    of(&[16], 2, 2, "!@#$%", "u%"),
    of(&[44], 3, 3, "A33334444555ZZZZ4Z22ZZZZ", "fff"),
    of(&[27], 2, 2, "*mEzK", "kM"),
    of(&[50], 1, 4, "d", "L"),
    of(&[131], 2, 4, "AF", "C"),
    of(&[132], 5, 5, "AXZ", "f"),
    of(&[141], 5, 5, "QYAZ", "f"),
    of(&[146, 148], 1, 4, "v", "f"),
    of(&[149], 2, 2, "Ak", "i"),
    of(&[33], 2, 4, "nqhNA", "f"),
    of(&[190], 1, 4, "dyVlOO", "k"),
    of(&[195], 1, 5, "dsrrr", "k"),
    of(&[198], 1, 4, "dsrrrrp", "k"),
    of(&[201], 1, 4, "dy6lOr", "k"),
    of(&[203], 1, 5, "drs", "k"),
    of(&[204], 1, 3, "7", "WS"),
    of(&[205], 1, 5, "dsrrr", "k"),
    of(&[1024], 4, 4, "ADZ", "f"),
    of(&[1025], 4, 4, "A", "fj"),
    of(&[1026], 4, 4, "AJ", "f"),
    of(&[1027], 2, 2, "A", "f"),
    of(&[1028], 3, 3, "A8", "f"),
    of(&[1029], 2, 3, "A", "f"),
];

#[cfg(test)]
mod tests {
    use nnburst_hal::tflite_extension::OPERATIONS;

    use super::*;

    #[test]
    fn every_operation_has_a_signature() {
        for about in OPERATIONS {
            let count = SIGNATURES.iter().filter(|it| it.numbers.contains(&about.number)).count();
            // Those whose inputs may be of several kinds have a signature for each.
            let forms = if matches!(about.number, 9 | 16) { 2 } else { 1 };
            assert_eq!(count, forms, "{}", about.name);
        }
    }
}
