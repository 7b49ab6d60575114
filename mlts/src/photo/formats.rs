//! The files that libraries read: PNG, and the JPEGs that [`jpeg`](super::jpeg) leaves to others.

use std::io::Cursor;

use png::{BitDepth, Limits, Transformations};
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::{PhotoError, Picture};

/// Decodes a file of either format, told apart by its first bytes.
pub(super) fn decode(bytes: &[u8]) -> Result<Picture, PhotoError> {
    if bytes.starts_with(b"\x89PNG\r\n\x1A\n") {
        png(bytes)
    } else if bytes.starts_with(b"\xFF\xD8\xFF") {
        jpeg(bytes)
    } else {
        Err(PhotoError::Format)
    }
}

fn png(bytes: &[u8]) -> Result<Picture, PhotoError> {
    let limits = Limits { bytes: MOST_BYTES };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_ignore_text_chunk(true);
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info()?;
    let (colour, depth) = reader.output_color_type();
    let mut samples = buffer(reader.output_buffer_size())?;
    let frame = reader.next_frame(&mut samples)?;
    if depth == BitDepth::Sixteen {
        let wide = samples.as_chunks().0.iter().map(|&sample| u16::from_be_bytes(sample));
        samples = wide.map(narrow).collect();
    }
    Ok(picture([frame.width, frame.height], &samples, colour.samples()))
}

fn jpeg(bytes: &[u8]) -> Result<Picture, PhotoError> {
    let options = DecoderOptions::default()
        .set_strict_mode(false)
        .set_max_width(usize::MAX)
        .set_max_height(usize::MAX);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers()?;
    let colours = match decoder.input_colorspace() {
        Some(as_stored @ (ColorSpace::Luma | ColorSpace::LumaA | ColorSpace::RGBA)) => as_stored,
        _ => ColorSpace::RGB,
    };
    decoder.set_options(options.jpeg_set_out_colorspace(colours));
    let size = decoder.info().map_or([0; 2], |info| [info.width, info.height]);
    let mut samples = buffer(decoder.output_buffer_size())?;
    decoder.decode_into(&mut samples)?;
    Ok(picture(size.map(u32::from), &samples, colours.num_components()))
}

/// More bytes than a photo has; keeps a hostile header from a hostile allocation.
const MOST_BYTES: usize = 512 << 20;

fn buffer(size: Option<usize>) -> Result<Vec<u8>, PhotoError> {
    match size {
        Some(size) if size <= MOST_BYTES => Ok(vec![0; size]),
        _ => Err(PhotoError::Large),
    }
}

/// The picture of pixels with `channels` samples each: grey or colours, with or without an opacity,
/// which doesn't count.
fn picture(size: [u32; 2], samples: &[u8], channels: usize) -> Picture {
    let pixels = samples.chunks_exact(channels).flat_map(|pixel| match *pixel {
        [red, green, blue, ..] => [red, green, blue],
        [grey, ..] => [grey; 3],
        [] => [0; 3],
    });
    let [width, height] = size.map(|side| usize::try_from(side).unwrap_or(0));
    Picture { width, height, pixels: pixels.collect() }
}

/// Sixteen bits of a colour as the nearest of eight.
fn narrow(sample: u16) -> u8 {
    u8::try_from((u32::from(sample) + 128) / 257).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use png::ColorType::{Grayscale, Indexed, Rgb, Rgba};

    use super::*;

    fn png_file(colour: png::ColorType, depth: BitDepth, side: u32, pixels: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, side, side);
        encoder.set_color(colour);
        encoder.set_depth(depth);
        if colour == Indexed {
            encoder.set_palette(vec![1, 2, 3, 4, 5, 6]);
        }
        let mut writer = encoder.write_header().unwrap();
        // A chunk of its own, so that the size need not be that of the pixels.
        writer.write_chunk(png::chunk::IDAT, pixels).unwrap();
        drop(writer);
        file
    }

    /// A zlib stream of one stored block.
    fn stored(bytes: &[u8]) -> Vec<u8> {
        let length = u16::try_from(bytes.len()).unwrap();
        let (mut a, mut b) = (1u32, 0u32);
        for &byte in bytes {
            a += u32::from(byte);
            b += a;
        }
        let (length, sum) = ([length.to_le_bytes(), (!length).to_le_bytes()], b << 16 | a);
        [&[0x78, 1, 1][..], length.as_flattened(), bytes, &sum.to_be_bytes()].concat()
    }

    #[test]
    fn pixels_of_every_kind_become_eight_bits_of_red_green_and_blue() {
        for (colour, depth, pixel, want) in [
            (Grayscale, BitDepth::One, &[0x80][..], [255; 3]),
            (Grayscale, BitDepth::Eight, &[7], [7; 3]),
            (Grayscale, BitDepth::Sixteen, &[0x80, 0x7F], [128; 3]),
            (Rgb, BitDepth::Sixteen, &[0, 128, 0, 129, 0xFF, 0xFF], [0, 1, 255]),
            (Rgba, BitDepth::Eight, &[1, 2, 3, 0], [1, 2, 3]),
            (Indexed, BitDepth::Four, &[0x10], [4, 5, 6]),
        ] {
            let row = [&[0], pixel].concat();
            let picture = decode(&png_file(colour, depth, 1, &stored(&row))).unwrap();
            let what = format!("{colour:?} of {depth:?} bits");
            assert_eq!((picture.width, picture.height), (1, 1), "{what}");
            assert_eq!(picture.pixels, want, "{what}");
        }
    }

    #[test]
    fn a_progressive_jpeg_is_decoded() {
        let codes: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let file = [
            &[0xFF, 0xD8, 0xFF, 0xDB, 0, 67, 0][..],
            &[1; 64],
            &[0xFF, 0xC2, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0],
            &[0xFF, 0xC4, 0, 20, 0x00],
            codes,
            &[0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 0, 0, 0x7F, 0xFF, 0xD9],
        ];
        assert!(super::super::jpeg::decode(&file.concat()).is_none(), "left to the library");
        let picture = decode(&file.concat()).unwrap();
        assert_eq!((picture.width, picture.height), (8, 8));
        assert_eq!(picture.pixels, [128; 192]);
    }

    #[test]
    fn what_is_no_picture_or_too_large_is_an_error() {
        assert!(matches!(decode(b"GIF89a"), Err(PhotoError::Format)));
        assert!(matches!(decode(b"\xFF\xD8\xFF"), Err(PhotoError::Jpeg(_))));
        assert!(matches!(decode(b"\x89PNG\r\n\x1A\n"), Err(PhotoError::Png(_))));
        let file = png_file(Rgb, BitDepth::Eight, 40_000, &stored(&[0]));
        assert!(matches!(decode(&file), Err(PhotoError::Large)));
    }

    #[test]
    fn a_picture_survives_as_a_png() {
        let picture = Picture { width: 2, height: 1, pixels: vec![1, 2, 3, 4, 5, 6] };
        let again = decode(&picture.png().unwrap()).unwrap();
        assert_eq!((again.width, again.height, again.pixels), (2, 1, picture.pixels));
    }
}
