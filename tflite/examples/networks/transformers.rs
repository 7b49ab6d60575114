//! Transformers: of pictures and of words.

use crate::layers::{Fused, LayerTensor, Network, Window};

/// ViT tiny: 196 patches of a picture, twelve blocks of three heads.
pub(crate) fn vit_tiny(net: &mut Network) {
    const WIDTH: i32 = 192;
    let image = net.image(&[1, 224, 224, 3]);
    let x = net.conv(&image, Window::square(16, 16), WIDTH, Fused::None);
    let patches = x.shape[1] * x.shape[2];
    let x = net.reshape(&x, &[patches, WIDTH]);
    let places = net.constant(&[patches, WIDTH], 0.0, 0.5);
    let mut x = net.binary("ADD", &x, &places);
    for _ in 0..12 {
        let near = net.layer_norm(&x);
        let near = net.attention(&near, 3, 64);
        x = net.binary("ADD", &x, &near);
        let wide = net.layer_norm(&x);
        let wide = net.dense(&wide, 4 * WIDTH, Fused::None);
        let wide = net.gelu(&wide);
        let narrow = net.dense(&wide, WIDTH, Fused::None);
        x = net.binary("ADD", &x, &narrow);
    }
    let x = net.layer_norm(&x);
    let x = net.mean_along(&x, 0, true);
    let x = net.dense(&x, 1000, Fused::None);
    net.output(&x);
}

/// MobileBERT: 128 words, six of its blocks, each with a bottleneck of 128 columns, four heads and
/// four small dense layers behind each other; sums are scaled and shifted instead of normalised.
pub(crate) fn mobilebert(net: &mut Network) {
    const WORDS: i32 = 128;
    const WIDE: i32 = 512;
    const NARROW: i32 = 128;
    let words = net.words(WORDS);
    let table = net.constant(&[1000, NARROW], 0.0, 1.0);
    let x = net.gather(&table, &words);
    let x = net.dense(&x, WIDE, Fused::None);
    let places = net.constant(&[WORDS, WIDE], 0.0, 0.5);
    let x = net.binary("ADD", &x, &places);
    let mut x = scaled(net, &x);
    for _ in 0..6 {
        let narrow = net.dense(&x, NARROW, Fused::None);
        let narrow = scaled(net, &narrow);
        let mixed = net.attention(&narrow, 4, 32);
        let mut inner = net.binary("ADD", &narrow, &mixed);
        inner = scaled(net, &inner);
        for _ in 0..4 {
            let wide = net.dense(&inner, WIDE, Fused::Relu);
            let back = net.dense(&wide, NARROW, Fused::None);
            inner = net.binary("ADD", &inner, &back);
            inner = scaled(net, &inner);
        }
        let back = net.dense(&inner, WIDE, Fused::None);
        x = net.binary("ADD", &x, &back);
        x = scaled(net, &x);
    }
    net.output(&x);
}

/// Each column by a factor of its own and with a shift of its own.
fn scaled(net: &mut Network, x: &LayerTensor) -> LayerTensor {
    let columns = x.shape[1];
    let factors = net.constant(&[columns], 1.0, 0.5);
    let shifts = net.constant(&[columns], 0.0, 0.5);
    let x = net.binary("MUL", x, &factors);
    net.binary("ADD", &x, &shifts)
}
