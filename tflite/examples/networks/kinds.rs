//! Networks of common kinds, none of them one that the project is tuned by.

use crate::layers::{Fused, LayerTensor, Network, Numbers, Window};
use crate::transformers::{mobilebert, vit_tiny};

/// A name and what makes the network.
pub(crate) type Kind = (&'static str, fn(&mut Network));

/// All kinds.
pub(crate) const KINDS: &[Kind] = &[
    ("mobilenet_v3", mobilenet_v3),
    ("efficientnet_lite", efficientnet_lite),
    ("resnet", resnet),
    ("unet", unet),
    ("unet_transposed", unet_transposed),
    ("ssd", ssd),
    ("deeplab", deeplab),
    ("yolo", yolo),
    ("speech", speech),
];

/// Transformers.
pub(crate) const TRANSFORMERS: &[Kind] = &[("vit_tiny", vit_tiny), ("mobilebert", mobilebert)];

/// Numbers that each kind comes in, with the ends of names.
pub(crate) const NUMBERS: &[(&str, Numbers)] = &[
    ("float", Numbers::Float),
    ("uint8", Numbers::Unsigned),
    ("int8", Numbers::Signed),
    ("int8_per_tensor", Numbers::SignedPerTensor),
    ("hybrid", Numbers::Hybrid),
];

/// Numbers that transformers come in: the interpreter's BATCH_MATMUL takes no unsigned bytes.
pub(crate) const TRANSFORMER_NUMBERS: &[(&str, Numbers)] =
    &[("float", Numbers::Float), ("int8", Numbers::Signed), ("hybrid", Numbers::Hybrid)];

/// An inverted residual: expand, depthwise, project, and the sum where shapes allow.
fn inverted(
    net: &mut Network,
    x: &LayerTensor,
    window: Window,
    expanded: i32,
    channels: i32,
) -> LayerTensor {
    let wide = net.conv(x, Window::POINT, expanded, Fused::Relu6);
    let wide = net.depthwise(&wide, window, Fused::Relu6);
    let y = net.conv(&wide, Window::POINT, channels, Fused::None);
    if y.shape == x.shape { net.binary("ADD", &y, x) } else { y }
}

/// Each channel by a number of its own, made of all their means.
fn squeezed(net: &mut Network, x: &LayerTensor) -> LayerTensor {
    let channels = x.shape[3];
    let mean = net.mean(x, true);
    let few = net.conv(&mean, Window::POINT, (channels / 4).max(8), Fused::Relu);
    let all = net.conv(&few, Window::POINT, channels, Fused::None);
    let factors = net.logistic(&all);
    net.binary("MUL", x, &factors)
}

/// MobileNet v3 large.
fn mobilenet_v3(net: &mut Network) {
    let x = net.image(&[1, 224, 224, 3]);
    let x = net.conv(&x, Window::square(3, 2), 16, Fused::None);
    let mut x = net.hard_swish(&x);
    // Window, expanded, channels, squeezed, HARD_SWISH rather than RELU, stride.
    let blocks = [
        (3, 16, 16, false, false, 1),
        (3, 64, 24, false, false, 2),
        (3, 72, 24, false, false, 1),
        (5, 72, 40, true, false, 2),
        (5, 120, 40, true, false, 1),
        (5, 120, 40, true, false, 1),
        (3, 240, 80, false, true, 2),
        (3, 200, 80, false, true, 1),
        (3, 480, 112, true, true, 1),
        (5, 672, 160, true, true, 2),
        (5, 960, 160, true, true, 1),
    ];
    for (size, expanded, channels, squeeze, swish, stride) in blocks {
        let fused = if swish { Fused::None } else { Fused::Relu };
        let swished = |net: &mut Network, y| if swish { net.hard_swish(&y) } else { y };
        let wide = net.conv(&x, Window::POINT, expanded, fused);
        let wide = swished(net, wide);
        let wide = net.depthwise(&wide, Window::square(size, stride), fused);
        let wide = swished(net, wide);
        let wide = if squeeze { squeezed(net, &wide) } else { wide };
        let y = net.conv(&wide, Window::POINT, channels, Fused::None);
        x = if y.shape == x.shape { net.binary("ADD", &y, &x) } else { y };
    }
    let x = net.conv(&x, Window::POINT, 960, Fused::None);
    let x = net.hard_swish(&x);
    let x = net.mean(&x, true);
    let x = net.conv(&x, Window::POINT, 1280, Fused::None);
    let x = net.hard_swish(&x);
    let x = net.conv(&x, Window::POINT, 1001, Fused::None);
    net.output(&x);
}

/// EfficientNet lite0.
fn efficientnet_lite(net: &mut Network) {
    let x = net.image(&[1, 224, 224, 3]);
    let x = net.conv(&x, Window::square(3, 2), 32, Fused::Relu6);
    let x = net.depthwise(&x, Window::square(3, 1), Fused::Relu6);
    let mut x = net.conv(&x, Window::POINT, 16, Fused::None);
    // Window, channels, stride of the first, how many.
    let stages = [
        (3, 24, 2, 2),
        (5, 40, 2, 2),
        (3, 80, 2, 3),
        (5, 112, 1, 3),
        (5, 192, 2, 4),
        (3, 320, 1, 1),
    ];
    for (size, channels, stride, count) in stages {
        for at in 0..count {
            let window = Window::square(size, if at == 0 { stride } else { 1 });
            x = inverted(net, &x, window, 6 * x.shape[3], channels);
        }
    }
    let x = net.conv(&x, Window::POINT, 1280, Fused::Relu6);
    classes(net, &x, 1000);
}

/// MEAN, FULLY_CONNECTED and SOFTMAX.
fn classes(net: &mut Network, x: &LayerTensor, classes: i32) {
    let x = net.mean(x, false);
    let x = net.dense(&x, classes, Fused::None);
    let x = net.softmax(&x);
    net.output(&x);
}

/// ResNet of six blocks.
fn resnet(net: &mut Network) {
    let x = net.image(&[1, 112, 112, 3]);
    let x = net.conv(&x, Window::square(7, 2), 64, Fused::Relu);
    let mut x = net.pool("MAX_POOL_2D", &x, Window::square(3, 2));
    for (channels, stride) in [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)] {
        let y = net.conv(&x, Window::square(3, stride), channels, Fused::Relu);
        let y = net.conv(&y, Window::square(3, 1), channels, Fused::None);
        let short = if y.shape == x.shape {
            x
        } else {
            net.conv(&x, Window::square(1, stride), channels, Fused::None)
        };
        x = net.binary("ADD", &y, &short);
    }
    classes(net, &x, 1000);
}

