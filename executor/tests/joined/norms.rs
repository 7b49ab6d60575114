//! Layer normalisations, joined and apart.

use nnburst_hal::{Operand, OperandType, OperationType as Op};

use crate::net::{Net, compare, floats};

/// What differs from what converters write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Twist {
    None,
    /// The operands of sums and products change places.
    Swapped,
    /// The variance is a result, too.
    Shown,
    /// The last sum has an activation.
    Activated,
    /// The mean is taken off what is not normalised.
    Other,
    /// Factors for rows, where there are as many as columns.
    ByRow,
    /// As Keras has it, with the mean's other sign.
    Negative,
    /// The same, and another operation reads that.
    NegativeShown,
    /// Factors and shifts of columns are in weights behind it.
    Unscaled,
    /// The same, of a mean that another operation reads.
    UnscaledShown,
    /// As PyTorch has it: the distance over the deviation, then factors and shifts.
    Distance,
    /// The same, operands of sums and products in other places.
    DistanceSwapped,
    /// The same, and another operation reads the distance.
    DistanceShown,
}

impl Twist {
    fn is_of_distance(self) -> bool {
        matches!(self, Self::Distance | Self::DistanceSwapped | Self::DistanceShown)
    }
}

fn norm(net: &mut Net, x: u32, [rows, columns]: [u32; 2], twist: Twist) -> Vec<u32> {
    let (axes, keep, none) = (net.ints(&[1], &[-1]), net.int(1), net.int(0));
    let last_activation = if twist == Twist::Activated { net.int(1) } else { none };
    let is_swapped = matches!(twist, Twist::Swapped | Twist::DistanceSwapped);
    let pair = |a, b| if is_swapped { [b, a, none] } else { [a, b, none] };
    let factors = match twist {
        Twist::ByRow => net.weights(&[rows, 1]),
        _ => net.weights(&[columns]),
    };
    let shifts = net.weights(&[columns]);
    let like = Operand::tensor(OperandType::TensorFloat32, vec![1]);
    let little = net.constant(like, &0.25f32.to_le_bytes());
    let other = if twist == Twist::Other { net.sum(x, x) } else { x };
    let mean = net.op(Op::Mean, &[x, axes, keep]);
    let is_negative = matches!(twist, Twist::Negative | Twist::NegativeShown);
    let negative = if is_negative { net.op(Op::Neg, &[mean]) } else { mean };
    let distance = net.op(Op::Sub, &[other, mean, none]);
    let square = net.op(Op::Mul, &[distance, distance, none]);
    let variance = net.op(Op::Mean, &[square, axes, keep]);
    let more = net.op(Op::Add, &pair(variance, little));
    let root = net.op(Op::Rsqrt, &[more]);
    if matches!(twist, Twist::Unscaled | Twist::UnscaledShown) {
        let moved = net.op(Op::Mul, &pair(root, mean));
        let zero = Operand::tensor(OperandType::TensorFloat32, vec![1]);
        let zero = net.constant(zero, &0f32.to_le_bytes());
        let shift = net.op(Op::Sub, &[zero, moved, none]);
        let scaled = net.op(Op::Mul, &pair(x, root));
        let y = net.op(Op::Add, &pair(scaled, shift));
        return if twist == Twist::Unscaled { vec![y] } else { vec![y, mean] };
    }
    if twist.is_of_distance() {
        let normal = net.op(Op::Mul, &pair(distance, root));
        let scaled = net.op(Op::Mul, &pair(normal, factors));
        let y = net.op(Op::Add, &pair(scaled, shifts));
        return if twist == Twist::DistanceShown { vec![y, distance] } else { vec![y] };
    }
    let factor = net.op(Op::Mul, &pair(root, factors));
    let (scaled, shift) = if is_negative {
        let moved = net.op(Op::Mul, &pair(negative, factor));
        let shift = net.op(Op::Add, &[moved, shifts, none]);
        (net.op(Op::Mul, &pair(x, factor)), shift)
    } else {
        let scaled = net.op(Op::Mul, &pair(x, factor));
        let moved = net.op(Op::Mul, &pair(mean, factor));
        (scaled, net.op(Op::Sub, &[shifts, moved, none]))
    };
    let [a, b, _] = pair(scaled, shift);
    let y = net.op(Op::Add, &[a, b, last_activation]);
    match twist {
        Twist::Shown => vec![y, variance],
        Twist::NegativeShown => vec![y, negative],
        _ => vec![y],
    }
}

#[test]
fn a_layer_normalisation_is_one_step_with_the_same_bits() {
    for (twist, is_one) in [
        (Twist::None, true),
        (Twist::Swapped, true),
        (Twist::Shown, false),
        (Twist::Activated, false),
        (Twist::Other, false),
        (Twist::ByRow, false),
        (Twist::Negative, true),
        (Twist::NegativeShown, false),
        (Twist::Unscaled, true),
        (Twist::UnscaledShown, false),
        (Twist::Distance, true),
        (Twist::DistanceSwapped, true),
        (Twist::DistanceShown, false),
    ] {
        for extents in [[7, 7], [5, 48], [3, 21], [1, 40]] {
            // Of a single row another form is that of other steps.
            if extents[0] == 1 && matches!(twist, Twist::Unscaled | Twist::UnscaledShown) {
                continue;
            }
            if twist == Twist::ByRow && extents[0] != extents[1] {
                continue;
            }
            let mut net = Net::new(floats());
            let x = net.input(&extents);
            let outputs = norm(&mut net, x, extents, twist);
            let model = net.model(&outputs);
            compare(&format!("{twist:?} of {extents:?}"), &model, |isa, kernels, _| {
                let has_norm = kernels.contains(&"layer_norm_f32");
                assert_eq!(has_norm, is_one, "{twist:?}, {isa:?}: {kernels:?}");
            });
        }
    }
}

#[test]
fn normalisations_one_behind_the_other_and_residuals_stay_apart() {
    let mut net = Net::new(floats());
    let x = net.input(&[6, 32]);
    let x = net.sum(x, x);
    let y = norm(&mut net, x, [6, 32], Twist::None)[0];
    let x = net.sum(x, y);
    let y = norm(&mut net, x, [6, 32], Twist::None)[0];
    let y = norm(&mut net, y, [6, 32], Twist::Swapped)[0];
    let y = net.sum(x, y);
    let model = net.model(&[y]);
    compare("residuals", &model, |isa, kernels, _| {
        assert_eq!(kernels.len(), 6, "{isa:?}: {kernels:?}");
    });
}
