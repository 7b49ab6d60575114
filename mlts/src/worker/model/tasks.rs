//! The tasks' own rules applied to golden cases.

use std::collections::BTreeMap;

use super::accuracy::{CaseOutputs, kind_of};
use super::pass::Pass;
use crate::data::{Family, bytes_of};
use crate::evaluators::{
    ElementType, PhoneErrors, SpeechScale, agreement, best_class, detections, iou, mask_classes,
    mel_cepstral, missed, phone_error_rate, values,
};
use crate::num::real;
use crate::report::{EvaluatorReport, WrongAnswer};

/// Android's limits, and where a warning begins.
const DISTORTION: [f64; 2] = [0.05, 4.0];
const LOG_F0: [f64; 2] = [1e-3, 0.01];
const PHONE_ERRORS: f64 = 5.0;

/// Returns whether a case's answer is right by the task's rule; false where there is no rule but
/// the values'.
pub(super) fn is_right(pass: &Pass<'_>, answer: &CaseOutputs<'_>) -> bool {
    let (Some(output), Some(golden)) = (answer.outputs.first(), answer.goldens.first()) else {
        return false;
    };
    match pass.work.model.family {
        Family::Classes => is_same_class(kind_of(pass, 0), output, golden),
        Family::Pixels => pixels_agreeing(pass, output, golden) >= least_pixels(pass),
        Family::Speech => speech_scale(pass).is_some_and(|scale| {
            let (distortion, f0) = mel_cepstral(output, golden, &scale);
            distortion <= DISTORTION[1] && f0 <= LOG_F0[1]
        }),
        Family::Phones => {
            phones(pass, output, golden).is_some_and(|errors| errors.percent <= PHONE_ERRORS)
        }
        Family::Detections => {
            missed(&detections(&answer.outputs), &detections(&answer.goldens)) == 0
        }
        Family::Values => false,
        Family::SupportOnly => true,
    }
}

/// The figures of all cases.
pub(super) fn evaluate(pass: &Pass<'_>, answers: &[CaseOutputs<'_>]) -> Vec<EvaluatorReport> {
    if answers.is_empty() {
        return Vec::new();
    }
    let labels = labels(pass, answers);
    let report = match pass.work.model.family {
        Family::Classes => classes(pass, answers),
        Family::Pixels => pixels(pass, answers),
        Family::Speech => speech(pass, answers),
        Family::Phones => phone_errors(pass, answers),
        Family::Detections => boxes(answers),
        Family::Values | Family::SupportOnly => None,
    };
    report.into_iter().chain(labels).collect()
}

/// Hits that may be lost against the reference kernels, as a share of the labelled cases.
const LOST_LABELS: f64 = 0.05;

/// Words that are spotted in recordings, and other labels of cases: how many the first class hits,
/// against the hits of the goldens. `None` where cases have no labels.
fn labels(pass: &Pass<'_>, answers: &[CaseOutputs<'_>]) -> Option<EvaluatorReport> {
    let entry = &pass.work.model;
    let kind = kind_of(pass, 0);
    let (mut all, mut hits, mut expected) = (0, 0, 0);
    let mut wrong = Vec::new();
    for answer in answers {
        let Some(label) = &answer.case.label else { continue };
        let Some(right) = entry.labels.iter().position(|known| known == label) else { continue };
        let best = |bytes: Option<&Vec<u8>>| best_class(kind, bytes?);
        let (got, golden) = (best(answer.outputs.first()), best(answer.goldens.first()));
        all += 1;
        hits += usize::from(got == Some(right));
        expected += usize::from(golden == Some(right));
        if got != golden {
            let name = |at: Option<usize>| {
                at.and_then(|at| entry.labels.get(at)).cloned().unwrap_or_default()
            };
            wrong.push(WrongAnswer {
                name: answer.case.name.clone(),
                expected: name(golden),
                actual: name(got),
                ..WrongAnswer::default()
            });
        }
    }
    if all == 0 {
        return None;
    }
    let least = (real(expected) - (LOST_LABELS * real(all)).max(1.0)).max(0.0) / real(all);
    let mut report =
        figures(entry.of_labels(), all, &[("hits", real(hits) / real(all), least)], true);
    report.expected.insert("hits".to_owned(), real(expected) / real(all));
    report.wrong = wrong;
    Some(report)
}

/// The best class is the golden's, or as good as that.
fn is_same_class(kind: ElementType, output: &[u8], golden: &[u8]) -> bool {
    let Some(want) = best_class(kind, golden) else { return false };
    let scores = values(kind, output);
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    output.len() == golden.len()
        && scores.iter().all(|score| !score.is_nan())
        && scores.get(want).is_some_and(|score| *score >= most)
}

