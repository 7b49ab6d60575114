//! Boxes and keypoints: ties, limits of every kind, several classes for a box.

use nnburst_executor::testing::TestRng;
use nnburst_hal::OperationType as Op;

use crate::model::{Arg, F32, I32, Value, assert_near, compute, seeds};

/// Corners.
pub(crate) type Corners = [f32; 4];

/// Boxes on a grid, so that many overlap by the same share.
fn boxes(rng: &mut TestRng, count: usize, most: u32) -> Vec<Corners> {
    (0..count)
        .map(|_| {
            let (x, y) = (rng.between(0, most - 2) as f32, rng.between(0, most - 2) as f32);
            let (w, h) = (rng.between(1, 4) as f32, rng.between(1, 4) as f32);
            [x, y, (x + w).min(most as f32), (y + h).min(most as f32)]
        })
        .collect()
}

fn overlap(a: Corners, b: Corners) -> f32 {
    let side = |k: usize| (a[k + 2].min(b[k + 2]) - a[k].max(b[k])).max(0.0);
    let area = |c: Corners| (c[2] - c[0]) * (c[3] - c[1]);
    let common = side(0) * side(1);
    common / (area(a) + area(b) - common)
}

/// Hard suppression, by looking for the best again and again.
fn suppressed(
    scores: &[f32],
    boxes: &[Corners],
    mut left: Vec<usize>,
    threshold: f32,
    limit: i32,
) -> Vec<usize> {
    let mut chosen = Vec::new();
    while !left.is_empty() && (limit < 0 || chosen.len() < limit as usize) {
        let mut best = left[0];
        for &at in &left {
            if scores[at] > scores[best] {
                best = at;
            }
        }
        // Without an area the share is NaN, which drops nothing.
        let is_dropped = |at: usize| overlap(boxes[at], boxes[best]) >= threshold;
        left.retain(|&at| at != best && !is_dropped(at));
        chosen.push(best);
    }
    chosen
}

/// Scores with ties.
fn scores(rng: &mut TestRng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.between(0, 16) as f32 / 16.0).collect()
}

pub(crate) fn flat(boxes: &[Corners]) -> Vec<f32> {
    boxes.iter().flatten().copied().collect()
}

pub(crate) fn floats(dims: &[usize], values: Vec<f32>) -> Arg {
    Arg::Floats(dims.iter().map(|&n| n as u32).collect(), values)
}

/// What a kept box is told with.
type Kept = (f32, Corners, i32, i32);