/// U-Net of two levels, one way up smooth and one not, with a mask at the end.
fn unet(net: &mut Network) {
    let (window, half) = (Window::square(3, 1), Window::square(2, 2));
    let image = net.image(&[1, 128, 128, 3]);
    let a = net.conv(&image, window, 16, Fused::Relu);
    let x = net.pool("MAX_POOL_2D", &a, half);
    let b = net.conv(&x, window, 32, Fused::Relu);
    let x = net.pool("AVERAGE_POOL_2D", &b, half);
    let x = net.conv(&x, window.dilated(2), 64, Fused::Relu);
    let x = net.resize(&x, 64, 64, true);
    let x = net.concatenation(&[&x, &b], 3);
    let x = net.conv(&x, window, 32, Fused::Relu);
    let x = net.resize(&x, 128, 128, false);
    let x = net.concatenation(&[&x, &a], 3);
    let x = net.conv(&x, window, 16, Fused::Relu);
    let x = net.conv(&x, Window::POINT, 1, Fused::None);
    let x = net.logistic(&x);
    net.output(&x);
}

/// U-Net over the trunk of MobileNet v2, whose images grow by transposed convolutions.
fn unet_transposed(net: &mut Network) {
    let image = net.image(&[1, 128, 128, 3]);
    let levels = trunk(net, &image, Window::square(3, 2));
    let mut x = levels[4].clone();
    for (level, channels) in [(3, 96), (2, 48), (1, 32), (0, 24)] {
        x = net.transposed(&x, Window::square(3, 2), channels, Fused::Relu);
        x = net.concatenation(&[&x, &levels[level]], 3);
    }
    let x = net.transposed(&x, Window::square(3, 2), 3, Fused::None);
    net.output(&x);
}

