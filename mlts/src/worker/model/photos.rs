//! Labelled photos: hits of the label, and agreement with the reference kernels' first class.

use super::accuracy::kind_of;
use super::pass::Pass;
use super::tasks::figures;
use crate::data::bytes_of;
use crate::evaluators::top_classes;
use crate::num::real;
use crate::photo::Picture;
use crate::report::{EvaluatorReport, WrongAnswer};
use crate::worker::outcome::{Outcome, Stopped};
use crate::worker::sequence::{Feed, Sequence};

/// Hits that may be lost against the reference kernels: a share of the photos, and at least three.
const LOST_SHARE: f64 = 0.05;
const LOST: f64 = 3.0;
/// From here on a loss is a warning.
const WARN_SHARE: f64 = 0.02;
/// How far agreement may be below that of TFLite's own fast kernels.
const BELOW_PEERS: f64 = 0.05;
/// Wrong photos that are listed.
const LISTED: usize = 12;

/// Counts over all photos.
#[derive(Default)]
struct Hits {
    photos: usize,
    top_1: usize,
    top_5: usize,
    reference: usize,
    agreed: usize,
    wrong: Vec<WrongAnswer>,
}

pub(super) fn evaluate(pass: &Pass<'_>) -> Outcome<Option<EvaluatorReport>> {
    let sets = &pass.work.model.photos;
    let Some(&mode) = pass.work.modes.first() else { return Ok(None) };
    let most = pass.work.photos;
    if sets.is_empty() || most == 0 {
        return Ok(None);
    }
    let input = pass.loaded.inputs().first().copied().and_then(|at| pass.loaded.input(at));
    let Some(input) = input else { return Ok(None) };
    let mut sequence = Sequence::new(pass.loaded, pass.prepared.session(mode)?);
    let kind = kind_of(pass, 0);
    let mut hits = Hits::default();
    let all = sets.iter().flat_map(|set| set.photos.iter().map(move |photo| (set, photo)));
    for (set, photo) in all.take(most) {
        let path = set.dir.join(&photo.file);
        let bytes = bytes_of(&path).map_err(Stopped::failed)?;
        let failed = |error| Stopped::failed(format!("{}: {error}", path.display()));
        let picture = Picture::decode(&bytes).map_err(failed)?;
        let prepared =
            if set.is_square { picture.square_to_input(input) } else { picture.to_input(input) };
        let prepared = prepared.map_err(failed)?;
        let outputs = sequence.run(&Feed { inputs: vec![prepared], steps: 1 }, pass.pulse)?;
        let scores = outputs.first().map_or(&[][..], Vec::as_slice);
        let top: Vec<u64> = top_classes(kind, scores, 5)
            .into_iter()
            .filter_map(|class| u64::try_from(class).ok())
            .collect();
        hits.add(photo, &top, &picture);
    }
    let peers = sets.iter().filter_map(|set| set.peer_agreement).reduce(f64::min);
    Ok(Some(hits.report(peers)))
}

impl Hits {
    fn add(&mut self, photo: &crate::data::Photo, top: &[u64], picture: &Picture) {
        let first = top.first().copied();
        self.photos += 1;
        self.top_1 += usize::from(first == Some(photo.label));
        self.top_5 += usize::from(top.contains(&photo.label));
        self.reference += usize::from(photo.reference == photo.label);
        if first == Some(photo.reference) {
            self.agreed += 1;
        } else if self.wrong.len() < LISTED {
            let got = first.map_or_else(String::new, |class| class.to_string());
            let credit = if photo.author.is_empty() {
                String::new()
            } else {
                format!("{}, CC-BY 2.0", photo.author)
            };
            self.wrong.push(WrongAnswer {
                name: photo.file.clone(),
                expected: photo.reference.to_string(),
                actual: got,
                credit,
                thumbnail: picture.thumbnail(),
            });
        }
    }

    fn report(self, peers: Option<f64>) -> EvaluatorReport {
        let all = real(self.photos.max(1));
        let share = |count: usize| real(count) / all;
        let lost = (LOST_SHARE * all).max(LOST);
        let least_hits = (real(self.reference) - lost).max(0.0) / all;
        let peers = peers.unwrap_or(1.0);
        let least_agreed = peers - BELOW_PEERS;
        let list = [
            ("top_1", share(self.top_1), least_hits),
            ("agreement", share(self.agreed), least_agreed),
        ];
        let mut report = figures("TopK", self.photos, &list, true);
        report.values.insert("top_5".to_owned(), share(self.top_5));
        report.expected.insert("top_1".to_owned(), share(self.reference));
        report.expected.insert("agreement".to_owned(), peers);
        if share(self.top_1) < share(self.reference) - WARN_SHARE {
            report.warnings.push("2 % or more of the reference kernels' hits are lost".to_owned());
        }
        if share(self.agreed) < peers {
            let why = "agreement is below that of TFLite's fast kernels";
            report.warnings.push(why.to_owned());
        }
        report.wrong = self.wrong;
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(top_1: usize, agreed: usize) -> Hits {
        Hits { photos: 100, top_1, top_5: 90, reference: 70, agreed, wrong: Vec::new() }
    }

    #[test]
    fn hits_are_compared_with_those_of_the_reference_kernels() {
        for (top_1, agreed, ok, warnings) in [
            (70, 100, true, 0),
            (67, 98, true, 1),
            (64, 100, false, 1),
            (70, 90, false, 1),
            (66, 96, true, 2),
        ] {
            let report = hits(top_1, agreed).report(Some(0.97));
            assert_eq!(
                (report.ok, report.warnings.len()),
                (ok, warnings),
                "{top_1} {agreed}: {report:?}"
            );
        }
    }
}
