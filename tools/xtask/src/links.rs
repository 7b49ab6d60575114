//! `cargo xtask links`: relative links and anchors of all pages (`*.md`), and the links of the Rust
//! documentation.
//!
//! A relative link leads to a file that git knows, and its anchor to a heading there, by the rules
//! of GitHub: lower case, spaces as hyphens, no punctuation. Links to other sites aren't followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::cargo::{Outcome, root};
use crate::workspace;

pub(crate) fn run() -> Outcome {
    pages()?;
    rustdoc()
}

/// The Rust documentation, whose broken links are warnings.
pub(crate) fn rustdoc() -> Outcome {
    workspace::cargo("docs", &["doc", "--no-deps"])?.env("RUSTDOCFLAGS", "-D warnings").run()
}

/// The pages.
pub(crate) fn pages() -> Outcome {
    let root = root();
    let mut git = Command::new("git");
    git.args(["ls-files", "-co", "--exclude-standard"]).current_dir(&root);
    let listed = git.output().map_err(|error| format!("git: {error}"))?;
    let files: BTreeSet<PathBuf> =
        String::from_utf8_lossy(&listed.stdout).lines().map(PathBuf::from).collect();
    let is_page = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "md");
    let mut pages = BTreeMap::new();
    for path in files.iter().filter(is_page) {
        let text = fs::read_to_string(root.join(path));
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        pages.insert(path.clone(), Page::of(&text));
    }
    let wrong: Vec<String> = pages.keys().flat_map(|path| broken(path, &pages, &files)).collect();
    if wrong.is_empty() {
        println!("links: {} pages, every link leads somewhere", pages.len());
        return Ok(());
    }
    Err(wrong.join("\n"))
}

/// The links of a page, and its anchors.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn of(text: &str) -> Self {
        let mut page = Self::default();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading.take().unwrap_or_default());
                    page.add_anchor(&slug);
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                _ => {}
            }
        }
        page
    }

    /// The second heading of a name is `name-1`.
    fn add_anchor(&mut self, slug: &str) {
        let numbered = (1..).map(|number| format!("{slug}-{number}"));
        let mut names = std::iter::once(slug.to_owned()).chain(numbered);
        if let Some(free) = names.find(|name| !self.anchors.contains(name)) {
            self.anchors.insert(free);
        }
    }
}

/// The anchor of a heading.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.collect::<String>().to_lowercase()
}

/// The links of a page that lead nowhere.
fn broken(path: &Path, pages: &BTreeMap<PathBuf, Page>, files: &BTreeSet<PathBuf>) -> Vec<String> {
    let Some(page) = pages.get(path) else { return Vec::new() };
    let mut wrong = Vec::new();
    for link in
        page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
    {
        let (file, anchor) = link
            .split_once('#')
            .map_or((link.as_str(), None), |(file, anchor)| (file, Some(anchor)));
        let target = if file.is_empty() { path.to_owned() } else { joined(path, file) };
        let is_folder = || files.iter().any(|known| known.starts_with(&target));
        if !files.contains(&target) && !is_folder() {
            wrong.push(format!("{}: {link}: there is no {}", path.display(), target.display()));
            continue;
        }
        let Some(anchor) = anchor else { continue };
        if pages.get(&target).is_some_and(|page| !page.anchors.contains(anchor)) {
            wrong.push(format!(
                "{}: {link}: {} has no heading #{anchor}",
                path.display(),
                target.display()
            ));
        }
    }
    wrong
}

/// A link from a page, as a path from the workspace's folder.
fn joined(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or_else(|| Path::new("")).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_anchors_are_found_where_they_are_meant() {
        let text = "# A `cache`, and more!\n## Same\n## Same\n[a](b.md#c) `[not](code)`\n\n```\n[nor](this)\n```\n";
        let page = Page::of(text);
        assert_eq!(page.links, ["b.md#c"]);
        let anchors: Vec<_> = page.anchors.iter().map(String::as_str).collect();
        assert_eq!(anchors, ["a-cache-and-more", "same", "same-1"]);
    }

    #[test]
    fn broken_links_are_named() {
        let text = "[ok](b.md) [ok](b.md#there) [ok](../docs) [ok](#top) [ok](https://x.y/#z)\n\
                    [no](c.md) [no](b.md#gone) [no](#gone)\n# Top";
        let pages = BTreeMap::from([
            (PathBuf::from("docs/a.md"), Page::of(text)),
            (PathBuf::from("docs/b.md"), Page::of("# There")),
        ]);
        let files = pages.keys().cloned().collect();
        let wrong = broken(Path::new("docs/a.md"), &pages, &files);
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong.iter().all(|line| line.starts_with("docs/a.md: ")), "{wrong:?}");
    }
}