/// The trunk of MobileNet v2 at half its width; all that later parts look at.
fn trunk(net: &mut Network, x: &LayerTensor, last: Window) -> Vec<LayerTensor> {
    let x = net.conv(x, Window::square(3, 2), 16, Fused::Relu6);
    let mut levels = vec![x];
    for (channels, stride, count) in [(16, 2, 2), (24, 2, 3), (48, 2, 3)] {
        let mut x = levels[levels.len() - 1].clone();
        for at in 0..count {
            let window = Window::square(3, if at == 0 { stride } else { 1 });
            x = inverted(net, &x, window, 6 * x.shape[3], channels);
        }
        levels.push(x);
    }
    let x = inverted(net, &levels[3].clone(), last, 288, 96);
    levels.push(x);
    levels
}

/// SSD: boxes and classes from four levels, joined into one list each.
fn ssd(net: &mut Network) {
    let image = net.image(&[1, 160, 160, 3]);
    let levels = trunk(net, &image, Window::square(3, 2));
    let smaller = net.conv(&levels[4], Window::POINT, 64, Fused::Relu6);
    let smaller = net.conv(&smaller, Window::square(3, 2), 128, Fused::Relu6);
    let (mut boxes, mut scores) = (Vec::new(), Vec::new());
    for level in [&levels[2], &levels[3], &levels[4], &smaller] {
        for (each, list) in [(4, &mut boxes), (21, &mut scores)] {
            let own = net.depthwise(level, Window::square(3, 1), Fused::Relu6);
            let own = net.conv(&own, Window::POINT, 6 * each, Fused::None);
            let count = own.shape[1] * own.shape[2] * 6;
            list.push(net.reshape(&own, &[1, count, each]));
        }
    }
    let boxes = net.concatenation(&boxes.iter().collect::<Vec<_>>(), 1);
    let scores = net.concatenation(&scores.iter().collect::<Vec<_>>(), 1);
    let scores = net.logistic(&scores);
    net.output(&boxes);
    net.output(&scores);
}

/// DeepLab v3: dilated windows, the mean of all beside them, and classes of each pixel brought to
/// the image's size.
fn deeplab(net: &mut Network) {
    let image = net.image(&[1, 256, 256, 3]);
    let levels = trunk(net, &image, Window::square(3, 1).dilated(2));
    let deep = &levels[4];
    let size = (deep.shape[1], deep.shape[2]);
    let all = net.mean(deep, true);
    let all = net.conv(&all, Window::POINT, 128, Fused::Relu);
    let all = net.resize(&all, size.0, size.1, true);
    let near = net.conv(deep, Window::POINT, 128, Fused::Relu);
    let far = net.conv(deep, Window::square(3, 1).dilated(4), 128, Fused::Relu);
    let x = net.concatenation(&[&all, &near, &far], 3);
    let x = net.conv(&x, Window::POINT, 128, Fused::Relu);
    let x = net.conv(&x, Window::POINT, 21, Fused::None);
    let x = net.resize(&x, 256, 256, true);
    net.output(&x);
}

/// A convolution behind which numbers weigh themselves: `x * logistic(x)`.
fn weighed(net: &mut Network, x: &LayerTensor, window: Window, channels: i32) -> LayerTensor {
    let x = net.conv(x, window, channels, Fused::None);
    let weight = net.logistic(&x);
    net.binary("MUL", &x, &weight)
}

