//! The imports between the files of a crate.
//!
//! A file imports another where it names something that is defined there: in a `use`, or by a path
//! from `crate`, `self`, `super`, a child module or an imported module. A re-export hands on names
//! and is no import itself: whoever uses a name depends on the file that defines it. Tests don't
//! count. What macros expand to isn't seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Meta, UseTree, Visibility};

use crate::cargo::root;

/// A path from the crate's root.
type Name = Vec<String>;

/// The files of a crate and what each imports.
pub(super) struct ImportGraph {
    files: Vec<PathBuf>,
    modules: BTreeMap<Name, Module>,
}

/// A module, in a file of its own or within one.
#[derive(Default)]
struct Module {
    file: usize,
    /// Re-exports, by the name there.
    exports: BTreeMap<String, Name>,
    /// Modules all of whose names it re-exports.
    globs: Vec<Name>,
    /// Paths that its code names.
    named: BTreeSet<Name>,
}

/// An import that points up, or a file in no layer.
pub(super) struct Layered {
    file: PathBuf,
    what: String,
}

impl fmt::Display for Layered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "    {}: {}", self.file.display(), self.what)
    }
}

impl ImportGraph {
    /// Reads a crate from its root file on.
    ///
    /// # Errors
    /// A file can't be read or parsed.
    pub(super) fn of_crate(root: &Path) -> Result<Self, String> {
        let mut graph = Self { files: Vec::new(), modules: BTreeMap::new() };
        let dir = root.parent().unwrap_or(root).to_owned();
        graph.read(root, &dir, &[])?;
        Ok(graph)
    }

    /// A file's path below the workspace.
    pub(super) fn file(&self, at: usize) -> &Path {
        let file = self.files.get(at).map_or_else(|| Path::new(""), PathBuf::as_path);
        file.strip_prefix(root()).unwrap_or(file)
    }

    /// For each file the files that it imports.
    pub(super) fn edges(&self) -> Vec<Vec<usize>> {
        let mut edges = vec![BTreeSet::new(); self.files.len()];
        for module in self.modules.values() {
            // Of a module that is imported counts what is named through it.
            for name in module.named.iter().filter(|name| !self.modules.contains_key(*name)) {
                if let Some(other) = self.definer(name)
                    && other != module.file
                    && let Some(edges) = edges.get_mut(module.file)
                {
                    edges.insert(other);
                }
            }
        }
        edges.into_iter().map(|edges| edges.into_iter().collect()).collect()
    }