fn classes(pass: &Pass<'_>, answers: &[CaseOutputs<'_>]) -> Option<EvaluatorReport> {
    let kind = kind_of(pass, 0);
    let mut right = 0;
    let mut wrong = Vec::new();
    for answer in answers {
        let (output, golden) = (answer.outputs.first()?, answer.goldens.first()?);
        if is_same_class(kind, output, golden) {
            right += 1;
        } else {
            let name =
                |bytes| best_class(kind, bytes).map_or_else(String::new, |at| at.to_string());
            wrong.push(WrongAnswer {
                name: answer.case.name.clone(),
                expected: name(golden),
                actual: name(output),
                ..WrongAnswer::default()
            });
        }
    }
    let share = real(right) / real(answers.len());
    let mut report = figures("TopK (goldens)", answers.len(), &[("agreement", share, 1.0)], true);
    report.wrong = wrong;
    Some(report)
}

fn least_pixels(pass: &Pass<'_>) -> f64 {
    pass.work.model.accept.pixels.unwrap_or(0.99)
}

/// The classes of pixels: the golden's are stored as such, the output's may be scores.
fn pixel_classes(pass: &Pass<'_>, bytes: &[u8], pixels: usize) -> Vec<usize> {
    let all = values(kind_of(pass, 0), bytes);
    let of_value = |value: &f64| crate::num::count(*value);
    let each = all.len().checked_div(pixels).unwrap_or(0);
    if each <= 1 {
        return all.iter().map(of_value).collect();
    }
    let best = |scores: &[f64]| {
        let mut best = 0;
        for (at, score) in scores.iter().enumerate() {
            if scores.get(best).is_some_and(|most| score > most) {
                best = at;
            }
        }
        best
    };
    all.chunks_exact(each).map(best).collect()
}

/// The golden's classes: bytes where the output has scores, else of the output's type.
fn golden_classes(pass: &Pass<'_>, output: &[u8], golden: &[u8]) -> Vec<usize> {
    if output.len() == golden.len() {
        values(kind_of(pass, 0), golden).into_iter().map(crate::num::count).collect()
    } else {
        golden.iter().map(|&class| usize::from(class)).collect()
    }
}

/// The share of pixels with the golden's class.
pub(super) fn pixels_agreeing(pass: &Pass<'_>, output: &[u8], golden: &[u8]) -> f64 {
    let want = golden_classes(pass, output, golden);
    agreement(&pixel_classes(pass, output, want.len()), &want)
}

fn pixels(pass: &Pass<'_>, answers: &[CaseOutputs<'_>]) -> Option<EvaluatorReport> {
    let (mut least_agreed, mut least_iou) = (1.0_f64, 1.0_f64);
    for answer in answers {
        let (output, golden) = (answer.outputs.first()?, answer.goldens.first()?);
        let want = golden_classes(pass, output, golden);
        let got = pixel_classes(pass, output, want.len());
        least_agreed = least_agreed.min(agreement(&got, &want));
        let mut classes = want.clone();
        classes.sort_unstable();
        classes.dedup();
        // A class of a few pixels is one pixel's luck.
        let large = |class: &usize| want.iter().filter(|one| *one == class).count() >= 1000;
        let ious =
            classes.iter().filter(|class| large(class)).map(|&class| iou(&got, &want, class));
        least_iou = ious.fold(least_iou, f64::min);
    }
    let list = [("pixels", least_agreed, least_pixels(pass))];
    let mut report = figures("IoU", answers.len(), &list, true);
    // Of the worst class against the golden: shown; the share of pixels decides.
    report.values.insert("iou".to_owned(), least_iou);
    if let Some((found, golden)) = mask_iou(pass, answers) {
        let least = pass.work.model.accept.mask_iou.unwrap_or(0.0);
        report.values.insert("mask_iou".to_owned(), found);
        report.expected.insert("mask_iou".to_owned(), golden);
        report.limits.insert("mask_iou".to_owned(), least);
        if found < least {
            report.ok = false;
            report.beyond.push("mask_iou".to_owned());
        }
    }
    Some(report)
}

/// The intersection over union with the mask that people drew, of the answer and of the golden: the
/// worst case that has a mask, of the class that most of the mask's marked pixels have.
fn mask_iou(pass: &Pass<'_>, answers: &[CaseOutputs<'_>]) -> Option<(f64, f64)> {
    let mut worst: Option<(f64, f64)> = None;
    for answer in answers {
        let Some(path) = &answer.case.mask else { continue };
        let mask = mask_classes(&bytes_of(path).ok()?)?;
        let marked = mask.iter().copied().filter(|&class| class != 0);
        let mut counts = BTreeMap::<usize, usize>::new();
        for class in marked {
            *counts.entry(class).or_default() += 1;
        }
        let (&class, _) = counts.iter().max_by_key(|(_, count)| **count)?;
        let (output, golden) = (answer.outputs.first()?, answer.goldens.first()?);
        let of = |bytes| iou(&pixel_classes(pass, bytes, mask.len()), &mask, class);
        let found = (of(output), of(golden));
        if worst.is_none_or(|known| found.0 < known.0) {
            worst = Some(found);
        }
    }
    worst
}

