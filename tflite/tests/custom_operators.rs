//! Custom operators with options as structs and as FlexBuffers, against their plain definitions.

#![expect(clippy::unwrap_used, reason = "a test outside #[test] functions")]

#[path = "common/bytes.rs"]
mod bytes;
#[path = "common/file.rs"]
mod file;
#[path = "common/plan.rs"]
mod plan;

use bytes::{bytes_of, bytes_of_ints, floats};
use nnburst_tflite::TensorKind;
use nnburst_tflite::testing::TfliteFile;

const F32: TensorKind = TensorKind::Float32;
const I32: TensorKind = TensorKind::Int32;

fn ints(bytes: &[u8]) -> Vec<i32> {
    bytes.as_chunks().0.iter().map(|&bytes| i32::from_le_bytes(bytes)).collect()
}

fn try_run(file: &TfliteFile, inputs: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
    file::outputs(&file::import(file)?, inputs, 0)
}

/// Numbers between -4 and 4.
fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f32::from(u16::try_from(state >> 16).unwrap()) - 32_767.5) / 8192.0
    };
    (0..count).map(|_| next()).collect()
}

/// A FlexBuffer of a map from names to lists of four small numbers, and of the padding's text.
fn flexbuffer(lists: &[(&str, [u8; 4])], padding: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let text = |bytes: &mut Vec<u8>, text: &str| {
        let at = bytes.len();
        bytes.extend(text.as_bytes());
        bytes.push(0);
        at
    };
    bytes.push(u8::try_from(padding.len()).unwrap());
    let padding = text(&mut bytes, padding);
    // Names are sorted; "padding" is behind "ksize" and before "strides".
    let mut entries = vec![(text(&mut bytes, "padding"), "padding", padding, 5u8 << 2)];
    for &(name, list) in lists {
        let own = text(&mut bytes, name);
        entries.push((own, name, bytes.len(), 22 << 2));
        bytes.extend(list);
    }
    entries.sort_by_key(|&(_, name, ..)| name);
    let count = u8::try_from(entries.len()).unwrap();
    let back = |bytes: &mut Vec<u8>, target: usize| {
        bytes.push(u8::try_from(bytes.len() - target).unwrap());
    };
    bytes.push(count);
    let names = bytes.len();
    entries.iter().for_each(|&(name, ..)| back(&mut bytes, name));
    back(&mut bytes, names);
    bytes.extend([1, count]);
    let start = bytes.len();
    entries.iter().for_each(|&(_, _, target, _)| back(&mut bytes, target));
    bytes.extend(entries.iter().map(|&(.., kind)| kind));
    back(&mut bytes, start);
    bytes.extend([9 << 2, 1]);
    bytes
}

#[test]
fn transposed_convolutions_add_their_bias() {
    const SAME: i32 = 1;
    // Height and width, filter, strides.
    for (padding, [height, width], [filter_h, filter_w], [stride_h, stride_w]) in [
        (SAME, [2usize, 3usize], [2usize, 2usize], [2usize, 2usize]),
        (SAME, [3, 2], [3, 4], [2, 1]),
        (2, [2, 2], [3, 2], [2, 3]),
    ] {
        let (channels, outputs) = (3, 2);
        let cut = |count: usize, filter: usize, stride: usize| match padding {
            SAME => filter.saturating_sub((count - 1) % stride + 1),
            _ => 0,
        };
        let cut = [cut(height, filter_h, stride_h), cut(width, filter_w, stride_w)];
        let out_h = stride_h * (height - 1) + filter_h - cut[0];
        let out_w = stride_w * (width - 1) + filter_w - cut[1];
        let image = values(2 * height * width * channels, 1);
        let weights = values(outputs * filter_h * filter_w * channels, 2);
        let dims = |dims: &[usize]| -> Vec<i32> {
            dims.iter().map(|&extent| i32::try_from(extent).unwrap()).collect()
        };
        let mut file = TfliteFile::new();
        let x = file.input("x", F32, &dims(&[2, height, width, channels]));
        let filter = dims(&[outputs, filter_h, filter_w, channels]);
        let w = file.float_constant("w", &filter, &weights);
        let b = file.float_constant("b", &[2], &[0.5, -0.25]);
        let y = file.tensor("y", F32, &dims(&[2, out_h, out_w, outputs]));
        let strides = dims(&[stride_w, stride_h]);
        let options = bytes_of_ints(&[padding, strides[0], strides[1]]);
        file.custom_operator("Convolution2DTransposeBias", &[x, w, b], &[y], &options);
        file.outputs(&[y]);
        let found = floats(&try_run(&file, &[bytes_of(&image)]).unwrap()[0]);
        let mut want = [0.5, -0.25f32].repeat(2 * out_h * out_w);
        for (at, &value) in image.iter().enumerate() {
            let (channel, pixel) = (at % channels, at / channels);
            let (x, y, batch) = (pixel % width, pixel / width % height, pixel / width / height);
            for tap in 0..filter_h * filter_w {
                let (tap_y, tap_x) = (tap / filter_w, tap % filter_w);
                let out_y = (y * stride_h + tap_y).checked_sub(cut[0] / 2);
                let out_x = (x * stride_w + tap_x).checked_sub(cut[1] / 2);
                let (Some(out_y), Some(out_x)) = (out_y, out_x) else { continue };
                if out_y >= out_h || out_x >= out_w {
                    continue;
                }
                for unit in 0..outputs {
                    let weight = weights[(unit * filter_h * filter_w + tap) * channels + channel];
                    let to = ((batch * out_h + out_y) * out_w + out_x) * outputs + unit;
                    want[to] += value * weight;
                }
            }
        }
        // Sums are in another order.
        let near = found.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 1e-5 * (1.0 + b.abs()));
        assert!(near && found.len() == want.len(), "{padding} {height} {width}");
    }
}

