//! Fingerprint64 of FarmHash, the hash that LSH_PROJECTION is defined by.
//!
//! Three constants, a mixing step, and one formula per range of lengths; all arithmetic modulo
//! 2^64.

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;

/// The fingerprint of some bytes.
pub(super) fn fingerprint64(s: &[u8]) -> u64 {
    match s.len() {
        0 => K2,
        1..=3 => up_to_3(s),
        4..=7 => {
            mix(length(s).wrapping_add(word32(s, 0) << 3), word32(s, s.len() - 4), multiplier(s))
        }
        8..=16 => up_to_16(s),
        17..=32 => up_to_32(s),
        33..=64 => up_to_64(s),
        _ => longer(s),
    }
}

fn up_to_3(s: &[u8]) -> u64 {
    let byte = |at: usize| u64::from(s[at]);
    let y = byte(0).wrapping_add(byte(s.len() / 2) << 8);
    let z = length(s).wrapping_add(byte(s.len() - 1) << 2);
    shift_mix(y.wrapping_mul(K2) ^ z.wrapping_mul(K0)).wrapping_mul(K2)
}

fn up_to_16(s: &[u8]) -> u64 {
    let m = multiplier(s);
    let a = word(s, 0).wrapping_add(K2);
    let b = word(s, s.len() - 8);
    let c = b.rotate_right(37).wrapping_mul(m).wrapping_add(a);
    let d = a.rotate_right(25).wrapping_add(b).wrapping_mul(m);
    mix(c, d, m)
}

fn up_to_32(s: &[u8]) -> u64 {
    let (y, z, m) = ends(s, K1);
    mix(y, z, m)
}

/// Two halves of what lengths 17 to 64 hash of both ends: they differ in the first multiplier.
fn ends(s: &[u8], first: u64) -> (u64, u64, u64) {
    let m = multiplier(s);
    let a = word(s, 0).wrapping_mul(first);
    let b = word(s, 8);
    let c = word(s, s.len() - 8).wrapping_mul(m);
    let d = word(s, s.len() - 16).wrapping_mul(K2);
    let y = a.wrapping_add(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d);
    let z = a.wrapping_add(b.wrapping_add(K2).rotate_right(18)).wrapping_add(c);
    (y, z, m)
}

fn up_to_64(s: &[u8]) -> u64 {
    let (y, z, m) = ends(s, K2);
    let z = mix(y, z, m);
    let e = word(s, 16).wrapping_mul(m);
    let f = word(s, 24);
    let g = y.wrapping_add(word(s, s.len() - 32)).wrapping_mul(m);
    let h = z.wrapping_add(word(s, s.len() - 24)).wrapping_mul(m);
    let u = e.wrapping_add(f).rotate_right(43).wrapping_add(g.rotate_right(30)).wrapping_add(h);
    let a = word(s, 0).wrapping_mul(K2);
    let v = e.wrapping_add(f.wrapping_add(a).rotate_right(18)).wrapping_add(g);
    mix(u, v, m)
}

/// The state from block to block of 64 bytes.
struct Long {
    x: u64,
    y: u64,
    z: u64,
    v: (u64, u64),
    w: (u64, u64),
}

fn longer(s: &[u8]) -> u64 {
    let y = 81u64.wrapping_mul(K1).wrapping_add(113);
    let mut state = Long {
        x: 81u64.wrapping_mul(K2).wrapping_add(word(s, 0)),
        y,
        z: shift_mix(y.wrapping_mul(K2).wrapping_add(113)).wrapping_mul(K2),
        v: (0, 0),
        w: (0, 0),
    };
    let end = (s.len() - 1) / 64 * 64;
    let rest = (s.len() - 1) & 63;
    for at in (0..end).step_by(64) {
        state.round(&s[at..], K1, 1);
    }
    let m = K1.wrapping_add(2 * (state.z & 255));
    state.w.0 = state.w.0.wrapping_add(rest as u64);
    state.v.0 = state.v.0.wrapping_add(state.w.0);
    state.w.0 = state.w.0.wrapping_add(state.v.0);
    state.round(&s[s.len() - 64..], m, 9);
    let Long { x, y, z, v, w } = state;
    let first = mix(v.0, w.0, m).wrapping_add(shift_mix(y).wrapping_mul(K0)).wrapping_add(z);
    mix(first, mix(v.1, w.1, m).wrapping_add(x), m)
}

impl Long {
    fn round(&mut self, p: &[u8], m: u64, factor: u64) {
        let Self { x, y, z, v, w } = self;
        let sum = x.wrapping_add(*y).wrapping_add(v.0).wrapping_add(word(p, 8));
        *x = sum.rotate_right(37).wrapping_mul(m);
        *y = y.wrapping_add(v.1).wrapping_add(word(p, 48)).rotate_right(42).wrapping_mul(m);
        *x ^= w.1.wrapping_mul(factor);
        *y = y.wrapping_add(v.0.wrapping_mul(factor)).wrapping_add(word(p, 40));
        *z = z.wrapping_add(w.0).rotate_right(33).wrapping_mul(m);
        *v = weak(p, v.1.wrapping_mul(m), x.wrapping_add(w.0));
        *w = weak(&p[32..], z.wrapping_add(w.1), y.wrapping_add(word(p, 16)));
        std::mem::swap(x, z);
    }
}

fn weak(p: &[u8], a: u64, b: u64) -> (u64, u64) {
    let a = a.wrapping_add(word(p, 0));
    let b = b.wrapping_add(a).wrapping_add(word(p, 24)).rotate_right(21);
    let c = a;
    let a = a.wrapping_add(word(p, 8)).wrapping_add(word(p, 16));
    let b = b.wrapping_add(a.rotate_right(44));
    (a.wrapping_add(word(p, 24)), b.wrapping_add(c))
}

fn mix(u: u64, v: u64, m: u64) -> u64 {
    let a = shift_mix((u ^ v).wrapping_mul(m));
    shift_mix((v ^ a).wrapping_mul(m)).wrapping_mul(m)
}

fn shift_mix(t: u64) -> u64 {
    t ^ (t >> 47)
}

fn multiplier(s: &[u8]) -> u64 {
    K2.wrapping_add(2 * length(s))
}

fn length(s: &[u8]) -> u64 {
    s.len() as u64
}

/// Eight bytes, little endian.
fn word(s: &[u8], at: usize) -> u64 {
    s[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Four bytes, little endian.
fn word32(s: &[u8], at: usize) -> u64 {
    s[at..].first_chunk().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_fingerprints_of_every_range_of_lengths() {
        for (len, want) in [
            (0u16, 0x9ae1_6a3b_2f90_404f_u64),
            (1, 0x4271_b80e_2915_c76a),
            (3, 0x373a_2b2a_12e0_c581),
            (4, 0xcc1e_7781_37ae_6d69),
            (7, 0x9608_38fb_c6d9_c975),
            (8, 0x7d50_7025_ed4e_ecfd),
            (16, 0xd836_4803_26a9_74d6),
            (17, 0x5cde_d6cb_65c9_dac6),
            (32, 0xa033_00e1_b2be_6da7),
            (33, 0x8391_54ca_6781_5696),
            (64, 0x000f_03ea_c52d_3535),
            (65, 0xfb36_0c50_23f6_0db6),
            (100, 0x094b_b555_9bbb_1375),
            (128, 0x33ef_435f_17af_1739),
            (129, 0xc30a_81b6_37d2_e4dd),
            (200, 0x5132_0a19_a60c_bd6e),
        ] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 37 + 11).to_le_bytes()[0]).collect();
            assert_eq!(fingerprint64(&bytes), want, "{len} bytes");
        }
    }
}