/// Means and deviations beside the model's file.
fn speech_scale(pass: &Pass<'_>) -> Option<SpeechScale> {
    let file = pass.work.model.file.as_ref()?;
    let entries = std::fs::read_dir(file.parent()?).ok()?.flatten();
    let is_scale = |path: &std::path::PathBuf| {
        path.extension().is_some_and(|kind| kind == "output_mean_std_dev")
    };
    let path = entries.map(|entry| entry.path()).find(is_scale)?;
    Some(SpeechScale::of_bytes(&bytes_of(&path).ok()?))
}

fn speech(pass: &Pass<'_>, answers: &[CaseOutputs<'_>]) -> Option<EvaluatorReport> {
    let scale = speech_scale(pass)?;
    let (mut distortion, mut f0) = (0.0_f64, 0.0_f64);
    for answer in answers {
        let (output, golden) = (answer.outputs.first()?, answer.goldens.first()?);
        let found = mel_cepstral(output, golden, &scale);
        (distortion, f0) = (distortion.max(found.0), f0.max(found.1));
    }
    let list = [("distortion", distortion, DISTORTION[1]), ("log_f0_error", f0, LOG_F0[1])];
    let mut report = figures("MelCepLogF0", answers.len(), &list, false);
    for (name, value, warn) in
        [("distortion", distortion, DISTORTION[0]), ("log_f0_error", f0, LOG_F0[0])]
    {
        if value > warn {
            report.warnings.push(format!("{name} {value:.3e} is above {warn}"));
        }
    }
    Some(report)
}

fn phones(pass: &Pass<'_>, output: &[u8], golden: &[u8]) -> Option<PhoneErrors> {
    let position = pass.loaded.outputs().first().copied()?;
    let classes = *pass.loaded.output(position)?.dimensions.last()?;
    Some(phone_error_rate(output, golden, usize::try_from(classes).ok()?))
}

fn phone_errors(pass: &Pass<'_>, answers: &[CaseOutputs<'_>]) -> Option<EvaluatorReport> {
    let mut worst = PhoneErrors { percent: 0.0, merged_percent: 0.0, equal_frames: 1.0 };
    for answer in answers {
        let (output, golden) = (answer.outputs.first()?, answer.goldens.first()?);
        let found = phones(pass, output, golden)?;
        worst.percent = worst.percent.max(found.percent);
        worst.merged_percent = worst.merged_percent.max(found.merged_percent);
        worst.equal_frames = worst.equal_frames.min(found.equal_frames);
    }
    let list = [("per", worst.percent, PHONE_ERRORS)];
    let mut report = figures("PhoneErrorRate", answers.len(), &list, false);
    report.values.insert("merged_per".to_owned(), worst.merged_percent);
    report.values.insert("equal_frames".to_owned(), worst.equal_frames);
    Some(report)
}

fn boxes(answers: &[CaseOutputs<'_>]) -> Option<EvaluatorReport> {
    let all = answers
        .iter()
        .map(|answer| missed(&detections(&answer.outputs), &detections(&answer.goldens)));
    let missed = real(all.sum());
    Some(figures("Detections", answers.len(), &[("missed", missed, 0.0)], false))
}

/// A report of figures with their limits: least values where more is better, else largest.
pub(super) fn figures(
    name: &str,
    n: usize,
    list: &[(&str, f64, f64)],
    more_is_better: bool,
) -> EvaluatorReport {
    let holds = |value: f64, limit: f64| {
        if more_is_better { value >= limit } else { value <= limit }
    };
    let of = |at: fn(&(&str, f64, f64)) -> f64| -> BTreeMap<String, f64> {
        list.iter().map(|one| (one.0.to_owned(), at(one).min(f64::MAX))).collect()
    };
    EvaluatorReport {
        name: name.to_owned(),
        values: of(|one| one.1),
        limits: of(|one| one.2),
        ok: list.iter().all(|&(_, value, limit)| holds(value, limit)),
        beyond: list
            .iter()
            .filter(|&&(_, value, limit)| !holds(value, limit))
            .map(|one| one.0.to_owned())
            .collect(),
        n,
        ..EvaluatorReport::default()
    }
}