/// Pools two windows of a line of six pixels, and puts the maxima back.
fn pooled(kind: TensorKind, name: &str, options: &[u8]) -> TfliteFile {
    let mut file = TfliteFile::new();
    let x = file.input("x", F32, &[1, 2, 6, 2]);
    let most = file.tensor("most", F32, &[1, 1, 3, 2]);
    let places = file.tensor("places", kind, &[1, 1, 3, 2]);
    file.custom_operator(name, &[x], &[most, places], options);
    let back = file.tensor("back", F32, &[1, 2, 6, 2]);
    let same = bytes_of_ints(&[1, 2, 2, 2, 2, 0]);
    file.custom_operator("MaxUnpooling2D", &[most, places], &[back], &same);
    file.outputs(&[most, places, back]);
    file
}

#[test]
fn maxima_go_back_to_where_they_were() {
    let image = values(24, 3);
    let mut most = vec![f32::MIN; 6];
    let (mut taps, mut elements) = (vec![0f32; 6], vec![0i32; 6]);
    for (window, tap) in (0..3).flat_map(|window| (0..4).map(move |tap| (window, tap))) {
        for channel in 0..2 {
            let element = (tap / 2 * 6 + 2 * window + tap % 2) * 2 + channel;
            let at = window * 2 + channel;
            if image[element] > most[at] {
                most[at] = image[element];
                taps[at] = f32::from(u8::try_from(tap).unwrap()) + 0.1;
                elements[at] = i32::try_from(element).unwrap();
            }
        }
    }
    let mut back = vec![0f32; 24];
    elements.iter().zip(&most).for_each(|(&at, &most)| back[usize::try_from(at).unwrap()] = most);

    let options = bytes_of_ints(&[2, 2, 2, 2, 2, 0]);
    let file = pooled(F32, "MaxPoolingWithArgmax2D", &options);
    let found = try_run(&file, &[bytes_of(&image)]).unwrap();
    assert_eq!((floats(&found[0]), floats(&found[1])), (most.clone(), taps));
    assert_eq!(floats(&found[2]), back);

    let options = flexbuffer(&[("ksize", [1, 2, 2, 1]), ("strides", [1, 2, 2, 1])], "VALID");
    let file = pooled(I32, "MaxPoolWithArgmax", &options);
    let found = try_run(&file, &[bytes_of(&image)]).unwrap();
    assert_eq!((floats(&found[0]), ints(&found[1])), (most, elements));
    assert_eq!(floats(&found[2]), back);
}

#[test]
fn places_beyond_the_image_are_left_out_or_refused() {
    let unpool = |kind: TensorKind, places: Vec<u8>| {
        let mut file = TfliteFile::new();
        let x = file.input("x", F32, &[1, 1, 2, 1]);
        let from = file.input("places", kind, &[1, 1, 2, 1]);
        let y = file.tensor("y", F32, &[1, 2, 4, 1]);
        let options = bytes_of_ints(&[1, 2, 2, 2, 2, 0]);
        file.custom_operator("MaxUnpooling2D", &[x, from], &[y], &options);
        file.outputs(&[y]);
        try_run(&file, &[bytes_of(&[7.0, 8.0]), places]).map(|outputs| floats(&outputs[0]))
    };
    let taps = |taps: [f32; 2]| unpool(F32, bytes_of(&taps)).unwrap();
    assert_eq!(taps([1.1, 2.1]), [0.0, 7.0, 0.0, 0.0, 0.0, 0.0, 8.0, 0.0]);
    for far in [4.1, -3.0, 1e9, -1e9, f32::INFINITY] {
        assert_eq!(taps([far, 0.1]), [0.0, 0.0, 8.0, 0.0, 0.0, 0.0, 0.0, 0.0], "{far}");
    }
    let elements = |elements: [i32; 2]| unpool(I32, bytes_of_ints(&elements));
    assert_eq!(elements([7, 0]).unwrap(), [8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 7.0]);
    for far in [8, -1, i32::MAX, i32::MIN] {
        assert!(elements([far, 0]).is_err(), "{far}");
    }
}

#[test]
fn broken_options_are_refused() {
    for options in [
        bytes_of_ints(&[]),
        bytes_of_ints(&[0, 2, 2, 2, 2, 0]),
        bytes_of_ints(&[1, 2, 2]),
        vec![9, 36, 1],
    ] {
        let error = try_run(&pooled(F32, "MaxPoolingWithArgmax2D", &options), &[]).unwrap_err();
        assert!(error.contains("options are broken"), "{error}");
    }
    for options in [
        flexbuffer(&[("ksize", [1, 2, 2, 1]), ("strides", [1, 2, 2, 1])], "LIKE"),
        flexbuffer(&[("ksize", [1, 2, 2, 1]), ("strides", [2, 2, 2, 1])], "SAME"),
        flexbuffer(&[("strides", [1, 2, 2, 1])], "SAME"),
        flexbuffer(&[("ksize", [1, 2, 2, 1]), ("strides", [1, 0, 2, 1])], "SAME"),
    ] {
        assert!(try_run(&pooled(I32, "MaxPoolWithArgmax", &options), &[]).is_err());
    }
}
