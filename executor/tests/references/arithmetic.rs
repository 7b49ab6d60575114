//! The arithmetic of quantised numbers, written from the interface's definitions with numbers so
//! wide that nothing can overflow unseen; shares nothing with the executor's.

use nnburst_hal::OperandType;

/// To the nearest, halves away from zero.
pub(crate) fn nearest(x: f64) -> i64 {
    x.round() as i64
}

/// A real multiplier: 31 bits of fraction and a power of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixed(i64, i32);

/// `m = f * 2^s` with `f` from 1/2 to 1; the fraction has 31 bits.
pub(crate) fn fixed(m: f64) -> Fixed {
    if m == 0.0 {
        return Fixed(0, 0);
    }
    let (mut f, mut s) = (m, 0);
    while f >= 1.0 {
        (f, s) = (f / 2.0, s + 1);
    }
    while f < 0.5 {
        (f, s) = (f * 2.0, s - 1);
    }
    let mut fraction = nearest(f * 2f64.powi(31));
    if fraction == 1 << 31 {
        (fraction, s) = (1 << 30, s + 1);
    }
    if s < -31 { Fixed(0, 0) } else { Fixed(fraction, s) }
}

/// The doubled high half of a product, rounded: of `bits` bits a side.
fn high_product(a: i64, b: i64, bits: u32) -> i64 {
    let one = 1i128 << (bits - 1);
    let product = i128::from(a) * i128::from(b) + one / 2;
    i64::try_from(product.div_euclid(one).min(one - 1)).unwrap()
}

pub(crate) fn high_product_32(a: i64, b: i64) -> i64 {
    high_product(a, b, 32)
}

pub(crate) fn high_product_16(a: i64, b: i64) -> i64 {
    high_product(a, b, 16)
}

/// Division by a power of two, halves away from zero.
pub(crate) fn halved(x: i64, times: i32) -> i64 {
    if times == 0 {
        return x;
    }
    let by = 1i64 << times;
    (x.abs() + by / 2) / by * x.signum()
}

impl Fixed {
    /// `x` times the multiplier, rounded twice; what is shifted left wraps at 32 bits.
    pub(crate) fn times(self, x: i64) -> i64 {
        let Self(fraction, shift) = self;
        let shifted = ((x << shift.max(0)) as i32).into();
        halved(high_product_32(shifted, fraction), (-shift).max(0))
    }

    pub(crate) fn of(fraction: i64, shift: i32) -> Self {
        Self(fraction, shift)
    }

    pub(crate) fn parts(self) -> (i64, i32) {
        (self.0, self.1)
    }
}

/// The stored range of a type.
pub(crate) fn range(kind: OperandType) -> (i64, i64) {
    match kind {
        OperandType::TensorQuant8Asymm => (0, 255),
        OperandType::TensorQuant8AsymmSigned => (-128, 127),
        OperandType::TensorQuant16Symm => (-32768, 32767),
        _ => (0, 65535),
    }
}

/// Stored values that a fused activation lets through.
pub(crate) fn activation(code: i32, kind: OperandType, scale: f32, zero_point: i32) -> (i64, i64) {
    let (least, most) = range(kind);
    let of = |real: f32| i64::from(zero_point) + nearest(f64::from(real / scale));
    match code {
        1 => (least.max(of(0.0)), most),
        2 => (least.max(of(-1.0)), most.min(of(1.0))),
        3 => (least.max(of(0.0)), most.min(of(6.0))),
        _ => (least, most),
    }
}

/// A stored byte as the number that it is.
pub(crate) fn stored(kind: OperandType, byte: u8) -> i64 {
    if kind == OperandType::TensorQuant8Asymm { byte.into() } else { byte.cast_signed().into() }
}

/// Fixed-point numbers of 16 or 32 bits; one in format `m` has `m` bits before the point, and the
/// sign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format(pub(crate) u32);

impl Format {
    fn most(self) -> i64 {
        (1 << (self.0 - 1)) - 1
    }

    /// A constant of 32 bits in this many.
    fn constant(self, c: i64) -> i64 {
        halved(c, i32::try_from(32 - self.0).unwrap())
    }

    fn product(self, a: i64, b: i64) -> i64 {
        high_product(a, b, self.0)
    }

    /// Sums wrap.
    fn wrapped(self, x: i64) -> i64 {
        let places = 64 - self.0;
        (x << places) >> places
    }

    /// From format `from` to format `to`.
    pub(crate) fn rescaled(self, x: i64, from: i32, to: i32) -> i64 {
        if from <= to {
            return halved(x, to - from);
        }
        (x << (from - to)).clamp(-self.most() - 1, self.most())
    }

    /// exp on [-1/4, 0), in format 0: the series around -1/8.
    fn exp_of_little(self, a: i64) -> i64 {
        let x = a + (1 << (self.0 - 4));
        let x2 = self.product(x, x);
        let (x3, x4) = (self.product(x2, x), self.product(x2, x2));
        let third = self.constant(715_827_883);
        let t = halved(self.wrapped(self.product(halved(x4, 2) + x3, third) + x2), 1);
        let k = self.constant(1_895_147_668);
        let whole = k + self.product(k, self.wrapped(x + t));
        if self.0 == 16 { whole.clamp(-self.most() - 1, self.most()) } else { self.wrapped(whole) }
    }