#[test]
fn boxes_by_class_and_image() {
    for seed in seeds(200) {
        let rng = &mut TestRng::of_seed(seed);
        let (rows, classes) = (rng.between(1, 24) as usize, rng.between(2, 4) as usize);
        let given = scores(rng, rows * classes);
        let corners = boxes(rng, rows * classes, 9);
        let mut images: Vec<i32> = (0..rows).map(|_| rng.between(0, 2).cast_signed()).collect();
        images.sort_unstable();
        let kernel = rng.one_of(&[0, 1, 2]);
        let most = rng.one_of(&[-1, 1, 3, 10]);
        let threshold = rng.one_of(&[0.0f32, 0.25, 0.5]);
        let iou = rng.one_of(&[0.25f32, 0.5, 1.0 / 3.0, 0.75]);
        let (sigma, least) = (rng.one_of(&[0.5f32, 1.0]), rng.one_of(&[0.1f32, 0.0625, 0.3]));
        let mut want: Vec<Kept> = Vec::new();
        for image in 0..=2 {
            let mut kept: Vec<Kept> = Vec::new();
            for class in 1..classes {
                let mut left: Vec<(f32, usize)> = (0..rows)
                    .filter(|&row| images[row] == image && given[row * classes + class] > threshold)
                    .map(|row| (given[row * classes + class], row))
                    .collect();
                let mut chosen = 0;
                while !left.is_empty() && (most < 0 || chosen < most) {
                    let mut best = 0;
                    for at in 0..left.len() {
                        if left[at].0 > left[best].0 {
                            best = at;
                        }
                    }
                    let (score, row) = left.remove(best);
                    chosen += 1;
                    let place = corners[row * classes + class];
                    kept.push((score, place, class as i32, image));
                    for (score, row) in &mut left {
                        let share = overlap(corners[*row * classes + class], place);
                        *score *= match kernel {
                            0 => f32::from(u8::from(share < iou)),
                            1 if share < iou => 1.0,
                            1 => 1.0 - share,
                            _ => (-share * share / sigma).exp(),
                        };
                    }
                    left.retain(|(score, _)| *score >= least);
                }
            }
            // The best of all classes; then by class, the better first.
            kept.sort_by(|a, b| b.0.total_cmp(&a.0));
            if most >= 0 {
                kept.truncate(most as usize);
            }
            kept.sort_by_key(|kept| kept.2);
            want.extend(kept);
        }
        let args = [
            floats(&[rows, classes], given),
            floats(&[rows, classes * 4], flat(&corners)),
            Arg::list(&images),
            Arg::Float(threshold),
            Arg::Int(most),
            Arg::Int(kernel),
            Arg::Float(iou),
            Arg::Float(sigma),
            Arg::Float(least),
        ];
        let got = compute(Op::BoxWithNmsLimit, &args, &[F32, F32, I32, I32], 400).unwrap();
        let what = format!("seed {seed}, kernel {kernel}, {most} at most");
        assert_eq!(got[2].ints(), want.iter().map(|kept| kept.2).collect::<Vec<_>>(), "{what}");
        assert_eq!(got[3].ints(), want.iter().map(|kept| kept.3).collect::<Vec<_>>(), "{what}");
        assert_near(&got[0].floats(), &want.iter().map(|kept| kept.0).collect::<Vec<_>>(), &what);
        let places: Vec<Corners> = want.iter().map(|kept| kept.1).collect();
        assert_eq!(got[1].floats(), flat(&places), "{what}");
    }
}

/// A box moved, stretched and cut off at an image's edges.
fn moved([x1, y1, x2, y2]: Corners, d: Corners, (height, width): (f32, f32)) -> Corners {
    let (w, h) = (x2 - x1, y2 - y1);
    let (x, y) = ((x1 + x2) / 2.0 + d[0] * w, (y1 + y2) / 2.0 + d[1] * h);
    let (w, h) = (d[2].exp() * w / 2.0, d[3].exp() * h / 2.0);
    [
        (x - w).clamp(0.0, width),
        (y - h).clamp(0.0, height),
        (x + w).clamp(0.0, width),
        (y + h).clamp(0.0, height),
    ]
}

fn four(values: &[f32], at: usize) -> Corners {
    values[at * 4..at * 4 + 4].try_into().unwrap()
}

#[test]
fn boxes_moved_within_their_images() {
    for seed in seeds(60) {
        let rng = &mut TestRng::of_seed(seed);
        let (rows, classes, images) =
            (rng.between(1, 6) as usize, rng.between(1, 3) as usize, rng.between(1, 3) as usize);
        let places = boxes(rng, rows, 12);
        let deltas: Vec<f32> = (0..rows * classes * 4).map(|_| rng.real()).collect();
        let of: Vec<i32> = (0..rows).map(|_| rng.below(images) as i32).collect();
        let sizes: Vec<f32> = (0..images * 2).map(|_| rng.between(4, 12) as f32).collect();
        let want: Vec<Corners> = (0..rows * classes)
            .map(|at| {
                let image = of[at / classes] as usize * 2;
                moved(places[at / classes], four(&deltas, at), (sizes[image], sizes[image + 1]))
            })
            .collect();
        let args = [
            floats(&[rows, 4], flat(&places)),
            floats(&[rows, classes * 4], deltas),
            Arg::list(&of),
            floats(&[images, 2], sizes),
        ];
        let got = compute(Op::AxisAlignedBboxTransform, &args, &[F32], 200).unwrap();
        assert_near(&got[0].floats(), &flat(&want), &format!("seed {seed}"));
    }
}