/// Halves of the channels, one of them some layers deeper, and all of them together.
fn halves(net: &mut Network, x: &LayerTensor, channels: i32) -> LayerTensor {
    let x = weighed(net, x, Window::POINT, channels);
    let parts = net.split(&x, 3, 2);
    let deeper = weighed(net, &parts[1], Window::square(3, 1), channels / 2);
    let deeper = weighed(net, &deeper, Window::square(3, 1), channels / 2);
    let deeper = net.binary("ADD", &deeper, &parts[1]);
    let all = net.concatenation(&[&parts[0], &parts[1], &deeper], 3);
    weighed(net, &all, Window::POINT, channels)
}

/// YOLO of the eighth generation, its smallest at a narrow image, two levels.
fn yolo(net: &mut Network) {
    let image = net.image(&[1, 192, 192, 3]);
    let x = weighed(net, &image, Window::square(3, 2), 16);
    let x = weighed(net, &x, Window::square(3, 2), 32);
    let x = halves(net, &x, 32);
    let x = weighed(net, &x, Window::square(3, 2), 64);
    let near = halves(net, &x, 64);
    let x = weighed(net, &near, Window::square(3, 2), 128);
    let x = halves(net, &x, 128);
    let a = weighed(net, &x, Window::POINT, 64);
    let window = Window::square(5, 1);
    let b = net.pool("MAX_POOL_2D", &a, window);
    let c = net.pool("MAX_POOL_2D", &b, window);
    let d = net.pool("MAX_POOL_2D", &c, window);
    let x = net.concatenation(&[&a, &b, &c, &d], 3);
    let far = weighed(net, &x, Window::POINT, 128);
    let x = net.resize(&far, near.shape[1], near.shape[2], false);
    let x = net.concatenation(&[&x, &near], 3);
    let near = halves(net, &x, 64);
    let mut all = Vec::new();
    for level in [&near, &far] {
        let x = weighed(net, level, Window::square(3, 1), 64);
        let x = net.conv(&x, Window::POINT, 84, Fused::None);
        all.push(net.reshape(&x, &[1, x.shape[1] * x.shape[2], 84]));
    }
    let all = net.concatenation(&[&all[0], &all[1]], 1);
    let parts = net.split(&all, 2, 2);
    let scores = net.logistic(&parts[1]);
    net.output(&parts[0]);
    net.output(&scores);
}

/// Convolutions along a second of sound, and a GRU of eight steps taken apart into its products and
/// sums.
fn speech(net: &mut Network) {
    let sound = net.image(&[1, 1, 128, 40]);
    let mut x = net.conv(&sound, Window::line(5, 2), 64, Fused::Relu);
    for stride in [2, 2, 2] {
        x = net.depthwise(&x, Window::line(5, stride), Fused::Relu);
        x = net.conv(&x, Window::POINT, 96, Fused::Relu);
    }
    let steps = x.shape[2];
    let x = net.reshape(&x, &[steps, 96]);
    let rows = net.split(&x, 0, steps);
    let mut state = net.dense(&rows[0], 96, Fused::None);
    for row in &rows[1..] {
        let both = net.concatenation(&[row, &state], 1);
        let gates = net.dense(&both, 192, Fused::None);
        let gates = net.logistic(&gates);
        let gates = net.split(&gates, 1, 2);
        let reset = net.binary("MUL", &state, &gates[0]);
        let both = net.concatenation(&[row, &reset], 1);
        let new = net.dense(&both, 96, Fused::None);
        let new = net.tanh(&new);
        let change = net.binary("SUB", &new, &state);
        let change = net.binary("MUL", &change, &gates[1]);
        state = net.binary("ADD", &state, &change);
    }
    let x = net.dense(&state, 12, Fused::None);
    let x = net.softmax(&x);
    net.output(&x);
}
