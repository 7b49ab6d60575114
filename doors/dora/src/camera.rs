//! The role `camera`: photos of a folder, or noise, as frames at a rate.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use dora_node_api::{MetadataParameters, Parameter};
use image::imageops::FilterType;
use nnburst_doors_common::{Grammar, Key, Log};

use crate::Failure;
use crate::infer::{ENCODING, HEIGHT, WIDTH};
use crate::node::{Happened, Node};
use crate::settings::{Own, SettingsError, key, pairs};
use crate::stamp::{Stamp, integer, set};

pub(crate) const GRAMMAR: Grammar = Grammar { shared: &[], own: &OWN };

const OWN: [Key; 5] = [
    key("folder", "a folder of .jpeg, .jpg and .png files", "", "the photos; noise without it"),
    key("size", "WIDTHxHEIGHT", "224x224", "the size of the frames, of RGB"),
    key("rate", "frames per second from 0.1 to 10000", "30", "how often a frame is sent"),
    key("frames", "a number", "", "the frames that are sent in all; without end if none is given"),
    key("source", "a name", "", "the name of the source; the node's if none is given"),
];

/// The output for frames.
const FRAME: &str = "frame";
/// The time from the last frame to the end.
const LINGER: Duration = Duration::from_millis(500);
/// The most photos that are kept.
const MOST_PHOTOS: usize = 64;

struct Settings {
    folder: Option<PathBuf>,
    width: u32,
    height: u32,
    period: Duration,
    frames: Option<u64>,
    source: Option<String>,
}

impl Settings {
    fn parse(args: &[String]) -> Result<Self, SettingsError> {
        let options = GRAMMAR.parse(pairs(args)?)?;
        let own = Own { grammar: GRAMMAR, options: &options };
        let size = own.required("size")?;
        let side = |text: &str| text.parse().ok().filter(|side| (1..=8192).contains(side));
        let sides = size.split_once('x').and_then(|(w, h)| Some((side(w)?, side(h)?)));
        let (width, height) = sides.ok_or_else(|| own.wrong("size", size))?;
        Ok(Self {
            folder: own.text("folder").map(PathBuf::from),
            width,
            height,
            period: Duration::from_secs_f64(1.0 / own.number("rate", 0.1, 10_000.0)?),
            frames: own.value("frames", |_| true)?,
            source: own.text("source").map(str::to_owned),
        })
    }
}

/// Plays the role until all frames are sent, or the dataflow ends.
///
/// # Errors
/// The settings or the photos can't be used, or dora is gone.
pub(crate) fn run(args: &[String], log: &Log) -> Result<(), Failure> {
    let settings = Settings::parse(args)?;
    let pictures = match &settings.folder {
        Some(folder) => photos(folder, settings.width, settings.height)?,
        None => vec![noise(settings.width, settings.height)],
    };
    let mut node = Node::open(log)?;
    let source = settings.source.clone().unwrap_or_else(|| node.name());
    let mut due = Instant::now();
    let mut late = 0_u64;
    for (seq, picture) in (0_u64..settings.frames.unwrap_or(u64::MAX)).zip(pictures.iter().cycle())
    {
        if !sleep_until(due, &mut node) {
            return Ok(());
        }
        let stamp = Stamp {
            source: source.clone(),
            seq: i64::try_from(seq).unwrap_or(i64::MAX),
            captured: SystemTime::now(),
        };
        node.send(FRAME, parameters(&stamp, &settings), picture.clone())?;
        due += settings.period;
        // A camera that was held up goes on at its rate: it doesn't send what it missed at once.
        if due < Instant::now() {
            late += 1;
            due = Instant::now();
        }
    }
    // With its end a node's last message may be lost.
    sleep_until(Instant::now() + LINGER, &mut node);
    log.summary(&format!("all frames are sent, {late} of them late"));
    Ok(())
}

fn parameters(stamp: &Stamp, settings: &Settings) -> MetadataParameters {
    let mut parameters = MetadataParameters::new();
    stamp.write(&mut parameters);
    set(&mut parameters, ENCODING, Parameter::String("rgb8".into()));
    set(&mut parameters, WIDTH, integer(settings.width));
    set(&mut parameters, HEIGHT, integer(settings.height));
    parameters
}

/// Sleeps until a moment; false if the dataflow ended before.
fn sleep_until(due: Instant, node: &mut Node) -> bool {
    loop {
        // A camera without inputs is told to stop only.
        while let Some(happened) = node.poll() {
            if let Happened::End { is_stopped: true } = happened {
                return false;
            }
        }
        if Instant::now() >= due {
            return true;
        }
        if let Happened::End { is_stopped: true } = node.wait_until(due) {
            return false;
        }
    }
}

/// The pixels of a folder's photos, in the order of their names.
fn photos(folder: &Path, width: u32, height: u32) -> Result<Vec<Vec<u8>>, Failure> {
    let of = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(of)? {
        let path = entry.map_err(of)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("jpeg" | "jpg" | "png")) {
            paths.push(path);
        }
    }
    paths.sort();
    paths.truncate(MOST_PHOTOS);
    if paths.is_empty() {
        return Err(format!("{}: no .jpeg, .jpg or .png file", folder.display()).into());
    }
    let read = |path: &PathBuf| -> Result<Vec<u8>, Failure> {
        let photo = image::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let photo = photo.resize_exact(width, height, FilterType::Triangle);
        Ok(photo.into_rgb8().into_raw())
    };
    paths.iter().map(read).collect()
}

/// Pixels without a picture.
fn noise(width: u32, height: u32) -> Vec<u8> {
    // Marsaglia's xorshift with 32 bits.
    let mut state = 2_463_534_242_u32;
    let bytes = usize::try_from(width.saturating_mul(height).saturating_mul(3)).unwrap_or(0);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    };
    (0..bytes).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Settings, String> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Settings::parse(&args).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_are_checked() {
        let settings = parse(&["size=640x480", "rate=12.5", "frames=3"]).unwrap();
        assert_eq!((settings.width, settings.height), (640, 480));
        assert_eq!((settings.period, settings.frames), (Duration::from_millis(80), Some(3)));
        for wrong in ["size=640", "size=0x5", "size=9000x1", "rate=0", "frames=-1"] {
            assert!(parse(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn photos_have_the_size_of_frames() {
        let folder = tempfile::tempdir().unwrap();
        let error = photos(folder.path(), 4, 2).unwrap_err().to_string();
        assert!(error.contains("no .jpeg"), "{error}");
        image::RgbImage::from_pixel(8, 8, image::Rgb([1, 2, 3]))
            .save(folder.path().join("a.png"))
            .unwrap();
        assert_eq!(photos(folder.path(), 4, 2).unwrap(), [[1, 2, 3].repeat(8)]);
        assert_eq!(noise(4, 2).len(), 24);
    }
}