/// Strides of unequal height and width, limits of every kind, both layouts.
#[test]
fn proposals() {
    for seed in seeds(150) {
        let rng = &mut TestRng::of_seed(seed);
        let mut upto = |low: u32, high: u32| rng.between(low, high) as usize;
        let [n, h, w, anchors] = [upto(1, 2), upto(1, 4), upto(1, 4), upto(1, 3)];
        let nchw = rng.once_in(2);
        let count = h * w * anchors;
        // All unequal, so that rounding can't change an order.
        let mut given: Vec<f32> = (0..n * count).map(|at| at as f32 / 64.0).collect();
        for at in 0..given.len() {
            let other = rng.below(given.len());
            given.swap(at, other);
        }
        let deltas: Vec<f32> = (0..n * count * 4).map(|_| rng.real() / 4.0).collect();
        let frames: Vec<Corners> = (0..anchors)
            .map(|_| {
                let (x, y) = (rng.between(1, 5) as f32, rng.between(1, 5) as f32);
                [-x, -y, x, y]
            })
            .collect();
        let sizes: Vec<f32> = (0..n * 2).map(|_| rng.between(8, 30) as f32).collect();
        let stride = [rng.one_of(&[3.0f32, 5.0, 7.0]), rng.one_of(&[2.0f32, 4.0, 9.0])];
        let (before, after) = (rng.one_of(&[-1, 0, 3, 100]), rng.one_of(&[-1, 0, 1, 4]));
        let (iou, least) = (rng.one_of(&[0.2f32, 0.5, 0.9]), rng.one_of(&[0.0f32, 2.0, 4.0]));
        let (mut best, mut places, mut images) = (Vec::new(), Vec::new(), Vec::new());
        for image in 0..n {
            let size = (sizes[image * 2], sizes[image * 2 + 1]);
            let own = &given[image * count..][..count];
            let corners: Vec<Corners> = (0..count)
                .map(|at| {
                    let (a, x, y) = (at % anchors, at / anchors % w, at / anchors / w);
                    let (dx, dy) = (x as f32 * stride[1], y as f32 * stride[0]);
                    let [x1, y1, x2, y2] = frames[a];
                    let anchor = [x1 + dx, y1 + dy, x2 + dx, y2 + dy];
                    moved(anchor, four(&deltas, image * count + at), size)
                })
                .collect();
            let mut left: Vec<usize> = (0..count).collect();
            if before > 0 && (before as usize) < count {
                left.sort_by(|&a, &b| own[b].total_cmp(&own[a]));
                left.truncate(before as usize);
            }
            left.retain(|&at| {
                let [x1, y1, x2, y2] = corners[at];
                x2 - x1 > least
                    && y2 - y1 > least
                    && (x1 + x2) / 2.0 < size.1
                    && (y1 + y2) / 2.0 < size.0
            });
            // No limit where it is 0 or less.
            for at in suppressed(own, &corners, left, iou, if after > 0 { after } else { -1 }) {
                best.push(own[at]);
                places.push(corners[at]);
                images.push(image as i32);
            }
        }
        // From [image, pixel, anchor and k] to [image, anchor and k, pixel].
        let laid_out = |values: &[f32], each: usize| -> Vec<f32> {
            let (pixels, depth) = (h * w, anchors * each);
            (0..values.len())
                .map(|to| {
                    let (pixel, c, image) = (to % pixels, to / pixels % depth, to / pixels / depth);
                    if nchw { values[(image * pixels + pixel) * depth + c] } else { values[to] }
                })
                .collect()
        };
        let dims = |depth: usize| if nchw { [n, depth, h, w] } else { [n, h, w, depth] };
        let args = [
            floats(&dims(anchors), laid_out(&given, 1)),
            floats(&dims(anchors * 4), laid_out(&deltas, 4)),
            floats(&[anchors, 4], flat(&frames)),
            floats(&[n, 2], sizes),
            Arg::Float(stride[0]),
            Arg::Float(stride[1]),
            Arg::Int(before),
            Arg::Int(after),
            Arg::Float(iou),
            Arg::Float(least),
            Arg::Bool(nchw),
        ];
        let got = compute(Op::GenerateProposals, &args, &[F32, F32, I32], 800).unwrap();
        let what = format!("seed {seed}, limits {before} and {after}");
        assert_eq!(got[0].floats(), best, "{what}");
        assert_near(&got[1].floats(), &flat(&places), &what);
        assert_eq!(got[2].ints(), images, "{what}");
    }
}