    /// exp of what is at most 0, from format `m` to format 0.
    pub(crate) fn exp(self, a: i64, m: i32) -> i64 {
        const FACTORS: [i64; 7] =
            [1_672_461_947, 1_302_514_674, 790_015_084, 290_630_308, 39_332_535, 720_401, 242];
        if a == 0 {
            return self.most();
        }
        let fraction = i32::try_from(self.0).unwrap() - 1 - m;
        if m > 5 && a < -(32i64 << fraction) {
            return 0;
        }
        let quarter = 1i64 << (fraction - 2);
        let rest = a.rem_euclid(quarter) - quarter;
        let mut y = self.exp_of_little(self.rescaled(rest, m, 0));
        let quarters = rest - a;
        for (factor, e) in FACTORS.into_iter().zip(-2..) {
            if e < m && quarters & (1 << (fraction + e)) != 0 {
                y = self.product(y, self.constant(factor));
            }
        }
        y
    }

    /// 1/h for h = (1 + a) / 2, a in (0, 1) of format 0; the result is of format 2.
    fn reciprocal(self, a: i64) -> i64 {
        let h = (a + self.most() + 1) >> 1;
        let one = 1 << (self.0 - 3);
        let mut x = self.constant(1_515_870_810) + self.product(h, self.constant(-1_010_580_540));
        for _ in 0..3 {
            let more = self.product(x, one - self.product(h, x));
            x = self.wrapped(x + self.rescaled(more, 4, 2));
        }
        x
    }

    /// 1 / (1 + a), format 0.
    pub(crate) fn one_over_one_plus(self, a: i64) -> i64 {
        self.rescaled(self.reciprocal(a), 1, 0)
    }

    pub(crate) fn logistic(self, a: i64, m: i32) -> i64 {
        if a == 0 {
            return 1 << (self.0 - 2);
        }
        let p = self.one_over_one_plus(self.exp(-a.abs(), m));
        if a > 0 { p } else { self.most() - p }
    }

    pub(crate) fn tanh(self, a: i64, m: i32) -> i64 {
        if a == 0 {
            return 0;
        }
        let z = self.exp((-a.abs()).max(-self.most() - 1), m + 1);
        let t = self.rescaled(self.reciprocal(z) - (1 << (self.0 - 3)), 2, 0);
        t * a.signum()
    }
}

/// 1/sqrt of an integer: a fraction and a shift.
pub(crate) fn inverse_root(mut v: i64) -> (i64, i32) {
    if v <= 1 {
        return (i32::MAX.into(), 0);
    }
    let wide = Format(32);
    let mut r = 11;
    while v >= 1 << 29 {
        (v, r) = (v / 4, r + 1);
    }
    let zeros = i32::try_from((v as u32).leading_zeros()).unwrap();
    let pairs = (zeros - 1) / 2 - 1;
    r -= pairs;
    v <<= 2 * pairs;
    let a = v >> 1;
    let half = halved(a, 1);
    let mut x = 1i64 << 28;
    for _ in 0..5 {
        let cube = wide.rescaled(wide.product(wide.product(x, x), x), 9, 3);
        let three_halves = (1i64 << 28) + (1 << 27);
        x = wide.rescaled(wide.product(three_halves, x) - wide.product(half, cube), 6, 3);
    }
    let mut fraction = wide.product(x, 1_518_500_250);
    if r < 0 {
        (fraction, r) = (fraction << -r, 0);
    }
    (fraction, -r)
}

/// The test vectors of the definitions.
#[test]
fn known_results() {
    let parts = |m: f64| fixed(m).parts();
    assert_eq!(parts(0.75), (1_610_612_736, 0));
    assert_eq!(parts(0.0003), (1_319_413_953, -11));
    assert_eq!(parts(1.999_999_999_9), (1_073_741_824, 2));
    assert_eq!(parts(1e-10), (0, 0));
    assert_eq!([1, -1, -3, 3].map(|a| high_product_32(a, 1 << 30)), [1, 0, -1, 2]);
    assert_eq!([(5, 1), (-5, 1), (-6, 2), (7, 3)].map(|(x, e)| halved(x, e)), [3, -3, -2, 1]);
    assert_eq!(Fixed(1_518_500_250, -3).times(-1000), -88);
    assert_eq!(Fixed(1_717_986_918, 2).times(77), 246);
    let (narrow, wide) = (Format(16), Format(32));
    assert_eq!(
        [0, -1, -(1 << 26), -(5 << 26)].map(|a| wide.exp(a, 5)),
        [2_147_483_647, 2_147_483_124, 790_015_308, 14_469_635,]
    );
    assert_eq!(wide.logistic(-(9 << 26), 4), 23_594_281);
    assert_eq!([3 << 27, -(9 << 24)].map(|a| wide.tanh(a, 4)), [2_136_863_820, -1_737_960_716]);
    assert_eq!([4096, 12345, -32768].map(|a| narrow.logistic(a, 3)), [23952, 31236, 11]);
    assert_eq!([4096, 12345, -32768].map(|a| narrow.tanh(a, 3)), [24964, 32616, -32767]);
    assert_eq!(
        [2, 100, 12345].map(inverse_root),
        [(1_518_498_372, 0), (214_748_363, 0), (309_246_148, -4),]
    );
}
