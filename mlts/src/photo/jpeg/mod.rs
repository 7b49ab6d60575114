//! A decoder for the common JPEG: sequential, Huffman-coded, 8 bits, grey or YCbCr.
//!
//! It exists because the goldens were made with the IJG's library, whose pixels other decoders miss
//! by a few steps. What it doesn't know (progressive, CMYK, odd sampling, broken data) it leaves to
//! the crate zune-jpeg, which also finds the words for what is wrong.
//!
//! Every number of the file is hostile: lengths are taken off slices, sizes checked before they
//! allocate.

mod huffman;
mod samples;

use huffman::{Bits, HuffmanTable};
use samples::{Plane, inverse_dct, rgb};

use super::Picture;

/// Decodes, or leaves it to others.
pub(super) fn decode(bytes: &[u8]) -> Option<Picture> {
    let mut decoder = Decoder::default();
    let mut rest = bytes.strip_prefix(&[0xFF, 0xD8])?;
    loop {
        let (&[ones, marker], after) = rest.split_first_chunk()?;
        if ones != 0xFF {
            return None;
        }
        if marker == 0xFF {
            // Markers may be preceded by any number of fill bytes.
            rest = rest.get(1..)?;
            continue;
        }
        let (&length, _) = after.split_first_chunk::<2>()?;
        let segment = after.get(2..usize::from(u16::from_be_bytes(length)))?;
        rest = after.get(2 + segment.len()..)?;
        match marker {
            0xC0 | 0xC1 => decoder.frame(segment)?,
            0xC4 => decoder.huffman_tables(segment)?,
            0xDB => decoder.quantisation_tables(segment)?,
            0xDD => decoder.restart_interval = u16::from_be_bytes(segment.try_into().ok()?),
            0xDA => {
                decoder.scan(segment, rest)?;
                return decoder.picture();
            }
            // An Adobe segment may say that the colours are others.
            0xEE => return None,
            0xE0..=0xEF | 0xFE => {}
            _ => return None,
        }
    }
}

/// More pixels than any photo here; keeps a hostile header from a hostile allocation.
const MOST_PIXELS: usize = 1 << 26;

#[derive(Debug, Default)]
struct Decoder {
    width: usize,
    height: usize,
    components: Vec<Component>,
    quantisation: [Option<[u16; 64]>; 4],
    dc: [Option<HuffmanTable>; 4],
    ac: [Option<HuffmanTable>; 4],
    restart_interval: u16,
}

#[derive(Debug)]
struct Component {
    id: u8,
    /// Samples per unit of the interleave.
    h: usize,
    v: usize,
    quantisation: usize,
    plane: Plane,
}

impl Decoder {
    fn quantisation_tables(&mut self, mut segment: &[u8]) -> Option<()> {
        while let Some((&head, rest)) = segment.split_first() {
            let wide = head >> 4 != 0;
            let (values, rest) = rest.split_at_checked(if wide { 128 } else { 64 })?;
            let mut table = [0; 64];
            for (at, &natural) in ZIGZAG.iter().enumerate() {
                table[usize::from(natural)] = if wide {
                    u16::from_be_bytes([values[2 * at], values[2 * at + 1]])
                } else {
                    u16::from(values[at])
                };
            }
            *self.quantisation.get_mut(usize::from(head & 15))? = Some(table);
            segment = rest;
        }
        Some(())
    }

    fn huffman_tables(&mut self, mut segment: &[u8]) -> Option<()> {
        while let Some((&head, rest)) = segment.split_first() {
            let (counts, rest) = rest.split_first_chunk::<16>()?;
            let total = counts.iter().map(|&count| usize::from(count)).sum();
            let (values, rest) = rest.split_at_checked(total)?;
            let tables = if head >> 4 == 0 { &mut self.dc } else { &mut self.ac };
            *tables.get_mut(usize::from(head & 15))? = Some(HuffmanTable::new(counts, values)?);
            segment = rest;
        }
        Some(())
    }

    fn frame(&mut self, segment: &[u8]) -> Option<()> {
        let (&[precision, h0, h1, w0, w1, count], rest) = segment.split_first_chunk()?;
        self.height = usize::from(u16::from_be_bytes([h0, h1]));
        self.width = usize::from(u16::from_be_bytes([w0, w1]));
        let pixels = self.width * self.height;
        let known =
            precision == 8 && matches!(count, 1 | 3) && rest.len() == usize::from(count) * 3;
        if !known || !self.components.is_empty() || pixels == 0 || pixels > MOST_PIXELS {
            return None;
        }
        let parts = rest.as_chunks::<3>().0;
        // A single component isn't interleaved, so its blocks follow each other whatever it says.
        let sampling = |part: &[u8; 3]| {
            if count == 1 { (1, 1) } else { (usize::from(part[1] >> 4), usize::from(part[1] & 15)) }
        };
        let (max_h, max_v) = sampling(parts.first()?);
        // Luma in full, chroma in full or halved: all that cameras make.
        let chroma = parts.get(1..)?.iter().all(|part| sampling(part) == (1, 1));
        if !matches!((max_h, max_v), (1, 1) | (2, 1) | (2, 2)) || !chroma {
            return None;
        }
        let (across, down) = (self.width.div_ceil(8 * max_h), self.height.div_ceil(8 * max_v));
        for part in parts {
            let (h, v) = sampling(part);
            let stride = across * h * 8;
            let plane = Plane {
                samples: vec![0; stride * down * v * 8],
                stride,
                width: (self.width * h).div_ceil(max_h),
                height: (self.height * v).div_ceil(max_v),
            };
            self.components.push(Component {
                id: part[0],
                h,
                v,
                quantisation: usize::from(part[2]),
                plane,
            });
        }
        Some(())
    }