    /// Imports of a higher layer; files outside the layers. The root and `testing` are free.
    pub(super) fn imports_up(&self, layers: &[&str]) -> Vec<Layered> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let layer = |name: &str| layers.iter().position(|layer| *layer == name);
        for (at, module) in &self.modules {
            let Some(first) = at.first().filter(|first| *first != "testing") else { continue };
            let file = self.file(module.file).to_owned();
            let Some(here) = layer(first) else {
                if seen.insert((file.clone(), String::new())) {
                    found.push(Layered { file, what: "lies in no layer".into() });
                }
                continue;
            };
            for name in &module.named {
                let Some(there) = name.first().and_then(|first| layer(first)) else { continue };
                let what = format!("imports {}", name.first().map_or("", String::as_str));
                if there > here && seen.insert((file.clone(), what.clone())) {
                    found.push(Layered { file: file.clone(), what });
                }
            }
        }
        found
    }

    /// The file that defines what a path names, through re-exports.
    fn definer(&self, name: &[String]) -> Option<usize> {
        self.definer_within(name, 16)
    }

    fn definer_within(&self, name: &[String], steps: usize) -> Option<usize> {
        let steps = steps.checked_sub(1)?;
        let length = (0..=name.len()).rev().find(|&length| {
            name.get(..length).is_some_and(|prefix| self.modules.contains_key(prefix))
        })?;
        let module = self.modules.get(name.get(..length)?)?;
        let Some(next) = name.get(length) else { return Some(module.file) };
        let rest = name.get(length + 1..).unwrap_or_default();
        if let Some(target) = module.exports.get(next) {
            return self.definer_within(&[target, rest].concat(), steps);
        }
        let elsewhere = module.globs.iter().find_map(|glob| {
            let target = [glob.as_slice(), name.get(length..)?].concat();
            let other = self.modules.get(glob)?;
            let is_there = other.exports.contains_key(next)
                || self
                    .modules
                    .contains_key(&[glob.as_slice(), std::slice::from_ref(next)].concat());
            is_there.then(|| self.definer_within(&target, steps)).flatten()
        });
        elsewhere.or(Some(module.file))
    }

    fn read(&mut self, file: &Path, dir: &Path, at: &[String]) -> Result<(), String> {
        let failed = |error: &dyn fmt::Display| format!("{}: {error}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
        let parsed = syn::parse_file(&text).map_err(|error| failed(&error))?;
        self.files.push(file.to_owned());
        let number = self.files.len() - 1;
        self.add(number, dir, at, &parsed.items)
    }

    fn add(
        &mut self,
        file: usize,
        dir: &Path,
        at: &[String],
        items: &[Item],
    ) -> Result<(), String> {
        let mut module = Module { file, ..Module::default() };
        let mut reader = Reader { at, aliases: BTreeMap::new(), children: BTreeSet::new() };
        for item in items {
            if let Item::Mod(child) = item {
                reader.children.insert(child.ident.to_string());
            }
        }
        let uses = items.iter().filter_map(|item| match item {
            Item::Use(item) if !is_test(&item.attrs) => Some(item),
            _ => None,
        });
        for item in uses {
            reader.note_use(item, &mut module);
        }
        let mut paths = Paths { reader: &reader, named: BTreeSet::new() };
        items.iter().filter(|item| !matches!(item, Item::Use(_) | Item::Mod(_))).for_each(|item| {
            paths.visit_item(item);
        });
        module.named.append(&mut paths.named);
        self.modules.insert(at.to_vec(), module);
        for item in items {
            if let Item::Mod(child) = item
                && !is_test(&child.attrs)
            {
                self.add_child(file, dir, at, child)?;
            }
        }
        Ok(())
    }

    fn add_child(
        &mut self,
        file: usize,
        dir: &Path,
        at: &[String],
        child: &ItemMod,
    ) -> Result<(), String> {
        let name = child.ident.to_string();
        let path = [at, std::slice::from_ref(&name)].concat();
        let below = dir.join(&name);
        if let Some((_, items)) = &child.content {
            return self.add(file, &below, &path, items);
        }
        let named = path_of(&child.attrs);
        if named.as_ref().is_some_and(|named| named.starts_with("..")) {
            return Ok(()); // another crate's
        }
        let beside = dir.join(format!("{name}.rs"));
        let within = below.join("mod.rs");
        let own = match named {
            Some(named) => dir.join(named),
            None if beside.exists() => beside,
            None => within,
        };
        self.read(&own, &below, &path)
    }
}

/// Resolves the names of one module.
struct Reader<'a> {
    at: &'a [String],
    /// What imported names stand for.
    aliases: BTreeMap<String, Name>,
    /// Modules that it declares.
    children: BTreeSet<String>,
}

impl Reader<'_> {
    /// Where a path leads from here; `None` for other crates and what is defined here.
    fn resolve(&self, segments: &[String]) -> Option<Name> {
        let (first, rest) = segments.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([self.at, rest].concat()),
            "super" => {
                let ups = segments.iter().take_while(|segment| *segment == "super").count();
                let base = self.at.get(..self.at.len().checked_sub(ups)?)?;
                Some([base, segments.get(ups..)?].concat())
            }
            _ if self.children.contains(first) => Some([self.at, segments].concat()),
            _ if rest.is_empty() => None,
            _ => Some([self.aliases.get(first)?.as_slice(), rest].concat()),
        }
    }

    fn note_use(&mut self, item: &ItemUse, module: &mut Module) {
        let is_export = !matches!(item.vis, Visibility::Inherited);
        self.note_tree(&item.tree, &mut Vec::new(), is_export, module);
    }

    fn note_tree(
        &mut self,
        tree: &UseTree,
        before: &mut Name,
        is_export: bool,
        module: &mut Module,
    ) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.note_tree(&path.tree, before, is_export, module);
                before.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.note_tree(tree, before, is_export, module);
                }
            }
            UseTree::Glob(_) => {
                if let Some(target) = self.resolve(before) {
                    if is_export {
                        module.globs.push(target);
                    } else {
                        // Any of its names, rather than the module.
                        module.named.insert([target, vec!["*".into()]].concat());
                    }
                }
            }
            UseTree::Name(name) => {
                self.note_name(before, &name.ident.to_string(), None, is_export, module);
            }
            UseTree::Rename(rename) => {
                let alias = rename.rename.to_string();
                self.note_name(before, &rename.ident.to_string(), Some(alias), is_export, module);
            }
        }
    }

    fn note_name(
        &mut self,
        before: &[String],
        name: &str,
        alias: Option<String>,
        is_export: bool,
        module: &mut Module,
    ) {
        let is_self = name == "self";
        let mut segments = before.to_vec();
        if !is_self {
            segments.push(name.to_owned());
        }
        let Some(target) = self.resolve(&segments) else { return };
        let known = alias.or_else(|| segments.last().cloned()).unwrap_or_default();
        if is_export {
            module.exports.insert(known.clone(), target.clone());
        } else {
            module.named.insert(target.clone());
        }
        self.aliases.insert(known, target);
    }
}