/// Several classes for a detection and several detections of a class, by both ways.
#[test]
fn detections() {
    for seed in seeds(200) {
        let rng = &mut TestRng::of_seed(seed);
        let mut upto = |low: u32, high: u32| rng.between(low, high) as usize;
        let [n, anchors, classes] = [upto(1, 2), upto(1, 12), upto(2, 5)];
        let (most, each, of_class) = (upto(1, 8), upto(1, 5), upto(1, 4));
        let (regular, label) = (rng.once_in(2), rng.once_in(2));
        // All unequal.
        let mut given: Vec<f32> = (0..n * anchors * classes).map(|at| at as f32 / 256.0).collect();
        for at in 0..given.len() {
            let other = rng.below(given.len());
            given.swap(at, other);
        }
        let deltas: Vec<f32> = (0..n * anchors * 4).map(|_| rng.real()).collect();
        let frames: Vec<f32> = (0..anchors * 4).map(|_| rng.between(1, 6) as f32).collect();
        let scale = [1.0, 2.0, 4.0, 5.0];
        let (threshold, iou) = (rng.one_of(&[0.0f32, 0.1]), rng.one_of(&[0.1f32, 0.4, 0.8]));
        let rows = if regular { most } else { most * each };
        let (mut scored, mut places) = (vec![0.0; n * rows], vec![[0.0; 4]; n * rows]);
        let (mut labels, mut valid) = (vec![0; n * rows], Vec::new());
        for image in 0..n {
            let decoded: Vec<Corners> = (0..anchors)
                .map(|at| {
                    let ([y, x, h, w], d) =
                        (four(&frames, at), four(&deltas, image * anchors + at));
                    let (y, x) = (y + d[0] * h / scale[0], x + d[1] * w / scale[1]);
                    let (h, w) =
                        ((d[2] / scale[2]).exp() * h / 2.0, (d[3] / scale[3]).exp() * w / 2.0);
                    [y - h, x - w, y + h, x + w]
                })
                .collect();
            let score = |at: usize, class: usize| given[(image * anchors + at) * classes + class];
            let mut found: Vec<(f32, usize, usize)> = Vec::new();
            if regular {
                for class in 1..classes {
                    let own: Vec<f32> = (0..anchors).map(|at| score(at, class)).collect();
                    let left = (0..anchors).filter(|&at| own[at] > threshold).collect();
                    let chosen = suppressed(&own, &decoded, left, iou, of_class as i32);
                    found.extend(chosen.into_iter().map(|at| (own[at], at, class)));
                }
                found.sort_by(|a, b| b.0.total_cmp(&a.0));
                found.truncate(most);
            } else {
                let best: Vec<f32> = (0..anchors)
                    .map(|at| (1..classes).map(|c| score(at, c)).fold(f32::MIN, f32::max))
                    .collect();
                let left = (0..anchors).filter(|&at| best[at] > threshold).collect();
                for at in suppressed(&best, &decoded, left, iou, most as i32) {
                    let mut ranked: Vec<usize> = (1..classes).collect();
                    ranked.sort_by(|&a, &b| score(at, b).total_cmp(&score(at, a)));
                    ranked.truncate(each);
                    found.extend(ranked.into_iter().map(|class| (score(at, class), at, class)));
                }
            }
            valid.push(found.len() as i32);
            for (row, (score, at, class)) in found.into_iter().enumerate() {
                scored[image * rows + row] = score;
                places[image * rows + row] = decoded[at];
                labels[image * rows + row] = class as i32 - i32::from(!label);
            }
        }
        let mut args = vec![
            floats(&[n, anchors, classes], given),
            floats(&[n, anchors, 4], deltas),
            floats(&[anchors, 4], frames),
        ];
        args.extend(scale.map(Arg::Float));
        args.push(Arg::Bool(regular));
        args.extend([most, each, of_class].map(|n| Arg::Int(n as i32)));
        args.extend([Arg::Float(threshold), Arg::Float(iou), Arg::Bool(label)]);
        let got = compute(Op::DetectionPostprocessing, &args, &[F32, F32, I32, I32], 600).unwrap();
        let what = format!("seed {seed}, regular {regular}, {most} {each} {of_class}");
        assert_eq!(got[3].ints(), valid, "{what}");
        assert_eq!(got[0].floats(), scored, "{what}");
        assert_eq!(got[2].ints(), labels, "{what}");
        assert_near(&got[1].floats(), &flat(&places), &what);
    }
}