    /// One scan with all components; files that spread them over several are left to others.
    fn scan(&mut self, header: &[u8], data: &[u8]) -> Option<()> {
        let (&count, selectors) = header.split_first()?;
        if usize::from(count) != self.components.len() || self.components.is_empty() {
            return None;
        }
        let mut tables = Vec::new();
        for (component, selector) in self.components.iter().zip(selectors.as_chunks::<2>().0) {
            let [id, tables_of] = *selector;
            if id != component.id {
                return None;
            }
            tables.push((
                self.dc.get(usize::from(tables_of >> 4))?.as_ref()?,
                self.ac.get(usize::from(tables_of & 15))?.as_ref()?,
                self.quantisation.get(component.quantisation)?.as_ref()?,
            ));
        }
        let (max_h, max_v) = self.components.first().map(|luma| (luma.h, luma.v))?;
        let (across, down) = (self.width.div_ceil(8 * max_h), self.height.div_ceil(8 * max_v));
        let mut bits = Bits::new(data);
        let mut predictions = [0i32; 3];
        for unit in 0..across * down {
            let interval = usize::from(self.restart_interval);
            if interval > 0 && unit > 0 && unit % interval == 0 {
                bits.restart()?;
                predictions = [0; 3];
            }
            let (unit_x, unit_y) = (unit % across, unit / across);
            for ((component, &(dc, ac, quantisation)), prediction) in
                self.components.iter_mut().zip(&tables).zip(&mut predictions)
            {
                for block in 0..component.h * component.v {
                    let block_of = read_block(&mut bits, dc, ac, quantisation, prediction)?;
                    let samples = inverse_dct(&block_of);
                    let x = (unit_x * component.h + block % component.h) * 8;
                    let y = (unit_y * component.v + block / component.h) * 8;
                    let plane = &mut component.plane;
                    for (line, samples) in samples.as_chunks::<8>().0.iter().enumerate() {
                        let start = (y + line) * plane.stride + x;
                        plane.samples.get_mut(start..start + 8)?.copy_from_slice(samples);
                    }
                }
            }
        }
        Some(())
    }

    fn picture(&self) -> Option<Picture> {
        let (max_h, max_v) = self.components.first().map(|luma| (luma.h, luma.v))?;
        let mut rows = vec![vec![0; self.width]; self.components.len()];
        let mut pixels = Vec::with_capacity(self.width * self.height * 3);
        for y in 0..self.height {
            for (component, row) in self.components.iter().zip(&mut rows) {
                let (h, v) = (max_h / component.h, max_v / component.v);
                component.plane.upsampled_row(y, h, v, row);
            }
            match rows.as_slice() {
                [luma, cb, cr] => {
                    for ((&luma, &cb), &cr) in luma.iter().zip(cb).zip(cr) {
                        pixels.extend_from_slice(&rgb([luma, cb, cr]));
                    }
                }
                [grey] => pixels.extend(grey.iter().flat_map(|&grey| [grey; 3])),
                _ => return None,
            }
        }
        Some(Picture { width: self.width, height: self.height, pixels })
    }
}

/// The dequantised coefficients of the next block, in natural order.
fn read_block(
    bits: &mut Bits<'_>,
    dc: &HuffmanTable,
    ac: &HuffmanTable,
    quantisation: &[u16; 64],
    prediction: &mut i32,
) -> Option<[i32; 64]> {
    let mut block = [0; 64];
    let size = bits.value(dc)?;
    if size > 15 {
        return None;
    }
    *prediction = prediction.wrapping_add(bits.signed(size)?);
    block[0] = prediction.saturating_mul(i32::from(quantisation[0]));
    let mut at = 1;
    while at < 64 {
        let symbol = bits.value(ac)?;
        let (run, size) = (usize::from(symbol >> 4), symbol & 15);
        match (run, size) {
            (0, 0) => break,
            (15, 0) => at += 16,
            (_, 0) => return None,
            _ => {
                at += run;
                let natural = usize::from(*ZIGZAG.get(at)?);
                block[natural] =
                    bits.signed(size)?.saturating_mul(i32::from(quantisation[natural]));
                at += 1;
            }
        }
    }
    Some(block)
}

/// The place in a block of a file's n-th coefficient.
const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];