/// The paths in a module's code.
struct Paths<'r, 'a> {
    reader: &'r Reader<'a>,
    named: BTreeSet<Name>,
}

impl<'ast> Visit<'ast> for Paths<'_, '_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Name =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if path.leading_colon.is_none()
            && segments.len() > 1
            && let Some(target) = self.reader.resolve(&segments)
        {
            self.named.insert(target);
        }
        visit::visit_path(self, path);
    }

    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }
}

/// Returns whether an item is there for tests alone.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test"
                || condition.starts_with("all (test")
                || condition.starts_with("all(test")
        }
        Meta::Path(path) => path.is_ident("test"),
        _ => false,
    })
}

/// The file that a module names by `#[path]`.
fn path_of(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(literal) => match &literal.lit {
                syn::Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate of these files; the edges by their names.
    fn edges(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let graph = ImportGraph::of_crate(&dir.path().join("lib.rs")).unwrap();
        let name = |at: usize| {
            let file = graph.files[at].strip_prefix(dir.path()).unwrap();
            file.to_str().unwrap().to_owned()
        };
        let edges = graph.edges();
        let pairs =
            edges.iter().enumerate().flat_map(|(from, to)| to.iter().map(move |&to| (from, to)));
        pairs.map(|(from, to)| (name(from), name(to))).collect()
    }

    fn pair(from: &str, to: &str) -> (String, String) {
        (from.to_owned(), to.to_owned())
    }

    #[test]
    fn whoever_uses_a_name_imports_the_file_that_defines_it() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b; pub use a::inner::Deep;"),
            ("a/mod.rs", "pub(crate) mod inner; pub(crate) use inner::Deep;"),
            ("a/inner.rs", "pub struct Deep; #[cfg(test)] mod tests { use crate::b::f; }"),
            ("b.rs", "use crate::a::Deep; pub(crate) fn f(_: Deep) {}"),
        ]);
        // Through the re-export; re-exports and tests are no imports.
        assert_eq!(found, [pair("b.rs", "a/inner.rs")]);
    }

    #[test]
    fn paths_within_code_count_like_imports() {
        let found = edges(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub(crate) fn f() { crate::b::g(); }"),
            ("b/mod.rs", "mod c; pub(crate) fn g() { c::h() }"),
            ("b/c.rs", "use super::super::a; pub(super) fn h() { a::f(); super::g() }"),
        ]);
        let want = [
            pair("a.rs", "b/mod.rs"),
            pair("b/c.rs", "a.rs"),
            pair("b/c.rs", "b/mod.rs"),
            pair("b/mod.rs", "b/c.rs"),
        ];
        let mut found = found;
        found.sort();
        assert_eq!(found, want);
    }

    #[test]
    fn imports_that_point_up_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("lib.rs", "mod tensor; mod plan; mod stray;");
        write("tensor.rs", "use crate::plan::Plan; use crate::{plan};");
        write("plan.rs", "use crate::tensor::Shape; pub struct Plan;");
        write("stray.rs", "");
        let graph = ImportGraph::of_crate(&dir.path().join("lib.rs")).unwrap();
        let found: Vec<_> =
            graph.imports_up(&["tensor", "plan"]).iter().map(|found| found.what.clone()).collect();
        assert_eq!(found, ["lies in no layer", "imports plan"]);
    }
}