/// The peak of a parabola through the neighbours of the largest.
#[test]
fn keypoints() {
    for seed in seeds(80) {
        let rng = &mut TestRng::of_seed(seed);
        let (count, side, points) =
            (rng.between(1, 3) as usize, rng.between(2, 8) as usize, rng.between(1, 4) as usize);
        let maps: Vec<f32> = (0..count * side * side * points).map(|_| rng.real()).collect();
        let places = boxes(rng, count, 20);
        let (mut scores, mut peaks) = (Vec::new(), Vec::new());
        for (map, point) in (0..count).flat_map(|map| (0..points).map(move |p| (map, p))) {
            let at = |y: usize, x: usize| maps[((map * side + y) * side + x) * points + point];
            let (mut py, mut px) = (0, 0);
            for (y, x) in (0..side).flat_map(|y| (0..side).map(move |x| (y, x))) {
                if at(y, x) > at(py, px) {
                    (py, px) = (y, x);
                }
            }
            // Beyond the edge, what lies as far on this side of it.
            let mirrored = |at: usize, by: usize| match (at + by).checked_sub(1) {
                None => 1,
                Some(at) if at == side => side - 2,
                Some(at) => at,
            };
            let g = |y: usize, x: usize| f64::from(at(mirrored(py, y), mirrored(px, x)));
            let (bx, by) = (-(g(1, 2) - g(1, 0)) / 2.0, -(g(2, 1) - g(0, 1)) / 2.0);
            let axx = g(1, 0) - 2.0 * g(1, 1) + g(1, 2);
            let ayy = g(0, 1) - 2.0 * g(1, 1) + g(2, 1);
            let axy = (g(2, 2) - g(2, 0) - g(0, 2) + g(0, 0)) / 4.0;
            let det = axx * ayy - axy * axy;
            let (mut dx, mut dy, mut score) = (0.0, 0.0, g(1, 1));
            if det.abs() >= 1e-5 + 1e-5 * (axx * ayy) {
                (dx, dy) = ((ayy * bx - axy * by) / det, (axx * by - axy * bx) / det);
                let most = dx.abs().max(dy.abs());
                if most > 1.5 {
                    (dx, dy) = (dx * 1.5 / most, dy * 1.5 / most);
                }
                score += -bx * dx - by * dy
                    + ((axx * dx + axy * dy) * dx + (axy * dx + ayy * dy) * dy) / 2.0;
            }
            let [x1, y1, x2, y2] = places[map].map(f64::from);
            let along = |at: usize, d: f64, low: f64, high: f64| {
                ((at as f64 + d + 0.5) / side as f64 * (high - low) + low) as f32
            };
            scores.push(score as f32);
            peaks.extend([along(px, dx, x1, x2), along(py, dy, y1, y2)]);
        }
        let args = [
            floats(&[count, side, side, points], maps.clone()),
            floats(&[count, 4], flat(&places)),
            Arg::Bool(false),
        ];
        let got: Vec<Value> = compute(Op::HeatmapMaxKeypoint, &args, &[F32, F32], 100).unwrap();
        assert_near(&got[0].floats(), &scores, &format!("scores, seed {seed}"));
        for (a, b) in got[1].floats().iter().zip(&peaks) {
            assert!((a - b).abs() < 1e-3, "seed {seed}: {a}, not {b}");
        }
    }
}
